package btc

// A cursor reads bytes from left to right. After a read that does not fit it is bad and
// gives zeros, so that callers may ask once at the end. They must allocate by what was
// read and not by what was announced.
type cursor struct {
	input []byte
	at    int
	bad   bool
}

// end tells whether everything was read and nothing more asked for.
func (c *cursor) end() bool { return !c.bad && c.at == len(c.input) }

func (c *cursor) remaining() int { return len(c.input) - c.at }

// take gives the next n bytes, nil when there are fewer.
func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > c.remaining() {
		c.bad = true
		return nil
	}
	c.at += n
	return c.input[c.at-n : c.at : c.at]
}

// number reads n bytes, the low ones first.
func (c *cursor) number(n int) (v uint64) {
	for i, b := range c.take(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

func (c *cursor) byte() byte     { return byte(c.number(1)) }
func (c *cursor) uint32() uint32 { return uint32(c.number(4)) }

// compact reads a number of variable length, in its shortest form only.
func (c *cursor) compact() uint64 {
	var v, least uint64
	switch first := c.byte(); first {
	case 0xfd:
		v, least = c.number(2), 0xfd
	case 0xfe:
		v, least = c.number(4), 1<<16
	case 0xff:
		v, least = c.number(8), 1<<32
	default:
		v = uint64(first)
	}
	c.bad = c.bad || v < least
	return v
}

// count reads how many things of at least size bytes follow.
func (c *cursor) count(size int) int {
	n := c.compact()
	if n > uint64(c.remaining()/size) {
		c.bad = true
		return 0
	}
	return int(n)
}

// bytes reads a length and as many bytes.
func (c *cursor) bytes() []byte { return c.take(c.count(1)) }

// appendBytes writes what cursor.bytes reads, up to 252 bytes.
func appendBytes(dst, b []byte) []byte { return append(append(dst, byte(len(b))), b...) }
