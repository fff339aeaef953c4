//go:build ignore

// Testlog reads what `go test -json` prints and writes what a person wants to see of it: one line for each package, the
// whole output of whatever failed, lines that a test marks with "counted:", and how many tests ran. Reasons of skipped
// tests are appended to the file named by CLOISTER_LEFT_OUT, so that a test that could not run is never taken for one that
// passed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// An event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

func main() {
	output := map[string][]string{} // by package and test
	skipped := map[string]bool{}
	blamed := map[string]bool{} // packages of which a failure was shown
	var passed, failed int

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // go's own words: a build that failed, a module that is missing
			continue
		}
		name := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			output[name] = append(output[name], e.Output)
			if e.Test == "" && (strings.HasPrefix(e.Output, "ok  ") || strings.HasPrefix(e.Output, "FAIL\t")) {
				fmt.Print(e.Output)
			}
			if _, said, ok := strings.Cut(e.Output, "counted: "); ok {
				fmt.Print("        ", said)
			}
			if e.Action == "build-output" {
				fmt.Print(e.Output)
			}
		case "pass":
			if e.Test != "" {
				passed++
			}
			delete(output, name)
		case "skip":
			if reason := reasonOf(output[name]); e.Test != "" && reason != "" {
				skipped[reason] = true
			}
			delete(output, name)
		case "fail":
			if e.Test == "" && blamed[e.Package] {
				break // its tests have said why
			}
			failed++
			blamed[e.Package] = true
			fmt.Printf("--- failed: %s\n%s", name, strings.Join(output[name], ""))
			delete(output, name)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Println("reading the test log:", err)
		failed++
	}
	if err := leftOut(skipped); err != nil {
		fmt.Println("writing the list of what was left out:", err)
		failed++
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
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

func leftOut(reasons map[string]bool) error {
	name := os.Getenv("CLOISTER_LEFT_OUT")
	if name == "" || len(reasons) == 0 {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for reason := range reasons {
		if _, err := fmt.Fprintln(f, reason); err != nil {
			return err
		}
	}
	return f.Close()
}
