package attestation

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Headers of signed replies. HeaderSignReply is the request's and has a nonce that
// the caller chooses; the others are the reply's.
const (
	HeaderSignReply      = "X-Cloister-Sign-Reply"      // 1 to MaxReplyNonce characters of A-Z a-z 0-9 - _
	HeaderReplySignature = "X-Cloister-Reply-Signature" // r‖s, 64 bytes, lower-case hex
	HeaderReplyTime      = "X-Cloister-Reply-Time"      // the enclave's clock, ms, decimal
	HeaderLiveKey        = "X-Cloister-Live-Key"        // 130 bytes, lower-case hex
	HeaderDeployment     = "X-Cloister-Deployment"      // 32 bytes, lower-case hex
)

// HeaderLogProof is the header of a submit that asks for a logged proof in its reply. Its one value is LogProofWait:
// the reply waits until witnesses have cosigned the entry.
const (
	HeaderLogProof = "X-Cloister-Log-Proof"
	LogProofWait   = "wait"
)

// MaxReplyNonce is the longest nonce of a signed reply in bytes.
const MaxReplyNonce = 64

// Endpoints of the interface, as a signed reply names them.
const (
	EndpointSubmit = "submit" // POST /public/v1/submit/{operation}
	EndpointQuery  = "query"  // POST /public/v1/query/{operation}
	EndpointProxy  = "proxy"  // POST /v1/{operation} of the auth proxy
	EndpointBoot   = "boot"   // POST /boot/v1/{operation}, and the documents that Route lists
)

const (
	replyDomain  = "cloister signed reply 1"
	maxOperation = 128
	maxHeaders   = 16 << 10 // bytes of the credential headers, as the interface bounds them
)

// CredentialHeaders are the request headers that a signed reply is bound to at an
// endpoint, in the order in which they are hashed. It is nil for an unknown endpoint.
func CredentialHeaders(endpoint string) []string {
	switch endpoint {
	case EndpointSubmit, EndpointQuery, EndpointBoot:
		return []string{"X-Stamp", "X-Stamp-WebAuthn", "X-Stamp-Attested", "X-Session"}
	case EndpointProxy:
		return []string{"X-Auth-Proxy-Config-Id", "X-Captcha-Token"}
	}
	return nil
}

// documents maps the paths of public documents to their operations.
var documents = map[string]string{
	"/public/v1/discovery/keys":          "discovery_keys",
	"/public/v1/discovery/webhooks/jwks": "webhook_jwks",
	"/.well-known/openid-configuration":  "discovery_openid",
	"/.well-known/jwks.json":             "discovery_openid_keys",
}

// Route returns endpoint and operation of an HTTP request, as a signed reply names them.
// ok is false if the request is no operation of the interface.
func Route(method, path string) (endpoint, operation string, ok bool) {
	if method == "GET" {
		operation, ok = documents[path]
		return EndpointBoot, operation, ok
	}
	if method != "POST" {
		return "", "", false
	}
	for _, r := range [...]struct{ prefix, endpoint string }{
		{"/public/v1/submit/", EndpointSubmit}, {"/public/v1/query/", EndpointQuery}, {"/boot/v1/", EndpointBoot}, {"/v1/", EndpointProxy},
	} {
		if operation, ok = strings.CutPrefix(path, r.prefix); ok {
			return r.endpoint, operation, isOperation(operation)
		}
	}
	return "", "", false
}

// Characters of an operation's name and of a nonce.
const (
	operationLetters = "abcdefghijklmnopqrstuvwxyz0123456789_"
	nonceLetters     = operationLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ-"
)

func isOperation(s string) bool {
	return s != "" && len(s) <= maxOperation && strings.Trim(s, operationLetters) == ""
}

// IsReplyNonce reports whether a text may be the nonce of a signed reply: see HeaderSignReply.
func IsReplyNonce(s string) bool {
	return s != "" && len(s) <= MaxReplyNonce && strings.Trim(s, nonceLetters) == ""
}

// A SignedReply is the content that the live key signs for a request and its reply. A verifier fills
// it in from what it sent and received, never from what a reply claims about either.
type SignedReply struct {
	// Deployment is the SHA-256 of the deployment's genesis record.
	Deployment [32]byte
	// LiveKey is the boot's live key, 130 bytes in lower-case hex.
	LiveKey string
	// Endpoint and Operation are those of Route.
	Endpoint, Operation string
	// Credentials is HashCredentials of the request's headers.
	Credentials [32]byte
	// Request is the SHA-256 of the request's body, as sent.
	Request [32]byte
	// Nonce is the value of the request's HeaderSignReply.
	Nonce string
	// Status is the HTTP status of the reply.
	Status int
	// Reply is the SHA-256 of the reply's body without content coding.
	Reply [32]byte
	// TimeMs is the enclave's clock when it signed, in milliseconds since 1970.
	TimeMs uint64
}

