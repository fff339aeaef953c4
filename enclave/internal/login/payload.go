package login

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// payload is JSON in the making, without its closing brace. In base64url it has
// neither - nor _: of ASCII only > ? ~ and DEL can give these letters, and they are
// escaped as all that is no ASCII is.
type payload []byte

func (p payload) name(name string) payload {
	if len(p) == 0 {
		p = append(p, '{')
	} else {
		p = append(p, ',')
	}
	return append(append(append(p, '"'), name...), '"', ':')
}

func (p payload) number(name string, n uint64) payload {
	return strconv.AppendUint(p.name(name), n, 10)
}

// text adds a string. Invalid UTF-8 becomes U+FFFD.
func (p payload) text(name, s string) payload {
	p = append(p.name(name), '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			p = append(p, '\\', byte(r))
		case r < ' ' || r == '>' || r == '?' || r >= '~' && r < 0x10000:
			p = p.unit(uint16(r))
		case r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			p = p.unit(uint16(high)).unit(uint16(low))
		default:
			p = utf8.AppendRune(p, r)
		}
	}
	return append(p, '"')
}

func (p payload) unit(u uint16) payload {
	const digits = "0123456789abcdef"
	return append(p, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}
