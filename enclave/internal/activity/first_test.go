package activity_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

func TestFirstOrganization(t *testing.T) {
	w := newWorld(t)
	w.empty()
	good := func() object {
		return object{"organizationName": "First", "rootUserName": "Root", "rootApiKey": apiKey("k", strings.ToUpper(someKey)), "timestampMs": "1"}
	}
	in, err := organization.ParseFirst(stamp.BodyFromEntry(text(good())))
	w.must(err)
	tx := w.tx()
	root, key, err := in.Make(&activity.Tx{Tx: tx, Vault: w.vault, Rand: w.rand, Keys: w.keys})
	w.must(err)
	tx.Keep()
	o := mustOrganization(w)
	u, err := w.tx().User(root)
	w.must(err)
	c, err := w.tx().Credential("API_KEY_CURVE_SECP256K1", someKey)
	w.must(err)
	if o.Name != "First" || !o.Root(root) || o.Threshold != 1 || o.Users != 1 || u.Name != "Root" || u.APIKeys[0].ID != key || c == nil || c.User != root {
		t.Errorf("%+v %+v %+v", o, u, c)
	}
	for member, bad := range map[string]any{"organizationName": "", "rootUserName": " x", "timestampMs": "soon", "rootApiKey": apiKey("k", "02"+strings.Repeat("f", 64)), "more": 1} {
		b := good()
		b[member] = bad
		if _, err := organization.ParseFirst(stamp.BodyFromEntry(text(b))); code(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", member, err)
		}
		if delete(b, member); member != "more" {
			if _, err := organization.ParseFirst(stamp.BodyFromEntry(text(b))); code(err) != fault.InvalidArgument {
				t.Errorf("without %s: %v", member, err)
			}
		}
	}
}
