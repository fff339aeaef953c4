package sol_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
)

// documentOf shows a transaction that account 1 signs. A program may stand in the place of account 9.
func documentOf(t *testing.T, d draft, program string) string {
	t.Helper()
	return documentFor(t, d, program, nil)
}

// documentFor is documentOf in an organization that has more accounts.
func documentFor(t *testing.T, d draft, program string, own map[number]show.Ownership) string {
	t.Helper()
	raw := d.bytes()
	if program != "" {
		key, err := base58.Decode(program)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.ReplaceAll(raw, number(9).key(), key)
	}
	by := signerOf(t, number(1).name())
	tx, err := sol.Chain{}.Read(raw, by)
	if err != nil {
		t.Fatal(err)
	}
	v := show.New(&show.Known{Signer: by, Own: func(address string) (show.Ownership, error) {
		for n, is := range own {
			if n.name() == address {
				return is, nil
			}
		}
		return show.NotOwn, nil
	}})
	if err := tx.(show.Transaction).Show(v, v.Part()); err != nil {
		t.Fatal(err)
	}
	return string(v.Document(show.Header{}).Text())
}

// Of an account that a table on the chain holds nobody can say whether it is new.
func TestMintToAccountOfTable(t *testing.T) {
	mint := draft{header: [3]byte{1, 0, 1}, keys: []number{1, 2, 9}, v0: true,
		calls:  []call{{2, []byte{1, 3, 0}, append([]byte{7}, le64(5)...)}},
		tables: []table{{7, []byte{10}, nil}}}
	const tokens = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
	if s := documentOf(t, mint, tokens); !strings.Contains(s, `"function":"MintTo"`) || !strings.Contains(s, `"LOOKUP_ACCOUNTS"`) || strings.Contains(s, "ADDRESS_NEW") {
		t.Error(s)
	}
	mint.v0, mint.tables, mint.calls[0].accounts = false, nil, []byte{0, 1, 0}
	if s := documentOf(t, mint, tokens); !strings.Contains(s, `"code":"ADDRESS_NEW","severity":"INFO","at":["parts.0.calls.0.accounts"]`) {
		t.Error(s)
	}
}

// What leaves the account is a sum, and no less than what is sent.
func TestSpentIsASum(t *testing.T) {
	twice := payment.with(func(d *draft) {
		d.calls = []call{{2, []byte{0, 1}, system(2, le64(math.MaxUint64))}, {2, []byte{0, 1}, system(2, le64(5))}}
	})
	if s := documentOf(t, twice, ""); !strings.Contains(s, `"spent":{"value":"18446744073709556620"`) {
		t.Error(s)
	}
}

