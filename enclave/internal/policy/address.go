package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"math/bits"
	"strings"
)

// badAddress tells what is wrong with text that looks like an address whose
// spelling carries a checksum. Other text is left alone.
func badAddress(s string) string {
	switch {
	case len(s) == 42 && strings.HasPrefix(s, "0x") && s != strings.ToLower(s):
		if _, err := hex.DecodeString(s[2:]); err == nil && s[2:] != strings.ToUpper(s[2:]) && s != checksumAddress(s) {
			return "The capitals of this Ethereum address do not fit its checksum. Check whether it is mistyped."
		}
	case len(s) == 34 && s[0] == 'T' && !base58Check(s):
		return "This looks like a Tron address with a wrong checksum. Check whether it is mistyped."
	case strings.HasPrefix(s, "bc1") && len(s) >= 14 && len(s) <= 90 && !bech32(s):
		return "This looks like a Bitcoin address with a wrong checksum. Check whether it is mistyped."
	}
	return ""
}

// checksumAddress spells an Ethereum address with the capitals of EIP-55.
func checksumAddress(s string) string {
	b := []byte(strings.ToLower(s))
	hash := keccak256(b[2:])
	for i, c := range b[2:] {
		if nibble := hash[i/2] >> (4 * (1 - i%2)) & 15; c >= 'a' && nibble >= 8 {
			b[2+i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// keccak256 is the hash that Ethereum uses, of less than a block.
func keccak256(in []byte) [32]byte {
	const rate = 136
	var block [rate]byte
	copy(block[:rate-1], in)
	block[min(len(in), rate-1)] ^= 1
	block[rate-1] ^= 0x80
	var a [25]uint64
	for i := range rate / 8 {
		a[i] = binary.LittleEndian.Uint64(block[8*i:])
	}
	constant := uint8(1) // the register that gives the constants of the rounds
	for range 24 {
		var c [5]uint64
		for x := range 5 {
			c[x] = a[x] ^ a[x+5] ^ a[x+10] ^ a[x+15] ^ a[x+20]
		}
		for i := range a {
			a[i] ^= c[(i+4)%5] ^ bits.RotateLeft64(c[(i+1)%5], 1)
		}
		x, y, last := 1, 0, a[1]
		for t := range 24 {
			x, y = y, (2*x+3*y)%5
			last, a[5*y+x] = a[5*y+x], bits.RotateLeft64(last, (t+1)*(t+2)/2)
		}
		for y := 0; y < 25; y += 5 {
			row := [5]uint64(a[y : y+5])
			for x := range 5 {
				a[y+x] = row[x] ^ ^row[(x+1)%5]&row[(x+2)%5]
			}
		}
		for j := range 7 {
			if constant&1 == 1 {
				a[0] ^= 1 << (1<<j - 1)
			}
			high := constant >> 7
			constant = constant<<1 ^ high*0x71
		}
	}
	var out [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(out[8*i:], a[i])
	}
	return out
}

// base58Check tells whether text is 21 bytes and their checksum.
func base58Check(s string) bool {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	n := new(big.Int)
	for i := range len(s) {
		d := strings.IndexByte(alphabet, s[i])
		if d < 0 {
			return false
		}
		n.Add(n.Mul(n, big.NewInt(58)), big.NewInt(int64(d)))
	}
	if n.BitLen() > 25*8 {
		return false
	}
	b := n.FillBytes(make([]byte, 25))
	once := sha256.Sum256(b[:21])
	twice := sha256.Sum256(once[:])
	return bytes.Equal(twice[:4], b[21:])
}

// bech32 tells whether a Bitcoin address has the checksum of BIP 173 or 350.
func bech32(s string) bool {
	const alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	if s != strings.ToLower(s) {
		return false
	}
	sum := uint32(1)
	step := func(v uint32) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ v
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, v := range [5]uint32{'b' >> 5, 'c' >> 5, 0, 'b' & 31, 'c' & 31} {
		step(v)
	}
	for i := 3; i < len(s); i++ {
		d := strings.IndexByte(alphabet, s[i])
		if d < 0 {
			return false
		}
		step(uint32(d))
	}
	return sum == 1 || sum == 0x2bc830a3
}
