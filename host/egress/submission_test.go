package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"cloister/host/egress"
	"cloister/shared/wire"
)

// A postOffice is a mail server.
type postOffice struct {
	address  string
	refuses  error // what it says to DATA
	mu       sync.Mutex
	messages []string
	logins   []string
}

func (p *postOffice) NewSession(*smtp.Conn) (smtp.Session, error) { return &counter{p: p}, nil }

// A counter is one conversation.
type counter struct {
	p        *postOffice
	from, to string
	in       bool
}

func (c *counter) Reset()        {}
func (c *counter) Logout() error { return nil }

func (c *counter) AuthMechanisms() []string { return []string{sasl.Plain} }

func (c *counter) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.p.logins = append(c.p.logins, user+" "+password)
		if password != "right" {
			return &smtp.SMTPError{Code: 535, Message: "no"}
		}
		c.in = true
		return nil
	}), nil
}

func (c *counter) Mail(from string, _ *smtp.MailOptions) error { c.from = from; return nil }
func (c *counter) Rcpt(to string, _ *smtp.RcptOptions) error   { c.to = to; return nil }

func (c *counter) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.refuses != nil {
		return c.p.refuses
	}
	c.p.messages = append(c.p.messages, fmt.Sprintf("%s>%s>%t>%s", c.from, c.to, c.in, b))
	return nil
}

// certified is a certificate of 127.0.0.1, and whom it leads to.
func certified(t testing.TB) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, roots
}

// newPostOffice serves by TLS from the first byte, by STARTTLS, or without (no
// certificate).
func newPostOffice(t testing.TB, c *tls.Certificate, implicit bool) *postOffice {
	p := new(postOffice)
	s := smtp.NewServer(p)
	s.Domain, s.AllowInsecureAuth, s.MaxMessageBytes = "office.example", true, 1<<20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	if c != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*c}}
	}
	if implicit {
		l = tls.NewListener(l, s.TLSConfig)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return p
}

var epistle = &wire.Mail{From: "login@example.com", To: "ada@example.org", Message: []byte("Subject: code\r\n\r\n.123456\r\n..\r\n")}

func submit(t testing.TB, ctx context.Context, address string, roots *x509.CertPool) (int, bool, error) {
	t.Helper()
	s, err := egress.ParseMailServer(address, roots)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return s.Submit(ctx, epistle)
}

func TestSubmission(t *testing.T) {
	c, roots := certified(t)
	implicit, starttls, plain := newPostOffice(t, &c, true), newPostOffice(t, &c, false), newPostOffice(t, nil, false)
	for address, p := range map[string]*postOffice{
		"smtps://user:right@" + implicit.address: implicit, "smtp+starttls://user:right@" + starttls.address: starttls, "smtp://user:right@" + plain.address: plain,
		"smtps://" + implicit.address: implicit,
	} {
		p.messages = nil
		code, _, err := submit(t, t.Context(), address, roots)
		if want := fmt.Sprintf("login@example.com>ada@example.org>%t>%s", strings.Contains(address, "user"), epistle.Message); err != nil || code != 250 || len(p.messages) != 1 || p.messages[0] != want {
			t.Errorf("%s: %d, %v, %q", address, code, err, p.messages)
		}
	}
	for _, p := range []*postOffice{implicit, starttls, plain} {
		p.messages, p.logins = nil, nil
	}
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	// hang takes one connection, greets, if it has a greeting, and answers nothing. It calls asked at the first question.
	hang := func(greeting string, asked func()) {
		c, err := hangs.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, greeting)
		_, _ = c.Read(make([]byte, 1))
		asked()
	}
	for name, x := range map[string]struct {
		address string
		roots   *x509.CertPool
		code    int
		final   bool
		says    string
	}{
		"no password":            {"smtps://user:wrong@" + implicit.address, roots, 535, true, "refused"},
		"unknown certificate":    {"smtps://user:right@" + implicit.address, nil, 0, false, "certificate"},
		"STARTTLS, the same":     {"smtp+starttls://user:right@" + starttls.address, nil, 0, false, "certificate"},
		"STARTTLS not offered":   {"smtp+starttls://user:right@" + plain.address, roots, 0, false, "broke off"},
		"TLS where there is not": {"smtps://user:right@" + plain.address, roots, 0, false, "broke off"},
		"another name":           {"smtps://user:right@localhost" + implicit.address[strings.LastIndexByte(implicit.address, ':'):], roots, 0, false, "certificate"},
		"nobody there":           {"smtps://user:right@127.0.0.1:1", roots, 0, false, "no connection"},
		"one that hangs":         {"smtps://" + hangs.Addr().String(), roots, 0, false, "in time"},
		"hangs before STARTTLS":  {"smtp+starttls://" + hangs.Addr().String(), roots, 0, false, "in time"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if x.says == "in time" {
			go hang(map[bool]string{true: "220 here\r\n"}[strings.HasPrefix(x.address, "smtp+")], cancel)
		}
		code, final, err := submit(t, ctx, x.address, x.roots)
		cancel()
		if err == nil || code != x.code || final != x.final || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "right") {
			t.Errorf("%s: %d, final %t, %v", name, code, final, err)
		}
	}
	if len(plain.logins) != 0 || len(starttls.logins) != 0 || len(plain.messages) != 0 {
		t.Errorf("a password or mail in clear: %q %q %q", plain.logins, starttls.logins, plain.messages)
	}
	for code, final := range map[int]bool{451: false, 550: true} {
		implicit.refuses = &smtp.SMTPError{Code: code, Message: "123456 CANARY"}
		got, last, err := submit(t, t.Context(), "smtps://user:right@"+implicit.address, roots)
		if err == nil || got != code || last != final || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%d: %d, final %t, %v", code, got, last, err)
		}
	}
}

