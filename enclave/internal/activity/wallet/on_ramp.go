package wallet

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
)

// OnRamps are the kinds about on-ramp providers: credentials at them, and purchases.
var OnRamps = activity.Family{
	activity.Kind[CreateOnRampCredential, OnRampCredentialID]{Name: "CREATE_FIAT_ON_RAMP_CREDENTIAL", Resource: "ON_RAMP_CREDENTIALS", Action: "CREATE", Run: createOnRampCredential},
	activity.Kind[UpdateOnRampCredential, OnRampCredentialID]{Name: "UPDATE_FIAT_ON_RAMP_CREDENTIAL", Resource: "ON_RAMP_CREDENTIALS", Action: "UPDATE", Run: updateOnRampCredential,
		Explain: func(tx *org.Tx, in *UpdateOnRampCredential, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[DeleteOnRampCredential, OnRampCredentialID]{Name: "DELETE_FIAT_ON_RAMP_CREDENTIAL", Resource: "ON_RAMP_CREDENTIALS", Action: "DELETE", Run: deleteOnRampCredential,
		Explain: func(tx *org.Tx, in *DeleteOnRampCredential, o *show.Object) error {
			return explainOnRampRecord(tx, o, in.OnRampCredentialID)
		}},
	activity.Kind[InitOnRamp, OnRampPage]{Name: "INIT_FIAT_ON_RAMP", Resource: "FIAT_TRANSACTION", Action: "CREATE", Run: initOnRamp},
}

// Limits of the credentials at on-ramp providers. They are always in memory.
const (
	maxOnRampCredentials = 20 // of one organization
	maxOnRampText        = 1024
	maxOnRampSecret      = 4 << 10 // characters of an encrypted secret
)

// OnRampParams is the organization's account at an on-ramp provider: ids and encrypted secrets.
type OnRampParams struct {
	OnrampProvider         onramp.Provider `json:"onrampProvider" rule:"required"`
	ProjectID              *string         `json:"projectId" rule:"omitempty"`
	PublishableAPIKey      string          `json:"publishableApiKey" rule:"required"`
	EncryptedSecretAPIKey  string          `json:"encryptedSecretApiKey" rule:"required"`
	EncryptedPrivateAPIKey *string         `json:"encryptedPrivateApiKey" rule:"omitempty"`
}

// CreateOnRampCredential stores a credential at an on-ramp provider.
type CreateOnRampCredential struct {
	OnRampParams
	SandboxMode *bool `json:"sandboxMode" rule:"omitempty"`
}

func (in *OnRampParams) Check() error {
	for _, m := range []struct {
		field, value string
		most         int
	}{
		{"projectId", activity.TextOf(in.ProjectID), maxOnRampText}, {"publishableApiKey", in.PublishableAPIKey, maxOnRampText},
		{"encryptedSecretApiKey", in.EncryptedSecretAPIKey, maxOnRampSecret}, {"encryptedPrivateApiKey", activity.TextOf(in.EncryptedPrivateAPIKey), maxOnRampSecret},
	} {
		if m.value != "" && !activity.Visible(m.value) || len(m.value) > m.most {
			return fault.Field(m.field, "must be at most %d visible ASCII characters", m.most)
		}
	}
	return nil
}

// OnRampCredentialID is the result of creating, changing and removing a credential.
type OnRampCredentialID struct {
	OnRampCredentialID string `json:"fiatOnRampCredentialId"`
}

func createOnRampCredential(tx *activity.Tx, in *CreateOnRampCredential) (*OnRampCredentialID, error) {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	n := 0
	if err := tx.EachOnRampCredential(func(*org.OnRampCredential) bool { n++; return true }); err != nil {
		return nil, err
	}
	if n >= maxOnRampCredentials {
		return nil, activity.OverQuota(maxOnRampCredentials, "on-ramp credentials")
	}
	return putOnRampCredential(tx, &in.OnRampParams, &org.OnRampCredential{ID: id, Sandbox: activity.IsOn(in.SandboxMode), CreatedMs: tx.NowMs})
}

// putOnRampCredential stores c, a copy or new, with the values of in.
func putOnRampCredential(tx *activity.Tx, in *OnRampParams, c *org.OnRampCredential) (*OnRampCredentialID, error) {
	c.Provider, c.ProjectID, c.PublishableKey = string(in.OnrampProvider), activity.TextOf(in.ProjectID), in.PublishableAPIKey
	c.EncryptedSecret, c.EncryptedPrivate, c.Private, c.UpdatedMs = in.EncryptedSecretAPIKey, activity.TextOf(in.EncryptedPrivateAPIKey), nil, tx.NowMs
	var err error
	if c.Secret, err = onRampSecret(tx, c.ID, "encryptedSecretApiKey", c.EncryptedSecret); err != nil {
		return nil, err
	}
	if c.EncryptedPrivate != "" {
		if c.Private, err = onRampSecret(tx, c.ID, "encryptedPrivateApiKey", c.EncryptedPrivate); err != nil {
			return nil, err
		}
	}
	return &OnRampCredentialID{c.ID.String()}, tx.PutOnRampCredential(c)
}

// onRampSecret decrypts a secret and seals it for the record.
func onRampSecret(tx *activity.Tx, owner org.ID, field, text string) ([]byte, error) {
	secret, err := login.OpenOnRampSecret(field, text, tx.ServiceKeys.OnRamp)
	if err != nil {
		return nil, err
	}
	defer secret.Wipe()
	return tx.Vault.Seal(owner, secret)
}

// UpdateOnRampCredential replaces a credential, except for its sandbox flag.
type UpdateOnRampCredential struct {
	OnRampCredentialID string `json:"fiatOnrampCredentialId" rule:"required"`
	OnRampParams
}

func updateOnRampCredential(tx *activity.Tx, in *UpdateOnRampCredential) (*OnRampCredentialID, error) {
	old, err := findOnRampCredential(tx, in.OnRampCredentialID)
	if err != nil {
		return nil, err
	}
	c := *old
	return putOnRampCredential(tx, &in.OnRampParams, &c)
}

func findOnRampCredential(tx *activity.Tx, text string) (*org.OnRampCredential, error) {
	return activity.FindField(tx.OnRampCredential, "on-ramp credential", "fiatOnrampCredentialId", text)
}

// DeleteOnRampCredential removes a credential.
type DeleteOnRampCredential struct {
	OnRampCredentialID string `json:"fiatOnrampCredentialId" rule:"required"`
}

func deleteOnRampCredential(tx *activity.Tx, in *DeleteOnRampCredential) (*OnRampCredentialID, error) {
	c, err := findOnRampCredential(tx, in.OnRampCredentialID)
	if err != nil {
		return nil, err
	}
	tx.DeleteOnRampCredential(c.ID)
	return &OnRampCredentialID{c.ID.String()}, nil
}

// InitOnRamp requests the page of a provider for a purchase to one of the organization's addresses.
type InitOnRamp struct {
	OnrampProvider         onramp.Provider  `json:"onrampProvider" rule:"required"`
	WalletAddress          string           `json:"walletAddress" rule:"required"`
	Network                onramp.Network   `json:"network" rule:"required"`
	CryptoCurrencyCode     onramp.Asset     `json:"cryptoCurrencyCode" rule:"required"`
	FiatCurrencyCode       *onramp.Currency `json:"fiatCurrencyCode"`
	FiatCurrencyAmount     *string          `json:"fiatCurrencyAmount"`
	PaymentMethod          *onramp.Method   `json:"paymentMethod"`
	CountryCode            *string          `json:"countryCode"`
	CountrySubdivisionCode *string          `json:"countrySubdivisionCode"`
	SandboxMode            *bool            `json:"sandboxMode"`
	URLForSignature        *string          `json:"urlForSignature"`
}

// OnRampPage is the result. The signature is that of the intent's urlForSignature.
type OnRampPage struct {
	OnRampURL           string  `json:"onRampUrl"`
	OnRampTransactionID string  `json:"onRampTransactionId"`
	OnRampURLSignature  *string `json:"onRampUrlSignature"`
}

func (in *InitOnRamp) purchase(id string) *onramp.Purchase {
	p := &onramp.Purchase{Provider: in.OnrampProvider, Network: in.Network, Asset: in.CryptoCurrencyCode, Address: in.WalletAddress, Amount: activity.TextOf(in.FiatCurrencyAmount),
		Country: activity.TextOf(in.CountryCode), Subdivision: activity.TextOf(in.CountrySubdivisionCode), Sandbox: activity.IsOn(in.SandboxMode), ID: id}
	if in.FiatCurrencyCode != nil {
		p.Currency = *in.FiatCurrencyCode
	}
	if in.PaymentMethod != nil {
		p.Method = *in.PaymentMethod
	}
	return p
}

func (in *InitOnRamp) Check() error {
	if in.URLForSignature != nil && in.OnrampProvider != onramp.MoonPay {
		return fault.Field("urlForSignature", "only MoonPay takes signatures")
	}
	return in.purchase("").Check()
}

// OnRampCredentialFor returns the newest credential of a top-level organization at a provider, in its sandbox or not.
func OnRampCredentialFor(top *org.Tx, provider onramp.Provider, sandbox bool) (*org.OnRampCredential, error) {
	all, err := activity.Collect(top.EachOnRampCredential, func(c *org.OnRampCredential) bool {
		return c.Provider == string(provider) && c.Sandbox == sandbox
	})
	if err == nil && len(all) == 0 {
		what := "for its live mode"
		if sandbox {
			what = "for its sandbox"
		}
		return nil, fault.New(fault.NotFound, "on-ramp credential not found: the top-level organization has none of %s %s", provider, what)
	}
	if err != nil {
		return nil, err
	}
	return slices.MaxFunc(all, func(a, b *org.OnRampCredential) int {
		return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), bytes.Compare(a.ID[:], b.ID[:]))
	}), nil
}

