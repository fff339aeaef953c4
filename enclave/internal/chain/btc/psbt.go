package btc

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
)

const magic = "psbt\xff"

// The types of keys that Read looks at.
const (
	globalUnsigned = 0x00
	globalVersion  = 0xfb

	inPrevious      = 0x00
	inUTXO          = 0x01
	inPartialSig    = 0x02
	inSighash       = 0x03
	inRedeem        = 0x04
	inWitness       = 0x05
	inFinalScript   = 0x07
	inFinalWitness  = 0x08
	inTapKeySig     = 0x13
	inTapScriptSig  = 0x14
	inTapLeaf       = 0x15
	inTapDerivation = 0x16
	inTapInternal   = 0x17
	inTapRoot       = 0x18
)

// A field says how key and value of a type look. Both functions are nil for a type that
// version 0 does not have. Nothing follows such a type; a key in which something does is
// another that we do not know.
type field struct {
	name       string
	key, value func([]byte) bool // key is what follows the type
}

var (
	globalFields = map[uint64]field{
		globalUnsigned: {"the unsigned transaction", size(0), anything},
		0x01:           {"an xpub", size(78), path},
		0x02:           {name: "the transaction's version"},
		0x03:           {name: "the fallback locktime"},
		0x04:           {name: "the number of inputs"},
		0x05:           {name: "the number of outputs"},
		0x06:           {name: "what may be modified"},
		globalVersion:  {"the version", size(0), size(4)},
	}
	inputFields = map[uint64]field{
		inPrevious:      {"non_witness_utxo", size(0), anything},
		inUTXO:          {"witness_utxo", size(0), anything},
		inPartialSig:    {"partial_sig", publicKey, signatureECDSA},
		inSighash:       {"the sighash type", size(0), size(4)},
		inRedeem:        {"redeem_script", size(0), anything},
		inWitness:       {"witness_script", size(0), anything},
		0x06:            {"bip32_derivation", publicKey, path},
		inFinalScript:   {"final_scriptsig", size(0), anything},
		inFinalWitness:  {"final_scriptwitness", size(0), stack},
		0x09:            {"a proof of reserves", size(0), anything},
		0x0a:            {"a preimage of RIPEMD-160", size(20), anything},
		0x0b:            {"a preimage of SHA-256", size(32), anything},
		0x0c:            {"a preimage of HASH160", size(20), anything},
		0x0d:            {"a preimage of HASH256", size(32), anything},
		0x0e:            {name: "the previous transaction's id"},
		0x0f:            {name: "the output's index"},
		0x10:            {name: "the sequence"},
		0x11:            {name: "a required time"},
		0x12:            {name: "a required height"},
		inTapKeySig:     {"tap_key_sig", size(0), signatureBIP340},
		inTapScriptSig:  {"tap_script_sig", xOnlyAndLeaf, signatureBIP340},
		inTapLeaf:       {"tap_leaf_script", controlBlock, notEmpty},
		inTapDerivation: {"tap_bip32_derivation", xOnly, leavesAndPath},
		inTapInternal:   {"tap_internal_key", size(0), xOnly},
		inTapRoot:       {"tap_merkle_root", size(0), size(32)},
	}
	outputFields = map[uint64]field{
		0x00: {"redeem_script", size(0), anything},
		0x01: {"witness_script", size(0), anything},
		0x02: {"bip32_derivation", publicKey, path},
		0x03: {name: "the amount"},
		0x04: {name: "the script"},
		0x05: {"tap_internal_key", size(0), xOnly},
		0x06: {"tap_tree", size(0), tree},
		0x07: {"tap_bip32_derivation", xOnly, leavesAndPath},
	}
)

// A psbt is one taken apart. Slices share its bytes.
type psbt struct {
	raw  []byte
	tx   unsigned
	in   []input
	outs int // where the maps of the outputs begin
}

