package tron_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
	"google.golang.org/protobuf/encoding/protowire"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/tron"
)

func sum(b []byte) []byte { s := sha256.Sum256(b); return s[:] }

// message writes a protocol buffer: numbers as varints, bytes and strings with
// their length. Fields come as they are given.
func message(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		n := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
		}
	}
	return b
}

// with is a list of fields with one changed, or left out if the value is nil.
func with(fields []any, number int, value any) []any {
	out := []any{}
	for i := 0; i < len(fields); i += 2 {
		switch {
		case fields[i] != number:
			out = append(out, fields[i], fields[i+1])
		case value != nil:
			out = append(out, number, value)
		}
	}
	return out
}

// after is a list of fields with one more behind field number last.
func after(fields []any, last, number int, value any) []any {
	i := slices.Index(fields, any(last))
	return slices.Insert(slices.Clone(fields), i+2, any(number), value)
}

var (
	ownerBytes = append([]byte{0x41}, bytes.Repeat([]byte{1}, 20)...)
	otherBytes = append([]byte{0x41}, bytes.Repeat([]byte{2}, 20)...)
	hash       = []byte{1, 2, 3, 4, 5, 6, 7, 8}
	body       = []any{1, ownerBytes, 2, otherBytes, 3, 100}
)

func parameter(name string, value []byte) []byte {
	return message(1, "type.googleapis.com/protocol."+name, 2, value)
}

func head(kind int, name string, value []byte) []any {
	return []any{1, kind, 2, parameter(name, value)}
}

// transfer is raw_data of a transfer, as fields.
func transfer() []any { return rawData(message(head(1, "TransferContract", message(body...))...)) }

func rawData(contract []byte) []any {
	return []any{1, []byte{0x5b, 0xe7}, 4, hash, 8, 1750000060000, 11, contract, 14, 1750000000000}
}

// inside is raw_data with a contract of a type and its parameter.
func inside(kind int, name string, fields ...any) []byte {
	return message(rawData(message(head(kind, name, message(fields...))...))...)
}

