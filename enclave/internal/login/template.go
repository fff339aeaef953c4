package login

import (
	"slices"
	"strings"
	"unicode/utf8"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// A Template is what an organization has written for its mails or text messages:
// text with actions in the syntax of Go's templates, of which there are two,
// {{ .Name }} for one of the names below, and {{ index .TemplateVariables "key" }}.
// Everything else between {{ and }} is refused. There are no conditions, loops and
// functions, so a template costs what its text and its values are long.
type Template struct{ parts []part }

// part is literal text, followed by the value of a name or a variable; both are
// empty at the end.
type part struct{ literal, name, key string }

// The names of actions.
const (
	NameOtpCode   = "OtpCode"   // the passcode
	NameMagicLink = "MagicLink" // the link of the mail, if there is one
	NameBundle    = "Bundle"    // the encrypted credential of a mail that brings one
	NameAppName   = "AppName"
	NameLogoURL   = "LogoUrl"
)

var actionNames = []string{NameOtpCode, NameMagicLink, NameBundle, NameAppName, NameLogoURL}

// ParseTemplate reads a template. The errors are *fault.Error about field.
func ParseTemplate(field, text string) (*Template, error) {
	if len(text) > MaxTemplate || !utf8.ValidString(text) {
		return nil, fault.Field(field, "invalid template: must be UTF-8 of at most %d bytes", MaxTemplate)
	}
	t := new(Template)
	for {
		literal, rest, more := strings.Cut(text, "{{")
		if !more {
			t.parts = append(t.parts, part{literal: literal})
			return t, nil
		}
		action, after, closed := strings.Cut(rest, "}}")
		p, ok := parseAction(strings.Trim(action, " \t"))
		if !closed || !ok {
			return nil, fault.Field(field, `invalid template: only {{ .%s }} and {{ index .TemplateVariables "key" }} may stand between {{ and }}`,
				strings.Join(actionNames, " }}, {{ ."))
		}
		p.literal = literal
		t.parts = append(t.parts, p)
		text = after
	}
}

func parseAction(action string) (p part, ok bool) {
	if name, ok := strings.CutPrefix(action, "."); ok {
		return part{name: name}, slices.Contains(actionNames, name)
	}
	word := func(w string) bool {
		rest, ok := strings.CutPrefix(action, w)
		action = strings.TrimLeft(rest, " \t")
		return ok && action != rest // a word ends with space
	}
	if !word("index") || !word(".TemplateVariables") {
		return p, false
	}
	n := len(action)
	if n < 3 || action[0] != '"' || action[n-1] != '"' || strings.ContainsAny(action[1:n-1], "\"\\\r\n") {
		return p, false
	}
	return part{key: action[1 : n-1]}, true
}

// Uses tells whether a name occurs.
func (t *Template) Uses(name string) bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return p.name == name })
}

// expand writes the template with values for names and variables, "" for what has
// none, each through escape. It stops when more than most bytes come together.
func (t *Template) expand(names, variables map[string]string, escape func([]byte, string) []byte, most int) ([]byte, bool) {
	var out []byte
	for _, p := range t.parts {
		out = append(out, p.literal...)
		value := names[p.name]
		if p.key != "" {
			value = variables[p.key]
		}
		if out = escape(out, value); len(out) > most {
			return nil, false
		}
	}
	return out, true
}

// appendPlain leaves everything as it is.
func appendPlain(dst []byte, s string) []byte { return append(dst, s...) }

// appendHTML escapes a value for text and for attributes in quotes.
func appendHTML(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '&':
			dst = append(dst, "&amp;"...)
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '"':
			dst = append(dst, "&#34;"...)
		case '\'':
			dst = append(dst, "&#39;"...)
		case '`':
			dst = append(dst, "&#96;"...)
		case '=':
			dst = append(dst, "&#61;"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// ParseVariables reads the variables of a template: a JSON object of strings. The
// empty text has none. The errors are *fault.Error about field.
func ParseVariables(field, text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	failed := fault.Field(field, "failed to unmarshal template variables")
	if len(text) > MaxVariables {
		return nil, failed
	}
	o, ok := parseObject([]byte(text), strictjson.Limits{Depth: 1, Members: 100, Values: 101})
	if !ok {
		return nil, failed
	}
	m := make(map[string]string, len(o))
	for name := range o {
		if m[name], _, ok = o.text(name); !ok {
			return nil, failed
		}
	}
	return m, nil
}

// A MagicLink is the template of a link: a URL with one %s, in whose place the code
// or bundle goes. The zero value is no link.
type MagicLink struct{ before, after string }

// ParseMagicLink reads the template of a link, of any scheme but those that run
// something. The empty text is no link. The errors are *fault.Error about field.
func ParseMagicLink(field, text string) (MagicLink, error) {
	if text == "" {
		return MagicLink{}, nil
	}
	before, after, ok := strings.Cut(text, "%s")
	scheme, _, colon := strings.Cut(before, ":")
	if !ok || strings.Contains(after, "%s") || len(text) > MaxURL || !visible(text) || strings.ContainsAny(text, "\"<>\\^`{|}") ||
		!colon || !isScheme(scheme) {
		return MagicLink{}, fault.Field(field, "invalid magic link template: must be a URL that contains %%s once")
	}
	return MagicLink{before, after}, nil
}

func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != "" && !slices.Contains([]string{"javascript", "data", "vbscript", "file", "blob"}, strings.ToLower(s))
}

// To is the link with a code or bundle, which has only letters and digits.
func (l MagicLink) To(value string) string {
	if l.before == "" {
		return ""
	}
	return l.before + value + l.after
}
