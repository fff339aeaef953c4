package handover_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/nsm"
)

// documents for one hand-over, as a host carries them.
type documents struct {
	nonce string
	setup attestation.SetupAnswer
}

func (w *world) documents(old, next *enclave) (d documents) {
	w.t.Helper()
	must(w.t, json.Unmarshal(old.must("hand_over_nonce", nil)["nonce"], &d.nonce))
	d.setup = w.setup(next, d.nonce)
	return d
}

func (w *world) setup(next *enclave, nonce string) (a attestation.SetupAnswer) {
	w.t.Helper()
	b, err := json.Marshal(next.must("setup_document", map[string]string{"nonce": nonce}))
	must(w.t, err)
	must(w.t, json.Unmarshal(b, &a))
	return a
}

func (d documents) body() map[string]any { return map[string]any{"nonce": d.nonce, "setup": d.setup} }

func told(t testing.TB) func(string, ...any) { return t.Logf }

// What was signed for is there after an upgrade, the old enclave is gone, and its image
// gets nothing any more.
func TestHandOver(t *testing.T) {
	w := newWorld(t)
	old := w.serving()
	o := w.organization(old.link)
	body := o.sign([]byte("once"))
	before := send(t, old.link, body)
	next := w.waiting(after(t, w.manifest), w.manifest, nil)
	w.upgrade(old, next)
	if again := send(t, next.link, body); again.String() != before.String() {
		t.Errorf("another answer to the same body:\n%s\n%s", before, again)
	}
	send(t, next.link, o.sign([]byte("twice")))
	clocktest.Until(t, "the old enclave has ended", old.fenced.Load)
	w.proofs(next, o)
	// The operators' shares start the new image without the old one, and not the old.
	next.stop()
	third := w.waiting(after(t, w.manifest), w.manifest, nil)
	third.shares(after(t, w.manifest))
	third.must("take", map[string]any{"ranges": []int{0, 1, 2, 3}}) // as a host does once it sees nothing of the owner
	if again := send(t, third.link, body); again.String() != before.String() {
		t.Error("another answer after a start by shares")
	}
	third.stop()
	retired := w.start(program, nil)
	if _, refusal := retired.ask("manifest", w.submission(w.manifest, nil, w.operators)); refusal == "" {
		w.refusesShares(retired)
	}
}

// refusesShares holds that all operators together do not start an enclave.
func (w *world) refusesShares(e *enclave) {
	w.t.Helper()
	if refusal := e.give(w.manifest); refusal == "" || !e.fenced.Load() {
		w.t.Errorf("the retired image serves: %q", refusal)
	}
}

// proofs holds that proofs of the new boot are good and say how it came by the secret.
func (w *world) proofs(e *enclave, o *organization) {
	w.t.Helper()
	asks := *o.Client
	asks.Proofs = true
	c := (&organization{asks.In(w.t), o.key}).sign([]byte("proven"))
	reply, err := attestation.ParseReply(send(w.t, e.link, c).Body)
	must(w.t, err)
	raw, err := e.link.Call(context.Background(), o.query("get_latest_boot_proof", client.Object{"appName": "cloister"}))
	must(w.t, err)
	boots, err := attestation.ParseReply(raw.Body)
	must(w.t, err)
	p := w.policy(after(w.t, w.manifest))
	proofs, err := attestation.VerifyAppProofs(reply.AppProofs, boots.BootProofs, p, attestation.Expectation{OrganizationID: o.Organization})
	must(w.t, err)
	for _, p := range proofs {
		if f := p.Claim.Fresh(); f == nil || f.SeedSource != attestation.SeedHandover {
			w.t.Errorf("the proof says %+v", f)
		}
	}
}

