// Package client makes HTTP clients insist on signed replies: every reply of the
// public interface and of the auth proxy must carry the signature of an attested
// live key over what was asked and what is answered, or it is an error.
//
// Host and network can then withhold a reply, and nothing else: an altered, invented,
// old or foreign one is never handed to the caller.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"cloister/attestation"
)

// Limits of one round trip in bytes.
const (
	MaxRequest = 1 << 20 // body of a request, as the interface bounds it
	MaxReply   = attestation.MaxReply
)

// maxBoots bounds the live keys that are remembered. A deployment has a few.
const maxBoots = 64

// A Transport is an http.RoundTripper that insists on signed replies. It asks for a signature
// with a fresh nonce, verifies the boot proof of each live key once, and gives back only
// replies that answer the very request that was sent: its path, body and credential headers.
//
// A submit that asks for its logged proof (attestation.HeaderLogProof) is answered with one or with a refusal: the
// proof is verified, and is about what the reply tells of. After a recovery of the log Policy.KnownGenerations must name
// its generation.
//
// With an error no reply is returned. A reply without signature, such as the host's own 503,
// gives an *Unsigned. Requests that are no operations of the interface (attestation.Route) are
// refused and not sent; so are redirects, since nobody signs them. A request's body is read
// whole before it is sent, a reply's before it is given back. Retrying is the caller's.
//
// Policy and Proofs must be set before first use. A Transport is safe for concurrent use.
type Transport struct {
	// Policy says which boots are believed: by measurements and operators, or by
	// manifest. AllowUnpinned does not help. Its Now is not looked at.
	Policy attestation.Policy
	// Now is the caller's clock; nil: the ages that Policy bounds are not looked at,
	// and must not be bounded. A boot's age is held against Policy.MaxBootAge when its
	// live key is first seen, a reply's against Policy.MaxProofAge always.
	Now func() time.Time
	// Proofs finds the boot proof of a live key. See Discovery.
	Proofs func(ctx context.Context, liveKey string) (attestation.BootProof, error)
	// Deployment, if set, is the only one whose replies are taken: 64 digits of lower-case hex.
	// If it is empty the first proven one is held on to. It tells deployments of the same
	// operators apart. It replaces no pin of Policy: whoever hands an enclave its keyring names it.
	Deployment string
	// Prefix is what stands before the paths of the interface, if anything.
	Prefix string
	// Base carries the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Rand makes nonces; nil means crypto/rand.
	Rand io.Reader

	mu         sync.Mutex
	boots      map[string]*attestation.Boot
	deployment [32]byte
	pinned     bool
}

// Unsigned is the error of a reply that nobody signed. What it says is the host's
// word at best, and whether the request was done is not known.
type Unsigned struct {
	// Status is the HTTP status that came.
	Status int
}

func (e *Unsigned) Error() string {
	return fmt.Sprintf("reply with status %d carries no signature", e.Status)
}

// RoundTrip sends a request and gives back its reply if that is proven.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	want, out, err := t.prepare(r)
	if err != nil {
		return nil, err
	}
	resp, err := base(t.Base).RoundTrip(out)
	if err != nil {
		return nil, err
	}
	body, err := readReply(resp)
	if err != nil {
		return nil, err
	}
	if err := t.check(r.Context(), want, len(out.Header[attestation.HeaderLogProof]) > 0, resp, body); err != nil {
		return nil, err
	}
	resp.Request, resp.Body, resp.ContentLength, resp.TransferEncoding = r, io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return resp, nil
}

func base(b http.RoundTripper) http.RoundTripper { return cmp.Or(b, http.DefaultTransport) }

// prepare reads what will be sent and adds the wish for a signature.
func (t *Transport) prepare(r *http.Request) (want attestation.SignedReply, out *http.Request, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if t.Proofs == nil {
		return want, nil, errors.New("client: transport has no source of boot proofs")
	}
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), t.Prefix)
	if ok {
		want.Endpoint, want.Operation, ok = attestation.Route(cmp.Or(r.Method, http.MethodGet), path)
	}
	if !ok {
		return want, nil, errors.New("client: not an operation of the interface, so nobody would sign the reply")
	}
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		if body, err = readBounded(r.Body, MaxRequest); err != nil {
			return want, nil, fmt.Errorf("client: reading the request: %w", err)
		}
	}
	want.Request = attestation.Hash(body)
	if want.Credentials, err = attestation.HashCredentials(want.Endpoint, func(name string) []string { return trimAll(r.Header.Values(name)) }); err != nil {
		return want, nil, err
	}
	if want.Nonce, err = t.nonce(); err != nil {
		return want, nil, err
	}
	out = r.Clone(r.Context())
	out.Header.Set(attestation.HeaderSignReply, want.Nonce)
	if r.Body != nil {
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
		out.ContentLength, out.TransferEncoding = int64(len(body)), nil
	}
	return want, out, nil
}

