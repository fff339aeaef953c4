package activity_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
)

const (
	contract = "0x000000000000000000000000000000000000dEaD"
	program  = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
	someABI  = `[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[{"type":"bool"}],"stateMutability":"nonpayable"}]`
	someIDL  = `{"address":"x","metadata":{"name":"n"},"instructions":[{"name":"go","discriminator":[1,2,3,4,5,6,7,255],"accounts":[{"name":"a","writable":true},{"name":"g","accounts":[{"name":"b"}]}],"args":[{"name":"n","type":"u64"},{"name":"t","type":{"defined":{"name":"T"}}}]}],"types":[{"name":"T","type":{"kind":"struct","fields":[]}}]}`
)

func abi(label, address, text string) object {
	return object{"smartContractAddress": address, "smartContractInterface": text, "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": label}
}

func idl(label, address, text string) object {
	in := abi(label, address, text)
	in["type"] = "SMART_CONTRACT_INTERFACE_TYPE_SOLANA"
	return in
}

func TestInterfaces(t *testing.T) {
	w := newWorld(t)
	long := `[` + strings.Repeat(" ", 300_000) + `{"type":"receive"}]`
	one := abi("one", contract, long)
	one["notes"] = "a note"
	id := w.run("CREATE_SMART_CONTRACT_INTERFACE", one)["smartContractInterfaceId"]
	i, err := w.tx().Interface(mustID(id))
	w.must(err)
	kept, err := w.tx().InterfaceText(i)
	w.must(err)
	if i.Address != contract || i.Label != "one" || i.Notes != "a note" || i.Type != "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM" || i.CreatedMs != start || kept != long || i.Parts < 4 {
		t.Errorf("%+v, %d bytes", i, len(kept))
	}
	w.run("CREATE_SMART_CONTRACT_INTERFACE", idl("two", program, someIDL))
	w.refused("CREATE_SMART_CONTRACT_INTERFACE", abi("one", "0x"+strings.Repeat("1", 40), someABI), 3, "smart contract interface label must be unique")
	for _, address := range []string{contract, strings.ToLower(contract), "0x" + strings.ToUpper(contract[2:])} {
		w.refused("CREATE_SMART_CONTRACT_INTERFACE", abi("three", address, someABI), 3, "address must be unique")
	}
	w.refused("CREATE_SMART_CONTRACT_INTERFACE", idl("three", program, someIDL), 3, "address must be unique")
	if n := mustOrganization(w).Interfaces; n != 2 {
		t.Errorf("%d interfaces", n)
	}
	other := w.newID().String()
	w.refused("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": other}, 5, "smart contract interface not found: "+other)
	w.refused("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": "x"}, 3, "must be a UUID")
	w.refused("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": ""}, 3, "smartContractInterfaceId")
	if r := w.run("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": id}); r["smartContractInterfaceId"] != id {
		t.Error(r)
	}
	if text, _ := w.tx().InterfaceText(i); text != "" {
		t.Errorf("%d bytes of the text are left", len(text))
	}
	w.run("CREATE_SMART_CONTRACT_INTERFACE", abi("one", strings.ToLower(contract), someABI))
}

func TestInterfaceLimit(t *testing.T) {
	w := newWorld(t)
	tx := w.tx()
	o := *mustOrganization(w)
	o.Interfaces = 1000
	w.must(tx.PutOrganization(&o))
	w.keep(tx)
	w.refused("CREATE_SMART_CONTRACT_INTERFACE", abi("a", contract, someABI), 8, "at most 1000 smart contract interfaces")
}

// rewritten are texts of an interface with one place changed.
func rewritten(good string, changes ...string) (out []string) {
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(good, changes[i]) {
			panic(changes[i])
		}
		out = append(out, strings.Replace(good, changes[i], changes[i+1], 1))
	}
	return out
}

