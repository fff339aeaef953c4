package ranges_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"cloister/attestation"
	replies "cloister/attestation/client"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// A client that insists on signed replies is served through a host by two enclaves,
// each with a live key of its own, before and after a range moves, and sees none of
// the replies that only send the host elsewhere.
func TestSignedRepliesOfTwoEnclaves(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	move(t, 2, a, b)
	at := serveBoth(t, w, a, b)
	send, keys := w.insists(at)
	ask := func(r wire.Range) {
		t.Helper()
		for _, q := range []*client.Request{w.whoami(w.in(r)), w.tag(w.in(r), strconv.FormatInt(w.times.Next(), 10))} {
			if reply, err := send(t.Context(), q); err != nil || reply.Status != 200 {
				t.Errorf("range %d: %v, %v", r, reply, err)
			}
		}
	}
	for r := range wire.Range(count) {
		ask(r)
	}
	if len(keys) != 2 {
		t.Errorf("%d live keys have signed", len(keys))
	}
	move(t, 0, a, b)
	for r := range wire.Range(count) {
		ask(r)
	}
	if len(keys) != 2 {
		t.Errorf("%d live keys have signed", len(keys))
	}
}

// insists sends for a client that takes nothing but signed replies of the deployment, and the live keys that it asks about.
func (w *world) insists(at string) (send client.Sender, keys map[string]bool) {
	t := w.t
	t.Helper()
	known, err := w.dir.ReadCredentials()
	if err != nil || known == nil {
		t.Fatal("no credentials: ", err)
	}
	policy := attestation.Policy{SimulatorRootPEM: known.AttestationRootPEM, ExpectedPCRs: map[int]string{}, AllowedManifestSHA256: []string{known.ManifestSHA256}}
	for i := range 3 {
		policy.ExpectedPCRs[i] = known.PCRs[strconv.Itoa(i)]
	}
	keys = map[string]bool{}
	find := replies.Discovery(at, nil)
	proofs := func(ctx context.Context, key string) (attestation.BootProof, error) {
		w.mu.Lock()
		keys[key] = true
		w.mu.Unlock()
		return find(ctx, key)
	}
	return client.HTTP(&http.Client{Timeout: time.Minute, Transport: &replies.Transport{Policy: policy, Proofs: proofs}}, at), keys
}

// serveBoth is a host over HTTP that serves through all of these enclaves.
func serveBoth(t *testing.T, w *world, all ...*enclave) string {
	return rig.ServeHTTP(t, rig.NewAPI(w.host(w.cosigner, all...)).Public(true))
}
