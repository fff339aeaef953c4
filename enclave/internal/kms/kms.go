// Package kms speaks to AWS Key Management Service through a host that carries the texts:
// requests with a Recipient, and the answer, which is CMS EnvelopedData (RFC 5652) for
// the recipient's key.
//
// The answer has no integrity: the host can change what comes out. So a caller compares
// the result with a hash that it knows, and tells nobody more than whether it fits. Open
// does not look at the padding, which would make it a padding oracle.
package kms

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/secret"
)

// Sizes in bytes.
const (
	KeySize    = 32       // of the data key
	MaxBlob    = 6 << 10  // the service's bound for a ciphertext
	MaxAnswer  = 16 << 10 // of EnvelopedData
	sealedSize = KeySize + aes.BlockSize
)

// A Recipient is an RSA key of 2048 bits, for one boot.
type Recipient struct {
	decrypt func(sealed []byte) ([]byte, error) // hides the key, so that no verb prints it
	// Public is its SubjectPublicKeyInfo in DER, which the attestation document holds.
	Public []byte
}

// NewRecipient draws a key. The library may draw from the kernel in place of rand.
func NewRecipient(rand io.Reader) (*Recipient, error) {
	k, err := rsa.GenerateKey(rand, 2048)
	if err != nil {
		return nil, fmt.Errorf("making a recipient key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("making a recipient key: %w", err)
	}
	return &Recipient{func(sealed []byte) ([]byte, error) { return rsa.DecryptOAEP(sha256.New(), nil, k, sealed, nil) }, public}, nil
}

type recipient struct {
	KeyEncryptionAlgorithm string
	AttestationDocument    []byte
}

const oaep = "RSAES_OAEP_SHA_256"

// GenerateRequest is the body of GenerateDataKey, to which the operator adds the
// KeyId.
func GenerateRequest(document []byte) ([]byte, error) {
	return json.Marshal(struct {
		NumberOfBytes int
		Recipient     recipient
	}{KeySize, recipient{oaep, document}})
}

// DecryptRequest is the body of Decrypt.
func DecryptRequest(blob, document []byte) ([]byte, error) {
	return json.Marshal(struct {
		CiphertextBlob []byte
		Recipient      recipient
	}{blob, recipient{oaep, document}})
}

// ErrAnswer is all that is said of an answer that does not open.
var ErrAnswer = errors.New("the key service's answer does not open")

// Open decrypts an answer to a data key of 32 bytes, which the caller must compare
// with what it knows.
func (r *Recipient) Open(answer []byte) (key secret.Secret, err error) {
	e, err := parse(answer)
	if err != nil {
		return key, err
	}
	erase.Do(func() {
		cek, oerr := r.decrypt(e.key)
		defer clear(cek)
		block, berr := aes.NewCipher(cek)
		if oerr != nil || berr != nil || len(cek) != 32 {
			err = ErrAnswer
			return
		}
		plain := make([]byte, sealedSize)
		cipher.NewCBCDecrypter(block, e.iv).CryptBlocks(plain, e.sealed)
		key, err = secret.From(plain[:KeySize])
		clear(plain)
	})
	return key, err
}

// enveloped is what of EnvelopedData matters.
type enveloped struct{ key, iv, sealed []byte }

// The object identifiers that an answer holds, as their contents are encoded.
var (
	oidEnveloped = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x03}
	oidData      = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01}
	oidOAEP      = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x07}
	oidMGF1      = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08}
	oidSHA256    = []byte{0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01}
	oidAES256CBC = []byte{0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a}
)

// parse takes the one shape that the service writes: one recipient, named by a key
// identifier or by issuer and number, RSAES-OAEP with SHA-256, AES-256-CBC.
func parse(b []byte) (*enveloped, error) {
	if len(b) > MaxAnswer {
		return nil, errors.New("the key service's answer is too long")
	}
	root, rest, err := readNode(b, 0)
	if err != nil || len(rest) > 0 {
		return nil, errBER
	}
	info := root.children(tagSequence, 2)
	if info == nil || !info[0].isTagged(tagOID, oidEnveloped) {
		return nil, errShape
	}
	explicit := info[1].children(tagContext0, 1)
	if explicit == nil {
		return nil, errShape
	}
	data := explicit[0].children(tagSequence, 3)
	if data == nil || !data[0].isTagged(tagInteger, []byte{2}) && !data[0].isTagged(tagInteger, []byte{0}) {
		return nil, errShape
	}
	set := data[1].children(tagSet, 1)
	content := data[2].children(tagSequence, 3)
	if set == nil || content == nil || !content[0].isTagged(tagOID, oidData) {
		return nil, errShape
	}
	to := set[0].children(tagSequence, 4)
	if to == nil || !to[0].isTagged(tagInteger, []byte{2}) && !to[0].isTagged(tagInteger, []byte{0}) || !isOAEP(to[2]) || to[3].tag != tagOctets {
		return nil, errShape
	}
	algorithm := content[1].children(tagSequence, 2)
	if algorithm == nil || !algorithm[0].isTagged(tagOID, oidAES256CBC) || algorithm[1].tag != tagOctets {
		return nil, errShape
	}
	e := &enveloped{key: to[3].content, iv: algorithm[1].content}
	switch {
	case content[2].tag == tagContext0&^constructed:
		e.sealed = content[2].content
	case content[2].tag == tagContext0: // a string in pieces
		for _, piece := range content[2].nodes {
			if piece.tag != tagOctets {
				return nil, errShape
			}
			e.sealed = append(e.sealed, piece.content...)
		}
	default:
		return nil, errShape
	}
	if len(e.key) != 256 || len(e.iv) != aes.BlockSize || len(e.sealed) != sealedSize {
		return nil, errShape
	}
	return e, nil
}

// isOAEP wants SHA-256 for the hash and for MGF1, and no label.
func isOAEP(n node) bool {
	alg := n.children(tagSequence, 2)
	if alg == nil || !alg[0].isTagged(tagOID, oidOAEP) {
		return false
	}
	parameters := alg[1].children(tagSequence, 2)
	if parameters == nil {
		return false
	}
	hash, mask := parameters[0].children(tagContext0, 1), parameters[1].children(tagContext1, 1)
	if hash == nil || mask == nil || !isHash(hash[0]) {
		return false
	}
	mgf := mask[0].children(tagSequence, 2)
	return mgf != nil && mgf[0].isTagged(tagOID, oidMGF1) && isHash(mgf[1])
}

func isHash(n node) bool {
	if n.tag != tagSequence || len(n.nodes) == 0 || len(n.nodes) > 2 || !n.nodes[0].isTagged(tagOID, oidSHA256) {
		return false
	}
	return len(n.nodes) == 1 || n.nodes[1].isTagged(tagNull, nil)
}
