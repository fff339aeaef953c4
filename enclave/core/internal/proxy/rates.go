package proxy

import (
	"crypto/sha256"
	"net/netip"
	"time"

	"cloister/enclave/internal/authproxy"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/settings"
	"cloister/shared/pace"
)

// Rates are how much is answered; a zero rate is the usual one. The host says where a call
// comes from: against one that lies only the rates of a contact and of a configuration hold.
type Rates struct {
	// Off sets no limits at all.
	Off bool
	// AddressRates are what one address may ask. Networks of more addresses have more; see pace.Sources.
	settings.AddressRates
	// Config is what one configuration answers, one line of a provider half of it at most.
	Config pace.Rate
	// Contact is how many passcodes one contact is sent for one configuration. Of three, one line of a provider may ask for two, so
	// that it alone cannot keep a contact without codes; see pace.Source.Line.
	Contact pace.Rate
}

// usual are the rates where nothing is said.
var usual = Rates{
	AddressRates: settings.AddressRates{
		Requests:  pace.Rate{Count: 600, Per: time.Minute},
		Accounts:  pace.Rate{Count: 30, Per: time.Minute},
		Passcodes: pace.Rate{Count: 10, Per: time.Hour},
		Attempts:  pace.Rate{Count: 60, Per: time.Minute},
		Signups:   pace.Rate{Count: 60, Per: time.Hour},
	},
	Config:  pace.Rate{Count: 6000, Per: time.Minute},
	Contact: pace.Rate{Count: 3, Per: 3 * time.Minute},
}

// maxBuckets is how many of each are counted at a time.
const maxBuckets = 1 << 16

// recipient is a contact as one configuration counts it.
type recipient struct {
	config  org.ID
	contact [32]byte // its hash: contacts are of any length
}

// messageLine is a line of a provider that asks for passcodes of a contact.
type messageLine struct {
	recipient
	line netip.Addr
}

// visitor is a line of a provider that asks a configuration.
type visitor struct {
	config org.ID
	line   netip.Addr
}

// ofConfig is the part of a configuration's rate that one visitor has.
func ofConfig(r pace.Rate) pace.Rate {
	r.Count -= r.Count / 2
	return r
}

// ofContact is the part of a contact's rate that one asker has.
func ofContact(r pace.Rate) pace.Rate {
	r.Count -= r.Count / 3
	return r
}

// meter counts calls.
type meter struct {
	callers                                *pace.Sources[struct{}]
	configs                                *pace.Buckets[org.ID]
	visitors                               *pace.Buckets[visitor]
	accounts, passcodes, attempts, signups *pace.Sources[org.ID]
	contacts                               *pace.Buckets[recipient]
	messageLines                           *pace.Buckets[messageLine]
}

func newMeter(r Rates) *meter {
	rate := func(own, usual pace.Rate) pace.Rate {
		switch {
		case r.Off:
			return pace.Rate{}
		case own.On():
			return own
		}
		return usual
	}
	return &meter{
		callers:      pace.NewSources[struct{}](rate(r.Requests, usual.Requests), maxBuckets),
		configs:      pace.New[org.ID](rate(r.Config, usual.Config), maxBuckets),
		visitors:     pace.New[visitor](ofConfig(rate(r.Config, usual.Config)), maxBuckets),
		accounts:     pace.NewSources[org.ID](rate(r.Accounts, usual.Accounts), maxBuckets),
		passcodes:    pace.NewSources[org.ID](rate(r.Passcodes, usual.Passcodes), maxBuckets),
		attempts:     pace.NewSources[org.ID](rate(r.Attempts, usual.Attempts), maxBuckets),
		signups:      pace.NewSources[org.ID](rate(r.Signups, usual.Signups), maxBuckets),
		contacts:     pace.New[recipient](rate(r.Contact, usual.Contact), maxBuckets),
		messageLines: pace.New[messageLine](ofContact(rate(r.Contact, usual.Contact)), maxBuckets),
	}
}

// caller counts a call before anything of it is looked for.
func (m *meter) caller(source pace.Source, now time.Time) (pace.Count, error) {
	return addressError(m.callers.Take(struct{}{}, source, now), "requests")
}

// count counts a call of a configuration. What an address is refused counts neither for the
// contact nor for the configuration, and what the configuration is refused not for the contact.
func (m *meter) count(config org.ID, source pace.Source, r *authproxy.Request, now time.Time) (pace.Count, error) {
	of, setting := m.attempts, "attempts"
	switch {
	case r.Account != nil:
		of, setting = m.accounts, "accounts"
	case r.Contact != "":
		of, setting = m.passcodes, "passcodes"
	case r.Proofs:
		of, setting = m.signups, "signups"
	case r.Type == "":
		of = nil
	}
	var c pace.Count
	if of != nil {
		var err error
		if c, err = addressError(of.Take(config, source, now), setting); err != nil {
			return c, err
		}
	}
	to := messageLine{recipient{config, sha256.Sum256([]byte(r.Contact))}, source.Line()}
	if r.Contact != "" {
		sent, err := rateError(m.passcode(to, now), "MAX_OTP_INITIATED", "Max number of OTPs have been initiated")
		if err != nil {
			return sent, err
		}
		c = pace.Least(c, sent)
	}
	all, err := rateError(m.visitors.Take(visitor{config, source.Line()}, now), "RATE_LIMIT_EXCEEDED", "too many requests from this network")
	if err == nil {
		all, err = rateError(m.configs.Take(config, now), "RATE_LIMIT_EXCEEDED", "too many requests: the auth proxy's configuration is rate limited")
	}
	if err != nil && r.Contact != "" {
		m.messageLines.Return(to, now)
		m.contacts.Return(to.recipient, now)
	}
	return pace.Least(c, all), err
}

// passcode counts a passcode for a contact, for the asker and for all. What is refused counts for neither.
func (m *meter) passcode(to messageLine, now time.Time) pace.Count {
	own := m.messageLines.Take(to, now)
	if own.Refused {
		return own
	}
	all := m.contacts.Take(to.recipient, now)
	if all.Refused {
		m.messageLines.Return(to, now)
	}
	return pace.Least(own, all)
}

// addressError names the setting, so that a developer knows what to change where his own address is refused.
func addressError(c pace.Count, setting string) (pace.Count, error) {
	return rateError(c, "RATE_LIMIT_EXCEEDED", "too many requests from this address (rates.authProxy."+setting+" in the deployment's configuration)")
}

func rateError(c pace.Count, name, what string) (pace.Count, error) {
	if c.Refused {
		return c, fault.WithCode(fault.ResourceExhausted, name, "%s, try again in %s", what, c.Again())
	}
	return c, nil
}

// source is where the host says that the call came from.
func (x *Call) source() pace.Source { return pace.SourceOf(x.call.From.Address) }

// pay keeps the least of the counts.
func (x *Call) pay(c pace.Count, err error) error {
	x.Count = pace.Least(x.Count, c)
	return err
}
