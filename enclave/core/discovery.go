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
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// keysFor is how long a document of public keys is given out before it is stated
// anew: who asks without a stamp cannot make the enclave sign more often.
const keysFor = time.Minute

// keysDocument is the document given out now.
type keysDocument struct {
	mu   sync.Mutex
	body []byte
	at   time.Time
}

// discoverKeys answers with the keys that clients pin, stated by the live key,
// with the boot proof that leads from there to the module's root. A client that
// checks it needs to believe neither the host nor the network.
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

// discoverBootProof answers with the boot proof of a live key, of this boot or an
// earlier one, in this enclave or another of the deployment: body is the key in
// lower-case hex. Whoever got a signed reply asks for it; it proves itself, so it
// needs no stamp.
func (c *Core) discoverBootProof(ctx context.Context, call *wire.Call, _ *visit) ([]byte, error) {
	body := call.Body
	if len(body) != 2*liveKeySize || bytes.ContainsFunc(body, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) {
		return nil, fault.New(fault.InvalidArgument, "the body is to be a live key: %d digits of lower-case hex", 2*liveKeySize)
	}
	if err := c.serving.Ranges.Serving(ctx); err != nil {
		return nil, err
	}
	proof, err := bootProofs{ctx, c}.ByKey(string(body))
	if err != nil {
		return nil, err
	}
	if proof == nil {
		return nil, fault.New(fault.NotFound, "boot proof not found")
	}
	return append(append([]byte(`{"bootProof":`), proof...), '}'), nil
}

// keySetPath is where, below the issuer's URL, the host serves our key set.
const keySetPath = "/.well-known/jwks.json"

// discoverIssuer answers with the discovery document of our own issuer, or with its
// key set, for others who want to verify the tokens that we issue. We ourselves do
// not read it: the host serves it.
func (c *Core) discoverIssuer() ([]byte, error) {
	r := c.serving.roles
	if r.Issuer == "" {
		return nil, errNoIssuer
	}
	return login.MarshalDiscovery(r.Issuer, strings.TrimSuffix(r.Issuer, "/")+keySetPath), nil
}

// discoverIssuerKeys answers the keys of that issuer.
func (c *Core) discoverIssuerKeys() ([]byte, error) {
	r := c.serving.roles
	if r.Issuer == "" {
		return nil, errNoIssuer
	}
	return login.MarshalKeySet(r.Identities.Public()), nil
}

var errNoIssuer = fault.New(fault.NotFound, "this enclave issues no identity tokens")
