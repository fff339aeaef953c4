package organization_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
)

func feature(name, value string) object {
	return object{"name": "FEATURE_NAME_" + name, "value": value}
}

// on lists the features of a result as name=value.
func on(r object) []string {
	out := []string{}
	for _, f := range r["features"].([]any) {
		f := f.(object)
		s := strings.TrimPrefix(f["name"].(string), "FEATURE_NAME_")
		if v, ok := f["value"]; ok {
			s += "=" + v.(string)
		}
		out = append(out, s)
	}
	return out
}

func TestFeatures(t *testing.T) {
	w := activitytest.New(t)
	w.Now += 1000
	for _, c := range []struct {
		in   object
		want []string
	}{
		{feature("SMS_AUTH", ""), []string{"SMS_AUTH"}},
		{feature("EMAIL_AUTH", ""), []string{"EMAIL_AUTH", "SMS_AUTH"}},
		{feature("EMAIL_AUTH", ""), []string{"EMAIL_AUTH", "SMS_AUTH"}},
		{feature("WEBHOOK", "https://example.org/hook"), []string{"EMAIL_AUTH", "SMS_AUTH", "WEBHOOK=https://example.org/hook"}},
		{feature("WEBHOOK", "https://hooks.example.org:8443/a?b=c"), []string{"EMAIL_AUTH", "SMS_AUTH", "WEBHOOK=https://hooks.example.org:8443/a?b=c"}},
	} {
		if got := on(w.Run("SET_ORGANIZATION_FEATURE", c.in)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %v", c.in, got)
		}
	}
	for _, v := range []string{"https://example.org", "https://example.org,http://localhost:3000", "https://example.org, https://app.example.org/"} {
		if got := on(w.Run("SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", v))); got[2] != "WEBAUTHN_ORIGINS="+v {
			t.Errorf("%v", got)
		}
	}
	for _, v := range []string{"https://1.1.1.1/x", "https://[2606:4700::1111]:443/", "https://xn--bcher-kva.example/"} {
		w.Run("SET_ORGANIZATION_FEATURE", feature("WEBHOOK", v))
	}
	if o := w.Organization(); o.UpdatedMs != activitytest.Start+1000 || len(o.Features) != 4 {
		t.Errorf("%+v", o)
	}
	for _, name := range []string{"SMS_AUTH", "WEBHOOK", "WEBAUTHN_ORIGINS"} {
		w.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + name})
	}
	if got := on(w.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_EMAIL_AUTH"})); len(got) != 0 {
		t.Error(got)
	}
	w.Run("SET_ORGANIZATION_FEATURE", feature("OTP_EMAIL_AUTH", ""))
}

