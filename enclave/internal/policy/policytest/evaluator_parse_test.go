// Package policytest is test support: it evaluates policies a second time. Its
// tests hold it against the engine in enclave/internal/policy, with which it
// shares no code: it is written from the page on the policy language alone,
// slowly, sentence by sentence.
package policytest

import (
	"fmt"
	"math/big"
)

// The limits of section 2.
const (
	maxSource  = 16 << 10
	maxNesting = 64
	maxNodes   = 4096
	maxLambdas = 4
	maxItems   = 1000
	maxSteps   = 1_000_000
)

// A token is "int", "string", "ident", "end", or an operator or keyword, whose
// sort is its text.
type token struct {
	sort, text string
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// isKeyword tells the words that are no identifiers.
func isKeyword(s string) bool {
	switch s {
	case "true", "false", "in", "Timestamp", "CronSpan":
		return true
	}
	return false
}

func lex(s string) (out []token, err error) {
	for len(s) > 0 {
		n := 1
		switch c := s[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case letter(c):
			for n < len(s) && (letter(s[n]) || digit(s[n])) {
				n++
			}
			if isKeyword(s[:n]) {
				out = append(out, token{s[:n], s[:n]})
			} else {
				out = append(out, token{"ident", s[:n]})
			}
		case digit(c):
			for n < len(s) && digit(s[n]) {
				n++
			}
			if n < len(s) && letter(s[n]) { // the page does not ask for space between the two, but nobody means 1in
				return nil, fmt.Errorf("a number that runs into a word")
			}
			out = append(out, token{"int", s[:n]})
		case c == '\'':
			for n < len(s) && s[n] != '\'' {
				n++
			}
			if n == len(s) {
				return nil, fmt.Errorf("a string without an end")
			}
			n++
			out = append(out, token{"string", s[1 : n-1]})
		default:
			n = 0
			for _, op := range []string{"||", "&&", "==", "!=", "<=", ">=", "..", "<", ">", "!", "-", ".", ",", "(", ")", "[", "]"} {
				if len(s) >= len(op) && s[:len(op)] == op {
					n = len(op)
					out = append(out, token{op, op})
					break
				}
			}
			if n == 0 {
				return nil, fmt.Errorf("a character that nothing starts with: %q", c)
			}
		}
		s = s[n:]
	}
	return append(out, token{sort: "end"}), nil
}

// A node of the tree. op is an operator, "int", "string", "true", "false",
// "list", "name", "field", "call", "index", "slice", "Timestamp" or "CronSpan".
type node struct {
	op       string
	text     string   // of a string, a name, a field, a method
	number   *big.Int // of an int
	kids     []*node
	variable string   // the variable of a lambda, whose body is the last kid
	args     []string // of a function
	typ      *Type    // what the checker found
}

type parser struct {
	toks    []token
	nodes   int
	nesting int
}

func (p *parser) node(op string, kids ...*node) *node {
	p.nodes++
	return &node{op: op, kids: kids}
}

func (p *parser) at(sort string) bool { return p.toks[0].sort == sort }

func (p *parser) take() token {
	t := p.toks[0]
	if t.sort != "end" {
		p.toks = p.toks[1:]
	}
	return t
}

func (p *parser) accept(sort string) bool {
	if p.at(sort) {
		p.take()
		return true
	}
	return false
}

// refusal is what a parser panics with; Parse turns it into its error.
type refusal struct{ error }

func refuse(format string, args ...any) { panic(refusal{fmt.Errorf(format, args...)}) }

func (p *parser) want(sort string) token {
	if !p.at(sort) {
		refuse("%q where %q must stand", p.toks[0].text, sort)
	}
	return p.take()
}

// policy_expr = or_expr EOF ;
func (p *parser) policyExpr() *node {
	n := p.orExpr()
	p.want("end")
	if p.nodes > maxNodes {
		refuse("too many nodes")
	}
	return n
}

func (p *parser) deeper() {
	if p.nesting++; p.nesting > maxNesting {
		refuse("nested too deep")
	}
}

// or_expr = and_expr , { "||" , and_expr } ;
func (p *parser) orExpr() *node {
	p.deeper()
	n := p.andExpr()
	for p.accept("||") {
		n = p.node("||", n, p.andExpr())
	}
	p.nesting--
	return n
}

// and_expr = cmp_expr , { "&&" , cmp_expr } ;
func (p *parser) andExpr() *node {
	n := p.cmpExpr()
	for p.accept("&&") {
		n = p.node("&&", n, p.cmpExpr())
	}
	return n
}

// cmp_expr = unary , [ cmp_op , unary ] ;
func (p *parser) cmpExpr() *node {
	n := p.unary()
	for _, op := range []string{"==", "!=", "<", ">", "<=", ">=", "in"} {
		if p.accept(op) {
			return p.node(op, n, p.unary())
		}
	}
	return n
}

// unary = "!" , unary | "-" , integer | postfix ;
func (p *parser) unary() *node {
	switch {
	case p.accept("!"):
		p.deeper()
		n := p.node("!", p.unary())
		p.nesting--
		return n
	case p.accept("-"):
		n := p.integer()
		n.number = new(big.Int).Neg(n.number)
		if n.number.Cmp(minI128) < 0 {
			refuse("an integer below i128")
		}
		return n
	}
	return p.postfix()
}

func (p *parser) integer() *node {
	n := p.node("int")
	n.number, _ = new(big.Int).SetString(p.want("int").text, 10)
	if n.number.Cmp(maxU256) > 0 {
		refuse("an integer beyond u256")
	}
	return n
}

// postfix = primary , { "." , ident , [ call ] | "[" , or_expr , [ ".." , or_expr ] , "]" } ;
func (p *parser) postfix() *node {
	n := p.primary()
	for {
		switch {
		case p.accept("."):
			name := p.want("ident").text
			if p.accept("(") {
				n = p.call(n)
			} else {
				n = p.node("field", n)
			}
			n.text = name
		case p.accept("["):
			i := p.orExpr()
			if p.accept("..") {
				n = p.node("slice", n, i, p.orExpr())
			} else {
				n = p.node("index", n, i)
			}
			p.want("]")
		default:
			return n
		}
	}
}

// call = "(" , [ ident , "," , or_expr ] , ")" | "(" , [ or_expr , { "," , or_expr } ] , ")" ;
func (p *parser) call(on *node) *node {
	n := p.node("call", on)
	if p.at("ident") && p.toks[1].sort == "," {
		n.variable = p.take().text
		p.take()
		n.kids = append(n.kids, p.orExpr())
	} else if !p.at(")") {
		n.kids = append(n.kids, p.orExpr())
		for p.accept(",") {
			n.kids = append(n.kids, p.orExpr())
		}
	}
	p.want(")")
	return n
}

// primary = "true" | "false" | integer | string | list | ident | func | "(" , or_expr , ")" ;
func (p *parser) primary() *node {
	switch t := p.toks[0]; t.sort {
	case "true", "false":
		p.take()
		return p.node(t.sort)
	case "int":
		return p.integer()
	case "string":
		n := p.node("string")
		n.text = p.take().text
		return n
	case "ident":
		n := p.node("name")
		n.text = p.take().text
		return n
	case "Timestamp", "CronSpan":
		p.take()
		n := p.node(t.sort)
		p.want("(")
		n.args = append(n.args, p.want("string").text)
		for p.accept(",") {
			n.args = append(n.args, p.want("string").text)
		}
		p.want(")")
		return n
	case "(":
		p.take()
		n := p.orExpr()
		p.want(")")
		return n
	case "[":
		return p.list()
	}
	refuse("%q where an expression must start", p.toks[0].text)
	return nil
}

// list = "[" , [ or_expr , { "," , or_expr } , [ "," ] ] , "]" ;
func (p *parser) list() *node {
	n := p.node("list")
	p.want("[")
	for !p.at("]") {
		n.kids = append(n.kids, p.orExpr())
		if !p.accept(",") {
			break
		}
	}
	p.want("]")
	if len(n.kids) > maxItems {
		refuse("too many items")
	}
	return n
}
