package strictjson

import (
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/fault"
)

// failure is why a text was refused. The path is gathered from the inside out
// while the decoder returns, so that a good text pays nothing for it.
type failure struct {
	kind failureKind
	text string
	path []string // innermost first
}

type failureKind uint8

const (
	badSyntax failureKind = iota // about the text as a whole; no field is named
	badValue
	missingField
	unknownField
	repeatedField
)

func syntax(text string, at int) *failure {
	return &failure{kind: badSyntax, text: text + " at byte " + strconv.Itoa(at)}
}

func refuse(text string) *failure { return &failure{kind: badValue, text: text} }

func (f *failure) inField(name string) *failure {
	f.path = append(f.path, name)
	return f
}

func (f *failure) underItem(i int) *failure { return f.inField(strconv.Itoa(i)) }

// fault puts the failure into the words of the interface. prefix is the path of
// the text itself.
func (f *failure) fault(prefix string) *fault.Error {
	if prefix != "" {
		f.inField(prefix)
	}
	slices.Reverse(f.path)
	path := strings.Join(f.path, ".")
	e := &fault.Error{Code: fault.InvalidArgument}
	description, shown := f.text, f.text
	switch f.kind {
	case badValue:
		if path != "" {
			shown = `"` + path + `" ` + f.text
		}
	case missingField:
		leaf := ""
		if len(f.path) > 0 {
			leaf = f.path[len(f.path)-1]
		}
		description = "missing field `" + leaf + "`"
		shown = description
	case unknownField:
		description = "unknown field"
		shown = description + ` "` + path + `"`
	case repeatedField:
		description = "repeated field"
		shown = description + ` "` + path + `"`
	}
	e.Message = "invalid request body: " + shown
	if f.kind != badSyntax && (f.kind != badValue || path != "") { // else it is about the text as a whole
		e.Violations = []fault.Violation{{Field: path, Description: description}}
	}
	return e
}

// quoteName makes a name from outside fit for an error: at most maxQuoted bytes,
// printable ASCII, without quotes.
func quoteName(name []byte) string {
	short := name
	if len(short) > maxQuoted {
		short = short[:maxQuoted]
	}
	q := strconv.QuoteToASCII(string(short))
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `\x22`)
	if len(name) > maxQuoted {
		q += "..."
	}
	return q
}
