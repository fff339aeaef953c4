package core

import (
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
)

func (c *Core) vault(id org.ID, key *seal.Key, keyID uint32) *vault {
	return &vault{c, seal.Name{Kind: seal.KindSecret, KeyID: keyID, Deployment: c.serve.deployment, Organization: id}, key}
}

// Seal encrypts a secret under its owner's id. The result names the key.
func (v *vault) Seal(owner org.ID, s secret.Secret) ([]byte, error) {
	plain := s.SealedPlaintext()
	defer clear(plain)
	insecure.Record("sealed-secret", plain)
	n := v.name
	n.Owner = owner
	return v.key.Seal(v.c.cfg.Rand, n, plain)
}

// Open decrypts what Seal made for the same owner.
func (v *vault) Open(owner [16]byte, sealed []byte) (secret.Secret, error) {
	n := v.name
	n.Owner = owner
	plain, err := v.key.Open(n, sealed)
	if err != nil {
		return secret.Secret{}, err
	}
	return secret.From(plain)
}
