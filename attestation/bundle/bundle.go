// Package bundle encrypts secrets for an import, and decrypts exports, on the client's side.
//
// The enclave gives out two kinds of messages, each signed by one key, the signer: the target of an import, to which a client encrypts,
// and an export, which is encrypted to a key of the client's. A client gets them from a host that it need not trust, so Seal and Open
// verify the signature by the signer's key that the caller trusts before they believe anything else. Take that key from a keys document
// that package attestation has verified (Keys.Signer), or from the operator; a key from the same host proves nothing.
//
// The encryption is HPKE (RFC 9180) in base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, info "turnkey_hpke", with both
// public keys as associated data. Each target and each key of a client's is for one message.
//
// Messages are bounded before they are parsed and are read strictly. The package opens no file or connection.
package bundle

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cloister/attestation"
)

const (
	// MaxSecret is the longest secret in bytes, as the enclave bounds it.
	MaxSecret = 64 << 10
	// MaxText is the longest message of the enclave in bytes: the ciphertext of a secret is in it as hexadecimal of hexadecimal.
	MaxText = 4*(MaxSecret+tagSize) + 4096

	version   = "v1.0.0"
	pointSize = 65 // bytes of an uncompressed point of P-256
	tagSize   = 16 // bytes that a ciphertext is longer than its plaintext
	derMax    = 72 // bytes of a signature in DER
)

var info = []byte("turnkey_hpke")

// Errors that callers tell apart. Others mean that a message is malformed.
var (
	// ErrSigner means that a message names another signer than the expected one.
	ErrSigner = errors.New("bundle is signed by another key than the expected signer")
	// ErrSignature means that the signature does not fit the message: something in it was changed.
	ErrSignature = errors.New("bundle was changed: its signature is not valid")
	// ErrOrganization means that the signer made the message for another organization.
	ErrOrganization = errors.New("bundle is for another organization")
	// ErrUser means that the target of an import is for another user.
	ErrUser = errors.New("bundle is for another user")
	// ErrKey means that an export is encrypted to another key.
	ErrKey = errors.New("bundle is not encrypted to this key")
)

// Seal encrypts a secret to the target of an import and returns the encryptedBundle for the import activity. importBundle is the result
// of the INIT_IMPORT activity; signer is the trusted key, 65 bytes uncompressed in lower-case hex; organization and user are the ids
// that the target must be for. A target for INIT_IMPORT_SECRETS is for any user: user is empty then.
func Seal(importBundle, signer, organization, user string, secret []byte) (string, error) {
	if len(secret) == 0 || len(secret) > MaxSecret {
		return "", fmt.Errorf("secret has %d bytes, want 1 to %d", len(secret), MaxSecret)
	}
	m, err := verify(importBundle, signer, organization, "targetPublic", "organizationId", "userId")
	if err != nil {
		return "", err
	}
	if m["userId"] != user {
		return "", ErrUser
	}
	target, err := parsePoint("targetPublic", m["targetPublic"])
	if err != nil {
		return "", err
	}
	to, err := hpke.NewDHKEMPublicKey(target)
	if err != nil {
		return "", err
	}
	enc, sender, err := hpke.NewSender(to, hpke.HKDFSHA256(), hpke.AES256GCM(), info)
	if err != nil {
		return "", err
	}
	ciphertext, err := sender.Seal(associatedData(enc, target), secret)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, ciphertext), nil
}

// Open decrypts an export. exportBundle is the result of the export activity, and key the private key whose public half was its
// targetPublicKey: an *ecdh.PrivateKey of P-256, or another that keeps its secret elsewhere. signer and organization are as in Seal.
func Open(exportBundle, signer, organization string, key ecdh.KeyExchanger) ([]byte, error) {
	enc, ciphertext, err := parseExport(exportBundle, signer, organization)
	if err != nil {
		return nil, err
	}
	if key.Curve() != ecdh.P256() {
		return nil, errors.New("key is not of P-256")
	}
	k, err := hpke.NewDHKEMPrivateKey(key)
	if err != nil {
		return nil, err
	}
	r, err := hpke.NewRecipient(enc.Bytes(), k, hpke.HKDFSHA256(), hpke.AES256GCM(), info)
	if err != nil {
		return nil, fmt.Errorf("bundle: key exchange: %w", err)
	}
	secret, err := r.Open(associatedData(enc.Bytes(), key.PublicKey()), ciphertext)
	if err != nil {
		return nil, ErrKey
	}
	return secret, nil
}

