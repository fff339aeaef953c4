package netclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/secret"
)

// A Result is what became of a message.
type Result uint8

// The results. A message that is tried again can arrive twice.
const (
	Delivered Result = iota + 1 // the next server has taken it
	Temporary                   // another try may mend it; the host may have caused it
	Permanent                   // trying again gives the same
)

var resultTexts = [...]string{Delivered: "delivered", Temporary: "temporary", Permanent: "permanent"}

// String is the result as a label.
func (r Result) String() string {
	if r >= Delivered && int(r) < len(resultTexts) {
		return resultTexts[r]
	}
	return "unknown"
}

// An Outcome is what became of a message, and why.
type Outcome struct {
	Result Result
	Code   int    // what the server answered last: an SMTP code or an HTTP status; 0 for none
	Said   string // the words of that, of a mail server that TLS has proven; they may repeat the mail
	ID     string // a text message's id at the gateway
	Err    error  // nil exactly when Delivered
}

// failureOutcome is the outcome of a failure: what is not allowed is never allowed, all
// else may go well another time.
func failureOutcome(err error) Outcome {
	o := Outcome{Result: Temporary, Err: err}
	if KindOf(err) == Refused {
		o.Result = Permanent
	}
	return o
}

// A Security is how a conversation with a mail server is protected.
type Security uint8

// The ways. There is none that does without when the server offers nothing.
const (
	StartTLS Security = iota // TLS begins on request; a server that does not offer it gets no mail
	TLS                      // TLS from the first byte
	Plain                    // none; loopback only, and where the Client allows it
)

// A MailServer is where mail is handed in, and as whom.
type MailServer struct {
	Host     string
	Port     uint16
	Security Security
	// User and Password log in, by PLAIN where the server offers it, else by
	// LOGIN. With an empty User nobody logs in.
	User     string
	Password secret.Secret
}

// A Mail is one message to one recipient, and the envelope that it goes in.
type Mail struct {
	From, To string // addresses of the everyday form: ASCII, no quoting
	// Message is that of RFC 5322 and MIME: ASCII, lines of at most 998 bytes that end in
	// CR LF. Submit doubles points at the beginning of a line.
	Message []byte
}

// Submit hands one mail to a server. It returns within mailWait of dialing.
//
// Net/smtp is not used: it reads replies without bound, goes back to HELO when EHLO is
// refused, and drops what was slipped in behind the answer to STARTTLS, which is refused
// here.
func (c *Client) Submit(ctx context.Context, s MailServer, m Mail) Outcome {
	switch {
	case !isAddress(m.From) || !isAddress(m.To):
		return failureOutcome(fail(Refused, "the mail has a malformed address"))
	case !isMessage(m.Message):
		return failureOutcome(fail(Refused, "the mail is empty, too large, or not in lines of ASCII that end in CR LF"))
	}
	if err := s.checkAllowed(c.cfg.Loopback); err != nil {
		return failureOutcome(err)
	}
	host, name := strings.ToLower(s.Host), m.From[strings.LastIndexByte(m.From, '@')+1:] // we greet as the sender's domain
	l, err := c.open(ctx, endpoint{host: host, port: s.Port}, mailWait)
	if err != nil {
		return failureOutcome(err)
	}
	defer l.close()
	if s.Security == TLS {
		if err := c.secure(l, host); err != nil {
			return failureOutcome(err)
		}
	}
	t := &talk{line: l, replyBytesLeft: maxReplies, sure: s.Security != StartTLS}
	t.in = bufio.NewReaderSize(t, 1<<10)
	if s.Security == StartTLS {
		err = t.startTLS(c, host, name)
	} else {
		err = t.greet(name)
	}
	if err == nil {
		err = t.logIn(s.User, s.Password)
	}
	if err == nil {
		err = t.send(&m)
	}
	var said *refusal
	switch {
	case err == nil:
		return Outcome{Result: Delivered, Code: t.code, Said: t.said()}
	case errors.As(err, &said) && t.sure && said.final:
		return Outcome{Result: Permanent, Code: t.code, Err: said, Said: t.said()}
	case said != nil: // before TLS, it is the word of whoever holds the stream
		return Outcome{Result: Temporary, Code: t.code, Err: said, Said: t.said()}
	}
	return Outcome{Result: Temporary, Code: t.code, Err: l.explain(Away, "the connection ended in the middle of a mail", err)}
}