// Lamports that leave for somebody else count, whatever holds them; where only the chain knows how many, a warning says so.
func TestLamportsThatLeave(t *testing.T) {
	const tokens, stake, loader, systems = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "Stake11111111111111111111111111111111111111", "BPFLoaderUpgradeab1e11111111111111111111111", ""
	all := `{"code":"WHOLE_BALANCE","severity":"WARN","at":["parts.0.calls.0.to"]`
	withdraw := system(4, le64(700))
	for _, c := range []struct {
		name, program string
		own           show.Ownership // of account 2, which receives
		accounts      []byte
		data          []byte
		spent         string
		has           string
	}{
		{"close an account for a stranger", tokens, show.NotOwn, []byte{2, 1, 0}, []byte{9}, `"spent":{"value":"5000","unit":"lamport","text":"0.000005","symbol":"SOL","symbolSource":"BUILTIN","atLeast":true}`, all},
		{"close an account for an own one", tokens, show.Own, []byte{2, 1, 0}, []byte{9}, `"spent":{"value":"5000","unit":"lamport","text":"0.000005","symbol":"SOL","symbolSource":"BUILTIN"}`, ""},
		{"close an account for the signer", tokens, show.NotOwn, []byte{2, 0, 0}, []byte{9}, `"symbolSource":"BUILTIN"}`, ""},
		{"close an account for an own one whose key was outside", tokens, show.OwnKeyOutside, []byte{2, 1, 0}, []byte{9}, `"atLeast":true}`, all},
		{"close a buffer for a stranger", loader, show.NotOwn, []byte{2, 1, 0}, le32(5), `"atLeast":true}`, `{"code":"WHOLE_BALANCE","severity":"WARN","at":["parts.0.calls.0.accounts"]`},
		{"close a buffer for an own account", loader, show.Own, []byte{2, 1, 0}, le32(5), `"symbolSource":"BUILTIN"}`, ""},
		{"take out of a stake for a stranger", stake, show.NotOwn, []byte{2, 1, 3, 3, 0}, withdraw, `"spent":{"value":"5700"`, "ADDRESS_NEW"},
		{"take out of a stake for an own account", stake, show.Own, []byte{2, 1, 3, 3, 0}, withdraw, `"spent":{"value":"5000"`, ""},
		{"take out of a stake for an own account whose key was outside", stake, show.OwnKeyOutside, []byte{2, 1, 3, 3, 0}, withdraw, `"spent":{"value":"5700"`, "OWN_KEY_OUTSIDE"},
		{"split a stake", stake, show.NotOwn, []byte{2, 1, 0}, system(3, le64(700)), `"spent":{"value":"5000"`, ""},
		{"take out of a nonce for a stranger", systems, show.NotOwn, []byte{2, 1, 3, 3, 0}, system(5, le64(700)), `"spent":{"value":"5700"`, ""},
		{"take out of a nonce for an own account", systems, show.Own, []byte{2, 1, 3, 3, 0}, system(5, le64(700)), `"spent":{"value":"5000"`, ""},
		{"send from a derived account to a stranger", systems, show.NotOwn, []byte{2, 0, 1}, system(11, le64(700), seed("s"), number(8).key()), `"spent":{"value":"5700"`, ""},
		{"send to a stranger", systems, show.NotOwn, []byte{0, 1}, system(2, le64(700)), `"spent":{"value":"5700"`, ""},
		{"send to an own account whose key was outside", systems, show.OwnKeyOutside, []byte{0, 1}, system(2, le64(700)), `"spent":{"value":"5700"`, "OWN_KEY_OUTSIDE"},
		{"send to an own account", systems, show.Own, []byte{0, 1}, system(2, le64(700)), `"spent":{"value":"5000"`, ""},
	} {
		program := number(9)
		if c.program == systems {
			program = 0 // the System program's address
		}
		d := draft{header: [3]byte{1, 0, 1}, keys: []number{1, 2, 3, 4, program}, calls: []call{{4, c.accounts, c.data}}}
		s := documentFor(t, d, c.program, map[number]show.Ownership{2: c.own})
		if !strings.Contains(s, c.spent) || !strings.Contains(s, c.has) || c.has == "" && c.own != show.NotOwn && !strings.Contains(s, `"severity":"`+map[bool]string{true: "DANGER", false: "NONE"}[c.program == loader]+`"`) {
			t.Errorf("%s: want %s and %s in %s", c.name, c.spent, c.has, s)
		}
		if strings.Contains(s, "WHOLE_BALANCE") != strings.Contains(c.has, "WHOLE_BALANCE") || strings.Contains(s, "atLeast") != strings.Contains(c.has, "WHOLE_BALANCE") {
			t.Errorf("%s: whole balance or not: %s", c.name, s)
		}
	}
}

