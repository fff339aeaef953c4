package attestation

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Keys are the public keys of a deployment that clients pin, encoded as clients compare them: P-256 points in
// lower-case hex, uncompressed (65 bytes) unless the member says otherwise. Each has one role.
type Keys struct {
	Signer         string `json:"signer"`         // signs import, export and secret bundles
	SignerPair     string `json:"signerPair"`     // 130 bytes: an encryption key and Signer
	Session        string `json:"session"`        // signs sessions (the notarizer's role)
	OTP            string `json:"otp"`            // signs passcode targets and verification tokens (the TLS fetcher's signing key)
	OTPLegacy      string `json:"otpLegacy"`      // compressed: signs verification tokens of the first form
	FetcherEncrypt string `json:"fetcherEncrypt"` // OAuth client secrets are encrypted to it
	OnRamp         string `json:"onRamp"`         // compressed: on-ramp secrets are encrypted to it
	// Webhook signs webhooks: an Ed25519 key of 32 bytes, lower-case hex; see WebhookKeyOf.
	Webhook string `json:"webhook,omitempty"`
}

// PublicKeys is the claim about the deployment's keys and about the root of its attestation: the SHA-256 of
// the root certificate's DER, in upper-case hex as clients compare it.
type PublicKeys struct {
	Keys                  Keys            `json:"keys"`
	AttestationRootSHA256 string          `json:"attestationRootSha256"`
	Freshness             *ClaimFreshness `json:"freshness,omitempty"`
}

// A KeysDocument is the reply of GET /public/v1/discovery/keys: an app proof of PublicKeys by the live
// key, and its boot proof. Keys and root are repeated beside them, for readers without tools.
type KeysDocument struct {
	Keys               Keys      `json:"keys"`
	AttestationRootPEM string    `json:"attestationRootPem"`
	AppProof           AppProof  `json:"appProof"`
	BootProof          BootProof `json:"bootProof"`
}

// VerifyKeys verifies the JSON of a KeysDocument, at most MaxKeys bytes: its boot proof and app proof under
// the policy, and that the repeated keys and root are the signed ones. The result's Claim is a *PublicKeys.
// Only the policy bounds its age; keys last longer than boots.
func VerifyKeys(raw []byte, p Policy) (*Proof, error) {
	d, err := parseJSON[KeysDocument]("keys", raw, MaxKeys)
	if err != nil {
		return nil, err
	}
	proof, err := VerifyAppProof(d.AppProof, d.BootProof, p)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	stated, ok := proof.Claim.(*PublicKeys)
	switch {
	case !ok:
		return nil, errors.New("keys: the proof states something else")
	case stated.Keys != d.Keys:
		return nil, errors.New("keys: they are not those that were signed")
	case d.AttestationRootPEM != proof.Boot.RootPEM() || stated.AttestationRootSHA256 != rootSHA256(proof.Boot.root.cert.Raw):
		return nil, errors.New("keys: attestation root is another than the one trusted")
	}
	return proof, nil
}

// RootPEM is the trusted root certificate of the boot proof, as clients have it
// compiled in: PEM without a line feed at the end.
func (b *Boot) RootPEM() string { return rootPEM(b.root.cert.Raw) }

func rootPEM(der []byte) string {
	return strings.TrimSuffix(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "\n")
}

// DocumentRoot returns the root certificate that an attestation document itself names: as PEM like
// Boot.RootPEM, and as the hash in PublicKeys. It verifies nothing.
func DocumentRoot(document []byte) (text, sha string, err error) {
	if len(document) == 0 || len(document) > MaxDocument {
		return "", "", fmt.Errorf("attestation document: %w", errMalformed)
	}
	d, err := decodeDocument(bytes.TrimPrefix(document, []byte{0xd2}))
	if err != nil || len(d.CABundle) == 0 {
		return "", "", fmt.Errorf("attestation document: %w", errMalformed)
	}
	root := d.CABundle[0]
	return rootPEM(root), rootSHA256(root), nil
}

func rootSHA256(der []byte) string { return fmt.Sprintf("%X", sha256.Sum256(der)) }

// Type is TypePublicKeys.
func (*PublicKeys) Type() string { return TypePublicKeys }

// Names returns three empty texts: the claim is about the deployment.
func (*PublicKeys) Names() (string, string, string) { return "", "", "" }

// Fresh is the claim's freshness; nil if it states none.
func (c *PublicKeys) Fresh() *ClaimFreshness { return c.Freshness }

func (c *PublicKeys) write(w *writer) { w.value("publicKeysProof", c) }

func (c *PublicKeys) check() error {
	if err := c.Keys.check(); err != nil {
		return err
	}
	if err := checkHex("attestationRootSha256", strings.ToLower(c.AttestationRootSHA256), 32); err != nil || strings.ToUpper(c.AttestationRootSHA256) != c.AttestationRootSHA256 {
		return errors.New("attestationRootSha256 is not 32 bytes of upper-case hex")
	}
	return checkFresh(c.Freshness)
}

func (k Keys) check() error {
	for _, f := range [][2]string{{"signer", k.Signer}, {"session", k.Session}, {"otp", k.OTP}, {"fetcherEncrypt", k.FetcherEncrypt}} {
		raw, err := parseHex(f[0], f[1], pointSize)
		if err != nil {
			return err
		}
		if _, err := parsePoint(raw); err != nil {
			return fmt.Errorf("%s: %w", f[0], err)
		}
	}
	if err := cmp.Or(checkCompressed("otpLegacy", k.OTPLegacy), checkCompressed("onRamp", k.OnRamp), checkPair("signerPair", k.SignerPair)); err != nil {
		return err
	}
	if k.Webhook != "" {
		if _, err := WebhookKeyOf(k.Webhook); err != nil {
			return err
		}
	}
	if k.SignerPair[2*pointSize:] != k.Signer {
		return errors.New("signerPair does not end with signer")
	}
	return nil
}
