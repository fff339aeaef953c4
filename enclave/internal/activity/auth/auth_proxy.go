package auth

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// AuthProxy are the kinds that enable, disable and configure an organization's auth proxy.
var AuthProxy = activity.Family{
	activity.Kind[activity.Nothing, user.UserID]{Name: "ENABLE_AUTH_PROXY", Resource: "AUTH_PROXY", Action: "CREATE", Run: enableAuthProxy,
		Explain: func(tx *org.Tx, _ *activity.Nothing, o *show.Object) error { return explainEnable(tx, o) }},
	activity.Kind[activity.Nothing, activity.Nothing]{Name: "DISABLE_AUTH_PROXY", Resource: "AUTH_PROXY", Action: "DELETE", Run: disableAuthProxy,
		Explain: func(tx *org.Tx, _ *activity.Nothing, o *show.Object) error { return explainDisable(tx, o) }},
	activity.Kind[UpdateAuthProxyConfig, AuthProxyConfigID]{Name: "UPDATE_AUTH_PROXY_CONFIG", Resource: "AUTH_PROXY", Action: "UPDATE", Run: updateAuthProxyConfig,
		Explain: func(tx *org.Tx, in *UpdateAuthProxyConfig, o *show.Object) error { return in.explain(tx, o) }},
}

// Log-in methods that a configuration can name. Social is every enabled provider.
const (
	MethodEmail   = "email"
	MethodSMS     = "sms"
	MethodPasskey = "passkey"
	MethodWallet  = "wallet"
	MethodSocial  = "social"
)

// SocialProviders are those that a configuration can enable, in the order in which clients see them.
var SocialProviders = []string{"google", "facebook", "apple", "x", "discord"}

// methods are all log-in methods. A single provider is one too.
var methods = append([]string{MethodEmail, MethodSMS, MethodPasskey, MethodWallet, MethodSocial}, SocialProviders...)

// proxyMay lists the resources and actions that the proxy's policy allows.
var proxyMay = [][2]string{{"AUTH", "CREATE"}, {"OTP", "CREATE"}, {"OTP", "VERIFY"}, {"ORGANIZATION", "CREATE"}}

// enableAuthProxy creates the proxy's user, its key, which never leaves the enclave, and its policy.
func enableAuthProxy(tx *activity.Tx, _ *activity.Nothing) (*user.UserID, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if !old.Parent.Zero() {
		return nil, errProxyOfParent()
	}
	p, err := tx.OnlyAuthProxy()
	switch {
	case err != nil:
		return nil, err
	case p != nil:
		return nil, fault.New(fault.FailedPrecondition, "the auth proxy is enabled already: %s", p.ID)
	case int(old.Users) >= tx.Limits.Users:
		return nil, activity.OverQuota(tx.Limits.Users, "users")
	case int(old.Policies) >= tx.Limits.Policies:
		return nil, activity.OverQuota(tx.Limits.Policies, "policies")
	}
	p = &org.AuthProxy{
		Origins: []string{anyOrigin}, Methods: []string{MethodEmail, MethodSMS, MethodPasskey, MethodWallet, MethodSocial},
		OTPSeconds: usualPasscodeSeconds, OTPLength: login.DefaultPasscode, TokenSeconds: user.UsualTokenSeconds, SessionSeconds: usualSessionSeconds,
		CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
	}
	for _, id := range []*org.ID{&p.ID, &p.User, &p.Key} {
		if *id, err = org.NewID(tx.Rand); err != nil {
			return nil, err
		}
	}
	if err := addProxyUser(tx, p); err != nil {
		return nil, err
	}
	if err := addProxyPolicy(tx, p); err != nil {
		return nil, err
	}
	o := *old
	o.Users, o.Policies, o.UpdatedMs = o.Users+1, o.Policies+1, tx.NowMs
	o.Features = organization.FeaturesOf(old)
	o.Features[user.FeatureAuthProxy] = p.ID.String()
	if err := tx.PutOrganization(&o); err != nil {
		return nil, err
	}
	return &user.UserID{UserID: p.User.String()}, tx.PutAuthProxy(p)
}

// proxyName is the name of the user and the policy of a proxy.
func proxyName(p *org.AuthProxy) string { return "Auth proxy " + p.ID.String() }

