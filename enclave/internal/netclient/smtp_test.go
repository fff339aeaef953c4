package netclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/secret/secrettest"
)

// A postbox is a mail server: small, and as strict as the tests want it. answers
// replaces what it says to a command, by the command's first word; an answer
// begins with "!" to close the connection behind it.
type postbox struct {
	tls      *tls.Config // for STARTTLS, offered when it is there
	secured  bool        // TLS has begun
	auth     string      // what is offered behind AUTH
	greeting string
	answers  map[string]string

	mu       sync.Mutex
	commands []string
	messages []string
	users    []string // user:password
}

func (p *postbox) serve(c net.Conn) {
	in := textproto.NewReader(bufio.NewReader(c))
	say := func(text string) bool {
		text, over := strings.CutPrefix(text, "!")
		_, err := io.WriteString(c, text)
		if over {
			_ = c.Close()
		}
		return err == nil && !over
	}
	greeting := p.greeting
	if greeting == "" {
		greeting = "220-mail.example.com\r\n220 ready\r\n"
	}
	if !say(greeting) {
		return
	}
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		p.note(&p.commands, line)
		verb, rest, _ := strings.Cut(line, " ")
		answer, special := p.answers[verb]
		if special {
			if !say(answer) {
				return
			}
			continue
		}
		switch verb {
		case "EHLO":
			answer = "250-mail.example.com greets\r\n250-PIPELINING\r\n"
			if p.tls != nil && !p.secured {
				answer += "250-STARTTLS\r\n"
			}
			if p.auth != "" {
				answer += "250-AUTH " + p.auth + "\r\n"
			}
			answer += "250 SIZE 10000000\r\n"
		case "STARTTLS":
			if !say("220 go\r\n") {
				return
			}
			t := tls.Server(c, p.tls)
			if t.Handshake() != nil {
				return
			}
			p.secured, c, in = true, t, textproto.NewReader(bufio.NewReader(t))
			continue
		case "AUTH":
			if kind, proof, _ := strings.Cut(rest, " "); kind == "PLAIN" {
				p.note(&p.users, strings.ReplaceAll(strings.TrimPrefix(decode(proof), "\x00"), "\x00", ":"))
			} else {
				_ = say("334 VXNlcm5hbWU6\r\n")
				user, _ := in.ReadLine()
				if after, there := p.answers["user"]; there {
					if !say(after) {
						return
					}
					continue
				}
				_ = say("334 UGFzc3dvcmQ6\r\n")
				password, _ := in.ReadLine()
				p.note(&p.users, decode(user)+":"+decode(password))
			}
			if answer = "235 2.7.0 welcome\r\n"; p.answers["password"] != "" {
				answer = p.answers["password"]
			}
		case "MAIL", "RCPT", "RSET", "NOOP":
			answer = "250 2.1.0 fine\r\n"
		case "DATA":
			if !say("354 go on\r\n") {
				return
			}
			text, err := in.ReadDotBytes()
			if err != nil {
				return
			}
			if answer = p.answers["."]; answer == "" {
				p.note(&p.messages, string(text))
				answer = "250 2.0.0 queued\r\n"
			}
		case "QUIT":
			_ = say("!221 bye\r\n")
			return
		default:
			answer = "500 what\r\n"
		}
		if !say(answer) {
			return
		}
	}
}

func (p *postbox) note(list *[]string, s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, s)
}

func decode(s string) string {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "undecodable " + s
	}
	return string(b)
}

const message = "From: <from@example.com>\r\nSubject: CANARY\r\n\r\n.begins with a point\r\n..two\r\n.\r\nlast\r\n"

var letter = netclient.Mail{From: "from@example.com", To: "to@example.com", Message: []byte(message)}

func mailServer(s netclient.Security) netclient.MailServer {
	return netclient.MailServer{Host: host, Port: 587, Security: s, User: "user", Password: secrettest.Of([]byte("pass word"))}
}

