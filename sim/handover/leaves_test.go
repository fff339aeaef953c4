package handover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/host/link"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// leaves are those of all ranges' logs.
func (w *world) leaves() (all []rig.Leaf) {
	w.t.Helper()
	for of := range wire.Range(ranges) {
		all = append(all, rig.Leaves(w.t, w.store, of)...)
	}
	return all
}

// A silencer is what brings checkpoints to witnesses, and can keep back what they sign.
type silencer struct {
	link.Witnesses
	mu     sync.Mutex
	silent bool
	told   map[wire.Range]uint64   // leaves of which an enclave knows that a quorum has cosigned them
	kept   map[wire.Range][]uint64 // the same of each quorum that was kept back
}

func (s *silencer) silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// Witness is link.Witnesses.
func (s *silencer) Witness(ctx context.Context, ask wire.Witness) (wire.Cosigned, error) {
	got, err := s.Witnesses.Witness(ctx, ask)
	s.mu.Lock()
	defer s.mu.Unlock()
	policy, bad := tlog.ParsePolicy(ask.Policy)
	if bad != nil {
		return got, bad
	}
	if policy.Collect(ask.Checkpoint, got.Lines) != nil {
		text, _, _ := strings.Cut(string(ask.Checkpoint), "\n\n")
		c, err := tlog.ParseCheckpoint(text + "\n")
		if err != nil {
			return got, err
		}
		if s.silent {
			s.kept[ask.Range] = append(s.kept[ask.Range], c.Size)
		} else {
			s.told[ask.Range] = max(s.told[ask.Range], c.Size)
		}
	}
	if s.silent {
		got.Lines = nil
	}
	return got, err
}

// knows tells whether an enclave knows that a leaf of a range is cosigned, and how often it could have known but was told nothing.
func (s *silencer) knows(of wire.Range, leaf *rig.Leaf) (known bool, kept int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, size := range s.kept[of] {
		if size > leaf.Position {
			kept++
		}
	}
	return s.told[of] > leaf.Position, kept
}

// published is the newest leaf that says that the keyring may go to a manifest; nil: none is stored.
func (w *world) published(manifest [32]byte) (of wire.Range, leaf *rig.Leaf) {
	w.t.Helper()
	for r := range wire.Range(ranges) {
		for _, l := range rig.Leaves(w.t, w.store, r) {
			if l.Manifest != nil && l.Manifest.SHA256 == manifest {
				of, leaf = r, &l
			}
		}
	}
	return of, leaf
}

// The keyring leaves an enclave only when the log says to whom, and a quorum has cosigned that: a host that keeps the cosignatures back
// gets no keyring.
func TestKeyringWaitsForTheQuorum(t *testing.T) {
	w := newWorld(t)
	s := &silencer{Witnesses: w.cosigner, told: map[wire.Range]uint64{}, kept: map[wire.Range][]uint64{}}
	w.cosigner = s
	old := w.serving()
	o := w.organization(old.link)
	m := after(t, w.manifest)
	raw, err := m.Encode()
	must(t, err)
	manifest := attestation.Hash(raw)
	next := w.waiting(m, w.manifest, nil)
	waits := next.state()
	type given struct {
		keyring map[string]json.RawMessage // nil: none
		known   bool                       // that the leaf is cosigned
	}
	ask := func(body map[string]any) (g given) {
		g.keyring, _ = old.ask(wire.OpHandOver, body)
		if of, leaf := w.published(manifest); leaf != nil {
			g.known, _ = s.knows(of, leaf)
		}
		return g
	}
	s.silence(true)
	asked, body := make(chan given, 1), w.documents(old, next).body()
	go func() { asked <- ask(body) }()
	const rounds = 5
	clocktest.Until(t, "the leaf is cosigned again and again, and the enclave is not told", func() bool {
		of, leaf := w.published(manifest)
		if leaf == nil {
			return false
		}
		_, kept := s.knows(of, leaf)
		return kept >= rounds
	})
	if is := next.state(); is != waits {
		t.Errorf("the next enclave is %s", is)
	}
	select {
	case g := <-asked:
		if g.keyring != nil {
			t.Fatal("the keyring is given before the quorum")
		}
		asked <- g // it has waited for as long as it may
	default:
	}
	s.silence(false)
	g := <-asked
	clocktest.Until(t, "the keyring is given", func() bool {
		if g.keyring == nil {
			g = ask(w.documents(old, next).body())
		}
		return g.keyring != nil
	})
	if !g.known {
		t.Error("the keyring is given, and the enclave knows no quorum for the leaf that says to whom")
	}
	next.must(wire.OpTakeOver, g.keyring)
	w.upgrade(old, next)
	send(t, next.link, o.sign([]byte("after")))
}

