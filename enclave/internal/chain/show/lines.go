package show

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Warned is a warning of a document, for those who read words and no JSON.
type Warned struct {
	Severity Severity
	Text     string
}

// Warnings are the document's warnings, the gravest first.
func (d Document) Warnings() []Warned {
	all := make([]Warned, len(d.warnings))
	for i, w := range d.warnings {
		all[i] = Warned{w.code.Severity(), w.code.Text()}
	}
	return all
}

// Lines is a document's parts as indented lines of printable ASCII: at most so many, of at most so many bytes together. It leaves out what
// only programs read, such as hashes of what is shown. more tells whether something else is left out or cut.
func (d Document) Lines(most, bytes int) (lines []string, more bool) {
	w := lineWriter{most: most, bytes: bytes}
	for i, part := range d.parts.items {
		if len(d.parts.items) > 1 {
			w.line(0, "Part "+strconv.Itoa(i+1), "")
		}
		w.value(0, "", part)
	}
	return w.lines, w.more
}

// maxLineText bounds one text in Lines, in bytes.
const maxLineText = 300

// maxIndent bounds the indentation in steps, so that deep trees stay readable.
const maxIndent = 8

// unsaid are members that Lines leaves out: they say again, for programs, what others show.
var unsaid = []string{"input", "encodeType", "domainHash", "messageHash", "calldataDigest", "selector", "version", "recentBlockhash", "txid", "digest", "scheme", "decimals"}

// named are members whose names do not say what they are.
var named = map[string]string{"by": "Signed by", "signs": "Signature", "lines": "Text", "args": "Arguments", "intent": "Request", "of": "Transaction", "most": "At most", "until": "Valid until",
	"means": "What it comes to", "readBy": "Policies that read it", "readByMore": "More policies that read it", "waysIn": "Ways to act as this user", "behind": "Policies that no longer apply there"}

// A lineWriter writes the lines of a document until they are enough.
type lineWriter struct {
	lines       []string
	most, bytes int
	more        bool
}

func (w *lineWriter) line(indent int, name, text string) {
	if text != "" && name != "" {
		name += ": "
	}
	if len(text) > maxLineText {
		text, w.more = text[:maxLineText]+"...", true
	}
	if len(name) > maxLineText {
		name, w.more = name[:maxLineText]+"...", true
	}
	all := strings.Repeat("  ", min(indent, maxIndent)) + name + text
	if len(w.lines) >= w.most || len(all) > w.bytes {
		w.most, w.more = 0, true // no later line stands without this one
		return
	}
	w.bytes -= len(all)
	w.lines = append(w.lines, all)
}

// value writes a member under a name, which may be empty.
func (w *lineWriter) value(indent int, name string, value any) {
	switch v := value.(type) {
	case string:
		w.line(indent, name, cmp.Or(v, "none"))
	case bool:
		w.line(indent, name, map[bool]string{true: "yes", false: "no"}[v])
	case *Object:
		w.object(indent, name, v, false)
	case *List:
		w.list(indent, name, v)
	}
}

// object writes an object. The name of an entry, which the payload brings along, is in the object itself.
func (w *lineWriter) object(indent int, name string, o *Object, entry bool) {
	text, taken := o.short()
	if entry {
		name, taken = o.text("name"), append(taken, "name", "type")
	}
	rest := slices.ContainsFunc(o.keys, func(key string) bool { return !slices.Contains(taken, key) })
	if text != "" || name != "" && rest {
		w.line(indent, name, text)
		indent++
	}
	for i, key := range o.keys {
		switch {
		case slices.Contains(taken, key):
		case key == "members", key == "items":
			w.value(indent, "", o.values[i])
		default:
			w.value(indent, nameOf(key), o.values[i])
		}
	}
}

func (w *lineWriter) list(indent int, name string, l *List) {
	if len(l.items) == 0 {
		w.line(indent, name, "none")
		return
	}
	if name != "" {
		w.line(indent, name, "")
		indent++
	}
	for i, item := range l.items {
		o, ok := item.(*Object)
		switch {
		case !ok: // such as a line of a message, which could look like a member
			text, _ := item.(string)
			w.line(indent, "", "| "+text)
		case o.text("name") != "" && o.value("nameSource") == nil:
			w.object(indent, "", o, true)
		case len(l.items) > 1:
			w.object(indent, "("+strconv.Itoa(i+1)+")", o, false)
		default:
			w.object(indent, "", o, false)
		}
	}
}

