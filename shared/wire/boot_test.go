package wire_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"cloister/shared/wire"
)

// The enclave's README has the table of operations as it stands. go test -update
// writes it.
func TestBootOperationsInTheReadme(t *testing.T) {
	const file = "../../enclave/README.md"
	const begin, end = "<!-- Of wire.BootOperations: go test ./shared/wire -run Readme -update -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(text, []byte(begin))+len(begin), bytes.Index(text, []byte(end))
	if from < len(begin) || to < from {
		t.Fatal("the README has no place for the table")
	}
	want := operations()
	if *update {
		if err := os.WriteFile(file, []byte(string(text[:from])+want+string(text[to:])), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := string(text[from:to]); got != want {
		t.Errorf("the README has\n%s\nwant\n%s", got, want)
	}
}

// operations writes the table in Markdown. Shapes are code, words are not.
func operations() string {
	shape := func(s string) string {
		if strings.HasPrefix(s, "{") || strings.Contains(s, ".") && !strings.Contains(s, " ") {
			return "`" + s + "`"
		}
		return s
	}
	var b strings.Builder
	b.WriteString("| operation | when | everybody | body | reply | what it does |\n|---|---|---|---|---|---|\n")
	for _, op := range wire.BootOperations {
		when, everybody := "always", []string{}
		if op.States != nil {
			names := []string{}
			for _, s := range op.States {
				names = append(names, s.String())
			}
			when = strings.Join(names, ", ")
		}
		if op.Public {
			everybody = append(everybody, "POST")
		}
		if op.Path != "" {
			everybody = append(everybody, "GET `"+op.Path+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", op.Name, when, strings.Join(everybody, ", "), shape(op.Body), shape(op.Reply), op.Does)
	}
	return b.String()
}

func TestBootOperations(t *testing.T) {
	seen := map[string]bool{}
	for _, op := range wire.BootOperations {
		if op.Name == "" || len(op.Name) > wire.MaxOp || seen[op.Name] || op.Does == "" || op.Reply == "" || wire.BootOperationOf(op.Name).Name != op.Name {
			t.Errorf("%+v", op)
		}
		if seen[op.Path] && op.Path != "" {
			t.Errorf("%s: another has this path", op.Path)
		}
		seen[op.Name], seen[op.Path] = true, true
		if op.In(wire.StateRecovering) || op.In(wire.StateFenced) {
			if op.States != nil {
				t.Errorf("%s is for a state in which nothing can be asked", op.Name)
			}
		}
	}
	if op := wire.BootOperationOf("nothing"); op != nil {
		t.Errorf("%+v", op)
	}
}
