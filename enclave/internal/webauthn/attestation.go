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

// unjudged are the formats whose statements are as good as none.
var unjudged = []string{"tpm", "android-key", "android-safetynet", "apple", "compound"}

// attestation is an attestation object.
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

// statement is that of packed; fido-u2f's has no algorithm.
type statement struct {
	Algorithm    *int64             `cbor:"alg"`
	Signature    cbor.ByteString    `cbor:"sig"`
	Certificates *[]cbor.ByteString `cbor:"x5c"`
}

const errStatement = Refusal("attestation statement does not verify")

// verify holds the statement against the passkey's key and answers the format
// that it proved.
func (a *attestation) verify(k *key, clientHash [32]byte) (string, error) {
	switch {
	case a.format == formatNone:
		if !bytes.Equal(a.statement, []byte{0xa0}) {
			return "", errStatement
		}
		return formatNone, nil
	case slices.Contains(unjudged, a.format):
		return formatNone, a.wellFormed()
	case a.format != formatPacked && a.format != formatU2F:
		return "", Refusal("attestation format is not known")
	}
	var s statement
	if decoding.Unmarshal(a.statement, &s) != nil {
		return "", errStatement
	}
	ok := false
	switch {
	case a.format == formatU2F:
		ok = a.u2f(&s, k, clientHash)
	case s.Algorithm == nil:
	case s.Certificates == nil:
		ok = *s.Algorithm == k.alg && k.verify(append(bytes.Clone(a.data.raw), clientHash[:]...), []byte(s.Signature))
	default:
		ok = a.packed(&s, clientHash)
	}
	if !ok {
		return "", errStatement
	}
	return a.format, nil
}

// wellFormed looks at a statement that is not judged.
func (a *attestation) wellFormed() error {
	var any any
	if decoding.Unmarshal(a.statement, &any) != nil {
		return errStatement
	}
	return nil
}

// leaf is the first of a statement's certificates.
func (s *statement) leaf() *x509.Certificate {
	if s.Certificates == nil || len(*s.Certificates) == 0 || len(*s.Certificates) > maxCertificates {
		return nil
	}
	for _, c := range *s.Certificates {
		if len(c) > maxCertificate {
			return nil
		}
	}
	c, err := x509.ParseCertificate([]byte((*s.Certificates)[0]))
	if err != nil {
		return nil
	}
	return c
}

// packed verifies a statement by an attestation key, whose certificate must be of
// the form that the format demands.
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
	return ok && k.verify(append(bytes.Clone(a.data.raw), clientHash[:]...), []byte(s.Signature))
}

// oidAAGUID is id-fido-gen-ce-aaguid.
var oidAAGUID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 45724, 1, 1, 4}

// u2f verifies the statement of an older security key: one certificate, P-256 on
// both sides, no AAGUID.
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
