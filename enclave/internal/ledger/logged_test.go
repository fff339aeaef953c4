package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// shown verifies a logged proof as whoever is given its text does.
func shown(t testing.TB, v *ledger.View, seq uint64, w *ledger.Terms) *tlog.Logged {
	t.Helper()
	p, key, err := v.LogProof(ctx(t), seq)
	if err != nil {
		t.Fatalf("entry %d: %v", seq, err)
	}
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	read, err := tlog.ParseLoggedProof(text)
	if err != nil {
		t.Fatal(err)
	}
	logged, err := read.Verify(key, w.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if logged.Facts.Seq != seq || logged.Facts.Mode != w.Mode || len(logged.Signed) != 3 {
		t.Errorf("entry %d: %+v, signed by %d", seq, logged.Facts, len(logged.Signed))
	}
	return logged
}

// codeOf is the stable code of an error.
func codeOf(err error) string {
	if f := fault.Of(err); f != nil {
		return f.Name
	}
	return fmt.Sprint(err)
}

// Whatever was decided is shown in the log, by the boot that decided and by later ones, also where a batch
// moved many organizations.
func TestLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []tlog.Mode{tlog.ModeStrict, tlog.ModeBounded} {
			w, all := terms(t, mode)
			s, r := serving(t, w, all)
			for o := range 5 {
				r.found(orgID(o))
			}
			for i := 1; i <= 10; i++ {
				var last uint64
				for o := range 5 { // most into one batch
					n, err := r.step(orgID(o), &org.Entry{Activity: itemID(i), Type: "T", Status: org.StatusCompleted, Result: fmt.Appendf(nil, "%d of %d", i, o), TimeMs: uint64(i)}, nil)
					if err != nil {
						t.Fatal(err)
					}
					last = n
				}
				if err := r.l.Wait(ctx(t), last); err != nil {
					t.Fatal(err)
				}
			}
			for boot := range 2 {
				deepest := 0
				for o := range 5 {
					view := r.view(orgID(o))
					for seq := range uint64(11) {
						logged := shown(t, view, seq, w)
						deepest = max(deepest, len(logged.Opening.Path))
						if f := logged.Facts; f.Organization != orgID(o) || logged.Leaf.Boot == [16]byte{} || seq > 0 && (f.Activity != itemID(int(seq)) || f.Type != "T" ||
							f.Status != "ACTIVITY_STATUS_COMPLETED" || f.Result != sha256.Sum256(fmt.Appendf(nil, "%d of %d", seq, o))) {
							t.Errorf("entry %d of %d: %+v", seq, o, f)
						}
					}
				}
				if deepest == 0 {
					t.Error("no batch moved more than one organization")
				}
				r.quiet()
				if boot == 0 {
					must(t, r.l.Release(ctx(t)))
					r = start(t, s, witnessed(w))
				}
			}
		}
	})
}

