package eth

import (
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"

	"cloister/enclave/internal/chain"
)

// object reads a struct: its hash, and what policies see of it. It passes over members that the
// type does not name.
func (r *typedReader) object(s *structType) (hash [32]byte, facts chain.Map, m *misfit) {
	if !r.enter('{') {
		return hash, nil, refusal("must be an object, of type " + s.name)
	}
	if m = r.hashType(s); m != nil {
		return hash, nil, m
	}
	words := make([]byte, wordSize*(1+len(s.members)))
	copy(words, s.hash[:])
	there := make([]bool, len(s.members))
	facts = make(chain.Map, len(s.members))
	for r.hasNext('}') {
		name := r.name()
		i, ok := s.index[string(name)]
		if !ok { // in no hash, so in no fact
			if r.skip(); r.whole && len(r.unsigned) < maxUnsigned {
				r.unsigned = append(r.unsigned, s.name+"."+string(name))
			}
			continue
		}
		word, fact, m := r.value(s.members[i].typ, s.members[i].typ.dimensions)
		if m != nil {
			return hash, nil, m.inField(s.members[i].name)
		}
		there[i] = true
		facts[s.members[i].name] = fact
		copy(words[wordSize*(1+i):], word[:])
	}
	for i, ok := range there {
		if !ok {
			return hash, nil, refusal("is missing, of type " + s.members[i].typ.name).inField(s.members[i].name)
		}
	}
	return chain.Keccak(words), facts, nil
}

// maxUnsigned is how many members in no hash approvers are told of.
const maxUnsigned = 64

// list reads a list: the hash of its elements, and what policies see.
func (r *typedReader) list(t *valueType, dimensions []int) (hash [32]byte, facts []any, m *misfit) {
	if !r.enter('[') {
		return hash, nil, refusal("must be an array, in the type " + t.name)
	}
	var words []byte
	facts = []any{}
	for r.hasNext(']') {
		word, fact, m := r.value(t, dimensions[1:])
		if m != nil {
			return hash, nil, m.inField(strconv.Itoa(len(facts)))
		}
		words = append(words, word[:]...)
		facts = append(facts, fact)
	}
	if want := dimensions[0]; want >= 0 && len(facts) != want {
		return hash, nil, refusal("must have " + strconv.Itoa(want) + " elements, not " + strconv.Itoa(len(facts)))
	}
	return chain.Keccak(words), facts, nil
}

// value reads a value: the 32 bytes that stand for it, and what policies see.
// dimensions are those of the type that have not been stepped into.
func (r *typedReader) value(t *valueType, dimensions []int) (word [32]byte, fact any, m *misfit) {
	r.values++
	if len(dimensions) > 0 {
		return anyFact(r.list(t, dimensions))
	}
	switch t.kind {
	case kindStruct:
		return anyFact(r.object(t.of))
	case kindBool:
		switch r.peek() {
		case 't':
			word[31] = 1
			fallthrough
		case 'f':
			r.readLiteral()
			return word, word[31] == 1, nil
		}
		return word, nil, refusal("must be true or false")
	case kindUint, kindInt:
		n := r.number()
		if n == nil || !isInRange(n, t.size, t.kind == kindInt) {
			return word, nil, refusal("must be a whole number in the range of " + t.name)
		}
		return wordOf(n), r.fact(n, t.kind == kindInt), nil
	}
	text, ok := r.string()
	if !ok {
		return word, nil, refusal("must be a string, of type " + t.name)
	}
	if t.kind == kindString {
		return chain.Keccak(text), string(text), nil
	}
	b, ok := hexBytes(text)
	switch {
	case !ok:
		return word, nil, refusal("must be hexadecimal with 0x, of type " + t.name)
	case t.kind == kindBytes:
		return chain.Keccak(b), r.data(b), nil
	case len(b) != t.size:
		return word, nil, refusal("must be " + strconv.Itoa(t.size) + " bytes, of type " + t.name)
	case t.kind == kindAddress:
		copy(word[12:], b)
	default:
		copy(word[:], b)
	}
	return word, r.data(b), nil
}

func anyFact[T any](word [32]byte, fact T, m *misfit) ([32]byte, any, *misfit) {
	return word, fact, m
}

// wordOf writes a number that fits 256 bits, the negative ones in two's complement.
func wordOf(n *big.Int) (word [32]byte) {
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, twoTo256)
	}
	n.FillBytes(word[:])
	return word
}

// hexBytes reads 0x and pairs of digits in any case.
func hexBytes(text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '0' || text[1] != 'x' {
		return nil, false
	}
	b := make([]byte, hex.DecodedLen(len(text)-2))
	_, err := hex.Decode(b, text[2:])
	return b, err == nil
}

// The digits that a number below 2^256 can take to write.
const (
	maxDecimals = 78
	maxHexits   = 64
)

// number takes a whole number of any size up to 256 bits: a JSON number without
// fraction and exponent, or a string that holds one, or 0x and hexadecimal digits,
// the latter with leading zeros if need be. It answers nil for what is none.
func (c *cursor) number() *big.Int {
	text, quoted := c.string()
	if !quoted {
		text = c.readLiteral()
	}
	digits, hexits := strings.CutPrefix(string(text), "0x")
	base := 10
	switch {
	case quoted && hexits:
		if base = 16; len(digits) > maxHexits || !isHex(digits) {
			return nil
		}
	case len(digits) > 1+maxDecimals || !isDecimal(digits):
		return nil
	}
	n, _ := new(big.Int).SetString(digits, base) // nil for no digits at all
	return n
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// isDecimal takes whole numbers as one writes them: no sign but a minus before what
// is not zero, no leading zeros.
func isDecimal(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == "" && (digits[0] != '0' || s == "0")
}
