package sol_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
)

// readJSON fills into from a file of testdata; numbers stay as they are written.
func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func signerOf(t testing.TB, address string) chain.SigningKey {
	t.Helper()
	raw, err := base58.Decode(address)
	if err != nil {
		t.Fatal(err)
	}
	p, err := chain.NewPublicKey(chain.Ed25519, raw)
	if err != nil {
		t.Fatal(err)
	}
	return chain.SigningKey{Public: p, Format: chain.Solana, Address: address}
}

func signatureOf(raw []byte) (s chain.Signature) {
	copy(s.R[:], raw)
	copy(s.S[:], raw[32:])
	return s
}

// plain writes facts as JSON would hold them, numbers as text.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		return v.String()
	case int64, uint64, *big.Int:
		return fmt.Sprint(v)
	case chain.Hex:
		return string(v)
	case chain.Dynamic:
		return plain(v.Value)
	case chain.Struct:
		return plain(map[string]any(v))
	case chain.Map:
		return plain(map[string]any(v))
	case map[string]any:
		out := map[string]any{}
		for k, one := range v {
			out[k] = plain(one)
		}
		return out
	case []string:
		out := []any{}
		for _, one := range v {
			out = append(out, one)
		}
		return out
	case []any:
		out := []any{}
		for _, one := range v {
			out = append(out, plain(one))
		}
		return out
	}
	return v
}

func text(v any) string {
	b, _ := json.MarshalIndent(v, "", " ")
	return string(b)
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if got, want = plain(got), plain(want); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s\nwant %s", text(got), text(want))
	}
}

// refused wants an error about the transaction that says something.
func refused(t *testing.T, err error, name, says string) {
	t.Helper()
	e := fault.Of(err)
	if e == nil || e.Code != fault.InvalidArgument || e.Name != name || !strings.Contains(e.Message, says) || len(e.Violations) != 1 ||
		e.Violations[0].Field != "unsignedTransaction" {
		t.Errorf("%+v, not %s with %q", e, name, says)
	}
}

const (
	invalid     = "INVALID_TRANSACTION"
	unsupported = "UNSUPPORTED_TRANSACTION_TYPE"
)

// Transactions to make by hand: keys are numbers, the first signs.

type number byte

func (n number) key() []byte { return bytes.Repeat([]byte{byte(n)}, 32) }

func (n number) name() string { return base58.Encode(n.key()) }

type call struct {
	program  byte
	accounts []byte
	data     []byte
}

type table struct {
	key                number
	writable, readonly []byte
}

type draft struct {
	slots     int // as many as signers if 0
	header    [3]byte
	keys      []number // 0 is the System program
	calls     []call
	v0        bool
	tables    []table
	afterward []byte
}

func compact(n int) []byte {
	switch {
	case n < 1<<7:
		return []byte{byte(n)}
	case n < 1<<14:
		return []byte{byte(n) | 0x80, byte(n >> 7)}
	}
	return []byte{byte(n) | 0x80, byte(n>>7) | 0x80, byte(n >> 14)}
}

func counted(b []byte) []byte { return append(compact(len(b)), b...) }

func (d draft) message() []byte {
	var m []byte
	if d.v0 {
		m = append(m, 0x80)
	}
	m = append(m, d.header[:]...)
	m = append(m, compact(len(d.keys))...)
	for _, k := range d.keys {
		m = append(m, k.key()...)
	}
	m = append(m, bytes.Repeat([]byte{0xbb}, 32)...)
	m = append(m, compact(len(d.calls))...)
	for _, c := range d.calls {
		m = append(append(append(m, c.program), counted(c.accounts)...), counted(c.data)...)
	}
	if d.v0 {
		m = append(m, compact(len(d.tables))...)
		for _, t := range d.tables {
			m = append(append(append(m, t.key.key()...), counted(t.writable)...), counted(t.readonly)...)
		}
	}
	return m
}

func (d draft) bytes() []byte {
	slots := d.slots
	if slots == 0 {
		slots = int(d.header[0])
	}
	return slices.Concat(compact(slots), make([]byte, 64*slots), d.message(), d.afterward)
}

// with changes a copy.
func (d draft) with(change func(*draft)) draft {
	d.keys, d.calls, d.tables = slices.Clone(d.keys), slices.Clone(d.calls), slices.Clone(d.tables)
	change(&d)
	return d
}

func le64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// system is the data of an instruction of the System program.
func system(n uint32, args ...[]byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, n), slices.Concat(args...)...)
}

func seed(s string) []byte { return append(le64(uint64(len(s))), s...) }

