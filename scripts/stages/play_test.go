package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Stages run this program for each of their commands. It has little patience here, where nothing ends by itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "alone" {
		grip = 100 * time.Millisecond
		main()
		return
	}
	os.Exit(m.Run())
}

// written is a script in a folder of its own, which leaves a line in the file "ran" there whenever it runs.
func written(t *testing.T, text string) (run string, ran func() int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(name, []byte("#!/bin/sh\necho x >>"+name+".ran\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return name, func() int {
		b, _ := os.ReadFile(name + ".ran")
		return bytes.Count(b, []byte("x"))
	}
}

func played(t *testing.T, p *play, stages ...stage) {
	t.Helper()
	for _, s := range stages {
		var err error
		if p.results[s.name], err = p.state.load(s.name); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.play(t.Context(), stages); err != nil {
		t.Fatal(err)
	}
}

func TestStagesResume(t *testing.T) {
	t.Setenv("CLOISTER_TEST_REQUIRE", "")
	good, ranGood := written(t, "echo counted: 7 things")
	bad, ranBad := written(t, "exit 3")
	lacks, ranLacks := written(t, `echo "a thing (get it)" >>"$CLOISTER_LEFT_OUT"`)
	all := []stage{{name: "good", run: good}, {name: "bad", run: bad, aside: true}, {name: "lacks", run: lacks}}
	kept := &state{dir: t.TempDir()}
	for range 2 {
		played(t, &play{state: kept, out: io.Discard, results: map[string]*result{}}, all...)
	}
	if ranGood() != 1 || ranBad() != 2 || ranLacks() != 2 {
		t.Errorf("ran %d, %d, %d times, want 1, 2, 2", ranGood(), ranBad(), ranLacks())
	}
	p := &play{state: kept, out: io.Discard, again: true, results: map[string]*result{}}
	played(t, p, all...)
	if ranGood() != 2 {
		t.Error("what was asked for again did not run")
	}
	for name, word := range map[string]string{"good": "ok", "bad": "FAILED", "lacks": "in part"} {
		if got := p.results[name].word(); got != word {
			t.Errorf("%s: %s, want %s", name, got, word)
		}
	}
	var out strings.Builder
	report(&out, append(all, stage{name: "never"}), p.results)
	for _, want := range []string{"counted: good: 7 things\n", "left out: a thing (get it)\n", "not run: never\n", "\ntests: 2 passed, 1 failed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	t.Setenv("CLOISTER_TEST_REQUIRE", "all")
	if played(t, p, all[2]); p.results["lacks"].OK {
		t.Error("something was left out and it passed")
	}
}

// What does not end is ended when it is told to, has failed, and nothing is kept of it.
func TestEnded(t *testing.T) {
	run, ran := written(t, "sleep 1000 & wait")
	long := stage{name: "long", run: run}
	p := &play{state: &state{dir: t.TempDir()}, out: io.Discard, results: map[string]*result{}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ran() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := p.play(ctx, []stage{long}); err != nil || p.results["long"] == nil || p.results["long"].OK {
		t.Errorf("ended before its end: %v %v", p.results["long"], err)
	}
	if kept, err := p.state.load("long"); kept != nil || err != nil {
		t.Errorf("kept: %v %v", kept, err)
	}
}

// What a stage leaves running is ended and told, wherever it has gone, and the stage has failed.
func TestLeftBehind(t *testing.T) {
	for name, text := range map[string]string{
		"a child":                            "sleep 1000 >/dev/null 2>&1 & echo $! >",
		"one that keeps the output open":     "sleep 1000 & echo $! >",
		"a daemon in a session of its own":   "setsid sh -c 'sleep 1000 & echo $! >&3' 3>",
		"one that is deaf to polite signals": "(trap '' TERM HUP INT; exec setsid sleep 1000) & echo $! >",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			run, _ := written(t, text+file+"; until grep -qs ^sleep /proc/$(cat "+file+")/cmdline; do :; done")
			p := &play{state: &state{dir: t.TempDir()}, out: io.Discard, results: map[string]*result{}}
			played(t, p, stage{name: "untidy", run: run})
			r := p.results["untidy"]
			if r.OK || r.Failed != 1 || len(r.Left) != 1 || !strings.Contains(r.Left[0], "sleep 1000") {
				t.Errorf("%+v", r)
			}
			var out strings.Builder
			report(&out, []stage{{name: "untidy"}}, p.results)
			if !strings.Contains(out.String(), "left behind: untidy: process ") {
				t.Errorf("not in the report:\n%s", &out)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is still there: %v", pid, err)
			}
		})
	}
}

// The state is the commit's; a change that is not committed makes it another one, and back again.
func TestState(t *testing.T) {
	t.Chdir(t.TempDir())
	cache := t.TempDir()
	sh := func(line string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", line, out)
		}
	}
	dir := func() string {
		t.Helper()
		s, err := openState(cache)
		if err != nil {
			t.Fatal(err)
		}
		return s.dir
	}
	commit := "git -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m x"
	sh("git init -q && echo a >a && git add a && " + commit)
	first := dir()
	sh("echo b >b")
	changed := dir()
	sh("rm b")
	again := dir()
	sh(commit)
	if next := dir(); first == changed || first != again || next == first || next == changed {
		t.Error(first, changed, again, next)
	}
}

func TestLog(t *testing.T) {
	const log = `{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:7: counted: 5 things\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"B","Output":"    a_test.go:8: the thing is not here\n"}
{"Action":"skip","Package":"p","Test":"B"}
{"Action":"output","Package":"p","Test":"C","Output":"    a_test.go:9: left to make campaign: a large tree\n"}
{"Action":"skip","Package":"p","Test":"C"}
{"Action":"output","Package":"p","Test":"D","Output":"    a_test.go:10: wrong\n"}
{"Action":"fail","Package":"p","Test":"D"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Output":"panic: no test\n"}
{"Action":"fail","Package":"q"}
go: no such module
`
	var out strings.Builder
	sum, err := readTests(strings.NewReader(log), &out)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Passed != 1 || sum.Failed != 2 || !slices.Equal(sum.Counted, []string{"5 things"}) ||
		!slices.Equal(sum.Lacking, []string{"the thing is not here"}) || !slices.Equal(sum.Later, []string{"a large tree"}) {
		t.Errorf("%+v", sum)
	}
	for _, want := range []string{"a_test.go:10: wrong", "panic: no test", "no such module"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not shown: %s", want)
		}
	}
}

