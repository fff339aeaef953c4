// Package spark is Spark's protocol, as far as the public part of its users' signing goes: where their keys lie, what
// a FROST share of theirs is made and verified with, and how the packages for the operators are encoded and hashed.
// It sees no private key: package keys makes the shares.
//
// The ciphersuite is FROST-secp256k1-SHA256-TR-v1: RFC 9591 over secp256k1 with the hashing of BIP-340, for the output
// key of BIP-341. The user stands in a group of their own beside the operators, so that their Lagrange coefficient is 1.
// Points and numbers are the library's.
package spark

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// An Account is the place of a wallet's Spark account: m/8797555'/n'.
type Account string

const (
	accountPrefix = "m/8797555'/"
	identity      = "/0'"
)

// ParseAccount reads the path of an account's identity key, m/8797555'/n'/0'.
func ParseAccount(path string) (Account, bool) {
	rest, ok := strings.CutPrefix(path, accountPrefix)
	if !ok {
		return "", false
	}
	number, ok := strings.CutSuffix(rest, "'"+identity)
	if n, err := strconv.ParseUint(number, 10, 31); !ok || err != nil || strconv.FormatUint(n, 10) != number {
		return "", false
	}
	return Account(strings.TrimSuffix(path, identity)), true
}

// Identity is the path of the key that Spark knows the account by.
func (a Account) Identity() string { return string(a) + identity }

// Leaf is the path of the key of a leaf, which is found by the text of the leaf's id.
func (a Account) Leaf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return a.below(1, binary.BigEndian.Uint32(sum[:])&^hardened)
}

// Deposit is the path of the key of deposits.
func (a Account) Deposit() string { return string(a) + "/2'" }

// StaticDeposit is the path of the key of a deposit address that stays. The index is below 2^31.
func (a Account) StaticDeposit(index uint32) string { return a.below(3, index) }

func (a Account) below(branch, step uint32) string {
	return string(a) + "/" + strconv.FormatUint(uint64(branch), 10) + "'/" + strconv.FormatUint(uint64(step), 10) + "'"
}

// hardened is the bit of a step that BIP-32 keeps for itself.
const hardened = 1 << 31
