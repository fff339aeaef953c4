package inbox

import (
	"context"
	"io"
	"log"
	"net"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"
)

// Bounds of conversations with senders of mail.
const (
	maxSessions   = 32 // at once, each holding at most one mail
	maxRecipients = 16
	maxLine       = 2000 // bytes, twice what RFC 5321 allows
	mailWait      = 30 * time.Second
)

var (
	errBusy    = &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "too many conversations at once"}
	errAddress = &smtp.SMTPError{Code: 501, EnhancedCode: smtp.EnhancedCode{5, 1, 3}, Message: "the address has control characters"}
	errUnread  = &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "the mail is malformed"}
)

// ServeMail takes mail for anybody from a listener until ctx ends, when
// conversations on their way are cut off.
func (b *Box) ServeMail(ctx context.Context, l net.Listener) error {
	s := mailServer(b)
	defer context.AfterFunc(ctx, func() {
		_ = s.Close()
		_ = l.Close() // Serve may not have it yet
	})()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func mailServer(b *Box) *smtp.Server {
	open := new(atomic.Int32)
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		if open.Add(1) > maxSessions {
			open.Add(-1)
			return nil, errBusy
		}
		return &session{box: b, open: open}, nil
	}))
	s.Domain = "localhost"
	s.MaxMessageBytes, s.MaxLineLength, s.MaxRecipients = MaxMail, maxLine, maxRecipients
	s.ReadTimeout, s.WriteTimeout = mailWait, mailWait
	// Senders that break off are nobody's concern.
	s.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

// A session is one conversation.
type session struct {
	box  *Box
	open *atomic.Int32
	from string
	to   []string
}

func (s *session) Reset()        { s.from, s.to = "", nil }
func (s *session) Logout() error { s.open.Add(-1); return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if shown(to, false) != to {
		return errAddress
	}
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := readMail(raw)
	if err != nil {
		return errUnread
	}
	if m.From == "" {
		m.From = shown(s.from, false)
	}
	for _, to := range s.to {
		m.To = to
		s.box.Add(m)
	}
	return nil
}
