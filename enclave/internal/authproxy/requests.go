package authproxy

import (
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/strictjson"
)

// MaxBody bounds a request's body in bytes. A sign-up with some passkeys is the largest.
const MaxBody = 128 << 10

// limits bound the JSON of a body.
var limits = strictjson.Limits{Depth: 8, Items: 100, Members: 100, Values: 2000}

// InitOTP asks for a passcode, in both versions.
type InitOTP struct {
	OtpType            string      `json:"otpType" rule:"required,oneof=OTP_TYPE_SMS OTP_TYPE_EMAIL OTP_TYPE_WHATSAPP"`
	Contact            string      `json:"contact" rule:"required"`
	EmailCustomization *MailChoice `json:"emailCustomization"`
	CaptchaToken       *string     `json:"captchaToken"` // not looked at: no configuration asks for captchas
}

// MailChoice picks a template.
type MailChoice struct {
	TemplateID *string `json:"templateId"`
}

// VerifyOTP shows a passcode.
type VerifyOTP struct {
	OtpID     string  `json:"otpId" rule:"required"`
	OtpCode   string  `json:"otpCode" rule:"required"`
	PublicKey *string `json:"publicKey"`
}

// VerifyOTPV2 shows a passcode that only the enclave can read.
type VerifyOTPV2 struct {
	OtpID              string `json:"otpId" rule:"required"`
	EncryptedOtpBundle string `json:"encryptedOtpBundle" rule:"required"`
}

// OTPLogin starts a session of whoever has a contact.
type OTPLogin struct {
	VerificationToken  string         `json:"verificationToken" rule:"required"`
	PublicKey          string         `json:"publicKey" rule:"required"`
	InvalidateExisting *bool          `json:"invalidateExisting"`
	OrganizationID     *string        `json:"organizationId"`
	ClientSignature    strictjson.Raw `json:"clientSignature"`

	signature *user.ClientSignature
}

// readSignature reads the client's signature: an object, or, as the interface first had it, the
// hex of a signature over the verification token by the session's key.
func (r *OTPLogin) readSignature() error {
	const field = "clientSignature"
	raw := r.ClientSignature
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if text, ok := raw.Text(); ok {
		if text != "" {
			r.signature = &user.ClientSignature{PublicKey: r.PublicKey, Scheme: login.ClientSignatureScheme, Message: r.VerificationToken, Signature: text}
		}
		return nil
	}
	if raw[0] != '{' {
		return fault.Field(field, "must be an object, or the hex of a signature")
	}
	r.signature = new(user.ClientSignature)
	return strictjson.Decode(raw, r.signature, strictjson.At(field), strictjson.Within(limits))
}

// OTPLoginV2 is OTPLogin where the client must sign.
type OTPLoginV2 struct {
	VerificationToken  string               `json:"verificationToken" rule:"required"`
	PublicKey          string               `json:"publicKey" rule:"required"`
	ClientSignature    user.ClientSignature `json:"clientSignature" rule:"required"`
	InvalidateExisting *bool                `json:"invalidateExisting"`
	OrganizationID     *string              `json:"organizationId"`
}

// OAuth2Provider is a provider that has no identity tokens of its own.
type OAuth2Provider string

// Valid tells whether p is one of the interface's.
func (p OAuth2Provider) Valid() bool {
	return p == "OAUTH2_PROVIDER_X" || p == "OAUTH2_PROVIDER_DISCORD"
}

// OAuth2Authenticate turns a provider's code into an identity token of ours.
type OAuth2Authenticate struct {
	Provider     OAuth2Provider `json:"provider" rule:"required"`
	AuthCode     string         `json:"authCode" rule:"required"`
	RedirectURI  string         `json:"redirectUri" rule:"required"`
	CodeVerifier string         `json:"codeVerifier" rule:"required"`
	Nonce        string         `json:"nonce" rule:"required"`
	ClientID     string         `json:"clientId" rule:"required"`

	client *Client
}

// OAuthLogin starts a session of whoever has an identity.
type OAuthLogin struct {
	OidcToken          string  `json:"oidcToken" rule:"required"`
	PublicKey          string  `json:"publicKey" rule:"required"`
	InvalidateExisting *bool   `json:"invalidateExisting"`
	OrganizationID     *string `json:"organizationId"`
}

// NewUser is the part of a sign-up that both versions share. Arrays may be left out.
type NewUser struct {
	UserEmail         *string                    `json:"userEmail" rule:"omitempty,email,email_ext"`
	UserPhoneNumber   *string                    `json:"userPhoneNumber" rule:"omitempty,e164"`
	UserTag           *string                    `json:"userTag"`
	UserName          *string                    `json:"userName" rule:"omitempty,label_length,label"`
	OrganizationName  *string                    `json:"organizationName" rule:"omitempty,label_length,label"`
	VerificationToken *string                    `json:"verificationToken"`
	APIKeys           []user.APIKeyParams        `json:"apiKeys" rule:"dive"`
	Authenticators    []user.AuthenticatorParams `json:"authenticators" rule:"dive"`
	Wallet            *Wallet                    `json:"wallet"`
	ClientSignature   *user.ClientSignature      `json:"clientSignature"`
	CaptchaToken      *string                    `json:"captchaToken"` // as in InitOTP
}

// Signup makes a sub-organization of one user.
type Signup struct {
	NewUser
	OauthProviders []user.OauthProviderParamsV1 `json:"oauthProviders" rule:"dive"`
}

// SignupV2 is Signup where identities may come as claims.
type SignupV2 struct {
	NewUser
	OauthProviders []user.OauthProviderParams `json:"oauthProviders" rule:"dive"`
}

// Wallet is the wallet of a new organization: its accounts, or, as the interface first had it,
// one path and curve.
type Wallet struct {
	WalletName     string                       `json:"walletName" rule:"omitempty,label_length,label"`
	Accounts       []wallet.WalletAccountParams `json:"accounts" rule:"dive"`
	MnemonicLength *int32                       `json:"mnemonicLength"`
	Path           *string                      `json:"path"`
	Curve          *string                      `json:"curve"`
}

// AccountLookup looks for a sub-organization.
type AccountLookup struct {
	FilterType        string  `json:"filterType" rule:"required,oneof=EMAIL PHONE_NUMBER CREDENTIAL_ID PUBLIC_KEY OIDC_TOKEN OIDC_CLAIMS NAME USERNAME"`
	FilterValue       string  `json:"filterValue" rule:"required"`
	VerificationToken *string `json:"verificationToken"`
	OidcToken         *string `json:"oidcToken"`
}

// Nothing is a request for the configuration.
type Nothing struct{}
