package org

import (
	"cmp"
	"slices"
)

// What an import target is for.
const (
	TargetWallet     = 'w'
	TargetPrivateKey = 'p'
)

// Import targets: at most MaxTargets of a user live, each for TargetMs.
const (
	MaxTargets = 10
	TargetMs   = 24 * 60 * 60 * 1000
)

// Target is a key of the enclave to which a user may encrypt one secret for import. It is
// deleted once it has opened something.
type Target struct {
	ID        ID     `cbor:"1,keyasint"`
	User      ID     `cbor:"2,keyasint"`
	For       uint8  `cbor:"3,keyasint"` // TargetWallet or TargetPrivateKey
	Key       []byte `cbor:"4,keyasint"` // private key, sealed once more under the target's id
	CreatedMs uint64 `cbor:"5,keyasint"`
	// Boot is the enclave's boot that made it: after another one nobody can tell whether it
	// was used.
	Boot ID `cbor:"6,keyasint"`
}

// Live tells whether the target may still be used at nowMs in this boot.
func (g *Target) Live(boot ID, nowMs uint64) bool {
	return g.Boot == boot && nowMs < g.CreatedMs+TargetMs
}

// PutTarget stores g.
func (t *Tx) PutTarget(g *Target) error {
	return put(t, key(collectionTargets, raw(g.User), raw(g.ID)), g)
}

// DeleteTarget removes an import target of a user.
func (t *Tx) DeleteTarget(user, id ID) { t.del(key(collectionTargets, raw(user), raw(id))) }

// Targets are a user's import targets, live or not, oldest first.
func (t *Tx) Targets(user ID) (gs []*Target, err error) {
	err = list(t, under(key(collectionTargets, raw(user))), func(_ string, g *Target) bool {
		gs = append(gs, g)
		return true
	})
	slices.SortStableFunc(gs, func(a, b *Target) int { return cmp.Compare(a.CreatedMs, b.CreatedMs) })
	return gs, err
}

// DeleteTargets removes all import targets of a user.
func (t *Tx) DeleteTargets(user ID) error {
	gs, err := t.Targets(user)
	for _, g := range gs {
		t.DeleteTarget(user, g.ID)
	}
	return err
}
