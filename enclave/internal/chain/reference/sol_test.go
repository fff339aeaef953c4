package reference_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	bin "github.com/gagliardetto/binary"
	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/programs/token"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/sol"
)

func solanaSigner(address string) chain.SigningKey {
	p, err := chain.NewPublicKey(chain.Ed25519, solana.MustPublicKeyFromBase58(address).Bytes())
	if err != nil {
		panic(err)
	}
	return chain.SigningKey{Public: p, Format: chain.Solana, Address: address}
}

// solanaJudge holds what we read in a transaction against what solana-go reads,
// and tells whether we take it. What we refuse, solana-go may take: it checks less.
func solanaJudge(t *testing.T, raw []byte) bool {
	t.Helper()
	signers, err := sol.Signers(raw)
	if err != nil {
		return false
	}
	theirs, err := solana.TransactionFromBytes(raw)
	if err != nil {
		t.Fatalf("refused by solana-go: %v: %x", err, raw)
	}
	if again, err := theirs.MarshalBinary(); err != nil || !bytes.Equal(again, raw) {
		t.Fatalf("solana-go writes %x, %v, not %x", again, err, raw)
	}
	m := &theirs.Message
	message, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	tx, err := sol.Chain{}.Read(raw, solanaSigner(signers[0].Address))
	if err != nil || !bytes.Equal(tx.Digests()[0].Message, message) {
		t.Fatalf("%v: another message: %x", err, raw)
	}
	var names, signing []string
	for i, k := range m.AccountKeys {
		names = append(names, k.String())
		if m.IsSigner(k) {
			signing = append(signing, signers[i].Address)
		}
	}
	static := len(names)
	if !reflect.DeepEqual(signing, names[:len(signers)]) || !reflect.DeepEqual(keysOf(m.Signers()), signing) {
		t.Fatalf("other signers: %x", raw)
	}
	lookups := []any{}
	for _, l := range m.AddressTableLookups {
		lookups = append(lookups, chain.Struct{"address_table_key": l.AccountKey.String(),
			"writable_indexes": numbersOf(l.WritableIndexes), "readonly_indexes": numbersOf(l.ReadonlyIndexes)})
	}
	for range m.NumLookups() {
		names = append(names, "ADDRESS_TABLE_LOOKUP")
	}
	facts, err := tx.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	instructions, lists := []any{}, map[string][]any{}
	for i, in := range m.Instructions {
		accounts := []any{}
		for _, a := range in.Accounts {
			signs, writes := false, int(a) < static+m.NumWritableLookups()
			if int(a) < static {
				signs, writes = m.IsSigner(m.AccountKeys[a]), m.IsWritableStatic(m.AccountKeys[a])
			}
			accounts = append(accounts, chain.Struct{"account_key": names[a], "signer": signs, "writable": writes})
		}
		program, err := m.Program(in.ProgramIDIndex)
		if err != nil {
			t.Fatal(err)
		}
		instructions = append(instructions, chain.Struct{"program_key": program.String(), "accounts": accounts,
			"instruction_data_hex":  chain.Hex(hex.EncodeToString(in.Data)),
			"address_table_lookups": facts["instructions"].([]any)[i].(chain.Struct)["address_table_lookups"]}) // solana-go has none
		if list, element := solanaGiven(t, program, in, names); list != "" {
			lists[list] = append(lists[list], element)
		}
	}
	for _, list := range []string{"transfers", "authorities", "spl_approvals", "spl_authorities", "spl_closes", "spl_burns"} {
		want := append([]any{}, lists[list]...)
		if slices.ContainsFunc(want, func(e any) bool { return e.(chain.Struct) == nil }) {
			continue
		}
		if !reflect.DeepEqual(facts[list], any(want)) {
			t.Fatalf("%s: %v, not %v: %x", list, facts[list], want, raw)
		}
	}
	for name, want := range map[string]any{"account_keys": names, "instructions": instructions, "address_table_lookups": lookups,
		"recent_blockhash": m.RecentBlockhash.String()} {
		if !reflect.DeepEqual(facts[name], want) {
			t.Fatalf("%s: %v, not %v: %x", name, facts[name], want, raw)
		}
	}
	return true
}

