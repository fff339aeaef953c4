package authproxy

import (
	"strconv"
	"strings"

	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// Submit is the body of the activity that a request asks for, to be stamped with
// the proxy's key: in organization of, with a timestamp that no other of the
// proxy's bodies in it has.
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
	OtpType                 string     `json:"otpType"`
	Contact                 string     `json:"contact"`
	AppName                 string     `json:"appName"`
	OtpLength               int32      `json:"otpLength"`
	Alphanumeric            bool       `json:"alphanumeric"`
	ExpirationSeconds       string     `json:"expirationSeconds"`
	EmailCustomization      *mailWords `json:"emailCustomization"`
	SmsCustomization        *textWords `json:"smsCustomization"`
	SendFromEmailAddress    string     `json:"sendFromEmailAddress,omitempty"`
	SendFromEmailSenderName string     `json:"sendFromEmailSenderName,omitempty"`
	ReplyToEmailAddress     string     `json:"replyToEmailAddress,omitempty"`
}

type mailWords struct {
	LogoURL           string `json:"logoUrl,omitempty"`
	MagicLinkTemplate string `json:"magicLinkTemplate,omitempty"`
	TemplateVariables string `json:"templateVariables,omitempty"`
	TemplateID        string `json:"templateId,omitempty"`
}

type textWords struct {
	Template string `json:"template"`
}

func composeInit(c *Config, r *InitOTP, _ uint64) (any, error) {
	t := login.ContactType(r.OtpType)
	p := &initOTP{
		OtpType: r.OtpType, Contact: r.Contact, AppName: c.AppName, OtpLength: int32(c.OTPLength), Alphanumeric: !c.OTPNumeric,
		ExpirationSeconds: seconds(c.OTPSeconds),
	}
	if p.AppName == "" {
		p.AppName = c.Name
	}
	if t == login.SMS {
		if c.SMSTemplate != "" {
			p.SmsCustomization = &textWords{c.SMSTemplate}
		}
		return p, nil
	}
	w := mailWords{LogoURL: c.LogoURL, MagicLinkTemplate: c.MagicLink, TemplateVariables: c.Variables}
	if r.EmailCustomization != nil {
		w.TemplateID = textOf(r.EmailCustomization.TemplateID)
	}
	if w != (mailWords{}) {
		p.EmailCustomization = &w
	}
	p.SendFromEmailAddress, p.SendFromEmailSenderName, p.ReplyToEmailAddress = c.SenderEmail, c.SenderName, c.ReplyTo
	return p, nil
}

func composeVerify(c *Config, r *VerifyOTP, _ uint64) (any, error) {
	return &struct {
		OtpID             string  `json:"otpId"`
		OtpCode           string  `json:"otpCode"`
		ExpirationSeconds string  `json:"expirationSeconds"`
		PublicKey         *string `json:"publicKey"`
	}{r.OtpID, r.OtpCode, seconds(c.TokenSeconds), r.PublicKey}, nil
}

func composeVerifyV2(c *Config, r *VerifyOTPV2, _ uint64) (any, error) {
	return &struct {
		OtpID              string `json:"otpId"`
		EncryptedOtpBundle string `json:"encryptedOtpBundle"`
		ExpirationSeconds  string `json:"expirationSeconds"`
	}{r.OtpID, r.EncryptedOtpBundle, seconds(c.TokenSeconds)}, nil
}

// otpLogin are the parameters of OTP_LOGIN in both versions.
type otpLogin struct {
	VerificationToken  string                `json:"verificationToken"`
	PublicKey          string                `json:"publicKey"`
	ExpirationSeconds  string                `json:"expirationSeconds"`
	InvalidateExisting *bool                 `json:"invalidateExisting"`
	ClientSignature    *user.ClientSignature `json:"clientSignature"`
}

func composeLogin(c *Config, r *OTPLogin, _ uint64) (any, error) {
	return &otpLogin{r.VerificationToken, r.PublicKey, seconds(c.SessionSeconds), r.InvalidateExisting, r.signature}, nil
}

func composeLoginV2(c *Config, r *OTPLoginV2, _ uint64) (any, error) {
	return &otpLogin{r.VerificationToken, r.PublicKey, seconds(c.SessionSeconds), r.InvalidateExisting, &r.ClientSignature}, nil
}

func composeOAuthLogin(c *Config, r *OAuthLogin, _ uint64) (any, error) {
	return &struct {
		OidcToken          string `json:"oidcToken"`
		PublicKey          string `json:"publicKey"`
		ExpirationSeconds  string `json:"expirationSeconds"`
		InvalidateExisting *bool  `json:"invalidateExisting"`
	}{r.OidcToken, r.PublicKey, seconds(c.SessionSeconds), r.InvalidateExisting}, nil
}

