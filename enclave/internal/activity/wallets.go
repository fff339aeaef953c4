package activity

import (
	"encoding/hex"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
)

var wallets = []*Kind{
	kind("CREATE_WALLET", "WALLET", "CREATE", createWallet),
	kind("CREATE_WALLET_ACCOUNTS", "WALLET", "CREATE", createWalletAccounts),
	kind("UPDATE_WALLET", "WALLET", "UPDATE", updateWallet),
	kind("DELETE_WALLETS", "WALLET", "DELETE", deleteWallets),
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

// CreateWallet makes a wallet. It is also the wallet of a new organization.
type CreateWallet struct {
	WalletName     string                `json:"walletName" rule:"required,label_length,label"`
	Accounts       []WalletAccountParams `json:"accounts" rule:"dive,required"`
	MnemonicLength *int32                `json:"mnemonicLength" rule:"omitempty"`
}

func (in *CreateWallet) check() error { return in.checkAt("") }

func (in *CreateWallet) checkAt(path string) error {
	switch in.words() {
	case 12, 15, 18, 21, 24:
	default:
		return fault.Field(path+"mnemonicLength", "invalid mnemonic length: must be 12, 15, 18, 21 or 24")
	}
	return checkAccounts(path+"accounts", in.Accounts)
}

func (in *CreateWallet) words() int {
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
			return fault.Field(at(list, i, "path"), "invalid path")
		}
		if _, _, err := formatFor(at(list, i, "addressFormat"), p.Curve, p.AddressFormat); err != nil {
			return err
		}
		k := place{p.Path, p.Curve, p.AddressFormat}
		if seen[k] {
			return pathTaken(list, i)
		}
		seen[k] = true
	}
	return nil
}

func pathTaken(list string, i int) error {
	return fault.Field(at(list, i, "path"), "wallet account path must be unique in its wallet, for one curve and address format")
}

// WalletResult is a new wallet and the addresses of its accounts.
type WalletResult struct {
	WalletID  string   `json:"walletId"`
	Addresses []string `json:"addresses"`
}

func createWallet(tx *Tx, in *CreateWallet) (*WalletResult, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if old.Wallets >= org.MaxWallets {
		return nil, overQuota(org.MaxWallets, "wallets")
	}
	r, err := addWallet(tx, "", in)
	if err != nil {
		return nil, err
	}
	o := *old
	o.Wallets++
	return r, tx.PutOrganization(&o)
}

