package strictjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// FuzzDecode holds Decode against encoding/json: whatever we take, it takes
// too, with the same values; and what Append makes of the result decodes to an
// equal value. Whatever we refuse is refused with the right code and a clean message.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	for _, c := range refusals {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(`{"u64":7,"users":[{"user_name":"\ud83d\ude00","api_keys":null}],"free":{"":{"limit":""}}}`))
	f.Fuzz(func(t *testing.T, text []byte) { differ(t, text) })
}

// differ is the comparison that FuzzDecode makes; it reports whether text was taken.
func differ(t *testing.T, text []byte) bool {
	before := bytes.Clone(text)
	var v all
	err := strictjson.Decode(text, &v)
	if !bytes.Equal(text, before) {
		t.Fatal("the input was changed")
	}
	if err != nil {
		e := fault.Of(err)
		if e == nil || e.Code != fault.InvalidArgument || !strings.HasPrefix(e.Message, "invalid request body: ") {
			t.Fatalf("refused with %v", err)
		}
		if len(e.Message) > 8192 || !utf8.ValidString(e.Message) || strings.ContainsFunc(e.Message, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("unfit message %q", e.Message)
		}
		return false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil || !json.Valid(text) || !utf8.Valid(text) {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	if err := same(reflect.ValueOf(v), tree); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	out := strictjson.Append([]byte("x"), &v)
	if out[0] != 'x' || !json.Valid(out[1:]) {
		t.Fatalf("Append wrote %q", out)
	}
	var again all
	if err := strictjson.Decode(out[1:], &again); err != nil {
		t.Fatalf("own output %s refused: %v", out[1:], err)
	}
	if !reflect.DeepEqual(v, again) {
		t.Fatalf("got back %+v\nfor %+v", again, v)
	}
	return true
}

var humps = regexp.MustCompile(`[A-Z]`)

// same compares a decoded value with what encoding/json read, knowing nothing
// of the package's own plans.
func same(v reflect.Value, tree any) error {
	wrong := fmt.Errorf("%v %v is not %v", v.Type(), v, tree)
	if tree == nil {
		if v.Type() == reflect.TypeFor[strictjson.Raw]() || !v.IsZero() {
			if v.IsZero() {
				return nil
			}
			return wrong
		}
		return nil
	}
	if raw, ok := v.Interface().(strictjson.Raw); ok {
		var other any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&other); err != nil || !reflect.DeepEqual(other, tree) {
			return wrong
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return wrong
		}
		return same(v.Elem(), tree)
	case reflect.String:
		if s, ok := tree.(string); !ok || s != v.String() {
			return wrong
		}
	case reflect.Bool:
		if b, ok := tree.(bool); !ok || b != v.Bool() {
			return wrong
		}
	case reflect.Int32, reflect.Int64:
		if n, err := strconv.ParseInt(fmt.Sprint(tree), 10, v.Type().Bits()); err != nil || n != v.Int() {
			return wrong
		}
	case reflect.Uint32, reflect.Uint64:
		if n, err := strconv.ParseUint(fmt.Sprint(tree), 10, v.Type().Bits()); err != nil || n != v.Uint() {
			return wrong
		}
	case reflect.Slice:
		list, ok := tree.([]any)
		if !ok || len(list) != v.Len() {
			return wrong
		}
		for i, e := range list {
			if err := same(v.Index(i), e); e == nil || err != nil {
				return fmt.Errorf("%d: %w", i, wrong)
			}
		}
	case reflect.Map:
		return sameMap(v, tree, wrong)
	case reflect.Struct:
		left, ok := tree.(map[string]any)
		if !ok {
			return wrong
		}
		n, err := sameFields(v, left)
		if err == nil && n != len(left) {
			err = wrong
		}
		return err
	}
	return nil
}

func sameMap(v reflect.Value, tree any, wrong error) error {
	m, ok := tree.(map[string]any)
	if !ok {
		return wrong
	}
	n := 0
	for k, e := range m {
		if e == nil {
			continue
		}
		n++
		item := v.MapIndex(reflect.ValueOf(k))
		if !item.IsValid() {
			return wrong
		}
		if err := same(item, e); err != nil {
			return err
		}
	}
	if n != v.Len() {
		return wrong
	}
	return nil
}

// sameFields compares the fields and counts the members of tree they account for.
func sameFields(v reflect.Value, tree map[string]any) (n int, err error) {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if sf.Anonymous {
			m, err := sameFields(v.Field(i), tree)
			if err != nil {
				return 0, err
			}
			n += m
			continue
		}
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		low := humps.ReplaceAllStringFunc(name, func(s string) string { return "_" + strings.ToLower(s) })
		value, there := tree[name]
		if low != name {
			if other, too := tree[low]; too {
				if there {
					return 0, fmt.Errorf("both %s and %s", name, low)
				}
				value, there = other, true
			}
		}
		if there {
			n++
		}
		if err := same(v.Field(i), value); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return n, nil
}

// FuzzAppend writes any strings, valid UTF-8 or not: the output is valid JSON,
// and both readers get the same text back.
func FuzzAppend(f *testing.F) {
	f.Add("Zoë ✓ \"quoted\" <b>&\u2028\x00\x7f\\", "k", int64(-1), uint64(1))
	f.Add("\xff\xed\xa0\x80", "\xff", int64(0), uint64(0))
	f.Fuzz(func(t *testing.T, s, k string, i int64, u uint64) {
		v := all{Sha256: s, Names: map[string]string{k: s}, I64: i, U64: u, I32: int32(i), U32: uint32(u)}
		out := strictjson.Append(nil, &v)
		var ours, theirs all
		if err := strictjson.Decode(out, &ours); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		// The standard library wants numbers for integers.
		plain := strings.NewReplacer(fmt.Sprintf(`"i64":"%d"`, i), `"i64":0`, fmt.Sprintf(`"u64":"%d"`, u), `"u64":0`).Replace(string(out))
		if !utf8.Valid(out) || json.Unmarshal([]byte(plain), &theirs) != nil {
			t.Fatalf("%q", out)
		}
		if want := valid(s); ours.Sha256 != want || theirs.Sha256 != want || ours.Names[valid(k)] != want || theirs.Names[valid(k)] != want {
			t.Fatalf("%q became %q and %q", s, ours.Sha256, theirs.Sha256)
		}
		if ours.I64 != i || ours.U64 != u || ours.I32 != int32(i) || ours.U32 != uint32(u) {
			t.Fatalf("%s", out)
		}
	})
}

// valid replaces every byte that is not part of UTF-8.
func valid(s string) string { return string([]rune(s)) }
