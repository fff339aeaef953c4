package strictjson_test

import (
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/strictjson"
)

func decodes[T any](text string) error { return strictjson.Decode([]byte(text), new(T)) }

func TestFormats(t *testing.T) {
	const id = "05ff74cb-bf52-45c6-a81e-8d82099d7f78"
	long := strings.Repeat("é", 255)
	cases := []struct {
		rule      string
		decode    func(string) error
		good, bad []string
	}{
		{"uuid", one[struct {
			V string `json:"v" rule:"uuid"`
		}], []string{id, "00000000-0000-7000-0000-000000000000"},
			[]string{"", strings.ToUpper(id), id + "0", id[1:], strings.Replace(id, "-", "0", 1), "{" + id[2:] + "}", strings.Replace(id, "f", "g", 1)}},
		{"uuid4", one[struct {
			V string `json:"v" rule:"required,uuid4"`
		}], []string{id}, []string{"", "05ff74cb-bf52-75c6-a81e-8d82099d7f78", "05ff74cb-bf52-45c6-c81e-8d82099d7f78"}},
		{"label", one[struct {
			V string `json:"v" rule:"required,label_length,label"`
		}], []string{"a", "a b", long, "日本", "<b>&\"'"}, []string{"", " a", "a ", "\u00a0a", "a\u2003", "a\x00b", "a\u0085b", "a\tb", "\x7f", long + "x", " "}},
		{"label_length", one[struct {
			V string `json:"v" rule:"required,label_length"`
		}], []string{" a ", long}, []string{"", long + "x"}},
		{"hexadecimal,len", one[struct {
			V string `json:"v" rule:"hexadecimal,len=4"`
		}], []string{"00ff", "ABcd"}, []string{"", "0x00", "00f", "00fff", "00fg"}},
		{"api_key", one[struct {
			V string `json:"v" rule:"hexadecimal,api_key"`
		}], []string{strings.Repeat("a", 64), strings.Repeat("B", 66)}, []string{"", strings.Repeat("a", 65), strings.Repeat("a", 130), strings.Repeat("g", 64)}},
		{"numeric", one[struct {
			V string `json:"v" rule:"required,numeric,max=4"`
		}], []string{"0", "007", "-1", "1.50"}, []string{"", "-", "1.", ".1", "1e3", "+1", "1 ", "0x1", "12345", "1.2.3"}},
		{"email", one[struct {
			V string `json:"v" rule:"omitempty,email,email_ext"`
		}], []string{"", "a@b.cd", "first.last+tag@sub.example-x.org", strings.Repeat("a", 64) + "@b.cd"},
			[]string{"a", "@b.cd", "a@", "a@b", "a@b..cd", "a@.cd", "a@b.cd.", "a@-b.cd", "a b@c.de", ".a@b.cd", "a.@b.cd", "a..b@c.de", "a@b@c.de",
				"<a@b.cd>", "a@b.cd\r\nBcc: x", "a\n@b.cd", "é@b.cd", "a@é.cd", "\"a\"@b.cd", "a@[127.0.0.1]", "a@b_c.de",
				strings.Repeat("a", 65) + "@b.cd", "a@" + strings.Repeat("b", 64) + ".cd", "a@" + strings.Repeat("bcdefgh.", 32) + "cd"}},
		{"e164", one[struct {
			V string `json:"v" rule:"omitempty,e164"`
		}], []string{"", "+15551234567", "+4915112345678"}, []string{"15551234567", "+0555123456", "+1555", "+1234567890123456", "+1 5551234567", "+1555123456a"}},
		{"oneof", one[struct {
			V string `json:"v" rule:"required,oneof=OTP_TYPE_SMS OTP_TYPE_EMAIL"`
		}], []string{"OTP_TYPE_SMS", "OTP_TYPE_EMAIL"}, []string{"", "OTP_TYPE", "OTP_TYPE_SMS OTP_TYPE_EMAIL"}},
		{"cidr", one[struct {
			V string `json:"v" rule:"required,cidr"`
		}], []string{"10.0.0.0/8", "2001:db8::/48"}, []string{"", "10.0.0.0", "10.0.0.0/33", "x/8"}},
		{"max_length", one[struct {
			V string `json:"v" rule:"required,max_length=3"`
		}], []string{"abc", "äöü"}, []string{"", "abcd"}},
	}
	n := 0
	for _, c := range cases {
		for _, s := range c.good {
			if err := c.decode(s); err != nil {
				t.Errorf("%s: %q: %v", c.rule, s, err)
			}
		}
		for _, s := range c.bad {
			if err := c.decode(s); err == nil {
				t.Errorf("%s: %q was accepted", c.rule, s)
			}
		}
		n += len(c.bad)
	}
	t.Logf("%d strings refused under %d rules", n, len(cases))
}

// one decodes {"v": s} into T.
func one[T any](s string) error {
	text := strictjson.Append(nil, struct {
		V string `json:"v"`
	}{s})
	return strictjson.Decode(text, new(T))
}

