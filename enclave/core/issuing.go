package core

import (
	"fmt"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/login"
)

// openOutside takes the keys of the roles that activities use, and opens the way
// out. The identity tokens that the enclave issues and its verification tokens have
// one key, whose public half the boot proof vouches for; neither has the claims that
// the other must have.
func (c *Core) openOutside(s *serving, ring *boot.Keyring) error {
	issuer := c.cfg.Outside.Issuer
	if issuer != "" && (strings.HasSuffix(issuer, "/") || strings.Contains(issuer, "?") || !login.CheckURL(issuer, c.cfg.Outside.Loopback)) {
		return fmt.Errorf("issuer: not an https URL without a slash at its end: %q", issuer)
	}
	s.roles = &activity.Roles{Issuer: issuer}
	var err error
	if s.roles.Identities, err = login.NewSigner(ring.Token[:]); err != nil {
		return err
	}
	if s.roles.ClientSecrets, err = keys.SecretFrom(slices.Clone(ring.FetcherSecret[:])); err != nil {
		return err
	}
	if s.roles.OnRamp, err = keys.SecretFrom(slices.Clone(ring.OnRamp[:])); err != nil {
		return err
	}
	s.outside, err = c.newOutside(s.roles.Identities.Public())
	return err
}

// keySetPath is where, below the issuer's URL, the host serves our key set.
const keySetPath = "/.well-known/jwks.json"

// discoverIssuer answers with the discovery document of our own issuer, or with its
// key set, for others who want to verify the tokens that we issue. We ourselves do
// not read it: the host serves it.
func (c *Core) discoverIssuer(keySet bool) ([]byte, error) {
	if state(c.state.Load()) != stateServing {
		return nil, errNotServing
	}
	r := c.serve.roles
	switch {
	case r.Issuer == "":
		return nil, fault.New(fault.NotFound, "this enclave issues no identity tokens")
	case keySet:
		return login.MarshalKeySet(r.Identities.Public()), nil
	}
	return login.MarshalDiscovery(r.Issuer, r.Issuer+keySetPath), nil
}
