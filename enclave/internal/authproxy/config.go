package authproxy

import (
	"slices"
	"strconv"

	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// Config is an organization's current proxy configuration.
type Config struct {
	*org.AuthProxy
	Organization org.ID
	Name         string // of the organization
	// Texts tells whether text messages can be sent at all.
	Texts bool
}

// Accepts tells whether a page of origin may call. A caller that names no origin has "".
func (c *Config) Accepts(origin string) bool {
	return slices.Contains(c.Origins, "*") || origin != "" && slices.Contains(c.Origins, origin)
}

// UnknownConfig is the one answer for a configuration that does not exist, or is no longer
// enabled.
func UnknownConfig() *fault.Error {
	return fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "the auth proxy is not enabled for this X-Auth-Proxy-Config-Id")
}

// WrongOrigin is the answer to a page that may not call.
func WrongOrigin() *fault.Error {
	return fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "origin is not among the allowed origins of the auth proxy")
}

// ParseConfigID reads the header that names a configuration. Text that is no id names none.
func ParseConfigID(text string) (org.ID, error) {
	if text == "" {
		return org.ID{}, fault.New(fault.Unauthenticated, "X-Auth-Proxy-Config-Id is missing")
	}
	id, err := org.ParseID(text)
	if err != nil || id.Zero() {
		return org.ID{}, UnknownConfig()
	}
	return id, nil
}

func (c *Config) allows(method string) bool { return slices.Contains(c.Methods, method) }

// Allows refuses a request whose way to log in the configuration does not allow.
func (c *Config) Allows(r *Request) error {
	method := ""
	identities := 0
	switch in := r.in.(type) {
	case *InitOTP:
		if method = auth.MethodEmail; login.ContactType(in.OtpType).IsPhone() {
			method = auth.MethodSMS
		}
	case *OAuthLogin, *OAuth2Authenticate:
		identities = 1
	case *AccountLookup:
		if in.FilterType == "OIDC_TOKEN" || in.FilterType == oidcClaims {
			identities = 1
		}
	case *Signup:
		identities = len(in.OauthProviders)
		method = passkeyMethod(in.Authenticators)
	case *SignupV2:
		identities = len(in.OauthProviders)
		method = passkeyMethod(in.Authenticators)
	}
	switch {
	case identities > 0 && !c.allows(auth.MethodSocial) && !slices.ContainsFunc(auth.SocialProviders, c.allows):
		return login.OAuthDisallowed()
	case method != "" && !c.allows(method):
		return fault.New(fault.PermissionDenied, "%s is not among the allowed auth methods of the auth proxy", method)
	}
	return nil
}

func passkeyMethod(ps []user.AuthenticatorParams) string {
	if len(ps) > 0 {
		return auth.MethodPasskey
	}
	return ""
}

// Providers lists the ways to log in for clients, in the interface's order.
func (c *Config) Providers() []string {
	list := []string{}
	for _, p := range auth.SocialProviders {
		if c.allows(p) || c.allows(auth.MethodSocial) && slices.Contains(c.SocialProviders, p) {
			list = append(list, p)
		}
	}
	for _, m := range []string{auth.MethodEmail, auth.MethodSMS, auth.MethodPasskey, auth.MethodWallet} {
		if c.allows(m) && (m != auth.MethodSMS || c.Texts) {
			list = append(list, m)
		}
	}
	return list
}

// WalletKit is the answer of wallet_kit_config: the configuration as clients see it.
func (c *Config) WalletKit() []byte {
	return strictjson.Append(nil, &struct {
		EnabledProviders         []string          `json:"enabledProviders"`
		SessionExpirationSeconds string            `json:"sessionExpirationSeconds"`
		OrganizationID           string            `json:"organizationId"`
		OauthClientIDs           map[string]string `json:"oauthClientIds,omitempty"`
		OauthRedirectURL         string            `json:"oauthRedirectUrl,omitempty"`
		OtpAlphanumeric          bool              `json:"otpAlphanumeric"`
		OtpLength                string            `json:"otpLength"`
	}{c.Providers(), seconds(c.SessionSeconds), c.Organization.String(), c.OAuthClients, c.OAuthRedirect, !c.OTPNumeric, seconds(c.OTPLength)})
}

func seconds(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