// payment moves lamports from 1 to 2, read by program 3 too.
var payment = draft{header: [3]byte{1, 0, 1}, keys: []number{1, 2, 0}, calls: []call{{2, []byte{0, 1}, system(2, le64(5))}}}

// loading calls program 3 with an account of each kind.
var loading = draft{header: [3]byte{2, 1, 1}, keys: []number{1, 2, 4, 3}, v0: true,
	calls:  []call{{3, []byte{0, 1, 2, 3, 4, 5, 6, 7}, []byte{9}}},
	tables: []table{{7, []byte{10, 11}, []byte{12}}, {8, nil, []byte{10}}}}

func read(raw []byte, n number) (chain.Transaction, error) {
	p, err := chain.NewPublicKey(chain.Ed25519, n.key())
	if err != nil {
		panic(err)
	}
	return sol.Chain{}.Read(raw, chain.SigningKey{Public: p})
}

func factsOf(t testing.TB, tx chain.Transaction, d chain.Described) chain.Struct {
	t.Helper()
	f, err := tx.Facts(d)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type vector struct {
	Name     string `json:"name"`
	SignWith string `json:"sign_with"`
	Private  string `json:"private_key"`
	Unsigned string `json:"unsigned_transaction"`
	Signed   string `json:"signed_transaction"`
}

func vectors(t testing.TB) (out []vector) {
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	readJSON(t, "transactions.json", &file)
	for _, v := range file.Vectors {
		if strings.HasPrefix(v.Name, "solana_") {
			out = append(out, v)
		}
	}
	return out
}

func TestVectors(t *testing.T) {
	all := vectors(t)
	if len(all) != 3 {
		t.Errorf("%d vectors", len(all))
	}
	for _, v := range all {
		tx, err := sol.Chain{}.Read(unhex(t, v.Unsigned), signerOf(t, v.SignWith))
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		digests := tx.Digests()
		if len(digests) != 1 || digests[0].Scheme != chain.EdDSA || tx.Root() != "solana.tx" {
			t.Fatalf("%s: %v", v.Name, digests)
		}
		s := ed25519.Sign(ed25519.NewKeyFromSeed(unhex(t, v.Private)), digests[0].Message)
		signed, err := tx.Assemble([]chain.Signature{signatureOf(s)})
		if err != nil || hex.EncodeToString(signed) != v.Signed {
			t.Errorf("%s: %x, %v", v.Name, signed, err)
		}
		// A signed transaction is signed again, to the same bytes.
		again, err := sol.Chain{}.Read(signed, signerOf(t, v.SignWith))
		if err != nil || !bytes.Equal(again.Digests()[0].Message, digests[0].Message) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
}

type policyCases struct {
	Interfaces map[string]struct {
		IDL json.RawMessage `json:"idl"`
	} `json:"interfaces"`
	Transactions map[string]struct {
		SignWith string         `json:"signWith"`
		Unsigned string         `json:"unsignedTransaction"`
		Parsed   map[string]any `json:"parsed"`
		IDL      string         `json:"interface"`
		Program  string         `json:"interfaceAddress"`
	} `json:"transactions"`
}

// lists are the members in which stand instructions that give something away.
var lists = []string{"transfers", "authorities", "spl_transfers", "spl_approvals", "spl_authorities", "spl_closes", "spl_burns", "spl_others"}

func TestPolicyCases(t *testing.T) {
	var file policyCases
	readJSON(t, "policy-cases.json", &file)
	if len(file.Transactions) != 9 {
		t.Errorf("%d transactions", len(file.Transactions))
	}
	for name, c := range file.Transactions {
		t.Run(name, func(t *testing.T) {
			tx, err := sol.Chain{}.Read(unhex(t, c.Unsigned), signerOf(t, c.SignWith))
			if c.Parsed == nil {
				refused(t, err, invalid, "it ends in its signature slots")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := c.Parsed["solana.tx"].(map[string]any)
			if name == "sol_lut" { // the file leaves out which lookups an instruction uses
				want["instructions"].([]any)[0].(map[string]any)["address_table_lookups"] = want["address_table_lookups"]
			}
			for _, list := range lists { // ours, which the file does not know
				if want[list] == nil {
					want[list] = []any{}
				}
			}
			same(t, factsOf(t, tx, func(address string) (chain.Description, error) {
				if c.IDL == "" || address != c.Program {
					return nil, nil
				}
				return sol.Chain{}.Describe(string(file.Interfaces[c.IDL].IDL))
			}), want)
			if c.IDL != "" {
				one := factsOf(t, tx, nil)["instructions"].([]any)[0].(chain.Struct)
				if _, there := one["parsed_instruction_data"]; there {
					t.Error("decoded without an IDL")
				}
			}
		})
	}
}

type web3 struct {
	Transactions []struct {
		Name, Hex, Payer string
		Flags, Keys      []string
		Instructions     []struct {
			Program  int
			Accounts []int
			Data     string
		}
		Lookups []struct {
			Table              string
			Writable, Readonly []any
		}
	} `json:"transactions"`
}

// What web3.js made is read, with its meaning of each account.
func TestWeb3(t *testing.T) {
	var file web3
	readJSON(t, "web3.json", &file)
	listed := map[string]string{ // in which list the one instruction stands that gives something away
		"CreateAccount": "transfers", "Transfer": "transfers", "TransferWithSeed": "transfers", "CreateAccountWithSeed": "transfers", "WithdrawNonceAccount": "transfers",
		"two tables": "transfers", "Assign": "authorities", "AssignWithSeed": "authorities", "AuthorizeNonceAccount": "authorities",
		"token Transfer": "spl_transfers", "token-2022 Transfer, two signers": "spl_transfers", "token TransferChecked": "spl_transfers",
		"token-2022 TransferCheckedWithFee": "spl_transfers", "token-2022 TransferCheckedWithFee, one signer": "spl_transfers",
		"token Approve": "spl_approvals", "token-2022 withdraw withheld": "spl_others",
	}
	for _, c := range file.Transactions {
		tx, err := sol.Chain{}.Read(unhex(t, c.Hex), signerOf(t, c.Payer))
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		facts := factsOf(t, tx, nil)
		names, loaded := slices.Clone(c.Keys), []any{}
		for range len(c.Flags) - len(c.Keys) {
			names = append(names, "ADDRESS_TABLE_LOOKUP")
		}
		for _, l := range c.Lookups {
			loaded = append(loaded, map[string]any{"address_table_key": l.Table, "writable_indexes": l.Writable, "readonly_indexes": l.Readonly})
		}
		same(t, facts["account_keys"], names)
		same(t, facts["address_table_lookups"], loaded)
		for _, list := range lists {
			want := 0
			if list == listed[c.Name] {
				want = 1
			}
			if n := len(facts[list].([]any)); n != want {
				t.Errorf("%s: %d in %s", c.Name, n, list)
			}
		}
		got := facts["instructions"].([]any)
		if len(got) != len(c.Instructions) {
			t.Errorf("%s: %d instructions", c.Name, len(got))
			continue
		}
		for i, in := range c.Instructions {
			accounts := []any{}
			for _, a := range in.Accounts {
				accounts = append(accounts, map[string]any{"account_key": names[a], "signer": c.Flags[a][0] == 's', "writable": c.Flags[a][1] == 'w'})
			}
			one := got[i].(chain.Struct)
			same(t, []any{one["program_key"], one["instruction_data_hex"], one["accounts"]}, []any{names[in.Program], in.Data, accounts})
		}
		if c.Name == "two tables" {
			one := []any{}
			for i := range got {
				one = append(one, got[i].(chain.Struct)["address_table_lookups"])
			}
			lookup := func(i int, w, r []any) any {
				return map[string]any{"address_table_key": c.Lookups[i].Table, "writable_indexes": w, "readonly_indexes": r}
			}
			same(t, one, []any{
				[]any{lookup(0, []any{"5"}, []any{"0"})},
				[]any{lookup(0, []any{"5"}, []any{}), lookup(1, []any{"0", "1"}, []any{})},
				[]any{lookup(1, []any{"1"}, []any{})},
			})
		}
	}
}

func TestTokenTransfers(t *testing.T) {
	var file web3
	readJSON(t, "web3.json", &file)
	k := map[string]string{}
	for i, name := range []string{"", "a", "b", "c", "d", "e"} {
		public := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i)}, 32)).Public().(ed25519.PublicKey)
		k[name] = base58.Encode(public)
	}
	transfer := func(from, mint, to, owner string, signers ...any) any {
		m := k[mint]
		if mint == "" {
			m = ""
		}
		return map[string]any{"from": k[from], "to": k[to], "amount": "9", "owner": k[owner], "signers": append([]any{}, signers...), "token_mint": m}
	}
	want := map[string]any{
		"token Transfer":                                transfer("a", "", "b", "c"),
		"token-2022 Transfer, two signers":              transfer("a", "", "b", "c", k["d"], k["e"]),
		"token TransferChecked":                         transfer("a", "b", "c", "d"),
		"token-2022 TransferCheckedWithFee":             transfer("a", "b", "c", "d"),
		"token-2022 TransferCheckedWithFee, one signer": transfer("a", "b", "c", "d", k["e"]),
	}
	for _, c := range file.Transactions {
		if w := want[c.Name]; w != nil {
			tx, err := sol.Chain{}.Read(unhex(t, c.Hex), signerOf(t, c.Payer))
			if err != nil {
				t.Fatal(err)
			}
			same(t, factsOf(t, tx, nil)["spl_transfers"], []any{w})
			delete(want, c.Name)
		}
	}
	if len(want) > 0 {
		t.Error(want)
	}
}