// A host that tells another way is not believed.
func TestLoggedLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeBounded)
		w.Bound, w.Serve = time.Minute, time.Minute
		s, r := serving(t, w, all)
		id, other := orgID(1), orgID(2)
		r.found(id)
		r.found(other)
		for i := range 4 {
			r.user(id, i, "x")
			r.user(other, i, "y")
		}
		view := r.view(id)
		seq := uint64(2)
		honest := map[wire.ID]map[uint64]wire.Logged{wid(id): {}, wid(other): {}}
		if err := r.l.Wait(ctx(t), view.Batch()); err != nil {
			t.Fatal(err)
		}
		size := uint64(0)
		s.lie(hooks{logged: func(q wire.ProveLogged, got wire.Logged) (wire.Logged, error) { size = q.Size; return got, nil }})
		shown(t, view, seq, w)
		// Another log, of a range beside it, has the organization too.
		beside := newStore()
		beside.witnesses = all
		foreign := start(t, beside, func(c *ledger.Config) { witnessed(w)(c); c.Deployment = sha256.Sum256([]byte("another")) })
		known(t, foreign, all)
		foreign.found(id)
		for i := range 4 {
			foreign.user(id, i, "x")
		}
		elsewhere, _ := beside.ProveLogged(ctx(t), wire.ProveLogged{Generation: 1, Organization: wid(id), Seq: seq, Size: uint64(len(beside.batches))})
		for _, o := range []wire.ID{wid(id), wid(other)} {
			for i := range uint64(5) {
				honest[o][i], _ = s.ProveLogged(ctx(t), wire.ProveLogged{Generation: 1, Organization: o, Seq: i, Size: size})
			}
		}
		// A batch that the witnesses have not seen yet.
		leaveAll(all, true)
		r.user(id, 5, "later")
		s.mu.Lock()
		later := s.loggedLocked(wire.ProveLogged{Generation: 1, Organization: wid(id), Seq: 5, Size: uint64(len(s.batches))})
		s.mu.Unlock()
		if len(later.Header) == 0 || len(elsewhere.Header) == 0 || len(honest[wid(id)][seq].Header) == 0 {
			t.Fatal("the lies are none")
		}
		header := func(b []byte) func(*wire.Logged) { return func(got *wire.Logged) { got.Header = bytes.Clone(b) } }
		lies := map[string]func(*wire.Logged){
			"another log's":                      func(got *wire.Logged) { *got = elsewhere },
			"another log's header":               header(elsewhere.Header),
			"another organization's batch":       func(got *wire.Logged) { *got = honest[wid(other)][seq] },
			"the batch before":                   func(got *wire.Logged) { *got = honest[wid(id)][seq-1] },
			"the header of the batch behind":     header(honest[wid(id)][seq+1].Header),
			"a batch behind the checkpoint":      func(got *wire.Logged) { *got = later },
			"a header cut":                       func(got *wire.Logged) { got.Header = got.Header[:len(got.Header)-1] },
			"a short header":                     func(got *wire.Logged) { got.Header = got.Header[:31] },
			"a header with something behind":     func(got *wire.Logged) { got.Header = append(bytes.Clone(got.Header), 0) },
			"no path":                            func(got *wire.Logged) { got.Path = nil },
			"half a path":                        func(got *wire.Logged) { got.Path = got.Path[1:] },
			"a path and more":                    func(got *wire.Logged) { got.Path = append(slices.Clone(got.Path), wire.Hash{}) },
			"another leaf's path":                func(got *wire.Logged) { got.Path = honest[wid(id)][seq+1].Path },
			"a path without end":                 func(got *wire.Logged) { got.Path = make([]wire.Hash, 1000) },
			"a hash of the path with a flip":     func(got *wire.Logged) { got.Path = slices.Clone(got.Path); got.Path[1][7] ^= 1 },
			"a batch of the organization before": func(got *wire.Logged) { *got = honest[wid(id)][0] },
		}
		for at := 0; at < len(honest[wid(id)][seq].Header); at += 5 {
			lies[fmt.Sprint("a header with a flip at ", at)] = func(got *wire.Logged) { got.Header = bytes.Clone(got.Header); got.Header[at] ^= 1 }
		}
		for name, lie := range lies {
			before := r.alarms.Counts()
			s.lie(hooks{logged: func(q wire.ProveLogged, got wire.Logged) (wire.Logged, error) { lie(&got); return got, nil }})
			p, _, err := view.LogProof(ctx(t), seq)
			if err := r.breached(err, fault.AlarmLog, before); err != nil || p != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, lie := range map[string]struct {
			alarm fault.Alarm
			tell  func(*wire.Proven)
		}{
			"withheld":         {fault.AlarmIndex, func(p *wire.Proven) { p.Entries = nil }},
			"the one before":   {fault.AlarmIndex, func(p *wire.Proven) { p.Entries[0].Seq-- }},
			"a flip":           {fault.AlarmInclusion, func(p *wire.Proven) { p.Entries[0].Sealed[100] ^= 1 }},
			"a flip in front":  {fault.AlarmInclusion, func(p *wire.Proven) { p.Entries[0].Sealed[40] ^= 1 }},
			"another proof":    {fault.AlarmInclusion, func(p *wire.Proven) { p.Entries[0].Proof[0][3] ^= 1 }},
			"of a larger tree": {fault.AlarmInclusion, func(p *wire.Proven) { p.Entries[0].Proof = append(p.Entries[0].Proof, wire.Hash{}) }},
		} {
			before := r.alarms.Counts()
			s.lie(hooks{proven: func(_ wire.Find, got wire.Proven) (wire.Proven, error) { lie.tell(&got); return got, nil }})
			_, _, err := view.LogProof(ctx(t), seq)
			if err := r.breached(err, lie.alarm, before); err != nil {
				t.Errorf("an entry %s: %v", name, err)
			}
		}
		// No answer is no lie.
		s.lie(hooks{logged: func(wire.ProveLogged, wire.Logged) (wire.Logged, error) {
			return wire.Logged{}, context.DeadlineExceeded
		}})
		if _, _, err := view.LogProof(ctx(t), seq); fault.Of(err) != ledger.ErrBusy {
			t.Errorf("without an answer: %v", err)
		}
		s.lie(hooks{})
		shown(t, view, seq, w)
		// What the witnesses have not seen has no proof, for as long as the caller waits.
		if _, _, err := r.view(id).LogProof(soon(t, 50*time.Millisecond), 5); !errors.Is(err, ledger.ErrLog) {
			t.Errorf("without a quorum: %v", err)
		}
		leaveAll(all, false)
		shown(t, r.view(id), 5, w)
		s.lie(hooks{logged: func(wire.ProveLogged, wire.Logged) (wire.Logged, error) { return wire.Logged{}, nil }})
		if _, _, err := view.LogProof(ctx(t), seq); codeOf(err) != "LOG_EARLIER" {
			t.Errorf("without a batch: %v", err)
		}
	})
}

func TestLoggedWithoutWitnesses(t *testing.T) {
	r := start(t, newStore(), nil)
	r.found(orgID(1))
	if _, _, err := r.view(orgID(1)).LogProof(ctx(t), 0); codeOf(err) != "LOG_NOT_WITNESSED" {
		t.Error(err)
	}
	r.quiet()
}