func TestSubmit(t *testing.T) {
	for _, c := range []struct {
		name     string
		security netclient.Security
		box      *postbox
		change   func(*netclient.MailServer)
		users    []string
		commands string
	}{
		{"STARTTLS, PLAIN", netclient.StartTLS, &postbox{tls: serverTLS(valid), auth: "LOGIN PLAIN"}, nil, []string{"user:pass word"},
			"EHLO STARTTLS EHLO AUTH MAIL RCPT DATA QUIT"},
		{"STARTTLS, LOGIN", netclient.StartTLS, &postbox{tls: serverTLS(valid), auth: "XOAUTH2 login"}, nil, []string{"user:pass word"},
			"EHLO STARTTLS EHLO AUTH MAIL RCPT DATA QUIT"},
		{"TLS", netclient.TLS, &postbox{auth: "PLAIN"}, nil, []string{"user:pass word"}, "EHLO AUTH MAIL RCPT DATA QUIT"},
		{"TLS, nobody", netclient.TLS, &postbox{auth: "PLAIN"}, func(s *netclient.MailServer) { s.User = "" }, nil, "EHLO MAIL RCPT DATA QUIT"},
		{"plain on loopback", netclient.Plain, &postbox{auth: "PLAIN"}, func(s *netclient.MailServer) { s.Host = "127.0.0.1" }, []string{"user:pass word"},
			"EHLO AUTH MAIL RCPT DATA QUIT"},
		{"forwarded", netclient.TLS, &postbox{auth: "PLAIN", answers: map[string]string{"RCPT": "251 will forward\r\n"}}, nil, []string{"user:pass word"},
			"EHLO AUTH MAIL RCPT DATA QUIT"},
		{"replies of many lines", netclient.TLS, &postbox{auth: "PLAIN", greeting: strings.Repeat("220-\r\n", 60) + "220\r\n", answers: map[string]string{"MAIL": "250-a\r\n250-\xc3\xa9\r\n250\r\n"}}, nil,
			[]string{"user:pass word"}, "EHLO AUTH MAIL RCPT DATA QUIT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serve := c.box.serve
				if c.security == netclient.TLS {
					serve = trusted(serve)
				}
				s := mailServer(c.security)
				if c.change != nil {
					c.change(&s)
				}
				password := secrettest.Bytes(s.Password)
				o := client(t, served(serve), onLoopback).Submit(t.Context(), s, letter)
				gone(t)
				if o.Result != netclient.Delivered || o.Err != nil || o.Code != 250 {
					t.Errorf("%+v", o)
				}
				if want := strings.ReplaceAll(message, "\r\n", "\n"); !slices.Equal(c.box.messages, []string{want}) {
					t.Errorf("messages %q, want %q", c.box.messages, want)
				}
				if !slices.Equal(c.box.users, c.users) {
					t.Errorf("users %q", c.box.users)
				}
				var verbs []string
				for _, l := range c.box.commands {
					verb, _, _ := strings.Cut(l, " ")
					verbs = append(verbs, verb)
				}
				if got := strings.Join(verbs, " "); got != c.commands {
					t.Errorf("commands %s, want %s", got, c.commands)
				}
				if c.box.commands[0] != "EHLO example.com" || !slices.Contains(c.box.commands, "MAIL FROM:<from@example.com>") || !slices.Contains(c.box.commands, "RCPT TO:<to@example.com>") {
					t.Errorf("commands %q", c.box.commands)
				}
				if string(letter.Message) != message || !bytes.Equal(secrettest.Bytes(s.Password), password) {
					t.Error("what was handed in was changed")
				}
			})
		})
	}
}