// EncapsulatedKey verifies an export as Open does and returns the sender's public key in it: who computes the key exchange elsewhere
// needs it first.
func EncapsulatedKey(exportBundle, signer, organization string) (*ecdh.PublicKey, error) {
	enc, _, err := parseExport(exportBundle, signer, organization)
	return enc, err
}

func parseExport(text, signer, organization string) (enc *ecdh.PublicKey, ciphertext []byte, err error) {
	m, err := verify(text, signer, organization, "encappedPublic", "ciphertext", "organizationId")
	if err != nil {
		return nil, nil, err
	}
	if enc, err = parsePoint("encappedPublic", m["encappedPublic"]); err != nil {
		return nil, nil, err
	}
	ciphertext, err = parseHex("ciphertext", m["ciphertext"], tagSize+1, MaxSecret+tagSize)
	return enc, ciphertext, err
}

// verify returns the members of what the signer signed for the organization; names are those that it must have.
func verify(text, signer, organization string, names ...string) (map[string]string, error) {
	key, err := parsePoint("signer", signer)
	if err != nil {
		return nil, err
	}
	outer, err := members([]byte(text), MaxText, "version", "data", "dataSignature", "enclaveQuorumPublic")
	switch {
	case err != nil:
		return nil, fmt.Errorf("bundle: %w", err)
	case outer["version"] != version:
		return nil, fmt.Errorf("bundle: version is not %s", version)
	case outer["enclaveQuorumPublic"] != signer:
		return nil, ErrSigner
	}
	signed, err := parseHex("data", outer["data"], 1, MaxText/2)
	if err != nil {
		return nil, err
	}
	signature, err := parseHex("dataSignature", outer["dataSignature"], 8, derMax)
	if err != nil {
		return nil, err
	}
	point, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), key.Bytes())
	if err != nil {
		return nil, err
	}
	if digest := sha256.Sum256(signed); !ecdsa.VerifyASN1(point, digest[:], signature) {
		return nil, ErrSignature
	}
	inner, err := members(signed, MaxText/2, names...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bundle: signed document: %w", err)
	case organization == "" || inner["organizationId"] != organization:
		return nil, ErrOrganization
	}
	return inner, nil
}

// members reads a JSON object whose members are exactly these, all of them texts.
func members(raw []byte, max int, names ...string) (map[string]string, error) {
	if err := attestation.CheckJSON(raw, max); err != nil {
		return nil, err
	}
	var all map[string]*string // names are compared exactly, other than in a struct
	if err := json.Unmarshal(raw, &all); err != nil || len(all) != len(names) {
		return nil, errors.New("JSON does not have the expected form")
	}
	texts := make(map[string]string, len(names))
	for _, name := range names {
		if all[name] == nil {
			return nil, fmt.Errorf("JSON member %s is missing", name)
		}
		texts[name] = *all[name]
	}
	return texts, nil
}

func parsePoint(name, text string) (*ecdh.PublicKey, error) {
	b, err := parseHex(name, text, pointSize, pointSize)
	if err != nil {
		return nil, err
	}
	p, err := ecdh.P256().NewPublicKey(b)
	if err != nil {
		return nil, fmt.Errorf("%s is not a point of P-256", name)
	}
	return p, nil
}

// parseHex reads min to max bytes in lower-case hex: one value has one text.
func parseHex(name, text string, min, max int) ([]byte, error) {
	if len(text) < 2*min || len(text) > 2*max || len(text)%2 != 0 {
		return nil, fmt.Errorf("%s is not %d to %d bytes of hex", name, min, max)
	}
	if strings.Trim(text, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("%s is not lower-case hex", name)
	}
	return hex.DecodeString(text)
}

func associatedData(enc []byte, receiver *ecdh.PublicKey) []byte {
	return append(append(make([]byte, 0, 2*pointSize), enc...), receiver.Bytes()...)
}
