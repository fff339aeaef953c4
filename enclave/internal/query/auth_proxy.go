package query

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

var authProxy = []*Query{
	stateQuery("get_auth_proxy_config", getAuthProxyConfig),
}

// authProxyConfig is a configuration with the members of update_auth_proxy_config.
// Members that are not set are left out. No answer contains the private key.
type authProxyConfig struct {
	ConfigID                                  string         `json:"configId"`
	UserID                                    string         `json:"userId"`
	PolicyID                                  string         `json:"policyId"`
	AllowedOrigins                            []string       `json:"allowedOrigins"`
	AllowedAuthMethods                        []string       `json:"allowedAuthMethods"`
	SendFromEmailAddress                      string         `json:"sendFromEmailAddress,omitempty"`
	SendFromEmailSenderName                   string         `json:"sendFromEmailSenderName,omitempty"`
	ReplyToEmailAddress                       string         `json:"replyToEmailAddress,omitempty"`
	EmailCustomizationParams                  proxyMail      `json:"emailCustomizationParams"`
	SmsCustomizationParams                    proxyText      `json:"smsCustomizationParams"`
	WalletKitSettings                         proxyWalletKit `json:"walletKitSettings"`
	OtpExpirationSeconds                      uint32         `json:"otpExpirationSeconds"`
	VerificationTokenExpirationSeconds        uint32         `json:"verificationTokenExpirationSeconds"`
	SessionExpirationSeconds                  uint32         `json:"sessionExpirationSeconds"`
	OtpAlphanumeric                           bool           `json:"otpAlphanumeric"`
	OtpLength                                 uint32         `json:"otpLength"`
	VerificationTokenRequiredForGetAccountPii bool           `json:"verificationTokenRequiredForGetAccountPii"`
	SocialLinkingClientIDs                    []string       `json:"socialLinkingClientIds"`
	CaptchaEnabled                            bool           `json:"captchaEnabled"`
	CreatedAt                                 strictjson.Raw `json:"createdAt"`
	UpdatedAt                                 strictjson.Raw `json:"updatedAt"`
}

type proxyMail struct {
	AppName           string `json:"appName,omitempty"`
	LogoURL           string `json:"logoUrl,omitempty"`
	MagicLinkTemplate string `json:"magicLinkTemplate,omitempty"`
	TemplateVariables string `json:"templateVariables,omitempty"`
}

type proxyText struct {
	Template string `json:"template,omitempty"`
}

type proxyWalletKit struct {
	EnabledSocialProviders []string          `json:"enabledSocialProviders"`
	OauthClientIDs         map[string]string `json:"oauthClientIds"`
	OauthRedirectURL       string            `json:"oauthRedirectUrl,omitempty"`
}

func getAuthProxyConfig(v *View, _ *organizationRequest) ([]byte, error) {
	p, err := v.OnlyAuthProxy()
	if err == nil && p == nil {
		err = fault.New(fault.NotFound, "the auth proxy is not enabled")
	}
	if err != nil {
		return nil, err
	}
	return append(strictjson.Append([]byte(`{"authProxyConfig":`), configOf(p)), '}'), nil
}

func configOf(p *org.AuthProxy) *authProxyConfig {
	return &authProxyConfig{
		ConfigID: p.ID.String(), UserID: p.User.String(), PolicyID: p.Policy.String(), AllowedOrigins: p.Origins, AllowedAuthMethods: p.Methods,
		SendFromEmailAddress: p.SenderEmail, SendFromEmailSenderName: p.SenderName, ReplyToEmailAddress: p.ReplyTo,
		EmailCustomizationParams: proxyMail{p.AppName, p.LogoURL, p.MagicLink, p.Variables}, SmsCustomizationParams: proxyText{p.SMSTemplate},
		WalletKitSettings:    proxyWalletKit{p.SocialProviders, p.OAuthClients, p.OAuthRedirect},
		OtpExpirationSeconds: p.OTPSeconds, VerificationTokenExpirationSeconds: p.TokenSeconds, SessionExpirationSeconds: p.SessionSeconds,
		OtpAlphanumeric: !p.OTPNumeric, OtpLength: p.OTPLength, VerificationTokenRequiredForGetAccountPii: p.TokenForPII, SocialLinkingClientIDs: p.LinkingClients,
		CreatedAt: activity.AppendTime(nil, p.CreatedMs), UpdatedAt: activity.AppendTime(nil, p.UpdatedMs),
	}
}
