package inbox

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"unicode/utf8"
)

// Bounds of one mail's structure, beyond MaxMail.
const (
	maxDepth  = 8   // parts within parts
	maxParts  = 64  // of all depths
	maxHeader = 998 // bytes of a header field that is shown
)

var errMalformed = errors.New("the mail is malformed")

// readMail reads what a mail says: its subject, and its first plain and its first HTML part. A part that
// cannot be read is left out; a mail of which nothing can be is an error.
func readMail(raw []byte) (Message, error) {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Message{}, errMalformed
	}
	r := reading{parts: maxParts, bytesLeft: MaxMail}
	r.part(part{m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), ""}, m.Body, 0)
	return Message{Kind: KindMail, Subject: header(m.Header.Get("Subject")), From: header(m.Header.Get("From")), Text: r.text, HTML: r.html}, nil
}

// header is a field's text, with the encoded words of RFC 2047 read.
func header(s string) string {
	if len(s) > maxHeader {
		s = s[:maxHeader]
	}
	if d, err := new(mime.WordDecoder).DecodeHeader(s); err == nil {
		s = d
	}
	return shown(s, false)
}

// shown makes s UTF-8 without control characters, line ends and tabs excepted where lines are wanted.
func shown(s string, lines bool) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(c rune) rune {
		switch {
		case lines && (c == '\n' || c == '\t'):
			return c
		case c < ' ' || c >= 0x7f && c < 0xa0:
			return -1
		}
		return c
	}, s)
}

// A reading is what is found of a mail so far, and how much more may be read.
type reading struct {
	text, html       string
	hasText, hasHTML bool
	parts, bytesLeft int
}

// A part is what a part's header says of it.
type part struct{ kind, encoding, disposition string }

func (r *reading) part(p part, body io.Reader, depth int) {
	if r.parts--; r.parts < 0 || depth > maxDepth {
		return
	}
	if d, _, err := mime.ParseMediaType(p.disposition); err == nil && d == "attachment" {
		return
	}
	kind, params, err := mime.ParseMediaType(p.kind)
	if err != nil {
		kind = "text/plain" // RFC 2045, section 5.2
	}
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		r.multipart(multipart.NewReader(body, params["boundary"]), depth)
	case kind == "text/plain" && !r.hasText:
		r.text, r.hasText = r.content(p.encoding, params["charset"], body)
	case kind == "text/html" && !r.hasHTML:
		r.html, r.hasHTML = r.content(p.encoding, params["charset"], body)
	}
}

func (r *reading) multipart(m *multipart.Reader, depth int) {
	for {
		// Not NextPart, which decodes quoted-printable and forgets to say so.
		p, err := m.NextRawPart()
		if err != nil || r.parts < 0 {
			return
		}
		r.part(part{p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p.Header.Get("Content-Disposition")}, p, depth+1)
	}
}

// content is a part's text. What is not UTF-8 is taken for Latin-1 when it says so.
func (r *reading) content(encoding, charset string, body io.Reader) (string, bool) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	b, err := io.ReadAll(io.LimitReader(body, int64(r.bytesLeft)))
	if err != nil && len(b) == 0 {
		return "", false
	}
	r.bytesLeft -= len(b)
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "windows-1252":
		if !utf8.Valid(b) {
			wide := make([]rune, len(b))
			for i, c := range b {
				wide[i] = rune(c)
			}
			return shown(string(wide), true), true
		}
	}
	return shown(string(b), true), true
}
