package ranges_test

import (
	"net/http"
	"sync"
	"testing"

	"cloister/attestation"
	"cloister/shared/wire"
	"cloister/sim/client"
)

// A range changes hands while submits wait for their logged proofs: each gets its own, from the one enclave or the other, and the same body
// gets it again from the next owner. The client verifies every one.
func TestLogProofsDuringAMove(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: logged proofs after real rounds of witnesses")
	}
	w := newWorld(t)
	a, b := w.start(), w.start()
	at := serveBoth(t, w, a, b)
	send, keys := w.insists(at)
	ask := func(q *client.Request) string {
		t.Helper()
		for range 100 { // as whoever is told to try again does: with the same body
			reply, err := send(t.Context(), q)
			switch {
			case err != nil || reply.Status != http.StatusOK && reply.Status != http.StatusServiceUnavailable:
				t.Errorf("%v, %v", reply, err)
				return ""
			case reply.Status == http.StatusOK:
				id, _ := reply.Get("activity", "id").(string)
				if proof, _ := reply.Get("logProof").(string); id == "" || proof == "" {
					t.Errorf("%s", reply.Body)
				}
				return id
			}
		}
		t.Error("never answered")
		return ""
	}
	calls, ids := make([]*client.Request, 40), make([]string, 40)
	var all sync.WaitGroup
	for i := range calls {
		calls[i] = w.tag(w.in(0), string(rune('A'+i)))
		calls[i].Head = append(calls[i].Head, wire.Header{Name: wire.HeaderLogProof, Value: attestation.LogProofWait})
	}
	next := make(chan int)
	for range 8 {
		all.Go(func() {
			for i := range next {
				ids[i] = ask(calls[i])
			}
		})
	}
	for i := range calls {
		if i == len(calls)/2 {
			move(t, 0, a, b)
		}
		next <- i
	}
	close(next)
	all.Wait()
	for i, call := range calls {
		if id := ask(call); id != ids[i] || id == "" {
			t.Errorf("the same body: activity %q after %q", id, ids[i])
		}
	}
	if len(keys) != 2 {
		t.Errorf("%d live keys have signed", len(keys))
	}
}
