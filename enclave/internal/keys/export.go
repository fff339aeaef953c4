package keys

import "errors"

// ActionExport is the action for which what follows spends a Grant.
const ActionExport = "EXPORT"

// ExportMnemonic spends the grant and gives the English words of a wallet's
// entropy, with single spaces; if there is a passphrase, a line feed and the
// passphrase behind them. The caller encrypts the Secret to whom it is for and
// wipes it. Neither of the others is kept or wiped.
func ExportMnemonic(g Grant, entropy, passphrase Secret) (Secret, error) {
	if err := Spend(g, ActionExport); err != nil {
		return Secret{}, err
	}
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
		return Secret{}, errEntropy
	}
	defer clear(text[:])
	return SecretFrom(text[:n])
}

// ExportKey spends the grant and gives the 32 private bytes: the big-endian
// scalar, or the seed for ed25519. The caller encrypts the Secret and wipes it.
func ExportKey(g Grant, k *PrivateKey) (Secret, error) {
	if err := Spend(g, ActionExport); err != nil {
		return Secret{}, err
	}
	b := k.SealedPlaintext()
	if b == nil {
		return Secret{}, errors.Join(errors.New("exporting a key"), errWiped)
	}
	return SecretFrom(b)
}
