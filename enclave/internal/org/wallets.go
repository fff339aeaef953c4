package org

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Wallet is an HD wallet: a seed with a name. Its accounts are separate records.
type Wallet struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	Entropy   []byte `cbor:"3,keyasint"` // BIP-39 entropy, sealed once more under the wallet's id
	Words     uint8  `cbor:"4,keyasint"` // of the mnemonic
	Accounts  uint64 `cbor:"5,keyasint"` // number of accounts
	LastNo    uint64 `cbor:"6,keyasint"` // number of the newest account ever made
	Exported  bool   `cbor:"7,keyasint,omitempty"`
	Imported  bool   `cbor:"8,keyasint,omitempty"`
	CreatedMs uint64 `cbor:"9,keyasint"`
	UpdatedMs uint64 `cbor:"10,keyasint"`
	// Passphrase of BIP-39, sealed like Entropy; none if empty. Imported wallets only.
	Passphrase []byte `cbor:"11,keyasint,omitempty"`
	// KeysOut is set once an account's key has been exported. The account may have been deleted since.
	KeysOut bool `cbor:"12,keyasint,omitempty"`
}

// Account is one address of a wallet.
type Account struct {
	Wallet    ID     `cbor:"1,keyasint"`
	No        uint64 `cbor:"2,keyasint"` // from 1, in order of creation
	Curve     string `cbor:"3,keyasint"` // CURVE_…
	Path      string `cbor:"4,keyasint"` // as the client wrote it
	Format    string `cbor:"5,keyasint"` // ADDRESS_FORMAT_…
	Address   string `cbor:"6,keyasint"`
	PublicKey string `cbor:"7,keyasint"` // lower-case hex, compressed
	Name      string `cbor:"8,keyasint,omitempty"`
	CreatedMs uint64 `cbor:"9,keyasint"`
	UpdatedMs uint64 `cbor:"10,keyasint"`
	Exported  bool   `cbor:"11,keyasint,omitempty"`
}

// ID is the account's UUID, found without an index: the first ten bytes of the wallet's,
// and the account's number in six.
func (a *Account) ID() ID {
	id := a.Wallet
	copy(id[10:], bigEndian(a.No)[2:])
	return id
}

// AccountNo splits an account's id into the first ten bytes of its wallet's id and its number.
func AccountNo(id ID) (wallet [10]byte, no uint64) {
	copy(wallet[:], id[:10])
	var n [8]byte
	copy(n[2:], id[10:])
	return wallet, binary.BigEndian.Uint64(n[:])
}

// Wallet returns the wallet with this id, or nil.
func (t *Tx) Wallet(id ID) (*Wallet, error) { return find[Wallet](t, collectionWallets, id) }

// PutWallet stores w.
func (t *Tx) PutWallet(w *Wallet) error { return put(t, key(collectionWallets, raw(w.ID)), w) }

// DeleteWallet removes the wallet's record, not its accounts.
func (t *Tx) DeleteWallet(id ID) { t.del(key(collectionWallets, raw(id))) }

// EachWallet visits the wallets in the order of their ids.
func (t *Tx) EachWallet(visit func(*Wallet) bool) error { return each(t, collectionWallets, visit) }

// WalletOfAccount returns the wallet of an account id, or nil, and the account's number.
func (t *Tx) WalletOfAccount(id ID) (*Wallet, uint64, error) {
	prefix, no := AccountNo(id)
	w, err := first[Wallet](t, key(collectionWallets, string(prefix[:])))
	return w, no, err
}

// Account returns account number no of a wallet, or nil.
func (t *Tx) Account(wallet ID, no uint64) (*Account, error) {
	return get[Account](t, key(collectionAccounts, raw(wallet), bigEndian(no)))
}

// PutAccount stores a and indexes it by its path and by match, the match key of its address.
func (t *Tx) PutAccount(a *Account, match string) error {
	return cmp.Or(
		put(t, key(collectionAccounts, raw(a.Wallet), bigEndian(a.No)), a),
		put(t, pathKey(a.Wallet, a.Path, a.Curve, a.Format), &numberRecord{a.No}),
		put(t, addressKey(match, a.Wallet, a.No), &numberRecord{a.No}))
}

// DeleteAccount removes a and its index records.
func (t *Tx) DeleteAccount(a *Account, match string) {
	t.del(key(collectionAccounts, raw(a.Wallet), bigEndian(a.No)))
	t.del(pathKey(a.Wallet, a.Path, a.Curve, a.Format))
	t.del(addressKey(match, a.Wallet, a.No))
}

// EachAccount visits a wallet's accounts in order, beginning at number from.
func (t *Tx) EachAccount(wallet ID, from uint64, visit func(*Account) bool) error {
	prefix := key(collectionAccounts, raw(wallet))
	return list(t, keyRange{from: prefix + bigEndian(from), to: nextPrefix(prefix)}, func(_ string, a *Account) bool { return visit(a) })
}

// AccountAt returns the number of the account at this path, or 0.
func (t *Tx) AccountAt(wallet ID, path, curve, format string) (uint64, error) {
	r, err := get[numberRecord](t, pathKey(wallet, path, curve, format))
	if r == nil {
		return 0, err
	}
	return r.No, nil
}

// Owner is the owner of an address: account No of a wallet, or with No 0 a private key.
type Owner struct {
	ID ID
	No uint64
}

// ByAddress looks up the owner of the address with this match key.
func (t *Tx) ByAddress(match string) (o Owner, ok bool, err error) {
	prefix := key(collectionAddresses, hashKey(match))
	err = t.scan(keysWithPrefix(prefix), func(k string, _ *record) bool {
		if rest := []byte(k[len(prefix):]); len(rest) == 24 {
			o, ok = Owner{ID(rest[:16]), binary.BigEndian.Uint64(rest[16:])}, true
		}
		return false
	})
	return o, ok, err
}

