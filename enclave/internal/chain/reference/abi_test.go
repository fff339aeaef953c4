package reference_test

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/rlp"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
)

// abiParam makes an input of a random type, as JSON.
func (r random) abiParam(name string, depth int) string {
	typ, components := "", ""
	switch n := r.IntN(12); {
	case n < 2 && depth > 0:
		typ, components = "tuple", `,"components":[`+r.abiParams("c", 1+r.IntN(3), depth-1)+`]`
	case n < 4:
		typ = fmt.Sprintf("uint%d", 8+8*r.IntN(32))
	case n < 6:
		typ = fmt.Sprintf("int%d", 8+8*r.IntN(32))
	case n < 8:
		typ = fmt.Sprintf("bytes%d", 1+r.IntN(32))
	default:
		typ = []string{"address", "bool", "string", "bytes", "function"}[r.IntN(5)]
	}
	for depth > 0 && r.IntN(3) == 0 {
		depth--
		if typ += "[]"; r.IntN(2) == 0 {
			typ = fmt.Sprintf("%s[%d]", strings.TrimSuffix(typ, "[]"), 1+r.IntN(3))
		}
	}
	return `{"name":"` + name + `","type":"` + typ + `"` + components + `}`
}

func (r random) abiParams(prefix string, n, depth int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = r.abiParam(fmt.Sprintf("%s%d", prefix, i), depth)
	}
	return strings.Join(all, ",")
}

// abiValue makes a value of a type, as go-ethereum packs it.
func (r random) abiValue(typ abi.Type) reflect.Value {
	v := reflect.New(typ.GetType()).Elem()
	switch typ.T {
	case abi.BoolTy:
		v.SetBool(r.IntN(2) == 0)
	case abi.StringTy:
		v.SetString([]string{"", "a", "Zoë ✓", strings.Repeat("long ", 20)}[r.IntN(4)])
	case abi.BytesTy:
		v.SetBytes(r.bytes(r.IntN(70)))
	case abi.AddressTy, abi.FixedBytesTy, abi.FunctionTy:
		reflect.Copy(v, reflect.ValueOf(r.bytes(v.Len())))
	case abi.IntTy, abi.UintTy:
		r.abiNumber(typ, v)
	case abi.SliceTy:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		fallthrough
	case abi.ArrayTy:
		for i := range v.Len() {
			v.Index(i).Set(r.abiValue(*typ.Elem))
		}
	case abi.TupleTy:
		for i, elem := range typ.TupleElems {
			v.Field(i).Set(r.abiValue(*elem))
		}
	}
	return v
}

func (r random) abiNumber(typ abi.Type, v reflect.Value) {
	n := new(big.Int).SetBytes(r.bytes((typ.Size / 8)))
	if typ.T == abi.IntTy && n.Bit(typ.Size-1) == 1 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(typ.Size)))
	}
	if r.IntN(3) == 0 {
		n = big.NewInt(int64(r.IntN(3)))
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.ValueOf(n))
	case typ.T == abi.IntTy:
		v.SetInt(n.Int64())
	default:
		v.SetUint(n.Uint64())
	}
}

// abiFact writes a value of go-ethereum's as our facts are written out.
func abiFact(typ abi.Type, v reflect.Value) any {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch typ.T {
	case abi.BoolTy:
		return v.Bool()
	case abi.StringTy:
		return strings.ToValidUTF8(v.String(), "\ufffd")
	case abi.IntTy, abi.UintTy:
		text := fmt.Sprint(v.Interface())
		if n, _ := new(big.Int).SetString(text, 10); typ.T == abi.IntTy && (n.Sign() < 0 && new(big.Int).Not(n).BitLen() > 127 || n.Sign() > 0 && n.BitLen() > 127) {
			return nil // beyond the int of policies
		}
		return text
	case abi.SliceTy, abi.ArrayTy:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = abiFact(*typ.Elem, v.Index(i))
		}
		return out
	case abi.TupleTy:
		out := make([]any, len(typ.TupleElems))
		for i, elem := range typ.TupleElems {
			out[i] = abiFact(*elem, v.Field(i))
		}
		return out
	}
	b := make([]byte, v.Len()) // bytes of any kind
	reflect.Copy(reflect.ValueOf(b), v)
	return "0x" + hex.EncodeToString(b)
}

func ourFact(v any) any {
	switch v := v.(type) {
	case int64, *big.Int:
		return fmt.Sprint(v)
	case chain.Hex:
		return string(v)
	case chain.Dynamic:
		return ourFact(v.Value)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = ourFact(v[i])
		}
		return out
	case chain.Map:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = ourFact(item)
		}
		return out
	}
	return v
}

