// Package authenticator is a passkey in software: it makes registrations and assertions as a browser with an
// authenticator would, for tests and for trials against the simulator. It guards its key from nobody.
package authenticator

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Algorithm is the COSE number of a signature algorithm.
type Algorithm int64

// The algorithms.
const (
	ES256 Algorithm = -7
	EdDSA Algorithm = -8
	RS256 Algorithm = -257
)

// Flags of authenticator data.
const (
	UserPresent    = 1 << 0
	UserVerified   = 1 << 2
	BackupEligible = 1 << 3
	BackedUp       = 1 << 4
	Attested       = 1 << 6
	Extensions     = 1 << 7
)

// Format is an attestation format, and how it is signed where there is a choice.
type Format string

// The formats. Packed is signed by the passkey itself, PackedX5C by an attestation key with a certificate.
const (
	None      Format = "none"
	Packed    Format = "packed"
	PackedX5C Format = "packed+x5c"
	U2F       Format = "fido-u2f"
)

// An Authenticator holds one passkey. Its exported fields are for changing before it is asked for something.
type Authenticator struct {
	RPID         string
	Origin       string
	CredentialID []byte
	AAGUID       [16]byte
	Flags        byte
	// Counter is what was told last. 0 stays 0, as with synced passkeys; anything
	// else goes up by one before it is told.
	Counter uint32
	// Extensions, if any, follow the data: CBOR of a map.
	Extensions []byte

	alg Algorithm
	key crypto.Signer
}

// New makes a passkey for a relying party, to be used at an origin of it.
func New(alg Algorithm, rpID, origin string) (*Authenticator, error) {
	a := &Authenticator{RPID: rpID, Origin: origin, CredentialID: make([]byte, 32), Flags: UserPresent | UserVerified, alg: alg}
	rand.Read(a.CredentialID)
	var err error
	switch alg {
	case ES256:
		a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case RS256:
		a.key, err = rsa.GenerateKey(rand.Reader, 2048)
	case EdDSA:
		_, a.key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("no algorithm %d", alg)
	}
	return a, err
}

// PublicKey is the passkey's COSE_Key.
func (a *Authenticator) PublicKey() ([]byte, error) {
	switch p := a.key.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			return nil, err
		}
		return Encode(map[int]any{1: 2, 3: ES256, -1: 1, -2: point[1:33], -3: point[33:]})
	case *rsa.PublicKey:
		return Encode(map[int]any{1: 3, 3: RS256, -1: p.N.Bytes(), -2: big.NewInt(int64(p.E)).Bytes()})
	case ed25519.PublicKey:
		return Encode(map[int]any{1: 1, 3: EdDSA, -1: 6, -2: []byte(p)})
	}
	return nil, fmt.Errorf("no key")
}

// Encode writes CBOR as authenticators do.
func Encode(v any) ([]byte, error) {
	m, err := cbor.CTAP2EncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	return m.Marshal(v)
}

// Sign signs a message by the passkey's algorithm.
func (a *Authenticator) Sign(message []byte) ([]byte, error) { return sign(a.key, message) }