func addProxyUser(tx *activity.Tx, p *org.AuthProxy) error {
	private, err := bundle.NewPrivateKey(tx.Rand)
	if err != nil {
		return err
	}
	defer private.Wipe()
	public, err := publicHalf(private)
	if err != nil {
		return err
	}
	if p.Sealed, err = tx.Vault.Seal(p.Key, private); err != nil {
		return err
	}
	u := &org.User{ID: p.User, Name: proxyName(p), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, APIKeys: []org.APIKey{{
		ID: p.Key, Name: "Auth proxy", PublicKey: public, Type: user.TypeP256Key, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, Proxy: true,
	}}}
	if err := tx.PutCredential(string(user.CurveP256), public, &org.Credential{User: p.User, Key: p.Key}); err != nil {
		return err
	}
	if err := activity.TakeName(tx, org.NameUser, "user", "", u.Name, u.ID); err != nil {
		return err
	}
	return tx.PutUser(u)
}

// addProxyPolicy creates the policy that allows the proxy's user proxyMay and no more.
func addProxyPolicy(tx *activity.Tx, p *org.AuthProxy) (err error) {
	if p.Policy, err = activity.NewNamed(tx, org.NamePolicy, "policy", "", proxyName(p)); err != nil {
		return err
	}
	terms := activity.MapList(proxyMay, func(may *[2]string) string {
		return fmt.Sprintf("(activity.resource == '%s' && activity.action == '%s')", may[0], may[1])
	})
	rec := &org.Policy{
		ID: p.Policy, Name: proxyName(p), Effect: "EFFECT_ALLOW", Notes: "Made and removed with the auth proxy.", CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
		Consensus: fmt.Sprintf("approvers.any(user, user.id == '%s')", p.User), Condition: strings.Join(terms, " || "),
	}
	var c organization.Clauses
	if err := c.Compile("", "", &rec.Consensus, &rec.Condition, nil); err != nil {
		return err
	}
	return organization.PutPolicy(tx, rec, &c)
}

// disableAuthProxy removes the proxy, its user and its policy. User and policy may be deleted or changed by then.
func disableAuthProxy(tx *activity.Tx, _ *activity.Nothing) (*activity.Nothing, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	p, err := enabledProxy(tx)
	if err != nil {
		return nil, err
	}
	u, err := tx.Tx.User(p.User)
	if err != nil {
		return nil, err
	}
	rule, err := tx.Policy(p.Policy)
	if err != nil {
		return nil, err
	}
	o := *old
	if u != nil {
		if o.Root(u.ID) {
			return nil, fault.New(fault.InvalidArgument, "quorum users missing: the proxy's user is of the root quorum")
		}
		if err := user.Drop(tx, u); err != nil {
			return nil, err
		}
		o.Users--
		if err := user.DropInvitations(tx, &o, func(i *org.Invitation) bool { return i.Sender == u.ID }); err != nil {
			return nil, err
		}
	}
	if rule != nil {
		tx.FreeName(org.NamePolicy, rule.Name)
		tx.DeletePolicy(rule.ID)
		o.Policies--
	}
	tx.DeleteAuthProxy(p.ID)
	o.Features, o.UpdatedMs = organization.FeaturesOf(old), tx.NowMs
	delete(o.Features, user.FeatureAuthProxy)
	return &activity.Nothing{}, tx.PutOrganization(&o)
}

// enabledProxy returns the organization's proxy, or an error if there is none.
func enabledProxy(tx *activity.Tx) (*org.AuthProxy, error) {
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if !o.Parent.Zero() {
		return nil, errProxyOfParent()
	}
	p, err := tx.OnlyAuthProxy()
	if err == nil && p == nil {
		err = fault.New(fault.FailedPrecondition, "the auth proxy is not enabled")
	}
	return p, err
}

func errProxyOfParent() error {
	return activity.WrongCaller("a sub-organization uses the auth proxy of its parent")
}

// WalletKitParams are the parts of the configuration that the proxy gives to web pages.
type WalletKitParams struct {
	EnabledSocialProviders *[]string         `json:"enabledSocialProviders"`
	OauthClientIDs         map[string]string `json:"oauthClientIds,omitempty"`
	OauthRedirectURL       *string           `json:"oauthRedirectUrl"`
}