// short is what an object is in one text, and the members that need no line beside it.
func (o *Object) short() (text string, taken []string) {
	taken = slices.Clone(unsaid)
	for _, key := range o.keys {
		if strings.HasSuffix(key, "Source") {
			taken = append(taken, key)
		}
	}
	take := func(keys ...string) { taken = append(taken, keys...) }
	address, value, written, hex := o.text("address"), o.text("value"), o.text("text"), o.text("hex")
	switch {
	case address != "":
		text = address
		take("address")
		if label := o.text("label"); label != "" {
			text += " (" + o.labelText(label) + ")"
			take("label", "labelBy")
		}
	case hex != "":
		text = hex[:min(len(hex), 66)]
		take("hex", "sha256", "length")
		if n := o.text("length"); n != strconv.Itoa((len(text)-len("0x"))/2) {
			text += "... (" + n + " bytes in all)"
		}
	case written != "" && o.text("length") != "":
		text = written + "... (" + o.text("length") + " characters in all)"
		take("text", "length", "sha256")
	case o.value("unlimited") == true:
		text = "UNLIMITED, everything now and later"
		if s := o.text("symbol"); s != "" {
			text = "UNLIMITED " + s + ", everything now and later"
		}
		take("unlimited", "symbol", "value", "text", "unit")
	case value != "" && (o.value("unit") != nil || o.value("symbol") != nil || written != ""):
		text = value
		if written != "" {
			text = written
		}
		if s := o.text("symbol"); s != "" {
			text += " " + s
		} else if written == "" {
			text += " " + o.text("unit")
		}
		take("value", "text", "unit", "symbol")
	case value != "":
		text = value
		take("value")
	case o.text("name") != "" && o.value("nameSource") != nil:
		text = o.text("name")
		take("name")
	case written != "":
		text = written
		take("text")
	}
	if o.text("source") == FromHost {
		text = "the server will say it when it is approved"
	}
	take("source")
	return text, taken
}

// labelSources say in lines where a label is from, so that none looks like the word of somebody else.
var labelSources = map[string]string{FromImage: "built in", FromOperator: "on the operator's list", FromOrganization: "in the address book"}

// labelText is a label between quotes that it cannot hold itself, with where it is from.
func (o *Object) labelText(label string) string {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\u{22}`) + `"` }
	if from, ok := labelSources[o.text("labelSource")]; ok {
		return from + " as " + quote(label)
	}
	by := "somebody"
	if user, ok := o.value("labelBy").(*Object); ok {
		by = "a user who is gone"
		if name := user.text("name"); name != "" {
			by = quote(name)
		}
	}
	return "labelled " + quote(label) + " by " + by + " with an interface"
}

func (o *Object) value(key string) any {
	if i := slices.Index(o.keys, key); i >= 0 {
		return o.values[i]
	}
	return nil
}

// text is a member that is a text, "" for any other.
func (o *Object) text(key string) string {
	s, _ := o.value(key).(string)
	return s
}

// nameOf makes words of a member's name: gasLimit is "Gas limit".
func nameOf(key string) string {
	if s := named[key]; s != "" {
		return s
	}
	var b strings.Builder
	for i, r := range key {
		switch {
		case i == 0:
			b.WriteRune(unicode.ToUpper(r))
		case unicode.IsUpper(r):
			b.WriteString(" " + string(unicode.ToLower(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Visible is a name from outside as people can read it: letters of any alphabet, digits and ASCII as they are; anything else, which may be invisible
// or turn the text around, as \u{HEX}. It is cut where it would get longer than that many characters.
func Visible(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		text := string(r)
		if plain := r > 0x7e && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)) && !isHidden(r) && !unicode.Is(unicode.Variation_Selector, r); !plain {
			text, _ = escape(text, nil)
		}
		if n += utf8.RuneCountInString(text); n > most {
			return b.String() + "..."
		}
		b.WriteString(text)
	}
	return b.String()
}
