package core_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/nsm"
	"cloister/sim/rig"
)

// Every operation of the table has one handler, and no handler an operation that the
// table does not know. What hosts serve as documents clients verify under the same name.
func TestBootOperations(t *testing.T) {
	readme, err := os.ReadFile("../../attestation/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, op := range wire.BootOperations {
		names = append(names, op.Name)
		if op.Public {
			if endpoint, name, ok := attestation.Route("POST", "/boot/v1/"+op.Name); !ok || endpoint != attestation.EndpointBoot || name != op.Name {
				t.Errorf("%s: package attestation has no such operation", op.Name)
			}
		}
		if op.Path == "" || strings.Contains(op.Path, "{") {
			continue // not signed
		}
		if endpoint, name, ok := attestation.Route("GET", op.Path); !ok || endpoint != attestation.EndpointBoot || name != op.Name {
			t.Errorf("%s: package attestation takes it for %q", op.Path, name)
		}
		if !bytes.Contains(readme, fmt.Appendf(nil, "| `GET %s` | `boot` | `%s` |", op.Path, op.Name)) {
			t.Errorf("%s: not in attestation/README.md", op.Path)
		}
	}
	handlers := core.BootHandlers()
	slices.Sort(names)
	slices.Sort(handlers)
	if !slices.Equal(names, handlers) {
		t.Errorf("the table has  %v\nhandlers are for %v", names, handlers)
	}
}

// fresh is an enclave in its first state, without a host.
func fresh(t testing.TB, fence func(error)) *core.Core {
	clock := laptop.Clock{}
	root, err := nsm.NewRoot(rand.Reader, clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	device, err := nsm.New(nsm.Config{Root: root, Now: clock.Now, Rand: rand.Reader, PCRs: laptop.Measurements("fuzz")})
	if err != nil {
		t.Fatal(err)
	}
	return core.New(core.Config{Device: device, Clock: clock, Rand: rand.Reader, ApplicationDigest: "00", Fence: fence,
		Fault: func(_ string, err error) { t.Logf("internal error: %v", err) }})
}

// An operation that does not work in a state is refused there, whatever its body says.
func TestBootOperationsOutOfTheirState(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	for state, c := range map[wire.State]*core.Core{wire.StateHello: fresh(t, nil), wire.StateServing: r.Enclave} {
		for _, op := range wire.BootOperations {
			if op.In(state) {
				continue
			}
			want := "given before"
			if op.In(wire.StateServing) {
				want = "not serving yet"
			} else if op.In(wire.StateSeed) {
				want = "BOOT_NOT_WAITING"
			}
			for _, body := range []string{"", "{", "{}"} {
				if reply := c.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointBoot, Op: op.Name, Body: []byte(body)}); !strings.Contains(string(reply.Body), want) {
					t.Errorf("%s in state %s with %q: %d %s", op.Name, state, body, reply.Status, reply.Body)
				}
			}
		}
	}
}

// bootOperation is one of the table, or none of it.
func bootOperation(n byte) string {
	if i := int(n) % (len(wire.BootOperations) + 1); i < len(wire.BootOperations) {
		return wire.BootOperations[i].Name
	}
	return "nothing"
}

// addBodies seeds a fuzz target with bodies for every operation.
func addBodies(f *testing.F) {
	for _, body := range []string{"", "{}", `{"ranges":4}`, `{"manifest":"e30="}`, `{"manifest":"e30=","approvals":[{"publicKey":"02","signature":"00"}],"predecessor":"e30="}`,
		`{"operators":{"threshold":2,"publicKeys":["02"],"shareKeys":["03"]}}`, `{"nonce":"` + strings.Repeat("00", 32) + `"}`,
		`{"nonce":"` + strings.Repeat("00", 32) + `","setup":{"document":"e30=","envelope":"e30="}}`, `{"quorumPublicKey":"` + strings.Repeat("04", 130) + `"}`,
		`{"ranges":[0],"handed":true}`, `{"ranges":[7],"to":"` + strings.Repeat("00", 16) + `"}`, strings.Repeat("04", 130), `{"CiphertextForRecipient":"e30="}`,
		`{"operator":1,"manifestSha256":"00","shareSetDigest":"00","nonce":"00","box":"00","signature":"00"}`,
		`{"organizationName":"o","rootUserName":"u","timestampMs":"1","rootApiKey":{"apiKeyName":"k","publicKey":"02","curveType":"API_KEY_CURVE_P256"}}`} {
		for n := range len(wire.BootOperations) + 1 {
			f.Add(byte(n), []byte(body))
		}
	}
}

// The parent says what it likes at the boot endpoint. Nothing of it is an internal
// error, and an enclave in its first state takes nothing that it could not check.
func FuzzBootEndpoint(f *testing.F) {
	faults := 0
	c := fresh(f, func(error) { faults++ })
	addBodies(f)
	// No host: whatever would ask the store has failed before.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, n byte, body []byte) {
		op := bootOperation(n)
		r := c.Call(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: body})
		if r.Status == 500 || !json.Valid(r.Body) {
			t.Errorf("%s: %d %s", op, r.Status, r.Body)
		}
		s := c.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointBoot, Op: wire.OpStatus})
		if faults > 0 || !bytes.Contains(s.Body, []byte(`"state":"hello"`)) {
			t.Fatalf("no longer in its first state: %s", s.Body)
		}
	})
}

// Nor does anything that is said there harm an enclave that serves, which a host can
// have give its ranges away and take them back, and no more.
func FuzzBootEndpointServing(f *testing.F) {
	r := rig.Start(f, rig.Options{})
	addBodies(f)
	f.Fuzz(func(t *testing.T, n byte, body []byte) {
		op := bootOperation(n)
		reply := r.Enclave.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: body, WithinMs: 1000})
		if reply.Status == 500 || !json.Valid(reply.Body) {
			t.Errorf("%s: %d %s", op, reply.Status, reply.Body)
		}
		s := r.Enclave.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointBoot, Op: wire.OpStatus})
		if !bytes.Contains(s.Body, []byte(`"state":"serving"`)) {
			t.Fatalf("serves no longer: %s", s.Body)
		}
	})
}
