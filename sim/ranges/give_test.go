package ranges_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
)

var errAway = errors.New("the store is away")

// What a host has of a give that it calls failed is the last state there is: the giver
// decides and answers nothing more in the range, gives it to nobody else and does not
// take it back, and the give goes on to its end once the store lets it.
func TestGiveThatFails(t *testing.T) {
	head := func(name string) bool { return name == "head/000" }
	for name, lie := range map[string]func(s *liar, reached func(), lifted <-chan struct{}){
		"head refused": func(s *liar, reached func(), _ <-chan struct{}) {
			s.put = func(_ context.Context, p wire.PutObject) error {
				if head(p.Name) {
					reached()
					return errAway
				}
				return nil
			}
		},
		"head without an answer": func(s *liar, reached func(), lifted <-chan struct{}) {
			s.put = func(_ context.Context, p wire.PutObject) error {
				if head(p.Name) {
					reached()
					<-lifted
					return errAway
				}
				return nil
			}
		},
		"release refused": func(s *liar, reached func(), _ <-chan struct{}) {
			s.own = func(q wire.Own, honest func() (wire.Owned, error)) (wire.Owned, error) {
				if q.Action == wire.OwnRelease && q.Range == 0 {
					reached()
					return wire.Owned{}, errAway
				}
				return honest()
			}
		},
		"released and denied": func(s *liar, reached func(), _ <-chan struct{}) {
			s.own = func(q wire.Own, honest func() (wire.Owned, error)) (wire.Owned, error) {
				row, err := honest()
				if q.Action == wire.OwnRelease && q.Range == 0 {
					reached()
					return wire.Owned{}, errAway
				}
				return row, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b, c := w.start(), w.start(), w.start()
			o := w.in(0)
			a.must(w.tag(o, "first"))
			reached, lifted := make(chan struct{}), make(chan struct{})
			lift := sync.OnceFunc(func() { close(lifted) })
			t.Cleanup(lift) // before the enclaves end
			w.store.lie(func(s *liar) { lie(s, sync.OnceFunc(func() { close(reached) }), lifted) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			given, q := make(chan bool, 1), &client.Request{Endpoint: wire.EndpointBoot, Op: "give", Body: []byte(give(0, b.table().Boot))}
			go func() {
				reply, err := a.link.Call(ctx, q.Call())
				given <- err == nil && reply.Status == 200
			}()
			select {
			case <-reached:
				a.table() // time for an answer that should not come
				cancel()
				if <-given {
					t.Fatal("given without the store")
				}
			case <-given:
				t.Fatal("the store was not asked")
			}
			w.store.mu.Lock()
			sealed := len(w.store.objects["head/000"])
			w.store.mu.Unlock()
			if sealed == 0 {
				t.Fatal("no head was sealed")
			}
			nothing := func() {
				t.Helper()
				a.elsewhere(w.tag(o, "behind the head"), 0)
				a.elsewhere(w.whoami(o), 0)
				for _, x := range []struct{ op, body string }{{"give", give(0, c.table().Boot)}, {"give", `{"ranges":[0]}`}, {"take", taking(0)}, {"take", handed(0)}} {
					if table, _ := a.boot(x.op, x.body); table != nil {
						t.Errorf("%s %s: done", x.op, x.body)
					}
				}
			}
			nothing()
			if got := a.owned(); got != "1 2 3" {
				t.Errorf("owns %q", got)
			}
			a.must(w.tag(w.in(1), "elsewhere"))
			w.store.lie(func(*liar) {})
			lift()
			clocktest.Until(t, "the give comes to its end", func() bool {
				table, _ := b.boot("take", handed(0))
				return table != nil
			})
			b.must(w.tag(o, "second"))
			a.elsewhere(w.whoami(o), 0)
		})
	}
}

// A head that was sealed for a boot is good until it has taken the range. So long the
// giver does not take it back, whatever row it is shown and whatever word of another.
func TestTakenBackFromTheAddressee(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	o := w.in(0)
	a.must(w.tag(o, "first"))
	given := func(what string) {
		t.Helper()
		if _, refused := a.boot("take", taking(0)); !strings.Contains(refused, "RANGE_GIVEN") {
			t.Fatalf("%s: %q", what, refused)
		}
	}
	to := b.table().Boot
	word := func(r wire.Range) []byte {
		t.Helper()
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		all := w.store.objects[fmt.Sprintf("taken/%03d/%s", r, to)]
		if len(all) == 0 {
			t.Fatalf("no word that range %d was taken", r)
		}
		return all[len(all)-1]
	}
	show := func(b []byte) {
		w.store.lie(func(s *liar) {
			s.object = func(wire.LoadObject, wire.Object) wire.Object { return wire.Object{Found: true, Bytes: b} }
		})
	}
	if _, refused := a.boot("give", give(0, to)); refused != "" {
		t.Fatal(refused)
	}
	given("not taken yet")
	w.store.lie(func(s *liar) {
		s.own = func(q wire.Own, honest func() (wire.Owned, error)) (wire.Owned, error) {
			if q.Range != 0 {
				return honest()
			}
			row := wire.Owned{OK: true, Epoch: 2, Boot: wire.ID{1}, Released: true}
			if q.Action == wire.OwnTake {
				row = wire.Owned{OK: true, Epoch: 3, Boot: q.Boot}
			}
			return row, nil
		}
	})
	given("at a row that somebody else has owned since")
	w.store.lie(func(*liar) {})
	if _, refused := b.boot("take", handed(0)); refused != "" {
		t.Fatal(refused)
	}
	first := word(0)
	move(t, 0, b, a)
	move(t, 1, a, b)
	if _, refused := a.boot("give", give(0, to)); refused != "" {
		t.Fatal(refused)
	}
	for what, bytes := range map[string][]byte{"a word of before": first, "a word of another range": word(1), "no word": {}, "half a word": first[:8],
		"a word of before as one of now": append([]byte{0, 0, 0, 0, 0, 0, 0, 9}, first[8:]...)} {
		show(bytes)
		given(what)
	}
	w.store.lie(func(*liar) {})
	given("not taken again")
	// Once it was, it is anybody's.
	if _, refused := b.boot("take", handed(0)); refused != "" {
		t.Fatal(refused)
	}
	b.must(w.tag(o, "second"))
	b.stop()
	if _, refused := a.boot("take", taking(0)); refused != "" {
		t.Fatal(refused)
	}
	a.must(w.tag(o, "third"))
}

// A range whose addressee ended before it took it is taken by another enclave than the
// one that gave it, though that one owns least and is asked first.
func TestAddresseeLost(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.start(), w.start(), w.start()
	a.must(w.tag(w.in(0), "first"))
	for r := range wire.Range(count) {
		if r > 0 {
			move(t, r, a, c)
		}
	}
	if _, refused := a.boot("give", give(0, b.table().Boot)); refused != "" {
		t.Fatal(refused)
	}
	b.stop()
	w.host(nil, a, c)
	owner := func() *wire.TableRange {
		for _, e := range []*enclave{a, c} {
			for _, o := range e.table().Owned {
				if o.Range == 0 {
					if e == a && !o.Handed { // the host levels: it may have it from the other one by now
						t.Fatal("the giver has taken it as it stands")
					}
					return &o
				}
			}
		}
		return nil
	}
	clocktest.Until(t, "somebody takes it", func() bool { return owner() != nil })
}