// solanaGiven is what an instruction gives away, as solana-go decodes it, and in which list of ours it belongs.
func solanaGiven(t *testing.T, program solana.PublicKey, in solana.CompiledInstruction, names []string) (string, chain.Struct) {
	t.Helper()
	// Accounts have their places as keys, since those of tables have none.
	var metas solana.AccountMetaSlice
	for _, a := range in.Accounts {
		metas = append(metas, solana.NewAccountMeta(solana.PublicKey{byte(a)}, false, false))
	}
	name := func(m *solana.AccountMeta) string { return names[m.PublicKey[0]] }
	switch program {
	case solana.SystemProgramID:
		if binary.LittleEndian.Uint32(in.Data) > system.Instruction_TransferWithSeed {
			return "", nil // newer than solana-go
		}
		decoded, err := system.DecodeInstruction(metas, in.Data)
		if err != nil {
			t.Fatalf("a System instruction refused by solana-go: %v: %x", err, in.Data)
		}
		move := func(from, to *solana.AccountMeta, lamports *uint64) (string, chain.Struct) {
			return "transfers", chain.Struct{"from": name(from), "to": name(to), "amount": *lamports}
		}
		hand := func(account *solana.AccountMeta, kind string, to *solana.PublicKey) (string, chain.Struct) {
			return "authorities", chain.Struct{"account": name(account), "type": kind, "authority": to.String()}
		}
		switch d := decoded.Impl.(type) {
		case *system.Transfer:
			return move(d.GetFundingAccount(), d.GetRecipientAccount(), d.Lamports)
		case *system.TransferWithSeed:
			return move(d.GetFundingAccount(), d.GetRecipientAccount(), d.Lamports)
		case *system.CreateAccount:
			return move(d.GetFundingAccount(), d.GetNewAccount(), d.Lamports)
		case *system.CreateAccountWithSeed:
			return move(d.GetFundingAccount(), d.GetCreatedAccount(), d.Lamports)
		case *system.WithdrawNonceAccount:
			return move(d.GetNonceAccount(), d.GetRecipientAccount(), d.Lamports)
		case *system.Assign:
			return hand(d.GetAssignedAccount(), "OWNER_PROGRAM", d.Owner)
		case *system.AssignWithSeed:
			return hand(d.GetAssignedAccount(), "OWNER_PROGRAM", d.Owner)
		case *system.AuthorizeNonceAccount:
			return hand(d.GetNonceAccount(), "NONCE", d.Authorized)
		}
	case solana.TokenProgramID, solana.Token2022ProgramID:
		decoded, err := token.DecodeInstruction(metas, in.Data)
		if err != nil {
			return "", nil // of Token-2022, or no instruction
		}
		signers := func(all []*solana.AccountMeta) (out []string) {
			out = []string{}
			for _, m := range all {
				out = append(out, name(m))
			}
			return out
		}
		switch d := decoded.Impl.(type) {
		case *token.Approve:
			return "spl_approvals", chain.Struct{"from": name(d.GetSourceAccount()), "delegate": name(d.GetDelegateAccount()), "amount": *d.Amount,
				"owner": name(d.GetOwnerAccount()), "signers": signers(d.Signers), "token_mint": ""}
		case *token.ApproveChecked:
			return "spl_approvals", chain.Struct{"from": name(d.GetSourceAccount()), "delegate": name(d.GetDelegateAccount()), "amount": *d.Amount,
				"owner": name(d.GetOwnerAccount()), "signers": signers(d.Signers), "token_mint": name(d.GetMintAccount())}
		case *token.Burn:
			return "spl_burns", chain.Struct{"from": name(d.GetSourceAccount()), "amount": *d.Amount, "owner": name(d.GetOwnerAccount()), "signers": signers(d.Signers),
				"token_mint": name(d.GetMintAccount())}
		case *token.BurnChecked:
			return "spl_burns", chain.Struct{"from": name(d.GetSourceAccount()), "amount": *d.Amount, "owner": name(d.GetOwnerAccount()), "signers": signers(d.Signers),
				"token_mint": name(d.GetMintAccount())}
		case *token.CloseAccount:
			return "spl_closes", chain.Struct{"account": name(d.GetAccount()), "to": name(d.GetDestinationAccount()), "owner": name(d.GetOwnerAccount()), "signers": signers(d.Signers)}
		case *token.SetAuthority:
			to, kinds := "", []string{"MINT_TOKENS", "FREEZE_ACCOUNT", "ACCOUNT_OWNER", "CLOSE_ACCOUNT"}
			if d.NewAuthority != nil {
				to = d.NewAuthority.String()
			}
			if int(*d.AuthorityType) >= len(kinds) {
				return "spl_authorities", nil // of Token-2022: solana-go has no name for it
			}
			return "spl_authorities", chain.Struct{"account": name(d.GetSubjectAccount()), "type": kinds[*d.AuthorityType], "authority": to,
				"owner": name(d.GetAuthorityAccount()), "signers": signers(d.Signers)}
		}
	}
	return "", nil
}

