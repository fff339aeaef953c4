package ranges_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"cloister/attestation"
	"cloister/shared/wire"
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
	insists, keys := w.insists(at)
	ask := func(call *wire.Call) string {
		t.Helper()
		for range 100 { // as whoever is told to try again does: with the same body
			status, body, err := w.post(insists, at+"/public/v1/submit/", call)
			switch {
			case err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable:
				t.Errorf("%d %s, %v", status, body, err)
				return ""
			case status == http.StatusOK:
				var reply struct {
					Activity struct{ ID string }
					LogProof string
				}
				if json.Unmarshal(body, &reply) != nil || reply.Activity.ID == "" || reply.LogProof == "" {
					t.Errorf("%s", body)
				}
				return reply.Activity.ID
			}
		}
		t.Error("never answered")
		return ""
	}
	calls, ids := make([]*wire.Call, 40), make([]string, 40)
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
