package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"cloister/shared/wire"
)

// Limits of one SMTP session.
const (
	submissionWait = 10 * time.Second // for each reply; the attempt's own time limit still counts
	maxSaid        = 256 << 10        // bytes that a server may send, its certificates included
)

// A Mailer submits mails that the enclave's configuration leaves to the host.
type Mailer interface {
	// Submit submits one mail. code is the server's last reply code, 0 for none. final means that
	// another attempt would fail in the same way.
	Submit(ctx context.Context, m *wire.Mail) (code int, final bool, err error)
}

// A MailServer is a client of a mail submission server (RFC 6409). The connection uses TLS from the
// first byte (RFC 8314) or STARTTLS (RFC 3207); only on this machine's loopback it may use none. It is
// a Mailer, safe for concurrent use.
type MailServer struct {
	host, port     string
	security       string // scheme of its URL
	user, password string
	roots          *x509.CertPool
}

var errMailServer = errors.New("want smtps://USER:PASSWORD@HOST:PORT, smtp+starttls:// likewise, or smtp://HOST:PORT of this machine's loopback")

// ParseMailServer parses the URL of a mail server: smtps is TLS, port 465 by default; smtp+starttls is
// STARTTLS, port 587; smtp has no TLS and is only for loopback addresses, port 25. User and password
// may be left out together. roots are the root certificates, nil for the system's. Errors repeat
// nothing of the URL.
func ParseMailServer(text string, roots *x509.CertPool) (*MailServer, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errMailServer
	}
	s := &MailServer{host: strings.ToLower(u.Hostname()), port: u.Port(), security: u.Scheme, user: u.User.Username(), roots: roots}
	s.password, _ = u.User.Password()
	usual := map[string]string{"smtps": "465", "smtp+starttls": "587", "smtp": "25"}[u.Scheme]
	if s.port == "" {
		s.port = usual
	}
	n, err := strconv.ParseUint(s.port, 10, 16)
	switch {
	case usual == "", err != nil, n == 0, s.host == "", strings.Trim(u.Path, "/") != "", u.RawQuery != "", u.Fragment != "",
		(s.user == "") != (s.password == ""):
		return nil, errMailServer
	case s.security == "smtp" && !isOwnMachine(s.host):
		return nil, errMailServer
	}
	return s, nil
}

func isOwnMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// Submit implements Mailer.
func (s *MailServer) Submit(ctx context.Context, m *wire.Mail) (code int, final bool, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(s.host, s.port))
	if err != nil {
		return 0, false, errors.New("no connection to the mail server")
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	err = s.talk(&frugal{Conn: conn, left: maxSaid}, m)
	said, answered := errors.AsType[*smtp.SMTPError](err)
	switch {
	case err == nil:
		return 250, false, nil
	case answered:
		// The server's text is dropped: it may quote the mail.
		return said.Code, said.Code >= 500 && said.Code < 600, errors.New("the mail server refused")
	case ctx.Err() != nil:
		return 0, false, errors.New("the mail server did not answer in time")
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return 0, false, errors.New("the mail server's certificate does not hold")
	}
	return 0, false, errors.New("the conversation with the mail server broke off")
}

// errNoWay is the error of a server without usable security. It is not final: an operator may fix the server.
var errNoWay = errors.New("the mail server offers no TLS or no AUTH PLAIN")

// talk runs a whole SMTP session.
func (s *MailServer) talk(conn net.Conn, m *wire.Mail) error {
	secure := &tls.Config{ServerName: s.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}
	var c *smtp.Client
	switch s.security {
	case "smtps":
		c = smtp.NewClient(tls.Client(conn, secure))
	case "smtp+starttls":
		// NewClientStartTLS requires STARTTLS and discards what came before TLS.
		var err error
		if c, err = smtp.NewClientStartTLS(conn, secure); err != nil {
			return err
		}
	default:
		c = smtp.NewClient(conn)
	}
	defer c.Close()
	c.CommandTimeout, c.SubmissionTimeout = submissionWait, submissionWait
	if err := c.Hello(m.From[strings.LastIndexByte(m.From, '@')+1:]); err != nil {
		return err
	}
	if s.user != "" {
		if !c.SupportsAuth(sasl.Plain) {
			return errNoWay
		}
		if err := c.Auth(sasl.NewPlainClient("", s.user, s.password)); err != nil {
			return err
		}
	}
	if err := c.SendMail(m.From, []string{m.To}, bytes.NewReader(m.Message)); err != nil {
		return err
	}
	_ = c.Quit() // the server has accepted the mail already
	return nil
}

// A frugal is a connection whose reads fail after left bytes.
type frugal struct {
	net.Conn
	left int
}

func (f *frugal) Read(b []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := f.Conn.Read(b[:min(len(b), f.left)])
	f.left -= n
	return n, err
}
