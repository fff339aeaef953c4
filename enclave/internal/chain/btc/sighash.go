package btc

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"cloister/enclave/internal/chain"
)

const (
	sighashDefault = 0
	sighashAll     = 1
)

var allTail = []byte{sighashAll, 0, 0, 0}

// A legacy computes the digests of P2PKH inputs with SIGHASH_ALL, in the order of
// the inputs. Each is the hash of the whole transaction with the script of its
// input in place; what comes before that is the same for all and hashed once.
type legacy struct {
	tx    *unsigned
	until hash.Cloner // the hash of tx.raw[:at]
	at    int
}

func newLegacy(tx *unsigned) *legacy { return &legacy{tx: tx, until: sha256.New().(hash.Cloner)} }

// digest is for input i, which spends an output with a script of at most 252 bytes;
// i grows from call to call.
func (l *legacy) digest(i int, script []byte) (out [32]byte) {
	empty := l.tx.inputs + i*inputSize + outpointSize // where the input's empty script lies
	l.until.Write(l.tx.raw[l.at:empty])
	l.at = empty
	h, _ := l.until.Clone() // SHA-256 always clones
	h.Write(appendBytes(nil, script))
	h.Write(l.tx.raw[empty+1:])
	h.Write(allTail)
	h.Sum(out[:0])
	return sha256.Sum256(out[:])
}

// A segregated computes digests of witness inputs from hashes over all inputs and
// outputs that are made once.
type segregated struct {
	tx    *unsigned
	spent []utxo
	// SHA-256 of all outpoints, amounts spent, scripts spent, sequences, outputs.
	outpoints, amounts, scripts, sequences, outputs [32]byte
}

func newSegregated(tx *unsigned, spent []utxo) *segregated {
	s := &segregated{tx: tx, spent: spent}
	var parts [4][]byte
	for i := range parts {
		parts[i] = make([]byte, 0, outpointSize*len(tx.in))
	}
	for i, in := range tx.in {
		parts[0] = append(parts[0], in.outpoint...)
		parts[1] = binary.LittleEndian.AppendUint64(parts[1], uint64(spent[i].value))
		parts[2] = appendScript(parts[2], spent[i].script)
		parts[3] = binary.LittleEndian.AppendUint32(parts[3], in.sequence)
	}
	s.outpoints, s.amounts = sha256.Sum256(parts[0]), sha256.Sum256(parts[1])
	s.scripts, s.sequences = sha256.Sum256(parts[2]), sha256.Sum256(parts[3])
	s.outputs = sha256.Sum256(tx.raw[tx.outputs : len(tx.raw)-4])
	return s
}

// ecdsa is the digest of BIP-143 with SIGHASH_ALL for input i; code is the script
// under which it is signed.
func (s *segregated) ecdsa(i int, code []byte) [32]byte {
	m := make([]byte, 0, 256)
	m = binary.LittleEndian.AppendUint32(m, s.tx.version)
	m = appendHash(m, s.outpoints)
	m = appendHash(m, s.sequences)
	m = append(m, s.tx.in[i].outpoint...)
	m = appendScript(m, code)
	m = binary.LittleEndian.AppendUint64(m, uint64(s.spent[i].value))
	m = binary.LittleEndian.AppendUint32(m, s.tx.in[i].sequence)
	m = appendHash(m, s.outputs)
	m = binary.LittleEndian.AppendUint32(m, s.tx.locktime)
	return chain.SHA256d(append(m, allTail...))
}

// taproot is the digest of BIP-341 with SIGHASH_DEFAULT for input i, by its key path
// and without an annex.
func (s *segregated) taproot(i int) [32]byte {
	m := make([]byte, 0, 256)
	m = append(m, 0, sighashDefault)
	m = binary.LittleEndian.AppendUint32(m, s.tx.version)
	m = binary.LittleEndian.AppendUint32(m, s.tx.locktime)
	for _, h := range [...]*[32]byte{&s.outpoints, &s.amounts, &s.scripts, &s.sequences, &s.outputs} {
		m = append(m, h[:]...)
	}
	m = append(m, 0)
	m = binary.LittleEndian.AppendUint32(m, uint32(i))
	return chain.TaggedHash("TapSighash", m)
}

// appendHash writes the hash of a hash, as BIP-143 has it where BIP-341 has one.
func appendHash(dst []byte, h [32]byte) []byte {
	again := sha256.Sum256(h[:])
	return append(dst, again[:]...)
}

// appendScript writes length and bytes of a script of any size.
func appendScript(dst, script []byte) []byte {
	switch n := len(script); {
	case n < 0xfd:
		dst = append(dst, byte(n))
	case n < 1<<16:
		dst = binary.LittleEndian.AppendUint16(append(dst, 0xfd), uint16(n))
	default:
		dst = binary.LittleEndian.AppendUint32(append(dst, 0xfe), uint32(n))
	}
	return append(dst, script...)
}
