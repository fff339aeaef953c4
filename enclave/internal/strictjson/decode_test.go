package strictjson_test

import (
	"reflect"
	"strings"
	"sync"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

type curve string

func (c curve) Valid() bool { return c == "CURVE_P256" || c == "CURVE_ED25519" }

type apiKey struct {
	APIKeyName        string  `json:"apiKeyName" rule:"required,label_length,label"`
	PublicKey         string  `json:"publicKey" rule:"hexadecimal,api_key"`
	CurveType         curve   `json:"curveType" rule:"present"`
	ExpirationSeconds *string `json:"expirationSeconds,omitempty"`
}

type user struct {
	UserName  string   `json:"userName" rule:"required,label"`
	UserEmail *string  `json:"userEmail,omitempty" rule:"omitempty,email,email_ext"`
	APIKeys   []apiKey `json:"apiKeys" rule:"dive"`
	UserTags  []string `json:"userTags" rule:"dive,uuid"`
}

type page struct {
	Limit  string `json:"limit,omitempty"`
	Before string `json:"before,omitempty"`
}

type all struct {
	Users  []user            `json:"users"`
	I32    int32             `json:"i32,omitempty"`
	I64    int64             `json:"i64"`
	U32    uint32            `json:"u32,omitempty"`
	U64    uint64            `json:"u64"`
	Flag   bool              `json:"flag,omitempty"`
	Maybe  *bool             `json:"maybe,omitempty"`
	Names  map[string]string `json:"names,omitempty"`
	Any    strictjson.Raw    `json:"any,omitempty"`
	Kind   *curve            `json:"kind,omitempty"`
	Page   page              `json:"page,omitempty"`
	Grid   [][]int32         `json:"grid,omitempty"`
	Clear  *[]string         `json:"clear,omitempty"`
	Parts  []*page           `json:"parts,omitempty"`
	Free   map[string]page   `json:"free,omitempty"`
	Sha256 string            `json:"sha256Sum,omitempty"`
	page
}

const good = `{"users":[{"userName":"Zoë","userEmail":"zoe@example.com","apiKeys":[{"apiKeyName":"laptop","publicKey":"020c8d5522504dcab5e9b32f0d8dc38176c61f5dfbf5bee8d75a9a8054d73aacc5","curveType":"CURVE_P256"}],"userTags":["05ff74cb-bf52-45c6-a81e-8d82099d7f78"]}],"i32":-5,"i64":"-9223372036854775808","u32":7,"u64":"18446744073709551615","flag":true,"maybe":false,"names":{"b":"2","a":"1"},"any":{"x":[1,2.5e3,null]},"kind":"CURVE_ED25519","page":{"limit":"10"},"grid":[[1],[2,3]],"clear":[],"parts":[{"limit":"1"}],"free":{"k":{"before":"b"}},"sha256Sum":"s","limit":"9"}`

func TestDecode(t *testing.T) {
	var got all
	if err := strictjson.Decode([]byte(" \n"+good+"\t"), &got); err != nil {
		t.Fatal(err)
	}
	yes, no, email, ed := true, false, "zoe@example.com", curve("CURVE_ED25519")
	_ = yes
	want := all{
		Users: []user{{UserName: "Zoë", UserEmail: &email, APIKeys: []apiKey{{APIKeyName: "laptop",
			PublicKey: "020c8d5522504dcab5e9b32f0d8dc38176c61f5dfbf5bee8d75a9a8054d73aacc5", CurveType: "CURVE_P256"}},
			UserTags: []string{"05ff74cb-bf52-45c6-a81e-8d82099d7f78"}}},
		I32: -5, I64: -1 << 63, U32: 7, U64: 1<<64 - 1, Flag: true, Maybe: &no,
		Names: map[string]string{"a": "1", "b": "2"}, Any: strictjson.Raw(`{"x":[1,2.5e3,null]}`), Kind: &ed,
		Page: page{Limit: "10"}, Grid: [][]int32{{1}, {2, 3}}, Clear: new([]string), Parts: []*page{{Limit: "1"}},
		Free: map[string]page{"k": {Before: "b"}}, Sha256: "s", page: page{Limit: "9"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	again := strictjson.Append(nil, &want)
	wantText := strings.NewReplacer(`"b":"2","a":"1"`, `"a":"1","b":"2"`).Replace(good)
	if string(again) != wantText {
		t.Fatalf("got  %s\nwant %s", again, wantText)
	}
}

func TestEquivalentForms(t *testing.T) {
	plain := `{"users":[],"i64":"5","u64":"6","i32":3,"sha256Sum":"x"}`
	for _, text := range []string{
		`{"i64":5,"u64":6,"i32":"3","sha256_sum":"x"}`,
		`{"users":null,"i64":"5","u64":"6","i32":3,"sha256Sum":"x","maybe":null,"names":null,"any":null,"page":null,"kind":null,"clear":null}`,
		`{"i\u0036\u0034":5,"u64":6,"i32":3,"sha256Sum":"\u0078","names":{"gone":null},"grid":[],"free":{}}`,
	} {
		var a, b all
		if err := strictjson.Decode([]byte(plain), &a); err != nil {
			t.Fatal(err)
		}
		if err := strictjson.Decode([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: got %+v, want %+v", text, b, a)
		}
	}
}

func TestStrings(t *testing.T) {
	for text, want := range map[string]string{
		`"\"\\\/\b\f\n\r\t"`:         "\"\\/\b\f\n\r\t",
		`"\u0000\u00e9\uD83D\uDE00"`: "\x00é😀",
		`"é😀\u2028"`:                 "é😀\u2028",
		`""`:                         "",
	} {
		var v struct {
			S string `json:"s"`
		}
		if err := strictjson.Decode([]byte(`{"s":`+text+`}`), &v); err != nil || v.S != want {
			t.Errorf("%s: got %q, %v", text, v.S, err)
		}
	}
}

// refusals: text, message, path of the violation ("" when no field is named).
var refusals = []struct{ name, text, message, field string }{
	{"empty", ``, "unexpected end at byte 0", ""},
	{"null", `null`, "must be an object", ""},
	{"array", `[]`, "must be an object", ""},
	{"bom", "\xef\xbb\xbf{}", "unexpected character at byte 0", ""},
	{"trailing", `{} {}`, "trailing text at byte 3", ""},
	{"trailing NUL", "{}\x00", "trailing text at byte 2", ""},
	{"unclosed", `{"i32":1`, "unexpected end at byte 8", ""},
	{"comma", `{"i32":1,}`, "unexpected character at byte 9", ""},
	{"leading comma", `{,"i32":1}`, "unexpected character at byte 1", ""},
	{"no colon", `{"i32" 1}`, "unexpected character at byte 7", ""},
	{"single quotes", `{'i32':1}`, "unexpected character at byte 1", ""},
	{"comment", `{"i32":1/**/}`, "unexpected character at byte 8", ""},
	{"vertical tab", "{\v}", "unexpected character at byte 1", ""},
	{"bare word", `{"flag":yes}`, "unexpected character at byte 8", ""},
	{"cut word", `{"flag":tru}`, "unexpected character at byte 8", ""},
	{"NaN", `{"i32":NaN}`, "unexpected character at byte 7", ""},
	{"array comma", `{"grid":[[1,]]}`, "unexpected character at byte 12", ""},
	{"control", "{\"users\":[{\"userName\":\"a\x01\"}]}", "control character in a string at byte 24", ""},
	{"newline", "{\"sha256Sum\":\"a\n\"}", "control character in a string at byte 15", ""},
	{"bad escape", `{"sha256Sum":"\x"}`, "bad escape in a string at byte 14", ""},
	{"short escape", `{"sha256Sum":"\u12"}`, "bad escape in a string at byte 14", ""},
	{"lone high", `{"sha256Sum":"\ud83d"}`, "bad escape in a string at byte 14", ""},
	{"lone low", `{"sha256Sum":"\ude00"}`, "bad escape in a string at byte 14", ""},
	{"swapped halves", `{"sha256Sum":"\ude00\ud83d"}`, "bad escape in a string at byte 14", ""},
	{"high and text", `{"sha256Sum":"\ud83dxxxxxx"}`, "bad escape in a string at byte 14", ""},
	{"bad UTF-8", "{\"sha256Sum\":\"\xff\"}", "invalid UTF-8 at byte 14", ""},
	{"overlong", "{\"sha256Sum\":\"\xc0\x80\"}", "invalid UTF-8 at byte 14", ""},
	{"raw surrogate", "{\"sha256Sum\":\"\xed\xa0\x80\"}", "invalid UTF-8 at byte 14", ""},
	{"bad UTF-8 in a name", "{\"\xff\":1}", "invalid UTF-8 at byte 2", ""},
	{"bad UTF-8 in Raw", "{\"any\":[\"\xff\"]}", "invalid UTF-8 at byte 9", ""},
	{"unknown", `{"foo":1}`, `unknown field "foo"`, "foo"},
	{"unknown deep", `{"users":[{"userName":"a","x y\"":1}]}`, `unknown field "users.0.x y\x22"`, `users.0.x y\x22`},
	{"unknown long", `{"` + strings.Repeat("a", 70) + `":1}`, `unknown field "` + strings.Repeat("a", 64) + `..."`, strings.Repeat("a", 64) + "..."},
	{"other case", `{"I32":1}`, `unknown field "I32"`, "I32"},
	{"other case snake", `{"Sha256_sum":""}`, `unknown field "Sha256_sum"`, "Sha256_sum"},
	{"twice", `{"i32":1,"i32":1}`, `repeated field "i32"`, "i32"},
	{"twice escaped", `{"i32":1,"\u006932":1}`, `repeated field "i32"`, "i32"},
	{"twice null", `{"i32":null,"i32":1}`, `repeated field "i32"`, "i32"},
	{"twice both forms", `{"sha256Sum":"","sha256_sum":""}`, `repeated field "sha256Sum"`, "sha256Sum"},
	{"twice deep", `{"users":[{"user_name":"a","userName":"b"}]}`, `repeated field "users.0.userName"`, "users.0.userName"},
	{"twice in a map", `{"names":{"a":"1","a":"2"}}`, `repeated field "names.a"`, "names.a"},
	{"twice in a map, null", `{"names":{"a":null,"a":"2"}}`, `repeated field "names.a"`, "names.a"},
	{"twice in Raw", `{"any":{"k":[{"a":1,"\u0061":2}]}}`, `repeated field "any.k.0.a"`, "any.k.0.a"},
	{"string for int", `{"i32":"x"}`, `"i32" must be an integer in range`, "i32"},
	{"bool for int", `{"i32":true}`, `"i32" must be an integer`, "i32"},
	{"fraction", `{"i32":1.0}`, `"i32" must be an integer in range`, "i32"},
	{"exponent", `{"i32":1e2}`, `"i32" must be an integer in range`, "i32"},
	{"leading zero", `{"i32":01}`, "unexpected character at byte 8", ""},
	{"leading zero, string", `{"i32":"01"}`, `"i32" must be an integer in range`, "i32"},
	{"minus zero", `{"i32":-0}`, `"i32" must be an integer in range`, "i32"},
	{"plus", `{"i32":"+1"}`, `"i32" must be an integer in range`, "i32"},
	{"space", `{"i32":" 1"}`, `"i32" must be an integer in range`, "i32"},
	{"empty int", `{"i32":""}`, `"i32" must be an integer in range`, "i32"},
	{"int32 over", `{"i32":2147483648}`, `"i32" must be an integer in range`, "i32"},
	{"int32 under", `{"i32":-2147483649}`, `"i32" must be an integer in range`, "i32"},
	{"int64 over", `{"i64":9223372036854775808}`, `"i64" must be an integer in range`, "i64"},
	{"int64 under", `{"i64":-9223372036854775809}`, `"i64" must be an integer in range`, "i64"},
	{"uint32 over", `{"u32":4294967296}`, `"u32" must be an integer in range`, "u32"},
	{"uint negative", `{"u32":-1}`, `"u32" must be an integer in range`, "u32"},
	{"uint64 over", `{"u64":"18446744073709551616"}`, `"u64" must be an integer in range`, "u64"},
	{"uint64 far over", `{"u64":"99999999999999999999"}`, `"u64" must be an integer in range`, "u64"},
	{"number for string", `{"sha256Sum":1}`, `"sha256Sum" must be a string`, "sha256Sum"},
	{"object for string", `{"sha256Sum":{}}`, `"sha256Sum" must be a string`, "sha256Sum"},
	{"string for bool", `{"flag":"true"}`, `"flag" must be true or false`, "flag"},
	{"number for bool", `{"flag":1}`, `"flag" must be true or false`, "flag"},
	{"object for array", `{"users":{}}`, `"users" must be an array`, "users"},
	{"array for map", `{"names":[]}`, `"names" must be an object`, "names"},
	{"number in map", `{"names":{"a":1}}`, `"names.a" must be a string`, "names.a"},
	{"null element", `{"users":[null]}`, `"users.0" must not be null`, "users.0"},
	{"null pointer element", `{"parts":[{},null]}`, `"parts.1" must not be null`, "parts.1"},
	{"null inner array", `{"grid":[[1],null]}`, `"grid.1" must not be null`, "grid.1"},
	{"enum", `{"kind":"curve_p256"}`, `"kind" has an unknown value`, "kind"},
	{"enum empty", `{"kind":""}`, `"kind" has an unknown value`, "kind"},
	{"missing", `{"users":[{}]}`, "missing field `userName`", "users.0.userName"},
	{"missing, null", `{"users":[{"userName":null}]}`, "missing field `userName`", "users.0.userName"},
	{"missing, empty", `{"users":[{"userName":""}]}`, "missing field `userName`", "users.0.userName"},
	{"rule deep", `{"users":[{"userName":"a","apiKeys":[{"apiKeyName":"k","publicKey":"zz","curveType":"CURVE_P256"}]}]}`, `"users.0.apiKeys.0.publicKey" must be hexadecimal digits`, "users.0.apiKeys.0.publicKey"},
	{"demanded by rule", `{"users":[{"userName":"a","apiKeys":[{"apiKeyName":"k","curveType":"CURVE_P256"}]}]}`, "missing field `publicKey`", "users.0.apiKeys.0.publicKey"},
	{"rule of element", `{"users":[{"userName":"a","userTags":["05ff74cb-bf52-45c6-a81e-8d82099d7f78","x"]}]}`, `"users.0.userTags.1" must be a UUID in lower case and must not be all zeros`, "users.0.userTags.1"},
	{"rule of pointer", `{"users":[{"userName":"a","userEmail":"x"}]}`, `"users.0.userEmail" must be an e-mail address`, "users.0.userEmail"},
	{"depth", `{"any":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "too many levels at byte 70", ""},
	{"items", `{"grid":[` + strings.Repeat("[],", 1000) + `[]]}`, `"grid" has too many elements`, "grid"},
	{"items in Raw", `{"any":[` + strings.Repeat("0,", 1000) + `0]}`, `"any" has too many elements`, "any"},
	{"cut number", `{"any":-}`, "unexpected character at byte 8", ""},
	{"cut fraction", `{"any":1.}`, "unexpected character at byte 9", ""},
	{"cut exponent", `{"any":1e}`, "unexpected character at byte 9", ""},
}

func TestRefusals(t *testing.T) {
	for _, c := range refusals {
		var v all
		err := strictjson.Decode([]byte(c.text), &v)
		f := fault.Of(err)
		if f == nil || f.Code != fault.InvalidArgument {
			t.Errorf("%s: got %v", c.name, err)
			continue
		}
		field := ""
		if len(f.Violations) > 0 {
			field = f.Violations[0].Field
		}
		if f.Message != "invalid request body: "+c.message || field != c.field {
			t.Errorf("%s: got %q, field %q", c.name, f.Message, field)
		}
	}
	t.Logf("%d texts refused with their message and path", len(refusals))
}

func TestEveryPrefixIsRefused(t *testing.T) {
	for i := range len(good) {
		if err := strictjson.Decode([]byte(good[:i]), new(all)); err == nil {
			t.Fatalf("the first %d bytes were accepted", i)
		}
	}
}

func TestLimits(t *testing.T) {
	deep := func(n int) []byte {
		return []byte(`{"any":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	if err := strictjson.Decode(deep(64), new(all)); err != nil {
		t.Error("depth 64:", err)
	}
	within := strictjson.Limits{Depth: 3, Items: 2, Members: 2, Values: 6}
	for text, fine := range map[string]bool{
		`{"grid":[[1],[2]]}`:                 true,
		`{"grid":[[1,2],[3]]}`:               false, // values
		`{"grid":[[],[],[]]}`:                false,
		`{"names":{"a":"1","b":"2"}}`:        true,
		`{"names":{"a":"","b":"","c":null}}`: false,
		`{"any":{"a":1,"b":2}}`:              true,
		`{"any":{"a":1,"b":2,"c":3}}`:        false,
		`{"any":[[1]]}`:                      true,
		`{"any":[[[]]]}`:                     false,
		`{"i32":null,"u32":null,"i64":null,"u64":null,"flag":null,"kind":null}`: false,
	} {
		if err := strictjson.Decode([]byte(text), new(all), strictjson.Within(within)); (err == nil) != fine {
			t.Errorf("%s: %v", text, err)
		}
	}
	// The default bound on all values stops arrays of arrays.
	row := `[` + strings.Repeat("0,", 999) + `0],`
	text := `{"grid":[` + strings.Repeat(row, 99) + row[:len(row)-1] + `]}`
	if err := strictjson.Decode([]byte(text), new(all)); err == nil || !strings.Contains(err.Error(), "too many values") {
		t.Error(err)
	}
}

func TestManyNamesAreComparedCheaply(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(`"` + strings.Repeat("x", 20) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + `":0,`)
	}
	members := b.String()
	if err := strictjson.Decode([]byte(`{"any":{`+members[:len(members)-1]+`}}`), new(all)); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 15, 16, 17, 500} {
		again := members[i*28 : i*28+27]
		text := strings.Replace(members, members[999*28:], again, 1)
		if err := strictjson.Decode([]byte(`{"any":{`+text+`}}`), new(all)); err == nil || !strings.Contains(err.Error(), "repeated") {
			t.Errorf("member %d repeated: %v", i, err)
		}
	}
}

func TestOptions(t *testing.T) {
	type intent struct {
		UserID string `json:"userId" rule:"required,uuid"`
	}
	const id = `"userId":"05ff74cb-bf52-45c6-a81e-8d82099d7f78"`
	var v intent
	var proofs *bool
	also := strictjson.Also("generateAppProofs", &proofs)
	if err := strictjson.Decode([]byte(`{`+id+`,"generate_app_proofs":true}`), &v, also); err != nil || proofs == nil || !*proofs {
		t.Errorf("Also: %v, %v", proofs, err)
	}
	for text, want := range map[string]string{
		`{` + id + `,"foo":1}`:               `unknown field "parameters.foo"`,
		`{"userId":"x"}`:                     `"parameters.userId" must be a UUID`,
		`{}`:                                 "missing field `userId`",
		`{` + id + `,"generateAppProofs":1}`: `"parameters.generateAppProofs" must be true or false`,
		`{` + id + `,"generateAppProofs":true,"generate_app_proofs":true}`: `repeated field "parameters.generateAppProofs"`,
	} {
		err := strictjson.Decode([]byte(text), &v, strictjson.At("parameters"), also)
		f := fault.Of(err)
		if f == nil || !strings.Contains(f.Message, want) || !strings.HasPrefix(f.Violations[0].Field, "parameters.") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := strictjson.Decode([]byte(`{"page":{"generateAppProofs":true}}`), new(all), also); err == nil {
		t.Error("Also was taken inside another object")
	}
}

func TestRawSharesAndEndsWithInput(t *testing.T) {
	body := []byte(`{"any":[1],"i32":3}`)
	var v all
	if err := strictjson.Decode(body, &v); err != nil {
		t.Fatal(err)
	}
	if &v.Any[0] != &body[7] {
		t.Error("Raw was copied")
	}
	_ = append(v.Any, "xx"...)
	if string(body) != `{"any":[1],"i32":3}` {
		t.Error("appending to Raw wrote into the body")
	}
}

func TestOldContentIsForgotten(t *testing.T) {
	v := all{I32: 5, Names: map[string]string{"a": "b"}, Users: make([]user, 3)}
	if err := strictjson.Decode([]byte(`{"users":[{"userName":"x"}]}`), &v); err != nil {
		t.Fatal(err)
	}
	if v.I32 != 0 || v.Names != nil || len(v.Users) != 1 {
		t.Errorf("%+v", v)
	}
}

func TestConcurrentFirstUse(t *testing.T) {
	type tree struct {
		Name string  `json:"name" rule:"required"`
		Kids []*tree `json:"kids" rule:"dive"`
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var v tree
			if err := strictjson.Decode([]byte(`{"name":"a","kids":[{"name":"b","kids":[{"name":"c"}]}]}`), &v); err != nil || v.Kids[0].Kids[0].Name != "c" {
				t.Error(v, err)
			}
			if err := strictjson.Decode([]byte(`{"name":"a","kids":[{"kids":[]}]}`), &v); err == nil {
				t.Error("a nameless kid was accepted")
			}
		})
	}
	wg.Wait()
}
