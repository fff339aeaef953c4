package login_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/login"
)

func approval() *login.Approval {
	return &login.Approval{Organization: "ACME", By: "Ada", Title: "Send ETH", UntilMs: 1767225600_000, URL: "https://cloister.example/d/?a=1&b=2#/approvals",
		Warnings: []string{"DANGER: The code of this contract is replaced.", "Note: more"}, Lines: []string{"Value: 1.5 ETH", "  To: 0x01"}}
}

func TestApprovalMail(t *testing.T) {
	c, err := login.ApprovalMail(approval())
	must(t, err)
	const want = `Approval needed: Send ETH

Organization: ACME
Asked by: Ada
Approvals count together until 1 January 2026, 00:00 UTC.

DANGER: The code of this contract is replaced.
Note: more

What it is:

    Value: 1.5 ETH
      To: 0x01

Look at it and decide:

https://cloister.example/d/?a=1&b=2#/approvals

Decide by what the dashboard shows you, not by this mail. In what others wrote, dots and colons are in brackets where they could make a link.
`
	if c.Text != want || c.Subject != "Approval needed: Send ETH (ACME)" {
		t.Errorf("%q: %s", c.Subject, c.Text)
	}
	for _, part := range []string{`<a href="https://cloister.example/d/?a&#61;1&amp;b&#61;2#/approvals">`, "Value: 1.5 ETH\n  To: 0x01", `<p style="color:#a00;font-weight:bold">DANGER: `, "Asked by: Ada<br>"} {
		if !strings.Contains(c.HTML, part) {
			t.Errorf("no %q in %s", part, c.HTML)
		}
	}
	m := &login.Mail{From: login.Sender{Address: "codes@cloister.example", Name: "Cloister"}, To: "ada@example.org", Content: *c, ID: "00000000-0000-8000-8000-000000000000"}
	if _, err := m.Bytes(); err != nil {
		t.Error(err)
	}

	// What there is not leaves no empty places.
	c, err = login.ApprovalMail(&login.Approval{Organization: "ACME", Title: "Send ETH", Unread: "NOT READ", Warnings: []string{"Warning: w"}})
	must(t, err)
	if strings.Contains(c.Text, "Asked by") || strings.Contains(c.Text, "What it is") || strings.Contains(c.HTML, "<a ") || strings.Contains(c.HTML, "<pre") || !strings.Contains(c.Text, "\n\nNOT READ\n\nWarning: w\n\nLook at it in the dashboard that you know, and decide there.\n") {
		t.Error(c.Text, c.HTML)
	}
	a := approval()
	a.More = true
	if c, err = login.ApprovalMail(a); err != nil || !strings.Contains(c.Text, "\n    There is more, which is left out here.\n") || len(a.Lines) != 2 {
		t.Error(err, a, c)
	}
}

// Names and lines come from others: they make no header, page or link, and a mail that gets too long is refused.
func TestApprovalMailOfOthers(t *testing.T) {
	const bad = "<b>https://evil.example\r\nBcc: x@evil.example"
	for name, change := range map[string]func(*login.Approval){
		"organization": func(a *login.Approval) { a.Organization = bad }, "user": func(a *login.Approval) { a.By = bad }, "title": func(a *login.Approval) { a.Title = bad },
		"warning": func(a *login.Approval) { a.Warnings = []string{bad} }, "line": func(a *login.Approval) { a.Lines = []string{bad} },
	} {
		a := approval()
		change(a)
		c, err := login.ApprovalMail(a)
		must(t, err)
		if strings.Contains(c.HTML, "<b>") || strings.Contains(c.HTML+c.Text+c.Subject, "evil.example") || strings.ContainsAny(c.Subject, "\r\n") || strings.Contains(c.Text, "\nBcc") || strings.Contains(c.Text, "https://evil") {
			t.Errorf("%s: %q %s\n%s", name, c.Subject, c.Text, c.HTML)
		}
	}
	for name, change := range map[string]func(*login.Approval){
		"no organization": func(a *login.Approval) { a.Organization = "" }, "a long one": func(a *login.Approval) { a.Organization = strings.Repeat("x", 256) }, "no title": func(a *login.Approval) { a.Title = "" },
		"a control": func(a *login.Approval) { a.Organization = "a\x00b" }, "not UTF-8": func(a *login.Approval) { a.Title = "\xff\x07" }, "long": func(a *login.Approval) { a.Lines = []string{strings.Repeat("<", 20_000)} },
	} {
		a := approval()
		change(a)
		if c, err := login.ApprovalMail(a); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestUnlinked(t *testing.T) {
	for in, want := range map[string]string{
		"Value: 1.5 ETH": "Value: 1.5 ETH", "at 12:30:00": "at 12:30:00", "The end.": "The end.", "a ... b": "a ... b", "u.s.": "u[.]s.", "evil.com": "evil[.]com", "https://evil.com/x?y": "https[:]//evil[.]com/x?y",
		"s3://x": "s3[:]//x", "mailto:a@b.c": "mailto[:]a[@]b[.]c", "a\nb\r\nc": "a b  c", "x.1": "x[.]1", "1.x": "1[.]x", "1.2.3.4": "1.2.3.4", "пример.рф": "пример[.]рф", "-a.-b": "-a[.]-b",
		`\u{E9}.com`: `\u{E9}[.]com`, "": "", ".": ".", "@": "[@]", "tel:+15550100": "tel[:]+15550100", "user.id == 'x'": "user[.]id == 'x'",
	} {
		if got := login.Unlinked(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
