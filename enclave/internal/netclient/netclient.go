// Package netclient speaks to servers outside: HTTP/1.1 over TLS, submission of mail, text
// messages through an HTTP gateway, and the key sets of identity providers.
//
// The enclave has no network. It is handed a byte stream that the host dialed, and the
// host can cut, delay and forge it. So TLS ends here and is verified at the enclave's own
// time, against roots of the image and of the measured configuration. Everything that is
// read is bounded: one request a connection, one deadline over all of it, heads of 16 KiB,
// bodies of 256 KiB, no redirects followed.
//
// Net/http is not used: it would bring connection pools, proxies from the environment,
// HTTP/2 and lax readings into the enclave. What is taken here, net/http takes with the
// same meaning; the tests hold one against the other.
//
// Nothing here logs, and no text of an error repeats what the other side sent.
package netclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"time"
)

// Dial opens a byte stream to a name outside, which may lead anywhere: who dials is not
// trusted. host is a name in lower case or an IP address without brackets. Dial returns
// no later than ctx is done.
type Dial func(ctx context.Context, host string, port uint16) (net.Conn, error)

// Clock is the enclave's own time. After may fire late, never early.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Config is what a Client is handed; everything but Loopback is required.
type Config struct {
	Dial  Dial
	Clock Clock
	Rand  io.Reader
	Roots *x509.CertPool // that servers' chains must end in; see Roots
	// Loopback lets 127.0.0.1, ::1 and localhost, and only these, be reached without
	// TLS. It is for the simulator.
	Loopback bool
}

// A Client speaks to names outside. It holds no connection between calls and is safe for
// concurrent use.
type Client struct{ cfg Config }

// New refuses a configuration with a part missing: without roots crypto/tls would look for
// some of its own.
func New(cfg Config) (*Client, error) {
	if cfg.Dial == nil || cfg.Clock == nil || cfg.Rand == nil || cfg.Roots == nil {
		return nil, errors.New("netclient: dial, clock, randomness and roots are required")
	}
	return &Client{cfg}, nil
}

// A Kind is why something that was sent out did not come back well.
type Kind uint8

// The kinds of failure.
const (
	Refused   Kind = iota + 1 // nothing was sent: what was asked for is not allowed
	Away                      // no connection, or it ended before the answer did
	Late                      // the time was up
	Untrusted                 // the certificate does not hold for this name, time or these roots
	Garbled                   // the other side does not keep to the protocol
	TooLarge                  // the answer is beyond its bound
)

var kindTexts = [...]string{Refused: "refused", Away: "away", Late: "late", Untrusted: "untrusted", Garbled: "garbled", TooLarge: "too_large"}

// String is the kind as a label.
func (k Kind) String() string {
	if k >= Refused && int(k) < len(kindTexts) {
		return kindTexts[k]
	}
	return "unknown"
}

// An Error is a failure of what went out. Its text is ours alone; its cause may hold what
// the other side chose.
type Error struct {
	Kind  Kind
	text  string
	cause error
}

func (e *Error) Error() string { return "netclient: " + e.text }
func (e *Error) Unwrap() error { return e.cause }

// KindOf is the kind of a failure, 0 for an error that is not of this package.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

func fail(k Kind, text string) *Error { return &Error{Kind: k, text: text} }

func failBecause(k Kind, text string, cause error) *Error { return &Error{k, text, cause} }

var (
	errLate = errors.New("the time is up")
	errOver = errors.New("over")
)

// A line is one connection to a name outside. It is cut when its time is up or the
// caller's context is done.
type line struct {
	net.Conn // TLS once there is TLS
	raw      net.Conn
	ctx      context.Context
	over     context.CancelCauseFunc
	uncut    func() bool
}

// open dials. The caller must call close.
func (c *Client) open(ctx context.Context, to endpoint, wait time.Duration) (*line, error) {
	if wait <= 0 {
		wait = DefaultWait
	}
	l := &line{}
	l.ctx, l.over = context.WithCancelCause(ctx)
	up := c.cfg.Clock.After(min(wait, MaxWait))
	go func() {
		select {
		case <-up:
			l.over(errLate)
		case <-l.ctx.Done():
		}
	}()
	conn, err := c.cfg.Dial(l.ctx, to.host, to.port)
	if err != nil {
		err = l.explain(Away, "no connection", err)
		l.over(errOver)
		return nil, err
	}
	l.Conn, l.raw = conn, conn
	l.uncut = context.AfterFunc(l.ctx, func() { _ = conn.Close() })
	return l, nil
}

// close ends the connection without a TLS close notification, which could be made to wait.
func (l *line) close() {
	if l.uncut() {
		_ = l.raw.Close()
	}
	l.over(errOver)
}

// explain names why an exchange failed. That the time was up or the caller gave up
// explains whatever error that made; else an error of ours stays as it is.
func (l *line) explain(k Kind, text string, cause error) error {
	var own *Error
	if errors.As(cause, &own) {
		k, text, cause = own.Kind, own.text, own.cause
	}
	switch why := context.Cause(l.ctx); {
	case errors.Is(why, errLate), errors.Is(why, context.DeadlineExceeded):
		return failBecause(Late, "no whole answer in time", why)
	case why != nil:
		return failBecause(Away, "given up", why)
	}
	return failBecause(k, text, cause)
}

// suites are those of TLS 1.2 with forward secrecy and authenticated encryption. TLS 1.3
// has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// secure starts TLS and verifies that the other end is host. It keeps no
// session, so nothing of one exchange shows in the next.
func (c *Client) secure(l *line, host string, protocols ...string) error {
	t := tls.Client(l.raw, &tls.Config{
		ServerName: host, RootCAs: c.cfg.Roots, NextProtos: protocols, MinVersion: tls.VersionTLS12, CipherSuites: suites,
		Time: c.cfg.Clock.Now, Rand: c.cfg.Rand,
	})
	if err := t.Handshake(); err != nil {
		var untrusted *tls.CertificateVerificationError
		switch {
		case errors.As(err, &untrusted): // however long closing then took
			return failBecause(Untrusted, "the server's certificate does not hold", err)
		case isAlert(err), !isConn(err):
			return l.explain(Garbled, "no agreement on TLS", err)
		}
		return l.explain(Away, "the connection ended while TLS began", err)
	}
	l.Conn = t
	return nil
}

// isAlert tells whether the other side ended TLS with a word of its own.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// isConn tells whether the stream below failed.
func isConn(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed)
}
