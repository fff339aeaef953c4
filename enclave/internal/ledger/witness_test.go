package ledger_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
	"cloister/sim/witness"
)

// seen is a witness, and the size that it was brought to last of each log.
type seen struct {
	*witness.Witness
	mu    sync.Mutex
	sizes map[string]uint64
	away  bool
}

func newSeen(w *witness.Witness) *seen { return &seen{Witness: w, sizes: map[string]uint64{}} }

func (w *seen) leave(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

// leaveAll makes all of some witnesses unreachable, or reachable again.
func leaveAll(all []*seen, away bool) {
	for _, w := range all {
		w.leave(away)
	}
}

// add brings a checkpoint to the witness, as a host does, and returns its line.
func (w *seen) add(tree *testonly.Tree, size uint64, note []byte) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return ""
	}
	origin, _, _ := strings.Cut(string(note), "\n")
	for range 2 {
		var body strings.Builder
		old := w.sizes[origin]
		fmt.Fprintf(&body, "old %d\n", old)
		if old > 0 && old < size {
			proof, err := tree.ConsistencyProof(old, size)
			if err != nil {
				return ""
			}
			for _, h := range proof {
				body.WriteString(base64.StdEncoding.EncodeToString(h) + "\n")
			}
		}
		answer := httptest.NewRecorder()
		w.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "/add-checkpoint", strings.NewReader(body.String()+"\n"+string(note))))
		switch answer.Code {
		case http.StatusOK:
			w.sizes[origin] = size
			return answer.Body.String()
		case http.StatusConflict:
			w.sizes[origin], _ = strconv.ParseUint(strings.TrimSpace(answer.Body.String()), 10, 64)
		default:
			return ""
		}
	}
	return ""
}

// Witness brings a checkpoint to all witnesses, one after the other.
func (s *memStore) Witness(_ context.Context, q wire.Witness) (wire.Cosigned, error) {
	var got wire.Cosigned
	lines := strings.Split(string(q.Checkpoint), "\n")
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil {
		return got, err
	}
	s.mu.Lock()
	tree := testonly.New(rfc6962.DefaultHasher)
	for i := range s.batches {
		var h wire.BatchHeader
		if b := s.batches[i].Header; wire.Unmarshal(b[:len(b)-sha256.Size], &h) == nil && strings.HasSuffix(lines[0], fmt.Sprint("/", h.Generation)) {
			tree.AppendData(h.Leaf)
		}
	}
	all := s.witnesses
	s.mu.Unlock()
	for _, w := range all {
		if line := w.add(tree, size, q.Checkpoint); line != "" {
			got.Lines = append(got.Lines, line)
		}
	}
	return got, nil
}

// terms are those of three of four witnesses, which the function makes.
func terms(t testing.TB, mode tlog.Mode) (*ledger.Terms, []*seen) { return termsOf(t, mode, "w") }

