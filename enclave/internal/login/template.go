package login

import (
	"slices"
	"strings"
	"unicode/utf8"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// A Template is an organization's text for its mails or text messages, with two actions in the
// syntax of Go's templates: {{ .Name }} for one of the names below, and
// {{ index .TemplateVariables "key" }}. Anything else between {{ and }} is refused. There are no
// conditions, loops and functions, so the cost is proportional to text and values.
type Template struct{ parts []part }

// part is literal text, followed by the value of a name or a variable. The last part has neither.
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

// ParseTemplate reads a template. Errors are *fault.Error about field.
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
		p.literal, text = literal, after
		t.parts = append(t.parts, p)
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

// expand writes the template with escaped values for names and variables, "" where there is no
// value. It fails when the text gets longer than most bytes.
func (t *Template) expand(names, variables map[string]string, escape func(string) string, most int) (string, bool) {
	var out strings.Builder
	for _, p := range t.parts {
		value := names[p.name]
		if p.key != "" {
			value = variables[p.key]
		}
		out.WriteString(p.literal)
		out.WriteString(escape(value))
		if out.Len() > most {
			return "", false
		}
	}
	return out.String(), true
}

// escapeHTML escapes a value for text and for attributes in quotes.
var escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "`", "&#96;", "=", "&#61;").Replace

// ParseVariables reads the variables of a template: a JSON object of strings. The empty text has
// none. Errors are *fault.Error about field.
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
		if m[name], ok = o.text(name); !ok {
			return nil, failed
		}
	}
	return m, nil
}

// A MagicLink is the template of a link: a URL with one %s, which the code or bundle replaces.
// The zero value is no link.
type MagicLink struct{ before, after string }

// ParseMagicLink reads the template of a link, of any scheme that runs nothing. The empty text is
// no link. Errors are *fault.Error about field.
func ParseMagicLink(field, text string) (MagicLink, error) {
	if text == "" {
		return MagicLink{}, nil
	}
	before, after, ok := strings.Cut(text, "%s")
	scheme, _, colon := strings.Cut(before, ":")
	if !ok || strings.Contains(after, "%s") || len(text) > MaxURL || !isVisible(text) || strings.ContainsAny(text, notInURL) || !colon || !isScheme(scheme) {
		return MagicLink{}, fault.Field(field, "invalid magic link template: must be a URL that contains %%s once")
	}
	return MagicLink{before, after}, nil
}

func isScheme(s string) bool {
	return s != "" && isAlphanumeric(s, "+-.") && !strings.ContainsRune("0123456789+-.", rune(s[0])) &&
		!slices.Contains([]string{"javascript", "data", "vbscript", "file", "blob"}, strings.ToLower(s))
}

// To is the link with a code or bundle, which has only letters and digits.
func (l MagicLink) To(value string) string {
	if l.before == "" {
		return ""
	}
	return l.before + value + l.after
}
