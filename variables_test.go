package cloister_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloister/shared/variables"
)

// variableName is a whole name; one that goes on with another letter is put together where it stands.
var variableName = regexp.MustCompile(`\bCLOISTER_[A-Z0-9_]*[A-Z0-9]\b`)

// TestVariables holds that every variable that stands anywhere in the tree is listed, so that no program refuses what another
// one, a unit or a script is told by.
func TestVariables(t *testing.T) {
	known := append(variables.Names(), "CLOISTER_API_ADR") // which tests misspell
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".sh", ".mjs", ".js", ".py", ".md", ".yaml", ".env", ".service", "":
		default:
			return nil
		}
		if strings.HasPrefix(path, filepath.Join("shared", "variables")) {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range variableName.FindAllString(string(raw), -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: %s is not in shared/variables/names.txt", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
