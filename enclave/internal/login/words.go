package login

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cloister/enclave/internal/fault"
)

// Words are an organization's own parts of a mail.
type Words struct {
	AppName   string // required
	LogoURL   string // an https URL of a picture
	Link      MagicLink
	Template  *Template // of the HTML part; nil for ours
	Variables map[string]string
}

// Check tells whether the words can be used. Errors are *fault.Error about fields below path,
// which ends with a dot or is empty.
func (w *Words) Check(path string) error {
	switch {
	case !fitsHeader(w.AppName):
		return fault.Field(path+"appName", "must be 1 to 255 characters without control characters")
	case w.LogoURL != "" && !CheckURL(w.LogoURL, false):
		return fault.Field(path+"logoUrl", "must be an https URL")
	}
	return nil
}

// fitsHeader tells whether a name can stand in a mail's header.
func fitsHeader(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxContact && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
}

// Content is the content of a mail.
type Content struct{ Subject, Text, HTML string }

// PasscodeMail is the mail that brings a passcode, good for lifeMs.
func PasscodeMail(w *Words, code Passcode, lifeMs uint64) (*Content, error) {
	return w.content(NameOtpCode, string(code), "Your code for "+w.AppName+" is", expiryText("The code", lifeMs))
}

// BundleMail is the mail that brings an encrypted credential, for a log-in or for the recovery of
// an account.
func BundleMail(w *Words, recovery bool, bundle string, lifeMs uint64) (*Content, error) {
	lead := "Your code to sign in to " + w.AppName + " is"
	if recovery {
		lead = "Your code to recover your account at " + w.AppName + " is"
	}
	c, err := w.content(NameBundle, bundle, lead, expiryText("It", lifeMs))
	if err == nil && recovery {
		c.Subject = "Recover your account at " + w.AppName
	}
	return c, err
}

func expiryText(what string, ms uint64) string {
	n, unit := ms/60_000, " minutes"
	if ms%60_000 != 0 || n == 0 {
		n, unit = ms/1000, " seconds"
	}
	if n == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return what + " is good for " + strconv.FormatUint(n, 10) + unit + ". If you did not ask for it, ignore this mail."
}

// content writes both parts of a mail with value, which templates know by name.
func (w *Words) content(name, value, lead, end string) (*Content, error) {
	if err := w.Check(""); err != nil {
		return nil, err
	}
	link := w.Link.To(value)
	text := lead + "\n\n    " + value + "\n\n"
	if link != "" {
		text += "or follow this link:\n\n" + link + "\n\n"
	}
	text += end + "\n"
	html, ok := "", true
	switch {
	case w.Template == nil:
		html = w.defaultHTML(value, lead, end, link)
	case !w.Template.Uses(name) && (link == "" || !w.Template.Uses(NameMagicLink)):
		return nil, fault.Field("templateId", "the template must contain {{ .%s }}, or {{ .%s }} if there is a link", name, NameMagicLink)
	default:
		names := map[string]string{name: value, NameMagicLink: link, NameAppName: w.AppName, NameLogoURL: w.LogoURL}
		html, ok = w.Template.expand(names, w.Variables, escapeHTML, MaxContent)
	}
	if !ok || len(html) > MaxContent {
		return nil, fault.Field("templateVariables", "the mail would be longer than %d bytes", MaxContent)
	}
	return &Content{Subject: "Sign in to " + w.AppName, Text: text, HTML: html}, nil
}

// defaultHTML is the HTML part without a template.
func (w *Words) defaultHTML(value, lead, end, link string) string {
	logo, follow, size := "", "", "28px;letter-spacing:3px"
	if w.LogoURL != "" {
		logo = `<p><img src="` + escapeHTML(w.LogoURL) + `" alt="` + escapeHTML(w.AppName) + `" style="max-width:340px;max-height:124px"></p>`
	}
	if link != "" {
		follow = `<p><a href="` + escapeHTML(link) + `">Continue</a></p>`
	}
	if len(value) > 2*MaxPasscode {
		size = "14px;word-break:break-all"
	}
	return `<!doctype html><html><head><meta charset="utf-8"></head><body style="font-family:sans-serif;max-width:34em;margin:2em auto;padding:0 1em">` +
		logo + `<p>` + escapeHTML(lead) + `</p><p style="font-family:monospace;font-size:` + size + `">` + escapeHTML(value) + `</p>` +
		follow + `<p style="color:#666">` + escapeHTML(end) + `</p></body></html>`
}

// PasscodeText is the text message that brings a passcode. A template must contain the code.
// Errors are *fault.Error.
func PasscodeText(t *Template, appName string, code Passcode) (string, error) {
	if t == nil {
		if !fitsHeader(appName) {
			return "", fault.Field("appName", "must be 1 to 255 characters without control characters")
		}
		return "Your code for " + appName + " is " + string(code), nil
	}
	plain := func(value string) string { return value }
	out, ok := t.expand(map[string]string{NameOtpCode: string(code), NameAppName: appName}, nil, plain, 4*MaxText)
	switch {
	case !t.Uses(NameOtpCode):
		return "", fault.Field("smsCustomization.template", "must contain {{ .OtpCode }}")
	case !ok || utf8.RuneCountInString(out) > MaxText:
		return "", fault.Field("smsCustomization.template", "the message would be longer than %d characters", MaxText)
	case strings.ContainsFunc(out, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }):
		return "", fault.Field("smsCustomization.template", "must have no control characters")
	}
	return out, nil
}

// A Sender is the sender of a mail.
type Sender struct{ Address, Name, ReplyTo string }

// DefaultSenderName is the name of a sender without a name.
const DefaultSenderName = "Notifications"

// ChooseSender returns asked if its address is in one of the domains that the configuration
// lists, and usual otherwise. A ReplyTo in another domain is left out.
func ChooseSender(asked, usual Sender, domains []string) Sender {
	listed := func(address string) bool {
		at := strings.LastIndexByte(address, '@')
		return at > 0 && isEmail(address) && slices.ContainsFunc(domains, func(d string) bool { return strings.EqualFold(d, address[at+1:]) })
	}
	if !listed(asked.Address) {
		asked = usual
	} else if !listed(asked.ReplyTo) {
		asked.ReplyTo = ""
	}
	asked.Name = cmp.Or(asked.Name, DefaultSenderName)
	return asked
}
