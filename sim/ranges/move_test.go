package ranges_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
)

func give(r wire.Range, to string) string { return fmt.Sprintf(`{"ranges":[%d],"to":"%s"}`, r, to) }
func handed(r wire.Range) string          { return fmt.Sprintf(`{"ranges":[%d],"handed":true}`, r) }
func taking(r wire.Range) string          { return fmt.Sprintf(`{"ranges":[%d]}`, r) }

// move moves a range with the head of its log.
func move(t *testing.T, r wire.Range, from, to *enclave) {
	t.Helper()
	if _, refused := from.boot("give", give(r, to.table().Boot)); refused != "" {
		t.Fatal(refused)
	}
	got, refused := to.boot("take", handed(r))
	if refused != "" {
		t.Fatal(refused)
	}
	for _, o := range got.Owned {
		if o.Range == r && !o.Handed {
			t.Fatal("taken without a head")
		}
	}
}

// The first enclave takes all, the next nothing until it is given; a call at the wrong
// one is told where to go and does nothing.
func TestMove(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	b := w.start()
	if a.owned() != "0 1 2 3" || b.owned() != "" {
		t.Fatalf("first %q, second %q", a.owned(), b.owned())
	}
	for r := range wire.Range(count) {
		a.must(w.tag(w.in(r), "before"))
		b.elsewhere(w.tag(w.in(r), "stray"), r)
		b.elsewhere(w.whoami(w.in(r)), r)
		send := wire.SendID{Organization: wire.ID{byte(int(r) * 256 / count)}}
		if got, err := b.link.OpenSend(t.Context(), send); err != nil || got.Found || got.Moved != uint16(r)+1 {
			t.Fatalf("open_send: %+v %v", got, err)
		}
		if got, err := b.link.Deliver(t.Context(), send); err != nil || got.Found || got.Moved != uint16(r)+1 {
			t.Fatalf("deliver: %+v %v", got, err)
		}
	}
	move(t, 2, a, b)
	if a.owned() != "0 1 3" || b.owned() != "2" {
		t.Fatalf("first %q, second %q", a.owned(), b.owned())
	}
	// One body is one activity, whoever answers.
	again := w.tag(w.in(2), "after")
	b.must(again)
	a.elsewhere(again, 2)
	first := b.call(again)
	move(t, 2, b, a)
	b.elsewhere(again, 2)
	if second := a.call(again); string(first.Body) != string(second.Body) {
		t.Fatalf("another answer to the same body:\n%s\n%s", first.Body, second.Body)
	}
	for r := range wire.Range(count) {
		a.must(w.tag(w.in(r), "at last"))
	}
	// What is below an organization lies where it does.
	made := a.completed(w.submit(w.in(3), "CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("below", client.NewRootUser("u", w.in(3).RootAPIKey))))
	if sub := client.Text(made, "subOrganizationId"); sub[:2] != w.in(3).OrganizationID[:2] {
		t.Fatalf("%s below %s", sub, w.in(3).OrganizationID)
	}
}

// A move under load loses nothing that was acknowledged.
func TestMoveUnderLoad(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	o := w.in(1)
	var done atomic.Bool
	var wg sync.WaitGroup
	var acked atomic.Int64
	for c := range 4 {
		wg.Go(func() {
			for i := 0; !done.Load(); i++ {
				call := w.tag(o, fmt.Sprintf("tag %d/%d", c, i))
				for at := a; ; {
					reply, err := at.link.Call(context.Background(), call.Call())
					if err == nil && reply.Status == 200 {
						acked.Add(1)
						time.Sleep(15 * time.Millisecond) // so that all fit into one list
						break
					}
					if err != nil || reply.Status != 503 {
						t.Errorf("%v, %d %s", err, reply.Status, reply.Body)
						return
					}
					if at == a {
						at = b
					} else {
						at = a
					}
				}
			}
		})
	}
	loaded := func() {
		before := acked.Load()
		clocktest.Until(t, "there is load", func() bool { return acked.Load() >= before+40 })
	}
	for range 5 {
		loaded()
		move(t, 1, a, b)
		loaded()
		move(t, 1, b, a)
	}
	done.Store(true)
	wg.Wait()
	var listed struct{ UserTags []struct{ TagName string } }
	if err := json.Unmarshal(a.call(w.query(o, "list_user_tags")).Body, &listed); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, x := range listed.UserTags {
		names[x.TagName]++
		if names[x.TagName] > 1 {
			t.Errorf("%s twice", x.TagName)
		}
	}
	t.Logf("10 moves, %d activities acknowledged, %d there", acked.Load(), len(names))
	if int64(len(names)) != acked.Load() || acked.Load() == 0 {
		t.Fatalf("%d acknowledged, %d there", acked.Load(), len(names))
	}
}

// older answers an organization's load with the entries that it had then.
func older(id string, count uint64) func(wire.Organization) wire.Organization {
	return func(o wire.Organization) wire.Organization {
		if len(o.Keys) == 0 || hex.EncodeToString(o.Keys[0].Organization[:]) != strings.ReplaceAll(id, "-", "") {
			return o
		}
		o.Entries, o.Count = o.Entries[:count], count
		return o
	}
}

// A host that shows a taker an older state of an organization than the range's log has is
// caught, whether the range was handed on or was free.
func TestStaleStateAfterAMove(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	o := w.in(0)
	a.must(w.tag(o, "first"))
	a.must(w.tag(o, "second"))
	w.store.lie(func(s *liar) { s.load = older(o.OrganizationID, 2) }) // entry 0 and the first tag
	move(t, 0, a, b)
	if reply := b.call(w.whoami(o)); reply.Status != 503 || !strings.Contains(string(reply.Body), "not believed") {
		t.Fatalf("an older state is shown: %d %s", reply.Status, reply.Body)
	}
	w.store.lie(func(s *liar) {
		s.load = func(o wire.Organization) wire.Organization { return wire.Organization{} }
	})
	if reply := b.call(w.whoami(o)); reply.Status != 503 {
		t.Fatalf("an organization is denied: %d %s", reply.Status, reply.Body)
	}
	w.store.lie(func(s *liar) {})
	b.must(w.whoami(o))

	// Given to nobody, the range is taken with the log that the host shows, and with nothing else.
	if _, refused := b.boot("give", `{"ranges":[0]}`); refused != "" {
		t.Fatal(refused)
	}
	c := w.start() // takes what is free
	if c.owned() != "0" {
		t.Fatalf("owns %q", c.owned())
	}
	if c.table().Owned[0].Handed {
		t.Fatal("handed on by nobody")
	}
	w.store.lie(func(s *liar) { s.load = older(o.OrganizationID, 2) })
	if reply := c.call(w.whoami(o)); reply.Status != 503 || !strings.Contains(string(reply.Body), "not believed") {
		t.Fatalf("an older state is shown: %d %s", reply.Status, reply.Body)
	}
	w.store.lie(func(s *liar) {})
	c.must(w.whoami(o))
}

// A hand-over fits one boot, one range and one epoch.
func TestHandOverFitsNowhereElse(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.start(), w.start(), w.start()
	o := w.in(1)
	a.must(w.tag(o, "first"))
	refused := func(what string, e *enclave, r wire.Range) {
		t.Helper()
		if _, text := e.boot("take", handed(r)); text == "" {
			t.Fatalf("%s: taken", what)
		}
	}
	if _, no := a.boot("give", give(1, b.table().Boot)); no != "" {
		t.Fatal(no)
	}
	const name = "head/001"
	refused("another boot", c, 1)
	first := w.store.objects[name][0]
	// Of another range, which is free.
	if _, no := a.boot("give", `{"ranges":[2]}`); no != "" {
		t.Fatal(no)
	}
	show := func(b []byte) {
		w.store.lie(func(s *liar) {
			s.object = func(_ wire.LoadObject, o wire.Object) wire.Object {
				if b == nil {
					return wire.Object{}
				}
				return wire.Object{Found: true, Bytes: b}
			}
		})
	}
	show(first)
	refused("another range", b, 2)
	for n, bad := range map[string][]byte{"withheld": nil, "empty": {}, "cut": first[:len(first)-1], "another epoch": append([]byte{0, 0, 0, 0, 0, 0, 0, 9}, first[8:]...)} {
		show(bad)
		refused(n, b, 1)
	}
	w.store.lie(func(*liar) {})
	if _, no := b.boot("take", handed(1)); no != "" {
		t.Fatal(no)
	}
	b.must(w.tag(o, "second"))
	refused("a second time", b, 1)

	// There and back, and the first hand-over again: at the row as it is, and at one
	// that the host makes up.
	move(t, 1, b, a)
	a.must(w.tag(o, "third"))
	if _, no := a.boot("give", give(1, b.table().Boot)); no != "" {
		t.Fatal(no)
	}
	show(first)
	refused("an earlier hand-over", b, 1)
	w.store.lie(func(s *liar) {
		s.object = func(wire.LoadObject, wire.Object) wire.Object { return wire.Object{Found: true, Bytes: first} }
		s.own = func(q wire.Own, honest func() (wire.Owned, error)) (wire.Owned, error) {
			if q.Range != 1 {
				return honest()
			}
			row := wire.Owned{OK: true, Epoch: 1, Boot: wire.ID{1}, Released: true}
			if q.Action == wire.OwnTake {
				row = wire.Owned{OK: true, Epoch: 2, Boot: q.Boot}
			}
			return row, nil
		}
	})
	refused("an earlier hand-over at an earlier epoch", b, 1)
	if _, no := b.boot("take", taking(1)); no == "" {
		t.Fatal("taken at an earlier epoch")
	}
	w.store.lie(func(*liar) {})
	if _, no := b.boot("take", handed(1)); no != "" {
		t.Fatal(no)
	}
	b.must(w.tag(o, "fourth"))
}

func TestMovesRefused(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	for _, c := range []struct {
		e        *enclave
		op, body string
	}{
		{a, "take", ``}, {a, "take", `{}`}, {a, "take", `{"ranges":[4]}`}, {a, "take", `{"ranges":[300]}`}, {a, "take", `{"ranges":[-1]}`}, {a, "take", `{"ranges":"0"}`},
		{a, "take", `{"ranges":[0]}`}, {a, "take", `{"ranges":[0],"more":1}`}, {b, "give", `{"ranges":[0]}`}, {b, "take", `{"ranges":[0],"handed":true}`},
		{a, "give", `{"ranges":[4]}`}, {a, "give", `{"ranges":[0],"to":"00"}`}, {a, "give", `{"ranges":[0],"to":"00000000000000000000000000000000"}`},
		{a, "give", give(0, a.table().Boot)},
	} {
		if table, refused := c.e.boot(c.op, c.body); table != nil {
			t.Errorf("%s %s: %s", c.op, c.body, refused)
		}
	}
	if a.owned() != "0 1 2 3" || b.owned() != "" {
		t.Fatalf("first %q, second %q", a.owned(), b.owned())
	}
}

// An enclave from which a range is taken while it lives answers nothing from when the
// taker answers, and ends.
func TestSuperseded(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	a.must(w.tag(w.in(3), "before"))
	var before, rounds atomic.Int64
	var taken atomic.Bool
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, r := range []wire.Range{3, 0} { // the one that is lost, and one that is not
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				late := taken.Load() // when it is sent
				reply, err := a.link.Call(context.Background(), w.whoami(w.in(r)).Call())
				if err == nil && reply.Status == 200 && r == 3 {
					before.Add(1)
					if late {
						t.Error("the superseded enclave answers after its successor")
					}
				}
				rounds.Add(1)
			}
		})
	}
	clocktest.Until(t, "the first enclave answers", func() bool { return before.Load() > 0 })
	began := time.Now()
	if _, refused := b.boot("take", taking(3)); refused != "" {
		t.Fatal(refused)
	}
	b.must(w.whoami(w.in(3)))
	taken.Store(true)
	if took := time.Since(began); took < lease {
		t.Errorf("answered %v after the take, within the lease of %v", took, lease)
	}
	clocktest.Until(t, "the superseded enclave ends", a.fenced.Load)
	asked := rounds.Load() + 50
	clocktest.Until(t, "it is asked some more", func() bool { return rounds.Load() > asked })
	close(stop)
	wg.Wait()
	// All of it has ended, not only the range that was lost.
	for r := range wire.Range(count) {
		if reply, err := a.link.Call(t.Context(), w.whoami(w.in(r)).Call()); err == nil && reply.Status == 200 {
			t.Errorf("range %d is answered by an enclave that is fenced", r)
		}
	}
	b.must(w.tag(w.in(3), "after"))
}

