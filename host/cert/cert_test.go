package cert_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/host/cert"
)

// pair makes a certificate for localhost with a serial number, and its key, as PEM.
func pair(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func write(t *testing.T, path string, b []byte, at time.Time) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	// The clock of a file system is coarse; this one is ours.
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// serial asks a configuration for a certificate as a handshake does.
func serial(t *testing.T, c *tls.Config) int64 {
	t.Helper()
	got, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	return got.Leaf.SerialNumber.Int64()
}

// ends is until when the certificate is good that a handshake gets.
func ends(t *testing.T, c *tls.Config) time.Time {
	t.Helper()
	got, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	return got.Leaf.NotAfter
}

func TestFilesAreReadAnew(t *testing.T) {
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	now := time.Unix(1_800_000_000, 0)
	one, oneKey := pair(t, 1)
	two, twoKey := pair(t, 2)
	write(t, certFile, one, now)
	write(t, keyFile, oneKey, now)
	var log bytes.Buffer
	f, err := cert.ReadFiles(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	c := f.Config()
	for _, step := range []struct {
		name string
		do   func()
		want int64
		logs string
	}{
		{"at the start", func() {}, 1, ""},
		{"only one of the two is new", func() { write(t, certFile, two, now) }, 1, "certificate not reloaded"},
		{"both are", func() { write(t, keyFile, twoKey, now) }, 2, "certificate reloaded"},
		{"nothing changed", func() {}, 2, ""},
		{"one is gone", func() { _ = os.Remove(certFile) }, 2, "certificate not reloaded"},
		{"it is no certificate", func() { write(t, certFile, []byte("hello"), now) }, 2, "certificate not reloaded"},
		{"the first again", func() { write(t, certFile, one, now); write(t, keyFile, oneKey, now) }, 1, "certificate reloaded"},
	} {
		log.Reset()
		now = now.Add(10 * time.Millisecond)
		step.do()
		if before := serial(t, c); step.name != "at the start" && log.Len() > 0 {
			t.Errorf("%s: looked again at once: %d, %s", step.name, before, log.String())
		}
		now = now.Add(2 * time.Second)
		if until := f.Until()["localhost"]; until.IsZero() || !until.Equal(ends(t, c)) {
			t.Errorf("%s: told until %v", step.name, until)
		}
		if got := serial(t, c); got != step.want || !strings.Contains(log.String(), step.logs) || step.logs == "" && log.Len() > 0 {
			t.Errorf("%s: serial %d, want %d; log %q", step.name, got, step.want, log.String())
		}
	}
	// What cannot be used is told once, not at every handshake.
	write(t, certFile, []byte("hello"), now)
	log.Reset()
	for range 3 {
		now = now.Add(2 * time.Second)
		serial(t, c)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	one, _ := pair(t, 1)
	_, otherKey := pair(t, 2)
	write(t, filepath.Join(dir, "cert"), one, time.Now())
	write(t, filepath.Join(dir, "other"), otherKey, time.Now())
	for _, c := range [][2]string{{"cert", "cert"}, {"cert", "other"}, {"other", "cert"}, {"cert", "absent"}, {"absent", "other"}} {
		if _, err := cert.ReadFiles(filepath.Join(dir, c[0]), filepath.Join(dir, c[1]), slog.New(slog.DiscardHandler), time.Now); err == nil {
			t.Errorf("%v: taken", c)
		}
	}
}

func TestHTTP2(t *testing.T) {
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	one, oneKey := pair(t, 1)
	write(t, certFile, one, time.Now())
	write(t, keyFile, oneKey, time.Now())
	f, err := cert.ReadFiles(certFile, keyFile, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{TLSConfig: f.Config(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(one)
	for _, c := range []struct {
		http2 bool
		most  uint16
		want  string
	}{{true, tls.VersionTLS13, "HTTP/2.0"}, {false, tls.VersionTLS13, "HTTP/1.1"}, {true, tls.VersionTLS12, "HTTP/2.0"}, {true, tls.VersionTLS11, ""}} {
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: c.http2, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: c.most}}}
		got := ""
		if r, err := client.Get("https://" + l.Addr().String()); err == nil {
			b, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			got = string(b)
		}
		client.CloseIdleConnections()
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestACMERefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "empty"), nil, time.Now())
	for _, a := range []cert.ACME{
		{Names: []string{"localhost"}}, {Names: []string{"*.example.com"}}, {Names: []string{"https://example.com"}}, {Names: []string{"example.com:443"}},
		{Names: []string{"example.com"}, Roots: filepath.Join(dir, "absent")}, {Names: []string{"example.com"}, Roots: filepath.Join(dir, "empty")},
		{Names: []string{"example.com"}, Folder: filepath.Join(dir, "empty")},
	} {
		if a.Folder == "" {
			a.Folder = filepath.Join(dir, "acme")
		}
		if _, err := a.Config(); err == nil {
			t.Errorf("%+v: taken", a)
		}
	}
	// Another name is refused without asking the server, of which there is none.
	good := cert.ACME{Names: []string{"cloister.example.com"}, Folder: filepath.Join(dir, "acme"), Directory: "https://127.0.0.1:1/"}
	c, err := good.Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"other.example.com", "", "127.0.0.1", "cloister.example.com.evil"} {
		_, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: name, CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256}})
		if err == nil || strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if i, err := os.Stat(filepath.Join(dir, "acme")); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", i, err)
	}
}

// What ACME has got lies in its folder, key first; anything else there is nothing.
func TestACMEUntil(t *testing.T) {
	a := cert.ACME{Names: []string{"a.example.com", "b.example.com", "c.example.com"}, Folder: t.TempDir()}
	if got := a.Until(); len(got) > 0 {
		t.Fatalf("nothing was got: %v", got)
	}
	one, key := pair(t, 1)
	other, _ := pair(t, 2)
	write(t, filepath.Join(a.Folder, "a.example.com"), slices.Concat(key, one, other), time.Now())
	write(t, filepath.Join(a.Folder, "b.example.com"), []byte("hello"), time.Now())
	write(t, filepath.Join(a.Folder, "c.example.com+rsa"), slices.Concat(key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), time.Now())
	block, _ := pem.Decode(one)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Until(); len(got) != 1 || !got["a.example.com"].Equal(leaf.NotAfter) {
		t.Fatalf("%v, want one that ends %v", got, leaf.NotAfter)
	}
}
