package policy_test

import (
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

// fieldRow is a row of the table of fields: path, type, whether it is optional, and one sentence or more.
var fieldRow = regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\| (Optional\\. )?([A-Z0-9`][^|]{13,}\\.) \\|$")

// The table of fields is the schema, and says of each field what it is.
func TestFieldTable(t *testing.T) {
	_, table, _ := strings.Cut(readme(t), "<!-- fields: held against the schema by a test -->\n")
	rows := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	next := func() (row string) {
		if len(rows) > 0 {
			row, rows = rows[0], rows[1:]
		}
		return row
	}
	var last policy.Clause
	for _, f := range policy.Fields() {
		if f.Clause != last {
			last = f.Clause
			for _, want := range []string{"", "| in the " + f.Clause.String() + " | type | what it is |", "|---|---|---|"} {
				if got := next(); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
			}
		}
		optional := ""
		if f.Optional {
			optional = "Optional. "
		}
		row, typ := next(), strings.ReplaceAll(f.Type, "<", "\\<")
		if m := fieldRow.FindStringSubmatch(row); m == nil || m[1] != f.Path || m[2] != typ || m[3] != optional {
			t.Fatalf("got %q, want | `%s` | %s | %s and a sentence of at least 15 characters |", row, f.Path, typ, optional)
		}
	}
	if len(rows) > 0 {
		t.Errorf("rows of no field: %q", rows)
	}
}
