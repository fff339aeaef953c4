package policy

import (
	"strings"
	"unicode/utf8"
)

// MaxSource is how many bytes the source of an expression has at most.
const MaxSource = maxSource

// A Mistake is what is wrong with the source of an expression, for package enclave/editor: the enclave does not link it.
type Mistake struct {
	From, To int    // bytes of the source: the word at fault, empty at the end
	Message  string // a sentence without a full stop
}

// FindMistake finds the first thing that is wrong with the source of a clause, nil if it compiles.
func FindMistake(c Clause, source string) *Mistake {
	if source == "" {
		return nil
	}
	_, why := compile(c, source)
	if why == nil {
		return nil
	}
	from, to := wordAt(source, why.pos)
	return &Mistake{from, to, capital(why.text)}
}

// wordAt is the word of a source that has a byte, or what the lexer cannot read there.
func wordAt(source string, pos int) (from, to int) {
	if pos >= len(source) {
		return len(source), len(source)
	}
	among := func(marks string) func(byte) bool {
		return func(c byte) bool { return strings.IndexByte(marks, c) >= 0 }
	}
	for _, such := range []func(byte) bool{letterOrDigit, among("=!<>&|")} {
		if such(source[pos]) {
			for from = pos; from > 0 && such(source[from-1]); from-- {
			}
			return from, pos + countFirst(source[pos:], such)
		}
	}
	if quote := source[pos]; quote == '\'' || quote == '"' {
		n := strings.IndexByte(source[pos+1:], quote)
		if n < 0 {
			return pos, len(source)
		}
		return pos, pos + n + 2
	}
	_, size := utf8.DecodeRuneInString(source[pos:])
	return pos, pos + size
}

// capital begins a message with a capital letter, unless it begins with a word of the language.
func capital(message string) string {
	first, _, _ := strings.Cut(message, " ")
	first = strings.TrimRight(first, ".")
	if keyword(first) || strings.ContainsAny(first, ".<\"'") {
		return message
	}
	for o := opAll; o <= opCount; o++ {
		if opTexts[o] == first {
			return message
		}
	}
	return strings.ToUpper(message[:1]) + message[1:]
}
