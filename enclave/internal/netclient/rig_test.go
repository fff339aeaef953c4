package netclient_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/netclient"
)

// clock is the time of the test: the machine's, or the bubble's in a synctest.
type clock struct{ ahead time.Duration }

func (c clock) Now() time.Time                       { return time.Now().Add(c.ahead) }
func (clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// An authority issues certificates that hold from 1990 to 2100, so also in the
// year 2000, where synctest begins.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serial atomic.Int64

func newAuthority() *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: "private root"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: year(1990), NotAfter: year(2100),
	}
	raw := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &authority{must(x509.ParseCertificate(raw)), key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}
}

func year(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }

// issue makes a server's certificate for names and addresses; change may spoil it.
func (a *authority) issue(change func(*x509.Certificate), names ...string) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: "server"}, NotBefore: year(1990), NotAfter: year(2100),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	if change != nil {
		change(template)
	}
	raw := must(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))
	return tls.Certificate{Certificate: [][]byte{raw, a.cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Made once: keys and signatures cost time under the race detector.
var (
	root      = newAuthority()
	unrelated = newAuthority()
	host      = "idp.example.com"
	valid     = root.issue(nil, host, "localhost", "127.0.0.1", "::1")
)

func serverTLS(c tls.Certificate) *tls.Config {
	// Tickets are written by a server that does not read meanwhile, which a pipe
	// without buffer does not bear.
	return &tls.Config{Certificates: []tls.Certificate{c}, SessionTicketsDisabled: true, MinVersion: tls.VersionTLS12}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// client speaks to whatever dial leads to.
func client(t testing.TB, dial netclient.Dial, change ...func(*netclient.Config)) *netclient.Client {
	t.Helper()
	cfg := netclient.Config{Dial: dial, Clock: clock{}, Rand: rand.Reader, Roots: root.pool()}
	for _, c := range change {
		c(&cfg)
	}
	c, err := netclient.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func onLoopback(c *netclient.Config) { c.Loopback = true }

// to dials one TCP address, whatever name is asked for.
func to(address string) netclient.Dial {
	return func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
}

// served runs serve on the other end of a pipe for every dial. The pipe has no
// buffer, so nothing is sent that is not read.
func served(serve func(net.Conn)) netclient.Dial {
	return func(context.Context, string, uint16) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(theirs)
		}()
		return ours, nil
	}
}

// overTLS runs serve behind a handshake, if that succeeds.
func overTLS(c *tls.Config, serve func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		t := tls.Server(conn, c)
		if t.Handshake() == nil {
			serve(t)
		}
	}
}

// answering reads one request and writes text.
func answering(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if readRequest(conn) == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

func readRequest(conn net.Conn) error {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// ok is an answer with that body.
func ok(body string, fields ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + strings.Join(append(fields, ""), "\r\n") + "\r\n" + body
}

// counted counts what is read from and dialed by a Dial.
type counted struct {
	dial        netclient.Dial
	dials, read atomic.Int64
	mu          sync.Mutex
	asked       []string
}

func (c *counted) Dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	c.dials.Add(1)
	c.mu.Lock()
	c.asked = append(c.asked, net.JoinHostPort(host, strconv.Itoa(int(port))))
	c.mu.Unlock()
	conn, err := c.dial(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, &c.read}, nil
}

type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// remaining are the stacks of goroutines that the package left behind, empty when
// there are none.
func remaining() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for one := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(one, "internal/netclient.") {
			return one
		}
	}
	return ""
}

// settled fails the test when goroutines of the package are still there a while
// after it.
func settled(t *testing.T) {
	t.Cleanup(func() {
		left := ""
		for range 30_000 {
			if left = remaining(); left == "" {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("goroutines are left:\n%s", left)
	})
}

// gone fails a test in a bubble when goroutines of the package are there once
// nothing moves any more, and then lets those of the rig come to their end.
func gone(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if left := remaining(); left != "" {
		t.Errorf("goroutines are left:\n%s", left)
	}
	time.Sleep(2 * time.Hour)
}

// kind checks an error: its kind, and that its text is short and our own.
func kind(t *testing.T, err error, want netclient.Kind) {
	t.Helper()
	var e *netclient.Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("error is %v, want one of kind %s", err, want)
	case e.Kind != want:
		t.Errorf("kind %s (%v, %v), want %s", e.Kind, e, errors.Unwrap(e), want)
	case len(e.Error()) > 120 || strings.Contains(e.Error(), "CANARY"):
		t.Errorf("the error tells too much: %v", e)
	}
}