// HashCredentials hashes the credential headers of a request at an endpoint: SHA-256 over a line
// "name: value\n" for each that the request carries, names in lower case and in the order of
// CredentialHeaders. values returns a header's values as sent, without blanks around them. A header
// that comes twice, a value that is not printable ASCII, and more than 16 KiB of them are errors.
func HashCredentials(endpoint string, values func(name string) []string) ([32]byte, error) {
	h, size := sha256.New(), 0
	for _, name := range CredentialHeaders(endpoint) {
		got := values(name)
		if len(got) > 1 {
			return [32]byte{}, fmt.Errorf("signed reply: header %s comes twice", name)
		}
		for _, v := range got {
			if size += len(v); size > maxHeaders {
				return [32]byte{}, errors.New("signed reply: headers are too long")
			}
			for _, c := range []byte(v) {
				if c < 0x20 || c > 0x7e {
					return [32]byte{}, fmt.Errorf("signed reply: header %s is not printable ASCII", name)
				}
			}
			fmt.Fprintf(h, "%s: %s\n", strings.ToLower(name), v)
		}
	}
	return [32]byte(h.Sum(nil)), nil
}

// Text returns the bytes that are signed: ASCII lines, each ended by a line feed, in the order
// that README.md shows. A member that is malformed or out of range is an error.
func (s SignedReply) Text() ([]byte, error) {
	switch {
	case CredentialHeaders(s.Endpoint) == nil:
		return nil, errors.New("signed reply: unknown endpoint")
	case !isOperation(s.Operation):
		return nil, errors.New("signed reply: operation is not one of the interface")
	case !IsReplyNonce(s.Nonce):
		return nil, errors.New("signed reply: nonce is not 1 to 64 characters of A-Z a-z 0-9 - _")
	case s.Status < 200 || s.Status > 599:
		return nil, errors.New("signed reply: status is out of range")
	case s.TimeMs == 0 || s.TimeMs > maxExactInt:
		return nil, errors.New("signed reply: time is out of range")
	}
	if err := checkHex("live key", s.LiveKey, bootKeySize); err != nil {
		return nil, fmt.Errorf("signed reply: %w", err)
	}
	b := make([]byte, 0, 1024)
	b = append(b, replyDomain+"\n"...)
	for _, l := range [...]struct{ name, value string }{
		{"deployment", hex.EncodeToString(s.Deployment[:])},
		{"live-key", s.LiveKey},
		{"door", s.Endpoint},
		{"operation", s.Operation},
		{"credentials-sha256", hex.EncodeToString(s.Credentials[:])},
		{"request-sha256", hex.EncodeToString(s.Request[:])},
		{"nonce", s.Nonce},
		{"status", strconv.Itoa(s.Status)},
		{"reply-sha256", hex.EncodeToString(s.Reply[:])},
		{"time-ms", strconv.FormatUint(s.TimeMs, 10)},
	} {
		b = append(append(append(append(b, l.name...), ": "...), l.value...), '\n')
	}
	return b, nil
}

// ReplyHeaders are the headers of a signed reply, as received.
type ReplyHeaders struct{ Signature, Time, LiveKey, Deployment string }

// errUnsigned is the error for a reply without any of ReplyHeaders.
var errUnsigned = errors.New("signed reply: reply carries no signature")

// Into sets the members of s that only the reply can say, deployment, live key and time, and returns
// the signature's 64 bytes. It refuses an absent header and any encoding but the documented one.
func (h ReplyHeaders) Into(s *SignedReply) (signature []byte, err error) {
	if h == (ReplyHeaders{}) {
		return nil, errUnsigned
	}
	deployment, err := parseHex(HeaderDeployment, h.Deployment, len(s.Deployment))
	at, timeErr := parseDecimal(HeaderReplyTime, h.Time, maxExactInt)
	signature, signatureErr := parseHex(HeaderReplySignature, h.Signature, signatureSize)
	if err := cmp.Or(err, timeErr, checkPair(HeaderLiveKey, h.LiveKey), signatureErr); err != nil {
		return nil, fmt.Errorf("signed reply: %w", err)
	}
	s.Deployment, s.TimeMs, s.LiveKey = [32]byte(deployment), at, h.LiveKey
	return signature, nil
}

// VerifyReply verifies that this boot's live key signed a reply, at a time that fits the boot,
// the root and the policy's MaxProofAge. A high s is accepted.
//
// The signature covers the members of s. The caller fills them in from its own request and from
// the received reply; package attestation/client does all of it.
func (b *Boot) VerifyReply(s SignedReply, signature []byte) error {
	if b.signing == nil {
		return errors.New("signed reply: boot was not verified")
	}
	if s.LiveKey != b.PublicKeyHex {
		return errors.New("signed reply: not by the live key of this boot")
	}
	if err := verifyReply(b.signing, s, signature); err != nil {
		return err
	}
	return b.checkTime("signed reply", time.UnixMilli(int64(s.TimeMs)))
}

// At returns a copy of the boot whose policy has another Now, from which the ages of its proofs and
// replies are measured: verify a boot once and use it for long.
func (b *Boot) At(now time.Time) *Boot {
	c := *b
	c.policy.Now = now
	return &c
}

// VerifyReplySignature verifies the signature alone, under the live key that s
// names. It does not check whose key that is.
func VerifyReplySignature(s SignedReply, signature []byte) error {
	pub, err := parsePair("live key", s.LiveKey)
	if err != nil {
		return fmt.Errorf("signed reply: %w", err)
	}
	return verifyReply(pub, s, signature)
}

func verifyReply(pub *ecdsa.PublicKey, s SignedReply, signature []byte) error {
	text, err := s.Text()
	if err != nil {
		return err
	}
	if len(signature) != signatureSize {
		return errors.New("signed reply: signature is not 64 bytes")
	}
	if !hasSigned(pub, text, signature) {
		return errors.New("signed reply: signature is wrong")
	}
	return nil
}
