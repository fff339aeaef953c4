package keys

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"io"

	"github.com/tyler-smith/go-bip39/wordlists"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
)

// stretch fills out by PBKDF2-HMAC-SHA512 (RFC 8018). It runs inside erase.Do, which erases
// the library's copies of the password once they are freed.
func stretch(out, password, salt []byte, rounds int) error {
	b, err := pbkdf2.Key(sha512.New, string(password), salt, rounds, len(out))
	copy(out, b)
	clear(b)
	return err
}

// Rounds and salt of BIP-39.
const (
	seedRounds = 2048
	seedSalt   = "mnemonic"
	seedSize   = 64
)

// mnemonicSize is the longest mnemonic in bytes: 24 words of 8 letters and the spaces between.
const mnemonicSize = 24*9 - 1

// isLength reports whether a mnemonic can have this number of words.
func isLength(words int) bool { return words >= 12 && words <= 24 && words%3 == 0 }

// GenerateMnemonic generates the entropy of a new wallet of 12, 15, 18, 21 or 24
// words: 16, 20, 24, 28 or 32 bytes, in the form in which it is stored. The error
// for another number is a *fault.Error, InvalidArgument.
func GenerateMnemonic(rand io.Reader, words int) (secret.Secret, error) {
	if !isLength(words) {
		return secret.Secret{}, fault.New(fault.InvalidArgument, "invalid mnemonic length")
	}
	return secret.New(rand, words/3*4)
}

// appendMnemonic appends the English words of the entropy, separated by single spaces. b should
// have capacity for mnemonicSize more bytes, so that no secret is copied. It runs inside erase.Do.
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

// longestWord is the length of the longest English word: a word fits into a uint64.
const longestWord = 8

// packed are the English words, each packed into a uint64.
var packed = func() (ws [2048]uint64) {
	for i, w := range wordlists.English {
		ws[i] = packWord([]byte(w))
	}
	return ws
}()

func packWord(w []byte) (n uint64) {
	for _, c := range w {
		n = n<<8 | uint64(c)
	}
	return n
}

// wordIndex looks up a packed word, in constant time.
func wordIndex(w uint64) (index uint32, ok bool) {
	var found uint32
	for i := range packed {
		x := packed[i] ^ w
		same := uint32(^(x|-x)>>63) & 1 // 1 when x is 0
		index |= -same & uint32(i)
		found |= same
	}
	return index, found == 1
}

// parseMnemonic parses English words in lower case with one space between two,
// into n bytes of entropy. It runs inside erase.Do.
func parseMnemonic(entropy *[33]byte, text []byte) (n int, ok bool) {
	words := 0
	for len(text) > 0 {
		size := bytes.IndexByte(text, ' ')
		switch {
		case size < 0:
			size = len(text)
		case size == len(text)-1:
			return 0, false // trailing space
		}
		if size == 0 || size > longestWord || text[0] == 0 || words == 24 { // a leading zero byte would be lost in packing
			return 0, false
		}
		index, known := wordIndex(packWord(text[:size]))
		if !known {
			return 0, false
		}
		for i := range 11 {
			bit := words*11 + i
			entropy[bit/8] |= byte(index>>(10-i)&1) << (7 - bit%8)
		}
		words++
		text = text[min(size+1, len(text)):]
	}
	if !isLength(words) {
		return 0, false
	}
	n = words / 3 * 4
	sum := sha256.Sum256(entropy[:n])
	return n, sum[0]>>(8-words/3) == entropy[n]>>(8-words/3)
}

// A Wallet is the seed of a BIP-39 wallet, from which account keys are derived.
// It is safe for concurrent use. Opening one costs 2,048 rounds of PBKDF2, about
// a millisecond: put the derived keys into a Cache.
type Wallet struct {
	_ [0]func()
	identity
	seed secret.Secret
}

var errEntropy = errors.New("no entropy of a wallet")

// useWallet calls f with a wallet's entropy (16, 20, 24, 28 or 32 bytes) and passphrase (at
// most MaxPassphrase bytes), and refuses others.
func useWallet(entropy, passphrase secret.Secret, f func(e, p []byte) error) error {
	err := errEntropy
	entropy.Use(func(e []byte) {
		passphrase.Use(func(p []byte) {
			if isLength(len(e)/4*3) && len(e)%4 == 0 && len(p) <= MaxPassphrase {
				err = f(e, p)
			}
		})
	})
	return err
}

// openWallet computes the seed from entropy and a passphrase, the zero Secret for none. The
// passphrase must be UTF-8 in normal form NFKD: a caller that gets it from outside must
// normalize it. Neither secret is kept or wiped.
func openWallet(entropy, passphrase secret.Secret) (*Wallet, error) {
	seed, err := secret.Make(seedSize, func(seed []byte) error {
		return useWallet(entropy, passphrase, func(e, p []byte) error {
			var words [mnemonicSize]byte
			var salt [len(seedSalt) + MaxPassphrase]byte
			copy(salt[:], seedSalt)
			copy(salt[len(seedSalt):], p)
			err := stretch(seed, appendMnemonic(words[:0], e), salt[:len(seedSalt)+len(p)], seedRounds)
			clear(words[:])
			clear(salt[:])
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return &Wallet{seed: seed}, nil
}

// Wipe overwrites the seed; Derive fails from then on.
func (w *Wallet) Wipe() { w.seed.Wipe() }
