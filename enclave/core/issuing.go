package core

import (
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/settings"
)

// openProviders takes the keys of the roles that activities use. The identity tokens
// that the enclave issues and its verification tokens have one key, whose public half
// the boot proof vouches for; neither has the claims that the other must have.
func (c *Core) openProviders(s *serving, ring *boot.Keyring, set *settings.Settings) {
	s.roles = &activity.Roles{Issuer: set.Issuer, Identities: s.tokens, ClientSecrets: ring.FetcherSecret.Clone(), OnRamp: ring.OnRamp.Clone()}
}

// keySetPath is where, below the issuer's URL, the host serves our key set.
const keySetPath = "/.well-known/jwks.json"

// discoverIssuer answers with the discovery document of our own issuer, or with its
// key set, for others who want to verify the tokens that we issue. We ourselves do
// not read it: the host serves it.
func (c *Core) discoverIssuer() ([]byte, error) {
	r := c.serve.roles
	if r.Issuer == "" {
		return nil, errNoIssuer
	}
	return login.MarshalDiscovery(r.Issuer, strings.TrimSuffix(r.Issuer, "/")+keySetPath), nil
}

// discoverIssuerKeys answers the keys of that issuer.
func (c *Core) discoverIssuerKeys() ([]byte, error) {
	r := c.serve.roles
	if r.Issuer == "" {
		return nil, errNoIssuer
	}
	return login.MarshalKeySet(r.Identities.Public()), nil
}

var errNoIssuer = fault.New(fault.NotFound, "this enclave issues no identity tokens")
