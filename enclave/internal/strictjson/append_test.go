package strictjson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"cloister/enclave/internal/strictjson"
)

func TestAppend(t *testing.T) {
	empty := ""
	type v struct {
		S    string                    `json:"s"`
		O    string                    `json:"o,omitempty"`
		L    []string                  `json:"l"`
		E    []string                  `json:"e,omitempty"`
		M    map[string]strictjson.Raw `json:"m"`
		I    int64                     `json:"i"`
		N    int32                     `json:"n"`
		P    *string                   `json:"p"`
		Q    *string                   `json:"q,omitempty"`
		R    strictjson.Raw            `json:"r"`
		A    []strictjson.Raw          `json:"a"`
		Z    page                      `json:"z,omitempty"`
		Y    page                      `json:"y"`
		B    bool                      `json:"b"`
		Gone string                    `json:"-"`
		page
	}
	for want, value := range map[string]*v{
		`{"s":"","l":[],"m":{},"i":"0","n":0,"a":[],"y":{},"b":false}`: {Gone: "x"},
		`{"s":"<&>\"\\\n\r\t\u0000\u001f","l":["a",""],"m":{"j":1,"k":[]},"i":"-1","n":-2,"p":"","q":"","r":{},"a":[1,null],"z":{"limit":"1"},"y":{},"b":true,"limit":"9"}`: {
			S: "<&>\"\\\n\r\t\x00\x1f", L: []string{"a", ""}, M: map[string]strictjson.Raw{"k": strictjson.Raw("[]"), "j": strictjson.Raw("1")},
			I: -1, N: -2, P: &empty, Q: &empty, R: strictjson.Raw("{}"), A: []strictjson.Raw{strictjson.Raw("1"), nil}, E: []string{},
			Z: page{Limit: "1"}, B: true, page: page{Limit: "9"}},
	} {
		if got := strictjson.Append(nil, value); string(got) != want || !json.Valid(got) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got := strictjson.Append(nil, *value); string(got) != want {
			t.Errorf("by value: got %s", got)
		}
	}
	if got := strictjson.Append([]byte("a"), (*v)(nil)); string(got) != "anull" {
		t.Errorf("nil: %s", got)
	}
	if got := strictjson.Append(nil, []string{"a\xff"}); string(got) != "[\"a\ufffd\"]" {
		t.Errorf("slice: %s", got)
	}
}

// TestDifferentialOnMutations runs the fuzz target's comparison over every one-byte change
// of a good text out of a set of telling bytes, so that it is made in every run.
func TestDifferentialOnMutations(t *testing.T) {
	taken, refused := 0, 0
	for i := range len(good) {
		for _, c := range []byte("\x00\"\\{}[],:0-9eEntf \xff_aA") {
			text := []byte(good)
			text[i] = c
			if differ(t, text) {
				taken++
			} else {
				refused++
			}
		}
	}
	if taken == 0 || refused == 0 {
		t.Error("one side is empty")
	}
	t.Logf("%d taken with equal values, %d refused", taken, refused)
}

// What is masked is so wherever the struct stands, and only where that is asked for.
func TestAppendMasked(t *testing.T) {
	type secret struct {
		Code string `json:"code" show:"masked"`
		Open string `json:"open"`
	}
	type v struct {
		secret
		One  secret            `json:"one"`
		Some []secret          `json:"some"`
		By   map[string]secret `json:"by"`
		To   *secret           `json:"to"`
	}
	sent := v{secret{"1", "a"}, secret{"2", "b"}, []secret{{"3", "c"}, {"", "d"}}, map[string]secret{"k": {"4", "e"}}, &secret{"5", "f"}}
	want := `{"code":"1","open":"a","one":{"code":"2","open":"b"},"some":[{"code":"3","open":"c"},{"code":"","open":"d"}],"by":{"k":{"code":"4","open":"e"}},"to":{"code":"5","open":"f"}}`
	if got := string(strictjson.Append(nil, &sent)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = regexp.MustCompile(`"code":"."|"code":""`).ReplaceAllString(want, `"code":`+strictjson.Masked)
	if got := string(strictjson.AppendMasked(nil, sent)); got != want {
		t.Errorf("masked:\ngot  %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		shape any
		masks bool
	}{{v{}, true}, {struct {
		L []map[string]*secret `json:"l"`
	}{}, true}, {page{}, false}, {struct {
		L []page `json:"l"`
	}{}, false}} {
		if got := strictjson.Masks(reflect.TypeOf(c.shape)); got != c.masks {
			t.Errorf("%T masks something: %t", c.shape, got)
		}
	}
	for _, bad := range []any{struct {
		N int32 `json:"n" show:"masked"`
	}{}, struct {
		S string `json:"s" show:"hidden"`
	}{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T is taken", bad)
				}
			}()
			strictjson.Prepare(bad)
		}()
	}
}

func TestAppendString(t *testing.T) {
	texts := []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1f\x7f", "é✓\u2028\U0001F600", "bad \xff utf \xed\xa0\x80 end\xe2\x82"}
	for c := range 256 {
		for i := range 9 {
			texts = append(texts, "01234567"[:i]+string([]byte{byte(c), '!', byte(c)})+"01234567")
		}
	}
	for _, s := range texts {
		b := strictjson.AppendString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil || got != strings.ToValidUTF8(s, "\ufffd") && !strings.Contains(s, "\xed") {
			t.Errorf("%q: %s %q %v", s, b, got, err)
		}
		if other := strictjson.AppendString(nil, []byte(s)); !bytes.Equal(other, b) {
			t.Errorf("%q: %s as bytes, %s as a string", s, other, b)
		}
	}
}
