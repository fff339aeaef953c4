// Package checks verifies proofs step by step and describes the outcome of each step in words: for people
// who want to see what was checked, such as readers of the dashboard's page for it.
//
// The verdict is that of package attestation on everything at once; the steps before it only show which
// parts passed. The package opens no file and no connection, and reads no clock.
package checks

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation"
)

// Limits of a question.
const (
	MaxTexts    = 16
	MaxExpected = 1 << 20 // bytes of measurements, and of a root
	// maxManifests is the most hashes in Question.Manifest.
	maxManifests = 128
	// MaxQuestion is the longest JSON text of a question in bytes.
	MaxQuestion = 128 << 20
)

// A Question is the proofs to verify, and what the reader trusts and expects.
type Question struct {
	// Texts are JSON replies of the interface, 1 to MaxTexts: boot proofs, app proofs,
	// replies that hold either, log proofs, keys documents.
	Texts []string `json:"texts"`
	// Expected are measurements: a release file, {"0": hex, …}, or what nitro-cli
	// prints. Empty: not compared.
	Expected string `json:"expected"`
	// Manifest is the SHA-256 of the manifest that is accepted, in hex, or several with blanks between them. Empty: any.
	Manifest string `json:"manifest"`
	// Operators are those whose threshold must have approved the manifest: a manifest
	// that names them, or {"threshold": n, "publicKeys": [hex, …]}. Empty: not compared.
	Operators string `json:"operators"`
	// SimulatorRoot is a simulator's root in PEM, trusted instead of AWS's. Empty: AWS's.
	SimulatorRoot string `json:"simulatorRoot"`
	// Body is the exact body of the request that app proofs and log proofs must be about; nil: not compared.
	Body *string `json:"body"`
	// NowMs is the reader's time in milliseconds since 1970; proofs of later times are refused. 0: not checked.
	NowMs int64 `json:"nowMs"`
}

// Values of Check.Outcome.
const (
	Passed  = "passed"
	Refused = "refused"
	Skipped = "skipped" // not asked for, or there is nothing to check
)

// A Check is one step of the verification: its name, its outcome, and what that means in words.
type Check struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Words   string `json:"words"`
}

// A Fact is a named value from a verified proof.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Report is the result for a question. Facts, Statements, Entries and Recovered are empty unless Verified.
type Report struct {
	Verified bool `json:"verified"`
	// Simulator is true if a boot proof leads to the simulator's root that the question names: whoever runs a simulator can read its
	// keys. Never show "verified" without it.
	Simulator bool `json:"simulator"`
	// Unpinned says what was not compared, if all proofs hold and are refused only for that: they are those of some enclave, and nothing
	// shows which program it runs, or for whom.
	Unpinned string `json:"unpinned,omitempty"`
	// Recovered says, for a log that went on from a backup, how much of it was lost. The proofs are then true
	// of the log as it goes on: never show "verified" without it.
	Recovered string `json:"recovered,omitempty"`
	// Reason is the first refusal, empty if Verified.
	Reason string  `json:"reason"`
	Checks []Check `json:"checks"`
	Facts  []Fact  `json:"facts"`
	// Statements are the members of each app proof's claim.
	Statements [][]Fact `json:"statements"`
	// Entries are the facts of each log proof's entry.
	Entries [][]Fact `json:"entries,omitempty"`
}

// Ask verifies a question in JSON and returns the report in JSON. A question with a duplicate member, or one whose name is not
// exactly a member of Question, is refused. It never fails: the reason is in the report.
func Ask(raw []byte) []byte {
	var r *Report
	if q, err := parseQuestion(raw); err != nil {
		r = &Report{Reason: "the question is not one: " + err.Error(), Checks: []Check{}, Facts: []Fact{}, Statements: [][]Fact{}}
	} else {
		r = Make(q)
	}
	out, err := json.Marshal(r)
	if err != nil {
		return []byte(`{"verified":false,"reason":"the report could not be written","checks":[],"facts":[],"statements":[]}`)
	}
	return out
}

