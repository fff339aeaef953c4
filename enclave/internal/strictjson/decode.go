package strictjson

import (
	"math/bits"
	"reflect"
	"strconv"
)

// decoder walks over src once. Its methods are called with pos before a value
// and leave it behind.
type decoder struct {
	src    []byte
	pos    int
	depth  int
	values int
	limits Limits
	opts   []Option

	unknown unknownMembers
	also    uint64 // options of kind Also that have been used, by place
}

// document is the whole text: one value, white space around it.
func (d *decoder) document(p *plan, v reflect.Value) (f *failure) {
	if p.kind == kindStruct {
		f = d.object(p, v, true)
	} else {
		f = d.value(p, v, nil)
	}
	if f == nil && !d.end() {
		f = syntax("trailing text", d.pos)
	}
	return f
}

// end tells whether nothing but white space is left.
func (d *decoder) end() bool {
	d.space()
	return d.pos == len(d.src)
}

// value decodes one value that is not null. items are the rules for its
// elements, if it is an array or a map.
func (d *decoder) value(p *plan, v reflect.Value, items *rules) *failure {
	switch p.kind {
	case kindStruct:
		return d.object(p, v, false)
	case kindPtr:
		v.Set(reflect.New(p.elem.typ))
		return d.value(p.elem, v.Elem(), items)
	}
	if p.kind != kindRaw {
		if f := d.count(); f != nil {
			return f
		}
	}
	switch p.kind {
	case kindString:
		return d.string(p, v)
	case kindBool:
		return d.bool(v)
	case kindInt, kindUint:
		return d.integer(p, v)
	case kindRaw:
		span, f := d.skip()
		if f == nil {
			v.SetBytes(span)
		}
		return f
	case kindSlice:
		return d.array(p, v, items)
	default:
		return d.freeObject(p, v, items)
	}
}

func (d *decoder) object(p *plan, v reflect.Value, outermost bool) *failure {
	if d.peek() != '{' {
		return d.mismatch("must be an object")
	}
	f := d.count()
	if f == nil {
		f = d.enter('{')
	}
	if f != nil {
		return f
	}
	var seen, present fieldSet
	var unknown *nameSet // made for the first one
	next := 0
	for n := 0; ; n++ {
		more, f := d.hasNext(n, '}')
		if f != nil {
			return f
		}
		if !more {
			return p.checkRequired(&present)
		}
		name, f := d.name()
		if f != nil {
			return f
		}
		i := p.find(name, next)
		if i < 0 {
			if f = d.unknownMember(name, outermost, &unknown); f != nil {
				return f
			}
			continue
		}
		m := &p.fields[i]
		if seen.has(i) {
			return (&failure{kind: repeatedField}).inField(m.name)
		}
		seen.add(i)
		null, f := d.member(m.plan, m.valueIn(v), m.rules)
		if f != nil {
			return f.inField(m.name)
		}
		if !null {
			present.add(i)
		}
		next = i + 1
	}
}

// member decodes the value of a field and checks it, unless it is null.
func (d *decoder) member(p *plan, v reflect.Value, r *rules) (null bool, f *failure) {
	if null, f = d.null(); null || f != nil {
		if f == nil {
			f = d.count()
		}
		return null, f
	}
	if f = d.value(p, v, r.items()); f == nil && r != nil {
		f = r.check(p, v)
	}
	return false, f
}

// checkRequired finds the first field whose absence is refused.
func (p *plan) checkRequired(present *fieldSet) *failure {
	for w := range p.demanded {
		if lacking := p.demanded[w] &^ present[w]; lacking != 0 {
			i := w<<6 + bits.TrailingZeros64(lacking)
			return (&failure{kind: missingField}).inField(p.fields[i].name)
		}
	}
	return nil
}

