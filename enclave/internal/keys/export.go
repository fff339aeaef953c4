package keys

import (
	"fmt"

	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// ExportMnemonic spends the Grant and gives the English words of a stored wallet's
// entropy, with single spaces; if there is a passphrase, a line feed and the
// passphrase behind them. sealed is as for OpenWallet. The caller encrypts the Secret
// to whom it is for and wipes it.
func (h *Holder) ExportMnemonic(owner [16]byte, sealed [2][]byte) (out secret.Secret, err error) {
	key := policy.Key{Owner: owner}
	err = h.unseal(ActionExport, key, sealed, func(entropy, passphrase secret.Secret) error {
		if err := h.spend(ActionExport, identity{h.Organization, key}); err != nil {
			return err
		}
		out, err = mnemonicOf(entropy, passphrase)
		return err
	})
	return out, err
}

func mnemonicOf(entropy, passphrase secret.Secret) (secret.Secret, error) {
	var text [mnemonicSize + 1 + MaxPassphrase]byte
	n := 0
	entropy.Use(func(e []byte) {
		if len(e) < 16 || len(e) > 32 || len(e)%4 != 0 {
			return
		}
		passphrase.Use(func(p []byte) {
			if len(p) > MaxPassphrase {
				return
			}
			b := appendMnemonic(text[:0], e)
			if len(p) > 0 {
				b = append(append(b, '\n'), p...)
			}
			n = len(b)
		})
	})
	if n == 0 {
		return secret.Secret{}, errEntropy
	}
	defer clear(text[:])
	return secret.From(text[:n])
}

// ExportKey spends the Grant and gives the 32 private bytes: the big-endian
// scalar, or the seed for ed25519. The caller encrypts the Secret and wipes it.
func (h *Holder) ExportKey(k *PrivateKey) (secret.Secret, error) {
	if k == nil {
		return secret.Secret{}, errWiped
	}
	if err := h.spend(ActionExport, k.identity); err != nil {
		return secret.Secret{}, err
	}
	s, err := k.Secret()
	if err != nil {
		return secret.Secret{}, fmt.Errorf("exporting a key: %w", err)
	}
	return s, nil
}