// Net/smtp hands the same mail to the same server as we do.
func TestAgreesWithNetSMTP(t *testing.T) {
	settled(t)
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	box := &postbox{auth: "PLAIN"}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go box.serve(c)
		}
	}()
	texts := []string{message, "\r\n", ".\r\n", "..\r\n", "a\r\n.\r\n", "\r\n.\r\n\r\n..x\r\n", strings.Repeat("."+strings.Repeat("x", 997)+"\r\n", 100), "To: x\r\n\r\n\t.\r\n." + "\r\n"}
	for _, text := range texts {
		o := client(t, to(l.Addr().String()), onLoopback).Submit(t.Context(), netclient.MailServer{Host: "127.0.0.1", Port: 25, Security: netclient.Plain, User: "user", Password: secrettest.Of([]byte("pass"))},
			netclient.Mail{From: "a@example.com", To: "b@example.com", Message: []byte(text)})
		if o.Result != netclient.Delivered {
			t.Fatalf("%.40q: %+v", text, o)
		}
		if err := smtp.SendMail(l.Addr().String(), smtp.PlainAuth("", "user", "pass", "127.0.0.1"), "a@example.com", []string{"b@example.com"}, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	for i := 0; i < len(box.messages); i += 2 {
		if box.messages[i] != box.messages[i+1] {
			t.Errorf("we handed over %q, net/smtp %q", box.messages[i], box.messages[i+1])
		}
	}
	if len(box.messages) != 2*len(texts) || slices.ContainsFunc(box.users, func(u string) bool { return u != "user:pass" }) {
		t.Errorf("%d messages, users %q", len(box.messages), box.users)
	}
}

// What servers may answer, and worse.
func TestServersThatRefuse(t *testing.T) {
	answers := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	const (
		temporary = netclient.Temporary
		permanent = netclient.Permanent
	)
	endlessReply := strings.Repeat("250-x\r\n", 200)
	for _, c := range []struct {
		name     string
		security netclient.Security
		box      *postbox
		result   netclient.Result
		code     int
		kind     netclient.Kind // 0 for a server's own refusal
	}{
		{"unknown recipient", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("RCPT", "550 5.1.1 CANARY\r\n")}, permanent, 550, 0},
		{"unknown recipient, more lines", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("RCPT", "550-5.1.1 a\r\n550 b\r\n")}, permanent, 550, 0},
		{"grey list", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("RCPT", "451 later\r\n")}, temporary, 451, 0},
		{"full", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("MAIL", "452 full\r\n")}, temporary, 452, 0},
		{"sender refused", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("MAIL", "553 no\r\n")}, permanent, 553, 0},
		{"no DATA", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("DATA", "554 no\r\n")}, permanent, 554, 0},
		{"message refused", netclient.TLS, &postbox{auth: "PLAIN", answers: answers(".", "554 spam\r\n")}, permanent, 554, 0},
		{"message later", netclient.TLS, &postbox{auth: "PLAIN", answers: answers(".", "421 later\r\n")}, temporary, 421, 0},
		{"closing", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("MAIL", "!421 closing\r\n")}, temporary, 421, 0},
		{"busy", netclient.TLS, &postbox{greeting: "421 busy\r\n"}, temporary, 421, 0},
		{"unwelcome", netclient.TLS, &postbox{greeting: "554 unwelcome\r\n"}, permanent, 554, 0},
		{"no EHLO", netclient.TLS, &postbox{answers: answers("EHLO", "502 what\r\n")}, permanent, 502, 0},
		{"wrong password", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("password", "535 5.7.8 no\r\n")}, permanent, 535, 0},
		{"wrong password, LOGIN", netclient.TLS, &postbox{auth: "LOGIN", answers: answers("password", "535 5.7.8 no\r\n")}, permanent, 535, 0},
		{"wrong user, LOGIN", netclient.TLS, &postbox{auth: "LOGIN", answers: answers("user", "535 5.7.8 no\r\n")}, permanent, 535, 0},
		{"password checked later", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("password", "454 later\r\n")}, temporary, 454, 0},
		{"PLAIN wants to go on", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("password", "334 \r\n")}, temporary, 334, netclient.Garbled},
		{"no way to log in", netclient.TLS, &postbox{auth: "CRAM-MD5 XPLAIN"}, permanent, 250, 0},
		{"no AUTH at all", netclient.TLS, &postbox{}, permanent, 250, 0},
		{"fits nothing", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("MAIL", "354 go on\r\n")}, temporary, 354, netclient.Garbled},
		{"DATA is done already", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("DATA", "250 fine\r\n")}, temporary, 250, netclient.Garbled},

		// Before TLS it is the word of whoever holds the stream.
		{"no STARTTLS", netclient.StartTLS, &postbox{auth: "PLAIN"}, temporary, 250, 0},
		{"STARTTLS refused", netclient.StartTLS, &postbox{tls: serverTLS(valid), auth: "PLAIN", answers: answers("STARTTLS", "554 no\r\n")}, temporary, 554, 0},
		{"unwelcome before TLS", netclient.StartTLS, &postbox{greeting: "554 unwelcome\r\n"}, temporary, 554, 0},
		{"slipped in before TLS", netclient.StartTLS, &postbox{tls: serverTLS(valid), answers: answers("STARTTLS", "220 go\r\n250 evil.example.com\r\n")}, temporary, 220, netclient.Garbled},
		{"another certificate", netclient.StartTLS, &postbox{tls: serverTLS(unrelated.issue(nil, host)), auth: "PLAIN"}, temporary, 220, netclient.Untrusted},
		{"another name", netclient.StartTLS, &postbox{tls: serverTLS(root.issue(nil, "evil.example.com")), auth: "PLAIN"}, temporary, 220, netclient.Untrusted},
		{"STARTTLS, then no TLS", netclient.StartTLS, &postbox{tls: serverTLS(valid), answers: answers("STARTTLS", "!220 go\r\n")}, temporary, 220, netclient.Away},

		// What is no reply.
		{"closed", netclient.TLS, &postbox{greeting: "!"}, temporary, 0, netclient.Away},
		{"closed in the middle", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("RCPT", "!25")}, temporary, 250, netclient.Away},
		{"closed after the message", netclient.TLS, &postbox{auth: "PLAIN", answers: answers(".", "!")}, temporary, 354, netclient.Away},
		{"HTTP", netclient.TLS, &postbox{greeting: "HTTP/1.1 400 Bad Request\r\n\r\n"}, temporary, 0, netclient.Garbled},
		{"SSH", netclient.TLS, &postbox{greeting: "SSH-2.0-OpenSSH_9.2\r\n"}, temporary, 0, netclient.Garbled},
		{"no CR", netclient.TLS, &postbox{greeting: "220 ready\n220 ready\r\n"}, temporary, 0, netclient.Garbled},
		{"CR alone", netclient.TLS, &postbox{greeting: "220 ready\r220 ready\r\n"}, temporary, 0, netclient.Garbled},
		{"NUL", netclient.TLS, &postbox{greeting: "220 rea\x00dy\r\n"}, temporary, 0, netclient.Garbled},
		{"no space", netclient.TLS, &postbox{greeting: "220ready\r\n"}, temporary, 0, netclient.Garbled},
		{"two digits", netclient.TLS, &postbox{greeting: "22 ready\r\n"}, temporary, 0, netclient.Garbled},
		{"a code that there is not", netclient.TLS, &postbox{greeting: "600 ready\r\n"}, temporary, 0, netclient.Garbled},
		{"a preliminary code", netclient.TLS, &postbox{greeting: "120 wait\r\n220 ready\r\n"}, temporary, 0, netclient.Garbled},
		{"letters", netclient.TLS, &postbox{greeting: "2x0 ready\r\n"}, temporary, 0, netclient.Garbled},
		{"two codes in a reply", netclient.TLS, &postbox{greeting: "220-a\r\n250 b\r\n"}, temporary, 0, netclient.Garbled},
		{"an empty line", netclient.TLS, &postbox{greeting: "\r\n"}, temporary, 0, netclient.Garbled},
		{"two replies at once", netclient.TLS, &postbox{greeting: "220 a\r\n250 b\r\n"}, temporary, 220, netclient.Garbled},
		{"answers what was not asked", netclient.TLS, &postbox{auth: "PLAIN", answers: answers("MAIL", "250 a\r\n250 b\r\n")}, temporary, 250, netclient.Garbled},
		{"a long line", netclient.TLS, &postbox{greeting: "220 " + strings.Repeat("x", 2000) + "\r\n"}, temporary, 0, netclient.TooLarge},
		{"an endless reply", netclient.TLS, &postbox{answers: answers("EHLO", endlessReply)}, temporary, 220, netclient.TooLarge},
		{"much in each line", netclient.TLS, &postbox{answers: answers("EHLO", strings.Repeat("250-"+strings.Repeat("x", 900)+"\r\n", 90))}, temporary, 220, netclient.TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serve := c.box.serve
				if c.security == netclient.TLS {
					serve = trusted(serve)
				}
				d := &counted{dial: served(serve)}
				o := client(t, d.Dial).Submit(t.Context(), mailServer(c.security), letter)
				gone(t)
				if o.Result != c.result || o.Code != c.code || o.Err == nil || strings.Contains(o.Err.Error(), "CANARY") {
					t.Errorf("%s %d %v", o.Result, o.Code, o.Err)
				}
				if c.kind != 0 {
					kind(t, o.Err, c.kind)
				} else if netclient.KindOf(o.Err) != 0 {
					t.Errorf("not the server's refusal: %v", o.Err)
				}
				if len(c.box.messages) > 0 {
					t.Errorf("messages %q", c.box.messages)
				}
				if len(c.box.users) > 0 && c.security == netclient.StartTLS && !c.box.secured {
					t.Errorf("the password went out without TLS: %q", c.box.users)
				}
				if n := d.read.Load(); n > 96<<10 {
					t.Errorf("%d bytes were read", n)
				}
			})
		})
	}
}

