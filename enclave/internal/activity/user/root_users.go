package user

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

// RootUserParams is a user to be created without tags, such as a root user of a new organization.
type RootUserParams struct {
	UserName        string                `json:"userName" rule:"required,label_length,label"`
	UserEmail       *string               `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserPhoneNumber *string               `json:"userPhoneNumber" rule:"omitempty,e164"`
	APIKeys         []APIKeyParams        `json:"apiKeys" rule:"dive"`
	Authenticators  []AuthenticatorParams `json:"authenticators" rule:"dive"`
	OauthProviders  []OauthProviderParams `json:"oauthProviders" rule:"dive"`
}

// CarryRootV1 converts a root user of versions 2 to 4.
func CarryRootV1(o *RootUserParamsV1) RootUserParams {
	return RootUserParams{UserName: o.UserName, UserEmail: o.UserEmail, APIKeys: CarryKeys(o.APIKeys), Authenticators: o.Authenticators}
}

// CarryRootV2 converts a root user of version 5.
func CarryRootV2(o *RootUserParamsV2) RootUserParams {
	return RootUserParams{o.UserName, o.UserEmail, nil, CarryKeys(o.APIKeys), o.Authenticators, CarryProviders(o.OauthProviders)}
}

// CarryRootV3 converts a root user of version 6.
func CarryRootV3(o *RootUserParamsV3) RootUserParams {
	return RootUserParams{o.UserName, o.UserEmail, nil, o.APIKeys, o.Authenticators, CarryProviders(o.OauthProviders)}
}

// CarryRootV4 converts a root user of version 7.
func CarryRootV4(o *RootUserParamsV4) RootUserParams {
	return RootUserParams{o.UserName, o.UserEmail, o.UserPhoneNumber, o.APIKeys, o.Authenticators, CarryProviders(o.OauthProviders)}
}