func TestRefused(t *testing.T) {
	raw := message(transfer()...)
	if _, err := (tron.Chain{}).Read(raw, signer(t)); err != nil {
		t.Fatal(err)
	}
	contract := head(1, "TransferContract", message(body...))
	inHead := func(fields []any) []byte { return message(rawData(message(fields...))...) }
	inBody := func(fields []any) []byte { return inside(1, "TransferContract", fields...) }
	inAny := func(fields ...any) []byte { return inHead([]any{1, 1, 2, message(fields...)}) }
	key := message(1, ownerBytes, 2, 1)
	permission := []any{1, 2, 3, "active", 4, 1, 6, bytes.Repeat([]byte{1}, 32), 7, key}
	active := func(fields []any) []byte {
		return inside(46, "AccountPermissionUpdateContract", 1, ownerBytes, 4, message(fields...))
	}
	long := slices.Clone(raw)
	long[1] = 0x82 // the length 2 of the first field, in two bytes
	long = slices.Insert(long, 2, byte(0))
	longTag := slices.Insert(slices.Clone(raw), 1, byte(0))
	longTag[0] = 0x8a
	for _, c := range []struct {
		what          string
		raw           []byte
		name, message string
	}{
		{"nothing", nil, invalid, "one contract"},
		{"too large", make([]byte, 500<<10+1), invalid, "over 512000 bytes"},
		{"zeros", make([]byte, 500<<10), invalid, "shortest form"},
		{"cut", raw[:len(raw)-1], invalid, "shortest form"},
		{"trailing byte", append(slices.Clone(raw), 0), invalid, "shortest form"},
		{"trailing field", append(slices.Clone(raw), raw[:4]...), invalid, "ref_block_bytes comes twice or too late"},
		{"a length in two bytes", long, invalid, "shortest form"},
		{"a tag in two bytes", longTag, invalid, "shortest form"},
		{"a group", append(slices.Clone(raw), 18<<3&0x7f|3|0x80, 1), invalid, "shortest form"},
		{"fixed 64 bits", append(message(with(transfer(), 14, nil)...), append([]byte{14<<3 | 1}, hash...)...), invalid, "shortest form"},
		{"a signed transaction", message(1, raw, 2, make([]byte, 65)), unsupported, "field 2 of raw_data"},
		{"a signed transaction without a signature", message(1, raw), invalid, "one contract"},
		{"hexadecimal text", []byte(hex.EncodeToString(raw)), unsupported, "field 6 of raw_data"},

		{"two contracts", message(after(transfer(), 11, 11, message(contract...))...), invalid, "more than 1"},
		{"no contract", message(with(transfer(), 11, nil)...), invalid, "one contract"},
		{"an empty contract", message(with(transfer(), 11, "")...), invalid, "empty"},
		{"no expiration", message(with(transfer(), 8, nil)...), invalid, "expiration is missing"},
		{"expiration zero", message(with(transfer(), 8, 0)...), invalid, "expiration is empty"},
		{"expiration negative", message(with(transfer(), 8, -1)...), invalid, "expiration is negative"},
		{"expiration as bytes", message(with(transfer(), 8, "x")...), invalid, "expiration has the wrong type"},
		{"no block", message(with(transfer(), 1, nil)...), invalid, "ref_block_bytes must be 2 bytes"},
		{"a block of three bytes", message(with(transfer(), 1, "abc")...), invalid, "ref_block_bytes must be 2 bytes"},
		{"a block as a number", message(with(transfer(), 1, 5)...), invalid, "ref_block_bytes has the wrong type"},
		{"no hash", message(with(transfer(), 4, nil)...), invalid, "ref_block_hash must be 8 bytes"},
		{"a hash of 32 bytes", message(with(transfer(), 4, make([]byte, 32))...), invalid, "ref_block_hash must be 8 bytes"},
		{"a block number", message(after(transfer(), 1, 3, 5)...), unsupported, "field 3 of raw_data"},
		{"auths", message(after(transfer(), 8, 9, "x")...), unsupported, "field 9 of raw_data"},
		{"scripts", message(after(transfer(), 11, 12, "x")...), unsupported, "field 12 of raw_data"},
		{"field 0", message(after(transfer(), 11, 0, 5)...), invalid, "shortest form"},
		{"field 2^29-1", message(after(transfer(), 14, 1<<29-1, 5)...), unsupported, "field 536870911 of raw_data"},
		{"field 2^29", append(slices.Clone(raw), protowire.AppendVarint(nil, 1<<32)...), invalid, "shortest form"},
		{"an empty memo", message(after(transfer(), 8, 10, "")...), invalid, "data is empty"},
		{"two memos", message(after(after(transfer(), 8, 10, "a"), 10, 10, "b")...), invalid, "data comes twice"},
		{"a memo too late", message(after(transfer(), 11, 10, "a")...), invalid, "data comes twice or too late"},
		{"fee limit negative", message(after(transfer(), 14, 18, -5)...), invalid, "fee_limit is negative"},
		{"fee limit zero", message(after(transfer(), 14, 18, 0)...), invalid, "fee_limit is empty"},

		{"type 0", inHead(with(contract, 1, nil)), unsupported, "contract type 0"},
		{"another type", inHead(with(contract, 1, 2)), unsupported, "contract type 2"},
		{"a type that is none", inHead(with(contract, 1, 1000)), unsupported, "contract type 1000"},
		{"a type beyond 32 bits", inHead(with(contract, 1, 1<<32+1)), invalid, "contract.type is negative or too large"},
		{"a type whose url is another's", inHead(with(contract, 1, 31)), invalid, "contract type 31 is TriggerSmartContract"},
		{"no parameter", inHead(with(contract, 2, nil)), invalid, "type_url"},
		{"provider", inHead(after(contract, 2, 3, "x")), unsupported, "field 3 of contract"},
		{"ContractName", inHead(after(contract, 2, 4, "x")), unsupported, "field 4 of contract"},
		{"permission zero", inHead(after(contract, 2, 5, 0)), invalid, "permission_id is empty"},
		{"permission negative", inHead(after(contract, 2, 5, -1)), invalid, "permission_id is negative"},
		{"permission beyond 31 bits", inHead(after(contract, 2, 5, 1<<31)), invalid, "permission_id is negative or too large"},
		{"no url", inAny(2, message(body...)), invalid, "type_url"},
		{"a url without its host", inAny(1, "protocol.TransferContract", 2, message(body...)), invalid, "type_url"},
		{"a url of another host", inAny(1, "example.com/protocol.TransferContract", 2, message(body...)), invalid, "type_url"},
		{"a url that is longer", inAny(1, "type.googleapis.com/protocol.TransferContract ", 2, message(body...)), invalid, "type_url"},
		{"a url that is no text", inAny(1, "type.googleapis.com/\xff", 2, message(body...)), invalid, "UTF-8"},
		{"no value", inAny(1, "type.googleapis.com/protocol.TransferContract"), invalid, "owner_address is missing"},

		{"no owner", inBody(with(body, 1, nil)), invalid, "TransferContract.owner_address is missing"},
		{"no receiver", inBody(with(body, 2, nil)), invalid, "TransferContract.to_address is missing"},
		{"an address of 20 bytes", inBody(with(body, 2, otherBytes[1:])), invalid, "to_address must be an address"},
		{"an address of 22 bytes", inBody(with(body, 2, append(slices.Clone(otherBytes), 0))), invalid, "to_address must be an address"},
		{"an address of another network", inBody(with(body, 2, append([]byte{0xa0}, otherBytes[1:]...))), invalid, "to_address must be an address"},
		{"an address as text", inBody(with(body, 2, "TVqmNQUHbSePfCPnFDccj2zfJYXQ4dQao6")), invalid, "to_address must be an address"},
		{"an empty address", inBody(with(body, 2, "")), invalid, "to_address is empty"},
		{"two receivers", inBody(after(body, 2, 2, ownerBytes)), invalid, "to_address comes twice"},
		{"fields in another order", inBody([]any{2, otherBytes, 1, ownerBytes, 3, 100}), invalid, "owner_address comes twice or too late"},
		{"amount negative", inBody(with(body, 3, -100)), invalid, "amount is negative"},
		{"amount zero", inBody(with(body, 3, 0)), invalid, "amount is empty"},
		{"amount twice", inBody(after(body, 3, 3, 5)), invalid, "amount comes twice"},
		{"an unknown field", inBody(after(body, 3, 4, "x")), unsupported, "field 4 of TransferContract"},

		{"a resource that is none", inside(54, "FreezeBalanceV2Contract", 1, ownerBytes, 2, 5, 3, 3), unsupported, "FreezeBalanceV2Contract.resource 3"},
		{"a lock of 2", inside(57, "DelegateResourceContract", 1, ownerBytes, 2, 1, 3, 5, 4, otherBytes, 5, 2), invalid, "lock is neither"},
		{"no contract to call", inside(31, "TriggerSmartContract", 1, ownerBytes, 4, "abcd"), invalid, "contract_address is missing"},
		{"nobody to delegate to", inside(58, "UnDelegateResourceContract", 1, ownerBytes, 3, 5), invalid, "receiver_address is missing"},

		{"a permission of type 3", active(with(permission, 1, 3)), unsupported, "Permission.type 3"},
		{"a name that is no text", active(with(permission, 3, "\xc0\x80")), invalid, "permission_name is not UTF-8"},
		{"a key without an address", active(with(permission, 7, message(2, 1))), invalid, "Key.address is missing"},
		{"a negative weight", active(with(permission, 7, message(1, ownerBytes, 2, -1))), invalid, "weight is negative"},
		{"a key with more", active(with(permission, 7, message(1, ownerBytes, 2, 1, 3, 1))), unsupported, "field 3 of Key"},
		{"an empty key", active(with(permission, 7, "")), invalid, "keys is empty"},
		{"33 keys", active(append(with(permission, 7, nil), slices.Repeat([]any{7, key}, 33)...)), invalid, "more than 32"},
		{"two owners", inside(46, "AccountPermissionUpdateContract", 1, ownerBytes, 2, message(permission...), 2, message(permission...)), invalid, "owner comes twice"},
		{"an empty permission", inside(46, "AccountPermissionUpdateContract", 1, ownerBytes, 2, ""), invalid, "owner is empty"},
		{"9 permissions", inside(46, "AccountPermissionUpdateContract", append([]any{1, ownerBytes}, slices.Repeat([]any{4, message(permission...)}, 9)...)...),
			invalid, "actives numbers more than 8"},
	} {
		_, err := tron.Chain{}.Read(c.raw, signer(t))
		refused(t, c.what, err, c.name, c.message)
	}
}

