package tempo_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
	"cloister/enclave/internal/chain/tempo"
	"cloister/enclave/internal/fault"
)

const (
	key     = "33fa40f84e854b941c2b0436dd4a256e1df1cb41b9c1c0ccc8446408c19b8bf9" // of both files of vectors
	account = chain.Hex("0x58a57ed9d8d624cbd12e2c467d34787555bb1b25")
)

func signer(t testing.TB) chain.SigningKey {
	p, err := chain.NewPublicKey(chain.Secp256k1, secp256k1.PrivKeyFromBytes(unhex(t, key)).PubKey().SerializeCompressed())
	if err != nil {
		t.Fatal(err)
	}
	return chain.SigningKey{Public: p, Format: chain.Ethereum, Address: string(account)}
}

// sign signs by RFC 6979.
func sign(t testing.TB, tx chain.Transaction) []byte {
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

type vector struct {
	Name     string `json:"name"`
	Unsigned string `json:"unsigned_transaction"`
	Signed   string `json:"signed_transaction"`
	Digest   string `json:"viem_digest"`
	Refused  bool   `json:"refused"`
}

// vectors are those of the project's wire material, which ../eth has, and those that viem.mjs makes.
func vectors(t testing.TB) (out []vector) {
	for _, file := range []string{"../eth/testdata/transactions.json", "testdata/viem.json"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var read struct {
			Vectors []vector `json:"vectors"`
		}
		if err := json.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		for _, v := range read.Vectors {
			if file != "../eth/testdata/transactions.json" || strings.HasPrefix(v.Name, "tempo_") {
				out = append(out, v)
			}
		}
	}
	if len(out) != 14 {
		t.Fatalf("%d vectors", len(out))
	}
	return out
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		unsigned := unhex(t, v.Unsigned)
		tx, err := tempo.Chain{}.Read(unsigned, signer(t))
		if (err != nil) != v.Refused {
			t.Errorf("%s: %v", v.Name, err)
		}
		if err != nil {
			continue
		}
		clear(unsigned) // the transaction has its own
		if got := hex.EncodeToString(tx.Digests()[0].Message); v.Digest != "" && got != v.Digest {
			t.Errorf("%s: digest %s, want %s", v.Name, got, v.Digest)
		}
		if got := hex.EncodeToString(sign(t, tx)); got != v.Signed {
			t.Errorf("%s: %s\nwant %s", v.Name, got, v.Signed)
		}
		if _, err := (tempo.Chain{}).Read(unhex(t, v.Signed), signer(t)); err == nil || err.Error() != "invalid transaction: it has been signed already" {
			t.Errorf("%s, signed twice: %v", v.Name, err)
		}
	}
}

