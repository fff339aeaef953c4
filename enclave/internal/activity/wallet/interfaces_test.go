package wallet_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

const (
	contract = "0x000000000000000000000000000000000000dEaD"
	program  = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"

	someIDL = `{"address":"x","metadata":{"name":"n"},"instructions":[{"name":"go","discriminator":[1,2,3,4,5,6,7,255],"accounts":[{"name":"a","writable":true},{"name":"g","accounts":[{"name":"b"}]}],"args":[{"name":"n","type":"u64"},{"name":"t","type":{"defined":{"name":"T"}}}]}],"types":[{"name":"T","type":{"kind":"struct","fields":[]}}]}`
)

func idl(label, address, text string) object {
	in := activitytest.ABI(label, address, text)
	in["type"] = "SMART_CONTRACT_INTERFACE_TYPE_SOLANA"
	return in
}

func TestInterfaces(t *testing.T) {
	w := activitytest.New(t)
	long := `[` + strings.Repeat(" ", 300_000) + `{"type":"receive"}]`
	one := activitytest.ABI("one", contract, long)
	one["notes"] = "a note"
	id := w.Run("CREATE_SMART_CONTRACT_INTERFACE", one)["smartContractInterfaceId"]
	i, err := w.Tx().Interface(activitytest.MustID(id))
	w.Must(err)
	kept, err := w.Tx().InterfaceText(i)
	w.Must(err)
	if i.Address != contract || i.Label != "one" || i.Notes != "a note" || i.Type != "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM" || i.CreatedMs != activitytest.Start || kept != long || i.Parts < 4 {
		t.Errorf("%+v, %d bytes", i, len(kept))
	}
	w.Run("CREATE_SMART_CONTRACT_INTERFACE", idl("two", program, someIDL))
	w.Refuse("CREATE_SMART_CONTRACT_INTERFACE", activitytest.ABI("one", "0x"+strings.Repeat("1", 40), activitytest.SomeABI), 3, "smart contract interface label must be unique")
	for _, address := range []string{contract, strings.ToLower(contract), "0x" + strings.ToUpper(contract[2:])} {
		w.Refuse("CREATE_SMART_CONTRACT_INTERFACE", activitytest.ABI("three", address, activitytest.SomeABI), 3, "address must be unique")
	}
	w.Refuse("CREATE_SMART_CONTRACT_INTERFACE", idl("three", program, someIDL), 3, "address must be unique")
	if n := w.Organization().Interfaces; n != 2 {
		t.Errorf("%d interfaces", n)
	}
	other := w.NewID().String()
	w.Refuse("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": other}, 5, "smart contract interface not found: "+other)
	w.Refuse("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": "x"}, 3, "must be a UUID")
	w.Refuse("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": ""}, 3, "smartContractInterfaceId")
	if r := w.Run("DELETE_SMART_CONTRACT_INTERFACE", object{"smartContractInterfaceId": id}); r["smartContractInterfaceId"] != id {
		t.Error(r)
	}
	if text, _ := w.Tx().InterfaceText(i); text != "" {
		t.Errorf("%d bytes of the text are left", len(text))
	}
	w.Run("CREATE_SMART_CONTRACT_INTERFACE", activitytest.ABI("one", strings.ToLower(contract), activitytest.SomeABI))
}

