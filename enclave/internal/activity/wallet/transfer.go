package wallet

import (
	"errors"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// Transfer are the kinds that import and export keys.
var Transfer = activity.Family{
	activity.Kind[InitImport, ImportBundle]{
		Name: "INIT_IMPORT_WALLET", Resource: "WALLET", Action: "IMPORT", Run: initImport(org.TargetWallet),
		Explain:  func(tx *org.Tx, in *InitImport, o *show.Object) error { return in.explain(tx, o) },
		OnlySelf: func(in *InitImport) string { return in.UserID },
	},
	activity.Kind[ImportWallet, WalletResult]{
		Name: "IMPORT_WALLET", Resource: "WALLET", Action: "IMPORT", Run: importWallet,
		Explain: func(tx *org.Tx, in *ImportWallet, o *show.Object) error {
			return explainImport(tx, o, in.UserID, in.WalletName, in.EncryptedBundle)
		},
		OnlySelf: func(in *ImportWallet) string { return in.UserID },
	},
	activity.Kind[InitImport, ImportBundle]{
		Name: "INIT_IMPORT_PRIVATE_KEY", Resource: "PRIVATE_KEY", Action: "IMPORT", Run: initImport(org.TargetPrivateKey),
		Explain:  func(tx *org.Tx, in *InitImport, o *show.Object) error { return in.explain(tx, o) },
		OnlySelf: func(in *InitImport) string { return in.UserID },
	},
	activity.Kind[ImportPrivateKey, PrivateKeyResult]{
		Name: "IMPORT_PRIVATE_KEY", Resource: "PRIVATE_KEY", Action: "IMPORT", Run: importPrivateKey,
		Explain: func(tx *org.Tx, in *ImportPrivateKey, o *show.Object) error {
			return explainImport(tx, o, in.UserID, in.PrivateKeyName, in.EncryptedBundle)
		},
		OnlySelf: func(in *ImportPrivateKey) string { return in.UserID },
	},
	activity.Kind[ExportWallet, ExportedWallet]{
		Name: "EXPORT_WALLET", Resource: "WALLET", Action: "EXPORT", Run: exportWallet,
		Explain: func(tx *org.Tx, in *ExportWallet, o *show.Object) error { return in.explain(tx, o) },
		Params:  (*ExportWallet).params,
		Facts: func(tx *org.Tx, in *ExportWallet) (policy.Facts, error) {
			return factsOf(tx.Wallet, in.WalletID, "wallet", walletValue)
		},
		Keys: func(_ *org.Tx, in *ExportWallet) ([]policy.Key, error) { return ownerKeys(in.WalletID), nil },
	},
	activity.Kind[ExportWalletAccount, ExportedAccount]{
		Name: "EXPORT_WALLET_ACCOUNT", Resource: "WALLET", Action: "EXPORT", Run: exportWalletAccount,
		Explain: func(tx *org.Tx, in *ExportWalletAccount, o *show.Object) error { return in.explain(tx, o) },
		Params:  (*ExportWalletAccount).params,
		Facts:   func(tx *org.Tx, in *ExportWalletAccount) (policy.Facts, error) { return addressFacts(tx, in.Address) },
		Keys:    func(tx *org.Tx, in *ExportWalletAccount) ([]policy.Key, error) { return policyKeys(tx, in.Address) },
	},
	activity.Kind[ExportPrivateKey, ExportedPrivateKey]{
		Name: "EXPORT_PRIVATE_KEY", Resource: "PRIVATE_KEY", Action: "EXPORT", Run: exportPrivateKey,
		Explain: func(tx *org.Tx, in *ExportPrivateKey, o *show.Object) error { return in.explain(tx, o) },
		Params:  (*ExportPrivateKey).params,
		Facts: func(tx *org.Tx, in *ExportPrivateKey) (policy.Facts, error) {
			return privateKeyFacts(tx, in.PrivateKeyID)
		},
		Keys: func(_ *org.Tx, in *ExportPrivateKey) ([]policy.Key, error) { return ownerKeys(in.PrivateKeyID), nil },
	},
}

// addressFacts are the roots of an account by its address.
func addressFacts(tx *org.Tx, address string) (policy.Facts, error) {
	a, w, err := accountOf(tx, address)
	if fault.Of(err) != nil {
		return nil, nil // Run refuses an account that does not exist
	}
	if err != nil {
		return nil, err
	}
	return policy.Facts{"wallet": walletValue(w), "wallet_account": accountValue(a)}, nil
}

// accountOf finds the wallet account at an address, and its wallet.
func accountOf(tx *org.Tx, address string) (*org.Account, *org.Wallet, error) {
	owner, ok, err := tx.ByAddress(chain.MatchKey(address))
	if err != nil {
		return nil, nil, err
	}
	if !ok || owner.No == 0 {
		return nil, nil, activity.NotFound("wallet account", address)
	}
	a, w, err := loadAccount(tx, owner)
	if err == nil && a == nil {
		err = activity.NotFound("wallet account", address)
	}
	return a, w, err
}

// loadAccount loads an account and its wallet, both nil if one does not exist.
func loadAccount(tx *org.Tx, owner org.Owner) (*org.Account, *org.Wallet, error) {
	a, err := tx.Account(owner.ID, owner.No)
	if a == nil || err != nil {
		return nil, nil, err
	}
	w, err := tx.Wallet(owner.ID)
	if w == nil {
		a = nil
	}
	return a, w, err
}

// InitImport requests a target to which a wallet or a private key is encrypted.
type InitImport struct {
	UserID string `json:"userId" rule:"required"`
}

func (in *InitImport) Check() error {
	_, err := activity.ParseID("userId", in.UserID)
	return err
}

// ImportBundle is the result: a signed import target.
type ImportBundle struct {
	ImportBundle string `json:"importBundle"`
}

func initImport(use uint8) func(*activity.Tx, *InitImport) (*ImportBundle, error) {
	return func(tx *activity.Tx, _ *InitImport) (*ImportBundle, error) {
		made, err := newTargets(tx, tx.User, use, 1, org.MaxTargets)
		if err != nil {
			return nil, err
		}
		return &ImportBundle{made[0]}, nil
	}
}

// newTargets creates n import targets that user may use, or with the zero id any user who may import secrets. It removes
// expired ones, and the oldest beyond the limit most.
func newTargets(tx *activity.Tx, user org.ID, use uint8, n, most int) ([]string, error) {
	gs, err := tx.Targets(user)
	if err != nil {
		return nil, err
	}
	live := slices.DeleteFunc(slices.Clone(gs), func(g *org.Target) bool { return !g.Live(tx.Boot, tx.NowMs) })
	live = live[max(0, len(live)+n-most):]
	for _, g := range gs {
		if !slices.Contains(live, g) {
			tx.DeleteTarget(g.User, g.ID)
		}
	}
	made := make([]string, n)
	for i := range made {
		if made[i], err = newTarget(tx, user, use); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func newTarget(tx *activity.Tx, user org.ID, use uint8) (string, error) {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return "", err
	}
	private, err := bundle.NewPrivateKey(tx.Rand)
	if err != nil {
		return "", err
	}
	defer private.Wipe()
	g := &org.Target{ID: id, User: user, For: use, CreatedMs: tx.NowMs, Boot: tx.Boot}
	if g.Key, err = tx.Vault.Seal(id, private); err != nil {
		return "", err
	}
	named := ""
	if user.Zero() {
		public, err := bundle.PublicOf(private)
		if err != nil {
			return "", err
		}
		g.PublicKey = public.String()
	} else {
		named = user.String()
	}
	if err := tx.PutTarget(g); err != nil {
		return "", err
	}
	return tx.Bundles.Target(tx.ID.String(), named, private)
}

// openImport decrypts a secret with a user's import target, and spends the target even if that fails.
// The caller wipes the secret.
func openImport(tx *activity.Tx, use uint8, sealed *bundle.Sealed) (secret.Secret, error) {
	gs, err := tx.Targets(tx.User)
	if err != nil {
		return secret.Secret{}, err
	}
	for _, g := range gs {
		if g.For != use {
			continue
		}
		opened, err := openWith(tx, g, sealed)
		if errors.Is(err, bundle.ErrOpen) {
			continue
		}
		if err != nil {
			return secret.Secret{}, err
		}
		tx.ChangeDespiteRefusal(func(t *org.Tx) { t.DeleteTarget(g.User, g.ID) })
		if !g.Live(tx.Boot, tx.NowMs) {
			opened.Wipe()
			return secret.Secret{}, fault.Field("encryptedBundle", "import target has expired: encrypt to a new one")
		}
		return opened, nil
	}
	return secret.Secret{}, fault.Field("encryptedBundle",
		"bundle is not encrypted to an import target of this user and kind that is still good: one is good for one import within 24 hours and one run of the enclave; encrypt to a new one")
}

func openWith(tx *activity.Tx, g *org.Target, sealed *bundle.Sealed) (secret.Secret, error) {
	if tx.Opened != nil {
		return tx.Opened()
	}
	private, err := tx.Vault.OpenImportTarget(g)
	if err != nil {
		return secret.Secret{}, err
	}
	defer private.Wipe()
	return sealed.Open(private)
}

// checkAddressUnique refuses an address that another wallet or private key of the organization has: it would be
// undefined which of them signs.
func checkAddressUnique(tx *activity.Tx, field string, owner org.ID, address string) error {
	o, ok, err := tx.ByAddress(chain.MatchKey(address))
	if err == nil && ok && o.ID != owner {
		err = fault.Field(field, "another wallet or private key of the organization has this address: %s", address)
	}
	return err
}

// ImportWallet imports a wallet by its mnemonic.
type ImportWallet struct {
	UserID          string                `json:"userId" rule:"required,uuid"`
	WalletName      string                `json:"walletName" rule:"required,label_length,label"`
	EncryptedBundle string                `json:"encryptedBundle" rule:"required"`
	Accounts        []WalletAccountParams `json:"accounts" rule:"dive,required"`

	sealed *bundle.Sealed
}

func (in *ImportWallet) Check() (err error) {
	if err := checkAccounts("accounts", in.Accounts); err != nil {
		return err
	}
	in.sealed, err = bundle.ParseClient("encryptedBundle", in.EncryptedBundle)
	return err
}

// importWallet first makes the checks that need no mnemonic, so that a name in use spends no target.
func importWallet(tx *activity.Tx, in *ImportWallet) (*WalletResult, error) {
	if err := activity.Wallets.Add(tx, 1); err != nil {
		return nil, err
	}
	id, err := activity.NewNamed(tx, org.NameWallet, "wallet", "walletName", in.WalletName)
	if err != nil {
		return nil, err
	}
	text, err := openImport(tx, org.TargetWallet, in.sealed)
	if err != nil {
		return nil, err
	}
	defer text.Wipe()
	entropy, passphrase, err := keys.ImportMnemonic(text)
	if err != nil {
		return nil, err
	}
	defer entropy.Wipe()
	defer passphrase.Wipe()
	w := &org.Wallet{ID: id, Name: in.WalletName, Imported: true}
	return keepWallet(tx, keys.ActionImport, w, entropy, passphrase, "accounts", in.Accounts)
}

// ImportPrivateKey imports a private key.
type ImportPrivateKey struct {
	UserID          string          `json:"userId" rule:"required,uuid"`
	PrivateKeyName  string          `json:"privateKeyName" rule:"required,label_length,label"`
	EncryptedBundle string          `json:"encryptedBundle" rule:"required"`
	Curve           Curve           `json:"curve" rule:"required"`
	AddressFormats  []AddressFormat `json:"addressFormats" rule:"dive"`

	sealed *bundle.Sealed
}

func (in *ImportPrivateKey) Check() (err error) {
	if err := checkFormats("", in.Curve, in.AddressFormats); err != nil {
		return err
	}
	in.sealed, err = bundle.ParseClient("encryptedBundle", in.EncryptedBundle)
	return err
}

func importPrivateKey(tx *activity.Tx, in *ImportPrivateKey) (*PrivateKeyResult, error) {
	if err := activity.PrivateKeys.Add(tx, 1); err != nil {
		return nil, err
	}
	id, err := activity.NewNamed(tx, org.NamePrivateKey, "private key", "privateKeyName", in.PrivateKeyName)
	if err != nil {
		return nil, err
	}
	secret, err := openImport(tx, org.TargetPrivateKey, in.sealed)
	if err != nil {
		return nil, err
	}
	defer secret.Wipe()
	curve, _ := chain.ParseCurve(string(in.Curve)) // Valid
	key, err := tx.Holder().ImportKey(curve, secret)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	k := &org.PrivateKey{ID: id, Name: in.PrivateKeyName, Curve: string(in.Curve), Imported: true}
	if err := keepKey(tx, k, key, in.AddressFormats); err != nil {
		return nil, err
	}
	r := privateKeyResult(k)
	return &r, nil
}

// MnemonicLanguage is the interface's name of a mnemonic word list.
type MnemonicLanguage string

// english is the word list of all mnemonics in the enclave.
const english MnemonicLanguage = "MNEMONIC_LANGUAGE_ENGLISH"

var languages = []MnemonicLanguage{english, "MNEMONIC_LANGUAGE_SIMPLIFIED_CHINESE", "MNEMONIC_LANGUAGE_TRADITIONAL_CHINESE", "MNEMONIC_LANGUAGE_CZECH",
	"MNEMONIC_LANGUAGE_FRENCH", "MNEMONIC_LANGUAGE_ITALIAN", "MNEMONIC_LANGUAGE_JAPANESE", "MNEMONIC_LANGUAGE_KOREAN", "MNEMONIC_LANGUAGE_SPANISH"}

// Valid reports whether l is a language of the interface.
func (l MnemonicLanguage) Valid() bool { return slices.Contains(languages, l) }

// ExportTarget is the key to which an export is encrypted.
type ExportTarget struct {
	TargetPublicKey string `json:"targetPublicKey" rule:"required,hexadecimal"`

	to bundle.PublicKey
}

func (t *ExportTarget) Check() (err error) {
	t.to, err = bundle.ParsePublicKey("targetPublicKey", t.TargetPublicKey)
	return err
}

func (t *ExportTarget) params() policy.Value { return exportParams(t.to) }

// exportParams are the members of an export that policies may read.
func exportParams(to bundle.PublicKey) policy.Value {
	return activity.Param("target_public_key", policy.Hex(to.String()))
}

// ExportWallet exports a wallet's mnemonic, encrypted.
type ExportWallet struct {
	WalletID string `json:"walletId" rule:"required,uuid"`
	ExportTarget
	Language *MnemonicLanguage `json:"language" rule:"omitempty"`
}

// ExportedWallet is the result of exporting a wallet.
type ExportedWallet struct {
	WalletID     string `json:"walletId"`
	ExportBundle string `json:"exportBundle"`
}

func exportWallet(tx *activity.Tx, in *ExportWallet) (*ExportedWallet, error) {
	old, err := activity.Find(tx.Wallet, "wallet", in.WalletID)
	if err != nil {
		return nil, err
	}
	if l := in.Language; l != nil && *l != "" && *l != english {
		// The seed is derived from the words, not from their entropy.
		return nil, fault.Field("language", "the wallet's mnemonic is in English: the words of another list would give other keys")
	}
	secret, err := tx.Holder().ExportMnemonic(old.ID, sealedWallet(old))
	if err != nil {
		return nil, err
	}
	defer secret.Wipe()
	out := &ExportedWallet{WalletID: in.WalletID}
	if out.ExportBundle, err = tx.Bundles.Export(tx.ID.String(), in.to, secret); err != nil {
		return nil, err
	}
	w := *old
	w.Exported, w.UpdatedMs = true, tx.NowMs
	return out, tx.PutWallet(&w)
}

// ExportWalletAccount exports the private key of an account, encrypted.
type ExportWalletAccount struct {
	Address string `json:"address" rule:"required"`
	ExportTarget
}

// ExportedAccount is the result of exporting an account.
type ExportedAccount struct {
	Address      string `json:"address"`
	ExportBundle string `json:"exportBundle"`
}

func exportWalletAccount(tx *activity.Tx, in *ExportWalletAccount) (*ExportedAccount, error) {
	old, wallet, err := accountOf(tx.Tx, in.Address)
	if err != nil {
		return nil, err
	}
	key, err := deriveKey(tx, keys.ActionExport, org.Owner{ID: old.Wallet, No: old.No})
	if err != nil {
		return nil, err
	}
	out := &ExportedAccount{Address: old.Address}
	if out.ExportBundle, err = exportKey(tx, in.to, key); err != nil {
		return nil, err
	}
	if !wallet.KeysOut {
		w := *wallet
		w.KeysOut = true
		if err := tx.PutWallet(&w); err != nil {
			return nil, err
		}
	}
	a := *old
	a.Exported, a.UpdatedMs = true, tx.NowMs
	return out, tx.PutAccount(&a, chain.MatchKey(a.Address))
}

// exportKey encrypts a private key and wipes it.
func exportKey(tx *activity.Tx, to bundle.PublicKey, key *keys.PrivateKey) (string, error) {
	defer key.Wipe()
	secret, err := tx.Holder().ExportKey(key)
	if err != nil {
		return "", err
	}
	defer secret.Wipe()
	return tx.Bundles.Export(tx.ID.String(), to, secret)
}

// ExportPrivateKey exports a private key, encrypted. A disabled one is refused.
type ExportPrivateKey struct {
	PrivateKeyID string `json:"privateKeyId" rule:"required,uuid"`
	ExportTarget
}

// ExportedPrivateKey is the result of exporting a private key.
type ExportedPrivateKey struct {
	PrivateKeyID string `json:"privateKeyId"`
	ExportBundle string `json:"exportBundle"`
}

func exportPrivateKey(tx *activity.Tx, in *ExportPrivateKey) (*ExportedPrivateKey, error) {
	old, err := activity.Find(tx.PrivateKey, "private key", in.PrivateKeyID)
	if err != nil {
		return nil, err
	}
	if old.Disabled {
		return nil, fault.New(fault.InvalidArgument, "private key is disabled: %s", old.ID)
	}
	key, err := openKey(tx, keys.ActionExport, old.ID)
	if err != nil {
		return nil, err
	}
	out := &ExportedPrivateKey{PrivateKeyID: in.PrivateKeyID}
	if out.ExportBundle, err = exportKey(tx, in.to, key); err != nil {
		return nil, err
	}
	k := *old
	k.Exported, k.UpdatedMs = true, tx.NowMs
	return out, tx.PutPrivateKey(&k, MatchesOf(&k))
}
