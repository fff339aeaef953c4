package policy

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Place is what can stand at a place of an unfinished expression, for package enclave/editor: the enclave does not link it.
type Place struct {
	From, To int    // bytes of the source: what an option replaces
	Typed    string // the part of it before the caret
	InString bool   // it is what stands between quotes
	Options  []Suggestion
	// Values is the path of the field of which a value can stand there, such as activity.kind, or Timestamp or CronSpan with the
	// number of its argument, such as CronSpan 0. Empty: any value.
	Values string
}

// A Suggestion is a word of the language.
type Suggestion struct {
	Text string
	Kind string // field, method, root or keyword
	Type string
	Path string // of the field; of a method its name
}

// Complete finds what can stand at a byte of an expression. What stands behind it matters only as far as the word goes on.
func Complete(c Clause, source string, at int) Place {
	f := &finder{clause: c, source: source}
	inString := f.read(source[:at])
	if inString >= 0 {
		p := Place{From: inString + 1, To: at + stringEnd(source[at:]), Typed: source[inString+1 : at], InString: true}
		if p.Values = f.comparedBefore(); p.Values == "" {
			p.Values = f.comparedBehind(p.To)
		}
		return p
	}
	p := Place{From: at, To: at}
	if last := f.last(); last.end == at && (last.kind == tokName || last.kind == tokInt) {
		p.From, p.Typed = last.pos, last.text
		p.To = at + countFirst(source[at:], letterOrDigit)
		f.words = f.words[:len(f.words)-1]
		if last.kind == tokInt {
			return p // of a number everybody knows how it goes on
		}
	}
	f.options(&p)
	return p
}

// stringEnd is how much of what stands behind the caret belongs to the string that it is in. The next quote may be another's.
func stringEnd(behind string) int {
	if n := strings.IndexByte(behind, '\''); n >= 0 && !strings.ContainsAny(behind[:n], "()[]&|=!<>,") {
		return n
	}
	return countFirst(behind, func(c byte) bool { return letterOrDigit(c) || c == '-' })
}

// finder has the words before the caret, and the variables of the calls that are open there.
type finder struct {
	clause    Clause
	source    string
	words     []word
	variables []variable
	items     []string // paths of what the variables are
	open      []opening
	resolved  int // bytes of values that were parsed
}

// maxResolved bounds finder.resolved: a chain of calls is parsed once for each of them.
const maxResolved = 64 << 10

// An opening is a word that opens what is not closed, and whether a variable was bound behind it.
type opening struct {
	at    int
	binds bool
}

// read reads the words. It tells where the string begins in which they end, or -1.
func (f *finder) read(before string) int {
	l := lexer{source: before}
	for {
		w := l.next()
		switch {
		case l.problem == nil && w.kind == tokEnd:
			return -1
		case l.problem == nil:
			f.add(w)
			continue
		}
		pos := l.problem.pos
		switch l.problem = nil; {
		case before[pos] == '\'':
			return pos
		case letter(before[pos]): // behind a number
			l.pos = pos
		default: // no word begins so
			_, size := utf8.DecodeRuneInString(before[pos:])
			l.pos = pos + size
			f.add(word{tokMark, pos, l.pos, before[pos:l.pos]})
		}
	}
}

func (f *finder) last() word {
	if len(f.words) == 0 {
		return word{}
	}
	return f.words[len(f.words)-1]
}

// add adds a word, and follows what it opens, closes or binds.
func (f *finder) add(w word) {
	f.words = append(f.words, w)
	i := len(f.words) - 1
	switch {
	case w.kind != tokMark:
	case w.text == "(" || w.text == "[":
		f.open = append(f.open, opening{at: i})
	case (w.text == ")" || w.text == "]") && len(f.open) > 0:
		if f.open[len(f.open)-1].binds {
			f.variables, f.items = f.variables[:len(f.variables)-1], f.items[:len(f.items)-1]
		}
		f.open = f.open[:len(f.open)-1]
	case w.text == "," && len(f.open) > 0:
		o := &f.open[len(f.open)-1]
		if at := o.at; f.binds(at) && i == at+2 && f.words[i-1].kind == tokName {
			o.binds = true
			elem := dynamicShape
			s, path := f.value(at - 3)
			if s != nil && s.class == classList {
				elem = s.elem
			}
			f.variables, f.items = append(f.variables, variable{f.words[i-1].text, elem}), append(f.items, itemOf(path))
		}
	}
}

