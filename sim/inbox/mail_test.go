package inbox_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"cloister/sim/inbox"
)

const both = `From: "Ada's Wallet"
 <no-reply@wallet.example>
To: <bob@example.com>
Subject: =?utf-8?B?WsO8cmljaA==?=
MIME-Version: 1.0
Content-Type: multipart/alternative;
 boundary="=_b"

--=_b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Your code for Ada=E2=80=99s Wallet is

    9XQ1Z7ABC

The code is good for 5 minutes.

--=_b
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<p style=3D"color:red">9XQ1Z7ABC</p>

--=_b--
`

// What mails of many makers say, as the inbox shows it.
func TestMail(t *testing.T) {
	const head = "From: a@example.com\nSubject: s\n"
	for _, c := range []struct{ name, raw, text, html, code string }{
		{"nothing but text", head + "\nYour code is 123456.\n", "Your code is 123456.\n", "", "123456"},
		{"HTML alone", head + "Content-Type: text/html\n\n<head><style>b{color:#12345678}</style></head><p>Code:</p><b>4815162</b>", "", "<head><style>b{color:#12345678}</style></head><p>Code:</p><b>4815162</b>\n", "4815162"},
		{"base64", head + "Content-Transfer-Encoding: base64\n\nWW91ciBjb2RlIGlz\nIEFCQ0RFRkcu\n", "Your code is ABCDEFG.", "", "ABCDEFG"},
		{"no code", head + "\nWELCOME to our WALLETS\n", "WELCOME to our WALLETS\n", "", ""},
		{"a name in capitals", head + "\nYour code for ACMECORP is QRSTVWXYZ\n", "Your code for ACMECORP is QRSTVWXYZ\n", "", "QRSTVWXYZ"},
		{"Latin-1", head + "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nZ=FCrich\n", "Zürich\n", "", ""},
		{"an attachment first", head + "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\nContent-Disposition: attachment\n\nno\n--x\n\nyes\n--x--\n", "yes", "", ""},
		{"deep", head + "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: multipart/related; boundary=y\n\n--y\nContent-Type: text/html\n\n<p>deep</p>\n--y--\n--x--\n", "", "<p>deep</p>", ""},
		{"a dot first", head + "\n.hidden\n..\n", ".hidden\n..\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			if err := w.mail("a@example.com", []string{"bob@example.com"}, c.raw); err != nil {
				t.Fatal(err)
			}
			m := w.messages("")
			if len(m) != 1 {
				t.Fatalf("%d messages", len(m))
			}
			if m[0].Text != c.text || m[0].HTML != c.html || m[0].Code != c.code {
				t.Errorf("text %q, HTML %q, code %q", m[0].Text, m[0].HTML, m[0].Code)
			}
		})
	}
}

// All that is told of a mail, and a message for each recipient.
func TestMailWhole(t *testing.T) {
	w := start(t)
	if err := w.mail("bounce@wallet.example", []string{"bob@example.com", "eve@example.com"}, both); err != nil {
		t.Fatal(err)
	}
	all := w.messages("")
	if len(all) != 2 || all[0].To != "eve@example.com" || all[1].To != "bob@example.com" {
		t.Fatalf("%+v", all)
	}
	bobs := w.messages("?to=BOB@example.com")
	if len(bobs) != 1 {
		t.Fatalf("%+v", bobs)
	}
	got := bobs[0]
	if len(got.ID) < 16 || got.ID == all[0].ID {
		t.Errorf("id %q", got.ID)
	}
	want := inbox.Message{ID: got.ID, Kind: "mail", From: `"Ada's Wallet" <no-reply@wallet.example>`, To: "bob@example.com", Subject: "Zürich", ReceivedAt: noon, Code: "9XQ1Z7ABC",
		Text: "Your code for Ada’s Wallet is\n\n    9XQ1Z7ABC\n\nThe code is good for 5 minutes.\n", HTML: "<p style=\"color:red\">9XQ1Z7ABC</p>\n"}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if m := w.messages("?to=nobody@example.com"); len(m) != 0 {
		t.Errorf("%+v", m)
	}
}

