package activity

import (
	"fmt"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var organizations = []*Kind{
	kind("CREATE_SUB_ORGANIZATION", "ORGANIZATION", "CREATE", createSubOrganization,
		answering(was(1, carryOrganizationV1), bareOrganization),
		answering(was(2, carryOrganizationV2), bareOrganization),
		answering(was(3, carryOrganizationV3), keyedOrganization),
		was(4, carryOrganizationV4),
		was(5, carryOrganizationV5),
		was(6, carryOrganizationV6),
		was(7, carryOrganizationV7)).results(1, 3, 4, 5, 6, 7, 8),
}

// RootUserParamsV1 is a root user of versions 2 to 4.
type RootUserParamsV1 struct {
	UserName       string                `json:"userName" rule:"required,label_length,label"`
	UserEmail      *string               `json:"userEmail" rule:"omitempty,email,email_ext"`
	APIKeys        []APIKeyParamsV1      `json:"apiKeys" rule:"dive"`
	Authenticators []AuthenticatorParams `json:"authenticators" rule:"dive"`
}

// RootUserParamsV2 is a root user of version 5.
type RootUserParamsV2 struct {
	UserName       string                  `json:"userName" rule:"required,label_length,label"`
	UserEmail      *string                 `json:"userEmail" rule:"omitempty,email,email_ext"`
	APIKeys        []APIKeyParamsV1        `json:"apiKeys" rule:"dive"`
	Authenticators []AuthenticatorParams   `json:"authenticators" rule:"dive"`
	OauthProviders []OauthProviderParamsV1 `json:"oauthProviders" rule:"dive"`
}

// RootUserParamsV3 is a root user of version 6.
type RootUserParamsV3 struct {
	UserName       string                  `json:"userName" rule:"required,label_length,label"`
	UserEmail      *string                 `json:"userEmail" rule:"omitempty,email,email_ext"`
	APIKeys        []APIKeyParams          `json:"apiKeys" rule:"dive"`
	Authenticators []AuthenticatorParams   `json:"authenticators" rule:"dive"`
	OauthProviders []OauthProviderParamsV1 `json:"oauthProviders" rule:"dive"`
}

// RootUserParamsV4 is a root user of version 7.
type RootUserParamsV4 struct {
	UserName        string                  `json:"userName" rule:"required,label_length,label"`
	UserEmail       *string                 `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserPhoneNumber *string                 `json:"userPhoneNumber" rule:"omitempty,e164"`
	APIKeys         []APIKeyParams          `json:"apiKeys" rule:"dive"`
	Authenticators  []AuthenticatorParams   `json:"authenticators" rule:"dive"`
	OauthProviders  []OauthProviderParamsV1 `json:"oauthProviders" rule:"dive"`
}

// RootUserParams is a member of a new organization's root quorum.
type RootUserParams struct {
	UserName        string                `json:"userName" rule:"required,label_length,label"`
	UserEmail       *string               `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserPhoneNumber *string               `json:"userPhoneNumber" rule:"omitempty,e164"`
	APIKeys         []APIKeyParams        `json:"apiKeys" rule:"dive"`
	Authenticators  []AuthenticatorParams `json:"authenticators" rule:"dive"`
	OauthProviders  []OauthProviderParams `json:"oauthProviders" rule:"dive"`
}

// user is p as any user's parameters.
func (p *RootUserParams) user() *UserParams {
	return &UserParams{p.UserName, p.UserEmail, p.UserPhoneNumber, p.APIKeys, p.Authenticators, p.OauthProviders, nil}
}

// CreateSubOrganizationV1 made an organization of one passkey.
type CreateSubOrganizationV1 struct {
	Name              string              `json:"name" rule:"omitempty,label,label_length"`
	RootAuthenticator AuthenticatorParams `json:"rootAuthenticator" rule:"required"`
}

// CreateSubOrganizationV2 is version 2 of the intent.
type CreateSubOrganizationV2 struct {
	SubOrganizationName string             `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers           []RootUserParamsV1 `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold int32              `json:"rootQuorumThreshold" rule:"required"`
}

// CreateSubOrganizationV3 came with private keys.
type CreateSubOrganizationV3 struct {
	SubOrganizationName string             `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers           []RootUserParamsV1 `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold int32              `json:"rootQuorumThreshold" rule:"required"`
	PrivateKeys         []PrivateKeyParams `json:"privateKeys" rule:"dive,required"`
}

// CreateSubOrganizationV4 came with a wallet.
type CreateSubOrganizationV4 struct {
	SubOrganizationName  string             `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers            []RootUserParamsV1 `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold  int32              `json:"rootQuorumThreshold" rule:"required"`
	Wallet               *CreateWallet      `json:"wallet" rule:"omitempty"`
	DisableEmailRecovery *bool              `json:"disableEmailRecovery" rule:"omitempty"`
	DisableEmailAuth     *bool              `json:"disableEmailAuth" rule:"omitempty"`
}

// CreateSubOrganizationV5 is version 5 of the intent.
type CreateSubOrganizationV5 struct {
	SubOrganizationName  string             `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers            []RootUserParamsV2 `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold  int32              `json:"rootQuorumThreshold" rule:"required"`
	Wallet               *CreateWallet      `json:"wallet" rule:"omitempty"`
	DisableEmailRecovery *bool              `json:"disableEmailRecovery" rule:"omitempty"`
	DisableEmailAuth     *bool              `json:"disableEmailAuth" rule:"omitempty"`
}

// CreateSubOrganizationV6 is version 6 of the intent.
type CreateSubOrganizationV6 struct {
	SubOrganizationName  string             `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers            []RootUserParamsV3 `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold  int32              `json:"rootQuorumThreshold" rule:"required"`
	Wallet               *CreateWallet      `json:"wallet" rule:"omitempty"`
	DisableEmailRecovery *bool              `json:"disableEmailRecovery" rule:"omitempty"`
	DisableEmailAuth     *bool              `json:"disableEmailAuth" rule:"omitempty"`
}

// CreateSubOrganizationV7 is version 7 of the intent.
type CreateSubOrganizationV7 struct {
	SubOrganizationName  string             `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers            []RootUserParamsV4 `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold  int32              `json:"rootQuorumThreshold" rule:"required"`
	Wallet               *CreateWallet      `json:"wallet" rule:"omitempty"`
	DisableEmailRecovery *bool              `json:"disableEmailRecovery" rule:"omitempty"`
	DisableEmailAuth     *bool              `json:"disableEmailAuth" rule:"omitempty"`
	DisableSmsAuth       *bool              `json:"disableSmsAuth" rule:"omitempty"`
	DisableOtpEmailAuth  *bool              `json:"disableOtpEmailAuth" rule:"omitempty"`
	VerificationToken    *string            `json:"verificationToken"`
	ClientSignature      *ClientSignature   `json:"clientSignature"`
}

// CreateSubOrganization makes an organization under the caller's.
type CreateSubOrganization struct {
	SubOrganizationName  string           `json:"subOrganizationName" rule:"omitempty,label,label_length"`
	RootUsers            []RootUserParams `json:"rootUsers" rule:"required,dive"`
	RootQuorumThreshold  int32            `json:"rootQuorumThreshold" rule:"required"`
	Wallet               *CreateWallet    `json:"wallet" rule:"omitempty"`
	DisableEmailRecovery *bool            `json:"disableEmailRecovery" rule:"omitempty"`
	DisableEmailAuth     *bool            `json:"disableEmailAuth" rule:"omitempty"`
	DisableSmsAuth       *bool            `json:"disableSmsAuth" rule:"omitempty"`
	DisableOtpEmailAuth  *bool            `json:"disableOtpEmailAuth" rule:"omitempty"`
	VerificationToken    *string          `json:"verificationToken"`
	ClientSignature      *ClientSignature `json:"clientSignature"`

	privateKeys []PrivateKeyParams // of version 3
}

func carryOrganizationV1(v *CreateSubOrganizationV1) CreateSubOrganization {
	return CreateSubOrganization{
		SubOrganizationName: v.Name, RootQuorumThreshold: 1,
		RootUsers: []RootUserParams{{UserName: "Root user", Authenticators: []AuthenticatorParams{v.RootAuthenticator}}},
	}
}

func carryRootV1(o *RootUserParamsV1) RootUserParams {
	return RootUserParams{UserName: o.UserName, UserEmail: o.UserEmail, APIKeys: carryKeys(o.APIKeys), Authenticators: o.Authenticators}
}

func carryRootV2(o *RootUserParamsV2) RootUserParams {
	return RootUserParams{o.UserName, o.UserEmail, nil, carryKeys(o.APIKeys), o.Authenticators, carryProviders(o.OauthProviders)}
}

func carryRootV3(o *RootUserParamsV3) RootUserParams {
	return RootUserParams{o.UserName, o.UserEmail, nil, o.APIKeys, o.Authenticators, carryProviders(o.OauthProviders)}
}

func carryRootV4(o *RootUserParamsV4) RootUserParams {
	return RootUserParams{o.UserName, o.UserEmail, o.UserPhoneNumber, o.APIKeys, o.Authenticators, carryProviders(o.OauthProviders)}
}

func carryOrganizationV2(v *CreateSubOrganizationV2) CreateSubOrganization {
	return CreateSubOrganization{SubOrganizationName: v.SubOrganizationName, RootUsers: carryAll(v.RootUsers, carryRootV1), RootQuorumThreshold: v.RootQuorumThreshold}
}

func carryOrganizationV3(v *CreateSubOrganizationV3) CreateSubOrganization {
	return CreateSubOrganization{
		SubOrganizationName: v.SubOrganizationName, RootUsers: carryAll(v.RootUsers, carryRootV1), RootQuorumThreshold: v.RootQuorumThreshold,
		privateKeys: v.PrivateKeys,
	}
}

func carryOrganizationV4(v *CreateSubOrganizationV4) CreateSubOrganization {
	return CreateSubOrganization{
		SubOrganizationName: v.SubOrganizationName, RootUsers: carryAll(v.RootUsers, carryRootV1), RootQuorumThreshold: v.RootQuorumThreshold,
		Wallet: v.Wallet, DisableEmailRecovery: v.DisableEmailRecovery, DisableEmailAuth: v.DisableEmailAuth,
	}
}

func carryOrganizationV5(v *CreateSubOrganizationV5) CreateSubOrganization {
	return CreateSubOrganization{
		SubOrganizationName: v.SubOrganizationName, RootUsers: carryAll(v.RootUsers, carryRootV2), RootQuorumThreshold: v.RootQuorumThreshold,
		Wallet: v.Wallet, DisableEmailRecovery: v.DisableEmailRecovery, DisableEmailAuth: v.DisableEmailAuth,
	}
}

func carryOrganizationV6(v *CreateSubOrganizationV6) CreateSubOrganization {
	return CreateSubOrganization{
		SubOrganizationName: v.SubOrganizationName, RootUsers: carryAll(v.RootUsers, carryRootV3), RootQuorumThreshold: v.RootQuorumThreshold,
		Wallet: v.Wallet, DisableEmailRecovery: v.DisableEmailRecovery, DisableEmailAuth: v.DisableEmailAuth,
	}
}

func carryOrganizationV7(v *CreateSubOrganizationV7) CreateSubOrganization {
	return CreateSubOrganization{
		SubOrganizationName: v.SubOrganizationName, RootUsers: carryAll(v.RootUsers, carryRootV4), RootQuorumThreshold: v.RootQuorumThreshold,
		Wallet: v.Wallet, DisableEmailRecovery: v.DisableEmailRecovery, DisableEmailAuth: v.DisableEmailAuth,
		DisableSmsAuth: v.DisableSmsAuth, DisableOtpEmailAuth: v.DisableOtpEmailAuth,
		VerificationToken: v.VerificationToken, ClientSignature: v.ClientSignature,
	}
}

func (in *CreateSubOrganization) check() error {
	const op = "create_sub_organization"
	switch {
	case in.RootQuorumThreshold < 1:
		return fault.Field("rootQuorumThreshold", "quorum threshold must be non-zero integer")
	case int(in.RootQuorumThreshold) > len(in.RootUsers):
		return fault.Field("rootQuorumThreshold", "threshold exceeds quorum size")
	case len(in.RootUsers) > org.MaxUsers:
		return overQuota(org.MaxUsers, "users")
	case in.RootQuorumThreshold > 1:
		return fault.New(fault.Unimplemented, "UNIMPLEMENTED: root quorum above one")
	case in.VerificationToken != nil:
		return unimplemented(op, "verificationToken")
	case in.ClientSignature != nil:
		return unimplemented(op, "clientSignature")
	case len(in.privateKeys) > org.MaxPrivateKeys:
		return overQuota(org.MaxPrivateKeys, "private keys")
	}
	for i := range in.RootUsers {
		if err := in.RootUsers[i].user().check(op, fmt.Sprintf("rootUsers.%d.", i), true); err != nil {
			return err
		}
	}
	if in.Wallet != nil {
		if err := in.Wallet.checkAt("wallet."); err != nil {
			return err
		}
	}
	return checkPrivateKeys(in.privateKeys)
}

// features are those that a new sub-organization has.
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
		if f.disabled == nil || !*f.disabled {
			m[f.name] = ""
		}
	}
	return m
}

