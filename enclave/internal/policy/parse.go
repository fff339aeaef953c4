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
	text   string
	parsed bool // it is an expression, but means nothing
}

func problemAt(pos int, format string, args ...any) *problem {
	return &problem{pos: pos, text: fmt.Sprintf(format, args...)}
}

// parser reads words by recursive descent, one word ahead. It notes the first
// problem and goes on, but every later word is the end, so all functions return.
type parser struct {
	lexer
	word    word
	before  word
	depth   int
	nodes   int
	lambdas int
}

func parse(source string) (*node, *problem) {
	if len(source) > maxSource {
		return nil, problemAt(maxSource, "longer than %d bytes", maxSource)
	}
	if valid := strings.ToValidUTF8(source, ""); len(valid) < len(source) {
		at := 0
		for at < len(valid) && source[at] == valid[at] {
			at++
		}
		return nil, problemAt(at, "the source is not UTF-8")
	}
	p := &parser{lexer: lexer{source: source}}
	p.advance()
	n := p.or()
	if p.word.kind != tokEnd {
		p.unexpectedWord("operator or end")
	}
	return n, p.problem
}

func (p *parser) advance() {
	p.before = p.word
	p.word = p.next()
}

func (p *parser) fail(pos int, format string, args ...any) {
	p.lexer.fail(pos, format, args...)
	p.word = word{}
}

func (p *parser) unexpectedWord(wanted string) {
	switch use := p.suggestOperator(); {
	case use != "":
		p.fail(p.word.pos, "unexpected %s, use %s", p.word, use)
	case p.atMark("-") && wanted != "integer":
		p.fail(p.word.pos, "unexpected %s, "+noArithmetic, p.word)
	default:
		p.fail(p.word.pos, "unexpected %s, want %s", p.word, wanted)
	}
}

// suggestOperator is the operator that was likely meant by the current word, which is unexpected, or by a name before it.
func (p *parser) suggestOperator() string {
	switch {
	case p.word.kind == tokMark:
		if use := p.suggestAt(p.word.pos); use != "" {
			return use
		}
	case p.word.kind == tokName && p.word.text == "not":
		return operatorsElsewhere["!"]
	case p.word.kind == tokName && p.word.text != "in":
		if use := operatorsElsewhere[strings.ToLower(p.word.text)]; use != "" {
			return use
		}
	}
	if p.before.kind == tokName && strings.ToLower(p.before.text) == "not" {
		return "! for not"
	}
	return ""
}

const wholeNumbers = "numbers are whole; amounts are in the chain's smallest unit (wei, lamports, satoshi)"

func (p *parser) atMark(mark string) bool { return p.word.kind == tokMark && p.word.text == mark }

func (p *parser) accept(mark string) bool {
	is := p.atMark(mark)
	if is {
		p.advance()
	}
	return is
}

func (p *parser) expect(mark string) {
	if !p.accept(mark) {
		p.unexpectedWord("\"" + mark + "\"")
	}
}

// enter steps over the mark behind which something stands inside something else.
func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.word.pos, "nested deeper than %d", maxNesting)
	}
	p.advance()
}

// leave steps over the mark that ends it.
func (p *parser) leave(mark string) {
	p.depth--
	p.expect(mark)
}

// node makes a node that began at pos and ended before the current word.
func (p *parser) node(n node, pos int) *node {
	if p.nodes++; p.nodes > maxNodes {
		p.fail(pos, "more than %d parts", maxNodes)
	}
	n.pos, n.end = pos, p.before.end
	return &n
}

func (p *parser) or() *node  { return p.chain(opOr, "||", p.and) }
func (p *parser) and() *node { return p.chain(opAnd, "&&", p.compare) }

