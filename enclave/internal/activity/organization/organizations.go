// Package organization has the activities about an organization itself: sub-organizations, root quorum, policies,
// features, IP allowlists, webhooks, and billing.
package organization

import (
	"errors"
	"fmt"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// Organizations are the kinds that create, rename and delete organizations.
var Organizations = activity.Family{
	activity.Kind[CreateSubOrganization, SubOrganization]{
		Name: "CREATE_SUB_ORGANIZATION", Resource: "ORGANIZATION", Action: "CREATE", ByProxy: true, Plans: true, Run: createSubOrganization,
		Results: []int{1, 3, 4, 5, 6, 7, 8},
		Explain: func(_ *org.Tx, in *CreateSubOrganization, o *show.Object) error {
			in.explain(o)
			return nil
		},
		Older: []activity.Older{
			activity.Downgrade(activity.Upgrade(carryOrganizationV1), bareOrganization),
			activity.Downgrade(activity.Upgrade(carryOrganizationV2), bareOrganization),
			activity.Downgrade(activity.Upgrade(carryOrganizationV3), keyedOrganization),
			activity.Upgrade(carryOrganizationV4(user.CarryRootV1)),
			activity.Upgrade(carryOrganizationV4(user.CarryRootV2)),
			activity.Upgrade(carryOrganizationV4(user.CarryRootV3)),
			activity.Upgrade(carryOrganizationV7),
		},
	},
	activity.Kind[DeleteSubOrganization, DeletedSubOrganization]{Name: "DELETE_SUB_ORGANIZATION", Resource: "ORGANIZATION", Action: "DELETE", Run: deleteSubOrganization,
		Explain: func(tx *org.Tx, _ *DeleteSubOrganization, o *show.Object) error { return explainEnd(tx, o) }},
	activity.Kind[CreateOrganization, OrganizationID]{Name: "CREATE_ORGANIZATION", RootQuorum: true, Run: createOrganization,
		Explain: func(_ *org.Tx, in *CreateOrganization, o *show.Object) error {
			in.explain(o)
			return nil
		},
		Older: []activity.Older{activity.Upgrade(carryTopV1)}},
	activity.Kind[OrganizationID, OrganizationID]{Name: "DELETE_ORGANIZATION", Resource: "ORGANIZATION", Action: "DELETE", Run: deleteOrganization,
		Explain: func(tx *org.Tx, _ *OrganizationID, o *show.Object) error { return explainEnd(tx, o) }},
	activity.Kind[UpdateOrganizationName, OrganizationName]{Name: "UPDATE_ORGANIZATION_NAME", RootQuorum: true, Run: updateOrganizationName,
		Explain: func(tx *org.Tx, in *UpdateOrganizationName, o *show.Object) error { return in.explain(tx, o) }},
}

// CreateSubOrganizationV1 creates an organization with one passkey.
type CreateSubOrganizationV1 struct {
	Name              string                   `json:"name" rule:"omitempty,label,label_length"`
	RootAuthenticator user.AuthenticatorParams `json:"rootAuthenticator" rule:"required"`
}

// SubOrganizationParams are the members of every version from the second. U is the version's root user.
type SubOrganizationParams[U any] struct {
	SubOrganizationName string `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers           []U    `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold int32  `json:"rootQuorumThreshold" rule:"required"`
}

// CreateSubOrganizationV2 is version 2 of the intent.
type CreateSubOrganizationV2 struct {
	SubOrganizationParams[user.RootUserParamsV1]
}

// CreateSubOrganizationV3 adds private keys.
type CreateSubOrganizationV3 struct {
	SubOrganizationParams[user.RootUserParamsV1]
	PrivateKeys []wallet.PrivateKeyParams `json:"privateKeys" rule:"dive,required"`
}

// CreateSubOrganizationV4 adds a wallet. Versions 5 and 6 have the same members.
type CreateSubOrganizationV4[U any] struct {
	SubOrganizationParams[U]
	Wallet               *wallet.CreateWallet `json:"wallet" rule:"omitempty"`
	DisableEmailRecovery *bool                `json:"disableEmailRecovery" rule:"omitempty"`
	DisableEmailAuth     *bool                `json:"disableEmailAuth" rule:"omitempty"`
}

// CreateSubOrganizationV7 adds log-ins by passcode. The newest version has the same members.
type CreateSubOrganizationV7[U any] struct {
	CreateSubOrganizationV4[U]
	DisableSmsAuth      *bool                 `json:"disableSmsAuth" rule:"omitempty"`
	DisableOtpEmailAuth *bool                 `json:"disableOtpEmailAuth" rule:"omitempty"`
	VerificationToken   *string               `json:"verificationToken"`
	ClientSignature     *user.ClientSignature `json:"clientSignature"`
}

// CreateSubOrganization creates a sub-organization of the submitter's organization.
type CreateSubOrganization struct {
	CreateSubOrganizationV7[user.RootUserParams]

	privateKeys []wallet.PrivateKeyParams // of version 3
	signup      signup
}

// rootName is the default name of root users.
const rootName = "Root user"

func carryOrganizationV1(v *CreateSubOrganizationV1) (in CreateSubOrganization) {
	in.SubOrganizationName, in.RootQuorumThreshold = v.Name, 1
	in.RootUsers = []user.RootUserParams{{UserName: rootName, Authenticators: []user.AuthenticatorParams{v.RootAuthenticator}}}
	return in
}

func carryParams[U any](v *SubOrganizationParams[U], carryRoot func(*U) user.RootUserParams) SubOrganizationParams[user.RootUserParams] {
	return SubOrganizationParams[user.RootUserParams]{v.SubOrganizationName, activity.MapList(v.RootUsers, carryRoot), v.RootQuorumThreshold}
}

func carryOrganizationV2(v *CreateSubOrganizationV2) (in CreateSubOrganization) {
	in.SubOrganizationParams = carryParams(&v.SubOrganizationParams, user.CarryRootV1)
	return in
}

func carryOrganizationV3(v *CreateSubOrganizationV3) (in CreateSubOrganization) {
	in.SubOrganizationParams, in.privateKeys = carryParams(&v.SubOrganizationParams, user.CarryRootV1), v.PrivateKeys
	return in
}

func carryV4[U any](v *CreateSubOrganizationV4[U], carryRoot func(*U) user.RootUserParams) CreateSubOrganizationV4[user.RootUserParams] {
	return CreateSubOrganizationV4[user.RootUserParams]{
		carryParams(&v.SubOrganizationParams, carryRoot), v.Wallet, v.DisableEmailRecovery, v.DisableEmailAuth,
	}
}

func carryOrganizationV4[U any](carryRoot func(*U) user.RootUserParams) func(*CreateSubOrganizationV4[U]) CreateSubOrganization {
	return func(v *CreateSubOrganizationV4[U]) (in CreateSubOrganization) {
		in.CreateSubOrganizationV4 = carryV4(v, carryRoot)
		return in
	}
}

func carryOrganizationV7(v *CreateSubOrganizationV7[user.RootUserParamsV4]) (in CreateSubOrganization) {
	in.CreateSubOrganizationV7 = CreateSubOrganizationV7[user.RootUserParams]{
		carryV4(&v.CreateSubOrganizationV4, user.CarryRootV4), v.DisableSmsAuth, v.DisableOtpEmailAuth, v.VerificationToken, v.ClientSignature,
	}
	in.signup.usage = login.SignupV1
	return in
}

func (in *CreateSubOrganization) Check() error {
	switch {
	case in.RootQuorumThreshold < 1:
		return fault.Field("rootQuorumThreshold", "quorum threshold must be non-zero integer")
	case int(in.RootQuorumThreshold) > len(in.RootUsers):
		return fault.Field("rootQuorumThreshold", "threshold exceeds quorum size")
	}
	in.signup.token, in.signup.signature = activity.TextOf(in.VerificationToken), in.ClientSignature
	if in.signup.usage == "" {
		in.signup.usage = login.SignupV2
	}
	if err := in.signup.Check(); err != nil {
		return err
	}
	for i := range in.RootUsers {
		if err := in.RootUsers[i].CheckAt(fmt.Sprintf("rootUsers.%d.", i), true); err != nil {
			return err
		}
	}
	if in.Wallet != nil {
		if err := in.Wallet.CheckAt("wallet."); err != nil {
			return err
		}
	}
	return wallet.CheckPrivateKeys(in.privateKeys)
}

// features are the features of the new sub-organization.
func (in *CreateSubOrganization) features() map[string]string {
	m := map[string]string{}
	for _, f := range []struct {
		disabled *bool
		name     string
	}{
		{in.DisableEmailRecovery, "FEATURE_NAME_EMAIL_RECOVERY"},
		{in.DisableEmailRecovery, "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY"},
		{in.DisableEmailAuth, "FEATURE_NAME_EMAIL_AUTH"},
		{in.DisableSmsAuth, "FEATURE_NAME_SMS_AUTH"},
		{in.DisableOtpEmailAuth, "FEATURE_NAME_OTP_EMAIL_AUTH"},
	} {
		if !activity.IsOn(f.disabled) {
			m[f.name] = ""
		}
	}
	return m
}

// SubOrganization is the result of creating a sub-organization.
type SubOrganization struct {
	SubOrganizationID string               `json:"subOrganizationId"`
	Wallet            *wallet.WalletResult `json:"wallet"`
	RootUserIDs       []string             `json:"rootUserIds,omitempty"`

	privateKeys []wallet.PrivateKeyResult
}

// BareOrganization is the result of versions 1 and 2.
type BareOrganization struct {
	SubOrganizationID string   `json:"subOrganizationId"`
	RootUserIDs       []string `json:"rootUserIds,omitempty"`
}

// KeyedOrganization is the result of version 3.
type KeyedOrganization struct {
	SubOrganizationID string                    `json:"subOrganizationId"`
	PrivateKeys       []wallet.PrivateKeyResult `json:"privateKeys"`
	RootUserIDs       []string                  `json:"rootUserIds,omitempty"`
}

func bareOrganization(r *SubOrganization) *BareOrganization {
	return &BareOrganization{r.SubOrganizationID, r.RootUserIDs}
}

func keyedOrganization(r *SubOrganization) *KeyedOrganization {
	return &KeyedOrganization{r.SubOrganizationID, r.privateKeys, r.RootUserIDs}
}

func createSubOrganization(tx *activity.Tx, in *CreateSubOrganization) (*SubOrganization, error) {
	parent, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if !parent.Parent.Zero() || tx.NewOrganization == nil {
		return nil, activity.WrongCaller("a sub-organization cannot have sub-organizations")
	}
	switch {
	case len(in.RootUsers) > tx.Limits.Users:
		return nil, activity.OverQuota(tx.Limits.Users, "users")
	case len(in.privateKeys) > tx.Limits.PrivateKeys:
		return nil, activity.OverQuota(tx.Limits.PrivateKeys, "private keys")
	}
	if err := refuseHeldKeys(tx, in); err != nil {
		return nil, err
	}
	verified, err := in.signup.verify(tx, in.RootUsers)
	if err != nil {
		return nil, err
	}
	sub, err := tx.NewOrganization()
	if err != nil {
		return nil, err
	}
	sub.WantsProofs, sub.Parent, sub.Limits, sub.Providers = tx.WantsProofs, tx.Tx, tx.Limits, tx.Providers
	if sub.Presented, err = brought(tx, in); err != nil {
		return nil, err
	}
	r, o, err := fillOrganization(sub, parent, in, verified)
	if err != nil {
		return nil, err
	}
	tx.Claims = append(tx.Claims, sub.Claims...)
	c := &org.Child{ID: sub.ID, Name: o.Name, CreatedMs: o.CreatedMs}
	if err := tx.PutChild(c); err != nil {
		return nil, err
	}
	if err := tx.PutChildKey(org.ChildName, o.Name, c, org.ID{}); err != nil {
		return nil, err
	}
	if err := sub.Link(); err != nil {
		return nil, err
	}
	p := *parent
	p.Children++
	return r, tx.PutOrganization(&p)
}

// fillOrganization creates the record, users, wallet and keys of a new organization: the record first, as users depend on it.
func fillOrganization(sub *activity.Tx, parent *org.Organization, in *CreateSubOrganization, v *verifiedContact) (*SubOrganization, *org.Organization, error) {
	o := &org.Organization{
		ID: sub.ID, Name: in.SubOrganizationName, Parent: parent.ID, Payer: parent.Payer, Threshold: uint32(in.RootQuorumThreshold), CreatedMs: sub.NowMs, UpdatedMs: sub.NowMs,
		Users: uint32(len(in.RootUsers)), PrivateKeys: uint32(len(in.privateKeys)), Features: in.features(), Recovered: sub.Recovered,
	}
	if err := sub.PutOrganization(o); err != nil {
		return nil, nil, err
	}
	r := &SubOrganization{SubOrganizationID: sub.ID.String()}
	filled := *o
	for i := range in.RootUsers {
		u, err := user.Create(sub, fmt.Sprintf("rootUsers.%d.", i), &in.RootUsers[i])
		if err == nil && v.isOf(i) {
			u = user.MarkVerified(u, v.contact)
			err = sub.PutUser(u)
		}
		if err != nil {
			return nil, nil, err
		}
		filled.RootUsers = append(filled.RootUsers, u.ID)
		r.RootUserIDs = append(r.RootUserIDs, u.ID.String())
	}
	var err error
	if in.Wallet != nil {
		filled.Wallets = 1
		if r.Wallet, err = wallet.AddWallet(sub, "wallet.", in.Wallet); err != nil {
			return nil, nil, err
		}
	}
	if r.privateKeys, err = wallet.AddPrivateKeys(sub, in.privateKeys); err != nil {
		return nil, nil, err
	}
	return r, &filled, sub.PutOrganization(&filled)
}

// DeleteSubOrganization deletes the sub-organization that it is submitted for, permanently.
type DeleteSubOrganization struct {
	DeleteWithoutExport *bool `json:"deleteWithoutExport"`
}

// DeletedSubOrganization is the result of deleting a sub-organization.
type DeletedSubOrganization struct {
	SubOrganizationUUID string `json:"subOrganizationUuid"`
}

func deleteSubOrganization(tx *activity.Tx, in *DeleteSubOrganization) (*DeletedSubOrganization, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if old.Parent.Zero() {
		return nil, activity.WrongCaller("only a sub-organization can be deleted as one")
	}
	if !old.Root(tx.User) {
		return nil, activity.WrongCaller("only a root user of the sub-organization can delete it")
	}
	parent, err := tx.ParentRecords()
	if err != nil {
		return nil, err
	}
	if err := removeSecrets(tx, activity.IsOn(in.DeleteWithoutExport)); err != nil {
		return nil, err
	}
	if err := forgetChild(tx, parent, old); err != nil {
		return nil, err
	}
	return &DeletedSubOrganization{tx.ID.String()}, markDeleted(tx, old)
}

// removeSecrets deletes all wallets, private keys and stored secrets. Unless forced, all must have been exported.
// Accounts, which may be many, remain: without their seed they are only addresses.
func removeSecrets(tx *activity.Tx, force bool) error {
	var ws []*org.Wallet
	var ks []*org.PrivateKey
	var ss []*org.Secret
	exported := true
	err := tx.EachWallet(func(w *org.Wallet) bool {
		ws, exported = append(ws, w), exported && w.Exported
		return true
	})
	if err == nil {
		err = tx.EachPrivateKey(func(k *org.PrivateKey) bool {
			ks, exported = append(ks, k), exported && k.Exported
			return true
		})
	}
	if err == nil {
		err = tx.EachSecret(org.ID{}, func(s *org.Secret) bool {
			ss, exported = append(ss, s), exported && s.Exported
			return true
		})
	}
	if err != nil {
		return err
	}
	if !exported && !force {
		return wallet.NotExported()
	}
	for _, w := range ws {
		tx.DeleteWallet(w.ID)
	}
	for _, k := range ks {
		tx.DeletePrivateKey(k, wallet.MatchesOf(k))
	}
	for _, s := range ss {
		tx.DeleteSecret(s.ID)
	}
	if err := tx.DeleteProviderCredentials(); err != nil {
		return err
	}
	// If the activity fails later, the keys are derived again when needed.
	tx.Keys.Drop(func(k activity.KeyID) bool { return k.Organization == tx.ID })
	return nil
}

// forgetChild removes the parent's records of the sub-organization of tx.
func forgetChild(tx *activity.Tx, parent *org.Tx, o *org.Organization) error {
	c, err := knownChild(parent, tx.ID)
	if err != nil {
		return err
	}
	var bad error
	err = tx.EachUser(func(u *org.User) bool {
		bad = parent.LinkUser(c, u, nil)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return err
	}
	parent.DeleteChildKey(org.ChildName, c.Name, c, org.ID{})
	parent.DeleteChild(c)
	old, err := parent.Organization()
	if err != nil {
		return err
	}
	p := *old
	p.Children--
	return parent.PutOrganization(&p)
}

// knownChild returns the parent's record of a sub-organization.
func knownChild(parent *org.Tx, id org.ID) (*org.Child, error) {
	c, err := parent.Child(id)
	if err == nil && c == nil {
		err = errors.New("a sub-organization that its parent does not know")
	}
	return c, err
}

// markDeleted marks as deleted an organization whose secrets are deleted.
func markDeleted(tx *activity.Tx, old *org.Organization) error {
	o := *old
	o.Deleted, o.Wallets, o.PrivateKeys, o.UpdatedMs = true, 0, 0, tx.NowMs
	return tx.PutOrganization(&o)
}

// OrganizationID names the organization to be deleted, and is the result of creating and deleting one.
type OrganizationID struct {
	OrganizationID string `json:"organizationId" rule:"required,uuid"`
}

// deleteOrganization deletes the top-level organization that it is submitted for, permanently. Keys must be deleted
// or exported first: there is no option to lose them.
func deleteOrganization(tx *activity.Tx, in *OrganizationID) (*OrganizationID, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	switch id, _ := org.ParseID(in.OrganizationID); { // its rule requires a UUID
	case id != tx.ID:
		return nil, fault.WithCode(fault.InvalidArgument, "ORGANIZATION_MISMATCH", "organization mismatch: an organization can delete only itself, not %s", id)
	case !old.Parent.Zero():
		return nil, activity.WrongCaller("a sub-organization is deleted by delete_sub_organization")
	case old.Children > 0:
		return nil, fault.New(fault.InvalidArgument, "organization has sub-organizations: %d", old.Children)
	}
	if err := removeSecrets(tx, false); err != nil {
		return nil, err
	}
	p, err := tx.OnlyAuthProxy()
	if err != nil {
		return nil, err
	}
	if p != nil {
		tx.DeleteAuthProxy(p.ID)
	}
	return in, markDeleted(tx, old)
}

// CreateOrganizationV1 is version 1 of the intent.
type CreateOrganizationV1 struct {
	OrganizationName  string                     `json:"organizationName" rule:"required,label,label_length"`
	RootEmail         string                     `json:"rootEmail" rule:"required,email,email_ext"`
	RootAuthenticator user.AuthenticatorParamsV1 `json:"rootAuthenticator" rule:"required"`
	RootUserID        *string                    `json:"rootUserId" rule:"uuid"`
}

// CreateOrganization creates a top-level organization, independent of the submitter's.
type CreateOrganization struct {
	OrganizationName  string                   `json:"organizationName" rule:"required,label,label_length"`
	RootEmail         string                   `json:"rootEmail" rule:"required,email,email_ext"`
	RootAuthenticator user.AuthenticatorParams `json:"rootAuthenticator" rule:"required"`
	RootUserID        *string                  `json:"rootUserId" rule:"uuid"`
}

func carryTopV1(v *CreateOrganizationV1) CreateOrganization {
	return CreateOrganization{v.OrganizationName, v.RootEmail, user.CarryAuthenticator(&v.RootAuthenticator), v.RootUserID}
}

// root returns the one user of the new organization.
func (in *CreateOrganization) root() *user.RootUserParams {
	return &user.RootUserParams{UserName: rootName, UserEmail: &in.RootEmail, Authenticators: []user.AuthenticatorParams{in.RootAuthenticator}}
}

func (in *CreateOrganization) Check() error { return in.root().CheckAt("", true) }

func createOrganization(tx *activity.Tx, in *CreateOrganization) (*OrganizationID, error) {
	here, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if !here.Parent.Zero() || tx.NewOrganization == nil {
		return nil, activity.WrongCaller("a sub-organization cannot make organizations")
	}
	if !here.Payer.Zero() {
		return nil, activity.WrongCaller("an organization that another one has made cannot make organizations")
	}
	if int(here.Made) >= tx.Limits.Organizations {
		return nil, activity.OverQuota(tx.Limits.Organizations, "organizations of the top level")
	}
	maker := *here
	maker.Made++
	if err := tx.PutOrganization(&maker); err != nil {
		return nil, err
	}
	top, err := tx.NewOrganization()
	if err != nil {
		return nil, err
	}
	top.Limits = tx.Limits
	o := &org.Organization{ID: top.ID, Name: in.OrganizationName, Threshold: 1, CreatedMs: top.NowMs, UpdatedMs: top.NowMs, Users: 1, Recovered: top.Recovered, Payer: here.ID}
	if err := top.PutOrganization(o); err != nil {
		return nil, err
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	if in.RootUserID != nil {
		id, _ = org.ParseID(*in.RootUserID) // its rule requires a UUID; the first user cannot have another user's id
	}
	u, err := user.CreateAs(top, id, "", in.root())
	if err != nil {
		return nil, err
	}
	filled := *o
	filled.RootUsers = []org.ID{u.ID}
	return &OrganizationID{top.ID.String()}, top.PutOrganization(&filled)
}

// UpdateOrganizationName renames the organization.
type UpdateOrganizationName struct {
	OrganizationName string `json:"organizationName" rule:"required,label,label_length"`
}

// OrganizationName is the result of renaming the organization.
type OrganizationName struct {
	OrganizationID   string `json:"organizationId"`
	OrganizationName string `json:"organizationName"`
}

func updateOrganizationName(tx *activity.Tx, in *UpdateOrganizationName) (*OrganizationName, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	parent, err := tx.ParentRecords()
	if err != nil {
		return nil, err
	}
	if parent != nil {
		if err := renameChild(parent, tx.ID, in.OrganizationName); err != nil {
			return nil, err
		}
	}
	o := *old
	o.Name, o.UpdatedMs = in.OrganizationName, tx.NowMs
	return &OrganizationName{tx.ID.String(), o.Name}, tx.PutOrganization(&o)
}

func renameChild(parent *org.Tx, id org.ID, name string) error {
	old, err := knownChild(parent, id)
	if err != nil {
		return err
	}
	c := *old
	c.Name = name
	parent.DeleteChildKey(org.ChildName, old.Name, old, org.ID{})
	if err := parent.PutChildKey(org.ChildName, name, &c, org.ID{}); err != nil {
		return err
	}
	return parent.PutChild(&c)
}