func TestFacts(t *testing.T) {
	gwei20 := big.NewInt(20e9)
	transfer := chain.Hex("0xa9059cbb" + strings.Repeat("00", 64))
	two := chain.Hex("0x2222222222222222222222222222222222222222")
	one := []any{chain.Struct{"to": two, "input": transfer, "function_signature": chain.Hex("0xa9059cbb")}}
	base := func(with chain.Struct) chain.Struct {
		s := chain.Struct{"chain_id": uint64(4217), "from": account, "nonce": big.NewInt(7), "gas_limit": uint64(100000), "max_fee_per_gas": gwei20,
			"max_priority_fee_per_gas": big.NewInt(1), "fee_token": chain.Hex(""), "valid_before": uint64(0), "valid_after": uint64(0), "calls": one}
		for k, v := range with {
			s[k] = v
		}
		return s
	}
	want := map[string]chain.Struct{
		"full": base(chain.Struct{"fee_token": chain.Hex("0x20c0000000000000000000000000000000000001"), "valid_before": uint64(2000000000),
			"valid_after": uint64(1900000000)}),
		"plain": base(chain.Struct{"chain_id": uint64(42431), "nonce": new(big.Int), "gas_limit": uint64(0), "max_fee_per_gas": new(big.Int),
			"max_priority_fee_per_gas": new(big.Int), "calls": []any{chain.Struct{"to": two, "input": chain.Hex("0x"), "function_signature": chain.Hex("")}}}),
		"nonce_key":          base(chain.Struct{"nonce": new(big.Int).Add(new(big.Int).Lsh(big.NewInt(5), 64), big.NewInt(7))}),
		"nonce_key_expiring": base(chain.Struct{"nonce": top, "valid_before": uint64(1900000025)}),
		"creation_then_call": base(chain.Struct{"calls": []any{
			chain.Struct{"to": chain.Hex(""), "input": chain.Hex("0x6001600155"), "function_signature": chain.Hex("")},
			chain.Struct{"to": two, "input": chain.Hex("0xdead"), "function_signature": chain.Hex("")}}}),
		"fee_payer_to_sign": base(nil),
		"fee_payer_null":    base(nil),
	}
	for _, v := range vectors(t) {
		if want[v.Name] == nil {
			continue
		}
		tx, err := tempo.Chain{}.Read(unhex(t, v.Unsigned), signer(t))
		if err != nil {
			t.Fatal(err)
		}
		facts, err := tx.Facts(nil)
		if err != nil || tx.Root() != "tempo.tx" {
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

var (
	to20   = bytes.Repeat([]byte{0x22}, 20)
	slot   = bytes.Repeat([]byte{0x33}, 32)
	none   = []byte{}
	empty  = []any{}
	two256 = new(big.Int).Lsh(big.NewInt(1), 256)
	top    = new(big.Int).Sub(two256, big.NewInt(1))
	calls  = []any{[]any{to20, none, []byte{1, 2, 3, 4}}}
	// body is what all cases change: chain, tip, fee, gas, calls, access list, nonce key, nonce, before, after, token, payer, authorizations.
	body = []any{1, 2, 3, 4, calls, []any{[]any{to20, []any{slot}}}, 5, 6, 8, 7, to20, none, empty}
)

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

func envelope(body []any) []byte { return append([]byte{0x76}, encode(body)...) }

// with is the body with items replaced: the place and the item, in turn.
func with(items ...any) []byte {
	changed := append([]any{}, body...)
	for i := 0; i < len(items); i += 2 {
		changed[items[i].(int)] = items[i+1]
	}
	return envelope(changed)
}

func TestTaken(t *testing.T) {
	many := make([]any, tempo.MaxCalls)
	for i := range many {
		many[i] = calls[0]
	}
	for name, b := range map[string][]byte{
		"body": envelope(body), "many calls": with(4, many), "value": with(4, []any{[]any{to20, top, none}}),
		"highest":    with(0, uint64(1<<64-1), 3, uint64(1<<64-1), 7, uint64(1<<64-1), 8, uint64(1<<64-1), 9, uint64(1<<64-2)),
		"only after": with(8, 0), "only before": with(9, 0), "payer": with(10, none, 11, []byte{0}), "no token": with(10, none), "no list": with(5, empty),
	} {
		tx, err := tempo.Chain{}.Read(b, signer(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := (tempo.Chain{}).Read(sign(t, tx), signer(t)); err == nil {
			t.Errorf("%s, signed twice: %v", name, got)
		}
	}
}

func TestRefused(t *testing.T) {
	lead := raw{0x82, 0, 1} // a number with a leading zero
	many := make([]any, tempo.MaxCalls+1)
	for i := range many {
		many[i] = calls[0]
	}
	for name, c := range map[string]struct {
		b     []byte
		fault string
	}{
		"nothing":             {nil, "invalid transaction: it is empty"},
		"type alone":          {[]byte{0x76}, "invalid transaction: the encoding is missing"},
		"a string":            {[]byte{0x76, 0x80}, "invalid transaction: the encoding must be a list"},
		"empty":               {[]byte{0x76, 0xc0}, "invalid transaction: chainId is missing"},
		"ethereum":            {[]byte{2, 0xc0}, "unsupported transaction: a Tempo transaction begins with 76, this one with 02"},
		"text":                {[]byte("76c0"), "unsupported transaction: a Tempo transaction begins with 76, this one with 37"},
		"fee payer's":         {[]byte{0x78, 0xc0}, "unsupported transaction: what a fee payer signs; only the sender's part is signed"},
		"too long":            {make([]byte, tempo.MaxTransaction+1), "invalid transaction: it is longer than 524288 bytes"},
		"12 items":            {envelope(body[:12]), "invalid transaction: authorizationList is missing"},
		"13 items and a list": {envelope(append(append([]any{}, body...), empty)), "unsupported transaction: it holds a key authorization, which policies cannot see"},
		"a list and one more": {envelope(append(append([]any{}, body...), empty, slot)),
			"unsupported transaction: it holds a key authorization, which policies cannot see"},
		"signed":             {envelope(append(append([]any{}, body...), make([]byte, 65))), "invalid transaction: it has been signed already"},
		"15 items":           {envelope(append(append([]any{}, body...), slot, slot)), "invalid transaction: the transaction has bytes left over"},
		"chain 0":            {with(0, 0), "invalid transaction: chainId must not be 0"},
		"chain over":         {with(0, two256), "invalid transaction: chainId is too large a number"},
		"chain leads":        {with(0, lead), "invalid transaction: chainId is a number with leading zeros"},
		"tip above":          {with(1, 4), "invalid transaction: maxPriorityFeePerGas is above maxFeePerGas"},
		"fee over":           {with(2, two256), "invalid transaction: maxFeePerGas is too large a number"},
		"gas over":           {with(3, new(big.Int).Lsh(big.NewInt(1), 64)), "invalid transaction: gas is too large a number"},
		"no calls":           {with(4, empty), "invalid transaction: calls must be 1 to 100"},
		"too many calls":     {with(4, many), "invalid transaction: calls must be 1 to 100"},
		"calls a string":     {with(4, none), "invalid transaction: calls must be a list"},
		"call a string":      {with(4, []any{to20}), "invalid transaction: calls must be a list"},
		"call to 19":         {with(4, []any{[]any{to20[1:], none, none}}), "invalid transaction: calls.to must be 20 bytes or empty"},
		"call's value leads": {with(4, []any{[]any{to20, raw{0}, none}}), "invalid transaction: calls.value is a number with leading zeros"},
		"call's value over":  {with(4, []any{[]any{to20, two256, none}}), "invalid transaction: calls.value is too large a number"},
		"call of two":        {with(4, []any{[]any{to20, none}}), "invalid transaction: calls.data is missing"},
		"call of four":       {with(4, []any{[]any{to20, none, none, none}}), "invalid transaction: calls has bytes left over"},
		"list a string":      {with(5, none), "invalid transaction: accessList must be a list"},
		"list of short":      {with(5, []any{[]any{to20[1:], empty}}), "invalid transaction: accessList.address must be 20 bytes"},
		"list of short keys": {with(5, []any{[]any{to20, []any{to20}}}), "invalid transaction: accessList.storageKeys must be 32 bytes"},
		"list of more":       {with(5, []any{[]any{to20, empty, 1}}), "invalid transaction: accessList has bytes left over"},
		"nonce key over":     {with(6, two256), "invalid transaction: nonceKey is too large a number"},
		"nonce over":         {with(7, two256), "invalid transaction: nonce is too large a number"},
		"before is zero":     {with(8, raw{0}), "invalid transaction: validBefore is a number with leading zeros"},
		"before at after":    {with(8, 7), "invalid transaction: validBefore must be after validAfter"},
		"after is zero":      {with(9, raw{0}), "invalid transaction: validAfter is a number with leading zeros"},
		"token of 19":        {with(10, to20[1:]), "invalid transaction: feeToken must be 20 bytes or empty"},
		"payer and token":    {with(11, []byte{0}), "invalid transaction: feeToken must be empty where a fee payer will sign, who chooses it"},
		"payer 01":           {with(10, none, 11, 1), "invalid transaction: feePayerSignature must be empty or 00"},
		"payer 0000":         {with(10, none, 11, []byte{0, 0}), "invalid transaction: feePayerSignature must be empty or 00"},
		"payer an address":   {with(10, none, 11, to20), "invalid transaction: feePayerSignature must be empty or 00"},
		"payer has signed": {with(11, []any{1, slot, slot}),
			"unsupported transaction: a fee payer has signed it, who must sign after the sender; leave 00 in that place"},
		"authorizations":          {with(12, []any{[]any{1, to20, 1, slot}}), "unsupported transaction: it holds an authorization list, which policies cannot see"},
		"authorizations a string": {with(12, none), "invalid transaction: authorizationList must be a list"},
	} {
		_, err := tempo.Chain{}.Read(c.b, signer(t))
		f := fault.Of(err)
		if f == nil || f.Code != fault.InvalidArgument || f.Message != c.fault || len(f.Violations) != 1 || f.Violations[0].Field != "unsignedTransaction" ||
			strings.HasPrefix(c.fault, "unsupported") != (f.Name == "UNSUPPORTED_TRANSACTION_TYPE") {
			t.Errorf("%s: %+v, %v, want %s", name, f, err, c.fault)
		}
	}
}

func TestSigners(t *testing.T) {
	good := signer(t)
	if _, err := (tempo.Chain{}).Read(envelope(body), chain.SigningKey{Public: good.Public}); err != nil {
		t.Errorf("the id of a private key: %v", err)
	}
	ed, err := chain.NewPublicKey(chain.Ed25519, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []chain.SigningKey{{}, {Public: ed}, {Public: ed, Format: chain.Ethereum}, {Public: good.Public, Format: chain.Tron}} {
		if _, err := (tempo.Chain{}).Read(envelope(body), by); fault.Of(err) == nil || fault.Of(err).Name != "INVALID_TRANSACTION" {
			t.Errorf("%v: %v", by.Format, err)
		}
	}
}

// No byte can be added to a transaction, and none taken away.
func TestMutations(t *testing.T) {
	by := signer(t)
	for _, v := range vectors(t) {
		if v.Refused {
			continue
		}
		b := unhex(t, v.Unsigned)
		for i := range b {
			if _, err := (tempo.Chain{}).Read(b[:i], by); err == nil {
				t.Errorf("%s: taken when cut to %d bytes", v.Name, i)
			}
			if _, err := (tempo.Chain{}).Read(append(b[:i:i], b[i+1:]...), by); err == nil {
				t.Errorf("%s: taken without byte %d", v.Name, i)
			}
		}
		for i := range 256 {
			if _, err := (tempo.Chain{}).Read(append(b[:len(b):len(b)], byte(i)), by); err == nil {
				t.Errorf("%s: taken with %02x after it", v.Name, i)
			}
		}
	}
}

func TestAssembleRefuses(t *testing.T) {
	tx, err := tempo.Chain{}.Read(envelope(body), signer(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][]chain.Signature{nil, {{}, {}}, {{V: 2}}, {{V: 27}}} {
		if _, err := tx.Assemble(s); err == nil {
			t.Errorf("%v was put in", s)
		}
	}
}

// FuzzRead: nothing panics, and what is read has all facts, keeps its bytes when
// it is signed and is not taken again.
func FuzzRead(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Unsigned))
	}
	f.Add(envelope(body))
	by := signer(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		tx, err := tempo.Chain{}.Read(b, by)
		if err != nil {
			if fault.Of(err) == nil {
				t.Fatal(err)
			}
			return
		}
		facts, err := tx.Facts(nil)
		if err != nil || len(facts) != 10 || len(facts["calls"].([]any)) == 0 {
			t.Fatalf("%v, %v", facts, err)
		}
		signed := sign(t, tx)
		if _, err := (tempo.Chain{}).Read(signed, by); err == nil {
			t.Fatal("signed twice")
		}
		l, m := rlp.Open(b[1:]), rlp.Open(signed[1:])
		if !bytes.HasPrefix(m.Unread(), l.Unread()) || len(m.Unread()) != len(l.Unread())+67 {
			t.Fatalf("%x became %x", b, signed)
		}
	})
}

// BenchmarkTransaction times what is done for one signature beside the bare hash
// of the same bytes.
func BenchmarkTransaction(b *testing.B) {
	by := signer(b)
	many := make([]any, 32)
	for i := range many {
		many[i] = []any{to20, none, append(append([]byte{}, slot...), slot...)}
	}
	for _, c := range []struct {
		name     string
		unsigned []byte
	}{{"1 call", with(5, empty)}, {"32 calls", with(4, many)}} {
		tx, err := tempo.Chain{}.Read(c.unsigned, by)
		if err != nil {
			b.Fatal(err)
		}
		one := []chain.Signature{{R: [32]byte(slot), S: [32]byte(slot)}}
		for _, part := range []struct {
			name string
			do   func() error
		}{
			{"read", func() error { _, err := tempo.Chain{}.Read(c.unsigned, by); return err }},
			{"facts", func() error { _, err := tx.Facts(nil); return err }},
			{"digest", func() error { tx.Digests(); return nil }},
			{"assemble", func() error { _, err := tx.Assemble(one); return err }},
			{"bare keccak", func() error {
				h := sha3.NewLegacyKeccak256()
				h.Write(c.unsigned)
				h.Sum(nil)
				return nil
			}},
		} {
			b.Run(c.name+"/"+part.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := part.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