// A grown deployment is handed over twice, the second time to other witnesses; work is done before, between and after.
func handedOver(t *testing.T, work func(w *world, to caller)) []rig.Leaf {
	t.Helper()
	w := newWorld(t)
	all := w.witnessedBy()
	w.manifest.Log = termsOf(all[:4], tlog.ModeStrict, 0)
	w.manifest.Log.ServeMs = 300 // nothing was before
	first := w.serving()
	work(w, first.link)
	manifest := after(t, w.manifest)
	second := w.waiting(manifest, w.manifest, nil)
	w.upgrade(first, second)
	work(w, second.link)
	last := after(t, manifest)
	last.Log = termsOf(all[1:], tlog.ModeBounded, 2)
	third := w.waiting(last, manifest, nil)
	w.upgrade(second, third)
	work(w, third.link)
	return w.leaves()
}

// Two deployments that are handed over look the same to strangers, whatever is done in them: also in the leaves that only a hand-over and
// other witnesses make. TestLeavesTellNothing of sim/rig has the others.
func TestLeavesTellNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: leaves of logs that real rounds publish")
	}
	quiet := handedOver(t, func(w *world, to caller) {
		send(t, to, w.organization(to).sign([]byte("1")))
	})
	busy := handedOver(t, func(w *world, to caller) {
		for range 6 {
			o := w.organization(to)
			send(t, to, o.activity("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("Sub", client.NewRootUser("Root", client.NewKey())))) // moves two tips
			for range 4 {
				send(t, to, o.sign(bytes.Repeat([]byte("1000000000"), 100)))
			}
		}
	})
	one, other := rig.Lengths(t, quiet), rig.Lengths(t, busy)
	for _, kind := range []string{"batch", "manifest", "close of a boot", "close of a generation", "first adopt", "adopt"} {
		if len(one[kind]) != 1 {
			t.Errorf("%s leaves have %v bytes besides their numbers", kind, one[kind])
		}
	}
	if !reflect.DeepEqual(one, other) {
		t.Errorf("leaves have other kinds or lengths: %v and %v", one, other)
	}
	most := func(leaves []rig.Leaf) (organizations, tips int) {
		seen := map[wire.ID]bool{}
		for _, l := range leaves {
			for _, tip := range l.Tips {
				seen[tip.Organization] = true
			}
			tips = max(tips, len(l.Tips))
		}
		return len(seen), tips
	}
	few, fewTips := most(quiet)
	many, manyTips := most(busy)
	if many <= few || manyTips <= fewTips {
		t.Fatalf("the two do not differ: %d and %d organizations, %d and %d tips in a batch at most", few, many, fewTips, manyTips)
	}
	for name, leaves := range map[string][]rig.Leaf{"quiet": quiet, "busy": busy} {
		var shown, hidden []byte
		for _, l := range leaves {
			shown, hidden = append(shown, l.Bytes...), append(hidden, l.Header...)
		}
		controls, secrets := 0, rig.Secrets(leaves)
		for what, b := range secrets {
			if bytes.Contains(shown, b) {
				t.Errorf("%s: %s is in a leaf", name, what)
			}
			if bytes.Contains(hidden, b) {
				controls++
			}
		}
		if controls == 0 {
			t.Errorf("%s: the search finds nothing in headers, where tips are", name)
		}
		t.Logf("counted: %s: %d leaves searched for %d texts of organizations: none; %d of them in headers", name, len(leaves), len(secrets), controls)
	}
	t.Logf("counted: leaves of %d kinds have equal lengths: %v", len(one), one)
}
