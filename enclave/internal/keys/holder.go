package keys

import (
	"errors"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// Actions of a Grant.
const (
	ActionCreate  = "CREATE"
	ActionImport  = "IMPORT"
	ActionSign    = "SIGN"
	ActionExport  = "EXPORT"
	ActionEncrypt = "ENCRYPT"
	actionUpdate  = "UPDATE"
)

// A Holder is the access of a running activity to keys: it holds the Grant that the policies
// gave. Opening, deriving, signing, exporting and making a key that the organization stores
// all need one. Each method checks the Grant against organization, activity, action and key;
// only signing and exporting spend it.
type Holder struct {
	Grant                  *policy.Grant
	Organization, Activity [16]byte             // must be those of the Grant
	Vault                  Vault                // of the organization that owns the keys
	Step                   interface{ Pause() } // pauses between signatures; or nil
}

// An Opener decrypts a sealed secret of an organization. It fails if owner is not the id under
// which the secret was sealed, so the opened key is the one that the Grant names.
type Opener interface {
	Open(owner [16]byte, sealed []byte) (secret.Secret, error)
}

// A Vault is an Opener that only this package can use, so that an activity gets at a key only with its Grant.
type Vault struct{ opener Opener }

// VaultOf makes a Vault of an Opener.
func VaultOf(o Opener) Vault { return Vault{o} }

// identity identifies the stored key of a Wallet or PrivateKey. It is zero for a new key,
// which can't sign or be exported.
type identity struct {
	organization [16]byte
	key          policy.Key
}

var errForeign = errors.New("a key that no grant can be for")

func (h *Holder) useOf(action string, ks ...policy.Key) policy.Use {
	return policy.Use{Organization: h.Organization, Activity: h.Activity, Action: action, Keys: ks}
}

// spendGrant spends the Grant on stored keys.
func (h *Holder) spendGrant(action string, ids ...identity) error {
	ks := make([]policy.Key, len(ids))
	for i, id := range ids {
		if ks[i] = id.key; id.organization != h.Organization || id.key.Owner == [16]byte{} {
			return errForeign
		}
	}
	if len(ks) == 0 {
		return errForeign
	}
	return h.Grant.Spend(h.useOf(action, ks...))
}

// OpenWallet opens a stored wallet for an action on one of its accounts or, with key.No 0, on the
// wallet. sealed are its entropy and its passphrase, empty for none. The caller wipes the wallet.
func (h *Holder) OpenWallet(action string, key policy.Key, sealed [2][]byte) (w *Wallet, err error) {
	err = h.unseal(action, key, sealed, func(entropy, passphrase secret.Secret) error {
		if w, err = openWallet(entropy, passphrase); err == nil {
			w.identity = identity{h.Organization, key}
		}
		return err
	})
	return w, err
}

// unseal calls use with a key's or wallet's secrets, of which the second may be empty.
func (h *Holder) unseal(action string, key policy.Key, sealed [2][]byte, use func(first, second secret.Secret) error) error {
	if err := h.Grant.Allows(h.useOf(action, key)); err != nil {
		return err
	}
	first, err := h.Vault.opener.Open(key.Owner, sealed[0])
	if err != nil {
		return err
	}
	defer first.Wipe()
	var second secret.Secret
	if len(sealed[1]) > 0 {
		if second, err = h.Vault.opener.Open(key.Owner, sealed[1]); err != nil {
			return err
		}
		defer second.Wipe()
	}
	return use(first, second)
}

// OpenKey opens a stored private key for an action. The caller wipes it.
func (h *Holder) OpenKey(action string, owner [16]byte, c chain.Curve, sealed []byte) (k *PrivateKey, err error) {
	key := policy.Key{Owner: owner}
	err = h.unseal(action, key, [2][]byte{sealed}, func(s, _ secret.Secret) error {
		if k, err = privateKeyFromSecret(c, s); err == nil {
			k.identity = identity{h.Organization, key}
		}
		return err
	})
	return k, err
}

// NewWallet opens a wallet that the activity has generated or imported, to derive its first
// accounts. It neither keeps nor wipes the secrets; the caller wipes the wallet.
func (h *Holder) NewWallet(action string, entropy, passphrase secret.Secret) (*Wallet, error) {
	if err := h.checkCreation(action); err != nil {
		return nil, err
	}
	return openWallet(entropy, passphrase)
}

// checkCreation checks that the Grant is for making keys. It doesn't spend it: an activity may
// make several keys.
func (h *Holder) checkCreation(action string) error {
	if action != ActionCreate && action != ActionImport {
		return errForeign
	}
	return h.Grant.Allows(h.useOf(action))
}