func TestPresence(t *testing.T) {
	type v struct {
		S string            `json:"s" rule:"required"`
		P string            `json:"p" rule:"present"`
		B bool              `json:"b" rule:"required"`
		I int32             `json:"i" rule:"required,numeric"`
		G uint32            `json:"g" rule:"required,gt=0"`
		L []string          `json:"l" rule:"required,dive,required"`
		M []string          `json:"m" rule:"required"`
		N []int32           `json:"n" rule:"min=1,max=2,dive,min=6,max=9"`
		Q *string           `json:"q" rule:"required"`
		R strictjson.Raw    `json:"r" rule:"required"`
		O *page             `json:"o" rule:"required"`
		T page              `json:"t" rule:"required"`
		U *string           `json:"u" rule:"uuid"`
		W int32             `json:"w" rule:"omitempty,min=6,max=9"`
		X [][]string        `json:"x" rule:"dive,min=1,dive,len=1"`
		Y map[string]string `json:"y" rule:"required,dive,max=1"`
	}
	parts := []string{`"s":"x"`, `"p":""`, `"b":false`, `"i":0`, `"g":1`, `"l":["x"]`, `"n":[6]`, `"q":"x"`, `"r":0`, `"o":{}`, `"t":{}`, `"y":{"k":"1"}`}
	full := strings.Join(parts, ",")
	if err := decodes[v]("{" + full + "}"); err != nil {
		t.Fatal(err)
	}
	for i, part := range parts {
		name, _, _ := strings.Cut(part, ":")
		without := strings.Join(append(append([]string{}, parts[:i]...), parts[i+1:]...), ",")
		for _, text := range []string{without, without + "," + name + ":null"} {
			err := decodes[v]("{" + text + "}")
			if err == nil || err.Error() != "invalid request body: missing field `"+strings.Trim(name, `"`)+"`" {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
	for _, bad := range []struct{ old, new string }{
		{`"l":["x"]`, `"l":[]`}, {`"l":["x"]`, `"l":[""]`}, {`"g":1`, `"g":0`}, {`"n":[6]`, `"n":[]`}, {`"n":[6]`, `"n":[6,7,8]`},
		{`"n":[6]`, `"n":[5]`}, {`"n":[6]`, `"n":[10]`}, {`"q":"x"`, `"q":""`}, {`"b":false`, `"b":false,"u":""`}, {`"b":false`, `"b":false,"w":5`},
		{`"b":false`, `"b":false,"x":[[]]`}, {`"b":false`, `"b":false,"x":[["a"],["ab"]]`}, {`"y":{"k":"1"}`, `"y":{}`}, {`"y":{"k":"1"}`, `"y":{"k":"12"}`},
		{`"s":"x"`, `"s":""`},
	} {
		if err := decodes[v]("{" + strings.Replace(full, bad.old, bad.new, 1) + "}"); err == nil {
			t.Errorf("%s was accepted", bad.new)
		}
	}
	if err := decodes[v]("{" + full + `,"m":[],"w":0,"u":"05ff74cb-bf52-45c6-a81e-8d82099d7f78"}`); err != nil {
		t.Error(err)
	}
}

func TestFaultyTypesPanic(t *testing.T) {
	text := reflect.TypeFor[string]()
	type twoForms struct {
		A string `json:"fooBar"`
		B string `json:"foo_bar"`
	}
	for name, v := range map[string]any{
		"unknown rule": struct {
			V string `json:"v" rule:"uuidd"`
		}{},
		"no bound": struct {
			V string `json:"v" rule:"max"`
		}{},
		"bound no number": struct {
			V string `json:"v" rule:"max=x"`
		}{},
		"negative bound": struct {
			V string `json:"v" rule:"min=-1"`
		}{},
		"bound on bool": struct {
			V bool `json:"v" rule:"max=1"`
		}{},
		"argument": struct {
			V string `json:"v" rule:"uuid=4"`
		}{},
		"uuid on int": struct {
			V int32 `json:"v" rule:"uuid"`
		}{},
		"oneof on int": struct {
			V int32 `json:"v" rule:"oneof=1"`
		}{},
		"empty rule": struct {
			V string `json:"v" rule:"required,,uuid"`
		}{},
		"dive in string": struct {
			V string `json:"v" rule:"dive"`
		}{},
		"label on array": struct {
			V []string `json:"v" rule:"label"`
		}{},
		"no tag": struct{ V string }{},
		"empty name": struct {
			V string `json:",omitempty"`
		}{},
		"unknown option": struct {
			V string `json:"v,string"`
		}{},
		"unexported": made(reflect.StructField{Name: "v", PkgPath: "x", Type: text, Tag: `json:"v"`}),
		"int": struct {
			V int `json:"v"`
		}{},
		"float": struct {
			V float64 `json:"v"`
		}{},
		"bytes": struct {
			V []byte `json:"v"`
		}{},
		"interface": struct {
			V any `json:"v"`
		}{},
		"int keys": struct {
			V map[int32]string `json:"v"`
		}{},
		"pointer twice": struct {
			V **string `json:"v"`
		}{},
		"same name":  made(reflect.StructField{Name: "A", Type: text, Tag: `json:"a"`}, reflect.StructField{Name: "B", Type: text, Tag: `json:"a"`}),
		"same snake": twoForms{},
	} {
		if !panics(func() { strictjson.Prepare(v) }) {
			t.Errorf("%s: no panic", name)
		}
	}
	if !panics(func() { _ = strictjson.Decode([]byte(`{}`), all{}) }) || !panics(func() { _ = strictjson.Decode([]byte(`{}`), (*all)(nil)) }) {
		t.Error("Decode into something else than a pointer to a struct does not panic")
	}
	strictjson.Prepare(all{}, &user{})
}

// made makes struct types that go vet would object to.
func made(fields ...reflect.StructField) any {
	return reflect.New(reflect.StructOf(fields)).Interface()
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
