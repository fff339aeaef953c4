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
