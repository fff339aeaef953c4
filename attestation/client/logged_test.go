package client_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/attestation/request"
	sim "cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// A client that asks for the logged proof has one that is about its submit, or none and a refusal.
func TestLogProofs(t *testing.T) {
	witnesses := rig.StartWitnesses(t, rig.WitnessOptions{Serve: attestation.MaxLogTime, Bound: attestation.MaxLogTime})
	w := start(t, rig.Options{Witnesses: witnesses})
	c := w.transport()
	submit := func(op string, body []byte, key laptop.KeyPair) (answer, error) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, w.api+"/public/v1/submit/"+op, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(attestation.HeaderLogProof, attestation.LogProofWait)
		if err := stampWith(key)(r.Header, body); err != nil {
			t.Fatal(err)
		}
		return w.do(c, r)
	}
	root, user := w.Credentials.RootAPIKey, sim.NewKey()
	wallet := func(name string) []byte {
		return w.Root().Body("CREATE_WALLET", sim.Wallet(name))
	}
	got, err := submit("create_wallet", wallet("one"), root)
	if err != nil || got.status != 200 || !strings.Contains(got.body, `"logProof":"c2sp.org/tlog-proof@v1`) {
		t.Fatalf("%+v, %v", got, err)
	}
	key, err := request.ParseKey(root.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	api := &request.API{URL: w.api, OrganizationID: w.Credentials.OrganizationID, Key: key, LogProofs: true, HTTP: &http.Client{Transport: c}}
	a, err := api.Submit(t.Context(), "ACTIVITY_TYPE_CREATE_WALLET", sim.Wallet("by the package"))
	if err != nil || !strings.HasPrefix(a.LogProof, "c2sp.org/tlog-proof@v1\n") || !strings.Contains(string(a.LogKey), attestation.TypeLog) {
		t.Errorf("%+v, %v", a, err)
	}
	if err := api.Query(t.Context(), "whoami", nil, nil); err != nil { // which has no entry
		t.Error(err)
	}
	// Refusals: of an activity that is kept, with the proof; of what nobody decides, without.
	users := w.Root().Body("CREATE_USERS_V4", sim.Users(sim.NewUser("u", user)))
	if got, err := submit("create_users", users, root); err != nil || got.status != 200 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := submit("create_wallet", wallet("two"), user); err != nil || got.status != 403 || !strings.Contains(got.body, `"logProof"`) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := submit("create_wallet", []byte("{"), root); err != nil || got.status != 400 || strings.Contains(got.body, `"logProof"`) {
		t.Errorf("%+v, %v", got, err)
	}
	// A host that keeps the wish to itself has a signed reply without the proof.
	body := wallet("three")
	w.way.before = func(r *http.Request) { r.Header.Del(attestation.HeaderLogProof) }
	if got, err := submit("create_wallet", body, root); err == nil || !strings.Contains(err.Error(), "no log proof") {
		t.Errorf("without the wish: %+v, %v", got, err)
	}
	w.way.before = nil
	if got, err := submit("create_wallet", body, root); err != nil || got.status != 200 {
		t.Errorf("%+v, %v", got, err)
	}
}
