package rig_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/sim/rig"
)

// world is what lies outside: servers under one private root, which the enclave
// reaches through a host that may lead it astray.
type world struct {
	t     *testing.T
	root  *x509.Certificate
	key   *ecdsa.PrivateKey
	real  string       // address of the server that has certificates of the root
	dials atomic.Int64 // streams asked for

	mu     sync.Mutex
	sites  map[string]http.Handler
	astray map[string]string // names that lead to another address
}

func newWorldOutside(t *testing.T) *world {
	w := &world{t: t, sites: map[string]http.Handler{}, astray: map[string]string{}}
	w.root, w.key = authority(t, "the private root")
	w.real = w.serve(w.root, w.key, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		site := w.sites[r.Host]
		w.mu.Unlock()
		if site == nil {
			http.NotFound(rw, r)
			return
		}
		site.ServeHTTP(rw, r)
	}))
	return w
}

// authority makes a root certificate.
func authority(t *testing.T, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c, key
}

// serve starts a server with certificates under root for whatever name is asked for.
func (w *world) serve(root *x509.Certificate, by *ecdsa.PrivateKey, h http.Handler) (address string) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	var mu sync.Mutex
	certificates := map[string]*tls.Certificate{}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if c := certificates[hello.ServerName]; c != nil {
			return c, nil
		}
		now := time.Now()
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), DNSNames: []string{hello.ServerName},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, root, &own.PublicKey, by)
		if err != nil {
			return nil, err
		}
		certificates[hello.ServerName] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: own}
		return certificates[hello.ServerName], nil
	}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	w.t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// often is how many times each attack is made. -short, as under the race detector,
// makes do with fewer.
func often() int {
	if testing.Short() {
		return 10
	}
	return 50
}

// leads has a name lead to another address, or with "" to where it should.
func (w *world) leads(name, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.astray[name] = address
}

// options are of a rig that has this world outside.
func (w *world) options() rig.Options {
	configuration, err := json.Marshal(map[string]any{
		"onRamps": map[string]any{moonPay: map[string]any{}, coinbase: map[string]any{}},
		"billing": map[string]any{"processor": "stripe", "key": stripeKey, "meter": "signatures"},
		"roots":   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.root.Raw})), "issuer": "https://cloister.example",
		"tvc": json.RawMessage(rig.Programs(w.t)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rig.Options{Configuration: configuration, Outside: func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		w.dials.Add(1)
		w.mu.Lock()
		at := w.astray[host]
		w.mu.Unlock()
		if at == "" {
			at = w.real
		}
		return new(net.Dialer).DialContext(ctx, "tcp", at)
	}}
}

// provider is an identity provider.
type provider struct {
	w         *world
	url       string
	rsa       *rsa.PrivateKey
	p256      *ecdsa.PrivateKey
	discovery atomic.Value // of string, with jwks_uri
	keys      atomic.Value // of string
	asked     atomic.Int64 // for its discovery document
}

// ofFirst and ofOthers make the RSA keys of a test's first provider and of the
// others: making one takes a while.
var ofFirst, ofOthers = once(), once()

func once() func(*testing.T) *rsa.PrivateKey {
	make := sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
	return func(t *testing.T) *rsa.PrivateKey {
		k, err := make()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
}

func (w *world) provider(name string) *provider {
	p := &provider{w: w, url: "https://" + name}
	var err error
	if p.rsa = ofFirst(w.t); w.sites["accounts.example"] != nil {
		p.rsa = ofOthers(w.t)
	}
	if p.p256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		w.t.Fatal(err)
	}
	p.discovery.Store(asJSON(w.t, map[string]any{"issuer": p.url, "jwks_uri": p.url + "/keys"}))
	p.keys.Store(asJSON(w.t, map[string]any{"keys": []any{p.jwkRSA("r1"), p.jwkP256("e1")}}))
	m := http.NewServeMux()
	m.HandleFunc("GET /.well-known/openid-configuration", func(rw http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		_, _ = rw.Write([]byte(p.discovery.Load().(string)))
	})
	m.HandleFunc("GET /keys", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(p.keys.Load().(string))) })
	m.Handle("GET /moved", http.RedirectHandler(p.url+"/keys", http.StatusFound))
	w.site(name, m)
	return p
}

func (w *world) site(name string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[name] = h
}

func asJSON(t testing.TB, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func b64d(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }

func (p *provider) jwkRSA(kid string) map[string]any {
	return map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": b64(p.rsa.N.Bytes()), "e": "AQAB"}
}

func (p *provider) jwkP256(kid string) map[string]any {
	b, err := p.p256.PublicKey.Bytes()
	if err != nil {
		p.w.t.Fatal(err)
	}
	return map[string]any{"kty": "EC", "crv": "P-256", "use": "sig", "kid": kid, "x": b64(b[1:33]), "y": b64(b[33:])}
}

// claims of a token that is in time at now.
func (p *provider) claims(now time.Time, sub, aud string, more ...any) map[string]any {
	c := map[string]any{"iss": p.url, "sub": sub, "aud": aud, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	return c
}

// token signs claims with the provider's RSA key.
func (p *provider) token(claims any) string {
	return p.signed(`{"alg":"RS256","kid":"r1","typ":"JWT"}`, claims)
}

// signed signs claims, JSON text if they are a string, as the header says.
func (p *provider) signed(header string, claims any) string {
	text, ok := claims.(string)
	if !ok {
		text = asJSON(p.w.t, claims)
	}
	signed := b64([]byte(header)) + "." + b64([]byte(text))
	sum := sha256.Sum256([]byte(signed))
	var sig []byte
	var err error
	if strings.Contains(header, "ES256") {
		var r, s *big.Int
		if r, s, err = ecdsa.Sign(rand.Reader, p.p256, sum[:]); err == nil {
			sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	} else {
		sig, err = rsa.SignPKCS1v15(rand.Reader, p.rsa, crypto.SHA256, sum[:])
	}
	if err != nil {
		p.w.t.Fatal(err)
	}
	return signed + "." + b64(sig)
}

// nonceOf is what a client gives its provider as nonce.
func nonceOf(public string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(public)))
}