// A server that talks without end is left.
func TestSubmissionIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		n := 0
		for {
			k, err := c.Write([]byte("220-more\r\n"))
			if n += k; err != nil {
				said <- n
				return
			}
		}
	}()
	if _, _, err := submit(t, t.Context(), "smtp://"+l.Addr().String(), nil); err == nil || strings.Contains(err.Error(), "in time") {
		t.Error(err)
	}
	if n := <-said; n > 16<<20 {
		t.Errorf("%d bytes were taken", n) // what the kernel buffers included
	}
}

func TestParseMailServer(t *testing.T) {
	for _, text := range []string{
		"smtps://a.example", "smtps://a.example:465/", "smtps://u:p%40@a.example:1", "smtp+starttls://u:p@a.example", "smtp://127.0.0.1:25", "smtp://u:p@localhost", "smtp://[::1]:2525",
	} {
		if _, err := egress.ParseMailServer(text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "a.example", "a.example:587", "https://a.example", "smtp://a.example", "smtp://10.0.0.1:25", "smtp://localhost.example", "smtps://", "smtps://:465", "smtps://a.example:0",
		"smtps://a.example:65536", "smtps://a.example:x", "smtps://a.example/path", "smtps://a.example?x", "smtps://a.example#x", "smtps://secret@a.example", "smtps://:secret@a.example",
		"SMTPS//a.example", "smtps://a.example:465:secret",
	} {
		if _, err := egress.ParseMailServer(text, nil); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "a.example") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// mailer is a Mailer.
type mailer func(*wire.Mail) (int, bool, error)

func (f mailer) Submit(_ context.Context, m *wire.Mail) (int, bool, error) { return f(m) }

func TestHandIn(t *testing.T) {
	left := wire.Delivered{Found: true, Result: wire.DeliverByHost, Mail: epistle}
	busy := errors.New("the mail server refused")
	for name, c := range map[string]struct {
		mailer  mailer
		answers []wire.Delivered
		state   wire.SendState
		says    string
	}{
		"taken":               {func(m *wire.Mail) (int, bool, error) { return 250, false, nil }, []wire.Delivered{left}, wire.SendIncluded, ""},
		"refused":             {func(*wire.Mail) (int, bool, error) { return 550, true, busy }, []wire.Delivered{left}, wire.SendRefused, "refused (code 550)"},
		"busy until too late": {func(*wire.Mail) (int, bool, error) { return 451, false, busy }, []wire.Delivered{left, left, expired}, wire.SendExpired, "in time"},
		"away until too late": {func(*wire.Mail) (int, bool, error) { return 0, false, errAway }, []wire.Delivered{left, left, expired}, wire.SendExpired, "in time"},
		"without a server":    {nil, []wire.Delivered{left, left, left}, wire.SendWaiting, "see -smtp"},
		"without the mail":    {func(*wire.Mail) (int, bool, error) { panic("nothing to hand in") }, []wire.Delivered{{Found: true, Result: wire.DeliverByHost}}, wire.SendWaiting, "see -smtp"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.mailer != nil {
				w.mailer = c.mailer
			}
			w.answers(c.answers...)
			w.sends()
			w.until(w.putKind(wire.SendMail, nil), c.state, c.says)
		})
	}
}