// binds tells whether a word opens a call that binds a variable.
func (f *finder) binds(at int) bool { return f.calls(at, opAll, opAny, opFilter) }

// calls tells whether a word opens a call of one of the methods.
func (f *finder) calls(at int, methods ...op) bool {
	return f.words[at].text == "(" && at >= 3 && f.words[at-2].text == "." && f.words[at-1].kind == tokName &&
		slices.ContainsFunc(methods, func(o op) bool { return opTexts[o] == f.words[at-1].text })
}

// value is the shape and the path of the value that ends with a word; nil: there is none.
func (f *finder) value(end int) (*shape, string) {
	from := f.begin(end)
	if from < 0 || len(f.variables) > maxLambdas {
		return nil, ""
	}
	return f.resolve(f.source[f.words[from].pos:f.words[end].end])
}

func (f *finder) resolve(text string) (*shape, string) {
	if f.resolved += len(text); f.resolved > maxResolved {
		return nil, ""
	}
	n, why := parse(text)
	if why != nil {
		return nil, ""
	}
	c := &checker{clause: f.clause, variables: slices.Clone(f.variables)}
	if c.check(n); c.problem != nil {
		return nil, ""
	}
	d := new(describer)
	copy(d.items[:], f.items)
	return n.shape, d.path(n)
}

// begin is the first word of the value that ends with a word, or -1.
func (f *finder) begin(end int) int {
	for i := end; i >= 0; {
		switch w := f.words[i]; {
		case w.kind == tokName:
			if i == 0 || f.words[i-1].text != "." {
				return i
			}
			i -= 2
		case w.kind == tokString || w.kind == tokInt:
			return i
		case w.text == ")" || w.text == "]":
			at := f.opener(i)
			if at < 0 {
				return -1
			}
			before := at - 1
			if before < 0 || f.words[before].kind != tokName && (w.text == ")" || !f.endsValue(before)) || f.words[before].text == "in" {
				return at
			}
			i = before
		default:
			return -1
		}
	}
	return -1
}

