package shares_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/attestation/tlog"
)

// newest is the share set of a secret as an enclave answers it from the store.
func (w *world) newest(quorum string) []byte {
	w.t.Helper()
	e := w.start()
	defer e.stop()
	return e.mustAsk("shares", map[string]string{"quorumPublicKey": quorum})["shares"]
}

// trial boots once under a manifest with the shares of some operators.
func (w *world) trial(m, before *attestation.Manifest, approvers []*operator, shares []byte, policy attestation.Policy, givers ...*operator) (map[string]json.RawMessage, string) {
	w.t.Helper()
	e := w.start()
	defer e.stop()
	if _, refusal := e.ask("manifest", submission(w.t, m, before, approvers)); refusal != "" {
		return nil, refusal
	}
	var last map[string]json.RawMessage
	for _, o := range givers {
		s := e.setup(policy)
		got, refusal := e.ask("share", submitOf(w.t, shares, policy, o, s, nil))
		if refusal != "" {
			return nil, refusal
		}
		last = got
	}
	if s := e.state(); s != "serving" {
		return nil, "state is " + s
	}
	return last, ""
}

// Operators rotate by a manifest that the old ones approve: M of the old start it
// once, and from then on the new ones do and the old ones do not.
func TestOperatorsRotate(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 3)
	old, p := w.operators, w.policy()
	if _, refusal := w.trial(w.manifest, nil, old, w.shares, p, old[0], old[1]); refusal != "" {
		t.Fatal(refusal)
	}
	fresh := []*operator{newOperator(t), newOperator(t), newOperator(t), newOperator(t)}
	m := successor(t, w.manifest)
	m.Operators = named(t, 3, fresh)
	if _, refusal := w.trial(m, w.manifest, fresh, w.shares, p, old[0], old[1]); !strings.Contains(refusal, "MANIFEST_NOT_APPROVED") {
		t.Fatalf("approved by the new operators alone: %q", refusal)
	}
	if _, refusal := w.trial(m, w.manifest, old, w.shares, p, old[2], old[1]); refusal != "" {
		t.Fatal(refusal)
	}
	shares := w.newest(m.QuorumPublicKey)
	if set := verified(t, shares, p); set.Generation != 2 || !set.Operators.Equal(m.Operators) {
		t.Fatalf("generation %d", set.Generation)
	}
	// From now on the new ones, under the same manifest, approved as it was.
	if _, refusal := w.trial(m, w.manifest, old, shares, p, fresh[3], fresh[0], fresh[2]); refusal != "" {
		t.Fatal(refusal)
	}
	if _, refusal := w.trial(m, w.manifest, old, shares, p, fresh[3], fresh[0]); refusal != "state is seed" {
		t.Fatalf("two of three: %q", refusal)
	}
	if _, refusal := w.trial(m, w.manifest, old, w.shares, p, old[0], old[1]); !strings.Contains(refusal, "SHARE_OF_ANOTHER_SET") {
		t.Fatalf("the old shares: %q", refusal)
	}
	// The next manifest is the new operators' to approve.
	next, np := successor(t, m), p
	np.Operators = m.Operators
	if _, refusal := w.trial(next, m, old, shares, np, fresh...); !strings.Contains(refusal, "MANIFEST_NOT_APPROVED") {
		t.Fatalf("approved by the old operators: %q", refusal)
	}
	if _, refusal := w.trial(next, m, fresh, shares, np, fresh[0], fresh[1], fresh[2]); refusal != "" {
		t.Fatal(refusal)
	}
}

// The root secret rotates in two manifests: one has it made, the next names it. The
// deployment, its keyring and so every key that clients pin stay.
func TestRootSecretRotates(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 3)
	ops, p := w.operators, w.policy()
	first, refusal := w.trial(w.manifest, nil, ops, w.shares, p, ops[0], ops[1])
	if refusal != "" {
		t.Fatal(refusal)
	}
	m := successor(t, w.manifest)
	m.RotateRootSecret = true
	made, refusal := w.trial(m, w.manifest, ops, w.shares, p, ops[0], ops[1])
	if refusal != "" {
		t.Fatal(refusal)
	}
	var quorum string
	must(t, json.Unmarshal(made["nextQuorumPublicKey"], &quorum))
	// A host that writes its own key wherever the new one stands in the store does not
	// have the enclave tell it to the operators.
	w.store.swap(quorum, m.QuorumPublicKey[130:]+m.QuorumPublicKey[:130])
	again, refusal := w.trial(m, w.manifest, ops, w.shares, p, ops[2], ops[1])
	if refusal != "" || string(again["nextQuorumPublicKey"]) != string(made["nextQuorumPublicKey"]) {
		t.Fatalf("another secret at the second boot: %q", refusal)
	}
	if quorum == m.QuorumPublicKey {
		t.Fatal("the same secret")
	}
	shares := w.newest(quorum)
	next := successor(t, m)
	next.RotateRootSecret, next.QuorumPublicKey = false, quorum
	if _, refusal := w.trial(next, m, ops, w.shares, p, ops[0], ops[1]); !strings.Contains(refusal, "SHARE_OF_ANOTHER_SET") {
		t.Fatalf("shares of the old secret: %q", refusal)
	}
	got, refusal := w.trial(next, m, ops, shares, p, ops[0], ops[2])
	if refusal != "" {
		t.Fatal(refusal)
	}
	for _, what := range []string{"keys", "deployment"} {
		if string(got[what]) != string(first[what]) {
			t.Errorf("%s changed", what)
		}
	}
	if _, refusal := w.trial(m, w.manifest, ops, w.shares, p, ops[0], ops[1]); refusal == "" {
		t.Error("the old secret starts it still")
	}
}

