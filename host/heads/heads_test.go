package heads_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/host/heads"
	"cloister/host/leaves/leavestest"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/host/witness"
	"cloister/shared/wire"
	sim "cloister/sim/witness"
	"cloister/sim/witness/witnesstest"
)

// A log is what an enclave has put into a store, and its key.
type log struct {
	*leavestest.History
	key *witnesstest.Log
}

// still is a clock that stands.
func still() time.Time { return time.Unix(1_700_000_000, 0) }

func begin(in wire.Range, generation uint32) *log {
	return &log{leavestest.New(in, generation), witnesstest.NewLog(fmt.Sprintf("log.example/00/%d/%d", in, generation))}
}

func (l *log) checkpoint(size uint64) []byte {
	c := tlog.Checkpoint{Origin: l.key.Key.Name(), Size: size, Root: l.Roots[size]}
	return l.key.Sign(c.Text())
}

// A seen is a witness behind HTTP.
type seen struct {
	*sim.Witness
	url string
}

func witnesses(t *testing.T, n int, logs ...*log) (all []*seen) {
	t.Helper()
	for i := range n {
		w, err := sim.New(sim.Options{Name: fmt.Sprintf("w%d.example", i), Now: still, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(10 + i)}, ed25519.SeedSize))})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range logs {
			if err := w.Add(l.key.Key); err != nil {
				t.Fatal(err)
			}
		}
		s := httptest.NewServer(w.Handler())
		t.Cleanup(s.Close)
		all = append(all, &seen{w, s.URL})
	}
	return all
}

// sees shows a witness the first leaves of a log that it has not seen.
func (w *seen) sees(t *testing.T, l *log, size uint64) {
	t.Helper()
	r, err := http.Post(w.url+"/add-checkpoint", "text/plain", strings.NewReader("old 0\n\n"+string(l.checkpoint(size))))
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	_ = r.Body.Close()
}

func policy(k int, all []*seen) string {
	text, names := "", ""
	for _, w := range all {
		text += fmt.Sprintf("witness %s %s %s\n", w.Key().Name(), w.Key(), w.url)
		names += " " + w.Key().Name()
	}
	return fmt.Sprintf("%sgroup all %d%s\nquorum all\n", text, k, names)
}

