package addressonly

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"

	"cloister/enclave/internal/chain"
)

// A wallet is one of the published wallet contracts of TON. An account is the hash of a
// contract's first state, of which the address needs the hash of the code and the data.
// TON's paper on the virtual machine tells how a cell is hashed (3.1): two bytes that
// describe it, its data, the depths of the cells that it refers to, and their hashes.
type wallet struct {
	code    [32]byte // the hash of the code
	depth   uint16   // of the code
	id      uint32   // that wallets use by default
	plugins bool     // the data end with a dictionary, empty at first
	allowed bool     // the data begin with whether the key may sign
}

// The id of V5R1 is that of the network -239, mainnet, xor 80000000, the context of
// the first wallet in workchain 0.
var (
	walletV3R2 = wallet{code: unhex("84dafa449f98a6987789ba232358072bc0f76dc4524002a5d0918b9a75d2d599"), depth: 0, id: 698983191}
	walletV4R2 = wallet{code: unhex("feb5ff6820e2ff0d9483e7e0d62c817d846789fb4ae580c878866d959dabd5c0"), depth: 7, id: 698983191, plugins: true}
	walletV5R1 = wallet{code: unhex("20834b7b72b112147e1b2fb457b84e74d1a30f04f737d4f62a668e9552d2b72f"), depth: 6, id: 0x7fffff11, plugins: true, allowed: true}
)

func unhex(text string) (hash [32]byte) {
	if n, err := hex.Decode(hash[:], []byte(text)); err != nil || n != len(hash) {
		panic("ton: a constant is no hash")
	}
	return hash
}

// address is the form that wallets show for an account that has not been used: for
// mainnet and workchain 0, and not bounceable, so that a transfer stays there while no
// contract does.
func (w *wallet) address(p chain.PublicKey) (string, error) {
	const nonBounceable, workchain = 0x51, 0
	account := w.account(p.Bytes())
	b := append([]byte{nonBounceable, workchain}, account[:]...)
	b = binary.BigEndian.AppendUint16(b, crc16(b))
	return base64.URLEncoding.EncodeToString(b), nil // 36 bytes need no padding
}

// account is the hash of the first state of a key's contract: a cell that refers to
// code and data. Its five flags tell which there are of depth, special kind, code, data
// and libraries.
func (w *wallet) account(key []byte) [32]byte {
	data := sha256.Sum256(w.data(key))
	const references, size, flags = 2, 1, 0b00110_100 // 1 and zeros fill the byte
	state := binary.BigEndian.AppendUint16([]byte{references, size, flags}, w.depth)
	state = append(state, 0, 0) // the depth of the data
	state = append(state, w.code[:]...)
	return sha256.Sum256(append(state, data[:]...))
}

// data is the cell of a contract's first data, as it is hashed: a count of messages,
// the id and the key, and around them what the contract has besides.
func (w *wallet) data(key []byte) []byte {
	const descriptors = 2
	b := make([]byte, descriptors+4, descriptors+4+4+32+1)
	b = binary.BigEndian.AppendUint32(b, w.id)
	b = append(b, key...)
	if w.plugins {
		b = append(b, 0b0_1000000) // none; 1 and zeros fill the byte
	}
	d := b[descriptors:]
	b[1] = 2 * byte(len(d)) // bytes begun and bytes full; no references
	if w.plugins {
		b[1]--
	}
	if w.allowed {
		before := byte(1)
		for i, c := range d {
			d[i], before = before<<7|c>>1, c&1
		}
	}
	return b
}