// initOnRamp makes the URL of a page. It contains an address of the organization, never another.
func initOnRamp(tx *activity.Tx, in *InitOnRamp) (*OnRampPage, error) {
	top, err := tx.Top()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(tx.Capabilities.OnRamps, in.OnrampProvider) {
		return nil, activity.OnRampNotSet(in.OnrampProvider)
	}
	c, err := OnRampCredentialFor(top, in.OnrampProvider, activity.IsOn(in.SandboxMode))
	if err != nil {
		return nil, err
	}
	p := in.purchase(tx.Activity.String())
	if p.Address, err = receiving(tx.Tx, p); err != nil {
		return nil, err
	}
	made := &OnRampPage{OnRampTransactionID: p.ID}
	if p.Provider == onramp.Coinbase {
		made.OnRampURL, err = coinbasePage(tx, p, c)
		return made, err
	}
	own := func(address string) (ok bool, err error) {
		_, ok, err = tx.ByAddress(chain.MatchKey(address))
		return ok, err
	}
	if in.URLForSignature != nil {
		if err := onramp.CheckToSign(*in.URLForSignature, p.Sandbox, c.PublishableKey, own); err != nil {
			return nil, err
		}
	}
	key, err := tx.TopVault().OpenOnRampSecret(c)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	made.OnRampURL = p.MoonPayURL(c.PublishableKey)
	made.OnRampURL = onramp.WithSignature(made.OnRampURL, onramp.SignMoonPay(made.OnRampURL, key))
	if in.URLForSignature != nil {
		signature := onramp.SignMoonPay(*in.URLForSignature, key)
		made.OnRampURLSignature = &signature
	}
	return made, nil
}

