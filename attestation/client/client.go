// Package client is an HTTP transport that accepts signed replies only: every reply
// of the public interface and of the auth proxy must carry the signature of an
// attested live key over request and reply, or it is an error.
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

// maxBoots is how many verified boots a Transport caches. A deployment has a few.
const maxBoots = 64

// A Transport is an http.RoundTripper that accepts signed replies only. It requests a signature
// with a fresh nonce, verifies the boot proof of each live key once, and returns only replies
// that answer the very request that was sent: its path, body and credential headers.
//
// A submit may request a logged proof (attestation.HeaderLogProof). A reply with status 200 must then hold one. The
// Transport verifies every logged proof, and that it is about the reply's activity. If the log was recovered,
// Policy.KnownGenerations must name its generation.
//
// With an error no reply is returned. A reply without a signature, such as the host's own 503 or
// a redirect, gives an *Unsigned. A request that is no operation of the interface
// (attestation.Route) is refused and not sent. The bodies of request and reply are read whole, at
// most MaxRequest and MaxReply bytes. A Transport does not retry.
//
// Policy and Proofs must be set before first use. A Transport is safe for concurrent use.
type Transport struct {
	// Policy says which boots are trusted: by measurements and operators, or by
	// manifest. Unpinned boots are refused despite AllowUnpinned. Its Now is not used.
	Policy attestation.Policy
	// Now is the caller's clock. If nil, ages are not checked, and Policy must not bound
	// any. Policy.MaxBootAge applies to a boot when its live key is first seen,
	// Policy.MaxProofAge to every reply.
	Now func() time.Time
	// Proofs fetches the boot proof of a live key, 130 bytes in hex. See Discovery and Query.
	Proofs func(ctx context.Context, liveKey string) (attestation.BootProof, error)
	// Deployment, if set, is the only deployment whose replies are accepted: 64 digits of lower-case
	// hex. If empty, the first proven deployment becomes the only one. It distinguishes deployments of
	// the same operators. It replaces no pin of Policy: an enclave gets it together with its keyring.
	Deployment string
	// Prefix is the path before those of the interface, if any.
	Prefix string
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Rand is the source of nonces; nil means crypto/rand.
	Rand io.Reader

	mu         sync.Mutex
	boots      map[string]*attestation.Boot
	deployment [32]byte
	pinned     bool
}

// Unsigned is the error for a reply without a signature. Such a reply is a claim of
// the host at best, and does not show whether the request was executed.
type Unsigned struct {
	// Status is the HTTP status of the reply.
	Status int
}

// Error names the status.
func (e *Unsigned) Error() string {
	return fmt.Sprintf("reply with status %d carries no signature", e.Status)
}

// RoundTrip sends a request and returns its reply if that is proven.
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

// prepare reads the request's body and makes the request to send, which asks for a signature.
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

// trimAll returns header values as they are sent.
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

// checkLogged verifies the logged proof that a reply was to wait for. A refusal has one only if it is stored.
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

// check verifies a reply against the request; logged reports that a logged proof was requested.
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
	// The signature first, so that a boot proof is fetched only for a key that has signed.
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

// boot returns the verified boot of a live key, from the cache or from Proofs.
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

// checkDeployment refuses replies of a second deployment: genuine enclaves run others' deployments too.
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