// termsOf are terms of witnesses whose names begin like that.
func termsOf(t testing.TB, mode tlog.Mode, prefix string) (*ledger.Terms, []*seen) {
	var text strings.Builder
	var all []*seen
	names := ""
	for i := range 4 {
		name := fmt.Sprint(prefix, i, ".example/w")
		seed := sha256.Sum256([]byte(name))
		w, err := witness.New(witness.Options{Name: name, Key: ed25519.NewKeyFromSeed(seed[:]), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, newSeen(w))
		fmt.Fprintf(&text, "witness %s %s\n", name, w.Key())
		names += " " + name
	}
	text.WriteString("group all 3" + names + "\nquorum all\n")
	policy, err := tlog.ParsePolicy(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return &ledger.Terms{Name: "log.example", Policy: policy, Text: text.String(), Hash: sha256.Sum256([]byte(text.String())), Mode: mode, Generation: 1,
		Serve: 300 * time.Millisecond, Bound: 200 * time.Millisecond}, all
}

func witnessed(w *ledger.Terms) func(*ledger.Config) {
	return func(c *ledger.Config) {
		c.Witnesses, c.Start.Policy, c.Start.Mode = w, w.Hash, w.Mode
	}
}

// known makes the log of a rig known to the witnesses.
func known(t testing.TB, r *rig, all []*seen) {
	t.Helper()
	for _, w := range all {
		if err := w.Add(r.l.LogKey()); err != nil {
			t.Fatal(err)
		}
	}
}

// serving starts a ledger on a new store, under terms whose witnesses know its log.
func serving(t *testing.T, w *ledger.Terms, all []*seen) (*memStore, *rig) {
	t.Helper()
	s := newStore()
	s.witnesses = all
	r := start(t, s, witnessed(w))
	known(t, r, all)
	return s, r
}

// soon is a context that ends before witnesses have answered that do not.
func soon(t testing.TB, d time.Duration) context.Context {
	c, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return c
}

func TestStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeStrict)
		_, r := serving(t, w, all)
		r.found(orgID(1)) // waits for the boot's turn, and for a quorum
		all[0].leave(true)
		r.user(orgID(1), 1, "three are enough")
		all[1].leave(true)
		n, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.l.Wait(soon(t, 100*time.Millisecond), n); !errors.Is(err, ledger.ErrLog) {
			t.Fatalf("released with two of four: %v", err)
		}
		time.Sleep(w.Bound)
		if _, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil); !errors.Is(err, ledger.ErrLog) {
			t.Fatalf("decided while witnesses are away: %v", err)
		}
		time.Sleep(w.Serve)
		if err := r.l.Serving(soon(t, 50*time.Millisecond)); err == nil {
			t.Fatal("serves without a right to")
		}
		all[0].leave(false)
		if err := r.l.Wait(ctx(t), n); err != nil {
			t.Fatal(err)
		}
		r.user(orgID(1), 2, "again")
		r.quiet()
	})
}

// What has no quorum yet stays in memory: who opened it from the store would not wait for that.
func TestStrictKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeStrict)
		w.Bound = time.Minute
		s := newStore()
		s.witnesses = all
		r := start(t, s, func(c *ledger.Config) { witnessed(w)(c); c.Limits.StateBytes = 1 })
		known(t, r, all)
		r.found(orgID(1))
		r.found(orgID(2))
		r.waitForCapacity(orgID(1))
		leaveAll(all, true)
		n, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return r.l.Stats()["batches_stored"] >= n }, func() string { return "not stored" })
		if err := r.l.TransactOne(ctx(t), orgID(2), func(*ledger.Locked) error { return nil }); !errors.Is(err, ledger.ErrBusy) {
			t.Errorf("an organization whose entry has no quorum gives way: %v", err)
		}
		leaveAll(all, false)
		r.waitForCapacity(orgID(2))
		r.quiet()
	})
}

func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeBounded)
		w.Serve = 2 * time.Second
		_, r := serving(t, w, all)
		r.found(orgID(1))
		leaveAll(all, true)
		n, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil)
		if err == nil {
			err = r.l.Wait(ctx(t), n)
		}
		if err != nil {
			t.Fatalf("not released within the bound: %v", err)
		}
		time.Sleep(w.Bound + 50*time.Millisecond)
		if err := r.l.Wait(soon(t, 50*time.Millisecond), n); !errors.Is(err, ledger.ErrLog) {
			t.Fatalf("released behind the bound: %v", err)
		}
		if _, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil); !errors.Is(err, ledger.ErrLog) {
			t.Fatalf("decided behind the bound: %v", err)
		}
		leaveAll(all, false)
		if err := r.l.Wait(ctx(t), n); err != nil {
			t.Fatal(err)
		}
		r.quiet()
	})
}

// While nobody asks nothing is said. Who asks behind that gets an answer after one heartbeat.
func TestRightToServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeBounded)
		s, r := serving(t, w, all)
		r.found(orgID(1))
		time.Sleep(2 * w.Serve)
		size := s.head().Size
		time.Sleep(w.Serve)
		if s.head().Size != size {
			t.Error("heartbeats while nobody asks")
		}
		for range 20 {
			if err := r.l.Serving(ctx(t)); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.head().Size - size; n != 1 {
			t.Errorf("%d heartbeats", n)
		}
		end := time.Now().Add(2 * w.Serve)
		for time.Now().Before(end) {
			if err := r.l.Serving(ctx(t)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := s.head().Size - size; n > 9 {
			t.Errorf("%d heartbeats in two terms", n)
		}
	})
}

