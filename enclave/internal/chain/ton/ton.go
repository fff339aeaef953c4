// Package ton makes TON addresses: those of the published wallet contracts V3R2,
// V4R2 and V5R1, in workchain 0, with the wallet id that wallets use by default.
//
// On TON an account is the hash of a contract's first state, its code and its
// data, so the address needs the hash of the code and not the code. A cell is
// hashed as TON's paper on the virtual machine has it (3.1): two bytes that
// describe it, its data, the depths of the cells that it refers to, and their
// hashes.
package ton

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// nonBounceable is the tag of an address on mainnet to which a transfer is not
// sent back while no contract is there, as with a new wallet.
const nonBounceable = 0x51

// A wallet is a contract: the hash and the depth of its code, its default id, and
// what its data has besides the count of messages, the id and the key.
type wallet struct {
	code    [32]byte
	depth   uint16
	id      uint32
	plugins bool // after them, a dictionary, empty at first
	allowed bool // before them, whether the key may sign
}

// The id of V5R1 is of the network -239, mainnet, and of the first wallet in
// workchain 0, whose context is 80000000: the one xor the other.
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

// Chain is TON. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_TON_V3R2, _V4R2 and _V5R1.
func (Chain) Formats() []chain.Format {
	return []chain.Format{chain.TonV3R2, chain.TonV4R2, chain.TonV5R1}
}

// Address is the form that wallets show for an account that has not been used:
// 48 characters of URL-safe base64, for mainnet and not bounceable.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	var w *wallet
	switch f {
	case chain.TonV3R2:
		w = &walletV3R2
	case chain.TonV4R2:
		w = &walletV4R2
	case chain.TonV5R1:
		w = &walletV5R1
	default:
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	account := w.account(p.Bytes())
	const workchain = 0
	b := append([]byte{nonBounceable, workchain}, account[:]...)
	b = binary.BigEndian.AppendUint16(b, crc16(b))
	return base64.URLEncoding.EncodeToString(b), nil // 36 bytes need no padding
}

// account is the hash of the first state of the contract of a key: a cell of five
// flags for what there is of depth, special kind, code, data and libraries, which
// refers to code and data.
func (w *wallet) account(key []byte) [32]byte {
	data := sha256.Sum256(w.data(key))
	const references, size, flags = 2, 1, 0b00110_100 // 1 and zeros fill the byte
	state := binary.BigEndian.AppendUint16([]byte{references, size, flags}, w.depth)
	state = append(state, 0, 0) // the depth of the data
	state = append(state, w.code[:]...)
	return sha256.Sum256(append(state, data[:]...))
}

// data is the cell that a contract begins with, as it is hashed.
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

// crc16 is the checksum CRC-16/XMODEM.
func crc16(b []byte) (sum uint16) {
	for _, c := range b {
		sum ^= uint16(c) << 8
		for range 8 {
			sum = sum<<1 ^ sum>>15*0x1021
		}
	}
	return sum
}
