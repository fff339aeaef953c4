package ledger_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// spend appends an entry that spends from a window.
func (r *rig) spend(id org.ID, n int) (batch uint64) {
	r.t.Helper()
	batch, err := r.step(id, &org.Entry{Activity: itemID(n), Type: "T", Status: org.StatusCompleted, TimeMs: uint64(n)}, func(tx *org.Tx) error {
		return tx.PutGasSpend(itemID(n), &org.GasSpend{Organization: id, Micro: 1})
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return batch
}

// spendWaits reports whether replies about an organization wait for a quorum because of a spend.
func (r *rig) spendWaits(id org.ID) (waits bool) {
	r.t.Helper()
	if err := r.l.TransactOne(ctx(r.t), id, func(t *ledger.Locked) error { waits = t.SpendAwaitsQuorum(); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return waits
}

// In bounded mode a reply to what spends from a window waits for a quorum, as does every later one about the organization.
// Replies about others do not.
func TestSpendsAwaitQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeBounded)
		w.Serve, w.Bound = time.Minute, time.Minute
		_, r := serving(t, w, all)
		r.found(orgID(1))
		r.found(orgID(2))
		leaveAll(all, true)
		ordinary, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil)
		if err == nil {
			err = r.l.Wait(ctx(t), ordinary)
		}
		if err != nil || r.spendWaits(orgID(1)) {
			t.Fatalf("an ordinary entry waits: %v", err)
		}
		spent := r.spend(orgID(1), 1)
		later, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil)
		if err == nil {
			err = r.l.Wait(ctx(t), later) // stored, and within the bound
		}
		if err != nil {
			t.Fatal(err)
		}
		if !r.spendWaits(orgID(1)) {
			t.Error("replies about who has spent do not wait")
		}
		if r.spendWaits(orgID(2)) {
			t.Error("replies about another organization wait")
		}
		if err := r.l.AwaitQuorum(soon(t, time.Second), spent); !errors.Is(err, ledger.ErrLog) {
			t.Errorf("released without witnesses: %v", err)
		}
		leaveAll(all, false)
		if err := r.l.AwaitQuorum(ctx(t), spent); err != nil {
			t.Fatal(err)
		}
		if r.spendWaits(orgID(1)) {
			t.Error("replies wait although the spend has a quorum")
		}
		// The facts say what the reply waited for.
		view := r.view(orgID(1))
		for seq, want := range map[uint64]tlog.Mode{1: tlog.ModeBounded, 2: tlog.ModeStrict, 3: tlog.ModeBounded} {
			p, key, err := view.LogProof(ctx(t), seq)
			if err != nil {
				t.Fatal(err)
			}
			if logged, err := p.Verify(key, w.Policy); err != nil || logged.Facts.Mode != want {
				t.Errorf("entry %d: %v, %v, want %v", seq, logged.Facts.Mode, err, want)
			}
		}
		r.quiet()
	})
}

// Both organizations of a transaction wait: the one that pays has the spend, the other one what was signed.
func TestSpendOfParentAwaitsQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeBounded)
		_, r := serving(t, w, all)
		parent, child := orgID(1), orgID(2)
		r.found(parent)
		c := r.child(child, parent)
		n, err := r.l.Create(c, &org.Entry{TimeMs: 1}, c.Tx())
		if err == nil {
			err = r.l.Wait(ctx(t), n)
		}
		if err != nil {
			t.Fatal(err)
		}
		leaveAll(all, true)
		err = r.l.Transact(ctx(t), child, ledger.Caller{Organization: child}, func(t, above *ledger.Locked) error {
			if above == nil {
				return &org.Retry{LockParent: true}
			}
			pays := above.Begin(1)
			if err := pays.PutGasSpend(itemID(1), &org.GasSpend{Organization: child, Micro: 1}); err != nil {
				return err
			}
			var err error
			n, err = t.Append(&org.Entry{TimeMs: 1}, t.Begin(1), ledger.Addition{Locked: above, Tx: pays, Entry: &org.Entry{TimeMs: 1}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []org.ID{parent, child} {
			if !r.spendWaits(id) {
				t.Errorf("replies about organization %v do not wait", id)
			}
		}
		leaveAll(all, false)
		// What is only deleted was spent before.
		err = r.l.AwaitQuorum(ctx(t), n)
		leaveAll(all, true)
		if err == nil {
			_, err = r.step(parent, &org.Entry{TimeMs: 1}, func(tx *org.Tx) error {
				tx.NowMs += 2 * org.MaxWindowMinutes * 60 * 1000
				return tx.ForgetGasSpends(10)
			})
		}
		if err != nil || r.spendWaits(parent) {
			t.Errorf("replies wait because old spends were deleted: %v", err)
		}
		r.quiet()
	})
}

// A host that shows an old store after a crash wins nothing back: what it lost with the store was never released, or is
// not lost.
func TestSpendsAreNotWonBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeBounded)
		s, r := serving(t, w, all)
		r.found(orgID(1))
		r.user(orgID(1), 1, "before")
		if err := r.l.AwaitQuorum(ctx(t), r.view(orgID(1)).Batch()); err != nil {
			t.Fatal(err)
		}
		before := s.copy().witnessedBy(all)
		leaveAll(all, true)
		spent := r.spend(orgID(1), 2)
		if err := r.l.Wait(ctx(t), spent); err != nil { // it is stored, and ordinary replies leave
			t.Fatal(err)
		}
		if err := r.l.AwaitQuorum(soon(t, 100*time.Millisecond), spent); err == nil {
			t.Fatal("a spend that can be lost is released")
		}
		r.l.Close()
		leaveAll(all, false)
		// The crash lost it: it is spent no more, and was never shown.
		b := start(t, before.copy().witnessedBy(all), witnessed(w))
		if err := b.l.Serving(ctx(t)); err != nil {
			t.Fatal(err)
		}
		// With a quorum it is released, and the old store is served no more.
		spent = b.spend(orgID(1), 2)
		if err := b.l.AwaitQuorum(ctx(t), spent); err != nil {
			t.Fatal(err)
		}
		b.quiet()
		b.l.Close()
		if err := start(t, before, witnessed(w)).l.Serving(soon(t, 4*w.Serve)); err == nil {
			t.Error("a store without a released spend is served")
		}
	})
}

// Without witnesses nothing waits: what is promised holds since boot.
func TestSpendsWithoutWitnesses(t *testing.T) {
	r := start(t, newStore(), nil)
	r.found(orgID(1))
	if err := r.l.AwaitQuorum(ctx(t), r.spend(orgID(1), 1)); err != nil || r.spendWaits(orgID(1)) {
		t.Error(err)
	}
}
