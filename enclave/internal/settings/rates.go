package settings

import (
	"fmt"
	"slices"
	"strings"

	"cloister/shared/pace"
)

// Rates are how much is answered: to the users of one organization of the top level, to those of one
// sub-organization, to one key. A zero Rate is the usual one, in a simulator no limit.
type Rates struct {
	Organization, SubOrganization, Key pace.Rate
	// EachSub is what a sub-organization may use, EachTenant what a tenant may with all that is below it.
	EachSub, EachTenant Spending
	AuthProxy           AddressRates
}

// AddressRates are how much the auth proxy answers to one network address: Requests in all, the others of one
// configuration. A zero Rate is the usual one, in a simulator too.
type AddressRates struct{ Requests, Accounts, Passcodes, Attempts, Signups pace.Rate }

func (p *AddressRates) list() []*pace.Rate {
	return []*pace.Rate{&p.Requests, &p.Accounts, &p.Passcodes, &p.Attempts, &p.Signups}
}

// Spending is how much of what is scarce is used. The zero Rate of a resource is the usual one, in a simulator no limit.
type Spending struct {
	Processor pace.Rate // milliseconds of processor time
	Stored    pace.Rate // thousands of bytes
	Mails     pace.Rate
	Texts     pace.Rate // text messages
	Fetches   pace.Rate // questions to servers outside, such as issuers of identity tokens
}

// Resources are the names of what a Spending limits, in text and in documents.
var Resources = [...]string{"processor", "stored", "mails", "texts", "fetches"}

// Of are the rates of the Resources, in their order.
func (s *Spending) Of() [len(Resources)]*pace.Rate {
	return [...]*pace.Rate{&s.Processor, &s.Stored, &s.Mails, &s.Texts, &s.Fetches}
}

// Or are the rates of r, and of other where r has none.
func (r Rates) Or(other Rates) Rates {
	mine, others := r.list(), other.list()
	for i, rate := range mine {
		if !rate.On() {
			*rate = *others[i]
		}
	}
	return r
}

func (r *Rates) list() []*pace.Rate {
	sub, tenant := r.EachSub.Of(), r.EachTenant.Of()
	return slices.Concat([]*pace.Rate{&r.Organization, &r.SubOrganization, &r.Key}, sub[:], tenant[:], r.AuthProxy.list())
}

// UnmarshalText reads "processor=3000/m,mails=30/h": rates as package pace reads them, each named once at most.
func (s *Spending) UnmarshalText(text []byte) error {
	var read Spending
	for _, pair := range strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' }) {
		name, rate, _ := strings.Cut(strings.TrimSpace(pair), "=")
		at := slices.Index(Resources[:], name)
		if at < 0 {
			return fmt.Errorf("no resource %q: there are %s", name, strings.Join(Resources[:], ", "))
		}
		if read.Of()[at].On() {
			return fmt.Errorf("%s is given twice", name)
		}
		if err := read.Of()[at].UnmarshalText([]byte(rate)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	*s = read
	return nil
}

// MarshalText is what UnmarshalText reads.
func (s Spending) MarshalText() ([]byte, error) {
	var pairs []string
	for r, rate := range s.Of() {
		if rate.On() {
			pairs = append(pairs, Resources[r]+"="+rate.String())
		}
	}
	return []byte(strings.Join(pairs, ",")), nil
}

// rates is the member rates.
type rates struct {
	Organization    string   `json:"organization"`
	SubOrganization string   `json:"subOrganization"`
	Key             string   `json:"key"`
	EachSub         spending `json:"eachSubOrganization"`
	EachTenant      spending `json:"eachTenant"`
	AuthProxy       struct {
		Requests  string `json:"requests"`
		Accounts  string `json:"accounts"`
		Passcodes string `json:"passcodes"`
		Attempts  string `json:"attempts"`
		Signups   string `json:"signups"`
	} `json:"authProxy"`
}

type spending struct {
	Processor string `json:"processor"`
	Stored    string `json:"stored"`
	Mails     string `json:"mails"`
	Texts     string `json:"texts"`
	Fetches   string `json:"fetches"`
}

func (d *rates) read() (r Rates, err error) {
	texts := []string{d.Organization, d.SubOrganization, d.Key}
	for _, s := range []spending{d.EachSub, d.EachTenant} {
		texts = append(texts, s.Processor, s.Stored, s.Mails, s.Texts, s.Fetches)
	}
	p := &d.AuthProxy
	texts = append(texts, p.Requests, p.Accounts, p.Passcodes, p.Attempts, p.Signups)
	names := []string{"organization", "subOrganization", "key"}
	for _, of := range []string{"eachSubOrganization", "eachTenant"} {
		for _, name := range Resources {
			names = append(names, of+"."+name)
		}
	}
	names = append(names, "authProxy.requests", "authProxy.accounts", "authProxy.passcodes", "authProxy.attempts", "authProxy.signups")
	for i, rate := range r.list() {
		if texts[i] == "" {
			continue
		}
		if *rate, err = pace.Parse(texts[i]); err != nil || !rate.On() {
			return r, errMember(".rates."+names[i], fmt.Sprintf("must be a rate such as 10/s, 50/10s, 600/m or 5000/h, at most %d", pace.MaxCount))
		}
	}
	return r, nil
}
