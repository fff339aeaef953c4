package core

import (
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
)

// vault seals the secrets of one organization's records under their owners' ids.
type vault struct {
	c    *Core
	name seal.Name
	key  *seal.Key
}

func (c *Core) vault(id org.ID, key *seal.Key, keyID uint32) *vault {
	return &vault{c, seal.Name{Kind: seal.KindSecret, KeyID: keyID, Deployment: c.serve.Deployment, Organization: id}, key}
}

// Seal encrypts a secret under its owner's id. The result names the key.
func (v *vault) Seal(owner org.ID, s secret.Secret) ([]byte, error) {
	n := v.name
	n.Owner = owner
	return v.key.SealSecret(v.c.cfg.Rand, n, s)
}

// Open decrypts what Seal made for the same owner.
func (v *vault) Open(owner [16]byte, sealed []byte) (secret.Secret, error) {
	n := v.name
	n.Owner = owner
	return v.key.OpenSecret(n, sealed)
}
