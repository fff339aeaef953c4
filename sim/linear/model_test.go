package linear_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// An organization is two objects that do not touch each other: its users' names
// and its wallets. Linearizability is local, so each is checked by itself.
type object struct {
	organization string
	wallets      bool
}

// The things that clients fight over.
const (
	userCount = 4 // the root user and three more
	nameCount = 5 // names that users and wallets are given
)

// What a client asks.
type verb uint8

const (
	renameUser   verb = iota // user, name
	readUser                 // user
	readUsers                // all names
	createWallet             // name
	renameWallet             // wallet, name
	deleteWallet             // wallet
	readWallet               // wallet
	readWallets              // all names and ids
)

var verbs = [...]string{"rename user", "read user", "read users", "create wallet", "rename wallet", "delete wallet", "read wallet", "read wallets"}

type input struct {
	object object
	verb   verb
	user   int
	wallet string // id
	name   string
}

// What came back. done is false for a refusal because the name is taken or the
// wallet is not there; any other answer ends the test.
type output struct {
	done  bool
	text  string                            // name or id
	names [max(userCount, nameCount)]string // of a list
}

// A state is comparable, so that the checker can remember where it has been.
type state struct {
	users   [userCount]string
	wallets [nameCount]string // id of the wallet that bears a name, or empty
}

func nameOf(i int) string { return fmt.Sprintf("name %d", i) }

func slotOf(name string) int { return int(name[len(name)-1] - '0') }

// model is what an organization promises.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[object][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(input).object
			by[k] = append(by[k], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range by {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any {
		var s state
		for i := range s.users {
			s.users[i] = firstName(i)
		}
		return s
	},
	Step: func(was, in, out any) (bool, any) {
		s := was.(state)
		ok := step(&s, in.(input), out.(output))
		return ok, s
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		return fmt.Sprintf("%s %d %s %s -> %v %s %s", verbs[i.verb], i.user, i.wallet, i.name, o.done, o.text, strings.Join(o.names[:], ","))
	},
}

func firstName(user int) string { return fmt.Sprintf("user %d", user) }

// step moves s on and tells whether the answer is the one of s.
func step(s *state, in input, out output) bool {
	bearer := func() int { return slices.Index(s.wallets[:], in.wallet) }
	switch in.verb {
	case renameUser:
		if i := slices.Index(s.users[:], in.name); i >= 0 && i != in.user {
			return !out.done
		}
		s.users[in.user] = in.name
		return out.done
	case readUser:
		return out.text == s.users[in.user]
	case readUsers:
		return [userCount]string(out.names[:userCount]) == s.users
	case createWallet:
		i := slotOf(in.name)
		if s.wallets[i] != "" {
			return !out.done
		}
		s.wallets[i] = out.text
		return out.done
	case renameWallet:
		from, to := bearer(), slotOf(in.name)
		if from < 0 || s.wallets[to] != "" && to != from {
			return !out.done
		}
		s.wallets[from] = ""
		s.wallets[to] = in.wallet
		return out.done
	case deleteWallet:
		i := bearer()
		if i < 0 {
			return !out.done
		}
		s.wallets[i] = ""
		return out.done
	case readWallet:
		i := bearer()
		if i < 0 {
			return !out.done
		}
		return out.done && out.text == nameOf(i)
	case readWallets:
		return [nameCount]string(out.names[:nameCount]) == s.wallets
	}
	return false
}
