package policy

import (
	"slices"
	"strconv"
	"strings"
)

// Words says in sentences what a policy does. It is for package enclave/editor: the enclave does not link it. It may say
// that a policy allows more than it does, never less. What has no words is given as the expression itself.
type Words struct {
	Sentence string `json:"sentence"`
	// Everything: the policy allows every user, alone, everything that policies decide.
	Everything bool `json:"everything"`
	Who        Line `json:"who"`
	What       Line `json:"what"`
	When       Line `json:"when"`
}

// A Line is a phrase and, if it speaks of several things, these.
type Line struct {
	Text  string `json:"text"`
	Lines []Line `json:"lines,omitempty"`
}

// Describe says what a policy does.
func Describe(p *Policy, names *Names) Words {
	d := &describer{names: names, labels: names.fieldLabels()}
	who, everybody := d.who(p)
	what, all := d.what(p.Condition)
	when, ever := d.when(p.Time)
	w := Words{Everything: p.Effect == EffectAllow && everybody && all, Who: who.line(), What: what.line(), When: when.line()}
	w.Sentence = sentence(p, who, what, when, [3]bool{everybody, all, ever})
	return w
}

// DescribeSources gives the expressions themselves, of a policy that does not compile.
func DescribeSources(effect, consensus, condition, time string) Words {
	w := Words{Sentence: "Allows what its expressions say.", Who: Line{Text: consensus}, What: Line{Text: condition}, When: Line{Text: time}}
	if effect != "EFFECT_ALLOW" {
		w.Sentence = "Denies what its expressions say."
	}
	for line, text := range map[*Line]string{&w.Who: everyUser, &w.What: anything, &w.When: always} {
		if line.Text == "" {
			line.Text = text
		}
	}
	return w
}

const (
	everyUser = "every user"
	anything  = "everything that policies decide"
	always    = "always"
)

// sentence says who, what and when in one. met tells of each whether it is anybody, anything and always.
func sentence(p *Policy, who, what, when phrase, met [3]bool) string {
	allows, verb := p.Effect == EffectAllow, "Allows"
	everybody, all, ever := met[0], met[1], met[2]
	if !allows {
		verb = "Denies"
	}
	for _, c := range []*Program{p.Condition, p.Consensus, p.Time} {
		if c != nil && c.never() {
			return verb + " nothing: its " + c.clause.String() + " can never be true."
		}
	}
	var b strings.Builder
	b.WriteString(verb)
	switch {
	case everybody && all && allows:
		b.WriteString(" every user to do everything, alone")
	case everybody && all:
		b.WriteString(" every user " + anything)
	case all:
		b.WriteString(" " + anything + ", if " + who.brief("approvals meet"))
	default:
		b.WriteString(" " + what.heading())
		switch {
		case everybody && allows:
			b.WriteString(", by " + everyUser + ", alone")
		case everybody:
			b.WriteString(", to " + everyUser)
		default:
			b.WriteString(", if " + who.brief("approvals meet"))
		}
	}
	if !ever {
		b.WriteString(", " + when.brief("at times that meet"))
	}
	return b.String() + "."
}

// never tells whether an expression is false of every request. What lint finds likely is not enough.
func (p *Program) never() bool {
	_, no := known(p.root, p.clause == ClauseCondition)
	return grantable().minus(no) == kindSet{}
}

// A phrase is what is said about an expression.
type phrase struct {
	head  string // of a condition: the kinds of activities
	text  string // what is said, or what stands before the lines
	joint string // what the lines are join by, if they can be: "and" or "or"
	lines []phrase
	// scoped: the text says what is true of each of several things, or what is not, and what follows could be read as a part of it.
	scoped bool
}

func (s phrase) line() Line {
	l := Line{Text: s.head + s.text}
	if s.head != "" && s.text != "" {
		l.Text = s.head + ", where " + s.text
	}
	for _, each := range s.lines {
		l.Lines = append(l.Lines, each.line())
	}
	return l
}

// Bounds of what a sentence takes from lines.
const (
	maxBriefLines = 3
	maxBrief      = 240 // bytes
)

// inline says lines in one, if they are few and short.
func (s phrase) inline() (string, bool) {
	text := s.line().Text
	if len(s.lines) > 0 {
		var parts []string
		for _, each := range s.lines {
			if len(each.lines) > 0 || each.scoped && len(s.lines) > 1 {
				return "", false
			}
			parts = append(parts, each.line().Text)
		}
		text = strings.Join(parts, " "+s.joint+" ")
	}
	return text, len(text) <= maxBrief && len(s.lines) <= maxBriefLines && (s.joint != "" || len(s.lines) == 0)
}

