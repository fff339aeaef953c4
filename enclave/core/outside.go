package core

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"cloister/attestation"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/outward"
	"cloister/enclave/internal/settings"
	"cloister/shared/wire"
)

// outside is what an enclave speaks to names outside with, as its measured
// configuration has it.
type outside struct {
	settings *settings.Settings
	// client speaks to names that organizations choose: issuers of identity tokens
	// and OAuth 2.0 providers.
	client *outward.Client
	// delivery speaks to the servers that the configuration names.
	delivery *outward.Client
	issuers  *outward.Issuers[*login.KeySet]
	// told is what activities are told of it.
	told activity.Outside
}

// newOutside makes the clients. Each has half of the streams: a provider that hangs
// holds up no mail.
func (c *Core) newOutside(set *settings.Settings) (o *outside, err error) {
	o = &outside{settings: set, told: activity.Outside{Mail: set.Mail != nil, Text: set.Text != nil, Sandbox: set.Sandbox, Issuer: set.Issuer}}
	if m := set.Mail; m != nil {
		o.told.Sender, o.told.Domains = m.Sender, m.Domains
	}
	for _, client := range []**outward.Client{&o.client, &o.delivery} {
		l := c.host.Lane(wire.MaxStreams / 2)
		*client, err = outward.New(outward.Config{Dial: l.Dial, Clock: c.cfg.Clock, Rand: c.cfg.Rand, Roots: set.Roots, Loopback: c.cfg.Simulator})
		if err != nil {
			return nil, err
		}
	}
	o.issuers = outward.NewIssuers(o.client, outward.Policy{}, outward.Reading[*login.KeySet]{
		Discovery: func(document []byte, issuer string) (string, error) {
			return login.ParseDiscovery("oidcToken", document, issuer, c.cfg.Simulator)
		},
		Keys: func(document []byte) (*login.KeySet, error) { return login.ParseKeySet("oidcToken", document) },
	})
	return o, nil
}

// configuration reads the configuration that a manifest names, from the base64 of
// its bytes. The errors are *fault.Error.
func (c *Core) configuration(m *attestation.Manifest, text string) (*settings.Settings, error) {
	if len(text) > base64.StdEncoding.EncodedLen(settings.Max) {
		return nil, fault.Field("configuration", "configuration is longer than %d bytes", settings.Max)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fault.Field("configuration", "configuration is not base64")
	}
	defer clear(raw)
	named := ""
	if len(raw) > 0 {
		sum := sha256.Sum256(raw)
		named = hex.EncodeToString(sum[:])
	}
	if named != m.ConfigurationSHA256 {
		return nil, fault.Field("configuration", "configuration is not the one whose hash the manifest holds")
	}
	return settings.Parse(raw, c.cfg.Simulator)
}
