package chain

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/mr-tron/base58"
	"golang.org/x/crypto/ripemd160" //lint:ignore SA1019 the networks' addresses are defined with it
	"golang.org/x/crypto/sha3"
)

// Keccak is Keccak-256 of the parts in a row.
func Keccak(parts ...[]byte) (sum [32]byte) {
	h := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		h.Write(part)
	}
	h.Sum(sum[:0])
	return sum
}

// Hash160 is RIPEMD-160 of SHA-256.
func Hash160(b []byte) (sum [20]byte) {
	inner := sha256.Sum256(b)
	h := ripemd160.New()
	h.Write(inner[:])
	h.Sum(sum[:0])
	return sum
}

// SHA256d is SHA-256 of SHA-256.
func SHA256d(b []byte) [32]byte {
	sum := sha256.Sum256(b)
	return sha256.Sum256(sum[:])
}

// TaggedHash is the tagged hash of BIP-340.
func TaggedHash(tag string, message []byte) (sum [32]byte) {
	t := sha256.Sum256([]byte(tag))
	h := sha256.New()
	h.Write(t[:])
	h.Write(t[:])
	h.Write(message)
	h.Sum(sum[:0])
	return sum
}

// Base58Check is a version byte, a hash and four bytes of their SHA256d, in base58 with
// Bitcoin's alphabet.
func Base58Check(version byte, hash [20]byte) string {
	b := append(append(make([]byte, 0, 25), version), hash[:]...)
	sum := SHA256d(b)
	return base58.Encode(append(b, sum[:4]...))
}

// ChecksumAddress writes an account of 20 bytes with 0x and the checksum of EIP-55: a letter is a capital when the
// digit at its place in the hash of the lower-case text is 8 or more.
func ChecksumAddress(account []byte) string {
	var text [42]byte
	copy(text[:], "0x")
	digits := text[2:]
	hex.Encode(digits, account)
	sum := Keccak(digits)
	for i, c := range digits {
		nibble := sum[i/2] >> (4 * (1 - i%2)) & 15
		if c >= 'a' && nibble >= 8 {
			digits[i] = c - ('a' - 'A')
		}
	}
	return string(text[:])
}
