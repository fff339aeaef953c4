package authproxy

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// An Endpoint is one path of the proxy: it asks for an activity, looks for an
// account, or tells of the configuration.
type Endpoint struct {
	Op     string // the last segment of its path
	Type   string // of the activity that it asks for, ACTIVITY_TYPE_…; empty for none
	Empty  bool   // the body may be left out
	Proofs bool   // it asks for app proofs and answers with them

	read    func([]byte) (any, error)
	compose func(*Config, any, uint64) (params any, err error)
	cut     func(*outcome) []byte
	answer  func(*Config) []byte
}

var endpoints = []*Endpoint{
	activityEndpoint("otp_init", "ACTIVITY_TYPE_INIT_OTP_V2", composeInit, members("otpId")),
	activityEndpoint("otp_init_v2", "ACTIVITY_TYPE_INIT_OTP_V3", composeInit, members("otpId", "otpEncryptionTargetBundle")),
	activityEndpoint("otp_verify", "ACTIVITY_TYPE_VERIFY_OTP", composeVerify, members("verificationToken")),
	activityEndpoint("otp_verify_v2", "ACTIVITY_TYPE_VERIFY_OTP_V2", composeVerifyV2, members("verificationToken")),
	activityEndpoint("otp_login", "ACTIVITY_TYPE_OTP_LOGIN", composeLogin, members("session")),
	activityEndpoint("otp_login_v2", "ACTIVITY_TYPE_OTP_LOGIN_V2", composeLoginV2, members("session")),
	activityEndpoint("oauth2_authenticate", "ACTIVITY_TYPE_OAUTH2_AUTHENTICATE", composeAuthenticate, members("oidcToken")),
	activityEndpoint("oauth_login", "ACTIVITY_TYPE_OAUTH_LOGIN", composeOAuthLogin, members("session")),
	activityEndpoint("signup", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", composeSignup, cutSignup).withProofs(),
	activityEndpoint("signup_v2", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", composeSignupV2, cutSignup).withProofs(),
	{Op: "account", read: reader[AccountLookup]()},
	{Op: "wallet_kit_config", Empty: true, read: reader[Nothing](), answer: (*Config).WalletKit},
	{Op: "wallet_kit_client_params", Empty: true, read: reader[Nothing](), answer: func(*Config) []byte { return []byte("{}") }}, // no captcha
}

// Find returns the endpoint at path op.
func Find(op string) (*Endpoint, error) {
	for _, e := range endpoints {
		if e.Op == op {
			return e, nil
		}
	}
	return nil, fault.New(fault.NotFound, "no such path")
}

// activityEndpoint declares an endpoint that asks for an activity: compose makes its parameters
// of a request, cut makes the answer of its outcome.
func activityEndpoint[R any](op, typ string, compose func(*Config, *R, uint64) (any, error), cut func(*outcome) []byte) *Endpoint {
	return &Endpoint{
		Op: op, Type: typ, read: reader[R](), cut: cut,
		compose: func(c *Config, in any, nowMs uint64) (any, error) { return compose(c, in.(*R), nowMs) },
	}
}

func (e *Endpoint) withProofs() *Endpoint {
	e.Proofs = true
	return e
}

func reader[R any]() func([]byte) (any, error) {
	strictjson.Prepare(new(R))
	return func(body []byte) (any, error) {
		r := new(R)
		return r, strictjson.Decode(body, r, strictjson.Within(limits))
	}
}

// A Request is a body that has been read.
type Request struct {
	*Endpoint
	// Contact is where a passcode goes: the type and the ContactKey. Empty in other requests.
	Contact string
	// Organization is the sub-organization that a log-in names, nil if it names none.
	Organization *org.ID
	// Token, a verification token, or Identity, an identity token, finds the sub-organization
	// of a log-in.
	Token, Identity string
	// Account is set for a look-up.
	Account *AccountLookup
	// Client is set where the activity needs the organization's credential at an OAuth 2.0
	// provider. The submitter fills in Credential.
	Client *Client

	in any
}

// Client is an organization as an OAuth 2.0 provider knows it. Credential is the id of its
// record, zero if it has none.
type Client struct {
	Provider, ClientID string
	Credential         org.ID
}

// Read reads the body of a request. It checks the form of what the body names, and no more.
func (e *Endpoint) Read(body []byte) (*Request, error) {
	if len(body) > MaxBody {
		return nil, fault.New(fault.InvalidArgument, "request too large: at most %d bytes", MaxBody)
	}
	if len(body) == 0 && e.Empty {
		body = []byte("{}")
	}
	in, err := e.read(body)
	if err != nil {
		return nil, err
	}
	r := &Request{Endpoint: e, in: in}
	var named *string
	switch in := in.(type) {
	case *InitOTP:
		t := login.ContactType(in.OtpType)
		if err := login.CheckContact("contact", t, in.Contact); err != nil {
			return nil, err
		}
		r.Contact = in.OtpType + " " + login.ContactKey(t, in.Contact)
	case *OTPLogin:
		if err := in.readSignature(); err != nil {
			return nil, err
		}
		r.Token, named = in.VerificationToken, in.OrganizationID
	case *OTPLoginV2:
		r.Token, named = in.VerificationToken, in.OrganizationID
	case *OAuthLogin:
		r.Identity, named = in.OidcToken, in.OrganizationID
	case *OAuth2Authenticate:
		in.client = &Client{Provider: string(in.Provider), ClientID: in.ClientID}
		r.Client = in.client
	case *AccountLookup:
		r.Account = in
	}
	if activity.TextOf(named) != "" {
		id, err := org.ParseID(*named)
		if err != nil {
			return nil, fault.Field("organizationId", "malformed organization ID provided")
		}
		r.Organization = &id
	}
	return r, nil
}

// VerifyToken is the verification token of a log-in that the token's key has signed. The activity
// checks that too, but the contact is looked up before.
func (r *Request) VerifyToken(t *login.UnprovenToken) (*login.VerificationToken, error) {
	const field = "clientSignature"
	if in, ok := r.in.(*OTPLogin); ok {
		return t.ForLogin(field, in.signature.Login(), in.PublicKey, true)
	}
	in := r.in.(*OTPLoginV2)
	return t.ForLogin(field, in.ClientSignature.Login(), in.PublicKey, false)
}

// Answer is the answer of an endpoint that only tells the configuration, nil for others.
func (r *Request) Answer(c *Config) []byte {
	if r.answer == nil {
		return nil
	}
	return r.answer(c)
}