// callOf reads a transaction that calls a contract with data.
func callOf(t *testing.T, data []byte) (chain.Transaction, chain.SigningKey) {
	t.Helper()
	unsigned, err := rlp.EncodeToBytes([]any{uint64(1), uint64(1), uint64(21000), make([]byte, 20), uint64(0), data})
	if err != nil {
		t.Fatal(err)
	}
	by, _, _ := ethSigner(t)
	tx, err := eth.Chain{}.Read(unsigned, by)
	if err != nil {
		t.Fatal(err)
	}
	return tx, by
}

// callFacts reads data as those of a call of a contract with an interface.
func callFacts(t *testing.T, text string, data []byte) chain.Struct {
	t.Helper()
	tx, _ := callOf(t, data)
	facts, err := tx.Facts(func(string) (chain.Description, error) { return eth.Chain{}.Describe(text) })
	if err != nil {
		if strings.Contains(err.Error(), "decode") { // data that are none of the function's may be refused
			return chain.Struct{"function_name": ""}
		}
		t.Fatalf("%s: %v", text, err)
	}
	return facts
}

// What we read is what go-ethereum reads, for random functions and their data; and
// where bits of the data have changed, what we still read go-ethereum reads too.
// The other way round it reads what contracts refuse: it does not look at the bytes
// that an address, a bytesN, or a number of more than 64 bits does not use.
func TestABI(t *testing.T) {
	r := newRandom(1)
	counts := map[string]int{}
	for range 1000 {
		text := `[{"type":"function","name":"f","inputs":[` + r.abiParams("a", r.IntN(5), 3) + `]}]`
		theirs, err := abi.JSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		method := theirs.Methods["f"]
		values := make([]any, len(method.Inputs))
		want := map[string]any{}
		for i, in := range method.Inputs {
			v := r.abiValue(in.Type)
			values[i], want[in.Name] = v.Interface(), abiFact(in.Type, v)
		}
		data, err := theirs.Pack("f", values...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		facts := callFacts(t, text, data)
		if got := ourFact(facts["contract_call_args"]); facts["function_name"] != "f" || facts["function_signature"] != chain.Hex("0x"+hex.EncodeToString(method.ID)) || !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("%s %x:\n%v\n%v %v", text, data, want, facts["function_name"], got)
		}
		counts["good"]++
		for range 10 {
			bad := append([]byte(nil), data...)
			switch n := len(bad) - 4; {
			case n == 0:
			case r.IntN(3) == 0:
				bad = bad[:4+r.IntN(n)]
			case r.IntN(2) == 0:
				bad[4+r.IntN(n)] = byte(r.Uint64())
			default: // the last bytes of words are where offsets and lengths are
				bad[4+31+32*r.IntN((n+31)/32)%n] ^= byte(1 << r.IntN(8))
			}
			counts[abiMutant(t, text, method, bad)]++
		}
	}
	t.Log(counts)
	if counts["both read"] < 2000 || counts["both refuse"] < 2000 {
		t.Error("the changes are not of use")
	}
}

func abiMutant(t *testing.T, text string, method abi.Method, data []byte) string {
	t.Helper()
	facts := callFacts(t, text, data)
	values, err := method.Inputs.Unpack(data[4:])
	if facts["function_name"] != "f" {
		if err != nil {
			return "both refuse"
		}
		return "only go-ethereum reads"
	}
	if err != nil {
		t.Fatalf("%s %x: read by us, refused by go-ethereum: %v", text, data, err)
	}
	want := map[string]any{}
	for i, in := range method.Inputs {
		want[in.Name] = abiFact(in.Type, reflect.ValueOf(values[i]))
	}
	if got := ourFact(facts["contract_call_args"]); !reflect.DeepEqual(got, any(want)) {
		t.Fatalf("%s %x:\n%v\n%v", text, data, want, got)
	}
	return "both read"
}

// What we take as an interface go-ethereum takes too, with the same selectors, but
// for decimals, which it does not know, uint and int without a size in tuples, and
// tuples of nothing.
func FuzzABIText(f *testing.F) {
	f.Add(`[{"type":"function","name":"f","inputs":[{"name":"v","type":"uint256[3][]"}]}]`)
	f.Add(`[{"type":"function","name":"f","inputs":[{"name":"v","type":"tuple[]","components":[{"name":"a","type":"int"},{"name":"b","type":"function"}]}],"stateMutability":"view"},{"type":"receive"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := (eth.Chain{}).Describe(text); err != nil || !utf8.ValidString(text) || strings.Contains(text, "fixed") {
			return
		}
		theirs, err := abi.JSON(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range theirs.Methods {
			if facts := callFacts(t, text, m.ID); len(m.Inputs) == 0 && facts["function_name"] != m.RawName {
				t.Errorf("%s: %s is %v", text, m.Sig, facts["function_name"])
			}
		}
	})
}
