package slack_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"cloister/shared/slack"
)

var errBroken = errors.New("broken")

func TestAllow(t *testing.T) {
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		fails map[string]error
		want  error
		wrote []string
	}{
		{"every thread", threads("1", "7", "12"), nil, nil, []string{"/proc/1/", "/proc/12/", "/proc/7/"}},
		{"one that has ended", threads("1", "7"), map[string]error{"1": fs.ErrNotExist}, nil, []string{"/proc/1/", "/proc/7/"}},
		{"a kernel that forbids it", threads("1", "7"), map[string]error{"1": fs.ErrPermission, "7": fs.ErrPermission}, nil, []string{"/proc/1/", "/proc/7/"}},
		{"a write that fails", threads("1", "7"), map[string]error{"1": errBroken}, errBroken, []string{"/proc/1/"}},
		{"no list of threads", nil, nil, fs.ErrNotExist, nil},
	} {
		var wrote []string
		err := slack.Allow(c.files, func(file, value string) error {
			if value != "4000000" {
				t.Errorf("%s: slack of %s ns", c.name, value)
			}
			wrote = append(wrote, strings.TrimSuffix(file, "timerslack_ns"))
			return c.fails[strings.Split(file, "/")[2]]
		})
		if !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Equal(wrote, c.wrote) {
			t.Errorf("%s: wrote %q", c.name, wrote)
		}
	}
}

func threads(names ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for _, name := range names {
		files["proc/self/task/"+name+"/stat"] = &fstest.MapFile{}
	}
	return files
}

// TestAllowHere reads back from the kernel what it was asked for.
func TestAllowHere(t *testing.T) {
	self := filepath.Join("/proc", strconv.Itoa(os.Getpid()), "timerslack_ns")
	if err := os.WriteFile(self, []byte("50000"), 0); err != nil {
		t.Skipf("the kernel has no such file, or lets nobody write it: %v", err)
	}
	all, err := os.ReadDir("/proc/self/task") // before: what starts meanwhile is not meant
	if err != nil {
		t.Fatal(err)
	}
	slack.AllowHere()
	for _, thread := range all {
		got, err := os.ReadFile(filepath.Join("/proc", thread.Name(), "timerslack_ns"))
		if err == nil && strings.TrimSpace(string(got)) != strconv.FormatInt(slack.Timers.Nanoseconds(), 10) { // else it has ended
			t.Errorf("thread %s: %s", thread.Name(), got)
		}
	}
}