// unknownMember is a member that the struct does not have: one of the caller's
// further ones, an unknown one that may be there, or an error.
func (d *decoder) unknownMember(name []byte, outermost bool, unknown **nameSet) *failure {
	for i := range d.opts {
		o := &d.opts[i]
		if !outermost || o.into == nil || o.name != string(name) && snake(o.name) != string(name) {
			continue
		}
		if i >= 64 || d.also&(1<<i) != 0 {
			return (&failure{kind: repeatedField}).inField(o.name)
		}
		d.also |= 1 << i
		target := reflect.ValueOf(o.into).Elem()
		if _, f := d.member(planOf(target.Type()), target, nil); f != nil {
			return f.inField(o.name)
		}
		return nil
	}
	if d.unknown == refused || d.unknown == passedOverOutermost && !outermost {
		return (&failure{kind: unknownField}).inField(quoteName(name))
	}
	if *unknown == nil {
		*unknown = new(nameSet)
	}
	if (*unknown).size() == d.limits.Members {
		return refuse("has too many members")
	}
	if !(*unknown).add(name) {
		return (&failure{kind: repeatedField}).inField(quoteName(name))
	}
	if _, f := d.skip(); f != nil {
		return f.inField(quoteName(name))
	}
	return nil
}

// mismatch refuses a value of the wrong kind, but a text that is no JSON at all
// as such.
func (d *decoder) mismatch(text string) *failure {
	if _, f := d.skip(); f != nil {
		return f
	}
	return refuse(text)
}

func (d *decoder) string(p *plan, v reflect.Value) *failure {
	if d.peek() != '"' {
		return d.mismatch("must be a string")
	}
	span, escaped, f := d.text()
	if f != nil {
		return f
	}
	if escaped {
		span = unescape(span)
	}
	v.SetString(string(span))
	if p.enum && !v.Addr().Interface().(Enum).Valid() {
		return refuse("has an unknown value")
	}
	return nil
}

func (d *decoder) bool(v reflect.Value) *failure {
	switch d.peek() {
	case 't':
		v.SetBool(true)
		return d.readLiteral("true")
	case 'f':
		v.SetBool(false)
		return d.readLiteral("false")
	}
	return d.mismatch("must be true or false")
}

func (d *decoder) integer(p *plan, v reflect.Value) *failure {
	const text = "must be an integer"
	var span []byte
	var f *failure
	integer := true
	switch c := d.peek(); {
	case c == '"':
		span, _, f = d.text()
	case c == '-' || c >= '0' && c <= '9':
		span, integer, f = d.number()
	default:
		return d.mismatch(text)
	}
	if f != nil {
		return f
	}
	negative := len(span) > 0 && span[0] == '-'
	if negative {
		span = span[1:]
	}
	n, ok := decimal(span)
	switch {
	case !ok || !integer:
		return refuse(text + " in range")
	case p.kind == kindUint:
		if negative || v.OverflowUint(n) {
			return refuse(text + " in range")
		}
		v.SetUint(n)
		return nil
	}
	i := int64(n)
	if negative {
		i = -i
	}
	if (i < 0) != negative || v.OverflowInt(i) { // minus zero too
		return refuse(text + " in range")
	}
	v.SetInt(i)
	return nil
}

// decimal reads digits without leading zeros.
func decimal(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 20 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil
}

func (d *decoder) array(p *plan, v reflect.Value, r *rules) *failure {
	if d.peek() != '[' {
		return d.mismatch("must be an array")
	}
	return d.elements(func(n int) *failure {
		if n == v.Cap() {
			v.Grow(max(firstItems, n))
		}
		v.SetLen(n + 1)
		null, f := d.member(p.elem, v.Index(n), r)
		if null && f == nil {
			f = refuse("must not be null")
		}
		return f
	})
}

func (d *decoder) freeObject(p *plan, v reflect.Value, r *rules) *failure {
	if d.peek() != '{' {
		return d.mismatch("must be an object")
	}
	v.Set(reflect.MakeMap(p.typ))
	item := reflect.New(p.elem.typ).Elem()
	f := d.members(func(name []byte) *failure {
		item.SetZero()
		null, f := d.member(p.elem, item, r)
		if f == nil && !null {
			v.SetMapIndex(reflect.ValueOf(string(name)), item)
		}
		return f
	})
	if f == nil && v.Len() == 0 {
		v.SetZero()
	}
	return f
}
