package stamp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

func TestWhere(t *testing.T) {
	for body, want := range map[string]stamp.Where{
		`{"organizationId":"o"}`: {Organization: "o"},
		` {"x":{"organizationId":"y"},"organization_id":"o","z":[1],"type":"t"} `: {"o", "t"},
		`{"unknown":null,"organizationId":"o","a":1e5}`:                           {Organization: "o"},
		"{}": {}, `{"organizationId":7}`: {}, `{"organizationId":null,"type":["t"]}`: {}, `{"organizationId":["o"]}`: {},
		`{"parameters":{"organizationId":"o","type":"t"}}`: {},
	} {
		if got, err := stamp.NewHostBody([]byte(body)).Where(); err != nil || got != want {
			t.Errorf("%s: %v %v", body, got, err)
		}
	}
	for _, body := range []string{"", "[]", "null", `"x"`, `{"organizationId":"o"`, `{"organizationId":"o","organizationId":"o"}`, `{}}{"organizationId":"o"`,
		`{"organizationId":"o"},"body":{}`, strings.Repeat("[", 1000)} {
		if _, err := stamp.NewHostBody([]byte(body)).Where(); fault.Of(err) == nil || fault.Of(err).Code != fault.InvalidArgument {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func FuzzWhere(f *testing.F) {
	f.Add([]byte(`{"organizationId":"6ba7b810-9dad-41d1-80b4-00c04fd430c8","a":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := stamp.NewHostBody(body).Where()
		if err != nil {
			if f := fault.Of(err); f == nil || f.Code != fault.InvalidArgument {
				t.Fatal(err)
			}
			return
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(body, &m) != nil || got.Organization != "" && m["organizationId"] == nil && m["organization_id"] == nil {
			t.Fatalf("%q has %v", body, got)
		}
	})
}