// tokenAccount is the associated account for an owner's tokens of a mint.
func tokenAccount(t *testing.T, owner, mint number) []byte {
	t.Helper()
	key := func(text string) []byte {
		b, err := base58.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seeds := slices.Concat(owner.key(), key("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"), mint.key())
	for bump := 255; bump >= 0; bump-- {
		account := sha256.Sum256(slices.Concat(seeds, []byte{byte(bump)}, key("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"), []byte("ProgramDerivedAddress")))
		if _, err := new(edwards25519.Point).SetBytes(account[:]); err != nil {
			return account[:]
		}
	}
	t.Fatal("no account")
	return nil
}

// Whoever has labelled an account owns no token account that goes unnoticed.
func TestOwnersOfTokenAccounts(t *testing.T) {
	mint, owner := number(5), number(6)
	account := tokenAccount(t, owner, mint)
	for from, want := range map[string]bool{show.FromOrganization: false, show.FromInterface: true} {
		by := signerOf(t, number(1).name())
		d := draft{header: [3]byte{1, 0, 1}, keys: []number{1, 2, 3, mint, 9}, calls: []call{{4, []byte{1, 3, 2, 0}, append(append([]byte{12}, le64(7)...), 6)}}}
		program, err := base58.Decode("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
		if err != nil {
			t.Fatal(err)
		}
		raw := bytes.ReplaceAll(bytes.ReplaceAll(d.bytes(), number(9).key(), program), number(3).key(), account)
		tx, err := sol.Chain{}.Read(raw, by)
		if err != nil {
			t.Fatal(err)
		}
		v := show.New(&show.Known{Signer: by, Entries: []show.Entry{{Name: "Payroll", Address: owner.name(), From: from}}})
		if err := tx.(show.Transaction).Show(v, v.Part()); err != nil {
			t.Fatal(err)
		}
		s := string(v.Document(show.Header{}).Text())
		if !strings.Contains(s, `"toOwner":{"address":"`+owner.name()+`","label":"Payroll"`) || strings.Contains(s, `"ADDRESS_NEW","severity":"INFO","at":["parts.0.calls.0.toOwner"]`) != want {
			t.Errorf("%s: %s", from, s)
		}
	}
}

// The instructions of the Stake program that take a key along as a signer, which libraries do not make.
func TestStakeChecked(t *testing.T) {
	const program = "Stake11111111111111111111111111111111111111"
	of := func(accounts []byte, data []byte) string {
		return documentOf(t, draft{header: [3]byte{2, 1, 1}, keys: []number{1, 2, 3, 4, 9}, calls: []call{{4, accounts, data}}}, program)
	}
	signer := number(2).name()
	for what, c := range map[string]struct {
		accounts []byte
		data     []byte
		has, not string
	}{
		"a withdrawer":         {[]byte{2, 3, 0, 1}, system(10, le32(1)), `"function":"AuthorizeChecked","functionSource":"BUILTIN","account":{"address":"` + number(3).name() + `"},"authority":{"address":"` + number(1).name() + `"},"newAuthority":{"address":"` + signer + `"},"authorityType":"WITHDRAWER"`, "UNREAD"},
		"one by a seed":        {[]byte{2, 0, 3, 1}, system(11, le32(0), seed("s"), number(8).key()), `"authorityType":"STAKER","seed":"s","authorityOwner":"` + number(8).name() + `"`, "UNREAD"},
		"an account":           {[]byte{2, 3, 0, 1}, system(9), `"staker":{"address":"` + number(1).name() + `"},"withdrawer":{"address":"` + signer + `"}`, "CONTROL_CHANGE"},
		"a lockup":             {[]byte{2, 0}, system(6, []byte{0, 0, 0}), `"code":"CONTROL_CHANGE"`, `"readable":"FULL"`},
		"a role that is none":  {[]byte{2, 3, 0, 1}, system(10, le32(2)), `"reason":"UNKNOWN_INSTRUCTION"`, `"function"`},
		"a byte too many":      {[]byte{2, 3, 0}, system(5, []byte{0}), `"reason":"UNKNOWN_INSTRUCTION"`, `"function"`},
		"an account too few":   {[]byte{2, 3, 0}, system(10, le32(1)), `"reason":"UNKNOWN_INSTRUCTION"`, `"function"`},
		"a number to come":     {[]byte{2}, system(99), `"reason":"UNKNOWN_INSTRUCTION"`, `"function"`},
		"no number":            {[]byte{2}, []byte{1}, `"reason":"UNKNOWN_INSTRUCTION"`, `"function"`},
		"a seed without bytes": {[]byte{2, 0, 3, 1}, system(11, le32(0), le64(5)), `"reason":"UNKNOWN_INSTRUCTION"`, `"function"`},
	} {
		if s := of(c.accounts, c.data); !strings.Contains(s, c.has) || strings.Contains(s, c.not) {
			t.Errorf("%s: %s", what, s)
		}
	}
}

// The discriminators are those that Squads publishes in its IDL.
func TestSquads(t *testing.T) {
	const approve, execute, add, remove, propose = "9025a488bcd82af8", "c208a15799a419ab", "01dbd76cb8e5d608", "d975b1d2b691da48", "dc3c49e01e6c4f9f"
	member := number(8)
	note := append([]byte{1}, append(le32(5), "\u202etx"...)...)
	for what, c := range map[string]struct {
		discriminator string
		data          []byte
		has           []string
		not           string
	}{
		"a vote":                   {approve, []byte{0}, []string{`"function":"ProposalApprove"`, `"code":"BLIND","severity":"DANGER","at":["parts.0.calls.0"]`, `{"name":"memo","absent":true}`}, "UNREAD"},
		"a vote with a note":       {approve, note, []string{`{"name":"memo","value":"\\u{202E}tx"}`, "TEXT_BIDI"}, "UNREAD"},
		"a member who is there":    {remove, append(member.key(), 0), []string{`"code":"CONTROL_CHANGE"`, `{"name":"oldMember","address":"` + member.name() + `"}`}, "ADDRESS_NEW"},
		"what is stored":           {execute, nil, []string{`"function":"VaultTransactionExecute"`, `"code":"BLIND"`}, "UNREAD"},
		"a member":                 {add, append(append(member.key(), 7), 0), []string{`"code":"CONTROL_CHANGE"`, `{"name":"newMember","members":[{"name":"key","address":"` + member.name() + `"},{"name":"permissions","value":"INITIATE, VOTE, EXECUTE"}]}`, `"at":["parts.0.calls.0.args.newMember.members.key"]`}, "UNREAD"},
		"a proposal":               {propose, append(le64(5), 1), []string{`{"name":"transactionIndex","value":"5"},{"name":"draft","value":true}`}, "UNREAD"},
		"a byte too many":          {propose, append(le64(5), 1, 0), []string{`"reason":"DOES_NOT_DECODE"`}, `"args"`},
		"a truth that is none":     {propose, append(le64(5), 2), []string{`"reason":"DOES_NOT_DECODE"`}, `"args"`},
		"a note longer than it is": {approve, []byte{1, 255, 255, 255, 255, 0}, []string{`"reason":"DOES_NOT_DECODE"`, `"code":"BLIND"`}, `"args"`},
		"another instruction":      {"0000000000000000", nil, []string{`"reason":"UNKNOWN_INSTRUCTION"`}, `"function"`},
	} {
		s := squadsDocument(t, c.discriminator, c.data)
		for _, want := range c.has {
			if !strings.Contains(s, want) {
				t.Errorf("%s: no %s in %s", what, want, s)
			}
		}
		if strings.Contains(s, c.not) {
			t.Errorf("%s: %s in %s", what, c.not, s)
		}
	}
}

// squadsDocument shows a call of Squads with accounts 1 and 2.
func squadsDocument(t *testing.T, discriminator string, data []byte) string {
	t.Helper()
	return documentOf(t, draft{header: [3]byte{1, 0, 1}, keys: []number{1, 2, 9}, calls: []call{{2, []byte{0, 1}, append(unhex(t, discriminator), data...)}}},
		"SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf")
}

// short puts a length of one byte before bytes, as Squads writes lists.
func short(b ...byte) []byte { return append([]byte{byte(len(b))}, b...) }

// storedBytes are a draft's instructions as Squads stores them. The header counts signers, those of them that are written to, and
// the others that are.
func storedBytes(d draft) []byte {
	b := append(slices.Clone(d.header[:]), byte(len(d.keys)))
	for _, k := range d.keys {
		b = append(b, k.key()...)
	}
	b = append(b, byte(len(d.calls)))
	for _, c := range d.calls {
		b = append(append(b, c.program), short(c.accounts...)...)
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(c.data))), c.data...)
	}
	b = append(b, byte(len(d.tables)))
	for _, t := range d.tables {
		b = append(append(append(b, t.key.key()...), short(t.writable...)...), short(t.readonly...)...)
	}
	return append(b, d.afterward...)
}

