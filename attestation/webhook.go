package attestation

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// A WebhookFault is the error for a refused webhook: the published verifier's code for the reason.
type WebhookFault string

// Values of WebhookFault.
const (
	WebhookHeader    WebhookFault = "missing_header"
	WebhookTimestamp WebhookFault = "invalid_timestamp"
	WebhookStale     WebhookFault = "stale_timestamp" // outside of the window, too old or in the future
	WebhookVersion   WebhookFault = "unsupported_signature_version"
	WebhookAlgorithm WebhookFault = "unsupported_signature_algorithm"
	WebhookNoKey     WebhookFault = "missing_key"
	WebhookSignature WebhookFault = "invalid_signature"
)

// Error names the fault.
func (f WebhookFault) Error() string { return "webhook: " + string(f) }

// A WebhookKey is a public key that verifies webhooks, and its id.
type WebhookKey struct {
	ID  string
	Key ed25519.PublicKey
}

// A Webhook is the verified headers of a webhook. One event may be delivered several
// times, each time signed anew: EventID identifies the event.
type Webhook struct {
	EventID string
	KeyID   string
	At      time.Time // of this delivery, to the millisecond
}

const (
	webhookVersion   = "v1"
	webhookAlgorithm = "ed25519"
	maxWebhookKeys   = 16
	maxWebhookHeader = 256 // bytes of one header's value
)

// VerifyWebhook verifies the Ed25519 signature in a webhook's headers over the exact bytes of its body.
// get returns a header by name (http.Header.Get does). The webhook must have been signed at most window
// before or after now. The error is a WebhookFault.
func VerifyWebhook(get func(name string) string, body []byte, keys []WebhookKey, now time.Time, window time.Duration) (*Webhook, error) {
	var values [6]string
	for i, name := range []string{"X-Turnkey-Timestamp", "X-Turnkey-Event-Id", "X-Turnkey-Signature-Key-Id", "X-Turnkey-Signature-Algorithm",
		"X-Turnkey-Signature-Version", "X-Turnkey-Signature"} {
		if values[i] = get(name); values[i] == "" || len(values[i]) > maxWebhookHeader {
			return nil, WebhookHeader
		}
	}
	at, event, keyID, algorithm, version, signature := values[0], values[1], values[2], values[3], values[4], values[5]
	switch {
	case version != webhookVersion:
		return nil, WebhookVersion
	case algorithm != webhookAlgorithm:
		return nil, WebhookAlgorithm
	}
	ms, err := parseDecimal("timestamp", at, maxExactInt)
	if err != nil {
		return nil, WebhookTimestamp
	}
	when := time.UnixMilli(int64(ms))
	if now.Sub(when).Abs() > window {
		return nil, WebhookStale
	}
	sig, err := parseHex("signature", signature, ed25519.SignatureSize)
	if err != nil {
		return nil, WebhookSignature
	}
	message := append(make([]byte, 0, len(body)+512), webhookVersion+"."+webhookAlgorithm+"."+keyID+"."+at+"."+event+"."...)
	message = append(message, body...)
	for _, k := range keys {
		if k.ID != keyID || len(k.Key) != ed25519.PublicKeySize {
			continue
		}
		if !ed25519.Verify(k.Key, message, sig) {
			return nil, WebhookSignature
		}
		return &Webhook{EventID: event, KeyID: keyID, At: when}, nil
	}
	return nil, WebhookNoKey
}

// ParseWebhookKeys reads the reply of GET /public/v1/discovery/webhooks/jwks, a JWK set (RFC 7517) of at most
// MaxKeys bytes. It skips keys of other kinds, as the RFC asks. The keys are a claim of the host; VerifyKeys
// returns proven ones.
func ParseWebhookKeys(raw []byte) ([]WebhookKey, error) {
	var set struct {
		Keys []struct {
			ID        string `json:"kid"`
			Type      string `json:"kty"`
			Curve     string `json:"crv"`
			Algorithm string `json:"alg"`
			X         string `json:"x"`
		} `json:"keys"`
	}
	if err := scanJSON(raw, MaxKeys, maxJSONDepth, nil); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&set); err != nil || len(set.Keys) > maxWebhookKeys {
		return nil, errors.New("JWKS does not have the expected form")
	}
	var keys []WebhookKey
	for _, k := range set.Keys {
		if k.Type != "OKP" || k.Curve != "Ed25519" || k.Algorithm != "EdDSA" || k.ID == "" || len(k.ID) > maxWebhookHeader {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, errors.New("JWKS holds a key of another size")
		}
		keys = append(keys, WebhookKey{k.ID, x})
	}
	return keys, nil
}

// WebhookKeyOf is the key in Keys.Webhook: 32 bytes of lower-case hex.
func WebhookKeyOf(text string) (WebhookKey, error) {
	b, err := parseHex("webhook", text, ed25519.PublicKeySize)
	if err != nil {
		return WebhookKey{}, err
	}
	return WebhookKey{WebhookKeyID(b), b}, nil
}

// WebhookKeyID is the id that the enclave gives its key: whk- and the first 8 bytes of the key's SHA-256 in hex.
func WebhookKeyID(public ed25519.PublicKey) string {
	sum := Hash(public)
	return "whk-" + hex.EncodeToString(sum[:8])
}
