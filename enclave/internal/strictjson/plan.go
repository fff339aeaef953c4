package strictjson

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// A plan is what has been learnt of a type.
type plan struct {
	kind     kind
	typ      reflect.Type
	enum     bool  // string kinds: the type has a closed set of values
	elem     *plan // pointer, slice, map
	fields   []field
	names    map[string]int // camelCase and snake_case to field
	demanded fieldSet       // fields whose absence their rules refuse
}

type kind uint8

const (
	kindString kind = iota
	kindBool
	kindInt   // int32, int64
	kindUint  // uint32, uint64
	kindRaw   // Raw
	kindPtr   // optional
	kindSlice // array
	kindMap   // object with free names
	kindStruct
)

type field struct {
	name  string
	key   string // `"name":`
	index []int
	omit  bool
	plan  *plan
	rules *rules

	masked bool // AppendMasked does not write its value
}

func (f *field) valueIn(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	return v.FieldByIndex(f.index)
}

type fieldSet [maxFields / 64]uint64

func (s *fieldSet) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }
func (s *fieldSet) add(i int)      { s[i>>6] |= 1 << (i & 63) }

var (
	plans    sync.Map // reflect.Type to *plan
	rawType  = reflect.TypeFor[Raw]()
	enumType = reflect.TypeFor[Enum]()
)

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	b := builder{}
	p := b.build(t)
	for t, p := range b {
		plans.LoadOrStore(t, p)
	}
	return p
}

// builder holds the plans in the making; a type that holds itself finds its own.
type builder map[reflect.Type]*plan

func (b builder) build(t reflect.Type) *plan {
	if p := b[t]; p != nil {
		return p
	}
	p := &plan{typ: t}
	b[t] = p
	switch {
	case t == rawType:
		p.kind = kindRaw
	case t.Kind() == reflect.String:
		p.kind = kindString
		p.enum = reflect.PointerTo(t).Implements(enumType)
	case t.Kind() == reflect.Bool:
		p.kind = kindBool
	case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		p.kind = kindInt
	case t.Kind() == reflect.Uint32, t.Kind() == reflect.Uint64:
		p.kind = kindUint
	case t.Kind() == reflect.Pointer && t.Elem().Kind() != reflect.Pointer:
		p.kind, p.elem = kindPtr, b.build(t.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		p.kind, p.elem = kindSlice, b.build(t.Elem())
	case t.Kind() == reflect.Map && t.Key() == reflect.TypeFor[string]():
		p.kind, p.elem = kindMap, b.build(t.Elem())
	case t.Kind() == reflect.Struct:
		p.kind = kindStruct
		b.members(p)
	default:
		panic(fmt.Sprintf("strictjson: type %v has no JSON form here", t))
	}
	return p
}

func (b builder) members(p *plan) {
	p.names = map[string]int{}
	b.collect(p, p.typ, nil)
	if len(p.fields) > maxFields {
		panic(fmt.Sprintf("strictjson: %v has more than %d fields", p.typ, maxFields))
	}
	for i := range p.fields {
		f := &p.fields[i]
		for _, name := range [...]string{f.name, snake(f.name)} {
			if j, taken := p.names[name]; taken && j != i {
				panic(fmt.Sprintf("strictjson: %v has two fields for %q", p.typ, name))
			}
			p.names[name] = i
		}
		if f.rules.refusesAbsence(f.plan) {
			p.demanded.add(i)
		}
	}
}

// collect lists the fields of t, those of embedded structs in their place.
func (b builder) collect(p *plan, t reflect.Type, index []int) {
	for i := range t.NumField() {
		sf := t.Field(i)
		at := append(index[:len(index):len(index)], i)
		tag, tagged := sf.Tag.Lookup("json")
		switch {
		case tag == "-":
			continue
		case sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct:
			b.collect(p, sf.Type, at)
			continue
		case !sf.IsExported() && !sf.Anonymous && !tagged:
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !sf.IsExported() || name == "" || options != "" && options != "omitempty" {
			panic(fmt.Sprintf("strictjson: field %v.%s: bad json tag %q", t, sf.Name, tag))
		}
		f := field{name: name, index: at, omit: options != "", plan: b.build(sf.Type)}
		f.key = string(AppendString(nil, name)) + ":"
		if word, ok := sf.Tag.Lookup("show"); ok {
			if word != "masked" || f.plan.kind != kindString || f.plan.enum {
				panic(fmt.Sprintf("strictjson: field %v.%s: bad show tag %q", t, sf.Name, word))
			}
			f.masked = true
		}
		if rule, ok := sf.Tag.Lookup("rule"); ok {
			f.rules = parseRules(rule, f.plan, fmt.Sprintf("%v.%s", t, sf.Name))
		}
		p.fields = append(p.fields, f)
	}
}

// masks reports whether a field of p, or of what p is made of, is masked.
func (p *plan) masks(seen map[*plan]bool) bool {
	if p == nil || seen[p] {
		return false
	}
	seen[p] = true
	for i := range p.fields {
		if p.fields[i].masked || p.fields[i].plan.masks(seen) {
			return true
		}
	}
	return p.elem.masks(seen)
}

// snake is the snake_case form of a camelCase name.
func snake(name string) string {
	var s []byte
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				s = append(s, '_')
			}
			c += 'a' - 'A'
		}
		s = append(s, c)
	}
	return string(s)
}

// find returns the number of the field called name, or -1. Clients send fields
// in order, so the one after the last is tried first.
func (p *plan) find(name []byte, hint int) int {
	if hint < len(p.fields) && p.fields[hint].name == string(name) {
		return hint
	}
	if i, ok := p.names[string(name)]; ok {
		return i
	}
	return -1
}
