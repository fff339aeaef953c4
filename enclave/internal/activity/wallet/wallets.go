// Package wallet has the activities about keys: wallets, private keys and stored secrets, their import and export,
// signatures, and the sending of transactions.
//
// As package activity promises, secrets are stored only sealed by the Vault and leave only encrypted, and
// nothing is signed or exported without the Grant.
package wallet

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// Wallets are the kinds about wallets and their accounts.
var Wallets = activity.Family{
	activity.Kind[CreateWallet, WalletResult]{Name: "CREATE_WALLET", Resource: "WALLET", Action: "CREATE", Run: createWallet, Verify: verifyWallet},
	activity.Kind[CreateWalletAccounts, Addresses]{
		Name: "CREATE_WALLET_ACCOUNTS", Resource: "WALLET", Action: "CREATE", Run: createWalletAccounts, Verify: verifyAccounts,
		Explain: func(tx *org.Tx, in *CreateWalletAccounts, o *show.Object) error { return in.explain(tx, o) },
		Keys:    func(_ *org.Tx, in *CreateWalletAccounts) ([]policy.Key, error) { return ownerKeys(in.WalletID), nil },
	},
	activity.Kind[UpdateWallet, WalletID]{
		Name: "UPDATE_WALLET", Resource: "WALLET", Action: "UPDATE", Run: updateWallet,
		Explain: func(tx *org.Tx, in *UpdateWallet, o *show.Object) error { return in.explain(tx, o) },
		Params:  func(in *UpdateWallet) policy.Value { return activity.Param("wallet_id", policy.LowerHex(in.WalletID)) },
	},
	activity.Kind[UpdateWalletAccountName, WalletAccountID]{Name: "UPDATE_WALLET_ACCOUNT_NAME", Resource: "WALLET", Action: "UPDATE", Run: updateWalletAccountName,
		Explain: func(tx *org.Tx, in *UpdateWalletAccountName, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[DeleteWallets, WalletIDs]{
		Name: "DELETE_WALLETS", Resource: "WALLET", Action: "DELETE", Run: deleteWallets,
		Explain: func(tx *org.Tx, in *DeleteWallets, o *show.Object) error { return in.explain(tx, o) },
		Facts:   func(tx *org.Tx, in *DeleteWallets) (policy.Facts, error) { return walletsFacts(tx, in.WalletIDs) },
	},
	activity.Kind[DeleteWalletAccounts, WalletAccountIDs]{
		Name: "DELETE_WALLET_ACCOUNTS", Resource: "WALLET", Action: "DELETE", Run: deleteWalletAccounts,
		Explain: func(tx *org.Tx, in *DeleteWalletAccounts, o *show.Object) error { return in.explain(tx, o) },
		FillPolicyRequest: func(tx *org.Tx, in *DeleteWalletAccounts, q *policy.Request) error {
			return askAccounts(tx, in.WalletAccountIDs, q)
		},
	},
}

const defaultWords = 12

// WalletAccountParams is an account to be derived.
type WalletAccountParams struct {
	Curve         Curve         `json:"curve" rule:"required"`
	PathFormat    PathFormat    `json:"pathFormat" rule:"required"`
	Path          string        `json:"path" rule:"required"`
	AddressFormat AddressFormat `json:"addressFormat" rule:"required"`
	Name          *string       `json:"name" rule:"omitempty,label_length,label"`
}

// CreateWallet creates a wallet. It is also the wallet of a new organization.
type CreateWallet struct {
	WalletName     string                `json:"walletName" rule:"required,label_length,label"`
	Accounts       []WalletAccountParams `json:"accounts" rule:"dive,required"`
	MnemonicLength *int32                `json:"mnemonicLength" rule:"omitempty"`
}

func (in *CreateWallet) Check() error { return in.CheckAt("") }

// CheckAt is Check for a wallet inside of another intent, at path.
func (in *CreateWallet) CheckAt(path string) error {
	switch in.mnemonicWords() {
	case 12, 15, 18, 21, 24:
	default:
		return fault.Field(path+"mnemonicLength", "invalid mnemonic length: must be 12, 15, 18, 21 or 24")
	}
	return checkAccounts(path+"accounts", in.Accounts)
}

func (in *CreateWallet) mnemonicWords() int {
	if in.MnemonicLength == nil || *in.MnemonicLength == 0 {
		return defaultWords
	}
	return int(*in.MnemonicLength)
}

func checkAccounts(list string, ps []WalletAccountParams) error {
	type place struct {
		path   string
		curve  Curve
		format AddressFormat
	}
	seen := make(map[place]bool, len(ps))
	for i, p := range ps {
		if _, err := keys.ParsePath(p.Path); err != nil {
			return fault.Field(activity.FieldAt(list, i, "path"), "invalid path")
		}
		if _, _, err := formatFor(activity.FieldAt(list, i, "addressFormat"), p.Curve, p.AddressFormat); err != nil {
			return err
		}
		k := place{p.Path, p.Curve, p.AddressFormat}
		if seen[k] {
			return pathNotUnique(list, i)
		}
		seen[k] = true
	}
	return nil
}

func pathNotUnique(list string, i int) error {
	return fault.Field(activity.FieldAt(list, i, "path"), "wallet account path must be unique in its wallet, for one curve and address format")
}

// WalletResult is a new wallet and the addresses of its accounts.
type WalletResult struct {
	WalletID  string   `json:"walletId"`
	Addresses []string `json:"addresses"`
}

func createWallet(tx *activity.Tx, in *CreateWallet) (*WalletResult, error) {
	if err := activity.Wallets.Add(tx, 1); err != nil {
		return nil, err
	}
	return AddWallet(tx, "", in)
}

// AddWallet creates a wallet; the caller counts it.
func AddWallet(tx *activity.Tx, path string, in *CreateWallet) (*WalletResult, error) {
	id, err := activity.NewNamed(tx, org.NameWallet, "wallet", path+"walletName", in.WalletName)
	if err != nil {
		return nil, err
	}
	entropy, err := keys.GenerateMnemonic(tx.Rand, in.mnemonicWords())
	if err != nil {
		return nil, err
	}
	defer entropy.Wipe()
	return keepWallet(tx, keys.ActionCreate, &org.Wallet{ID: id, Name: in.WalletName}, entropy, secret.Secret{}, path+"accounts", in.Accounts)
}

// keepWallet completes the record of a new wallet, seals its secrets in it and stores it with its first accounts.
func keepWallet(
	tx *activity.Tx, action string, w *org.Wallet, entropy, passphrase secret.Secret, list string, ps []WalletAccountParams,
) (r *WalletResult, err error) {
	w.Words, w.CreatedMs, w.UpdatedMs = uint8(keys.Words(entropy)), tx.NowMs, tx.NowMs
	if w.Entropy, err = tx.Vault.Seal(w.ID, entropy); err != nil {
		return nil, err
	}
	if passphrase.Len() > 0 {
		if w.Passphrase, err = tx.Vault.Seal(w.ID, passphrase); err != nil {
			return nil, err
		}
	}
	r = &WalletResult{WalletID: w.ID.String(), Addresses: []string{}}
	if len(ps) > 0 {
		seed, err := tx.Holder().NewWallet(action, entropy, passphrase)
		if err != nil {
			return nil, err
		}
		defer seed.Wipe()
		if r.Addresses, err = addAccounts(tx, w, seed, list, ps, true); err != nil {
			return nil, err
		}
	}
	return r, tx.PutWallet(w)
}

// addAccounts derives accounts and, with persist, stores them. It raises the counters of w, which the caller stores.
func addAccounts(tx *activity.Tx, w *org.Wallet, seed *keys.Wallet, list string, ps []WalletAccountParams, persist bool) ([]string, error) {
	addresses := make([]string, len(ps))
	for i := range ps {
		a, err := deriveAccount(seed, &ps[i])
		if err != nil {
			return nil, err
		}
		addresses[i] = a.Address
		tx.Pause() // the wallet's seed stays in memory as long as the request takes
		if tx.WantsProofs {
			tx.Claims = append(tx.Claims, activity.Claim{Address: &activity.AddressClaim{Organization: tx.ID, WalletID: w.ID.String(), Path: a.Path, Address: a.Address}})
		}
		if !persist {
			continue
		}
		taken, err := pathTaken(tx, a, w.ID)
		if err != nil {
			return nil, err
		}
		if taken {
			return nil, pathNotUnique(list, i)
		}
		if w.Imported || w.Exported || w.KeysOut { // others may have its keys too
			if err := checkAddressUnique(tx, activity.FieldAt(list, i, "path"), w.ID, a.Address); err != nil {
				return nil, err
			}
		}
		w.LastNo++
		w.Accounts++
		a.Wallet, a.No, a.CreatedMs, a.UpdatedMs = w.ID, w.LastNo, tx.NowMs, tx.NowMs
		if err := tx.PutAccount(a, chain.MatchKey(a.Address)); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// pathTaken reports whether the wallet has an account at the path of a. On ed25519 paths that differ only in hardening
// are equal: they have one key and one address.
func pathTaken(tx *activity.Tx, a *org.Account, wallet org.ID) (bool, error) {
	if a.Curve != chain.Ed25519.String() {
		no, err := tx.AccountAt(wallet, a.Path, a.Curve, a.Format)
		return no != 0, err
	}
	o, ok, err := tx.ByAddress(chain.MatchKey(a.Address))
	return ok && o.ID == wallet, err
}

// deriveAccount makes the account that p describes, without wallet and number.
func deriveAccount(seed *keys.Wallet, p *WalletAccountParams) (*org.Account, error) {
	curve, format, err := formatFor("addressFormat", p.Curve, p.AddressFormat)
	if err != nil {
		return nil, err
	}
	path, err := keys.ParsePath(p.Path)
	if err != nil {
		return nil, err
	}
	k, err := seed.Derive(curve, path)
	if err != nil {
		return nil, err
	}
	defer k.Wipe()
	address, err := addresses.Address(format, k.Public())
	if err != nil {
		return nil, err
	}
	return &org.Account{
		Curve: string(p.Curve), Path: p.Path, Format: string(p.AddressFormat), Name: activity.TextOf(p.Name),
		Address: address, PublicKey: hex.EncodeToString(k.Public().Compressed()),
	}, nil
}

// sealedWallet returns the sealed secrets of a stored wallet. Only an imported one may have a passphrase.
func sealedWallet(w *org.Wallet) [2][]byte { return [2][]byte{w.Entropy, w.Passphrase} }

// ownerKeys is the policy key of a whole wallet, or of a private key, by a UUID.
func ownerKeys(text string) []policy.Key {
	id, _ := org.ParseID(text) // its rule requires a UUID
	return []policy.Key{{Owner: id}}
}

// CreateWalletAccounts derives more accounts of a wallet. With persist false it only returns their addresses.
type CreateWalletAccounts struct {
	WalletID string                `json:"walletId" rule:"required,uuid"`
	Accounts []WalletAccountParams `json:"accounts" rule:"dive,required"`
	Persist  *bool                 `json:"persist"`
}

func (in *CreateWalletAccounts) Check() error { return checkAccounts("accounts", in.Accounts) }

// Addresses is the result of deriving accounts.
type Addresses struct {
	Addresses []string `json:"addresses"`
}

func createWalletAccounts(tx *activity.Tx, in *CreateWalletAccounts) (*Addresses, error) {
	addresses, err := AddAccounts(tx, in)
	return &Addresses{addresses}, err
}

// AddAccounts derives accounts of an existing wallet, for a Grant to create them.
func AddAccounts(tx *activity.Tx, in *CreateWalletAccounts) ([]string, error) {
	old, err := activity.Find(tx.Wallet, "wallet", in.WalletID)
	if err != nil || len(in.Accounts) == 0 {
		return []string{}, err
	}
	seed, err := tx.Holder().OpenWallet(keys.ActionCreate, policy.Key{Owner: old.ID}, sealedWallet(old))
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	w := *old
	persist := in.Persist == nil || *in.Persist
	addresses, err := addAccounts(tx, &w, seed, "accounts", in.Accounts, persist)
	if err != nil || !persist {
		return addresses, err
	}
	w.UpdatedMs = tx.NowMs
	return addresses, tx.PutWallet(&w)
}

// UpdateWallet renames a wallet, unless the name is empty.
type UpdateWallet struct {
	WalletID   string  `json:"walletId" rule:"required,uuid"`
	WalletName *string `json:"walletName" rule:"omitempty,label,label_length"`
}

// WalletID is the result of changing a wallet.
type WalletID struct {
	WalletID string `json:"walletId"`
}

func updateWallet(tx *activity.Tx, in *UpdateWallet) (*WalletID, error) {
	old, err := activity.Find(tx.Wallet, "wallet", in.WalletID)
	if err != nil {
		return nil, err
	}
	name := activity.TextOf(in.WalletName)
	if name == "" {
		return &WalletID{in.WalletID}, nil
	}
	if err := activity.Rename(tx, org.NameWallet, "wallet", "walletName", old.Name, name, old.ID); err != nil {
		return nil, err
	}
	w := *old
	w.Name, w.UpdatedMs = name, tx.NowMs
	return &WalletID{in.WalletID}, tx.PutWallet(&w)
}

// DeleteWallets deletes wallets with all their accounts.
type DeleteWallets struct {
	WalletIDs           []string `json:"walletIds" rule:"required,dive,uuid"`
	DeleteWithoutExport *bool    `json:"deleteWithoutExport"`
}

func (in *DeleteWallets) Check() error { return activity.CheckDistinct("walletIds", in.WalletIDs) }

// NotExported is the error of deleting a secret that was never exported.
func NotExported() error {
	return fault.WithCode(fault.InvalidArgument, "WALLET_ACCOUNT_NOT_EXPORTED", "wallet account has not been exported")
}

// WalletIDs is the result of deleting wallets.
type WalletIDs struct {
	WalletIDs []string `json:"walletIds"`
}

func deleteWallets(tx *activity.Tx, in *DeleteWallets) (*WalletIDs, error) {
	found := make([]*org.Wallet, len(in.WalletIDs))
	for i, text := range in.WalletIDs {
		var err error
		if found[i], err = activity.Find(tx.Wallet, "wallet", text); err != nil {
			return nil, err
		}
		if !found[i].Exported && !activity.IsOn(in.DeleteWithoutExport) {
			return nil, NotExported()
		}
	}
	for _, w := range found {
		if err := removeWallet(tx, w); err != nil {
			return nil, err
		}
	}
	return &WalletIDs{in.WalletIDs}, activity.Wallets.Add(tx, -len(found))
}

func removeWallet(tx *activity.Tx, w *org.Wallet) error {
	var accounts []*org.Account
	err := tx.EachAccount(w.ID, 0, func(a *org.Account) bool {
		accounts = append(accounts, a)
		return true
	})
	if err != nil {
		return err
	}
	for _, a := range accounts {
		tx.DeleteAccount(a, chain.MatchKey(a.Address))
	}
	tx.FreeName(org.NameWallet, w.Name)
	tx.DeleteWallet(w.ID)
	// If the activity fails later, the keys are derived again when needed.
	tx.Keys.Drop(func(k activity.KeyID) bool { return k.Owner == w.ID && k.Organization == tx.ID })
	return nil
}

// findAccount finds the account and its wallet that an intent names by a UUID.
func findAccount(tx *org.Tx, text string) (*org.Account, *org.Wallet, error) {
	id, _ := org.ParseID(text) // its rule requires a UUID
	w, no, err := tx.WalletOfAccount(id)
	if err != nil {
		return nil, nil, err
	}
	if w == nil {
		return nil, nil, activity.NotFound("wallet account", text)
	}
	a, err := tx.Account(w.ID, no)
	a, err = activity.OrNotFound(a, err, "wallet account", text)
	return a, w, err
}

// UpdateWalletAccountName renames an account.
type UpdateWalletAccountName struct {
	WalletAccountID string `json:"walletAccountId" rule:"required,uuid"`
	Name            string `json:"name" rule:"required,label,label_length"`
}

// WalletAccountID is the result of changing an account.
type WalletAccountID struct {
	WalletAccountID string `json:"walletAccountId"`
}

func updateWalletAccountName(tx *activity.Tx, in *UpdateWalletAccountName) (*WalletAccountID, error) {
	old, _, err := findAccount(tx.Tx, in.WalletAccountID)
	if err != nil {
		return nil, err
	}
	a := *old
	a.Name, a.UpdatedMs = in.Name, tx.NowMs
	return &WalletAccountID{in.WalletAccountID}, tx.PutAccount(&a, chain.MatchKey(a.Address))
}

// DeleteWalletAccounts deletes accounts. They can be derived again as long as their wallet exists.
type DeleteWalletAccounts struct {
	WalletAccountIDs    []string `json:"walletAccountIds" rule:"required,dive,uuid"`
	DeleteWithoutExport *bool    `json:"deleteWithoutExport"`
}

func (in *DeleteWalletAccounts) Check() error {
	return activity.CheckDistinct("walletAccountIds", in.WalletAccountIDs)
}

// WalletAccountIDs is the result of deleting accounts.
type WalletAccountIDs struct {
	WalletAccountIDs []string `json:"walletAccountIds"`
}

func deleteWalletAccounts(tx *activity.Tx, in *DeleteWalletAccounts) (*WalletAccountIDs, error) {
	for _, text := range in.WalletAccountIDs {
		a, old, err := findAccount(tx.Tx, text)
		if err != nil {
			return nil, err
		}
		if !a.Exported && !old.Exported && !activity.IsOn(in.DeleteWithoutExport) {
			return nil, NotExported()
		}
		tx.DeleteAccount(a, chain.MatchKey(a.Address))
		w := *old
		w.Accounts--
		w.UpdatedMs = tx.NowMs
		if err := tx.PutWallet(&w); err != nil {
			return nil, err
		}
		dropKey(tx, a.Wallet, a.No)
	}
	return &WalletAccountIDs{in.WalletAccountIDs}, nil
}

// walletValue is the root wallet, and an element of wallets.
func walletValue(w *org.Wallet) policy.Value {
	return policy.Struct(
		policy.Member{Name: "id", Value: policy.String(w.ID.String())},
		policy.Member{Name: "imported", Value: policy.Bool(w.Imported)},
		policy.Member{Name: "exported", Value: policy.Bool(w.Exported)},
		policy.Member{Name: "label", Value: policy.String(w.Name)})
}

// addressValue is an address as policies read it.
func addressValue(address string) policy.Value {
	if chain.IgnoresCase(address) {
		return policy.Hex(address)
	}
	return policy.String(address)
}

// accountValue is the root wallet_account. Its steps are hardened where derivation hardens them: on ed25519 all are.
func accountValue(a *org.Account) policy.Value {
	var indexes, hardened []policy.Value
	for _, step := range strings.Split(a.Path, "/")[1:] {
		digits, hard := strings.CutSuffix(step, "'")
		n, _ := strconv.ParseUint(digits, 10, 31) // it was parsed before it was stored
		hard = hard || a.Curve == chain.Ed25519.String()
		indexes, hardened = append(indexes, policy.Int(int64(n))), append(hardened, policy.Bool(hard))
	}
	return policy.Struct(
		policy.Member{Name: "address", Value: addressValue(a.Address)},
		policy.Member{Name: "path_indexes", Value: policy.List(indexes...)},
		policy.Member{Name: "path_hardened", Value: policy.List(hardened...)})
}

// walletsFacts is the root wallets: all named wallets, or no root if one does not exist.
func walletsFacts(tx *org.Tx, ids []string) (policy.Facts, error) {
	ws := make([]policy.Value, len(ids))
	for i, text := range inOrder(ids) {
		id, _ := org.ParseID(text) // its rule requires a UUID
		w, err := tx.Wallet(id)
		if w == nil || err != nil {
			return nil, err
		}
		ws[i] = walletValue(w)
	}
	return policy.Facts{"wallets": policy.List(ws...)}, nil
}

// inOrder sorts ids, so that policies see one order whatever the request's.
func inOrder(ids []string) []string { return slices.Sorted(slices.Values(ids)) }

// askAccounts completes a policy request about accounts: each with its wallet, and their wallets together.
func askAccounts(tx *org.Tx, ids []string, q *policy.Request) error {
	var ws []policy.Value
	seen := map[org.ID]bool{}
	missing := false
	q.Facts = policy.Facts{}
	err := askEach(q, inOrder(ids), func(text string) (policy.Facts, error) {
		a, w, err := findAccount(tx, text)
		if fault.Of(err) != nil {
			missing = true // Run refuses it
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !seen[w.ID] {
			seen[w.ID], ws = true, append(ws, walletValue(w))
		}
		return policy.Facts{"wallet": walletValue(w), "wallet_account": accountValue(a)}, nil
	})
	if !missing {
		q.Facts["wallets"] = policy.List(ws...)
	}
	return err
}
