package keys

import (
	"crypto/ecdh"
	"crypto/sha256"
	"io"
	"slices"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/policy"
	"cloister/shared/tvc"
)

// A ShareReEncryption is an operator's share of a program's quorum key, with the enclave that is to get it. The caller has
// verified the enclave.
type ShareReEncryption struct {
	// Paths are those of the operator's two keys, on P-256: encryption, signing.
	Paths [2]Path
	// Signing is the account of the second key; the wallet is open for that of the first.
	Signing policy.Key
	// Share is encrypted to the first key, as tvc.Seal does.
	Share []byte
	// Setup is the enclave's key, and Manifest the hash of its manifest.
	Setup    *ecdh.PublicKey
	Manifest [32]byte
}

// ErrShare is the refusal of a share that does not open with the operator's key. A replay without the keys recognizes it by its text.
var ErrShare = fault.New(fault.FailedPrecondition, "the share does not open with the operator's key")

// ReEncryptShare spends the Grant for both keys of an operator. It decrypts the share with the one and encrypts it to the setup
// key; with the other it signs the operator's approval of the manifest, as tvc.CheckApproval verifies it.
func (h *Holder) ReEncryptShare(rand io.Reader, w *Wallet, r *ShareReEncryption) (box, approval []byte, err error) {
	if err := h.spendGrant(ActionEncrypt, w.identity, identity{h.Organization, r.Signing}); err != nil {
		return nil, nil, err
	}
	encryption, err := w.Derive(chain.P256, r.Paths[0])
	if err != nil {
		return nil, nil, err
	}
	defer encryption.Wipe()
	signing, err := w.Derive(chain.P256, r.Paths[1])
	if err != nil {
		return nil, nil, err
	}
	defer signing.Wipe()
	if box, err = encryption.reEncrypt(rand, r.Share, r.Setup); err != nil {
		return nil, nil, err
	}
	digest := sha256.Sum256(r.Manifest[:])
	sig, err := signing.sign(chain.ECDSA, digest[:])
	if err != nil {
		return nil, nil, err
	}
	return box, slices.Concat(sig.R[:], sig.S[:]), nil
}

// reEncrypt decrypts a share with a key on P-256 and encrypts it to another, inside erase.Do.
func (k *PrivateKey) reEncrypt(rand io.Reader, share []byte, to *ecdh.PublicKey) (box []byte, err error) {
	err = k.use(func(c curveKey) (err error) {
		of, ok := c.(*keyP256)
		if !ok {
			return errPrivateKey
		}
		erase.Do(func() {
			var own *ecdh.PrivateKey
			if own, err = of.key.ECDH(); err != nil {
				err = errPrivateKey
				return
			}
			plain, opens := tvc.Open(own, share)
			defer clear(plain)
			if opens != nil || len(plain) != tvc.ShareSize {
				err = ErrShare
				return
			}
			box, err = tvc.Seal(rand, to, plain)
		})
		return err
	})
	return box, err
}