func TestInterfaceLimit(t *testing.T) {
	w := activitytest.New(t)
	tx := w.Tx()
	o := *w.Organization()
	o.Interfaces = 1000
	w.Must(tx.PutOrganization(&o))
	w.Keep(tx)
	w.Refuse("CREATE_SMART_CONTRACT_INTERFACE", activitytest.ABI("a", contract, activitytest.SomeABI), 8, "at most 1000 smart contract interfaces")
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
	w := activitytest.New(t)
	try := func(in object, says string) {
		t.Helper()
		w.Refuse("CREATE_SMART_CONTRACT_INTERFACE", in, 3, says)
	}
	for _, address := range []string{"", "0x", contract[2:], contract + "0", contract[:41], "0X" + contract[2:], "0x" + strings.Repeat("g", 40), " " + contract, program} {
		says := "invalid smart contract address"
		if address == "" {
			says = "smartContractAddress"
		}
		try(activitytest.ABI("a", address, activitytest.SomeABI), says)
	}
	for _, address := range []string{contract, program[:31], program + "1", "0" + program[1:], "l" + program[1:], strings.Repeat("z", 44), strings.Repeat("1", 33), strings.ReplaceAll(program, "k", "é")} {
		try(idl("a", address, someIDL), "invalid smart contract address")
	}
	w.Run("CREATE_SMART_CONTRACT_INTERFACE", idl("system", strings.Repeat("1", 32), someIDL))
	for _, text := range append(rewritten(activitytest.SomeABI,
		`"function"`, `"functions"`, `"function"`, `7`, `"transfer"`, `""`, `"transfer"`, `"7up"`, `"transfer"`, `"a b"`, `"transfer"`, `null`, `"name":"transfer",`, ``,
		`"uint256"`, `"uint257"`, `"uint256"`, `"uint0"`, `"uint256"`, `"uint08"`, `"uint256"`, `"uint512"`, `"uint256"`, `"uint256[0]"`, `"uint256"`, `"uint256[-1]"`, `"uint256"`, `"uint256]"`,
		`"uint256"`, `"[]"`, `"uint256"`, `"bytes33"`, `"uint256"`, `"bytes0"`, `"uint256"`, `"fixed128"`, `"uint256"`, `"fixed128x81"`, `"uint256"`, `"fixed7x8"`, `"uint256"`, `"Uint256"`,
		`"uint256"`, `"tuple"`, `"uint256"`, `"address256"`, `"uint256"`, `""`, `"uint256"`, `7`, `"type":"uint256"`, `"typ":"uint256"`, `"type":"uint256"`, `"type":"uint256","components":[]`,
		`"type":"uint256"`, `"type":"tuple","components":[{"name":"x","type":"y"}]`, `"type":"uint256"`, `"type":"uint256","type":"uint8"`, `"amount"`, `"1"`, `"amount"`, `1`,
		`"outputs":[`, `"outputs":{"a":[`, `"inputs":[`, `"inputs":["x",`, `}]`, `},]`, `[{"type"`, `{"type"`),
		`{}`, `7`, `"x"`, `null`, `[7]`, `[null]`, `[[]]`, `{"abi":`+activitytest.SomeABI+`}`, `[]x`, `[],"part":[]`, strings.Repeat("[", 100)+strings.Repeat("]", 100),
		`[{"type":"function","name":"f","inputs":[`+strings.Repeat(`{"type":"tuple","components":[`, 40)+strings.Repeat(`]}`, 40)+`]}]`) {
		try(activitytest.ABI("a", contract, text), "invalid smart contract interface")
	}
	// A function that has the selector of a built-in one under another name is named.
	for _, f := range [][2]string{{`workMyDirefulOwner(uint256,uint256)`, "transfer(address,uint256)"}, {`collate_propagate_storage(bytes16)`, "burn(uint256)"}} {
		name, types, _ := strings.Cut(strings.TrimSuffix(f[0], ")"), "(")
		var inputs []string
		for _, typ := range strings.Split(types, ",") {
			inputs = append(inputs, fmt.Sprintf(`{"name":"","type":%q}`, typ))
		}
		text := fmt.Sprintf(`[{"type":"function","name":%q,"inputs":[%s]}]`, name, strings.Join(inputs, ","))
		try(activitytest.ABI("a", contract, text), "invalid smart contract interface: "+f[0]+" has the selector of the built-in function "+f[1])
		w.Run("CREATE_SMART_CONTRACT_INTERFACE", activitytest.ABI(name, fmt.Sprintf("0x%040x", len(name)), strings.Replace(text, `"function"`, `"event"`, 1)))
	}
	for _, text := range append(rewritten(someIDL,
		`"types":[`, `"type":[`, `"types":[`, `"types":7,"x":[`, `"instructions":[`, `"instruction":[`, `"instructions":[`, `"instructions":[7,`, `"name":"go",`, ``, `"name":"go"`, `"name":""`, `"name":"go"`, `"name":7`,
		`[1,2,3,4,5,6,7,255]`, `[]`, `255]`, `256]`, `[1,2,`, `[-1,2,`, `[1,2,`, `["a",2,`, `[1,2,3,4,5,6,7,255]`, `"01020304"`,
		`"accounts":[{"name":"a"`, `"account":[{"name":"a"`, `"accounts":[{"name":"a"`, `"accounts":[{"nam":"a"`, `"accounts":[{"name":"b"`, `"accounts":[{"name":""`, `"args":[`, `"arg":[`,
		`"type":"u64"`, `"typ":"u64"`, `"type":"u64"`, `"type":7`, `"type":"u64"`, `"type":[]`, `{"name":"n","type"`, `{"type"`,
		`{"name":"T","type":{"kind"`, `{"type":{"kind"`, `"struct"`, `"class"`, `"kind":"struct",`, ``, `"fields":[]}}`, `"fields":[]}`),
		`[]`, `null`, `7`, `{}`, activitytest.SomeABI, `{"types":[]}`, `{"instructions":[]}`, `{"instructions":[],"types":null}`) {
		try(idl("a", program, text), "invalid smart contract interface")
	}
	try(activitytest.ABI("a", contract, ""), "missing field `smartContractInterface`")
	try(activitytest.ABI("a", contract, `[`+strings.Repeat(" ", 400_000)+`]`), "at most 400000")
	try(activitytest.ABI("", contract, activitytest.SomeABI), "label")
	notes := activitytest.ABI("a", contract, activitytest.SomeABI)
	notes["notes"] = strings.Repeat("x", 4097)
	try(notes, "at most 4096")
	try(activitytest.Without(activitytest.ABI("a", contract, activitytest.SomeABI), "type"), "type")
}