// Of tests whose process died go tells no end: what they said last is shown, with the trace, once and not without bound.
func TestLogOfTheDead(t *testing.T) {
	var log, out strings.Builder
	said := func(pkg, test, line string) {
		b, err := json.Marshal(event{Action: "output", Package: pkg, Test: test, Output: line + "\n"})
		if err != nil {
			t.Fatal(err)
		}
		log.Write(append(b, '\n'))
	}
	said("p", "Good", "nobody needs this")
	log.WriteString(`{"Action":"pass","Package":"p","Test":"Good"}` + "\n")
	said("p", "Wrong", "this is wrong")
	log.WriteString(`{"Action":"fail","Package":"p","Test":"Wrong"}` + "\n")
	said("p", "Waits", "=== PAUSE Waits")
	for i := range 1000 {
		said("p", "Dies", fmt.Sprintf("before %d.", i))
	}
	said("p", "Dies", "panic: in a goroutine")
	for i := range 1000 {
		said("p", "Dies", fmt.Sprintf("trace %d.", i))
	}
	said("pp", "Killed", "the last word")
	log.WriteString(`{"Action":"fail","Package":"p"}` + "\n")
	sum, err := readTests(strings.NewReader(log.String()), &out)
	if err != nil || sum.Failed != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	for line, want := range map[string]int{"nobody needs this": 0, "this is wrong": 1, "--- never ended: p Waits\n=== PAUSE Waits\n": 1, "--- never ended: p Dies\nbefore 800.\n": 1,
		"before 799.": 0, "panic: in a goroutine": 1, "trace 198.\n---": 1, "--- never ended: pp Killed\nthe last word\n": 1, "--- never ended": 3} {
		if got := strings.Count(out.String(), line); got != want {
			t.Errorf("%q is shown %d times, want %d", line, got, want)
		}
	}
}

// gotool is a command in the place of go, which tells ends of tests: of all packages at first, then of the one that its last
// argument names, by what is given for it. It returns where the packages stand that it was asked for one by one.
func gotool(t *testing.T, first string, alone map[string]string) (asked string) {
	t.Helper()
	dir := t.TempDir()
	for path, log := range alone {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "..."), []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "go")
	text := `#!/bin/sh
for last; do :; done
last=${last#./}
[ "$last" = ... ] || echo "$last" "$@" >>` + dir + `/asked
cat ` + dir + `/$last
! grep -q '"fail"' ` + dir + `/$last
`
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GO", script)
	return filepath.Join(dir, "asked")
}

// log is what go tells of tests: lines of "package test action", of the package itself without a test.
func log(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		words := strings.Fields(line)
		e := event{Package: words[0], Action: words[len(words)-1]}
		if len(words) == 3 {
			e.Test = words[1]
		}
		if e.Action == "output" {
			e.Output = "said\n"
		}
		text, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		b.Write(append(text, '\n'))
	}
	return b.String()
}

