package wallet

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/org"
)

// Explanations of kinds that sign nothing; those of what leaves, enters and is deleted are in show.go.

// explainSecret shows a stored secret of the organization.
func explainSecret(o *show.Object, s *org.Secret) {
	activity.ExplainName(o, s.Name)
	properties := o.List("properties")
	for _, p := range s.Properties {
		properties.Entry(p.Key).Text("value", p.Value)
	}
	o.Bool("exported", s.Exported)
}

func (in *ExportSecrets) explain(tx *org.Tx, o *show.Object) error {
	list := o.List("secrets")
	for i := range in.Secrets {
		s, entry := &in.Secrets[i], list.Object()
		target := ExportTarget{TargetPublicKey: s.TargetPublicKey}
		target.explain(entry)
		if _, err := activity.ExplainRecord(entry, "secret", s.SecretID, tx.Secret, explainSecret); err != nil {
			return err
		}
	}
	return nil
}

func (in *DeleteSecrets) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.KeyDeleted)
	list := o.List("secrets")
	for _, id := range in.SecretIDs {
		if _, err := activity.ExplainRecord(list.Object(), "secret", id, tx.Secret, explainSecret); err != nil {
			return err
		}
	}
	return nil
}

// explain shows the secrets that are brought in, which nobody here can read.
func (in *ImportSecrets) explain(o *show.Object) {
	o.Warn(show.KeyEnters)
	list := o.List("secrets")
	for i := range in.Secrets {
		s, entry := &in.Secrets[i], list.Object()
		activity.ExplainWord(entry, "name", activity.TextOf(s.Name))
		properties := entry.List("properties")
		for _, p := range s.properties() {
			properties.Entry(p.Key).Text("value", p.Value)
		}
		entry.Object("bundle").Unreadable(show.Encrypted, []byte(s.SecretPayload))
	}
}

// explainInit shows for whom an import is prepared.
func (in *InitImport) explain(tx *org.Tx, o *show.Object) error {
	activity.ExplainMeaning(o, "The user gets a public key to which an import can be encrypted. Nothing is imported by this.")
	_, _, err := activity.ExplainUser(tx, o, "user", in.UserID)
	return err
}

// explain shows the private keys that would be made. What policies say of a tag holds for them.
func (in *CreatePrivateKeys) explain(tx *org.Tx, o *show.Object) error {
	list, readers := o.List("privateKeys"), activity.ReadersOf(tx)
	for i := range in.PrivateKeys {
		p, entry := &in.PrivateKeys[i], list.Object()
		activity.ExplainWord(entry, "name", p.PrivateKeyName)
		entry.Text("curve", string(p.Curve))
		if err := readers.ExplainTags(entry, p.PrivateKeyTags); err != nil {
			return err
		}
	}
	return nil
}

func (in *CreateWalletAccounts) explain(tx *org.Tx, o *show.Object) error {
	return explain(o.Object("wallet"), tx.Wallet, in.WalletID, explainWallet)
}

// explain compares the name of a wallet, which policies may read as its label.
func (in *UpdateWallet) explain(tx *org.Tx, o *show.Object) error {
	id, err := org.ParseID(in.WalletID)
	if err != nil {
		return nil // Run refuses it
	}
	w, err := tx.Wallet(id)
	if w == nil || err != nil {
		return err
	}
	name := activity.TextOf(in.WalletName)
	if name == "" || name == w.Name {
		activity.ExplainChanges(o).Name(w.Name, w.Name)
		return nil
	}
	activity.ExplainChanges(o).Name(w.Name, name)
	return activity.ReadersOf(tx).ExplainTexts(o, w.Name, name)
}

func (in *UpdateWalletAccountName) explain(tx *org.Tx, o *show.Object) error {
	a, w, err := findAccount(tx, in.WalletAccountID)
	if err := internalOnly(err); err != nil {
		return err
	}
	if a == nil || w == nil {
		return nil
	}
	activity.ExplainChanges(o).Name(a.Name, in.Name)
	account := o.Object("account")
	account.Plain("address", a.Address)
	account.Text("path", a.Path)
	explainWallet(o.Object("wallet"), w)
	return nil
}

func explainOnRamp(o *show.Object, c *org.OnRampCredential) {
	o.Text("provider", c.Provider)
	o.Text("publishableApiKey", c.PublishableKey)
	o.Text("projectId", c.ProjectID)
	o.Bool("sandbox", c.Sandbox)
}

func explainOnRampRecord(tx *org.Tx, o *show.Object, id string) error {
	_, err := activity.ExplainRecord(o, "credential", id, tx.OnRampCredential, explainOnRamp)
	return err
}

// explain compares an account at a provider. Whose it is decides who sees the purchases.
func (in *UpdateOnRampCredential) explain(tx *org.Tx, o *show.Object) error {
	old, err := activity.ExplainRecord(o, "credential", in.OnRampCredentialID, tx.OnRampCredential, explainOnRamp)
	if old == nil || err != nil {
		return err
	}
	c := activity.ExplainChanges(o)
	c.Text("provider", old.Provider, string(in.OnrampProvider))
	c.Text("publishableApiKey", old.PublishableKey, in.PublishableAPIKey)
	c.Text("projectId", old.ProjectID, activity.TextOf(in.ProjectID))
	if c.Changed {
		o.Warn(show.OtherParties)
	}
	activity.ExplainMeaning(o, "The secrets of the account are replaced too.")
	return nil
}

// explain compares the limits for transactions that the organization pays.
func (in *UpsertGasUsageConfig) explain(tx *org.Tx, o *show.Object) error {
	old, err := tx.GasConfig()
	if err != nil {
		return err
	}
	if old == nil {
		old = &org.GasConfig{}
		activity.ExplainMeaning(o, "There were no limits before, and no sponsored transactions.")
	}
	enabled, prefund := old.Enabled || old.ID.Zero(), old.RentPrefund // a new one is on unless it says otherwise
	activity.Set(&enabled, in.Enabled)
	if in.SolanaConfig != nil {
		activity.Set(&prefund, in.SolanaConfig.RentPrefundEnabled)
	}
	c := activity.ExplainChanges(o)
	c.Bool("on", old.Enabled, enabled)
	c.Text("usdOfAll", FormatMicro(old.TreeLimit), FormatMicro(in.tree))
	c.Text("usdOfEachSubOrganization", FormatMicro(old.EachLimit), FormatMicro(in.each))
	c.Uint("minutes", old.WindowMinutes, in.minutes)
	c.Bool("paysForNewSolanaAccounts", old.RentPrefund, prefund)
	return nil
}
