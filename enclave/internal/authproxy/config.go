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

// Config is the proxy of an organization as it is now.
type Config struct {
	*org.AuthProxy
	Organization org.ID
	Name         string // of the organization
	// Texts tells whether text messages can be sent at all.
	Texts bool
}

// Accepts tells whether a page of origin may call; "" is who says none.
func (c *Config) Accepts(origin string) bool {
	return slices.Contains(c.Origins, "*") || origin != "" && slices.Contains(c.Origins, origin)
}

// UnknownConfig is the one answer to a configuration that is not there, that is not
// enabled any more, and that no organization has.
func UnknownConfig() *fault.Error {
	return fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "the auth proxy is not enabled for this X-Auth-Proxy-Config-Id")
}

// WrongOrigin is the answer to a page that may not call.
func WrongOrigin() *fault.Error {
	return fault.WithCode(fault.PermissionDenied, "FORBIDDEN", "origin is not among the allowed origins of the auth proxy")
}

// ParseConfigID reads the header that names a configuration. One that is no id is
// of nobody.
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

// allows tells whether one may log in by a method.
func (c *Config) allows(method string) bool { return slices.Contains(c.Methods, method) }

// Allows refuses what takes a way to log in that the configuration does not name.
func (c *Config) Allows(r *Request) error {
	method := ""
	identities := 0
	switch in := r.in.(type) {
	case *InitOTP:
		if method = auth.MethodEmail; login.ContactType(in.OtpType) == login.SMS {
			method = auth.MethodSMS
		}
	case *OAuthLogin, *OAuth2Authenticate:
		identities = 1
	case *AccountLookup:
		if in.FilterType == "OIDC_TOKEN" {
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

// Providers are the ways to log in as clients are told, in the interface's order.
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

// walletKitConfig is what clients are told of the configuration.
type walletKitConfig struct {
	EnabledProviders         []string          `json:"enabledProviders"`
	SessionExpirationSeconds string            `json:"sessionExpirationSeconds"`
	OrganizationID           string            `json:"organizationId"`
	OauthClientIDs           map[string]string `json:"oauthClientIds,omitempty"`
	OauthRedirectURL         string            `json:"oauthRedirectUrl,omitempty"`
	OtpAlphanumeric          bool              `json:"otpAlphanumeric"`
	OtpLength                string            `json:"otpLength"`
}

// WalletKit is the answer of wallet_kit_config.
func (c *Config) WalletKit() []byte {
	return strictjson.Append(nil, &walletKitConfig{
		EnabledProviders: c.Providers(), SessionExpirationSeconds: seconds(c.SessionSeconds), OrganizationID: c.Organization.String(),
		OauthClientIDs: c.OAuthClients, OauthRedirectURL: c.OAuthRedirect, OtpAlphanumeric: !c.OTPNumeric, OtpLength: seconds(c.OTPLength),
	})
}

// ClientParams is the answer of wallet_kit_client_params: this release asks for no
// captcha.
func ClientParams() []byte { return []byte("{}") }

func seconds(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
