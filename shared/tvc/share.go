package tvc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ShareSize is the size of a Shamir share of a quorum key's seed: x, 1 to 255, and the values of the polynomials at x.
const ShareSize = 1 + SeedSize

// The format of a box, bytes that are encrypted to a pair's encryption key, as the hosted service's operator tools do: a nonce of 12
// bytes, the sender's point, the length of the ciphertext (4 bytes, little-endian), the ciphertext of AES-256-GCM. It is not RFC 9180.
const (
	nonceSize   = 12
	boxOverhead = nonceSize + PointSize + 4 + 16
	// ShareBoxSize is the size of a box with a share.
	ShareBoxSize = boxOverhead + ShareSize
	boxPurpose   = "qos_encryption_hmac_message"
)

// Seal encrypts plain to a public key and returns the box.
func Seal(rand io.Reader, to *ecdh.PublicKey, plain []byte) ([]byte, error) {
	sender, err := ephemeral(rand)
	if err != nil {
		return nil, err
	}
	gcm, bound, err := boxCipher(sender, to, sender.PublicKey(), to)
	if err != nil {
		return nil, err
	}
	var nonce [nonceSize]byte
	if _, err := io.ReadFull(rand, nonce[:]); err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	box := slices.Concat(nonce[:], sender.PublicKey().Bytes())
	box = binary.LittleEndian.AppendUint32(box, uint32(len(plain)+gcm.Overhead()))
	return gcm.Seal(box, nonce[:], plain, bound), nil
}

// ephemeral draws a private key from rand. It doesn't use ecdh's GenerateKey, which ignores its reader.
func ephemeral(rand io.Reader) (*ecdh.PrivateKey, error) {
	var scalar [32]byte
	defer clear(scalar[:])
	for range 4 {
		if _, err := io.ReadFull(rand, scalar[:]); err != nil {
			return nil, fmt.Errorf("sealing: %w", err)
		}
		if key, err := ecdh.P256().NewPrivateKey(scalar[:]); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("sealing: randomness gives no key")
}

// ErrBox is the error for every box that doesn't open, whatever the reason.
var ErrBox = errors.New("box does not open: it was made for another key, or altered")

// Open decrypts a box.
func Open(key *ecdh.PrivateKey, box []byte) ([]byte, error) {
	if len(box) < boxOverhead || uint64(binary.LittleEndian.Uint32(box[nonceSize+PointSize:])) != uint64(len(box)-nonceSize-PointSize-4) {
		return nil, ErrBox
	}
	sender, err := ecdh.P256().NewPublicKey(box[nonceSize : nonceSize+PointSize])
	if err != nil {
		return nil, ErrBox
	}
	gcm, bound, err := boxCipher(key, sender, sender, key.PublicKey())
	if err != nil {
		return nil, ErrBox
	}
	plain, err := gcm.Open(nil, box[:nonceSize], box[nonceSize+PointSize+4:], bound)
	if err != nil {
		return nil, ErrBox
	}
	return plain, nil
}

// boxCipher returns the cipher of a box and its additional data: both points, each followed by its length.
func boxCipher(own *ecdh.PrivateKey, other, sender, receiver *ecdh.PublicKey) (cipher.AEAD, []byte, error) {
	shared, err := own.ECDH(other)
	if err != nil {
		return nil, nil, ErrBox
	}
	defer clear(shared)
	image := slices.Concat(sender.Bytes(), receiver.Bytes(), shared)
	defer clear(image)
	mac := hmac.New(sha512.New, image)
	mac.Write([]byte(boxPurpose))
	key := mac.Sum(nil)
	defer clear(key)
	block, err := aes.NewCipher(key[:32])
	if err != nil {
		return nil, nil, ErrBox
	}
	gcm, err := cipher.NewGCM(block)
	bound := slices.Concat(sender.Bytes(), []byte{PointSize}, receiver.Bytes(), []byte{PointSize})
	return gcm, bound, err
}

// A PostedShare is a member's share, encrypted to an enclave's setup key, with the member's approval of its manifest.
type PostedShare struct {
	Approval Approval `json:"approval"`
	Box      string   `json:"box"` // ShareBoxSize bytes, hex
}

const maxPostedShare = 4 << 10

// ParsePostedShare decodes a PostedShare and refuses any bytes but those that Encode writes. It verifies nothing but the form.
func ParsePostedShare(raw []byte) (*PostedShare, error) {
	p := new(PostedShare)
	if err := parse("share", raw, maxPostedShare, p, p.Encode); err != nil {
		return nil, err
	}
	return p, nil
}

// Encode returns the canonical JSON.
func (p *PostedShare) Encode() ([]byte, error) {
	if err := p.Approval.check(); err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	if err := checkHex("box", p.Box, ShareBoxSize); err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	return encode(p)
}
