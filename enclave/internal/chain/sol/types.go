package sol

import (
	"errors"
	"math"

	"cloister/enclave/internal/strictjson"
)

// kind is what values of a type look like in Borsh.
type kind uint8

const (
	kindUnreadable kind = iota // of no form that can be read
	kindBool
	kindUint
	kindInt
	kindFloat
	kindBytes
	kindString
	kindKey
	kindOption  // of elems[0]
	kindCOption // of elems[0], as C would lay it out
	kindVec     // of elems[0]
	kindArray   // of elems[0], n times
	kindAlias   // elems[0]
	kindStruct  // elems have names
	kindTuple
	kindEnum // elems are variants and have names
	kindUnit // a variant without fields
)

type typ struct {
	kind   kind
	length int // bytes of a number, elements of an array
	elems  []*typ
	names  []string
}

// simple are the types that have a word.
var simple = map[string]*typ{
	"bool": {kind: kindBool, length: 1}, "bytes": {kind: kindBytes}, "string": {kind: kindString},
	"pubkey": {kind: kindKey, length: keySize}, "publicKey": {kind: kindKey, length: keySize}, // since 0.30, and before
	"u8": {kind: kindUint, length: 1}, "u16": {kind: kindUint, length: 2}, "u32": {kind: kindUint, length: 4}, "u64": {kind: kindUint, length: 8},
	"u128": {kind: kindUint, length: 16}, "u256": {kind: kindUint, length: 32},
	"i8": {kind: kindInt, length: 1}, "i16": {kind: kindInt, length: 2}, "i32": {kind: kindInt, length: 4}, "i64": {kind: kindInt, length: 8},
	"i128": {kind: kindInt, length: 16}, "i256": {kind: kindInt, length: 32},
	"f32": {kind: kindFloat, length: 4}, "f64": {kind: kindFloat, length: 8},
}

var unreadable = &typ{}

// checkNames makes a type unreadable of whose names two are equal.
func (t *typ) checkNames() {
	seen := make(map[string]bool, len(t.names))
	for _, name := range t.names {
		if seen[name] {
			*t = typ{}
			return
		}
		seen[name] = true
	}
}

// defined are the types that have a name: an alias, of an unreadable type until the name is
// defined.
type defined map[string]*definition

type definition struct {
	typ
	done bool
}

func (d defined) definition(name string) *definition {
	if d[name] == nil {
		d[name] = &definition{typ: typ{kind: kindAlias, elems: []*typ{unreadable}}}
	}
	return d[name]
}

// read makes a type of the text that stands where one is used: a word, or an
// object of one member.
func (d defined) read(raw strictjson.Raw) *typ {
	if word, ok := raw.Text(); ok {
		if t := simple[word]; t != nil {
			return t
		}
		return unreadable
	}
	m, err := part[members](raw)
	if err != nil || len(m) != 1 {
		return unreadable
	}
	for form, of := range m {
		switch form {
		case "defined":
			return d.readReference(of)
		case "option":
			return d.wrap(kindOption, 0, of)
		case "coption":
			t := d.wrap(kindCOption, 0, of)
			if t.elems[0].length == 0 || t.elems[0].kind == kindArray {
				return unreadable // its place could not be told without it
			}
			return t
		case "vec":
			return d.wrap(kindVec, 0, of)
		case "array":
			pair, err := part[[]strictjson.Raw](of)
			if err != nil || len(pair) != 2 {
				return unreadable
			}
			n, err := part[uint32](pair[1])
			if err != nil || n > math.MaxInt32 {
				return unreadable // a generic number, for one
			}
			return d.wrap(kindArray, int(n), pair[0])
		}
	}
	return unreadable // generic, hashMap and others
}

func (d defined) wrap(k kind, n int, of strictjson.Raw) *typ {
	return &typ{kind: k, length: n, elems: []*typ{d.read(of)}}
}

// readReference reads a name, or since 0.30 an object with a name.
func (d defined) readReference(raw strictjson.Raw) *typ {
	name, ok := raw.Text()
	if !ok {
		m, err := part[members](raw)
		if name, ok = m["name"].Text(); err != nil || !ok || !isEmpty(m["generics"]) {
			return unreadable
		}
	}
	return &d.definition(name).typ
}

func isEmpty(raw strictjson.Raw) bool {
	list, err := part[[]strictjson.Raw](raw)
	return len(raw) == 0 || err == nil && len(list) == 0
}

// define reads an element of the list of types. What it cannot read below the
// outline is unreadable.
func (d defined) define(m members) error {
	name, err := nameOf(m)
	if err != nil {
		return err
	}
	shape, err := part[members](m["type"])
	if err != nil {
		return errors.New("no type")
	}
	var t *typ
	switch word, _ := shape["kind"].Text(); word {
	case "struct":
		t = d.fields(shape["fields"])
	case "enum":
		t = d.variants(shape["variants"])
	case "alias", "type": // the older word has a value
		of := shape["alias"]
		if len(of) == 0 {
			of = shape["value"]
		}
		t = &typ{kind: kindAlias, elems: []*typ{d.read(of)}}
	default:
		return errors.New("unknown kind")
	}
	if layout, ok := m["serialization"].Text(); len(m["serialization"]) > 0 && (!ok || layout != "borsh") || !isEmpty(m["generics"]) {
		t = unreadable
	}
	into := d.definition(name)
	if into.done {
		t = unreadable
	}
	into.done, into.elems[0] = true, t
	return nil
}

// fields reads the fields of a struct or a variant: with names, or without.
func (d defined) fields(raw strictjson.Raw) *typ {
	t := &typ{kind: kindStruct}
	if len(raw) == 0 {
		return t
	}
	list, err := part[[]strictjson.Raw](raw)
	if err != nil {
		return unreadable
	}
	for i, of := range list {
		var m members
		if of[0] == '{' {
			m, _ = part[members](of)
		}
		name, err := nameOf(m)
		if named := err == nil; i > 0 && named != (t.kind == kindStruct) {
			return unreadable
		} else if named {
			t.names, of = append(t.names, name), m["type"]
		} else {
			t.kind = kindTuple
		}
		t.elems = append(t.elems, d.read(of))
	}
	t.checkNames()
	return t
}

func (d defined) variants(raw strictjson.Raw) *typ {
	list, err := part[[]members](raw)
	if err != nil {
		return unreadable
	}
	t := &typ{kind: kindEnum}
	for _, v := range list {
		name, err := nameOf(v)
		if err != nil {
			return unreadable
		}
		of := d.fields(v["fields"])
		if of.kind == kindStruct && len(of.elems) == 0 {
			of = &typ{kind: kindUnit}
		}
		t.names, t.elems = append(t.names, name), append(t.elems, of)
	}
	t.checkNames()
	return t
}