// UpdateAuthProxyConfig changes the members of the configuration that are set. An empty text resets a member.
type UpdateAuthProxyConfig struct {
	AllowedOrigins                            *[]string                 `json:"allowedOrigins" rule:"omitempty,dive"`
	AllowedAuthMethods                        *[]string                 `json:"allowedAuthMethods" rule:"omitempty,dive"`
	SendFromEmailAddress                      *string                   `json:"sendFromEmailAddress" rule:"omitempty,email,email_ext"`
	ReplyToEmailAddress                       *string                   `json:"replyToEmailAddress" rule:"omitempty,email,email_ext"`
	EmailAuthTemplateID                       *string                   `json:"emailAuthTemplateId" rule:"omitempty"`
	OtpTemplateID                             *string                   `json:"otpTemplateId" rule:"omitempty,uuid"`
	EmailCustomizationParams                  *EmailCustomizationParams `json:"emailCustomizationParams"`
	SmsCustomizationParams                    *SMSCustomization         `json:"smsCustomizationParams"`
	WalletKitSettings                         *WalletKitParams          `json:"walletKitSettings"`
	OtpExpirationSeconds                      *int32                    `json:"otpExpirationSeconds" rule:"omitempty,numeric"`
	VerificationTokenExpirationSeconds        *int32                    `json:"verificationTokenExpirationSeconds" rule:"omitempty,numeric"`
	SessionExpirationSeconds                  *int32                    `json:"sessionExpirationSeconds" rule:"omitempty,numeric"`
	OtpAlphanumeric                           *bool                     `json:"otpAlphanumeric" rule:"omitempty"`
	OtpLength                                 *int32                    `json:"otpLength" rule:"omitempty,numeric,min=6,max=9"`
	SendFromEmailSenderName                   *string                   `json:"sendFromEmailSenderName"`
	VerificationTokenRequiredForGetAccountPii *bool                     `json:"verificationTokenRequiredForGetAccountPii" rule:"omitempty"`
	SocialLinkingClientIDs                    *[]string                 `json:"socialLinkingClientIds" rule:"omitempty,dive"`
	CaptchaEnabled                            *bool                     `json:"captchaEnabled"`
}

// Bounds of a configuration.
const (
	maxOrigins   = 100
	maxClientIDs = 100
)

const anyOrigin = "*"