// A boot waits until the one before has lost its right, unless that has named it.
func TestBootWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeStrict)
		s := newStore()
		s.witnesses = all
		first := start(t, s, witnessed(w))
		known(t, first, all)
		first.found(orgID(1))
		began := time.Now()
		second := start(t, s, witnessed(w)) // the first one is gone without a word
		if err := second.l.Serving(ctx(t)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < w.Serve {
			t.Errorf("a boot answers after %v", took)
		}
		if err := first.l.Serving(soon(t, 50*time.Millisecond)); err == nil {
			t.Error("the one before answers still")
		}
		second.mustRead(orgID(1), 1, "")
		var next wire.ID
		next[0] = 77
		if err := second.l.CloseForWrites(ctx(t)); err != nil {
			t.Fatal(err)
		}
		past, err := second.l.SealForHandover(ctx(t), org.ID(next))
		if err != nil {
			t.Fatal(err)
		}
		head := past.Head()
		long := *w
		long.Serve = time.Minute // it would wait for longer than the test
		third := start(t, s, func(c *ledger.Config) { witnessed(&long)(c); c.Boot, c.HandedHead = next, &head })
		if err := third.l.Serving(ctx(t)); err != nil {
			t.Fatal(err)
		}
		third.user(orgID(1), 1, "named")
		third.quiet()
		// Who is not named does not go on at once, and closes for nobody before its turn.
		fourth := start(t, s, witnessed(&long))
		if err := fourth.l.Serving(soon(t, 100*time.Millisecond)); err == nil {
			t.Error("serves though nobody has named it")
		}
		if err := fourth.l.CloseForWrites(soon(t, 100*time.Millisecond)); err == nil {
			t.Error("names another before its own turn")
		}
	})
}

// Of two stores only one goes on, and an old one never does, unless more witnesses lie than the
// policy tolerates.
func TestTwoStoresWitnessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeStrict)
		s, r := serving(t, w, all)
		r.found(orgID(1))
		r.user(orgID(1), 1, "before")
		old := s.copy()
		old.witnesses = all
		r.user(orgID(1), 1, "after")
		fork := s.copy()
		fork.witnesses = all

		answers := func(r *rig) bool { return r.l.Serving(soon(t, 5*w.Serve)) == nil }
		if answers(start(t, old, witnessed(w))) {
			t.Fatal("an old store is served")
		}
		other := start(t, fork, witnessed(w)) // the first goes on, on its own store
		if !answers(other) {
			t.Fatal("the store that was gone on with is not served")
		}
		n, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil)
		if err == nil {
			err = r.l.Wait(soon(t, 2*w.Serve), n)
		}
		if err == nil || answers(r) {
			t.Fatal("two enclaves go on from two stores")
		}
		other.mustRead(orgID(1), 1, "after")
		all[0].Lie(true) // one of four may
		if answers(start(t, old.witnessedBy(all), witnessed(w))) {
			t.Fatal("an old store is served while one witness lies")
		}
		all[1].Lie(true)
		if answers(start(t, old.witnessedBy(all), witnessed(w))) {
			t.Fatal("an old store is served while two witnesses lie, and it takes three")
		}
		all[2].Lie(true)
		if !answers(start(t, old.witnessedBy(all), witnessed(w))) {
			t.Fatal("the control: three that lie are a quorum of what they like")
		}
	})
}

func (s *memStore) witnessedBy(all []*seen) *memStore {
	c := s.copy()
	c.witnesses = all
	return c
}

