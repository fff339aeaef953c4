package eth

import (
	"bytes"
	"strings"

	"cloister/enclave/internal/strictjson"
)

// A cursor walks once over JSON that strictjson has read, so that the text is well formed
// and bounded, and no object has a name twice. Its methods are called with pos before a
// value and leave it behind.
type cursor struct {
	text []byte
	pos  int
}

// peek is the first byte of what follows, 0 at the end.
func (c *cursor) peek() byte {
	for c.pos < len(c.text) {
		if b := c.text[c.pos]; b > ' ' {
			return b
		}
		c.pos++
	}
	return 0
}

// enter steps into an object or array if one follows.
func (c *cursor) enter(open byte) bool {
	if c.peek() != open {
		return false
	}
	c.pos++
	return true
}

// hasNext tells whether another member or element follows, and else steps out.
func (c *cursor) hasNext(end byte) bool {
	switch c.peek() {
	case ',':
		c.pos++
	case end:
		c.pos++
		return false
	case 0:
		return false
	}
	return true
}

func (c *cursor) name() []byte {
	name, _ := c.string()
	if c.peek() == ':' {
		c.pos++
	}
	return name
}

func (c *cursor) null() bool {
	if c.peek() != 'n' {
		return false
	}
	c.readLiteral()
	return true
}

// string takes a string if one follows. The bytes may be those of the text.
func (c *cursor) string() ([]byte, bool) {
	if c.peek() != '"' {
		return nil, false
	}
	span := c.quotedString()
	if bytes.IndexByte(span, '\\') < 0 {
		return span[1 : len(span)-1], true
	}
	text, ok := strictjson.Raw(span).Text()
	return []byte(text), ok
}

// quotedString takes a string with its quotes.
func (c *cursor) quotedString() []byte {
	start := c.pos
	for c.pos++; c.pos < len(c.text) && c.text[c.pos] != '"'; c.pos++ {
		if c.text[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos++
	return c.text[start:c.pos]
}

// readLiteral takes a number, true, false or null.
func (c *cursor) readLiteral() []byte {
	c.peek()
	start := c.pos
	for c.pos < len(c.text) && strings.IndexByte(",]} \t\r\n", c.text[c.pos]) < 0 {
		c.pos++
	}
	return c.text[start:c.pos]
}

// skip passes over one value of any kind.
func (c *cursor) skip() {
	depth := 0
	for {
		switch c.peek() {
		case 0:
			return
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			depth--
			c.pos++
		case ',', ':':
			c.pos++
			continue
		case '"':
			c.quotedString()
		default:
			c.readLiteral()
		}
		if depth == 0 {
			return
		}
	}
}
