package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	sim "cloister/sim/client"
	"cloister/sim/laptop"
)

// A signer is a host with a live key of its own making, which signs as an enclave
// would.
type signer struct {
	key    *ecdsa.PrivateKey
	public string
	api    laptop.KeyPair
}

func newSigner(t *testing.T) *signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key, strings.Repeat(hex.EncodeToString(raw), 2), sim.NewKey()}
}

func (s *signer) sign(t *testing.T, r *http.Request, resp *http.Response, body []byte) {
	endpoint, op, _ := attestation.Route(r.Method, r.URL.Path)
	credentials, err := attestation.HashCredentials(endpoint, r.Header.Values)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	request, err := io.ReadAll(sent)
	if err != nil {
		t.Fatal(err)
	}
	reply := attestation.SignedReply{Deployment: [32]byte{1}, LiveKey: s.public, Endpoint: endpoint, Operation: op, Credentials: credentials, Request: attestation.Hash(request),
		Nonce: r.Header.Get(attestation.HeaderSignReply), Status: resp.StatusCode, Reply: attestation.Hash(body), TimeMs: uint64(time.Now().UnixMilli())}
	text, err := reply.Text()
	if err != nil {
		t.Fatal(err)
	}
	hash := attestation.Hash(text)
	one, two, err := ecdsa.Sign(rand.Reader, s.key, hash[:])
	if err != nil {
		t.Fatal(err)
	}
	sig := make([]byte, 64)
	one.FillBytes(sig[:32])
	two.FillBytes(sig[32:])
	if err := attestation.VerifyReplySignature(reply, sig); err != nil {
		t.Fatal(err) // it is to fail for its key and nothing else
	}
	resp.Header.Set(attestation.HeaderReplySignature, hex.EncodeToString(sig))
	resp.Header.Set(attestation.HeaderReplyTime, strconv.FormatUint(reply.TimeMs, 10))
	resp.Header.Set(attestation.HeaderLiveKey, s.public)
	resp.Header.Set(attestation.HeaderDeployment, hex.EncodeToString(reply.Deployment[:]))
}

func setBody(r *http.Request, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

func restamp(t *testing.T, r *http.Request, key laptop.KeyPair, body string) {
	if err := stampWith(key)(r.Header, []byte(body)); err != nil {
		t.Fatal(err)
	}
}
