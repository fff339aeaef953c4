package query

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
)

// Queries about the credentials of organizations at other services. Secrets are answered
// as they were sent: encrypted.
var providerCredentials = []*Query{
	stateQuery("get_oauth2_credential", getOAuth2Credential),
	stateQuery("list_oauth2_credentials", listOAuth2Credentials),
	stateQuery("list_fiat_on_ramp_credentials", listOnRampCredentials),
	fetchQuery("get_onramp_transaction_status", fetchPurchase, answerPurchase),
}

type oauth2CredentialRequest struct {
	Head
	OAuth2CredentialID string `json:"oauth2CredentialId" rule:"required"`
}

func getOAuth2Credential(v *View, in *oauth2CredentialRequest) ([]byte, error) {
	c, err := findNamed("OAuth 2.0 credential", "oauth2CredentialId", in.OAuth2CredentialID, v.OAuth2Credential)
	if f := fault.Of(err); f != nil && f.Code == fault.NotFound {
		err = fault.WithCode(f.Code, "OAUTH2_CREDENTIAL_NOT_FOUND", "%s", f.Message)
	}
	return one(`{"oauth2Credential":`, c, err, v.appendOAuth2Credential)
}

func listOAuth2Credentials(v *View, _ *organizationRequest) ([]byte, error) {
	cs, err := inOrder(v.EachOAuth2Credential, func(c *org.OAuth2Credential) created { return created{c.CreatedMs, c.ID} })
	return many(`{"oauth2Credentials":`, cs, err, v.appendOAuth2Credential)
}

func (v *View) appendOAuth2Credential(dst []byte, c *org.OAuth2Credential) []byte {
	dst = ident(dst, `{"oauth2CredentialId":`, c.ID)
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = text(dst, `,"provider":`, c.Provider)
	dst = text(dst, `,"clientId":`, c.ClientID)
	dst = text(dst, `,"encryptedClientSecret":`, c.Encrypted)
	return append(appendTimes(dst, c.CreatedMs, c.UpdatedMs), '}')
}

func listOnRampCredentials(v *View, _ *organizationRequest) ([]byte, error) {
	cs, err := inOrder(v.EachOnRampCredential, func(c *org.OnRampCredential) created { return created{c.CreatedMs, c.ID} })
	return many(`{"fiatOnRampCredentials":`, cs, err, v.appendOnRampCredential)
}

func (v *View) appendOnRampCredential(dst []byte, c *org.OnRampCredential) []byte {
	dst = ident(dst, `{"fiatOnrampCredentialId":`, c.ID)
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = text(dst, `,"onrampProvider":`, c.Provider)
	if c.ProjectID != "" {
		dst = text(dst, `,"projectId":`, c.ProjectID)
	}
	dst = text(dst, `,"publishableApiKey":`, c.PublishableKey)
	dst = text(dst, `,"encryptedSecretApiKey":`, c.EncryptedSecret)
	if c.EncryptedPrivate != "" {
		dst = text(dst, `,"encryptedPrivateApiKey":`, c.EncryptedPrivate)
	}
	dst = flag(dst, `,"sandboxMode":`, c.Sandbox)
	return append(appendTimes(dst, c.CreatedMs, c.UpdatedMs), '}')
}

// purchaseRequest names a purchase by its activity.
type purchaseRequest struct {
	Head
	TransactionID string `json:"transactionId" rule:"required"`
	Refresh       *bool  `json:"refresh"`
}

// purchase is a purchase as its activity describes it.
type purchase struct {
	OnRampQuestion
	sandbox, refresh bool
}

func fetchPurchase(in *purchaseRequest, s *sources) (*purchase, error) {
	const what = "on-ramp transaction"
	e, err := findNamed(what, "transactionId", in.TransactionID, s.Activity)
	if err != nil {
		return nil, err
	}
	if e.Type != "ACTIVITY_TYPE_INIT_FIAT_ON_RAMP" || e.Status != org.StatusCompleted {
		return nil, fault.New(fault.NotFound, "%s not found: %s", what, e.Activity)
	}
	sub, err := activity.ParseStored(stamp.StoredBody(e.Body))
	if err != nil {
		return nil, err
	}
	var intent wallet.InitOnRamp
	if err := strictjson.Decode(sub.Parameters, &intent, strictjson.AllowUnknown()); err != nil {
		return nil, err
	}
	return &purchase{OnRampQuestion{Provider: intent.OnrampProvider, Activity: e.Activity}, activity.IsOn(intent.SandboxMode), activity.IsOn(in.Refresh)}, nil
}

// answerPurchase queries the provider with the newest credential of the top-level organization.
func answerPurchase(v *View, p *purchase) ([]byte, error) {
	top, err := v.top()
	if err != nil {
		return nil, err
	}
	c, err := wallet.OnRampCredentialFor(top, p.Provider, p.sandbox)
	if err != nil {
		return nil, err
	}
	id := p.Activity.String()
	q := p.OnRampQuestion
	q.Ask = func(base string) (*login.Request, error) {
		if q.Provider == onramp.MoonPay {
			return onramp.MoonPayStatus(base, id, c.PublishableKey), nil
		}
		key, err := wallet.OpenCoinbaseKey(v.OnRamps.Vault, c)
		if err != nil {
			return nil, err
		}
		defer key.Wipe()
		return onramp.CoinbaseStatus(base, id, onramp.CoinbaseKey{ID: c.PublishableKey, Private: key, Rand: v.OnRamps.Rand, NowMs: v.NowMs})
	}
	q.Read = func(status int, body []byte) (onramp.State, error) {
		if q.Provider == onramp.MoonPay {
			return onramp.ReadMoonPay(status, body, id)
		}
		return onramp.ReadCoinbase(status, body)
	}
	state, err := v.OnRamps.State(&q, p.refresh)
	if err != nil {
		return nil, err
	}
	return append(text(nil, `{"transactionStatus":`, string(state)), '}'), nil
}