const vaultTransactionCreate, batchAddTransaction = "30fa4ea8d0e2dad3", "5964e0124546364c"

// proposing is the data of a VaultTransactionCreate after its discriminator, without a memo.
func proposing(stored []byte) []byte {
	return slices.Concat([]byte{0, 0}, le32(uint32(len(stored))), stored, []byte{0})
}

// An approver sees what a multisig is to run as he sees a transaction's own instructions. What cannot be read exactly is not shown
// in part.
func TestSquadsStored(t *testing.T) {
	transfer := func(lamports uint64) []byte { return system(2, le64(lamports)) }
	pays := draft{header: [3]byte{1, 1, 1}, keys: []number{5, 6, 0}, calls: []call{{2, []byte{0, 1}, transfer(7)}}}
	table := pays.with(func(d *draft) {
		d.keys, d.tables = []number{5, 0}, []table{{7, []byte{4, 9}, []byte{3}}}
		d.header, d.calls = [3]byte{1, 1, 0}, []call{{1, []byte{0, 3}, transfer(7)}, {4, []byte{2}, []byte{1}}}
	})
	inner := func(change func(*draft)) []byte { return proposing(storedBytes(pays.with(change))) }
	whole := storedBytes(pays)
	const unread, exact = `"reason":"DOES_NOT_DECODE"`, `"calls":[{"program":{"address":"11111111111111111111111111111111","label":"System Program","labelSource":"BUILTIN"},"function":"Transfer","functionSource":"BUILTIN","from":{"address":"`
	for what, c := range map[string]struct {
		data []byte
		has  []string
		not  []string
	}{
		"a payment": {proposing(whole), []string{`"title":"Propose what a multisig is to do"`, `"readable":"FULL"`, exact + number(5).name() + `"},"to":{"address":"` + number(6).name() + `"},"amount":{"value":"7"`,
			`"at":["parts.0.calls.0.calls.0.to"]`, `"spent":{"value":"5000"`, `"vaultSource":"BUILTIN"`}, []string{"unreadable"}},
		"a payment of the signer's": {inner(func(d *draft) { d.keys[0] = 1 }), []string{`"from":{"address":"` + number(1).name() + `"}`, `"spent":{"value":"5000"`}, []string{"unreadable"}},
		"no instructions":           {inner(func(d *draft) { d.calls = nil }), []string{`"calls":[]`, `"readable":"FULL"`}, nil},
		"accounts of a table": {proposing(storedBytes(table)), []string{`"to":{"table":"` + number(7).name() + `","index":"9"}`, `"program":{"table":"` + number(7).name() + `","index":"3"}`, `"reason":"UNKNOWN_PROGRAM"`,
			`{"code":"LOOKUP_ACCOUNTS","severity":"WARN","at":["parts.0.calls.0.calls.0","parts.0.calls.0.calls.1"]`}, []string{"ADDRESS_NEW"}},
		"an unknown program":    {inner(func(d *draft) { d.keys[2] = 8 }), []string{`"reason":"UNKNOWN_PROGRAM"`, `"at":["parts.0.calls.0.calls.0.program"]`, `"readable":"PARTIAL"`}, nil},
		"who controls":          {inner(func(d *draft) { d.calls[0].data = system(1, number(8).key()) }), []string{`{"code":"CONTROL_CHANGE","severity":"DANGER","at":["parts.0.calls.0.calls.0"]`}, nil},
		"a durable nonce":       {inner(func(d *draft) { d.calls[0].data = system(4) }), []string{`"function":"AdvanceNonceAccount"`}, []string{"DURABLE_NONCE"}},
		"a number to come":      {inner(func(d *draft) { d.calls[0].data = system(99) }), []string{unread, `"calls":[{"program"`}, []string{"Transfer"}},
		"half an amount":        {inner(func(d *draft) { d.calls[0].data = transfer(7)[:9] }), []string{unread, `"calls":[{"program"`}, []string{"Transfer"}},
		"no account to pay":     {inner(func(d *draft) { d.calls[0].accounts = []byte{0} }), []string{unread, `"calls":[{"program"`}, []string{"Transfer"}},
		"bytes that follow":     {inner(func(d *draft) { d.afterward = []byte{0} }), []string{unread}, []string{`"calls":[{"program":{"address":"1111`}},
		"bytes behind the memo": {append(proposing(whole), 0), []string{unread}, []string{`"args"`}},
		"a length too great":    {slices.Concat([]byte{0, 0}, le32(uint32(len(whole)+2)), whole, []byte{0}), []string{unread}, []string{`"args"`}},
		"an account too far":    {inner(func(d *draft) { d.calls[0].accounts = []byte{0, 3} }), []string{unread}, []string{"Transfer"}},
		"a program too far":     {inner(func(d *draft) { d.calls[0].program = 3 }), []string{unread}, []string{"Transfer"}},
		"a place too far":       {proposing(storedBytes(table.with(func(d *draft) { d.calls[0].accounts = []byte{0, 5} }))), []string{unread}, []string{"Transfer"}},
		"too many signers":      {inner(func(d *draft) { d.header = [3]byte{4, 1, 0} }), []string{unread}, []string{"Transfer"}},
		"more who are written":  {inner(func(d *draft) { d.header = [3]byte{1, 2, 0} }), []string{unread}, []string{"Transfer"}},
		"others who are none":   {inner(func(d *draft) { d.header = [3]byte{1, 1, 3} }), []string{unread}, []string{"Transfer"}},
		"no bytes":              {proposing(nil), []string{unread}, []string{"Transfer"}},
		"a proposal in it": {proposing(storedBytes(pays.with(func(d *draft) {
			d.keys[2], d.calls[0].data = 9, append(unhex(t, vaultTransactionCreate), proposing(whole)...)
		}))), []string{`"reason":"TOO_DEEP"`, `{"code":"LIMIT","severity":"DANGER","at":["parts.0.calls.0.calls.0.args.transactionMessage"]`, `"readable":"PARTIAL"`}, []string{"Transfer"}},
		"more than are read": {inner(func(d *draft) { d.calls = slices.Repeat([]call{{2, []byte{0, 1}, system(4)}}, 70) }), []string{`{"code":"LIMIT","severity":"DANGER","at":["parts.0.calls.0.calls"]`, `"reason":"TOO_MUCH"`}, nil},
	} {
		s := squadsDocument(t, vaultTransactionCreate, c.data)
		for _, want := range c.has {
			if !strings.Contains(s, want) {
				t.Errorf("%s: no %s in %s", what, want, s)
			}
		}
		for _, not := range c.not {
			if strings.Contains(s, not) {
				t.Errorf("%s: %s in %s", what, not, s)
			}
		}
	}
	// Short of any byte they are not read.
	for n := range len(whole) {
		if s := squadsDocument(t, vaultTransactionCreate, proposing(whole[:n])); !strings.Contains(s, unread) || strings.Contains(s, "Transfer") {
			t.Errorf("%d bytes: %s", n, s)
		}
	}
	batch := slices.Concat([]byte{0}, le32(uint32(len(whole))), whole)
	if s := squadsDocument(t, batchAddTransaction, batch); !strings.Contains(s, exact) || strings.Contains(s, `"vault"`) {
		t.Error(s) // the chain knows of which vault the batch is
	}
	if s := squadsDocument(t, batchAddTransaction, append(batch, 0)); !strings.Contains(s, unread) || strings.Contains(s, "Transfer") {
		t.Error(s)
	}
}

