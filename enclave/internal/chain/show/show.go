// Package show is what an approver is shown of what would be signed: a tree of texts, made from the very bytes, and
// warnings. The packages of chains fill the tree; package decoded puts it round with what the organization knows.
//
// The tree is bounded whatever the bytes are: MaxBytes in all, MaxCalls calls, MaxEntries entries of lists. What is more than
// that is left out with the warning LIMIT, and what was left out is still read for warnings. A tree holds texts of printable
// ASCII, booleans, objects and lists, nothing else, so that JSON.parse and JSON.stringify give the same bytes in every client
// and all of them compute one digest.
package show

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what is shown.
const (
	MaxBytes   = 64 << 10 // of a document
	MaxCalls   = 64       // in all layers
	MaxDepth   = 8        // layers of calls
	MaxEntries = 512      // of all lists
	maxNesting = 40       // of objects in objects
	maxText    = 1024     // characters of one text
	maxHex     = 256      // bytes of one piece of data
	maxPlaces  = 8        // of one warning

	// What the tree may take, and what is kept for the warnings' own texts, for where the document comes from and for the
	// digests of a Bitcoin transaction.
	treeBytes = 48 << 10
)

// Readable tells how much of something an approver can read.
type Readable uint8

// The degrees, as the documents write them.
const (
	Full Readable = iota
	Partial
	None
)

// String is FULL, PARTIAL or NONE.
func (r Readable) String() string { return [...]string{"FULL", "PARTIAL", "NONE"}[r] }

// Unread says why something cannot be read.
type Unread string

// The reasons.
const (
	Digest             Unread = "DIGEST"              // a hash: nobody can tell of what
	Encrypted          Unread = "ENCRYPTED"           // for somebody else
	UnknownFunction    Unread = "UNKNOWN_FUNCTION"    // no interface has it
	UnknownProgram     Unread = "UNKNOWN_PROGRAM"     // no program that is built in or described
	UnknownInstruction Unread = "UNKNOWN_INSTRUCTION" // of a program that is
	DoesNotDecode      Unread = "DOES_NOT_DECODE"     // an interface has the function, and these are not its arguments
	Delegatecall       Unread = "DELEGATECALL"        // foreign code does with it what it likes
	Code               Unread = "CODE"                // of a contract that is created, or a script
	TooDeep            Unread = "TOO_DEEP"            // more layers than are read
	TooMuch            Unread = "TOO_MUCH"            // more than is shown
)

// A View is the tree of one activity while it is being filled. It is for one goroutine.
type View struct {
	known     *Known
	index     *index          // see find
	ownNames  map[string]bool // see isOwnName
	title     string
	readable  Readable
	open      bool // the terms come at the vote
	warnings  []placed
	parts     *List
	sources   []Source
	calls     int
	entries   int
	err       error // see Err
	bytesLeft int
}

// New begins a tree.
func New(known *Known) *View {
	v := &View{known: known, bytesLeft: treeBytes}
	v.parts = &List{view: v, path: "parts", shown: true}
	return v
}

// Part begins a part: one payload of the activity.
func (v *View) Part() *Object { return v.parts.Object() }

// Title says in a few words what the activity does. The first that is said stays.
func (v *View) Title(text string) {
	if v.title == "" {
		v.title = text
	}
}

// Blind tells that nothing of what is signed can be read.
func (v *View) Blind() { v.readable = None }

// MarkPartial tells that a part of what is signed is not explained.
func (v *View) MarkPartial() { v.readable = max(v.readable, Partial) }

// Open tells that the terms are not all fixed before the vote.
func (v *View) Open() { v.open = true }

// Call counts a call at a depth, the outermost at 1. It answers why the call is not to be read if there are too many, and
// "" otherwise.
func (v *View) Call(depth int) Unread {
	v.calls++
	switch {
	case depth > MaxDepth:
		return TooDeep
	case v.calls > MaxCalls:
		return TooMuch
	}
	return ""
}

// CallsLeft is how many calls may still be shown.
func (v *View) CallsLeft() int { return max(0, MaxCalls-v.calls) }

// An Object has named members in the order in which they were set. One that is not shown takes members and forgets them;
// warnings about it stand at what holds it.
type Object struct {
	view   *View
	path   string
	shown  bool
	depth  int
	keys   []string
	values []any // text, bool, *Object or *List
}

// A List has objects and texts in a row.
type List struct {
	view   *View
	path   string
	shown  bool
	depth  int
	items  []any
	marked bool // that something was left out
}

// take has n of the bytes left, or tells that they are not there.
func (v *View) take(n int) bool {
	if n > v.bytesLeft {
		return false
	}
	v.bytesLeft -= n
	return true
}

