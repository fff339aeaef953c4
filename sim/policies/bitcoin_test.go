package policies_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// proven gives a PSBT of the book the proof of its amounts that a signer asks for: each input spends an output of a
// transaction that comes with it, made here, since those that the book names do not exist. ids tells which id stands in the
// place of which. What is no PSBT, and one that spends taproot alone, stays as it is.
func proven(psbt string) (out string, ids map[string]string) {
	b, err := hex.DecodeString(psbt)
	if err != nil || !bytes.HasPrefix(b, []byte("psbt\xff\x01\x00")) {
		return psbt, nil
	}
	r := reader{rest: b[5:]}
	global := r.pairs()
	if !r.fine || len(global) == 0 {
		return psbt, nil
	}
	unsigned := bytes.Clone(global[0][1])
	taproot := true
	inputs := make([][][2][]byte, unsigned[4])
	for i := range inputs {
		inputs[i] = r.pairs()
		if !r.fine || len(inputs[i]) == 0 || !bytes.Equal(inputs[i][0][0], []byte{1}) {
			return psbt, nil
		}
		taproot = taproot && bytes.HasPrefix(inputs[i][0][1][9:], []byte{0x51, 32})
	}
	if taproot {
		return psbt, nil
	}
	ids = map[string]string{}
	var maps []byte
	for i, pairs := range inputs {
		outpoint := unsigned[5+41*i:] // the scripts of the inputs are empty
		funding := append([]byte{2, 0, 0, 0, 1}, outpoint[:32]...)
		funding = append(funding, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
		vout := outpoint[32]
		funding = append(funding, vout+1)
		for range vout {
			funding = append(funding, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x6a)
		}
		funding = slices.Concat(funding, pairs[0][1], make([]byte, 4))
		once := sha256.Sum256(funding)
		id := sha256.Sum256(once[:])
		ids[shown(outpoint[:32])] = shown(id[:])
		copy(outpoint, id[:])
		maps = appendPairs(maps, slices.Insert(pairs, 0, [2][]byte{{0}, funding}))
	}
	global[0][1] = unsigned
	return hex.EncodeToString(slices.Concat([]byte("psbt\xff"), appendPairs(nil, global), maps, r.rest)), ids
}

// shown is a transaction's id as it is shown, in the other order.
func shown(id []byte) string {
	id = bytes.Clone(id)
	slices.Reverse(id)
	return hex.EncodeToString(id)
}

// A reader takes the maps of a PSBT apart.
type reader struct {
	rest []byte
	fine bool
}

// pairs reads a map's keys and values.
func (r *reader) pairs() (out [][2][]byte) {
	r.fine = true
	for r.fine {
		key := r.bytes()
		if len(key) == 0 {
			return out
		}
		out = append(out, [2][]byte{key, r.bytes()})
	}
	return out
}

func (r *reader) bytes() []byte {
	if len(r.rest) == 0 || r.rest[0] > 0xfd || r.rest[0] == 0xfd && len(r.rest) < 3 {
		r.fine = false
		return nil
	}
	n, head := int(r.rest[0]), 1
	if n == 0xfd {
		n, head = int(binary.LittleEndian.Uint16(r.rest[1:])), 3
	}
	if len(r.rest) < head+n {
		r.fine = false
		return nil
	}
	b := r.rest[head : head+n]
	r.rest = r.rest[head+n:]
	return b
}

func appendPairs(dst []byte, pairs [][2][]byte) []byte {
	for _, p := range pairs {
		for _, b := range p {
			if len(b) < 0xfd {
				dst = append(dst, byte(len(b)))
			} else {
				dst = binary.LittleEndian.AppendUint16(append(dst, 0xfd), uint16(len(b)))
			}
			dst = append(dst, b...)
		}
	}
	return append(dst, 0)
}