// chain reads one or more parts with a mark between them.
func (p *parser) chain(o op, mark string, part func() *node) *node {
	pos := p.word.pos
	first := part()
	if !p.atMark(mark) {
		return first
	}
	kids := []*node{first}
	for p.accept(mark) {
		kids = append(kids, part())
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

func (p *parser) compare() *node {
	pos := p.word.pos
	left := p.unary()
	o := p.comparison()
	if o == 0 {
		return left
	}
	p.advance()
	n := node{op: o, kids: []*node{left, p.unary()}}
	if p.comparison() != 0 {
		p.fail(p.word.pos, "comparisons cannot be chained; join them with &&")
	}
	return p.node(n, pos)
}

func (p *parser) unary() *node {
	pos := p.word.pos
	switch {
	case p.atMark("!"):
		p.enter()
		kid := p.unary()
		p.depth--
		return p.node(node{op: opNot, kids: []*node{kid}}, pos)
	case p.accept("-"):
		if p.word.kind != tokInt {
			p.unexpectedWord("integer")
		}
		return p.integer(pos, true)
	}
	return p.postfix()
}

func (p *parser) integer(pos int, negative bool) *node {
	n := node{op: opInt, lit: p.number(p.word, negative)}
	p.advance()
	return p.node(n, pos)
}

func (p *parser) postfix() *node {
	pos := p.word.pos
	n := p.primary()
	for {
		switch {
		case p.accept("."):
			n = p.member(n, pos)
		case p.atMark("["):
			n = p.index(n, pos)
		default:
			return n
		}
	}
}

func (p *parser) member(of *node, pos int) *node {
	name := p.word
	if name.kind != tokName {
		if of.op == opInt && name.kind == tokInt {
			p.fail(name.pos, wholeNumbers)
		}
		p.unexpectedWord("name")
	}
	p.advance()
	called := p.atMark("(")
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
		p.fail(name.pos, "there is no function %s", shorten(name.text, 40))
	}
	return p.node(node{op: opMember, name: name.text, kids: []*node{of}, at: name.pos}, pos)
}

func (p *parser) call(o op, of *node, at, pos int) *node {
	p.enter()
	n := node{op: o, kids: []*node{of}, at: at}
	if n.lambda() {
		if p.word.kind != tokName || keyword(p.word.text) {
			p.unexpectedWord("name of a variable")
		}
		if p.lambdas++; p.lambdas > maxLambdas {
			p.fail(p.word.pos, "more than %d variables inside each other", maxLambdas)
		}
		n.name = p.word.text
		p.advance()
		p.expect(",")
	}
	if o != opCount {
		n.kids = append(n.kids, p.or())
	}
	if n.lambda() {
		p.lambdas--
	}
	p.leave(")")
	return p.node(n, pos)
}

func (p *parser) index(of *node, pos int) *node {
	p.enter()
	n := node{op: opIndex, kids: []*node{of, p.or()}}
	if p.accept("..") {
		n.op, n.kids = opSlice, append(n.kids, p.or())
	}
	p.leave("]")
	return p.node(n, pos)
}

func (p *parser) primary() *node {
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
	case p.atMark("("):
		p.enter()
		n := p.or()
		p.leave(")")
		return n
	case p.atMark("["):
		return p.list()
	}
	if p.atMark(".") && p.pos < len(p.source) && digit(p.source[p.pos]) {
		p.fail(w.pos, wholeNumbers)
	}
	p.unexpectedWord("value")
	return &node{}
}

// atom makes a node of the current word.
func (p *parser) atom(n node) *node {
	pos := p.word.pos
	p.advance()
	return p.node(n, pos)
}

func (p *parser) list() *node {
	pos, n := p.word.pos, node{op: opList}
	p.enter()
	for more := true; more && !p.atMark("]"); more = p.accept(",") {
		if len(n.kids) == maxItems {
			p.fail(p.word.pos, "more than %d items", maxItems)
		}
		n.kids = append(n.kids, p.or())
	}
	p.leave("]")
	return p.node(n, pos)
}

// function reads Timestamp and CronSpan, whose arguments are literals.
func (p *parser) function(o op) *node {
	pos, n := p.word.pos, node{op: o, at: p.word.pos}
	p.advance()
	p.expect("(")
	for more := true; more; more = p.accept(",") {
		if p.word.kind != tokString {
			p.unexpectedWord("string")
		}
		n.kids = append(n.kids, p.atom(node{op: opString, lit: String(p.word.text)}))
	}
	p.expect(")")
	return p.node(n, pos)
}
