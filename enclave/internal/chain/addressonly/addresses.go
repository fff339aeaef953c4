// Package addressonly makes addresses on networks whose transactions Cloister does not
// read, and the two that belong to no network: the key in lower-case hex without 0x.
package addressonly

import (
	"crypto/sha3"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/mr-tron/base58"
	"golang.org/x/crypto/blake2b"

	"cloister/enclave/internal/chain"
)

// Addresses are those of all these networks.
var Addresses = chain.Addresses{
	chain.Uncompressed: func(p chain.PublicKey) (string, error) { return hex.EncodeToString(p.Bytes()), nil },
	chain.Compressed:   func(p chain.PublicKey) (string, error) { return hex.EncodeToString(p.Compressed()), nil },
	chain.Cosmos:       func(p chain.PublicKey) (string, error) { return cosmos("cosmos", p) },
	chain.Sei:          func(p chain.PublicKey) (string, error) { return cosmos("sei", p) },
	chain.Sui:          sui,
	chain.Aptos:        aptos,
	chain.Xlm:          stellar,
	chain.Xrp:          xrp,
	chain.TonV3R2:      walletV3R2.address,
	chain.TonV4R2:      walletV4R2.address,
	chain.TonV5R1:      walletV5R1.address,
	chain.SparkMainnet: func(p chain.PublicKey) (string, error) { return spark("spark", p) },
	chain.SparkRegtest: func(p chain.PublicKey) (string, error) { return spark("sparkrt", p) },
}

// cosmos is RIPEMD-160 of SHA-256 of the compressed key in Bech32 (BIP-173).
func cosmos(prefix string, p chain.PublicKey) (string, error) {
	hash := chain.Hash160(p.Compressed())
	return bech32.EncodeFromBase256(prefix, hash[:])
}

// sui is BLAKE2b-256 of the signature scheme's flag, 0 for ed25519, and the key.
func sui(p chain.PublicKey) (string, error) {
	sum := blake2b.Sum256(append([]byte{0}, p.Bytes()...))
	return "0x" + hex.EncodeToString(sum[:]), nil
}

// aptos is SHA3-256 of the key and the scheme's number, 0 for a single ed25519 key.
func aptos(p chain.PublicKey) (string, error) {
	sum := sha3.Sum256(append(p.Bytes(), 0))
	return "0x" + hex.EncodeToString(sum[:]), nil
}

// stellar is the key as a StrKey of SEP-23. The version byte of an ed25519 key makes
// the text begin with G.
func stellar(p chain.PublicKey) (string, error) {
	const version = 6 << 3
	b := append([]byte{version}, p.Bytes()...)
	b = binary.LittleEndian.AppendUint16(b, crc16(b))
	return base32.StdEncoding.EncodeToString(b), nil // 35 bytes need no padding
}

var xrpAlphabet = base58.NewAlphabet("rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz")

// xrp is a classic address of the XRP Ledger: base58check of Hash160 with version 0, in the
// ledger's own alphabet.
func xrp(p chain.PublicKey) (string, error) {
	hash := chain.Hash160(p.Compressed())
	b := append([]byte{0}, hash[:]...)
	sum := chain.SHA256d(b)
	return base58.EncodeAlphabet(append(b, sum[:4]...), xrpAlphabet), nil
}

// spark is a protocol buffer with the compressed identity key in field 1, in Bech32m
// (BIP-350). The encoding is that of Spark's public software.
func spark(prefix string, p chain.PublicKey) (string, error) {
	key := p.Compressed()
	field := append([]byte{1<<3 | 2, byte(len(key))}, key...) // field 1, length-delimited
	words, err := bech32.ConvertBits(field, 8, 5, true)
	if err != nil {
		return "", err
	}
	return bech32.EncodeM(prefix, words)
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
