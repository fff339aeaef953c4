package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// mute is a store whose host brings no answer of the witnesses.
type mute struct{ *memStore }

func (mute) Witness(context.Context, wire.Witness) (wire.Cosigned, error) {
	return wire.Cosigned{}, errors.New("the store does not have what the log signed")
}

func TestLogStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := start(t, s, nil)
		r.found(orgID(1))
		none := r.l.LogStatus()
		if size := s.head().Size; none.State != wire.LogUnwitnessed || !none.Serves() || none.Size != size || none.Generation != 1 || none.Quorum != 0 || none.QuorumAgeMs != nil ||
			!strings.HasSuffix(none.Origin, "/0/1") {
			t.Fatalf("no witnesses: %+v", none)
		}

		w, all := terms(t, tlog.ModeBounded)
		w.Serve, w.Bound = 10*time.Second, 3*time.Second
		s.mu.Lock()
		s.witnesses = all
		s.mu.Unlock()
		is := func(what string, r *rig, state wire.LogState, serves bool, missing ...string) wire.LogStatus {
			t.Helper()
			synctest.Wait()
			got := r.l.LogStatus()
			if got.State != state || got.Serves() != serves || fmt.Sprint(got.Missing) != fmt.Sprint(missing) || got.Quorum != 3 || got.BoundMs != 3000 {
				t.Fatalf("%s: %+v", what, got)
			}
			return got
		}
		r = start(t, s, witnessed(w)) // whose log no witness knows yet
		time.Sleep(time.Second)
		got := is("a boot without a quorum", r, wire.LogStarting, false, "w0.example/w", "w1.example/w", "w2.example/w", "w3.example/w")
		if got.WaitMs != 10_100 || got.Unwitnessed == 0 || got.UnwitnessedMs != 1000 || got.QuorumAgeMs != nil {
			t.Errorf("%+v", got)
		}
		known(t, r, all)
		time.Sleep(time.Second)
		if got = is("a boot with a quorum", r, wire.LogWaiting, false); got.WaitMs == 0 || got.WaitMs > 10_100 || got.QuorumAgeMs == nil {
			t.Errorf("%+v", got)
		}
		time.Sleep(5 * time.Second)
		if next := is("a boot in its wait", r, wire.LogWaiting, false); next.WaitMs != got.WaitMs-5000 {
			t.Errorf("%+v", next)
		}
		time.Sleep(6 * time.Second)
		is("a boot whose wait is over", r, wire.LogServing, true)

		all[3].leave(true)
		r.user(orgID(1), 1, "one witness is away")
		if got = is("three of four", r, wire.LogServing, true); got.Unwitnessed != 0 || *got.QuorumAgeMs > 1000 {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Minute)
		if got = is("nobody asks, and the right lapses", r, wire.LogServing, true); *got.QuorumAgeMs < 60_000 {
			t.Errorf("%+v", got)
		}

		all[2].leave(true)
		if err := r.l.Serving(soon(t, time.Second)); err == nil {
			t.Fatal("serves without a right to")
		}
		is("somebody asks, and the right is being renewed", r, wire.LogServing, true, "w2.example/w", "w3.example/w")
		time.Sleep(1500 * time.Millisecond)
		is("it could not be renewed", r, wire.LogStalled, false, "w2.example/w", "w3.example/w")
		all[2].leave(false)
		if err := r.l.Serving(ctx(t)); err != nil {
			t.Fatal(err)
		}
		is("it could", r, wire.LogServing, true)

		all[2].leave(true)
		if _, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2900 * time.Millisecond)
		is("a lapse within the bound", r, wire.LogServing, true, "w2.example/w", "w3.example/w")
		time.Sleep(200 * time.Millisecond)
		if got = is("behind the bound", r, wire.LogStalled, false, "w2.example/w", "w3.example/w"); got.Unwitnessed != 1 || got.UnwitnessedMs != 3100 {
			t.Errorf("%+v", got)
		}
		if _, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil); !errors.Is(err, ledger.ErrLog) {
			t.Errorf("stalled, and decides: %v", err)
		}
		all[2].leave(false)
		time.Sleep(time.Second)
		is("a quorum again", r, wire.LogServing, true)
		r.quiet()

		// Who is named needs only a quorum, and has the bound for that. A host without an answer names nobody.
		next := wire.ID{77}
		if err := r.l.CloseForWrites(ctx(t)); err != nil {
			t.Fatal(err)
		}
		past, err := r.l.SealForHandover(ctx(t), org.ID(next))
		if err != nil {
			t.Fatal(err)
		}
		head := past.Head()
		named := start(t, s, func(c *ledger.Config) {
			witnessed(w)(c)
			c.Boot, c.HandedHead, c.Store = next, &head, mute{s}
		})
		time.Sleep(2 * time.Second)
		is("named, without a quorum yet", named, wire.LogStarting, true)
		time.Sleep(2 * time.Second)
		is("named, without a quorum", named, wire.LogStarting, false)
	})
}
