// Command stages runs what tests this tree: table.go says what there is.
//
//	stages test [REGEXP]               what make test is: small counts, with Go alone
//	stages campaign [-again] [REGEXP]  everything; a stage that has passed on this commit is not run again unless asked
//	stages report                      what is known about this commit
//
// REGEXP chooses stages by name. What a machine lacks is left out and named, never taken for passed; under
// CLOISTER_TEST_REQUIRE=all it is a failure. A stage that leaves processes behind has failed; they are told and killed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == "alone" {
		if err := alone(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "stages:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// `go run` does not pass on the signal that ends it.
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0) // without it one more has to be ended by hand
	ok, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (ok bool, err error) {
	if len(args) == 0 {
		return false, fmt.Errorf("want test, campaign or report")
	}
	flags := flag.NewFlagSet("stages "+args[0], flag.ExitOnError)
	again := flags.Bool("again", false, "run what has passed on this commit too")
	_ = flags.Parse(args[1:])
	only, err := regexp.Compile(flags.Arg(0))
	if err != nil {
		return false, err
	}
	kept, err := here()
	if err != nil {
		return false, err
	}
	p := &play{state: kept, out: os.Stdout, again: *again, results: map[string]*result{}}
	var stages []stage
	told := campaign
	switch args[0] {
	case "test":
		p.again = true
		stages, told = chosen(coffee, only), coffee
	case "campaign":
		stages = chosen(campaign, only)
	case "report":
	default:
		return false, fmt.Errorf("unknown command %q", args[0])
	}
	for _, s := range told {
		if p.results[s.name], err = kept.load(s.name); err != nil {
			return false, err
		}
	}
	err = p.play(ctx, stages)
	steady := true
	if err == nil && args[0] == "test" {
		steady, err = p.retry(ctx, stages)
	}
	fmt.Printf("\n%s\n", kept.about)
	out := io.Writer(os.Stdout)
	if args[0] == "test" {
		fmt.Println(elsewhere())
		for _, r := range p.results {
			if r != nil {
				r.Counted = nil // was seen as it went by; the campaign's are for keeping
			}
		}
	} else {
		file, err := os.Create(filepath.Join(kept.dir, "report"))
		if err != nil {
			return false, err
		}
		defer file.Close()
		fmt.Println("kept in", file.Name())
		out = io.MultiWriter(out, file)
	}
	report(out, told, p.results)
	if args[0] == "report" { // a release wants all
		return !slices.ContainsFunc(told, func(s stage) bool { return !p.results[s.name].whole() }), err
	}
	return steady && !slices.ContainsFunc(stages, func(s stage) bool { r := p.results[s.name]; return r != nil && !r.OK }), err
}

func chosen(from []stage, only *regexp.Regexp) []stage {
	return slices.DeleteFunc(slices.Clone(from), func(s stage) bool { return !only.MatchString(s.name) })
}

// here opens the state of this tree in the cache.
func here() (*state, error) {
	cache := os.Getenv("CLOISTER_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		cache = filepath.Join(user, "cloister")
	}
	return openState(cache)
}
