// Package checks verifies proofs step by step and says of each step, in words,
// how it came out: for people who want to see what was looked at, such as the
// readers of the dashboard's page for it.
//
// The verdict is that of package attestation, asked with everything at once; the
// steps before it only tell which part of it held. It opens no file, no socket
// and no clock.
package checks

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cloister/attestation"
)

// Limits of a question.
const (
	MaxTexts    = 16
	MaxExpected = 1 << 20 // bytes of measurements, and of a root
	// MaxQuestion bounds the JSON text of a question in bytes.
	MaxQuestion = 128 << 20
)

// A Question is what to verify, and what is believed beforehand.
type Question struct {
	// Texts are JSON as the interface answers it: boot proofs, app proofs, replies
	// that hold either, keys documents.
	Texts []string `json:"texts"`
	// Expected are measurements: a release file, {"0": hex, …}, or what nitro-cli
	// prints. Empty: none are known.
	Expected string `json:"expected"`
	// Manifest is the SHA-256 of the one manifest that is taken, in hex. Empty: any.
	Manifest string `json:"manifest"`
	// Operators are those whose threshold must have approved the manifest: a manifest
	// that names them, or {"threshold": n, "publicKeys": [hex, …]}. Empty: not known.
	Operators string `json:"operators"`
	// SimulatorRoot is a simulator's root in PEM, believed instead of AWS's.
	SimulatorRoot string `json:"simulatorRoot"`
	// Body is the exact body of the request that the app proofs are to be about, nil
	// if that is not asked.
	Body *string `json:"body"`
	// NowMs is the reader's time in milliseconds since 1970; what lies after it is
	// refused. 0: not looked at.
	NowMs int64 `json:"nowMs"`
}

// How a check came out.
const (
	Passed  = "passed"
	Refused = "refused"
	Skipped = "skipped" // not asked for, or something before it was refused
)

// A Check is one step: its name, how it came out, and what that means.
type Check struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Words   string `json:"words"`
}

// A Fact is something that verified proofs say.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Report is the answer. Facts and Statements are empty unless Verified.
type Report struct {
	Verified bool `json:"verified"`
	// Reason is why not, empty if Verified.
	Reason string  `json:"reason"`
	Checks []Check `json:"checks"`
	Facts  []Fact  `json:"facts"`
	// Statements are what each app proof states.
	Statements [][]Fact `json:"statements"`
}

// Ask reads a question in JSON and gives the report in JSON.
func Ask(raw []byte) []byte {
	var q Question
	var r *Report
	if len(raw) > MaxQuestion || json.Unmarshal(raw, &q) != nil {
		r = &Report{Reason: "the question is not one", Checks: []Check{}, Facts: []Fact{}, Statements: [][]Fact{}}
	} else {
		r = Make(q)
	}
	out, err := json.Marshal(r)
	if err != nil {
		return []byte(`{"verified":false,"reason":"the report could not be written","checks":[],"facts":[],"statements":[]}`)
	}
	return out
}

// examination is a report in the making.
type examination struct {
	Report
	question Question
	policy   attestation.Policy
	found    []*attestation.Reply
	keys     [][]byte
}

// Make verifies what a question holds.
func Make(q Question) *Report {
	e := &examination{question: q, Report: Report{Checks: []Check{}, Facts: []Fact{}, Statements: [][]Fact{}}}
	if err := e.run(); err != nil {
		e.Reason, e.Facts, e.Statements = err.Error(), []Fact{}, [][]Fact{}
	} else {
		e.Verified = true
	}
	return &e.Report
}

// step runs one check. Words say what it means that it passed.
func (e *examination) step(name, words string, f func() error) error {
	if err := f(); err != nil {
		e.Checks = append(e.Checks, Check{name, Refused, err.Error()})
		return err
	}
	e.Checks = append(e.Checks, Check{name, Passed, words})
	return nil
}

func (e *examination) skip(name, words string) {
	e.Checks = append(e.Checks, Check{name, Skipped, words})
}

