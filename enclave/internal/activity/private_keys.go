package activity

import (
	"encoding/hex"
	"fmt"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
)

var privateKeys = []*Kind{
	kind("CREATE_PRIVATE_KEYS", "PRIVATE_KEY", "CREATE", createPrivateKeys,
		answering(was(1, func(v *CreatePrivateKeys) CreatePrivateKeys { return *v }), privateKeyIDs)).results(1, 2),
}

// PrivateKeyParams is a private key to be made.
type PrivateKeyParams struct {
	PrivateKeyName string          `json:"privateKeyName" rule:"required,label_length,label"`
	Curve          Curve           `json:"curve" rule:"required"`
	PrivateKeyTags []string        `json:"privateKeyTags" rule:"dive,uuid"`
	AddressFormats []AddressFormat `json:"addressFormats" rule:"dive"`
}

// CreatePrivateKeys makes private keys that belong to no wallet.
type CreatePrivateKeys struct {
	PrivateKeys []PrivateKeyParams `json:"privateKeys" rule:"dive,required"`
}

func (in *CreatePrivateKeys) check() error { return checkPrivateKeys(in.PrivateKeys) }

func checkPrivateKeys(ps []PrivateKeyParams) error {
	for i, p := range ps {
		seen := map[AddressFormat]bool{}
		for j, f := range p.AddressFormats {
			field := fmt.Sprintf("privateKeys.%d.addressFormats.%d", i, j)
			if _, _, err := formatFor(field, p.Curve, f); err != nil {
				return err
			}
			if seen[f] {
				return fault.Field(field, "named twice")
			}
			seen[f] = true
		}
	}
	return nil
}

// PrivateKeyResult is a new private key.
type PrivateKeyResult struct {
	PrivateKeyID string          `json:"privateKeyId"`
	Addresses    []AddressRecord `json:"addresses"`
}

// AddressRecord is an address in one format.
type AddressRecord struct {
	Format  AddressFormat `json:"format"`
	Address string        `json:"address"`
}

// PrivateKeys is the result of making private keys.
type PrivateKeys struct {
	PrivateKeys []PrivateKeyResult `json:"privateKeys"`
}

// PrivateKeyIDs is the same in version 1.
type PrivateKeyIDs struct {
	PrivateKeyIDs []string `json:"privateKeyIds"`
}

func privateKeyIDs(r *PrivateKeys) *PrivateKeyIDs {
	ids := make([]string, len(r.PrivateKeys))
	for i, k := range r.PrivateKeys {
		ids[i] = k.PrivateKeyID
	}
	return &PrivateKeyIDs{ids}
}

func createPrivateKeys(tx *Tx, in *CreatePrivateKeys) (*PrivateKeys, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if int(old.PrivateKeys)+len(in.PrivateKeys) > org.MaxPrivateKeys {
		return nil, overQuota(org.MaxPrivateKeys, "private keys")
	}
	made, err := addPrivateKeys(tx, in.PrivateKeys)
	if err != nil {
		return nil, err
	}
	o := *old
	o.PrivateKeys += uint32(len(made))
	return &PrivateKeys{made}, tx.PutOrganization(&o)
}

// addPrivateKeys makes private keys; the caller counts them.
func addPrivateKeys(tx *Tx, ps []PrivateKeyParams) ([]PrivateKeyResult, error) {
	made := make([]PrivateKeyResult, len(ps))
	for i := range ps {
		k, err := addPrivateKey(tx, i, &ps[i])
		if err != nil {
			return nil, err
		}
		made[i] = PrivateKeyResult{k.ID.String(), make([]AddressRecord, len(k.Addresses))}
		for j, a := range k.Addresses {
			made[i].Addresses[j] = AddressRecord{AddressFormat(a.Format), a.Address}
		}
	}
	return made, nil
}

func addPrivateKey(tx *Tx, i int, p *PrivateKeyParams) (*org.PrivateKey, error) {
	if len(p.PrivateKeyTags) > 0 {
		return nil, notFound("private key tag", p.PrivateKeyTags[0])
	}
	holder, err := tx.Named(org.NamePrivateKey, p.PrivateKeyName)
	if err != nil {
		return nil, err
	}
	if !holder.Zero() {
		return nil, taken("private key", at("privateKeys", i, "privateKeyName"))
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	curve, err := chain.ParseCurve(string(p.Curve))
	if err != nil {
		return nil, err
	}
	key, err := keys.GeneratePrivateKey(tx.Rand, curve)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	k := &org.PrivateKey{
		ID: id, Name: p.PrivateKeyName, Curve: string(p.Curve), PublicKey: hex.EncodeToString(key.Public().Bytes()),
		CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
	}
	if k.Key, err = sealKey(tx, id, key); err != nil {
		return nil, err
	}
	matches := make([]string, len(p.AddressFormats))
	for j, name := range p.AddressFormats {
		format, _ := chain.ParseFormat(string(name)) // Valid
		address, err := chains.Address(format, key.Public())
		if err != nil {
			return nil, err
		}
		k.Addresses = append(k.Addresses, org.Address{Format: string(name), Address: address})
		matches[j] = chain.MatchKey(address)
		if tx.WantsProofs {
			tx.Claims = append(tx.Claims, Claim{Address: &AddressClaim{Organization: tx.ID, Address: address}})
		}
	}
	if err := tx.TakeName(org.NamePrivateKey, k.Name, id); err != nil {
		return nil, err
	}
	return k, tx.PutPrivateKey(k, matches)
}

func sealKey(tx *Tx, id org.ID, key *keys.PrivateKey) ([]byte, error) {
	s, err := keys.SecretFrom(key.SealedPlaintext())
	if err != nil {
		return nil, err
	}
	defer s.Wipe()
	return tx.Vault.Seal(id, s)
}