// A deployment of one range moves that one by the same operations.
func TestOneRange(t *testing.T) {
	w := newWorld(t)
	w.dir.Ranges = 1
	a := w.start()
	o := w.orgs[0]
	if got := a.table(); got.Ranges != 1 || len(got.Owned) != 1 || got.Owned[0].Epoch != 1 {
		t.Fatalf("%+v", got)
	}
	a.must(w.tag(o, "before"))
	if _, refused := a.boot("give", `{"ranges":[0]}`); refused != "" {
		t.Fatal(refused)
	}
	a.elsewhere(w.tag(o, "given away"), 0)
	a.elsewhere(w.whoami(o), 0)
	if _, refused := a.boot("take", `{"ranges":[0]}`); refused != "" {
		t.Fatal(refused)
	}
	a.must(w.tag(o, "after"))
	if got := a.table(); got.Owned[0].Epoch != 2 || got.Owned[0].Handed {
		t.Fatalf("%+v", got)
	}
	// The next boot takes it by itself, and then this one is fenced.
	b := w.start()
	b.must(w.tag(o, "at last"))
	clocktest.Until(t, "only one owns the one range", a.fenced.Load)
}

// A boot that gives a range and takes it back, with or without another in between, is
// not shown an older state than it has seen: not one organization, not none.
func TestOlderStateAfterTakingBack(t *testing.T) {
	for name, between := range map[string]func(w *world, a *enclave){
		"given to nobody": func(_ *world, a *enclave) {
			if _, refused := a.boot("give", `{"ranges":[0]}`); refused != "" {
				t.Fatal(refused)
			}
		},
		"through another": func(w *world, a *enclave) {
			b := w.start()
			move(t, 0, a, b)
			if _, refused := b.boot("give", `{"ranges":[0]}`); refused != "" {
				t.Fatal(refused)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start()
			o := w.in(0)
			a.must(w.tag(o, "first"))
			a.must(w.tag(o, "second"))
			between(w, a)
			if _, refused := a.boot("take", `{"ranges":[0]}`); refused != "" {
				t.Fatal(refused)
			}
			w.store.lie(func(s *liar) { s.load = older(o.OrganizationID, 2) })
			if reply := a.call(w.whoami(o)); reply.Status != 503 || !strings.Contains(string(reply.Body), "not believed") {
				t.Fatalf("an older state is shown: %d %s", reply.Status, reply.Body)
			}
			w.store.lie(func(s *liar) {
				s.load = func(wire.Organization) wire.Organization { return wire.Organization{} }
			})
			if reply := a.call(w.whoami(o)); reply.Status != 503 {
				t.Fatalf("an organization is denied: %d %s", reply.Status, reply.Body)
			}
			w.store.lie(func(s *liar) {})
			a.must(w.tag(o, "third"))
		})
	}
}
