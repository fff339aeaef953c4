package eth_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/rlp"
	"cloister/enclave/internal/fault"
)

const (
	key     = "33fa40f84e854b941c2b0436dd4a256e1df1cb41b9c1c0ccc8446408c19b8bf9" // of the vectors
	account = "0x58a57ed9d8d624cbd12e2c467d34787555bb1b25"
)

// signer is the key of 64 hexadecimal digits, named by its Ethereum address.
func signer(t testing.TB, key string) chain.SigningKey {
	p, err := chain.NewPublicKey(chain.Secp256k1, secp256k1.PrivKeyFromBytes(unhex(t, key)).PubKey().SerializeCompressed())
	if err != nil {
		t.Fatal(err)
	}
	a, err := eth.Addresses.Address(chain.Ethereum, p)
	if err != nil {
		t.Fatal(err)
	}
	return chain.SigningKey{Public: p, Format: chain.Ethereum, Address: a}
}

// sign signs by RFC 6979.
func sign(t testing.TB, key string, tx chain.Transaction) []byte {
	digests := tx.Digests()
	if len(digests) != 1 || digests[0].Scheme != chain.ECDSA {
		t.Fatalf("digests %v", digests)
	}
	compact := ecdsa.SignCompact(secp256k1.PrivKeyFromBytes(unhex(t, key)), digests[0].Message, false)
	s := chain.Signature{R: [32]byte(compact[1:33]), S: [32]byte(compact[33:]), V: compact[0] - 27}
	signed, err := tx.Assemble([]chain.Signature{s})
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

type vector struct{ Name, Type, Key, Unsigned, Signed string }

func vectors(t testing.TB) (out []vector) {
	b, err := os.ReadFile("testdata/transactions.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name     string `json:"name"`
			Type     string `json:"transaction_type"`
			Key      string `json:"private_key"`
			Unsigned string `json:"unsigned_transaction"`
			Signed   string `json:"signed_transaction"`
		} `json:"vectors"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, v := range file.Vectors {
		if v.Type == "TRANSACTION_TYPE_ETHEREUM" {
			out = append(out, vector(v))
		}
	}
	if len(out) != 8 {
		t.Fatalf("%d vectors", len(out))
	}
	// The example of EIP-155.
	return append(out, vector{"EIP-155", "", strings.Repeat("46", 32),
		"ec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080018080",
		"f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff" +
			"63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"})
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		unsigned, by := unhex(t, v.Unsigned), signer(t, v.Key)
		tx, err := eth.Chain{}.Read(unsigned, by)
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		clear(unsigned) // the transaction has its own
		signed := sign(t, v.Key, tx)
		if hex.EncodeToString(signed) != v.Signed {
			t.Errorf("%s: %x\nwant %s", v.Name, signed, v.Signed)
		}
		facts, err := tx.Facts(nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := eth.ReadSigned(signed)
		if err != nil {
			t.Errorf("%s, signed: %v", v.Name, err)
			continue
		}
		if "0x"+hex.EncodeToString(s.From[:]) != strings.ToLower(by.Address) || s.ChainID != facts["chain_id"] || s.Nonce != facts["nonce"] ||
			s.Key != by.Public || hex.EncodeToString(s.Unsigned) != v.Unsigned {
			t.Errorf("%s, signed: %+v", v.Name, s)
		}
	}
	if tx, err := (eth.Chain{}).Read(unhex(t, vectors(t)[8].Unsigned), signer(t, key)); err != nil ||
		hex.EncodeToString(tx.Digests()[0].Message) != "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53" {
		t.Errorf("the digest of EIP-155's example: %v", err)
	}
}

func TestFacts(t *testing.T) {
	gwei := func(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e9)) }
	base := func(with chain.Struct) chain.Struct {
		s := chain.Struct{"type": "LEGACY", "chain_id": uint64(0), "nonce": uint64(0), "from": chain.Hex(account), "value": new(big.Int),
			"to": chain.Hex("0x2222222222222222222222222222222222222222"), "data": chain.Hex("0x"), "gas": uint64(21000), "gas_price": new(big.Int),
			"max_fee_per_gas": new(big.Int), "max_priority_fee_per_gas": new(big.Int), "max_fee_per_blob_gas": new(big.Int),
			"function_name": "", "function_signature": chain.Hex("")}
		for k, v := range with {
			s[k] = v
		}
		return s
	}
	want := map[string]chain.Struct{
		"ethereum_legacy_eip155":     base(chain.Struct{"chain_id": uint64(1), "nonce": uint64(3), "gas_price": gwei(20), "value": big.NewInt(1e15)}),
		"ethereum_legacy_pre_eip155": base(chain.Struct{"gas_price": big.NewInt(1)}),
		"ethereum_eip2930": base(chain.Struct{"type": "TYPE_1", "chain_id": uint64(137), "nonce": uint64(1), "gas_price": big.NewInt(5),
			"gas": uint64(60000), "value": big.NewInt(1), "data": chain.Hex("0xdeadbeef")}),
		"ethereum_eip1559": base(chain.Struct{"type": "TYPE_2", "chain_id": uint64(8453), "nonce": uint64(9), "gas": uint64(100000), "gas_price": gwei(30),
			"max_fee_per_gas": gwei(30), "max_priority_fee_per_gas": gwei(1), "value": big.NewInt(7), "data": chain.Hex("0xa9059cbb")}),
		"ethereum_eip1559_contract_creation": base(chain.Struct{"type": "TYPE_2", "chain_id": uint64(11155111), "gas": uint64(1000000), "to": chain.Hex(""),
			"gas_price": big.NewInt(2), "max_fee_per_gas": big.NewInt(2), "max_priority_fee_per_gas": big.NewInt(1), "data": chain.Hex("0x6001600155")}),
		"ethereum_eip7702": base(chain.Struct{"type": "TYPE_4", "chain_id": uint64(1), "nonce": uint64(2), "gas": uint64(100000), "gas_price": gwei(30),
			"max_fee_per_gas": gwei(30), "max_priority_fee_per_gas": gwei(1)}),
		"ethereum_eip4844_body": base(chain.Struct{"type": "TYPE_3", "chain_id": uint64(1), "nonce": uint64(1), "gas_price": big.NewInt(3),
			"max_fee_per_gas": big.NewInt(3), "max_priority_fee_per_gas": big.NewInt(1), "max_fee_per_blob_gas": big.NewInt(5)}),
		"ethereum_ethers_eip1559": base(chain.Struct{"type": "TYPE_2", "chain_id": uint64(1), "nonce": uint64(5), "gas_price": big.NewInt(9),
			"max_fee_per_gas": big.NewInt(9), "max_priority_fee_per_gas": big.NewInt(2), "value": big.NewInt(3)}),
	}
	for _, v := range vectors(t)[:8] {
		tx, err := eth.Chain{}.Read(unhex(t, v.Unsigned), signer(t, v.Key))
		if err != nil {
			t.Fatal(err)
		}
		facts, err := tx.Facts(nil)
		if err != nil || tx.Root() != "eth.tx" {
			t.Errorf("%s: %s, %v", v.Name, tx.Root(), err)
		}
		if got, want := fmt.Sprint(facts), fmt.Sprint(want[v.Name]); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", v.Name, got, want)
		}
		for name, fact := range facts { // Sprint does not tell types
			if reflect.TypeOf(fact) != reflect.TypeOf(want[v.Name][name]) {
				t.Errorf("%s: %s is a %T", v.Name, name, fact)
			}
		}
	}
}

// The transactions of the project's policy cases, and what is to be read in them.
func TestPolicyTransactions(t *testing.T) {
	b, err := os.ReadFile("testdata/policy_transactions.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]struct {
		Unsigned string `json:"unsignedTransaction"`
		Parsed   *struct {
			Facts map[string]string `json:"eth.tx"`
		} `json:"parsed"`
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file) != 16 {
		t.Fatalf("%d transactions, %v", len(file), err)
	}
	for name, v := range file {
		tx, err := eth.Chain{}.Read(unhex(t, v.Unsigned), signer(t, key))
		if (err == nil) != (v.Parsed != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		facts, err := tx.Facts(nil)
		if err != nil || len(v.Parsed.Facts) != 12 {
			t.Errorf("%s: %v, %v", name, v.Parsed.Facts, err)
		}
		for member, want := range v.Parsed.Facts {
			if got := fmt.Sprint(facts[member]); member != "from" && got != want { // whose key is not given
				t.Errorf("%s: %s is %s, want %s", name, member, got, want)
			}
		}
	}
}

// The interface of the contract that is called fills in three facts.
func TestFactsOfCalls(t *testing.T) {
	token, err := eth.Chain{}.Describe(`[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	call := append(unhex(t, "a9059cbb"), append(append(make([]byte, 12), to20...), append(make([]byte, 31), 9)...)...)
	for name, c := range map[string]struct {
		b         []byte
		described chain.Described
		function  string
		asked     bool
		err       error
	}{
		"call":          {with("1559", 8, call), func(string) (chain.Description, error) { return token, nil }, "transfer", true, nil},
		"legacy":        {with("bare", 6, call), func(string) (chain.Description, error) { return token, nil }, "transfer", true, nil},
		"other":         {with("1559", 8, call[1:]), func(string) (chain.Description, error) { return token, nil }, "", true, nil},
		"no selector":   {with("1559", 8, call[:3]), func(string) (chain.Description, error) { return token, nil }, "", false, nil},
		"no interface":  {with("1559", 8, call), func(string) (chain.Description, error) { return nil, nil }, "", true, nil},
		"nil interface": {with("1559", 8, call), func(string) (chain.Description, error) { return (*eth.Interface)(nil), nil }, "", true, nil},
		"strange":       {with("1559", 8, call), func(string) (chain.Description, error) { return "an IDL", nil }, "", true, nil},
		"error":         {with("1559", 8, call), func(string) (chain.Description, error) { return token, gone }, "", true, gone},
		"creation":      {envelope([]any{2, 1, 1, 2, 3, 21000, none, 5, call, []any{}}), func(string) (chain.Description, error) { return token, nil }, "", false, nil},
	} {
		tx, err := eth.Chain{}.Read(c.b, signer(t, key))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var asked []string
		facts, err := tx.Facts(func(address string) (chain.Description, error) {
			asked = append(asked, address)
			return c.described(address)
		})
		if !errors.Is(err, c.err) || len(asked) > 1 || (len(asked) == 1) != c.asked || c.asked && asked[0] != "0x"+hex.EncodeToString(to20) {
			t.Errorf("%s: %v, asked %v", name, err, asked)
		}
		if c.err != nil {
			continue
		}
		want := chain.Struct{"function_name": "", "function_signature": chain.Hex("")}
		if c.function != "" {
			want = chain.Struct{"function_name": c.function, "function_signature": chain.Hex("0xa9059cbb"),
				"contract_call_args": chain.Dynamic{Value: chain.Map{"to": chain.Hex("0x" + hex.EncodeToString(to20)), "amount": big.NewInt(9)}}}
		}
		for _, member := range []string{"function_name", "function_signature", "contract_call_args"} {
			if got := fmt.Sprint(facts[member]); got != fmt.Sprint(want[member]) {
				t.Errorf("%s: %s is %s, want %v", name, member, got, want[member])
			}
		}
	}
}

// encode writes lists, numbers and bytes as RLP.
func encode(v any) []byte {
	switch v := v.(type) {
	case []any:
		var items []byte
		for _, item := range v {
			items = append(items, encode(item)...)
		}
		return rlp.AppendList(nil, items)
	case int:
		return rlp.AppendUint(nil, uint64(v))
	case uint64:
		return rlp.AppendUint(nil, v)
	case *big.Int:
		return rlp.AppendBig(nil, v)
	case []byte:
		return rlp.AppendBytes(nil, v)
	case raw:
		return v
	}
	panic(fmt.Sprintf("%T", v))
}

// raw is put in as it is.
type raw []byte

var (
	to20   = bytes.Repeat([]byte{0x22}, 20)
	slot   = bytes.Repeat([]byte{0x33}, 32)
	blob   = append([]byte{1}, slot[1:]...)
	list   = []any{[]any{to20, []any{slot, slot}}, []any{to20, []any{}}}
	author = []any{1, to20, 7, 1, slot, slot}
	none   = []byte{}
	two256 = new(big.Int).Lsh(big.NewInt(1), 256)
	top    = new(big.Int).Sub(two256, big.NewInt(1))
)

// bodies are one transaction of each type; its first item is the type.
var bodies = map[string][]any{
	"bare":   {0, 1, 2, 21000, to20, 5, none},
	"legacy": {0, 1, 2, 21000, to20, 5, none, 1, 0, 0},
	"2930":   {1, 1, 1, 2, 21000, to20, 5, none, list},
	"1559":   {2, 1, 1, 2, 3, 21000, to20, 5, none, list},
	"4844":   {3, 1, 1, 2, 3, 21000, to20, 5, none, list, 4, []any{blob, blob}},
	"7702":   {4, 1, 1, 2, 3, 21000, to20, 5, none, list, []any{author, author}},
}

func envelope(body []any) []byte {
	b := encode(body[1:])
	if kind := body[0].(int); kind > 0 {
		b = append([]byte{byte(kind)}, b...)
	}
	return b
}

// with is a body with one item replaced, counted from the type.
func with(name string, at int, item any) []byte {
	body := append([]any{}, bodies[name]...)
	if at == len(body) {
		return envelope(append(body, item))
	}
	body[at] = item
	return envelope(body)
}

// without is a body cut off before an item.
func without(name string, at int) []byte { return envelope(bodies[name][:at]) }

func TestTaken(t *testing.T) {
	for name, b := range map[string][]byte{
		"bare": envelope(bodies["bare"]), "legacy": envelope(bodies["legacy"]), "2930": envelope(bodies["2930"]), "1559": envelope(bodies["1559"]),
		"4844": envelope(bodies["4844"]), "7702": envelope(bodies["7702"]),
		"all value":            with("1559", 7, top),
		"highest chain":        with("1559", 1, uint64(1<<63-37)),
		"highest legacy chain": with("legacy", 7, uint64(1<<63-37)),
		"highest nonce":        with("legacy", 1, uint64(1<<64-1)),
		"highest gas":          with("2930", 4, uint64(1<<64-1)),
		"highest fees":         envelope([]any{2, 1, 1, top, top, 21000, to20, 5, none, []any{}}),
		"creation":             with("2930", 5, none),
		"any chain's grant":    with("7702", 10, []any{[]any{0, to20, 0, 0, slot, slot}}),
		"data":                 with("bare", 6, make([]byte, eth.MaxTransaction-200)),
	} {
		tx, err := eth.Chain{}.Read(b, signer(t, key))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		signed := sign(t, key, tx)
		if s, err := eth.ReadSigned(signed); err != nil || "0x"+hex.EncodeToString(s.From[:]) != account {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if _, err := (eth.Chain{}).Read(signed, signer(t, key)); err == nil || err.Error() != "invalid transaction: it has been signed already" {
			t.Errorf("%s, signed twice: %v", name, err)
		}
	}
}

// A signature of which all is empty is none: what is signed is the transaction without it.
func TestEmptySignature(t *testing.T) {
	for _, name := range []string{"2930", "1559", "4844", "7702"} {
		var texts [2]string
		for i, b := range [][]byte{envelope(bodies[name]), envelope(append(append([]any{}, bodies[name]...), 0, 0, 0))} {
			tx, err := eth.Chain{}.Read(b, signer(t, key))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			facts, err := tx.Facts(nil)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = fmt.Sprintf("%x %x %v", tx.Digests()[0].Message, sign(t, key, tx), plain(facts))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: %s\nwant %s", name, texts[1], texts[0])
		}
	}
}

func TestRefused(t *testing.T) {
	lead := raw{0x82, 0, 1} // a number with a leading zero
	for name, c := range map[string]struct {
		b     []byte
		fault string
	}{
		"nothing":               {nil, "invalid transaction: it is empty"},
		"a string":              {unhex(t, "83010203"), "invalid transaction: the encoding must be a list"},
		"empty list":            {unhex(t, "c0"), "invalid transaction: nonce is missing"},
		"type alone":            {unhex(t, "02"), "invalid transaction: the encoding is missing"},
		"type 0":                {append([]byte{0}, encode([]any{1})...), "unsupported transaction: type 0; types 1 to 4 and the legacy form are read"},
		"type 5":                {append([]byte{5}, encode([]any{1})...), "unsupported transaction: type 5; types 1 to 4 and the legacy form are read"},
		"type 7f":               {unhex(t, "7f"), "unsupported transaction: type 127; types 1 to 4 and the legacy form are read"},
		"tempo":                 {unhex(t, "76c0"), "unsupported transaction: a Tempo transaction; its type is TRANSACTION_TYPE_TEMPO"},
		"hexadecimal text":      {[]byte("0x02c0"), "unsupported transaction: type 48; types 1 to 4 and the legacy form are read"},
		"too long":              {with("bare", 6, make([]byte, eth.MaxTransaction)), "invalid transaction: it is longer than 524288 bytes"},
		"item after":            {with("1559", 10, 1), "invalid transaction: the transaction has bytes left over"},
		"two items after":       {envelope(append(append([]any{}, bodies["1559"]...), 1, 1)), "invalid transaction: the transaction has bytes left over"},
		"four items after":      {envelope(append(append([]any{}, bodies["1559"]...), 1, 1, 1, 1)), "invalid transaction: the transaction has bytes left over"},
		"three items after":     {envelope(append(append([]any{}, bodies["1559"]...), 1, 1, 1)), "invalid transaction: it has been signed already"},
		"r after":               {envelope(append(append([]any{}, bodies["2930"]...), 0, 1, 0)), "invalid transaction: it has been signed already"},
		"s after":               {envelope(append(append([]any{}, bodies["4844"]...), 0, 0, 1)), "invalid transaction: it has been signed already"},
		"parity after":          {envelope(append(append([]any{}, bodies["7702"]...), 1, 0, 0)), "invalid transaction: yParity must be 0 where r and s are"},
		"zero after":            {envelope(append(append([]any{}, bodies["1559"]...), raw{0}, 0, 0)), "invalid transaction: yParity is a number with leading zeros"},
		"list after":            {envelope(append(append([]any{}, bodies["1559"]...), 0, []any{}, 0)), "invalid transaction: r must be a byte string, not a list"},
		"missing list":          {without("1559", 9), "invalid transaction: accessList is missing"},
		"missing hashes":        {without("4844", 11), "invalid transaction: blobVersionedHashes is missing"},
		"missing grants":        {without("7702", 10), "invalid transaction: authorizationList is missing"},
		"five items":            {without("bare", 6), "invalid transaction: data is missing"},
		"seven items":           {without("legacy", 8), "invalid transaction: r is missing"},
		"eight items":           {without("legacy", 9), "invalid transaction: s is missing"},
		"ten items":             {with("legacy", 10, 0), "invalid transaction: the transaction has bytes left over"},
		"nonce leads":           {with("1559", 2, lead), "invalid transaction: nonce is a number with leading zeros"},
		"nonce is zero":         {with("1559", 2, raw{0}), "invalid transaction: nonce is a number with leading zeros"},
		"nonce is long":         {with("1559", 2, raw{0x81, 1}), "invalid transaction: nonce is not in the shortest form"},
		"nonce over":            {with("bare", 1, new(big.Int).Lsh(big.NewInt(1), 64)), "invalid transaction: nonce is too large a number"},
		"nonce a list":          {with("bare", 1, []any{}), "invalid transaction: nonce must be a byte string, not a list"},
		"chain 0":               {with("1559", 1, 0), "invalid transaction: chainId must be 1 to 9223372036854775771"},
		"chain over":            {with("1559", 1, uint64(1<<63-36)), "invalid transaction: chainId must be 1 to 9223372036854775771"},
		"chain far over":        {with("2930", 1, top), "invalid transaction: chainId is too large a number"},
		"legacy chain 0":        {with("legacy", 7, 0), "invalid transaction: chainId must be 1 to 9223372036854775771"},
		"legacy chain over":     {with("legacy", 7, uint64(1<<63-36)), "invalid transaction: chainId must be 1 to 9223372036854775771"},
		"legacy r is zero":      {with("legacy", 8, raw{0}), "invalid transaction: r is a number with leading zeros"},
		"legacy r":              {with("legacy", 8, 1), "invalid transaction: it has been signed already"},
		"legacy s":              {with("legacy", 9, 1), "invalid transaction: it has been signed already"},
		"price over":            {with("bare", 2, two256), "invalid transaction: gasPrice is too large a number"},
		"tip above":             {with("1559", 3, 4), "invalid transaction: maxPriorityFeePerGas is above maxFeePerGas"},
		"gas over":              {with("legacy", 3, new(big.Int).Lsh(big.NewInt(1), 64)), "invalid transaction: gas is too large a number"},
		"value over":            {with("1559", 7, two256), "invalid transaction: value is too large a number"},
		"value leads":           {with("7702", 7, lead), "invalid transaction: value is a number with leading zeros"},
		"to of 19":              {with("legacy", 4, to20[1:]), "invalid transaction: to must be 20 bytes or empty"},
		"to of 21":              {with("2930", 5, append([]byte{0}, to20...)), "invalid transaction: to must be 20 bytes or empty"},
		"to a zero":             {with("1559", 6, []byte{0}), "invalid transaction: to must be 20 bytes or empty"},
		"to a list":             {with("1559", 6, []any{}), "invalid transaction: to must be a byte string, not a list"},
		"data a list":           {with("1559", 8, []any{}), "invalid transaction: data must be a byte string, not a list"},
		"list a string":         {with("1559", 9, none), "invalid transaction: accessList must be a list"},
		"list of strings":       {with("1559", 9, []any{to20}), "invalid transaction: accessList must be a list"},
		"list of short":         {with("1559", 9, []any{[]any{to20[1:], []any{}}}), "invalid transaction: accessList.address must be 20 bytes"},
		"list of halves":        {with("1559", 9, []any{[]any{to20}}), "invalid transaction: accessList.storageKeys is missing"},
		"list of short keys":    {with("1559", 9, []any{[]any{to20, []any{slot[1:]}}}), "invalid transaction: accessList.storageKeys must be 32 bytes"},
		"list of more":          {with("1559", 9, []any{[]any{to20, []any{}, 1}}), "invalid transaction: accessList has bytes left over"},
		"blobs create":          {with("4844", 6, none), "invalid transaction: to must be 20 bytes"},
		"no blobs":              {with("4844", 11, []any{}), "invalid transaction: blobVersionedHashes must not be empty"},
		"blobs of version 0":    {with("4844", 11, []any{blob, make([]byte, 32)}), "invalid transaction: blobVersionedHashes must begin with version 01"},
		"blobs of version 2":    {with("4844", 11, []any{append([]byte{2}, blob[1:]...)}), "invalid transaction: blobVersionedHashes must begin with version 01"},
		"short hashes":          {with("4844", 11, []any{blob[:31]}), "invalid transaction: blobVersionedHashes must be 32 bytes"},
		"blob price over":       {with("4844", 10, two256), "invalid transaction: maxFeePerBlobGas is too large a number"},
		"blobs inside":          {append([]byte{3}, encode([]any{bodies["4844"][1:], []any{}, []any{}, []any{}})...), wrapped},
		"blobs inside, of 7594": {append([]byte{3}, encode([]any{bodies["4844"][1:], 1, []any{}, []any{}, []any{}})...), wrapped},
		"grants create":         {with("7702", 6, none), "invalid transaction: to must be 20 bytes"},
		"no grants":             {with("7702", 10, []any{}), "invalid transaction: authorizationList must not be empty"},
		"grant a string":        {with("7702", 10, []any{to20}), "invalid transaction: authorizationList must be a list"},
		"grant unsigned":        {with("7702", 10, []any{author[:3]}), "invalid transaction: authorizationList.yParity is missing"},
		"grant to nobody":       {with("7702", 10, []any{[]any{1, none, 7, 1, slot, slot}}), "invalid transaction: authorizationList.address must be 20 bytes"},
		"grant's parity":        {with("7702", 10, []any{[]any{1, to20, 7, 27, slot, slot}}), "invalid transaction: authorizationList.yParity must be 0 or 1"},
		"grant's nonce":         {with("7702", 10, []any{[]any{1, to20, top, 1, slot, slot}}), "invalid transaction: authorizationList.nonce is too large a number"},
		"grant's chain":         {with("7702", 10, []any{[]any{two256, to20, 7, 1, slot, slot}}), "invalid transaction: authorizationList.chainId is too large a number"},
		"grant's r":             {with("7702", 10, []any{[]any{1, to20, 7, 1, two256, slot}}), "invalid transaction: authorizationList.r is too large a number"},
		"grant's s leads":       {with("7702", 10, []any{[]any{1, to20, 7, 1, slot, lead}}), "invalid transaction: authorizationList.s is a number with leading zeros"},
		"grant of more":         {with("7702", 10, []any{append(append([]any{}, author...), 1)}), "invalid transaction: authorizationList has bytes left over"},
	} {
		_, err := eth.Chain{}.Read(c.b, signer(t, key))
		isFault(t, name, err, c.fault, "unsignedTransaction")
	}
}

const wrapped = "unsupported transaction: type 3 with blobs, commitments and proofs; send the transaction's own fields alone, which are what is signed"

func isFault(t *testing.T, name string, err error, want, field string) {
	t.Helper()
	f := fault.Of(err)
	if f == nil || f.Code != fault.InvalidArgument || f.Message != want || len(f.Violations) != 1 || f.Violations[0].Field != field {
		t.Errorf("%s: %+v, %v, want %s", name, f, err, want)
		return
	}
	machine := "INVALID_TRANSACTION"
	if strings.HasPrefix(want, "unsupported") {
		machine = "UNSUPPORTED_TRANSACTION_TYPE"
	}
	if f.Name != machine {
		t.Errorf("%s: %s, want %s", name, f.Name, machine)
	}
}

func TestSigners(t *testing.T) {
	b, good := envelope(bodies["1559"]), signer(t, key)
	if _, err := (eth.Chain{}).Read(b, chain.SigningKey{Public: good.Public}); err != nil {
		t.Errorf("the id of a private key: %v", err)
	}
	p256, err := chain.NewPublicKey(chain.P256, unhex(t, "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"))
	if err != nil {
		t.Fatal(err)
	}
	ed, err := chain.NewPublicKey(chain.Ed25519, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []chain.SigningKey{{}, {Public: p256}, {Public: ed}, {Public: good.Public, Format: chain.Tron}, {Public: good.Public, Format: chain.Compressed},
		{Public: good.Public, Format: chain.BitcoinMainnetP2TR}, {Public: p256, Format: chain.Ethereum}} {
		_, err := eth.Chain{}.Read(b, by)
		isFault(t, by.Format.String(), err, "invalid transaction: only an Ethereum address or the id of a secp256k1 key can sign it", "unsignedTransaction")
	}
}

// No byte can be added to a transaction, and none taken away.
func TestMutations(t *testing.T) {
	by := signer(t, key)
	for _, v := range vectors(t) {
		for _, form := range []struct {
			text string
			read func([]byte) error
		}{
			{v.Unsigned, func(b []byte) error { _, err := eth.Chain{}.Read(b, by); return err }},
			{v.Signed, func(b []byte) error { _, err := eth.ReadSigned(b); return err }},
		} {
			b := unhex(t, form.text)
			if err := form.read(b); err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			for i := range b {
				if form.read(b[:i]) == nil {
					t.Errorf("%s: taken when cut to %d bytes", v.Name, i)
				}
				if form.read(append(b[:i:i], b[i+1:]...)) == nil {
					t.Errorf("%s: taken without byte %d", v.Name, i)
				}
			}
			for i := range 256 {
				if form.read(append(b[:len(b):len(b)], byte(i))) == nil {
					t.Errorf("%s: taken with %02x after it", v.Name, i)
				}
			}
		}
	}
}

func TestAssembleRefuses(t *testing.T) {
	tx, err := eth.Chain{}.Read(envelope(bodies["1559"]), signer(t, key))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][]chain.Signature{nil, {{}, {}}, {{V: 2}}, {{V: 27}}} {
		if _, err := tx.Assemble(s); err == nil {
			t.Errorf("%v was put in", s)
		}
	}
}

// The numbers of a signature lose their leading zeros.
func TestAssembleShort(t *testing.T) {
	tx, err := eth.Chain{}.Read(with("1559", 9, []any{}), signer(t, key))
	if err != nil {
		t.Fatal(err)
	}
	got, err := tx.Assemble([]chain.Signature{{R: [32]byte{31: 0x80}, S: [32]byte{30: 1}}})
	want := append([]any{}, bodies["1559"][1:9]...)
	if want := append([]byte{2}, encode(append(want, []any{}, 0, 128, 256))...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v, want %x", got, err, want)
	}
}

// Data that a known function is called with and that are not its arguments are refused.
func TestFactsRefused(t *testing.T) {
	token, err := eth.Chain{}.Describe(`[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"a9059cbb", "a9059cbb" + strings.Repeat("00", 63), "a9059cbb" + strings.Repeat("ff", 64)} {
		tx, err := eth.Chain{}.Read(with("1559", 8, unhex(t, data)), signer(t, key))
		if err != nil {
			t.Fatal(err)
		}
		facts, err := tx.Facts(func(string) (chain.Description, error) { return token, nil })
		isFault(t, data, err, "invalid transaction: data do not decode as transfer of the interface uploaded for 0x"+hex.EncodeToString(to20), "unsignedTransaction")
		if facts != nil {
			t.Errorf("%s: %v", data, facts)
		}
	}
}

func TestUnsigned1559(t *testing.T) {
	to := [20]byte(to20)
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"ethereum_ethers_eip1559": {eth.Unsigned1559(1, 5, big.NewInt(2), big.NewInt(9), 21000, &to, big.NewInt(3), nil), ""},
		"ethereum_eip1559_contract_creation": {eth.Unsigned1559(11155111, 0, big.NewInt(1), big.NewInt(2), 1000000, nil, nil,
			unhex(t, "6001600155")), ""},
		"long": {eth.Unsigned1559(1<<63-37, 1<<64-1, top, top, 1<<64-1, &to, top, bytes.Repeat([]byte{1}, 70000)), ""},
	} {
		for _, v := range vectors(t) {
			if v.Name == name && hex.EncodeToString(c.got) != v.Unsigned {
				t.Errorf("%s: %x\nwant %s", name, c.got, v.Unsigned)
			}
		}
		tx, err := eth.Chain{}.Read(c.got, signer(t, key))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, err := eth.ReadSigned(sign(t, key, tx)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSignedRefused(t *testing.T) {
	one := big.NewInt(1)
	order, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	legacy := func(v any) []byte { return envelope([]any{0, 1, 2, 21000, to20, 5, none, v, 1, 1}) }
	typed := func(y, r, s any) []byte {
		return envelope(append(append([]any{}, bodies["1559"]...), y, r, s))
	}
	for name, c := range map[string]struct {
		b     []byte
		fault string
	}{
		"unsigned":       {envelope(bodies["1559"]), "invalid transaction: it has not been signed"},
		"bare unsigned":  {envelope(bodies["bare"]), "invalid transaction: it has not been signed"},
		"unsigned 155":   {envelope(bodies["legacy"]), "invalid transaction: v is none of this type of transaction"},
		"v 0":            {legacy(0), "invalid transaction: v is none of this type of transaction"},
		"v 26":           {legacy(26), "invalid transaction: v is none of this type of transaction"},
		"v 29":           {legacy(29), "invalid transaction: v is none of this type of transaction"},
		"v 34":           {legacy(34), "invalid transaction: v is none of this type of transaction"},
		"v 35":           {legacy(35), "invalid transaction: chainId must be 1 to 9223372036854775771"},
		"v 36":           {legacy(36), "invalid transaction: chainId must be 1 to 9223372036854775771"},
		"v at the end":   {legacy(uint64(1<<64 - 1)), "invalid transaction: chainId must be 1 to 9223372036854775771"},
		"v over":         {legacy(top), "invalid transaction: v is too large a number"},
		"parity 2":       {typed(2, 1, 1), "invalid transaction: v is none of this type of transaction"},
		"parity 27":      {typed(27, 1, 1), "invalid transaction: v is none of this type of transaction"},
		"r 0":            {typed(0, 0, 1), "invalid transaction: the signature is not one that networks take"},
		"s 0":            {typed(0, 1, 0), "invalid transaction: the signature is not one that networks take"},
		"high s":         {typed(0, 1, new(big.Int).Sub(order, one)), "invalid transaction: the signature is not one that networks take"},
		"s over":         {typed(0, 1, order), "invalid transaction: the signature is not one that networks take"},
		"s far over":     {typed(0, 1, top), "invalid transaction: the signature is not one that networks take"},
		"r over":         {typed(0, order, 1), "invalid transaction: the signature is not one that networks take"},
		"r not on curve": {typed(0, 5, 1), "invalid transaction: the signature is not one that networks take"},
		"r leads":        {typed(0, raw{0x82, 0, 1}, 1), "invalid transaction: r is a number with leading zeros"},
		"more":           {envelope(append(append([]any{}, bodies["1559"]...), 0, 1, 1, 1)), "invalid transaction: the transaction has bytes left over"},
		"no s":           {envelope(append(append([]any{}, bodies["1559"]...), 0, 1)), "invalid transaction: s is missing"},
		"blobs inside":   {append([]byte{3}, encode([]any{bodies["4844"][1:], []any{}, []any{}, []any{}})...), wrapped},
		"tempo":          {unhex(t, "76c0"), "unsupported transaction: a Tempo transaction; its type is TRANSACTION_TYPE_TEMPO"},
		"nothing":        {nil, "invalid transaction: it is empty"},
	} {
		_, err := eth.ReadSigned(c.b)
		isFault(t, name, err, c.fault, "signedTransaction")
	}
}

func TestParseAddress(t *testing.T) {
	const sum = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	want := unhex(t, strings.ToLower(sum[2:]))
	for _, text := range []string{sum, strings.ToLower(sum), "0x" + strings.ToUpper(sum[2:])} {
		if got, err := eth.ParseAddress(text); err != nil || !bytes.Equal(got[:], want) {
			t.Errorf("%s: %x, %v", text, got, err)
		}
	}
	if _, err := eth.ParseAddress("0x" + strings.Repeat("00", 20)); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "0x", sum[2:], sum[:41], sum + "0", "0X" + sum[2:], "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", " " + sum[:41],
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg", "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed0x"} {
		if got, err := eth.ParseAddress(text); err == nil || got != [20]byte{} {
			t.Errorf("%q was taken", text)
		}
	}
}

// FuzzRead: nothing panics, and what is read can be signed and read again as
// what the facts say of it.
func FuzzRead(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Unsigned))
		f.Add(unhex(f, v.Signed))
	}
	for _, body := range bodies {
		f.Add(envelope(body))
		f.Add(envelope(append(append([]any{}, body...), 0, 0, 0)))
	}
	by := signer(f, key)
	f.Fuzz(func(t *testing.T, b []byte) {
		eth.ReadSigned(b)
		tx, err := eth.Chain{}.Read(b, by)
		if err != nil {
			if fault.Of(err) == nil {
				t.Fatal(err)
			}
			return
		}
		facts, err := tx.Facts(nil)
		if err != nil {
			t.Fatal(err)
		}
		signed := sign(t, key, tx)
		s, err := eth.ReadSigned(signed)
		if err != nil {
			if len(signed) <= eth.MaxTransaction {
				t.Fatal(err)
			}
			return
		}
		without := bytes.Equal(s.Unsigned, b) || len(s.Unsigned) < len(b) && bytes.HasSuffix(b, []byte{0x80, 0x80, 0x80}) // an empty signature
		if digest := chain.Keccak(s.Unsigned); !without || !bytes.Equal(digest[:], tx.Digests()[0].Message) {
			t.Fatalf("%x: what is signed is %x", b, s.Unsigned)
		}
		if "0x"+hex.EncodeToString(s.From[:]) != account || s.Nonce != facts["nonce"] || s.ChainID != facts["chain_id"] {
			t.Fatalf("%x: %+v, %v", b, s, facts)
		}
	})
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
