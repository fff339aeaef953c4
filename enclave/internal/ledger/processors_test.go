package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// stepClock is moved by the steps that compute.
type stepClock struct{ at atomic.Int64 }

// on is a boot whose steps compute on so many processors.
func (c *stepClock) on(t *testing.T, n int) (*rig, *fairqueue.Queue) {
	q := fairqueue.New(fairqueue.Config{Slots: n, Elapsed: func() time.Duration { return time.Duration(c.at.Load()) }})
	return start(t, newStore(), func(cfg *ledger.Config) { cfg.Processors, cfg.Clock = q, newFakeClock() }), q
}

// However a step ends, the next one computes.
func TestProcessorsComeBack(t *testing.T) {
	var c stepClock
	r, q := c.on(t, 1)
	r.found(orgID(0))
	child := r.child(orgID(1), orgID(0))
	if _, err := r.l.Create(child, &org.Entry{TimeMs: 1}, child.Tx()); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		step func(tu, parent *ledger.Locked) error
		want error
	}{
		"a success":      {func(_, _ *ledger.Locked) error { return nil }, nil},
		"a failure":      {func(_, _ *ledger.Locked) error { return failed }, failed},
		"an entry":       {func(tu, _ *ledger.Locked) error { _, err := tu.Append(&org.Entry{}, nil); return err }, nil},
		"another's turn": {func(_, parent *ledger.Locked) error { return lackParent(parent) }, nil},
		"a fetch": {func() func(_, _ *ledger.Locked) error {
			known := false
			return func(_, _ *ledger.Locked) error {
				if known {
					return nil
				}
				return &org.Retry{Prefetch: func(ctx context.Context) error { // others compute meanwhile
					known = true
					return r.l.TransactOne(ctx, orgID(1), func(*ledger.Locked) error { return nil })
				}}
			}
		}(), nil},
	} {
		if err := r.l.Transact(ctx(t), orgID(1), ledger.Caller{Organization: orgID(1)}, c.step); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = r.l.TransactOne(ctx(t), orgID(1), func(*ledger.Locked) error { panic("a step's") })
	}()
	view := r.view(orgID(1))
	if _, err := view.Entry(ctx(t), 0); err != nil {
		t.Error(err)
	}
	if _, err := view.Page(ctx(t), ledger.Page{Limit: 10}); err != nil {
		t.Error(err)
	}
	if _, err := view.Open(ctx(t), 0, 1<<20); err != nil {
		t.Error(err)
	}
	if s := q.Stats(); s.Waits != 0 || s.Abandons != 0 {
		t.Errorf("somebody waited for what nobody had: %+v", s)
	}
}

func lackParent(parent *ledger.Locked) error {
	if parent == nil {
		return &org.Retry{LockParent: true}
	}
	return nil
}

// A tenant of which four sub-organizations want to compute for long, and another's user in between. The step that was begun first
// gives way to the other tenant's at its next pause.
func TestProcessorsGoToWhoUsedLess(t *testing.T) {
	var c stepClock
	r, q := c.on(t, 1)
	r.found(orgID(0))
	r.found(orgID(5))
	for n := range 4 {
		child := r.child(orgID(10+n), orgID(0))
		if _, err := r.l.Create(child, &org.Entry{TimeMs: 1}, child.Tx()); err != nil {
			t.Fatal(err)
		}
	}
	var order []string
	begun, goOn := make(chan bool), make(chan bool)
	done := make(chan error)
	step := func(name string, id org.ID, f func(t *ledger.Locked)) {
		go func() {
			done <- r.l.TransactOne(ctx(t), id, func(t *ledger.Locked) error {
				order = append(order, name) // one at a time
				f(t)
				return nil
			})
		}()
	}
	waits := func(n uint64) {
		eventually(t, func() bool { return q.Stats().Waits == n }, func() string { return fmt.Sprint(q.Stats()) })
	}
	long := func(tu *ledger.Locked) {
		for range 20 {
			c.at.Add(int64(time.Millisecond))
			tu.Begin(1).Pause()
		}
	}
	step("first", orgID(10), func(tu *ledger.Locked) {
		begun <- true
		<-goOn
		long(tu)
		order = append(order, "first ends")
	})
	<-begun
	for n := 1; n < 4; n++ {
		step(fmt.Sprint("long ", n), orgID(10+n), long)
		waits(uint64(n))
	}
	step("another tenant's", orgID(5), func(*ledger.Locked) {})
	waits(4)
	goOn <- true
	for range 5 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(order[:2], ", "); got != "first, another tenant's" {
		t.Errorf("in this order: %v", order)
	}
}
