package show

import (
	"strconv"
	"strings"
	"unicode"
)

// letters tells what in a text can mislead who reads it.
type letters struct{ turned, hidden, mixed bool }

func (l letters) warnings() (codes []Warning) {
	if l.turned {
		codes = append(codes, TextTurned)
	}
	if l.hidden {
		codes = append(codes, TextHidden)
	}
	if l.mixed {
		codes = append(codes, TextMixed)
	}
	return codes
}

// escape writes a text in printable ASCII: a backslash twice, anything else as \u{HEX}. It tells what misleads in it, but
// for the letters that are allowed there. The text must be UTF-8.
func escape(s string, allowed func(rune) bool) (string, letters) {
	var found letters
	var b strings.Builder
	var word scripts
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r >= 0x20 && r <= 0x7e:
			b.WriteRune(r)
		default:
			b.WriteString(`\u{` + strings.ToUpper(strconv.FormatInt(int64(r), 16)) + "}")
		}
		switch {
		case allowed != nil && allowed(r):
		case isTurning(r):
			found.turned = true
		case isHidden(r):
			found.hidden = true
		}
		if word.mixes(r) {
			found.mixed = true
		}
	}
	return b.String(), found
}

// isTurning tells the controls that change the direction in which a text is shown.
func isTurning(r rune) bool {
	switch {
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return r == 0x200e || r == 0x200f || r == 0x061c
}

// isHidden tells what is in a text and not to be seen: controls, marks of formatting, fillers, tags, selectors of variants
// but the one that makes a sign coloured.
func isHidden(r rune) bool {
	if r == 0xfe0f {
		return false
	}
	return r == 0x2028 || r == 0x2029 || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// scripts follows the alphabet of a word.
type scripts struct{ of string }

// mixes takes the next letter and tells whether it is of another alphabet than those before it in the word.
func (s *scripts) mixes(r rune) bool {
	switch {
	case r < 0x80 && unicode.IsLetter(r):
	case r < 0x80 && (r < '0' || r > '9'):
		s.of = ""
		return false
	case !unicode.IsLetter(r):
		if unicode.IsSpace(r) {
			s.of = ""
		}
		return false
	}
	script := "Latin"
	if r >= 0x80 {
		script = scriptOf(r)
	}
	if script == "" {
		return false
	}
	before := s.of
	s.of = script
	return before != "" && before != script
}

// The alphabets that are looked for. Those that one word may have together are one.
var alphabets = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"Latin", unicode.Latin}, {"Cyrillic", unicode.Cyrillic}, {"Greek", unicode.Greek}, {"Arabic", unicode.Arabic}, {"Hebrew", unicode.Hebrew},
	{"Armenian", unicode.Armenian}, {"Georgian", unicode.Georgian}, {"Cherokee", unicode.Cherokee}, {"Coptic", unicode.Coptic}, {"Lisu", unicode.Lisu},
	{"Devanagari", unicode.Devanagari}, {"Thai", unicode.Thai},
	{"Han", unicode.Han}, {"Han", unicode.Hiragana}, {"Han", unicode.Katakana}, {"Han", unicode.Hangul}, {"Han", unicode.Bopomofo},
}

func scriptOf(r rune) string {
	for i := range alphabets {
		if unicode.Is(alphabets[i].table, r) {
			return alphabets[i].name
		}
	}
	return ""
}
