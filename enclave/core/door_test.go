package core_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"testing"

	"cloister/enclave/core"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/nsm"
)

// The parent says what it likes at the door boot. Nothing of it is an internal
// error, and an enclave in its first state takes nothing that it could not check.
func FuzzBootDoor(f *testing.F) {
	clock := laptop.Clock{}
	root, err := nsm.NewRoot(rand.Reader, clock.Now())
	if err != nil {
		f.Fatal(err)
	}
	device, err := nsm.New(nsm.Config{Root: root, Now: clock.Now, Rand: rand.Reader, PCRs: laptop.Measurements("fuzz")})
	if err != nil {
		f.Fatal(err)
	}
	faults := 0
	c := core.New(core.Config{Device: device, Clock: clock, Rand: rand.Reader, ApplicationDigest: "00",
		Fence: func(err error) { faults++ }, Fault: func(_ string, err error) { f.Logf("internal error: %v", err) }})
	operations := []string{"status", "keys", "discovery_keys", "webhook_jwks", "discovery_openid", "discovery_openid_keys",
		"genesis", "manifest", "share", "setup_document", "hand_over_nonce", "hand_over", "take_over", "farewell", "create_organization", "nothing"}
	for i, body := range []string{"", "{}", `{"ranges":4}`, `{"manifest":"e30="}`, `{"manifest":"e30=","approvals":[{"publicKey":"02","signature":"00"}],"predecessor":"e30="}`,
		`{"operators":{"threshold":2,"publicKeys":["02"],"shareKeys":["03"]}}`, `{"nonce":"` + string(bytes.Repeat([]byte("00"), 32)) + `"}`,
		`{"operator":1,"manifestSha256":"00","shareSetDigest":"00","nonce":"00","box":"00","signature":"00"}`,
		`{"organizationName":"o","rootUserName":"u","timestampMs":"1","rootApiKey":{"apiKeyName":"k","publicKey":"02","curveType":"API_KEY_CURVE_P256"}}`} {
		f.Add(byte(i), []byte(body))
	}
	// No host: whatever would ask the store has failed before.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, op byte, body []byte) {
		r := c.Call(ctx, &wire.Call{Door: wire.DoorBoot, Op: operations[int(op)%len(operations)], Body: body})
		if r.Status == 500 || !json.Valid(r.Body) {
			t.Errorf("%s: %d %s", operations[int(op)%len(operations)], r.Status, r.Body)
		}
		s := c.Call(context.Background(), &wire.Call{Door: wire.DoorBoot, Op: "status"})
		if faults > 0 || !bytes.Contains(s.Body, []byte(`"state":"hello"`)) {
			t.Fatalf("no longer in its first state: %s", s.Body)
		}
	})
}