func keysOf(ks solana.PublicKeySlice) (out []string) {
	for _, k := range ks {
		out = append(out, k.String())
	}
	return out
}

func numbersOf(b []byte) []any {
	out := []any{}
	for _, n := range b {
		out = append(out, int64(n))
	}
	return out
}

// solanaMaker makes transactions at random, among few keys.
type solanaMaker struct {
	*rand.Rand
	keys    []ed25519.PrivateKey
	publics []solana.PublicKey
}

func newSolanaMaker(seed uint64) *solanaMaker {
	m := &solanaMaker{Rand: rand.New(rand.NewPCG(seed, 5))}
	for i := range 24 {
		k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, 32))
		m.keys, m.publics = append(m.keys, k), append(m.publics, solana.PublicKeyFromBytes(k.Public().(ed25519.PublicKey)))
	}
	return m
}

func (m *solanaMaker) key() solana.PublicKey { return m.publics[m.IntN(len(m.publics))] }

func (m *solanaMaker) bytes(most int) []byte {
	b := make([]byte, m.IntN(most+1))
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	return b
}

func (m *solanaMaker) seed() string { return strings.Repeat("s", m.IntN(33)) }

func (m *solanaMaker) system() solana.Instruction {
	k, n := m.key, m.Uint64
	switch m.IntN(12) {
	case 0:
		return system.NewCreateAccountInstruction(n(), n(), k(), k(), k()).Build()
	case 1:
		return system.NewAssignInstruction(k(), k()).Build()
	case 2:
		return system.NewTransferInstruction(n(), k(), k()).Build()
	case 3:
		return system.NewCreateAccountWithSeedInstruction(k(), m.seed(), n(), n(), k(), k(), k(), k()).Build()
	case 4:
		return system.NewAdvanceNonceAccountInstruction(k(), k(), k()).Build()
	case 5:
		return system.NewWithdrawNonceAccountInstruction(n(), k(), k(), k(), k(), k()).Build()
	case 6:
		return system.NewInitializeNonceAccountInstruction(k(), k(), k(), k()).Build()
	case 7:
		return system.NewAuthorizeNonceAccountInstruction(k(), k(), k()).Build()
	case 8:
		return system.NewAllocateInstruction(n(), k()).Build()
	case 9:
		return system.NewAllocateWithSeedInstruction(k(), m.seed(), n(), k(), k(), k()).Build()
	case 10:
		return system.NewAssignWithSeedInstruction(k(), m.seed(), k(), k(), k()).Build()
	}
	return system.NewTransferWithSeedInstruction(n(), m.seed(), k(), k(), k(), k()).Build()
}

func (m *solanaMaker) accounts(n int) (out solana.AccountMetaSlice) {
	for range n {
		out = append(out, solana.NewAccountMeta(m.key(), m.IntN(2) == 0, m.IntN(4) == 0))
	}
	return out
}

func (m *solanaMaker) token() solana.Instruction {
	program, amount := solana.TokenProgramID, binary.LittleEndian.AppendUint64(nil, m.Uint64())
	if m.IntN(2) == 0 {
		program = solana.Token2022ProgramID
	}
	switch m.IntN(10) {
	case 0:
		return solana.NewInstruction(program, m.accounts(3+m.IntN(3)), append([]byte{3}, amount...))
	case 1:
		return solana.NewInstruction(program, m.accounts(4+m.IntN(3)), append(append([]byte{12}, amount...), 6))
	case 2:
		return solana.NewInstruction(program, m.accounts(4+m.IntN(3)), append(append(append([]byte{26, 1}, amount...), 6), amount...))
	case 3:
		return solana.NewInstruction(program, m.accounts(3+m.IntN(3)), append([]byte{byte(4 + 4*m.IntN(2))}, amount...)) // Approve, Burn
	case 4:
		return solana.NewInstruction(program, m.accounts(4+m.IntN(3)), append(append([]byte{byte(13 + 2*m.IntN(2))}, amount...), 6))
	case 5:
		return solana.NewInstruction(program, m.accounts(3+m.IntN(3)), []byte{9})
	case 6:
		return solana.NewInstruction(program, m.accounts(2+m.IntN(3)), append([]byte{6, byte(m.IntN(4)), 1}, m.key().Bytes()...))
	case 7:
		return solana.NewInstruction(program, m.accounts(2+m.IntN(3)), []byte{6, byte(m.IntN(4)), 0})
	}
	return solana.NewInstruction(program, m.accounts(m.IntN(4)), append([]byte{byte(10 + m.IntN(2))}, m.bytes(20)...))
}