// SubOrganization is the result of making one.
type SubOrganization struct {
	SubOrganizationID string        `json:"subOrganizationId"`
	Wallet            *WalletResult `json:"wallet"`
	RootUserIDs       []string      `json:"rootUserIds,omitempty"`

	privateKeys []PrivateKeyResult
}

// BareOrganization is the result of versions 1 and 2.
type BareOrganization struct {
	SubOrganizationID string   `json:"subOrganizationId"`
	RootUserIDs       []string `json:"rootUserIds,omitempty"`
}

// KeyedOrganization is the result of version 3.
type KeyedOrganization struct {
	SubOrganizationID string             `json:"subOrganizationId"`
	PrivateKeys       []PrivateKeyResult `json:"privateKeys"`
	RootUserIDs       []string           `json:"rootUserIds,omitempty"`
}

func bareOrganization(r *SubOrganization) *BareOrganization {
	return &BareOrganization{r.SubOrganizationID, r.RootUserIDs}
}

func keyedOrganization(r *SubOrganization) *KeyedOrganization {
	return &KeyedOrganization{r.SubOrganizationID, r.privateKeys, r.RootUserIDs}
}

func createSubOrganization(tx *Tx, in *CreateSubOrganization) (*SubOrganization, error) {
	parent, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if !parent.Parent.Zero() || tx.NewOrganization == nil {
		return nil, fault.Named(fault.InvalidArgument, "INVALID_ACTIVITY_CALLER", "a sub-organization cannot have sub-organizations")
	}
	sub, err := tx.NewOrganization()
	if err != nil {
		return nil, err
	}
	sub.WantsProofs = tx.WantsProofs
	r, o, err := fillOrganization(sub, in)
	if err != nil {
		return nil, err
	}
	o.Parent = tx.ID
	if err := sub.PutOrganization(o); err != nil {
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
	sub.Parent = tx.Tx
	if err := sub.link(); err != nil {
		return nil, err
	}
	p := *parent
	p.Children++
	return r, tx.PutOrganization(&p)
}

// fillOrganization makes users, wallet and keys of a new organization; the
// caller stores its record.
func fillOrganization(sub *Tx, in *CreateSubOrganization) (*SubOrganization, *org.Organization, error) {
	o := &org.Organization{
		ID: sub.ID, Name: in.SubOrganizationName, Threshold: uint32(in.RootQuorumThreshold), CreatedMs: sub.NowMs, UpdatedMs: sub.NowMs,
		Users: uint32(len(in.RootUsers)), PrivateKeys: uint32(len(in.privateKeys)), Features: in.features(),
	}
	r := &SubOrganization{SubOrganizationID: sub.ID.String()}
	for i := range in.RootUsers {
		u, err := createUser(sub, fmt.Sprintf("rootUsers.%d.", i), in.RootUsers[i].user())
		if err != nil {
			return nil, nil, err
		}
		o.RootUsers = append(o.RootUsers, u.ID)
		r.RootUserIDs = append(r.RootUserIDs, u.ID.String())
	}
	var err error
	if in.Wallet != nil {
		o.Wallets = 1
		if r.Wallet, err = addWallet(sub, "wallet.", in.Wallet); err != nil {
			return nil, nil, err
		}
	}
	r.privateKeys, err = addPrivateKeys(sub, in.privateKeys)
	return r, o, err
}
