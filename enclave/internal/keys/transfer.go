package keys

import (
	"bytes"
	"fmt"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// ExportMnemonic spends the Grant and returns the English words of a stored wallet's entropy,
// separated by single spaces, then a line feed and the passphrase if there is one. sealed is as
// for OpenWallet. The caller encrypts the Secret and wipes it.
func (h *Holder) ExportMnemonic(owner [16]byte, sealed [2][]byte) (out secret.Secret, err error) {
	key := policy.Key{Owner: owner}
	err = h.unseal(ActionExport, key, sealed, func(entropy, passphrase secret.Secret) error {
		if err := h.spendGrant(ActionExport, identity{h.Organization, key}); err != nil {
			return err
		}
		out, err = mnemonicOf(entropy, passphrase)
		return err
	})
	return out, err
}

func mnemonicOf(entropy, passphrase secret.Secret) (secret.Secret, error) {
	var text [mnemonicSize + 1 + MaxPassphrase]byte
	defer clear(text[:])
	n := 0
	err := useWallet(entropy, passphrase, func(e, p []byte) error {
		b := appendMnemonic(text[:0], e)
		if len(p) > 0 {
			b = append(append(b, '\n'), p...)
		}
		n = len(b)
		return nil
	})
	if err != nil {
		return secret.Secret{}, err
	}
	return secret.From(text[:n])
}

// Stored is a secret that a Vault has sealed under its owner's id.
type Stored struct {
	Owner  [16]byte
	Sealed []byte
}

// ExportSecrets spends the Grant once for all secrets and calls give with each, which encrypts it. Each is wiped
// after its call.
func (h *Holder) ExportSecrets(all []Stored, give func(i int, s secret.Secret) error) error {
	ids := make([]identity, len(all))
	for i := range all {
		ids[i] = identity{h.Organization, policy.Key{Owner: all[i].Owner}}
	}
	if err := h.spendGrant(ActionExport, ids...); err != nil {
		return err
	}
	for i := range all {
		s, err := h.Vault.opener.Open(all[i].Owner, all[i].Sealed)
		if err != nil {
			return err
		}
		err = give(i, s)
		s.Wipe()
		if err != nil {
			return err
		}
	}
	return nil
}

// ExportKey spends the Grant and returns the 32 private bytes: the big-endian
// scalar, or the seed for ed25519. The caller encrypts the Secret and wipes it.
func (h *Holder) ExportKey(k *PrivateKey) (secret.Secret, error) {
	if k == nil {
		return secret.Secret{}, errWiped
	}
	if err := h.spendGrant(ActionExport, k.identity); err != nil {
		return secret.Secret{}, err
	}
	s, err := k.secret()
	if err != nil {
		return secret.Secret{}, fmt.Errorf("exporting a key: %w", err)
	}
	return s, nil
}

// Refusals of an imported secret. The host can read the reply, so it must reveal nothing
// about a secret that may be nearly right: the error is the same for every reason.
var (
	errMnemonic = fault.New(fault.InvalidArgument,
		"invalid mnemonic: must be 12, 15, 18, 21 or 24 words of the English list, in lower case with one space between, and their checksum must hold")
	errPassphrase = fault.New(fault.InvalidArgument,
		"invalid mnemonic passphrase: must be at most %d printable ASCII characters, in the line behind the words", MaxPassphrase)
	errImportedKey = fault.New(fault.InvalidArgument, "invalid private key: must be 32 bytes that are a private key on the curve named")
)

// ImportMnemonic parses a mnemonic in the format of ExportMnemonic. The words must be in the
// form in which BIP-39 hashes them: English, lower case, one space between two. A passphrase
// must be printable ASCII, which has only one Unicode form. Other characters have several, and
// a client that did not normalize them to NFKD would get another seed than other wallets. An
// empty passphrase is none.
//
// The text is not kept or wiped. The errors are *fault.Error, the same whichever word is wrong.
func ImportMnemonic(text secret.Secret) (entropy, passphrase secret.Secret, err error) {
	var bits [33]byte
	var phrase [MaxPassphrase]byte
	n, m := 0, 0
	err = errMnemonic
	text.Use(func(b []byte) {
		words, rest, _ := bytes.Cut(b, []byte{'\n'})
		size, ok := 0, false
		if len(words) <= mnemonicSize {
			size, ok = parseMnemonic(&bits, words)
		}
		switch {
		case !ok:
		case len(rest) > len(phrase) || !printable(rest):
			err = errPassphrase
		default:
			n, m, err = size, copy(phrase[:], rest), nil
		}
	})
	defer clear(bits[:])
	defer clear(phrase[:])
	if err != nil {
		return secret.Secret{}, secret.Secret{}, err
	}
	if m > 0 {
		if passphrase, err = secret.From(phrase[:m]); err != nil {
			return secret.Secret{}, secret.Secret{}, err
		}
	}
	if entropy, err = secret.From(bits[:n]); err != nil {
		passphrase.Wipe()
		return secret.Secret{}, secret.Secret{}, err
	}
	return entropy, passphrase, nil
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// Words is the number of mnemonic words of a wallet's entropy.
func Words(entropy secret.Secret) int { return entropy.Len() / 4 * 3 }

// ImportKey parses a private key from outside: a big-endian scalar from 1 to the order minus 1, or
// an ed25519 seed. The secret is neither kept nor wiped. The error of an invalid key is a *fault.Error.
func (h *Holder) ImportKey(c chain.Curve, s secret.Secret) (*PrivateKey, error) {
	if err := h.checkCreation(ActionImport); err != nil {
		return nil, err
	}
	return markMade(importKey(c, s))
}

func importKey(c chain.Curve, s secret.Secret) (*PrivateKey, error) {
	k, err := privateKeyFromSecret(c, s)
	if err != nil && fault.Of(err) == nil {
		return nil, errImportedKey
	}
	return k, err
}
