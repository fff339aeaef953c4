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
	ECDAA        cbor.RawMessage    `cbor:"ecdaaKeyId"` // of an anonymous group, which WebAuthn has given up
}

const errStatement = Refusal("attestation statement does not verify")

// verify verifies the statement of the passkey with key k and returns the format that it proved: none for a statement
// that is by a key which cannot be verified here.
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
	case decoding.Unmarshal(a.statement, &s) != nil || (s.Algorithm == nil) != (format == formatU2F):
	case s.ECDAA != nil:
		format, ok = formatNone, true
	case s.Certificates == nil && format == formatPacked:
		ok = *s.Algorithm == k.alg && k.verify(slices.Concat(a.data.raw, clientHash[:]), []byte(s.Signature))
	case s.Certificates == nil || len(*s.Certificates) == 0:
	default:
		leaf, by := s.attestationKey()
		switch {
		case by == nil:
			format, ok = formatNone, true
		case format == formatU2F:
			ok = a.u2f(&s, by, k, clientHash)
		default:
			ok = a.packed(&s, leaf, by, clientHash)
		}
	}
	if !ok {
		return "", errStatement
	}
	return format, nil
}

// attestationKey is the first of a statement's certificates, and its key for the statement's algorithm. They are nil if the
// certificate cannot be read, as with serial numbers and curves that crypto/x509 refuses, if the key is of another algorithm
// than those of passkeys, and beyond the bounds: manufacturers cannot change what they have sold.
func (s *statement) attestationKey() (leaf *x509.Certificate, by *key) {
	if len(*s.Certificates) > maxCertificates || len((*s.Certificates)[0]) > maxCertificate {
		return nil, nil
	}
	leaf, err := x509.ParseCertificate([]byte((*s.Certificates)[0]))
	if err != nil {
		return nil, nil
	}
	alg := int64(algES256)
	if s.Algorithm != nil {
		alg = *s.Algorithm
	}
	by, ok := keyOf(leaf.PublicKey, alg)
	if !ok {
		return nil, nil
	}
	return leaf, by
}

// packed verifies a statement by an attestation key. Its certificate must have the form that
// WebAuthn demands for packed.
func (a *attestation) packed(s *statement, leaf *x509.Certificate, by *key, clientHash [32]byte) bool {
	if leaf.Version != 3 || leaf.IsCA || !slices.Contains(leaf.Subject.OrganizationalUnit, "Authenticator Attestation") {
		return false
	}
	for _, e := range leaf.Extensions {
		if e.Id.Equal(oidAAGUID) && (e.Critical || !bytes.Equal(e.Value, append([]byte{asn1.TagOctetString, 16}, a.data.attested.aaguid[:]...))) {
			return false
		}
	}
	return by.verify(slices.Concat(a.data.raw, clientHash[:]), []byte(s.Signature))
}

// oidAAGUID is id-fido-gen-ce-aaguid.
var oidAAGUID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 45724, 1, 1, 4}

// u2f verifies the statement of an older security key: one certificate, P-256 for both keys, no
// AAGUID.
func (a *attestation) u2f(s *statement, by, k *key, clientHash [32]byte) bool {
	at := a.data.attested
	own, ok := k.public.(*ecdsa.PublicKey)
	if len(*s.Certificates) != 1 || !ok || at.aaguid != [16]byte{} {
		return false
	}
	point, err := own.Bytes()
	if err != nil {
		return false
	}
	return by.verify(slices.Concat([]byte{0}, a.data.rpIDHash[:], clientHash[:], at.id, point), []byte(s.Signature))
}
