package org

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// A Collection is the first byte of a key. Collections from collectionLarge on may grow
// without bound, and their pieces are loaded when needed. Collections are never renumbered:
// they are in every ledger.
type Collection byte

// The collections.
const (
	collectionOrganization Collection = 'A' // the organization itself, one record
	collectionUsers        Collection = 'B' // user id
	collectionCredentials  Collection = 'C' // curve, public key: whose
	collectionNames        Collection = 'D' // what, name: id; keeps names unique
	collectionWallets      Collection = 'E' // wallet id
	collectionPrivateKeys  Collection = 'F' // private key id
	collectionTags         Collection = 'G' // tag id
	collectionPolicies     Collection = 'H' // policy id
	collectionInvitations  Collection = 'I' // invitation id
	collectionProfiles     Collection = 'J' // session profile id
	collectionAllowlists   Collection = 'K' // public key, or nothing: the organization's
	collectionPending      Collection = 'L' // fingerprint: an activity that waits
	collectionPendingIDs   Collection = 'M' // activity id: its fingerprint
	collectionCounters     Collection = 'N' // authenticator id: its signature counter
	collectionInterfaces   Collection = 'O' // interface id; the text lies in parts
	collectionTargets      Collection = 'P' // user id, import target id
	collectionOAuth2       Collection = 'R' // OAuth 2.0 credential id
	collectionOnRamps      Collection = 'S' // on-ramp credential id
	collectionAuthProxies  Collection = 'T' // configuration id
	collectionEndpoints    Collection = 'U' // webhook endpoint id
	collectionBill         Collection = 'V' // what a top-level organization has used of its plan, one record
	collectionLease        Collection = 'W' // what a sub-organization has drawn on that, one record
	collectionPlans        Collection = 'X' // the document of plans, one record

	collectionGasConfig Collection = 'Y' // one record: how the organization pays for transactions

	collectionLarge         Collection = 'a'
	collectionAccounts      Collection = 'a' // wallet id, number
	collectionAddresses     Collection = 'b' // hash of the address, what it belongs to
	collectionPaths         Collection = 'c' // wallet id, hash of path, curve and format: number
	collectionChildren      Collection = 'd' // sub-organization id
	collectionChildrenKeys  Collection = 'e' // what, hash of a value, time and id of a sub-organization
	collectionChildrenOrder Collection = 'f' // time and id of a sub-organization
	collectionParts         Collection = 'g' // interface id, number: part of its text
	collectionNonces        Collection = 'h' // chain, address, nonce: the sends that have it

	collectionPasscodes      Collection = 'i' // passcode id
	collectionPasscodeCounts Collection = 'j' // hash of a contact or the like, passcode id
	collectionVerifications  Collection = 'k' // id of a verification token

	collectionSecrets Collection = 'l' // secret id: what is known of it
	collectionSealed  Collection = 'm' // secret id: its bytes, sealed

	collectionGasSpends       Collection = 'y' // time, activity id: what a sponsored transaction can cost
	collectionRivals          Collection = 'u' // what, chain, address, number: the sends that share it
	collectionCounts          Collection = 'z' // what, chain, address, number: until when it is somebody's
	collectionTVCOperators    Collection = 'n' // operator id
	collectionTVCOperatorSets Collection = 'o' // operator set id
	collectionTVCApps         Collection = 'p' // app id
	collectionTVCDeployments  Collection = 'q' // deployment id
	collectionTVCManifests    Collection = 'r' // manifest id: the manifest and its approvals
	collectionTVCQuorumKeys   Collection = 's' // quorum key id
	collectionTVCShares       Collection = 't' // deployment id, operator id: a share on its way to the deployment
)

// Large tells whether the pieces of this collection are loaded on demand.
func Large(first byte) bool { return first >= byte(collectionLarge) }

var (
	encoding = must(cbor.CoreDetEncOptions().UserBufferEncMode())
	decoding = must(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 16, MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 10,
	}.DecMode())
)

func must[T any](mode T, err error) T {
	if err != nil {
		panic(err) // options are right or wrong for good
	}
	return mode
}

// Tx is a transaction on an organization's state. Only its own reads see its writes. The records
// that it returns are shared: copy one, change the copy, and put that.
type Tx struct {
	ID      ID
	NowMs   uint64 // the enclave's clock when the decision began
	state   *State
	changes map[string]*record
	order   []string // keys of changes as first written

	policies bool // whether a policy is among changes
	spends   bool // whether a GasSpend is among the records put
}

// Pause yields the processor if another goroutine is due. Every loop that may take more than some hundred microseconds must call it, outside
// of erase.Do.
func (t *Tx) Pause() {
	if t.state.transaction != nil {
		t.state.transaction.Pause()
	}
}

