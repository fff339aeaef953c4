package core

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"

	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/outbox"
	"cloister/enclave/core/internal/providers"
	"cloister/enclave/core/internal/proxy"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/settings"
	"cloister/enclave/internal/webhook"
)

// serving has the keys and services of an enclave that serves.
type serving struct {
	*lifecycle.Serving
	bundles         *bundle.Signer
	sessions        *login.Signer
	tokens          *login.Signer  // of verification tokens
	legacyTokens    *login.Signer  // of verification tokens of the first form
	passcodeTargets *bundle.Signer // of keys to which passcodes are encrypted
	serviceKeys     *activity.ServiceKeys
	webhooks        *webhook.Signer
	keysDocument    keysDocument
	keyedHash       func(text []byte) [32]byte // by the blind-index key
	admission       []byte                     // compressed P-256 key that may create organizations
	providers       *providers.Services
	outbox          *outbox.Outbox
	proxy           *proxy.Proxy
	plans           planCache
}

// installServices makes the services from the keyring. The enclave's identity tokens and its
// verification tokens have one key, whose public half the boot proof contains;
// neither kind has the claims that the other requires.
func (c *Core) installServices(of *lifecycle.Serving, ring *boot.Keyring, set *settings.Settings) (err error) {
	s := &serving{Serving: of, keyedHash: ring.Hash()}
	var errs [7]error
	s.admission, errs[0] = hex.DecodeString(of.Manifest.AdmissionKey)
	s.bundles, errs[1] = bundle.NewSigner(ring.Signer)
	s.sessions, errs[2] = login.NewSigner(ring.Session)
	s.tokens, errs[3] = login.NewSigner(ring.Token)
	s.passcodeTargets, errs[4] = bundle.NewSigner(ring.Token) // clients pin one key for both
	s.legacyTokens, errs[5] = login.NewSigner(ring.TokenLegacy)
	s.webhooks, errs[6] = webhook.NewSigner(ring.Webhook)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	rates := c.cfg.Rates.with(set.Rates.Or(c.cfg.Rates.configurable()))
	c.metering.Store(newMeter(rates))
	s.serviceKeys = &activity.ServiceKeys{Issuer: set.Issuer, Identities: s.tokens, ClientSecrets: ring.FetcherSecret.Clone(), OnRamp: ring.OnRamp.Clone()}
	if s.providers, err = providers.New(providers.Config{Host: c.host, Clock: c.cfg.Clock, Rand: c.cfg.Rand, Alarms: &c.alarms, Simulator: c.cfg.Simulator, PullKey: s.serviceKeys.OnRamp},
		set, login.KeySetOf(s.tokens.Public())); err != nil {
		return err
	}
	s.outbox = outbox.New(outbox.Config{Clock: c.cfg.Clock, Rand: c.cfg.Rand, Services: s.providers, Webhooks: s.webhooks,
		Host: c.host, Deployment: of.Deployment, KeyedHash: s.keyedHash, Alarms: &c.alarms})
	s.proxy = proxy.New(proxy.Config{Clock: c.cfg.Clock, Alarms: &c.alarms, Rates: rates.Proxy, Texts: s.providers.Capabilities.Text, Tokens: s.tokenKeys(),
		Find: func(ctx context.Context, config org.ID) ([]ledger.IndexRow, error) {
			return s.Ranges.PageIndex(ctx, s.proxyKey(config), 1)
		},
		Open: func(t *ledger.Locked, p *org.AuthProxy) (secret.Secret, error) {
			key, keyID := t.Key()
			return c.vault(t.ID(), key, keyID).Open(p.Key, p.Sealed)
		}})
	c.serving = s
	return nil
}

// activityID is the id of a body's activity in an organization: a UUIDv7 of the
// body's timestamp and a keyed hash of organization and fingerprint. The id of a body never
// changes, so the host's index by id finds the activity of a repeated body.
func (s *serving) activityID(organization [16]byte, fingerprint [32]byte, stampedMs uint64) (id [16]byte) {
	h := s.keyedHash(slices.Concat([]byte("cloister activity 1"), organization[:], fingerprint[:]))
	copy(id[:], h[:])
	for i := range 6 {
		id[i] = byte(stampedMs >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// organizationID is the id of the one organization that an admission's body creates.
func (s *serving) organizationID(fingerprint [32]byte) (id [16]byte) {
	h := s.keyedHash(slices.Concat([]byte("cloister organization 1"), fingerprint[:]))
	copy(id[:], h[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// tokenKeys verify the enclave's verification tokens.
func (s *serving) tokenKeys() login.TokenKeys {
	return login.TokenKeys{Token: s.tokens.Public(), Legacy: s.legacyTokens.Public()}
}

// vault seals the secrets of one organization's records under their owners' ids.
type vault struct {
	core *Core
	name seal.Name
	key  *seal.Key
}

func (c *Core) vault(id org.ID, key *seal.Key, keyID uint32) *vault {
	return &vault{c, seal.Name{Kind: seal.KindSecret, KeyID: keyID, Deployment: c.serving.Deployment, Organization: id}, key}
}

// Seal encrypts a secret under its owner's id. The result names the key.
func (v *vault) Seal(owner org.ID, s secret.Secret) ([]byte, error) {
	n := v.name
	n.Owner = owner
	return v.key.SealSecret(v.core.cfg.Rand, n, s)
}

// Open decrypts what Seal made for the same owner.
func (v *vault) Open(owner [16]byte, sealed []byte) (secret.Secret, error) {
	n := v.name
	n.Owner = owner
	return v.key.OpenSecret(n, sealed)
}
