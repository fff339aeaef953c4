package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
)

// Parts of an envelope, in bytes: nonce, sender's point, length, ciphertext.
const (
	nonceSize  = 12
	lengthSize = 4
	tagSize    = 16
	envelope   = nonceSize + p256.PointSize + lengthSize
)

// OpenClientSecret opens an OAuth 2.0 client secret. Clients encrypt it in the envelope of a
// quorum key and not with HPKE: hex of a nonce, the sender's one-time point, the little-endian
// length of the ciphertext, and the ciphertext of AES-256-GCM. Errors are *fault.Error about
// field, the same for every envelope that does not open.
func OpenClientSecret(field, text string, private secret.Secret) (secret.Secret, error) {
	if len(text) > 2*maxEnvelope {
		return secret.Secret{}, fault.Field(field, "invalid client secret: longer than %d bytes", maxEnvelope)
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) <= envelope+tagSize || binary.LittleEndian.Uint32(b[nonceSize+p256.PointSize:]) != uint32(len(b)-envelope) {
		return secret.Secret{}, fault.Field(field, "invalid client secret: must be the hex of nonce, point, length and ciphertext")
	}
	nonce, point, ciphertext := b[:nonceSize], b[nonceSize:nonceSize+p256.PointSize], b[envelope:]
	sender, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return secret.Secret{}, fault.Field(field, "invalid client secret: not a point of P-256")
	}
	var plain []byte
	private.Use(func(scalar []byte) {
		var key *ecdh.PrivateKey
		if key, err = ecdh.P256().NewPrivateKey(scalar); err == nil {
			plain, err = openEnvelope(key, sender, nonce, ciphertext)
		}
	})
	if err != nil {
		return secret.Secret{}, fault.Field(field, "invalid client secret: it is not encrypted to this enclave's key")
	}
	return secret.From(plain)
}

func openEnvelope(key *ecdh.PrivateKey, sender *ecdh.PublicKey, nonce, ciphertext []byte) ([]byte, error) {
	z, err := key.ECDH(sender)
	if err != nil {
		return nil, err
	}
	point, receiver := sender.Bytes(), key.PublicKey().Bytes()
	mac := hmac.New(sha512.New, slices.Concat(point, receiver, z))
	mac.Write([]byte("qos_encryption_hmac_message"))
	block, err := aes.NewCipher(mac.Sum(nil)[:32])
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	// Each point is followed by its length.
	return gcm.Open(nil, nonce, ciphertext, slices.Concat(point, []byte{p256.PointSize}, receiver, []byte{p256.PointSize}))
}

// OpenOnRampSecret opens a secret of an on-ramp provider, a compact bundle. Errors are
// *fault.Error about field.
func OpenOnRampSecret(field, text string, private secret.Secret) (secret.Secret, error) {
	sealed, err := bundle.ParseCompact(text)
	if err != nil {
		return secret.Secret{}, fault.Field(field, "invalid secret: must be base58check of a compressed point and a ciphertext")
	}
	s, err := sealed.Open(private)
	if err != nil {
		return secret.Secret{}, fault.Field(field, "invalid secret: it is not encrypted to this enclave's key")
	}
	return s, nil
}
