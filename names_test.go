package cloister_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Words that say nothing of what a thing is; and the names that the field itself has given with one of them in it.
var (
	emptyWord = regexp.MustCompile(`^(manager|helper|helpers|util|utils|common|data|info|processor|coordinator)$`)
	given     = []string{"TypedData", "authenticatorData", "clientData", "pcrInfo"} // EIP-712, WebAuthn twice, the image format
)

// What ends like a participle and is none, or names what the function gives: a form of a point, an error, a type.
var participles = []string{"Compressed", "Uncompressed", "Unverified", "Unimplemented", "Unsupported", "Shed", "proceed", "succeed"}

func TestNames(t *testing.T) {
	err := walkGo(false, func(path string, file *ast.File) {
		names := badNames(file)
		if name := filepath.Base(path); emptyWord.MatchString(strings.TrimSuffix(name, ".go")) {
			names = append(names, badName{name, "says nothing of what is in the file"})
		}
		for _, bad := range names {
			t.Errorf("%s: %s %s", path, bad.name, bad.why)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What keeps names must be able to say no.
func TestNamesAreSeen(t *testing.T) {
	const src = `package utils
type DataManager struct { c int; _ int; own func() }
type TypedData struct{ R, S string }
type point struct{ X, Y, z int }
type key struct{ X string ` + "`json:\"x\"`" + `; n int }
type rig struct{ t testing.TB; u *testing.T }
var made []struct{ q bool }
func (p *point) sealed() error { return nil }
func dropped() {}
func allowed() bool { return true }
func need() error { return nil }
func openSealed() error { return nil }`
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, bad := range badNames(file) {
		got = append(got, bad.name)
	}
	if want := strings.Fields("utils sealed dropped DataManager DataManager.c point.z key.n rig.u .q"); !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
}

type badName struct{ name, why string }

func badNames(file *ast.File) (bad []badName) {
	named := func(name string) {
		if slices.ContainsFunc(words(name), emptyWord.MatchString) && !slices.Contains(given, name) {
			bad = append(bad, badName{name, "says nothing of what it is"})
		}
	}
	named(file.Name.Name)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && participle(f) {
			bad = append(bad, badName{f.Name.Name, "is a participle, and no function's name"})
		}
	}
	owner := map[*ast.StructType]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			named(n.Name.Name)
			if s, ok := n.Type.(*ast.StructType); ok {
				owner[s] = n.Name.Name
			}
		case *ast.StructType:
			for _, letter := range letters(n) {
				bad = append(bad, badName{owner[n] + "." + letter, "is a letter, and no field's name"})
			}
		}
		return true
	})
	return bad
}

// participle tells a function that is called by one participle and is no predicate.
func participle(f *ast.FuncDecl) bool {
	w := words(f.Name.Name)
	if len(w) != 1 || !strings.HasSuffix(w[0], "ed") || len(w[0]) < 5 || slices.Contains(participles, f.Name.Name) {
		return false
	}
	if f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return true
	}
	result, ok := f.Type.Results.List[0].Type.(*ast.Ident)
	return !ok || result.Name != "bool"
}

// letters are the fields of one letter, except where the letter is the name: r, s and v of a signature, x and y of a point,
// a member of a document that is called so, a test's t.
func letters(s *ast.StructType) (all []string) {
	has := map[string]bool{}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			has[strings.ToLower(n.Name)] = true
		}
	}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			low := strings.ToLower(n.Name)
			switch {
			case len(n.Name) != 1 || n.Name == "_":
			case has["r"] && has["s"] && strings.Contains("rsv", low), has["x"] && has["y"] && strings.Contains("xy", low):
			case f.Tag != nil && reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json") == low:
			case n.Name == "t" && isTesting(f.Type):
			default:
				all = append(all, n.Name)
			}
		}
	}
	return all
}

func isTesting(x ast.Expr) bool {
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	sel, ok := x.(*ast.SelectorExpr)
	return ok && fmt.Sprint(sel.X) == "testing"
}

// words are those of a name in camel case, in lower case.
func words(name string) []string {
	var all []string
	for i, r := range name {
		if i == 0 || unicode.IsUpper(r) && !unicode.IsUpper(rune(name[i-1])) {
			all = append(all, "")
		}
		all[len(all)-1] += string(unicode.ToLower(r))
	}
	return all
}

// replaced are words that were names here and said something only to who had made them, with what stands in their place.
// They do not come back.
var replaced = map[string]string{
	"asker":      "say what it caches, or who asks: statusCache, AskedBy",
	"ballot":     "voteID",
	"bell":       "wakeup",
	"door":       "Endpoint",
	"electorate": "CountVotes",
	"equip":      "installServices",
	"farewell":   "retirement notice; the boot operation keeps its name",
	"guise":      "assumedCaller",
	"hear":       "resolveSubscribers",
	"heard":      "webhookSubscribers, ChainState",
	"insist":     "retryUntilStored",
	"kick":       "wake",
	"knower":     "chainStateSetter",
	"law":        "DeploymentState, authority",
	"outgoing":   "outbox",
	"outward":    "netclient",
	"pose":       "buildPolicyRequest",
	"quit":       "Abort",
	"room":       "replyReservation, or what there is left of: bytesLeft",
	"stranger":   "unknownCredential",
	"toll":       "rateCharge",
	"turn":       "Locked, Transact: a lock and what holds it",
	"wish":       "options, or the header that asks",
}

// Names that others have given: the wire's operation, a member of the virtio specification, a member that a script writes.
var keptWords = []string{"OpFarewell", "kick", "setVringKick", "Door"}

func TestReplacedWords(t *testing.T) {
	err := walkGo(true, func(path string, file *ast.File) {
		for _, name := range declared(file) {
			for _, w := range words(name) {
				if why := replaced[w]; why != "" && !slices.Contains(keptWords, name) {
					t.Errorf("%s: %s: not %q but %s", path, name, w, why)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What keeps words away must be able to say no.
func TestReplacedWordsAreSeen(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\ntype Law struct{ heard int }\nfunc (l *Law) pose(wish int) { room := 1; for turn := range room { _ = turn } }\nvar doorNames int\ntype asks interface{ tollOf() }", parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range declared(file) {
		if slices.ContainsFunc(words(name), func(w string) bool { return replaced[w] != "" }) {
			got = append(got, name)
		}
	}
	if want := strings.Fields("Law heard pose wish room turn doorNames tollOf"); !slices.Equal(got, want) {
		t.Errorf("seen %q, want %q", got, want)
	}
}

// declared are the names that a file declares: packages, functions, types, fields, methods, parameters, constants, variables.
func declared(file *ast.File) (all []string) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			all = append(all, id.Name)
		}
	}
	assigned := func(xs ...ast.Expr) {
		for _, x := range xs {
			if id, ok := x.(*ast.Ident); ok {
				add(id)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			add(n.Name)
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.Field:
			add(n.Names...)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				assigned(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				assigned(n.Key, n.Value)
			}
		}
		return true
	})
	return all
}

// walkGo calls visit with every Go file of the product, and with tests those too.
func walkGo(tests bool, visit func(path string, file *ast.File)) error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || !tests && strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(path, file)
		}
		return err
	})
}