// opener is the word that opened what a word closes, or -1.
func (f *finder) opener(closing int) int {
	depth := 0
	for i := closing; i >= 0; i-- {
		if f.words[i].kind != tokMark {
			continue
		}
		switch f.words[i].text {
		case ")", "]":
			depth++
		case "(", "[":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// endsValue tells whether a value ends with a word.
func (f *finder) endsValue(i int) bool {
	w := f.words[i]
	return w.kind == tokString || w.kind == tokInt || w.kind == tokName && w.text != "in" || w.kind == tokMark && (w.text == ")" || w.text == "]")
}

// isComparison tells whether a word is a comparison.
func isComparison(w word) bool {
	p := parser{word: w}
	return p.comparison() != 0 || w.kind == tokMark && w.text == "="
}

// comparedBefore is the path of the field that the next value is compared with, as far as what stands before tells.
func (f *finder) comparedBefore() string {
	i := len(f.words) - 1
	switch {
	case i < 0:
		return ""
	case isComparison(f.words[i]) && f.words[i].text != "in":
		_, path := f.value(i - 1)
		return path
	case len(f.open) == 0:
		return ""
	}
	at := f.open[len(f.open)-1].at
	switch {
	case f.words[at].text == "[" && at > 0 && f.words[at-1].text == "in" && (i == at || f.words[i].text == ","):
		_, path := f.value(at - 2)
		return path
	case i == at && f.calls(at, opContains):
		_, path := f.value(at - 3)
		return itemOf(path)
	case at > 0 && f.words[at-1].text == opTexts[opCronSpan] && f.clause == ClauseTime:
		return opTexts[opCronSpan] + " " + string(rune('0'+min((i-at)/2, 9)))
	case at > 0 && f.words[at-1].text == opTexts[opTimestamp] && f.clause == ClauseTime:
		return opTexts[opTimestamp] + " 0"
	}
	return ""
}

// comparedBehind is the path of the field that stands behind a string that ends at a byte, and that it is compared with.
func (f *finder) comparedBehind(end int) string {
	behind := strings.TrimPrefix(f.source[end:], "'")
	l := lexer{source: behind}
	comparison := l.next()
	if !isComparison(comparison) {
		return ""
	}
	// A value without calls.
	begin, until := -1, -1
	for w := l.next(); l.problem == nil && (w.kind == tokName && (until < 0 || behind[until-1] == '.') || w.kind == tokMark && w.text == "." && until >= 0); w = l.next() {
		if begin < 0 {
			begin = w.pos
		}
		until = w.end
	}
	if begin < 0 {
		return ""
	}
	_, path := f.resolve(strings.TrimSuffix(behind[begin:until], "."))
	if comparison.text == "in" {
		return itemOf(path)
	}
	return path
}

// options are the words of the language that can stand at the caret.
func (f *finder) options(p *Place) {
	i := len(f.words) - 1
	add := func(kind, text, typ, path string) {
		p.Options = append(p.Options, Suggestion{Text: text, Kind: kind, Type: typ, Path: path})
	}
	switch {
	case i >= 0 && f.words[i].kind == tokMark && f.words[i].text == ".":
		f.members(i-1, add)
	case i >= 0 && f.words[i].text == "(" && f.binds(i):
		if s, _ := f.value(i - 3); s != nil && s.class == classList {
			add("keyword", f.freeName(s.elem)+", ", s.elem.name, "")
		}
	case i >= 0 && f.endsValue(i):
		f.operators(i, add)
	default:
		p.Values = f.comparedBefore()
		f.operands(add)
	}
}

func (f *finder) members(end int, add func(kind, text, typ, path string)) {
	if end < 0 {
		return
	}
	if first := f.words[end]; first.kind == tokName && group(first.text) && f.begin(end) == end {
		for _, r := range roots[1:] {
			if name, ok := strings.CutPrefix(r.name, first.text+"."); ok && r.clause == f.clause {
				add("field", name, r.shape.name, r.name)
			}
		}
		return
	}
	s, path := f.value(end)
	if s == nil {
		return
	}
	for _, m := range s.fields {
		at := ""
		if path != "" {
			at = path + "." + m.name
		}
		add("field", m.name, m.shape.name, at)
	}
	if s.class == classList || s.class == classDynamic {
		elem := dynamicShape
		if s.class == classList {
			elem = s.elem
		}
		for o := opAll; o <= opCount; o++ {
			text, typ := opTexts[o]+"(", boolShape.name
			switch o {
			case opCount:
				text, typ = text+")", intShape.name
			case opAll, opAny, opFilter:
				text += f.freeName(elem) + ", "
			}
			if o == opFilter {
				typ = s.name
			}
			add("method", text, typ, opTexts[o])
		}
	}
}

// freeName is a name for a variable of a shape that has none of the names in use.
func (f *finder) freeName(s *shape) string {
	first := strings.ToLower(s.name[:1])
	if s.class != classStruct {
		first = "x"
	}
	for name := first; ; name += first {
		if !slices.ContainsFunc(f.variables, func(v variable) bool { return v.name == name }) {
			return name
		}
	}
}

// operators are those that can follow a value.
func (f *finder) operators(end int, add func(kind, text, typ, path string)) {
	from := f.begin(end)
	compared := from > 0 && isComparison(f.words[from-1])
	s, _ := f.value(end)
	if s != nil && !compared {
		switch {
		case s.number() || s.class == classTime || s.class == classDynamic:
			for _, o := range []op{opEq, opNe, opLt, opLe, opGt, opGe} {
				add("keyword", strings.TrimSpace(opTexts[o]), "", "")
			}
		case s.text() || s.class == classBool:
			add("keyword", "==", "", "")
			add("keyword", "!=", "", "")
		}
		if scalar(s) && s.class != classTime && s.class != classBool {
			add("keyword", "in", "", "")
		}
	}
	if compared || s != nil && (s.class == classBool || s.class == classDynamic) {
		add("keyword", "&&", "", "")
		add("keyword", "||", "", "")
	}
}

// operands are the values that can begin where one is due.
func (f *finder) operands(add func(kind, text, typ, path string)) {
	for i, v := range slices.Backward(f.variables) {
		add("root", v.name, v.shape.name, f.items[i])
	}
	for _, r := range roots[1:] {
		if r.clause == f.clause {
			add("root", r.name, r.shape.name, r.name)
		}
	}
	for _, m := range Fields() {
		if m.Clause == f.clause && findRoot(m.Path) == 0 && !strings.Contains(m.Path, "[]") {
			add("field", m.Path, m.Type, m.Path)
		}
	}
	add("keyword", "true", boolShape.name, "")
	add("keyword", "false", boolShape.name, "")
	if f.clause == ClauseTime {
		add("method", opTexts[opTimestamp]+"('", timeShape.name, opTexts[opTimestamp])
		add("method", opTexts[opCronSpan]+"('", boolShape.name, opTexts[opCronSpan])
	}
}

// A KnownValue is a value that a field can have.
type KnownValue struct{ Text, Note string }

// KnownValues are the values of a field, or of the argument of a function, as far as they are known to the language.
func KnownValues(path string) (out []KnownValue) {
	switch path {
	case "activity.kind", "activity.resource", "activity.action":
		root := findRoot(path)
		seen := map[string]bool{}
		for _, k := range everyKind() {
			if text := k.constantAt(root); !k.RootQuorum && !seen[text] {
				seen[text] = true
				v := KnownValue{Text: text}
				if root == rootKind {
					v.Note = kindPhrase(text)
				}
				out = append(out, v)
			}
		}
	case "credentials[].type":
		for _, row := range credentialTypes {
			out = append(out, KnownValue{row[0], row[1]})
		}
	}
	for _, row := range knownValues {
		if row[0] == path {
			for text := range strings.SplitSeq(row[1], "|") {
				out = append(out, KnownValue{Text: text})
			}
		}
	}
	return out
}

// knownValues are the values of fields that have few, as README.md lists them, and examples of what functions take.
var knownValues = [...][2]string{
	{"activity.params.hash_function", "HASH_FUNCTION_NO_OP|HASH_FUNCTION_SHA256|HASH_FUNCTION_KECCAK256|HASH_FUNCTION_NOT_APPLICABLE"},
	{"activity.params.encoding", "PAYLOAD_ENCODING_HEXADECIMAL|PAYLOAD_ENCODING_TEXT_UTF8|PAYLOAD_ENCODING_EIP712|PAYLOAD_ENCODING_EIP7702_AUTHORIZATION"},
	{"activity.params.payload_kind", "DOCUMENT|MESSAGE|TEXT|BYTES|DIGEST|TRANSACTION"},
	{"activity.params.type", "TRANSACTION_TYPE_ETHEREUM|TRANSACTION_TYPE_SOLANA|TRANSACTION_TYPE_TRON|TRANSACTION_TYPE_BITCOIN|TRANSACTION_TYPE_TEMPO"},
	{"activity.params.signatures[].derivation.type", "identity|signing_leaf|deposit|static_deposit"},
	{"eth.tx.type", "LEGACY|TYPE_1|TYPE_2|TYPE_3|TYPE_4"},
	{"solana.tx.authorities[].type", "OWNER_PROGRAM|NONCE"},
	{"solana.tx.spl_authorities[].type", "ACCOUNT_OWNER|MINT_TOKENS|FREEZE_ACCOUNT|CLOSE_ACCOUNT"},
	{"bitcoin.tx.outputs[].address_type", "P2PKH|P2SH|P2WPKH|P2WSH|P2TR"},
	{"bitcoin.tx.locktime.type", "Blocks|Seconds"},
	{"tron.tx.contract[].type", "TransferContract|TriggerSmartContract|FreezeBalanceV2Contract"},
	{"tron.tx.contract[].resource", "BANDWIDTH|ENERGY|TRON_POWER"},
	{"Timestamp 0", "2026-01-31T12:00:00Z"},
	{"CronSpan 0", "0 9 * * 1-5|0 0 * * 0,6|0 0 1 * *"},
	{"CronSpan 1", "30m|8h|1d"},
	{"CronSpan 2", "Etc/UTC|Europe/London|Europe/Paris|America/New_York|America/Los_Angeles|Asia/Singapore|Asia/Tokyo"},
}
