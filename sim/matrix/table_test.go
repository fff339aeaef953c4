package matrix_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// columns are the kinds of principals, in the order of the table.
var columns = []string{
	"root", "passkey-root", "user", "passkey-user", "api", "expired", "deleted", "root-2",
	"session", "session-ro", "recovery", "proxy",
	"parent-root", "parent-user", "child-root", "child-user", "sibling-root", "sibling-user", "other-root", "other-user",
	"nobody", "unstamped",
}

// Cells that are no outcome: a principal that is not live yet, and one that a
// target does not have.
const (
	absent = "absent"
	none   = "-"
)

// A cell is one operation on one target, about another user or the caller's own,
// by one kind of principal.
type cell struct{ op, target, about, column string }

func (c cell) String() string {
	return fmt.Sprintf("%s on %s about %s by %s", c.op, c.target, c.about, c.column)
}

// outcomes are what cells say, or what came of them.
type outcomes map[cell]string

// rows are the distinct operation, target and about of cells, in order.
func (o outcomes) rows() []cell {
	seen := map[cell]bool{}
	for c := range o {
		c.column = ""
		seen[c] = true
	}
	all := make([]cell, 0, len(seen))
	for c := range seen {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cell) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// readTable reads the table. A row that is not whole, a word that is none, and a
// row that stands twice are errors of the table.
func readTable(t *testing.T) outcomes {
	f, err := os.Open("testdata/matrix.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known := map[string]bool{absent: true, none: true}
	for _, w := range words {
		known[w] = true
	}
	table := outcomes{}
	var head []string
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if head == nil {
			if head = fields; !slices.Equal(head[min(3, len(head)):], columns) {
				t.Fatalf("line %d: columns are %v", n, head)
			}
			continue
		}
		if len(fields) != len(head) {
			t.Fatalf("line %d: %d fields, want %d", n, len(fields), len(head))
		}
		if (fields[1] != "top" && fields[1] != "sub") || (fields[2] != "other" && fields[2] != "self") {
			t.Fatalf("line %d: target %s, about %s", n, fields[1], fields[2])
		}
		for i, word := range fields[3:] {
			c := cell{fields[0], fields[1], fields[2], columns[i]}
			if !known[word] {
				t.Fatalf("line %d: %s: %q is no outcome", n, c, word)
			}
			if table[c] != "" {
				t.Fatalf("line %d: %s stands twice", n, c)
			}
			table[c] = word
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return table
}

// differ are the cells on which a table and what came of it are not of one mind,
// cells of only one of them included.
func differ(table, came outcomes) []cell {
	var wrong []cell
	for c, want := range table {
		if came[c] != want {
			wrong = append(wrong, c)
		}
	}
	for c := range came {
		if _, ok := table[c]; !ok {
			wrong = append(wrong, c)
		}
	}
	slices.SortFunc(wrong, func(a, b cell) int { return strings.Compare(a.String(), b.String()) })
	return wrong
}

// operation is a row of the list of operations.
type operation struct{ op, kind, typ string }

func readOperations(t *testing.T) []operation {
	b, err := os.ReadFile("../../enclave/internal/activity/apitest/testdata/operations.tsv")
	if err != nil {
		t.Fatal(err)
	}
	all := []operation{{"evaluate_policies", "query", "-"}, {"export_history", "submit", "EXPORT_HISTORY"}, {"get_activity_counts", "query", "-"}, {"get_billing", "query", "-"}, {"get_gas_station", "query", "-"}, {"get_history", "query", "-"}, {"get_log_proof", "query", "-"}, {"get_tvc_quorum_key", "query", "-"}, {"get_usage", "query", "-"}, {"list_known_tokens", "query", "-"}, {"list_shared_credentials", "query", "-"}, {"list_webhook_deliveries", "query", "-"}, {"resend_webhook_deliveries", "submit", "RESEND_WEBHOOK_DELIVERIES"}} // ours
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		f := strings.Split(line, "\t")
		all = append(all, operation{f[0], f[1], strings.TrimPrefix(f[2], "ACTIVITY_TYPE_")})
	}
	return all
}
