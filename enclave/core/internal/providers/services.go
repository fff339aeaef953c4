// Package providers asks for what an activity or a query needs to know: identity providers for
// their keys and for what an authorization code is worth, on-ramp providers for sessions and
// for how purchases stand, the payment processor, chains for how they stand, registries for the images of
// programs.
//
// Nothing is asked while an organization is locked; a transaction that lacks something is run again. What
// waits is bounded, and one tenant cannot keep the others from asking. TLS to
// providers ends here, so the host can withhold their answers and not make them up.
package providers

import (
	"io"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/settings"
	"cloister/shared/wire"
)

// Config is what names outside are reached with.
type Config struct {
	Host      *link.Host
	Clock     ledger.Clock
	Rand      io.Reader
	Alarms    *fault.Alarms
	Simulator bool
	PullKey   secret.Secret // opens the secrets of registries
}

// Services is what an enclave speaks to names outside with.
type Services struct {
	Settings *settings.Settings // the measured configuration
	// Delivery speaks to the servers that the configuration names.
	Delivery *netclient.Client
	// Capabilities are what activities are told of the configuration.
	Capabilities      activity.Capabilities
	IdentityProviders *IdentityProviders
	OnRamps           *OnRamps
	Payments          *Payments
	Chains            *Chains
	Programs          *Programs
}

// New makes the clients; own are the keys of tokens that this enclave issues itself.
// Each client has half of the streams: a provider that hangs holds up no mail.
func New(cfg Config, set *settings.Settings, own *login.KeySet) (o *Services, err error) {
	o = &Services{Settings: set, Chains: newChains(cfg), Capabilities: activity.Capabilities{Mail: set.Mail != nil, Text: set.Text != nil, WhatsApp: set.WhatsApp != nil, Sandbox: set.Sandbox, Issuer: set.Issuer, Payments: set.Billing != nil, GasPrices: set.GasPrices, Tokens: set.Tokens}}
	if m := set.Mail; m != nil {
		o.Capabilities.Sender, o.Capabilities.Domains = m.Sender, m.Domains
	}
	o.Programs = &Programs{host: cfg.Host, clock: cfg.Clock, lane: cfg.Host.Lane(maxLooks), key: cfg.PullKey, looks: tenant.NewPortion[org.ID](maxLooks), all: map[lookKey]*imageLookup{}}
	o.Capabilities.Programs = set.Programs
	var providers *netclient.Client // for names that organizations choose: issuers of identity tokens, OAuth 2.0 providers
	for _, client := range []**netclient.Client{&providers, &o.Delivery} {
		dial := cfg.Host.Lane(wire.MaxStreams / 2).Dial
		if *client, err = netclient.New(netclient.Config{Dial: dial, Clock: cfg.Clock, Rand: cfg.Rand, Roots: set.Roots, Loopback: cfg.Simulator}); err != nil {
			return nil, err
		}
	}
	issuers := netclient.NewIssuers(providers, netclient.Reading[*login.KeySet]{
		Discovery: func(document []byte, issuer string) (string, error) {
			return login.ParseDiscovery("oidcToken", document, issuer, cfg.Simulator)
		},
		Keys: func(document []byte) (*login.KeySet, error) { return login.ParseKeySet("oidcToken", document) },
	})
	o.IdentityProviders = &IdentityProviders{clock: cfg.Clock, client: providers, issuers: issuers, issuer: set.Issuer, own: own, others: set.OAuth2,
		loadsOf: tenant.NewPortion[org.ID](maxLoads), exchangesOf: tenant.NewPortion[org.ID](maxExchanges), loads: map[string]*load{}, exchanges: map[org.ID]*exchange{}}
	o.OnRamps = &OnRamps{clock: cfg.Clock, client: o.Delivery, bases: set.OnRamps, asks: tenant.NewPortion[org.ID](maxOnRampAsks), secrets: tenant.NewPortion[org.ID](maxPurchases),
		purchases: map[org.ID]*purchase{}}
	o.Capabilities.OnRamps = o.OnRamps.set()
	o.Payments = &Payments{client: o.Delivery, processor: set.Billing, asks: tenant.NewPortion[org.ID](maxPaymentAsks)}
	return o, nil
}
