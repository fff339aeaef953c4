package sol

import (
	"slices"
	"strconv"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain/show"
)

// An ownerTable finds whose an associated token account is: the address follows from owner, mint and token program.
type ownerTable struct {
	view    *show.View
	owners  []string             // whose accounts are looked for first
	derived map[string][2]string // owner and mint, by account
	done    map[string]bool      // mints with their program
	left    *int                 // addresses that may still be derived
}

// maxDerived bounds the addresses that are derived for one transaction, with what it stores for later.
const maxDerived = 2048

// ownerOf finds the owner of an account of a mint among those who are known.
func (t *ownerTable) ownerOf(account, mint string, program key) (owner string, known bool) {
	if mint == "" || mint == lookedUp {
		return "", false
	}
	t.derive(mint, program, true)
	found, known := t.derived[account]
	return found[0], known && found[1] == mint
}

// find finds whether an account is one of the owners' for a mint of the operator's list.
func (t *ownerTable) find(account string, program key) (owner, mint string, known bool) {
	for _, mint := range t.view.Mints(listName) {
		t.derive(mint, program, false)
	}
	found, known := t.derived[account]
	return found[0], found[1], known
}

func (t *ownerTable) derive(mint string, program key, everybody bool) {
	done := mint + program.String() + strconv.FormatBool(everybody)
	if t.done[done] {
		return
	}
	if t.done == nil {
		t.done, t.derived = map[string]bool{}, map[string][2]string{}
	}
	t.done[done] = true
	of, err := ParseAddress(mint)
	if err != nil {
		return
	}
	owners := t.owners
	if everybody {
		owners = slices.Concat(owners, t.view.Addresses())
	}
	for _, owner := range owners {
		who, err := ParseAddress(owner)
		if err != nil {
			continue
		}
		if *t.left--; *t.left < 0 {
			return
		}
		if account, ok := tokenAccountOf(who, program, of); ok {
			t.derived[base58.Encode(account[:])] = [2]string{owner, mint}
		}
	}
}

var tokenAccountProgram = mustKey("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")

// tokenAccountOf is the account that a wallet's tokens of a mint lie in, unless they were put elsewhere on purpose.
func tokenAccountOf(owner, program, mint [32]byte) ([32]byte, bool) {
	return programAddress(tokenAccountProgram, owner[:], program[:], mint[:])
}
