package eth

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
	"cloister/enclave/internal/fault"
)

// Signed is what can be told of a signed transaction.
type Signed struct {
	Hash           [32]byte        // names it on its network
	From           [20]byte        // the address whose key has signed
	ChainID, Nonce uint64          // ChainID is 0 before EIP-155, when any chain may take it
	Unsigned       []byte          // what has been signed, as Chain.Read takes it
	Key            chain.PublicKey // has signed it
	To, Data       []byte          // To is empty where a contract is created
}

// AddressText is an account's address with the checksum of EIP-55.
func AddressText(account [20]byte) string { return chain.ChecksumAddress(account[:]) }

// ReadSigned reads a signed transaction, as strictly as Chain.Read an unsigned one, and
// recovers who has signed it. The s of the signature must be in the lower half, as all
// networks ask. The errors are *fault.Error with the field `signedTransaction`.
func ReadSigned(b []byte) (*Signed, error) {
	var f fields
	l, err := f.open(b)
	if err != nil {
		return nil, errSignedField(err)
	}
	body := f.read(l)
	if !l.More() && l.Err() == nil {
		return nil, errSignedField(chain.Invalid("it has not been signed"))
	}
	v := l.Uint64("v")
	r, s := l.Number("r", 32), l.Number("s", 32)
	l.End("the transaction")
	bare := f.kind == typeLegacy && v < 35
	if bare {
		v -= 27
	} else if f.kind == typeLegacy {
		f.chainID, v = (v-35)/2, (v-35)%2
	}
	if v > 1 {
		l.Fail("v", "is none of this type of transaction")
	}
	if !bare {
		f.checkChain(l)
	}
	if err := l.Err(); err != nil {
		return nil, errSignedField(chain.Invalid("%v", err))
	}
	out := &Signed{Hash: chain.Keccak(b), ChainID: f.chainID, Nonce: f.nonce, Unsigned: f.unsignedBody(body), To: f.to, Data: f.data}
	if out.Key, err = recoverKey(chain.Keccak(out.Unsigned), byte(v), r, s); err != nil {
		return nil, errSignedField(chain.Invalid("%v", err))
	}
	out.From = out.Key.KeccakAccount()
	return out, nil
}

// unsignedBody puts together what has been signed.
func (f *fields) unsignedBody(body []byte) []byte {
	var tail []byte
	if f.kind == typeLegacy && f.chainID > 0 {
		tail = rlp.AppendUint(rlp.AppendUint(rlp.AppendUint(nil, f.chainID), 0), 0)
	}
	return f.envelope(body, tail)
}

var errSignature = errors.New("the signature is not one that networks take")

func recoverKey(digest [32]byte, parity byte, r, s []byte) (chain.PublicKey, error) {
	var half secp256k1.ModNScalar
	if half.SetByteSlice(s) || half.IsOverHalfOrder() {
		return chain.PublicKey{}, errSignature
	}
	var compact [65]byte
	compact[0] = 27 + parity
	copy(compact[33-len(r):33], r)
	copy(compact[65-len(s):], s)
	key, _, err := ecdsa.RecoverCompact(compact[:], digest[:])
	if err != nil {
		return chain.PublicKey{}, errSignature
	}
	return chain.NewPublicKey(chain.Secp256k1, key.SerializeUncompressed())
}

// errSignedField names the field of a request that holds signed transactions.
func errSignedField(err error) error {
	f := *fault.Of(err)
	f.Violations = []fault.Violation{{Field: "signedTransaction", Description: f.Message}}
	return &f
}

var errAddress = errors.New("must be an Ethereum address: 0x and 40 hexadecimal digits, in one case or with the checksum of EIP-55")

// ParseAddress reads an address: 0x and 40 hexadecimal digits, all letters of one
// case or with the right checksum of EIP-55. The error says what is expected, for
// the caller to put with the name of the field.
func ParseAddress(text string) (account [20]byte, err error) {
	if len(text) != 42 || text[:2] != "0x" {
		return account, errAddress
	}
	if _, err := hex.Decode(account[:], []byte(text[2:])); err != nil {
		return [20]byte{}, errAddress
	}
	lower, upper := strings.ContainsAny(text[2:], "abcdef"), strings.ContainsAny(text, "ABCDEF")
	if lower && upper && chain.ChecksumAddress(account[:]) != text {
		return [20]byte{}, errAddress
	}
	return account, nil
}
