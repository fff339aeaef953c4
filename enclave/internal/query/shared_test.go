package query_test

import (
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// TestSharedCredentials: the report to a parent, and cursors that nobody was given.
func TestSharedCredentials(t *testing.T) {
	w := newWorld(t)
	ids := w.children(3)
	w.change(func(tx *org.Tx) {
		for n := range 2 {
			c := child(n)
			u := &org.User{ID: id('U', byte(n)), APIKeys: []org.APIKey{{PublicKey: "02ee", Type: "CREDENTIAL_TYPE_API_KEY_P256"}}}
			w.must(tx.LinkUser(&c, nil, u))
		}
	})
	got, err := w.ask("list_shared_credentials", object{})
	if err != nil {
		t.Fatal(err)
	}
	var holders []any
	for _, s := range got["shared"].([]any) {
		if hs := s.(object)["holders"].([]any); s.(object)["kind"] == "CREDENTIAL" && hs[0].(object)["userId"] == id('U', 0).String() {
			holders = hs
		}
	}
	if len(holders) != 2 || holders[0].(object)["organizationId"] != ids[0] || holders[1].(object)["organizationId"] != ids[1] || got["cursor"] != nil {
		t.Errorf("%v", got)
	}
	for _, c := range []string{"x", "00", "ffffffffffffffffffffffffffffffffffffffffffff"} {
		w.refused("list_shared_credentials", object{"cursor": c}, fault.InvalidArgument, "cursor")
	}
}
