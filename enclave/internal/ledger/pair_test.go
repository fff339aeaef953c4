package ledger_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// both is one step over a child and its parent: two entries of the child, one of
// the parent.
func (r *rig) both(parentID, child org.ID, n int) error {
	var batch uint64
	err := r.l.Pair(ctx(r.t), parentID, child, func(t, parent *ledger.Locked) error {
		tx, up := org.Begin(child, t.State, 1), org.Begin(parentID, parent.State, 1)
		if err := tx.PutUser(&org.User{ID: itemID(n), Name: fmt.Sprint("child ", n)}); err != nil {
			return err
		}
		if err := up.PutUser(&org.User{ID: itemID(n), Name: fmt.Sprint("parent ", n)}); err != nil {
			return err
		}
		var err error
		batch, err = t.Append(&org.Entry{Activity: itemID(1000 + n)}, nil,
			ledger.Addition{Entry: &org.Entry{Activity: itemID(2000 + n)}, Tx: tx},
			ledger.Addition{Locked: parent, Tx: up, Entry: &org.Entry{Other: child}})
		return err
	})
	if err != nil {
		return err
	}
	return r.l.Wait(ctx(r.t), batch)
}

func TestPairIsOneStep(t *testing.T) {
	s := newStore()
	r := start(t, s, every(4))
	r.found(orgID(0))
	r.found(orgID(1))
	for n := range 30 {
		if err := r.both(orgID(0), orgID(1), n); err != nil {
			t.Fatal(err)
		}
	}
	r.quiet()
	for id, want := range map[org.ID]uint64{orgID(0): 31, orgID(1): 61} {
		s.mu.Lock()
		root := rootOf(leaves(s.of(wid(id)).entries))
		s.mu.Unlock()
		if tip := r.tip(id); tip.Count != want || tip.Root != root {
			t.Fatalf("%d entries, want %d; the root is that of what is stored: %v", tip.Count, want, tip.Root == root)
		}
	}
	// Each of the pair's batches holds all three entries or none.
	r.l.Close()
	r = start(t, s, nil)
	for n := range 30 {
		r.mustRead(orgID(0), n, fmt.Sprint("parent ", n))
		r.mustRead(orgID(1), n, fmt.Sprint("child ", n))
	}
}

func TestPairRefused(t *testing.T) {
	r := start(t, newStore(), nil)
	r.found(orgID(0))
	r.found(orgID(1))
	no := errors.New("no")
	never := func(t, parent *ledger.Locked) error { return no }
	if err := r.l.Pair(ctx(t), orgID(0), orgID(0), never); err == nil || errors.Is(err, no) {
		t.Error("an organization beside itself:", err)
	}
	for _, ids := range [][2]org.ID{{orgID(7), orgID(1)}, {orgID(0), orgID(7)}} {
		if err := r.l.Pair(ctx(t), ids[0], ids[1], never); !errors.Is(err, ledger.ErrNoOrganization) {
			t.Error(err)
		}
	}
	before := [2]ledger.Tip{r.tip(orgID(0)), r.tip(orgID(1))}
	if err := r.l.Pair(ctx(t), orgID(0), orgID(1), never); !errors.Is(err, no) {
		t.Error(err)
	}
	// What cannot be sealed leaves all of them as they were.
	err := r.l.Pair(ctx(t), orgID(0), orgID(1), func(t, parent *ledger.Locked) error {
		tx := org.Begin(orgID(0), parent.State, 1)
		if err := tx.PutUser(&org.User{ID: itemID(1), Name: string(make([]byte, org.MaxValue))}); err != nil {
			return err
		}
		_, err := t.Append(&org.Entry{}, nil, ledger.Addition{Entry: &org.Entry{}}, ledger.Addition{Locked: parent, Tx: tx, Entry: &org.Entry{}})
		return err
	})
	if err == nil || [2]ledger.Tip{r.tip(orgID(0)), r.tip(orgID(1))} != before {
		t.Error("a part of a step was taken:", err)
	}
}

func TestPairsAndTurnsAtOnce(t *testing.T) {
	s := newStore()
	r := start(t, s, every(16))
	for i := range 4 {
		r.found(orgID(i))
	}
	var wg sync.WaitGroup
	bad := make(chan error, 64)
	for g := range 6 {
		wg.Go(func() {
			for n := range 20 {
				var err error
				if g%2 == 0 {
					err = r.both(orgID(0), orgID(1+g/2), 100*g+n)
				} else {
					_, err = r.step(orgID(g%4), &org.Entry{}, func(tx *org.Tx) error {
						return tx.PutUser(&org.User{ID: itemID(100*g + n), Name: "x"})
					})
				}
				if err != nil {
					bad <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(bad)
	for err := range bad {
		t.Error(err)
	}
	r.quiet()
	var total uint64
	for i := range 4 {
		total += r.tip(orgID(i)).Count
	}
	if want := uint64(4 + 3*20*3 + 3*20); total != want {
		t.Fatalf("%d entries, want %d", total, want)
	}
}

// A fingerprint that a child's step notes in its parent is known there as one of the parent's own: after a restart, until the floor
// drops it, and while the parent's window has room.
func TestPairNotes(t *testing.T) {
	s := newStore()
	set := func(c *ledger.Config) {
		c.Limits.DedupEntries = 20
		c.Limits.SnapshotEvery = 4
	}
	r := start(t, s, set)
	r.found(orgID(0))
	r.found(orgID(1))
	r.found(orgID(2))
	note := func(child org.ID, n int, now uint64) error {
		fp := sha256.Sum256(fmt.Append(nil, n))
		var batch uint64
		err := r.l.Pair(ctx(t), orgID(0), child, func(t, parent *ledger.Locked) (err error) {
			batch, err = t.Append(&org.Entry{Activity: itemID(n), Fingerprint: fp, StampedMs: now, TimeMs: now}, nil,
				ledger.Addition{Locked: parent, Entry: &org.Entry{Fingerprint: fp, StampedMs: now, TimeMs: now, Other: child}})
			return err
		})
		if err != nil {
			return err
		}
		return r.l.Wait(ctx(t), batch) // what is not stored may be lost at Close
	}
	now := uint64(1_700_000_000_000)
	for n := range 20 {
		if err := note(orgID(1), n, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := note(orgID(2), 99, now); !errors.Is(err, ledger.ErrDedupFull) {
		t.Errorf("over the parent's bound: %v", err)
	}
	for _, id := range []org.ID{orgID(0), orgID(2)} {
		if _, ok, _ := r.known(id, 99); ok {
			t.Error("what was refused is known in", id)
		}
	}
	r.quiet()
	r.l.Close()
	r = start(t, s, set)
	for n := range 20 {
		if seq, ok, _ := r.known(orgID(0), n); !ok || seq != uint64(n+1) {
			t.Errorf("body %d: %d %v", n, seq, ok)
		}
	}
	if err := note(orgID(2), 101, now+2*hour); err != nil {
		t.Fatalf("full for good: %v", err)
	}
	if _, ok, floor := r.known(orgID(0), 0); ok || floor < now {
		t.Errorf("an old note is there, and the floor at %d", floor)
	}
	r.quiet()
}