// brief says a phrase in a part of a sentence: as it is, or how many conditions there are.
func (s phrase) brief(meet string) string {
	if text, ok := s.inline(); ok {
		return text
	}
	return meet + " " + s.count()
}

func (s phrase) count() string {
	switch {
	case s.joint == "and":
		return strconv.Itoa(len(s.lines)) + " conditions"
	case s.joint == "or":
		return "one of " + strconv.Itoa(len(s.lines)) + " conditions"
	}
	return "a condition"
}

// heading is brief for a condition.
func (s phrase) heading() string {
	if s.head == "" { // branches with heads of their own
		var heads []string
		under := ""
		for _, each := range s.lines {
			if !slices.Contains(heads, each.head) {
				heads = append(heads, each.head)
			}
			if each.text != "" {
				under = ", under conditions"
			}
		}
		return either(heads) + under
	}
	rest := s
	rest.head = ""
	text, ok := rest.inline()
	switch {
	case s.text == "":
		return s.head
	case ok:
		return s.head + ", where " + text
	}
	return s.head + ", under " + rest.count()
}

type describer struct {
	source string
	names  *Names
	labels map[string]label
	items  [maxLambdas]string // paths of what variables are
}

func (d *describer) text(n *node) string { return d.source[n.pos:n.end] }

// who describes a consensus, and tells whether every user fulfils it alone.
func (d *describer) who(p *Policy) (phrase, bool) {
	c, anybody := p.Consensus, everyUser
	if p.Effect == EffectAllow {
		anybody += ", alone"
	}
	if c == nil {
		return phrase{text: anybody}, true
	}
	d.source = c.source
	if isMet(c.root) {
		return phrase{text: anybody + ": " + strings.TrimSpace(c.source) + " is true of whoever approves"}, true
	}
	return d.test(c.root), false
}

// isMet tells whether a consensus is true of whoever approves, as one user does at least.
func isMet(n *node) bool {
	switch n.op {
	case opAnd:
		return !slices.ContainsFunc(n.kids, func(k *node) bool { return !isMet(k) })
	case opOr:
		return slices.ContainsFunc(n.kids, isMet) && firstFailing(n) == nil
	case opAny, opAll:
		from, _ := chainRoot(n)
		return from != 0 && n.kids[0].root != 0 && isMet(n.kids[1])
	}
	if of, o, lit := bound(n); of != nil && of.op == opCount && (of.kids[0].root == rootApprovers || of.kids[0].root == rootCredentials) {
		one := Int(1)
		least := lit.lit.compare(&one) // of the number to one
		return o == opGe && least <= 0 || (o == opGt || o == opNe) && least < 0
	}
	yes, _ := known(n, false)
	return yes == kindSet{}.not()
}

// what describes a condition, and tells whether it is true of every request.
func (d *describer) what(p *Program) (phrase, bool) {
	if p == nil {
		return phrase{head: anything}, true
	}
	d.source = p.source
	if yes, _ := known(p.root, true); !p.fails && grantable().minus(yes) == (kindSet{}) {
		return phrase{head: anything + ": " + strings.TrimSpace(p.source) + " is always true"}, true
	}
	return d.condition(p.root), false
}

// condition describes a condition, or a side of its ||, by its kinds of activities and what must hold besides.
func (d *describer) condition(n *node) phrase {
	head, rest := d.kindsOf(conjuncts(n))
	switch {
	case head == "" && n.op == opOr:
		branches := make([]phrase, len(n.kids))
		for i, k := range n.kids {
			branches[i] = d.condition(k)
			if branches[i].head == anything || branches[i].head == "" {
				return d.rest(anything, []*node{n})
			}
		}
		return phrase{text: "one of these:", joint: "or", lines: branches}
	case head == "":
		head = anything
	}
	return d.rest(head, rest)
}

// rest describes what must hold besides the kind.
func (d *describer) rest(head string, tests []*node) phrase {
	var s phrase
	switch len(tests) {
	case 0:
	case 1:
		s = d.test(tests[0])
	default:
		s = d.all(tests)
	}
	s.head = head
	return s
}

