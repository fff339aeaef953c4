// Package outside asks names outside what an activity or a query needs to know of them:
// identity providers their keys and what an authorization code is worth, chains how they
// stand.
//
// It promises that nothing is asked while a turn is held, that who waits is bounded and
// one tenant cannot keep the others from asking, and that a host which carries the
// question can withhold an answer of an identity provider and supply none, since TLS ends
// here. It lives in the first moment, reading: a step that lacks what it finds here is run
// again.
package outside

import (
	"io"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/outward"
	"cloister/enclave/internal/settings"
	"cloister/shared/wire"
)

// Config is what the outside is reached with.
type Config struct {
	Host      *link.Host
	Clock     ledger.Clock
	Rand      io.Reader
	Alarms    *fault.Alarms
	Simulator bool
}

// Outside is what an enclave speaks to names outside with, as its measured
// configuration has it.
type Outside struct {
	Settings *settings.Settings
	// Delivery speaks to the servers that the configuration names.
	Delivery *outward.Client
	// Told is what activities are told of it.
	Told      activity.Outside
	Providers *Providers
	Chains    *Chains
}

// New makes the clients; own are the keys of tokens that this enclave issues itself.
// Each client has half of the streams: a provider that hangs holds up no mail.
func New(cfg Config, set *settings.Settings, own *login.KeySet) (o *Outside, err error) {
	o = &Outside{Settings: set, Chains: &Chains{cfg}, Told: activity.Outside{Mail: set.Mail != nil, Text: set.Text != nil, Sandbox: set.Sandbox, Issuer: set.Issuer}}
	if m := set.Mail; m != nil {
		o.Told.Sender, o.Told.Domains = m.Sender, m.Domains
	}
	var providers *outward.Client // for names that organizations choose: issuers of identity tokens, OAuth 2.0 providers
	for _, client := range []**outward.Client{&providers, &o.Delivery} {
		l := cfg.Host.Lane(wire.MaxStreams / 2)
		*client, err = outward.New(outward.Config{Dial: l.Dial, Clock: cfg.Clock, Rand: cfg.Rand, Roots: set.Roots, Loopback: cfg.Simulator})
		if err != nil {
			return nil, err
		}
	}
	o.Providers = newProviders(cfg.Clock, set, own, providers, outward.NewIssuers(providers, outward.Policy{}, outward.Reading[*login.KeySet]{
		Discovery: func(document []byte, issuer string) (string, error) {
			return login.ParseDiscovery("oidcToken", document, issuer, cfg.Simulator)
		},
		Keys: func(document []byte) (*login.KeySet, error) { return login.ParseKeySet("oidcToken", document) },
	}))
	return o, nil
}
