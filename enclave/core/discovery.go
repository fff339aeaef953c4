package core

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// keysFor is how long a document of public keys is given out. Callers without a stamp cannot
// make the enclave sign more often.
const keysFor = time.Minute

// keysDocument is the document given out now.
type keysDocument struct {
	mu   sync.Mutex
	body []byte
	at   time.Time
}

// discoverKeys answers with the keys that clients pin, signed by the live key, and the boot
// proof that leads from there to the module's root. A client that verifies them need not
// trust the host or the network.
func (c *Core) discoverKeys(ctx context.Context, _ *wire.Call, _ *visit) ([]byte, error) {
	s := c.serving
	if err := s.Ranges.Serving(ctx); err != nil {
		return nil, err
	}
	d := &s.published
	d.mu.Lock()
	defer d.mu.Unlock()
	now := c.cfg.Clock.Now()
	if d.body != nil && now.Sub(d.at) < keysFor {
		return d.body, nil
	}
	k := s.Public
	claim := &attestation.PublicKeys{Keys: attestation.Keys{Signer: k.Signer, SignerPair: k.SignerPair, Session: k.Session, OTP: k.OTP,
		OTPLegacy: k.OTPLegacy, FetcherEncrypt: k.FetcherEncrypt, OnRamp: k.OnRamp, Webhook: s.webhooks.PublicKey()}, AttestationRootSHA256: s.RootSHA256, Freshness: s.Freshness(s.Ranges.BootNumber())}
	p, err := s.Live.Prove(now, claim)
	if err != nil {
		return nil, err
	}
	doc := attestation.KeysDocument{Keys: claim.Keys, AttestationRootPEM: s.RootPEM, AppProof: attestation.AppProof{
		Scheme: attestation.Scheme, PublicKey: s.Live.PublicHex, ProofPayload: string(p.Payload), Signature: fmt.Sprintf("%x", p.Signature)}}
	if err := strictjson.Decode(s.BootProof(now), &doc.BootProof); err != nil {
		return nil, fmt.Errorf("reading the boot proof: %w", err)
	}
	body, err := json.Marshal(&doc)
	if err != nil {
		return nil, err
	}
	d.body, d.at = body, now
	return body, nil
}

// liveKeySize is a live key's length in bytes.
const liveKeySize = 130

// discoverBootProof answers with the boot proof of a live key of the deployment, for clients
// with a signed reply. The body is the key in lower-case hex. A proof is public, so no stamp
// is needed.
func (c *Core) discoverBootProof(ctx context.Context, call *wire.Call, _ *visit) ([]byte, error) {
	body := call.Body
	if len(body) != 2*liveKeySize || bytes.ContainsFunc(body, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) {
		return nil, fault.New(fault.InvalidArgument, "the body is to be a live key: %d digits of lower-case hex", 2*liveKeySize)
	}
	if err := c.serving.Ranges.Serving(ctx); err != nil {
		return nil, err
	}
	proof, err := c.bootProof(ctx, string(body))
	if err != nil {
		return nil, err
	}
	if proof == nil {
		return nil, fault.New(fault.NotFound, "boot proof not found")
	}
	return append(append([]byte(`{"bootProof":`), proof...), '}'), nil
}

// keySetPath is where, below the issuer's URL, the host serves the enclave's key set.
const keySetPath = "/.well-known/jwks.json"

// issuer is a handler that tells about the enclave's own issuer, for those who want to verify
// the identity tokens that it issues.
func issuer(tell func(*activity.Roles) []byte) bootHandler {
	return bare(func(c *Core) ([]byte, error) {
		if c.serving.roles.Issuer == "" {
			return nil, fault.New(fault.NotFound, "this enclave issues no identity tokens")
		}
		return tell(c.serving.roles), nil
	})
}

// discoveryOf is the discovery document of the issuer.
func discoveryOf(r *activity.Roles) []byte {
	return login.MarshalDiscovery(r.Issuer, strings.TrimSuffix(r.Issuer, "/")+keySetPath)
}

// keySetOf is the issuer's key set.
func keySetOf(r *activity.Roles) []byte { return login.MarshalKeySet(r.Identities.Public()) }