// parseQuestion reads a question strictly: a pin with a misspelt name would silently not be compared.
func parseQuestion(raw []byte) (q Question, err error) {
	if len(raw) > MaxQuestion {
		return q, fmt.Errorf("longer than %d bytes", MaxQuestion)
	}
	known := make([]string, 0, reflect.TypeFor[Question]().NumField())
	for f := range reflect.TypeFor[Question]().Fields() {
		known = append(known, f.Tag.Get("json"))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return q, errors.New("not a JSON object")
	}
	given := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return q, errors.New("malformed JSON")
		}
		name, _ := token.(string)
		switch {
		case !slices.Contains(known, name):
			return q, fmt.Errorf("unknown member %.32q; there are %s", name, strings.Join(known, ", "))
		case given[name]:
			return q, fmt.Errorf("%s is given twice", name)
		}
		given[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return q, errors.New("malformed JSON")
		}
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return q, errors.New("a member does not have its type, or something follows")
	}
	return q, nil
}

// examination is a report in the making.
type examination struct {
	Report
	question Question
	policy   attestation.Policy
	replies  []*attestation.Reply
	boots    []attestation.BootProof // of all replies
	apps     int                     // app proofs in all replies
	logs     []*attestation.Reply    // those that hold a log proof
	keys     [][]byte
	err      error // the first refusal
}

// Make verifies the proofs in a question. Report.Reason says why they are refused.
func Make(q Question) *Report {
	e := examine(q, false)
	if errors.Is(e.err, attestation.ErrUnpinned) {
		if rest := examine(q, true); rest.err == nil {
			e.Simulator, e.Unpinned = rest.Simulator, notCompared(rest.policy)
		}
	}
	return &e.Report
}

// notCompared says what a policy that pins too little leaves open.
func notCompared(p attestation.Policy) string {
	image := true
	for i := range 3 {
		_, ok := p.ExpectedPCRs[i]
		image = image && ok
	}
	switch {
	case image:
		return "The deployment was not compared: any deployment of this image would pass, with operators and keys of its own."
	case p.Operators.Named():
		return "The image was not compared: any image that these operators have approved would pass. Measurements 0, 1 and 2 name one."
	case len(p.ExpectedPCRs) > 0:
		return "The deployment was not compared, nor all of the measurements 0, 1 and 2: any deployment of another image could pass."
	}
	return "You compared it with nothing: any deployment of any image would pass."
}

// examine verifies the proofs in a question. If unpinned is true, it does not matter what the question pins; the examination then only
// tells whether everything else holds.
func examine(q Question, unpinned bool) *examination {
	e := &examination{question: q, Report: Report{Checks: []Check{}, Facts: []Fact{}, Statements: [][]Fact{}}}
	e.policy.AllowUnpinned = unpinned
	e.step("What is believed", func() (string, error) { return "What you expect could be read.", e.makePolicy() })
	e.step("Form", e.read)
	for _, b := range e.boots {
		e.boot(b)
	}
	e.proofs()
	for _, l := range e.logs {
		e.log(l)
	}
	for _, raw := range e.keys {
		e.step("Keys", func() (string, error) {
			_, err := attestation.VerifyKeys(raw, e.policy)
			return "The public keys in the document are those that the live key has signed.", err
		})
	}
	if e.err != nil {
		e.Reason, e.Facts, e.Statements, e.Entries, e.Recovered, e.Simulator = e.err.Error(), []Fact{}, [][]Fact{}, nil, "", false
	} else {
		e.Verified = true
	}
	return e
}

// step runs one check, unless one was refused before. Its words say what passing means.
func (e *examination) step(name string, check func() (words string, err error)) {
	if e.err != nil {
		return
	}
	words, err := check()
	outcome := Passed
	if err != nil {
		outcome, words, e.err = Refused, err.Error(), err
	}
	e.Checks = append(e.Checks, Check{name, outcome, words})
}

func (e *examination) skip(name, words string) {
	if e.err == nil {
		e.Checks = append(e.Checks, Check{name, Skipped, words})
	}
}