func TestFeaturesRefuse(t *testing.T) {
	w := activitytest.New(t)
	for _, c := range []struct {
		name, value string
		code        fault.Code
		says        string
	}{
		{"SMS_AUTH", "true", 3, "feature takes no value"},
		{"EMAIL_AUTH", " ", 3, "feature takes no value"},
		{"OTP_EMAIL_AUTH", "x", 3, "feature takes no value"},
		{"EMAIL_RECOVERY", "x", 3, "feature takes no value"},
		{"ROOT_USER_EMAIL_RECOVERY", "x", 3, "feature takes no value"},
		{"AUTH_PROXY", "x", 3, "enable_auth_proxy"},
		{"SWAP_CONFIG", "", 12, "UNIMPLEMENTED: set_organization_feature with FEATURE_NAME_SWAP_CONFIG"},
		{"EARN_CONFIG", "", 12, "FEATURE_NAME_EARN_CONFIG"},
		{"SOLANA_RENT_PREFUND_ENABLED", "", 12, "SOLANA_RENT_PREFUND_ENABLED"},
		{"NOBODY_KNOWS", "", 3, "name"},
		{"WEBAUTHN_ORIGINS", "", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", ",", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", "example.org", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", "http://example.org", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", "https://example.org,", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", "https://example.org/path", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", "https://user@example.org", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", strings.Repeat("https://example.org,", 100) + "https://example.org", 3, "invalid origins"},
		{"WEBAUTHN_ORIGINS", "https://example.org" + strings.Repeat(" ", 17<<10), 3, "invalid origins: more than"},
		{"WEBHOOK", "", 3, "invalid webhook URL"},
		{"WEBHOOK", "example.org", 3, "must be https"},
		{"WEBHOOK", "http://example.org/", 3, "must be https"},
		{"WEBHOOK", "https:///x", 3, "must be https"},
		{"WEBHOOK", "https:example.org", 3, "must be https"},
		{"WEBHOOK", "https://user:pw@example.org/", 3, "must be https"},
		{"WEBHOOK", "https://@example.org/", 3, "must be https"},
		{"WEBHOOK", "https://example.org/#x", 3, "must be https"},
		{"WEBHOOK", "https://example.org\\@evil.example/", 3, "must be https"},
		{"WEBHOOK", "https://example.org:/", 3, "must be https"},
		{"WEBHOOK", "https://example.org:99999/", 3, "must be https"},
		{"WEBHOOK", "https://example.org:0/", 3, "must be https"},
		{"WEBHOOK", "https://exa%6dple.org/", 3, "must be https"},
		{"WEBHOOK", "https://bücher.example/", 3, "must be https"},
		{"WEBHOOK", "https://a..example/", 3, "must be https"},
		{"WEBHOOK", "https://example.org./", 3, "must be https"},
		{"WEBHOOK", "https://x.123/", 3, "must be https"},
		{"WEBHOOK", "https://2130706433/", 3, "must be https"},
		{"WEBHOOK", "https://0x7f.1/", 3, "must be https"},
		{"WEBHOOK", "https://[fe80::1%25eth0]/", 3, "must be https"},
		{"WEBHOOK", "https://example.org/" + strings.Repeat("x", 2048), 3, "must be https"},
		{"WEBHOOK", "https://localhost/", 3, "not public"},
		{"WEBHOOK", "https://api.localhost/", 3, "not public"},
		{"WEBHOOK", "https://printer.local/", 3, "not public"},
		{"WEBHOOK", "https://metadata.google.internal/", 3, "not public"},
		{"WEBHOOK", "https://intranet/", 3, "not public"},
		{"WEBHOOK", "https://127.0.0.1/", 3, "not public"},
		{"WEBHOOK", "https://10.1.2.3/", 3, "not public"},
		{"WEBHOOK", "https://172.16.0.1/", 3, "not public"},
		{"WEBHOOK", "https://192.168.1.1/", 3, "not public"},
		{"WEBHOOK", "https://169.254.169.254/latest", 3, "not public"},
		{"WEBHOOK", "https://100.64.0.1/", 3, "not public"},
		{"WEBHOOK", "https://0.0.0.0/", 3, "not public"},
		{"WEBHOOK", "https://224.0.0.1/", 3, "not public"},
		{"WEBHOOK", "https://255.255.255.255/", 3, "not public"},
		{"WEBHOOK", "https://[::1]/", 3, "not public"},
		{"WEBHOOK", "https://[::]/", 3, "not public"},
		{"WEBHOOK", "https://[fc00::1]/", 3, "not public"},
		{"WEBHOOK", "https://[fe80::1]/", 3, "not public"},
		{"WEBHOOK", "https://[::ffff:10.0.0.1]/", 3, "not public"},
		{"WEBHOOK", "https://[64:ff9b::a00:1]/", 3, "not public"},
		{"WEBHOOK", "https://[2002:a00:1::]/", 3, "not public"},
		{"WEBHOOK", "https://168.63.129.16/", 3, "not public"},
		{"WEBHOOK", "https://[::ffff:10.0.0.1]/", 3, "not public"},
		{"ADDRESS_BOOK", "", 3, "invalid address book: must be"},
		{"ADDRESS_BOOK", "{}", 3, "invalid address book: must be"},
		{"ADDRESS_BOOK", `[{"name":"a","address":"0x000000000000000000000000000000000000dEaD","note":"x"}]`, 3, "invalid address book: must be"},
		{"ADDRESS_BOOK", `[{"name":"a"}]`, 3, "invalid address book: must be"},
		{"ADDRESS_BOOK", `[{"name":" a","address":"0x000000000000000000000000000000000000dEaD"}]`, 3, "invalid address book: must be"},
		{"ADDRESS_BOOK", `[{"name":"a\nb","address":"0x000000000000000000000000000000000000dEaD"}]`, 3, "invalid address book: must be"},
		{"ADDRESS_BOOK", `[{"name":"a","address":"0x0000"}]`, 3, "no address of any chain: 0x0000"},
		{"ADDRESS_BOOK", `[{"name":"a","address":"0x000000000000000000000000000000000000dEaD "}]`, 3, "no address of any chain"},
		{"ADDRESS_BOOK", `[{"name":"a","address":"<script>alert(1)</script>"}]`, 3, "no address of any chain"},
		{"ADDRESS_BOOK", `[{"name":"a","address":"` + strings.Repeat("1", 129) + `"}]`, 3, "no address of any chain"},
		{"ADDRESS_BOOK", `[{"name":"` + strings.Repeat("a", 65) + `","address":"0x000000000000000000000000000000000000dEaD"}]`, 3, "a name of more than 64 bytes"},
		{"ADDRESS_BOOK", `[{"name":"Desk","address":"0x000000000000000000000000000000000000dEaD"},{"name":"desk","address":"0x000000000000000000000000000000000000bEEF"}]`, 3, "two addresses have the name desk"},
		{"ADDRESS_BOOK", `[{"name":"a","address":"0x000000000000000000000000000000000000dEaD"},{"name":"b","address":"0x000000000000000000000000000000000000dead"}]`, 3, "an address has two names"},
		{"ADDRESS_BOOK", "[" + strings.Repeat(" ", 16<<10) + "]", 3, "more than 16384 bytes"},
		{"ADDRESS_BOOK", addressBook(151), 3, "more than 150 addresses"},
		{"APPROVAL_MAILS", " ", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "cloister.example", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "http://cloister.example/", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "http://127.0.0.1/", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "https://cloister.example/#/", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "https://user@cloister.example/", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "javascript:alert(1)", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "https://cloister.example/\r\nBcc: x", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "https://cloister.example/\u202e", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "https://cloister.example/\"><b>", 3, "invalid dashboard URL"},
		{"APPROVAL_MAILS", "https://cloister.example/" + strings.Repeat("x", 488), 3, "invalid dashboard URL"},
	} {
		w.Refuse("SET_ORGANIZATION_FEATURE", feature(c.name, c.value), c.code, c.says)
	}
	w.Refuse("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_SMS_AUTH"}, 3, "missing field `value`")
	for _, name := range []string{"SMS_AUTH", "WEBHOOK", "SWAP_CONFIG"} {
		w.Refuse("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + name}, 3, "feature is not set: FEATURE_NAME_"+name)
	}
	w.Refuse("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_AUTH_PROXY"}, 3, "disable_auth_proxy")
	w.Refuse("REMOVE_ORGANIZATION_FEATURE", object{}, 3, "missing field `name`")
}

