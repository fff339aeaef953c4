package activity

import (
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"cloister/enclave/internal/org"
)

const hexDigits = "0123456789abcdef"

// literal marks the bytes that stand for themselves inside a string.
var literal = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString writes s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if literal[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// AppendTime writes a Timestamp object. The interface counts whole seconds.
func AppendTime(dst []byte, ms uint64) []byte {
	dst = append(dst, `{"seconds":"`...)
	dst = strconv.AppendUint(dst, ms/1000, 10)
	return append(dst, `","nanos":"0"}`...)
}

// appendID writes a member whose value is an id. key is `"name":` with what
// stands before it.
func appendID(dst []byte, key string, id org.ID) []byte {
	dst = append(append(dst, key...), '"')
	return append(id.Append(dst), '"')
}

func appendHex(dst []byte, key string, b []byte) []byte {
	dst = append(append(dst, key...), '"')
	return append(hex.AppendEncode(dst, b), '"')
}

func appendText(dst []byte, key, s string) []byte { return AppendString(append(dst, key...), s) }
