package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func init() { root = "../.." }

// Nothing is forgotten: every package that has tests and every folder of scripts with a file test.sh is in the campaign.
func TestEverythingIsInTheCampaign(t *testing.T) {
	var patterns, scripts []string
	names := map[string]bool{}
	for _, s := range slices.Concat(campaign, coffee[1:]) {
		if names[s.name] {
			t.Errorf("%s twice", s.name)
		}
		names[s.name] = true
	}
	for _, s := range campaign {
		words, err := s.command()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !s.tests():
			scripts = append(scripts, s.run)
		case !slices.Contains(words, "-short") && !slices.Contains(words, "-run"):
			for _, w := range words[2:] {
				if strings.HasPrefix(w, ".") { // not a flag of the tests
					patterns = append(patterns, w)
				}
			}
		}
	}
	list := func(patterns ...string) []string {
		cmd := exec.Command("go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	in := list(patterns...)
	for _, p := range list("./...") {
		if !slices.Contains(in, p) {
			t.Errorf("%s is in no stage of the campaign", p)
		}
	}
	folders, err := filepath.Glob(filepath.Join(root, "scripts/*/test.sh"))
	if err != nil || len(folders) == 0 {
		t.Fatal(folders, err)
	}
	for _, f := range folders {
		if name := "scripts/" + filepath.Base(filepath.Dir(f)) + "/test.sh"; !slices.Contains(scripts, name) {
			t.Errorf("%s is in no stage of the campaign", name)
		}
	}
}