// An input is what the PSBT tells of an input. Members are nil where it is silent.
type input struct {
	from, to int    // where the input's map lies, without the zero that ends it
	has      uint32 // bit t is set if there is a key of type t
	previous []byte // non_witness_utxo
	utxo     []byte // witness_utxo
	sighash  uint32 // with bit inSighash
	redeem   []byte
	witness  []byte // witness_script
	internal []byte // tap_internal_key
}

func (in *input) hasAny(types ...int) bool {
	for _, t := range types {
		if in.has>>t&1 != 0 {
			return true
		}
	}
	return false
}

// parse takes a PSBT apart. It keeps b. Keys that it does not know pass.
func parse(b []byte) (*psbt, error) {
	switch {
	case len(b) > maxPSBT:
		return nil, chain.Invalid("a PSBT of more than %d bytes", maxPSBT)
	case !bytes.HasPrefix(b, []byte(magic)):
		return nil, chain.Invalid("no PSBT: it must begin with 70736274ff")
	}
	p := &psbt{raw: b}
	c := &cursor{input: b, at: len(magic)}
	if err := p.global(c); err != nil {
		return nil, err
	}
	var m pairs
	p.in = make([]input, len(p.tx.in))
	for i := range p.in {
		in := &p.in[i]
		in.from = c.at
		err := m.read(c, inputFields, func(t uint64, value []byte) {
			if t < 32 {
				in.has |= 1 << t
			}
			switch t {
			case inPrevious:
				in.previous = value
			case inUTXO:
				in.utxo = value
			case inSighash:
				in.sighash = binary.LittleEndian.Uint32(value)
			case inRedeem:
				in.redeem = value
			case inWitness:
				in.witness = value
			case inTapInternal:
				in.internal = value
			}
		})
		if err != "" {
			return nil, chain.Invalid("input %d: %s", i, err)
		}
		in.to = c.at - 1
	}
	p.outs = c.at
	for i := range p.tx.out {
		if err := m.read(c, outputFields, func(uint64, []byte) {}); err != "" {
			return nil, chain.Invalid("output %d: %s", i, err)
		}
	}
	if !c.end() {
		return nil, chain.Invalid("%d bytes follow the PSBT", c.remaining())
	}
	return p, nil
}

// global reads the first map. The unsigned transaction comes first in it, as the
// order of keys would have it and every writer has it.
func (p *psbt) global(c *cursor) error {
	var m pairs
	var raw []byte
	n, version := 0, uint32(0)
	first := uint64(1)
	err := m.read(c, globalFields, func(t uint64, value []byte) {
		switch t {
		case globalUnsigned:
			raw = value
		case globalVersion:
			version = binary.LittleEndian.Uint32(value)
		}
		if n == 0 {
			first = t
		}
		n++
	})
	switch {
	case version != 0:
		return chain.Unsupported("PSBT of version %d: make one of version 0", version)
	case err != "":
		return chain.Invalid("global map: %s", err)
	case first != globalUnsigned:
		return chain.Invalid("the PSBT does not begin with its unsigned transaction")
	}
	return p.tx.parse(raw)
}

type pairs struct{ keys [][]byte }

// read reads one map with its end, calls each for every pair, and tells what is wrong. It
// goes on after a type that version 0 does not have, so that callers see which version it
// is.
func (m *pairs) read(c *cursor, fields map[uint64]field, each func(t uint64, value []byte)) (wrong string) {
	m.keys = m.keys[:0]
	sorted := true
	for {
		key := c.bytes()
		switch {
		case c.bad:
			return "it ends too early, or a length is not in its shortest form"
		case len(key) == 0:
			if !sorted && !m.hasUniqueKeys() {
				return "a key is there twice"
			}
			return wrong
		case len(key) > maxKey:
			return "a key is too long"
		case len(m.keys) == maxPairs:
			return "it has too many keys"
		}
		k := &cursor{input: key}
		t := k.compact()
		value := c.bytes()
		if c.bad || k.bad {
			return "it ends too early, or a length is not in its shortest form"
		}
		if f, ok := fields[t]; ok {
			switch {
			case f.key == nil && len(key) > 1:
			case f.key == nil:
				wrong = f.name + " belongs to PSBT of version 2: make one of version 0"
			case !f.key(key[1:]) || !f.value(value):
				return f.name + " is malformed"
			}
		}
		if n := len(m.keys); n > 0 && sorted {
			switch bytes.Compare(m.keys[n-1], key) {
			case 0:
				return "a key is there twice"
			case 1:
				sorted = false
			}
		}
		m.keys = append(m.keys, key)
		each(t, value)
	}
}

