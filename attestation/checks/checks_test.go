package checks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/attestation/checks"
)

// The proofs that the command is tested with.
func file(t testing.TB, name string) string {
	raw, err := os.ReadFile(filepath.Join("..", "verify", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func question(t testing.TB) checks.Question {
	body := file(t, "body.json")
	return checks.Question{Texts: []string{file(t, "boot.json"), file(t, "submit.json")}, Expected: file(t, "measurements.json"), Operators: file(t, "operators.json"), SimulatorRoot: file(t, "root.pem"), Body: &body}
}

func outcomes(r *checks.Report) (out string) {
	for _, c := range r.Checks {
		out += c.Name + ": " + c.Outcome + "\n"
	}
	return out
}

func TestVerified(t *testing.T) {
	q := question(t)
	r := checks.Make(q)
	const want = "What is believed: passed\nForm: passed\nSecurity module: passed\nNo debug image: passed\nImage: passed\nManifest: passed\nBoot proof as a whole: passed\nApp proofs: passed\n"
	if !r.Verified || r.Reason != "" || outcomes(r) != want || len(r.Statements) != 2 {
		t.Fatalf("%+v", r)
	}
	if !slices.ContainsFunc(r.Statements[0], func(f checks.Fact) bool { return f.Name == "digests" && strings.HasPrefix(f.Value, `["05`) }) {
		t.Errorf("%+v", r.Statements[0])
	}
	for _, f := range r.Facts {
		if f.Value == "" {
			t.Errorf("%s is empty", f.Name)
		}
	}
	for _, c := range r.Checks {
		if c.Words == "" {
			t.Errorf("%s: no words", c.Name)
		}
	}
	// What else pins, and what may be left out.
	var manifest string
	for _, f := range r.Facts {
		if f.Name == "Manifest, SHA-256" {
			manifest = f.Value
		}
	}
	for name, change := range map[string]func(*checks.Question){
		"as nitro-cli prints them": func(q *checks.Question) { q.Expected = file(t, "nitro-cli.json") },
		"by manifest":              func(q *checks.Question) { q.Expected, q.Operators, q.Manifest = "", "", manifest },
		"by one of several": func(q *checks.Question) {
			q.Expected, q.Operators, q.Manifest = "", "", strings.Repeat("ab", 32)+" "+manifest
		},
		"image and manifest": func(q *checks.Question) { q.Operators, q.Manifest = "", manifest },
		"no request":         func(q *checks.Question) { q.Body = nil },
		"boot proof alone":   func(q *checks.Question) { q.Texts, q.Body = q.Texts[:1], nil },
	} {
		q := question(t)
		change(&q)
		if r := checks.Make(q); !r.Verified {
			t.Errorf("%s: %+v", name, r)
		}
	}
	keys := checks.Question{Texts: []string{file(t, "keys-document.json")}, SimulatorRoot: credential(t, "attestationRootPem"), Manifest: credential(t, "manifestSha256")}
	if r := checks.Make(keys); !r.Verified || !strings.Contains(outcomes(r), "Keys: passed") {
		t.Errorf("keys document: %+v", r)
	}
	keys.Texts[0] = file(t, "keys-altered.json")
	if r := checks.Make(keys); r.Verified || !strings.Contains(outcomes(r), "Keys: refused") {
		t.Errorf("altered keys document: %+v", r)
	}
}

// logQuestion asks about a log proof that the command is tested with.
func logQuestion(t testing.TB, name string) checks.Question {
	var all struct {
		Root     string            `json:"attestationRootPem"`
		Manifest string            `json:"manifestSha256"`
		PCRs     map[string]string `json:"pcrs"`
	}
	if err := json.Unmarshal([]byte(file(t, name+"-credentials.json")), &all); err != nil {
		t.Fatal(err)
	}
	body := file(t, "log-body.json")
	return checks.Question{Texts: []string{file(t, name+"-boot.json"), file(t, name+"-submit.json"), file(t, name+"-proof.json")}, SimulatorRoot: all.Root, Manifest: all.Manifest, Body: &body}
}

func TestLogProof(t *testing.T) {
	for name, says := range map[string]string{"log": "first generation", "log-moved": "moved", "log-recovered": "recovered, 3 batches lost"} {
		r := checks.Make(logQuestion(t, name))
		if !r.Verified || !strings.HasSuffix(outcomes(r), "App proofs: passed\nLog proof: passed\n") || len(r.Entries) != 1 {
			t.Errorf("%s: %+v", name, r)
			continue
		}
		if recovered := name == "log-recovered"; recovered != strings.Contains(r.Recovered, "3 batch(es)") || recovered != (r.Recovered != "") {
			t.Errorf("%s: %q", name, r.Recovered)
		}
		if !slices.ContainsFunc(r.Entries[0], func(f checks.Fact) bool { return f.Name == "History" && strings.Contains(f.Value, says) }) {
			t.Errorf("%s: %+v", name, r.Entries[0])
		}
	}
	beside := logQuestion(t, "log") // in the reply to the submit itself
	beside.Texts = []string{beside.Texts[0], file(t, "log-reply.json")}
	if r := checks.Make(beside); !r.Verified || len(r.Entries) != 1 || len(r.Statements) != 1 || !strings.Contains(r.Checks[len(r.Checks)-1].Words, "the reply beside it tells of") {
		t.Errorf("in a reply: %+v", r)
	}
	other := `{"another":"request"}`
	for name, change := range map[string]func(*checks.Question){
		"beside another activity": func(q *checks.Question) {
			q.Texts = []string{q.Texts[0], strings.Replace(file(t, "log-pasted.json"), `"appProofs"`, `"others"`, 1)} // which would be refused before
		},
		"altered":            func(q *checks.Question) { q.Texts = []string{q.Texts[0], file(t, "log-altered.json")} },
		"another boot's":     func(q *checks.Question) { q.Texts = []string{q.Texts[0], file(t, "log-moved-proof.json")} },
		"of another request": func(q *checks.Question) { q.Texts, q.Body = []string{q.Texts[0], q.Texts[2]}, &other },
		"from the future": func(q *checks.Question) {
			q.Texts, q.NowMs = []string{q.Texts[0], q.Texts[2]}, 1_777_636_800_000-1_000_000
		},
		"of nobody's manifest": func(q *checks.Question) { q.Manifest = strings.Repeat("ab", 32) },
	} {
		q := logQuestion(t, "log")
		change(&q)
		if r := checks.Make(q); r.Verified || len(r.Facts)+len(r.Entries) > 0 || r.Recovered != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func credential(t *testing.T, name string) string {
	var all map[string]any
	if err := json.Unmarshal([]byte(file(t, "keys-credentials.json")), &all); err != nil {
		t.Fatal(err)
	}
	return all[name].(string)
}

// The step that is refused is the one at fault; nothing of a refused proof is told.
func TestRefused(t *testing.T) {
	other := `{"another":"request"}`
	for name, c := range map[string]struct {
		change func(*checks.Question)
		step   string
	}{
		"nothing":                 {func(q *checks.Question) { q.Texts = nil }, "Form"},
		"no JSON":                 {func(q *checks.Question) { q.Texts = []string{"proof"} }, "Form"},
		"no boot proof":           {func(q *checks.Question) { q.Texts = q.Texts[1:] }, "Form"},
		"a request and no proof":  {func(q *checks.Question) { q.Texts = q.Texts[:1] }, "Form"},
		"proofs withheld":         {func(q *checks.Question) { q.Texts[1] = file(t, "withheld.json") }, "Form"},
		"too many":                {func(q *checks.Question) { q.Texts = slices.Repeat(q.Texts, 10) }, "Form"},
		"AWS root":                {func(q *checks.Question) { q.SimulatorRoot = "" }, "Security module"},
		"another root":            {func(q *checks.Question) { q.SimulatorRoot = file(t, "stranger-root.pem") }, "Security module"},
		"no root":                 {func(q *checks.Question) { q.SimulatorRoot = "root" }, "Security module"},
		"another's boot proof":    {func(q *checks.Question) { q.Texts[0] = file(t, "stranger-boot.json") }, "Security module"},
		"debug image":             {func(q *checks.Question) { q.Texts[0] = file(t, "debug-boot.json") }, "No debug image"},
		"another image":           {func(q *checks.Question) { q.Expected = file(t, "other-image.json") }, "Image"},
		"another manifest":        {func(q *checks.Question) { q.Manifest = strings.Repeat("ab", 32) }, "Manifest"},
		"blank manifest":          {func(q *checks.Question) { q.Manifest = "  " }, "What is believed"},
		"too many manifests":      {func(q *checks.Question) { q.Manifest = strings.Repeat(strings.Repeat("ab", 32)+" ", 129) }, "What is believed"},
		"no manifest's hash":      {func(q *checks.Question) { q.Manifest = "AB" }, "Manifest"},
		"nothing expected":        {func(q *checks.Question) { q.Expected = "" }, "Boot proof as a whole"},
		"the image of anybody":    {func(q *checks.Question) { q.Operators = "" }, "Boot proof as a whole"},
		"other operators":         {func(q *checks.Question) { q.Operators = file(t, "other-operators.json") }, "Manifest"},
		"operators, none":         {func(q *checks.Question) { q.Operators = `{"threshold":0,"publicKeys":[]}` }, "What is believed"},
		"operators, no JSON":      {func(q *checks.Question) { q.Operators = "02" }, "What is believed"},
		"one measurement":         {func(q *checks.Question) { q.Expected = `{"0":"` + strings.Repeat("a0", 48) + `"}` }, "Boot proof as a whole"},
		"measurements, no JSON":   {func(q *checks.Question) { q.Expected = "a0" }, "What is believed"},
		"measurements, none":      {func(q *checks.Question) { q.Expected = "{}" }, "What is believed"},
		"measurements, a list":    {func(q *checks.Question) { q.Expected = `{"Measurements":[]}` }, "What is believed"},
		"measurements, PCR 32":    {func(q *checks.Question) { q.Expected = `{"32":""}` }, "What is believed"},
		"measurements, misspelt":  {func(q *checks.Question) { q.Expected = strings.Replace(q.Expected, `"0"`, `"PCR0"`, 1) }, "What is believed"},
		"measurements, no texts":  {func(q *checks.Question) { q.Expected = `{"0":1}` }, "What is believed"},
		"measurements, a release": {func(q *checks.Question) { q.Expected = `{"format":1}` }, "What is believed"},
		"measurements, long":      {func(q *checks.Question) { q.Expected = strings.Repeat(" ", checks.MaxExpected+1) }, "What is believed"},
		"another request":         {func(q *checks.Question) { q.Body = &other }, "App proofs"},
		"forged":                  {func(q *checks.Question) { q.Texts[1], q.Body = file(t, "forged.json"), nil }, "App proofs"},
		"of another activity":     {func(q *checks.Question) { q.Texts[1], q.Body = file(t, "mixed.json"), nil }, "App proofs"},
		"from the future":         {func(q *checks.Question) { q.NowMs = 1 }, "Security module"},
	} {
		q := question(t)
		c.change(&q)
		r := checks.Make(q)
		if r.Verified || r.Reason == "" || len(r.Facts)+len(r.Statements) != 0 || len(r.Checks) == 0 {
			t.Errorf("%s: %+v", name, r)
			continue
		}
		if last := r.Checks[len(r.Checks)-1]; last.Name != c.step || last.Outcome != checks.Refused || last.Words != r.Reason {
			t.Errorf("%s: refused at %+v, want %s", name, last, c.step)
		}
	}
}

// What holds and is compared with too little is not verified, and says what was not compared.
func TestUnpinned(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*checks.Question)
		want   string
	}{
		"nothing":           {func(q *checks.Question) { q.Expected, q.Operators = "", "" }, "with nothing: any deployment of any image"},
		"nothing, alone":    {func(q *checks.Question) { q.Expected, q.Operators, q.Texts, q.Body = "", "", q.Texts[:1], nil }, "with nothing: any deployment of any image"},
		"image alone":       {func(q *checks.Question) { q.Operators = "" }, "The deployment was not compared: any deployment of this image"},
		"operators alone":   {func(q *checks.Question) { q.Expected = "" }, "The image was not compared"},
		"one measurement":   {func(q *checks.Question) { q.Expected, q.Operators = oneOf(t, q.Expected), "" }, "nor all of the measurements"},
		"and the operators": {func(q *checks.Question) { q.Expected = oneOf(t, q.Expected) }, "The image was not compared"},
	} {
		q := question(t)
		c.change(&q)
		r := checks.Make(q)
		if r.Verified || r.Reason == "" || !r.Simulator || !strings.Contains(r.Unpinned, c.want) || len(r.Facts)+len(r.Statements) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Who pins too little is told of that only if all else holds.
	other := `{"another":"request"}`
	for name, change := range map[string]func(*checks.Question){
		"another request":  func(q *checks.Question) { q.Body = &other },
		"forged":           func(q *checks.Question) { q.Texts[1], q.Body = file(t, "forged.json"), nil },
		"AWS root":         func(q *checks.Question) { q.SimulatorRoot = "" },
		"debug image":      func(q *checks.Question) { q.Texts[0] = file(t, "debug-boot.json") },
		"another image":    func(q *checks.Question) { q.Expected = file(t, "other-image.json") },
		"other operators":  func(q *checks.Question) { q.Operators = file(t, "other-operators.json") },
		"from the future":  func(q *checks.Question) { q.NowMs = 1 },
		"proofs withheld":  func(q *checks.Question) { q.Texts[1] = file(t, "withheld.json") },
		"another manifest": func(q *checks.Question) { q.Manifest = strings.Repeat("ab", 32) },
	} {
		q := question(t)
		q.Expected, q.Operators = "", ""
		change(&q)
		if r := checks.Make(q); r.Verified || r.Unpinned != "" || r.Simulator {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := checks.Make(question(t)); !r.Verified || !r.Simulator || r.Unpinned != "" {
		t.Errorf("pinned: %+v", r)
	}
}

// oneOf leaves only the first of some measurements.
func oneOf(t testing.TB, expected string) string {
	var all map[string]string
	if err := json.Unmarshal([]byte(expected), &all); err != nil {
		t.Fatal(err)
	}
	return `{"0":"` + all["0"] + `"}`
}

func TestAsk(t *testing.T) {
	raw, err := json.Marshal(question(t))
	if err != nil {
		t.Fatal(err)
	}
	var r checks.Report
	if err := json.Unmarshal(checks.Ask(raw), &r); err != nil || !r.Verified {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", "null", "[]", `{"texts":1}`, string(raw) + "x"} {
		var r map[string]any
		if err := json.Unmarshal(checks.Ask([]byte(bad)), &r); err != nil || r["verified"] != false || r["reason"] == "" || r["checks"] == nil && bad == "null" {
			t.Errorf("%q: %v, %v", bad, r, err)
		}
	}
}

// A member that is misspelt, or hidden by a second one, would unbind a proof from the request or the deployment.
func TestAskRefusesMembers(t *testing.T) {
	raw, err := json.Marshal(question(t))
	if err != nil {
		t.Fatal(err)
	}
	var names map[string]any
	if err := json.Unmarshal(raw, &names); err != nil {
		t.Fatal(err)
	}
	ask := func(raw string) (r checks.Report) {
		if err := json.Unmarshal(checks.Ask([]byte(raw)), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name := range names {
		quoted := `"` + name + `":`
		for what, changed := range map[string]string{
			"misspelt":      strings.Replace(string(raw), quoted, `"`+name+`s":`, 1),
			"differs":       strings.Replace(string(raw), quoted, `"`+strings.ToUpper(name[:1])+name[1:]+`":`, 1),
			"beside a typo": strings.Replace(string(raw), quoted, `"`+name+name+`":null,`+quoted, 1),
		} {
			if r := ask(changed); r.Verified || !strings.Contains(r.Reason, "unknown member") || !strings.Contains(r.Reason, name) {
				t.Errorf("%s %s: %+v", name, what, r)
			}
		}
		twice := strings.Replace(string(raw), "{", `{`+quoted+`null,`, 1)
		if r := ask(twice); r.Verified || !strings.Contains(r.Reason, name+" is given twice") {
			t.Errorf("%s twice: %+v", name, r)
		}
	}
	if r := ask(`{"boddy":"{}","texts":[]}`); !strings.HasSuffix(r.Reason, `unknown member "boddy"; there are texts, expected, manifest, operators, simulatorRoot, body, nowMs`) {
		t.Error(r.Reason)
	}
}

func FuzzAsk(f *testing.F) {
	q, err := json.Marshal(question(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(q)
	f.Add([]byte(`{"texts":["{\"bootProof\":{}}"],"expected":"{\"Measurements\":{}}"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r checks.Report
		if err := json.Unmarshal(checks.Ask(raw), &r); err != nil {
			t.Fatal(err)
		}
		if r.Verified == (r.Reason != "") || !r.Verified && len(r.Facts)+len(r.Statements) > 0 {
			t.Fatalf("%+v", r)
		}
	})
}
