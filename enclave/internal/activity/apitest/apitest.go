// Package apitest compares Go types and JSON texts with the description of the
// interface. It is for tests.
package apitest

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

//go:embed testdata/public_api.json
var apiText []byte

//go:embed testdata/operations.tsv
var operationsText string

// Activity is an activity type in the description.
type Activity struct{ Intent, IntentType, Result, ResultType, Path string }

// Endpoint is a path in the description.
type Endpoint struct {
	Kind, Op, Request, Response string
	ActivityTypes               map[string]string
}

// Operation is a row of the list of operations; Type is "-" for a query. Asked are those of the project's specification.
type Operation struct {
	Name, Kind, Type string
	Asked            bool
}

// Description is the interface.
type Description struct {
	Activities map[string]Activity
	Endpoints  map[string]Endpoint
	Types      map[string]map[string]string // type, member: notation
	Rules      map[string]map[string]string
	Enums      map[string][]string
	Operations []Operation `json:"-"`
}

// Load parses the embedded description.
func Load() *Description {
	d := new(Description)
	if err := json.Unmarshal(apiText, d); err != nil {
		panic(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(operationsText), "\n")[1:] {
		f := strings.Split(line, "\t")
		d.Operations = append(d.Operations, Operation{f[0], f[1], f[2], f[4] == "yes" || f[5] == "yes"})
	}
	return d
}

// Field is a member's parsed notation.
type Field struct {
	List, Map, Required bool
	Base                string // string, bool, int32 …, @Type, #Enum, =VALUE
}

// Parse parses a notation.
func Parse(notation string) Field {
	var f Field
	for {
		if rest, ok := strings.CutPrefix(notation, "[]"); ok {
			f.List, notation = true, rest
		} else if rest, ok := strings.CutPrefix(notation, "{}"); ok {
			f.Map, notation = true, rest
		} else {
			break
		}
	}
	f.Base = strings.TrimRight(notation, "!?")
	f.Required = strings.Contains(notation[len(f.Base):], "!")
	return f
}

// Check lists the errors of a JSON text as a value of a type.
func (d *Description) Check(typ string, text []byte) []string {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return []string{err.Error()}
	}
	if dec.More() {
		return []string{"trailing text"}
	}
	return d.object(typ, v, typ)
}

func (d *Description) object(typ string, v any, path string) (wrong []string) {
	members, known := d.Types[typ]
	m, ok := v.(map[string]any)
	if !ok || !known {
		return []string{fmt.Sprintf("%s: no object of type %s", path, typ)}
	}
	for name, value := range m {
		n, ok := members[name]
		if _, any := members["*"]; !ok && any {
			continue
		}
		if !ok {
			wrong = append(wrong, path+"."+name+": unknown member")
			continue
		}
		wrong = append(wrong, d.value(Parse(n), value, path+"."+name)...)
	}
	for name, n := range members {
		if _, ok := m[name]; !ok && Parse(n).Required {
			wrong = append(wrong, path+"."+name+": missing")
		}
	}
	slices.Sort(wrong)
	return wrong
}

func (d *Description) value(f Field, v any, path string) (wrong []string) {
	if v == nil && !f.Required {
		return nil
	}
	if f.List {
		l, ok := v.([]any)
		if !ok {
			return []string{path + ": no array"}
		}
		f.List = false
		for i, e := range l {
			wrong = append(wrong, d.value(f, e, path+"."+strconv.Itoa(i))...)
		}
		return wrong
	}
	if f.Map {
		m, ok := v.(map[string]any)
		if !ok {
			return []string{path + ": no object"}
		}
		f.Map = false
		for name, e := range m {
			wrong = append(wrong, d.value(f, e, path+"."+name)...)
		}
		return wrong
	}
	if typ, ok := strings.CutPrefix(f.Base, "@"); ok {
		return d.object(typ, v, path)
	}
	if !d.scalar(f.Base, v) {
		return []string{fmt.Sprintf("%s: %v is no %s", path, v, f.Base)}
	}
	return nil
}

func (d *Description) scalar(base string, v any) bool {
	s, isString := v.(string)
	number, isNumber := v.(json.Number)
	switch base {
	case "string":
		return isString
	case "bool":
		_, ok := v.(bool)
		return ok
	case "int32", "uint32":
		_, err := strconv.ParseInt(number.String(), 10, 64)
		return isNumber && err == nil
	case "int64", "uint64":
		_, err := strconv.ParseUint(s, 10, 64)
		return isString && err == nil
	case "bytes":
		_, err := base64.StdEncoding.DecodeString(s)
		return isString && err == nil
	case "any":
		return true
	}
	if name, ok := strings.CutPrefix(base, "#"); ok {
		return isString && slices.Contains(d.Enums[name], s)
	}
	constant, ok := strings.CutPrefix(base, "=")
	return ok && s == constant
}