// receiving returns the address to which the provider sends, as the organization has it stored, if it is on the network.
func receiving(tx *org.Tx, p *onramp.Purchase) (string, error) {
	s, err := findSigningKey(tx, p.Address)
	if fault.Of(err) != nil {
		return "", fault.Field("walletAddress", "is not an address of the organization's")
	}
	if err != nil {
		return "", err
	}
	fits := false
	switch format := s.format.String(); p.Network {
	case "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BITCOIN":
		fits = strings.HasPrefix(format, "ADDRESS_FORMAT_BITCOIN_MAINNET_") || p.Sandbox && strings.HasPrefix(format, "ADDRESS_FORMAT_BITCOIN_TESTNET_")
	case "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_SOLANA":
		fits = s.format == chain.Solana
	default:
		fits = s.format == chain.Ethereum
	}
	if !fits {
		return "", fault.Field("walletAddress", "is not an address of the network that is asked for")
	}
	by, err := s.chainKey()
	return by.Address, err
}

// coinbasePage requests a session from Coinbase, which stores the address in it.
func coinbasePage(tx *activity.Tx, p *onramp.Purchase, c *org.OnRampCredential) (string, error) {
	key, err := OpenCoinbaseKey(tx.TopVault(), c)
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	session, err := tx.Providers.OnRampSession(func(base string) (*login.Request, error) {
		return p.CoinbaseSession(base, tx.From, onramp.CoinbaseKey{ID: c.PublishableKey, Private: key, Rand: tx.Rand, NowMs: tx.NowMs})
	})
	if err != nil {
		return "", err
	}
	return p.CoinbaseURL(session), nil
}

// OpenCoinbaseKey opens the private key of a credential at Coinbase. The vault is that of the credential's organization.
func OpenCoinbaseKey(v activity.Vault, c *org.OnRampCredential) (secret.Secret, error) {
	if len(c.Private) == 0 {
		return secret.Secret{}, fault.New(fault.FailedPrecondition, "the on-ramp credential has no private key: update it with encryptedPrivateApiKey")
	}
	return v.OpenOnRampKey(c)
}
