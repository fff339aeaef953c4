package show

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"
)

// A Header is what a document says of the activity before the parts.
type Header struct {
	OrganizationID, ActivityID string
	Type                       string // of the activity
	Fingerprint                string // of its body
	Kind                       string // of what is signed, such as ETHEREUM_TRANSACTION
}

// A Document is what an approver is shown, finished. It does not change.
type Document struct {
	text     []byte
	kind     string
	title    string
	severity Severity
	readable Readable
	warnings []placed // the gravest first
	parts    *List
}

// Format is the name of the form of documents.
const Format = "cloister.decoded/1"

// Document finishes the tree. The view is not used afterwards. A document is at most MaxBytes long.
func (v *View) Document(h Header) Document {
	for _, w := range v.warnings {
		if w.code == Limit || w.code == Cut {
			v.readable = max(v.readable, Partial)
		}
	}
	if v.open {
		v.warn(NotFixed, "parts")
	}
	slices.SortStableFunc(v.warnings, func(a, b placed) int { return cmp.Compare(b.code.Severity(), a.code.Severity()) })
	severity := Calm
	if len(v.warnings) > 0 {
		severity = v.warnings[0].code.Severity()
	}
	b := make([]byte, 0, 4096)
	b = append(b, '{')
	for _, m := range [...][2]string{
		{"format", Format}, {"organizationId", h.OrganizationID}, {"activityId", h.ActivityID}, {"type", h.Type},
		{"fingerprint", h.Fingerprint}, {"kind", h.Kind}, {"title", v.title}, {"readable", v.readable.String()},
	} {
		if m[1] != "" {
			b = appendString(append(appendString(b, m[0]), ':'), m[1])
			b = append(b, ',')
		}
	}
	b = append(b, `"fixed":`...)
	b = strconv.AppendBool(b, !v.open)
	b = append(b, `,"severity":"`+severity.String()+`","warnings":[`...)
	for i, w := range v.warnings {
		b = appendWarning(comma(b, i), w)
	}
	b = append(b, `],"parts":`...)
	b = appendValue(b, v.parts)
	if len(v.sources) > 0 {
		b = append(b, `,"sources":[`...)
		for i := range v.sources {
			b = v.sources[i].append(comma(b, i))
		}
		b = append(b, ']')
	}
	return Document{append(b, '}'), h.Kind, v.title, severity, v.readable, v.warnings, v.parts}
}

// Text is the document: JSON without blanks, of printable ASCII, that JSON.parse and JSON.stringify give back as it is. The
// caller must not change it.
func (d Document) Text() []byte { return d.text }

// Kind is the header's.
func (d Document) Kind() string { return d.kind }

// Title says what the activity does.
func (d Document) Title() string { return d.title }

// Severity is the greatest weight of its warnings.
func (d Document) Severity() Severity { return d.severity }

// Readable tells how much of it can be read.
func (d Document) Readable() Readable { return d.readable }

// Digest is what a vote names when it commits to what was shown: the SHA-256 of the line `cloister decoded 1` and the text.
func (d Document) Digest() [32]byte {
	h := sha256.New()
	h.Write([]byte("cloister decoded 1\n"))
	h.Write(d.text)
	return [32]byte(h.Sum(nil))
}

func appendWarning(b []byte, w placed) []byte {
	b = append(b, `{"code":"`+w.code.String()+`","severity":"`+w.code.Severity().String()+`","at":[`...)
	for i, at := range w.at {
		b = appendString(comma(b, i), at)
	}
	b = append(b, ']')
	if w.more > 0 {
		b = append(b, `,"more":"`+strconv.Itoa(w.more)+`"`...)
	}
	b = appendString(append(b, `,"text":`...), w.code.Text())
	return append(b, '}')
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

func appendValue(b []byte, value any) []byte {
	switch value := value.(type) {
	case string:
		return appendString(b, value)
	case bool:
		return strconv.AppendBool(b, value)
	case *Object:
		b = append(b, '{')
		for i, key := range value.keys {
			b = append(appendString(comma(b, i), key), ':')
			b = appendValue(b, value.values[i])
		}
		return append(b, '}')
	case *List:
		b = append(b, '[')
		for i, item := range value.items {
			b = appendValue(comma(b, i), item)
		}
		return append(b, ']')
	}
	return append(b, "null"...)
}

// appendString writes a text as JSON. What is not printable ASCII, which no text here is, becomes a question mark.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c > 0x7e:
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
