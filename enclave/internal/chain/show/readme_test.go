package show_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/show"
)

// The table of warnings in enclave/APPROVALS.md is that of the code.
func TestWarningsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../APPROVALS.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| code | weight | what an approver reads |\n|---|---|---|\n")
	for c := show.Warning(1); c.Text() != ""; c++ {
		fmt.Fprintf(&want, "| `%v` | %v | %s |\n", c, c.Severity(), c.Text())
	}
	if !strings.Contains(string(b), want.String()) {
		t.Errorf("APPROVALS.md must have this table:\n%s", want.String())
	}
}
