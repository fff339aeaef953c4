package sol_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
)

func describe(t testing.TB, text string) chain.Description {
	t.Helper()
	d, err := sol.Chain{}.Describe(text)
	if err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return d
}

// calling calls program 4 with n accounts: 1, 2, 3 in turn.
func calling(data []byte, n int) draft {
	d := draft{header: [3]byte{1, 0, 1}, keys: []number{1, 2, 3, 4}, calls: []call{{3, nil, data}}}
	for i := range n {
		d.calls[0].accounts = append(d.calls[0].accounts, byte(i%3))
	}
	return d
}

// parsedOf is what the description makes of a call of program 4, or nil, also where the call is refused.
func parsedOf(t testing.TB, d chain.Description, data []byte, accounts int) any {
	t.Helper()
	parsed, _ := judgedOf(t, d, data, accounts)
	return parsed
}

// judgedOf is parsedOf, and the refusal.
func judgedOf(t testing.TB, d chain.Description, data []byte, accounts int) (any, error) {
	t.Helper()
	facts, err := mustRead(t, calling(data, accounts).bytes()).Facts(func(address string) (chain.Description, error) {
		if address != number(4).name() {
			t.Errorf("asked for %s", address)
		}
		return d, nil
	})
	if err != nil {
		if f := fault.Of(err); f == nil || f.Name != "INVALID_TRANSACTION" {
			t.Error(err)
		}
		return nil, err
	}
	parsed, there := facts["instructions"].([]any)[0].(chain.Struct)["parsed_instruction_data"]
	if there && parsed == nil {
		t.Error("absent, and there")
	}
	return parsed, nil
}

// A call that the IDL explains and that does not decode by it is refused, since a program might take it all the same; one
// that it does not explain has nothing to be read.
func TestCallsThatDoNotDecode(t *testing.T) {
	d := describe(t, strings.Replace(one(`"u8"`), `"accounts":[]`, `"accounts":[{"name":"a"}]`, 1))
	for _, c := range []struct {
		data     []byte
		accounts int
		refused  bool
	}{
		{[]byte{7, 1}, 1, false}, {[]byte{7, 1}, 2, false}, {[]byte{8, 1, 2, 3}, 0, false}, {nil, 0, false},
		{[]byte{7}, 1, true}, {[]byte{7, 1, 0}, 1, true}, {[]byte{7, 1}, 0, true},
	} {
		if _, err := judgedOf(t, d, c.data, c.accounts); (err != nil) != c.refused {
			t.Errorf("%x with %d accounts: %v", c.data, c.accounts, err)
		}
	}
	// Whether arguments can be read may be for the data to say: the rest is told all the same.
	optional := describe(t, one(`{"option":{"hashMap":["u8","u8"]}}`))
	for data, args := range map[string]bool{"\x07\x00": true, "\x07\x01\x01\x02": false} {
		parsed, err := judgedOf(t, optional, []byte(data), 0)
		s, _ := parsed.(chain.Struct)
		if _, there := s["program_call_args"]; err != nil || s["instruction_name"] == nil || there != args {
			t.Errorf("%x: %v, %v", data, parsed, err)
		}
	}
}

// argsOf are the arguments of a call without accounts, or nil.
func argsOf(t testing.TB, d chain.Description, data []byte) any {
	t.Helper()
	if parsed, ok := parsedOf(t, d, data, 0).(chain.Struct); ok {
		return parsed["program_call_args"]
	}
	return nil
}

type anchorCases struct {
	IDLs  map[string]json.RawMessage `json:"idls"`
	Cases []struct {
		IDL, Name, Data string
		Args            map[string]any
	} `json:"cases"`
}

// anchorValue writes a value of the file plainly: text is {"s": ..}, bytes {"x": ..}.
func anchorValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, mark := range []string{"s", "x"} {
			if s, ok := v[mark]; ok && len(v) == 1 {
				return s
			}
		}
		out := map[string]any{}
		for k, one := range v {
			out[k] = anchorValue(one)
		}
		return out
	case []any:
		out := []any{}
		for _, one := range v {
			out = append(out, anchorValue(one))
		}
		return out
	}
	return v
}