// Request lists how a Go type differs from a type of requests: members, kinds,
// rules, values of enums. excused are rules, by Type.member, that the Go type
// has in another form on purpose; Request deletes those that it uses.
func (d *Description) Request(typ string, t reflect.Type, excused map[string]string) []string {
	c := comparison{api: d, excused: excused, request: true, seen: map[string]bool{}}
	c.compare(typ, t)
	return c.wrong
}

// Response lists how a Go type differs from a type of responses.
func (d *Description) Response(typ string, t reflect.Type) []string {
	c := comparison{api: d, seen: map[string]bool{}}
	c.compare(typ, t)
	return c.wrong
}

type comparison struct {
	api     *Description
	excused map[string]string
	request bool
	seen    map[string]bool
	wrong   []string
}

func (c *comparison) bad(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (c *comparison) compare(typ string, t reflect.Type) {
	members, ok := c.api.Types[typ]
	if c.seen[typ] || !ok {
		if !ok {
			c.bad("%s: not in the description", typ)
		}
		return
	}
	c.seen[typ] = true
	have := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			have[name] = f
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f, ok := have[name]
		delete(have, name)
		if !ok {
			c.bad("%s.%s: missing in %v", typ, name, t)
			continue
		}
		c.member(typ, name, Parse(members[name]), f)
	}
	for name := range have {
		c.bad("%s.%s: not in the description", typ, name)
	}
}

func (c *comparison) member(typ, name string, want Field, f reflect.StructField) {
	where := typ + "." + name
	omits := strings.HasSuffix(f.Tag.Get("json"), ",omitempty")
	t := f.Type
	optional := t.Kind() == reflect.Pointer
	if optional {
		t = t.Elem()
	}
	if want.Required && (optional || omits) {
		c.bad("%s: required, but may be left out", where)
	}
	if c.request && !want.Required && !(optional || (want.List || want.Map) && omits) {
		c.bad("%s: optional, but %v cannot tell absent from zero", where, f.Type)
	}
	if want.List {
		if t.Kind() != reflect.Slice {
			c.bad("%s: %v is no array", where, t)
			return
		}
		t = t.Elem()
	}
	if want.Map {
		if t.Kind() != reflect.Map {
			c.bad("%s: %v is no map", where, t)
			return
		}
		t = t.Elem()
	}
	c.base(where, want.Base, t)
	if c.request {
		c.rule(typ, name, want, f.Tag.Get("rule"))
	}
}

func (c *comparison) base(where, base string, t reflect.Type) {
	kinds := map[string]reflect.Kind{"string": reflect.String, "bool": reflect.Bool, "int32": reflect.Int32, "uint32": reflect.Uint32, "int64": reflect.Int64, "uint64": reflect.Uint64}
	if inner, ok := strings.CutPrefix(base, "@"); ok {
		if t.Kind() != reflect.Struct {
			c.bad("%s: %v is no object", where, t)
			return
		}
		c.compare(inner, t)
		return
	}
	if enum, ok := strings.CutPrefix(base, "#"); ok {
		valid, ok := reflect.Zero(t).Interface().(interface{ Valid() bool })
		if !ok || t.Kind() != reflect.String || valid.Valid() {
			c.bad("%s: %v is no enum", where, t)
			return
		}
		for _, value := range c.api.Enums[enum] {
			if !reflect.ValueOf(value).Convert(t).Interface().(interface{ Valid() bool }).Valid() {
				c.bad("%s: %s is refused", where, value)
			}
		}
		for _, value := range []string{"X", strings.ToLower(c.api.Enums[enum][0]) + "x", c.api.Enums[enum][0] + "_"} {
			if reflect.ValueOf(value).Convert(t).Interface().(interface{ Valid() bool }).Valid() {
				c.bad("%s: %s is taken", where, value)
			}
		}
		return
	}
	if strings.HasPrefix(base, "=") {
		base = "string"
	}
	if kinds[base] != t.Kind() || kinds[base] == reflect.Invalid {
		c.bad("%s: %v is no %s", where, t, base)
	}
}

func (c *comparison) rule(typ, name string, want Field, have string) {
	rule := c.api.Rules[typ][name]
	where := typ + "." + name
	if excuse, ok := c.excused[where]; ok {
		delete(c.excused, where)
		if excuse != have {
			c.bad("%s: rule %q, want %q", where, have, excuse)
		}
		return
	}
	constant, isConstant := strings.CutPrefix(want.Base, "=")
	if isConstant {
		rule = "required,oneof=" + constant
	}
	if want.Required && !want.List && !strings.Contains(rule, "required") && !strings.Contains(rule, "omitempty") {
		rule = strings.TrimSuffix("required,"+rule, ",")
	}
	if rule != have {
		c.bad("%s: rule %q, want %q", where, have, rule)
	}
}
