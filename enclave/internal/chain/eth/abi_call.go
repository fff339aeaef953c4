package eth

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"strings"

	"cloister/enclave/internal/chain"
)

// call reads the data of a call, 4 bytes or more: the selector, and the arguments as
// the ABI lays them out. name is empty if no function has the selector, and args nil
// if the data are not its arguments: a contract may find a meaning in them all the
// same.
//
// args holds the inputs that have a name: addresses and bytes of any kind as chain.Hex
// with 0x, numbers as int64 or *big.Int, tuples, lists and arrays as []any. A number
// beyond the int of policies, and a fixed-point number, is nil: there, but not to be
// read.
//
// It refuses what contracts refuse: data that end too early, offsets and lengths that
// lead outside, a bool that is neither 0 nor 1, an address, number or bytesN with
// anything in the bytes that it does not use. It passes over what contracts pass over:
// bytes after the arguments, between them, and in the padding of bytes and strings, and
// offsets in an unusual order. Were that refused, the same call written in another way
// would dodge a policy that denies it. Offsets may lead to the same place twice, as
// contracts allow, but the words that are read are not to be more than the data has, but
// for fewWords.
func (i *Interface) call(data []byte) (name string, args chain.Map) {
	selector := [4]byte(data)
	f := i.functions[selector]
	if f == nil {
		return "", nil
	}
	d := newDecoder(data[len(selector):])
	values, ok := d.sequence(f.inputs, len(f.inputs.parts), 0)
	if !ok {
		return f.name, nil
	}
	args = make(chain.Map, len(values))
	for n, v := range values {
		if f.names[n] != "" {
			args[f.names[n]] = v
		}
	}
	return f.name, args
}

// Bounds on the values of one call, which are several times as large in memory as the words they are read from. Arguments as
// encoders write them have each word once: of a number, an offset, a length or a piece of bytes. Only tuples and arrays in
// place have no word of their own, and each word stands in a few of them that hold nothing else.
const (
	fewWords      = 1024 // that may be read, and made into values, beyond those that the data has
	valuesPerWord = 4
)

type decoder struct {
	data   []byte // behind the selector; offsets of the outermost tuple count from its start
	words  int    // that may still be read
	values int    // that may still be made
	whole  bool   // values as approvers see them: see decodeWhole
	masked bool   // with whole: bytes of a word that its type does not use are passed over
}

func newDecoder(data []byte) decoder {
	words := len(data) / wordSize
	return decoder{data: data, words: words + fewWords, values: valuesPerWord*words + fewWords}
}

// spend counts n words.
func (d *decoder) spend(n int) bool {
	d.words -= n
	return d.words >= 0
}

func (d *decoder) wordAt(at uint64) ([]byte, bool) {
	if at+wordSize > uint64(len(d.data)) || !d.spend(1) {
		return nil, false
	}
	return d.data[at : at+wordSize], true
}

// length reads an offset or a length. One that is beyond the data is of no use.
func (d *decoder) length(at uint64) (uint64, bool) {
	w, ok := d.wordAt(at)
	if !ok || !isZero(w[:24]) {
		return 0, false
	}
	n := binary.BigEndian.Uint64(w[24:])
	return n, n <= uint64(len(d.data))
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

func (d *decoder) value(t *abiType, at uint64) (any, bool) {
	if d.values--; d.values < 0 {
		return nil, false
	}
	switch t.kind {
	case kindTuple:
		return d.sequence(t, len(t.parts), at)
	case kindArray:
		return d.sequence(t, t.count, at)
	case kindList:
		n, ok := d.length(at)
		if !ok {
			return nil, false
		}
		return d.sequence(t, int(n), at+wordSize)
	case kindBytes, kindString:
		n, ok := d.length(at)
		at += wordSize
		if !ok || at+n > uint64(len(d.data)) || !d.spend(int(n)/wordSize) {
			return nil, false
		}
		switch {
		case d.whole:
			return d.data[at : at+n], true
		case t.kind == kindBytes:
			return chain.ZeroX(d.data[at : at+n]), true
		}
		// Policies read text. What is none differs from every text that they name.
		return strings.ToValidUTF8(string(d.data[at:at+n]), "\ufffd"), true
	}
	w, ok := d.wordAt(at)
	if !ok {
		return nil, false
	}
	switch {
	case d.masked:
		return t.readMasked(w)
	case d.whole:
		return t.readWhole(w)
	}
	return t.read(w)
}

// sequence reads n values in a row, of the one type of a list or array or the types
// of a tuple. Offsets count from where the row begins.
func (d *decoder) sequence(t *abiType, n int, at uint64) ([]any, bool) {
	if n > d.values || t.elem != nil && uint64(n)*t.elem.head > uint64(len(d.data)) {
		return nil, false
	}
	out := make([]any, n)
	head, elem := at, t.elem
	for i := range out {
		if t.kind == kindTuple {
			elem = t.parts[i]
		}
		place, ok := head, true
		if elem.dynamic {
			place, ok = d.length(head)
			place += at
		}
		if !ok {
			return nil, false
		}
		if out[i], ok = d.value(elem, place); !ok {
			return nil, false
		}
		head += elem.head
	}
	return out, true
}

func (t *abiType) read(w []byte) (any, bool) {
	switch t.kind {
	case kindBool:
		return w[31] == 1, isZero(w[:31]) && w[31] <= 1
	case kindAddress:
		return chain.ZeroX(w[12:]), isZero(w[:12])
	case kindFixed:
		return chain.ZeroX(w[:t.size]), isZero(w[t.size:])
	case kindDecimal:
		_, ok := integer(w, t.size, t.signed)
		return nil, ok
	}
	signed := t.kind == kindInt
	n, ok := integer(w, t.size, signed)
	if !ok {
		return nil, false
	}
	return numberFact(n, signed), true
}

func integer(w []byte, bits int, signed bool) (*big.Int, bool) {
	n := new(big.Int).SetBytes(w)
	if signed && w[0] >= 0x80 {
		n.Sub(n, twoTo256)
	}
	return n, isInRange(n, bits, signed)
}

var twoTo256 = new(big.Int).Lsh(big.NewInt(1), 256)