// Who is not the next enclave gets nothing.
func TestGivesToNobodyElse(t *testing.T) {
	w := newWorld(t)
	old := w.serving()
	m := after(t, w.manifest)
	foreign, err := nsm.NewRoot(rand.Reader, time.Now())
	must(t, err)
	refuse := func(name string, body map[string]any, want string) {
		t.Helper()
		if got, refusal := old.ask("hand_over", body); !strings.Contains(refusal, want) {
			t.Errorf("%s: %q, %v", name, refusal, got)
		}
	}
	next := w.waiting(m, w.manifest, nil)
	d := w.documents(old, next)
	strange := documents{strings.Repeat("ab", 32), w.setup(next, strings.Repeat("ab", 32))}
	refuse("a nonce of somebody else's", strange.body(), "HAND_OVER_STALE")
	late := w.documents(old, next)
	refuse("a document for another nonce", map[string]any{"nonce": late.nonce, "setup": d.setup}, "HAND_OVER_REFUSED")
	refuse("a nonce used in vain", late.body(), "HAND_OVER_STALE")

	for name, change := range map[string]struct {
		m      func(*attestation.Manifest)
		device func(*nsm.Config, *core.Config)
	}{
		"under another root":                 {device: func(d *nsm.Config, _ *core.Config) { d.Root = foreign }},
		"on an instance of another role":     {device: func(d *nsm.Config, _ *core.Config) { d.PCR3 = [48]byte{1} }},
		"of another root secret":             {m: func(m *attestation.Manifest) { m.QuorumPublicKey = m.QuorumPublicKey[130:] + m.QuorumPublicKey[:130] }},
		"that wants a newer keyring":         {m: func(m *attestation.Manifest) { m.MinKeyringEpoch = 2 }},
		"that makes a new storage key":       {m: func(m *attestation.Manifest) { m.RotateStorageKey, m.MinKeyringEpoch = true, 2 }},
		"of other operators":                 {m: func(m *attestation.Manifest) { m.Operators.Threshold = 1 }},
		"of a manifest that is not the next": {m: func(m *attestation.Manifest) { *m = *after(t, after(t, w.manifest)) }},
	} {
		m, before := after(t, w.manifest), w.manifest
		if change.m != nil {
			change.m(m)
		}
		if m.Nonce > 2 {
			before = after(t, w.manifest)
		}
		e := w.start(newer, change.device)
		if _, refusal := e.ask("manifest", w.submission(m, before, w.operators)); refusal != "" {
			if name != "of another root secret" { // which has no shares
				t.Errorf("%s: %s", name, refusal)
			}
			continue
		}
		refuse(name, w.documents(old, e).body(), "HAND_OVER_REFUSED")
		e.stop()
	}
	// Under the very manifest of the old one: started again, not followed.
	same := w.start(program, nil)
	same.must("manifest", w.submission(w.manifest, nil, w.operators))
	refuse("of the same manifest", w.documents(old, same).body(), "HAND_OVER_REFUSED")
	// What the operators have not approved does not even wait, so its document is made up.
	raw, err := m.Encode()
	must(t, err)
	for name, by := range map[string][]*operator{"approved by nobody": nil, "approved by one of two": w.operators[:1], "approved by a stranger": {w.operators[0], newOperator(t)}} {
		d := w.documents(old, next)
		var approvals []attestation.ManifestApproval
		for _, o := range by {
			a, err := attestation.ApproveManifest(o.sign, attestation.Hash(raw))
			must(t, err)
			approvals = append(approvals, a)
		}
		d.setup.Envelope = base64.StdEncoding.EncodeToString(attestation.EncodeEnvelope(raw, attestation.SortApprovals(approvals)...))
		refuse(name, d.body(), "HAND_OVER_REFUSED")
	}
	if old.state() != "serving" || next.state() != "seed" {
		t.Error("something has changed")
	}
	if _, refusal := old.ask("farewell", nil); !strings.Contains(refusal, "FAREWELL_TO_NOBODY") {
		t.Errorf("farewell to nobody: %q", refusal)
	}
}

