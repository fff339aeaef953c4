package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A tally is what a stage's output tells.
type tally struct {
	Passed  int      `json:"passed"` // tests
	Failed  int      `json:"failed"`
	Counted []string `json:"counted,omitempty"` // lines that tests mark with "counted: "
	Lacking []string `json:"lacking,omitempty"` // left out because the machine lacks something, and how to get it
	Later   []string `json:"later,omitempty"`   // what make test leaves to make campaign
	Left    []string `json:"left,omitempty"`    // processes that outlived it
	// Unsteady are the tests that failed and passed when their package ran once more, alone: "package, test".
	Unsteady []string                 `json:"unsteady,omitempty"`
	packages map[string]*packageTally // of Go tests, by import path
}

// A packageTally is what the output of Go tests tells of one package.
type packageTally struct {
	passed   int
	failures int      // what counts as failed: tests, with what is below them, or 1 for a package without a test to blame
	failed   []string // the tests, without what is below them, and those that never ended
	bad      bool     // the package as a whole
}

// blame adds a test to those that failed, once.
func (p *packageTally) blame(test string) {
	name, _, _ := strings.Cut(test, "/")
	if !slices.Contains(p.failed, name) {
		p.failed = append(p.failed, name)
	}
}

// later begins the reason of a test that is skipped under -short.
const later = "left to make campaign: "

// An event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// readTests reads what `go test -json` prints and writes what a person wants to see of it: one line for each package, the
// whole output of whatever failed, the end of what never ended, and the lines marked with "counted: ".
func readTests(in io.Reader, out io.Writer) (*tally, error) {
	sum := tally{packages: map[string]*packageTally{}}
	of := func(path string) *packageTally {
		if sum.packages[path] == nil {
			sum.packages[path] = &packageTally{}
		}
		return sum.packages[path]
	}
	output := map[string][]string{} // by package and test

	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // go's own words: a build that failed, a module that is missing
			continue
		}
		name := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "output":
			output[name] = append(output[name], e.Output)
			if e.Test == "" && (strings.HasPrefix(e.Output, "ok  ") || strings.HasPrefix(e.Output, "FAIL\t")) {
				fmt.Fprint(out, e.Output)
			}
			if _, said, ok := strings.Cut(e.Output, "counted: "); ok {
				fmt.Fprint(out, "        ", said)
				sum.Counted = append(sum.Counted, strings.TrimSpace(said))
			}
		case "pass":
			if e.Test != "" {
				sum.Passed++
				of(e.Package).passed++
			}
			delete(output, name)
		case "skip":
			if reason := reasonOf(output[name]); e.Test != "" && reason != "" {
				if what, ok := strings.CutPrefix(reason, later); ok {
					sum.Later = append(sum.Later, what)
				} else {
					sum.Lacking = append(sum.Lacking, reason)
				}
			}
			delete(output, name)
		case "fail":
			p := of(e.Package)
			if e.Test == "" {
				p.bad = true
				for _, test := range writeUnended(output, e.Package, out) {
					p.blame(test)
				}
				if p.failures > 0 {
					break // its tests have said why
				}
			} else {
				p.blame(e.Test)
			}
			sum.Failed++
			p.failures++
			fmt.Fprintf(out, "--- failed: %s\n%s", name, strings.Join(output[name], ""))
			delete(output, name)
		}
	}
	writeUnended(output, "", out) // go was killed
	return &sum, lines.Err()
}

// shown is how many lines are shown of a test that never ended, before the trace and of it.
const shown = 200

// writeUnended writes what the tests of a package, or of all, said last whose process died: of them go tells no end, and of one
// is the trace. What is written is forgotten. It returns those tests.
func writeUnended(output map[string][]string, pkg string, out io.Writer) (tests []string) {
	for _, name := range slices.Sorted(maps.Keys(output)) {
		of, test, _ := strings.Cut(name, " ")
		if test == "" || pkg != "" && of != pkg {
			continue
		}
		lines := output[name]
		trace := slices.IndexFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
		})
		if trace < 0 {
			trace = len(lines)
		}
		fmt.Fprintf(out, "--- never ended: %s\n%s", name, strings.Join(lines[max(trace-shown, 0):min(trace+shown, len(lines))], ""))
		delete(output, name)
		tests = append(tests, test)
	}
	return tests
}

// reasonOf is what a skipped test gave as its reason: its line that begins with a file and a line number.
func reasonOf(output []string) string {
	for _, line := range output {
		if _, reason, ok := strings.Cut(line, ".go:"); ok {
			if _, reason, ok = strings.Cut(reason, ": "); ok {
				return strings.TrimSpace(reason)
			}
		}
	}
	return ""
}

// counts are lines of scripts that tell one: marked as in tests, of their own stages, of Node's tests.
var counts = []*regexp.Regexp{regexp.MustCompile(`counted: (.*)`), regexp.MustCompile(`^== (.*: (?:ok|FAILED) in \d+ s)$`), regexp.MustCompile(`^ℹ (pass \d+)$`)}

// readScript copies what a script prints, and keeps its counts.
func readScript(in io.Reader, out io.Writer) (*tally, error) {
	var sum tally
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		fmt.Fprintln(out, lines.Text())
		for _, c := range counts {
			if m := c.FindStringSubmatch(lines.Text()); m != nil {
				sum.Counted = append(sum.Counted, m[1])
			}
		}
	}
	return &sum, lines.Err()
}
