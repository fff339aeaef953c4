package organization_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/fault"
)

func TestFirstOrganization(t *testing.T) {
	w := activitytest.New(t)
	w.Empty()
	good := func() object {
		return object{"organizationName": "First", "rootUserName": "Root", "rootApiKey": activitytest.APIKey("k", strings.ToUpper(activitytest.SomeKey)), "timestampMs": "1"}
	}
	in, err := organization.ParseFirst(activitytest.BodyOf(w, good()))
	w.Must(err)
	tx := w.Tx()
	root, key, err := in.Make(&activity.Tx{Tx: tx, Vault: activity.VaultOf(w.Vault), Rand: w.Rand, Keys: w.Keys})
	w.Must(err)
	tx.Apply()
	o := w.Organization()
	u, err := w.Tx().User(root)
	w.Must(err)
	c, err := w.Tx().Credential("API_KEY_CURVE_SECP256K1", activitytest.SomeKey)
	w.Must(err)
	if o.Name != "First" || !o.Root(root) || o.Threshold != 1 || o.Users != 1 || u.Name != "Root" || u.APIKeys[0].ID != key || c == nil || c.User != root {
		t.Errorf("%+v %+v %+v", o, u, c)
	}
	for member, bad := range map[string]any{"organizationName": "", "rootUserName": " x", "timestampMs": "soon", "rootApiKey": activitytest.APIKey("k", "02"+strings.Repeat("f", 64)), "more": 1} {
		b := good()
		b[member] = bad
		if _, err := organization.ParseFirst(activitytest.BodyOf(w, b)); activitytest.Code(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", member, err)
		}
		if delete(b, member); member != "more" {
			if _, err := organization.ParseFirst(activitytest.BodyOf(w, b)); activitytest.Code(err) != fault.InvalidArgument {
				t.Errorf("without %s: %v", member, err)
			}
		}
	}
}