func TestInterfacesThatParse(t *testing.T) {
	w := activitytest.New(t)
	n := 0
	for _, text := range append(rewritten(activitytest.SomeABI, `"uint256"`, `"uint256[][3]"`, `"uint256"`, `"bytes32"`, `"uint256"`, `"int"`, `"uint256"`, `"ufixed128x18[]"`, `"uint256"`, `"function"`,
		`"type":"uint256"`, `"type":"tuple[2]","components":[{"name":"x","type":"tuple","components":[{"name":"","type":"string"}]}]`, `"type":"function",`, ``, `"inputs"`, `"put"`, `"to"`, `""`),
		`[]`, `[{"type":"fallback"},{"type":"constructor","inputs":[]},{"type":"error","name":"E","inputs":[]},{"type":"event","name":"V","inputs":[{"indexed":true,"type":"address"}],"anonymous":false}]`) {
		n++
		w.Run("CREATE_SMART_CONTRACT_INTERFACE", activitytest.ABI(fmt.Sprint(n), fmt.Sprintf("0x%040x", n), text))
	}
	for _, text := range rewritten(someIDL, `"kind":"struct"`, `"kind":"enum","variants":[]`, `"discriminator":[1,2,3,4,5,6,7,255],`, ``, `[{"name":"T","type":{"kind":"struct","fields":[]}}]`, `[]`) {
		n++
		w.Run("CREATE_SMART_CONTRACT_INTERFACE", idl(fmt.Sprint(n), strings.Repeat("1", 31)+string("23456789ABCDEFGHJKLMNPQRSTUVWXYZabc"[n]), text))
	}
}

// An interface of old that today's rules refuse is no silence for the policies that read by it.
func TestInterfaceThatIsReadNoMore(t *testing.T) {
	w := activitytest.New(t)
	with := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	made := w.Run("CREATE_SMART_CONTRACT_INTERFACE", object{"smartContractAddress": tokenAt, "smartContractInterface": erc20,
		"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": "token", "notes": ""})
	tx := w.Tx()
	i, err := tx.Interface(activitytest.MustID(made["smartContractInterfaceId"]))
	w.Must(err)
	spoilt := *i
	w.Must(tx.PutInterface(&spoilt, "[{}]"))
	w.Keep(tx)
	v, err := kinds.Live.Lookup("sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION_V2")
	w.Must(err)
	in, err := v.Decode(activitytest.JSON(transaction(with, transfer)))
	w.Must(err)
	if _, err := v.PolicyRequest(w.Tx(), in, org.ID{1}, w.User, false); activitytest.Code(err) != fault.FailedPrecondition {
		t.Errorf("%v", err)
	}
}

// Whatever the text, it is taken or refused.
func FuzzInterface(f *testing.F) {
	f.Add(true, activitytest.SomeABI)
	f.Add(false, someIDL)
	f.Add(true, `[{"type":"error","name":"E","inputs":[{"type":"tuple[]","components":[{"type":"fixed8x1"}]}]}]`)
	f.Fuzz(func(t *testing.T, ethereum bool, source string) {
		in := idl("a", program, source)
		if ethereum {
			in = activitytest.ABI("a", contract, source)
		}
		v, err := kinds.Live.Lookup("create_smart_contract_interface", "ACTIVITY_TYPE_CREATE_SMART_CONTRACT_INTERFACE")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Decode(activitytest.JSON(in)); err != nil && activitytest.Code(err) != fault.InvalidArgument {
			t.Fatal(err)
		}
	})
}
