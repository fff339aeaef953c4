package eth_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
)

type policyCases struct {
	Interfaces   map[string]struct{ ABI json.RawMessage }
	Transactions map[string]struct {
		Parsed    map[string]map[string]any
		Interface string
		Decoded   map[string]any
		Payload   string
		Digest    string
		Encoding  string
	}
}

func readPolicyCases(t testing.TB) (c policyCases) {
	b, err := os.ReadFile("testdata/policy-cases.json")
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// plain writes facts as the files of cases do: numbers as decimal text.
func plain(v any) any {
	switch v := v.(type) {
	case int64:
		return fmt.Sprint(v)
	case *big.Int:
		if v.IsInt64() {
			return "a big.Int that is small: " + v.String()
		}
		return v.String()
	case chain.Hex:
		return string(v)
	case chain.Dynamic:
		return plain(v.Value)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case chain.Map:
		return plainMap(v)
	case chain.Struct:
		return plainMap(v)
	}
	return v
}

func plainMap(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = plain(v)
	}
	return out
}

func describe(t testing.TB, text string) *eth.Interface {
	t.Helper()
	d, err := eth.Chain{}.Describe(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d.(*eth.Interface)
}

// oneFunction is the interface of a function f with one input v.
func oneFunction(typ string) string {
	return `[{"type":"function","name":"f","inputs":[{"name":"v","type":"` + typ + `"}]}]`
}

// callOf is the data of a call of the one function of an interface, made of words:
// hexadecimal digits, filled up with zeros on the left, or on the right if the
// word begins with -.
func callOf(t testing.TB, i *eth.Interface, words string) []byte {
	t.Helper()
	data := selectorOf(t, i)
	for _, w := range strings.Fields(words) {
		digits, left := strings.CutPrefix(w, "-")
		if n := 64 - len(digits); n > 0 && left {
			digits += strings.Repeat("0", n)
		} else if n > 0 {
			digits = strings.Repeat("0", n) + digits
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, b...)
	}
	return data
}

func selectorOf(t testing.TB, i *eth.Interface) []byte {
	t.Helper()
	all := eth.Selectors(i)
	if len(all) != 1 {
		t.Fatalf("%d functions", len(all))
	}
	return all[0][:]
}

func TestCallsOfPolicyCases(t *testing.T) {
	cases := readPolicyCases(t)
	n := 0
	for name, tx := range cases.Transactions {
		if tx.Decoded == nil {
			continue
		}
		n++
		i := describe(t, string(cases.Interfaces[tx.Interface].ABI))
		data := unhex(t, tx.Parsed["eth.tx"]["data"].(string)[2:])
		got := map[string]any{}
		f, selector, args, ok := i.Call(data)
		got["function_name"], got["function_signature"], got["contract_call_args"] = f, "0x"+hex.EncodeToString(selector[:]), plain(args)
		if !ok || !reflect.DeepEqual(got, tx.Decoded) {
			t.Errorf("%s: got %v, %v, want %v", name, got, ok, tx.Decoded)
		}
	}
	if n != 5 {
		t.Errorf("%d cases", n)
	}
}

// The examples of Solidity's documentation of the ABI.
func TestCallsOfSpecification(t *testing.T) {
	i := describe(t, `[{"type":"function","name":"baz","inputs":[{"name":"x","type":"uint32"},{"name":"y","type":"bool"}]},
		{"name":"bar","inputs":[{"name":"","type":"bytes3[2]"}]},
		{"type":"function","name":"sam","inputs":[{"name":"a","type":"bytes"},{"name":"b","type":"bool"},{"name":"c","type":"uint[]"}]},
		{"type":"function","name":"f","inputs":[{"name":"a","type":"uint"},{"name":"b","type":"uint32[]"},{"name":"c","type":"bytes10"},{"name":"d","type":"bytes"}]},
		{"type":"function","name":"g","inputs":[{"name":"a","type":"uint256[][]"},{"name":"b","type":"string[]"}]}]`)
	w := func(selector string, words ...string) string {
		for _, s := range words {
			if n := 64 - len(s); n > 0 {
				s = strings.Repeat("0", n) + s
			}
			selector += s
		}
		return selector
	}
	for _, c := range []struct{ data, name, args string }{
		{w("cdcd77c0", "45", "1"), "baz", `{"x":"69","y":true}`},
		{w("fce353f6", "616263"+strings.Repeat("0", 58), "646566"+strings.Repeat("0", 58)), "bar", `{}`},
		{w("a5643bf2", "60", "1", "a0", "4", "64617665"+strings.Repeat("0", 56), "3", "1", "2", "3"), "sam", `{"a":"0x64617665","b":true,"c":["1","2","3"]}`},
		{w("8be65246", "123", "80", "31323334353637383930"+strings.Repeat("0", 44), "e0", "2", "456", "789", "d", "48656c6c6f2c20776f726c6421"+strings.Repeat("0", 38)),
			"f", `{"a":"291","b":["1110","1929"],"c":"0x31323334353637383930","d":"0x48656c6c6f2c20776f726c6421"}`},
		{w("2289b18c", "40", "140", "2", "40", "a0", "2", "1", "2", "1", "3", "3", "60", "a0", "e0", "3", "6f6e65"+strings.Repeat("0", 58), "3",
			"74776f"+strings.Repeat("0", 58), "5", "7468726565"+strings.Repeat("0", 54)), "g", `{"a":[["1","2"],["3"]],"b":["one","two","three"]}`},
	} {
		name, selector, args, ok := i.Call(unhex(t, c.data))
		got, _ := json.Marshal(plain(args))
		if name != c.name || !ok || string(got) != c.args || hex.EncodeToString(selector[:]) != c.data[:8] {
			t.Errorf("got %s %x %s %v, want %s %s", name, selector, got, ok, c.name, c.args)
		}
	}
}

func TestSelectors(t *testing.T) {
	tuple := func(parts string) string { return `"type":"tuple","components":[` + parts + `]` }
	for _, c := range []struct{ name, inputs, selector string }{
		{"transfer", `{"type":"address"},{"type":"uint"}`, "a9059cbb"},
		{"safeTransferFrom", `{"type":"address"},{"type":"address"},{"type":"uint256"}`, "42842e0e"},
		{"safeTransferFrom", `{"type":"address"},{"type":"address"},{"type":"uint256"},{"type":"bytes"}`, "b88d4fde"},
		{"execute", `{"type":"bytes"},{"type":"bytes[]"},{"type":"uint256"}`, "3593564c"},
		{"deposit", ``, "d0e30db0"},
		{"exactInputSingle", `{` + tuple(`{"type":"address"},{"type":"address"},{"type":"uint24"},{"type":"address"},{"type":"uint256"},{"type":"uint256"},{"type":"uint256"},{"type":"uint160"}`) + `}`, "414bf389"},
		{"aggregate", `{"type":"tuple[]","components":[{"type":"address"},{"type":"bytes"}]}`, "252dba42"},
	} {
		i := describe(t, `[{"type":"function","name":"`+c.name+`","inputs":[`+c.inputs+`]}]`)
		if got := hex.EncodeToString(selectorOf(t, i)); got != c.selector {
			t.Errorf("%s(%s): %s, want %s", c.name, c.inputs, got, c.selector)
		}
	}
}

const (
	ones = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	high = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" // with the last byte missing
)

// Values of one input.
func TestValues(t *testing.T) {
	for _, c := range []struct{ typ, words, want string }{
		{"bool", "0", `false`},
		{"bool", "1", `true`},
		{"uint8", "ff", `"255"`},
		{"uint", "7fffffffffffffff", `"9223372036854775807"`},
		{"uint", "8000000000000000", `"9223372036854775808"`},
		{"uint256", ones, `"115792089237316195423570985008687907853269984665640564039457584007913129639935"`},
		{"int8", high + "80", `"-128"`},
		{"int8", "7f", `"127"`},
		{"int", ones, `"-1"`},
		{"int64", "ffffffffffffffffffffffffffffffffffffffffffffffff8000000000000000", `"-9223372036854775808"`},
		{"int128", "ffffffffffffffffffffffffffffffff80000000000000000000000000000000", `"-170141183460469231731687303715884105728"`},
		{"int256", "7fffffffffffffffffffffffffffffff", `"170141183460469231731687303715884105727"`},
		{"int256", "80000000000000000000000000000000", `null`}, // beyond the int of policies
		{"int256", "ffffffffffffffffffffffffffffffff7fffffffffffffffffffffffffffffff", `null`},
		{"int256[]", "20 1 8000000000000000000000000000000000000000000000000000000000000000", `[null]`},
		{"address", "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", `"0xffffffffffffffffffffffffffffffffffffffff"`},
		{"bytes1", "-ab", `"0xab"`},
		{"bytes32", ones, `"0x` + ones + `"`},
		{"function", "-ffffffffffffffffffffffffffffffffffffffff12345678", `"0xffffffffffffffffffffffffffffffffffffffff12345678"`},
		{"fixed", ones, `null`},
		{"ufixed8x80", "ff", `null`},
		{"bytes", "20 0", `"0x"`},
		{"bytes", "20 20 " + ones, `"0x` + ones + `"`},
		{"string", "20 5 -48c3a96c6c", `"Héll"`},
		{"string", "20 3 -41ff42", `"A` + "\ufffd" + `B"`},
		{"string", "20 0", `""`},
		{"uint8[]", "20 0", `[]`},
		{"uint8[2]", "1 2", `["1","2"]`},
		{"uint8[2][]", "20 2 1 2 3 4", `[["1","2"],["3","4"]]`},
		{"uint8[][2]", "20 40 80 1 7 0", `[["7"],[]]`},
		{"string[1]", "20 20 1 -41", `["A"]`},
		// What contracts pass over.
		{"bool", "1 1234 -5678", `true`},                    // bytes after the arguments
		{"bytes", "40 deadbeef 1 -aa", `"0xaa"`},            // a gap
		{"bytes", "20 1 -aabb", `"0xaa"`},                   // padding that is not zero
		{"uint8[][]", "20 2 40 40 1 7", `[["7"],["7"]]`},    // two lists in one place
		{"uint8[][2]", "20 80 40 1 7 1 8", `[["8"],["7"]]`}, // in another order
		{"uint8[]", "0", `[]`},                              // the offset as the length
		{"string[]", "20 1 0", `[""]`},
		{"bytes[]", "20 2 40 40 2 -abcd", `["0xabcd","0xabcd"]`},
	} {
		i := describe(t, oneFunction(c.typ))
		_, _, args, ok := i.Call(callOf(t, i, c.words))
		got, _ := json.Marshal(plain(args["v"]))
		if !ok || len(args) != 1 || string(got) != c.want {
			t.Errorf("%s, %s: %s %v, want %s", c.typ, c.words, got, ok, c.want)
		}
	}
	// The end of bytes need not be filled up.
	i := describe(t, oneFunction("bytes"))
	data := append(callOf(t, i, "20 2"), 0xab, 0xcd)
	if _, _, args, ok := i.Call(data); !ok || args["v"] != chain.Hex("0xabcd") {
		t.Error(args, ok)
	}
	if _, _, _, ok := i.Call(data[:len(data)-1]); ok {
		t.Error("bytes that are not there")
	}
}

// Inputs without a name are checked and not shown; tuples are lists.
func TestInputs(t *testing.T) {
	i := describe(t, `[{"type":"function","name":"f","inputs":[{"name":"","type":"bool"},{"type":"bool"},
		{"name":"t","type":"tuple","components":[{"name":"a","type":"uint8"},{"name":"b","type":"tuple[]","components":[{"name":"c","type":"string"},{"name":"d","type":"bool"}]}]},
		{"name":"u","type":"tuple[2]","components":[{"name":"","type":"address"}]},{"name":"e","type":"tuple","components":[]}]}]`)
	data := callOf(t, i, "1 0 a0 b0b c0c 7 40 1 20 40 1 3 -616263")
	_, _, args, ok := i.Call(data)
	got, _ := json.Marshal(plain(args))
	want := `{"e":[],"t":["7",[["abc",true]]],"u":[["0x0000000000000000000000000000000000000b0b"],["0x0000000000000000000000000000000000000c0c"]]}`
	if !ok || string(got) != want {
		t.Errorf("%s %v", got, ok)
	}
	for _, words := range []string{"2 0 a0 b0b c0c 7 40 1 20 40 1 3 -616263", "1 " + ones + " a0 b0b c0c 7 40 1 20 40 1 3 -616263"} {
		if _, _, _, ok := i.Call(callOf(t, i, words)); ok {
			t.Errorf("%s is taken", words)
		}
	}
}

// Data that are no arguments.
func TestCallsRefused(t *testing.T) {
	for _, c := range []struct{ typ, words string }{
		{"bool", ""}, {"bool", "2"}, {"bool", ones}, {"bool", "-01"},
		{"uint8", "100"}, {"uint8", ones}, {"uint248", "-01"}, {"uint128", "100000000000000000000000000000000"},
		{"int8", "80"}, {"int8", "ff"}, {"int8", high + "7f"}, {"int64", "8000000000000000"}, {"int248", "-7f"},
		{"address", "-01"}, {"address", "10000000000000000000000000000000000000000"},
		{"bytes1", "1"}, {"bytes1", "-aabb"}, {"bytes31", ones}, {"function", ones},
		{"fixed8x1", "80"}, {"ufixed8x1", "100"},
		{"bytes", ""}, {"bytes", "20"}, {"bytes", "20 1"}, {"bytes", "20 21 " + ones}, {"bytes", "40 1"}, {"bytes", "21 1 -aa"}, {"bytes", ones + " 1 -aa"},
		{"bytes", "20 " + ones + " -aa"}, {"bytes", "-80 1 -aa"}, {"bytes", "20 -80 -aa"}, {"bytes", "10000000000000020 1 -aa"},
		{"string", "20 ffffffffffffffe0 -aa"},
		{"uint8[]", "20 1"}, {"uint8[]", "20 2 1"}, {"uint8[]", "20 1 100"}, {"uint8[]", "20 " + ones + " 1"}, {"uint8[]", "20 10000000000000001 1"},
		{"uint8[]", "20 800000000000000 1"}, {"uint8[2]", "1"}, {"uint8[2]", "1 100"}, {"uint8[2147483648]", "1 2 3"},
		{"uint8[2147483648][2147483648][2147483648]", "1 2 3"}, {"uint8[][2147483648]", "20 20 20"}, {"uint8[1000][1000][1000][1000][1000][1000][1000][]", "20 1 1"},
		{"string[]", "20 1 40 1 -aa"}, {"string[2]", "20 40 1 -aa"}, {"string[2]", "20 40"},
	} {
		i := describe(t, oneFunction(c.typ))
		data := callOf(t, i, c.words)
		name, selector, args, ok := i.Call(data)
		if ok || args != nil {
			t.Errorf("%s, %s: %v", c.typ, c.words, args)
		}
		if name != "f" || string(selector[:]) != string(data[:4]) {
			t.Errorf("%s, %s: the function is %q %x", c.typ, c.words, name, selector)
		}
	}
	i := describe(t, oneFunction("bool"))
	good := callOf(t, i, "1")
	for n := range good {
		if name, _, _, ok := i.Call(good[:n]); ok || (name == "") != (n < 4) {
			t.Errorf("the first %d bytes are taken as %q", n, name)
		}
	}
	for _, data := range [][]byte{nil, {}, {0xde, 0xad, 0xbe, 0xef}, append([]byte{0}, good...)} {
		if name, selector, args, ok := i.Call(data); ok || name != "" || args != nil || selector != [4]byte{} {
			t.Errorf("%x: %q %x %v", data, name, selector, args)
		}
	}
}

// Little data cannot stand for many values.
func TestOffsetsToOnePlace(t *testing.T) {
	words := func(n int, w string) string { return strings.Repeat(w+" ", n) }
	for name, c := range map[string]struct{ abi, words string }{
		"one long string": {oneFunction("bytes[]"), "20 1000 " + words(4096, "20000") + "20000 " + words(4096, "0")},
		"lists of lists":  {oneFunction("uint256[][][][]"), "20 40 " + words(64, "800") + "40 " + words(64, "800") + "40 " + words(64, "800") + "40 " + words(64, "0")},
		"lists of nothing": {`[{"type":"function","name":"f","inputs":[{"name":"v","type":"tuple[][][]","components":[]}]}]`,
			"20 100 " + words(256, "2000") + "100 " + words(256, "2000") + "100"},
		"arrays of nothing": {`[{"type":"function","name":"f","inputs":[{"name":"v","type":"tuple[2147483648]","components":[]}]}]`, ""},
	} {
		i := describe(t, c.abi)
		data := callOf(t, i, c.words)
		if name != "arrays of nothing" && len(data) < 1000 {
			t.Fatal(name)
		}
		allocated := testing.AllocsPerRun(1, func() {
			if _, _, _, ok := i.Call(data); ok {
				t.Errorf("%s is taken", name)
			}
		})
		if allocated > 60_000 {
			t.Errorf("%s: %v allocations", name, allocated)
		}
	}
}

func TestDescribeRefuses(t *testing.T) {
	const good = `[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[{"type":"bool"}],"stateMutability":"nonpayable"}]`
	describe(t, good)
	with := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatal(old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for text, says := range map[string]string{
		``: "no JSON array", ` `: "no JSON array", `{}`: "no JSON array", `null`: "no JSON array", `7`: "no JSON array", `"[]"`: "no JSON array", `[`: "no JSON array", `[]x`: "no JSON array",
		`[],"abi":[]`: "no JSON array", `[],"x":[]`: "no JSON array", `[7]`: "item 0: no JSON array", `[null]`: "item 0", `[{"type":"receive"},[]]`: "item 1: no JSON array",
		`[{"name":"f","inputs":[` + manyTypes(900) + `]}]`:                            "more types than",
		`{"abi":` + good + `}`:                                                        "no JSON array",
		strings.Repeat("[", 100) + strings.Repeat("]", 100):                           "no JSON array",
		`[` + strings.Repeat(" ", 400_000) + `]`:                                      "more than 400000 bytes",
		with(`"type":"function"`, `"type":"function","type":"function"`):              "no JSON array",
		with(`"function"`, `"Function"`):                                              "item 0: unknown type",
		with(`"function"`, `7`):                                                       "item 0: unknown type",
		with(`"function"`, `""`):                                                      "item 0: unknown type",
		with(`"transfer"`, `""`):                                                      "item 0: no name",
		with(`"transfer"`, `"a b"`):                                                   "item 0: no name",
		with(`"transfer"`, `"a(uint8)"`):                                              "item 0: no name",
		with(`"transfer"`, `["x"]`):                                                   "item 0: no name",
		with(`"transfer"`, `"`+strings.Repeat("a", 256)+`"`):                          "item 0: no name",
		with(`"name":"transfer",`, ``):                                                "item 0: no name",
		with(`"inputs":[`, `"inputs":{"a":[`)[:120]:                                   "no JSON array",
		with(`"inputs":[`, `"inputs":[7,`):                                            "item 0: inputs: 0: no object",
		with(`"outputs":[{"type":"bool"}]`, `"outputs":"x"`):                          "item 0: outputs: no array",
		with(`"outputs":[{"type":"bool"}]`, `"outputs":[{}]`):                         "item 0: outputs: 0: unknown type",
		with(`"amount"`, `"to"`):                                                      "item 0: two inputs have the name to",
		with(`"amount"`, `"a,b"`):                                                     "item 0: inputs: 1: no name",
		with(`"type":"uint256"`, `"type":"tuple"`):                                    "a tuple, and nothing else",
		with(`"type":"uint256"`, `"type":"uint256","components":[]`):                  "a tuple, and nothing else",
		with(`"type":"uint256"`, `"components":[{"type":"bool"}],"type":"uint256[]"`): "a tuple, and nothing else",
		with(`"type":"uint256"`, `"components":[{"type":"tuple"}],"type":"tuple"`):    "a tuple, and nothing else",
		with(`"type":"uint256"`, `"components":[{"type":"word"}],"type":"tuple"`):     "item 0: inputs: 1: 0: unknown type",
		`[{"type":"function","name":"f","inputs":[{"name":"a","type":"uint"}]},{"type":"function","name":"f","inputs":[{"name":"b","type":"uint256"}]}]`:                               "item 1: f(uint256) is there twice",
		`[{"type":"function","name":"collate_propagate_storage","inputs":[{"name":"a","type":"bytes16"}]},{"type":"function","name":"burn","inputs":[{"name":"a","type":"uint256"}]}]`: "item 1: burn(uint256) has the same selector as collate_propagate_storage(bytes16)",
	} {
		d, err := eth.Chain{}.Describe(text)
		if err == nil || !strings.Contains(err.Error(), says) || d != nil {
			t.Errorf("%.100s: %v, want %s", text, err, says)
		}
	}
	for _, typ := range []string{"", "word", "Uint256", "uint0", "uint7", "uint08", "uint257", "uint264", "uint512", "uint+8", "uint 8", "uint256 ", "int1", "bytes0", "bytes33", "bytes01", "address20",
		"bool8", "string1", "function24", "tuple2", "fixed128", "fixed128x81", "fixed128x0", "fixed7x8", "fixed0128x8", "fixed128x018", "xfixed128x18", "ufixedx", "fixed128x18x18",
		"uint256[0]", "uint256[01]", "uint256[-1]", "uint256[2147483649]", "uint256[99999999999999999999]", "uint256[ ]", "uint256]", "uint256[]]", "uint256[", "[]", "uint256[][", "uint256[]a", "]",
		"uint8" + strings.Repeat("[]", 126), "address payable", "struct S", "mapping(uint256=>uint256)"} {
		if _, err := (eth.Chain{}).Describe(oneFunction(typ)); err == nil || !strings.HasSuffix(err.Error(), "unknown type") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// manyTypes are inputs of types in 120 dimensions, each another.
func manyTypes(n int) string {
	var inputs []string
	for i := range n {
		inputs = append(inputs, fmt.Sprintf(`{"type":"bool[%d]%s"}`, i+1, strings.Repeat("[]", 119)))
	}
	return strings.Join(inputs, ",")
}

func TestDescribeTakes(t *testing.T) {
	for text, functions := range map[string]int{
		`[]`: 0, " [ ]\n": 0,
		`[{"type":"fallback"},{"type":"receive","stateMutability":"payable"},{"type":"constructor","inputs":[{"name":"a","type":"bool"}],"name":7}]`: 0,
		`[{"type":"error","name":"E","inputs":[]},{"type":"event","name":"V","inputs":[{"indexed":true,"type":"address"}],"anonymous":false}]`:       0,
		`[{"name":"f"}]`: 1,
		`[{"type":null,"name":"f","inputs":null,"outputs":null}]`:                                                                                1,
		`[{"na\u006de":"\u0066","\u0069nputs":[{"type":"\u0062ool","x":{"y":[1,{}]}}]}]`:                                                         1,
		`[{"name":"f"},{"name":"f","inputs":[{"type":"bool"}]},{"name":"f","inputs":[{"type":"bool[]"}]}]`:                                       3, // overloaded
		`[{"name":"f","inputs":[{"name":"a","type":"uint"}]},{"name":"f","inputs":[{"name":"a","type":"uint256"}],"outputs":[{"type":"bool"}]}]`: 1, // once and again
		`[{"name":"f","inputs":[{"name":null,"type":"fixed"},{"name":"","type":"fixed128x18"}]}]`:                                                1,
		`[` + strings.Repeat(" ", 300_000) + `{"type":"receive"}]`:                                                                               0,
		oneFunction("uint8" + strings.Repeat("[]", 125)):                                                                                         1,
		`[{"name":"f","inputs":[` + manyTypes(8) + `]}]`:                                                                                         1,
		oneFunction("uint8[2147483648][2147483648][2147483648]"):                                                                                 1,
	} {
		if got := len(eth.Selectors(describe(t, text))); got != functions {
			t.Errorf("%.100s: %d functions, want %d", text, got, functions)
		}
	}
}

// Whatever the text and the data, both are taken or refused, and what is taken is
// no more than the data can hold.
func FuzzInterface(f *testing.F) {
	cases := readPolicyCases(f)
	for _, tx := range cases.Transactions {
		if tx.Decoded != nil {
			f.Add(string(cases.Interfaces[tx.Interface].ABI), unhex(f, tx.Parsed["eth.tx"]["data"].(string)[10:]))
		}
	}
	f.Add(oneFunction("uint8[][2]"), make([]byte, 320))
	f.Add(`[{"name":"f","inputs":[{"type":"tuple[]","name":"a","components":[{"type":"function"},{"type":"ufixed"}]}]}]`, []byte{1})
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		d, err := eth.Chain{}.Describe(text)
		if err != nil {
			if d != nil {
				t.Error("an error with an interface")
			}
			return
		}
		i := d.(*eth.Interface)
		for _, s := range eth.Selectors(i) {
			checkCall(t, i, append(s[:], data...))
		}
		checkCall(t, i, data)
	})
}

// FuzzCall is for the data alone.
func FuzzCall(f *testing.F) {
	i := describe(f, `[{"type":"function","name":"f","inputs":[{"name":"a","type":"uint256[][2]"},{"name":"b","type":"tuple[]","components":[{"name":"c","type":"string"},{"name":"d","type":"bytes7[2]"},
		{"name":"e","type":"tuple","components":[{"name":"g","type":"bytes"},{"name":"h","type":"int24"}]}]},{"name":"k","type":"address[]"},{"name":"l","type":"bool"}]}]`)
	f.Add(callOf(f, i, "80 100 160 1 40 80 1 7 1 8 1 20 80 -61 -62 c0 0 40 1 1 -ff 1 c0ffee")[4:])
	selector := selectorOf(f, i)
	f.Fuzz(func(t *testing.T, data []byte) { checkCall(t, i, append(selector[:4:4], data...)) })
}

func checkCall(t *testing.T, i *eth.Interface, data []byte) {
	name, selector, args, ok := i.Call(data)
	if ok && (args == nil || name == "" || string(selector[:]) != string(data[:4])) || !ok && args != nil {
		t.Errorf("%q %x %v %v", name, selector, args, ok)
	}
	if n := weight(args); n > callMemory*len(data)+fixedMemory/4 {
		t.Errorf("%d bytes became facts of %d", len(data), n)
	}
	if _, _, again, _ := i.Call(data); !reflect.DeepEqual(args, again) {
		t.Error("read again, it is another")
	}
}

// weight is roughly how many bytes facts take.
func weight(v any) int {
	n := 16
	switch v := v.(type) {
	case string:
		n += len(v)
	case chain.Hex:
		n += len(v)
	case []any:
		for _, item := range v {
			n += weight(item)
		}
	case chain.Map:
		for name, item := range v {
			n += len(name) + weight(item)
		}
	case chain.Struct:
		return weight(chain.Map(v))
	case chain.Dynamic:
		return weight(v.Value)
	}
	return n
}