func TestSystemInstructions(t *testing.T) {
	key := number(9).key()
	good := map[int][]byte{
		0: system(0, le64(1), le64(2), key), 1: system(1, key), 2: system(2, le64(1)), 3: system(3, key, seed("s"), le64(1), le64(2), key), 4: system(4),
		5: system(5, le64(1)), 6: system(6, key), 7: system(7, key), 8: system(8, le64(1)), 9: system(9, key, seed(""), le64(1), key),
		10: system(10, key, seed(strings.Repeat("ü", 16)), key), 11: system(11, le64(1), seed("s"), key), 12: system(12), 13: system(13, le64(1), le64(2), key),
	}
	needs := []int{2, 1, 2, 2, 2, 4, 3, 1, 1, 1, 1, 3, 1, 2}
	try := func(data []byte, accounts int) error {
		d := payment.with(func(d *draft) { d.calls[0].data, d.calls[0].accounts = data, make([]byte, accounts) })
		_, err := read(d.bytes(), 1)
		return err
	}
	for n, data := range good {
		for _, more := range []int{0, 1, 40} {
			if err := try(data, needs[n]+more); err != nil {
				t.Errorf("%d with %d accounts: %v", n, needs[n]+more, err)
			}
		}
		refused(t, try(data, needs[n]-1), invalid, "of the System program needs")
		refused(t, try(append(slices.Clone(data), 0), needs[n]), invalid, "has 1 bytes more than")
		for short := range data {
			says := "does not decode as"
			if short < 4 {
				says = "has no number"
			}
			refused(t, try(data[:short], needs[n]), invalid, says)
		}
	}
	if err := try(system(13, le64(0), le64(2), key), 1); err != nil { // nobody pays for it
		t.Error(err)
	}
	refused(t, try(system(14), 9), unsupported, "instruction 0 is number 14 of the System program")
	refused(t, try(system(1<<31), 9), unsupported, "number 2147483648")
	for _, s := range [][]byte{seed(strings.Repeat("s", 33)), seed("\xff"), append(le64(1<<63), 's'), append(le64(2), 's')} {
		refused(t, try(system(10, key, s, key), 9), invalid, "does not decode as AssignWithSeed")
	}
}