// Two of four operators approve a manifest, and three one that recovers a log. What counts is what the manifest says that
// the deployment runs under, which the law names.
func TestRecoverThreshold(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 4)
	ops := w.operators
	boot := func(m, before *attestation.Manifest, by []*operator) {
		t.Helper()
		if _, refusal := w.trial(m, before, by, w.shares, w.policy(), ops[0], ops[3]); refusal != "" {
			t.Fatal(refusal)
		}
	}
	given := func(m, before *attestation.Manifest, by []*operator) string {
		t.Helper()
		e := w.start()
		defer e.stop()
		_, refusal := e.ask("manifest", submission(t, m, before, by))
		return refusal
	}
	witness, err := tlog.NewKey("one", tlog.TypeCosignature, bytes.Repeat([]byte{1}, 32))
	must(t, err)
	w.manifest.Freshness.Mode = attestation.FreshWitnessed
	w.manifest.Log = &attestation.LogTerms{Name: "log.example", Policy: fmt.Sprintf("witness one %s http://127.0.0.1:1/\nquorum one\n", witness), Mode: "strict", ServeMs: 1000}
	recovers := func(before *attestation.Manifest) *attestation.Manifest {
		m := successor(t, before)
		terms := *before.Log
		terms.Generation, m.Log = 2, &terms
		m.Recover = []attestation.RecoveredLog{{Origin: "log.example/00112233445566778899aabbccddeeff/0/1", Size: 4, Root: program, Witnessed: 5, Generation: 2}}
		return m
	}
	boot(w.manifest, nil, ops[:2])
	if refusal := given(recovers(w.manifest), w.manifest, ops[:2]); refusal != "" {
		t.Errorf("where no manifest says more: %s", refusal)
	}
	higher := successor(t, w.manifest)
	higher.Operators.RecoverThreshold = 3
	boot(higher, w.manifest, ops[:2])
	const refused = "MANIFEST_NOT_APPROVED"
	if refusal := given(recovers(higher), higher, ops[:2]); !strings.Contains(refusal, refused) {
		t.Errorf("a recovery that two approve: %q", refusal)
	}
	if refusal := given(recovers(higher), higher, ops[1:]); refusal != "" {
		t.Errorf("a recovery that three approve: %s", refusal)
	}
	lower := successor(t, higher)
	lower.Operators.RecoverThreshold = 0
	if refusal := given(lower, higher, ops[:2]); !strings.Contains(refusal, refused) {
		t.Errorf("two lower it: %q", refusal)
	}
	theirs := successor(t, higher)
	theirs.Operators = named(t, 2, []*operator{ops[0], ops[1], newOperator(t), newOperator(t)})
	theirs.Operators.RecoverThreshold = 3
	if refusal := given(theirs, higher, ops[:2]); !strings.Contains(refusal, refused) {
		t.Errorf("two have theirs in the place of the others: %q", refusal)
	}
	// Behind the back of the one that is in force, from the one before it.
	aside := successor(t, w.manifest)
	aside.Version = "aside"
	if _, refusal := w.trial(aside, w.manifest, ops[:2], w.shares, w.policy(), ops[0], ops[3]); !strings.Contains(refusal, "nor one that may come after it") {
		t.Errorf("beside the manifest that is in force: %q", refusal)
	}
	objects := w.store.objects
	w.store.objects = maps.Clone(objects)
	delete(w.store.objects, "law/0000000003")
	// Known: which law is the newest is the host's word. With the one before, and two operators, it goes on from there, and
	// the log says that it did.
	boot(aside, w.manifest, ops[:2])
	w.store.objects = objects
	boot(lower, higher, ops[:3])
	if refusal := given(recovers(lower), lower, ops[:2]); refusal != "" {
		t.Errorf("once three have lowered it: %s", refusal)
	}
}
