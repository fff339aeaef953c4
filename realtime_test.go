package cloister_test

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// realTimeUses is how many uses scripts/realtime.txt lists. It may only become less.
const realTimeUses = 402

// shortest is the least time limit that a test sets: a loaded machine takes seconds for what takes milliseconds.
const shortest = 10 * time.Second

// A realTimeUse is what one function of the tests has of the machine's time and ports.
type realTimeUse struct{ path, function, kind string }

func (u realTimeUse) String() string { return u.path + " " + u.function + " " + u.kind }

// TestRealTime holds that no new test of `make test` sleeps, reads the machine's clock, sets a time limit below ten seconds
// or closes a port to bind it again: such tests fail on a loaded machine by bad luck. What there is stands in a list, by
// function, and why. Tests that -short leaves to the campaign are free, and so is what stands in a synctest bubble.
func TestRealTime(t *testing.T) {
	listed, total := readRealTime(t)
	found := map[realTimeUse]int{}
	for dir, files := range testFiles(t) {
		limits, bubbles := durations(files), bubbles(files)
		for path, f := range files {
			for use, n := range (&realTime{limits: limits, bubbles: bubbles}).of(f) {
				found[realTimeUse{filepath.ToSlash(filepath.Join(dir, path)), use[0], use[1]}] = n
			}
		}
	}
	compare := func(a, b realTimeUse) int { return cmp.Compare(a.String(), b.String()) }
	for _, u := range slices.SortedFunc(maps.Keys(found), compare) {
		if found[u] > listed[u] {
			t.Errorf("%v %d: listed are %d; use shared/clocktest, shared/porttest or a synctest bubble, or leave the test to the campaign", u, found[u], listed[u])
		}
	}
	for _, u := range slices.SortedFunc(maps.Keys(listed), compare) {
		if found[u] < listed[u] {
			t.Errorf("%v %d: there are only %d; lower scripts/realtime.txt", u, listed[u], found[u])
		}
	}
	if total != realTimeUses {
		t.Errorf("scripts/realtime.txt lists %d uses, and realTimeUses is %d: it may only be lowered", total, realTimeUses)
	}
}

// readRealTime reads the list: a line each of path, function, kind and number, under a line of # that says why.
func readRealTime(t *testing.T) (listed map[realTimeUse]int, total int) {
	t.Helper()
	b, err := os.ReadFile("scripts/realtime.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed, reason := map[realTimeUse]int{}, false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch fields := strings.Fields(line); {
		case line == "":
			reason = false
		case strings.HasPrefix(line, "# "):
			reason = true
		default:
			n := 0
			if len(fields) == 4 {
				n, _ = strconv.Atoi(fields[3])
			}
			if n <= 0 || !reason {
				t.Fatalf("scripts/realtime.txt: %q: want path, function, kind and number, below a reason", line)
			}
			listed[realTimeUse{fields[0], fields[1], fields[2]}] += n
			total += n
		}
	}
	return listed, total
}

// testFiles are the module's tests and test support by directory and name.
func testFiles(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	all, set := map[string]map[string]*ast.File{}, token.NewFileSet()
	for _, path := range goFiles(t) {
		dir, name := filepath.Split(path)
		if !strings.HasSuffix(name, "_test.go") && !support(module+filepath.ToSlash(filepath.Clean(dir))) {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if all[dir] == nil {
			all[dir] = map[string]*ast.File{}
		}
		all[dir][name] = f
	}
	return all
}

// durations are the constants of a directory whose values are written as numbers and units of time.
func durations(files map[string]*ast.File) map[string]constant.Value {
	known := map[string]constant.Value{}
	for range 2 { // one may be made of another
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.ValueSpec); ok && len(s.Names) == len(s.Values) {
					for i, name := range s.Names {
						if v := valueOf(s.Values[i], known); v != nil {
							known[name.Name] = v
						}
					}
				}
				return true
			})
		}
	}
	return known
}

// valueOf is the value of an expression of numbers, units of time and known constants; nil: it is not one.
func valueOf(e ast.Expr, known map[string]constant.Value) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT {
			return constant.MakeFromLiteral(e.Value, e.Kind, 0)
		}
	case *ast.ParenExpr:
		return valueOf(e.X, known)
	case *ast.Ident:
		return known[e.Name]
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		if u, ok := units[e.Sel.Name]; ok && isIdent(e.X, "time") {
			return constant.MakeInt64(int64(u))
		}
	case *ast.BinaryExpr:
		x, y := valueOf(e.X, known), valueOf(e.Y, known)
		if x == nil || y == nil {
			return nil
		}
		switch e.Op {
		case token.ADD, token.SUB, token.MUL:
			return constant.BinaryOp(x, e.Op, y)
		case token.QUO:
			if constant.Sign(y) != 0 {
				return constant.BinaryOp(x, token.QUO_ASSIGN, y) // of integers
			}
		}
	}
	return nil
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// bubbles are the functions of a directory that are given to synctest.Test by name.
func bubbles(files map[string]*ast.File) map[string]bool {
	all := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && inBubble(c) {
				for _, arg := range c.Args {
					if id, ok := arg.(*ast.Ident); ok {
						all[id.Name] = true
					}
				}
			}
			return true
		})
	}
	return all
}