// setAuthority gives an authority to a key, or takes it away.
func setAuthority(kind byte, to []byte) []byte {
	if to == nil {
		return []byte{6, kind, 0}
	}
	return append([]byte{6, kind, 1}, to...)
}

// TestGivenAway holds every instruction of the System and token programs by which lamports, tokens or the right to them go
// to somebody else against the list in which policies find it, and the others against none.
func TestGivenAway(t *testing.T) {
	nine := number(9).key()
	a := func(i int) string { return number(20 + i).name() }
	move := func(from, to int) chain.Struct {
		return chain.Struct{"from": a(from), "to": a(to), "amount": uint64(7)}
	}
	hand := func(kind string) chain.Struct {
		return chain.Struct{"account": a(0), "type": kind, "authority": number(9).name()}
	}
	type want map[string]chain.Struct
	systems := []struct {
		what string
		data []byte
		want want
	}{
		{"CreateAccount", system(0, le64(7), le64(2), nine), want{"transfers": move(0, 1)}},
		{"Assign", system(1, nine), want{"authorities": hand("OWNER_PROGRAM")}},
		{"Transfer", system(2, le64(7)), want{"transfers": move(0, 1)}},
		{"CreateAccountWithSeed", system(3, number(8).key(), seed("some seed"), le64(7), le64(2), nine), want{"transfers": move(0, 1)}},
		{"AdvanceNonceAccount", system(4), nil},
		{"WithdrawNonceAccount", system(5, le64(7)), want{"transfers": move(0, 1)}},
		{"InitializeNonceAccount", system(6, nine), nil},
		{"AuthorizeNonceAccount", system(7, nine), want{"authorities": hand("NONCE")}},
		{"Allocate", system(8, le64(7)), nil},
		{"AllocateWithSeed", system(9, number(8).key(), seed("s"), le64(7), nine), nil},
		{"AssignWithSeed", system(10, number(8).key(), seed("s"), nine), want{"authorities": hand("OWNER_PROGRAM")}},
		{"TransferWithSeed", system(11, le64(7), seed("s"), nine), want{"transfers": move(0, 2)}},
		{"UpgradeNonceAccount", system(12), nil},
		{"CreateAccountAllowPrefund", system(13, le64(7), le64(2), nine), want{"transfers": move(1, 0), "authorities": hand("OWNER_PROGRAM")}},
	}
	with := func(e chain.Struct, owner int) chain.Struct {
		e["owner"], e["signers"] = a(owner), []string{a(owner + 1)}
		return e
	}
	amount := func(mint string) chain.Struct {
		return chain.Struct{"from": a(0), "amount": uint64(7), "token_mint": mint}
	}
	to := func(e chain.Struct, name string, i int) chain.Struct { e[name] = a(i); return e }
	authority := func(kind, to string) chain.Struct {
		return with(chain.Struct{"account": a(0), "type": kind, "authority": to}, 1)
	}
	other := func(text string) want {
		return want{"spl_others": chain.Struct{"program_key": "", "instruction_data_hex": chain.Hex(text)}}
	}
	tokens := []struct {
		what     string
		data     []byte
		accounts int
		want     want
	}{
		{"Transfer", append([]byte{3}, le64(7)...), 4, want{"spl_transfers": with(to(amount(""), "to", 1), 2)}},
		{"TransferChecked", append(append([]byte{12}, le64(7)...), 6), 5, want{"spl_transfers": with(to(amount(a(1)), "to", 2), 3)}},
		{"TransferCheckedWithFee", slices.Concat([]byte{26, 1}, le64(7), []byte{6}, le64(1)), 5, want{"spl_transfers": with(to(amount(a(1)), "to", 2), 3)}},
		{"Approve", append([]byte{4}, le64(7)...), 4, want{"spl_approvals": with(to(amount(""), "delegate", 1), 2)}},
		{"ApproveChecked", append(append([]byte{13}, le64(7)...), 6), 5, want{"spl_approvals": with(to(amount(a(1)), "delegate", 2), 3)}},
		{"Burn", append([]byte{8}, le64(7)...), 4, want{"spl_burns": with(amount(a(1)), 2)}},
		{"BurnChecked", append(append([]byte{15}, le64(7)...), 6), 4, want{"spl_burns": with(amount(a(1)), 2)}},
		{"CloseAccount", []byte{9}, 4, want{"spl_closes": with(to(chain.Struct{"account": a(0)}, "to", 1), 2)}},
		{"SetAuthority of an account", setAuthority(2, nine), 3, want{"spl_authorities": authority("ACCOUNT_OWNER", number(9).name())}},
		{"SetAuthority of a mint", setAuthority(0, nine), 3, want{"spl_authorities": authority("MINT_TOKENS", number(9).name())}},
		{"SetAuthority to nobody", setAuthority(3, nil), 3, want{"spl_authorities": authority("CLOSE_ACCOUNT", "")}},
		{"SetAuthority to nobody, with a key", append(setAuthority(1, nil), nine...), 3, want{"spl_authorities": authority("FREEZE_ACCOUNT", "")}},
		{"SetAuthority of a kind to come", setAuthority(200, nine), 3, want{"spl_authorities": authority("200", number(9).name())}},
		{"MintTo", append([]byte{7}, le64(7)...), 3, other("070700000000000000")},
		{"FreezeAccount", []byte{10}, 3, other("0a")},
		{"a confidential transfer", []byte{27, 7}, 9, other("1b07")},
		{"withheld fees", []byte{26, 3}, 4, other("1a03")},
		{"WithdrawExcessLamports", []byte{38}, 3, other("26")},
		{"one to come", []byte{99, 1}, 3, other("6301")},
		{"nothing", nil, 3, other("")},
		{"InitializeAccount", []byte{1}, 4, nil},
		{"Revoke", []byte{5}, 2, nil},
		{"SyncNative", []byte{17}, 1, nil},
		{"InitializeAccount3", append([]byte{18}, nine...), 2, nil},
	}
	held := func(what string, program string, raw []byte, data []byte, accounts int, want want) {
		t.Helper()
		d := draft{header: [3]byte{1, 0, 1}, keys: []number{1, 20, 21, 22, 23, 24, 25, 26, 27, 28, 0}}
		places := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}[:accounts]
		d.calls = []call{{10, places, data}}
		b := bytes.Replace(d.bytes(), append(number(28).key(), number(0).key()...), append(number(28).key(), raw...), 1)
		tx, err := read(b, 1)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		facts := factsOf(t, tx, nil)
		for _, list := range lists {
			all := []any{}
			if e, ok := want[list]; ok {
				if list == "spl_others" {
					e["program_key"] = program
				}
				all = append(all, e)
			}
			if !reflect.DeepEqual(facts[list], any(all)) {
				t.Errorf("%s: %s is %v, want %v", what, list, facts[list], all)
			}
		}
	}
	for n, c := range systems {
		if got := binary.LittleEndian.Uint32(c.data); got != uint32(n) {
			t.Fatalf("%s: number %d", c.what, got)
		}
		held(c.what, "", number(0).key(), c.data, 5, c.want)
	}
	held("CreateAccountAllowPrefund, for nothing", "", number(0).key(), system(13, le64(0), le64(2), nine), 1, want{"authorities": hand("OWNER_PROGRAM")})
	for _, program := range []string{"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"} {
		raw, err := base58.Decode(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range tokens {
			held(c.what, program, raw, c.data, c.accounts, c.want)
		}
	}
}

