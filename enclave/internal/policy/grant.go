package policy

import (
	"errors"
	"slices"
	"sync/atomic"
)

// A Key names what an activity uses: account No of a wallet, or with No 0 a wallet as
// a whole or a private key. Owner is the id of the wallet or the private key.
type Key struct {
	Owner [16]byte
	No    uint64
}

// A Grant permits one action of one activity, once, on the keys that its request
// named; what the activity makes anew is named by none. Only Decide makes one.
type Grant struct {
	_                      [0]func() // no comparing, no copying by accident into maps
	organization, activity [16]byte
	action                 string
	keys                   []Key
	spent                  atomic.Bool
}

// A Use is what a Grant is asked for. Without keys it is to make new ones.
type Use struct {
	Organization, Activity [16]byte
	Action                 string
	Keys                   []Key
}

var (
	errNoGrant = errors.New("no grant")
	errSpent   = errors.New("grant already spent")
	errOther   = errors.New("grant for another organization, activity or action")
	errKey     = errors.New("grant for other keys")
)

// Allows tells why the grant does not allow a use, and leaves it unspent: it is nil or
// zero, of another organization, activity or action, not for one of the keys, or spent.
func (g *Grant) Allows(u Use) error {
	switch {
	case g == nil || g.action == "":
		return errNoGrant
	case g.organization != u.Organization || g.activity != u.Activity || g.action != u.Action:
		return errOther
	case slices.ContainsFunc(u.Keys, func(k Key) bool { return !slices.Contains(g.keys, k) }):
		return errKey
	case g.spent.Load():
		return errSpent
	}
	return nil
}

// Spend uses the grant up, for one use that it allows. Of several who try, one may.
func (g *Grant) Spend(u Use) error {
	if err := g.Allows(u); err != nil {
		return err
	}
	if !g.spent.CompareAndSwap(false, true) {
		return errSpent
	}
	return nil
}

func (r *Request) grant() *Grant {
	return &Grant{organization: r.Organization, activity: r.Activity, action: r.Action, keys: slices.Clone(r.Keys)}
}
