package strictjson_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/strictjson"
)

// partial is what somebody else's document is read for.
type partial struct {
	Name  string           `json:"name"`
	Inner *partial         `json:"inner"`
	List  []partial        `json:"list"`
	Any   strictjson.Raw   `json:"any"`
	Free  map[string]int32 `json:"free"`
}

func TestAllowUnknown(t *testing.T) {
	small := strictjson.Limits{Depth: 4, Items: 3, Members: 2, Values: 12}
	for _, c := range []struct{ text, name, refusal string }{
		{`{"name":"a"}`, "a", ""},
		{`{"x":1,"name":"a","y":{"name":"b"}}`, "a", ""},
		{`{"Name":"b","name":"a"}`, "a", ""},
		{`{"inner":{"x":[1,null]},"list":[{"x":1},{"x":2}],"name":"a"}`, "a", ""},
		{`{"name":"a","name":"b"}`, "", `repeated field "name"`},
		{`{"x":1,"name":"a","x":2}`, "", `repeated field "x"`},
		{`{"x":1,"\u0078":2}`, "", `repeated field "x"`},
		{`{"x":null,"x":null}`, "", `repeated field "x"`},
		{`{"inner":{"x":1,"x":1}}`, "", `repeated field "inner.x"`},
		{`{"list":[{},{"x":1,"x":1}]}`, "", `repeated field "list.1.x"`},
		{`{"x":{"y":1,"y":2}}`, "", `repeated field "x.y"`},
		{`{"x":1,"y":1,"z":1}`, "", "has too many members"},
		{`{"x":[1,2,3,4]}`, "", "has too many elements"},
		{`{"x":[[[[]]]]}`, "", "too many levels"},
		{`{"x":[1,2,3],"y":[1,2,3],"list":[{},{},{}]}`, "", "too many values"},
		{`{"x":1}{}`, "", "trailing text"},
		{`{"x":tru}`, "", "unexpected character"},
		{"{\"x\":\"\xff\"}", "", "invalid UTF-8"},
		{`{"x":"\ud800"}`, "", "bad escape"},
		{`{"name":1}`, "", `"name" must be a string`},
		{`{"free":{"x":"y"}}`, "", `"free.x" must be an integer`},
		{`[]`, "", "must be an object"}, {`null`, "", "must be an object"}, {``, "", "unexpected end"},
	} {
		var got partial
		err := strictjson.Decode([]byte(c.text), &got, strictjson.AllowUnknown(), strictjson.Within(small))
		switch {
		case c.refusal == "" && (err != nil || got.Name != c.name):
			t.Errorf("%s: %+v, %v", c.text, got, err)
		case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: %v, want %s", c.text, err, c.refusal)
		}
	}
}

func TestAllowUnknownOutermost(t *testing.T) {
	for _, c := range []struct{ text, refusal string }{
		{`{"x":{"y":[1]},"name":"a","Name":"b","inner":{"name":"c"},"list":[{}],"free":{"x":1}}`, ""},
		{`{"name":"a","x":1,"x":1}`, `repeated field "x"`},
		{`{"name":"a","x":{"y":1,"y":1}}`, `repeated field "x.y"`},
		{`{"name":"a","inner":{"x":1}}`, `unknown field "inner.x"`},
		{`{"name":"a","list":[{},{"x":1}]}`, `unknown field "list.1.x"`},
		{`{"name":"a","x":tru}`, "unexpected character"},
	} {
		var got partial
		err := strictjson.Decode([]byte(c.text), &got, strictjson.AllowUnknownOutermost())
		if c.refusal == "" && (err != nil || got.Name != "a") || c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %+v, %v, want %s", c.text, got, err, c.refusal)
		}
	}
}

