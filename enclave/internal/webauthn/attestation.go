package webauthn

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/asn1"
	"slices"

	"github.com/fxamacker/cbor/v2"
)

const (
	maxCertificates = 8
	maxCertificate  = 4 << 10
)

// Formats that are verified.
const (
	formatNone   = "none"
	formatPacked = "packed"
	formatU2F    = "fido-u2f"
)

// ignored are the formats whose statements are only parsed, and count as none.
var ignored = []string{"tpm", "android-key", "android-safetynet", "apple", "compound"}

type attestation struct {
	format    string
	statement []byte // CBOR
	data      *authenticatorData
}

const errAttestation = Refusal("attestationObject is malformed")

func parseAttestation(raw []byte) (*attestation, error) {
	var o struct {
		Format    string          `cbor:"fmt"`
		Statement cbor.RawMessage `cbor:"attStmt"`
		Data      cbor.ByteString `cbor:"authData"`
	}
	if len(raw) > MaxAttestationObject || decoding.Unmarshal(raw, &o) != nil || o.Statement == nil {
		return nil, errAttestation
	}
	d, err := parseAuthenticatorData([]byte(o.Data))
	if err != nil {
		return nil, err
	}
	return &attestation{o.Format, o.Statement, d}, nil
}

// statement is the statement of packed, and of fido-u2f, which has no algorithm.
type statement struct {
	Algorithm    *int64             `cbor:"alg"`
	Signature    cbor.ByteString    `cbor:"sig"`
	Certificates *[]cbor.ByteString `cbor:"x5c"`
}

const errStatement = Refusal("attestation statement does not verify")

// verify verifies the statement of the passkey with key k and returns the format that it proved.
func (a *attestation) verify(k *key, clientHash [32]byte) (format string, err error) {
	var s statement
	format, ok := a.format, false
	switch {
	case format == formatNone:
		ok = bytes.Equal(a.statement, []byte{0xa0})
	case slices.Contains(ignored, format):
		var parsed any
		format, ok = formatNone, decoding.Unmarshal(a.statement, &parsed) == nil
	case format != formatPacked && format != formatU2F:
		return "", Refusal("attestation format is not known")
	case decoding.Unmarshal(a.statement, &s) != nil:
	case format == formatU2F:
		ok = a.u2f(&s, k, clientHash)
	case s.Algorithm == nil:
	case s.Certificates == nil:
		ok = *s.Algorithm == k.alg && k.verify(slices.Concat(a.data.raw, clientHash[:]), []byte(s.Signature))
	default:
		ok = a.packed(&s, clientHash)
	}
	if !ok {
		return "", errStatement
	}
	return format, nil
}

// leaf is the first of a statement's certificates, nil if it has none that can be read.
func (s *statement) leaf() *x509.Certificate {
	if s.Certificates == nil || len(*s.Certificates) == 0 || len(*s.Certificates) > maxCertificates ||
		slices.ContainsFunc(*s.Certificates, func(c cbor.ByteString) bool { return len(c) > maxCertificate }) {
		return nil
	}
	c, err := x509.ParseCertificate([]byte((*s.Certificates)[0]))
	if err != nil {
		return nil
	}
	return c
}

// packed verifies a statement by an attestation key. Its certificate must have the form that
// WebAuthn demands for packed.
func (a *attestation) packed(s *statement, clientHash [32]byte) bool {
	leaf := s.leaf()
	if leaf == nil || leaf.Version != 3 || leaf.IsCA || !slices.Contains(leaf.Subject.OrganizationalUnit, "Authenticator Attestation") {
		return false
	}
	for _, e := range leaf.Extensions {
		if e.Id.Equal(oidAAGUID) && (e.Critical || !bytes.Equal(e.Value, append([]byte{asn1.TagOctetString, 16}, a.data.attested.aaguid[:]...))) {
			return false
		}
	}
	k, ok := keyOf(leaf.PublicKey, *s.Algorithm)
	return ok && k.verify(slices.Concat(a.data.raw, clientHash[:]), []byte(s.Signature))
}

// oidAAGUID is id-fido-gen-ce-aaguid.
var oidAAGUID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 45724, 1, 1, 4}

// u2f verifies the statement of an older security key: one certificate, P-256 for both keys, no
// AAGUID.
func (a *attestation) u2f(s *statement, k *key, clientHash [32]byte) bool {
	leaf, at := s.leaf(), a.data.attested
	own, ok := k.public.(*ecdsa.PublicKey)
	if leaf == nil || len(*s.Certificates) != 1 || s.Algorithm != nil || !ok || at.aaguid != [16]byte{} {
		return false
	}
	point, err := own.Bytes()
	if err != nil {
		return false
	}
	by, ok := keyOf(leaf.PublicKey, algES256)
	return ok && by.verify(slices.Concat([]byte{0}, a.data.rpIDHash[:], clientHash[:], at.id, point), []byte(s.Signature))
}
