package transfer

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/mr-tron/base58"
	"github.com/tyler-smith/go-bip39"
	"github.com/tyler-smith/go-bip39/wordlists"
)

// A Secret is what somebody typed in: the words of a wallet or a private key.
type Secret struct {
	Mnemonic   string `json:"mnemonic"`
	Passphrase string `json:"passphrase"` // of the mnemonic, if it has one
	PrivateKey string `json:"privateKey"` // hex with or without 0x, or Solana's base58 of 64 bytes
	Curve      string `json:"curve"`      // of the private key, CURVE_…
}

// A problem is what is wrong with a secret, in a sentence that has no part of it.
type problem string

func (p problem) Error() string { return string(p) }

// Limits of what is typed in. That of a passphrase is the enclave's.
const (
	maxTyped      = 4096
	maxPassphrase = 256
	keySize       = 32
)

// Bytes checks a secret and returns it as an import wants it.
func (s *Secret) Bytes() ([]byte, error) {
	switch {
	case len(s.Mnemonic)+len(s.PrivateKey) > maxTyped:
		return nil, problem("This is too long.")
	case (s.Mnemonic == "") == (s.PrivateKey == ""):
		return nil, problem("Enter the words or the private key.")
	case s.PrivateKey != "":
		return parsePrivateKey(strings.TrimSpace(s.PrivateKey), s.Curve)
	}
	words := strings.Fields(strings.ToLower(s.Mnemonic))
	if err := checkMnemonic(words); err != nil {
		return nil, err
	}
	text := strings.Join(words, " ")
	if s.Passphrase == "" {
		return []byte(text), nil
	}
	if len(s.Passphrase) > maxPassphrase || strings.ContainsFunc(s.Passphrase, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, problem(fmt.Sprintf("The passphrase can have at most %d letters, digits and signs of ASCII.", maxPassphrase))
	}
	return []byte(text + "\n" + s.Passphrase), nil
}

// checkMnemonic checks number, words and checksum by BIP-39, with the English list: the enclave takes no other.
func checkMnemonic(words []string) error {
	if n := len(words); n < 12 || n > 24 || n%3 != 0 {
		return problem(fmt.Sprintf("A wallet has 12, 15, 18, 21 or 24 words, not %d.", n))
	}
	for i, word := range words {
		if _, found := slices.BinarySearch(wordlists.English, word); !found {
			return problem(fmt.Sprintf("Word %d is not in the English list of BIP-39. Check its spelling.", i+1))
		}
	}
	if _, err := bip39.EntropyFromMnemonic(strings.Join(words, " ")); err != nil {
		return problem("These words do not belong together: their checksum is wrong. Check that each is there, and their order.")
	}
	return nil
}

func parsePrivateKey(text, curve string) ([]byte, error) {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil && curve == "CURVE_ED25519" {
		b, err = parseSolana(text)
	}
	if p := problem(""); errors.As(err, &p) {
		return nil, p
	}
	if err != nil || len(b) != keySize {
		return nil, problem("A private key is 64 hexadecimal digits, with or without 0x. One of Solana can be base58, as its wallets show it.")
	}
	outside := problem("This is not a private key of the curve: it is zero or too large.")
	switch curve {
	case "CURVE_ED25519":
	case "CURVE_P256":
		if _, err := ecdh.P256().NewPrivateKey(b); err != nil {
			return nil, outside
		}
	case "CURVE_SECP256K1":
		var n secp256k1.ModNScalar
		if tooLarge := n.SetByteSlice(b); tooLarge || n.IsZero() {
			return nil, outside
		}
	default:
		return nil, problem("Choose a curve.")
	}
	return b, nil
}

// parseSolana reads the base58 of a seed and its public key.
func parseSolana(text string) ([]byte, error) {
	b, err := base58.Decode(text)
	if err != nil || len(b) != ed25519.PrivateKeySize {
		return nil, errors.New("not 64 bytes of base58")
	}
	if !bytes.Equal(ed25519.NewKeyFromSeed(b[:keySize]), b) {
		return nil, problem("The two halves of this key do not belong together: it was mistyped.")
	}
	return b[:keySize], nil
}

// A Form is how an exported secret is written.
type Form string

// Forms of an exported secret.
const (
	FormMnemonic Form = "mnemonic"
	FormHex      Form = "hex"
	FormEthereum Form = "ethereum" // hex with 0x
	FormSolana   Form = "solana"   // base58 of seed and public key
)

func (f Form) write(secret []byte) (text, passphrase string, err error) {
	if f == FormMnemonic {
		words, passphrase, _ := strings.Cut(string(secret), "\n")
		if checkMnemonic(strings.Fields(words)) != nil {
			return "", "", errors.New("the export holds something else than the words of a wallet")
		}
		return words, passphrase, nil
	}
	if len(secret) != keySize {
		return "", "", errors.New("the export holds something else than a private key")
	}
	switch f {
	case FormHex:
		return hex.EncodeToString(secret), "", nil
	case FormEthereum:
		return "0x" + hex.EncodeToString(secret), "", nil
	case FormSolana:
		return base58.Encode(ed25519.NewKeyFromSeed(secret)), "", nil
	}
	return "", "", errors.New("unknown form")
}
