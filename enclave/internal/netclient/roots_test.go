package netclient_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/netclient"
)

// The list is what its first lines and its comments say. The date is that of the
// list, so that the test says the same tomorrow.
func TestMozilla(t *testing.T) {
	head := func(name string) string {
		m := regexp.MustCompile(`(?m)^# ` + name + `: (.+)$`).FindSubmatch(netclient.Mozilla)
		if m == nil {
			t.Fatalf("the list does not say its %s", name)
		}
		return string(m[1])
	}
	if s := head("source"); !strings.HasPrefix(s, "golang.org/x/crypto/x509roots/fallback v0.0.0-") {
		t.Errorf("source %s", s)
	}
	if !strings.HasPrefix(head("sum"), "h1:") {
		t.Error("no checksum")
	}
	date := must(time.Parse(time.DateOnly, head("date")))
	count := must(strconv.Atoi(head("certificates")))
	seen := map[[32]byte]bool{}
	blocks := strings.Split(string(netclient.Mozilla), "\n\n")[1:]
	for _, text := range blocks {
		b, rest := pem.Decode([]byte(text))
		if b == nil || len(bytes.TrimSpace(rest)) > 0 || b.Type != "CERTIFICATE" || len(b.Headers) > 0 {
			t.Fatalf("no certificate: %q", text)
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(c.Raw)
		if want := fmt.Sprintf("# %q\n# sha256 %x, until %s\n", c.Subject, sum, c.NotAfter.UTC().Format(time.DateOnly)); !strings.HasPrefix(text, want) {
			t.Errorf("the comment is not %q", want)
		}
		switch {
		case seen[sum]:
			t.Errorf("%s is there twice", c.Subject)
		case !c.IsCA || !c.BasicConstraintsValid:
			t.Errorf("%s is no authority", c.Subject)
		case !bytes.Equal(c.RawSubject, c.RawIssuer):
			t.Errorf("%s is issued by another", c.Subject)
		case !date.Before(c.NotAfter) || date.Before(c.NotBefore):
			t.Errorf("%s was not valid on %s", c.Subject, date.Format(time.DateOnly))
		case len(c.UnhandledCriticalExtensions) > 0:
			t.Errorf("%s has conditions that are not understood", c.Subject)
		}
		seen[sum] = true
	}
	if len(seen) != count || count < 100 || count > 200 {
		t.Errorf("%d certificates, the list says %d", len(seen), count)
	}
	// Under what the providers of the interface and everyday mail servers are issued.
	for _, name := range []string{"ISRG Root X1", "GTS Root R1", "GTS Root R4", "DigiCert Global Root G2", "Amazon Root CA 1", "Microsoft RSA Root Certificate Authority 2017"} {
		if !bytes.Contains(netclient.Mozilla, []byte(`"CN=`+name+",")) {
			t.Errorf("%s is missing", name)
		}
	}
	pool, err := netclient.Roots(nil)
	if err != nil || !pool.Equal(must(netclient.Roots([]byte("# nothing\n")))) {
		t.Errorf("the list does not make a pool: %v", err)
	}
	t.Logf("counted: %d root certificates of %s", count, date.Format(time.DateOnly))
}

// The list alone does not believe our root; with the extra root it does.
func TestExtraRoots(t *testing.T) {
	settled(t)
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				trusted(answering(ok("hello")))(c)
			}()
		}
	}()
	for _, c := range []struct {
		extra []byte
		kind  netclient.Kind
	}{{nil, netclient.Untrusted}, {unrelated.pem, netclient.Untrusted}, {root.pem, 0}, {append(append([]byte("# two\n"), unrelated.pem...), root.pem...), 0}} {
		pool, err := netclient.Roots(c.extra)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client(t, to(l.Addr().String()), func(cfg *netclient.Config) { cfg.Roots = pool }).Exchange(t.Context(), netclient.Request{Method: "GET", URL: "https://" + host + "/"})
		if netclient.KindOf(err) != c.kind {
			t.Errorf("%v", err)
		}
	}
}

func TestRefusedRoots(t *testing.T) {
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	cut := root.pem[:len(root.pem)-40]
	for name, extra := range map[string][]byte{
		"a server's certificate": block("CERTIFICATE", valid.Certificate[0]),
		"a key":                  block("EC PRIVATE KEY", []byte("x")),
		"a root by another name": block("TRUSTED CERTIFICATE", root.cert.Raw),
		"an empty block":         block("CERTIFICATE", nil),
		"noise in a block":       block("CERTIFICATE", []byte("noise")),
		"two in one block":       block("CERTIFICATE", append(bytes.Clone(root.cert.Raw), root.cert.Raw...)),
		"cut":                    cut,
		"cut, and a good one":    append(append(bytes.Clone(cut), '\n'), root.pem...),
		"no base64":              []byte("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"),
		"too many":               bytes.Repeat(root.pem, 600),
	} {
		if _, err := netclient.Roots(extra); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func BenchmarkRoots(b *testing.B) {
	for b.Loop() {
		if _, err := netclient.Roots(nil); err != nil {
			b.Fatal(err)
		}
	}
}