// Begin starts a transaction on s, the state of organization id.
func Begin(id ID, s *State, nowMs uint64) *Tx { return &Tx{ID: id, NowMs: nowMs, state: s} }

// Writes are the records put and deleted, in the order first touched.
func (t *Tx) Writes() ([]Write, error) {
	ws := make([]Write, 0, len(t.order))
	for _, k := range t.order {
		w := Write{Key: []byte(k)}
		if v := t.changes[k]; v != nil {
			w.Value = v.bytes
		}
		if err := w.Check(); err != nil {
			return nil, err
		}
		ws = append(ws, w)
	}
	return ws, nil
}

// Put adds the writes of another transaction, in their order.
func (t *Tx) Put(ws ...Write) {
	for _, w := range ws {
		var v *record
		if w.Value != nil {
			v = &record{bytes: w.Value}
		}
		t.set(string(w.Key), v)
	}
}

// Replace replaces all writes of the transaction by ws.
func (t *Tx) Replace(ws []Write) {
	t.changes, t.order, t.policies, t.spends = nil, nil, false, false
	t.Put(ws...)
}

// Changed reports whether any record was put or deleted.
func (t *Tx) Changed() bool { return len(t.order) > 0 }

// Spends reports whether the transaction adds to a spending window.
func (t *Tx) Spends() bool { return t.spends }

// Apply applies the transaction to its state. It must follow Writes, under the same lock.
func (t *Tx) Apply() {
	for _, k := range t.order {
		t.state.put(k, t.changes[k])
	}
}

func (t *Tx) lookUp(key string) (*record, error) {
	if v, ok := t.changes[key]; ok {
		return v, nil
	}
	return t.state.lookUp(key)
}

func (t *Tx) set(key string, v *record) {
	if _, ok := t.changes[key]; !ok {
		if t.changes == nil {
			t.changes = map[string]*record{}
		}
		t.order = append(t.order, key)
	}
	t.policies = t.policies || strings.HasPrefix(key, allPolicies)
	t.spends = t.spends || v != nil && strings.HasPrefix(key, allGasSpends)
	t.changes[key] = v
}

func (t *Tx) del(key string) { t.set(key, nil) }

func put[T any](t *Tx, key string, rec *T) error {
	b, err := encoding.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	t.set(key, &record{bytes: b, obj: rec})
	return nil
}

func decode[T any](v *record) (*T, error) {
	if o, ok := v.obj.(*T); ok {
		return o, nil
	}
	o := new(T)
	if err := decoding.Unmarshal(v.bytes, o); err != nil {
		return nil, fmt.Errorf("decoding a record: %w", err)
	}
	v.obj = o
	return o, nil
}

func get[T any](t *Tx, key string) (*T, error) {
	v, err := t.lookUp(key)
	if v == nil || err != nil {
		return nil, err
	}
	return decode[T](v)
}

// find is get for a collection whose keys are ids.
func find[T any](t *Tx, c Collection, id ID) (*T, error) { return get[T](t, key(c, raw(id))) }

// scan visits the records of a key range, including the transaction's writes.
func (t *Tx) scan(st keyRange, visit visitor) error { return t.state.scan(st, t.changes, visit) }

// list visits the records of a key range, decoded.
func list[T any](t *Tx, st keyRange, visit func(key string, rec *T) bool) error {
	var bad error
	err := t.scan(st, func(k string, v *record) bool {
		rec, err := decode[T](v)
		if err != nil {
			bad = err
			return false
		}
		return visit(k, rec)
	})
	return cmp.Or(err, bad)
}

// first is the first record whose key begins with prefix, or nil.
func first[T any](t *Tx, prefix string) (rec *T, err error) {
	err = list(t, keysWithPrefix(prefix), func(_ string, found *T) bool {
		rec = found
		return false
	})
	return rec, err
}

// clear deletes the records of a key range.
func (t *Tx) clear(st keyRange) error {
	var keys []string
	err := t.scan(st, func(k string, _ *record) bool {
		keys = append(keys, k)
		return true
	})
	for _, k := range keys {
		t.del(k)
	}
	return err
}

// each visits the records of a collection in the order of their keys.
func each[T any](t *Tx, c Collection, visit func(*T) bool) error {
	return list(t, keysWithPrefix(key(c)), func(_ string, rec *T) bool { return visit(rec) })
}

func key(c Collection, parts ...string) string {
	b := append(make([]byte, 0, 64), byte(c))
	for _, p := range parts {
		b = append(b, p...)
	}
	return string(b)
}

func raw(id ID) string { return string(id[:]) }
