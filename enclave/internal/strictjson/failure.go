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

func (f *failure) under(name string) *failure {
	f.path = append(f.path, name)
	return f
}

func (f *failure) underItem(i int) *failure { return f.under(strconv.Itoa(i)) }

// fault puts the failure into the words of the interface. prefix is the path of
// the text itself.
func (f *failure) fault(prefix string) *fault.Error {
	const head = "invalid request body: "
	if prefix != "" {
		f.under(prefix)
	}
	slices.Reverse(f.path)
	path := strings.Join(f.path, ".")
	e := &fault.Error{Code: fault.InvalidArgument}
	var description string
	switch f.kind {
	case badValue:
		if path == "" { // the text as a whole
			e.Message = head + f.text
			return e
		}
		description = f.text
		e.Message = head + `"` + path + `" ` + description
	case badSyntax:
		e.Message = head + f.text
		return e
	case missingField:
		leaf := ""
		if len(f.path) > 0 {
			leaf = f.path[len(f.path)-1]
		}
		description = "missing field `" + leaf + "`"
		e.Message = head + description
	case unknownField:
		description = "unknown field"
		e.Message = head + description + ` "` + path + `"`
	case repeatedField:
		description = "repeated field"
		e.Message = head + description + ` "` + path + `"`
	}
	e.Violations = []fault.Violation{{Field: path, Description: description}}
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