// TestUnusual reads what is rare and right.
// The contract is found whatever it is, and however its transaction is written.
func TestContractOf(t *testing.T) {
	odd := func(fields ...any) []byte { return message(rawData(message(fields...))...) }
	fixed := protowire.AppendFixed64(protowire.AppendTag(nil, 90, protowire.Fixed64Type), 7)
	fixed = protowire.AppendFixed32(protowire.AppendTag(fixed, 91, protowire.Fixed32Type), 7)
	for about, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"one that is read":                   {message(transfer()...), "TransferContract"},
		"TRC-10":                             {inside(2, "TransferAssetContract", 1, "1000001", 2, ownerBytes, 3, otherBytes, 4, 5), "TransferAssetContract"},
		"one in another order":               {inside(1, "TransferContract", 3, 100, 1, ownerBytes, 2, otherBytes), "TransferContract"},
		"one with zeros written out":         {inside(1, "TransferContract", 1, ownerBytes, 2, otherBytes, 3, 0), "TransferContract"},
		"with a provider and a name":         {odd(1, 1, 2, parameter("TransferContract", message(body...)), 3, "p", 4, "n"), "TransferContract"},
		"of the first type":                  {odd(2, parameter("AccountCreateContract", message(body...))), "AccountCreateContract"},
		"with another host in its URL":       {odd(1, 1, 2, message(1, "a.b/c/protocol.TransferContract", 2, message(body...))), "TransferContract"},
		"with what nobody knows":             {append(message(transfer()...), fixed...), "TransferContract"},
		"with a name of anybody's":           {inside(99, "Pay\nEve", 1, ownerBytes), "Pay\nEve"},
		"no name":                            {inside(99, "", 1, ownerBytes), ""},
		"another package":                    {odd(1, 1, 2, message(1, "x/other.TransferContract", 2, message(body...))), ""},
		"no URL":                             {odd(1, 1, 2, message(2, message(body...))), ""},
		"no parameter":                       {odd(1, 1), ""},
		"no contract":                        {message(with(transfer(), 11, nil)...), ""},
		"a contract that is a number":        {message(with(transfer(), 11, 7)...), ""},
		"what ends too early":                {message(transfer()...)[:60], ""},
		"a wire type that nobody writes":     {append(message(transfer()...), 0x5b), ""},
		"a varint that never ends":           {append(message(transfer()...), bytes.Repeat([]byte{0xff}, 20)...), ""},
		"a text that begins with a new line": {[]byte("\n\nDear customer, please pay at https://pay.example/protocol.TransferContract"), ""},
		"nothing":                            {nil, ""},
	} {
		name, parameter, ok := tron.ContractOf(c.raw)
		if name != c.want && ok || ok != (c.want != "") {
			t.Errorf("%s: %q, %v", about, name, ok)
		}
		if ok && !bytes.Contains(c.raw, parameter) {
			t.Errorf("%s: %x", about, parameter)
		}
	}
}