// addWallet makes a wallet; the caller counts it.
func addWallet(tx *Tx, path string, in *CreateWallet) (*WalletResult, error) {
	holder, err := tx.Named(org.NameWallet, in.WalletName)
	if err != nil {
		return nil, err
	}
	if !holder.Zero() {
		return nil, taken("wallet", path+"walletName")
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	entropy, err := keys.GenerateMnemonic(tx.Rand, in.words())
	if err != nil {
		return nil, err
	}
	defer entropy.Wipe()
	w := &org.Wallet{ID: id, Name: in.WalletName, Words: uint8(in.words()), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs}
	if w.Entropy, err = tx.Vault.Seal(id, entropy); err != nil {
		return nil, err
	}
	r := &WalletResult{WalletID: id.String(), Addresses: []string{}}
	if len(in.Accounts) > 0 {
		seed, err := keys.OpenWallet(entropy, keys.Secret{})
		if err != nil {
			return nil, err
		}
		defer seed.Wipe()
		if r.Addresses, err = addAccounts(tx, w, seed, path+"accounts", in.Accounts, true); err != nil {
			return nil, err
		}
	}
	if err := tx.TakeName(org.NameWallet, w.Name, id); err != nil {
		return nil, err
	}
	return r, tx.PutWallet(w)
}

// addAccounts derives accounts and, if they are to persist, stores them; the
// caller stores w, whose counters go up.
func addAccounts(tx *Tx, w *org.Wallet, seed *keys.Wallet, list string, ps []WalletAccountParams, persist bool) ([]string, error) {
	addresses := make([]string, len(ps))
	for i := range ps {
		a, err := deriveAccount(seed, &ps[i])
		if err != nil {
			return nil, err
		}
		addresses[i] = a.Address
		if tx.WantsProofs {
			tx.Claims = append(tx.Claims, Claim{Address: &AddressClaim{tx.ID, w.ID.String(), a.Path, a.Address}})
		}
		if !persist {
			continue
		}
		no, err := tx.AccountAt(w.ID, a.Path, a.Curve, a.Format)
		if err != nil {
			return nil, err
		}
		if no != 0 {
			return nil, pathTaken(list, i)
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
	address, err := chains.Address(format, k.Public())
	if err != nil {
		return nil, err
	}
	a := &org.Account{
		Curve: string(p.Curve), Path: p.Path, Format: string(p.AddressFormat),
		Address: address, PublicKey: hex.EncodeToString(k.Public().Compressed()),
	}
	if p.Name != nil {
		a.Name = *p.Name
	}
	return a, nil
}

// openWallet computes the seed of a stored wallet. The caller wipes it.
func openWallet(tx *Tx, w *org.Wallet) (*keys.Wallet, error) {
	entropy, err := tx.Vault.Open(w.ID, w.Entropy)
	if err != nil {
		return nil, err
	}
	defer entropy.Wipe()
	return keys.OpenWallet(entropy, keys.Secret{})
}

// CreateWalletAccounts derives more accounts of a wallet. With persist false it
// only says what their addresses would be.
type CreateWalletAccounts struct {
	WalletID string                `json:"walletId" rule:"required,uuid"`
	Accounts []WalletAccountParams `json:"accounts" rule:"dive,required"`
	Persist  *bool                 `json:"persist"`
}

func (in *CreateWalletAccounts) check() error { return checkAccounts("accounts", in.Accounts) }

// Addresses is the result of deriving accounts.
type Addresses struct {
	Addresses []string `json:"addresses"`
}

func createWalletAccounts(tx *Tx, in *CreateWalletAccounts) (*Addresses, error) {
	old, err := findWallet(tx, in.WalletID)
	if err != nil || len(in.Accounts) == 0 {
		return &Addresses{[]string{}}, err
	}
	seed, err := openWallet(tx, old)
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	w := *old
	persist := in.Persist == nil || *in.Persist
	addresses, err := addAccounts(tx, &w, seed, "accounts", in.Accounts, persist)
	if err != nil || !persist {
		return &Addresses{addresses}, err
	}
	w.UpdatedMs = tx.NowMs
	return &Addresses{addresses}, tx.PutWallet(&w)
}

// findWallet finds the wallet that an intent names by a UUID.
func findWallet(tx *Tx, text string) (*org.Wallet, error) {
	id, _ := org.ParseID(text) // a UUID by its rule
	w, err := tx.Wallet(id)
	if err == nil && w == nil {
		err = notFound("wallet", text)
	}
	return w, err
}

// UpdateWallet gives a wallet another name, if there is one in it.
type UpdateWallet struct {
	WalletID   string  `json:"walletId" rule:"required,uuid"`
	WalletName *string `json:"walletName" rule:"omitempty,label,label_length"`
}

// WalletID is the result of changing a wallet.
type WalletID struct {
	WalletID string `json:"walletId"`
}

func updateWallet(tx *Tx, in *UpdateWallet) (*WalletID, error) {
	old, err := findWallet(tx, in.WalletID)
	if err != nil {
		return nil, err
	}
	if in.WalletName == nil || *in.WalletName == "" {
		return &WalletID{in.WalletID}, nil
	}
	if err := rename(tx, org.NameWallet, "wallet", "walletName", old.Name, *in.WalletName, old.ID); err != nil {
		return nil, err
	}
	w := *old
	w.Name, w.UpdatedMs = *in.WalletName, tx.NowMs
	return &WalletID{in.WalletID}, tx.PutWallet(&w)
}

// DeleteWallets removes wallets with all their accounts.
type DeleteWallets struct {
	WalletIDs           []string `json:"walletIds" rule:"required,dive,uuid"`
	DeleteWithoutExport *bool    `json:"deleteWithoutExport"`
}

func (in *DeleteWallets) check() error { return checkDistinct("walletIds", in.WalletIDs) }

// WalletIDs is the result of removing wallets.
type WalletIDs struct {
	WalletIDs []string `json:"walletIds"`
}

func deleteWallets(tx *Tx, in *DeleteWallets) (*WalletIDs, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	found := make([]*org.Wallet, len(in.WalletIDs))
	for i, text := range in.WalletIDs {
		if found[i], err = findWallet(tx, text); err != nil {
			return nil, err
		}
		if !found[i].Exported && (in.DeleteWithoutExport == nil || !*in.DeleteWithoutExport) {
			return nil, fault.Named(fault.InvalidArgument, "WALLET_ACCOUNT_NOT_EXPORTED", "wallet account has not been exported")
		}
	}
	for _, w := range found {
		if err := removeWallet(tx, w); err != nil {
			return nil, err
		}
	}
	o := *old
	o.Wallets -= uint32(len(found))
	return &WalletIDs{in.WalletIDs}, tx.PutOrganization(&o)
}

func removeWallet(tx *Tx, w *org.Wallet) error {
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
	// Should the step come to nothing, the keys are derived again when wanted.
	tx.Keys.Drop(func(k KeyID) bool { return k.Owner == w.ID && k.Organization == tx.ID })
	return nil
}
