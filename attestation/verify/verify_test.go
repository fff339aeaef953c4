package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what the command says into the scripts")

// The scripts are what a user types and sees. A line that begins with $ is a
// call; what follows up to the next one is its output, standard error last, and
// its exit status. A line of three dots stands for any rest (usage texts).
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) < 3 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	calls := 0
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			raw, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			steps := strings.Split("\n"+string(raw), "\n$ cloister-verify ")
			out := steps[0]
			for _, step := range steps[1:] {
				calls++
				line, want, _ := strings.Cut(step, "\n")
				want, comment := cutComment(want)
				got := call(t, line)
				if !matches(want, got) && !*update {
					t.Errorf("$ cloister-verify %s\ngot:\n%s\nwant:\n%s", line, got, want)
				}
				if strings.Contains(want, "...\n") {
					got = want
				}
				out += "\n$ cloister-verify " + line + "\n" + got + comment
			}
			if *update {
				if err := os.WriteFile(script, []byte(strings.TrimPrefix(out, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	t.Logf("%d calls", calls)
}

// cutComment splits off blank lines and comments that belong to the next call.
func cutComment(s string) (output, comment string) {
	if strings.HasPrefix(s, "#") || strings.HasPrefix(s, "\n") {
		return "", s
	}
	if i := strings.Index(s, "\n\n"); i >= 0 {
		return s[:i+1], s[i+1:]
	}
	return s, ""
}

func matches(want, got string) bool {
	head, tail, dots := strings.Cut(want, "...\n")
	if dots {
		return strings.HasPrefix(got, head) && strings.HasSuffix(got, tail)
	}
	return strings.TrimRight(want, "\n") == strings.TrimRight(got, "\n")
}

func call(t *testing.T, line string) string {
	var stdin io.Reader = strings.NewReader("")
	if before, file, ok := strings.Cut(line, " < "); ok {
		raw, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		line, stdin = before, bytes.NewReader(raw)
	}
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", name)) }
	clock := func() time.Time { return time.Date(2026, 5, 1, 13, 0, 0, 0, time.UTC) }
	var stdout, stderr bytes.Buffer
	code := run(strings.Fields(line), stdin, &stdout, &stderr, read, clock)
	text := strings.ReplaceAll(stderr.String(), "testdata"+string(filepath.Separator), "")
	if code != exitVerified && code != exitUnpinned && code != exitRecovered && stdout.Len() > 0 {
		t.Errorf("$ %s\nwords on standard output beside a refusal:\n%s", line, stdout.String())
	}
	return stdout.String() + text + fmt.Sprintf("exit %d\n", code)
}