func TestUnusual(t *testing.T) {
	key := message(1, ownerBytes, 2, 1)
	for what, raw := range map[string][]byte{
		"no timestamp":      message(with(transfer(), 14, nil)...),
		"a memo of no text": message(after(transfer(), 8, 10, "\xff\x00")...),
		"largest amount":    inside(1, "TransferContract", 1, ownerBytes, 2, otherBytes, 3, 1<<63-1),
		"no amount":         inside(1, "TransferContract", 1, ownerBytes, 2, otherBytes),
		"to itself":         inside(1, "TransferContract", 1, ownerBytes, 2, ownerBytes, 3, 1),
		"a call of nothing": inside(31, "TriggerSmartContract", 1, ownerBytes, 2, otherBytes),
		"voting power":      inside(55, "UnfreezeBalanceV2Contract", 1, ownerBytes, 2, 5, 3, 2),
		"no permissions":    inside(46, "AccountPermissionUpdateContract", 1, ownerBytes),
		"8 permissions of 32 keys": inside(46, "AccountPermissionUpdateContract", append([]any{1, ownerBytes},
			slices.Repeat([]any{4, message(append([]any{1, 2, 2, 9, 5, 3}, slices.Repeat([]any{7, key}, 32)...)...)}, 8)...)...),
		"a large call": inside(31, "TriggerSmartContract", 1, ownerBytes, 2, otherBytes, 4, make([]byte, 511_000)),
	} {
		tx, err := tron.Chain{}.Read(raw, signer(t))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		whole(t, raw, tx)
	}
	_, facts := read(t, inside(46, "AccountPermissionUpdateContract", 1, ownerBytes), signer(t))
	c := facts["contract"].([]any)[0].(map[string]any)
	if _, ok := c["owner"]; ok || c["witness"] != nil || len(c["actives"].([]any)) != 0 {
		t.Errorf("permissions that are not there: %v", c)
	}
}

