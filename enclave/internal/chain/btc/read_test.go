package btc_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/btc"
	"cloister/enclave/internal/fault"
)

func read(b []byte, by chain.SigningKey) (chain.Transaction, error) { return btc.Chain{}.Read(b, by) }

// signed reads, signs and assembles.
func signed(t testing.TB, b []byte, by chain.SigningKey, k testKey) []byte {
	t.Helper()
	tx, err := read(b, by)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tx.Assemble(k.signAll(tx.Digests()))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type vector struct {
	Name       string
	SignWith   string  `json:"sign_with"`
	PrivateKey string  `json:"private_key"`
	Unsigned   string  `json:"unsigned_transaction"`
	Signed     *string `json:"signed_transaction"`
	Finalized  string  `json:"finalized_transaction"`
}

func vectors(t testing.TB) []vector {
	var f struct{ Vectors []vector }
	load(t, "testdata/transactions.json", &f)
	return f.Vectors
}

// formatOf finds the format in which a key has an address, on the test network.
func formatOf(t testing.TB, k testKey, address string) chain.Format {
	t.Helper()
	for f := chain.BitcoinTestnetP2PKH; f <= chain.BitcoinTestnetP2TR; f++ {
		if text, err := btc.Addresses.Address(f, k.public); err == nil && text == address {
			return f
		}
	}
	t.Fatalf("%s is not of the key", address)
	return 0
}

// TestTransactionVectors is the project's own list, byte for byte; where it has no
// signed PSBT, the signature must be that of the finalized transaction. Of P2WPKH it has
// PSBTs without proof of their amounts, which are refused; their digests are right all the same.
func TestTransactionVectors(t *testing.T) {
	done, unproven := 0, 0
	for _, v := range vectors(t) {
		k := keyOf(unhex(t, v.PrivateKey))
		f := formatOf(t, k, v.SignWith)
		if f == chain.BitcoinTestnetP2WPKH {
			tx, err := read(unhex(t, v.Unsigned), chain.SigningKey{Public: k.public, Format: f, Address: v.SignWith})
			refused(t, v.Name, tx, err, invalid, "input 0: its amount is not proven")
			raw, inputs, err := btc.Unsigned(unhex(t, v.Unsigned))
			if err != nil {
				t.Fatal(err)
			}
			d, err := btc.SighashV0(raw, inputs, 0, k.p2pkh())
			if err != nil || !strings.Contains(*v.Signed, hex.EncodeToString(append(der(k.sign(chain.Digest{Scheme: chain.ECDSA, Message: d[:]})), 1))) {
				t.Errorf("%s: digest %x, %v", v.Name, d, err)
			}
			unproven++
			continue
		}
		for _, by := range []chain.SigningKey{{Public: k.public, Format: f, Address: v.SignWith}, {Public: k.public}} {
			out := signed(t, unhex(t, v.Unsigned), by, k)
			if v.Signed != nil && hex.EncodeToString(out) != *v.Signed {
				t.Errorf("%s: %x", v.Name, out)
			}
			if again := signed(t, out, by, k); !bytes.Equal(again, out) {
				t.Errorf("%s: signing again gives %x", v.Name, again)
			}
			if v.Signed == nil {
				at := bytes.Index(out, []byte{1, 0x13, 64})
				if at < 0 || !strings.Contains(v.Finalized, hex.EncodeToString(out[at+3:at+67])) {
					t.Errorf("%s: %x", v.Name, out)
				}
			}
			done++
		}
	}
	if done != 6 || unproven != 2 {
		t.Errorf("%d signed, %d unproven", done, unproven)
	}
}

// TestFactsOfPolicyCases is what the policy cases say of their transactions.
func TestFactsOfPolicyCases(t *testing.T) {
	var f map[string]struct {
		Unsigned string         `json:"unsignedTransaction"`
		Parsed   map[string]any `json:"parsed"`
	}
	load(t, "testdata/policy.json", &f)
	good := 0
	for name, v := range f {
		facts, err := btc.FactsOf(unhex(t, v.Unsigned))
		if (err == nil) != (v.Parsed != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			if e := fault.Of(err); e == nil || e.Name != "INVALID_TRANSACTION" || e.Violations[0].Field != "unsignedTransaction" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		text, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, v.Parsed["bitcoin.tx"]) {
			t.Errorf("%s: %s", name, text)
		}
		good++
	}
	if len(f) != 5 || good != 3 {
		t.Errorf("%d cases, %d good", len(f), good)
	}
}

// TestPublishedPSBTs are the lists of BIP-174 and BIP-371. One of the valid ones has
// no input, which can be written but never signed.
func TestPublishedPSBTs(t *testing.T) {
	var f map[string][]struct{ What, PSBT string }
	load(t, "testdata/psbt.json", &f)
	if len(f["valid"]) != 15 || len(f["invalid"]) != 28 {
		t.Errorf("%d valid, %d invalid", len(f["valid"]), len(f["invalid"]))
	}
	for _, v := range f["valid"] {
		err := btc.Parse(unhex(t, v.PSBT))
		if v.What == "BIP-174 7" {
			if err == nil || !strings.Contains(err.Error(), "needs an input and an output") {
				t.Errorf("%s: %v", v.What, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", v.What, err)
		}
	}
	for _, v := range f["invalid"] {
		err := btc.Parse(unhex(t, v.PSBT))
		if fault.Of(err) == nil {
			t.Errorf("%s: %v", v.What, err)
		}
		t.Logf("%s: %v", v.What, err)
	}
}

// TestSighashVectors are BIP-143's P2WPKH, native and nested, and the hashes of BIP-341.
func TestSighashVectors(t *testing.T) {
	k := keyOf(unhex(t, "619c335025c7f4012e556c2a58b2506e30b8511b53ade95ea316fd8c3286feb9"))
	d, err := btc.SighashV0(unhex(t, "0100000002fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f0000000000eeffffffef51e1b804cc89d182d279655c3aa89e815b1b"+
		"309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d00000000"+
		"1976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac11000000"),
		[]btc.Spent{{Value: 6_2500_0000, Script: unhex(t, "2103c9f4836b9a4f77fc0d81f7bcb01b7f1b35916864b9476c241ce9fc198bd25432ac")}, {Value: 6_0000_0000, Script: k.p2wpkh()}}, 1, k.p2pkh())
	if err != nil || hex.EncodeToString(d[:]) != "c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670" {
		t.Errorf("%x, %v", d, err)
	}

	nested := keyOf(unhex(t, "eb696a065ef48a2192da5b28b694f87544b30fae8327c4510137a922f32c6dcf"))
	d, err = btc.SighashV0(unhex(t, "0100000001db6b1b20aa0fd7b23880be2ecbd4a98130974cf4748fb66092ac4d3ceb1a54770100000000feffffff02b8b4eb0b000000001976a914a457b684d7f0"+
		"d539a46a45bbc043f35b59d0d96388ac0008af2f000000001976a914fd270b1ee6abcaea97fea7ad0402e8bd8ad6d77c88ac92040000"),
		[]btc.Spent{{Value: 10_0000_0000, Script: unhex(t, "a9144733f37cf4db86fbc2efed2500b4f4e49f31202387")}}, 0, nested.p2pkh())
	if err != nil || hex.EncodeToString(d[:]) != "64f3b0f4dd2bb3aa1ce8566d220cc74dda9df97d8490cc81d89d735c92e59fb6" ||
		hex.EncodeToString(nested.p2sh()) != "a9144733f37cf4db86fbc2efed2500b4f4e49f31202387" {
		t.Errorf("%x, %v", d, err)
	}

	var f struct {
		RawUnsignedTx                                                            string
		UtxosSpent                                                               []struct{ ScriptPubKey, AmountSats any }
		HashAmounts, HashOutputs, HashPrevouts, HashScriptPubkeys, HashSequences string
		InputSpending                                                            []struct {
			TxinIndex, HashType int
			SigHash             string
		}
	}
	load(t, "testdata/bip341.json", &f)
	var spent []btc.Spent
	for _, u := range f.UtxosSpent {
		spent = append(spent, btc.Spent{Value: int64(u.AmountSats.(float64)), Script: unhex(t, u.ScriptPubKey.(string))})
	}
	done := 0
	for _, v := range f.InputSpending {
		if v.HashType != 0 {
			continue
		}
		d, parts, err := btc.SighashV1(unhex(t, f.RawUnsignedTx), spent, v.TxinIndex)
		if err != nil || hex.EncodeToString(d[:]) != v.SigHash {
			t.Errorf("input %d: %x, %v", v.TxinIndex, d, err)
		}
		for i, want := range []string{f.HashPrevouts, f.HashAmounts, f.HashScriptPubkeys, f.HashSequences, f.HashOutputs} {
			if hex.EncodeToString(parts[i][:]) != want {
				t.Errorf("part %d: %x", i, parts[i])
			}
		}
		done++
	}
	if done != 1 {
		t.Errorf("%d inputs", done)
	}
}

// mixed is a transaction with an input of every kind of key 1, then two of key 2.
func mixed() *draft {
	d := &draft{version: 2, locktime: 840_000}
	for i, kind := range kinds {
		in := key(1).input(kind, i, 10_000*uint64(i+1))
		if kind == "P2TR" { // beside others it has to be proven, too
			insert(&in.pairs, p("00", funding(i, 10_000*uint64(i+1), key(1).p2tr())))
		}
		d.in = append(d.in, in)
	}
	d.in = append(d.in, key(2).input("P2WPKH", 1, 70_000), key(2).input("P2PKH", 3, 80_000))
	d.out = []draftOut{{value: 200_000, script: key(3).p2tr()}, {value: 90_000, script: key(1).p2sh()}, {script: []byte{0x6a, 2, 1, 2}}}
	return d
}

// TestOwnedInputs signs by each address, and by the id of the key, and looks at what
// the PSBT has gained, and where.
func TestOwnedInputs(t *testing.T) {
	d := mixed()
	k := key(1)
	for _, kind := range append(slices.Clone(kinds), "id") {
		out := signed(t, d.bytes(), k.signer(kind), k)
		tx, err := read(d.bytes(), k.signer(kind))
		if err != nil {
			t.Fatal(err)
		}
		want, ds, n := mixed(), tx.Digests(), 0
		for i, own := range kinds {
			if kind != own && kind != "id" {
				continue
			}
			s := k.sign(ds[n])
			if (ds[n].Scheme == chain.Taproot) != (own == "P2TR") {
				t.Errorf("%s: scheme %d", own, ds[n].Scheme)
			}
			pairs := &want.in[i].pairs
			if own == "P2TR" {
				insert(pairs, p("13", slices.Concat(s.R[:], s.S[:])))
			} else {
				insert(pairs, pair{append([]byte{2}, k.public.Compressed()...), append(der(s), 1)})
			}
			n++
		}
		if n != len(ds) || !bytes.Equal(out, want.bytes()) {
			t.Errorf("%s: %d digests\n%x\n%x", kind, len(ds), out, want.bytes())
		}
	}
	if out := signed(t, d.bytes(), key(2).signer("id"), key(2)); bytes.Count(out, append([]byte{34, 2}, key(2).public.Compressed()...)) != 2 {
		t.Errorf("key 2: %x", out)
	}
}

// insert puts a pair where its key belongs.
func insert(pairs *[]pair, new pair) {
	at, _ := slices.BinarySearchFunc(*pairs, new, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	*pairs = slices.Insert(*pairs, at, new)
}

// der writes a signature by the rules of DER for numbers.
func der(s chain.Signature) []byte {
	var body []byte
	for _, x := range [][]byte{s.R[:], s.S[:]} {
		x = bytes.TrimLeft(x, "\x00")
		if x[0]&0x80 != 0 {
			x = append([]byte{0}, x...)
		}
		body = append(append(body, 2, byte(len(x))), x...)
	}
	return append([]byte{0x30, byte(len(body))}, body...)
}

// TestFacts looks at all that policies read, on each network.
func TestFacts(t *testing.T) {
	d := mixed()
	d.in[0].sequence = 0
	tx, err := read(d.bytes(), key(1).signer("id"))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := tx.Facts(nil)
	if err != nil || tx.Root() != "bitcoin.tx" {
		t.Fatal(tx.Root(), err)
	}
	if facts["version"] != "2" || facts["fee"] != int64(10_000+20_000+30_000+40_000+50_000+70_000+80_000-290_000) ||
		!reflect.DeepEqual(facts["locktime"], chain.Struct{"amount": int64(840_000), "type": "Blocks"}) {
		t.Errorf("%v", facts)
	}
	id := slices.Clone(d.in[0].id)
	slices.Reverse(id)
	if in := facts["inputs"].([]any); len(in) != 7 ||
		!reflect.DeepEqual(in[0], chain.Struct{"tx_id": chain.Hex(hex.EncodeToString(id)), "vout": int64(0), "sequence": int64(0)}) ||
		in[6].(chain.Struct)["vout"] != int64(3) || in[6].(chain.Struct)["sequence"] != int64(0xfffffffd) {
		t.Errorf("%v", in)
	}
	if out := facts["outputs"].([]any); len(out) != 3 ||
		!reflect.DeepEqual(out[2], chain.Struct{"value": int64(0), "script_pubkey": chain.Hex("6a020102"), "address": "", "address_type": ""}) {
		t.Errorf("%v", out)
	}
	for f, want := range map[chain.Format][2]string{0: {"bc1p", "3"}, chain.BitcoinMainnetP2WSH: {"bc1p", "3"}, chain.BitcoinTestnetP2SH: {"tb1p", "2"},
		chain.BitcoinSignetP2TR: {"tb1p", "2"}, chain.BitcoinRegtestP2PKH: {"bcrt1p", "2"}} {
		tx, err := read(mixed().bytes(), chain.SigningKey{Public: key(1).public, Format: f})
		if err != nil {
			t.Fatal(err)
		}
		facts, _ := tx.Facts(nil)
		out := facts["outputs"].([]any)
		a, b := out[0].(chain.Struct), out[1].(chain.Struct)
		if !strings.HasPrefix(a["address"].(string), want[0]) || a["address_type"] != "P2TR" || !strings.HasPrefix(b["address"].(string), want[1]) || b["address_type"] != "P2SH" {
			t.Errorf("%v: %v %v", f, a, b)
		}
	}
	for locktime, unit := range map[uint32]string{0: "Blocks", 499_999_999: "Blocks", 500_000_000: "Seconds", 0xffffffff: "Seconds"} {
		d := mixed()
		d.locktime = locktime
		tx, err := read(d.bytes(), key(1).signer("id"))
		if err != nil {
			t.Fatal(err)
		}
		facts, _ := tx.Facts(nil)
		if !reflect.DeepEqual(facts["locktime"], chain.Struct{"amount": int64(locktime), "type": unit}) {
			t.Errorf("%d: %v", locktime, facts["locktime"])
		}
	}
}

// at is the pair of an input under a key.
func (in *draftIn) at(key string) *pair {
	i := slices.IndexFunc(in.pairs, func(have pair) bool { return bytes.Equal(have.key, p(key, nil).key) })
	return &in.pairs[i]
}

func (in *draftIn) has(key string) bool {
	return slices.ContainsFunc(in.pairs, func(have pair) bool { return bytes.Equal(have.key, p(key, nil).key) })
}

func (in *draftIn) drop(key string) {
	in.pairs = slices.DeleteFunc(in.pairs, func(have pair) bool { return bytes.Equal(have.key, p(key, nil).key) })
}

// one is a transaction with an input of key 1.
func one(kind string) *draft {
	return &draft{version: 2, in: []draftIn{key(1).input(kind, 1, 50_000)}, out: []draftOut{{value: 49_000, script: key(3).p2wpkh()}}}
}

func (d *draft) add(ps ...pair)        { d.in[0].pairs = append(d.in[0].pairs, ps...) }
func (d *draft) previous() []byte      { return funding(1, 50_000, d.spends()) }
func (d *draft) spends() []byte        { return d.in[0].at("01").value[9:] }
func (d *draft) at(key string) *pair   { return d.in[0].at(key) }
func (d *draft) drop(key string)       { d.in[0].drop(key) }
func utxo(v uint64, s []byte) []byte   { return draftOut{value: v, script: s}.bytes() }
func fill(n int) []byte                { return bytes.Repeat([]byte{7}, n) }
func partial(k testKey, v []byte) pair { return pair{append([]byte{2}, k.public.Compressed()...), v} }

// goodDER is a signature as far as its form goes.
var goodDER = append(der(chain.Signature{R: [32]byte{31: 5}, S: [32]byte{0: 0x7f}}), 1)

const (
	invalid     = "INVALID_TRANSACTION"
	unsupported = "UNSUPPORTED_TRANSACTION_TYPE"
)

// TestRefuses changes a good PSBT and reads it as key 1, by its id.
func TestRefuses(t *testing.T) {
	most := uint64(21_000_000 * 100_000_000)
	for _, c := range []struct {
		what, kind string
		change     func(*draft)
		name, stem string
	}{
		{"trailing byte", "P2WPKH", func(d *draft) { d.tail = []byte{0} }, invalid, "1 bytes follow the PSBT"},
		{"trailing map", "P2WPKH", func(d *draft) { d.tail = []byte{1, 5, 0, 0} }, invalid, "4 bytes follow the PSBT"},
		{"a map is missing", "P2WPKH", func(d *draft) { d.raw = mixed().unsigned() }, invalid, "input 2: it ends too early"},
		{"version 2", "P2WPKH", func(d *draft) { d.global = []pair{p("fb", le32(2))} }, unsupported, "PSBT of version 2"},
		{"version 1", "P2WPKH", func(d *draft) { d.global = []pair{p("fb", le32(1))} }, unsupported, "PSBT of version 1"},
		{"a short version", "P2WPKH", func(d *draft) { d.global = []pair{p("fb", []byte{0})} }, invalid, "global map: the version is malformed"},
		{"a global member of version 2", "P2WPKH",
			func(d *draft) { d.global = []pair{p("04", []byte{1})} }, invalid, "global map: the number of inputs belongs to PSBT of version 2"},
		{"an input's member of version 2", "P2WPKH",
			func(d *draft) { d.add(p("0e", fill(32))) }, invalid, "input 0: the previous transaction's id belongs to PSBT of version 2"},
		{"an output's member of version 2", "P2WPKH",
			func(d *draft) { d.out[0].pairs = []pair{p("03", le64(49_000))} }, invalid, "output 0: the amount belongs to PSBT of version 2"},
		{"transaction twice", "P2WPKH", func(d *draft) { d.global = []pair{p("00", d.unsigned())} }, invalid, "global map: a key is there twice"},
		{"key twice", "P2WPKH", func(d *draft) { d.add(p("03", le32(1)), p("03", le32(1))) }, invalid, "input 0: a key is there twice"},
		{"key twice, apart", "P2WPKH", func(d *draft) { d.add(p("50", nil), p("40", nil), p("50", nil)) }, invalid, "input 0: a key is there twice"},
		{"unknown key twice in an output", "P2WPKH",
			func(d *draft) { d.out[0].pairs = []pair{p("90", nil), p("90", fill(1))} }, invalid, "output 0: a key is there twice"},
		{"a type that is too long", "P2WPKH", func(d *draft) { d.add(p("fd0100", nil)) }, invalid, "input 0: it ends too early, or a length"},
		{"a type that is cut", "P2WPKH", func(d *draft) { d.add(p("fe0100", nil)) }, invalid, "input 0: it ends too early, or a length"},
		{"too many keys", "P2WPKH", func(d *draft) {
			for i := range btc.MaxPairs {
				d.add(p(fmt.Sprintf("90%08x", i), nil))
			}
		}, invalid, "input 0: it has too many keys"},
		{"a long key", "P2WPKH", func(d *draft) { d.add(pair{append([]byte{0x90}, fill(btc.MaxKey)...), nil}) }, invalid, "input 0: a key is too long"},

		// The transaction.
		{"a scriptSig", "P2WPKH", func(d *draft) { d.in[0].script = []byte{0x51} }, invalid, "input 0 of the unsigned transaction has a scriptSig"},
		{"witnesses", "P2WPKH", func(d *draft) { d.raw = withWitness(d.unsigned()) }, invalid, ""},
		{"bytes after the transaction", "P2WPKH", func(d *draft) { d.raw = append(d.unsigned(), 0) }, invalid, "the unsigned transaction is malformed"},
		{"a transaction cut short", "P2WPKH", func(d *draft) { d.raw = d.unsigned()[:70] }, invalid, "the unsigned transaction is malformed"},
		{"no transaction", "P2WPKH", func(d *draft) { d.raw = []byte{} }, invalid, "the unsigned transaction is malformed"},
		{"a long number of inputs", "P2WPKH", func(d *draft) { b := d.unsigned(); d.raw = slices.Concat(b[:4], []byte{0xfd, 1, 0}, b[5:]) }, invalid, ""},
		{"more inputs than bytes", "P2WPKH", func(d *draft) {
			b := d.unsigned()
			d.raw = slices.Concat(b[:4], []byte{0xfe, 0xff, 0xff, 0xff, 0x7f}, b[5:])
		}, invalid, ""},
		{"transaction version 0", "P2WPKH", func(d *draft) { d.version = 0 }, unsupported, "of version 0"},
		{"transaction version 4", "P2WPKH", func(d *draft) { d.version = 4 }, unsupported, "of version 4"},
		{"no inputs", "P2WPKH", func(d *draft) { d.in = nil }, invalid, "it needs an input and an output"},
		{"no outputs", "P2WPKH", func(d *draft) { d.out = nil }, invalid, "it needs an input and an output"},
		{"an output spent twice", "P2WPKH", func(d *draft) { d.in = append(d.in, d.in[0]) }, invalid, "input 1 spends what another input spends"},
		{"a coinbase", "P2WPKH", func(d *draft) { d.in[0].id, d.in[0].index = make([]byte, 32), 0xffffffff }, invalid, "input 0 spends nothing"},
		{"a large transaction", "P2WPKH", func(d *draft) { d.out[0].script = fill(btc.MaxUnsigned) }, unsupported, "of 100"},

		// What it spends.
		{"hidden amount", "P2WPKH", func(d *draft) { d.in[0].pairs = nil }, invalid, "input 0: it does not tell what it spends, so the fee is unknown"},
		{"hidden amount of another's input", "P2WPKH", func(d *draft) {
			in := key(2).input("P2WPKH", 0, 1000)
			in.pairs = nil
			d.in = append(d.in, in)
		}, invalid, "input 1: it does not tell what it spends, so the fee is unknown"},
		{"another previous transaction", "P2PKH",
			func(d *draft) { d.at("00").value = funding(2, 50_000, key(1).p2pkh()) }, invalid, "input 0: non_witness_utxo is not the transaction that it spends"},
		{"another previous transaction of another's input", "P2PKH", func(d *draft) {
			in := key(2).input("P2PKH", 0, 1000)
			in.at("00").value = funding(1, 1000, key(2).p2pkh())
			d.in = append(d.in, in)
		}, invalid, "input 1: non_witness_utxo is not the transaction that it spends"},
		{"a previous transaction without the output", "P2PKH",
			func(d *draft) { d.in[0].index = 2 }, invalid, "input 0: non_witness_utxo is malformed, or has no such output"},
		{"a previous transaction with a tail", "P2PKH", func(d *draft) { d.at("00").value = append(d.at("00").value, 0) }, invalid, "input 0: non_witness_utxo is malformed"},
		{"an empty previous transaction", "P2PKH", func(d *draft) { d.at("00").value = nil }, invalid, "input 0: non_witness_utxo is malformed"},
		{"a previous transaction whose witnesses are empty", "P2PKH", func(d *draft) {
			b := d.at("00").value
			d.at("00").value = slices.Concat(b[:4], []byte{0, 1}, b[4:len(b)-4], []byte{0}, b[len(b)-4:])
		}, invalid, "input 0: non_witness_utxo is malformed"},
		{"a previous transaction with another flag", "P2PKH",
			func(d *draft) { b := withWitness(d.at("00").value); b[5] = 2; d.at("00").value = b }, invalid, "input 0: non_witness_utxo is malformed"},
		{"a witness_utxo with a tail", "P2WPKH", func(d *draft) { d.at("01").value = append(d.at("01").value, 0) }, invalid, "input 0: witness_utxo is malformed"},
		{"a witness_utxo cut short", "P2WPKH", func(d *draft) { d.at("01").value = d.at("01").value[:20] }, invalid, "input 0: witness_utxo is malformed"},
		{"a witness_utxo for P2PKH", "P2PKH",
			func(d *draft) { d.in[0].pairs = []pair{p("01", utxo(50_000, key(1).p2pkh()))} }, invalid, "input 0: witness_utxo is not for a script without witnesses"},
		{"both for P2PKH", "P2PKH",
			func(d *draft) { d.add(p("01", utxo(50_000, key(1).p2pkh()))) }, invalid, "input 0: witness_utxo is not for a script without witnesses"},
		{"a witness_utxo for another's P2PKH", "P2WPKH", func(d *draft) {
			in := key(2).input("P2PKH", 0, 1000)
			in.pairs = []pair{p("01", utxo(1000, key(2).p2pkh()))}
			d.in = append(d.in, in)
		}, invalid, "input 1: witness_utxo is not for a script without witnesses"},
		{"utxos that differ in amount", "P2WPKH", func(d *draft) {
			prev := d.previous()
			d.in[0].pairs = []pair{p("00", prev), p("01", utxo(49_999, d.spends()))}
		}, invalid, "input 0: witness_utxo and non_witness_utxo differ"},
		{"utxos that differ in script", "P2WPKH", func(d *draft) {
			prev := d.previous()
			d.in[0].pairs = []pair{p("00", prev), p("01", utxo(50_000, key(1).p2tr()))}
		}, invalid, "input 0: witness_utxo and non_witness_utxo differ"},
		{"a negative fee", "P2WPKH", func(d *draft) { d.out[0].value = 50_001 }, invalid, "the outputs pay 1 more than the inputs spend"},
		{"a negative output", "P2WPKH", func(d *draft) { d.out[0].value = 1 << 63 }, invalid, "output 0: more is paid than there can be"},
		{"an output of too much", "P2WPKH", func(d *draft) { d.out[0].value = most + 1 }, invalid, "output 0: more is paid than there can be"},
		{"outputs that overflow", "P2WPKH",
			func(d *draft) { d.out = append(d.out, draftOut{value: most - 1, script: []byte{0x6a}}) }, invalid, "output 1: more is paid than there can be"},
		{"a negative amount", "P2TR", func(d *draft) { d.at("01").value = utxo(1<<63, d.spends()) }, invalid, "input 0: more is spent than there can be"},
		{"an amount of too much", "P2TR", func(d *draft) { d.at("01").value = utxo(most+1, d.spends()) }, invalid, "input 0: more is spent than there can be"},
		{"amounts that overflow", "P2WPKH",
			func(d *draft) { d.in = append(d.in, key(2).input("P2WPKH", 1, most-1)) }, invalid, "input 1: more is spent than there can be"},

		// Whose inputs.
		{"no input of the key", "P2WPKH",
			func(d *draft) { d.in = []draftIn{key(2).input("P2WPKH", 1, 50_000)} }, invalid, "no input belongs to the signing key's address"},
		{"the hash of the key in another script", "P2WPKH",
			func(d *draft) {
				d.in[0].pairs = []pair{p("01", utxo(50_000, append([]byte{0x51, 20}, d.spends()[2:]...)))}
			}, invalid, "no input belongs"},
		{"redeem_script is missing", "P2SH",
			func(d *draft) { d.drop("04") }, invalid, "input 0, P2SH: redeem_script must be the P2WPKH script of the key"},
		{"redeem_script of another", "P2SH", func(d *draft) { d.at("04").value = key(2).p2wpkh() }, invalid, "input 0, P2SH: redeem_script must be the P2WPKH script of the key"},
		{"redeem_script for P2WPKH", "P2WPKH", func(d *draft) { d.add(p("04", key(1).p2wpkh())) }, invalid, "input 0, P2WPKH: redeem_script does not belong there"},
		{"redeem_script for P2PKH", "P2PKH", func(d *draft) { d.add(p("04", key(1).p2pk())) }, invalid, "input 0, P2PKH: redeem_script does not belong there"},
		{"an empty redeem_script", "P2TR", func(d *draft) { d.add(p("04", nil)) }, invalid, "input 0, P2TR: redeem_script does not belong there"},
		{"witness_script is missing", "P2WSH",
			func(d *draft) { d.drop("05") }, invalid, "input 0, P2WSH: witness_script must be the P2PK script of the key"},
		{"witness_script of another", "P2WSH", func(d *draft) { d.at("05").value = key(2).p2pk() }, invalid, "input 0, P2WSH: witness_script must be the P2PK script of the key"},
		{"witness_script for P2SH", "P2SH", func(d *draft) { d.add(p("05", key(1).p2pk())) }, invalid, "input 0, P2SH: witness_script does not belong there"},
		{"witness_script for P2WPKH", "P2WPKH", func(d *draft) { d.add(p("05", key(1).p2pkh())) }, invalid, "input 0, P2WPKH: witness_script does not belong there"},
		{"finalized", "P2WPKH", func(d *draft) { d.add(p("08", []byte{1, 1, 1})) }, invalid, "input 0, P2WPKH: it is finalized already"},
		{"finalized", "P2PKH", func(d *draft) { d.add(p("07", []byte{0x51})) }, invalid, "input 0, P2PKH: it is finalized already"},

		// How they are signed.
		{"SIGHASH_NONE", "P2PKH", func(d *draft) { d.add(p("03", le32(2))) }, invalid, "input 0, P2PKH: sighash type 2: only SIGHASH_ALL is signed"},
		{"SIGHASH_SINGLE", "P2WPKH", func(d *draft) { d.add(p("03", le32(3))) }, invalid, "input 0, P2WPKH: sighash type 3: only SIGHASH_ALL is signed"},
		{"SIGHASH_ANYONECANPAY", "P2WSH", func(d *draft) { d.add(p("03", le32(0x81))) }, invalid, "input 0, P2WSH: sighash type 129: only SIGHASH_ALL is signed"},
		{"SIGHASH_DEFAULT without taproot", "P2WPKH", func(d *draft) { d.add(p("03", le32(0))) }, invalid, "input 0, P2WPKH: sighash type 0: only SIGHASH_ALL is signed"},
		{"SIGHASH_ALL with more bits", "P2WPKH", func(d *draft) { d.add(p("03", le32(0x101))) }, invalid, "input 0, P2WPKH: sighash type 257"},
		{"SIGHASH_ALL with taproot", "P2TR", func(d *draft) { d.add(p("03", le32(1))) }, invalid, "input 0, P2TR: sighash type 1: only SIGHASH_DEFAULT is signed"},
		{"a tap script", "P2TR",
			func(d *draft) { d.add(pair{slices.Concat([]byte{0x15, 0xc0}, key(1).xOnly()), []byte{0x51, 0xc0}}) }, invalid, "input 0, P2TR: only the key path without scripts"},
		{"a script signature", "P2TR",
			func(d *draft) { d.add(pair{slices.Concat([]byte{0x14}, key(1).xOnly(), fill(32)), fill(64)}) }, invalid, "input 0, P2TR: only the key path without scripts"},
		{"a merkle root", "P2TR", func(d *draft) { d.add(p("18", fill(32))) }, invalid, "input 0, P2TR: only the key path without scripts"},
		{"another internal key", "P2TR", func(d *draft) { d.at("17").value = key(2).xOnly() }, invalid, "input 0, P2TR: tap_internal_key is of another key"},
		{"the output key as the internal one", "P2TR",
			func(d *draft) { d.at("17").value = key(1).tweaked().xOnly() }, invalid, "input 0, P2TR: tap_internal_key is of another key"},
		{"an internal key without taproot", "P2WPKH", func(d *draft) { d.add(p("17", key(1).xOnly())) }, invalid, "input 0, P2WPKH: it has members of a taproot input"},
		{"a key signature without taproot", "P2PKH", func(d *draft) { d.add(p("13", fill(64))) }, invalid, "input 0, P2PKH: it has members of a taproot input"},

		// Forms of members.
		{"an xpub that is short", "P2WPKH", func(d *draft) { d.global = []pair{{append([]byte{1}, fill(77)...), fill(4)}} }, invalid, "global map: an xpub is malformed"},
		{"an xpub without a fingerprint", "P2WPKH",
			func(d *draft) { d.global = []pair{{append([]byte{1}, fill(78)...), nil}} }, invalid, "global map: an xpub is malformed"},
		{"non_witness_utxo with data in the key", "P2PKH", func(d *draft) { d.at("00").key = []byte{0, 0} }, invalid, "input 0: non_witness_utxo is malformed"},
		{"witness_utxo with data in the key", "P2WPKH", func(d *draft) { d.at("01").key = []byte{1, 0} }, invalid, "input 0: witness_utxo is malformed"},
		{"a signature under no key", "P2WPKH", func(d *draft) { d.add(p("02", goodDER)) }, invalid, "input 0: partial_sig is malformed"},
		{"a signature under a key off the curve", "P2WPKH",
			func(d *draft) { d.add(pair{append([]byte{2, 2}, bytes.Repeat([]byte{0xff}, 32)...), goodDER}) }, invalid, "input 0: partial_sig is malformed"},
		{"a signature under a hybrid key", "P2WPKH", func(d *draft) {
			b := key(2).public.Bytes()
			b[0] = 6 | b[64]&1
			d.add(pair{append([]byte{2}, b...), goodDER})
		}, invalid, "input 0: partial_sig is malformed"},
		{"an empty signature", "P2WPKH", func(d *draft) { d.add(partial(key(2), nil)) }, invalid, "input 0: partial_sig is malformed"},
		{"a signature without a type", "P2WPKH", func(d *draft) { d.add(partial(key(2), goodDER[:len(goodDER)-1])) }, invalid, "input 0: partial_sig is malformed"},
		{"a signature that is no DER", "P2WPKH",
			func(d *draft) { d.add(partial(key(2), append([]byte{0x31}, goodDER[1:]...))) }, invalid, "input 0: partial_sig is malformed"},
		{"a sighash type of three bytes", "P2WPKH", func(d *draft) { d.add(p("03", fill(3))) }, invalid, "input 0: the sighash type is malformed"},
		{"redeem_script with data in the key", "P2SH", func(d *draft) { d.at("04").key = []byte{4, 1} }, invalid, "input 0: redeem_script is malformed"},
		{"witness_script with data in the key", "P2WSH", func(d *draft) { d.at("05").key = []byte{5, 1} }, invalid, "input 0: witness_script is malformed"},
		{"a derivation without a fingerprint", "P2WPKH",
			func(d *draft) { d.add(pair{append([]byte{6}, key(1).public.Compressed()...), nil}) }, invalid, "input 0: bip32_derivation is malformed"},
		{"a derivation with half a step", "P2WPKH",
			func(d *draft) { d.add(pair{append([]byte{6}, key(1).public.Compressed()...), fill(6)}) }, invalid, "input 0: bip32_derivation is malformed"},
		{"a stack with a tail", "P2WPKH", func(d *draft) { d.add(p("08", []byte{1, 1, 1, 1})) }, invalid, "input 0: final_scriptwitness is malformed"},
		{"a preimage of no hash", "P2WPKH",
			func(d *draft) { d.add(pair{append([]byte{0x0b}, fill(31)...), nil}) }, invalid, "input 0: a preimage of SHA-256 is malformed"},
		{"tap_key_sig of 63 bytes", "P2TR", func(d *draft) { d.add(p("13", fill(63))) }, invalid, "input 0: tap_key_sig is malformed"},
		{"tap_key_sig of 66 bytes", "P2TR", func(d *draft) { d.add(p("13", fill(66))) }, invalid, "input 0: tap_key_sig is malformed"},
		{"tap_key_sig with SIGHASH_DEFAULT written", "P2TR", func(d *draft) { d.add(p("13", append(fill(64), 0))) }, invalid, "input 0: tap_key_sig is malformed"},
		{"tap_key_sig with type 4", "P2TR", func(d *draft) { d.add(p("13", append(fill(64), 4))) }, invalid, "input 0: tap_key_sig is malformed"},
		{"tap_key_sig over the field", "P2TR",
			func(d *draft) { d.add(p("13", append(bytes.Repeat([]byte{0xff}, 32), fill(32)...))) }, invalid, "input 0: tap_key_sig is malformed"},
		{"tap_key_sig over the order", "P2TR",
			func(d *draft) { d.add(p("13", append(fill(32), bytes.Repeat([]byte{0xff}, 32)...))) }, invalid, "input 0: tap_key_sig is malformed"},
		{"a control block of 34 bytes", "P2TR",
			func(d *draft) { d.add(pair{slices.Concat([]byte{0x15, 0xc0}, key(1).xOnly(), []byte{1}), fill(2)}) }, invalid, "input 0: tap_leaf_script is malformed"},
		{"a leaf without a version", "P2TR",
			func(d *draft) { d.add(pair{slices.Concat([]byte{0x15, 0xc0}, key(1).xOnly()), nil}) }, invalid, "input 0: tap_leaf_script is malformed"},
		{"an internal key of 33 bytes", "P2TR", func(d *draft) { d.at("17").value = key(1).public.Compressed() }, invalid, "input 0: tap_internal_key is malformed"},
		{"a taproot derivation with too few leaves", "P2TR",
			func(d *draft) { d.add(pair{append([]byte{0x16}, key(1).xOnly()...), append([]byte{2}, fill(36)...)}) }, invalid, "input 0: tap_bip32_derivation is malformed"},
		{"a merkle root of 31 bytes", "P2TR", func(d *draft) { d.add(p("18", fill(31))) }, invalid, "input 0: tap_merkle_root is malformed"},
		{"an empty tree", "P2TR", func(d *draft) { d.out[0].pairs = []pair{p("06", nil)} }, invalid, "output 0: tap_tree is malformed"},
		{"a tree that is too deep", "P2TR", func(d *draft) { d.out[0].pairs = []pair{p("06", []byte{129, 0xc0, 1, 0x51})} }, invalid, "output 0: tap_tree is malformed"},
		{"a tree with half a leaf", "P2TR", func(d *draft) { d.out[0].pairs = []pair{p("06", []byte{0, 0xc0, 2, 0x51})} }, invalid, "output 0: tap_tree is malformed"},
	} {
		d := one(c.kind)
		if _, err := read(d.bytes(), key(1).signer("id")); err != nil {
			t.Fatalf("%s: the good one: %v", c.kind, err)
		}
		c.change(d)
		tx, err := read(d.bytes(), key(1).signer("id"))
		refused(t, c.what, tx, err, c.name, c.stem)
	}
}

func refused(t *testing.T, what string, tx chain.Transaction, err error, name, stem string) {
	t.Helper()
	stem = map[string]string{invalid: "invalid transaction: ", unsupported: "unsupported transaction: "}[name] + stem
	e := fault.Of(err)
	if e == nil || tx != nil || e.Code != fault.InvalidArgument || e.Name != name || !strings.HasPrefix(e.Message, stem) || e.Violations[0].Field != "unsignedTransaction" {
		t.Errorf("%s: %v, want %s %s", what, err, name, stem)
	}
}

// TestTakes changes a good PSBT in ways that must not matter, and looks at what is
// kept.
func TestTakes(t *testing.T) {
	for _, c := range []struct {
		what, kind string
		change     func(*draft)
	}{
		{"version 0, written", "P2WPKH", func(d *draft) { d.global = []pair{p("fb", le32(0))} }},
		{"an xpub", "P2WPKH", func(d *draft) { d.global = []pair{{append([]byte{1}, fill(78)...), fill(8)}} }},
		{"unknown and proprietary keys", "P2WPKH", func(d *draft) {
			d.global = []pair{p("09", fill(3)), p("fc056d6574616d00", nil)}
			d.add(p("90", fill(300)), p("fc00", nil), p("fdfd00", nil))
			d.out[0].pairs = []pair{p("a0", fill(70_000))}
		}},
		{"keys out of order", "P2WSH", func(d *draft) { d.add(p("91", nil), p("90", nil), p("03", le32(1))) }},
		{"keys in reverse", "P2WSH", func(d *draft) { d.add(p("03", le32(1))); slices.Reverse(d.in[0].pairs) }},
		{"SIGHASH_ALL", "P2PKH", func(d *draft) { d.add(p("03", le32(1))) }},
		{"SIGHASH_DEFAULT", "P2TR", func(d *draft) { d.add(p("03", le32(0))) }},
		{"no internal key", "P2TR", func(d *draft) { d.drop("17") }},
		{"both utxos", "P2TR", func(d *draft) { d.in[0].pairs = append([]pair{p("00", d.previous())}, d.in[0].pairs...) }},
		{"both utxos, previous with witnesses", "P2TR", func(d *draft) { d.in[0].pairs = append([]pair{p("00", withWitness(d.previous()))}, d.in[0].pairs...) }},
		{"a previous transaction with witnesses", "P2PKH", func(d *draft) { d.at("00").value = withWitness(d.at("00").value) }},
		{"a previous transaction alone, P2SH", "P2SH", func(d *draft) { d.drop("01") }},
		{"a previous transaction alone, P2WPKH", "P2WPKH", func(d *draft) { d.drop("01") }},
		{"a previous transaction alone, P2WSH", "P2WSH", func(d *draft) { d.drop("01") }},
		{"a previous transaction alone, P2TR", "P2TR", func(d *draft) { *d.at("01") = p("00", d.previous()) }},
		{"another's signature", "P2WPKH", func(d *draft) { d.add(partial(key(2), goodDER)) }},
		{"another's signature under a long key", "P2WSH", func(d *draft) { d.add(pair{append([]byte{2}, key(2).public.Bytes()...), goodDER}) }},
		{"derivations", "P2TR", func(d *draft) {
			d.add(pair{append([]byte{0x16}, key(1).xOnly()...), slices.Concat([]byte{0}, fill(8))})
			d.out[0].pairs = []pair{p("05", key(3).xOnly()), p("06", []byte{0, 0xc0, 1, 0x51}), {append([]byte{7}, key(3).xOnly()...), slices.Concat([]byte{1}, fill(36))}}
		}},
		{"no fee", "P2WPKH", func(d *draft) { d.out[0].value = 50_000 }},
		{"transaction version 3", "P2WPKH", func(d *draft) { d.version = 3 }},
		{"another's finalized input", "P2WPKH", func(d *draft) {
			in := key(2).input("P2PKH", 0, 1000)
			in.pairs = append(in.pairs, p("03", le32(0x83)), p("07", []byte{0x51}), p("08", []byte{1, 0}))
			d.in = append(d.in, in)
		}},
		{"another's tap scripts", "P2TR", func(d *draft) {
			in := key(2).input("P2TR", 0, 1000)
			in.pairs = append(in.pairs, pair{slices.Concat([]byte{0x15, 0xc0}, key(1).xOnly(), fill(64)), []byte{0x51, 0xc0}}, p("18", fill(32)))
			d.in = append(d.in, in)
		}},
	} {
		d := one(c.kind)
		c.change(d)
		k := key(1)
		b := d.bytes()
		before := bytes.Clone(b)
		out := signed(t, b, k.signer(c.kind), k)
		if !bytes.Equal(b, before) {
			t.Errorf("%s: the input was changed", c.what)
		}
		// What is added is one pair; without it the PSBT is what it was.
		added := len(out) - len(b)
		found := false
		for at := range out {
			if at+added <= len(out) && bytes.Equal(slices.Concat(out[:at], out[at+added:]), b) {
				found = true
			}
		}
		if !found || added < 67 || added > 1+34+1+73 {
			t.Errorf("%s: %d bytes more\n%x\n%x", c.what, added, b, out)
		}
		if again := signed(t, out, k.signer("id"), k); !bytes.Equal(again, out) {
			t.Errorf("%s: signing again gives %x", c.what, again)
		}
	}
}

// TestSignatureIsMadeAnew puts a wrong signature of the key in.
func TestSignatureIsMadeAnew(t *testing.T) {
	k := key(1)
	for kind, wrong := range map[string]pair{"P2WPKH": partial(k, goodDER), "P2TR": p("13", append(fill(64), 1))} {
		d := one(kind)
		want := signed(t, d.bytes(), k.signer(kind), k)
		insert(&d.in[0].pairs, wrong)
		if got := signed(t, d.bytes(), k.signer(kind), k); !bytes.Equal(got, want) {
			t.Errorf("%s: %x", kind, got)
		}
	}
}

func TestSigners(t *testing.T) {
	b := mixed().bytes()
	ed, err := chain.NewPublicKey(chain.Ed25519, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		by   chain.SigningKey
		stem string
	}{
		"no key":          {chain.SigningKey{}, "a key on curve-0 cannot sign it"},
		"ed25519":         {chain.SigningKey{Public: ed}, "a key on CURVE_ED25519 cannot sign it"},
		"Ethereum":        {chain.SigningKey{Public: key(1).public, Format: chain.Ethereum}, "an address in ADDRESS_FORMAT_ETHEREUM owns no input"},
		"Solana":          {chain.SigningKey{Public: ed, Format: chain.Solana}, "a key on CURVE_ED25519 cannot sign it"},
		"compressed":      {chain.SigningKey{Public: key(1).public, Format: chain.Compressed}, "an address in ADDRESS_FORMAT_COMPRESSED owns no input"},
		"Spark":           {chain.SigningKey{Public: key(1).public, Format: chain.SparkMainnet}, "an address in ADDRESS_FORMAT_SPARK_MAINNET owns no input"},
		"no format":       {chain.SigningKey{Public: key(1).public, Format: 200}, "an address in address-format-200 owns no input"},
		"another key":     {key(5).signer("id"), "no input belongs to the signing key's address"},
		"another address": {key(2).signer("P2TR"), "no input belongs to the signing key's address"},
	} {
		tx, err := read(b, c.by)
		refused(t, what, tx, err, invalid, c.stem)
	}
}

// TestDogecoin signs P2PKH inputs for an address of Dogecoin, whose amounts may be
// larger, and refuses what needs witnesses.
func TestDogecoin(t *testing.T) {
	const billion = 1_000_000_000 * 100_000_000
	k := key(1)
	good := func() *draft {
		return &draft{version: 1, in: []draftIn{k.input("P2PKH", 0, billion)}, out: []draftOut{{value: billion - 1, script: key(3).p2pkh()}}}
	}
	for f, want := range map[chain.Format]string{chain.DogeMainnet: "D", chain.DogeTestnet: "n"} {
		by := chain.SigningKey{Public: k.public, Format: f}
		out := signed(t, good().bytes(), by, k)
		if !bytes.Contains(out, append([]byte{34, 2}, k.public.Compressed()...)) {
			t.Errorf("%v: %x", f, out)
		}
		tx, err := read(good().bytes(), by)
		if err != nil {
			t.Fatal(err)
		}
		facts, _ := tx.Facts(nil)
		if a := facts["outputs"].([]any)[0].(chain.Struct); !strings.HasPrefix(a["address"].(string), want) || a["address_type"] != "P2PKH" || facts["fee"] != int64(1) {
			t.Errorf("%v: %v", f, facts)
		}
		for what, c := range map[string]struct {
			change func(*draft)
			stem   string
		}{
			"an amount of too much": {func(d *draft) { d.in[0] = k.input("P2PKH", 0, 10*billion+1) }, "input 0: more is spent than there can be"},
			"amounts that overflow": {func(d *draft) { d.in = append(d.in, key(2).input("P2PKH", 0, 10*billion)) }, "input 1: more is spent than there can be"},
			"a witness_utxo":        {func(d *draft) { d.in = append(d.in, k.input("P2WPKH", 0, 1)) }, "input 1: Dogecoin has no witness_utxo"},
			"a witness output":      {func(d *draft) { d.out[0].script = key(3).p2wpkh() }, "output 0: on Dogecoin anyone could spend a witness output"},
			"a taproot output":      {func(d *draft) { d.out[0].script = key(3).p2tr() }, "output 0: on Dogecoin anyone could spend a witness output"},
		} {
			d := good()
			c.change(d)
			tx, err := read(d.bytes(), by)
			refused(t, what, tx, err, invalid, c.stem)
		}
	}
	tx, err := read(good().bytes(), k.signer("P2PKH"))
	refused(t, "the same as Bitcoin", tx, err, invalid, "input 0: more is spent than there can be")
}

// TestTwoLies asks for two signatures of one transaction, each time with the truth about the one input and a lie about the
// amount of the other. If both were given and were good for the true amounts, they would pay a fee that no request showed.
func TestTwoLies(t *testing.T) {
	k := key(1)
	const each, lie = 5_0000_0000, 10_000
	honest := func(first, second string) *draft {
		return &draft{version: 2, in: []draftIn{k.input(first, 0, each), k.input(second, 1, each)}, out: []draftOut{{value: each, script: key(3).p2wpkh()}}}
	}
	taproot := 0
	for _, first := range kinds {
		for _, second := range kinds {
			d := honest(first, second)
			tx, err := read(d.bytes(), k.signer("id"))
			if err != nil && (first == "P2TR") == (second == "P2TR") {
				t.Fatalf("%s, %s: %v", first, second, err)
			}
			if err == nil {
				if facts, _ := tx.Facts(nil); facts["fee"] != int64(each) {
					t.Fatalf("%s, %s: a fee of %v", first, second, facts["fee"])
				}
			}
			for liar, other := range []int{1, 0} {
				own := []string{first, second}[other]
				// The lie takes every form: what is said to be spent is of our script or of any other.
				for _, script := range [][]byte{k.p2sh(), k.p2wpkh(), k.p2wsh(), k.p2tr(), key(2).p2tr(), key(2).p2wpkh()} {
					for _, by := range []chain.SigningKey{k.signer("id"), k.signer(own)} {
						lied := honest(first, second)
						lied.in[liar].pairs = []pair{p("01", utxo(lie, script))}
						lies, err := read(lied.bytes(), by)
						if err != nil {
							continue
						}
						for _, digest := range lies.Digests() {
							if digest.Scheme != chain.Taproot {
								t.Fatalf("%s, %s: input %d is signed by ECDSA beside a lie about input %d", first, second, other, liar)
							}
						}
						spent := []btc.Spent{{Value: each, Script: k.script(first)}, {Value: each, Script: k.script(second)}}
						for i := range spent {
							truth, _, err := btc.SighashV1(lied.unsigned(), spent, i)
							if err != nil || slices.ContainsFunc(lies.Digests(), func(d chain.Digest) bool { return bytes.Equal(d.Message, truth[:]) }) {
								t.Errorf("%s, %s: a signature beside a lie about input %d is good for the true amounts (%v)", first, second, liar, err)
							}
						}
						taproot++
					}
				}
			}
		}
	}
	if taproot == 0 {
		t.Error("no lie was signed by taproot, so nothing is said of it")
	}
}

// TestProven says of which inputs the previous transaction is wanted, and what is told when it is not there.
func TestProven(t *testing.T) {
	bare := func(in draftIn) draftIn {
		if in.has("01") {
			in.drop("00")
		}
		return in
	}
	for _, own := range kinds {
		for _, other := range kinds {
			for _, whose := range []testKey{key(1), key(2)} {
				d := &draft{version: 2, in: []draftIn{key(1).input(own, 1, 50_000), bare(whose.input(other, 2, 20_000))}, out: []draftOut{{value: 60_000, script: key(3).p2wpkh()}}}
				what := fmt.Sprintf("%s beside %s", own, other)
				tx, err := read(d.bytes(), key(1).signer(own))
				if own != "P2TR" && other != "P2PKH" {
					refused(t, what, tx, err, invalid, "input 1: its amount is not proven: add its non_witness_utxo")
				} else if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if own == "P2PKH" || own == "P2TR" {
					continue
				}
				d.in[0], d.in[1] = bare(d.in[0]), whose.input("P2PKH", 2, 20_000)
				tx, err = read(d.bytes(), key(1).signer(own))
				refused(t, what, tx, err, invalid, "input 0: its amount is not proven: add its non_witness_utxo")
			}
		}
	}
}

// TestMutations flips every bit of PSBTs: each is refused, or is something else to
// sign, or is a key that passes.
func TestMutations(t *testing.T) {
	k := key(1)
	for _, kind := range kinds {
		b := one(kind).bytes()
		tx, err := read(b, k.signer("id"))
		if err != nil {
			t.Fatal(err)
		}
		digest := tx.Digests()[0]
		same, other := 0, 0
		for i := range b {
			for bit := range 8 {
				m := bytes.Clone(b)
				m[i] ^= 1 << bit
				tx, err := read(m, k.signer("id"))
				if err != nil {
					if fault.Of(err) == nil {
						t.Fatalf("%s, byte %d: %v", kind, i, err)
					}
					continue
				}
				if d := tx.Digests(); len(d) == 1 && reflect.DeepEqual(d[0], digest) {
					// Only the type of a member that can be left out can turn into a type that passes.
					omissible := append([]byte{1, 0x17, 32}, k.xOnly()...)
					if kind != "P2TR" {
						omissible = append([]byte{1, 0x01}, prefixed(utxo(50_000, k.script(kind)))...)
					}
					if bytes.Contains(m, omissible) {
						t.Errorf("%s, byte %d, bit %d: the same digest", kind, i, bit)
					}
					same++
					continue
				}
				other++
			}
		}
		if other == 0 {
			t.Errorf("%s: nothing else was read", kind)
		}
		for n := range b {
			if tx, err := read(b[:n], k.signer("id")); err == nil || tx != nil {
				t.Errorf("%s: %d bytes of it were taken", kind, n)
			}
		}
		t.Logf("%s: of %d flipped bits %d read as something else, %d as the same", kind, 8*len(b), other, same)
	}
}

// TestBounds tries the limits from both sides.
func TestBounds(t *testing.T) {
	many := func(kind string, n int) *draft {
		d := &draft{version: 2, out: []draftOut{{value: 1, script: key(3).p2wpkh()}}}
		for i := range n {
			in := key(1).input(kind, 0, uint64(1000+i))
			d.in = append(d.in, in)
		}
		return d
	}
	for _, kind := range []string{"P2PKH", "P2WPKH", "P2TR"} {
		tx, err := read(many(kind, btc.MaxOwned).bytes(), key(1).signer(kind))
		if err != nil || len(tx.Digests()) != btc.MaxOwned {
			t.Errorf("%s: %v", kind, err)
		}
		tx, err = read(many(kind, btc.MaxOwned+1).bytes(), key(1).signer(kind))
		refused(t, kind, tx, err, unsupported, "1001 inputs to be signed")
	}
	d := one("P2WPKH")
	d.tail = fill(btc.MaxPSBT)
	tx, err := read(d.bytes(), key(1).signer("id"))
	refused(t, "a large PSBT", tx, err, invalid, "a PSBT of more than")
	d = one("P2WPKH")
	d.out[0].script = fill(btc.MaxUnsigned - len(d.unsigned()) + len(d.out[0].script) - 4)
	for len(d.unsigned()) < btc.MaxUnsigned {
		d.out[0].script = append(d.out[0].script, 7)
	}
	if _, err := read(d.bytes(), key(1).signer("id")); err != nil || len(d.unsigned()) != btc.MaxUnsigned {
		t.Errorf("%d bytes: %v", len(d.unsigned()), err)
	}
	for i := range btc.MaxPairs - len(d.in[0].pairs) {
		d.add(p(fmt.Sprintf("90%08x", i), nil))
	}
	if _, err := read(d.bytes(), key(1).signer("id")); err != nil {
		t.Errorf("as many keys as can be: %v", err)
	}
	// Allocations must follow what is there, not what is announced.
	for _, head := range []string{"70736274ff0100feffffffff", "70736274ff01000902000000feffffffff", "70736274ffffffffffffffffffff", "70736274ff01000902000000ffffffffffffffffff"} {
		tx, err := read(unhex(t, head), key(1).signer("id"))
		refused(t, head, tx, err, invalid, "")
	}
}

func TestAssembleWantsAll(t *testing.T) {
	tx, err := read(mixed().bytes(), key(1).signer("id"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 4, 6} {
		if out, err := tx.Assemble(make([]chain.Signature, n)); err == nil || out != nil {
			t.Errorf("%d signatures: %x", n, out)
		}
	}
}

// TestDER writes numbers of all lengths.
func TestDER(t *testing.T) {
	for _, n := range []int{0, 1, 15, 30, 31} {
		for _, first := range []byte{1, 0x7f, 0x80, 0xff} {
			var s chain.Signature
			s.R[n], s.S[31] = first, 1
			tx, err := read(one("P2WPKH").bytes(), key(1).signer("id"))
			if err != nil {
				t.Fatal(err)
			}
			out, err := tx.Assemble([]chain.Signature{s})
			want := append(der(s), 1)
			if err != nil || !bytes.Contains(out, append([]byte{byte(len(want))}, want...)) {
				t.Errorf("%d, %x: %x", n, first, out)
			}
		}
	}
}

// FuzzRead reads what it is given as key 1, by its id and by an address. What is read
// can be signed, is not changed otherwise, and reads again as the same.
func FuzzRead(f *testing.F) {
	for _, kind := range kinds {
		f.Add(one(kind).bytes())
	}
	f.Add(mixed().bytes())
	var published map[string][]struct{ What, PSBT string }
	load(f, "testdata/psbt.json", &published)
	for _, v := range append(published["valid"], published["invalid"]...) {
		f.Add(unhex(f, v.PSBT))
	}
	k := key(1)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, by := range []chain.SigningKey{k.signer("id"), k.signer("P2WPKH"), {Public: k.public, Format: chain.DogeMainnet}} {
			tx, err := read(b, by)
			if err != nil {
				if fault.Of(err) == nil || tx != nil {
					t.Fatalf("%T %v", tx, err)
				}
				continue
			}
			facts, err := tx.Facts(nil)
			if err != nil {
				t.Fatal(err)
			}
			if fee := facts["fee"].(int64); fee < 0 {
				t.Fatalf("a fee of %d", fee)
			}
			out, err := tx.Assemble(k.signAll(tx.Digests()))
			if err != nil {
				t.Fatal(err)
			}
			again, err := read(out, by)
			if err != nil {
				t.Fatalf("what was signed does not read: %v\n%x\n%x", err, b, out)
			}
			same, _ := again.Facts(nil)
			if !reflect.DeepEqual(facts, same) || !reflect.DeepEqual(tx.Digests(), again.Digests()) {
				t.Fatalf("what was signed reads as something else\n%x\n%x", b, out)
			}
		}
	})
}

func BenchmarkTransaction(b *testing.B) {
	k := key(1)
	for _, n := range []int{1, 100} {
		for _, kind := range []string{"P2PKH", "P2WPKH", "P2TR"} {
			d := &draft{version: 2, out: []draftOut{{value: 1, script: key(3).p2wpkh()}, {value: 2, script: key(4).p2pkh()}}}
			for i := range n {
				d.in = append(d.in, k.input(kind, 0, uint64(1000+i)))
			}
			raw := d.bytes()
			tx, err := read(raw, k.signer(kind))
			if err != nil {
				b.Fatal(err)
			}
			name := fmt.Sprintf("%s/%d/", kind, n)
			b.Run(name+"Read", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := read(raw, k.signer(kind)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"Digests", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					tx.Digests()
				}
			})
			b.Run(name+"Facts", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					tx.Facts(nil)
				}
			})
			ds := tx.Digests()
			sigs := k.signAll(ds)
			b.Run(name+"Assemble", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := tx.Assemble(sigs); err != nil {
						b.Fatal(err)
					}
				}
			})
			if kind == "P2WPKH" {
				b.Run(name+"bare ECDSA", func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						for _, d := range ds {
							k.sign(d)
						}
					}
				})
			}
		}
	}
}

