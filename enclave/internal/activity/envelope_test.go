package activity_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

const goodBody = `{"type":"ACTIVITY_TYPE_UPDATE_WALLET","timestampMs":"1700000000000","organizationId":"6ba7b810-9dad-41d1-80b4-00c04fd430c8","parameters":{"walletId":"x"},"generateAppProofs":true}`

func TestParseSubmit(t *testing.T) {
	for _, body := range []string{
		goodBody,
		strings.Replace(goodBody, `"1700000000000"`, `1700000000000`, 1),
		strings.NewReplacer("timestampMs", "timestamp_ms", "organizationId", "organization_id", "generateAppProofs", "generate_app_proofs").Replace(goodBody),
		" " + strings.ReplaceAll(goodBody, ",", " ,\n") + "\t",
		strings.Replace(goodBody, "6ba7b810", "6BA7B810", 1),
	} {
		s, err := activity.ParseStored(stamp.StoredBody([]byte(body)))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if s.Type != "ACTIVITY_TYPE_UPDATE_WALLET" || s.TimestampMs != 1700000000000 || s.Organization.String() != "6ba7b810-9dad-41d1-80b4-00c04fd430c8" || string(s.Parameters) != `{"walletId":"x"}` || !s.WantsProofs {
			t.Errorf("%+v", s)
		}
	}
	for _, unset := range []string{"", `,"generateAppProofs":null`, `,"generateAppProofs":false`} {
		s, err := activity.ParseStored(stamp.StoredBody([]byte(strings.Replace(goodBody, `,"generateAppProofs":true`, unset, 1))))
		if err != nil || s.WantsProofs {
			t.Errorf("%q: %v", unset, err)
		}
	}
}

func TestParseSubmitRefuses(t *testing.T) {
	replace := func(old, new string) string { return strings.Replace(goodBody, old, new, 1) }
	for _, c := range []struct{ body, says string }{
		{"", "invalid request body"},
		{"null", "invalid request body"},
		{"{}", "missing field `type`"},
		{goodBody + "{}", "trailing"},
		{goodBody[:len(goodBody)-1], "unexpected end"},
		{replace(`"type"`, `"kind"`), `unknown field "kind"`},
		{replace(`"type"`, `"Type"`), `unknown field "Type"`},
		{replace(`"parameters"`, `"params"`), `unknown field "params"`},
		{replace(`{"walletId":"x"}`, "null"), "missing field `parameters`"},
		{replace(`{"walletId":"x"}`, `{"a":1,"a":2}`), "repeated"},
		{replace(`{"walletId":"x"}`, `{"a":"\ud800"}`), "escape"},
		{replace(`"1700000000000"`, `"now"`), "timestampMs"},
		{replace(`"1700000000000"`, `"-1"`), "timestampMs"},
		{replace(`"1700000000000"`, `"18446744073709551616"`), "timestampMs"},
		{replace(`"1700000000000"`, `1.5`), "timestampMs"},
		{replace(`"1700000000000"`, `"01"`), "timestampMs"},
		{replace(`"1700000000000"`, `null`), "missing field `timestampMs`"},
		{replace(`"timestampMs"`, `"timestamp_ms":"1","timestampMs"`), "repeated"},
		{replace(`true`, `"true"`), "generateAppProofs"},
		{replace(`"6ba7b810-9dad-41d1-80b4-00c04fd430c8"`, `7`), "organizationId"},
	} {
		_, err := activity.ParseStored(stamp.StoredBody([]byte(c.body)))
		if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %v, want %q", c.body, err, c.says)
		}
	}
	const none = "00000000-0000-0000-0000-000000000000" // the id of nobody: that there is none may be told to anybody
	_, err := activity.ParseStored(stamp.StoredBody([]byte(replace("6ba7b810-9dad-41d1-80b4-00c04fd430c8", none))))
	if e := fault.Of(err); e == nil || e.Code != fault.NotFound || e.Name != "ORGANIZATION_NOT_FOUND" || e.Message != "no organization found with the given ID: "+none {
		t.Error(err)
	}
	for _, id := range []string{"x", "6ba7b8109dad41d180b400c04fd430c8", "{6ba7b810-9dad-41d1-80b4-00c04fd430c8}"} {
		_, err := activity.ParseStored(stamp.StoredBody([]byte(replace("6ba7b810-9dad-41d1-80b4-00c04fd430c8", id))))
		if e := fault.Of(err); e == nil || e.Name != "INVALID_ORGANIZATION_ID" || e.Message != "malformed organization ID provided" {
			t.Errorf("%s: %v", id, err)
		}
	}
}