func TestDecodeAnyValue(t *testing.T) {
	for _, c := range []struct {
		text    string
		into    any
		want    any
		refusal string
	}{
		{` "a\n" `, new(string), "a\n", ""},
		{`["a","b"]`, new([]string), []string{"a", "b"}, ""},
		{`{"a":null,"b":1}`, new(map[string]int32), map[string]int32{"b": 1}, ""},
		{`7`, new(uint32), uint32(7), ""},
		{` [1, 2] `, new(strictjson.Raw), strictjson.Raw(`[1, 2]`), ""},
		{`null`, new(strictjson.Raw), strictjson.Raw(`null`), ""},
		{`null`, new(string), nil, "must be a string"}, {`null`, new([]string), nil, "must be an array"}, {`null`, new(map[string]string), nil, "must be an object"},
		{`"a" "b"`, new(string), nil, "trailing text"}, {`["a",null]`, new([]string), nil, "must not be null"}, {`{"a":1,"a":1}`, new(strictjson.Raw), nil, "repeated field"},
		{``, new(strictjson.Raw), nil, "unexpected end"}, {`[1]x`, new(strictjson.Raw), nil, "trailing text"},
		{strings.Repeat("[", 65) + strings.Repeat("]", 65), new(strictjson.Raw), nil, "too many levels"},
	} {
		err := strictjson.Decode([]byte(c.text), c.into)
		switch got := reflect.ValueOf(c.into).Elem().Interface(); {
		case c.refusal == "" && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("%s: %v, %v", c.text, got, err)
		case c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: %v, want %s", c.text, err, c.refusal)
		}
	}
}

func TestRaw(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for _, text := range []string{"", " ", "nul", "null", "1", "true", `"`, `"a`, `"a"b`, `"\ud800"`, "\"\xff\"", "[", "[1", "[1,]", "[1]]", "{", `{"a"}`, `{"a":1,}`, `{"a":1,"a":2}`, `{"a":1}}`, deep, `{"a":` + deep} {
		if s, ok := strictjson.Raw(text).Text(); ok || s != "" {
			t.Errorf("%.20q is the text %q", text, s)
		}
		if a, ok := strictjson.Raw(text).Array(); ok || a != nil {
			t.Errorf("%.20q is the array %q", text, a)
		}
		if o, ok := strictjson.Raw(text).Object(); ok || o != nil {
			t.Errorf("%.20q is the object %q", text, o)
		}
	}
	if a, ok := strictjson.Raw(` [1 , null,"x", [ ] ]`).Array(); !ok || !slices.EqualFunc(a, []string{"1", "null", `"x"`, "[ ]"}, func(r strictjson.Raw, s string) bool { return string(r) == s }) {
		t.Errorf("%q", a)
	}
	if o, ok := strictjson.Raw(`{"a": null,"\u0062":{"c":1} }`).Object(); !ok || !maps.EqualFunc(o, map[string]string{"a": "null", "b": `{"c":1}`}, func(r strictjson.Raw, s string) bool { return string(r) == s }) {
		t.Errorf("%q", o)
	}
}

// FuzzRaw takes any value apart, and holds every part against encoding/json.
func FuzzRaw(f *testing.F) {
	f.Add([]byte(good))
	for _, c := range refusals {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(` [null,{"":[]},"\ud83d\ude00",-0.5e+7] `))
	f.Fuzz(func(t *testing.T, text []byte) {
		var known partial
		lax := strictjson.Decode(text, &known, strictjson.AllowUnknown())
		if strict := strictjson.Decode(text, new(partial)); strict == nil && lax != nil {
			t.Fatalf("%q is refused where unknown members are allowed: %v", text, lax)
		}
		var whole strictjson.Raw
		if strictjson.Decode(text, &whole) != nil {
			if lax == nil {
				t.Fatalf("%q is no value, and its members are read", text)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q is taken, and encoding/json refuses it: %v", text, err)
		}
		if members, ok := want.(map[string]any); ok && lax == nil {
			if name, _ := members["name"].(string); name != known.Name {
				t.Fatalf("%q: name is %q", text, known.Name)
			}
		}
		if !apart(whole, want) {
			t.Fatalf("%q is read as another value than %v", text, want)
		}
	})
}

// apart compares a value with what encoding/json read.
func apart(r strictjson.Raw, want any) bool {
	text, isText := r.Text()
	items, isArray := r.Array()
	members, isObject := r.Object()
	switch want := want.(type) {
	case string:
		return isText && text == want && !isArray && !isObject
	case []any:
		return isArray && slices.EqualFunc(items, want, apart) && !isText && !isObject
	case map[string]any:
		return isObject && maps.EqualFunc(members, want, apart) && !isText && !isArray
	case json.Number:
		return string(r) == want.String() && !isText && !isArray && !isObject
	}
	b, err := json.Marshal(want)
	return err == nil && string(r) == string(b) && !isText && !isArray && !isObject
}