// isAddress takes the addresses that a user of the interface may have. No character that
// means something to SMTP is among them.
func isAddress(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if len(s) > maxAddress || at < 1 || at > maxLocal {
		return false
	}
	for atom := range strings.SplitSeq(s[:at], ".") {
		if atom == "" || !isAlnumOr("!#$%&'*+-/=?^_`{|}~", atom) {
			return false
		}
	}
	domain := strings.ToLower(s[at+1:])
	return IsHost(domain) && publicName(domain)
}

// isMessage refuses a line end that is not CR LF: it could end a message for one server
// and not for another.
func isMessage(b []byte) bool {
	if len(b) == 0 || len(b) > MaxMail {
		return false
	}
	for line := range bytes.Lines(b) {
		text, ended := bytes.CutSuffix(line, []byte("\r\n"))
		if !ended || len(text) > maxMailLine || bytes.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c >= 0x7f }) {
			return false
		}
	}
	return true
}

// A refusal is the no of a mail server or a gateway.
type refusal struct {
	text  string
	final bool
}

func (r *refusal) Error() string { return "netclient: the other side refused " + r.text }

// A talk is a conversation with a mail server.
type talk struct {
	line           *line
	in             *bufio.Reader
	replyBytesLeft int      // bytes that replies may still have
	sure           bool     // the other end is the server
	code           int      // of the last reply
	lines          []string // likewise, without the code
	extensions     []string // of the last greeting
}

// said is the last reply, code and all, in one line.
func (t *talk) said() string {
	if !t.sure {
		return ""
	}
	return strconv.Itoa(t.code) + " " + strings.Join(t.lines, " ")
}

// Read reads from the connection as it is now, within the bound of all replies.
func (t *talk) Read(p []byte) (int, error) {
	if t.replyBytesLeft == 0 {
		return 0, fail(TooLarge, "the mail server says too much")
	}
	n, err := t.line.Read(p[:min(len(p), t.replyBytesLeft)])
	t.replyBytesLeft -= n
	return n, err
}

// startTLS greets, demands TLS and greets again: nothing said before TLS counts.
func (t *talk) startTLS(c *Client, host, name string) error {
	if err := t.greet(name); err != nil {
		return err
	}
	if !t.offers("STARTTLS", "") {
		return &refusal{"TLS", false}
	}
	if err := t.ask("TLS", []byte("STARTTLS"), 220); err != nil {
		return err
	}
	if t.in.Buffered() > 0 {
		return fail(Garbled, "something was slipped in before TLS")
	}
	if err := c.secure(t.line, host); err != nil {
		return err
	}
	t.sure = true
	return t.hello(name)
}

// greet waits for the server's first words and answers them.
func (t *talk) greet(name string) error {
	if err := t.reply("the connection", 220); err != nil {
		return err
	}
	return t.hello(name)
}

func (t *talk) hello(name string) error {
	if err := t.ask("the greeting", []byte("EHLO "+name), 250); err != nil {
		return err
	}
	t.extensions = t.lines[1:]
	return nil
}

// offers tells whether the server has an extension, and this parameter of it unless that
// is empty.
func (t *talk) offers(name, parameter string) bool {
	return slices.ContainsFunc(t.extensions, func(extension string) bool {
		words := strings.Fields(strings.ToUpper(extension))
		return len(words) > 0 && words[0] == name && (parameter == "" || slices.Contains(words[1:], parameter))
	})
}