func (e *examination) run() error {
	if err := e.step("What is believed", "What you expect could be read.", e.makePolicy); err != nil {
		return err
	}
	if err := e.step("Form", "", e.read); err != nil {
		return err
	}
	boots := 0
	for _, r := range e.found {
		boots += len(r.BootProofs)
	}
	e.Checks[len(e.Checks)-1].Words = fmt.Sprintf("Found %d boot proof(s), %d app proof(s) and %d keys document(s).", boots, e.apps(), len(e.keys))
	for _, r := range e.found {
		for _, b := range r.BootProofs {
			if err := e.boot(b); err != nil {
				return err
			}
		}
	}
	if err := e.proofs(); err != nil {
		return err
	}
	for _, raw := range e.keys {
		if err := e.step("Keys", "The public keys in the document are those that the live key has signed.", func() error {
			_, err := attestation.VerifyKeys(raw, e.policy)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// makePolicy makes the policy.
func (e *examination) makePolicy() error {
	p := &e.policy
	if max(len(e.question.SimulatorRoot), len(e.question.Expected), len(e.question.Operators)) > MaxExpected {
		return errors.New("what is expected is too long")
	}
	p.SimulatorRootPEM = e.question.SimulatorRoot
	if e.question.Manifest != "" {
		p.AllowedManifestSHA256 = []string{e.question.Manifest}
	}
	if e.question.NowMs != 0 {
		p.Now = time.UnixMilli(e.question.NowMs)
	}
	var err error
	if e.question.Operators != "" {
		if p.Operators, err = attestation.ParseOperators([]byte(e.question.Operators)); err != nil {
			return err
		}
	}
	if e.question.Expected != "" {
		p.ExpectedPCRs, err = measurements([]byte(e.question.Expected))
	}
	return err
}

// measurements reads a release file, a map by number, or what nitro-cli prints.
func measurements(raw []byte) (map[int]string, error) {
	var any map[string]json.RawMessage
	if err := json.Unmarshal(raw, &any); err != nil {
		return nil, errors.New("measurements: not JSON")
	}
	if any["format"] != nil {
		r, err := attestation.ParseRelease(raw)
		if err != nil {
			return nil, err
		}
		if r.Platform != attestation.PlatformNitro {
			return nil, errors.New("measurements: the release is not one for Nitro")
		}
		return r.ExpectedPCRs(), nil
	}
	flat := map[string]string{}
	if inner := any["Measurements"]; inner != nil {
		var named map[string]string
		if err := json.Unmarshal(inner, &named); err != nil {
			return nil, errors.New("measurements: not as nitro-cli prints them")
		}
		for name, v := range named {
			if digits, ok := strings.CutPrefix(name, "PCR"); ok {
				flat[digits] = v
			}
		}
	} else if err := json.Unmarshal(raw, &flat); err != nil {
		return nil, errors.New("measurements: not a map of texts")
	}
	out := map[int]string{}
	for name, v := range flat {
		i, err := strconv.Atoi(name)
		if err != nil || strconv.Itoa(i) != name || i < 0 || i > 31 {
			return nil, errors.New("measurements: a PCR is not numbered 0 to 31")
		}
		out[i] = v
	}
	if len(out) == 0 {
		return nil, errors.New("measurements: there are none")
	}
	return out, nil
}

func (e *examination) apps() (n int) {
	for _, r := range e.found {
		n += len(r.AppProofs)
	}
	return n
}

func (e *examination) read() error {
	if len(e.question.Texts) == 0 || len(e.question.Texts) > MaxTexts {
		return fmt.Errorf("%d texts, want 1 to %d", len(e.question.Texts), MaxTexts)
	}
	boots := 0
	for _, text := range e.question.Texts {
		r, err := attestation.ParseReply([]byte(text))
		if err != nil {
			return err
		}
		var top map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &top) == nil && top["keys"] != nil && top["appProof"] != nil {
			e.keys = append(e.keys, []byte(text))
		}
		e.found = append(e.found, r)
		boots += len(r.BootProofs)
	}
	if boots == 0 {
		return errors.New("no boot proof: without one nobody knows whose key signed")
	}
	if e.question.Body != nil && e.apps() == 0 {
		return errors.New("a request is given, and no app proof that could be about it")
	}
	return nil
}

// boot verifies a boot proof, part by part and then whole.
func (e *examination) boot(b attestation.BootProof) error {
	p := e.policy
	root := "the pinned root of AWS Nitro Enclaves"
	if p.SimulatorRootPEM != "" {
		root = "the simulator's root that you named: this is no enclave, and keeps no secret from its machine"
	}
	loose := attestation.Policy{SimulatorRootPEM: p.SimulatorRootPEM, Now: p.Now, AllowDebug: true, AllowUnpinned: true, ForeignManifest: true}
	with := func(change func(*attestation.Policy)) error {
		q := loose
		change(&q)
		_, err := attestation.VerifyBootProof(b, q)
		return err
	}
	strict := func(q *attestation.Policy) { q.AllowDebug = false }
	for _, s := range []struct {
		name, words string
		verify      func() error
	}{
		{"Security module", "A security module signed the document, and its certificates lead to " + root + ". They are held against the document's own time, since they live for hours. " +
			"The document binds the live key and the manifest: it holds the key and the manifest's hash, and register 17 commits to both.", func() error { return with(func(*attestation.Policy) {}) }},
		{"No debug image", "The measurements are not zero: nobody reads along on the console.", func() error { return with(strict) }},
	} {
		if err := e.step(s.name, s.words, s.verify); err != nil {
			return err
		}
	}
	if len(p.ExpectedPCRs) > 0 {
		if err := e.step("Image", fmt.Sprintf("%d measurements are those that you expect.", len(p.ExpectedPCRs)), func() error {
			return with(func(q *attestation.Policy) { strict(q); q.ExpectedPCRs = p.ExpectedPCRs })
		}); err != nil {
			return err
		}
	} else {
		e.skip("Image", "You named no measurements.")
	}
	manifest := "The manifest has the documented form, fits image and root, and has the approvals that its envelope shows."
	if len(p.AllowedManifestSHA256) > 0 {
		manifest += " It is the one that you expect."
	}
	if p.Operators.Named() {
		manifest += " The operators that you expect have approved it."
	}
	if err := e.step("Manifest", manifest, func() error {
		return with(func(q *attestation.Policy) {
			strict(q)
			q.ForeignManifest, q.AllowedManifestSHA256, q.Operators = false, p.AllowedManifestSHA256, p.Operators
		})
	}); err != nil {
		return err
	}
	var boot *attestation.Boot
	err := e.step("Boot proof as a whole", "", func() (err error) {
		boot, err = attestation.VerifyBootProof(b, p)
		return err
	})
	if err == nil {
		e.Checks[len(e.Checks)-1].Words = "Everything about this boot holds, under what you expect of it: " + strings.Join(boot.Pins(), "; ") + "."
		e.tell(boot)
	}
	return err
}

func (e *examination) tell(b *attestation.Boot) {
	m := b.Manifest
	e.Facts = append(e.Facts,
		Fact{"Deployment", m.DeploymentLabel},
		Fact{"Owner", m.Owner},
		Fact{"Version", m.Version},
		Fact{"Kind", m.Kind},
		Fact{"Booted", b.Document.Time.UTC().Format(time.RFC3339)},
		Fact{"Manifest, SHA-256", hex.EncodeToString(b.ManifestHash[:])},
		Fact{"Live key", b.PublicKeyHex},
	)
	for i := range 3 {
		pcr := b.Document.PCRs[i]
		e.Facts = append(e.Facts, Fact{"PCR " + strconv.Itoa(i), hex.EncodeToString(pcr[:])})
	}
}

// proofs verifies the app proofs, and ties them to the request and to the activity
// that they came with.
func (e *examination) proofs() error {
	if e.apps() == 0 {
		e.skip("App proofs", "There is none.")
		return nil
	}
	var want attestation.Expectation
	words := "The live key signed each of them, at a time that fits the boot."
	if e.question.Body != nil {
		want.Fingerprint = attestation.Fingerprint([]byte(*e.question.Body))
		words += " They are about the request that you gave."
	} else {
		words += " You gave no request: they are true statements, perhaps about something else."
	}
	var boots []attestation.BootProof
	for _, r := range e.found {
		boots = append(boots, r.BootProofs...)
	}
	return e.step("App proofs", words, func() error {
		for _, r := range e.found {
			if len(r.AppProofs) == 0 {
				continue
			}
			all, err := attestation.VerifyAppProofs(r.AppProofs, boots, e.policy, want)
			if err != nil {
				return err
			}
			for i, p := range all {
				if err := r.Expects(p).Check(p); err != nil {
					return fmt.Errorf("proof %d does not fit the activity beside it: %w", i+1, err)
				}
				facts, err := statement(p)
				if err != nil {
					return err
				}
				e.Statements = append(e.Statements, facts)
			}
		}
		return nil
	})
}

// statement is a claim as rows. Lists and inner objects are shown as JSON.
func statement(p *attestation.Proof) ([]Fact, error) {
	raw, err := json.Marshal(p.Claim)
	if err != nil {
		return nil, fmt.Errorf("reading a claim: %w", err)
	}
	facts := []Fact{{"type", p.Claim.Type()}, {"signed", p.Time.UTC().Format(time.RFC3339)}}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("reading a claim: %w", err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading a claim: %w", err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("reading a claim: %w", err)
		}
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v)
		}
		facts = append(facts, Fact{fmt.Sprint(name), text})
	}
	return facts, nil
}
