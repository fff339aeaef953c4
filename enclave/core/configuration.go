package core

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"cloister/attestation"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/settings"
)

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