// whole writes the transaction from its facts: every byte must be told by them.
func whole(t testing.TB, raw []byte, tx chain.Transaction) {
	t.Helper()
	facts, err := tx.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fromFacts(t, facts); !bytes.Equal(got, raw) {
		t.Fatalf("the facts tell %x, not %x", got, raw)
	}
}

// A layout says how the facts of a message are written: name, number and kind.
type layout []struct {
	name   string
	number int
	kind   byte
}

var (
	permissionLayout = layout{{"type", 1, 'r'}, {"id", 2, 'n'}, {"permission_name", 3, 's'}, {"threshold", 4, 'n'}, {"parent_id", 5, 'n'},
		{"operations", 6, 'x'}, {"keys", 7, 'k'}}
	keyLayout = layout{{"address", 1, 'a'}, {"weight", 2, 'n'}}
	layouts   = map[string]layout{
		"TransferContract": {{"owner_address", 1, 'a'}, {"to_address", 2, 'a'}, {"amount", 3, 'n'}},
		"TriggerSmartContract": {{"owner_address", 1, 'a'}, {"contract_address", 2, 'a'}, {"call_value", 3, 'n'}, {"data", 4, 'x'},
			{"call_token_value", 5, 'n'}, {"token_id", 6, 'n'}},
		"AccountPermissionUpdateContract": {{"owner_address", 1, 'a'}, {"owner", 2, 'p'}, {"witness", 3, 'p'}, {"actives", 4, 'p'}},
		"FreezeBalanceV2Contract":         {{"owner_address", 1, 'a'}, {"frozen_balance", 2, 'n'}, {"resource", 3, 'c'}},
		"UnfreezeBalanceV2Contract":       {{"owner_address", 1, 'a'}, {"unfreeze_balance", 2, 'n'}, {"resource", 3, 'c'}},
		"DelegateResourceContract": {{"owner_address", 1, 'a'}, {"resource", 2, 'c'}, {"balance", 3, 'n'}, {"receiver_address", 4, 'a'},
			{"lock", 5, 'b'}, {"lock_period", 6, 'n'}},
		"UnDelegateResourceContract": {{"owner_address", 1, 'a'}, {"resource", 2, 'c'}, {"balance", 3, 'n'}, {"receiver_address", 4, 'a'}},
	}
	contractNumbers = map[string]int{"TransferContract": 1, "TriggerSmartContract": 31, "AccountPermissionUpdateContract": 46, "FreezeBalanceV2Contract": 54,
		"UnfreezeBalanceV2Contract": 55, "DelegateResourceContract": 57, "UnDelegateResourceContract": 58}
)

