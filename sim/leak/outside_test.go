package leak_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/sim/inbox"
)

// outside are a mail server and a gateway for text messages that speak TLS under a
// private root. What passes between them and the host is recorded.
type outside struct {
	box        *inbox.Box
	mail, text string // addresses
	roots      string // file
	traffic    string // folder
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	certificate, root := issued(t)
	o := &outside{box: inbox.NewBox(time.Now), roots: filepath.Join(t.TempDir(), "roots.pem"), traffic: t.TempDir()}
	if err := os.WriteFile(o.roots, root, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = o.box.ServeMail(ctx, l) }()
	o.mail = record(t, o.traffic, "mail", l.Addr().String())
	g := httptest.NewUnstartedServer(o.box.Handler(gateway))
	g.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.StartTLS()
	t.Cleanup(g.Close)
	o.text = record(t, o.traffic, "text", g.Listener.Addr().String())
	return o
}

var gateway = inbox.Gateway{User: "cloister", Password: "simulator"}

// settings are those of a stack that sends its mail and text messages there.
func (o *outside) settings() settings {
	return settings{
		host: []string{"-reach", o.mail + "," + o.text},
		boot: []string{"-issuer-roots", o.roots, "-smtp", "smtps://" + o.mail, "-mail-from", "codes@cloister.example",
			"-sms", fmt.Sprintf("https://%s:%s@%s/sms", gateway.User, gateway.Password, o.text), "-sms-from", "+15550100"},
	}
}

// issued is a certificate of 127.0.0.1, and the root that issued it.
func issued(t *testing.T) (certificate tls.Certificate, root []byte) {
	t.Helper()
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private root"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	var keys [2]*ecdsa.PrivateKey
	var der [2][]byte
	var err error
	for i, c := range []*x509.Certificate{ca, leaf} {
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		if der[i], err = x509.CreateCertificate(rand.Reader, c, ca, &keys[i].PublicKey, keys[0]); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: der[1:], PrivateKey: keys[1]}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der[0]})
}

// code waits for the passcode that somebody is sent.
func (o *outside) code(to string) (string, error) {
	for end := time.Now().Add(clocktest.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		ms := o.box.Messages(to)
		if len(ms) == 0 {
			continue
		}
		if len(ms[0].Code) != codeLength {
			return "", fmt.Errorf("a code of %d letters", len(ms[0].Code))
		}
		return ms[0].Code, nil
	}
	return "", fmt.Errorf("nothing has arrived for %s", to)
}

// plant sends the control to both, where it is no TLS and goes no further.
func (o *outside) plant(t *testing.T, c *secret) {
	t.Helper()
	for _, address := range []string{o.mail, o.text} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(planted(c)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until it is refused, so that it is recorded
		_ = conn.Close()
	}
}
