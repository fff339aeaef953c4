package sol

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain/show"
)

const squads = "Squads Multisig v4"

// A squadsInstruction is one of Squads v4, a multisig that keeps what it decides on the chain.
type squadsInstruction struct {
	name string
	what string
	args [][2]string // name and kind
}

// What instructions of Squads do that approvers must know.
const (
	squadsControl = "CONTROL" // changes who decides, or how many
	squadsStored  = "STORED"  // approves or runs what is on the chain, and not in the transaction
	squadsOther   = "OTHER"
)

// squadsTable has the instructions with what they do and their arguments as name:kind. A rest is not read: lists of members and
// actions, and the instructions that a multisig is to run.
const squadsTable = `
MultisigCreateV2 CONTROL settings:rest
MultisigAddMember CONTROL newMember:member memo:text
MultisigRemoveMember CONTROL oldMember:key memo:text
MultisigChangeThreshold CONTROL newThreshold:u16 memo:text
MultisigSetTimeLock CONTROL timeLock:u32 memo:text
MultisigSetConfigAuthority CONTROL configAuthority:key memo:text
MultisigAddSpendingLimit CONTROL settings:rest
MultisigRemoveSpendingLimit CONTROL memo:text
ConfigTransactionCreate CONTROL actions:rest
ConfigTransactionExecute STORED
VaultTransactionCreate OTHER transaction:rest
VaultTransactionExecute STORED
BatchCreate OTHER vaultIndex:u8 memo:text
BatchAddTransaction OTHER transaction:rest
BatchExecuteTransaction STORED
ProposalCreate OTHER transactionIndex:u64 draft:bool
ProposalActivate OTHER
ProposalApprove STORED memo:text
ProposalReject OTHER memo:text
ProposalCancel OTHER memo:text
ProposalCancelV2 OTHER memo:text
SpendingLimitUse OTHER amount:u64 decimals:u8 memo:text
`

// squadsInstructions are those of the table by their discriminators, as Anchor makes them of names.
var squadsInstructions = sync.OnceValue(func() map[[8]byte]*squadsInstruction {
	all := map[[8]byte]*squadsInstruction{}
	for line := range strings.Lines(strings.TrimSpace(squadsTable)) {
		words := strings.Fields(line)
		s := &squadsInstruction{name: words[0], what: words[1]}
		for _, word := range words[2:] {
			name, kind, _ := strings.Cut(word, ":")
			s.args = append(s.args, [2]string{name, kind})
		}
		var snake strings.Builder
		for _, r := range s.name {
			if r >= 'A' && r <= 'Z' {
				snake.WriteByte('_')
			}
			snake.WriteRune(r)
		}
		sum := sha256.Sum256([]byte("global:" + strings.ToLower(snake.String()[1:])))
		all[[8]byte(sum[:8])] = s
	}
	return all
})

// squadsSizes are how many bytes arguments take; a text is optional and has its length before it.
var squadsSizes = map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8, "bool": 1, "key": keySize, "member": keySize + 1}

// arguments takes the arguments apart; ok is false where the data are others, or more.
func (q *squadsInstruction) arguments(data []byte) (args [][]byte, ok bool) {
	for _, arg := range q.args {
		size, known := squadsSizes[arg[1]]
		switch {
		case known:
		case arg[1] == "rest":
			size = len(data)
		case len(data) > 0 && data[0] == 0:
			size = 1
		case len(data) > 4 && data[0] == 1 && uint64(binary.LittleEndian.Uint32(data[1:])) <= uint64(len(data)-5):
			size = 5 + int(binary.LittleEndian.Uint32(data[1:]))
		default:
			return nil, false
		}
		if size > len(data) || arg[1] == "bool" && data[0] > 1 || arg[1] == "text" && size > 5 && !utf8.Valid(data[5:size]) {
			return nil, false
		}
		args, data = append(args, data[:size]), data[size:]
	}
	return args, len(data) == 0
}

// squadsInstructionOf tells which an instruction is, or gives nil.
func squadsInstructionOf(in *instruction) *squadsInstruction {
	if len(in.data) < 8 {
		return nil
	}
	return squadsInstructions()[[8]byte(in.data)]
}

// multisig shows an instruction of Squads.
func (s *shower) multisig(o *show.Object, in *instruction, q *squadsInstruction) {
	name(o, q.name)
	s.accountsOf(o, in, nil)
	switch q.what {
	case squadsControl:
		o.Warn(show.ControlChange)
		s.view.Title("Change who controls a multisig")
	case squadsStored:
		o.Warn(show.BlindSignature)
		s.view.Title("Approve or run what a multisig keeps on the chain")
	}
	args, ok := q.arguments(in.data[8:])
	if !ok {
		o.Unreadable(show.DoesNotDecode, in.data)
		return
	}
	if len(args) == 0 {
		return
	}
	list := o.List("args")
	for i, arg := range args {
		s.multisigArgument(list.Entry(q.args[i][0]), q.args[i][1], arg)
	}
}

func (s *shower) multisigArgument(o *show.Object, kind string, b []byte) {
	switch kind {
	case "rest":
		o.Unreadable(show.UnknownInstruction, b)
	case "bool":
		o.Bool("value", b[0] == 1)
	case "text":
		if b[0] == 0 {
			o.Bool("absent", true)
			return
		}
		o.Text("value", string(b[5:]))
	case "key", "member":
		text := base58.Encode(b[:keySize])
		o.Plain("address", text)
		o.Label(listName, text, programNames[text])
		if text != s.self {
			o.Party(listName, text)
		}
		if kind == "member" {
			o.Uint("permissions", uint64(b[keySize]))
		}
	default:
		var wide [8]byte
		copy(wide[:], b)
		o.Uint("value", binary.LittleEndian.Uint64(wide[:]))
	}
}
