package keys

import (
	"fmt"

	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// ExportMnemonic spends the Grant and gives the English words of a stored wallet's entropy
// with single spaces, then a line feed and the passphrase if there is one. sealed is as for
// OpenWallet. The caller encrypts the Secret and wipes it.
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
