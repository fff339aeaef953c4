package sol

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"cloister/enclave/internal/chain"
)

// The programs whose instructions are looked into.
var (
	systemProgram = key{}
	tokenProgram  = mustKey("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
	token2022     = mustKey("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
)

func mustKey(text string) key {
	account, err := ParseAddress(text)
	if err != nil {
		panic(err)
	}
	return account
}

// checkProgram refuses instruction number i if it is one of the System or token programs
// that policies could not be told about.
func checkProgram(i int, program key, in *instruction) error {
	switch program {
	case systemProgram:
		return checkSystem(i, in)
	case tokenProgram, token2022:
		return checkToken(i, in)
	}
	return nil
}

// The instructions of the System program, by number: how many accounts each needs, and its
// arguments. u is a number of 64 bits, k a key, s a seed of at most 32 bytes of UTF-8
// behind its length in 64 bits.
var system = [...]struct {
	name     string
	accounts int
	args     string
}{
	{"CreateAccount", 2, "uuk"},
	{"Assign", 1, "k"},
	systemTransfer: {"Transfer", 2, "u"},
	{"CreateAccountWithSeed", 2, "ksuuk"},
	systemAdvanceNonce: {"AdvanceNonceAccount", 2, ""},
	{"WithdrawNonceAccount", 4, "u"},
	{"InitializeNonceAccount", 3, "k"},
	{"AuthorizeNonceAccount", 1, "k"},
	{"Allocate", 1, "u"},
	{"AllocateWithSeed", 1, "ksuk"},
	{"AssignWithSeed", 1, "ksk"},
	{"TransferWithSeed", 3, "usk"},
	{"UpgradeNonceAccount", 1, ""},
	{"CreateAccountAllowPrefund", 1, "uuk"},
}

const (
	systemTransfer     = 2
	systemAdvanceNonce = 4
	maxSeed            = 32
)

func checkSystem(i int, in *instruction) error {
	if len(in.data) < 4 {
		return chain.Invalid("instruction %d has no number, as those of the System program do", i)
	}
	n := systemNumber(in)
	if n >= uint32(len(system)) {
		return chain.Unsupported("instruction %d is number %d of the System program", i, n)
	}
	s, rest := &system[n], in.data[4:]
	for _, arg := range s.args {
		size := sizeOf(arg, rest)
		if size < 0 {
			return chain.Invalid("instruction %d does not decode as %s of the System program", i, s.name)
		}
		rest = rest[size:]
	}
	switch {
	case len(rest) > 0:
		return chain.Invalid("instruction %d has %d bytes more than %s of the System program", i, len(rest), s.name)
	case len(in.accounts) < s.accounts:
		return chain.Invalid("instruction %d has %d accounts; %s of the System program needs %d", i, len(in.accounts), s.name, s.accounts)
	}
	return nil
}

// systemNumber is the number of an instruction of the System program that has one.
func systemNumber(in *instruction) uint32 { return binary.LittleEndian.Uint32(in.data) }

// transferAmount is what a Transfer moves, in lamports.
func transferAmount(in *instruction) uint64 { return binary.LittleEndian.Uint64(in.data[4:]) }

// sizeOf is how many bytes an argument takes of rest, or -1 if rest does not begin
// with one.
func sizeOf(arg rune, rest []byte) int {
	size := 8
	switch {
	case arg == 'k':
		size = keySize
	case arg == 's' && len(rest) >= 8:
		n := binary.LittleEndian.Uint64(rest)
		if n > min(maxSeed, uint64(len(rest)-8)) || !utf8.Valid(rest[8:8+n]) {
			return -1
		}
		size += int(n)
	}
	if size > len(rest) {
		return -1
	}
	return size
}

// tokenMove is a transfer of the token programs, and where it keeps what it says. The
// amount follows the prefix.
type tokenMove struct {
	name     string
	prefix   string // of the data
	size     int    // of the data
	mint, to int    // accounts; there is no mint at 0, where the source is
	owner    int    // the accounts after it are signers
}

var tokenMoves = []tokenMove{
	{name: "Transfer", prefix: "\x03", size: 9, to: 1, owner: 2},
	{name: "TransferChecked", prefix: "\x0c", size: 10, mint: 1, to: 2, owner: 3},
	{name: "TransferCheckedWithFee", prefix: "\x1a\x01", size: 19, mint: 1, to: 2, owner: 3}, // of Token-2022
}

// moveOf tells which transfer an instruction of the token programs is, if any.
// The bytes need not be as many as it has.
func moveOf(in *instruction) *tokenMove {
	for i := range tokenMoves {
		if m := &tokenMoves[i]; bytes.HasPrefix(in.data, []byte(m.prefix)) {
			return m
		}
	}
	return nil
}

// checkToken refuses transfers that do not decode, since the programs pass over
// bytes that follow, and instructions that hold others.
func checkToken(i int, in *instruction) error {
	const batch = 255
	if len(in.data) > 0 && in.data[0] == batch {
		return chain.Unsupported("instruction %d is a batch of a token program; send its instructions one by one", i)
	}
	if m := moveOf(in); m != nil && (len(in.data) != m.size || len(in.accounts) <= m.owner) {
		return chain.Invalid("instruction %d does not decode as %s of a token program", i, m.name)
	}
	return nil
}

func (m *tokenMove) amountOf(in *instruction) uint64 {
	return binary.LittleEndian.Uint64(in.data[len(m.prefix):])
}