func TestTokensRefuse(t *testing.T) {
	for _, program := range []string{"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"} {
		raw, _ := base58.Decode(program)
		try := func(data []byte, accounts int) error {
			d := payment.with(func(d *draft) { d.calls[0].data, d.calls[0].accounts = data, make([]byte, accounts) })
			_, err := read(bytes.Replace(d.bytes(), append(number(2).key(), number(0).key()...), append(number(2).key(), raw...), 1), 1)
			return err
		}
		for name, c := range map[string]struct {
			data     []byte
			accounts int
		}{
			"Transfer":               {append([]byte{3}, le64(7)...), 3},
			"TransferChecked":        {append(append([]byte{12}, le64(7)...), 6), 4},
			"TransferCheckedWithFee": {slices.Concat([]byte{26, 1}, le64(7), []byte{6}, le64(1)), 4},
			"Approve":                {append([]byte{4}, le64(7)...), 3},
			"ApproveChecked":         {append(append([]byte{13}, le64(7)...), 6), 4},
			"Burn":                   {append([]byte{8}, le64(7)...), 3},
			"BurnChecked":            {append(append([]byte{15}, le64(7)...), 6), 3},
			"CloseAccount":           {[]byte{9}, 3},
		} {
			if err := try(c.data, c.accounts); err != nil {
				t.Error(name, err)
			}
			refused(t, try(c.data, c.accounts-1), invalid, "instruction 0 does not decode as "+name+" of a token program")
			refused(t, try(append(slices.Clone(c.data), 0), c.accounts), invalid, "does not decode as "+name)
			for short := 2; short < len(c.data); short++ {
				refused(t, try(c.data[:short], c.accounts), invalid, "does not decode as "+name)
			}
		}
		for _, data := range [][]byte{{}, {26}, {26, 0}, {26, 2, 1, 1, 1, 1}, {10}, {14}, {254}} {
			if err := try(data, 0); err != nil {
				t.Errorf("%x: %v", data, err)
			}
		}
		for _, data := range [][]byte{setAuthority(2, number(9).key()), setAuthority(0, nil), append(setAuthority(3, nil), number(0).key()...)} {
			if err := try(data, 2); err != nil {
				t.Errorf("%x: %v", data, err)
			}
			refused(t, try(data, 1), invalid, "does not decode as SetAuthority")
			refused(t, try(append(data, 0), 2), invalid, "does not decode as SetAuthority")
			refused(t, try(data[:len(data)-1], 2), invalid, "does not decode as SetAuthority")
		}
		for _, data := range [][]byte{{6}, {6, 2}, {6, 2, 1}, slices.Concat([]byte{6, 2, 2}, number(9).key())} {
			refused(t, try(data, 2), invalid, "does not decode as SetAuthority")
		}
		refused(t, try([]byte{255, 0, 0}, 0), unsupported, "instruction 0 is a batch of a token program")
	}
}

