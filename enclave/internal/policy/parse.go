package policy

import (
	"fmt"
	"strings"
)

// What a source may be at most.
const (
	maxSource  = 16 << 10 // bytes
	maxNesting = 64       // parentheses, brackets, arguments and ! inside each other
	maxNodes   = 4096
	maxLambdas = 4 // inside each other
	maxItems   = 1000
)

// A problem is why a source is no program, and at which byte.
type problem struct {
	pos    int
	parsed bool // it is an expression, but means nothing
	text   string
}

func syntaxProblem(pos int, format string, args ...any) *problem {
	return &problem{pos, false, fmt.Sprintf(format, args...)}
}

// parser reads words by recursive descent, one word ahead.
type parser struct {
	lexer
	word    word
	last    int // where the word before ended
	depth   int
	nodes   int
	lambdas int
}

// parse reads a whole source.
func parse(source string) (*node, *problem) {
	if len(source) > maxSource {
		return nil, syntaxProblem(maxSource, "longer than %d bytes", maxSource)
	}
	if valid := strings.ToValidUTF8(source, ""); len(valid) < len(source) {
		at := 0
		for at < len(valid) && source[at] == valid[at] {
			at++
		}
		return nil, syntaxProblem(at, "the source is not UTF-8")
	}
	p := &parser{lexer: lexer{source: source}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.word.kind != tokEnd {
		return nil, p.unexpectedWord("operator or end")
	}
	return n, nil
}

func (p *parser) advance() (err *problem) {
	p.last = p.word.end
	p.word, err = p.next()
	return err
}

func (p *parser) unexpectedWord(wanted string) *problem {
	return syntaxProblem(p.word.pos, "unexpected %s, want %s", p.word, wanted)
}

func (p *parser) is(mark string) bool { return p.word.kind == tokMark && p.word.text == mark }

// accept steps over a mark if it is there.
func (p *parser) accept(mark string) (bool, *problem) {
	if !p.is(mark) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(mark string) *problem {
	if !p.is(mark) {
		return p.unexpectedWord("\"" + mark + "\"")
	}
	return p.advance()
}

// enter steps over the mark behind which something stands inside something else.
func (p *parser) enter() *problem {
	if p.depth++; p.depth > maxNesting {
		return syntaxProblem(p.word.pos, "nested deeper than %d", maxNesting)
	}
	return p.advance()
}

// leave steps over the mark that ends it.
func (p *parser) leave(mark string) *problem {
	p.depth--
	return p.expect(mark)
}

// node makes a node that began at pos and ended before the current word.
func (p *parser) node(n node, pos int) (*node, *problem) {
	if p.nodes++; p.nodes > maxNodes {
		return nil, syntaxProblem(pos, "more than %d parts", maxNodes)
	}
	n.pos, n.end = pos, p.last
	return &n, nil
}

func (p *parser) or() (*node, *problem)  { return p.chain(opOr, "||", p.and) }
func (p *parser) and() (*node, *problem) { return p.chain(opAnd, "&&", p.compare) }

// chain reads one or more parts with a mark between them.
func (p *parser) chain(o op, mark string, part func() (*node, *problem)) (*node, *problem) {
	pos := p.word.pos
	first, err := part()
	if err != nil || !p.is(mark) {
		return first, err
	}
	kids := []*node{first}
	for p.is(mark) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		next, err := part()
		if err != nil {
			return nil, err
		}
		kids = append(kids, next)
	}
	return p.node(node{op: o, kids: kids}, pos)
}

// comparison is the operator that the current word is, or 0.
func (p *parser) comparison() op {
	if p.word.kind == tokMark || p.word.kind == tokName && p.word.text == "in" {
		for o := opEq; o <= opIn; o++ {
			if strings.TrimSpace(opTexts[o]) == p.word.text {
				return o
			}
		}
	}
	return 0
}

func (p *parser) compare() (*node, *problem) {
	pos := p.word.pos
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	o := p.comparison()
	if o == 0 {
		return left, nil
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	right, err := p.unary()
	if err != nil {
		return nil, err
	}
	if p.comparison() != 0 {
		return nil, syntaxProblem(p.word.pos, "comparisons cannot be chained")
	}
	return p.node(node{op: o, kids: []*node{left, right}}, pos)
}

func (p *parser) unary() (*node, *problem) {
	pos := p.word.pos
	switch {
	case p.is("!"):
		if err := p.enter(); err != nil {
			return nil, err
		}
		kid, err := p.unary()
		if err != nil {
			return nil, err
		}
		p.depth--
		return p.node(node{op: opNot, kids: []*node{kid}}, pos)
	case p.is("-"):
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.word.kind != tokInt {
			return nil, p.unexpectedWord("integer")
		}
		return p.integer(pos, true)
	}
	return p.postfix()
}

func (p *parser) integer(pos int, negative bool) (*node, *problem) {
	lit, err := number(p.word, negative)
	if err != nil {
		return nil, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return p.node(node{op: opInt, lit: lit}, pos)
}

func (p *parser) postfix() (*node, *problem) {
	pos := p.word.pos
	n, err := p.primary()
	for err == nil {
		switch {
		case p.is("."):
			n, err = p.member(n, pos)
		case p.is("["):
			n, err = p.index(n, pos)
		default:
			return n, nil
		}
	}
	return nil, err
}

func (p *parser) member(of *node, pos int) (*node, *problem) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.word.kind != tokName {
		return nil, p.unexpectedWord("name")
	}
	name := p.word
	if err := p.advance(); err != nil {
		return nil, err
	}
	called := p.is("(")
	for o := opAll; o <= opCount; o++ {
		switch {
		case opTexts[o] != name.text:
		case called:
			return p.call(o, of, name.pos, pos)
		case o == opCount: // the parentheses may be missing
			return p.node(node{op: o, kids: []*node{of}, at: name.pos}, pos)
		}
	}
	if called {
		return nil, syntaxProblem(name.pos, "there is no function %s", shorten(name.text, 40))
	}
	return p.node(node{op: opMember, name: name.text, kids: []*node{of}, at: name.pos}, pos)
}

func (p *parser) call(o op, of *node, at, pos int) (*node, *problem) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	n := node{op: o, kids: []*node{of}, at: at}
	if n.lambda() {
		if p.word.kind != tokName || keyword(p.word.text) {
			return nil, p.unexpectedWord("name of a variable")
		}
		if p.lambdas++; p.lambdas > maxLambdas {
			return nil, syntaxProblem(p.word.pos, "more than %d variables inside each other", maxLambdas)
		}
		n.name = p.word.text
		if err := p.advance(); err != nil {
			return nil, err
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
	if o != opCount {
		arg, err := p.or()
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, arg)
	}
	if n.lambda() {
		p.lambdas--
	}
	if err := p.leave(")"); err != nil {
		return nil, err
	}
	return p.node(n, pos)
}

func (p *parser) index(of *node, pos int) (*node, *problem) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	from, err := p.or()
	if err != nil {
		return nil, err
	}
	n := node{op: opIndex, kids: []*node{of, from}}
	if slice, err := p.accept(".."); err != nil {
		return nil, err
	} else if slice {
		to, err := p.or()
		if err != nil {
			return nil, err
		}
		n = node{op: opSlice, kids: []*node{of, from, to}}
	}
	if err := p.leave("]"); err != nil {
		return nil, err
	}
	return p.node(n, pos)
}

func (p *parser) primary() (*node, *problem) {
	w := p.word
	switch {
	case w.kind == tokInt:
		return p.integer(w.pos, false)
	case w.kind == tokString:
		return p.atom(node{op: opString, lit: Value{typ: TypeString, string: w.text, literal: true}})
	case w.kind == tokName && (w.text == "true" || w.text == "false"):
		return p.atom(node{op: opBool, lit: Bool(w.text == "true")})
	case w.kind == tokName && w.text == opTexts[opTimestamp]:
		return p.function(opTimestamp)
	case w.kind == tokName && w.text == opTexts[opCronSpan]:
		return p.function(opCronSpan)
	case w.kind == tokName && w.text != "in":
		return p.atom(node{op: opName, name: w.text, at: w.pos})
	case p.is("("):
		return p.group()
	case p.is("["):
		return p.list()
	}
	return nil, p.unexpectedWord("value")
}

// atom makes a node of the current word.
func (p *parser) atom(n node) (*node, *problem) {
	pos := p.word.pos
	if err := p.advance(); err != nil {
		return nil, err
	}
	return p.node(n, pos)
}

func (p *parser) group() (*node, *problem) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	return n, p.leave(")")
}

func (p *parser) list() (*node, *problem) {
	pos, n := p.word.pos, node{op: opList}
	if err := p.enter(); err != nil {
		return nil, err
	}
	for more := true; more && !p.is("]"); {
		if len(n.kids) == maxItems {
			return nil, syntaxProblem(p.word.pos, "more than %d items", maxItems)
		}
		item, err := p.or()
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, item)
		if more, err = p.accept(","); err != nil {
			return nil, err
		}
	}
	if err := p.leave("]"); err != nil {
		return nil, err
	}
	return p.node(n, pos)
}

// function reads Timestamp and CronSpan, whose arguments are literals.
func (p *parser) function(o op) (*node, *problem) {
	pos, n := p.word.pos, node{op: o, at: p.word.pos}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	for more := true; more; {
		if p.word.kind != tokString {
			return nil, p.unexpectedWord("string")
		}
		arg, err := p.atom(node{op: opString, lit: String(p.word.text)})
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, arg)
		if more, err = p.accept(","); err != nil {
			return nil, err
		}
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	return p.node(n, pos)
}
