package sol

import (
	"bytes"
	"crypto/ed25519"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// RequiredSigner is who must sign a transaction.
type RequiredSigner struct {
	Address  string
	Signed   bool // the slot is not all zeros; what is in it is unchecked
	Writable bool
}

// Signers lists who must sign a wire transaction, in the order of the slots; the
// first pays the fee. The errors are those of Read.
func Signers(tx []byte) ([]RequiredSigner, error) {
	w, err := parse(tx)
	if err != nil {
		return nil, err
	}
	out := make([]RequiredSigner, w.signers)
	for i := range out {
		out[i] = RequiredSigner{w.keys[i].String(), w.filled(i), w.writes(i)}
	}
	return out, nil
}

// A Transfer is what an instruction of the System program moves, in lamports. An account that a table on the chain
// holds is not known.
type Transfer struct {
	From, To string
	Amount   uint64
}

// Transfers are a transaction's own transfers, not those that programs make. The errors are those of Read.
func Transfers(tx []byte) (all []Transfer, err error) {
	w, err := parse(tx)
	if err != nil {
		return nil, err
	}
	for i := range w.instructions {
		in := &w.instructions[i]
		if w.keys[in.program] != systemProgram {
			continue
		}
		from, to, amount, moves := moveOf(in)
		if !moves {
			continue
		}
		name := func(i int) string {
			if a := int(in.accounts[i]); a < len(w.keys) {
				return w.keys[a].String()
			}
			return lookedUp
		}
		all = append(all, Transfer{name(from), name(to), amount})
	}
	return all, nil
}

// Signature is the name of a signed transaction on its network: its first signature, in
// base58. It refuses a transaction of which a signature is missing or wrong; otherwise the
// errors are those of Read.
func Signature(tx []byte) (string, error) {
	w, err := parse(tx)
	if err != nil {
		return "", err
	}
	for i := range w.signers {
		if !w.filled(i) || !ed25519.Verify(w.keys[i][:], w.bytes, w.signature(i)) {
			return "", chain.Invalid("the signature of %s is missing or wrong", w.keys[i].String())
		}
	}
	return base58.Encode(w.signature(0)), nil
}

// WithBlockhash answers the transaction with another recent blockhash, 32 bytes in base58.
// It refuses a transaction that somebody has signed, as the signature would be void, and
// one that begins with AdvanceNonceAccount, as a durable nonce stands in that place. Other
// errors are those of Read, and of the field `recentBlockhash`.
func WithBlockhash(tx []byte, blockhash string) ([]byte, error) {
	hash, err := ParseAddress(blockhash) // of the same form
	if err != nil {
		return nil, fault.Field("recentBlockhash", "must be 32 bytes in base58")
	}
	w, err := parse(bytes.Clone(tx))
	if err != nil {
		return nil, err
	}
	for i := range w.signers {
		if w.filled(i) {
			return nil, chain.Invalid("%s has signed it with another recent blockhash", w.keys[i].String())
		}
	}
	if w.isDurable() {
		return nil, chain.Invalid("a durable nonce stands in the place of its recent blockhash")
	}
	copy(w.blockhash, hash[:])
	return w.raw, nil
}

// isDurable tells whether a durable nonce stands in the place of the recent blockhash.
func (w *wire) isDurable() bool {
	if len(w.instructions) == 0 {
		return false
	}
	in := &w.instructions[0]
	return w.keys[in.program] == systemProgram && systemNumber(in) == systemAdvanceNonce
}

// IsDurable tells whether a wire transaction may stay valid for any time, as one with a durable nonce does. Of what cannot be read
// that is so too.
func IsDurable(tx []byte) bool {
	w, err := parse(tx)
	return err != nil || w.isDurable()
}

// signature is what is in slot i.
func (w *wire) signature(i int) []byte {
	return w.raw[w.slots+i*signatureSize:][:signatureSize]
}

func (w *wire) filled(i int) bool { return !isZero(w.signature(i)) }

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// Blockhash is the recent blockhash of a wire transaction, all zeros where who made it
// left that to others. The errors are those of Read.
func Blockhash(tx []byte) (hash [32]byte, err error) {
	w, err := parse(tx)
	if err != nil {
		return hash, err
	}
	return [32]byte(w.blockhash), nil
}

// BlockhashText is a blockhash as WithBlockhash takes it.
func BlockhashText(hash [32]byte) string { return base58.Encode(hash[:]) }