func (d *describer) all(tests []*node) phrase {
	return phrase{text: "all of these hold:", joint: "and", lines: d.tests(tests)}
}

func (d *describer) tests(ns []*node) []phrase {
	out := make([]phrase, len(ns))
	for i, n := range ns {
		out[i] = d.test(n)
	}
	return out
}

// test describes an expression of type bool.
func (d *describer) test(n *node) phrase {
	switch n.op {
	case opAnd:
		return d.all(n.kids)
	case opOr:
		return phrase{text: "one of these holds:", joint: "or", lines: d.tests(n.kids)}
	case opNot:
		return d.not(n.kids[0])
	case opEq, opNe, opLt, opGt, opLe, opGe:
		return d.comparison(n, n.op)
	case opIn:
		return d.among(n.kids[0], n.kids[1], n, true)
	case opContains:
		return d.among(n.kids[1], n.kids[0], n, true)
	case opAny:
		return d.quantify("at least one", n.kids[0], n)
	case opAll:
		return d.each(n)
	case opCronSpan:
		return phrase{text: d.cronSpan(n)}
	case opMember, opIndex:
		if d.path(n) != "" && n.shape.class == classBool {
			return phrase{text: d.value(n) + " is true"}
		}
	}
	return phrase{text: d.text(n)}
}

func (d *describer) not(n *node) phrase {
	switch n.op {
	case opIn:
		return d.among(n.kids[0], n.kids[1], n, false)
	case opContains:
		return d.among(n.kids[1], n.kids[0], n, false)
	case opAny:
		return d.quantify("no", n.kids[0], n)
	case opEq, opNe, opLt, opGt, opLe, opGe:
		return d.comparison(n, opposite[n.op])
	case opCronSpan:
		return phrase{text: "at any time but " + d.cronSpan(n)}
	case opMember, opIndex:
		if d.path(n) != "" && n.shape.class == classBool {
			return phrase{text: d.value(n) + " is false"}
		}
	}
	return d.after("not: ", d.test(n))
}

// after puts words before a phrase.
func (d *describer) after(words string, s phrase) phrase {
	s.text, s.scoped = words+s.text, true
	s.joint = "" // its lines can no longer be said without the words
	return s
}

// comparisons are the words of operators.
var comparisons = [...]string{opEq: "is", opNe: "is not", opLt: "is less than", opGt: "is more than", opLe: "is at most", opGe: "is at least"}

// comparison describes n, with an operator of its own or the opposite one.
func (d *describer) comparison(n *node, o op) phrase {
	a, b := n.kids[0], n.kids[1]
	if a.literal() || a.op == opTimestamp {
		a, b, o = b, a, turned[o]
	}
	if a.literal() || a.op == opTimestamp || a.op == opList {
		if o == n.op || o == turned[n.op] {
			return phrase{text: d.text(n)}
		}
		return phrase{text: "not: " + d.text(n), scoped: true}
	}
	if s, ok := d.special(a, o, b); ok {
		return s
	}
	return phrase{text: d.value(a) + " " + comparisons[o] + " " + d.operand(b, d.path(a))}
}

// opposite are the operators of which exactly one holds.
var opposite = [...]op{opEq: opNe, opNe: opEq, opLt: opGe, opGt: opLe, opLe: opGt, opGe: opLt}

// turned are the operators with the sides exchanged.
var turned = [...]op{opEq: opEq, opNe: opNe, opLt: opGt, opGt: opLt, opLe: opGe, opGe: opLe}

// special describes comparisons that have words of their own.
func (d *describer) special(a *node, o op, b *node) (phrase, bool) {
	switch {
	case a.root == rootNow && b.op == opTimestamp:
		return phrase{text: moment(o, b.kids[0].lit.string)}, true
	case a.root == rootKind && (o == opEq || o == opNe) && b.op == opString && kindNamed(b.lit.string) != nil:
		return phrase{text: "the activity " + comparisons[o] + " " + kindPhrase(b.lit.string)}, true
	case a.op != opSlice && b.op == opString && b.lit.string == "0x" && d.labels[d.path(a)].unit == "selector" && (o == opEq || o == opNe):
		if o == opEq {
			return phrase{text: "nothing is called (" + d.text(a) + " is 0x)"}, true
		}
		return phrase{text: "something is called (" + d.text(a) + " is not 0x)"}, true
	case a.op == opCount && b.op == opInt:
		return d.countPhrase(a.kids[0], o, b), true
	case a.op == opSlice && b.op == opString && (o == opEq || o == opNe):
		if beginning, ok := d.beginning(a, b); ok {
			does := " begins with "
			if o == opNe {
				does = " does not begin with "
			}
			return phrase{text: beginning + does + d.literal(b, d.path(a.kids[0]))}, true
		}
	}
	return phrase{}, false
}

