package spark

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
)

// A SecretShare is one operator's share of a number, with what it is verified with: a point for each coefficient.
type SecretShare struct {
	Share  []byte
	Proofs [][]byte
}

// An Entry is a member of a map: something of an operator.
type Entry struct {
	Operator string
	Value    []byte
}

// A LeafTweak is what one operator learns of a leaf that changes hands: a share of the difference of its keys. The
// receiver has Shares of all operators times the base point; the rest is of the sender.
type LeafTweak struct {
	ID     string
	Share  SecretShare
	Shares []Entry

	Cipher, Signature []byte
	Refunds           [3][]byte // of the refund, the direct refund and the direct refund from the CPFP one
}

// AppendLeafTweaks encodes the message of all leaves for one operator: SendLeafKeyTweaks or, without the members of
// the sender, ClaimLeafKeyTweaks.
func AppendLeafTweaks(dst []byte, leaves []LeafTweak) []byte {
	for i := range leaves {
		l := &leaves[i]
		m := appendField(nil, 1, []byte(l.ID))
		m = appendField(m, 2, AppendSecretShare(nil, &l.Share))
		for _, e := range l.Shares {
			m = appendField(m, 3, appendField(appendField(nil, 1, []byte(e.Operator)), 2, e.Value))
		}
		m = appendField(m, 4, l.Cipher)
		m = appendField(m, 5, l.Signature)
		for n, r := range l.Refunds {
			m = appendField(m, 6+n, r)
		}
		dst = appendField(dst, 1, m)
	}
	return dst
}

// AppendSecretShare encodes a share.
func AppendSecretShare(dst []byte, s *SecretShare) []byte {
	dst = appendField(dst, 1, s.Share)
	for _, p := range s.Proofs {
		dst = appendField(dst, 2, p)
	}
	return dst
}

// appendField encodes a field of bytes as protocol buffers do; an empty one is left out. Numbers are below 16.
func appendField(dst []byte, number int, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, byte(number<<3|2)), uint64(len(value)))
	return append(dst, value...)
}

// LeafHash is what the sender of a leaf signs.
func LeafHash(leafID, transferID string, cipher []byte) [32]byte {
	return sha256.Sum256(slices.Concat([]byte(leafID), []byte(transferID), cipher))
}

// VerifyLeaf tells whether a sender has signed the cipher of a leaf: r and s of ECDSA, of which s is of the low half.
func VerifyLeaf(sender chain.PublicKey, leafID, transferID string, cipher, signature []byte) bool {
	var r, s Scalar
	if len(signature) != 64 || r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:]) || r.IsZero() || s.IsZero() || s.IsOverHalfOrder() {
		return false
	}
	key, err := secp256k1.ParsePubKey(sender.Bytes())
	hash := LeafHash(leafID, transferID, cipher)
	return err == nil && ecdsa.NewSignature(&r, &s).Verify(hash[:], key)
}

// PackageHash is what the sender of a transfer signs of the encrypted packages for its operators.
func PackageHash(transfer [16]byte, packages []Entry) (sum [32]byte) {
	var tag []byte
	for _, part := range []string{"spark", "transfer", "signing payload"} {
		tag = appendValue(tag, []byte(part))
	}
	of := sha256.Sum256(tag)
	b := append(append([]byte(nil), of[:]...), of[:]...)
	b = appendValue(b, transfer[:])
	b = appendValue(b, binary.BigEndian.AppendUint64(nil, uint64(len(packages))))
	packages = slices.Clone(packages)
	slices.SortFunc(packages, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), bytes.Compare(a.Value, b.Value))
	})
	for _, e := range packages {
		b = appendValue(appendValue(b, []byte(e.Operator)), e.Value)
	}
	return sha256.Sum256(b)
}

// VerifyPackages tells whether a sender has signed the packages of a transfer, in DER.
func VerifyPackages(sender chain.PublicKey, transfer [16]byte, packages []Entry, der []byte) bool {
	signature, err := ecdsa.ParseDERSignature(der)
	if err != nil {
		return false
	}
	key, err := secp256k1.ParsePubKey(sender.Bytes())
	hash := PackageHash(transfer, packages)
	return err == nil && signature.Verify(hash[:], key)
}

// appendValue writes a value behind its length.
func appendValue(dst, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(len(value))), value...)
}
