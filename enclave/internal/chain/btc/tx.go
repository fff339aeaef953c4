package btc

import (
	"bytes"
	"crypto/sha256"
	"hash"

	"cloister/enclave/internal/chain"
)

const (
	outpointSize = 36
	inputSize    = outpointSize + 1 + 4 // with an empty script
	outputSize   = 8 + 1                // with an empty script, the least
)

// An unsigned transaction in the form without witnesses and with empty scripts.
type unsigned struct {
	raw      []byte
	version  uint32
	inputs   int // where the first input begins
	outputs  int // where the first output begins
	in       []txIn
	out      []txOut
	locktime uint32
}

type txIn struct {
	outpoint []byte // the transaction's id as it is hashed, and the output's index
	sequence uint32
}

type txOut struct {
	value  int64 // as it is in the transaction, so perhaps negative
	script []byte
}

// nowhere is the outpoint of a coinbase.
var nowhere = append(make([]byte, 32), 0xff, 0xff, 0xff, 0xff)

// parse reads b, which it keeps, and refuses what no node would take.
func (t *unsigned) parse(b []byte) error {
	if len(b) > maxUnsigned {
		return chain.Unsupported("of %d bytes: nodes relay no more than %d", len(b), maxUnsigned)
	}
	c := &cursor{input: b}
	t.raw, t.version = b, c.uint32()
	t.in = make([]txIn, c.count(inputSize))
	t.inputs = c.at
	for i := range t.in {
		t.in[i].outpoint = c.take(outpointSize)
		if c.byte() != 0 && !c.bad {
			return chain.Invalid("input %d of the unsigned transaction has a scriptSig", i)
		}
		t.in[i].sequence = c.uint32()
	}
	n := c.count(outputSize)
	t.outputs = c.at
	t.out = make([]txOut, n)
	for i := range t.out {
		t.out[i] = c.output()
	}
	t.locktime = c.uint32()
	switch {
	case !c.end():
		return chain.Invalid("the unsigned transaction is malformed: it ends too early, goes on after its end, or has witnesses")
	case t.version < 1 || t.version > 3:
		return chain.Unsupported("of version %d: nodes relay versions 1 to 3", t.version)
	case len(t.in) == 0 || len(t.out) == 0:
		return chain.Invalid("it needs an input and an output")
	}
	return t.checkInputs()
}

// checkInputs refuses an output that is spent twice, and a coinbase.
func (t *unsigned) checkInputs() error {
	seen := make(map[[outpointSize]byte]bool, len(t.in))
	for i, in := range t.in {
		o := [outpointSize]byte(in.outpoint)
		switch {
		case bytes.Equal(in.outpoint, nowhere):
			return chain.Invalid("input %d spends nothing", i)
		case seen[o]:
			return chain.Invalid("input %d spends what another input spends", i)
		}
		seen[o] = true
	}
	return nil
}

func (c *cursor) output() txOut {
	v := int64(c.number(8))
	return txOut{v, c.bytes()}
}

// A utxo is an output that an input spends.
type utxo = txOut

func parseUTXO(b []byte) (utxo, bool) {
	c := &cursor{input: b}
	o := c.output()
	return o, c.end()
}

// previous reads a transaction with or without witnesses, and answers its id as it
// is hashed and the output with an index. It is refused without that output.
func previous(b []byte, index uint32) (id [32]byte, o utxo, ok bool) {
	c := &cursor{input: b}
	h := sha256.New()
	c.hashInto(h, func() { c.uint32() })
	witnesses := len(b) > 6 && b[4] == 0
	if witnesses {
		c.take(2)
		if b[5] != 1 {
			return id, o, false
		}
	}
	n := 0
	c.hashInto(h, func() {
		n = c.count(inputSize)
		for range n {
			c.take(outpointSize)
			c.bytes()
			c.uint32()
		}
		for i := range c.count(outputSize) {
			if out := c.output(); uint32(i) == index {
				o, ok = out, true
			}
		}
	})
	if witnesses {
		some := false
		for range n {
			items := c.count(1)
			some = some || items > 0
			for range items {
				c.bytes()
			}
		}
		c.bad = c.bad || !some
	}
	c.hashInto(h, func() { c.uint32() })
	h.Sum(id[:0])
	return sha256.Sum256(id[:]), o, ok && n > 0 && c.end()
}

// hashInto writes what read reads into h.
func (c *cursor) hashInto(h hash.Hash, read func()) {
	at := c.at
	read()
	h.Write(c.input[at:c.at])
}