func TestAnchor(t *testing.T) {
	var file anchorCases
	readJSON(t, "anchor.json", &file)
	if len(file.Cases) != 8 {
		t.Errorf("%d cases", len(file.Cases))
	}
	for i, c := range file.Cases {
		d, data := describe(t, string(file.IDLs[c.IDL])), unhex(t, c.Data)
		accounts, named := 0, map[string]any{}
		if strings.HasPrefix(c.Name, "place") {
			accounts = 4
			named = map[string]any{"authority": number(1).name(), "vaults.source": number(2).name(), "vaults.target": number(3).name(), "referrer": number(1).name()}
		}
		want := map[string]any{"instruction_name": c.Name, "discriminator": c.Data[:16], "named_accounts": named, "program_call_args": anchorValue(c.Args)}
		got := parsedOf(t, d, data, accounts)
		same(t, got, want)
		if got == nil {
			t.Errorf("case %d is not decoded", i)
		}
		// More accounts than names, or without the optional one at the end.
		if got := parsedOf(t, d, data, accounts+2); got == nil {
			t.Error("two accounts more: not decoded")
		}
		if accounts > 0 {
			delete(named, "referrer")
			same(t, parsedOf(t, d, data, accounts-1), want)
			if parsedOf(t, d, data, accounts-2) != nil {
				t.Error("decoded without an account that it needs")
			}
		}
		if parsedOf(t, d, append(slices.Clone(data), 0), accounts) != nil {
			t.Error("decoded with a byte more")
		}
		for n := range data {
			if parsedOf(t, d, data[:n], accounts) != nil {
				t.Errorf("decoded with %d bytes of %d", n, len(data))
			}
		}
	}
}

// one is an IDL of one instruction called go, discriminator 7, with one argument
// x of a type, and types.
func one(typ string, types ...string) string {
	return `{"instructions":[{"name":"go","discriminator":[7],"accounts":[],"args":[{"name":"x","type":` + typ + `}]}],"types":[` + strings.Join(types, ",") + `]}`
}

func named(name, shape string) string { return `{"name":"` + name + `","type":` + shape + `}` }

func le32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func ff(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }

func TestValues(t *testing.T) {
	x := func(v any) any { return map[string]any{"x": v} }
	inner := named("In", `{"kind":"struct","fields":[{"name":"a","type":"u8"},{"name":"b","type":{"option":"bool"}}]}`)
	for _, c := range []struct {
		text string
		data []byte
		want any
	}{
		{one(`"bool"`), []byte{1}, x(true)},
		{one(`"bool"`), []byte{0}, x(false)},
		{one(`"u8"`), ff(1), x("255")},
		{one(`"u16"`), []byte{1, 2}, x("513")},
		{one(`"u32"`), ff(4), x("4294967295")},
		{one(`"u64"`), ff(8), x("18446744073709551615")},
		{one(`"u128"`), ff(16), x("340282366920938463463374607431768211455")},
		{one(`"u256"`), append(make([]byte, 31), 1), x("452312848583266388373324160190187140051835877600158453279131187530910662656")},
		{one(`"i8"`), ff(1), x("-1")},
		{one(`"i16"`), []byte{0, 0x80}, x("-32768")},
		{one(`"i32"`), ff(4), x("-1")},
		{one(`"i64"`), append(make([]byte, 7), 0x80), x("-9223372036854775808")},
		{one(`"i128"`), append(make([]byte, 15), 0x80), x("-170141183460469231731687303715884105728")},
		{one(`"i128"`), append(ff(15), 0x7f), x("170141183460469231731687303715884105727")},
		{one(`"i256"`), ff(32), x("-1")},
		{one(`"i256"`), append(append(ff(15), 0x7f), make([]byte, 16)...), x("170141183460469231731687303715884105727")},
		{one(`"i256"`), append(append(make([]byte, 15), 0x80), make([]byte, 16)...), x(nil)}, // beyond the int of policies
		{one(`"i256"`), append(append(make([]byte, 15), 0x80), ff(16)...), x("-170141183460469231731687303715884105728")},
		{one(`"i256"`), append(append(ff(15), 0x7f), ff(16)...), x(nil)},
		{one(`"i256"`), append(make([]byte, 31), 0x80), x(nil)},
		{one(`"i256"`), append(ff(31), 0x7f), x(nil)},
		{one(`"f32"`), le32(math.Float32bits(1.5)), x(nil)},
		{one(`"f64"`), le64(math.Float64bits(math.Inf(1))), x(nil)},
		{one(`"pubkey"`), number(9).key(), x(number(9).name())},
		{one(`"publicKey"`), number(0).key(), x(number(0).name())},
		{one(`"bytes"`), append(le32(2), 0, 0xab), x("00ab")},
		{one(`"string"`), append(le32(2), "ü"...), x("ü")},
		{one(`"str\u0069ng"`), le32(0), x("")},
		{one(`{"option":"u8"}`), []byte{0}, x(nil)},
		{one(`{"option":"u8"}`), []byte{1, 9}, x("9")},
		{one(`{"option":{"option":"u8"}}`), []byte{1, 0}, x(nil)},
		{one(`{"coption":"pubkey"}`), make([]byte, 36), x(nil)},
		{one(`{"coption":"u8"}`), []byte{1, 0, 0, 0, 9}, x("9")},
		{one(`{"vec":"u8"}`), append(le32(2), 1, 2), x([]any{"1", "2"})},
		{one(`{"vec":{"vec":"bool"}}`), slices.Concat(le32(2), le32(0), le32(1), []byte{1}), x([]any{[]any{}, []any{true}})},
		{one(`{"array":["u8",2]}`), []byte{1, 2}, x([]any{"1", "2"})},
		{one(`{"array":["u8",0]}`), nil, x([]any{})},
		{one(`{"defined":"In"}`, inner), []byte{5, 1, 1}, x(map[string]any{"a": "5", "b": true})},
		{one(`{"defined":{"name":"In"}}`, inner), []byte{5, 0}, x(map[string]any{"a": "5", "b": nil})},
		{one(`{"defined":{"name":"In","generics":[]}}`, inner), []byte{5, 0}, x(map[string]any{"a": "5", "b": nil})},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":["u8",{"defined":"In"}]}`), inner), []byte{1, 2, 0}, x([]any{"1", map[string]any{"a": "2", "b": nil}})},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct"}`)), nil, x(map[string]any{})},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":null}`)), nil, x(map[string]any{})},
		{one(`{"defined":"T"}`, named("T", `{"kind":"type","alias":"u16"}`)), []byte{1, 0}, x("1")},
		{one(`{"defined":"T"}`, named("T", `{"kind":"alias","value":{"defined":"In"}}`), inner), []byte{1, 0}, x(map[string]any{"a": "1", "b": nil})},
		{one(`{"defined":"T"}`, `{"name":"T","serialization":"borsh","docs":["x"],"repr":{"kind":"c"},"generics":[],"type":{"kind":"struct"}}`), nil, x(map[string]any{})},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum","variants":[{"name":"A"},{"name":"B","fields":[{"name":"b","type":"u8"}]},{"name":"C","fields":["u8",{"defined":"E"}]},{"name":"D","fields":[]}]}`)),
			[]byte{2, 7, 2, 8, 1, 9}, x(map[string]any{"C": []any{"7", map[string]any{"C": []any{"8", map[string]any{"B": map[string]any{"b": "9"}}}}}})},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum","variants":[{"name":"A"},{"name":"D","fields":[]}]}`)), []byte{1}, x(map[string]any{"D": true})},
		{one(`{"defined":"L"}`, named("L", `{"kind":"struct","fields":[{"name":"next","type":{"option":{"defined":"L"}}}]}`)), []byte{1, 1, 0},
			x(map[string]any{"next": map[string]any{"next": map[string]any{"next": nil}}})},
	} {
		d, data := describe(t, c.text), append([]byte{7}, c.data...)
		same(t, argsOf(t, d, data), c.want)
		if argsOf(t, d, data) == nil {
			t.Errorf("not decoded: %s", c.text)
		}
		if argsOf(t, d, append(slices.Clone(data), 0)) != nil {
			t.Errorf("decoded with a byte more: %s", c.text)
		}
		for n := range data {
			if argsOf(t, d, data[:n]) != nil {
				t.Errorf("decoded with %d bytes of %d: %s", n, len(data), c.text)
			}
		}
	}
}

