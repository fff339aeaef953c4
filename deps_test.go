package cloister_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write enclave/deps.txt anew, keeping its reasons")

const noReason = "REASON MISSING"

// productions are the commands that run in enclaves, each with the list of what it links: the signer, and the first process
// beside customers' programs.
var productions = map[string]string{"./enclave": "enclave/deps.txt", "./enclave/app/init": "enclave/app/init/deps.txt"}

// What an enclave never links, and why.
var forbidden = []struct{ path, reason string }{
	{"net/http", "the enclave speaks one framed protocol to its host and no other"},
	{"os/exec", "nothing is started inside"},
	{"database/sql", "the enclave has no store"},
	{"plugin", "no code comes in after the measurement"},
	{"cloister/host/...", "the trusted side does not know the untrusted one"},
	{"cloister/sim/...", "a simulated device must not be reachable in production"},
	{"github.com/jackc/pgx/...", "the host's"},
	{"github.com/gorilla/mux/...", "the host's"},
	{"modernc.org/...", "the host's"},
	{"C", "no C"},
	{"runtime/cgo", "no C"},
}

const depsHead = `# Every package that the production enclave links; deps_test.go holds it against the build. A package that is not of the
# standard library says behind # why it is there. Packages internal to the standard library change with the toolchain: they
# are compared only under the one named here. Rewrite with: go test -run Deps -update .
`

// TestDeps holds the list against what go list says of the production build.
func TestDeps(t *testing.T) {
	for production, file := range productions {
		checkDeps(t, production, file)
	}
}

func checkDeps(t *testing.T, production, depsFile string) {
	linked := linkedPackages(t, production)
	toolchain, reasons := readDeps(t, depsFile)
	if *update {
		writeDeps(t, depsFile, linked, reasons)
		toolchain, reasons = readDeps(t, depsFile)
	}
	for path, std := range linked {
		if reason, ok := reasons[path]; !ok && (toolchain == runtime.Version() || !internalOf(path, std)) {
			t.Errorf("%s links %s, which %s does not list", production, path, depsFile)
		} else if ok && !std && (reason == "" || reason == noReason) {
			t.Errorf("%s gives no reason for %s", depsFile, path)
		}
		for _, f := range forbidden {
			if base, below := strings.CutSuffix(f.path, "/..."); path == base || below && strings.HasPrefix(path, base+"/") {
				t.Errorf("%s links %s: %s", production, path, f.reason)
			}
		}
	}
	for path := range reasons {
		if _, ok := linked[path]; !ok && (toolchain == runtime.Version() || !internalOf(path, true)) {
			t.Errorf("%s lists %s, which is not linked", depsFile, path)
		}
	}
}

// What only a simulator sets: the production enclave's wiring names none of it, so it takes no manifest and believes no root
// of a simulator.
var simulators = []string{"Simulator", "WebhookLoopback", "SimulatorRootPEM"}

// TestProductionIsNoSimulator looks at the one place that could make it one: what the command hands to core.
func TestProductionIsNoSimulator(t *testing.T) {
	files, err := filepath.Glob("enclave/*.go")
	if err != nil {
		t.Fatal(err)
	}
	configured := 0
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && slices.Contains(simulators, id.Name) {
				t.Errorf("%s sets %s, which only a simulator does", path, id.Name)
			}
			if l, ok := n.(*ast.CompositeLit); ok {
				if s, ok := l.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Config" {
					configured++
					for _, e := range l.Elts {
						if _, ok := e.(*ast.KeyValueExpr); !ok {
							t.Errorf("%s fills in core.Config without names", path)
						}
					}
				}
			}
			return true
		})
	}
	if configured != 1 {
		t.Errorf("core.Config is made in %d places of enclave/, want one", configured)
	}
}

// internalOf tells whether a package is the standard library's own business.
func internalOf(path string, std bool) bool {
	return std && standard(path) && (strings.HasPrefix(path, "internal/") || strings.Contains(path, "/internal/") ||
		strings.HasPrefix(path, "vendor/"))
}

// linkedPackages is what the production build links, by import path: whether it is of the standard library. The build is
// the one of scripts/enclave.sh.
func linkedPackages(t *testing.T, production string) map[string]bool {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", production)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=", "GOEXPERIMENT=runtimesecret")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	linked := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, std, _ := strings.Cut(strings.TrimSpace(line), " ")
		linked[path] = std == "true"
	}
	return linked
}

// readDeps reads the toolchain that the list was made with, and the reasons by import path.
func readDeps(t *testing.T, depsFile string) (toolchain string, reasons map[string]string) {
	raw, err := os.ReadFile(depsFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	reasons = map[string]string{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "toolchain "); ok {
			toolchain = name
			continue
		}
		path, reason, _ := strings.Cut(line, "#")
		if path = strings.TrimSpace(path); path == "" {
			continue
		}
		if _, twice := reasons[path]; twice {
			t.Errorf("%s lists %s twice", depsFile, path)
		}
		reasons[path] = strings.TrimSpace(reason)
	}
	return toolchain, reasons
}

func writeDeps(t *testing.T, depsFile string, linked map[string]bool, reasons map[string]string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\ntoolchain %s\n\n", depsHead, runtime.Version())
	paths := slices.Sorted(maps.Keys(linked))
	// Ours and others' first: they are what a reader looks for.
	for _, std := range []bool{false, true} {
		for _, path := range paths {
			switch reason := reasons[path]; {
			case linked[path] != std:
			case std:
				fmt.Fprintln(&b, path)
			case reason != "":
				fmt.Fprintf(&b, "%s  # %s\n", path, reason)
			case strings.HasPrefix(path, module):
				fmt.Fprintf(&b, "%s  # ours\n", path)
			default:
				fmt.Fprintf(&b, "%s  # %s\n", path, noReason)
			}
		}
		if !std {
			b.WriteString("\n")
		}
	}
	if err := os.WriteFile(depsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