func TestInterfacesRefuse(t *testing.T) {
	w := newWorld(t)
	try := func(in object, says string) {
		t.Helper()
		w.refused("CREATE_SMART_CONTRACT_INTERFACE", in, 3, says)
	}
	for _, address := range []string{"", "0x", contract[2:], contract + "0", contract[:41], "0X" + contract[2:], "0x" + strings.Repeat("g", 40), " " + contract, program} {
		says := "invalid smart contract address"
		if address == "" {
			says = "smartContractAddress"
		}
		try(abi("a", address, someABI), says)
	}
	for _, address := range []string{contract, program[:31], program + "1", "0" + program[1:], "l" + program[1:], strings.Repeat("z", 44), strings.Repeat("1", 33), strings.ReplaceAll(program, "k", "é")} {
		try(idl("a", address, someIDL), "invalid smart contract address")
	}
	w.run("CREATE_SMART_CONTRACT_INTERFACE", idl("system", strings.Repeat("1", 32), someIDL))
	for _, text := range append(rewritten(someABI,
		`"function"`, `"functions"`, `"function"`, `7`, `"transfer"`, `""`, `"transfer"`, `"7up"`, `"transfer"`, `"a b"`, `"transfer"`, `null`, `"name":"transfer",`, ``,
		`"uint256"`, `"uint257"`, `"uint256"`, `"uint0"`, `"uint256"`, `"uint08"`, `"uint256"`, `"uint512"`, `"uint256"`, `"uint256[0]"`, `"uint256"`, `"uint256[-1]"`, `"uint256"`, `"uint256]"`,
		`"uint256"`, `"[]"`, `"uint256"`, `"bytes33"`, `"uint256"`, `"bytes0"`, `"uint256"`, `"fixed128"`, `"uint256"`, `"fixed128x81"`, `"uint256"`, `"fixed7x8"`, `"uint256"`, `"Uint256"`,
		`"uint256"`, `"tuple"`, `"uint256"`, `"address256"`, `"uint256"`, `""`, `"uint256"`, `7`, `"type":"uint256"`, `"typ":"uint256"`, `"type":"uint256"`, `"type":"uint256","components":[]`,
		`"type":"uint256"`, `"type":"tuple","components":[{"name":"x","type":"y"}]`, `"type":"uint256"`, `"type":"uint256","type":"uint8"`, `"amount"`, `"1"`, `"amount"`, `1`,
		`"outputs":[`, `"outputs":{"a":[`, `"inputs":[`, `"inputs":["x",`, `}]`, `},]`, `[{"type"`, `{"type"`),
		`{}`, `7`, `"x"`, `null`, `[7]`, `[null]`, `[[]]`, `{"abi":`+someABI+`}`, `[]x`, `[],"part":[]`, strings.Repeat("[", 100)+strings.Repeat("]", 100),
		`[{"type":"function","name":"f","inputs":[`+strings.Repeat(`{"type":"tuple","components":[`, 40)+strings.Repeat(`]}`, 40)+`]}]`) {
		try(abi("a", contract, text), "invalid smart contract interface")
	}
	for _, text := range append(rewritten(someIDL,
		`"types":[`, `"type":[`, `"types":[`, `"types":7,"x":[`, `"instructions":[`, `"instruction":[`, `"instructions":[`, `"instructions":[7,`, `"name":"go",`, ``, `"name":"go"`, `"name":""`, `"name":"go"`, `"name":7`,
		`[1,2,3,4,5,6,7,255]`, `[]`, `255]`, `256]`, `[1,2,`, `[-1,2,`, `[1,2,`, `["a",2,`, `[1,2,3,4,5,6,7,255]`, `"01020304"`,
		`"accounts":[{"name":"a"`, `"account":[{"name":"a"`, `"accounts":[{"name":"a"`, `"accounts":[{"nam":"a"`, `"accounts":[{"name":"b"`, `"accounts":[{"name":""`, `"args":[`, `"arg":[`,
		`"type":"u64"`, `"typ":"u64"`, `"type":"u64"`, `"type":7`, `"type":"u64"`, `"type":[]`, `{"name":"n","type"`, `{"type"`,
		`{"name":"T","type":{"kind"`, `{"type":{"kind"`, `"struct"`, `"class"`, `"kind":"struct",`, ``, `"fields":[]}}`, `"fields":[]}`),
		`[]`, `null`, `7`, `{}`, someABI, `{"types":[]}`, `{"instructions":[]}`, `{"instructions":[],"types":null}`) {
		try(idl("a", program, text), "invalid smart contract interface")
	}
	try(abi("a", contract, ""), "missing field `smartContractInterface`")
	try(abi("a", contract, `[`+strings.Repeat(" ", 400_000)+`]`), "at most 400000")
	try(abi("", contract, someABI), "label")
	notes := abi("a", contract, someABI)
	notes["notes"] = strings.Repeat("x", 4097)
	try(notes, "at most 4096")
	try(without(abi("a", contract, someABI), "type"), "type")
}

func TestInterfacesThatParse(t *testing.T) {
	w := newWorld(t)
	n := 0
	for _, text := range append(rewritten(someABI, `"uint256"`, `"uint256[][3]"`, `"uint256"`, `"bytes32"`, `"uint256"`, `"int"`, `"uint256"`, `"ufixed128x18[]"`, `"uint256"`, `"function"`,
		`"type":"uint256"`, `"type":"tuple[2]","components":[{"name":"x","type":"tuple","components":[{"name":"","type":"string"}]}]`, `"type":"function",`, ``, `"inputs"`, `"put"`, `"to"`, `""`),
		`[]`, `[{"type":"fallback"},{"type":"constructor","inputs":[]},{"type":"error","name":"E","inputs":[]},{"type":"event","name":"V","inputs":[{"indexed":true,"type":"address"}],"anonymous":false}]`) {
		n++
		w.run("CREATE_SMART_CONTRACT_INTERFACE", abi(fmt.Sprint(n), fmt.Sprintf("0x%040x", n), text))
	}
	for _, text := range rewritten(someIDL, `"kind":"struct"`, `"kind":"enum","variants":[]`, `"discriminator":[1,2,3,4,5,6,7,255],`, ``, `[{"name":"T","type":{"kind":"struct","fields":[]}}]`, `[]`) {
		n++
		w.run("CREATE_SMART_CONTRACT_INTERFACE", idl(fmt.Sprint(n), strings.Repeat("1", 31)+string("23456789ABCDEFGHJKLMNPQRSTUVWXYZabc"[n]), text))
	}
}

// Whatever the text, it is taken or refused.
func FuzzInterface(f *testing.F) {
	f.Add(true, someABI)
	f.Add(false, someIDL)
	f.Add(true, `[{"type":"error","name":"E","inputs":[{"type":"tuple[]","components":[{"type":"fixed8x1"}]}]}]`)
	f.Fuzz(func(t *testing.T, ethereum bool, source string) {
		in := idl("a", program, source)
		if ethereum {
			in = abi("a", contract, source)
		}
		v, err := kinds.Live.Lookup("create_smart_contract_interface", "ACTIVITY_TYPE_CREATE_SMART_CONTRACT_INTERFACE")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Decode(text(in)); err != nil && code(err) != fault.InvalidArgument {
			t.Fatal(err)
		}
	})
}