// PrivateKey is a key that belongs to no wallet.
type PrivateKey struct {
	ID        ID        `cbor:"1,keyasint"`
	Name      string    `cbor:"2,keyasint"`
	Curve     string    `cbor:"3,keyasint"`
	Key       []byte    `cbor:"4,keyasint"` // sealed once more under the key's id
	PublicKey string    `cbor:"5,keyasint"` // lower-case hex: uncompressed, or 32 bytes for ed25519
	Addresses []Address `cbor:"6,keyasint,omitempty"`
	Tags      []ID      `cbor:"7,keyasint,omitempty"`
	Exported  bool      `cbor:"8,keyasint,omitempty"`
	Imported  bool      `cbor:"9,keyasint,omitempty"`
	CreatedMs uint64    `cbor:"10,keyasint"`
	UpdatedMs uint64    `cbor:"11,keyasint"`
	Disabled  bool      `cbor:"12,keyasint,omitempty"` // permanently: it can neither sign nor be exported
}

// Address is an address in one format.
type Address struct {
	Format  string `cbor:"1,keyasint"`
	Address string `cbor:"2,keyasint"`
}

// PrivateKey returns the private key with this id, or nil.
func (t *Tx) PrivateKey(id ID) (*PrivateKey, error) {
	return find[PrivateKey](t, collectionPrivateKeys, id)
}

// PutPrivateKey stores k and indexes it by the match keys of its addresses.
func (t *Tx) PutPrivateKey(k *PrivateKey, matches []string) error {
	for _, m := range matches {
		if err := put(t, addressKey(m, k.ID, 0), &numberRecord{0}); err != nil {
			return err
		}
	}
	return put(t, key(collectionPrivateKeys, raw(k.ID)), k)
}

// DeletePrivateKey removes k and its index records.
func (t *Tx) DeletePrivateKey(k *PrivateKey, matches []string) {
	t.del(key(collectionPrivateKeys, raw(k.ID)))
	for _, m := range matches {
		t.del(addressKey(m, k.ID, 0))
	}
}

// EachPrivateKey visits the private keys in the order of their ids.
func (t *Tx) EachPrivateKey(visit func(*PrivateKey) bool) error {
	return each(t, collectionPrivateKeys, visit)
}

type numberRecord struct {
	No uint64 `cbor:"1,keyasint"`
}

func addressKey(match string, owner ID, no uint64) string {
	return key(collectionAddresses, hashKey(match), raw(owner), bigEndian(no))
}

func pathKey(wallet ID, path, curve, format string) string {
	return key(collectionPaths, raw(wallet), hashKey(path+"|"+curve+"|"+format))
}

func bigEndian(n uint64) string { return string(binary.BigEndian.AppendUint64(make([]byte, 0, 8), n)) }

// Purposes of an import target.
const (
	TargetWallet     = 'w'
	TargetPrivateKey = 'p'
	TargetSecret     = 's' // of no user: every user who may import secrets may use it
)

// Import targets: at most MaxTargets of a user live, MaxSecretTargets of an organization, each for TargetMs.
const (
	MaxTargets = 10
	TargetMs   = 24 * 60 * 60 * 1000
)

// Target is an import target: a key of the enclave to which a client encrypts one import.
type Target struct {
	ID        ID     `cbor:"1,keyasint"`
	User      ID     `cbor:"2,keyasint"` // who may use it; zero: of a secret
	For       uint8  `cbor:"3,keyasint"` // TargetWallet and so on
	Key       []byte `cbor:"4,keyasint"` // private key, sealed once more under the target's id
	CreatedMs uint64 `cbor:"5,keyasint"`
	// Boot is the boot that made it: a later boot has no reliable record of its use.
	Boot ID `cbor:"6,keyasint"`
	// PublicKey is the public key of Key, lower-case hex, compressed. An import of a secret names the target by it.
	PublicKey string `cbor:"7,keyasint,omitempty"`
}

// Live reports whether the target may still be used at nowMs in this boot.
func (g *Target) Live(boot ID, nowMs uint64) bool {
	return g.Boot == boot && nowMs < g.CreatedMs+TargetMs
}

// PutTarget stores g.
func (t *Tx) PutTarget(g *Target) error {
	return put(t, key(collectionTargets, raw(g.User), raw(g.ID)), g)
}

// DeleteTarget removes an import target of a user.
func (t *Tx) DeleteTarget(user, id ID) { t.del(key(collectionTargets, raw(user), raw(id))) }

// Targets returns a user's import targets, live or not, oldest first.
func (t *Tx) Targets(user ID) (gs []*Target, err error) {
	err = list(t, keysWithPrefix(key(collectionTargets, raw(user))), func(_ string, g *Target) bool {
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

// EachChangedTarget visits the import targets that this change puts, in the order in which it did.
func (t *Tx) EachChangedTarget(visit func(*Target) error) error {
	for _, k := range t.order {
		if t.changes[k] == nil || Collection(k[0]) != collectionTargets {
			continue
		}
		g, err := get[Target](t, k)
		if err == nil {
			err = visit(g)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EachChangedKey visits the accounts and private keys that this change puts, in the order in which it did.
func (t *Tx) EachChangedKey(account func(*Account) error, private func(*PrivateKey) error) (err error) {
	for _, k := range t.order {
		if t.changes[k] == nil {
			continue
		}
		switch Collection(k[0]) {
		case collectionAccounts:
			var a *Account
			if a, err = get[Account](t, k); err == nil {
				err = account(a)
			}
		case collectionPrivateKeys:
			var p *PrivateKey
			if p, err = get[PrivateKey](t, k); err == nil {
				err = private(p)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
