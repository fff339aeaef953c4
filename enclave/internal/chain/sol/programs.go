package sol

import (
	"bytes"
	"encoding/binary"
	"strconv"
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

// A systemInstruction is one of the System program: how many accounts it needs, and its arguments. u is a number of 64 bits,
// k a key, s a seed of at most 32 bytes of UTF-8 behind its length in 64 bits.
type systemInstruction struct {
	name     string
	accounts int
	args     string
	// moves tells between which accounts lamports go: as many as the argument that is the first number.
	moves    bool
	from, to int
	// hands is the authority that the last key gets over the first account, if any.
	hands string
}

// The instructions of the System program, by number.
var system = [...]systemInstruction{
	{name: "CreateAccount", accounts: 2, args: "uuk", moves: true, from: 0, to: 1},
	{name: "Assign", accounts: 1, args: "k", hands: ownerProgram},
	{name: "Transfer", accounts: 2, args: "u", moves: true, from: 0, to: 1},
	{name: "CreateAccountWithSeed", accounts: 2, args: "ksuuk", moves: true, from: 0, to: 1},
	systemAdvanceNonce: {name: "AdvanceNonceAccount", accounts: 2},
	{name: "WithdrawNonceAccount", accounts: 4, args: "u", moves: true, from: 0, to: 1},
	{name: "InitializeNonceAccount", accounts: 3, args: "k"},
	{name: "AuthorizeNonceAccount", accounts: 1, args: "k", hands: "NONCE"},
	{name: "Allocate", accounts: 1, args: "u"},
	{name: "AllocateWithSeed", accounts: 1, args: "ksuk"},
	{name: "AssignWithSeed", accounts: 1, args: "ksk", hands: ownerProgram},
	{name: "TransferWithSeed", accounts: 3, args: "usk", moves: true, from: 0, to: 2},
	{name: "UpgradeNonceAccount", accounts: 1},
	// The account may be one that is used already; nobody pays if there are no lamports.
	{name: "CreateAccountAllowPrefund", accounts: 1, args: "uuk", moves: true, from: 1, to: 0, hands: ownerProgram},
}

// ownerProgram is the authority of the program that owns an account: it may take the lamports.
const ownerProgram = "OWNER_PROGRAM"

const (
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
	case len(in.accounts) < s.accounts || s.moves && s.amount(in) > 0 && len(in.accounts) <= s.from:
		return chain.Invalid("instruction %d has %d accounts; %s of the System program needs %d", i, len(in.accounts), s.name, max(s.accounts, s.from+1))
	}
	return nil
}

// amount is how many lamports an instruction moves: its first number.
func (s *systemInstruction) amount(in *instruction) uint64 {
	rest := in.data[4:]
	for _, arg := range s.args {
		if arg == 'u' {
			break
		}
		rest = rest[sizeOf(arg, rest):]
	}
	return binary.LittleEndian.Uint64(rest)
}

// systemNumber is the number of an instruction of the System program that has one.
func systemNumber(in *instruction) uint32 { return binary.LittleEndian.Uint32(in.data) }

// moveOf tells between which of its accounts an instruction of the System program that decodes moves how many lamports.
func moveOf(in *instruction) (from, to int, lamports uint64, moves bool) {
	s := &system[systemNumber(in)]
	if !s.moves {
		return 0, 0, 0, false
	}
	lamports = s.amount(in)
	return s.from, s.to, lamports, lamports > 0 || len(in.accounts) > s.from // nobody pays where there is no account for it
}

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

// A tokenInstruction is one of the token programs that gives tokens away or lets others take them, and where it keeps what
// it says. An amount follows the prefix. Accounts are -1 where there is none; the first is what is acted on.
type tokenInstruction struct {
	name   string
	list   string // of the facts
	prefix string // of the data
	size   int    // of the data
	mint   int    // account
	to     int    // account: who receives, may take, or gets what an account closed holds
	owner  int    // account; those after it are signers
}

// The lists of the facts in which instructions of the System and token programs stand.
const (
	systemTransfers   = "transfers"
	systemAuthorities = "authorities" // who gets an account

	tokenTransfers   = "spl_transfers"
	tokenApprovals   = "spl_approvals"   // who may take what
	tokenAuthorities = "spl_authorities" // who gets an account or a mint
	tokenCloses      = "spl_closes"
	tokenBurns       = "spl_burns"
	tokenOthers      = "spl_others" // of which nothing is known but their bytes
)

