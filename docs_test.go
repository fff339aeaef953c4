package cloister_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPaths follows the three ways through the code that CONTRIBUTING.md shows: each function is in its file, and does what leads
// on to the next. A name that moves is moved there too.
func TestPaths(t *testing.T) {
	text := readText(t, "CONTRIBUTING.md")
	steps := regexp.MustCompile("`([a-z/]+\\.go)`: `([A-Za-z]+)`").FindAllStringSubmatch(text, -1)
	// What the body of each has to name, in the order of the table. The last of the second way is a method of an interface.
	names := []string{
		"decide", "evaluatePolicies", "Decide", "decideEach",
		"waitsForStore", "Append", "Append", "",
		"New", "Operate", "startServing", "attest",
	}
	if len(steps) != len(names) {
		t.Fatalf("%d steps, want %d", len(steps), len(names))
	}
	for i, step := range steps {
		file, err := parser.ParseFile(token.NewFileSet(), step[1], nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name != step[2] {
					return true
				}
				ast.Inspect(n.Body, func(n ast.Node) bool {
					id, ok := n.(*ast.Ident)
					found = found || ok && id.Name == names[i]
					return true
				})
			case *ast.InterfaceType:
				for _, m := range n.Methods.List {
					found = found || names[i] == "" && len(m.Names) == 1 && m.Names[0].Name == step[2]
				}
			}
			return true
		})
		if !found {
			t.Errorf("%s has no %s that leads to %s", step[1], step[2], names[i])
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	image   = regexp.MustCompile(`(?:src|srcset)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
)

// TestLinks holds that every link of a document leads to a file, and to a heading in it if it names one.
func TestLinks(t *testing.T) {
	anchors := map[string][]string{}
	links := 0
	walkMarkdown(t, func(path, text string) {
		for _, m := range slices.Concat(link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1), image.FindAllStringSubmatch(text, -1)) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			links++
			file := path
			if to != "" {
				file = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[1])
				continue
			}
			if anchor == "" {
				continue
			}
			if anchors[file] == nil {
				anchors[file] = anchorsOf(readText(t, file))
			}
			if !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s: %s: there is no such heading", path, m[1])
			}
		}
	})
	if links < 100 {
		t.Errorf("%d links", links)
	}
}

// anchorsOf are the names that headings have as targets of links.
func anchorsOf(text string) (all []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		title := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(title), ""), " ", "-"))
	}
	return all
}

// TestReadme holds what README.md promises of itself: its length, and that the SDK versions that it calls tested are those that
// the scripts run. That its commands and its snippet do what they say is what scripts/readme/test.sh tries.
func TestReadme(t *testing.T) {
	text := readText(t, "README.md")
	if n := strings.Count(text, "\n"); n > 150 {
		t.Errorf("%d lines, at most 150", n)
	}
	tested := map[string]string{}
	for _, name := range []string{"auth", "interop", "judges"} {
		var p struct{ Dependencies map[string]string }
		if err := json.Unmarshal([]byte(readText(t, filepath.Join("scripts", name, "package.json"))), &p); err != nil {
			t.Fatal(err)
		}
		for pkg, version := range p.Dependencies {
			if name, ours := strings.CutPrefix(pkg, "@turnkey/"); ours {
				tested[name] = version
			}
		}
	}
	for _, name := range []string{"sdk-server", "http", "api-key-stamper", "viem", "ethers", "solana", "cosmjs", "crypto", "core", "react-wallet-kit"} {
		if version := tested[name]; version == "" || !strings.Contains(text, version) {
			t.Errorf("README does not name %s %s, which the scripts run", name, version)
		}
	}
	if version := regexp.MustCompile(`github.com/tkhq/go-sdk (v\S+)`).FindStringSubmatch(readText(t, "scripts/interop/gosdk/go.mod")); version == nil || !strings.Contains(text, version[1]) {
		t.Errorf("README does not name go-sdk %v", version)
	}
	for _, target := range regexp.MustCompile(`(?m)^    make ([a-z]+)`).FindAllStringSubmatch(text+readText(t, "CONTRIBUTING.md"), -1) {
		if !strings.Contains(readText(t, "Makefile"), "\n"+target[1]+":") {
			t.Errorf("there is no make %s", target[1])
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func walkMarkdown(t *testing.T, each func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ".md" {
			each(path, readText(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
