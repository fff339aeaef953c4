// Package der reads and writes ECDSA signatures in DER (SEQUENCE of two INTEGERs; RFC 3279, section 2.2.3), on curves of 256 bits.
package der

// MaxSize is the size in bytes of the longest signature: both integers with a leading zero.
const MaxSize = 2 + 2*(2+33)

// A Signature is r and s, big-endian. Any value of 32 bytes is allowed: the curve's order is not checked.
type Signature struct{ R, S [32]byte }

// Parse reads a signature. Lengths are exact and in the short form. An integer has 1 to 33 bytes, is not negative and has a value of at
// most 32 bytes; redundant leading zeros are tolerated, since clients send them.
func Parse(b []byte) (s Signature, ok bool) {
	if len(b) < 2 || len(b) > MaxSize || b[0] != 0x30 || int(b[1]) != len(b)-2 {
		return s, false
	}
	rest, ok := parseInteger(b[2:], &s.R)
	if ok {
		rest, ok = parseInteger(rest, &s.S)
	}
	return s, ok && len(rest) == 0
}

// parseInteger parses one INTEGER and returns the rest of b.
func parseInteger(b []byte, value *[32]byte) (rest []byte, ok bool) {
	if len(b) < 3 || b[0] != 0x02 {
		return nil, false
	}
	n := int(b[1])
	if n < 1 || n > 33 || n > len(b)-2 {
		return nil, false
	}
	digits, rest := b[2:2+n], b[2+n:]
	if digits[0]&0x80 != 0 || n > len(value) && digits[0] != 0 {
		return nil, false
	}
	digits = digits[max(0, n-len(value)):]
	copy(value[len(value)-len(digits):], digits)
	return rest, true
}

// Append appends the one DER encoding of a signature.
func (s *Signature) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, 0x30, 0)
	dst = appendInteger(dst, &s.R)
	dst = appendInteger(dst, &s.S)
	dst[start+1] = byte(len(dst) - start - 2)
	return dst
}

func appendInteger(dst []byte, value *[32]byte) []byte {
	var padded [33]byte
	copy(padded[1:], value[:])
	digits := padded[:]
	for len(digits) > 1 && digits[0] == 0 && digits[1]&0x80 == 0 {
		digits = digits[1:]
	}
	return append(append(dst, 0x02, byte(len(digits))), digits...)
}
