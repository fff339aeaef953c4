package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

func (r *result) word() string {
	switch {
	case !r.OK:
		return "FAILED"
	case len(r.Lacking) > 0:
		return "in part"
	}
	return "ok"
}

// report writes how each of the stages ended on this commit, what it counted and what it left out. The last line has the
// number of tests; a script is one.
func report(out io.Writer, stages []stage, results map[string]*result) {
	var table, counted, left, lacking, later, unsteady, missing []string
	var passed, failed int
	for _, s := range stages {
		r := results[s.name]
		if r == nil {
			missing = append(missing, s.name)
			continue
		}
		passed, failed = passed+r.Passed, failed+r.Failed
		lacking, later = append(lacking, r.Lacking...), append(later, r.Later...)
		unsteady = append(unsteady, r.Unsteady...)
		for _, line := range r.Counted {
			counted = append(counted, s.name+": "+line)
		}
		for _, stray := range r.Left {
			left = append(left, s.name+": "+stray)
		}
		line := fmt.Sprintf("%5d s  %5d s of processors  %5d passed  %-7s  %s", r.Seconds, r.Processor, r.Passed, r.word(), s.name)
		if r.before {
			line += " (earlier, on the same tree)"
		}
		table = append(table, line)
	}
	list := func(before string, lines []string) {
		slices.Sort(lines)
		for _, line := range slices.Compact(lines) {
			fmt.Fprintf(out, "%s: %s\n", before, line)
		}
	}
	fmt.Fprintln(out)
	for _, line := range counted {
		fmt.Fprintln(out, "counted:", line)
	}
	list("left behind", left)
	list("left out", lacking)
	list("left to make campaign", later)
	list("unsteady", unsteady)
	if len(missing) > 0 {
		fmt.Fprintf(out, "not run: %s\n", strings.Join(missing, "; "))
	}
	fmt.Fprintf(out, "\n%s\n\ntests: %d passed, %d failed\n", strings.Join(table, "\n"), passed, failed)
}

// elsewhere says what make test leaves to make campaign as a whole.
func elsewhere() string {
	var names []string
	for _, s := range campaign {
		if !s.coffee && !s.tests() {
			names = append(names, strings.TrimPrefix(s.name, "scripts/"))
		}
	}
	return "left to make campaign: full counts of all tests, the race detector in every campaign, " + strings.Join(names, ", ")
}