// addressBook is one of n addresses.
func addressBook(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"name":"n%d","address":"0x%040x"}`, i, i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestAddressBook(t *testing.T) {
	for book, want := range map[string]int{
		"[]": 0, addressBook(150): 150, ` [{"name": "Büro №1", "address": "0x000000000000000000000000000000000000dEaD"}] `: 1,
		`[{"name":"a","address":"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"},{"name":"b","address":"9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"},{"name":"c","address":"TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"}]`: 3,
	} {
		if got, err := activity.ReadAddressBook("value", book); err != nil || len(got) != want {
			t.Errorf("%s: %d, %v", book, len(got), err)
		}
	}
}

// Whatever is taken for an address book keeps its promises.
func FuzzReadAddressBook(f *testing.F) {
	for _, book := range []string{"[]", addressBook(3), `[{"name":"a","address":""}]`, `[{"name":"a\u0000","address":"0x000000000000000000000000000000000000dEaD"}]`} {
		f.Add(book)
	}
	f.Fuzz(func(t *testing.T, book string) {
		all, err := activity.ReadAddressBook("value", book)
		if err != nil {
			if fault.Of(err) == nil || len(all) != 0 {
				t.Errorf("%v with %d addresses", err, len(all))
			}
			return
		}
		names, addresses := map[string]bool{}, map[string]bool{}
		for _, e := range all {
			name, address := strings.ToLower(e.Name), e.Address
			if names[name] || addresses[address] || e.Name != strings.TrimSpace(e.Name) || len(e.Name) > 64 || strings.ContainsAny(e.Address, " <\"\n") {
				t.Errorf("%+v", all)
			}
			names[name], addresses[address] = true, true
		}
	})
}

func TestUpdateAllowedOrigins(t *testing.T) {
	w := activitytest.New(t)
	origins := func(os ...any) object { return object{"allowedOrigins": os} }
	w.Run("UPDATE_ALLOWED_ORIGINS", origins("https://example.org", "http://localhost"))
	if got := w.Organization().Features["FEATURE_NAME_WEBAUTHN_ORIGINS"]; got != "https://example.org,http://localhost" {
		t.Error(got)
	}
	var many []any
	for i := range 101 {
		many = append(many, fmt.Sprintf("https://example%d.org", i))
	}
	for _, c := range []struct {
		in   object
		says string
	}{
		{object{"allowedOrigins": []any{}}, "at least 1 element"},
		{object{}, "at least 1 element"},
		{origins("https://a.org,https://b.org"), "a comma in one"},
		{origins(""), "invalid origins"},
		{origins("*"), "invalid origins"},
		{origins("https://a.org", "ftp://a.org"), "invalid origins"},
		{origins(many...), "invalid origins"},
	} {
		w.Refuse("UPDATE_ALLOWED_ORIGINS", c.in, 3, c.says)
	}
	w.Run("UPDATE_ALLOWED_ORIGINS", origins(many[:100]...))
}