// stored is a store with the first leaves of a log, and its checkpoint.
func stored(t *testing.T, size int, checkpoint uint64, text string, all ...*log) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	var rows []store.Row
	for _, l := range all {
		if len(rows) == 0 || rows[len(rows)-1].(*store.OwnerRow).Range != uint32(l.Range) {
			rows = append(rows, l.Owner())
		}
	}
	for _, l := range all {
		for _, r := range l.Rows[:size] {
			rows = append(rows, r)
		}
	}
	for _, l := range all {
		if checkpoint > 0 {
			rows = append(rows, store.NewCheckpointRow(&store.Checkpoint{Range: l.Range, Generation: l.Generation, Policy: text, Size: checkpoint, Signed: l.checkpoint(checkpoint)}))
		}
	}
	if err := s.Import(t.Context(), storetest.From(rows)); err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t *testing.T, s store.Store) []heads.Head {
	t.Helper()
	transport := witness.NewTransport(nil)
	defer transport.CloseIdleConnections()
	all, err := heads.Ask(t.Context(), heads.Options{Store: s, Transport: transport, Timeout: 5 * time.Minute, Now: still, Pause: func(context.Context, time.Duration) {}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestHeads(t *testing.T) {
	l := begin(2, 3)
	l.Grow(1000)
	fork := &log{l.Fork(700), l.key}
	fork.Grow(300)
	for _, c := range []struct {
		name             string
		size             int
		signed           uint64
		seen             []uint64 // by witnesses in turn; 0: nothing
		of               *log
		says             string // of each: = the same, ! other, > more, ? nobody knows
		lacks, witnessed uint64
	}{
		{"nothing lost", 1000, 1000, []uint64{1000, 1000, 1000, 1000}, l, "====", 0, 1000},
		{"signed and not cosigned", 1000, 1000, []uint64{999, 5, 1, 1000}, l, "====", 0, 1000},
		{"behind the checkpoint", 1000, 990, []uint64{990, 995, 1000, 989}, l, "=??=", 0, 1000},
		{"lost", 950, 940, []uint64{1000, 1000, 999, 945}, l, ">>>?", 50, 1000},
		{"lost, seen by one", 950, 950, []uint64{950, 951, 949, 950}, l, "=>==", 1, 951},
		{"a witness that has seen nothing", 950, 950, []uint64{0, 950, 950, 950}, l, "====", 0, 950},
		{"another history", 1000, 1000, []uint64{1000, 900, 701, 700}, fork, "!!!=", 0, 1000},
		{"a longer other history", 800, 800, []uint64{1000, 800, 600, 801}, fork, ">!=>", 200, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws := witnesses(t, 4, l)
			for i, size := range c.seen {
				if size > 0 {
					ws[i].sees(t, c.of, size)
				}
			}
			s := stored(t, c.size, c.signed, policy(3, ws), l)
			for range 2 { // what is asked changes no answer
				all := ask(t, s)
				if len(all) != 1 {
					t.Fatalf("%+v", all)
				}
				h := &all[0]
				if h.Range != 2 || h.Generation != 3 || h.Origin != l.key.Key.Name() || h.Quorum != 3 || h.Size != uint64(c.size) || h.Root != l.Roots[c.size] ||
					h.Signed != c.signed || h.Damaged != nil || h.Missing() != c.lacks || h.Answers() != 4 {
					t.Fatalf("%+v", h)
				}
				got := ""
				for i, w := range h.Witnesses {
					switch {
					case w.Err != nil:
						got += w.Err.Error()
					case w.Other:
						got += "!"
					case w.Size > h.Size:
						got += ">"
					case w.Same:
						got += "="
					default:
						got += "?"
					}
					if w.Size < c.seen[i] {
						t.Errorf("%s has seen %d leaves, not %d", w.Witness, c.seen[i], w.Size)
					}
				}
				if got != c.says || h.MostSeen() < c.witnessed {
					t.Errorf("%s, want %s; %d leaves seen", got, c.says, h.MostSeen())
				}
				if h.Saw(h.MostSeen()) == 0 || h.Saw(0) != 4 {
					t.Errorf("%d have seen %d", h.Saw(h.MostSeen()), h.MostSeen())
				}
			}
		})
	}
}

// What is no witness, or away, or does not know the log, says nothing; the others do.
func TestAway(t *testing.T) {
	l, other := begin(0, 1), begin(0, 2)
	l.Grow(10)
	ws := append(witnesses(t, 2, l), witnesses(t, 4, other)[2:]...)
	ws[0].sees(t, l, 10)
	ws[1].url = "http://127.0.0.1:1"
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer wrong.Close()
	ws[3].url = wrong.URL
	h := ask(t, stored(t, 10, 10, policy(3, ws), l))[0]
	if h.Answers() != 1 || !h.Witnesses[0].Same || h.Witnesses[1].Err == nil || h.Witnesses[2].Err == nil || h.Witnesses[3].Err == nil {
		t.Errorf("%+v", h.Witnesses)
	}
}

// A store that does not have what its checkpoint says: nobody is asked.
func TestDamaged(t *testing.T) {
	l := begin(0, 1)
	l.Grow(500)
	other := &log{l.Fork(400), l.key}
	other.Grow(100)
	ws := witnesses(t, 4, l)
	text := policy(3, ws)
	for name, s := range map[string]store.Store{"fewer leaves": stored(t, 450, 499, text, l), "none": stored(t, 0, 499, text, l)} {
		if h := ask(t, s)[0]; h.Damaged == nil || h.Witnesses != nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
	other.key = witnesstest.NewLog(l.key.Key.Name())
	s := stored(t, 500, 0, text, other)
	if err := s.PutCheckpoint(t.Context(), store.Checkpoint{Generation: 1, Policy: text, Size: 450, Signed: l.checkpoint(450)}); err != nil {
		t.Fatal(err)
	}
	if h := ask(t, s)[0]; h.Damaged == nil || !strings.Contains(h.Damaged.Error(), "not those that the log has signed") || h.Witnesses != nil {
		t.Errorf("%+v", h)
	}
}

// Ranges stand in order, each with its newest generation; one of which no checkpoint is stored is named.
func TestRanges(t *testing.T) {
	one, two, three := begin(1, 1), begin(1, 2), begin(5, 1)
	one.Grow(10)
	two.Epoch, two.Number = one.Epoch, one.Number
	two.Grow(20)
	three.Grow(10)
	ws := witnesses(t, 1, one, two, three)
	s := stored(t, 10, 10, policy(1, ws), one, two, three)
	if owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{1}, Range: 3}); err != nil || !owned.OK {
		t.Fatal(owned, err)
	}
	all := ask(t, s)
	if len(all) != 3 || all[0].Range != 1 || all[0].Generation != 2 || all[0].Size != 10 || all[1].Range != 3 || all[1].Origin != "" || all[2].Range != 5 {
		t.Errorf("%+v", all)
	}
	if all := ask(t, stored(t, 0, 0, "")); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// What is stored as a policy or a checkpoint may be none.
func TestRefused(t *testing.T) {
	l := begin(0, 1)
	l.Grow(5)
	for name, c := range map[string]store.Checkpoint{
		"no policy":     {Policy: "policy", Signed: l.checkpoint(5)},
		"no URL":        {Policy: strings.ReplaceAll(policy(1, witnesses(t, 1, l)), "http:", "file:"), Signed: l.checkpoint(5)},
		"no checkpoint": {Policy: policy(1, witnesses(t, 1, l)), Signed: []byte("checkpoint")},
	} {
		s := stored(t, 5, 0, "", l)
		c.Size, c.Generation = 5, 1
		if err := s.PutCheckpoint(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		transport := witness.NewTransport(nil)
		if all, err := heads.Ask(t.Context(), heads.Options{Store: s, Transport: transport, Timeout: 5 * time.Minute, Now: still, Pause: func(context.Context, time.Duration) {}}); err == nil {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
