package bundle

import "crypto/ecdh"

// Unexported functions under test.
var (
	Exported = encodeExport
	TargetOf = encodeTarget
)

// Message wraps an inner document.
func (s *Signer) Message(inner []byte) (string, error) { return s.message(inner) }

// Bytes is the point, uncompressed.
func (to PublicKey) Bytes() []byte { return to.point.Bytes() }

// Parts gives the encapsulated key and the ciphertext.
func (m *Sealed) Parts() (*ecdh.PublicKey, []byte) { return m.enc, m.ciphertext }
