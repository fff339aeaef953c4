package sol

import (
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"strconv"
	"strings"
	"sync"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

const squads = "Squads Multisig v4"

// A squadsInstruction is one of Squads v4, a multisig that keeps what it decides on the chain.
type squadsInstruction struct {
	name string
	what string
	args *typ // a struct
}

// What instructions of Squads do that approvers must know.
const (
	squadsControl = "CONTROL" // changes who decides, or how many
	squadsStored  = "STORED"  // approves or runs what is on the chain, and not in the transaction
	squadsPropose = "PROPOSE" // stores instructions that the multisig is to run
	squadsOther   = "OTHER"
)

// squadsTable has the instructions with what they do and their arguments as name:type, in the order of the bytes. A type is a
// word, with ? if the value is optional and * for a list.
const squadsTable = `
MultisigCreateV2 CONTROL configAuthority:key? threshold:u16 members:member* timeLock:seconds rentCollector:key? memo:string?
MultisigAddMember CONTROL newMember:member memo:string?
MultisigRemoveMember CONTROL oldMember:pubkey memo:string?
MultisigChangeThreshold CONTROL newThreshold:u16 memo:string?
MultisigSetTimeLock CONTROL timeLock:seconds memo:string?
MultisigSetConfigAuthority CONTROL configAuthority:key memo:string?
MultisigSetRentCollector CONTROL rentCollector:key? memo:string?
MultisigAddSpendingLimit CONTROL createKey:pubkey vaultIndex:u8 mint:mint amount:amount period:period members:key* destinations:destinations memo:string?
MultisigRemoveSpendingLimit CONTROL memo:string?
ConfigTransactionCreate CONTROL actions:action* memo:string?
ConfigTransactionExecute STORED
VaultTransactionCreate PROPOSE vaultIndex:u8 ephemeralSigners:u8 transactionMessage:message memo:string?
VaultTransactionExecute STORED
BatchCreate OTHER vaultIndex:u8 memo:string?
BatchAddTransaction PROPOSE ephemeralSigners:u8 transactionMessage:message
BatchExecuteTransaction STORED
ProposalCreate OTHER transactionIndex:u64 draft:bool
ProposalActivate OTHER
ProposalApprove STORED memo:string?
ProposalReject OTHER memo:string?
ProposalCancel OTHER memo:string?
ProposalCancelV2 OTHER memo:string?
SpendingLimitUse OTHER amount:u64 decimals:u8 memo:string?
`

// squadsActions has what ConfigTransactionCreate may change, by number, in the form of squadsTable.
const squadsActions = `
AddMember newMember:member
RemoveMember oldMember:pubkey
ChangeThreshold newThreshold:u16
SetTimeLock newTimeLock:seconds
AddSpendingLimit createKey:pubkey vaultIndex:u8 mint:mint amount:amount period:period members:key* destinations:destinations
RemoveSpendingLimit spendingLimit:pubkey
SetRentCollector newRentCollector:key?
`

// The types whose values are shown by what they mean.
var (
	squadsKey          = &typ{kind: kindKey, length: keySize} // of somebody who gets a right or receives something
	squadsMint         = &typ{kind: kindKey, length: keySize} // of the tokens that the next amount counts; zeros for SOL
	squadsAmount       = &typ{kind: kindUint, length: 8}
	squadsSeconds      = &typ{kind: kindUint, length: 4}
	squadsPermissions  = &typ{kind: kindUint, length: 1}
	squadsDestinations = &typ{kind: kindVec, elems: []*typ{squadsKey}} // empty for any
	squadsMessage      = &typ{kind: kindBytes}
	squadsPeriod       = &typ{kind: kindEnum, names: []string{"OneTime", "Day", "Week", "Month"}, elems: []*typ{unit, unit, unit, unit}}

	unit = &typ{kind: kindUnit}
)

// squadsTypes are the types of arguments by the words that stand for them, beside those that IDLs have.
type squadsTypes map[string]*typ

func (all squadsTypes) find(word string) *typ {
	for suffix, form := range map[string]kind{"?": kindOption, "*": kindVec} {
		if of, ok := strings.CutSuffix(word, suffix); ok {
			return &typ{kind: form, elems: []*typ{all.find(of)}}
		}
	}
	if t := all[word]; t != nil {
		return t
	}
	if t := simple[word]; t != nil {
		return t
	}
	panic("no type " + word)
}

// fields makes a struct of name:type.
func (all squadsTypes) fields(words []string) *typ {
	t := &typ{kind: kindStruct}
	for _, word := range words {
		name, of, _ := strings.Cut(word, ":")
		t.names, t.elems = append(t.names, name), append(t.elems, all.find(of))
	}
	return t
}

// squadsInstructions are those of the table by their discriminators, as Anchor makes them of names.
var squadsInstructions = sync.OnceValue(func() map[[8]byte]*squadsInstruction {
	types := squadsTypes{"key": squadsKey, "mint": squadsMint, "amount": squadsAmount, "seconds": squadsSeconds, "permissions": squadsPermissions,
		"period": squadsPeriod, "destinations": squadsDestinations, "message": squadsMessage}
	types["member"] = types.fields([]string{"key:key", "permissions:permissions"})
	actions := &typ{kind: kindEnum}
	for line := range strings.Lines(strings.TrimSpace(squadsActions)) {
		words := strings.Fields(line)
		actions.names, actions.elems = append(actions.names, words[0]), append(actions.elems, types.fields(words[1:]))
	}
	types["action"] = actions
	all := map[[8]byte]*squadsInstruction{}
	for line := range strings.Lines(strings.TrimSpace(squadsTable)) {
		words := strings.Fields(line)
		sum := sha256.Sum256([]byte(global + snakeCase(words[0], false)))
		all[[8]byte(sum[:8])] = &squadsInstruction{words[0], words[1], types.fields(words[2:])}
	}
	return all
})

// squadsInstructionOf tells which an instruction is, or gives nil.
func squadsInstructionOf(in *instruction) *squadsInstruction {
	if len(in.data) < 8 {
		return nil
	}
	return squadsInstructions()[[8]byte(in.data)]
}

// multisig shows an instruction of Squads, and below one that stores instructions what these would do.
func (s *shower) multisig(o *show.Object, in *instruction, q *squadsInstruction) error {
	name(o, q.name)
	s.accountsOf(o, in, nil)
	switch q.what {
	case squadsControl:
		o.Warn(show.ControlChange)
		s.view.Title("Change who controls a multisig")
	case squadsStored:
		o.Warn(show.BlindSignature)
		s.view.Title("Approve or run what a multisig keeps on the chain")
	case squadsPropose:
		s.view.Title("Propose what a multisig is to do")
	}
	budget := maxValues
	read := values{rest: in.data[8:], budget: &budget, whole: true}
	args, ok := read.read(q.args, 0)
	if !ok || len(read.rest) > 0 {
		o.Unreadable(show.DoesNotDecode, in.data)
		return nil
	}
	if len(q.args.names) == 0 {
		return nil
	}
	fields := args.(chain.Map)
	var stored *message
	if b, is := fields["transactionMessage"].([]byte); is && s.depth == 1 {
		stored, _ = readStored(b)
	}
	special := s.squadsValues(stored != nil)
	list := o.List("args")
	for i, name := range q.args.names {
		showValue(list.Entry(name), q.args.elems[i], fields[name], special)
	}
	if stored == nil {
		return nil
	}
	return s.storedCalls(o, in, fields, stored)
}

// squadsPermitted says what a member may do, by bit. Bits that Squads has no name for are a number.
func squadsPermitted(mask uint64) string {
	var may []string
	for bit, what := range []string{"INITIATE", "VOTE", "EXECUTE"} {
		if mask>>bit&1 == 1 {
			may = append(may, what)
		}
	}
	if rest := mask &^ 7; rest > 0 || mask == 0 {
		may = append(may, strconv.FormatUint(rest, 10))
	}
	return strings.Join(may, ", ")
}

// squadsValues shows values by what they mean, as showValue asks for it. Stored instructions that have been read are shown elsewhere.
func (s *shower) squadsValues(isRead bool) func(o *show.Object, t *typ, value any) bool {
	mint := ""
	return func(o *show.Object, t *typ, value any) bool {
		switch t {
		case squadsKey:
			if text := value.(string); programNames[text] == "" {
				o.Party(listName, text)
			}
			return false
		case squadsMint:
			mint = value.(string)
			o.Plain("address", mint)
			if mint != systemProgram.String() {
				o.Label(listName, mint, "")
			}
		case squadsAmount:
			of := lamports
			if mint != systemProgram.String() {
				of = s.unitOf(o, mint)
			}
			o.SetAmount(new(big.Int).SetUint64(value.(uint64)), of, false)
		case squadsSeconds:
			o.Uint("value", value.(uint64))
			o.Plain("unit", "s")
		case squadsPermissions:
			o.Plain("value", squadsPermitted(value.(uint64)))
		case squadsPeriod:
			for period := range value.(chain.Map) { // it has one
				o.Plain("value", period)
			}
		case squadsDestinations:
			if len(value.([]any)) > 0 {
				return false
			}
			o.Plain("value", "ANY")
		case squadsMessage:
			switch b := value.([]byte); {
			case s.depth > 1:
				o.Unreadable(show.TooDeep, b)
			case !isRead:
				o.Unreadable(show.DoesNotDecode, b)
			default:
				o.Begin("value", b)
			}
		default:
			return false
		}
		return true
	}
}

// storedCalls shows the instructions that a multisig is to run once its members have approved them. What they move does not leave with this
// transaction, and is not in what is spent.
func (s *shower) storedCalls(o *show.Object, in *instruction, args chain.Map, m *message) error {
	later := shower{transaction: &transaction{wire: wire{message: *m}}, view: s.view, self: s.self, depth: s.depth + 1}
	later.owners = ownerTable{view: s.view, owners: []string{s.self}, left: s.owners.left}
	if index, is := args["vaultIndex"].(uint64); is && len(in.accounts) > 0 && int(in.accounts[0]) < len(s.keys) {
		multisig := s.keys[in.accounts[0]]
		if vault, ok := programAddress(s.keys[in.program], []byte("multisig"), multisig[:], []byte("vault"), []byte{byte(index)}); ok {
			text := base58.Encode(vault[:])
			o.Address("vault", listName, text, "")
			o.Plain("vaultSource", show.FromImage)
			later.owners.owners = append(later.owners.owners, text)
		}
	}
	return later.instructions(o.List("calls"))
}

// readStored reads the instructions that Squads stores, which have the parts of a message of version 0 but for the blockhash: their
// lengths are one byte, of data two, and the header counts accounts that are written to. It refuses what Squads refuses, and
// bytes that follow.
func readStored(b []byte) (*message, error) {
	c := &cursor{rest: b}
	list := func(what string) []byte { return c.take(int(c.byte(what)), what) }
	signers, writableSigners, writableOthers := int(c.byte("header")), int(c.byte("header")), int(c.byte("header"))
	m := &message{signers: signers, keys: make([]key, c.byte("account keys"))}
	for i := range m.keys {
		m.keys[i] = key(c.take(keySize, "account keys"))
	}
	m.readonlySigners, m.readonlyOthers = signers-writableSigners, len(m.keys)-signers-writableOthers
	m.instructions = make([]instruction, c.byte("instructions"))
	for i := range m.instructions {
		in := &m.instructions[i]
		in.program = c.byte("instructions")
		in.accounts = list("accounts of an instruction")
		in.data = c.take(int(binary.LittleEndian.Uint16(c.take(2, "data of an instruction"))), "data of an instruction")
	}
	m.lookups = make([]lookup, c.byte("address table lookups"))
	for i := range m.lookups {
		l := &m.lookups[i]
		copy(l.table[:], c.take(keySize, "address table lookups"))
		l.writable, l.readonly = list("address table lookups"), list("address table lookups")
		m.writable += len(l.writable)
		m.loaded += len(l.writable) + len(l.readonly)
	}
	switch {
	case c.err != nil:
		return nil, c.err
	case len(c.rest) > 0:
		return nil, chain.Invalid("%d bytes follow its end", len(c.rest))
	case m.readonlySigners < 0, m.readonlyOthers < 0, signers > len(m.keys):
		return nil, chain.Invalid("its header counts more accounts than it has")
	}
	for i := range m.instructions {
		for _, a := range append([]byte{m.instructions[i].program}, m.instructions[i].accounts...) {
			if int(a) >= len(m.keys)+m.loaded {
				return nil, chain.Invalid("instruction %d names account %d of %d", i, a, len(m.keys)+m.loaded)
			}
		}
	}
	return m, nil
}
