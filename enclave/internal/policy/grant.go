package policy

import (
	"errors"
	"slices"
	"sync/atomic"
)

// A Key names what an activity uses.
type Key struct {
	Owner [16]byte // the wallet or the private key
	No    uint64   // the account of the wallet; 0: the owner as a whole
}

// A Grant permits one action of one activity, once, on the keys that its request
// named. It names no key that the activity makes. Only Decide makes a Grant.
type Grant struct {
	_                      [0]func() // no comparing, no copying by accident into maps
	organization, activity [16]byte
	action                 string
	keys                   []Key
	spent                  atomic.Bool
}

// A Use is what a Grant is asked for. Without keys, it makes new ones.
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

// Allows tells why the grant does not allow a use: it is nil or zero, of another
// organization, activity or action, not for one of the keys, or spent. It stays unspent.
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

// Spend uses the grant up, for one use that it allows. Of several at once, one may.
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
