package policy

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is what kind of word the lexer found.
type token uint8

const (
	tokEnd token = iota
	tokName
	tokInt
	tokString
	tokMark
)

// word is a token with where it stands. text is the name, the mark, the digits
// or what stands between the quotes.
type word struct {
	kind     token
	pos, end int
	text     string
}

func (w word) String() string {
	switch w.kind {
	case tokEnd:
		return "end"
	case tokString:
		return "string"
	}
	return strconv.Quote(shorten(w.text, 40))
}

// marks are the punctuations, the longer ones first.
var marks = [...]string{"||", "&&", "==", "!=", "<=", ">=", "..", "<", ">", "!", "-", ".", ",", "(", ")", "[", "]"}

// operatorsElsewhere are operators of other languages and what they are here, by their text in lower case.
var operatorsElsewhere = map[string]string{
	"and": "&&", "or": "||", "not": "!", "is": "==", "equals": "==", "in": "in",
	"=": "==", "===": "==", "!==": "!=", "<>": "!=", "=!": "!=", "=<": "<=", "=>": ">=", "&": "&&", "|": "||", "!": "!(x in list)", // of x !in list
}

const (
	noArithmetic = "there is no arithmetic"
	singleQuotes = "strings stand between single quotes"
)

// suggestAt is the operator that was likely meant by the operator's characters around a byte, or "".
func (l *lexer) suggestAt(pos int) string {
	const marks = "=!<>&|"
	before, behind := l.source[:pos], l.source[pos:]
	return operatorsElsewhere[before[len(strings.TrimRight(before, marks)):]+behind[:len(behind)-len(strings.TrimLeft(behind, marks))]]
}

// lexer cuts a source into words. After a problem every word is the end.
type lexer struct {
	source  string
	pos     int
	problem *problem // the first one
}

func (l *lexer) fail(pos int, format string, args ...any) word {
	if l.problem == nil {
		l.problem = problemAt(pos, format, args...)
	}
	return word{}
}

func (l *lexer) next() word {
	if l.problem != nil {
		return word{}
	}
	l.pos += countFirst(l.source[l.pos:], func(c byte) bool { return strings.IndexByte(" \t\r\n", c) >= 0 })
	start := l.pos
	if start == len(l.source) {
		return word{tokEnd, start, start, ""}
	}
	kind := tokMark
	switch c := l.source[start]; {
	case letter(c):
		kind = tokName
		l.pos += countFirst(l.source[start:], letterOrDigit)
	case digit(c):
		kind = tokInt
		l.pos += countFirst(l.source[start:], digit)
		if l.pos < len(l.source) && letter(l.source[l.pos]) {
			if l.source[start:l.pos] == "0" && l.source[l.pos]|0x20 == 'x' {
				return l.fail(l.pos, "a number is decimal digits only; addresses and data stand between single quotes")
			}
			return l.fail(l.pos, "a number is decimal digits only, without an exponent, _ or a unit")
		}
	case c == '\'':
		n := strings.IndexByte(l.source[start+1:], '\'')
		if n < 0 {
			return l.fail(start, "the string does not end")
		}
		l.pos = start + n + 2
		return word{tokString, start, l.pos, l.source[start+1 : l.pos-1]}
	case c == '"':
		return l.fail(start, "unexpected '\"', "+singleQuotes)
	default:
		at := slices.IndexFunc(marks[:], func(m string) bool { return strings.HasPrefix(l.source[start:], m) })
		if at < 0 {
			r, _ := utf8.DecodeRuneInString(l.source[start:])
			switch use := l.suggestAt(start); {
			case use != "":
				return l.fail(start, "unexpected %q, use %s", r, use)
			case strings.ContainsRune("+*/%", r):
				return l.fail(start, "unexpected %q, "+noArithmetic, r)
			case strings.ContainsRune("`‘’“”", r):
				return l.fail(start, "unexpected %q, "+singleQuotes, r)
			}
			return l.fail(start, "unexpected %q", r)
		}
		l.pos += len(marks[at])
	}
	return word{kind, start, l.pos, l.source[start:l.pos]}
}

func letter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

func digit(c byte) bool { return '0' <= c && c <= '9' }

func letterOrDigit(c byte) bool { return letter(c) || digit(c) }

// countFirst counts the bytes at the beginning of s that are such.
func countFirst(s string, such func(byte) bool) (n int) {
	for n < len(s) && such(s[n]) {
		n++
	}
	return n
}

func (l *lexer) number(w word, negative bool) Value {
	n := new(big.Int)
	if digits := strings.TrimLeft(w.text, "0"); len(digits) > 78 {
		n.Lsh(maxUint, 1)
	} else if digits != "" {
		n.SetString(digits, 10)
	}
	if negative {
		n.Neg(n)
	}
	switch {
	case n.Cmp(maxUint) > 0:
		l.fail(w.pos, "the number is above 2^256-1")
	case n.Cmp(minInt) < 0:
		l.fail(w.pos, "the number is below -2^127")
	}
	return BigInt(n)
}