// Entries from before there were commitments say so, and those behind them are shown.
func TestLoggedFormats(t *testing.T) {
	w, all := terms(t, tlog.ModeStrict)
	s := newScribe(t, orgID(1))
	s.first()
	s.second()
	s.first()
	m := newStore()
	m.witnesses = all
	o := m.of(wid(s.id))
	o.entries, o.keys = slices.Clone(s.stored), []wire.WrappedKey{s.wrapped}
	r := start(t, m, func(c *ledger.Config) { witnessed(w)(c); nobody(c) })
	known(t, r, all)
	if p, key, err := r.view(s.id).LogProof(ctx(t), 1); err != nil {
		t.Errorf("from before there was a log: %v", err)
	} else if logged, err := p.Verify(key, w.Policy); err != nil || logged.Facts.Seq != 1 || logged.Opening.Count != 3 {
		t.Errorf("from before there was a log: %+v, %v", logged, err)
	}
	r.user(s.id, 3, "user 3")
	view := r.view(s.id)
	for _, seq := range []uint64{0, 2} {
		if _, _, err := view.LogProof(ctx(t), seq); codeOf(err) != "LOG_NO_COMMITMENT" {
			t.Errorf("entry %d of the first format: %v", seq, err)
		}
	}
	shown(t, view, 3, w)
	p, key, err := view.LogProof(ctx(t), 1) // decided without witnesses, and in the log since
	if err != nil {
		t.Fatal(err)
	}
	if logged, err := p.Verify(key, w.Policy); err != nil || logged.Facts.Mode != tlog.ModeNone || logged.Opening.Count != 4 {
		t.Errorf("%+v, %v", logged, err)
	}
	r.quiet()
}

// A log that goes on in another generation shows what was decided in it, and of what came before what the organizations
// that have decided something since have.
func TestLoggedGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChange(t)
		s, r := c.served(t)
		shown(t, r.view(orgID(1)), 1, c.left)
		key, err := r.l.NextLogKey(c.next.Name)
		must(t, err)
		must(t, r.l.CloseForWrites(ctx(t)))
		for _, w := range c.joining {
			must(t, w.Add(key))
		}
		next := wire.ID{77}
		past, err := r.l.SealForHandover(ctx(t), org.ID(next))
		must(t, err)
		head := past.Head()
		second := start(t, s, func(cfg *ledger.Config) { c.under(cfg); cfg.Boot, cfg.HandedHead = next, &head })
		// Of one that has decided nothing since the log says again where it stands, once, and beside its entries nothing changes.
		size := func() uint64 { return second.l.Stats()["log_size"] }
		began := size()
		for range 2 {
			for seq := range uint64(2) {
				if logged := shown(t, second.view(orgID(1)), seq, c.next); logged.Adopt == nil || logged.Opening.Count != 2 || logged.Leaf.Boot != next || logged.Index < 2 {
					t.Errorf("entry %d: %+v", seq, logged)
				}
			}
		}
		if grown := size() - began; grown > 1 {
			t.Errorf("%d batches for it", grown)
		}
		var theirs wire.Logged
		s.lie(hooks{logged: func(q wire.ProveLogged, got wire.Logged) (wire.Logged, error) { theirs = got; return got, nil }})
		shown(t, second.view(orgID(2)), 0, c.next)
		if tip := second.tip(orgID(1)); tip.Count != 2 {
			t.Errorf("it has %d entries", tip.Count)
		}
		s.lie(hooks{logged: func(q wire.ProveLogged, got wire.Logged) (wire.Logged, error) {
			if len(q.Header) == 0 {
				return wire.Logged{}, nil
			}
			return theirs, nil
		}})
		before := second.alarms.Counts()
		_, _, err = second.view(orgID(1)).LogProof(ctx(t), 1)
		if err := second.breached(err, fault.AlarmLog, before); err != nil {
			t.Errorf("another organization's batch: %v", err)
		}
		s.lie(hooks{})
		second.user(orgID(1), 2, "after")
		for seq := range uint64(3) {
			logged := shown(t, second.view(orgID(1)), seq, c.next)
			if logged.Adopt == nil || logged.Adopt.How != tlog.HowMoved || logged.Origin.Generation != 2 {
				t.Errorf("entry %d: %+v", seq, logged)
			}
		}
		for name, lie := range map[string]func(*wire.Logged){
			"no first leaf":         func(got *wire.Logged) { got.First, got.FirstPath = nil, nil },
			"another first leaf":    func(got *wire.Logged) { got.First, got.FirstPath = got.Header[:80], got.Path },
			"no path of the first":  func(got *wire.Logged) { got.FirstPath = nil },
			"another path for it":   func(got *wire.Logged) { got.FirstPath = got.Path },
			"the first with a flip": func(got *wire.Logged) { got.First = bytes.Clone(got.First); got.First[len(got.First)-1] ^= 1 },
		} {
			before := second.alarms.Counts()
			s.lie(hooks{logged: func(_ wire.ProveLogged, got wire.Logged) (wire.Logged, error) { lie(&got); return got, nil }})
			_, _, err := second.view(orgID(1)).LogProof(ctx(t), 2)
			if err := second.breached(err, fault.AlarmLog, before); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