// What changes who decides is read to the last byte, or not at all.
func TestSquadsSettings(t *testing.T) {
	const create, limit, config, collector = "32ddc75d28f58be9", "0bf29f2a56c55973", "9bec57e4894b5127", "30cc4139d2469c4a"
	member := append(number(8).key(), 2)
	made := slices.Concat([]byte{0, 2, 0}, le32(2), member, append(number(7).key(), 0), le32(60), []byte{0, 0})
	limited := func(mint number, period byte, destinations ...byte) []byte {
		return slices.Concat(number(3).key(), []byte{1}, mint.key(), le64(1_500_000_000), []byte{period}, le32(1), number(8).key(), destinations)
	}
	actions := func(all ...[]byte) []byte {
		return append(slices.Concat(le32(uint32(len(all))), slices.Concat(all...)), 0)
	}
	for what, c := range map[string]struct {
		discriminator string
		data          []byte
		has, not      string
	}{
		"a multisig":                  {create, made, `{"name":"configAuthority","absent":true},{"name":"threshold","value":"2"},{"name":"members","items":[{"members":[{"name":"key","address":"` + number(8).name() + `"},{"name":"permissions","value":"VOTE"}]},{"members":[{"name":"key","address":"` + number(7).name() + `"},{"name":"permissions","value":"0"}]}]},{"name":"timeLock","value":"60","unit":"s"},{"name":"rentCollector","absent":true},{"name":"memo","absent":true}]`, "UNREAD"},
		"a multisig and more":         {create, append(made, 0), `"reason":"DOES_NOT_DECODE"`, `"args"`},
		"half a multisig":             {create, made[:len(made)-1], `"reason":"DOES_NOT_DECODE"`, `"args"`},
		"more members than there are": {create, slices.Concat([]byte{0, 2, 0}, le32(1<<31-1), member), `"reason":"DOES_NOT_DECODE"`, `"args"`},
		"a collector":                 {collector, slices.Concat([]byte{1}, number(8).key(), []byte{0}), `"code":"ADDRESS_NEW"`, "UNREAD"},
		"a limit of SOL":              {limit, append(limited(0, 1, 0, 0, 0, 0), 0), `{"name":"mint","address":"11111111111111111111111111111111"},{"name":"amount","value":"1500000000","unit":"lamport","text":"1.5","symbol":"SOL","symbolSource":"BUILTIN"},{"name":"period","value":"Day"},{"name":"members","items":[{"address":"` + number(8).name() + `"}]},{"name":"destinations","value":"ANY"}`, "UNREAD"},
		"a limit of tokens":           {limit, append(limited(4, 0, slices.Concat(le32(1), number(6).key())...), 0), `{"name":"mint","address":"` + number(4).name() + `"},{"name":"amount","value":"1500000000"},{"name":"period","value":"OneTime"}`, `"ANY"`},
		"a period that is none":       {limit, append(limited(0, 4, 0, 0, 0, 0), 0), `"reason":"DOES_NOT_DECODE"`, `"args"`},
		"actions":                     {config, actions(slices.Concat([]byte{0}, member), []byte{2, 1, 0}, []byte{3, 0, 0, 0, 0}, append([]byte{4}, limited(0, 3, 0, 0, 0, 0)...), append([]byte{5}, number(3).key()...), []byte{6, 0}), `{"members":[{"name":"ChangeThreshold","members":[{"name":"newThreshold","value":"1"}]}]}`, "UNREAD"},
		"a permission to come":        {config, actions(slices.Concat([]byte{0}, number(8).key(), []byte{255})), `{"name":"permissions","value":"INITIATE, VOTE, EXECUTE, 248"}`, "UNREAD"},
		"no actions":                  {config, actions(), `"items":[]`, "UNREAD"},
		"an action that is none":      {config, actions([]byte{7}), `"reason":"DOES_NOT_DECODE"`, `"args"`},
		"an action too many":          {config, append(le32(2), 2, 1, 0, 0), `"reason":"DOES_NOT_DECODE"`, `"args"`},
	} {
		s := squadsDocument(t, c.discriminator, c.data)
		if !strings.Contains(s, c.has) || strings.Contains(s, c.not) || !strings.Contains(s, `"code":"CONTROL_CHANGE"`) {
			t.Errorf("%s: %s", what, s)
		}
	}
}
