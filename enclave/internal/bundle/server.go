package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/secret"
)

// A Signer signs the messages that the enclave sends encrypted or to be encrypted
// to. Clients pin its public key. The private one lies in memory for the whole boot,
// so that signing erases nothing. It is safe for concurrent use.
type Signer struct {
	key    *p256.Signer
	public string
}

// NewSigner makes a Signer from a private key of 32 bytes.
func NewSigner(private secret.Secret) (*Signer, error) {
	key, point, err := p256.NewSigner(private)
	if err != nil {
		return nil, errPrivate
	}
	return &Signer{key, hex.EncodeToString(point[:])}, nil
}

// PublicKey is the key as clients pin it: 65 bytes, uncompressed, lower-case hex.
func (s *Signer) PublicKey() string { return s.public }

// Export encrypts a secret of an organization to a public key and signs it: an
// exportBundle.
func (s *Signer) Export(organization string, to PublicKey, secret secret.Secret) (string, error) {
	enc, ciphertext, err := to.seal(secret)
	if err != nil {
		return "", fmt.Errorf("sealing an export: %w", err)
	}
	return s.message(encodeExport(enc, ciphertext, organization))
}

// The inner documents have their members in this order. Ids are UUIDs: nothing in
// them needs escaping.

func encodeExport(enc, ciphertext []byte, organization string) []byte {
	return fmt.Appendf(nil, `{"encappedPublic":"%x","ciphertext":"%x","organizationId":"%s"}`, enc, ciphertext, organization)
}

func encodeTarget(public []byte, organization, user string) []byte {
	return fmt.Appendf(nil, `{"targetPublic":"%x","organizationId":"%s","userId":"%s"}`, public, organization, user)
}

// Target signs the public half of a private key, for a client to encrypt one
// message to: an importBundle for a user of an organization, or for no user the
// target of a passcode.
func (s *Signer) Target(organization, user string, private secret.Secret) (string, error) {
	public, err := publicOf(private)
	if err != nil {
		return "", err
	}
	return s.message(encodeTarget(public.Bytes(), organization, user))
}

// SaysTarget tells whether a message of Target has this organization, user and public key in it. It verifies no
// signature.
func SaysTarget(message, organization, user string, public PublicKey) bool {
	return strings.HasPrefix(message, fmt.Sprintf(`{"version":"v1.0.0","data":"%x",`, encodeTarget(public.point.Bytes(), organization, user)))
}

// PublicOf is the public half of a private key, to which Target has others encrypt.
func PublicOf(private secret.Secret) (PublicKey, error) {
	point, err := publicOf(private)
	return PublicKey{point}, err
}

// message wraps an inner document, with a signature of ECDSA over SHA-256 with low s, in
// DER: one document has one signature.
func (s *Signer) message(inner []byte) (string, error) {
	signature, err := s.key.Sign(sha256.Sum256(inner))
	if err != nil {
		return "", fmt.Errorf("signing a bundle: %w", err)
	}
	return fmt.Sprintf(`{"version":"v1.0.0","data":"%x","dataSignature":"%x","enclaveQuorumPublic":"%s"}`, inner, signature.DER(), s.public), nil
}
