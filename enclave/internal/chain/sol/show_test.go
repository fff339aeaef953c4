package sol_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
)

// documentOf shows a transaction that account 1 signs. A program may stand in the place of account 9.
func documentOf(t *testing.T, d draft, program string) string {
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
	v := show.New(&show.Known{Signer: by})
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
	const program = "SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf"
	const approve, create, execute, add, propose = "9025a488bcd82af8", "30fa4ea8d0e2dad3", "c208a15799a419ab", "01dbd76cb8e5d608", "dc3c49e01e6c4f9f"
	member := number(8)
	note := append([]byte{1}, append(le32(5), "\u202etx"...)...)
	for what, c := range map[string]struct {
		discriminator string
		data          []byte
		has           []string
		not           string
	}{
		"a vote":                     {approve, []byte{0}, []string{`"function":"ProposalApprove"`, `"code":"BLIND","severity":"DANGER","at":["parts.0.calls.0"]`, `{"name":"memo","absent":true}`}, "UNREAD"},
		"a vote with a note":         {approve, note, []string{`{"name":"memo","value":"\\u{202E}tx"}`, "TEXT_BIDI"}, "UNREAD"},
		"a proposal of instructions": {create, []byte{0, 0, 1, 0, 0, 0, 9, 0}, []string{`"function":"VaultTransactionCreate"`, `"code":"UNREAD"`, `"readable":"PARTIAL"`}, "BLIND"},
		"what is stored":             {execute, nil, []string{`"function":"VaultTransactionExecute"`, `"code":"BLIND"`}, "UNREAD"},
		"a member":                   {add, append(append(member.key(), 7), 0), []string{`"code":"CONTROL_CHANGE"`, `{"name":"newMember","address":"` + member.name() + `","permissions":"7"}`, "ADDRESS_NEW"}, "UNREAD"},
		"a proposal":                 {propose, append(le64(5), 1), []string{`{"name":"transactionIndex","value":"5"},{"name":"draft","value":true}`}, "UNREAD"},
		"a byte too many":            {propose, append(le64(5), 1, 0), []string{`"reason":"DOES_NOT_DECODE"`}, `"args"`},
		"a truth that is none":       {propose, append(le64(5), 2), []string{`"reason":"DOES_NOT_DECODE"`}, `"args"`},
		"a note longer than it is":   {approve, []byte{1, 255, 255, 255, 255, 0}, []string{`"reason":"DOES_NOT_DECODE"`, `"code":"BLIND"`}, `"args"`},
		"another instruction":        {"0000000000000000", nil, []string{`"reason":"UNKNOWN_INSTRUCTION"`}, `"function"`},
	} {
		data := append(unhex(t, c.discriminator), c.data...)
		s := documentOf(t, draft{header: [3]byte{1, 0, 1}, keys: []number{1, 2, 9}, calls: []call{{2, []byte{0, 1}, data}}}, program)
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