var tokenInstructions = []tokenInstruction{
	{name: "Transfer", list: tokenTransfers, prefix: "\x03", size: 9, mint: -1, to: 1, owner: 2},
	{name: "Approve", list: tokenApprovals, prefix: "\x04", size: 9, mint: -1, to: 1, owner: 2},
	{name: "SetAuthority", list: tokenAuthorities, prefix: "\x06", mint: -1, to: -1, owner: 1}, // its size differs
	{name: "Burn", list: tokenBurns, prefix: "\x08", size: 9, mint: 1, to: -1, owner: 2},
	{name: "CloseAccount", list: tokenCloses, prefix: "\x09", size: 1, mint: -1, to: 1, owner: 2},
	{name: "TransferChecked", list: tokenTransfers, prefix: "\x0c", size: 10, mint: 1, to: 2, owner: 3},
	{name: "ApproveChecked", list: tokenApprovals, prefix: "\x0d", size: 10, mint: 1, to: 2, owner: 3},
	{name: "BurnChecked", list: tokenBurns, prefix: "\x0f", size: 10, mint: 1, to: -1, owner: 2},
	{name: "TransferCheckedWithFee", list: tokenTransfers, prefix: "\x1a\x01", size: 19, mint: 1, to: 2, owner: 3}, // of Token-2022
}

// plainToken are the numbers of instructions that take nothing from an account and give nobody a right over one in use:
// those that make accounts and mints, Revoke, SyncNative and those that compute.
var plainToken = [256]bool{0: true, 1: true, 2: true, 5: true, 16: true, 17: true, 18: true, 19: true, 20: true, 21: true, 22: true, 23: true, 24: true}

// tokenInstructionOf tells which an instruction of the token programs is, or gives nil. The bytes need not be as many as it has.
func tokenInstructionOf(in *instruction) *tokenInstruction {
	for i := range tokenInstructions {
		if t := &tokenInstructions[i]; bytes.HasPrefix(in.data, []byte(t.prefix)) {
			return t
		}
	}
	return nil
}

// checkToken refuses what does not decode of the instructions that are known, since the programs pass over bytes that
// follow, and instructions that hold others.
func checkToken(i int, in *instruction) error {
	const batch = 255
	if len(in.data) > 0 && in.data[0] == batch {
		return chain.Unsupported("instruction %d is a batch of a token program; send its instructions one by one", i)
	}
	t := tokenInstructionOf(in)
	if t == nil {
		return nil
	}
	fits := len(in.data) == t.size
	if t.list == tokenAuthorities {
		fits = newAuthority(in) != nil
	}
	if !fits || len(in.accounts) <= t.owner {
		return chain.Invalid("instruction %d does not decode as %s of a token program", i, t.name)
	}
	return nil
}

func (t *tokenInstruction) amountOf(in *instruction) uint64 {
	return binary.LittleEndian.Uint64(in.data[len(t.prefix):])
}

// newAuthority is the key that SetAuthority names, empty if it takes the authority away, or nil if it does not decode. Some
// clients write a key then, too.
func newAuthority(in *instruction) []byte {
	const head = 3 // number, kind of authority, whether there is a key
	switch {
	case len(in.data) == head+keySize && in.data[2] == 1:
		return in.data[head:]
	case (len(in.data) == head || len(in.data) == head+keySize) && in.data[2] == 0:
		return []byte{}
	}
	return nil
}

// authorityTypes are the kinds of authority of the token programs, by number.
var authorityTypes = []string{"MINT_TOKENS", "FREEZE_ACCOUNT", "ACCOUNT_OWNER", "CLOSE_ACCOUNT", "TRANSFER_FEE_CONFIG", "WITHHELD_WITHDRAW", "CLOSE_MINT",
	"INTEREST_RATE", "PERMANENT_DELEGATE", "CONFIDENTIAL_TRANSFER_MINT", "TRANSFER_HOOK_PROGRAM_ID", "CONFIDENTIAL_TRANSFER_FEE_CONFIG", "METADATA_POINTER",
	"GROUP_POINTER", "GROUP_MEMBER_POINTER", "SCALED_UI_AMOUNT", "PAUSE", "PERMISSIONED_BURN"}

// authorityType names the kind of authority that SetAuthority changes: one that is not known yet by its number.
func authorityType(in *instruction) string {
	if n := int(in.data[1]); n < len(authorityTypes) {
		return authorityTypes[n]
	}
	return strconv.Itoa(int(in.data[1]))
}