// Servers that never come to an end.
func TestEndlessMailServers(t *testing.T) {
	forever := func(begin, more string, pause time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, err := io.WriteString(c, begin)
			for err == nil {
				time.Sleep(pause)
				_, err = io.WriteString(c, more)
			}
		}
	}
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		kind  netclient.Kind
	}{
		{"silence", func(c net.Conn) { time.Sleep(time.Hour) }, netclient.Late},
		{"silence in TLS", trusted(func(c net.Conn) { time.Sleep(time.Hour) }), netclient.Late},
		{"dripping greeting", trusted(forever("220", "-", time.Second)), netclient.Late},
		{"dripping lines", trusted(forever("", "220-x\r\n", time.Second)), netclient.Late},
		{"endless greeting", trusted(forever("220-", "x", 0)), netclient.TooLarge},
		{"endless lines", trusted(forever("", "220-x\r\n", 0)), netclient.TooLarge},
		{"endless large lines", trusted(forever("", "220-"+strings.Repeat("x", 900)+"\r\n", 0)), netclient.TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				d := &counted{dial: served(c.serve)}
				o := client(t, d.Dial).Submit(t.Context(), mailServer(netclient.TLS), letter)
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
				gone(t)
				kind(t, o.Err, c.kind)
				if o.Result != netclient.Temporary {
					t.Errorf("%+v", o)
				}
				if n := d.read.Load(); n > 128<<10 {
					t.Errorf("%d bytes were read", n)
				}
			})
		})
	}
}