// beginning is the value of which a slice is the beginning, as long as a text.
func (d *describer) beginning(slice, text *node) (string, bool) {
	of, from, to := slice.kids[0], slice.kids[1], slice.kids[2]
	if d.labels[d.path(of)].text == "" || !of.shape.text() || from.op != opInt || to.op != opInt || from.lit.compare(&Value{typ: TypeInt}) != 0 || to.lit.big != nil || to.lit.small != int64(len(text.lit.string)) {
		return "", false
	}
	return d.fieldPhrase(of, slice), true
}

// among describes that something is one of a list, or is not.
func (d *describer) among(item, list, n *node, is bool) phrase {
	if list.op == opList && !item.literal() {
		if len(list.kids) > 0 {
			return d.oneOf(item, list, is)
		}
	}
	if item.op == opList || list.op == opList {
		if !is {
			return phrase{text: "not: " + d.text(n), scoped: true}
		}
		return phrase{text: d.text(n)}
	}
	among := " is one of "
	if !is {
		among = " is none of "
	}
	return phrase{text: d.operand(item, itemOf(d.path(list))) + among + d.value(list)}
}

// oneOf describes that something is one of the items of a literal list.
func (d *describer) oneOf(item, list *node, is bool) phrase {
	subject, path := d.value(item), d.path(item)
	of := func(k *node) string { return d.operand(k, path) }
	verb := "is"
	switch {
	case item.root == rootKind && !slices.ContainsFunc(list.kids, func(k *node) bool { return k.op != opString || kindNamed(k.lit.string) == nil }):
		subject, of = "the activity", func(k *node) string { return kindPhrase(k.lit.string) }
	case item.op == opSlice && !slices.ContainsFunc(list.kids, func(k *node) bool {
		_, ok := d.beginning(item, k)
		return !ok || k.op != opString
	}):
		subject, path, verb = d.fieldPhrase(item.kids[0], item), d.path(item.kids[0]), "begins with"
	}
	var texts []string
	for _, k := range list.kids {
		texts = append(texts, of(k))
	}
	return listPhrase(subject+" "+verbFor(verb, is, len(texts)), texts, is)
}

// verbFor is a verb before a list of so many.
func verbFor(verb string, is bool, count int) string {
	switch {
	case is && count > maxInText:
		return verb + " one of these:"
	case is:
		return verb
	case count > maxInText:
		return verb + " none of these:"
	case verb == "is":
		return "is not"
	}
	return "does not begin with"
}

// maxInText is how many things stand in one text.
const maxInText = 3

func listPhrase(text string, texts []string, is bool) phrase {
	if len(texts) <= maxInText {
		return phrase{text: text + " " + either(texts)}
	}
	s := phrase{text: text}
	for _, each := range texts {
		s.lines = append(s.lines, phrase{text: each})
	}
	return s
}

// either joins texts by commas and "or".
func either(texts []string) string { return join(texts, " or ") }

func join(texts []string, last string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	end := len(texts) - 1
	return strings.Join(texts[:end], ", ") + last + texts[end]
}

// countPhrase describes a comparison of the number of a list's items.
func (d *describer) countPhrase(list *node, o op, number *node) phrase {
	many := quantity(o, number)
	if list.op == opFilter {
		return d.quantify(many, list.kids[0], list)
	}
	if list.root == rootApprovers {
		return phrase{text: many + " " + usersApprove(many)}
	}
	return phrase{text: "the number of " + d.value(list) + " " + comparisons[o] + " " + d.literal(number, "")}
}

// quantity is how many items there are, in words.
func quantity(o op, number *node) string {
	words := [...]string{opEq: "exactly", opNe: "not exactly", opLt: "fewer than", opGt: "more than", opLe: "at most", opGe: "at least"}
	return words[o] + " " + string(number.lit.appendDecimal(nil))
}

// one tells whether a quantity is of one thing.
func one(many string) bool { return strings.HasSuffix(many, " 1") || strings.HasSuffix(many, " one") }

func usersApprove(many string) string {
	if one(many) {
		return "user approves"
	}
	return "users approve"
}

