package sol

import (
	"encoding/binary"
	"math/big"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain/show"
)

const stakeProgram = "Stake Program"

// A stakeInstruction is one of the Stake program: its arguments, as systemInstruction has them and with i for a number of 32 bits,
// and its accounts by the names under which they are shown, empty for those of the cluster.
type stakeInstruction struct {
	name     string
	args     string
	needs    int // accounts at least
	accounts []string
	title    string
	unread   bool // its arguments are not read
	control  bool // it changes who controls the account
}

// The instructions of the Stake program, by number.
var stakeInstructions = [...]stakeInstruction{
	{name: "Initialize", args: "kkuuk", needs: 2, accounts: []string{"account"}, title: "Stake SOL"},
	{name: "Authorize", args: "ki", needs: 3, accounts: []string{"account", "", "authority", "custodian"}, control: true},
	{name: "Delegate", needs: 6, accounts: []string{"account", "vote", "", "", "", "authority"}, title: "Stake SOL"},
	{name: "Split", args: "u", needs: 3, accounts: []string{"from", "to", "authority"}, title: "Split staked SOL"},
	{name: "Withdraw", args: "u", needs: 5, accounts: []string{"from", "to", "", "", "authority", "custodian"}, title: "Withdraw staked SOL"},
	{name: "Deactivate", needs: 3, accounts: []string{"account", "", "authority"}, title: "Take staked SOL back"},
	{name: "SetLockup", unread: true, control: true},
	{name: "Merge", needs: 5, accounts: []string{"to", "from", "", "", "authority"}, title: "Merge staked SOL"},
	{name: "AuthorizeWithSeed", args: "kisk", needs: 2, accounts: []string{"account", "authority", "", "custodian"}, control: true},
	{name: "InitializeChecked", needs: 4, accounts: []string{"account", "", "staker", "withdrawer"}, title: "Stake SOL"},
	{name: "AuthorizeChecked", args: "i", needs: 4, accounts: []string{"account", "", "authority", "newAuthority", "custodian"}, control: true},
	{name: "AuthorizeCheckedWithSeed", args: "isk", needs: 4, accounts: []string{"account", "authority", "", "newAuthority", "custodian"}, control: true},
	{name: "SetLockupChecked", unread: true, control: true},
}

// stakeAuthorities are what an account for a stake can be controlled for, by number.
var stakeAuthorities = []string{"STAKER", "WITHDRAWER"}

// stakeInstructionOf tells which an instruction is, with its arguments in pieces, or gives nil.
func stakeInstructionOf(in *instruction) (what *stakeInstruction, args [][]byte) {
	if len(in.data) < 4 || binary.LittleEndian.Uint32(in.data) >= uint32(len(stakeInstructions)) {
		return nil, nil
	}
	what = &stakeInstructions[binary.LittleEndian.Uint32(in.data)]
	rest := in.data[4:]
	for _, arg := range what.args {
		size := 4
		if arg != 'i' {
			size = sizeOf(arg, rest)
		}
		if size < 0 || size > len(rest) {
			return nil, nil
		}
		if arg == 'i' && binary.LittleEndian.Uint32(rest) >= uint32(len(stakeAuthorities)) {
			return nil, nil
		}
		args, rest = append(args, rest[:size]), rest[size:]
	}
	if len(rest) > 0 && !what.unread || len(in.accounts) < what.needs {
		return nil, nil
	}
	return what, args
}

// stake shows an instruction of the Stake program.
func (s *shower) stake(o *show.Object, in *instruction) {
	what, args := stakeInstructionOf(in)
	if what == nil {
		s.accountsOf(o, in, nil)
		o.Unreadable(show.UnknownInstruction, in.data)
		return
	}
	name(o, what.name)
	if what.control {
		o.Warn(show.ControlChange)
		s.view.Title("Change who controls an account")
	}
	if what.unread {
		s.accountsOf(o, in, nil)
		o.Unreadable(show.UnknownInstruction, in.data)
		return
	}
	for i, member := range what.accounts {
		if member == "" || i >= len(in.accounts) {
			continue
		}
		switch address := s.setAccount(o, member, in, i); member {
		case "to", "vote", "staker", "withdrawer", "newAuthority":
			s.party(o, address, member)
		}
	}
	s.view.Title(what.title)
	number := binary.LittleEndian.Uint64
	switch {
	case what.args == "u":
		o.Amount("amount", new(big.Int).SetUint64(number(args[0])), lamports)
		if what.name == "Withdraw" { // what is split stays under the same authorities
			s.leaves(in, 1, number(args[0]))
		}
	case what.name == "Initialize":
		s.right(o, "staker", args[0])
		s.right(o, "withdrawer", args[1])
		if until, epoch := number(args[2]), number(args[3]); until > 0 || epoch > 0 {
			lockup := o.Object("lockup")
			lockup.Time("until", big.NewInt(int64(until)))
			lockup.Uint("epoch", epoch)
			s.right(lockup, "custodian", args[4])
		}
	case what.control:
		for i, arg := range what.args {
			switch {
			case arg == 'i':
				o.Plain("authorityType", stakeAuthorities[binary.LittleEndian.Uint32(args[i])])
			case arg == 's':
				o.Text("seed", string(args[i][8:]))
			case i == 0:
				s.right(o, "newAuthority", args[i])
			default:
				o.Plain("authorityOwner", base58.Encode(args[i]))
			}
		}
	}
}

// right sets who gets a right, by a key in the data.
func (s *shower) right(o *show.Object, member string, key []byte) {
	text := base58.Encode(key)
	o.Address(member, listName, text, programNames[text])
	s.party(o, text, member)
}