// An enclave takes a keyring from nobody but the one before it, and nothing that was
// altered on the way or made for another.
func TestTakesFromNobodyElse(t *testing.T) {
	w := newWorld(t)
	other := newWorldUnder(t, w.root) // somebody else's deployment on the same hardware
	old, unrelated := w.serving(), other.serving()
	m := after(t, w.manifest)
	next := w.waiting(m, w.manifest, nil)
	theirs := other.waiting(after(t, other.manifest), other.manifest, nil)
	refuse := func(name string, h attestation.HandOver, want string) {
		t.Helper()
		if _, refusal := next.ask("take_over", h); !strings.Contains(refusal, want) {
			t.Errorf("%s: %q", name, refusal)
		}
		if s := next.state(); s != "seed" {
			t.Fatalf("%s: state is %s", name, s)
		}
	}
	handed := func(from *enclave, d documents) (h attestation.HandOver) {
		t.Helper()
		b, err := json.Marshal(from.must("hand_over", d.body()))
		must(t, err)
		must(t, json.Unmarshal(b, &h))
		return h
	}
	good := handed(old, w.documents(old, next))
	foreign := handed(unrelated, other.documents(unrelated, theirs))
	refuse("of another deployment, for another", foreign, "HAND_OVER_REFUSED")
	mixed := good
	mixed.BootProof = foreign.BootProof
	refuse("another's boot proof", mixed, "HAND_OVER_REFUSED")
	mixed = good
	mixed.Box = foreign.Box
	refuse("another's box", mixed, "HAND_OVER_REFUSED")
	mixed = good
	mixed.Signature = foreign.Signature
	refuse("another's signature", mixed, "HAND_OVER_REFUSED")
	mixed = good
	mixed.Deployment = foreign.Deployment
	refuse("another deployment", mixed, "HAND_OVER_REFUSED")
	mixed = good
	mixed.Nonce = w.documents(old, next).nonce
	refuse("another nonce", mixed, "HAND_OVER_REFUSED")
	box, err := base64.StdEncoding.DecodeString(good.Box)
	must(t, err)
	for i := range box {
		bad := append([]byte(nil), box...)
		bad[i] ^= 1
		mixed = good
		mixed.Box = base64.StdEncoding.EncodeToString(bad)
		refuse("a flipped bit", mixed, "HAND_OVER_REFUSED")
	}
	// Another enclave of the same manifest cannot use it.
	twin := w.waiting(m, w.manifest, nil)
	if _, refusal := twin.ask("take_over", good); !strings.Contains(refusal, "HAND_OVER_REFUSED") {
		t.Errorf("made for another setup key: %q", refusal)
	}
	next.must("take_over", good)
	if _, refusal := next.ask("take_over", good); refusal == "" {
		t.Error("taken over twice")
	}
}

// Until the old enclave has said farewell, the next one has what was handed to it and
// nothing else, and the old one takes nothing back.
func TestNoRangeBeforeRetirement(t *testing.T) {
	w := newWorld(t)
	old := w.serving()
	o := w.organization(old.link)
	next := w.waiting(after(t, w.manifest), w.manifest, nil)
	d := w.documents(old, next)
	next.must("take_over", old.must("hand_over", d.body()))
	if _, refusal := next.ask("take", map[string]any{"ranges": all[:1]}); !strings.Contains(refusal, "RANGE_NOT_HANDED") {
		t.Errorf("taken from one that lives: %q", refusal)
	}
	if _, refusal := old.ask("farewell", nil); !strings.Contains(refusal, "FAREWELL_TOO_EARLY") {
		t.Errorf("farewell before the ranges are given: %q", refusal)
	}
	old.must("give", map[string]any{"ranges": all[:1]}) // to nobody
	if _, refusal := old.ask("take", map[string]any{"ranges": all[:1]}); !strings.Contains(refusal, "ENCLAVE_FOLLOWED") {
		t.Errorf("taken back: %q", refusal)
	}
	if _, refusal := next.ask("take", map[string]any{"ranges": all[:1]}); !strings.Contains(refusal, "RANGE_NOT_HANDED") {
		t.Errorf("taken without a head: %q", refusal)
	}
	old.must("give", map[string]any{"ranges": all[1:], "to": next.boot()})
	next.must("take", map[string]any{"ranges": all[1:], "handed": true})
	// A farewell that the store has lost.
	old.must("farewell", nil)
	w.store.mu.Lock()
	w.store.lose = func(name string) bool { return strings.HasPrefix(name, "farewell/") }
	w.store.mu.Unlock()
	if _, refusal := next.ask("take", map[string]any{"ranges": all[:1]}); !strings.Contains(refusal, "RANGE_NOT_HANDED") {
		t.Errorf("taken without a farewell: %q", refusal)
	}
	w.store.mu.Lock()
	w.store.lose = nil
	w.store.mu.Unlock()
	next.must("take", map[string]any{"ranges": all[:1]})
	send(t, next.link, o.sign([]byte("afterwards")))
}

var all = []int{0, 1, 2, 3}

// boot is the id of an enclave's run.
func (e *enclave) boot() string {
	e.w.t.Helper()
	var table string
	must(e.w.t, json.Unmarshal(e.must("ranges", nil)["table"], &table))
	var b struct{ Boot string }
	must(e.w.t, json.Unmarshal([]byte(table), &b))
	return b.Boot
}

// moveAll hands all ranges on.
func moveAll(old, next *enclave) {
	old.w.t.Helper()
	old.must("give", map[string]any{"ranges": all, "to": next.boot()})
	next.must("take", map[string]any{"ranges": all, "handed": true})
}

