package policy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	block   = regexp.MustCompile("(?s)```policy ([^\n]*)\n(.*?)\n```")
	refusal = regexp.MustCompile(`^refused at position (\d+): (.*)$`)
)

// The examples come to what they say they come to.
func TestExamples(t *testing.T) {
	f := loadCases(t)
	var pattern policyCase
	for _, c := range f.Cases {
		if c.ID == "P083" {
			pattern = c
		}
	}
	pattern.Request.Tx, pattern.Policies, pattern.Now = "eth_1559_small", nil, "2026-03-10T12:00:00Z"
	blocks := block.FindAllStringSubmatch(readme(t), -1)
	if len(blocks) < 12 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, b := range blocks {
		t.Run(b[1], func(t *testing.T) {
			head, want, _ := strings.Cut(b[1], ": ")
			words := strings.Fields(head)
			p := casePolicy{ID: "p", Effect: "EFFECT_ALLOW"}
			*map[string]*string{"consensus": &p.Consensus, "condition": &p.Condition, "time": &p.Time}[words[0]] = b[2]
			if m := refusal.FindStringSubmatch(want); m != nil {
				if _, err := compilePolicy(p); err == nil || !strings.Contains(err.Error(), m[2]) || !strings.HasSuffix(err.Error(), " at position "+m[1]) {
					t.Fatal(err)
				}
				return
			}
			c := pattern
			c.Policies = []casePolicy{p}
			c.Request.By = caseVote{words[1], words[1] + "-api"}
			for _, name := range words[2:] {
				c.Approvals = append(c.Approvals, caseVote{name, name + "-api"})
			}
			s, r := f.question(t, c)
			d, err := policy.Decide(s, r)
			if err != nil {
				t.Fatal(err)
			}
			got := map[policy.Outcome]string{policy.Allow: "allows", policy.RequiresConsensus: "waits", policy.DenyImplicit: "denies", policy.Error: "errs", policy.TimeInactive: "sleeps"}[d.Evaluations.Each()[0].Outcome]
			if got != want {
				t.Errorf("%s, want %s: %+v", got, want, d.Evaluations)
			}
		})
	}
}

// The table of fields is the schema.
func TestFieldTable(t *testing.T) {
	var b strings.Builder
	last := ""
	for _, f := range policy.Fields() {
		if clause := f.Clause.String(); clause != last {
			fmt.Fprintf(&b, "\n| in the %s | type | |\n|---|---|---|\n", clause)
			last = clause
		}
		optional := ""
		if f.Optional {
			optional = "optional"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path, strings.NewReplacer("<", "\\<").Replace(f.Type), optional)
	}
	_, table, _ := strings.Cut(readme(t), "<!-- fields: held against the schema by a test -->\n")
	if table != b.String() {
		t.Errorf("the table of fields must be:\n%s", b.String())
	}
}