func TestUndecodable(t *testing.T) {
	inner := named("In", `{"kind":"struct"}`)
	for _, c := range []struct {
		text string
		data []byte
	}{
		{one(`"bool"`), []byte{2}},
		{one(`"f32"`), le32(math.Float32bits(float32(math.NaN())))},
		{one(`"f64"`), le64(math.Float64bits(math.NaN()))},
		{one(`"string"`), append(le32(1), 0xff)},
		{one(`"string"`), append(le32(math.MaxUint32), 'x')},
		{one(`"bytes"`), append(le32(math.MaxInt32), 1)},
		{one(`{"option":"u8"}`), []byte{2, 1}},
		{one(`{"coption":"u8"}`), []byte{2, 0, 0, 0, 9}},
		{one(`{"coption":"u8"}`), []byte{0, 0, 0, 0, 9}},
		{one(`{"coption":"u8"}`), []byte{0, 0, 0, 0}},
		{one(`{"coption":"string"}`), make([]byte, 8)},
		{one(`{"coption":{"array":["u8",1]}}`), make([]byte, 5)},
		{one(`{"vec":"u8"}`), append(le32(math.MaxUint32), 1)},
		{one(`{"vec":{"defined":"In"}}`, inner), le32(math.MaxInt32)},
		{one(`{"vec":{"defined":"In"}}`, inner), le32(10_000)},
		{one(`{"array":[{"defined":"In"},2147483647]}`, inner), nil},
		{one(`{"array":["u8",4294967295]}`), ff(9)},
		{one(`{"array":["u8",{"generic":"N"}]}`), ff(9)},
		{one(`{"array":["u8"]}`), ff(1)},
		{one(`{"array":"u8"}`), ff(1)},
		{one(`"u7"`), ff(1)},
		{one(`"U8"`), ff(1)},
		{one(`"usize"`), ff(8)},
		{one(`""`), nil},
		{one(`{}`), nil},
		{one(`{"generic":"T"}`), ff(1)},
		{one(`{"option":"u8","vec":"u8"}`), []byte{0}},
		{one(`{"option":null}`), []byte{1}},
		{one(`{"option":7}`), []byte{1}},
		{one(`{"hashMap":["u8","u8"]}`), le32(0)},
		{one(`{"bTreeMap":["u8","u8"]}`), le32(0)},
		{one(`{"hashSet":"u8"}`), le32(0)},
		{one(`{"tuple":["u8"]}`), ff(1)},
		{one(`{"definedWithTypeArgs":{"name":"In","args":[]}}`, inner), nil},
		{one(`{"defined":"Other"}`, inner), nil},
		{one(`{"defined":7}`, inner), nil},
		{one(`{"defined":{"name":"In","generics":[{"kind":"type","type":"u8"}]}}`, inner), nil},
		{one(`{"defined":{"name":"In","generics":7}}`, inner), nil},
		{one(`{"defined":"In"}`, inner, inner), nil},
		{one(`{"defined":"T"}`, `{"name":"T","generics":[{"kind":"type","name":"X"}],"type":{"kind":"struct"}}`), nil},
		{one(`{"defined":"T"}`, `{"name":"T","serialization":"bytemuck","type":{"kind":"struct"}}`), nil},
		{one(`{"defined":"T"}`, `{"name":"T","serialization":{"custom":"x"},"type":{"kind":"struct"}}`), nil},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":[{"name":"a","type":"u8"},{"name":"a","type":"u8"}]}`)), ff(2)},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":[{"name":"a","type":"u8"},"u8"]}`)), ff(2)},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":["u8",{"name":"a","type":"u8"}]}`)), ff(2)},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":[{"name":"a"}]}`)), nil},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":[7]}`)), nil},
		{one(`{"defined":"T"}`, named("T", `{"kind":"struct","fields":7}`)), nil},
		{one(`{"defined":"T"}`, named("T", `{"kind":"alias"}`)), nil},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum","variants":[{"name":"A"}]}`)), []byte{1}},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum","variants":[]}`)), []byte{0}},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum"}`)), []byte{0}},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum","variants":[{"name":"A"},{"name":"A"}]}`)), []byte{0}},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum","variants":[{"nam":"A"}]}`)), []byte{0}},
		{one(`{"defined":"E"}`, named("E", `{"kind":"enum","variants":[{"name":"A","fields":7}]}`)), []byte{0}},
		{one(`{"defined":"L"}`, named("L", `{"kind":"struct","fields":[{"name":"l","type":{"defined":"L"}}]}`)), nil},
		{one(`{"defined":"L"}`, named("L", `{"kind":"alias","value":{"defined":"L"}}`)), nil},
		{one(`{"defined":"L"}`, named("L", `{"kind":"struct","fields":[{"name":"l","type":{"option":{"defined":"L"}}}]}`)), append(bytes.Repeat([]byte{1}, 100), 0)},
		{strings.Replace(one(`"u8"`), `"args":[`, `"args":[{"name":"x","type":"u8"},`, 1), ff(2)},
		{strings.Replace(one(`"u8"`), `"accounts":[]`, `"accounts":[{"name":"a"}]`, 1), ff(1)},
	} {
		if got := argsOf(t, describe(t, c.text), append([]byte{7}, c.data...)); got != nil {
			t.Errorf("decoded to %s: %s", text(plain(got)), c.text)
		}
	}
}