// hasUniqueKeys tells whether no two keys are equal; it loses their order.
func (m *pairs) hasUniqueKeys() bool {
	slices.SortFunc(m.keys, bytes.Compare)
	return len(slices.CompactFunc(m.keys, bytes.Equal)) == len(m.keys)
}

// findPair finds where in a map a key belongs: the place of its pair if there is one, else an
// empty place before the first greater key.
func findPair(raw []byte, from, to int, key []byte) (start, end int) {
	start, end = to, to
	found := false
	for c := (&cursor{input: raw[:to], at: from}); c.at < to; {
		at := c.at
		k := c.bytes()
		c.bytes()
		switch order := bytes.Compare(k, key); {
		case order == 0:
			return at, c.at
		case order > 0 && !found:
			start, end, found = at, at, true
		}
	}
	return start, end
}

// What keys and values look like.

func anything([]byte) bool { return true }

func notEmpty(b []byte) bool { return len(b) > 0 }

func size(n int) func([]byte) bool {
	return func(b []byte) bool { return len(b) == n }
}

// path is a fingerprint and the steps of a derivation.
func path(b []byte) bool { return len(b) >= 4 && len(b)%4 == 0 }

func publicKey(b []byte) bool {
	if !(len(b) == 33 || len(b) == 65 && b[0] == 4) {
		return false
	}
	_, err := secp256k1.ParsePubKey(b)
	return err == nil
}

func xOnly(b []byte) bool { return len(b) == 32 && publicKey(append([]byte{2}, b...)) }

func xOnlyAndLeaf(b []byte) bool { return len(b) == 64 && xOnly(b[:32]) }

// signatureECDSA is DER and a byte for the sighash type.
func signatureECDSA(b []byte) bool {
	if len(b) < 9 {
		return false
	}
	_, err := ecdsa.ParseDERSignature(b[:len(b)-1])
	return err == nil
}

// signatureBIP340 is 64 bytes, and a sighash type unless that is SIGHASH_DEFAULT.
func signatureBIP340(b []byte) bool {
	if len(b) != 64 && !(len(b) == 65 && b[64]&^0x80 >= 1 && b[64]&^0x80 <= 3) {
		return false
	}
	var r secp256k1.FieldVal
	var s secp256k1.ModNScalar
	return !r.SetByteSlice(b[:32]) && !s.SetByteSlice(b[32:64])
}

func controlBlock(b []byte) bool {
	return len(b) >= 33 && len(b) <= 33+32*128 && len(b)%32 == 1 && xOnly(b[1:33])
}

// stack is the serialized stack of a witness.
func stack(b []byte) bool {
	c := &cursor{input: b}
	for range c.count(1) {
		c.bytes()
	}
	return c.end()
}

func leavesAndPath(b []byte) bool {
	c := &cursor{input: b}
	c.take(32 * c.count(32))
	return !c.bad && path(b[c.at:])
}

// tree is a list of depth, version and script of the leaves.
func tree(b []byte) bool {
	c := &cursor{input: b}
	for c.remaining() > 0 && !c.bad {
		if c.byte() > 128 {
			return false
		}
		c.byte()
		c.bytes()
	}
	return len(b) > 0 && c.end()
}
