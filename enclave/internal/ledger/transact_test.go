package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// family is a top-level organization 0 and 1 below it, each with records that are
// stored and no longer in memory, and two others.
func family(t *testing.T) *rig {
	s := newStore()
	r := start(t, s, every(4))
	r.found(orgID(0))
	c := r.child(orgID(1), orgID(0))
	n, err := r.l.Create(c, &org.Entry{TimeMs: 1}, c.Tx())
	if err == nil {
		err = r.l.Wait(ctx(t), n)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.found(orgID(2))
	r.found(orgID(3))
	for i := range 4 {
		for n := range 8 {
			batch, err := r.step(orgID(i), &org.Entry{}, func(tx *org.Tx) error {
				return tx.PutChild(&org.Child{ID: itemID(n), CreatedMs: 1})
			})
			if err == nil {
				err = r.l.Wait(ctx(t), batch)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// A snapshot may come late. When it covers the children, what is replayed behind it needs no piece of theirs.
	for i := range 4 {
		children := r.tip(orgID(i)).Count
		for n, covered := 0, uint64(0); covered < children; n++ {
			r.user(orgID(i), n%8, "x")
			s.mu.Lock()
			covered = s.of(wid(orgID(i))).covers
			s.mu.Unlock()
		}
	}
	r.quiet()
	r.l.Close()
	return start(t, s, every(4))
}

// retryFor are steps' ways of lacking something, one for each member of org.Retry. has tells
// whether the step has it by now.
var retryFor = map[string]func(r *rig, fetched *int) (id org.ID, err func(t, parent *ledger.Locked) error){
	"a piece": func(*rig, *int) (org.ID, func(t, parent *ledger.Locked) error) {
		return orgID(2), func(t, _ *ledger.Locked) error {
			_, err := org.Begin(t.ID(), t.State, 1).Child(itemID(3))
			return err
		}
	},
	"the parent": func(*rig, *int) (org.ID, func(t, parent *ledger.Locked) error) {
		return orgID(1), func(_, parent *ledger.Locked) error {
			if parent == nil {
				return &org.Retry{LockParent: true}
			}
			return nil
		}
	},
	"a piece of the parent": func(*rig, *int) (org.ID, func(t, parent *ledger.Locked) error) {
		return orgID(1), func(_, parent *ledger.Locked) error {
			if parent == nil {
				return fmt.Errorf("wrapped: %w", &org.Retry{LockParent: true})
			}
			_, err := org.Begin(parent.ID(), parent.State, 1).Child(itemID(3))
			return err
		}
	},
	"another organization": func(*rig, *int) (org.ID, func(t, parent *ledger.Locked) error) {
		return orgID(2), func(t, _ *ledger.Locked) error {
			if t.ID() != orgID(3) {
				return &org.Retry{Redirect: orgID(3)}
			}
			return nil
		}
	},
	"something fetched": func(r *rig, fetched *int) (org.ID, func(t, parent *ledger.Locked) error) {
		return orgID(2), func(t, _ *ledger.Locked) error {
			if *fetched > 0 {
				return nil
			}
			return &org.Retry{Prefetch: func(context.Context) error { // no turn is held
				*fetched++
				r.tip(orgID(2))
				return nil
			}}
		}
	},
}

// A step that is run again has written nothing by then, and takes effect once.
func TestStepRunAgain(t *testing.T) {
	for name, lack := range retryFor {
		r := family(t)
		fetched, runs := 0, 0
		id, needs := lack(r, &fetched)
		before := map[org.ID]ledger.Tip{}
		for i := range 4 {
			before[orgID(i)] = r.tip(orgID(i))
		}
		var at org.ID
		var batch uint64
		err := r.l.Transact(ctx(t), id, ledger.Caller{Organization: id}, func(t, parent *ledger.Locked) error {
			runs++
			for _, x := range []*ledger.Locked{t, parent} {
				if x == nil {
					continue
				}
				if x.Tip() != before[x.ID()] {
					return fmt.Errorf("run %d finds an entry", runs)
				}
				if u, err := org.Begin(x.ID(), x.State, 1).User(itemID(100)); u != nil || err != nil {
					return fmt.Errorf("run %d finds a record: %v", runs, err)
				}
			}
			at = t.ID()
			tx := org.Begin(at, t.State, 1)
			if err := tx.PutUser(&org.User{ID: itemID(100), Name: fmt.Sprint("run ", runs)}); err != nil {
				return err
			}
			c, err := t.Ledger().NewChild(orgID(200), 1)
			if err != nil {
				return err
			}
			if err := needs(t, parent); err != nil {
				return err
			}
			if err := c.Tx().PutOrganization(&org.Organization{ID: orgID(200), Parent: at}); err != nil {
				return err
			}
			batch, err = t.Append(&org.Entry{}, tx, ledger.Addition{Child: c, Tx: c.Tx(), Entry: &org.Entry{}})
			return err
		})
		if err != nil || runs < 2 {
			t.Fatalf("%s: %d runs, %v", name, runs, err)
		}
		if err := r.l.Wait(ctx(t), batch); err != nil {
			t.Fatal(err)
		}
		r.mustRead(at, 100, fmt.Sprint("run ", runs))
		if n := r.tip(orgID(200)).Count; n != 1 {
			t.Errorf("%s: a child of %d entries", name, n)
		}
		for i := range 4 {
			want := before[orgID(i)].Count
			if orgID(i) == at {
				want++
			}
			if got := r.tip(orgID(i)).Count; got != want {
				t.Errorf("%s: organization %d has %d entries, want %d", name, i, got, want)
			}
		}
	}
}

// What is decided is not decided again, whatever a step says that it lacks.
func TestDecidedStepIsNotRunAgain(t *testing.T) {
	for name, missing := range map[string]*org.Retry{
		"a piece": {}, "the parent": {LockParent: true}, "another organization": {Redirect: orgID(2)}, "something fetched": {Prefetch: func(context.Context) error { return nil }},
	} {
		r := family(t)
		before, runs := r.tip(orgID(1)), 0
		err := r.l.Transact(ctx(t), orgID(1), ledger.Caller{Organization: orgID(1)}, func(t, _ *ledger.Locked) error {
			runs++
			if _, err := t.Append(&org.Entry{}, nil); err != nil {
				return err
			}
			return missing
		})
		if err == nil || errors.As(err, new(*org.Retry)) || runs != 1 || r.tip(orgID(1)).Count != before.Count+1 {
			t.Errorf("%s: %d runs, %v", name, runs, err)
		}
	}
}

// Nobody keeps a step going: not who answers it, nor who takes away what it was given.
func TestStepIsRunSoOften(t *testing.T) {
	r := family(t)
	for name, c := range map[string]struct {
		lack func(t *ledger.Locked) error
		runs int
	}{
		"answers that are out of date at once": {func(*ledger.Locked) error {
			return &org.Retry{Prefetch: func(context.Context) error { return nil }}
		}, 32},
		"two organizations that send it to each other": {func(t *ledger.Locked) error {
			if t.ID() == orgID(2) {
				return &org.Retry{Redirect: orgID(3)}
			}
			return &org.Retry{Redirect: orgID(2)}
		}, 1000},
		"pieces that leave memory at once": {func(t *ledger.Locked) error {
			t.State.DropLoaded()
			_, err := org.Begin(t.ID(), t.State, 1).Child(itemID(3))
			return err
		}, 1000},
	} {
		runs := 0
		err := r.l.Transact(ctx(t), orgID(2), ledger.Caller{Organization: orgID(2)}, func(t, _ *ledger.Locked) error { runs++; return c.lack(t) })
		if f := fault.Of(err); !errors.Is(err, ledger.ErrRestarts) || f.Code != fault.Unavailable || f.Name != "RESTARTED_TOO_OFTEN" || runs != c.runs {
			t.Errorf("%s: %d runs, %v", name, runs, err)
		}
	}
	for name, missing := range map[string]*org.Retry{"a parent that there is not": {LockParent: true}, "an organization that there is not": {Redirect: orgID(9)}} {
		runs := 0
		err := r.l.Transact(ctx(t), orgID(2), ledger.Caller{Organization: orgID(2)}, func(*ledger.Locked, *ledger.Locked) error { runs++; return missing })
		if err == nil || errors.As(err, new(*org.Retry)) || runs != 1 {
			t.Errorf("%s: %d runs, %v", name, runs, err)
		}
	}
	runs := 0
	err := r.l.Transact(ctx(t), orgID(1), ledger.Caller{Organization: orgID(1)}, func(*ledger.Locked, *ledger.Locked) error { runs++; return &org.Retry{LockParent: true} })
	if err == nil || errors.As(err, new(*org.Retry)) || runs != 2 {
		t.Errorf("a parent that the step has: %d runs, %v", runs, err)
	}
	no := errors.New("no")
	err = r.l.Transact(ctx(t), orgID(2), ledger.Caller{Organization: orgID(2)}, func(*ledger.Locked, *ledger.Locked) error {
		return &org.Retry{Prefetch: func(context.Context) error { return no }}
	})
	if !errors.Is(err, no) {
		t.Error("what cannot be fetched:", err)
	}
}