// logIn sends the password, and only to the server: TLS has said so, or it is this
// machine.
func (t *talk) logIn(user string, password secret.Secret) error {
	if user == "" {
		return nil
	}
	if !t.sure {
		return fail(Refused, "no password goes out without TLS")
	}
	// The line has room for its end, so that nothing copies it.
	line := func(verb, before string) (line []byte) {
		password.Use(func(b []byte) {
			plain := slices.Concat([]byte(before), b)
			line = make([]byte, 0, len(verb)+base64.StdEncoding.EncodedLen(len(plain))+len("\r\n"))
			line = base64.StdEncoding.AppendEncode(append(line, verb...), plain)
			clear(plain)
		})
		return line
	}
	switch {
	case t.offers("AUTH", "PLAIN"):
		return t.ask("the password", line("AUTH PLAIN ", "\x00"+user+"\x00"), 235)
	case t.offers("AUTH", "LOGIN"):
		if err := t.ask("the log-in", []byte("AUTH LOGIN"), 334); err != nil {
			return err
		}
		if err := t.ask("the user", base64.StdEncoding.AppendEncode(nil, []byte(user)), 334); err != nil {
			return err
		}
		return t.ask("the password", line("", ""), 235)
	}
	return &refusal{"every way to log in", true}
}

func (t *talk) send(m *Mail) error {
	for _, step := range []struct {
		what  string
		out   []byte
		codes []int
	}{
		{"the sender", []byte("MAIL FROM:<" + m.From + ">"), []int{250}},
		{"the recipient", []byte("RCPT TO:<" + m.To + ">"), []int{250, 251}},
		{"the mail", []byte("DATA"), []int{354}},
		{"the mail", dotStuff(m.Message), []int{250}},
	} {
		if err := t.ask(step.what, step.out, step.codes...); err != nil {
			return err
		}
	}
	// It is delivered. QUIT is polite, but its answer is not waited for.
	_, _ = t.line.Write([]byte("QUIT\r\n"))
	return nil
}

// dotStuff doubles the points that begin a line, and adds the one that ends the message.
// Text ends in CR LF.
func dotStuff(text []byte) []byte {
	out := make([]byte, 0, len(text)+bytes.Count(text, []byte("\n."))+len("..\r\n"))
	for line := range bytes.Lines(text) {
		if line[0] == '.' {
			out = append(out, '.')
		}
		out = append(out, line...)
	}
	return append(out, '.')
}

// ask sends a line, or a message, wipes it, and wants a reply with one of the codes. what
// names it in a refusal.
func (t *talk) ask(what string, out []byte, codes ...int) error {
	if t.in.Buffered() > 0 {
		return fail(Garbled, "the mail server answers what was not asked")
	}
	whole := append(out, "\r\n"...)
	_, err := t.line.Write(whole)
	clear(out)
	clear(whole)
	if err != nil {
		return err
	}
	return t.reply(what, codes...)
}

// reply reads one reply, of one or more lines with one code.
func (t *talk) reply(what string, codes ...int) error {
	var lines []string
	for code := 0; len(lines) < maxReplyLines; {
		l, err := (&reader{in: t.in}).line(maxReplyLine)
		if err != nil {
			return err
		}
		if len(l) < 3 || l[0] < '2' || l[0] > '5' || l[1] < '0' || l[1] > '5' || !isDigit(l[2]) || len(l) > 3 && l[3] != ' ' && l[3] != '-' {
			return fail(Garbled, "the mail server gave no reply")
		}
		this := int(l[0]-'0')*100 + int(l[1]-'0')*10 + int(l[2]-'0')
		if code != 0 && this != code {
			return fail(Garbled, "the mail server changed its mind within a reply")
		}
		code = this
		lines = append(lines, l[min(len(l), 4):])
		if len(l) > 3 && l[3] == '-' {
			continue
		}
		t.code, t.lines = code, lines
		switch {
		case slices.Contains(codes, code):
			return nil
		case code >= 400:
			return &refusal{what, code >= 500}
		}
		return fail(Garbled, "the mail server gave an answer that does not fit")
	}
	return fail(TooLarge, "the mail server says too much")
}
