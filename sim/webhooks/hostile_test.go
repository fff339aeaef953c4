package webhooks_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/hostile"
)

// watched is a store that remembers the sends that it was given, and holds back the
// batches with one while it is told to.
type watched struct {
	store.Store
	mu      sync.Mutex
	entries []wire.Entry // those with sends
	came    chan wire.SendID
	release chan struct{}
}

func (s *watched) Append(ctx context.Context, b *wire.Batch) (wire.Stored, error) {
	s.mu.Lock()
	came, release := s.came, s.release
	s.mu.Unlock()
	for i := range b.Entries {
		e := &b.Entries[i]
		if len(e.Sends) == 0 {
			continue
		}
		s.mu.Lock()
		s.entries = append(s.entries, *e)
		s.mu.Unlock()
		if came != nil {
			select {
			case came <- wire.SendID{Organization: e.Organization, Seq: e.Seq}:
			default:
			}
			<-release
		}
	}
	return s.Store.Append(ctx, b)
}

// hostileWorld has a liar between host and enclave, and a store that is watched.
func hostileWorld(t testing.TB) (*world, *hostile.Proxy, *watched) {
	var p *hostile.Proxy
	w := &world{t: t, dir: t.TempDir()}
	inner, err := sqlite.Open(t.Context(), filepath.Join(w.dir, "cloister.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.rig.Kill(); inner.Close() })
	s := &watched{Store: inner}
	w.store = s
	w.between = func(address string) string {
		if p, err = hostile.NewProxy(address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p.Address()
	}
	w.start()
	return w, p, s
}

// open asks the enclave what a send holds.
func (w *world) open(id wire.SendID) (*wire.Opened, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return w.rig.Link.OpenSend(ctx, id)
}

// TestNothingSignedThatDidNotHappen: whatever the host says of its entries, and
// whichever it asks for, the enclave signs the event of the entry that is there or
// nothing.
func TestNothingSignedThatDidNotHappen(t *testing.T) {
	w, p, s := hostileWorld(t)
	r := w.receiver(nil)
	subscribe(w.User, "One", r.URL)
	for i := range 6 {
		tag(w.User, fmt.Sprint("tag ", i))
	}
	r.until(7)
	s.mu.Lock()
	entries := slices.Clone(s.entries)
	s.mu.Unlock()
	true1, err := w.open(wire.SendID{Organization: entries[1].Organization, Seq: entries[1].Seq})
	if err != nil || true1.Webhook == nil {
		t.Fatalf("%+v, %v", true1, err)
	}
	// Places where nothing was put.
	for _, e := range entries {
		for _, none := range []wire.SendID{
			{Organization: e.Organization, Seq: e.Seq, Number: 1}, {Organization: e.Organization, Seq: e.Seq, Number: 1<<16 - 1}, {Organization: e.Organization, Seq: e.Seq + 1<<20},
			{Organization: wire.ID{1}, Seq: e.Seq}, {Organization: wire.ID(e.Activity), Seq: e.Seq}, {Organization: e.Organization, Seq: 0}, {Organization: e.Organization, Seq: 1<<64 - 1},
		} {
			if o, err := w.open(none); err == nil && (o.Found || o.Webhook != nil) {
				t.Errorf("%v: %+v", none, o)
			}
		}
	}
	// Another entry, or a changed one, where an entry was asked for.
	seqOf := func(question any) (uint64, bool) {
		find, ok := question.(wire.Find)
		if !ok || len(find.Seqs) != 1 {
			return 0, false
		}
		return find.Seqs[0], true
	}
	proven := func(change func(*wire.Proven, uint64) bool) hostile.Lie {
		return func(question, answer any) bool {
			a, ok := answer.(*wire.Proven)
			seq, asked := seqOf(question)
			return ok && asked && len(a.Entries) == 1 && change(a, seq)
		}
	}
	lies := map[string]hostile.Lie{
		"another entry": proven(func(a *wire.Proven, seq uint64) bool {
			for _, e := range entries {
				if e.Seq != seq {
					a.Entries[0].Sealed = e.Sealed
					return true
				}
			}
			return false
		}),
		"another place": proven(func(a *wire.Proven, seq uint64) bool { a.Entries[0].Seq = seq + 1; return true }),
		"none":          proven(func(a *wire.Proven, _ uint64) bool { a.Entries = nil; return true }),
		"twice": proven(func(a *wire.Proven, _ uint64) bool {
			a.Entries = append(a.Entries, a.Entries[0])
			return true
		}),
		"no proof": proven(func(a *wire.Proven, _ uint64) bool { a.Entries[0].Proof = nil; return len(entries) > 0 }),
		"another proof": proven(func(a *wire.Proven, _ uint64) bool {
			a.Entries[0].Proof = append(a.Entries[0].Proof, wire.Hash{1})
			return true
		}),
	}
	for _, at := range []int{0, 5, 40, 50, 100, -1, -20} {
		lies[fmt.Sprint("byte ", at)] = proven(func(a *wire.Proven, _ uint64) bool {
			b := bytes.Clone(a.Entries[0].Sealed)
			b[(at+len(b))%len(b)] ^= 1
			a.Entries[0].Sealed = b
			return true
		})
	}
	refused := 0
	for name, lie := range lies {
		for _, e := range entries {
			id := wire.SendID{Organization: e.Organization, Seq: e.Seq}
			p.Arm(lie)
			o, err := w.open(id)
			told := p.CountChanged()
			p.Disarm()
			if told == 0 {
				t.Errorf("%s: no lie was told", name)
			}
			switch {
			case err == nil && o.Webhook != nil:
				t.Errorf("%s: an event is signed", name)
			default:
				refused++
			}
		}
	}
	t.Logf("%d lies, nothing signed", refused)
	if refused < 50 {
		t.Errorf("%d lies are few", refused)
	}
	// The truth is still told.
	if o, err := w.open(wire.SendID{Organization: entries[1].Organization, Seq: entries[1].Seq}); err != nil || !bytes.Equal(o.Webhook.Body, true1.Webhook.Body) {
		t.Fatalf("%+v, %v", o, err)
	}
}

// TestNothingToldUnstored: an event is not opened before its entry is stored.
func TestNothingToldUnstored(t *testing.T) {
	w, _, s := hostileWorld(t)
	r := w.receiver(nil)
	subscribe(w.User, "One", r.URL)
	r.until(1)
	s.mu.Lock()
	s.came, s.release = make(chan wire.SendID, 1), make(chan struct{})
	s.mu.Unlock()
	done := make(chan string)
	go func() { done <- tag(w.User, "One") }()
	id := <-s.came
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if o, err := w.rig.Link.OpenSend(ctx, id); err == nil {
			t.Errorf("opened before it was stored: %+v", o)
		}
		cancel()
	}
	close(s.release)
	<-done
	r.until(2)
}

// TestEndpointsAtOnce: endpoints of the parent come and go while its
// sub-organizations act. Who is subscribed throughout misses nothing.
func TestEndpointsAtOnce(t *testing.T) {
	w := newWorld(t)
	steady := w.receiver(nil)
	subscribe(w.User, "Steady", steady.URL)
	other := w.receiver(nil)
	var told []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for c := range 3 {
		child := w.NewSubOrganization(fmt.Sprint("child ", c))
		all.Go(func() {
			for i := range 9 {
				act := tag(child, fmt.Sprint("tag ", i))
				mu.Lock()
				told = append(told, act)
				mu.Unlock()
			}
		})
	}
	for i := range 6 {
		id := subscribe(w.User, fmt.Sprint("Other ", i), other.URL)
		w.Do("DELETE_WEBHOOK_ENDPOINT", object{"endpointId": id})
	}
	all.Wait()
	received := map[string]bool{}
	for _, e := range steady.until(1 + 3 + 27 + 12) {
		received[e.activity] = true
	}
	for _, id := range told {
		if !received[id] {
			t.Errorf("activity %s was not heard of", id)
		}
	}
}
