package sol

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
)

// What the values of one transaction may come to. A value of at least one byte is
// bounded by the transaction; these bound types without bytes.
const (
	maxValues     = 10_000
	maxDepth      = 32
	firstCapacity = 16 // for a list or map, before its elements are seen
)

type values struct {
	rest   []byte
	budget *int
	// unread is set where a type cannot be read, whatever the bytes.
	unread bool
	// whole asks for values as approvers see them: data as []byte, floating-point numbers as float64, and numbers of any size.
	whole bool
}

func (v *values) take(n int) ([]byte, bool) {
	if n > len(v.rest) {
		return nil, false
	}
	b := v.rest[:n]
	v.rest = v.rest[n:]
	return b, true
}

// length is a number of 32 bits.
func (v *values) length() (int, bool) {
	b, ok := v.take(4)
	if !ok {
		return 0, false
	}
	n := binary.LittleEndian.Uint32(b)
	return int(n), n <= math.MaxInt32
}

// read takes one value of type t, in its only form. An option that is none, and what policies
// cannot hold, a floating-point number or an i256 beyond 128 bits, are nil. A variant is a map with one
// entry, which is true if it has no fields.
func (v *values) read(t *typ, depth int) (any, bool) {
	*v.budget--
	if *v.budget < 0 || depth > maxDepth {
		return nil, false
	}
	switch t.kind {
	case kindAlias:
		return v.read(t.elems[0], depth+1)
	case kindOption:
		return v.option(t, depth)
	case kindCOption:
		return v.cOption(t, depth)
	case kindVec:
		n, ok := v.length()
		if !ok {
			return nil, false
		}
		return v.list(t, n, depth)
	case kindArray:
		return v.list(t, t.length, depth)
	case kindStruct:
		return v.fields(t, depth)
	case kindTuple:
		return v.row(t, len(t.elems), depth)
	case kindEnum:
		return v.variant(t, depth)
	case kindUnit:
		return true, true
	case kindBytes, kindString:
		return v.text(t.kind)
	}
	return v.fixedSize(t)
}

func (v *values) fixedSize(t *typ) (any, bool) {
	b, ok := v.take(t.length)
	if !ok {
		return nil, false
	}
	switch t.kind {
	case kindBool:
		return b[0] == 1, b[0] <= 1
	case kindUint:
		return unsignedInt(b), true
	case kindInt:
		if v.whole {
			return wholeInt(b), true
		}
		return signedInt(b), true
	case kindKey:
		return base58.Encode(b), true
	case kindFloat:
		f := 0.0
		if t.length == 4 {
			f = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		} else {
			f = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
		if v.whole {
			return f, !math.IsNaN(f)
		}
		return nil, !math.IsNaN(f) // programs refuse what is not a number too
	}
	v.unread = true
	return nil, false
}

func unsignedInt(b []byte) any {
	if len(b) <= 8 {
		var wide [8]byte
		copy(wide[:], b)
		return binary.LittleEndian.Uint64(wide[:])
	}
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// signedInt reads a number in two's complement, nil beyond the int of policies, which has 128 bits.
func signedInt(b []byte) any {
	n := wholeInt(b)
	wide, ok := n.(*big.Int)
	if !ok {
		return n
	}
	one := big.NewInt(1)
	if limit := one.Lsh(big.NewInt(1), 127); wide.Cmp(limit) >= 0 || wide.CmpAbs(limit) > 0 {
		return nil
	}
	return wide
}

// wholeInt reads a number in two's complement, of any size: an int64 or a *big.Int.
func wholeInt(b []byte) any {
	n, bits := unsignedInt(b), uint(8*len(b))
	if u, small := n.(uint64); small {
		return int64(u<<(64-bits)) >> (64 - bits)
	}
	wide, one := n.(*big.Int), big.NewInt(1)
	if wide.Bit(int(bits)-1) == 1 {
		wide.Sub(wide, one.Lsh(one, bits))
	}
	return wide
}

func (v *values) text(k kind) (any, bool) {
	n, ok := v.length()
	if !ok {
		return nil, false
	}
	b, ok := v.take(n)
	if k == kindBytes {
		if v.whole {
			return b, ok
		}
		return chain.Hex(hex.EncodeToString(b)), ok
	}
	return string(b), ok && utf8.Valid(b)
}

func (v *values) option(t *typ, depth int) (any, bool) {
	tag, ok := v.take(1)
	switch {
	case !ok || tag[0] > 1:
		return nil, false
	case tag[0] == 0:
		return nil, true
	}
	return v.read(t.elems[0], depth+1)
}

// cOption is an option whose tag has 32 bits and whose value is there in either
// case, zeros if it is none.
func (v *values) cOption(t *typ, depth int) (any, bool) {
	tag, ok := v.length()
	switch {
	case !ok || tag > 1:
		return nil, false
	case tag == 1:
		return v.read(t.elems[0], depth+1)
	}
	b, ok := v.take(t.elems[0].length)
	return nil, ok && isZero(b)
}

func (v *values) list(t *typ, n, depth int) (any, bool) {
	if n > *v.budget {
		return nil, false
	}
	return v.row(t, n, depth)
}

// row takes n values, of the one type of a list or the types of a tuple.
func (v *values) row(t *typ, n, depth int) (any, bool) {
	out := make([]any, 0, min(n, firstCapacity))
	for i := range n {
		of := t.elems[0]
		if t.kind == kindTuple {
			of = t.elems[i]
		}
		one, ok := v.read(of, depth+1)
		if !ok {
			return nil, false
		}
		out = append(out, one)
	}
	return out, true
}

func (v *values) fields(t *typ, depth int) (any, bool) {
	out := make(chain.Map, min(len(t.elems), firstCapacity))
	for i, of := range t.elems {
		one, ok := v.read(of, depth+1)
		if !ok {
			return nil, false
		}
		out[t.names[i]] = one
	}
	return out, true
}

func (v *values) variant(t *typ, depth int) (any, bool) {
	tag, ok := v.take(1)
	if !ok || int(tag[0]) >= len(t.elems) {
		return nil, false
	}
	one, ok := v.read(t.elems[tag[0]], depth+1)
	return chain.Map{t.names[tag[0]]: one}, ok
}
