package core

import (
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

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