func (l layout) write(t testing.TB, facts chain.Struct) []byte {
	t.Helper()
	var fields []any
	put := func(number int, v any) {
		if v != 0 && fmt.Sprint(v) != "" {
			fields = append(fields, number, v)
		}
	}
	for _, m := range l {
		switch v := facts[m.name]; m.kind {
		case 'n':
			put(m.number, int(v.(int64)))
		case 's':
			put(m.number, v.(string))
		case 'x':
			put(m.number, string(unhex(t, string(v.(chain.Hex)))))
		case 'b':
			if v.(bool) {
				put(m.number, 1)
			}
		case 'c':
			put(m.number, slices.Index([]string{"BANDWIDTH", "ENERGY", "TRON_POWER"}, v.(string)))
		case 'r':
			put(m.number, slices.Index([]string{"Owner", "Witness", "Active"}, v.(string)))
		case 'a':
			b, err := base58.Decode(v.(string))
			if err != nil || len(b) != 25 || !bytes.Equal(sum(sum(b[:21]))[:4], b[21:]) || !strings.HasPrefix(v.(string), "T") {
				t.Fatalf("%v is no address", v)
			}
			put(m.number, b[:21])
		case 'k', 'p':
			inner := permissionLayout
			if m.kind == 'k' {
				inner = keyLayout
			}
			list, ok := v.([]any)
			if !ok && v != nil {
				list = []any{v}
			}
			for _, x := range list {
				put(m.number, inner.write(t, x.(chain.Struct)))
			}
		}
	}
	return message(fields...)
}

func fromFacts(t testing.TB, facts chain.Struct) []byte {
	t.Helper()
	c := facts["contract"].([]any)[0].(chain.Struct)
	name := c["type"].(string)
	if len(c) > len(layouts[name])+2 { // with type and permission_id
		t.Fatalf("facts that nothing is written of: %v", c)
	}
	contract := head(contractNumbers[name], name, layouts[name].write(t, c))
	if id := int(c["permission_id"].(int64)); id != 0 {
		contract = append(contract, 5, id)
	}
	before := layout{{"ref_block_bytes", 1, 'x'}, {"ref_block_hash", 4, 'x'}, {"expiration", 8, 'n'}, {"data", 10, 'x'}}
	after := layout{{"timestamp", 14, 'n'}, {"fee_limit", 18, 'n'}}
	if len(facts) != len(before)+1+len(after) {
		t.Fatalf("facts that nothing is written of: %v", facts)
	}
	return append(append(before.write(t, facts), message(11, message(contract...))...), after.write(t, facts)...)
}

// TestMutations changes every bit of every transaction, cuts it everywhere and
// adds to it: what is still read must tell all of its bytes.
func TestMutations(t *testing.T) {
	good, _ := tronweb(t)
	by := signer(t)
	read, all := 0, 0
	try := func(raw []byte) {
		all++
		if tx, err := (tron.Chain{}).Read(raw, by); err == nil {
			read++
			whole(t, raw, tx)
		}
	}
	for _, v := range good {
		raw := unhex(t, v.Raw)
		try(raw)
		for i := range raw {
			try(raw[:i])
			for bit := range 8 {
				raw[i] ^= 1 << bit
				try(raw)
				raw[i] ^= 1 << bit
			}
			try(slices.Insert(slices.Clone(raw), i, byte(0)))
			try(slices.Delete(slices.Clone(raw), i, i+1))
		}
	}
	t.Logf("%d of %d mutations are transactions", read, all)
}

func FuzzRead(f *testing.F) {
	good, bad := tronweb(f)
	for _, v := range append(good, bad...) {
		f.Add(unhex(f, v.Raw))
	}
	f.Add(message(transfer()...))
	f.Add(inside(31, "TriggerSmartContract", 1, ownerBytes, 2, otherBytes))
	by := signer(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, err := tron.Chain{}.Read(raw, by)
		if err != nil {
			refused(t, hex.EncodeToString(raw), err, errName(err), "transaction: ")
			return
		}
		whole(t, raw, tx)
		signed, err := tx.Assemble([]chain.Signature{{V: 1}})
		if err != nil || !bytes.Equal(signed, message(1, raw, 2, append(make([]byte, 64), 1))) {
			t.Errorf("%x, %v", signed, err)
		}
	})
}

// errName takes either of the two names.
func errName(err error) string {
	if strings.HasPrefix(err.Error(), "unsupported") {
		return unsupported
	}
	return invalid
}
