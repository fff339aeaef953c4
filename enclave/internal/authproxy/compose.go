package authproxy

import (
	"cmp"
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// Submit is the body of the activity that a request asks for in an organization. The proxy's
// key stamps it. No other body of the proxy in that organization may have its timestamp.
func (r *Request) Submit(c *Config, of org.ID, timestampMs uint64) ([]byte, error) {
	params, err := r.compose(c, r.in, timestampMs)
	if err != nil {
		return nil, err
	}
	b := append(strictjson.AppendString([]byte(`{"type":`), r.Type), `,"timestampMs":"`...)
	b = append(strconv.AppendUint(b, timestampMs, 10), `","organizationId":"`...)
	b = append(of.Append(b), `","parameters":`...)
	b = strictjson.Append(b, params)
	if r.Proofs {
		b = append(b, `,"generateAppProofs":true`...)
	}
	return append(b, '}'), nil
}

// initOTP are the parameters of INIT_OTP since version 2.
type initOTP struct {
	OtpType            string                   `json:"otpType"`
	Contact            string                   `json:"contact"`
	AppName            string                   `json:"appName"`
	OtpLength          int32                    `json:"otpLength"`
	Alphanumeric       bool                     `json:"alphanumeric"`
	ExpirationSeconds  string                   `json:"expirationSeconds"`
	EmailCustomization *auth.EmailCustomization `json:"emailCustomization"`
	SmsCustomization   *auth.SMSCustomization   `json:"smsCustomization"`
	auth.MailSender
}

func composeInit(c *Config, r *InitOTP, _ uint64) (any, error) {
	p := &initOTP{
		OtpType: r.OtpType, Contact: r.Contact, AppName: cmp.Or(c.AppName, c.Name), OtpLength: int32(c.OTPLength), Alphanumeric: !c.OTPNumeric,
		ExpirationSeconds: seconds(c.OTPSeconds),
	}
	if login.ContactType(r.OtpType).IsPhone() {
		if c.SMSTemplate != "" {
			p.SmsCustomization = &auth.SMSCustomization{Template: &c.SMSTemplate}
		}
		return p, nil
	}
	words := auth.EmailCustomization{LogoURL: optional(c.LogoURL), MagicLinkTemplate: optional(c.MagicLink), TemplateVariables: optional(c.Variables)}
	if r.EmailCustomization != nil {
		words.TemplateID = nonEmpty(r.EmailCustomization.TemplateID)
	}
	if words != (auth.EmailCustomization{}) {
		p.EmailCustomization = &words
	}
	p.MailSender = auth.MailSender{
		SendFromEmailAddress: optional(c.SenderEmail), SendFromEmailSenderName: optional(c.SenderName), ReplyToEmailAddress: optional(c.ReplyTo),
	}
	return p, nil
}

func composeVerify(c *Config, r *VerifyOTP, _ uint64) (any, error) {
	return &auth.VerifyOTPV1{OtpID: r.OtpID, OtpCode: r.OtpCode, ExpirationSeconds: new(seconds(c.TokenSeconds)), PublicKey: r.PublicKey}, nil
}

func composeVerifyV2(c *Config, r *VerifyOTPV2, _ uint64) (any, error) {
	return &auth.VerifyOTP{OtpID: r.OtpID, EncryptedOtpBundle: r.EncryptedOtpBundle, ExpirationSeconds: new(seconds(c.TokenSeconds))}, nil
}

// composeOTPLogin makes the parameters of OTP_LOGIN, whose JSON is the same in both versions.
func composeOTPLogin(c *Config, token, publicKey string, invalidate *bool, signature *user.ClientSignature) (any, error) {
	return &auth.OTPLoginV1{
		VerificationToken: token, PublicKey: publicKey, ExpirationSeconds: new(seconds(c.SessionSeconds)), InvalidateExisting: invalidate,
		ClientSignature: signature,
	}, nil
}

func composeLogin(c *Config, r *OTPLogin, _ uint64) (any, error) {
	return composeOTPLogin(c, r.VerificationToken, r.PublicKey, r.InvalidateExisting, r.signature)
}

func composeLoginV2(c *Config, r *OTPLoginV2, _ uint64) (any, error) {
	return composeOTPLogin(c, r.VerificationToken, r.PublicKey, r.InvalidateExisting, &r.ClientSignature)
}

func composeOAuthLogin(c *Config, r *OAuthLogin, _ uint64) (any, error) {
	return &auth.OauthLogin{
		OidcToken: r.OidcToken, PublicKey: r.PublicKey,
		LoginTerms: auth.LoginTerms{ExpirationSeconds: new(seconds(c.SessionSeconds)), InvalidateExisting: r.InvalidateExisting},
	}, nil
}

func composeAuthenticate(_ *Config, r *OAuth2Authenticate, _ uint64) (any, error) {
	if r.client.Credential.Zero() {
		return nil, fault.Field("clientId", "the organization has no OAuth 2.0 credential of this provider and client id")
	}
	return &auth.OAuth2Authenticate{
		OAuth2CredentialID: r.client.Credential.String(), AuthCode: r.AuthCode, RedirectURI: r.RedirectURI, CodeVerifier: r.CodeVerifier, Nonce: r.Nonce,
	}, nil
}

func composeSignup(_ *Config, r *Signup, nowMs uint64) (any, error) {
	return composeOrganization(&r.NewUser, len(r.OauthProviders), nowMs, user.RootUserParamsV4{
		UserName: r.userName(nowMs), UserEmail: nonEmpty(r.UserEmail), UserPhoneNumber: nonEmpty(r.UserPhoneNumber),
		APIKeys: r.APIKeys, Authenticators: r.Authenticators, OauthProviders: r.OauthProviders,
	})
}

func composeSignupV2(_ *Config, r *SignupV2, nowMs uint64) (any, error) {
	return composeOrganization(&r.NewUser, len(r.OauthProviders), nowMs, user.RootUserParams{
		UserName: r.userName(nowMs), UserEmail: nonEmpty(r.UserEmail), UserPhoneNumber: nonEmpty(r.UserPhoneNumber),
		APIKeys: r.APIKeys, Authenticators: r.Authenticators, OauthProviders: r.OauthProviders,
	})
}

// composeOrganization makes the parameters of CREATE_SUB_ORGANIZATION for one root user of its version.
func composeOrganization[U any](s *NewUser, identities int, nowMs uint64, root U) (any, error) {
	wallet, err := s.check(identities)
	if err != nil {
		return nil, err
	}
	p := new(organization.CreateSubOrganizationV7[U])
	p.SubOrganizationName, p.RootUsers, p.RootQuorumThreshold = s.organization(nowMs), []U{root}, 1
	p.Wallet, p.VerificationToken, p.ClientSignature = wallet, s.VerificationToken, s.ClientSignature
	return p, nil
}

// optional is s as an option, absent if empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func nonEmpty(s *string) *string { return optional(activity.TextOf(s)) }

// check answers the wallet. A contact that nobody has verified is no way to log in:
// without anything else nobody could ever use the organization.
func (s *NewUser) check(identities int) (*wallet.CreateWallet, error) {
	switch {
	case activity.TextOf(s.UserTag) != "":
		return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: signup with userTag")
	case len(s.APIKeys)+len(s.Authenticators)+identities == 0 && activity.TextOf(s.VerificationToken) == "":
		return nil, fault.Field("apiKeys", "user must have at least one credential or a verified contact")
	}
	return s.Wallet.params()
}

// userName is the name that was given, or one made of the time: anybody can look for a name, so a contact is none.
func (s *NewUser) userName(nowMs uint64) string {
	return cmp.Or(activity.TextOf(s.UserName), "user-"+strconv.FormatUint(nowMs, 10))
}

func (s *NewUser) organization(nowMs uint64) string {
	return cmp.Or(activity.TextOf(s.OrganizationName), "sub-org-"+strconv.FormatUint(nowMs, 10))
}

// formats are the usual addresses of curves, for wallets by path and curve.
var formats = map[string]wallet.AddressFormat{
	"CURVE_SECP256K1": "ADDRESS_FORMAT_ETHEREUM", "CURVE_ED25519": "ADDRESS_FORMAT_SOLANA", "CURVE_P256": "ADDRESS_FORMAT_COMPRESSED",
}

// params are those of the activity.
func (w *Wallet) params() (*wallet.CreateWallet, error) {
	if w == nil {
		return nil, nil
	}
	p := &wallet.CreateWallet{WalletName: w.WalletName, Accounts: w.Accounts, MnemonicLength: w.MnemonicLength}
	if w.Path == nil && w.Curve == nil {
		if p.WalletName == "" {
			return nil, fault.Field("wallet.walletName", "missing wallet params")
		}
		return p, nil
	}
	p.WalletName = cmp.Or(p.WalletName, "Wallet")
	curve := strings.Replace(activity.TextOf(w.Curve), "CURVE_TYPE_", "CURVE_", 1)
	format, ok := formats[curve]
	switch {
	case len(w.Accounts) > 0:
		return nil, fault.Field("wallet.accounts", "a wallet has either accounts, or path and curve")
	case !ok:
		return nil, fault.Field("wallet.curve", "invalid curve")
	case activity.TextOf(w.Path) == "":
		return nil, fault.Field("wallet.path", "invalid path")
	}
	p.Accounts = []wallet.WalletAccountParams{{Curve: wallet.Curve(curve), PathFormat: "PATH_FORMAT_BIP32", Path: *w.Path, AddressFormat: format}}
	return p, nil
}