func TestReadRefuses(t *testing.T) {
	slots := func(b []byte) int { return 1 + 64*int(b[0]) }
	// at changes one byte of the message of a transaction.
	at := func(d draft, i int, to byte) []byte {
		b := d.bytes()
		b[slots(b)+i] = to
		return b
	}
	longer := func(d draft, i int, insert ...byte) []byte { // the byte in i becomes others
		b := d.bytes()
		i += slots(b)
		return slices.Concat(b[:i], insert, b[i+1:])
	}
	calls := 3 + 1 + 3*32 + 32 // in the message of payment
	wide := loading.with(func(d *draft) {
		d.calls, d.tables = nil, []table{{7, nil, nil}}
		for i := range 253 {
			d.tables[0].readonly = append(d.tables[0].readonly, byte(i))
		}
	})
	for _, c := range []struct {
		raw        []byte
		name, says string
	}{
		{nil, invalid, "it is empty"},
		{make([]byte, 1233), invalid, "it has 1233 bytes; Solana takes at most 1232"},
		{payment.with(func(d *draft) { d.calls[0].accounts = make([]byte, 1232) }).bytes(), invalid, "bytes; Solana takes at most 1232"},
		{[]byte{0}, invalid, "it ends in its header"},
		{payment.with(func(d *draft) { d.afterward = []byte{0} }).bytes(), invalid, "1 bytes follow its end"},
		{loading.with(func(d *draft) { d.afterward = []byte{0} }).bytes(), invalid, "1 bytes follow its end"},
		{payment.message(), invalid, "a message without signature slots"},
		{loading.message(), invalid, "a message without signature slots"},
		{append([]byte{0x81}, loading.message()...), unsupported, "version 1; legacy and version 0 are read"},
		{at(loading, 0, 0x81), unsupported, "version 1; legacy"},
		{at(loading, 0, 0xff), unsupported, "version 127; legacy"},
		{payment.with(func(d *draft) { d.slots = 2 }).bytes(), invalid, "it has 2 signature slots and 1 required signers"},
		{append([]byte{0}, payment.message()...), invalid, "it has 0 signature slots and 1 required signers"},
		{append([]byte{9}, payment.bytes()[1:]...), invalid, "it ends in its signature slots"},
		{slices.Concat([]byte{0x81, 0}, payment.bytes()[1:]), unsupported, "version 1"},
		{payment.with(func(d *draft) { d.header = [3]byte{0, 0, 1} }).bytes(), invalid, "it has no signers"},
		{payment.with(func(d *draft) { d.header = [3]byte{1, 1, 1} }).bytes(), invalid, "its fee payer is read-only"},
		{payment.with(func(d *draft) { d.header = [3]byte{1, 2, 1} }).bytes(), invalid, "its fee payer is read-only"},
		{payment.with(func(d *draft) { d.header = [3]byte{1, 0, 3} }).bytes(), invalid, "its header counts 4 accounts of 3"},
		{payment.with(func(d *draft) { d.header, d.slots = [3]byte{4, 0, 0}, 4 }).bytes(), invalid, "its header counts 4 accounts of 3"},
		{payment.with(func(d *draft) { d.keys[1] = 1 }).bytes(), invalid, "its account keys 0 and 1 are equal"},
		{payment.with(func(d *draft) { d.keys = append(d.keys, 2) }).bytes(), invalid, "its account keys 1 and 3 are equal"},
		{at(payment, 3, 40), invalid, "it ends in its account keys"},
		{at(payment, calls, 5), invalid, "it ends in its"},
		{at(payment, calls, 50), invalid, "it ends in its instructions"},
		{at(payment, calls+2, 200), invalid, "is not in its shortest form"},
		{longer(payment, calls, 0x81, 0), invalid, "a length in its instructions is not in its shortest form"},
		{longer(payment, calls, 0x81, 0x80, 0), invalid, "not in its shortest form"},
		{longer(payment, calls, 0xff, 0xff, 4), invalid, "not in its shortest form"},
		{longer(payment, calls, 0xff, 0xff, 0x83, 0), invalid, "not in its shortest form"},
		{longer(payment, calls, 0xff, 0xff, 3), invalid, "it ends in its instructions"},
		{at(payment, calls+1, 0), invalid, "the program of instruction 0 is the fee payer"},
		{at(payment, calls+1, 3), invalid, "the program of instruction 0 is account 3 of 3"},
		{at(payment, calls+4, 3), invalid, "instruction 0 names account 3 of 3"},
		{loading.with(func(d *draft) { d.calls[0].program = 4 }).bytes(), invalid, "the program of instruction 0 is behind an address table lookup"},
		{loading.with(func(d *draft) { d.calls[0].program = 8 }).bytes(), invalid, "the program of instruction 0 is account 8 of 8"},
		{loading.with(func(d *draft) { d.calls[0].accounts = []byte{8} }).bytes(), invalid, "instruction 0 names account 8 of 8"},
		{loading.with(func(d *draft) { d.tables[1].readonly, d.calls = nil, nil }).bytes(), invalid, "address table lookup 1 loads no account"},
		{loading.with(func(d *draft) { d.tables[1].key = 7 }).bytes(), invalid, "address table lookup 1 loads an account twice"},
		{loading.with(func(d *draft) { d.tables[0].readonly = []byte{10} }).bytes(), invalid, "loads an account twice"},
		{wide.bytes(), invalid, "it has 257 accounts; Solana takes at most 256"},
	} {
		if _, err := read(c.raw, 1); err == nil {
			t.Errorf("taken, not %q: %x", c.says, c.raw)
		} else {
			refused(t, err, c.name, c.says)
		}
	}
	for _, d := range []draft{payment, loading, wide.with(func(d *draft) { d.tables[0].readonly = d.tables[0].readonly[1:] }),
		payment.with(func(d *draft) { d.calls = nil }), payment.with(func(d *draft) { d.v0 = true })} {
		if _, err := read(d.bytes(), 1); err != nil {
			t.Error(err)
		}
		for n := range d.bytes() {
			if _, err := read(d.bytes()[:n], 1); err == nil {
				t.Errorf("taken with %d bytes", n)
			}
		}
	}
	// As large as a packet.
	left := 1232 - len(payment.bytes()) - 1
	if d := payment.with(func(d *draft) { d.calls[0].accounts = make([]byte, 2+left) }).bytes(); len(d) != 1232 {
		t.Errorf("%d bytes", len(d))
	} else if _, err := read(d, 1); err != nil {
		t.Error(err)
	}
}