const around = 6 // quotes, colon, comma

// written is how long a text is in JSON, without its quotes.
func written(s string) int { return len(s) + strings.Count(s, `"`) + strings.Count(s, `\`) }

// set takes a member whose own text has a size.
func (o *Object) set(key string, value any, size int) bool {
	if !o.shown {
		return false
	}
	if !o.view.take(len(key) + size + around) {
		o.view.limit(o.path)
		return false
	}
	o.keys, o.values = append(o.keys, key), append(o.values, value)
	return true
}

// limit warns that something was left out at a place.
func (v *View) limit(path string) {
	v.warn(Limit, path)
	v.readable = max(v.readable, Partial)
}

// Plain sets a text of the program's own, such as the name of a type, or of digits.
func (o *Object) Plain(key, value string) { o.set(key, value, written(value)) }

// Bool sets a boolean.
func (o *Object) Bool(key string, value bool) { o.set(key, value, len("false")) }

// Uint sets a number.
func (o *Object) Uint(key string, n uint64) { o.Plain(key, strconv.FormatUint(n, 10)) }

// Number sets a number of any size. Nil is none.
func (o *Object) Number(key string, n *big.Int) {
	if n != nil {
		o.Plain(key, n.String())
	}
}

// Digest sets 32 bytes or so in hexadecimal with 0x, whole.
func (o *Object) Digest(key string, b []byte) { o.Plain(key, "0x"+hex.EncodeToString(b)) }

// Time sets a time in seconds since 1970, and as people write it.
func (o *Object) Time(key string, seconds *big.Int) {
	child := o.Object(key)
	child.Number("value", seconds)
	child.Plain("unit", "s")
	if seconds.Sign() >= 0 && seconds.Cmp(lastSecond) <= 0 {
		child.Plain("text", time.Unix(seconds.Int64(), 0).UTC().Format(time.RFC3339))
	}
}

// Millis sets a time in milliseconds since 1970, and as people write it.
func (o *Object) Millis(key string, ms int64) {
	child := o.Object(key)
	child.Plain("value", strconv.FormatInt(ms, 10))
	child.Plain("unit", "ms")
	if ms >= 0 && ms/1000 <= lastSecond.Int64() {
		child.Plain("text", time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00"))
	}
}

var lastSecond = big.NewInt(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix())

// Object sets an object and answers it.
func (o *Object) Object(key string) *Object {
	child := &Object{view: o.view, path: o.path + "." + key, shown: o.shown, depth: o.depth + 1}
	if child.depth > maxNesting {
		o.view.limit(o.path)
		child.shown = false
	}
	if child.shown = child.shown && o.set(key, child, 2); !child.shown {
		child.path = o.path
	}
	return child
}

// List sets a list and answers it.
func (o *Object) List(key string) *List {
	l := &List{view: o.view, path: o.path + "." + key, depth: o.depth}
	if l.shown = o.set(key, l, 2); !l.shown {
		l.path = o.path
	}
	return l
}

// add takes an item, or marks that some were left out.
func (l *List) add(item any, size int) bool {
	if !l.shown {
		return false
	}
	if l.view.entries++; l.view.entries <= MaxEntries && l.view.take(size+around) {
		l.items = append(l.items, item)
		return true
	}
	l.TooMany()
	return false
}

// TooMany marks that the list goes on and is not read any further.
func (l *List) TooMany() {
	if l.view.limit(l.path); l.shown && !l.marked {
		l.marked = true
		l.items = append(l.items, mark(TooMuch))
	}
}

// mark is what stands for things that were left out.
func mark(why Unread) *Object {
	reason := &Object{keys: []string{"reason"}, values: []any{string(why)}}
	return &Object{keys: []string{"unreadable"}, values: []any{reason}}
}

// Plain adds a text of the program's own.
func (l *List) Plain(value string) { l.add(value, written(value)) }

// Digest adds 32 bytes or so in hexadecimal with 0x.
func (l *List) Digest(b []byte) { l.Plain("0x" + hex.EncodeToString(b)) }

// Object adds an object.
func (l *List) Object() *Object { return l.object(strconv.Itoa(len(l.items))) }

// Entry adds an object with a name that the payload brings along; warnings call it by the name. A name that is empty is
// left out, and its place tells it.
func (l *List) Entry(name string) *Object {
	if name == "" {
		return l.Object()
	}
	text, _ := escape(name, nil)
	o := l.object(text)
	o.Text("name", name)
	return o
}

func (l *List) object(step string) *Object {
	o := &Object{view: l.view, path: l.path + "." + step, depth: l.depth + 1}
	if o.shown = l.add(o, 2); !o.shown {
		o.path = l.path
	}
	return o
}

// Text sets a text from outside: escaped, and cut if it is long. Warnings tell of letters that mislead.
func (o *Object) Text(key, s string) {
	if !utf8.ValidString(s) {
		o.Bytes(key, []byte(s))
		return
	}
	shown, whole := clip(s)
	text, found := escape(shown, nil)
	if !whole {
		_, found = escape(s, nil) // what is cut off counts too
		long := o.Object(key)
		long.Plain("text", text)
		long.Uint("length", uint64(utf8.RuneCountInString(s)))
		long.Plain("sha256", sum([]byte(s)))
		o.cut(key)
	} else {
		o.Plain(key, text)
	}
	o.tell(key, found)
}

// Lines sets a text of several lines as a list, so that a line break makes no field of a viewer's.
func (o *Object) Lines(key, s string) {
	shown, whole := clip(s)
	_, found := escape(s, isBreak)
	l := o.List(key)
	for line := range strings.SplitSeq(shown, "\n") {
		text, _ := escape(strings.TrimSuffix(line, "\r"), nil)
		l.Plain(text)
	}
	if !whole {
		o.Uint("length", uint64(utf8.RuneCountInString(s)))
		o.Plain("sha256", sum([]byte(s)))
		o.cut(key)
	}
	o.tell(key, found)
}

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// cut warns that a member is shown in part.
func (o *Object) cut(key string) {
	o.Warn(Cut, key)
	o.view.readable = max(o.view.readable, Partial)
}

// tell warns of the letters in a member.
func (o *Object) tell(key string, found letters) {
	for _, w := range found.warnings() {
		o.Warn(w, key)
	}
}

// clip is the beginning of a text that is shown, and whether it is all.
func clip(s string) (string, bool) {
	n := 0
	for i := range s {
		if n == maxText {
			return s[:i], false
		}
		n++
	}
	return s, true
}

// Bytes sets data in hexadecimal with 0x, or if they are long their beginning with length and hash.
func (o *Object) Bytes(key string, b []byte) {
	if o.Begin(key, b); len(b) > maxHex {
		o.cut(key)
	}
}

// Begin sets data as Bytes does, without a warning: of what is shown elsewhere too.
func (o *Object) Begin(key string, b []byte) {
	if len(b) <= maxHex {
		o.Digest(key, b)
		return
	}
	o.Object(key).piece(b)
}

// Data sets data with their length and hash whatever their length is: code, a script.
func (o *Object) Data(key string, b []byte) *Object {
	child := o.Object(key)
	child.piece(b)
	if len(b) > maxHex {
		o.cut(key)
	}
	return child
}

func (o *Object) piece(b []byte) {
	o.Digest("hex", b[:min(len(b), maxHex)])
	o.Uint("length", uint64(len(b)))
	o.Plain("sha256", sum(b))
}

// Unreadable tells that this object stands for bytes that cannot be read.
func (o *Object) Unreadable(why Unread, b []byte) {
	child := o.Object("unreadable")
	child.Plain("reason", string(why))
	child.piece(b)
	switch why {
	case TooDeep, TooMuch:
		o.view.limit(o.path)
	case Encrypted:
		o.view.MarkPartial()
	case Digest:
		o.Warn(BlindSignature)
		o.view.readable = None
	default:
		o.Warn(UnreadPart)
		o.view.readable = max(o.view.readable, Partial)
	}
}

// Trailing tells of bytes behind what was read.
func (o *Object) Trailing(b []byte) {
	o.Object("trailing").piece(b)
	o.Warn(TrailingBytes)
	o.view.readable = max(o.view.readable, Partial)
}

// Input tells what bytes this part was read from.
func (o *Object) Input(encoding string, b []byte) {
	in := o.Object("input")
	in.Plain("encoding", encoding)
	in.Uint("length", uint64(len(b)))
	in.Plain("sha256", sum(b))
}

// Warn warns of this object, or of one of its members.
func (o *Object) Warn(code Warning, member ...string) {
	path := o.path
	if len(member) > 0 && o.shown {
		path += "." + strings.Join(member, ".")
	}
	o.view.warn(code, path)
}

// Sum is SHA-256.
func Sum(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:]
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (v *View) warn(code Warning, path string) {
	i := slices.IndexFunc(v.warnings, func(w placed) bool { return w.code == code })
	if i < 0 {
		v.warnings = append(v.warnings, placed{code: code})
		i = len(v.warnings) - 1
	}
	w := &v.warnings[i]
	switch {
	case slices.Contains(w.at, path):
	case len(w.at) < maxPlaces && v.take(written(path)+3):
		w.at = append(w.at, path)
	default:
		w.more++
	}
}