// A package that fails is run once more, alone: what passes then is told as unsteady, and no more than two of them are
// tolerated. Nothing else is tried twice.
func TestRetry(t *testing.T) {
	bad := func(paths ...string) (lines []string) {
		for _, p := range paths {
			lines = append(lines, p+" Bad/below fail", p+" Bad fail", p+" fail")
		}
		return lines
	}
	good := func(path string) string { return log(path+" Bad pass", path+" Good pass", path+" pass") }
	for name, c := range map[string]struct {
		first  []string
		alone  map[string]string
		left   string // what the stage leaves out
		green  bool
		asked  int
		passed int
		failed int
		shown  []string
	}{
		"nothing failed": {first: []string{"p A pass", "p pass"}, green: true, passed: 1},
		"one unsteady": {first: append(bad("p"), "p Good pass", "q A pass", "q pass"), alone: map[string]string{"p": good("p")},
			green: true, asked: 1, passed: 3, shown: []string{"\nunsteady: p, Bad\n", "== p: passed alone"}},
		"two unsteady":   {first: bad("p", "q"), alone: map[string]string{"p": good("p"), "q": good("q")}, green: true, asked: 2, passed: 4, shown: []string{"\nunsteady: p, Bad\nunsteady: q, Bad\n"}},
		"three unsteady": {first: bad("p", "q", "r"), alone: map[string]string{"p": good("p"), "q": good("q"), "r": good("r")}, asked: 3, passed: 6, shown: []string{"\nunsteady: r, Bad\n", "3 packages are unsteady"}},
		"failed twice": {first: append(bad("p", "q"), "p Good pass"), alone: map[string]string{"p": log(append(bad("p"), "p Good pass")...), "q": good("q")},
			asked: 2, passed: 3, failed: 2, shown: []string{"failed twice: p, Bad\n", "\nunsteady: q, Bad\n"}},
		"does not build":           {first: []string{"p fail"}, alone: map[string]string{"p": log("p fail")}, asked: 1, failed: 1, shown: []string{"failed twice: p"}},
		"hangs once":               {first: []string{"p Slow output", "p fail"}, alone: map[string]string{"p": good("p")}, green: true, asked: 1, passed: 2, shown: []string{"never ended: p Slow", "\nunsteady: p, Slow\n"}},
		"hangs twice":              {first: []string{"p Slow output", "p fail"}, alone: map[string]string{"p": log("p Slow output", "p fail")}, asked: 1, failed: 1, shown: []string{"failed twice: p, Slow\n"}},
		"dies between tests":       {first: []string{"p A pass", "p fail"}, alone: map[string]string{"p": good("p")}, green: true, asked: 1, passed: 2, shown: []string{"\nunsteady: p, no test of its own\n"}},
		"many":                     {first: bad("p", "q", "r", "s", "u", "v"), failed: 12, shown: []string{"nothing is run once more: 6 packages failed"}},
		"tests nothing":            {failed: 1},
		"leaves something out":     {first: []string{"p A pass", "p pass"}, left: "a thing", failed: 1, passed: 1, shown: []string{"left out: a thing"}},
		"unsteady and leaving out": {first: bad("p"), alone: map[string]string{"p": good("p")}, left: "a thing", asked: 1, passed: 2, shown: []string{"left out: a thing", "\nunsteady: p, Bad\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CLOISTER_TEST_REQUIRE", "all")
			file := gotool(t, log(c.first...), c.alone)
			if c.left != "" {
				b, err := os.ReadFile(os.Getenv("GO"))
				if err != nil {
					t.Fatal(err)
				}
				more := bytes.Replace(b, []byte("cat "), []byte("[ $last != ... ] || echo "+c.left+" >>$CLOISTER_LEFT_OUT\ncat "), 1)
				if err := os.WriteFile(os.Getenv("GO"), more, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			stages := []stage{{name: "tests", run: "go test -short -p 4 ./first ./...", limit: hung}}
			p := &play{state: &state{dir: t.TempDir()}, out: &out, again: true, results: map[string]*result{}}
			played(t, p, stages...)
			steady, err := p.retry(t.Context(), stages)
			if err != nil {
				t.Fatal(err)
			}
			report(&out, stages, p.results)
			r := p.results["tests"]
			if green := steady && r.OK; green != c.green || r.Passed != c.passed || r.Failed != c.failed {
				t.Errorf("green %v, %d passed, %d failed; want %v, %d, %d\n%s", green, r.Passed, r.Failed, c.green, c.passed, c.failed, &out)
			}
			asked, _ := os.ReadFile(file)
			if got := bytes.Count(asked, []byte("\n")); got != c.asked {
				t.Errorf("%d packages ran once more, want %d: %s", got, c.asked, asked)
			}
			for line := range strings.Lines(string(asked)) {
				path, words, _ := strings.Cut(strings.TrimSpace(line), " ")
				if want := "test -json -vet=off -count=1 -timeout=" + hung + " -short -p 4 " + path; words != want {
					t.Errorf("alone it ran as %q, want %q", words, want)
				}
			}
			for _, want := range c.shown {
				if !strings.Contains(out.String(), want) {
					t.Errorf("not shown: %q\n%s", want, &out)
				}
			}
		})
	}
}