// Types without bytes cannot make a transaction of a kilobyte into more.
func TestBudget(t *testing.T) {
	types := []string{named("T0", `{"kind":"struct"}`)}
	for i := range 12 {
		types = append(types, named(fmt.Sprintf("T%d", i+1), fmt.Sprintf(`{"kind":"struct","fields":[{"defined":"T%d"},{"defined":"T%d"}]}`, i, i)))
	}
	d := describe(t, one(`{"defined":"T12"}`, types...))
	if argsOf(t, d, []byte{7}) != nil {
		t.Error("decoded 2^12 structs")
	}
	if argsOf(t, describe(t, one(`{"defined":"T9"}`, types...)), []byte{7}) == nil {
		t.Error("2^9 structs are not decoded")
	}
	// One budget for all instructions of a transaction.
	c := calling(nil, 0)
	for n, refused := range map[int]bool{2: false, 20: true} {
		c.calls = nil
		for range n {
			c.calls = append(c.calls, call{3, nil, []byte{7}})
		}
		d = describe(t, one(`{"defined":"T9"}`, types...))
		_, err := mustRead(t, c.bytes()).Facts(func(string) (chain.Description, error) { return d, nil })
		if (err != nil) != refused {
			t.Errorf("%d calls: %v", n, err)
		}
	}
}

