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
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names := badNames(file)
		if emptyWord.MatchString(strings.TrimSuffix(d.Name(), ".go")) {
			names = append(names, badName{d.Name(), "says nothing of what is in the file"})
		}
		for _, bad := range names {
			t.Errorf("%s: %s %s", path, bad.name, bad.why)
		}
		return nil
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
