package shares_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/sim/nsm"
)

func newRoot(t *testing.T) *nsm.Root {
	t.Helper()
	r, err := nsm.NewRoot(rand.Reader, time.Now())
	must(t, err)
	return r
}

func TestGenesisInShares(t *testing.T) {
	w := newWorld(t, newRoot(t), 3, 5)
	e := w.start()
	defer e.stop()
	if again := e.mustAsk("genesis", map[string]any{"operators": w.named}); !bytes.Equal(again["shares"], w.shares) {
		t.Error("a repeated genesis answers other shares")
	}
	other := named(t, 2, w.operators)
	if _, refusal := e.ask("genesis", map[string]any{"operators": other}); !strings.Contains(refusal, "409") {
		t.Errorf("a genesis of others: %q", refusal)
	}
	e = w.waiting()
	defer e.stop()
	if _, refusal := e.ask("genesis", map[string]any{"operators": w.named}); refusal == "" {
		t.Error("genesis behind the manifest")
	}
	e.give(4, 0, 2)
	e.wants("serving")
	w.bootProof(e)
	for name, o := range map[string]func(*attestation.Operators){
		"one alone":            func(o *attestation.Operators) { o.Threshold = 1 },
		"nobody":               func(o *attestation.Operators) { *o = attestation.Operators{} },
		"more than there are":  func(o *attestation.Operators) { o.Threshold = 6 },
		"without keys":         func(o *attestation.Operators) { o.ShareKeys = nil },
		"a key for two":        func(o *attestation.Operators) { o.ShareKeys[1] = o.ShareKeys[0] },
		"shares to signers":    func(o *attestation.Operators) { o.ShareKeys = o.PublicKeys },
		"a key that is no key": func(o *attestation.Operators) { o.ShareKeys[1] = "02" + strings.Repeat("ff", 32) },
	} {
		empty := &world{t: t, root: w.root, store: &memory{objects: map[string][]byte{}}}
		e := empty.start()
		operators := named(t, 3, w.operators)
		o(&operators)
		if _, refusal := e.ask("genesis", map[string]any{"operators": operators}); !strings.HasPrefix(refusal, "400") {
			t.Errorf("%s: %q", name, refusal)
		}
		if len(empty.store.objects) > 0 {
			t.Errorf("%s: something was stored", name)
		}
		e.stop()
	}
}

// A genesis that broke off left no deployment; it is not gone on with, since its
// secret is lost.
func TestGenesisBrokenOff(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 2)
	delete(w.store.objects, "genesis")
	e := w.start()
	defer e.stop()
	if _, refusal := e.ask("genesis", map[string]any{"operators": w.named}); !strings.Contains(refusal, "GENESIS_BROKEN_OFF") {
		t.Errorf("%q", refusal)
	}
}

// The secret, its shares and the keyring stand readable nowhere.
func TestShareSetIsForItsOperators(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 3)
	set, err := attestation.VerifyShares(w.shares, w.policy())
	must(t, err)
	shares := map[string]bool{}
	for i, o := range w.operators {
		share, err := set.Open(i+1, o.share)
		must(t, err)
		shares[string(share)] = true
		for name, b := range w.store.objects {
			if bytes.Contains(b, share) {
				t.Errorf("operator %d's share stands in %s", i+1, name)
			}
		}
		for j := range w.operators {
			if _, err := set.Open(j+1, o.share); (err == nil) != (i == j) {
				t.Errorf("operator %d opens the share of %d: %v", i+1, j+1, err)
			}
		}
		if !set.Holds(i+1, share) || set.Holds((i+1)%3+1, share) || set.Holds(0, share) || set.Holds(4, share) {
			t.Error("the commitment is of another")
		}
	}
	if len(shares) != 3 {
		t.Error("two operators have one share")
	}
	p := w.policy()
	p.ExpectedPCRs = nil
	if _, err := attestation.VerifyShares(w.shares, p); err == nil {
		t.Error("a share set of an unknown image")
	}
	p = w.policy()
	p.ExpectedPCRs[2] = strings.Repeat("07", 48)
	if _, err := attestation.VerifyShares(w.shares, p); err == nil {
		t.Error("a share set of another image")
	}
	other := newWorld(t, w.root, 2, 3)
	var mine, theirs attestation.AttestedShares
	must(t, json.Unmarshal(w.shares, &mine))
	must(t, json.Unmarshal(other.shares, &theirs))
	mixed, err := json.Marshal(attestation.AttestedShares{Set: theirs.Set, Document: mine.Document})
	must(t, err)
	if _, err := attestation.VerifyShares(mixed, w.policy()); err == nil {
		t.Error("a share set under another's document")
	}
}

// A host that puts another share set into the store gets nothing.
func TestStoreLies(t *testing.T) {
	root := newRoot(t)
	w, other := newWorld(t, root, 2, 3), newWorld(t, root, 2, 3)
	find := func(w *world) string {
		for name := range w.store.objects {
			if strings.HasPrefix(name, "shares/") {
				return name
			}
		}
		t.Fatal("no shares")
		return ""
	}
	honest := w.store.objects[find(w)]
	refuse := func(what string) {
		t.Helper()
		e := w.start()
		defer e.stop()
		if _, refusal := e.ask("manifest", submission(t, w.manifest, nil, w.operators)); !strings.Contains(refusal, "SHARES_") {
			t.Errorf("%s: %q", what, refusal)
		}
		e.wants("hello")
	}
	w.store.objects[find(w)] = other.store.objects[find(other)]
	refuse("another deployment's")
	w.store.objects[find(w)] = []byte("{}")
	refuse("nonsense")
	name := find(w)
	delete(w.store.objects, name)
	refuse("none")
	// A set of the same form whose commitments are the host's own: no share fits it.
	var a attestation.AttestedShares
	must(t, json.Unmarshal(honest, &a))
	_, set, document, err := attestation.ParseAttestedShares(honest)
	must(t, err)
	set.Shares[0], set.Shares[1] = set.Shares[1], set.Shares[0]
	raw, err := set.Encode()
	must(t, err)
	w.store.objects[name] = attestation.EncodeAttestedShares(raw, document)
	e := w.waiting()
	defer e.stop()
	if _, refusal := e.ask("share", w.submit(e.setup(w.policy()), 0, nil)); !strings.Contains(refusal, "SHARE_OF_ANOTHER_SET") {
		t.Errorf("a share under an altered set: %q", refusal)
	}
}

// The law: a manifest that the deployment does not know is refused after the
// secret is back, however well it is approved by others.
func TestManifestsFollowEachOther(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 3)
	e := w.waiting()
	e.give(0, 1)
	e.wants("serving")
	e.stop()
	second := successor(t, w.manifest)
	second.Version = "second"
	boot := func(m, before *attestation.Manifest, want string) {
		t.Helper()
		e := w.start()
		defer e.stop()
		e.mustAsk("manifest", submission(t, m, before, w.operators))
		e.mustAsk("share", w.submit(e.setup(w.policy()), 0, nil))
		_, refusal := e.ask("share", w.submit(e.setup(w.policy()), 2, nil))
		if (refusal == "") != (want == "serving") {
			t.Fatalf("%q", refusal)
		}
		e.wants(want)
	}
	boot(second, w.manifest, "serving")
	boot(second, w.manifest, "serving") // again
	boot(w.manifest, nil, "fenced")     // back to the first
	skipped := successor(t, successor(t, second))
	boot(skipped, successor(t, second), "fenced")
	fork := *w.manifest // a first manifest of the same operators, beside the first
	fork.Version = "fork"
	boot(&fork, nil, "fenced")
	boot(successor(t, second), second, "serving")
}
