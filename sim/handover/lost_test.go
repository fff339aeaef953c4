package handover_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/host/heads"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/host/witness"
	"cloister/shared/wire"
	"cloister/sim/rig"
)

// moment is a copy of the store as it is, while it is written.
func (w *world) moment() (file string) {
	w.t.Helper()
	var rows []store.Row
	must(w.t, w.store.Export(context.Background(), func(r store.Row) error { rows = append(rows, r); return nil }))
	file = filepath.Join(w.t.TempDir(), "cloister.db")
	s, err := sqlite.Open(context.Background(), file)
	must(w.t, err)
	next := 0
	must(w.t, s.Import(context.Background(), func() (store.Row, error) {
		if next == len(rows) {
			return nil, io.EOF
		}
		next++
		return rows[next-1], nil
	}))
	must(w.t, s.Close())
	return file
}

// heads compares a store with what witnesses have seen, as `cloister-host log heads` does.
func (w *world) heads(s store.Store) []heads.Head {
	w.t.Helper()
	transport := witness.NewTransport(nil)
	defer transport.CloseIdleConnections()
	all, err := heads.Ask(context.Background(), heads.Options{Store: s, Transport: http.RoundTripper(transport), Timeout: time.Minute, Now: time.Now, Pause: pause})
	must(w.t, err)
	return all
}

// lacks is how many batches of all ranges are missing, as witnesses know.
func lacks(all []heads.Head) (n uint64) {
	for i := range all {
		n += all[i].Missing()
	}
	return n
}

// A store that loses the last commit which it had confirmed stands still, says why, and is brought back by operators alone.
func TestLastCommitLost(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: commits lost under real witnesses")
	}
	for _, mode := range []tlog.Mode{tlog.ModeStrict, tlog.ModeBounded} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t)
			terms := *w.manifest.Log
			if terms.Mode = mode.String(); mode == tlog.ModeStrict {
				terms.BoundMs = 0
			}
			w.manifest.Log = &terms
			e := w.serving()
			o := w.organization(e.link)
			kept := o.sign([]byte("kept"))
			signed := signature(send(t, e.link, kept).Body)
			for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // checkpoints are kept a moment later
				all, err := w.store.LoadCheckpoints(t.Context())
				must(t, err)
				if len(all) == ranges && !slices.ContainsFunc(all, func(c store.Checkpoint) bool { return c.CosignedSize == 0 }) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d checkpoints", len(all))
				}
			}
			backup := w.moment()
			last := o.sign([]byte("last"))
			send(t, e.link, last)
			copied, err := sqlite.Open(t.Context(), w.copyOf(backup))
			must(t, err)
			defer copied.Close()
			for end := time.Now().Add(time.Minute); lacks(w.heads(copied)) == 0; time.Sleep(20 * time.Millisecond) { // bounded: witnesses lag
				if time.Now().After(end) {
					t.Fatal("no witness has seen the last commit")
				}
			}
			e.stop()

			// It stands still: each answer says why, and so does the host's look at what witnesses have.
			w.restore(backup)
			still := w.serving()
			for what, c := range map[string]*wire.Call{
				"what was kept": kept, "what was lost": last, "a signature": o.sign([]byte("another")),
				"a query": o.query("whoami", nil),
			} {
				c := *c
				c.WithinMs = 1500
				r, err := still.link.Call(t.Context(), &c)
				must(t, err)
				var f struct{ TurnkeyErrorCode string }
				must(t, json.Unmarshal(r.Body, &f))
				if r.Status != 503 || f.TurnkeyErrorCode != "LOG_UNAVAILABLE" {
					t.Errorf("%s: %d %s", what, r.Status, r.Body)
				}
			}
			still.stop()

			w.restore(backup)
			began := time.Now()
			found := w.heads(w.store)
			missing := lacks(found)
			if missing == 0 {
				t.Fatal("nothing is missing")
			}
			m := after(t, w.manifest)
			m.Recover = w.recovery(0)
			again := terms
			m.Log, again.Generation = &again, 2
			for i := range m.Recover {
				m.Recover[i].Witnessed = max(found[i].MostSeen(), m.Recover[i].Size)
				if found[i].Size != m.Recover[i].Size {
					t.Errorf("range %d has %d leaves by log heads and %d by its headers", i, found[i].Size, m.Recover[i].Size)
				}
			}
			e = w.waiting(m, w.manifest, nil)
			e.shares(m)
			if status, code := e.answer(last); status != 400 || code != "RECOVERED_RECENTLY" {
				t.Errorf("what was lost is done again: %d %s", status, code)
			}
			t.Logf("counted: %s: %d batches lost of %d ranges; by a recovery manifest to serving in %d ms, with a right to serve of %d ms to wait for", mode, missing, ranges,
				time.Since(began).Milliseconds(), terms.ServeMs)
			r, err := e.link.Call(t.Context(), kept)
			must(t, err)
			if r.Status != 200 || signature(r.Body) != signed {
				t.Errorf("what was kept, sent again: %d %s", r.Status, r.Body)
			}
			if n := w.count(e, o); n != 1 {
				t.Errorf("%d activities are there, and one was kept", n)
			}
		})
	}
}

// Two of four witnesses are gone for good. Nobody has seen more than the store has, and it goes on with other witnesses, with
// nothing lost; the witnesses before cannot be asked, so operators say where it stood.
func TestWitnessesGoneForGood(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: commits lost under real witnesses")
	}
	w := newWorld(t)
	terms := *w.manifest.Log
	w.manifest.Log = &terms
	e := w.serving()
	o := w.organization(e.link)
	kept := o.sign([]byte("kept"))
	signed := signature(send(t, e.link, kept).Body)
	gone := w.witnesses
	for _, l := range gone.Locals[:2] {
		l.Stop()
	}
	e.stop()
	w.witnesses = rig.StartWitnesses(t, rig.WitnessOptions{Serve: 500 * time.Millisecond})
	m := after(t, w.manifest)
	others := w.witnesses.Terms
	others.Generation = 2
	m.Log, m.Recover = &others, w.recovery(0)
	e = w.waiting(m, w.manifest, nil)
	e.shares(m)
	e.takeAll()
	if status, code := e.answer(o.sign([]byte("soon"))); status != 400 || code != "RECOVERED_RECENTLY" {
		t.Errorf("%d %s", status, code)
	}
	r, err := e.link.Call(t.Context(), kept)
	must(t, err)
	if r.Status != 200 || signature(r.Body) != signed {
		t.Errorf("what was kept, sent again: %d %s", r.Status, r.Body)
	}
	if origins := e.logs(); len(origins) != ranges || !strings.HasSuffix(origins[0], "/2") {
		t.Errorf("the logs are %q", origins)
	}
}