// An instruction that leaves out thousands of optional accounts makes no room for
// them: a transaction of a kilobyte holds hundreds of such.
func TestOptionalAccountsTakeNoBytes(t *testing.T) {
	var accounts []string
	for i := range 9_000 {
		accounts = append(accounts, fmt.Sprintf(`{"name":"a%d","optional":true}`, i))
	}
	d := describe(t, `{"types":[],"instructions":[{"name":"go","discriminator":[7],"args":[],"accounts":[`+strings.Join(accounts, ",")+`]}]}`)
	c := calling(nil, 0)
	c.calls = slices.Repeat([]call{{3, nil, []byte{7}}}, 200)
	tx := mustRead(t, c.bytes())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	facts, err := tx.Facts(func(string) (chain.Description, error) { return d, nil })
	runtime.ReadMemStats(&after)
	if err != nil || len(facts["instructions"].([]any)) != 200 {
		t.Fatal(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes for a transaction of %d", n, len(c.bytes()))
	}
}

func TestDiscriminators(t *testing.T) {
	of := func(name string) []byte { sum := sha256.Sum256([]byte("global:" + name)); return sum[:8] }
	instruction := func(name, discriminator string) string {
		return `{"name":"` + name + `",` + discriminator + `"accounts":[],"args":[]}`
	}
	name := func(d chain.Description, data []byte) any {
		if parsed, ok := parsedOf(t, d, data, 0).(chain.Struct); ok {
			return parsed["instruction_name"]
		}
		return nil
	}
	for ours, anchor := range map[string]string{"initialize": "initialize", "placePerpOrder": "place_perp_order", "snake_case": "snake_case", "Upper": "upper", "swapV2": "swap_v2", "a1B": "a1_b"} {
		if got := name(describe(t, `{"instructions":[`+instruction(ours, "")+`],"types":[]}`), of(anchor)); got != ours {
			t.Errorf("%s: %v", ours, got)
		}
	}
	d := describe(t, `{"instructions":[`+strings.Join([]string{instruction("a", `"discriminator":[1],`), instruction("b", `"discriminator":[2,0],`),
		instruction("c", `"discriminator":[2,0,9],`), instruction("d", `"discriminator":[3],`), instruction("e", `"discriminator":[3],`)}, ",")+`],"types":[]}`)
	for _, c := range []struct {
		data []byte
		want any
	}{{[]byte{1}, "a"}, {[]byte{2, 0}, "b"}, {[]byte{2, 0, 9}, nil}, {[]byte{2}, nil}, {[]byte{3}, nil}, {[]byte{4}, nil}, {nil, nil}} {
		if got := name(d, c.data); got != c.want {
			t.Errorf("%x: %v", c.data, got)
		}
	}
}

// oldIDL is an IDL of before 0.30, with instructions of these names, each with one argument of its own size.
func oldIDL(names ...string) string {
	var instructions []string
	for i, name := range names {
		instructions = append(instructions, fmt.Sprintf(`{"name":"%s","accounts":[],"args":[{"name":"x","type":{"array":["u8",%d]}}]}`, name, i))
	}
	return `{"version":"0.1.0","name":"p","instructions":[` + strings.Join(instructions, ",") + `],"types":[]}`
}

// discriminatorOf is that of a function of a program's source.
func discriminatorOf(preimage string) []byte { sum := sha256.Sum256([]byte(preimage)); return sum[:8] }

// A name of an older IDL stands for every function that the source may have: a call of each is shown under it.
func TestNamesOfOlderIDLs(t *testing.T) {
	for name, functions := range map[string][]string{
		"withdraw2":   {"withdraw2", "withdraw_2", "_withdraw2", "withdraw_2_"},
		"swapV2Exact": {"swap_v2_exact", "swap_v_2_exact", "_swap_v2_exact", "swapV2Exact"},
		"take10":      {"take10", "take_10", "take1_0", "take_1_0"},
		"init":        {"init", "_init", "init_"},
		"move":        {"move_"},
		"placeXY":     {"place_x_y", "place_xy"},
		"mintNFT":     {"mint_n_f_t", "mint_nft", "mintNFT", "mint_nft_"},
		"setURI2":     {"set_uri_2", "set_u_r_i2"},
		"mint_nft2":   {"mint_nft2"},
		"_init":       {"_init"},
		"a1b2c3d":     {"a_1b_2c_3d", "a1b2c3d", "a1b_2c3d_"},
	} {
		d := describe(t, oldIDL(name))
		for _, function := range functions {
			parsed, ok := parsedOf(t, d, discriminatorOf("global:"+function), 0).(chain.Struct)
			if want := fmt.Sprintf("%x", discriminatorOf("global:"+function)); !ok || parsed["instruction_name"] != name || parsed["discriminator"] != chain.Hex(want) {
				t.Errorf("%s: %s is %v", name, function, parsed)
			}
		}
		for _, other := range []string{"global:" + functions[0] + "x", "global:__init", "global:mint_nft_2", "state:" + functions[0], functions[0], "anchor:idl"} {
			if parsed, err := judgedOf(t, d, discriminatorOf(other), 0); parsed != nil || err != nil {
				t.Errorf("%s: %s is %v, %v", name, other, parsed, err)
			}
		}
	}
	// What Anchor's own clients send.
	var file struct{ Global, State map[string]string }
	readJSON(t, "discriminators.json", &file)
	for name, data := range file.Global {
		state := describe(t, `{"instructions":[],"state":{"struct":{"name":"S"},"methods":[{"name":"`+name+`","accounts":[{"name":"a"},{"name":"a"}],"args":[]}]},"types":[]}`)
		for text, d := range map[string]chain.Description{data: describe(t, oldIDL(name)), file.State[name]: state} {
			want := map[string]any{"instruction_name": name, "discriminator": text, "named_accounts": map[string]any{}, "program_call_args": map[string]any{}}
			if d != state {
				want["program_call_args"] = map[string]any{"x": []any{}}
			}
			same(t, parsedOf(t, d, unhex(t, text), 0), want)
		}
	}
	if len(file.Global) != 13 || len(file.State) != 13 {
		t.Errorf("%d and %d names", len(file.Global), len(file.State))
	}
}

// A call that may be one of two is neither: it is refused, so that no rule passes it by and none allows it for another.
func TestAmbiguousNames(t *testing.T) {
	for _, c := range []struct {
		text     string
		function string
		name     any // of the call, or nil: refused
	}{
		{oldIDL("mintNft", "mintNFT"), "global:mint_nft", nil},
		{oldIDL("mintNft", "mintNFT"), "global:mint_n_f_t", "mintNFT"},
		{oldIDL("mintNft", "mintNFT"), "global:mintNft", "mintNft"},
		{oldIDL("withdraw2", "withdraw_2"), "global:withdraw_2", nil},
		{oldIDL("withdraw2", "withdraw_2"), "global:withdraw2", "withdraw2"},
		{oldIDL("withdraw2", "withdraw2"), "global:withdraw2", nil}, // the source has withdraw2 and withdraw_2
		{oldIDL("withdraw2", "withdraw2"), "global:withdraw_2", nil},
		{oldIDL("withdraw2", "_withdraw2", "deposit"), "global:_withdraw2", nil},
		{oldIDL("withdraw2", "_withdraw2", "deposit"), "global:deposit", "deposit"},
		{strings.Replace(oldIDL("a", "b", "c"), `"name":"b"`, `"name":"b","discriminator":`+strings.ReplaceAll(fmt.Sprint(discriminatorOf("global:a_")), " ", ","), 1), "global:a_", nil},
	} {
		d := describe(t, c.text)
		for n := range 3 {
			parsed, err := judgedOf(t, d, append(discriminatorOf(c.function), make([]byte, n)...), 0)
			switch got, _ := parsed.(chain.Struct); {
			case c.name == nil && (err == nil || !strings.Contains(err.Error(), "begins as two of the interface")):
				t.Errorf("%s of %s: %v, %v", c.function, c.text, parsed, err)
			case got != nil && got["instruction_name"] != c.name:
				t.Errorf("%s of %s is %v", c.function, c.text, got)
			case c.name != nil && got == nil && err == nil:
				t.Errorf("%s of %s is unknown", c.function, c.text)
			}
		}
	}
	// So are two that are uploaded with one discriminator, or with one that another begins with.
	for _, second := range []string{`[3]`, `[3,1]`} {
		d := describe(t, `{"instructions":[{"name":"a","discriminator":[3],"accounts":[],"args":[]},{"name":"b","discriminator":`+second+`,"accounts":[],"args":[]}],"types":[]}`)
		if parsed, err := judgedOf(t, d, []byte{3, 1}, 0); parsed != nil || err == nil || !strings.Contains(err.Error(), "begins as two of the interface") {
			t.Errorf("%s: %v, %v", second, parsed, err)
		}
	}
	// With discriminators the upload says which.
	said := `{"instructions":[{"name":"withdraw2","discriminator":[1],"accounts":[],"args":[]},{"name":"withdraw2","discriminator":[2],"accounts":[],"args":[]}],"types":[]}`
	if parsedOf(t, describe(t, said), []byte{2}, 0) == nil || parsedOf(t, describe(t, said), discriminatorOf("global:withdraw_2"), 0) != nil {
		t.Error("a discriminator that is given is not the only one")
	}
}

// Shank describes programs without Anchor: an instruction begins with its number, and its name stands for nothing.
func TestShank(t *testing.T) {
	text := func(of string) string {
		return `{"version":"1.0.0","name":"p","instructions":[{"name":"Burn","accounts":[{"name":"a","isMut":true,"isSigner":false}],"args":[{"name":"x","type":"u8"}],"discriminant":` + of +
			`}],"types":[],"metadata":{"origin":"shank"}}`
	}
	d := describe(t, text(`{"type":"u8","value":29}`))
	same(t, parsedOf(t, d, []byte{29, 7}, 1), map[string]any{"instruction_name": "Burn", "discriminator": "1d", "named_accounts": map[string]any{"a": number(1).name()}, "program_call_args": map[string]any{"x": "7"}})
	if _, err := judgedOf(t, d, []byte{29}, 1); err == nil {
		t.Error("a call that does not decode is taken")
	}
	for _, data := range [][]byte{append(discriminatorOf("global:burn"), 7), {28, 7}} {
		if parsed, err := judgedOf(t, d, data, 1); parsed != nil || err != nil {
			t.Errorf("%x: %v, %v", data, parsed, err)
		}
	}
	for _, of := range []string{`{"type":"u8","value":256}`, `{"type":"u8","value":-1}`, `{"type":"u16","value":1}`, `{"type":"u8"}`, `{"value":1}`, `1`, `[1]`} {
		if _, err := (sol.Chain{}).Describe(text(of)); err == nil || err.Error() != "instruction 0: no discriminant of one byte" {
			t.Errorf("%s: %v", of, err)
		}
	}
}

// Names that may be spelt in too many ways are refused, and the others take no time to speak of.
func TestSpellingsAreBounded(t *testing.T) {
	many := make([]string, 9_000)
	for i := range many {
		many[i] = strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(100_000+i))
	}
	describe(t, oldIDL(many...))
	for i := range many {
		many[i] += "12345"
	}
	for _, text := range []string{oldIDL("a1234567"), oldIDL("to20240101"), oldIDL(many...)} {
		if _, err := (sol.Chain{}).Describe(text); err == nil || !strings.Contains(err.Error(), "give its discriminator") {
			t.Errorf("%.80s: %v", text, err)
		}
	}
	describe(t, oldIDL("createV2Order128"))
	wide := oldIDL("a123456", "swapBaseIn20x20")
	if _, err := (sol.Chain{}).Describe(wide); err == nil { // more than a text of its length may have
		t.Error("a short text has hundreds of spellings")
	}
	describe(t, strings.Replace(wide, `"version"`, `"docs":"`+strings.Repeat("x", 1_500)+`","version"`, 1))
	describe(t, strings.Replace(oldIDL("a1234567"), `"accounts"`, `"discriminator":[1],"accounts"`, 1))
	describe(t, `{"instructions":[],"state":7,"types":[]}`) // something else of this name
	if _, err := (sol.Chain{}).Describe(`{"instructions":[],"state":{"methods":[{"name":"a"}]},"types":[]}`); err == nil || err.Error() != "method 0 of the state: no accounts" {
		t.Error(err)
	}
}