// Of two that wait under one manifest the one that was named first gets the keyring and
// the farewell, as often as it is asked for, and the other neither.
func TestTwoSuccessors(t *testing.T) {
	w := newWorld(t)
	old := w.serving()
	m := after(t, w.manifest)
	next, twin := w.waiting(m, w.manifest, nil), w.waiting(m, w.manifest, nil)
	refused := func(when string) {
		t.Helper()
		if _, refusal := old.ask("hand_over", w.documents(old, twin).body()); !strings.Contains(refusal, "HAND_OVER_TO_ANOTHER") {
			t.Errorf("%s: %q", when, refusal)
		}
	}
	old.must("hand_over", w.documents(old, next).body())
	refused("before the keyring was taken over")
	next.must("take_over", old.must("hand_over", w.documents(old, next).body())) // the answer before was lost
	refused("after it was")
	moveAll(old, next)
	refused("with nothing left")
	old.must("farewell", nil)
	refused("after the farewell")
	old.must("farewell", nil) // to the same one
	if s := twin.state(); s != "seed" {
		t.Errorf("the other one is in state %s", s)
	}
}

// Who was handed over to has nothing to hand over while the one before may still serve,
// and a farewell is to one enclave by the one before it.
func TestChainOfSuccessors(t *testing.T) {
	w := newWorld(t)
	first := w.serving()
	o := w.organization(first.link)
	m2 := after(t, w.manifest)
	m3 := after(t, m2)
	second, third := w.waiting(m2, w.manifest, nil), w.waiting(m3, m2, nil)
	second.must("take_over", first.must("hand_over", w.documents(first, second).body()))
	early := func(when string) {
		t.Helper()
		if _, refusal := second.ask("hand_over", w.documents(second, third).body()); !strings.Contains(refusal, "HAND_OVER_TOO_EARLY") {
			t.Errorf("%s: hands over: %q", when, refusal)
		}
		if _, refusal := second.ask("farewell", nil); !strings.Contains(refusal, "FAREWELL_TO_NOBODY") {
			t.Errorf("%s: says farewell: %q", when, refusal)
		}
	}
	early("owning nothing")
	first.must("give", map[string]any{"ranges": all[1:], "to": second.boot()})
	second.must("take", map[string]any{"ranges": all[1:], "handed": true})
	early("owning a part")
	first.must("give", map[string]any{"ranges": all[:1], "to": second.boot()})
	second.must("take", map[string]any{"ranges": all[:1], "handed": true})
	early("owning all")
	first.must("farewell", nil)
	// Now the line goes on. The word to the second is none to the third.
	third.must("take_over", second.must("hand_over", w.documents(second, third).body()))
	second.must("give", map[string]any{"ranges": all[:1]}) // to nobody
	words := w.words()
	if len(words) != 1 {
		t.Fatalf("%d words of farewell", len(words))
	}
	w.store.mu.Lock()
	w.store.every = words[0]
	w.store.mu.Unlock()
	if _, refusal := third.ask("take", map[string]any{"ranges": all[:1]}); !strings.Contains(refusal, "RANGE_NOT_HANDED") {
		t.Errorf("taken by a farewell to another: %q", refusal)
	}
	w.store.mu.Lock()
	w.store.every = ""
	w.store.mu.Unlock()
	second.must("give", map[string]any{"ranges": all[1:], "to": third.boot()})
	third.must("take", map[string]any{"ranges": all[1:], "handed": true})
	second.must("farewell", nil)
	third.must("take", map[string]any{"ranges": all[:1]})
	send(t, third.link, o.sign([]byte("at last")))
}

// Where the next one is lost with the keyring, operators start another by shares, and no
// freshness is lost: the old one goes on until its ranges are handed on.
func TestSuccessorLost(t *testing.T) {
	w := newWorld(t)
	old := w.serving()
	o := w.organization(old.link)
	m := after(t, w.manifest)
	next := w.waiting(m, w.manifest, nil)
	next.must("take_over", old.must("hand_over", w.documents(old, next).body()))
	next.stop()
	send(t, old.link, o.sign([]byte("the old one goes on")))
	another := w.waiting(m, w.manifest, nil)
	if _, refusal := old.ask("hand_over", w.documents(old, another).body()); !strings.Contains(refusal, "HAND_OVER_TO_ANOTHER") {
		t.Errorf("handed over once more: %q", refusal)
	}
	another.shares(m)
	moveAll(old, another)
	send(t, another.link, o.sign([]byte("by the next one")))
}
