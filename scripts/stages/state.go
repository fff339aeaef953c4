package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A result is how a stage ended on one state of the tree.
type result struct {
	Stage     string `json:"stage"`
	OK        bool   `json:"ok"`
	Seconds   int    `json:"seconds"`
	Processor int    `json:"processor"` // seconds that its processes had on processors
	tally
	before bool // known from an earlier run, not of this one
}

// whole tells whether the stage need not be run again: it passed and nothing was left out for want of something.
func (r *result) whole() bool { return r != nil && r.OK && len(r.Lacking) == 0 }

// A state is where results are kept, a file for each stage: a folder outside of the tree, by what the tree holds.
type state struct {
	dir   string
	about string // the commit in words
}

// git gives the trimmed output of a git command. CI may have checked out as somebody else.
func git(env []string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// openState finds the state of the tree as it lies here. What is not committed makes it another one; a tree without
// git begins anew each time.
func openState(cache string) (*state, error) {
	commit, err := git(nil, "rev-parse", "HEAD")
	if err != nil {
		dir, err := os.MkdirTemp("", "stages")
		return &state{dir: dir, about: "a tree without git"}, err
	}
	name, about := commit, "commit "+commit
	changed, err := git(nil, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		// Everything that git would take in, written into an index that is thrown away.
		scratch, err := os.MkdirTemp("", "stages")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(scratch)
		index := []string{"GIT_INDEX_FILE=" + filepath.Join(scratch, "index")}
		if _, err := git(index, "add", "-A"); err != nil {
			return nil, fmt.Errorf("git add: %w", err)
		}
		tree, err := git(index, "write-tree")
		if err != nil {
			return nil, fmt.Errorf("git write-tree: %w", err)
		}
		name, about = commit+"-"+tree, about+" with changes, tree "+tree
	}
	s := &state{dir: filepath.Join(cache, "stages", name), about: about}
	return s, os.MkdirAll(s.dir, 0o700)
}

// file has no slashes and says which stage it is of.
func (s *state) file(stage string) string {
	return filepath.Join(s.dir, strings.NewReplacer("/", "-", " ", "-", ":", "", ",", "").Replace(stage)+".json")
}

func (s *state) load(stage string) (*result, error) {
	b, err := os.ReadFile(s.file(stage))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := result{before: true}
	return &r, json.Unmarshal(b, &r)
}

// save takes the place of an earlier result as a whole.
func (s *state) save(r *result) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	name := s.file(r.Stage)
	if err := os.WriteFile(name+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
