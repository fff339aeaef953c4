package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

const (
	// tolerated is how many packages may fail in a run and pass alone: more are no accident.
	tolerated = 2
	// retried is how many failed packages are run once more. With more, something that they share is broken.
	retried = 5
)

// retry runs the packages that failed in the stages' Go tests once more, one at a time with nothing beside it. A stage whose
// failed packages all pass so is passed, and their tests are told as unsteady: they depend on what else the machine does.
// It reports whether no more packages than tolerated are unsteady. Whatever else fails a stage (a script, a process left
// behind, something that was left out) is not tried again.
func (p *play) retry(ctx context.Context, stages []stage) (steady bool, err error) {
	type failure struct {
		stage   stage
		path    string
		earlier *packageTally
	}
	var failures []failure
	for _, s := range stages {
		if r := p.results[s.name]; r != nil && !r.OK && s.tests() {
			for path, of := range r.packages {
				if of.bad {
					failures = append(failures, failure{s, path, of})
				}
			}
		}
	}
	slices.SortFunc(failures, func(a, b failure) int { return strings.Compare(a.stage.name+a.path, b.stage.name+b.path) })
	if len(failures) > retried {
		fmt.Fprintf(p.out, "\nnothing is run once more: %d packages failed\n", len(failures))
		return true, nil
	}
	unsteady := map[string]bool{}
	for _, f := range failures {
		if ctx.Err() != nil {
			return true, nil
		}
		fmt.Fprintf(p.out, "\n== %s: %s once more, alone\n", f.stage.name, f.path)
		again, err := f.stage.only(f.path)
		if err != nil {
			return false, err
		}
		alone, err := again.play(ctx, p.out)
		if err != nil {
			return false, fmt.Errorf("%s: %w", f.stage.name, err)
		}
		r := p.results[f.stage.name]
		r.Seconds, r.Processor = r.Seconds+alone.Seconds, r.Processor+alone.Processor
		r.Left = append(r.Left, alone.Left...)
		if tests := strings.Join(f.earlier.failed, ", "); alone.OK {
			fmt.Fprintf(p.out, "== %s: passed alone\n", f.path)
			unsteady[f.path] = true
			r.pass(f.path, f.earlier, alone)
		} else {
			fmt.Fprintf(p.out, "== failed twice: %s, %s\n", f.path, tests)
		}
		if err := p.state.save(r); err != nil {
			return false, err
		}
	}
	if len(unsteady) > tolerated {
		fmt.Fprintf(p.out, "\n%d packages are unsteady: more than %d are a failure\n", len(unsteady), tolerated)
	}
	return len(unsteady) <= tolerated, nil
}

// only is the stage with one package.
func (s stage) only(path string) (stage, error) {
	words, err := s.command()
	if err != nil {
		return s, err
	}
	words = slices.DeleteFunc(words, func(word string) bool { return strings.HasPrefix(word, ".") })
	s.run = strings.Join(append(words, path), " ")
	return s, nil
}

// pass takes a package's second run, in which it passed, for its first.
func (r *result) pass(path string, earlier *packageTally, alone *result) {
	r.Failed -= earlier.failures
	r.Passed += alone.Passed - earlier.passed
	r.Lacking, r.Later = append(r.Lacking, alone.Lacking...), append(r.Later, alone.Later...)
	if len(earlier.failed) == 0 {
		r.Unsteady = append(r.Unsteady, path+", no test of its own")
	}
	for _, test := range earlier.failed {
		r.Unsteady = append(r.Unsteady, path+", "+test)
	}
	delete(r.packages, path)
	r.OK = r.fine()
}
