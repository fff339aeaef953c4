package policy

import (
	"math/big"
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

// lexer cuts a source into words.
type lexer struct {
	source string
	pos    int
}

// next returns the next word.
func (l *lexer) next() (word, *problem) {
	for l.pos < len(l.source) && strings.IndexByte(" \t\r\n", l.source[l.pos]) >= 0 {
		l.pos++
	}
	start := l.pos
	if start == len(l.source) {
		return word{tokEnd, start, start, ""}, nil
	}
	switch c := l.source[start]; {
	case letter(c):
		for l.pos < len(l.source) && (letter(l.source[l.pos]) || digit(l.source[l.pos])) {
			l.pos++
		}
		return word{tokName, start, l.pos, l.source[start:l.pos]}, nil
	case digit(c):
		for l.pos < len(l.source) && digit(l.source[l.pos]) {
			l.pos++
		}
		if l.pos < len(l.source) && letter(l.source[l.pos]) {
			return word{}, syntaxProblem(l.pos, "an integer is decimal digits only")
		}
		return word{tokInt, start, l.pos, l.source[start:l.pos]}, nil
	case c == '\'':
		n := strings.IndexByte(l.source[start+1:], '\'')
		if n < 0 {
			return word{}, syntaxProblem(start, "the string does not end")
		}
		l.pos = start + n + 2
		return word{tokString, start, l.pos, l.source[start+1 : l.pos-1]}, nil
	case c == '"':
		return word{}, syntaxProblem(start, "unexpected '\"', strings stand between single quotes")
	}
	for _, m := range marks {
		if strings.HasPrefix(l.source[start:], m) {
			l.pos += len(m)
			return word{tokMark, start, l.pos, m}, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.source[start:])
	return word{}, syntaxProblem(start, "unexpected %q", r)
}

func letter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number reads digits as a literal.
func number(w word, negative bool) (Value, *problem) {
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
		return Value{}, syntaxProblem(w.pos, "the integer is above 2^256-1")
	case n.Cmp(minInt) < 0:
		return Value{}, syntaxProblem(w.pos, "the integer is below -2^127")
	}
	return BigInt(n), nil
}