func TestDescribed(t *testing.T) {
	tx := mustRead(t, payment.with(func(d *draft) { d.calls = append(d.calls, d.calls[0], call{1, nil, nil}) }).bytes())
	var asked []string
	factsOf(t, tx, func(address string) (chain.Description, error) {
		asked = append(asked, address)
		return "of another chain", nil
	})
	if !slices.Equal(asked, []string{number(2).name(), number(0).name()}) {
		t.Errorf("asked for %v", asked)
	}
	mine := errors.New("mine")
	if _, err := tx.Facts(func(string) (chain.Description, error) { return nil, mine }); err != mine {
		t.Error(err)
	}
}

const someIDL = `{"address":"x","metadata":{"name":"n"},"instructions":[{"name":"go","discriminator":[1,2,3,4,5,6,7,255],"accounts":[{"name":"a","writable":true},{"name":"g","accounts":[{"name":"b"}]}],"args":[{"name":"n","type":"u64"},{"name":"t","type":{"defined":{"name":"T"}}}]}],"types":[{"name":"T","type":{"kind":"struct","fields":[]}}]}`

// changed are texts with one place changed.
func changed(t testing.TB, good string, changes ...string) (out []string) {
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(good, changes[i]) {
			t.Fatal(changes[i])
		}
		out = append(out, strings.Replace(good, changes[i], changes[i+1], 1))
	}
	return out
}