func TestUnreachableMailServer(t *testing.T) {
	o := client(t, func(context.Context, string, uint16) (net.Conn, error) { return nil, io.EOF }).Submit(t.Context(), mailServer(netclient.TLS), letter)
	if o.Result != netclient.Temporary || o.Code != 0 {
		t.Errorf("%+v", o)
	}
	kind(t, o.Err, netclient.Away)
}

// Labels are for counters, and stay.
func TestLabels(t *testing.T) {
	for label, v := range map[string]fmt.Stringer{
		"refused": netclient.Refused, "away": netclient.Away, "late": netclient.Late, "untrusted": netclient.Untrusted, "garbled": netclient.Garbled, "too_large": netclient.TooLarge,
		"delivered": netclient.Delivered, "temporary": netclient.Temporary, "permanent": netclient.Permanent,
	} {
		if v.String() != label {
			t.Errorf("%s is called %s", label, v)
		}
	}
	for _, v := range []fmt.Stringer{netclient.Kind(0), netclient.Kind(99), netclient.Result(0), netclient.Result(99)} {
		if v.String() != "unknown" {
			t.Errorf("%s has a name", v)
		}
	}
}

// Mail that does not go out: nobody is dialed.
func TestRefusedMail(t *testing.T) {
	type change func(*netclient.MailServer, *netclient.Mail)
	cases := map[string]change{}
	for _, a := range []string{"", "a", "@example.com", "a@", "a@b", "a@b@example.com", "a b@example.com", "a@exa mple.com", "<a@example.com>", "a@example.com>", "a>@example.com",
		"a@example.com\r\nRCPT TO:<b@example.com>", "a\r\n@example.com", "a\n@example.com", "a\x00@example.com", "\"a\"@example.com", "a(b)@example.com", "a,b@example.com", "é@example.com",
		"a@é.com", ".a@example.com", "a.@example.com", "a..b@example.com", "a@example..com", "a@.example.com", "a@-example.com", "a@[127.0.0.1]", "a@127.0.0.1", "a@localhost", "a@x.localhost",
		"a@example.com.", strings.Repeat("a", 65) + "@example.com", "a@" + strings.Repeat("a.", 126) + "com", "a@example.com BODY=8BITMIME", "a\\@example.com", "a;b@example.com"} {
		cases["from "+a] = func(_ *netclient.MailServer, m *netclient.Mail) { m.From = a }
		cases["to "+a] = func(_ *netclient.MailServer, m *netclient.Mail) { m.To = a }
	}
	for _, text := range []string{"", "a", "a\n", "a\r", "a\r\nb", "a\nb\r\n", "a\rb\r\n", "a\r\r\n", "\n.\n\r\n", "\r\n.\n\r\n", "\n.\r\n\r\n", "\r.\r\r\n", "a\x00\r\n", "a\x7f\r\n", "é\r\n", "\x1b[2J\r\n",
		strings.Repeat("x", 999) + "\r\n", strings.Repeat("x\r\n", netclient.MaxMail/3+1)} {
		cases["message "+text[:min(len(text), 30)]] = func(_ *netclient.MailServer, m *netclient.Mail) { m.Message = []byte(text) }
	}
	for name, c := range map[string]change{
		"no host":             func(s *netclient.MailServer, _ *netclient.Mail) { s.Host = "" },
		"host with a port":    func(s *netclient.MailServer, _ *netclient.Mail) { s.Host = "a.example.com:25" },
		"host with a line":    func(s *netclient.MailServer, _ *netclient.Mail) { s.Host = "a\r\nb" },
		"no port":             func(s *netclient.MailServer, _ *netclient.Mail) { s.Port = 0 },
		"no security":         func(s *netclient.MailServer, _ *netclient.Mail) { s.Security = 7 },
		"plain":               func(s *netclient.MailServer, _ *netclient.Mail) { s.Security = netclient.Plain },
		"user with a line":    func(s *netclient.MailServer, _ *netclient.Mail) { s.User = "a\r\nb" },
		"user with a NUL":     func(s *netclient.MailServer, _ *netclient.Mail) { s.User = "a\x00b" },
		"long user":           func(s *netclient.MailServer, _ *netclient.Mail) { s.User = strings.Repeat("a", 400) },
		"password with a NUL": func(s *netclient.MailServer, _ *netclient.Mail) { s.Password = secrettest.Of([]byte("a\x00b")) },
		"long password":       func(s *netclient.MailServer, _ *netclient.Mail) { s.Password = secrettest.Of(make([]byte, 2000)) },
	} {
		cases[name] = c
	}
	// What is forbidden elsewhere is so on loopback too, and plain without permission.
	for name, c := range cases {
		for _, loose := range []bool{false, true} {
			s, m := mailServer(netclient.TLS), letter
			c(&s, &m)
			cl := client(t, unreached(t))
			if loose {
				cl = client(t, unreached(t), onLoopback)
			}
			o := cl.Submit(t.Context(), s, m)
			if o.Result != netclient.Permanent {
				t.Errorf("%q: %+v", name, o)
			}
			kind(t, o.Err, netclient.Refused)
		}
	}
	for _, at := range []string{"a.example.com", "127.0.0.2", "localhost.example.com", "10.0.0.1"} {
		s := mailServer(netclient.Plain)
		s.Host = at
		o := client(t, unreached(t), onLoopback).Submit(t.Context(), s, letter)
		kind(t, o.Err, netclient.Refused)
	}
	s := mailServer(netclient.Plain)
	s.Host = "127.0.0.1"
	kind(t, client(t, unreached(t)).Submit(t.Context(), s, letter).Err, netclient.Refused)
}

