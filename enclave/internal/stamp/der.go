package stamp

// scalars are r and s of an ECDSA signature, big-endian; their range is not
// checked.
type scalars struct{ r, s [scalarSize]byte }

// parseDER parses SEQUENCE { INTEGER r, INTEGER s }. Lengths are exact and in the short form.
// An integer has 1 to 33 bytes, is not negative, and has a value of at most 32 bytes; redundant
// leading zeros are tolerated.
func parseDER(b []byte) (rs scalars, ok bool) {
	if len(b) < 2 || len(b) > maxDER || b[0] != 0x30 || int(b[1]) != len(b)-2 {
		return rs, false
	}
	rest, ok := parseInteger(b[2:], &rs.r)
	if ok {
		rest, ok = parseInteger(rest, &rs.s)
	}
	return rs, ok && len(rest) == 0
}

// parseInteger parses one INTEGER and returns the rest of b.
func parseInteger(b []byte, value *[scalarSize]byte) (rest []byte, ok bool) {
	if len(b) < 3 || b[0] != 0x02 {
		return nil, false
	}
	n := int(b[1])
	if n < 1 || n > pointSize || n > len(b)-2 {
		return nil, false
	}
	digits, rest := b[2:2+n], b[2+n:]
	if digits[0]&0x80 != 0 || n > scalarSize && digits[0] != 0 {
		return nil, false
	}
	digits = digits[max(0, n-scalarSize):]
	copy(value[scalarSize-len(digits):], digits)
	return rest, true
}

// appendDER appends the signature in its unique DER encoding.
func (rs *scalars) appendDER(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, 0x30, 0)
	dst = appendInteger(dst, &rs.r)
	dst = appendInteger(dst, &rs.s)
	dst[start+1] = byte(len(dst) - start - 2)
	return dst
}

func appendInteger(dst []byte, value *[scalarSize]byte) []byte {
	var padded [1 + scalarSize]byte
	copy(padded[1:], value[:])
	digits := padded[:]
	for len(digits) > 1 && digits[0] == 0 && digits[1]&0x80 == 0 {
		digits = digits[1:]
	}
	return append(append(dst, 0x02, byte(len(digits))), digits...)
}