func sign(key crypto.Signer, message []byte) ([]byte, error) {
	if _, ok := key.(ed25519.PrivateKey); ok {
		return key.Sign(rand.Reader, message, crypto.Hash(0))
	}
	digest := sha256.Sum256(message)
	return key.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// ClientData is the clientDataJSON of a browser; typ is webauthn.create or webauthn.get.
func (a *Authenticator) ClientData(typ string, challenge []byte) []byte {
	origin, _ := json.Marshal(a.Origin)
	return fmt.Appendf(nil, `{"type":"%s","challenge":"%s","origin":%s,"crossOrigin":false}`, typ, base64.RawURLEncoding.EncodeToString(challenge), origin)
}

// Data is authenticator data, with the passkey if it is to be attested.
func (a *Authenticator) Data(attested bool) ([]byte, error) {
	if a.Counter != 0 {
		a.Counter++
	}
	rp := sha256.Sum256([]byte(a.RPID))
	flags := a.Flags
	if attested {
		flags |= Attested
	}
	if len(a.Extensions) > 0 {
		flags |= Extensions
	}
	b := binary.BigEndian.AppendUint32(append(rp[:], flags), a.Counter)
	if attested {
		b = binary.BigEndian.AppendUint16(append(b, a.AAGUID[:]...), uint16(len(a.CredentialID)))
		b = append(b, a.CredentialID...)
		key, err := a.PublicKey()
		if err != nil {
			return nil, err
		}
		b = append(b, key...)
	}
	return append(b, a.Extensions...), nil
}

// Registration is what a browser answers when a passkey was made.
type Registration struct {
	CredentialID, Challenge, ClientDataJSON, AttestationObject []byte
}

// Register makes the passkey known.
func (a *Authenticator) Register(challenge []byte, f Format) (*Registration, error) {
	data, err := a.Data(true)
	if err != nil {
		return nil, err
	}
	client := a.ClientData("webauthn.create", challenge)
	name, statement, err := a.statement(f, data, client)
	if err != nil {
		return nil, err
	}
	object, err := Object(name, statement, data)
	return &Registration{a.CredentialID, challenge, client, object}, err
}

// Object is an attestation object.
func Object(format string, statement any, data []byte) ([]byte, error) {
	return Encode(map[string]any{"fmt": format, "attStmt": statement, "authData": data})
}

func (a *Authenticator) statement(f Format, data, client []byte) (name string, statement map[string]any, err error) {
	hash := sha256.Sum256(client)
	message := append(append([]byte{}, data...), hash[:]...)
	statement = map[string]any{}
	switch f {
	case None:
		return string(f), statement, nil
	case Packed:
		statement["alg"] = a.alg
		statement["sig"], err = a.Sign(message)
		return string(f), statement, err
	case U2F:
		p, ok := a.key.Public().(*ecdsa.PublicKey)
		if !ok {
			return "", nil, fmt.Errorf("%s is for ES256", f)
		}
		point, err := p.Bytes()
		if err != nil {
			return "", nil, err
		}
		message = append(append([]byte{0}, data[:32]...), hash[:]...)
		message = append(append(message, a.CredentialID...), point...)
	case PackedX5C:
		statement["alg"] = ES256
	default:
		return "", nil, fmt.Errorf("no format %s", f)
	}
	key, certificate, err := Certificate(a.AAGUID, f == PackedX5C)
	if err != nil {
		return "", nil, err
	}
	statement["x5c"] = [][]byte{certificate}
	statement["sig"], err = sign(key, message)
	name = "packed"
	if f == U2F {
		name = string(f)
	}
	return name, statement, err
}

// Certificate makes an attestation key and a certificate of it, signed by itself,
// in the form that packed demands; with the AAGUID if so asked.
func Certificate(aaguid [16]byte, named bool) (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), BasicConstraintsValid: true,
		Subject: pkix.Name{Country: []string{"SE"}, Organization: []string{"Cloister"}, OrganizationalUnit: []string{"Authenticator Attestation"}, CommonName: "Test"},
	}
	if named {
		value, err := asn1.Marshal(aaguid[:])
		if err != nil {
			return nil, nil, err
		}
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 45724, 1, 1, 4}, Value: value}}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	return key, der, err
}

// Params are the registration as an element of the interface's authenticators.
func (r *Registration) Params(name string) map[string]any {
	text := base64.RawURLEncoding.EncodeToString
	return map[string]any{
		"authenticatorName": name, "challenge": text(r.Challenge),
		"attestation": map[string]any{
			"credentialId": text(r.CredentialID), "clientDataJson": text(r.ClientDataJSON), "attestationObject": text(r.AttestationObject),
			"transports": []string{"AUTHENTICATOR_TRANSPORT_INTERNAL", "AUTHENTICATOR_TRANSPORT_HYBRID"},
		},
	}
}

// Assertion is what a browser answers when a passkey signed.
type Assertion struct {
	CredentialID, AuthenticatorData, ClientDataJSON, Signature []byte
}

// Assert signs a challenge.
func (a *Authenticator) Assert(challenge []byte) (*Assertion, error) {
	return a.AssertWith(a.ClientData("webauthn.get", challenge))
}

// AssertWith signs a given clientDataJSON.
func (a *Authenticator) AssertWith(client []byte) (*Assertion, error) {
	data, err := a.Data(false)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(client)
	signature, err := a.Sign(append(append([]byte{}, data...), hash[:]...))
	return &Assertion{a.CredentialID, data, client, signature}, err
}

// Challenge is what a stamp over body signs.
func Challenge(body []byte) []byte {
	h := sha256.Sum256(body)
	return hex.AppendEncode(nil, h[:])
}

// Stamp signs body: the value of X-Stamp-WebAuthn.
func (a *Authenticator) Stamp(body []byte) (string, error) {
	s, err := a.Assert(Challenge(body))
	if err != nil {
		return "", err
	}
	return s.Header(), nil
}

// Header is the assertion as the value of X-Stamp-WebAuthn.
func (s *Assertion) Header() string {
	text := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"authenticatorData":"%s","clientDataJson":"%s","credentialId":"%s","signature":"%s"}`,
		text(s.AuthenticatorData), text(s.ClientDataJSON), text(s.CredentialID), text(s.Signature))
}
