package login

import (
	"bytes"
	"encoding/base64"
	"errors"
	"mime/quotedprintable"
	"strings"
	"time"
	"unicode/utf8"
)

// A Mail is one message, to be sent as Bytes writes it.
type Mail struct {
	From Sender
	To   string
	Content
	ID     string // a UUID: of the Message-ID and the boundary
	SentMs uint64
}

// Bytes is the mail in RFC 5322 and MIME: a plain part and one in HTML, both quoted-printable,
// lines of at most 76 characters that end in CR LF. Lines that begin with a dot are not
// escaped. Addresses must have the everyday form, and nothing may end a header's line.
func (m *Mail) Bytes() ([]byte, error) {
	if !isEmail(m.From.Address) || !isEmail(m.To) || m.From.ReplyTo != "" && !isEmail(m.From.ReplyTo) ||
		!fitsHeader(m.From.Name) || !utf8.ValidString(m.Subject) || strings.ContainsFunc(m.Subject, func(r rune) bool { return r < ' ' || r == 0x7f }) ||
		len(m.ID) != 36 || strings.Trim(m.ID, "0123456789abcdef-") != "" || m.SentMs > 1<<48 {
		return nil, errors.New("a mail whose header cannot be written")
	}
	domain := m.From.Address[strings.LastIndexByte(m.From.Address, '@')+1:]
	boundary := "=_" + m.ID // quoted-printable never has =_
	var b bytes.Buffer
	line := func(texts ...string) {
		for _, t := range texts {
			b.WriteString(t)
		}
		b.WriteString("\r\n")
	}
	line("From: ", phrase(m.From.Name), "\r\n <", m.From.Address, ">")
	line("To: <", m.To, ">")
	if m.From.ReplyTo != "" {
		line("Reply-To: <", m.From.ReplyTo, ">")
	}
	line("Subject: ", encodeSubject(m.Subject))
	line("Date: ", time.UnixMilli(int64(m.SentMs)).UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000"))
	line("Message-ID: <", m.ID, "@", domain, ">")
	line("Auto-Submitted: auto-generated")
	line("MIME-Version: 1.0")
	line("Content-Type: multipart/alternative;\r\n boundary=\"", boundary, "\"")
	for _, p := range []struct{ kind, text string }{{"plain", m.Text}, {"html", m.HTML}} {
		line()
		line("--", boundary)
		line("Content-Type: text/", p.kind, "; charset=utf-8")
		line("Content-Transfer-Encoding: quoted-printable")
		line()
		w := quotedprintable.NewWriter(&b)
		if _, err := w.Write([]byte(p.text)); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
	}
	line()
	line("--", boundary, "--")
	return b.Bytes(), nil
}

// phrase writes a name in front of an address: in quotes, or encoded if it is long or not ASCII.
func phrase(s string) string {
	if !isPlain(s) {
		return encodedWords(s)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func encodeSubject(s string) string {
	if !isPlain(s) {
		return encodedWords(s)
	}
	return s
}

func isPlain(s string) bool {
	return len(s) <= 60 && !strings.Contains(s, "=?") && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// encodedWords writes words of RFC 2047, each with whole characters, at most 75 letters long and
// on a line of its own.
func encodedWords(s string) string {
	const most = 45 // bytes in a word
	var b strings.Builder
	for start := 0; start < len(s); {
		end := start
		for end < len(s) {
			_, n := utf8.DecodeRuneInString(s[end:])
			if end+n-start > most {
				break
			}
			end += n
		}
		if start > 0 {
			b.WriteString("\r\n ")
		}
		b.WriteString("=?utf-8?B?" + base64.StdEncoding.EncodeToString([]byte(s[start:end])) + "?=")
		start = end
	}
	return b.String()
}
