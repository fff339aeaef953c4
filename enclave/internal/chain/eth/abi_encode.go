package eth

import (
	"bytes"
	"encoding/binary"
	"math/big"
)

// decodeWhole reads the arguments of a call for approvers: nothing is lost that policies have no form for. Bytes of any kind,
// texts and addresses are []byte, numbers *big.Int, whatever their size, booleans bool; tuples, lists and arrays []any.
func decodeWhole(t *abiType, data []byte) ([]any, bool) {
	d := newDecoder(data)
	d.whole = true
	return d.sequence(t, len(t.parts), 0)
}

// decodeMasked reads arguments as contracts do that check nothing: those that older compilers made look only at the bytes of a
// word that its type uses, and read zeros where the data end. That holds for words in place: offsets and lengths that lead outside
// stay errors.
func decodeMasked(t *abiType, data []byte) ([]any, bool) {
	if missing := int(t.head) - len(data); !t.dynamic && missing > 0 {
		data = append(bytes.Clone(data), make([]byte, missing)...)
	}
	d := newDecoder(data)
	d.whole, d.masked = true, true
	return d.sequence(t, len(t.parts), 0)
}

func (t *abiType) readMasked(w []byte) (any, bool) {
	switch t.kind {
	case kindAddress:
		return w[12:], true
	case kindFixed:
		return w[:t.size], true
	case kindBool:
		return !isZero(w), true
	case kindUint:
		return new(big.Int).SetBytes(w[wordSize-t.size/8:]), true
	}
	return t.readWhole(w) // no standard function has another
}

func (t *abiType) readWhole(w []byte) (any, bool) {
	switch t.kind {
	case kindAddress:
		return w[12:], isZero(w[:12])
	case kindFixed:
		return w[:t.size], isZero(w[t.size:])
	case kindDecimal:
		return integer(w, t.size, t.signed)
	case kindBool:
		return t.read(w)
	}
	return integer(w, t.size, t.kind == kindInt)
}

// appendSequence writes values of decodeWhole as encoders do: what has no size of its own in place, the rest behind, in order
// and without gaps. Bytes that differ from it were written by hand.
func (t *abiType) appendSequence(b []byte, values []any) []byte {
	start := len(b)
	at := func(i int) *abiType {
		if t.elem != nil {
			return t.elem
		}
		return t.parts[i]
	}
	head := 0
	for i := range values {
		head += int(at(i).head)
	}
	b = append(b, make([]byte, head)...)
	place := start
	for i, value := range values {
		elem := at(i)
		if elem.dynamic {
			binary.BigEndian.PutUint64(b[place+24:], uint64(len(b)-start))
			b = elem.appendValue(b, value)
		} else {
			elem.appendValue(b[:place], value)
		}
		place += int(elem.head)
	}
	return b
}

func (t *abiType) appendValue(b []byte, value any) []byte {
	switch value := value.(type) {
	case []any:
		if t.kind == kindList {
			b = append(b, numberWord(uint64(len(value)))...)
		}
		return t.appendSequence(b, value)
	case *big.Int:
		w := wordOf(value)
		return append(b, w[:]...)
	case bool:
		var w [wordSize]byte
		if value {
			w[31] = 1
		}
		return append(b, w[:]...)
	case []byte:
		switch t.kind {
		case kindBytes, kindString:
			return appendPadded(b, value)
		case kindAddress:
			return append(b, padWord(value)...)
		}
		return append(append(b, value...), make([]byte, wordSize-len(value))...)
	}
	return b
}
