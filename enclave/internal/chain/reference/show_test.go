package reference_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
)

// shownCall is the first call of a transaction as approvers are shown it, and the warnings.
func shownCall(t *testing.T, text string, data []byte) (call map[string]any, warnings string) {
	t.Helper()
	tx, by := callOf(t, data)
	description, err := eth.Chain{}.Describe(text)
	if err != nil {
		t.Fatal(err)
	}
	view := show.New(&show.Known{Signer: by, Calls: eth.ShowCall, Interface: func(string) (show.Interface, error) {
		return show.Interface{Description: description, Source: show.Source{From: show.FromOrganization}}, nil
	}})
	if err := tx.(show.Transaction).Show(view, view.Part()); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Warnings []struct{ Code string }
		Parts    []struct{ Calls []map[string]any }
	}
	if err := json.Unmarshal(view.Document(show.Header{}).Text(), &document); err != nil {
		t.Fatal(err)
	}
	for _, w := range document.Warnings {
		warnings += w.Code + " "
	}
	return document.Parts[0].Calls[0], warnings
}

// abiShown writes a value of go-ethereum's as it is shown.
func abiShown(typ abi.Type, v reflect.Value) any {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch typ.T {
	case abi.BoolTy:
		return v.Bool()
	case abi.IntTy, abi.UintTy:
		return fmt.Sprint(v.Interface())
	case abi.AddressTy:
		return v.Interface().(common.Address).Hex()
	case abi.StringTy:
		if !utf8.ValidString(v.String()) {
			return "0x" + hex.EncodeToString([]byte(v.String()))
		}
		var text strings.Builder
		for _, r := range v.String() {
			if r >= 0x20 && r <= 0x7e {
				text.WriteRune(r)
			} else {
				fmt.Fprintf(&text, `\u{%X}`, r)
			}
		}
		return text.String()
	case abi.SliceTy, abi.ArrayTy:
		out := []any{}
		for i := range v.Len() {
			out = append(out, abiShown(*typ.Elem, v.Index(i)))
		}
		return out
	case abi.TupleTy:
		out := map[string]any{}
		for i, elem := range typ.TupleElems {
			out[typ.TupleRawNames[i]] = abiShown(*elem, v.Field(i))
		}
		return out
	}
	b := make([]byte, v.Len())
	reflect.Copy(reflect.ValueOf(b), v)
	return "0x" + hex.EncodeToString(b)
}

// plain takes an argument out of what it is shown in.
func plain(v any) any {
	m := v.(map[string]any)
	if a, ok := m["address"]; ok {
		return a
	}
	if items, ok := m["items"].([]any); ok {
		out := []any{}
		for _, item := range items {
			out = append(out, plain(item))
		}
		return out
	}
	if members, ok := m["members"].([]any); ok {
		return named(members)
	}
	return m["value"]
}

func named(list []any) map[string]any {
	out := map[string]any{}
	for _, member := range list {
		out[member.(map[string]any)["name"].(string)] = plain(member)
	}
	return out
}

// What approvers are shown of a call is what go-ethereum unpacks from it, and data that go-ethereum would have packed in
// another way are told by a warning, all of them and no others.
func TestShownCalls(t *testing.T) {
	r := newRandom(7)
	counts := map[string]int{}
	for range 1000 {
		text := `[{"type":"function","name":"f","inputs":[` + r.abiParams("a", 1+r.IntN(4), 2) + `]}]`
		theirs, err := abi.JSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		method := theirs.Methods["f"]
		values := make([]any, len(method.Inputs))
		for i, in := range method.Inputs {
			values[i] = r.abiValue(in.Type).Interface()
		}
		data, err := theirs.Pack("f", values...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for range 6 {
			counts[isShown(t, text, method, data)]++
			data = bytes.Clone(data)
			switch r.IntN(3) {
			case 0:
				data = append(data, r.bytes(1+r.IntN(40))...)
			case 1:
				data[4+r.IntN(len(data)-4)] = byte(r.Uint64())
			default:
				data[4+31+32*r.IntN((len(data)-4)/32)%(len(data)-4)] ^= byte(1 << r.IntN(8))
			}
		}
	}
	t.Log(counts)
	for _, what := range []string{"as packed", "odd", "trailing", "unread"} {
		if counts[what] < 200 {
			t.Errorf("of %q there are %d", what, counts[what])
		}
	}
}

func isShown(t *testing.T, text string, method abi.Method, data []byte) string {
	t.Helper()
	call, warnings := shownCall(t, text, data)
	if strings.Contains(warnings, "LIMIT") || strings.Contains(warnings, "CUT") {
		return "too long"
	}
	if call["unreadable"] != nil {
		if !strings.Contains(warnings, "UNREAD") {
			t.Fatalf("%s %x: %s", text, data, warnings)
		}
		return "unread"
	}
	values, err := method.Inputs.Unpack(data[4:])
	if err != nil {
		t.Fatalf("%s %x: read by us, refused by go-ethereum: %v", text, data, err)
	}
	want := map[string]any{}
	for i, in := range method.Inputs {
		want[in.Name] = abiShown(in.Type, reflect.ValueOf(values[i]))
	}
	args, _ := call["args"].([]any)
	if got := named(args); !strings.Contains(warnings, "TEXT_") && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s %x:\n%v\n%v", text, data, want, got)
	}
	packed, err := method.Inputs.Pack(values...)
	if err != nil {
		t.Fatal(err)
	}
	says := "as packed"
	switch {
	case strings.Contains(warnings, "ENCODING_ODD"):
		says = "odd"
	case strings.Contains(warnings, "TRAILING_DATA"):
		says = "trailing"
	}
	is := "odd"
	if rest, ok := bytes.CutPrefix(data[4:], packed); ok {
		if is = "as packed"; len(rest) > 0 {
			is = "trailing"
		}
	}
	if says != is && !bytes.Contains(data, []byte{0xff, 0xff, 0xff, 0xff}) {
		t.Fatalf("%s %x: go-ethereum packs %x: %s, and not %s", text, data, packed, is, says)
	}
	return is
}