// transaction is whole, unsigned; of version 0 every other time.
func (m *solanaMaker) transaction(t *testing.T) *solana.Transaction {
	t.Helper()
	b := solana.NewTransactionBuilder().SetFeePayer(m.publics[0]).SetRecentBlockHash(solana.Hash(m.key()))
	for range 1 + m.IntN(4) {
		switch m.IntN(3) {
		case 0:
			b.AddInstruction(m.system())
		case 1:
			b.AddInstruction(m.token())
		default:
			b.AddInstruction(solana.NewInstruction(solana.PublicKey{9, byte(m.IntN(3))}, m.accounts(m.IntN(10)), m.bytes(200)))
		}
	}
	if m.IntN(2) == 0 {
		tables := map[solana.PublicKey]solana.PublicKeySlice{}
		for i := range 1 + m.IntN(3) {
			tables[solana.PublicKey{8, byte(i)}] = m.publics[10+4*i : 14+4*i]
		}
		b.WithOpt(solana.TransactionAddressTables(tables))
	}
	tx, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// What solana-go makes we take, if it fits into a packet, and read as it does; and
// what we sign it verifies.
func TestSolanaTransactions(t *testing.T) {
	m := newSolanaMaker(1)
	taken, large, v0 := 0, 0, 0
	for range 3000 {
		tx := m.transaction(t)
		raw, err := tx.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > 1232 {
			large++
			continue
		}
		if !solanaJudge(t, raw) {
			_, err := sol.Signers(raw)
			t.Fatalf("%v: %x", err, raw)
		}
		taken++
		if tx.Message.IsVersioned() {
			v0++
		}
		if taken%20 != 0 {
			continue
		}
		signers, _ := sol.Signers(raw)
		for i, s := range signers {
			one, err := sol.Chain{}.Read(raw, solanaSigner(s.Address))
			if err != nil {
				t.Fatal(err)
			}
			var k ed25519.PrivateKey
			for j := range m.publics {
				if m.publics[j].String() == s.Address {
					k = m.keys[j]
				}
			}
			made := ed25519.Sign(k, one.Digests()[0].Message)
			if raw, err = one.Assemble([]chain.Signature{{R: [32]byte(made[:32]), S: [32]byte(made[32:])}}); err != nil {
				t.Fatal(i, err)
			}
		}
		signed, err := solana.TransactionFromBytes(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !tx.Message.IsVersioned() || tx.Message.NumLookups() == 0 { // otherwise it wants the tables
			if err := signed.VerifySignatures(); err != nil {
				t.Fatal(err)
			}
		}
		if id, err := sol.Signature(raw); err != nil || id != signed.Signatures[0].String() {
			t.Fatal(id, err)
		}
	}
	t.Logf("%d taken, %d of them version 0; %d too large", taken, v0, large)
	if v0 < 500 || taken-v0 < 500 {
		t.Error("too few of a kind")
	}
}

// Changed at random, a transaction is refused or read as solana-go reads it.
func TestSolanaMutations(t *testing.T) {
	m := newSolanaMaker(2)
	taken, refused := 0, 0
	for range 1500 {
		good, err := m.transaction(t).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			raw := bytes.Clone(good)
			slots := 1 + 64*int(raw[0])
			for range 1 + m.IntN(2) {
				at := slots + m.IntN(len(raw)-slots)
				switch m.IntN(4) {
				case 0:
					raw[at] = byte(m.Uint32())
				case 1:
					raw[at] ^= 1 << m.IntN(8)
				case 2:
					raw = append(raw[:at], raw[at+1:]...)
				default:
					raw = append(raw[:at], append([]byte{byte(m.IntN(4))}, raw[at:]...)...)
				}
			}
			if solanaJudge(t, raw) {
				taken++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d taken, %d refused", taken, refused)
	if taken < 1000 || refused < 1000 {
		t.Error("one side is empty")
	}
}

func FuzzSolana(f *testing.F) {
	m := newSolanaMaker(3)
	for range 20 {
		raw, err := m.transaction(&testing.T{}).MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { solanaJudge(t, raw) })
}

// What Borsh of another make writes of Go values we read as those values.
func TestSolanaBorsh(t *testing.T) {
	type leg struct {
		Mint    solana.PublicKey
		Weights [3]uint16
		Memo    *string `bin:"optional"`
	}
	type args struct {
		A uint8
		B int8
		C uint16
		D int16
		E uint32
		F int32
		G uint64
		H int64
		I bin.Uint128
		J bool
		K string
		L []byte
		M []leg
		N *leg `bin:"optional"`
	}
	const text = `{"instructions":[{"name":"go","discriminator":[1],"accounts":[],"args":[{"name":"x","type":{"defined":{"name":"Args"}}}]}],"types":[
		{"name":"Leg","type":{"kind":"struct","fields":[{"name":"Mint","type":"pubkey"},{"name":"Weights","type":{"array":["u16",3]}},
		{"name":"Memo","type":{"option":"string"}}]}},
		{"name":"Args","type":{"kind":"struct","fields":[{"name":"A","type":"u8"},{"name":"B","type":"i8"},{"name":"C","type":"u16"},{"name":"D","type":"i16"},
		{"name":"E","type":"u32"},{"name":"F","type":"i32"},{"name":"G","type":"u64"},{"name":"H","type":"i64"},{"name":"I","type":"u128"},{"name":"J","type":"bool"},
		{"name":"K","type":"string"},{"name":"L","type":"bytes"},{"name":"M","type":{"vec":{"defined":{"name":"Leg"}}}},
		{"name":"N","type":{"option":{"defined":{"name":"Leg"}}}}]}}]}`
	d, err := sol.Chain{}.Describe(text)
	if err != nil {
		t.Fatal(err)
	}
	m := newSolanaMaker(4)
	legOf := func() leg {
		l := leg{Mint: m.key(), Weights: [3]uint16{uint16(m.Uint32()), 0, 1}}
		if m.IntN(2) == 0 {
			s := m.seed()
			l.Memo = &s
		}
		return l
	}
	plain := func(l leg) any {
		weights := []any{uint64(l.Weights[0]), uint64(l.Weights[1]), uint64(l.Weights[2])}
		out := chain.Map{"Mint": l.Mint.String(), "Weights": weights, "Memo": nil}
		if l.Memo != nil {
			out["Memo"] = *l.Memo
		}
		return out
	}
	for range 500 {
		v := args{uint8(m.Uint32()), int8(m.Uint32()), uint16(m.Uint32()), int16(m.Uint32()), m.Uint32(), int32(m.Uint32()), m.Uint64(), int64(m.Uint64()),
			bin.Uint128{Lo: m.Uint64(), Hi: m.Uint64()}, m.IntN(2) == 0, m.seed(), m.bytes(50), nil, nil}
		legs := []any{}
		for range m.IntN(4) {
			v.M = append(v.M, legOf())
			legs = append(legs, plain(v.M[len(v.M)-1]))
		}
		want := chain.Map{"A": uint64(v.A), "B": int64(v.B), "C": uint64(v.C), "D": int64(v.D), "E": uint64(v.E), "F": int64(v.F), "G": v.G, "H": v.H,
			"I": new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(v.I.Hi), 64), new(big.Int).SetUint64(v.I.Lo)),
			"J": v.J, "K": v.K, "L": chain.Hex(fmt.Sprintf("%x", v.L)), "M": legs, "N": nil}
		if m.IntN(2) == 0 {
			l := legOf()
			v.N = &l
			want["N"] = plain(l)
		}
		data, err := bin.MarshalBorsh(v)
		if err != nil {
			t.Fatal(err)
		}
		call := solana.NewInstruction(solana.PublicKey{9}, nil, append([]byte{1}, data...))
		tx, err := solana.NewTransaction([]solana.Instruction{call}, solana.Hash{1}, solana.TransactionPayer(m.publics[0]))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := tx.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		ours, err := sol.Chain{}.Read(raw, solanaSigner(m.publics[0].String()))
		if err != nil {
			t.Fatal(err)
		}
		facts, err := ours.Facts(func(string) (chain.Description, error) { return d, nil })
		if err != nil {
			t.Fatal(err)
		}
		parsed, ok := facts["instructions"].([]any)[0].(chain.Struct)["parsed_instruction_data"].(chain.Struct)
		if !ok {
			t.Fatalf("not decoded: %x", data)
		}
		if got := parsed["program_call_args"].(chain.Dynamic).Value.(chain.Map)["x"]; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
	}
}