// quantify describes that of so many items of a list a test is true. n has it, or filters the list by it.
func (d *describer) quantify(many string, list *node, n *node) phrase {
	tests := []*node{n}
	for list.op == opFilter {
		tests, list = append([]*node{list}, tests...), list.kids[0]
	}
	path := d.path(list)
	for _, t := range tests {
		d.items[t.slot] = itemOf(path)
	}
	if list.root == rootApprovers && len(tests) == 1 {
		if s, ok := d.users(many, n); ok {
			return s
		}
	}
	if list.root == rootCredentials && len(tests) == 1 {
		if s, ok := d.credentials(many, n); ok {
			return s
		}
	}
	items := "items"
	if one(many) || many == "no" {
		items = "item"
	}
	name, also := tests[0].name, ""
	for _, t := range tests[1:] {
		if t.name != name {
			also = ","
			name += ", also called " + t.name
		}
	}
	text := "for " + many + " " + items + " " + name + also + " of " + d.value(list) + ": "
	if len(tests) == 1 {
		return d.after(text, d.test(n.kids[1]))
	}
	s := phrase{text: text + "all of these hold:"}
	for _, t := range tests {
		s.lines = append(s.lines, d.test(t.kids[1]))
	}
	return s
}

// each describes that a test is true of all items of a list.
func (d *describer) each(n *node) phrase {
	list := n.kids[0]
	if list.op == opFilter {
		return d.eachOf(n)
	}
	d.items[n.slot] = itemOf(d.path(list))
	if list.root == rootCredentials {
		if s, ok := d.credentials("each", n); ok {
			return s
		}
	}
	if list.root == rootApprovers {
		if who, ok := d.user(n.kids[1], n.slot); ok {
			return phrase{text: "everybody who approves is " + either(who)}
		}
	}
	return d.after("for each item "+n.name+" of "+d.value(list)+": ", d.test(n.kids[1]))
}

// eachOf describes that a test is true of all items of a list that other tests leave.
func (d *describer) eachOf(n *node) phrase {
	tests := []*node{n}
	list := n.kids[0]
	for ; list.op == opFilter; list = list.kids[0] {
		tests = append([]*node{list}, tests...)
	}
	s := phrase{text: "for each item of " + d.value(list) + " that meets all but the last of these, the last holds too:"}
	for _, t := range tests {
		d.items[t.slot] = itemOf(d.path(list))
		s.lines = append(s.lines, d.after(t.name+": ", d.test(t.kids[1])))
	}
	return s
}

func itemOf(path string) string {
	if path == "" {
		return ""
	}
	return path + "[]"
}

// users describes that so many users of whom a test is true approve.
func (d *describer) users(many string, n *node) (phrase, bool) {
	who, ok := d.user(n.kids[1], n.slot)
	if !ok {
		return phrase{}, false
	}
	named := !strings.HasPrefix(who[0], "a user ")
	switch {
	case many == "at least one" && (named || len(who) == 1):
		if len(who) > maxInText {
			return listPhrase("one of these approves:", who, true), true
		}
		return phrase{text: either(who) + " approves"}, true
	case many == "no":
		return phrase{text: "nobody approves who is " + either(who)}, true
	case named:
		approve := "approve"
		if one(many) {
			approve = "approves"
		}
		if len(who) > maxInText {
			return listPhrase(many+" of these "+approve+":", who, true), true
		}
		return phrase{text: many + " of " + join(who, " and ") + " " + approve}, true
	case len(who) == 1 && one(many):
		return phrase{text: many + strings.TrimPrefix(who[0], "a") + " approves"}, true
	case len(who) == 1:
		return phrase{text: many + " users" + strings.TrimPrefix(who[0], "a user") + " approve"}, true
	}
	return phrase{}, false
}