func (e *examination) makePolicy() error {
	p := &e.policy
	if max(len(e.question.SimulatorRoot), len(e.question.Expected), len(e.question.Operators)) > MaxExpected {
		return errors.New("what is expected is too long")
	}
	p.SimulatorRootPEM = e.question.SimulatorRoot
	if e.question.Manifest != "" {
		p.AllowedManifestSHA256 = strings.Fields(e.question.Manifest)
		if n := len(p.AllowedManifestSHA256); n == 0 || n > maxManifests {
			return fmt.Errorf("%d manifests, want 1 to %d", n, maxManifests)
		}
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

// measurements reads a release file, or measurements as attestation.ParseMeasurements takes them.
func measurements(raw []byte) (map[int]string, error) {
	var top map[string]json.RawMessage
	if json.Unmarshal(raw, &top) != nil || top["format"] == nil {
		return attestation.ParseMeasurements(raw)
	}
	r, err := attestation.ParseRelease(raw)
	if err != nil {
		return nil, err
	}
	if r.Platform != attestation.PlatformNitro {
		return nil, errors.New("measurements: the release is not one for Nitro")
	}
	return r.ExpectedPCRs(), nil
}

func (e *examination) read() (string, error) {
	if len(e.question.Texts) == 0 || len(e.question.Texts) > MaxTexts {
		return "", fmt.Errorf("%d texts, want 1 to %d", len(e.question.Texts), MaxTexts)
	}
	for _, text := range e.question.Texts {
		r, err := attestation.ParseReply([]byte(text))
		if err != nil {
			return "", err
		}
		var top map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &top) == nil && top["keys"] != nil && top["appProof"] != nil {
			e.keys = append(e.keys, []byte(text))
		}
		if r.LogProof != nil {
			e.logs = append(e.logs, r)
		}
		e.replies, e.boots, e.apps = append(e.replies, r), append(e.boots, r.BootProofs...), e.apps+len(r.AppProofs)
	}
	if len(e.boots) == 0 {
		return "", errors.New("no boot proof: without one nobody knows whose key signed")
	}
	if e.question.Body != nil && e.apps+len(e.logs) == 0 {
		return "", errors.New("a request is given, and no app proof or log proof that could be about it")
	}
	return fmt.Sprintf("Found %d boot proof(s), %d app proof(s), %d log proof(s) and %d keys document(s).", len(e.boots), e.apps, len(e.logs), len(e.keys)), nil
}

// boot verifies a boot proof, part by part and then whole.
func (e *examination) boot(b attestation.BootProof) {
	p := e.policy
	root := "the pinned root of AWS Nitro Enclaves"
	if p.SimulatorRootPEM != "" {
		root = "the simulator's root that you named: this is no enclave, and keeps no secret from its machine"
	}
	part := func(name, words string, change func(*attestation.Policy)) {
		e.step(name, func() (string, error) {
			q := attestation.Policy{SimulatorRootPEM: p.SimulatorRootPEM, Now: p.Now, AllowUnpinned: true, ForeignManifest: true}
			change(&q)
			_, err := attestation.VerifyBootProof(b, q)
			return words, err
		})
	}
	part("Security module", "A security module signed the document, and its certificates lead to "+root+". They are held against the document's own time, since they live for hours. "+
		"The document binds the live key and the manifest: it holds the key and the manifest's hash, and register 17 commits to both.", func(q *attestation.Policy) { q.AllowDebug = true })
	part("No debug image", "The measurements are not zero: nobody reads along on the console.", func(*attestation.Policy) {})
	if len(p.ExpectedPCRs) > 0 {
		part("Image", fmt.Sprintf("%d measurements are those that you expect.", len(p.ExpectedPCRs)), func(q *attestation.Policy) { q.ExpectedPCRs = p.ExpectedPCRs })
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
	part("Manifest", manifest, func(q *attestation.Policy) {
		q.ForeignManifest, q.AllowedManifestSHA256, q.Operators = false, p.AllowedManifestSHA256, p.Operators
	})
	e.step("Boot proof as a whole", func() (string, error) {
		boot, err := attestation.VerifyBootProof(b, p)
		if err != nil {
			return "", err
		}
		e.addFacts(boot)
		e.Simulator = e.Simulator || boot.Document.Simulator
		return "Everything about this boot holds, under what you expect of it: " + strings.Join(boot.Pins(), "; ") + ".", nil
	})
}

func (e *examination) addFacts(b *attestation.Boot) {
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
	if m.Log != nil {
		e.Facts = append(e.Facts, Fact{"Witnesses", m.Log.String()})
	}
	for i := range m.Recover {
		e.Facts = append(e.Facts, Fact{"Recovered", m.Recover[i].String()})
	}
	if m.Drill {
		e.Facts = append(e.Facts, Fact{"Drill", "a copy of the deployment that may be old, and is thrown away"})
	}
	for i := range 3 {
		pcr := b.Document.PCRs[i]
		e.Facts = append(e.Facts, Fact{"PCR " + strconv.Itoa(i), hex.EncodeToString(pcr[:])})
	}
}

// proofs verifies the app proofs, and that they are about the request and the activity of their reply.
func (e *examination) proofs() {
	if e.apps == 0 {
		e.skip("App proofs", "There is none.")
		return
	}
	e.step("App proofs", func() (string, error) {
		var want attestation.Expectation
		words := "The live key signed each of them, at a time that fits the boot."
		if e.question.Body != nil {
			want.Fingerprint = attestation.Fingerprint([]byte(*e.question.Body))
			words += " They are about the request that you gave."
		} else {
			words += " You gave no request: they are true statements, perhaps about something else."
		}
		for _, r := range e.replies {
			if len(r.AppProofs) == 0 {
				continue
			}
			all, err := attestation.VerifyAppProofs(r.AppProofs, e.boots, e.policy, want)
			if err != nil {
				return "", err
			}
			for i, p := range all {
				if err := r.Expects(p).Check(p); err != nil {
					return "", fmt.Errorf("proof %d does not fit the activity beside it: %w", i+1, err)
				}
				facts, err := statement(p)
				if err != nil {
					return "", err
				}
				e.Statements = append(e.Statements, facts)
			}
		}
		return words, nil
	})
}

// log verifies the log proof of a reply, and that it is about the reply's activity and the request.
func (e *examination) log(r *attestation.Reply) {
	e.step("Log proof", func() (string, error) {
		l := r.LogProof
		at := slices.IndexFunc(e.boots, func(b attestation.BootProof) bool { return b.EphemeralPublicKeyHex == l.LogKey.PublicKey })
		if at < 0 {
			return "", errors.New("no boot proof of the live key that names the log's key")
		}
		boot, err := attestation.VerifyBootProof(e.boots[at], e.policy)
		if err != nil {
			return "", err
		}
		entry, err := attestation.VerifyLogProof(l.LogProof, l.LogKey, boot)
		if err != nil {
			return "", err
		}
		if err := r.CheckLogged(entry); err != nil {
			return "", err
		}
		words := "The entry stands in the log that the live key names, and as many of the manifest's witnesses as it takes have cosigned that."
		if r.ActivityID != "" {
			words += " It is the step that the reply beside it tells of."
		}
		if e.question.Body != nil {
			if err := (attestation.Expectation{Fingerprint: attestation.Fingerprint([]byte(*e.question.Body))}).CheckLogged(entry); err != nil {
				return "", err
			}
			words += " It is about the request that you gave."
		}
		if lost, recovered := entry.Lost(); recovered {
			e.Recovered = fmt.Sprintf("The log was recovered from a backup, and %d batch(es) that witnesses had seen are lost: what was answered in them is in no history that goes on.", lost)
		}
		e.Entries = append(e.Entries, entryFacts(entry))
		return words, nil
	})
}

func entryFacts(l *attestation.LoggedEntry) []Fact {
	f := l.Facts
	return []Fact{
		{"Log", l.Origin.String()},
		{"History", l.History()},
		{"Leaf", fmt.Sprintf("%d of %d", l.Index, l.Checkpoint.Size)},
		{"Witnesses", l.Signers()},
		{"Mode", l.Wait()},
		{"Organization", attestation.UUID(f.Organization)},
		{"Entry", fmt.Sprintf("%d of %d by then", f.Seq, l.Opening.Count)},
		{"Activity", attestation.UUID(f.Activity)},
		{"Type", f.Type},
		{"Status", f.Status},
		{"Request", fmt.Sprintf("sha256:%x", f.Fingerprint)},
		{"Decided", time.UnixMilli(int64(min(f.TimeMs, 1<<53-1))).UTC().Format(time.RFC3339)},
	}
}

// statement returns the members of a claim. Lists and inner objects are shown as JSON.
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
