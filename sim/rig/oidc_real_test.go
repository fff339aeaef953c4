//go:build oidc_real

package rig_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloister/sim/client"
)

const realIssuer = "https://real.example"

// startReal starts oidc-provider under the world's root and leads its name to it.
func (f *family) startReal() {
	t, w := f.t, f.w
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), DNSNames: []string{"real.example"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, w.root, &key.PublicKey, w.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, typ string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program := os.Getenv("OIDC_PROVIDER")
	if program == "" {
		t.Skip("needs OIDC_PROVIDER: scripts/oidc/test.sh sets it")
	}
	cmd := exec.Command("node", program, realIssuer, write("certificate", "CERTIFICATE", der), write("key", "PRIVATE KEY", private))
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if port := lines.Text(); regexp.MustCompile(`^\d+$`).MatchString(port) {
			w.leads("real.example", "127.0.0.1:"+port)
			return
		}
	}
	t.Fatal("the provider has not started")
}

// browser is somebody's at the provider.
func (f *family) browser() *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(f.w.root)
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: 20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			f.w.mu.Lock()
			at := f.w.astray["real.example"]
			f.w.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "tcp", at)
		}},
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if r.URL.Host == "app.example" {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

var form = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)

// signIn goes through the provider's pages as a browser does, and answers the token.
func (f *family) signIn(user, client, nonce string) string {
	f.t.Helper()
	b := f.browser()
	sum := sha256.Sum256([]byte(verifier))
	r, err := b.Get(realIssuer + "/auth?" + url.Values{"client_id": {client}, "response_type": {"code"}, "scope": {"openid"}, "redirect_uri": {"https://app.example/back"},
		"code_challenge": {b64(sum[:])}, "code_challenge_method": {"S256"}, "nonce": {nonce}, "state": {"s"}}.Encode())
	for _, answers := range []url.Values{{"prompt": {"login"}, "login": {user}, "password": {"any"}}, {"prompt": {"consent"}}} {
		page := f.read(r, err)
		action := form.FindStringSubmatch(page)
		if action == nil {
			f.t.Fatalf("no form: %s", page)
		}
		r, err = b.PostForm(action[1], answers)
	}
	f.read(r, err)
	back, err := r.Location()
	if err != nil || back.Query().Get("code") == "" || back.Query().Get("state") != "s" {
		f.t.Fatalf("%v %v", back, err)
	}
	r, err = b.PostForm(realIssuer+"/token", url.Values{"grant_type": {"authorization_code"}, "client_id": {client}, "code": {back.Query().Get("code")},
		"redirect_uri": {"https://app.example/back"}, "code_verifier": {verifier}})
	var got struct {
		Token string `json:"id_token"`
	}
	if text := f.read(r, err); json.Unmarshal([]byte(text), &got) != nil || got.Token == "" {
		f.t.Fatal(text)
	}
	return got.Token
}

func (f *family) read(r *http.Response, err error) string {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

func TestRealProvider(t *testing.T) {
	f := newFamily(t)
	f.startReal()
	for _, name := range []string{"rs256", "es256", "ps256", "eddsa"} {
		sub := f.signUp(name, f.signIn("ada", name, "sign-up"))
		key := client.NewKey()
		token := f.signIn("ada", name, nonceOf(key.PublicKey))
		wants(t, name, f.logIn(sub, token, key), 200, "")
		if got := f.as(sub, key).Query("whoami", nil); got.Status != 200 || got.Text("organizationId") != sub {
			t.Errorf("%s: %v", name, got)
		}
		wants(t, "somebody else", f.logIn(sub, f.signIn("eve", name, nonceOf(key.PublicKey)), key), 404, none)
		wants(t, "another nonce", f.logIn(sub, f.signIn("ada", name, nonceOf(client.NewKey().PublicKey)), key), 400, "INVALID_OIDC_TOKEN", "nonce")
		i := strings.LastIndexByte(token, '.')
		other := f.signIn("ada", name, "x")
		wants(t, "another signature", f.logIn(sub, token[:i]+other[strings.LastIndexByte(other, '.'):], key), 400, "INVALID_OIDC_TOKEN", "signature does not verify")
		by := client.NewKey()
		in := f.attested(sub, by, f.signIn("ada", name, nonceOf(by.PublicKey))).Submit("STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey})
		wants(t, name+", attested", in, 200, "")
	}
}