// user describes the users of whom a test is true: names, or one phrase that begins with "a user".
func (d *describer) user(n *node, slot int) ([]string, bool) {
	ofUser := func(k *node, name string) bool {
		return k.op == opMember && k.name == name && k.kids[0].op == opName && k.kids[0].root == 0 && k.kids[0].slot == slot
	}
	switch {
	case n.op == opOr:
		var all []string
		for _, k := range n.kids {
			who, ok := d.user(k, slot)
			if !ok || strings.HasPrefix(who[0], "a user ") {
				return nil, false
			}
			all = append(all, who...)
		}
		return all, true
	case n.op == opAnd:
		var withs []string
		for _, k := range n.kids {
			who, ok := d.user(k, slot)
			if !ok || !strings.HasPrefix(who[0], "a user ") {
				return nil, false
			}
			withs = append(withs, strings.TrimPrefix(who[0], "a user "))
		}
		return []string{"a user " + join(withs, " and ")}, true
	case n.op == opIn && ofUser(n.kids[0], "id") && n.kids[1].op == opList && len(n.kids[1].kids) > 0:
		var all []string
		for _, k := range n.kids[1].kids {
			if k.op != opString {
				return nil, false
			}
			all = append(all, d.aUser(k))
		}
		return all, true
	case n.op == opContains && ofUser(n.kids[0], "tags") && n.kids[1].op == opString:
		return []string{"a user with the tag " + d.literal(n.kids[1], "approvers[].tags[]")}, true
	case n.op != opEq && n.op != opNe:
		return nil, false
	}
	a, b := n.kids[0], n.kids[1]
	if a.op == opString {
		a, b = b, a
	}
	switch {
	case b.op != opString:
	case ofUser(a, "id") && n.op == opEq:
		return []string{d.aUser(b)}, true
	case ofUser(a, "id"):
		return []string{"a user other than " + d.aUser(b)}, true
	case b.lit.string == "":
	case ofUser(a, "alias") && n.op == opEq:
		return []string{"a user with the name " + d.literal(b, "approvers[].alias")}, true
	case ofUser(a, "email") && n.op == opEq:
		return []string{"a user with the e-mail address " + d.literal(b, "")}, true
	}
	return nil, false
}

// aUser is the name of a user, or who has an id.
func (d *describer) aUser(id *node) string {
	if name := d.names.Users.find(id.lit.string); name != "" {
		return name
	}
	return "the user " + d.literal(id, "")
}

// credentials describes with what people approve.
func (d *describer) credentials(many string, n *node) (phrase, bool) {
	test := n.kids[1]
	a, b := test, test
	if test.op == opEq {
		if a, b = test.kids[0], test.kids[1]; a.op == opString {
			a, b = b, a
		}
	}
	if b.op != opString || a.op != opMember || a.name != "type" || a.kids[0].op != opName || a.kids[0].root != 0 || a.kids[0].slot != n.slot {
		return phrase{}, false
	}
	with := d.literal(b, "credentials[].type")
	switch {
	case many == "each":
		return phrase{text: "everybody approves with " + with + " and with nothing else"}, true
	case many == "at least one":
		return phrase{text: "somebody approves with " + with}, true
	case many == "no":
		return phrase{text: "nobody approves with " + with}, true
	}
	return phrase{text: many + " credentials with which users approve are " + with}, true
}

// path is that of a field, such as solana.tx.transfers[].amount, or empty.
func (d *describer) path(n *node) string {
	switch {
	case n.root != 0:
		return roots[n.root].name
	case n.op == opName:
		return d.items[n.slot]
	case n.op == opFilter, n.op == opSlice && n.shape.class == classList:
		return d.path(n.kids[0])
	case n.op == opMember:
		if of := d.path(n.kids[0]); of != "" {
			return of + "." + n.name
		}
	case n.op == opIndex && n.kids[0].shape.class == classList:
		return itemOf(d.path(n.kids[0]))
	}
	return ""
}

// value describes what is read.
func (d *describer) value(n *node) string {
	switch {
	case n.op == opIndex && n.kids[0].shape.class == classMap && n.kids[1].op == opString:
		if l := d.labels[d.path(n.kids[0])+"['']"]; l.text != "" {
			return l.text + " " + quoteText(n.kids[1].lit.string) + " (" + d.text(n) + ")"
		}
	case n.op == opSlice && n.shape.class != classList:
		if l := d.labels[d.path(n.kids[0])]; l.text != "" {
			return "the part " + d.text(n) + " of " + l.text
		}
	}
	return d.fieldPhrase(n, n)
}

// fieldPhrase is the label of a field, with the expression that reads it.
func (d *describer) fieldPhrase(n, whole *node) string {
	if l := d.labels[d.path(n)]; l.text != "" {
		return l.text + " (" + d.text(whole) + ")"
	}
	return d.text(whole)
}

// operand describes what a field of a path is compared with.
func (d *describer) operand(n *node, path string) string {
	if n.literal() {
		return d.literal(n, path)
	}
	return d.value(n)
}
