package restart_test

import (
	"math/rand/v2"
	"testing"

	"cloister/shared/wire"
)

// TestBeginsAgain shows what a manifest gives away that lets the log of a deployment from before logs begin with what
// the store holds, as that of a simulator without operators always does: a host that hides the whole log has it
// begun again, with organizations of different times. A deployment that was made with a log is not to be
// had so: see the kind "no log".
func TestBeginsAgain(t *testing.T) {
	h := newHistory(0, true)
	t.Cleanup(h.remove)
	old, s := h.shots[0], h.newest()
	moved := movedSince(old, s)
	a := h.some(rand.New(rand.NewPCG(1, 1)), func(a *account) bool { return moved(a) && a.parent != nil && old.tags[a] < s.tags[a] })
	file, remove := scrap()
	defer remove()
	copyStore(s.file, file)
	e := must(h.open(file, limits(rand.New(rand.NewPCG(1, 1)))))
	defer e.stop()
	hidden := (&choice{}).lies(a.of)
	hidden.headers = instead(nil)
	hidden.orgs = map[wire.ID]shown{a.wid: {from: old.read, id: a.wid}}
	hidden.tips = map[wire.ID]tip{a.wid: old.tip(a)}
	e.store.tell(&hidden)
	if err := e.join(h); err != nil {
		t.Fatalf("the log does not begin again, which is better than what this test says: %v", err)
	}
	for _, b := range h.orgs {
		want := s.tags[b]
		if b == a {
			want = old.tags[b]
		}
		if n, got := e.tags(b, b); !got.served() || n != want {
			t.Errorf("%s: %d tags, not %d: %v", b.id, n, want, got)
		}
	}
}