func composeAuthenticate(_ *Config, r *OAuth2Authenticate, _ uint64) (any, error) {
	if r.client.Credential.Zero() {
		return nil, fault.Field("clientId", "the organization has no OAuth 2.0 credential of this provider and client id")
	}
	return &struct {
		OAuth2CredentialID string `json:"oauth2CredentialId"`
		AuthCode           string `json:"authCode"`
		RedirectURI        string `json:"redirectUri"`
		CodeVerifier       string `json:"codeVerifier"`
		Nonce              string `json:"nonce"`
	}{r.client.Credential.String(), r.AuthCode, r.RedirectURI, r.CodeVerifier, r.Nonce}, nil
}

// newOrganization are the parameters of CREATE_SUB_ORGANIZATION for U, a root user
// of its version.
type newOrganization[U any] struct {
	SubOrganizationName string                `json:"subOrganizationName"`
	RootUsers           []U                   `json:"rootUsers"`
	RootQuorumThreshold int32                 `json:"rootQuorumThreshold"`
	Wallet              *wallet.CreateWallet  `json:"wallet"`
	VerificationToken   *string               `json:"verificationToken"`
	ClientSignature     *user.ClientSignature `json:"clientSignature"`
}

func composeSignup(_ *Config, r *Signup, nowMs uint64) (any, error) {
	name, wallet, err := r.check(len(r.OauthProviders), nowMs)
	if err != nil {
		return nil, err
	}
	u := user.RootUserParamsV4{
		UserName: name, UserEmail: nonEmpty(r.UserEmail), UserPhoneNumber: nonEmpty(r.UserPhoneNumber), APIKeys: r.APIKeys, Authenticators: r.Authenticators,
		OauthProviders: r.OauthProviders,
	}
	return &newOrganization[user.RootUserParamsV4]{r.organization(nowMs), []user.RootUserParamsV4{u}, 1, wallet, r.VerificationToken, r.ClientSignature}, nil
}

func composeSignupV2(_ *Config, r *SignupV2, nowMs uint64) (any, error) {
	name, wallet, err := r.check(len(r.OauthProviders), nowMs)
	if err != nil {
		return nil, err
	}
	u := user.RootUserParams{
		UserName: name, UserEmail: nonEmpty(r.UserEmail), UserPhoneNumber: nonEmpty(r.UserPhoneNumber), APIKeys: r.APIKeys, Authenticators: r.Authenticators,
		OauthProviders: r.OauthProviders,
	}
	return &newOrganization[user.RootUserParams]{r.organization(nowMs), []user.RootUserParams{u}, 1, wallet, r.VerificationToken, r.ClientSignature}, nil
}

// nonEmpty is an option that is not the empty text.
func nonEmpty(s *string) *string {
	if textOf(s) == "" {
		return nil
	}
	return s
}

// check answers the user's name and wallet. A contact that nobody has verified is
// no way to log in: without anything else nobody could ever use the organization.
func (s *NewUser) check(identities int, nowMs uint64) (name string, w *wallet.CreateWallet, err error) {
	switch {
	case textOf(s.UserTag) != "":
		return "", nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: signup with userTag")
	case len(s.APIKeys)+len(s.Authenticators)+identities == 0 && textOf(s.VerificationToken) == "":
		return "", nil, fault.Field("apiKeys", "user must have at least one credential or a verified contact")
	}
	w, err = s.Wallet.params()
	return s.userName(nowMs), w, err
}

// userName is the name that was given, the contact, or one made of the time.
func (s *NewUser) userName(nowMs uint64) string {
	for _, name := range []*string{s.UserName, s.UserEmail, s.UserPhoneNumber} {
		if textOf(name) != "" {
			return *name
		}
	}
	return "user-" + strconv.FormatUint(nowMs, 10)
}

func (s *NewUser) organization(nowMs uint64) string {
	if textOf(s.OrganizationName) != "" {
		return *s.OrganizationName
	}
	return "sub-org-" + strconv.FormatUint(nowMs, 10)
}

// walletName is what a wallet is called to which nobody gave a name.
const walletName = "Wallet"

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
	if p.WalletName == "" {
		p.WalletName = walletName
	}
	curve := strings.Replace(textOf(w.Curve), "CURVE_TYPE_", "CURVE_", 1)
	format, ok := formats[curve]
	switch {
	case len(w.Accounts) > 0:
		return nil, fault.Field("wallet.accounts", "a wallet has either accounts, or path and curve")
	case !ok:
		return nil, fault.Field("wallet.curve", "invalid curve")
	case textOf(w.Path) == "":
		return nil, fault.Field("wallet.path", "invalid path")
	}
	p.Accounts = []wallet.WalletAccountParams{{Curve: wallet.Curve(curve), PathFormat: "PATH_FORMAT_BIP32", Path: *w.Path, AddressFormat: format}}
	return p, nil
}