func (in *UpdateAuthProxyConfig) Check() error {
	for _, check := range []func() error{in.checkAbsent, in.checkAccess, in.checkNumbers, in.checkWords, in.checkWalletKit} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkAbsent refuses options that this release does not have: templates by id, and captchas.
func (in *UpdateAuthProxyConfig) checkAbsent() error {
	const op = "update_auth_proxy_config"
	words := in.EmailCustomizationParams
	switch {
	case activity.TextOf(in.EmailAuthTemplateID) != "":
		return activity.Unimplemented(op, "emailAuthTemplateId")
	case activity.TextOf(in.OtpTemplateID) != "":
		return activity.Unimplemented(op, "otpTemplateId")
	case words != nil && activity.TextOf(words.TemplateID) != "":
		return activity.Unimplemented(op, "templateId")
	case activity.IsOn(in.CaptchaEnabled):
		return activity.Unimplemented(op, "captchaEnabled")
	}
	return nil
}

// checkAccess checks the allowed origins and the log-in methods.
func (in *UpdateAuthProxyConfig) checkAccess() error {
	if in.AllowedOrigins != nil {
		list := *in.AllowedOrigins
		switch {
		case len(list) == 0:
			return fault.Field("allowedOrigins", "must have at least 1 element: * is any origin")
		case len(list) > maxOrigins:
			return fault.Field("allowedOrigins", "must have at most %d elements", maxOrigins)
		case len(list) > 1 && slices.Contains(list, anyOrigin):
			return fault.Field("allowedOrigins", "* must stand alone")
		}
		for i, o := range list {
			if o != anyOrigin && !exactOrigin(o) {
				return fault.Field(fmt.Sprintf("allowedOrigins.%d", i), "invalid origin: must be as browsers write it, such as https://app.example.com or http://localhost:3000, or * alone")
			}
		}
		if err := activity.CheckDistinct("allowedOrigins", list); err != nil {
			return err
		}
	}
	if err := checkNames("allowedAuthMethods", in.AllowedAuthMethods, methods); err != nil {
		return err
	}
	if in.SocialLinkingClientIDs == nil {
		return nil
	}
	if len(*in.SocialLinkingClientIDs) > maxClientIDs {
		return fault.Field("socialLinkingClientIds", "must have at most %d elements", maxClientIDs)
	}
	for i, id := range *in.SocialLinkingClientIDs {
		if err := checkClientID(fmt.Sprintf("socialLinkingClientIds.%d", i), id); err != nil {
			return err
		}
	}
	return activity.CheckDistinct("socialLinkingClientIds", *in.SocialLinkingClientIDs)
}

// exactOrigin reports whether o is an origin as browsers send it: scheme, host in lower case, and any port but
// the scheme's own.
func exactOrigin(o string) bool {
	scheme, rest, ok := strings.Cut(o, "://")
	if !ok || len(o) > 256 || scheme == "" || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "" {
		return false
	}
	u, ok := activity.ParseURL(o)
	return ok && u.Host == rest && strings.ToLower(rest) == rest && !(scheme == "https" && u.Port() == "443") && !(scheme == "http" && u.Port() == "80")
}

// checkNames refuses unknown and repeated names.
func checkNames(field string, names *[]string, known []string) error {
	if names == nil {
		return nil
	}
	for i, n := range *names {
		if !slices.Contains(known, n) {
			return fault.Field(fmt.Sprintf("%s.%d", field, i), "must be one of: %s", strings.Join(known, ", "))
		}
	}
	return activity.CheckDistinct(field, *names)
}

func clientID(s string) bool { return activity.Visible(s) && len(s) <= maxClientID }

func checkClientID(field, id string) error {
	if !clientID(id) {
		return fault.Field(field, "invalid client id: must be 1 to %d visible ASCII characters", maxClientID)
	}
	return nil
}

func (in *UpdateAuthProxyConfig) checkNumbers() error {
	for _, n := range []struct {
		field       string
		value       *int32
		least, most int32
	}{
		{"otpExpirationSeconds", in.OtpExpirationSeconds, 1, mostPasscodeSeconds},
		{"verificationTokenExpirationSeconds", in.VerificationTokenExpirationSeconds, 1, user.MaxTokenSeconds},
		{"sessionExpirationSeconds", in.SessionExpirationSeconds, 1, maxSessionSeconds},
		{"otpLength", in.OtpLength, 6, 9},
	} {
		if n.value != nil && (*n.value < n.least || *n.value > n.most) {
			return fault.Field(n.field, "must be %d to %d", n.least, n.most)
		}
	}
	return nil
}

// checkWords checks the texts of mails and text messages.
func (in *UpdateAuthProxyConfig) checkWords() error {
	if n := activity.TextOf(in.SendFromEmailSenderName); n != "" && !user.ValidName(n) {
		return fault.Field("sendFromEmailSenderName", "must be at most %d characters without control characters", user.MaxName)
	}
	if m := in.EmailCustomizationParams; m != nil {
		const path = "emailCustomizationParams."
		if n := activity.TextOf(m.AppName); n != "" && !isName(n) {
			return fault.Field(path+"appName", "must be 1 to %d characters, without control characters and space at its ends", user.MaxName)
		}
		if _, err := m.words(path); err != nil {
			return err
		}
	}
	if s := in.SmsCustomizationParams; s != nil && activity.TextOf(s.Template) != "" {
		const field = "smsCustomizationParams.template"
		t, err := login.ParseTemplate(field, *s.Template)
		switch {
		case err != nil:
			return err
		case !t.Uses(login.NameOtpCode):
			return fault.Field(field, "must contain {{ .%s }}", login.NameOtpCode)
		case len(*s.Template) > 4*login.MaxText:
			return fault.Field(field, "must have at most %d bytes", 4*login.MaxText)
		}
	}
	return nil
}

// isName reports whether s can be a name in the interface.
func isName(s string) bool { return user.ValidName(s) && strings.TrimFunc(s, unicode.IsSpace) == s }

func (in *UpdateAuthProxyConfig) checkWalletKit() error {
	k := in.WalletKitSettings
	if k == nil {
		return nil
	}
	if err := checkNames("walletKitSettings.enabledSocialProviders", k.EnabledSocialProviders, SocialProviders); err != nil {
		return err
	}
	for _, provider := range slices.Sorted(maps.Keys(k.OauthClientIDs)) {
		field := "walletKitSettings.oauthClientIds"
		if !slices.Contains(SocialProviders, provider) {
			return fault.Field(field, "its members must be of: %s", strings.Join(SocialProviders, ", "))
		}
		id := k.OauthClientIDs[provider]
		if err := checkClientID(field+"."+provider, id); id != "" && err != nil {
			return err
		}
	}
	if u := activity.TextOf(k.OauthRedirectURL); u != "" && !redirect(u) {
		return fault.Field("walletKitSettings.oauthRedirectUrl", "must be a URL of https, of http on this machine, or of an app's own scheme")
	}
	return nil
}

// redirect reports whether a log-in may redirect to a URL: a page, or an app by its own scheme.
func redirect(text string) bool {
	if login.CheckURL(text, true) {
		return true
	}
	scheme, _, _ := strings.Cut(text, ":")
	_, err := login.ParseMagicLink("", text+"%s")
	return err == nil && !strings.Contains(text, "%s") && !slices.Contains([]string{"http", "https"}, strings.ToLower(scheme))
}

// AuthProxyConfigID is the result of changing the configuration.
type AuthProxyConfigID struct {
	ConfigID string `json:"configId"`
}

func updateAuthProxyConfig(tx *activity.Tx, in *UpdateAuthProxyConfig) (*AuthProxyConfigID, error) {
	old, err := enabledProxy(tx)
	if err != nil {
		return nil, err
	}
	p := *old
	p.UpdatedMs = tx.NowMs
	in.apply(&p)
	return &AuthProxyConfigID{p.ID.String()}, tx.PutAuthProxy(&p)
}

func setNumber(into *uint32, value *int32) {
	if value != nil {
		*into = uint32(*value)
	}
}

// apply copies the members that are set into p, whose lists and maps are still shared with the old record.
func (in *UpdateAuthProxyConfig) apply(p *org.AuthProxy) {
	activity.Set(&p.Origins, in.AllowedOrigins)
	activity.Set(&p.Methods, in.AllowedAuthMethods)
	activity.Set(&p.SenderEmail, in.SendFromEmailAddress)
	activity.Set(&p.SenderName, in.SendFromEmailSenderName)
	activity.Set(&p.ReplyTo, in.ReplyToEmailAddress)
	setNumber(&p.OTPSeconds, in.OtpExpirationSeconds)
	setNumber(&p.TokenSeconds, in.VerificationTokenExpirationSeconds)
	setNumber(&p.SessionSeconds, in.SessionExpirationSeconds)
	setNumber(&p.OTPLength, in.OtpLength)
	activity.Set(&p.TokenForPII, in.VerificationTokenRequiredForGetAccountPii)
	activity.Set(&p.LinkingClients, in.SocialLinkingClientIDs)
	if in.OtpAlphanumeric != nil {
		p.OTPNumeric = !*in.OtpAlphanumeric
	}
	if m := in.EmailCustomizationParams; m != nil {
		activity.Set(&p.AppName, m.AppName)
		activity.Set(&p.LogoURL, m.LogoURL)
		activity.Set(&p.MagicLink, m.MagicLinkTemplate)
		activity.Set(&p.Variables, m.TemplateVariables)
	}
	if m := in.SmsCustomizationParams; m != nil {
		activity.Set(&p.SMSTemplate, m.Template)
	}
	if k := in.WalletKitSettings; k != nil {
		activity.Set(&p.SocialProviders, k.EnabledSocialProviders)
		activity.Set(&p.OAuthRedirect, k.OauthRedirectURL)
		p.OAuthClients = maps.Clone(p.OAuthClients)
		for provider, id := range k.OauthClientIDs {
			switch {
			case id == "":
				delete(p.OAuthClients, provider)
			case p.OAuthClients == nil:
				p.OAuthClients = map[string]string{provider: id}
			default:
				p.OAuthClients[provider] = id
			}
		}
	}
}
