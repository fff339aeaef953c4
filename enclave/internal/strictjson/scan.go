package strictjson

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// plain marks the bytes that stand for themselves inside a string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// space skips the four kinds of white space that JSON knows.
func (d *decoder) space() {
	for d.pos < len(d.src) {
		switch d.src[d.pos] {
		case ' ', '\n', '\r', '\t':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is no white space, or 0 at the end.
func (d *decoder) peek() byte {
	if d.pos < len(d.src) {
		if c := d.src[d.pos]; c > ' ' {
			return c
		}
	}
	d.space()
	if d.pos < len(d.src) {
		return d.src[d.pos]
	}
	return 0
}

func (d *decoder) unexpectedInput() *failure {
	if d.pos >= len(d.src) {
		return syntax("unexpected end", d.pos)
	}
	return syntax("unexpected character", d.pos)
}

func (d *decoder) expect(c byte) *failure {
	if d.peek() != c {
		return d.unexpectedInput()
	}
	d.pos++
	return nil
}

func (d *decoder) readLiteral(w string) *failure {
	if len(d.src)-d.pos < len(w) || string(d.src[d.pos:d.pos+len(w)]) != w {
		return d.unexpectedInput()
	}
	d.pos += len(w)
	return nil
}

func (d *decoder) null() (bool, *failure) {
	if d.peek() != 'n' {
		return false, nil
	}
	return true, d.readLiteral("null")
}

// text takes a string and returns what stands between its quotes, still
// escaped, and whether there are escapes. All of it is valid.
func (d *decoder) text() (span []byte, escaped bool, f *failure) {
	if f = d.expect('"'); f != nil {
		return nil, false, f
	}
	start, src, i := d.pos, d.src, d.pos
	for i < len(src) {
		c := src[i]
		switch {
		case plain[c]:
			i++
		case c == '"':
			d.pos = i + 1
			return src[start:i], escaped, nil
		case c == '\\':
			escaped = true
			n := escape(src[i:])
			if n == 0 {
				return nil, false, syntax("bad escape in a string", i)
			}
			i += n
		case c < ' ':
			return nil, false, syntax("control character in a string", i)
		default:
			r, n := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && n == 1 {
				return nil, false, syntax("invalid UTF-8", i)
			}
			i += n
		}
	}
	return nil, false, syntax("unexpected end of a string", i)
}

// escape returns the length of the escape that b starts with, 0 if it is none.
// A surrogate counts only with its other half.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r := hexUnit(b)
		switch {
		case r < 0:
			return 0
		case !utf16.IsSurrogate(r):
			return 6
		case utf16.DecodeRune(r, hexUnit(b[6:])) != utf8.RuneError:
			return 12
		}
	}
	return 0
}

// hexUnit reads \uXXXX, or returns -1.
func hexUnit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// unescape resolves the escapes of a span that text returned.
func unescape(span []byte) []byte {
	out := make([]byte, 0, len(span))
	for i := 0; i < len(span); {
		if span[i] != '\\' {
			next := bytes.IndexByte(span[i:], '\\')
			if next < 0 {
				next = len(span) - i
			}
			out = append(out, span[i:i+next]...)
			i += next
			continue
		}
		c := span[i+1]
		if c == 'u' {
			r := hexUnit(span[i:])
			if utf16.IsSurrogate(r) {
				r = utf16.DecodeRune(r, hexUnit(span[i+6:]))
				i += 6
			}
			out = utf8.AppendRune(out, r)
			i += 6
			continue
		}
		if at := strings.IndexByte("bfnrt", c); at >= 0 {
			c = "\b\f\n\r\t"[at]
		}
		out = append(out, c)
		i += 2
	}
	return out
}

// name takes a member's name and the colon after it.
func (d *decoder) name() ([]byte, *failure) {
	span, escaped, f := d.text()
	if f != nil {
		return nil, f
	}
	if escaped {
		span = unescape(span)
	}
	return span, d.expect(':')
}

// number takes a number of JSON's grammar and says whether it is an integer
// without fraction and exponent.
func (d *decoder) number() (span []byte, integer bool, f *failure) {
	start := d.pos
	digits := func() bool {
		from := d.pos
		for d.pos < len(d.src) && d.src[d.pos] >= '0' && d.src[d.pos] <= '9' {
			d.pos++
		}
		return d.pos > from
	}
	next := func(a, b byte) bool {
		if d.pos < len(d.src) && (d.src[d.pos] == a || d.src[d.pos] == b) {
			d.pos++
			return true
		}
		return false
	}
	next('-', '-')
	if !next('0', '0') && !digits() {
		return nil, false, d.unexpectedInput()
	}
	integer = true
	if next('.', '.') {
		integer = false
		if !digits() {
			return nil, false, d.unexpectedInput()
		}
	}
	if next('e', 'E') {
		integer = false
		next('+', '-')
		if !digits() {
			return nil, false, d.unexpectedInput()
		}
	}
	return d.src[start:d.pos], integer, nil
}

// enter steps into an object or array; more steps out of it.
func (d *decoder) enter(open byte) *failure {
	if f := d.expect(open); f != nil {
		return f
	}
	if d.depth++; d.depth > d.limits.Depth {
		return syntax("too many levels", d.pos-1)
	}
	return nil
}

// hasNext says whether another element or member follows, after n of them.
func (d *decoder) hasNext(n int, end byte) (bool, *failure) {
	switch c := d.peek(); {
	case c == end:
		d.pos++
		d.depth--
		return false, nil
	case n == 0:
		return true, nil
	case c == ',':
		d.pos++
		return true, nil
	}
	return false, d.unexpectedInput()
}

// count bounds the number of all values.
func (d *decoder) count() *failure {
	if d.values++; d.values > d.limits.Values {
		return syntax("too many values", d.pos)
	}
	return nil
}

// skip takes one value of any kind and returns its bytes, without room to
// append into the text after them.
func (d *decoder) skip() ([]byte, *failure) {
	c := d.peek()
	start := d.pos
	if f := d.count(); f != nil {
		return nil, f
	}
	var f *failure
	switch {
	case c == '{':
		f = d.members(d.skipMember)
	case c == '[':
		f = d.elements(d.skipElement)
	case c == '"':
		_, _, f = d.text()
	case c == 't':
		f = d.readLiteral("true")
	case c == 'f':
		f = d.readLiteral("false")
	case c == 'n':
		f = d.readLiteral("null")
	default:
		_, _, f = d.number()
	}
	if f != nil {
		return nil, f
	}
	return d.src[start:d.pos:d.pos], nil
}

// members takes an object. take takes the value of each member.
func (d *decoder) members(take func(name []byte) *failure) *failure {
	if f := d.enter('{'); f != nil {
		return f
	}
	var names nameSet
	for n := 0; ; n++ {
		more, f := d.hasNext(n, '}')
		if !more {
			return f
		}
		if n == d.limits.Members {
			return refuse("has too many members")
		}
		name, f := d.name()
		if f != nil {
			return f
		}
		if !names.add(name) {
			return (&failure{kind: repeatedField}).inField(quoteName(name))
		}
		if f := take(name); f != nil {
			return f.inField(quoteName(name))
		}
	}
}

// elements takes an array. take takes the n-th element.
func (d *decoder) elements(take func(n int) *failure) *failure {
	if f := d.enter('['); f != nil {
		return f
	}
	for n := 0; ; n++ {
		more, f := d.hasNext(n, ']')
		if !more {
			return f
		}
		if n == d.limits.Items {
			return refuse("has too many elements")
		}
		if f := take(n); f != nil {
			return f.underItem(n)
		}
	}
}

func (d *decoder) skipMember([]byte) *failure {
	_, f := d.skip()
	return f
}

func (d *decoder) skipElement(int) *failure {
	_, f := d.skip()
	return f
}

// nameSet finds equal names in one object without quadratic work.
type nameSet struct {
	count int
	few   [fewNames][]byte
	many  map[string]struct{}
}

func (s *nameSet) size() int { return max(s.count, len(s.many)) }

// add reports whether name is new.
func (s *nameSet) add(name []byte) bool {
	if s.many == nil {
		for _, k := range s.few[:s.count] {
			if bytes.Equal(k, name) {
				return false
			}
		}
		if s.count < fewNames {
			s.few[s.count] = name
			s.count++
			return true
		}
		s.many = make(map[string]struct{}, 4*fewNames)
		for _, k := range s.few {
			s.many[string(k)] = struct{}{}
		}
	}
	if _, old := s.many[string(name)]; old {
		return false
	}
	s.many[string(name)] = struct{}{}
	return true
}