// inBubble tells whether a call is of synctest.Test or its like.
func inBubble(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && isIdent(s.X, "synctest") && (s.Sel.Name == "Test" || s.Sel.Name == "Run")
}

// A realTime finds uses in one file: of the function's name and the kind of use.
type realTime struct {
	limits  map[string]constant.Value
	bubbles map[string]bool
	uses    map[[2]string]int
	name    string
}

func (r *realTime) of(f *ast.File) map[[2]string]int {
	r.uses = map[[2]string]int{}
	for _, d := range f.Decls {
		r.name = "-"
		if fn, ok := d.(*ast.FuncDecl); ok {
			if ofTheCampaign(fn) || fn.Recv == nil && r.bubbles[fn.Name.Name] {
				continue
			}
			r.name = fn.Name.Name
			if closesItsPort(fn) {
				r.note("port")
			}
		}
		ast.Inspect(d, r.look)
	}
	return r.uses
}

func (r *realTime) note(kind string) { r.uses[[2]string{r.name, kind}]++ }

func (r *realTime) short(limit ast.Expr, unit time.Duration) {
	v := valueOf(limit, r.limits)
	if v == nil {
		return
	}
	if n, exact := constant.Int64Val(v); exact && n > 0 && n < int64(shortest/unit) {
		r.note("limit")
	}
}

func (r *realTime) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			break
		}
		switch name := s.Sel.Name; {
		case inBubble(n):
			return false
		case isIdent(s.X, "context") && strings.HasPrefix(name, "WithTimeout"):
			r.short(n.Args[1], 1)
		case strings.HasPrefix(name, "Set") && strings.HasSuffix(name, "Deadline") && len(n.Args) == 1:
			if add, ok := n.Args[0].(*ast.CallExpr); ok && len(add.Args) == 1 {
				r.short(add.Args[0], 1)
			}
		}
	case *ast.KeyValueExpr:
		key, _ := n.Key.(*ast.Ident)
		switch {
		case key == nil:
		case key.Name == "WithinMs":
			r.short(n.Value, time.Millisecond)
		case strings.HasSuffix(key.Name, "Timeout"), key.Name == "Lease", key.Name == "Wait":
			r.short(n.Value, 1)
		}
	case *ast.SelectorExpr:
		if !isIdent(n.X, "time") {
			break
		}
		switch {
		case n.Sel.Name == "Sleep":
			r.note("sleep")
		case slices.Contains(clocks, n.Sel.Name):
			r.note("clock")
		}
	}
	return true
}

// ofTheCampaign tells whether -short skips a function.
func ofTheCampaign(fn *ast.FuncDecl) (so bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && len(c.Args) > 0 {
			text, isText := c.Args[0].(*ast.BasicLit)
			s, isMethod := c.Fun.(*ast.SelectorExpr)
			so = so || isText && isMethod && strings.HasPrefix(s.Sel.Name, "Skip") && strings.HasPrefix(text.Value, `"left to make campaign: `)
		}
		return !so
	})
	return so
}

// closesItsPort tells whether a function closes what listens before it ends, or gives only the address of it.
func closesItsPort(fn *ast.FuncDecl) (so bool) {
	listeners, gives := map[string]bool{}, false
	if fn.Type.Results != nil {
		gives = slices.ContainsFunc(fn.Type.Results.List, func(f *ast.Field) bool { return isIdent(f.Type, "string") })
	}
	isClose := func(call *ast.CallExpr) bool {
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Close" {
			return false
		}
		id, ok := s.X.(*ast.Ident)
		return ok && listeners[id.Name]
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // what is closed at the test's end, and servers
		case *ast.AssignStmt:
			for _, e := range n.Rhs {
				if c, ok := e.(*ast.CallExpr); ok {
					if s, ok := c.Fun.(*ast.SelectorExpr); ok && isIdent(s.X, "net") && strings.HasPrefix(s.Sel.Name, "Listen") {
						if id, ok := n.Lhs[0].(*ast.Ident); ok {
							listeners[id.Name] = true
						}
					}
				}
			}
		case *ast.DeferStmt:
			so = so || gives && isClose(n.Call)
			return false
		case *ast.CallExpr:
			so = so || isClose(n)
		}
		return true
	})
	return so
}