// BenchmarkWorst hashes as much as one request can make us hash: P2PKH inputs to be
// signed, as many as there may be, in a transaction as large as it may be.
func BenchmarkWorst(b *testing.B) {
	k := key(1)
	d := &draft{version: 2}
	for i := range btc.MaxOwned {
		d.in = append(d.in, k.input("P2PKH", 0, uint64(1000+i)))
	}
	d.out = []draftOut{{value: 1, script: fill(btc.MaxUnsigned - len(d.unsigned()) - 11)}}
	raw := d.bytes()
	tx, err := read(raw, k.signer("P2PKH"))
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d bytes, transaction %d bytes", len(raw), binary.LittleEndian.Uint32(raw[8:12]))
	b.Run("Read", func(b *testing.B) {
		for b.Loop() {
			read(raw, k.signer("P2PKH"))
		}
	})
	b.Run("Digests", func(b *testing.B) {
		for b.Loop() {
			tx.Digests()
		}
	})
	// 26,000 public keys to be looked at, in maps of outputs.
	e := one("P2WPKH")
	for i := range 25 {
		o := draftOut{value: 1, script: []byte{0x6a}}
		for j := range 990 {
			o.pairs = append(o.pairs, pair{append([]byte{2}, key(1000*i+j).public.Compressed()...), fill(4)})
		}
		e.out = append(e.out, o)
	}
	keysRaw := e.bytes()
	b.Run("Keys", func(b *testing.B) {
		for b.Loop() {
			if _, err := read(keysRaw, k.signer("id")); err != nil {
				b.Fatal(err)
			}
		}
	})
}