// nested is an IDL with an account in groups within each other, whose own name is
// of so many letters and those of the groups of 127.
func nested(groups, letters int) string {
	of := `[{"name":"` + strings.Repeat("n", letters) + `"}]`
	for range groups {
		of = `[{"name":"` + strings.Repeat("g", 127) + `","accounts":` + of + `}]`
	}
	return `{"types":[],"instructions":[{"name":"go","args":[],"accounts":[{"name":"a"},` + of[1:] + `}]}`
}

func TestDescribeRefuses(t *testing.T) {
	for says, texts := range map[string][]string{
		"no JSON object": append(changed(t, someIDL, `"types":[`, `"types":[,`, `}]}`, `}]`, `"address":"x"`, `"types":[]`),
			``, ` `, `{}`, `[]`, `null`, `7`, someIDL+`x`, someIDL+`,"part":{}`, strings.Repeat(`{"a":`, 40)+`1`+strings.Repeat("}", 40), "\xff"+someIDL),
		"no instructions": append(changed(t, someIDL, `"instructions":[`, `"instruction":[`, `"instructions":[`, `"instructions":[7,`),
			`{"types":[]}`, `{"instructions":null,"types":[]}`, `{"instructions":{},"types":[]}`),
		"instruction 0: no name":                        changed(t, someIDL, `"name":"go",`, ``, `"name":"go"`, `"name":""`, `"name":"go"`, `"name":7`, `"name":"go"`, `"name":"`+strings.Repeat("n", 256)+`"`),
		"instruction 0: no discriminator":               changed(t, someIDL, `[1,2,3,4,5,6,7,255]`, `[]`, `255]`, `256]`, `[1,2,`, `[-1,2,`, `[1,2,`, `["a",2,`, `[1,2,3,4,5,6,7,255]`, `"01020304"`),
		"instruction 0: no accounts":                    changed(t, someIDL, `"accounts":[{"name":"a"`, `"account":[{"name":"a"`),
		"instruction 0: account 0: no name":             changed(t, someIDL, `"accounts":[{"name":"a"`, `"accounts":[{"nam":"a"`),
		"instruction 0: account 1: account 0: ":         changed(t, someIDL, `"accounts":[{"name":"b"`, `"accounts":[{"name":""`),
		"instruction 0: account 1: no accounts":         changed(t, someIDL, `"accounts":[{"name":"b"}]`, `"accounts":7`),
		"name with its groups is longer than 255 bytes": {nested(1, 128), nested(13, 1)},
		"instruction 0: no args":                        changed(t, someIDL, `"args":[`, `"arg":[`, `"args":[`, `"args":[7,`),
		"instruction 0: arg 0: no name or type": changed(t, someIDL,
			`"type":"u64"`, `"typ":"u64"`, `"type":"u64"`, `"type":7`, `"type":"u64"`, `"type":[]`, `{"name":"n","type"`, `{"type"`),
		"no types":                append(changed(t, someIDL, `"types":[`, `"type":[`, `"types":[`, `"types":7,"x":[`), `{"instructions":[]}`, `{"instructions":[],"types":null}`),
		"type 0: no name":         changed(t, someIDL, `{"name":"T","type":{"kind"`, `{"type":{"kind"`),
		"type 0: no type":         changed(t, someIDL, `"type":{"kind":"struct","fields":[]}`, `"type":"u8"`),
		"type 0: unknown kind":    changed(t, someIDL, `"struct"`, `"class"`, `"kind":"struct",`, ``, `"struct"`, `7`),
		"more than 1600000 bytes": {`{` + strings.Repeat(" ", 1_600_000) + `}`},
	} {
		for _, text := range texts {
			if _, err := (sol.Chain{}).Describe(text); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, not %q: %.300s", err, says, text)
			}
		}
	}
	for _, text := range append(changed(t, someIDL, `"kind":"struct"`, `"kind":"enum","variants":[]`, `"discriminator":[1,2,3,4,5,6,7,255],`, ``, `[1,2,3,4,5,6,7,255]`, `null`,
		`[{"name":"T","type":{"kind":"struct","fields":[]}}]`, `[]`), someIDL, `{"instructions":[],"types":[]}`, " "+someIDL+"\n", nested(1, 127)) {
		describe(t, text)
	}
}

// Of two accounts with one name neither is known by it. The call is known all the same, or a DENY of it by name would let it pass.
func TestAccountsOfOneName(t *testing.T) {
	d := describe(t, `{"instructions":[{"name":"go","discriminator":[7],"accounts":[{"name":"a"},{"name":"b"},{"name":"a"}],"args":[{"name":"x","type":"u8"}]}],"types":[]}`)
	same(t, parsedOf(t, d, []byte{7, 9}, 3), map[string]any{"instruction_name": "go", "discriminator": "07", "named_accounts": map[string]any{"b": number(2).name()}, "program_call_args": map[string]any{"x": "9"}})
	if parsed, err := judgedOf(t, d, []byte{7, 9}, 2); parsed != nil || err == nil {
		t.Errorf("with an account less: %v, %v", parsed, err)
	}
}
