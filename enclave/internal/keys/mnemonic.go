package keys

import (
	"crypto/sha256"
	"errors"
	"io"

	"github.com/tyler-smith/go-bip39/wordlists"

	"cloister/enclave/internal/fault"
)

// rounds and salt of BIP-39.
const (
	seedRounds = 2048
	seedSalt   = "mnemonic"
	seedSize   = 64
)

// mnemonicSize is room for 24 words of at most 8 letters and the spaces between.
const mnemonicSize = 24*9 - 1

// GenerateMnemonic draws the entropy of a new wallet of 12, 15, 18, 21 or 24
// words: 16, 20, 24, 28 or 32 bytes, which are what is stored. The error for
// another number is a *fault.Error, InvalidArgument.
func GenerateMnemonic(rand io.Reader, words int) (Secret, error) {
	switch words {
	case 12, 15, 18, 21, 24:
		return NewSecret(rand, words/3*4)
	}
	return Secret{}, fault.New(fault.InvalidArgument, "invalid mnemonic length")
}

// appendMnemonic writes the English words of the entropy, separated by single
// spaces. b should have room for mnemonicSize more bytes, so that nothing is
// copied. It runs inside do.
func appendMnemonic(b, entropy []byte) []byte {
	var bits [33]byte
	n := copy(bits[:], entropy)
	sum := sha256.Sum256(entropy)
	bits[n] = sum[0] // the checksum is 4 to 8 bits
	for i := range len(entropy) / 4 * 3 {
		at := i * 11
		word := uint32(bits[at/8])<<16 | uint32(bits[at/8+1])<<8
		if at/8+2 < len(bits) {
			word |= uint32(bits[at/8+2])
		}
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, wordlists.English[word>>(13-at%8)&2047]...)
	}
	clear(bits[:])
	return b
}

// A Wallet is the seed of a BIP-39 wallet, from which account keys are derived.
// It is safe for concurrent use. Opening costs 2,048 rounds of PBKDF2, about a
// millisecond: keep the derived keys in a Cache.
type Wallet struct {
	_    [0]func()
	seed Secret
}

var errEntropy = errors.New("no entropy of a wallet")

// OpenWallet computes the seed of entropy (16, 20, 24, 28 or 32 bytes) and a
// passphrase, the zero Secret for none. The passphrase is at most MaxPassphrase
// bytes of UTF-8 in normal form NFKD; whoever takes one from outside
// normalizes it. Neither secret is kept or wiped.
func OpenWallet(entropy, passphrase Secret) (*Wallet, error) {
	seed, c, err := newCell(seedSize)
	if err != nil {
		return nil, err
	}
	ok := false
	entropy.Use(func(e []byte) {
		if len(e) < 16 || len(e) > 32 || len(e)%4 != 0 {
			return
		}
		passphrase.Use(func(p []byte) {
			if len(p) > MaxPassphrase {
				return
			}
			var words [mnemonicSize]byte
			var salt [len(seedSalt) + MaxPassphrase]byte
			copy(salt[:], seedSalt)
			copy(salt[len(seedSalt):], p)
			stretch(c.b, appendMnemonic(words[:0], e), salt[:len(seedSalt)+len(p)], seedRounds)
			clear(words[:])
			clear(salt[:])
			ok = true
		})
	})
	if !ok {
		return nil, errEntropy
	}
	return &Wallet{seed: seed}, nil
}

// Wipe overwrites the seed; the wallet derives nothing from then on.
func (w *Wallet) Wipe() { w.seed.Wipe() }
