package wire

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Limits of one encoded message, in addition to its length.
const (
	MaxElements = 1 << 16 // of one array
	MaxPairs    = 64      // of one map
	MaxNesting  = 8
)

// ErrEncoding means that bytes are not the canonical encoding of a message.
var ErrEncoding = errors.New("not a valid encoding")

var encoding = must(cbor.EncOptions{
	Sort:          cbor.SortCoreDeterministic,
	IndefLength:   cbor.IndefLengthForbidden,
	TagsMd:        cbor.TagsForbidden,
	NilContainers: cbor.NilContainerAsEmpty,
	ByteArray:     cbor.ByteArrayToByteSlice,
}.EncMode())

var decoding = must(cbor.DecOptions{
	DupMapKey:         cbor.DupMapKeyEnforcedAPF,
	IndefLength:       cbor.IndefLengthForbidden,
	TagsMd:            cbor.TagsForbidden,
	UTF8:              cbor.UTF8RejectInvalid,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	MaxNestedLevels:   MaxNesting,
	MaxArrayElements:  MaxElements,
	MaxMapPairs:       MaxPairs,
}.DecMode())

// must returns v and panics on an error. It is for initializers that depend on constants only.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Marshal encodes a message of this package as deterministic CBOR.
func Marshal(v any) ([]byte, error) {
	b, err := encoding.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return b, nil
}

// Unmarshal decodes all of b into the message that v points to, which should be
// zero. It refuses lengths and numbers that are not in their shortest form, map
// keys that are not unsigned numbers in strictly rising order, unknown keys,
// tags, null, floating point, indefinite lengths, invalid UTF-8, byte strings
// that do not fill an ID, Ticket or Hash exactly, trailing bytes, and messages
// above MaxElements, MaxPairs or MaxNesting. Only fields of type Bytes share memory with b.
func Unmarshal(b []byte, v any) error {
	n, err := scan(b, 0)
	if err != nil && !lenient() {
		return err
	}
	if n != len(b) && err == nil {
		return fmt.Errorf("%w: bytes follow", ErrEncoding)
	}
	if err := decoding.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %T: %s", ErrEncoding, v, reason(err))
	}
	return nil
}

// reason describes a decoding error without repeating the peer's bytes.
func reason(err error) string {
	var wrongType *cbor.UnmarshalTypeError
	var unknown *cbor.UnknownFieldError
	switch {
	case errors.As(err, &wrongType):
		return "wrong type in " + wrongType.StructFieldName
	case errors.As(err, &unknown):
		return "unknown field"
	case errors.Is(err, ErrEncoding):
		return "wrong length"
	default:
		return "malformed"
	}
}

// UnmarshalCBOR decodes a byte string of exactly 16 bytes.
func (id *ID) UnmarshalCBOR(b []byte) error { return fill(id[:], b) }

// UnmarshalCBOR decodes a byte string of exactly 16 bytes.
func (t *Ticket) UnmarshalCBOR(b []byte) error { return fill(t[:], b) }

// UnmarshalCBOR decodes a byte string of exactly 32 bytes.
func (h *Hash) UnmarshalCBOR(b []byte) error { return fill(h[:], b) }

// Bytes is a byte string that may be large. Decoding doesn't copy it: it is a slice of the
// message that Unmarshal was given.
type Bytes []byte

// UnmarshalCBOR decodes a byte string of any size.
func (b *Bytes) UnmarshalCBOR(item []byte) error {
	major, n, head, err := readHead(item)
	if err != nil || major != majorBytes || n != uint64(len(item)-head) {
		return ErrEncoding
	}
	*b = item[head:]
	return nil
}

// fill decodes the byte string item into to and refuses any other length: the
// codec would pad a short one with zeros and cut a long one.
func fill(to, item []byte) error {
	major, n, head, err := readHead(item)
	if err != nil || major != majorBytes || n != uint64(len(to)) || len(item) != head+len(to) {
		return ErrEncoding
	}
	copy(to, item[head:])
	return nil
}

// Major types of RFC 8949.
const (
	majorUint   = 0
	majorBytes  = 2
	majorText   = 3
	majorArray  = 4
	majorMap    = 5
	majorSimple = 7
)

// readHead reads the head of an item: its major type and its number, in size bytes. It
// refuses a number that is not in its shortest form, so that a message has one encoding.
func readHead(b []byte) (major byte, n uint64, size int, err error) {
	if len(b) == 0 {
		return 0, 0, 0, fmt.Errorf("%w: truncated", ErrEncoding)
	}
	major, low := b[0]>>5, b[0]&31
	if low < 24 {
		return major, uint64(low), 1, nil
	}
	if low > 27 {
		return 0, 0, 0, fmt.Errorf("%w: indefinite or reserved length", ErrEncoding)
	}
	width := 1 << (low - 24)
	if len(b) < 1+width {
		return 0, 0, 0, fmt.Errorf("%w: truncated", ErrEncoding)
	}
	for _, c := range b[1 : 1+width] {
		n = n<<8 | uint64(c)
	}
	least := uint64(24)
	if width > 1 {
		least = 1 << (4 * width)
	}
	if n < least {
		return 0, 0, 0, fmt.Errorf("%w: not the shortest form", ErrEncoding)
	}
	return major, n, 1 + width, nil
}

// scan checks the form of the item at the start of b and returns its length.
// Unmarshal runs it before it decodes. It allocates nothing.
func scan(b []byte, depth int) (int, error) {
	if depth > MaxNesting {
		return 0, fmt.Errorf("%w: nested too deep", ErrEncoding)
	}
	major, n, at, err := readHead(b)
	if err != nil {
		return 0, err
	}
	switch major {
	case majorUint:
		return at, nil
	case majorBytes, majorText:
		if n > uint64(len(b)-at) {
			return 0, fmt.Errorf("%w: truncated", ErrEncoding)
		}
		return at + int(n), nil
	case majorArray:
		return scanArray(b, at, n, depth)
	case majorMap:
		return scanMap(b, at, n, depth)
	case majorSimple:
		if at == 1 && (n == 20 || n == 21) { // false, true
			return at, nil
		}
	}
	return 0, fmt.Errorf("%w: type not used here", ErrEncoding)
}

func scanArray(b []byte, at int, n uint64, depth int) (int, error) {
	if n > MaxElements || n > uint64(len(b)-at) {
		return 0, fmt.Errorf("%w: array too long", ErrEncoding)
	}
	for range n {
		size, err := scan(b[at:], depth+1)
		if err != nil {
			return 0, err
		}
		at += size
	}
	return at, nil
}

func scanMap(b []byte, at int, n uint64, depth int) (int, error) {
	if n > MaxPairs || n > uint64(len(b)-at) {
		return 0, fmt.Errorf("%w: map too long", ErrEncoding)
	}
	var before uint64
	for i := range n {
		major, key, size, err := readHead(b[at:])
		if err != nil {
			return 0, err
		}
		if major != majorUint || (i > 0 && key <= before) {
			return 0, fmt.Errorf("%w: map keys", ErrEncoding)
		}
		before = key
		at += size
		if size, err = scan(b[at:], depth+1); err != nil {
			return 0, err
		}
		at += size
	}
	return at, nil
}