// Senders that mean ill are cut off or cut short, and the next one is served.
func TestHostileSenders(t *testing.T) {
	const hello = "EHLO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.com>\r\n"
	bomb := func(depth int) string {
		var b strings.Builder
		b.WriteString("Subject: bomb\r\n")
		for i := range depth {
			fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n", i, i)
		}
		return b.String() + "\r\nYour code is 123456\r\n"
	}
	for _, c := range []struct{ name, send, answer, text string }{
		{"a command without end", strings.Repeat("A", 1<<16), "500 5.4.0", "-"},
		{"a line of data without end", hello + "DATA\r\n" + strings.Repeat("A", 1<<16), "5", "-"},
		{"too large", hello + "DATA\r\n\r\n" + strings.Repeat(strings.Repeat("A", 900)+"\r\n", 1200) + ".\r\nQUIT\r\n", "552", "-"},
		{"too large, as it says itself", "EHLO x\r\nMAIL FROM:<a@example.com> SIZE=99999999\r\nQUIT\r\n", "552", "-"},
		{"too many recipients", hello + strings.Repeat("RCPT TO:<b@example.com>\r\n", 40) + "QUIT\r\n", "452", "-"},
		{"no header", hello + "DATA\r\nthis is no mail\r\n.\r\nQUIT\r\n", "554 5.6.0", "-"},
		{"a chunk that never ends", hello + "BDAT 99999999 LAST\r\n", "552", "-"},
		{"eight bits and NUL", hello + "DATA\r\nSubject: s\r\n\r\na\x00b\xffc\x1bd\r\n.\r\nQUIT\r\n", "250", "ab\uFFFDcd\n"},
		{"parts in parts, few", hello + "DATA\r\n" + bomb(4) + ".\r\nQUIT\r\n", "250", "Your code is 123456"},
		{"parts in parts, many", hello + "DATA\r\n" + bomb(5000) + ".\r\nQUIT\r\n", "250", ""},
		{"parts beside parts, many", hello + "DATA\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\nContent-Type: x/y\r\n\r\n.\r\n", 5000) + "--b\r\n\r\nlate\r\n--b--\r\n.\r\nQUIT\r\n", "250", ""},
		{"an address with controls", "EHLO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b\x01@example.com>\r\nQUIT\r\n", "501", "-"},
		{"another mail smuggled behind a bare line feed", hello + "DATA\r\nSubject: s\r\n\r\none\n.\nMAIL FROM:<evil@example.com>\r\n.\r\nQUIT\r\n", "250", "one\n.\nMAIL FROM:<evil@example.com>\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			send := c.send
			if c.name == "a chunk that never ends" { // and then the sender goes
				conn, err := net.Dial("tcp", w.smtp)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, send)
				b := make([]byte, 4096)
				said := ""
				for !strings.Contains(said, "552") {
					n, err := conn.Read(b)
					if err != nil {
						t.Fatalf("%q: %v", said, err)
					}
					said += string(b[:n])
				}
				conn.Close()
			} else if said := w.line(send); !strings.Contains(said, "\r\n"+c.answer) {
				t.Errorf("answer %q lacks %s", said, c.answer)
			}
			m := w.messages("")
			switch {
			case c.text == "-" && len(m) != 0:
				t.Errorf("it arrived: %+v", m)
			case c.text != "-" && (len(m) != 1 || m[0].Text != c.text):
				t.Errorf("messages %.300q", fmt.Sprint(m))
			}
			if err := w.mail("a@example.com", []string{"after@example.com"}, "Subject: s\n\nx\n"); err != nil || len(w.messages("?to=after@example.com")) != 1 {
				t.Errorf("the next mail: %v", err)
			}
		})
	}
}

// Conversations are bounded in number, and those that ended make room.
func TestManySenders(t *testing.T) {
	w := start(t)
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	greet := func() string {
		c, err := net.Dial("tcp", w.smtp)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		fmt.Fprint(c, "HELO x\r\n")
		b, said := make([]byte, 512), ""
		for strings.Count(said, "\r\n") < 2 {
			n, err := c.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			said += string(b[:n])
		}
		return said[strings.Index(said, "\r\n")+2:]
	}
	for i := range 32 {
		if said := greet(); !strings.HasPrefix(said, "250") {
			t.Fatalf("conversation %d: %q", i, said)
		}
	}
	if said := greet(); !strings.HasPrefix(said, "421") {
		t.Fatalf("one too many: %q", said)
	}
	fmt.Fprint(open[0], "QUIT\r\n")
	for { // until the server has hung up
		if _, err := open[0].Read(make([]byte, 64)); err != nil {
			break
		}
	}
	if said := greet(); !strings.HasPrefix(said, "250") {
		t.Fatalf("after one has ended: %q", said)
	}
}

// The newest messages stay, by count and by size.
func TestBounded(t *testing.T) {
	w := start(t)
	for i := range inbox.MaxMessages + 10 {
		w.box.Add(inbox.Message{Kind: "text", To: fmt.Sprint(i)})
	}
	if m := w.box.Messages(""); len(m) != inbox.MaxMessages || m[0].To != fmt.Sprint(inbox.MaxMessages+9) || m[len(m)-1].To != "10" {
		t.Errorf("%d messages from %s to %s", len(m), m[0].To, m[len(m)-1].To)
	}
	large := strings.Repeat("x", inbox.MaxKept/10)
	for i := range 20 {
		w.box.Add(inbox.Message{Kind: "text", To: fmt.Sprint(i), Text: large})
	}
	if m := w.box.Messages(""); len(m) != 9 || m[0].To != "19" {
		t.Errorf("%d large messages", len(m))
	}
}

func FuzzReadMail(f *testing.F) {
	f.Add([]byte(both))
	f.Add([]byte("Subject: =?utf-8?Q?=00?=\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--b--\r\n"))
	f.Add([]byte("Content-Type: text/html; charset=latin1\n\n\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := inbox.ReadMail(raw)
		if err != nil {
			return
		}
		for _, s := range []string{m.Subject, m.From, m.Text, m.HTML} {
			if strings.ToValidUTF8(s, "") != s || strings.ContainsAny(s, "\x00\x1b\r") {
				t.Errorf("%q is not fit to be shown", s)
			}
		}
		// What is shown is no more than three bytes for each that came (U+FFFD).
		if len(m.Text)+len(m.HTML) > 3*len(raw)+6 {
			t.Errorf("%d bytes became %d", len(raw), len(m.Text)+len(m.HTML))
		}
	})
}
