package policytest_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"cloister/enclave/internal/policy/policytest"
)

// kindOf is what an expression with this value can stand for.
func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case *big.Int:
		return "int"
	case policytest.Text:
		return "text"
	case []any:
		return "list"
	}
	return "other"
}

// wild is an expression of a kind made of anything that has the right type, and
// now and then of what has not. Its value is a sample.
func (g *generator) wild(kind string, paths []path, depth int) path {
	if g.chance(2) {
		kind = pick(g, "bool", "int", "text", "list", "other")
	}
	if depth <= 0 || g.chance(35) || kind == "other" {
		if of := slices.DeleteFunc(slices.Clone(paths), func(p path) bool { return kindOf(p.value) != kind }); len(of) > 0 && (g.chance(75) || kind == "other") {
			return pick(g, of...)
		}
		switch kind {
		case "bool":
			b := g.chance(50)
			return path{expr: fmt.Sprint(b), value: b}
		case "int":
			n := big.NewInt(int64(g.IntN(4)))
			if g.chance(10) {
				n = g.amount().(*big.Int)
			}
			return path{expr: literal(n), value: n}
		case "text":
			s := pick(g, "", "a", addresses[0], labels[0], "SIGN", "é")
			return path{expr: "'" + s + "'", value: text(s)}
		}
		item := g.wild(pick(g, "int", "text", "bool"), paths, 0)
		if kindOf(item.value) == "list" { // the page does not say whether [2] and [2^255] have one type
			item = path{expr: "true", value: true}
		}
		return path{expr: "[" + item.expr + ", " + g.wild(kindOf(item.value), paths, 0).expr + "]", value: []any{item.value}}
	}
	w := func(kind string) string { return g.wild(kind, paths, depth-1).expr }
	some := pick(g, "int", "text", "bool")
	switch kind {
	case "bool":
		switch g.IntN(11) {
		case 0:
			return path{expr: "!" + g.grouped(w("bool")), value: true}
		case 1, 2:
			return path{expr: g.grouped(w("bool") + g.space(pick(g, "&&", "||")) + w("bool")), value: true}
		case 3, 4:
			return path{expr: g.grouped(g.grouped(w("int")) + g.space(pick(g, "==", "!=", "<", ">", "<=", ">=")) + g.grouped(w("int"))), value: true}
		case 5:
			return path{expr: g.grouped(g.grouped(w(some)) + g.space(pick(g, "==", "!=")) + g.grouped(w(some))), value: true}
		case 6:
			l := g.wild("list", paths, depth-1)
			return path{expr: g.grouped(w(g.itemKind(l)) + " in " + l.expr), value: true}
		case 7:
			l := g.wild("list", paths, depth-1)
			return path{expr: l.expr + ".contains(" + w(g.itemKind(l)) + ")", value: true}
		}
		l := g.wild("list", paths, depth-1)
		return path{expr: l.expr + pick(g, ".all(", ".any(") + g.lambda(l, paths, depth) + ")", value: true}
	case "int":
		return path{expr: w("list") + pick(g, ".count()", ".count"), value: big.NewInt(1)}
	case "text":
		t := g.wild("text", paths, depth-1)
		if g.chance(50) {
			return path{expr: t.expr + "[" + w("int") + "]", value: text("a")}
		}
		return path{expr: t.expr + fmt.Sprintf("[%d..%s]", g.IntN(2), w("int")), value: text("a")}
	}
	l := g.wild("list", paths, depth-1)
	switch g.IntN(3) {
	case 0:
		return path{l.expr + ".filter(" + g.lambda(l, paths, depth) + ")", l.value, l.dynamic}
	case 1:
		return path{l.expr + fmt.Sprintf("[%d..%s]", g.IntN(2), w("int")), l.value, l.dynamic}
	}
	return l
}

func (g *generator) grouped(s string) string {
	if g.chance(85) {
		return "(" + s + ")"
	}
	return s
}

func (g *generator) item(l path) any {
	if items, ok := l.value.([]any); ok && len(items) > 0 {
		return pick(g, items...)
	}
	return nil
}

func (g *generator) itemKind(l path) string {
	if k := kindOf(g.item(l)); k != "other" && k != "list" {
		return k
	}
	return pick(g, "text", "int")
}

// lambda is a variable and what to ask of it.
func (g *generator) lambda(l path, paths []path, depth int) string {
	v := pick(g, "x", "y", "z")
	inner := slices.Clone(paths)
	if item := g.item(l); item != nil {
		for range 3 { // likelier than the rest
			inner = append(inner, g.below(path{v, item, l.dynamic}, 0)...)
		}
	}
	return v + ", " + g.wild("bool", inner, depth-1).expr
}

// votersPaths are what a consensus can be written about.
func votersPaths(o policytest.Organization) []path {
	users, credentials := []any{}, []any{}
	for _, u := range o.Users {
		users = append(users, object{"id": text(u.ID), "email": text(u.Email), "alias": text(u.Name), "tags": each(u.Tags, func(t string) any { return text(t) })})
		for _, c := range u.Credentials {
			credentials = append(credentials, object{"id": text(c.ID), "user_id": text(c.User), "type": text(c.Type), "credential_id": text(c.CredentialID)})
		}
	}
	out := []path{{expr: "approvers", value: users}, {expr: "credentials", value: credentials}, {expr: "approvers[0].alias", value: text("")}, {expr: "approvers[0].tags", value: []any{text("")}},
		{expr: "approvers.count()", value: big.NewInt(1)}}
	for _, u := range o.Users {
		out = append(out, path{expr: "'" + u.Name + "'", value: text(u.Name)}, path{expr: "'" + u.ID + "'", value: text(u.ID)})
	}
	return out
}

// wildCondition is a wild expression about a request.
func (g *generator) wildCondition(r policytest.Request) string {
	paths := g.paths(r)
	if g.chance(10) {
		paths = append(paths, g.paths(pick(g, templates...)(g))...)
	}
	return strings.TrimSpace(g.wild("bool", paths, 2+g.IntN(3)).expr)
}

func (g *generator) wildConsensus(o policytest.Organization) string {
	return g.wild("bool", votersPaths(o), 2+g.IntN(3)).expr
}
