package btc

import "encoding/binary"

// A cursor reads bytes from left to right. After a read that does not fit it is bad
// and gives zeros, so that callers may ask once at the end; what they allocate must
// follow what was read and not what was announced.
type cursor struct {
	input []byte
	at    int
	bad   bool
}

// end tells whether everything was read and nothing more asked for.
func (c *cursor) end() bool { return !c.bad && c.at == len(c.input) }

func (c *cursor) left() int { return len(c.input) - c.at }

// take gives the next n bytes, nil when there are fewer.
func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > c.left() {
		c.bad = true
		return nil
	}
	c.at += n
	return c.input[c.at-n : c.at : c.at]
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// compact reads a number of variable length, in its shortest form only.
func (c *cursor) compact() uint64 {
	var v, least uint64
	switch first := c.byte(); first {
	case 0xfd:
		if b := c.take(2); b != nil {
			v, least = uint64(binary.LittleEndian.Uint16(b)), 0xfd
		}
	case 0xfe:
		v, least = uint64(c.uint32()), 1<<16
	case 0xff:
		v, least = c.uint64(), 1<<32
	default:
		v = uint64(first)
	}
	if v < least {
		c.bad = true
	}
	return v
}

// count reads how many things of at least size bytes follow.
func (c *cursor) count(size int) int {
	n := c.compact()
	if n > uint64(c.left()/size) {
		c.bad = true
		return 0
	}
	return int(n)
}

// bytes reads a length and as many bytes.
func (c *cursor) bytes() []byte { return c.take(c.count(1)) }

// appendBytes writes what cursor.bytes reads, up to 252 bytes.
func appendBytes(dst, b []byte) []byte { return append(append(dst, byte(len(b))), b...) }
