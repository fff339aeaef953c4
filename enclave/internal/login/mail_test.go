package login_test

import (
	"bytes"
	htmltemplate "html/template"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"text/template"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

func TestTemplateRefused(t *testing.T) {
	for _, action := range []string{
		"", " ", ".", ". OtpCode", ".otpCode", ".OtpCode.x", ".Other", ".TemplateVariables", ".TemplateVariables.key", "OtpCode", "$", "$x := 1", ".OtpCode | html", "printf \"%s\" .OtpCode", "html .OtpCode", "if .OtpCode", "end", "range .TemplateVariables", "template \"x\"",
		"define \"x\"", "block \"x\" .", "with .OtpCode", "/* .OtpCode */", "- .OtpCode -", "-.OtpCode", ".OtpCode -", "index", "index .TemplateVariables", "index .TemplateVariables key", "index .TemplateVariables \"\"", "index .TemplateVariables \"a\" \"b\"", "index .TemplateVariables \"a\\\"b\"",
		"index .TemplateVariables `a`", "index .TemplateVariables 'a'", "index .TemplateVariables \"a", "index .TemplateVariables a\"", "index.TemplateVariables \"a\"", "index .TemplateVariables\"a\"", "index .OtpCode \"a\"", "index (.TemplateVariables) \"a\"", "(.OtpCode)", ".OtpCode .OtpCode",
		"index .TemplateVariables \"a\nb\"", "\n.OtpCode\n", "\u00a0.OtpCode", "{ .OtpCode }", "index .TemplateVariables \"a\" | js", "call .OtpCode", "len .OtpCode", "and .OtpCode", "1", "nil", "true",
	} {
		_, err := login.ParseTemplate("template", "a{{"+action+"}}b")
		refused(t, action, err, fault.InvalidArgument, "template", "invalid template: only")
	}
	for name, text := range map[string]string{"unclosed": "a {{ .OtpCode", "half closed": "{{ .OtpCode }", "twice opened": "{{{{ .OtpCode }}}}", "opened inside": "{{ .OtpCode {{ .OtpCode }}", "open at the end": "{{", "closed late": "{{ .OtpCode } }"} {
		_, err := login.ParseTemplate("template", text)
		refused(t, name, err, fault.InvalidArgument, "template", "invalid template: only")
	}
	for name, text := range map[string]string{"long": strings.Repeat("a", login.MaxTemplate+1), "bytes": "\xff"} {
		_, err := login.ParseTemplate("template", text)
		refused(t, name, err, fault.InvalidArgument, "template", "invalid template: must be UTF-8")
	}
}

// What we take gives what Go's templates give, in mails and in text messages.
func TestTemplateAsGo(t *testing.T) {
	variables := map[string]string{"name": "Zoë <b>&'\"", "link": "https://a.test/?x=1&y=2", "key with spaces": "v", "é": "ü"}
	for _, text := range []string{
		"", "plain", "}} {x} { {", "{{ .OtpCode }}", "{{.OtpCode}}", "{{\t.OtpCode\t}}x{{.OtpCode}}", `<p title="{{ index .TemplateVariables "name" }}">{{ index  .TemplateVariables	"name" }}</p>`, `{{index .TemplateVariables "missing"}}.`, `<b>{{ index .TemplateVariables "key with spaces" }}{{ index .TemplateVariables "é" }}</b>`,
		"<p>Your code: {{ .OtpCode }}</p>}}", "\n{{ .OtpCode }}\n", `{{ .AppName }}: {{ .OtpCode }}`,
	} {
		ours, err := login.ParseTemplate("f", text)
		must(t, err)
		data := map[string]any{"OtpCode": "ABC123XYZ", "TemplateVariables": variables, "AppName": "App & <Co>"}
		var want bytes.Buffer
		must(t, template.Must(template.New("").Parse(text)).Execute(&want, data))
		if ours.Uses(login.NameOtpCode) && !strings.Contains(text, "TemplateVariables") {
			got, err := login.PasscodeText(ours, "App & <Co>", "ABC123XYZ")
			if err != nil && !strings.Contains(err.Error(), "control") || err == nil && got != want.String() {
				t.Errorf("%q: %q, %q, %v", text, got, want.String(), err)
			}
		}
		if !ours.Uses(login.NameOtpCode) {
			continue
		}
		want.Reset()
		must(t, htmltemplate.Must(htmltemplate.New("").Parse(text)).Execute(&want, data))
		c, err := login.PasscodeMail(&login.Words{AppName: "App & <Co>", Template: ours, Variables: variables}, "ABC123XYZ", 300_000)
		must(t, err)
		if plainHTML(c.HTML) != plainHTML(want.String()) {
			t.Errorf("%q: %q, %q", text, c.HTML, want.String())
		}
	}
}

// plainHTML resolves escapes, which may be spelt in different ways.
func plainHTML(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&#34;", `"`, "&quot;", `"`, "&#39;", "'", "&#61;", "=", "&#96;", "`", "&amp;", "&").Replace(s)
}

func TestEscapeHTML(t *testing.T) {
	const text = "<script>alert(\"x\" + 'y')</script>&amp;`=\n\x00é"
	got := login.EscapeHTML(text)
	if strings.ContainsAny(got, "<>\"'`=") || plainHTML(got) != text {
		t.Error(got)
	}
}

func words(t testing.TB) *login.Words {
	link, err := login.ParseMagicLink("f", "https://app.test/%s?a=b%20c")
	must(t, err)
	return &login.Words{AppName: `Ünï "App" <b>`, LogoURL: "https://app.test/logo.png?a=1&b=2", Link: link}
}

func TestContent(t *testing.T) {
	w := words(t)
	c, err := login.PasscodeMail(w, "ABC123XYZ", 300_000)
	must(t, err)
	link := "https://app.test/ABC123XYZ?a=b%20c"
	if c.Subject != "Sign in to "+w.AppName || !strings.Contains(c.Text, "\n    ABC123XYZ\n") || !strings.Contains(c.Text, link) || !strings.Contains(c.Text, "5 minutes") ||
		!strings.Contains(c.HTML, ">ABC123XYZ<") || !strings.Contains(plainHTML(c.HTML), `href="`+link+`"`) || strings.Contains(c.HTML, `"App"`) || strings.Contains(c.HTML, "<b>") || !strings.Contains(c.HTML, "a&#61;1&amp;b") {
		t.Errorf("%+v", c)
	}
	for ms, want := range map[uint64]string{60_000: "1 minute.", 90_000: "90 seconds.", 1000: "1 second.", 600_000: "10 minutes."} {
		if c, err := login.PasscodeMail(w, "123456", ms); err != nil || !strings.Contains(c.Text, "is good for "+want) {
			t.Errorf("%d: %s, %v", ms, c.Text, err)
		}
	}
	bundle := strings.Repeat("w99a5xV6A", 15)
	for _, recovery := range []bool{false, true} {
		c, err := login.BundleMail(w, recovery, bundle, 900_000)
		must(t, err)
		if !strings.Contains(c.Text, bundle) || !strings.Contains(c.HTML, bundle) || strings.Contains(c.Subject, "Recover") != recovery || strings.Contains(c.Text, "recover") != recovery {
			t.Errorf("%+v", c)
		}
	}
	own, err := login.ParseTemplate("f", `<h1>{{ .AppName }}</h1>{{ .OtpCode }} {{ .MagicLink }} {{ index .TemplateVariables "who" }}<img src="{{ .LogoUrl }}">{{ .Bundle }}`)
	must(t, err)
	w.Template, w.Variables = own, map[string]string{"who": "<script>"}
	if c, err = login.PasscodeMail(w, "123456", 300_000); err != nil || plainHTML(c.HTML) != `<h1>`+w.AppName+`</h1>123456 https://app.test/123456?a=b%20c <script><img src="`+w.LogoURL+`">` || strings.Contains(c.HTML, "<script>") {
		t.Errorf("%+v, %v", c, err)
	}
	// Values that make much of little are stopped.
	many, err := login.ParseTemplate("f", "{{ .OtpCode }}"+strings.Repeat(`{{ index .TemplateVariables "a" }}`, 1000))
	must(t, err)
	w.Template, w.Variables = many, map[string]string{"a": strings.Repeat("&", 16_000)}
	_, err = login.PasscodeMail(w, "123456", 300_000)
	refused(t, "much of little", err, fault.InvalidArgument, "templateVariables", "longer than 65536 bytes")
	none, err := login.ParseTemplate("f", "Hello")
	must(t, err)
	w.Template = none
	_, err = login.PasscodeMail(w, "123456", 300_000)
	refused(t, "no code in it", err, fault.InvalidArgument, "templateId", "must contain {{ .OtpCode }}")
	byLink, err := login.ParseTemplate("f", "{{ .MagicLink }}")
	must(t, err)
	if w.Template = byLink; true {
		_, err = login.PasscodeMail(w, "123456", 300_000)
		must(t, err)
		w.Link = login.MagicLink{}
		_, err = login.PasscodeMail(w, "123456", 300_000)
		refused(t, "no link to put in", err, fault.InvalidArgument, "templateId", "must contain")
	}
	for name, change := range map[string]func(w *login.Words){
		"no name": func(w *login.Words) { w.AppName = "" }, "name of two lines": func(w *login.Words) { w.AppName = "a\r\nBcc: b@c.test" }, "name with NUL": func(w *login.Words) { w.AppName = "a\x00" }, "name of bytes": func(w *login.Words) { w.AppName = "\xff" }, "name of a separator": func(w *login.Words) { w.AppName = "a\u2028b" },
		"long name": func(w *login.Words) { w.AppName = strings.Repeat("a", 256) }, "logo by http": func(w *login.Words) { w.LogoURL = "http://a.test/a.png" }, "logo of script": func(w *login.Words) { w.LogoURL = "javascript:alert(1)" }, "logo that breaks out": func(w *login.Words) { w.LogoURL = `https://a.test/"onerror="x` },
	} {
		w := words(t)
		change(w)
		_, err := login.PasscodeMail(w, "123456", 300_000)
		field := "appName"
		if strings.HasPrefix(name, "logo") {
			field = "logoUrl"
		}
		refused(t, name, err, fault.InvalidArgument, field, "must be")
	}
}

func TestPasscodeText(t *testing.T) {
	if got, err := login.PasscodeText(nil, "App", "123456"); err != nil || got != "Your code for App is 123456" {
		t.Error(got, err)
	}
	for text, why := range map[string]string{"Your code": "must contain {{ .OtpCode }}", "{{ .OtpCode }}" + strings.Repeat("é", login.MaxText): "longer than 1600", "{{ .OtpCode }}" + strings.Repeat("e", 4*login.MaxText): "longer than 1600", "{{ .OtpCode }}\r": "control", "\x00{{ .OtpCode }}": "control", "{{ .OtpCode }}\x1b[0m": "control"} {
		tm, err := login.ParseTemplate("f", text)
		must(t, err)
		_, err = login.PasscodeText(tm, "App", "123456")
		refused(t, text[:min(len(text), 20)], err, fault.InvalidArgument, "smsCustomization.template", why)
	}
	_, err := login.PasscodeText(nil, "a\nb", "123456")
	refused(t, "name", err, fault.InvalidArgument, "appName", "must be")
}

func TestParseVariables(t *testing.T) {
	m, err := login.ParseVariables("f", ` {"a":"1","b c":"é\n","":"x","d":null} `)
	if err != nil || len(m) != 4 || m["a"] != "1" || m["b c"] != "é\n" || m["d"] != "" {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := login.ParseVariables("f", ""); m != nil || err != nil {
		t.Error(m, err)
	}
	for _, text := range []string{"{", "[]", "null", `"a"`, `{"a":1}`, `{"a":true}`, `{"a":{}}`, `{"a":["b"]}`, `{"a":"1","a":"2"}`, `{"a":"1","\u0061":"2"}`, `{"a":"1"}x`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":"` + strings.Repeat("x", login.MaxVariables) + `"}`,
		"{" + strings.TrimSuffix(func() (s string) {
			for i := range 101 {
				s += `"` + strings.Repeat("k", i+1) + `":"v",`
			}
			return s
		}(), ",") + "}"} {
		_, err := login.ParseVariables("emailCustomization.templateVariables", text)
		refused(t, text[:min(len(text), 20)], err, fault.InvalidArgument, "emailCustomization.templateVariables", "failed to unmarshal template variables")
	}
}

func TestParseMagicLink(t *testing.T) {
	for text, want := range map[string]string{"https://a.test/%s": "https://a.test/X", "myapp://auth?code=%s&a=%20": "myapp://auth?code=X&a=%20", "http://127.0.0.1:3000/#%s": "http://127.0.0.1:3000/#X", "https://a.test/%25%s": "https://a.test/%25X", "": ""} {
		l, err := login.ParseMagicLink("f", text)
		if err != nil || l.To("X") != want {
			t.Errorf("%s: %s, %v", text, l.To("X"), err)
		}
	}
	for _, text := range []string{"https://a.test/", "https://a.test/%s%s", "https://a.test/%d", "%s", "a%s", "/%s", "javascript:alert('%s')", "JavaScript:%s", "data:text/html,%s", "vbscript:%s", "file:///%s", "https://a.test/ %s", "https://a.test/%s\r\nX: y", `https://a.test/%s"onclick="x`,
		"https://a.test/<%s>", "https://ä.test/%s", "1a://%s", ":%s", "https%s://a.test:", strings.Repeat("a", login.MaxURL) + "://%s"} {
		_, err := login.ParseMagicLink("magicLinkTemplate", text)
		refused(t, text[:min(len(text), 30)], err, fault.InvalidArgument, "magicLinkTemplate", "invalid magic link template")
	}
}

func TestChooseSender(t *testing.T) {
	usual := login.Sender{Address: "no-reply@ours.test", Name: "Ours", ReplyTo: "help@ours.test"}
	domains := []string{"theirs.test", "Ours.test"}
	for _, c := range []struct{ asked, want login.Sender }{
		{login.Sender{}, usual}, {login.Sender{Address: "a@theirs.test", Name: "N", ReplyTo: "r@ours.test"}, login.Sender{Address: "a@theirs.test", Name: "N", ReplyTo: "r@ours.test"}},
		{login.Sender{Address: "a@THEIRS.test"}, login.Sender{Address: "a@THEIRS.test", Name: "Notifications"}}, {login.Sender{Address: "a@theirs.test", Name: "N", ReplyTo: "r@evil.test"}, login.Sender{Address: "a@theirs.test", Name: "N"}},
		{login.Sender{Address: "a@evil.test", Name: "N", ReplyTo: "r@ours.test"}, usual}, {login.Sender{Address: "a@sub.theirs.test", Name: "N"}, usual}, {login.Sender{Address: "a@eviltheirs.test"}, usual}, {login.Sender{Address: "theirs.test"}, usual},
		{login.Sender{Address: "a@evil.test, b@theirs.test"}, usual}, {login.Sender{Address: "a\r\n@theirs.test"}, usual},
	} {
		if got := login.ChooseSender(c.asked, usual, domains); got != c.want {
			t.Errorf("%+v: %+v", c.asked, got)
		}
	}
	if got := login.ChooseSender(usual, login.Sender{Address: "x@y.test"}, nil); got.Address != "x@y.test" || got.Name != login.DefaultSenderName {
		t.Errorf("%+v", got)
	}
}

func aMail(t testing.TB) *login.Mail {
	c, err := login.PasscodeMail(words(t), "ABC123XYZ", 300_000)
	must(t, err)
	return &login.Mail{From: login.Sender{Address: "no-reply@ours.test", Name: "Ours", ReplyTo: "help@ours.test"}, To: "user@example.com", Content: *c, ID: tokenID, SentMs: nowMs}
}

// What is written is what others read.
func TestMailIsRead(t *testing.T) {
	long := strings.Repeat("ÿ漢😀 ", 40)
	for _, c := range []struct{ name, subject, text string }{
		{"Ours", "Sign in to App", "short\n"}, {`A "quoted" \ name, Inc. <x@y>`, `S: "x" <y>`, ".\n..\nFrom x\n"}, {"Zoë", "é", "é = ü\n\ttab \n"}, {long[:200], long[:300], long + "\n" + long}, {"=?utf-8?B?eA==?=", "=?x?=", "=3D=\n"},
		{strings.Repeat("a", 100), strings.Repeat("b ", 100) + "c", strings.Repeat("c", 2000)}, {" x ", " y ", "no newline"}, {"a", "", ""},
	} {
		m := aMail(t)
		m.From.Name, m.Subject, m.Text = strings.ToValidUTF8(c.name, ""), strings.ToValidUTF8(c.subject, ""), c.text
		raw, err := m.Bytes()
		must(t, err)
		for line := range bytes.SplitSeq(raw, []byte("\r\n")) {
			if len(line) > 90 || bytes.ContainsAny(line, "\r\n") {
				t.Errorf("%q", line)
			}
			for _, b := range line {
				if b >= 0x7f || b < ' ' && b != '\t' {
					t.Errorf("%q", line)
				}
			}
		}
		read, err := mail.ReadMessage(bytes.NewReader(raw))
		must(t, err)
		from, err := read.Header.AddressList("From")
		must(t, err)
		to, err := read.Header.AddressList("To")
		must(t, err)
		reply, err := read.Header.AddressList("Reply-To")
		must(t, err)
		subject, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
		must(t, err)
		date, err := read.Header.Date()
		must(t, err)
		if len(from) != 1 || from[0].Name != m.From.Name || from[0].Address != m.From.Address || len(to) != 1 || to[0].Address != m.To || reply[0].Address != m.From.ReplyTo || subject != m.Subject || date.UnixMilli() != nowMs ||
			read.Header.Get("Message-ID") != "<"+tokenID+"@ours.test>" {
			t.Errorf("%q: %+v %q %v", c.name, from, subject, read.Header)
		}
		kind, params, err := mime.ParseMediaType(read.Header.Get("Content-Type"))
		must(t, err)
		if kind != "multipart/alternative" {
			t.Error(kind)
		}
		parts := multipart.NewReader(read.Body, params["boundary"])
		for _, want := range []struct{ kind, text string }{{"text/plain; charset=utf-8", m.Text}, {"text/html; charset=utf-8", m.HTML}} {
			p, err := parts.NextRawPart()
			must(t, err)
			got, err := io.ReadAll(quotedprintable.NewReader(p))
			must(t, err)
			if p.Header.Get("Content-Type") != want.kind || p.Header.Get("Content-Transfer-Encoding") != "quoted-printable" || strings.ReplaceAll(string(got), "\r\n", "\n") != want.text {
				t.Errorf("%q, want %q", got, want.text)
			}
		}
		if _, err := parts.NextPart(); err != io.EOF {
			t.Error(err)
		}
	}
}

func TestMailRefused(t *testing.T) {
	const inject = "\r\nBcc: evil@example.com"
	for name, change := range map[string]func(m *login.Mail){
		"from": func(m *login.Mail) { m.From.Address += inject }, "from name": func(m *login.Mail) { m.From.Name += inject }, "from name, LF": func(m *login.Mail) { m.From.Name += "\nX: y" }, "reply": func(m *login.Mail) { m.From.ReplyTo += inject }, "to": func(m *login.Mail) { m.To += inject }, "to several": func(m *login.Mail) { m.To += ",evil@example.com" },
		"to several names": func(m *login.Mail) { m.To = "user@example.com evil@example.com" }, "to nobody": func(m *login.Mail) { m.To = "" }, "to in brackets": func(m *login.Mail) { m.To = "<user@example.com>" }, "subject": func(m *login.Mail) { m.Subject += inject }, "subject, LF": func(m *login.Mail) { m.Subject += "\nX: y" },
		"subject, CR": func(m *login.Mail) { m.Subject += "\rX: y" }, "subject of bytes": func(m *login.Mail) { m.Subject = "\xff" }, "id": func(m *login.Mail) { m.ID = strings.Repeat("a", 34) + "\r\n" }, "no id": func(m *login.Mail) { m.ID = "" }, "from nobody": func(m *login.Mail) { m.From.Address = "" },
		"no name": func(m *login.Mail) { m.From.Name = "" }, "name of bytes": func(m *login.Mail) { m.From.Name = "\xff" }, "long name": func(m *login.Mail) { m.From.Name = strings.Repeat("a", 1000) }, "of no time": func(m *login.Mail) { m.SentMs = 1 << 60 }, "from other letters": func(m *login.Mail) { m.From.Address = "ö@ours.test" },
	} {
		m := aMail(t)
		change(m)
		if raw, err := m.Bytes(); err == nil {
			t.Errorf("%s: %s", name, raw)
		}
	}
	// A text cannot end its part.
	m := aMail(t)
	m.Text, m.HTML = "--=_"+m.ID+"--\r\n", "\r\n--=_"+m.ID+"\r\nContent-Type: text/plain\r\n\r\nevil"
	raw, err := m.Bytes()
	must(t, err)
	if n := bytes.Count(raw, []byte("--=_"+m.ID)); n != 3 {
		t.Errorf("%d boundaries in %s", n, raw)
	}
}