// trimAll are the values as they go over the wire.
func trimAll(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.Trim(v, " \t")
	}
	return out
}

func (t *Transport) nonce() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(cmp.Or(t.Rand, rand.Reader), b[:]); err != nil {
		return "", fmt.Errorf("client: making a nonce: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

func readReply(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if c := resp.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		return nil, errors.New("client: reply is compressed: leave Accept-Encoding to the transport below")
	}
	body, err := readBounded(resp.Body, MaxReply)
	if err != nil {
		return nil, fmt.Errorf("client: reading the reply: %w", err)
	}
	return body, nil
}

func readBounded(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return b, err
}

// checkLogged wants the logged proof of what a reply tells of that it was to wait for. A refusal has one if it is kept.
func checkLogged(boot *attestation.Boot, status int, body []byte) error {
	r, err := attestation.ParseReply(body)
	if err != nil || r.LogProof == nil {
		if status != http.StatusOK {
			return nil
		}
		return errors.New("client: reply has no log proof, for which it was to wait")
	}
	entry, err := attestation.VerifyLogProof(r.LogProof.LogProof, r.LogProof.LogKey, boot)
	if err != nil {
		return err
	}
	if err := r.CheckLogged(entry); err != nil {
		return err
	}
	if err := entry.CheckHistory(); err != nil {
		return fmt.Errorf("client: a log of which the policy does not know what became of it: %w", err)
	}
	return nil
}

// check holds a reply against what was sent; logged tells that a logged proof was asked for.
func (t *Transport) check(ctx context.Context, want attestation.SignedReply, logged bool, resp *http.Response, body []byte) error {
	if len(resp.Header[attestation.HeaderReplySignature]) == 0 {
		return &Unsigned{resp.StatusCode}
	}
	var h attestation.ReplyHeaders
	for name, to := range map[string]*string{attestation.HeaderReplySignature: &h.Signature, attestation.HeaderReplyTime: &h.Time,
		attestation.HeaderLiveKey: &h.LiveKey, attestation.HeaderDeployment: &h.Deployment} {
		values := resp.Header[name]
		if len(values) != 1 {
			return fmt.Errorf("client: header %s is missing or comes twice", name)
		}
		*to = values[0]
	}
	signature, err := h.Into(&want)
	if err != nil {
		return err
	}
	want.Status, want.Reply = resp.StatusCode, attestation.Hash(body)
	// The signature first: nobody makes us fetch a proof for a key that did not sign.
	if err := attestation.VerifyReplySignature(want, signature); err != nil {
		return err
	}
	boot, err := t.boot(ctx, want.LiveKey)
	if err != nil {
		return err
	}
	boot = boot.At(t.now())
	if err := boot.VerifyReply(want, signature); err != nil {
		return err
	}
	if err := t.checkDeployment(want.Deployment); err != nil {
		return err
	}
	if logged {
		return checkLogged(boot, resp.StatusCode, body)
	}
	return nil
}

func (t *Transport) now() time.Time {
	if t.Now == nil {
		return time.Time{}
	}
	return t.Now()
}

// boot is the verified boot of a live key.
func (t *Transport) boot(ctx context.Context, liveKey string) (*attestation.Boot, error) {
	t.mu.Lock()
	b := t.boots[liveKey]
	t.mu.Unlock()
	if b != nil {
		return b, nil
	}
	proof, err := t.Proofs(ctx, liveKey)
	if err != nil {
		return nil, fmt.Errorf("client: boot proof of the live key: %w", err)
	}
	policy := t.Policy
	policy.Now = t.now()
	if b, err = attestation.VerifyBootProof(proof, policy); err != nil {
		return nil, err
	}
	if !b.Pinned && !b.Document.Debug {
		return nil, errors.New("client: policy pins no deployment, so anybody's replies would be taken")
	}
	if b.PublicKeyHex != liveKey {
		return nil, errors.New("client: boot proof is another live key's")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.boots == nil || len(t.boots) >= maxBoots {
		t.boots = map[string]*attestation.Boot{}
	}
	t.boots[liveKey] = b
	return b, nil
}

// checkDeployment holds on to one deployment: a genuine enclave runs others' too.
func (t *Transport) checkDeployment(got [32]byte) error {
	if t.Deployment != "" {
		if fmt.Sprintf("%x", got) != t.Deployment {
			return errors.New("client: reply of another deployment")
		}
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.pinned {
		t.deployment, t.pinned = got, true
	}
	if got != t.deployment {
		return errors.New("client: reply of another deployment than before")
	}
	return nil
}