func TestReadOfSigners(t *testing.T) {
	for _, n := range []number{1, 2} { // the second is read-only
		tx, err := read(loading.bytes(), n)
		if err != nil {
			t.Fatal(err)
		}
		s := signatureOf(bytes.Repeat([]byte{0x11, 0x22}, 32))
		signed, err := tx.Assemble([]chain.Signature{s})
		want := loading.bytes()
		copy(want[1+64*(int(n)-1):], bytes.Repeat([]byte{0x11, 0x22}, 32))
		if err != nil || !bytes.Equal(signed, want) {
			t.Errorf("%d: %x, %v", n, signed, err)
		}
		other, err := tx.Assemble([]chain.Signature{{}})
		if err != nil || !bytes.Equal(other, loading.bytes()) {
			t.Errorf("a transaction is not immutable")
		}
		for _, wrong := range [][]chain.Signature{nil, {s, s}, {{V: 1}}} {
			if _, err := tx.Assemble(wrong); err == nil {
				t.Errorf("assembled %d signatures", len(wrong))
			}
		}
		tx.Digests()[0].Message[0]++
		if !bytes.Equal(tx.Digests()[0].Message, loading.message()) {
			t.Error("the digest is not the message")
		}
	}
	for _, n := range []number{3, 4, 7, 9} {
		_, err := read(loading.bytes(), n)
		refused(t, err, invalid, n.name()+" is not among its 2 required signers")
	}
	// The input is not kept.
	raw := payment.bytes()
	tx, err := read(raw, 1)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if !bytes.Equal(tx.Digests()[0].Message, payment.message()) {
		t.Error("the transaction shares memory with its text")
	}
	p, err := chain.NewPublicKey(chain.Secp256k1, unhex(t, "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = sol.Chain{}.Read(payment.bytes(), chain.SigningKey{Public: p})
	refused(t, err, invalid, "it needs an ed25519 key")
	_, err = sol.Chain{}.Read(payment.bytes(), chain.SigningKey{})
	refused(t, err, invalid, "it needs an ed25519 key")
}

// Every byte of a transaction that is changed is a byte of what is signed, or of
// a slot, or makes it refused.
func TestMutations(t *testing.T) {
	for _, d := range []draft{payment, loading} {
		raw := d.bytes()
		slots := 1 + 64*int(raw[0])
		for i := range raw {
			for _, bit := range []byte{1, 2, 4, 8, 16, 32, 64, 128} {
				changed := slices.Clone(raw)
				changed[i] ^= bit
				tx, err := read(changed, 1)
				if err != nil {
					if fault.Of(err) == nil {
						t.Fatal(err)
					}
					continue
				}
				if message := tx.Digests()[0].Message; i < slots != bytes.Equal(message, d.message()) || !bytes.Equal(message, changed[slots:]) {
					t.Fatalf("byte %d of %x", i, changed)
				}
				if other := plain(factsOf(t, tx, nil)); i >= slots+3 && reflect.DeepEqual(other, plain(factsOf(t, mustRead(t, raw), nil))) {
					t.Errorf("byte %d changed no fact", i-slots)
				}
			}
		}
	}
}

func mustRead(t testing.TB, raw []byte) chain.Transaction {
	t.Helper()
	tx, err := read(raw, 1)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestAddress(t *testing.T) {
	p, _ := chain.NewPublicKey(chain.Ed25519, number(1).key())
	if a, err := sol.Addresses.Address(chain.Solana, p); err != nil || a != number(1).name() {
		t.Error(a, err)
	}
	if _, err := sol.Addresses.Address(chain.Ethereum, p); err == nil {
		t.Error("an address of another chain")
	}
	if len(sol.Addresses) != 1 || sol.Addresses[chain.Solana] == nil {
		t.Error("formats")
	}
}