// Two of three tolerate nobody: one that lies signs both branches, and each of the others has seen one. Three of four do, and
// so the manifest refuses the former.
func TestPolicyThatToleratesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			quorum        int
			first, second []int // who is brought to the checkpoints of each; the first of all lies
			forks         bool
		}{
			{2, []int{0, 1}, []int{0, 2}, true},
			{3, []int{0, 1, 2}, []int{0, 1, 2, 3}, false},
		} {
			w, all := terms(t, tlog.ModeStrict)
			if all = all[:c.quorum+1]; c.quorum == 2 {
				w.Text = strings.ReplaceAll(strings.Replace(w.Text, fmt.Sprintf("witness w3.example/w %s\n", allKeys(t)[3]), "", 1), " w3.example/w", "")
				w.Text = strings.Replace(w.Text, "group all 3", "group all 2", 1)
			}
			var err error
			if w.Policy, err = tlog.ParsePolicy(w.Text); err != nil {
				t.Fatal(err)
			}
			if w.Policy.Tolerates(1) == c.forks {
				t.Errorf("%d of %d tolerate one: %v", c.quorum, len(all), w.Policy.Tolerates(1))
			}
			s, r := serving(t, w, all)
			r.found(orgID(1))
			some := func(places []int) (of []*seen) {
				for _, i := range places {
					of = append(of, newSeen(all[i].Witness))
				}
				return of
			}
			left, right := s.witnessedBy(some(c.first)), s.witnessedBy(some(c.second))
			all[0].Lie(true)
			one := start(t, left, witnessed(w))
			one.user(orgID(1), 1, "left")
			two := start(t, right, witnessed(w))
			if err := two.l.Serving(soon(t, 5*w.Serve)); (err == nil) != c.forks {
				t.Errorf("%d of %d, one of which lies: %v", c.quorum, len(all), err)
			}
			if c.forks {
				two.user(orgID(1), 1, "right")
				two.mustRead(orgID(1), 1, "right")
				one.user(orgID(1), 2, "left still")
				one.mustRead(orgID(1), 1, "left")
			}
		}
	})
}

func allKeys(t testing.TB) (keys []*tlog.Key) {
	_, all := terms(t, tlog.ModeStrict)
	for _, w := range all {
		keys = append(keys, w.Key())
	}
	return keys
}

// Terms in force are not made weaker, and the first ones may come at any boot.
func TestTermsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeStrict)
		s := newStore()
		start(t, s, nil).found(orgID(1))
		r := start(t, s, witnessed(w))
		s.mu.Lock()
		s.witnesses = all
		s.mu.Unlock()
		known(t, r, all)
		if err := r.l.Serving(ctx(t)); err != nil {
			t.Fatal(err)
		}
		bounded, other := *w, *w
		bounded.Mode = tlog.ModeBounded
		other.Hash[0]++
		for what, edit := range map[string]func(*ledger.Config){"none": nil, "bounded": witnessed(&bounded), "others": witnessed(&other)} {
			if err := unstarted(t, s.copy(), edit).l.Take(ctx(t), nil); err == nil {
				t.Errorf("%s: taken", what)
			}
		}
		// Also when the table covers what said so.
		for i := range 20 {
			r.user(orgID(1), i, "more")
		}
		r.l.Close()
		b := start(t, s, func(c *ledger.Config) { witnessed(w)(c); c.Limits.TableEvery = 4 })
		b.tables(t, 1)
		b.l.Close()
		if err := unstarted(t, s.copy(), witnessed(&bounded)).l.Take(ctx(t), nil); err == nil {
			t.Error("weakened behind a table")
		}
	})
}

// Lines of the host count for what they are.
func TestLinesOfNobody(t *testing.T) {
	w, all := terms(t, tlog.ModeStrict)
	s, r := serving(t, w, all)
	r.found(orgID(1))
	q := wire.Witness{Checkpoint: []byte(strings.Join([]string{r.l.LogKey().Name(), "1", base64.StdEncoding.EncodeToString(make([]byte, 32)), "", ""}, "\n"))}
	good, err := s.Witness(ctx(t), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(good.Lines) != 0 {
		t.Fatalf("cosigned what the log has not: %q", good.Lines)
	}
	if w.Policy.Collect(q.Checkpoint, slices.Repeat([]string{"— w0.example/w AAAA\n"}, 3)) != nil || bytes.Contains(q.Checkpoint, []byte("+")) {
		t.Error("lines of nobody are a quorum")
	}
}
