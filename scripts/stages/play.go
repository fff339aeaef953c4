package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A play is one run of stages.
type play struct {
	state *state
	out   io.Writer
	again bool
	mu    sync.Mutex
	// results are what is known of stages by their names, of this run or an earlier one.
	results map[string]*result
}

// play runs the stages in their order, those that only compute beside the others.
func (p *play) play(ctx context.Context, stages []stage) error {
	var lanes [2][]stage
	for _, s := range stages {
		switch {
		case p.results[s.name].whole() && !p.again:
		case s.aside:
			lanes[1] = append(lanes[1], s)
		default:
			lanes[0] = append(lanes[0], s)
		}
	}
	var both sync.WaitGroup
	var errs [2]error
	for i, lane := range lanes {
		both.Go(func() {
			for _, s := range lane {
				if ctx.Err() != nil {
					return
				}
				if errs[i] = p.one(ctx, s); errs[i] != nil {
					return
				}
			}
		})
	}
	both.Wait()
	return errors.Join(errs[:]...)
}

func (p *play) one(ctx context.Context, s stage) error {
	var log bytes.Buffer
	out := p.out
	if s.aside {
		out = &log // shown when the stage is done, so that both can be read
	} else {
		fmt.Fprintf(out, "\n== %s\n", s.name)
	}
	r, err := s.play(ctx, out)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.aside {
		fmt.Fprintf(p.out, "\n== %s (beside the others)\n%s", s.name, log.Bytes())
	}
	fmt.Fprintf(p.out, "== %s: %s in %d s\n", s.name, r.word(), r.Seconds)
	p.results[s.name] = r
	if ctx.Err() != nil {
		return nil // that it was ended says nothing about the commit
	}
	return p.state.save(r)
}

// play runs the stage's command. An error is one of the running; tests that fail are in the result.
func (s stage) play(ctx context.Context, out io.Writer) (*result, error) {
	if s.needs != "" {
		if _, err := exec.LookPath(s.needs); err != nil {
			return &result{Stage: s.name, OK: !strict(), tally: tally{Lacking: []string{s.name + " (apt-get install " + s.needs + ")"}}}, nil
		}
	}
	words, err := s.command()
	if err != nil {
		return nil, err
	}
	read := readScript
	if s.tests() {
		read = readTests
		// Vet is the check's, for both builds. The limit is for a test that hangs.
		words = append([]string{cmp.Or(os.Getenv("GO"), "go"), "test", "-json", "-vet=off", "-count=1", "-timeout=" + cmp.Or(s.limit, "25m")}, words[2:]...)
	}
	if s.aside {
		words = append([]string{"nice", "-n", "10"}, words...)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stage")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lacking, left := filepath.Join(dir, "lacking"), filepath.Join(dir, "left")
	cmd := exec.Command(self, slices.Concat([]string{"alone", left}, words)...)
	cmd.Env = append(os.Environ(), "CLOISTER_LEFT_OUT="+lacking)
	if s.env != "" {
		cmd.Env = append(cmd.Env, s.env)
	}
	// If this process is killed, alone is told to end. The signal comes when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	sum, err := read(pipe, out)
	failure := cmd.Wait()
	if err != nil {
		return nil, err
	}
	named, err := linesOf(lacking)
	if err != nil {
		return nil, err
	}
	sum.Lacking = append(sum.Lacking, named...)
	if sum.Left, err = linesOf(left); err != nil {
		return nil, err
	}
	for _, stray := range sum.Left {
		fmt.Fprintln(out, "left behind:", stray)
	}
	if err := ctx.Err(); err != nil {
		fmt.Fprintln(out, "ended:", err)
	}
	return s.result(failure == nil && ctx.Err() == nil, sum, time.Since(began), cmd.ProcessState), nil
}

// linesOf are those of a file, none of one that nobody has written.
func linesOf(file string) (lines []string, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(b)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines, err
}

// result takes together what a stage's end tells. A script counts as one test, and so does a run of Go tests that did not
// come to test anything.
func (s stage) result(ok bool, sum *tally, took time.Duration, end *os.ProcessState) *result {
	slices.Sort(sum.Lacking)
	sum.Lacking = slices.Compact(sum.Lacking)
	ok = ok && sum.fine() && !(s.tests() && sum.Passed == 0)
	switch {
	case !ok && sum.Failed == 0:
		sum.Failed = 1
	case ok && !s.tests():
		sum.Passed = 1
	}
	return &result{Stage: s.name, OK: ok, Seconds: int(took.Seconds()), Processor: int((end.UserTime() + end.SystemTime()).Seconds()), tally: *sum}
}

// fine tells whether nothing failed or was left behind, and nothing was left out that must not be.
func (t *tally) fine() bool {
	return t.Failed == 0 && len(t.Left) == 0 && !(strict() && len(t.Lacking) > 0)
}

// strict tells whether nothing may be left out for want of something.
func strict() bool { return os.Getenv("CLOISTER_TEST_REQUIRE") == "all" }
