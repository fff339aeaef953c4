package login

import (
	"errors"
	"strings"
	"time"
	"unicode"
)

// An Approval is what a mail says about an activity that waits for its reader's approval. URL is the only link in the mail. All else
// may come from whoever asked for the activity: it is escaped, and mail readers find no link in it.
type Approval struct {
	Organization string // name
	By           string // name of the user who asked; empty: left out
	Title        string
	Unread       string   // why nothing of it, or not all, can be read; empty: all can
	Warnings     []string // the gravest first
	Lines        []string // what it is
	More         bool     // there is more than Lines
	UntilMs      uint64   // until when approvals count together
	URL          string   // where to decide; empty: unknown
}

// ApprovalMail is the mail about an activity that waits.
func ApprovalMail(a *Approval) (*Content, error) {
	organization, title := withoutLinks(a.Organization), withoutLinks(a.Title)
	subject := "Approval needed: " + title + " (" + organization + ")"
	if !fitsHeader(organization) || !fitsHeader(title) {
		return nil, errors.New("a name that does not fit into a header")
	}
	const lead, advice = "Look at it and decide:", "Decide by what the dashboard shows you, not by this mail. In what others wrote, dots and colons are in brackets where they could make a link."
	until := "Approvals count together until " + time.UnixMilli(int64(a.UntilMs)).UTC().Format("2 January 2006, 15:04") + " UTC."
	decide := "Look at it in the dashboard that you know, and decide there."
	link := `<p>` + decide + `</p>`
	if a.URL != "" {
		decide, link = lead+"\n\n"+a.URL, `<p>`+lead+`</p><p><a href="`+escapeHTML(a.URL)+`">`+escapeHTML(a.URL)+`</a></p>`
	}

	var text, html strings.Builder
	html.WriteString(`<!doctype html><html><head><meta charset="utf-8"><meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no"></head>` +
		`<body style="font-family:sans-serif;max-width:44em;margin:2em auto;padding:0 1em">`)
	paragraph := func(style string, lines ...string) {
		for i, line := range lines {
			text.WriteString(line + "\n")
			lines[i] = escapeHTML(line)
		}
		text.WriteString("\n")
		html.WriteString(`<p style="` + style + `">` + strings.Join(lines, "<br>") + `</p>`)
	}
	const strong, plain, grave = "font-size:20px;font-weight:bold", "", "color:#a00;font-weight:bold"
	paragraph(strong, "Approval needed: "+title)
	about := []string{"Organization: " + organization}
	if a.By != "" {
		about = append(about, "Asked by: "+withoutLinks(a.By))
	}
	paragraph(plain, append(about, until)...)
	if a.Unread != "" {
		paragraph(grave, a.Unread)
	}
	if len(a.Warnings) > 0 {
		style := plain
		if strings.HasPrefix(a.Warnings[0], "DANGER") {
			style = grave
		}
		paragraph(style, eachWithoutLinks(a.Warnings)...)
	}
	if len(a.Lines) > 0 {
		lines := eachWithoutLinks(a.Lines)
		if a.More {
			lines = append(lines, "There is more, which is left out here.")
		}
		text.WriteString("What it is:\n\n    " + strings.Join(lines, "\n    ") + "\n\n")
		html.WriteString(`<p>What it is:</p><pre style="white-space:pre-wrap;overflow-wrap:anywhere">` + escapeHTML(strings.Join(lines, "\n")) + `</pre>`)
	}
	text.WriteString(decide + "\n\n" + advice + "\n")
	html.WriteString(link + `<p style="color:#666">` + advice + `</p></body></html>`)
	if html.Len() > MaxContent {
		return nil, errors.New("a mail that is too long")
	}
	return &Content{Subject: subject, Text: text.String(), HTML: html.String()}, nil
}

func eachWithoutLinks(lines []string) []string {
	out := make([]string, 0, len(lines)+1)
	for _, line := range lines {
		out = append(out, withoutLinks(line))
	}
	return out
}

// withoutLinks is a text in which mail readers find no address to follow: dots in words, colons of schemes and signs of mail addresses are in
// brackets. Decimal points, times of day and labels stay. The text becomes one line.
func withoutLinks(s string) string {
	rs := []rune(s)
	var b strings.Builder
	for i, r := range rs {
		before, after := ' ', ' '
		if i > 0 {
			before = rs[i-1]
		}
		if i+1 < len(rs) {
			after = rs[i+1]
		}
		digits := unicode.IsDigit(before) && unicode.IsDigit(after)
		switch {
		case r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
			b.WriteByte(' ')
		case r == '@',
			r == '.' && !digits && wordRune(before) && wordRune(after),
			r == ':' && (after == '/' || unicode.IsLetter(before) && !unicode.IsSpace(after)):
			b.WriteString("[" + string(r) + "]")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '-' || r == '_' || r == '}' || r == '\\'
}