// A script is a connection that reads from bytes, a line at a time, and forgets
// what is written.
type script struct {
	net.Conn
	left    []byte
	written bytes.Buffer
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := bytes.IndexByte(s.left, '\n') + 1
	if n == 0 {
		n = len(s.left)
	}
	n = copy(p, s.left[:n])
	s.left = s.left[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) { return s.written.Write(p) }
func (s *script) Close() error                { return nil }

// Whatever a server says: it comes to an end, only a conversation of the right
// replies delivers, and nothing is said that a mail server could take for more.
func FuzzMailServer(f *testing.F) {
	const good = "220 ready\r\n250-mail\r\n250 AUTH PLAIN\r\n235 welcome\r\n250 fine\r\n250 fine\r\n354 go\r\n250 done\r\n"
	f.Add([]byte(good))
	f.Add([]byte(strings.ReplaceAll(good, "PLAIN", "LOGIN")))
	f.Add([]byte("220-a\r\n220 b\r\n250 c\r\n"))
	f.Add([]byte("554 no\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := &script{left: text}
		s := netclient.MailServer{Host: "127.0.0.1", Port: 25, Security: netclient.Plain, User: "user", Password: secrettest.Of([]byte("pass"))}
		dial := func(context.Context, string, uint16) (net.Conn, error) { return c, nil }
		o := client(t, dial, onLoopback).Submit(t.Context(), s, letter)
		if (o.Result == netclient.Delivered) != (o.Err == nil) || o.Result < netclient.Delivered || o.Result > netclient.Permanent {
			t.Fatalf("%+v", o)
		}
		said := c.written.String()
		if o.Result == netclient.Delivered && (o.Code != 250 || !strings.Contains(said, "\r\nDATA\r\n"+string(netclient.Stuffed(letter.Message))+"\r\nQUIT\r\n")) {
			t.Fatalf("delivered by %q", said)
		}
		if o.Result != netclient.Delivered && strings.Contains(said, "QUIT") {
			t.Fatalf("not delivered by %q", said)
		}
	})
}

// What is taken for a message, a server reads as one: the end is at the end, and
// nothing of it is changed.
func FuzzMessage(f *testing.F) {
	for _, text := range []string{message, ".\r\n", "\r\n.\r\nx\r\n", "a\n.\n", "..\r\n.", "\r\r\n", "a\r\n\t.\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !netclient.IsMessage(text) {
			return
		}
		sent := append(netclient.Stuffed(text), "\r\nQUIT\r\n"...)
		in := textproto.NewReader(bufio.NewReader(bytes.NewReader(sent)))
		got, err := in.ReadDotBytes()
		if err != nil || !bytes.Equal(got, bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))) {
			t.Fatalf("%q arrives as %q, %v", text, got, err)
		}
		if next, err := in.ReadLine(); err != nil || next != "QUIT" {
			t.Fatalf("%q: behind it stands %q", text, next)
		}
		if n := bytes.Count(sent, []byte("\r\n.\r\n")); n != 1 {
			t.Fatalf("%q has %d ends", text, n)
		}
	})
}
