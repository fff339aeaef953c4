package wallet

import (
	"encoding/hex"
	"fmt"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/tag"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Keys are the kinds about private keys that belong to no wallet.
var Keys = activity.Family{
	activity.Kind[CreatePrivateKeys, PrivateKeys]{
		Name: "CREATE_PRIVATE_KEYS", Resource: "PRIVATE_KEY", Action: "CREATE", Run: createPrivateKeys, Verify: verifyPrivateKeys, Results: []int{1, 2},
		Explain: func(tx *org.Tx, in *CreatePrivateKeys, o *show.Object) error { return in.explain(tx, o) },
		Older:   []activity.Older{activity.Downgrade(activity.Upgrade(func(v *CreatePrivateKeys) CreatePrivateKeys { return *v }), privateKeyIDs)},
	},
	activity.Kind[PrivateKeyID, PrivateKeyID]{
		Name: "DISABLE_PRIVATE_KEY", Resource: "PRIVATE_KEY", Action: "DELETE", Run: disablePrivateKey,
		Explain: func(tx *org.Tx, in *PrivateKeyID, o *show.Object) error {
			o.Warn(show.KeyDeleted)
			return explain(o.Object("privateKey"), tx.PrivateKey, in.PrivateKeyID, explainPrivateKey)
		},
		Facts: func(tx *org.Tx, in *PrivateKeyID) (policy.Facts, error) { return privateKeyFacts(tx, in.PrivateKeyID) },
	},
	activity.Kind[DeletePrivateKeys, PrivateKeyIDs]{
		Name: "DELETE_PRIVATE_KEYS", Resource: "PRIVATE_KEY", Action: "DELETE", Run: deletePrivateKeys,
		Explain: func(tx *org.Tx, in *DeletePrivateKeys, o *show.Object) error { return in.explain(tx, o) },
		FillPolicyRequest: func(tx *org.Tx, in *DeletePrivateKeys, q *policy.Request) error {
			return askEach(q, in.PrivateKeyIDs, func(id string) (policy.Facts, error) { return privateKeyFacts(tx, id) })
		},
	},
}

// PrivateKeyParams is a private key to be created.
type PrivateKeyParams struct {
	PrivateKeyName string          `json:"privateKeyName" rule:"required,label_length,label"`
	Curve          Curve           `json:"curve" rule:"required"`
	PrivateKeyTags []string        `json:"privateKeyTags" rule:"dive,uuid"`
	AddressFormats []AddressFormat `json:"addressFormats" rule:"dive"`
}

// CreatePrivateKeys creates private keys that belong to no wallet.
type CreatePrivateKeys struct {
	PrivateKeys []PrivateKeyParams `json:"privateKeys" rule:"dive,required"`
}

func (in *CreatePrivateKeys) Check() error { return CheckPrivateKeys(in.PrivateKeys) }

// CheckPrivateKeys refuses keys that cannot be created.
func CheckPrivateKeys(ps []PrivateKeyParams) error {
	for i, p := range ps {
		if err := checkFormats(fmt.Sprintf("privateKeys.%d.", i), p.Curve, p.AddressFormats); err != nil {
			return err
		}
	}
	return nil
}

// checkFormats refuses address formats that do not match the curve, or are listed twice.
func checkFormats(path string, curve Curve, formats []AddressFormat) error {
	for i, f := range formats {
		field := fmt.Sprintf("%saddressFormats.%d", path, i)
		if _, _, err := formatFor(field, curve, f); err != nil {
			return err
		}
		if slices.Contains(formats[:i], f) {
			return fault.Field(field, "named twice")
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

// PrivateKeys is the result of creating private keys.
type PrivateKeys struct {
	PrivateKeys []PrivateKeyResult `json:"privateKeys"`
}

// PrivateKeyIDs is the result of version 1, and of deleting keys.
type PrivateKeyIDs struct {
	PrivateKeyIDs []string `json:"privateKeyIds"`
}

func privateKeyIDs(r *PrivateKeys) *PrivateKeyIDs {
	return &PrivateKeyIDs{activity.MapList(r.PrivateKeys, func(k *PrivateKeyResult) string { return k.PrivateKeyID })}
}

func createPrivateKeys(tx *activity.Tx, in *CreatePrivateKeys) (*PrivateKeys, error) {
	if err := activity.PrivateKeys.Add(tx, len(in.PrivateKeys)); err != nil {
		return nil, err
	}
	made, err := AddPrivateKeys(tx, in.PrivateKeys)
	return &PrivateKeys{made}, err
}

// AddPrivateKeys creates private keys; the caller counts them.
func AddPrivateKeys(tx *activity.Tx, ps []PrivateKeyParams) ([]PrivateKeyResult, error) {
	made := make([]PrivateKeyResult, len(ps))
	for i := range ps {
		k, err := addPrivateKey(tx, i, &ps[i])
		if err != nil {
			return nil, err
		}
		made[i] = privateKeyResult(k)
		tx.Pause()
	}
	return made, nil
}

func privateKeyResult(k *org.PrivateKey) PrivateKeyResult {
	record := func(a *org.Address) AddressRecord { return AddressRecord{AddressFormat(a.Format), a.Address} }
	return PrivateKeyResult{k.ID.String(), activity.MapList(k.Addresses, record)}
}

func addPrivateKey(tx *activity.Tx, i int, p *PrivateKeyParams) (*org.PrivateKey, error) {
	tags, err := tag.Find(tx, activity.FieldAt("privateKeys", i, "privateKeyTags"), p.PrivateKeyTags, tag.TypePrivateKey)
	if err != nil {
		return nil, err
	}
	id, err := activity.NewNamed(tx, org.NamePrivateKey, "private key", activity.FieldAt("privateKeys", i, "privateKeyName"), p.PrivateKeyName)
	if err != nil {
		return nil, err
	}
	curve, _ := chain.ParseCurve(string(p.Curve)) // Valid
	key, err := tx.Holder().NewPrivateKey(tx.Rand, curve)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	k := &org.PrivateKey{ID: id, Name: p.PrivateKeyName, Curve: string(p.Curve), Tags: tags}
	return k, keepKey(tx, k, key, p.AddressFormats)
}

// keepKey completes the record of a new private key, seals the key in it and stores it with its addresses.
func keepKey(tx *activity.Tx, k *org.PrivateKey, key *keys.PrivateKey, formats []AddressFormat) (err error) {
	if k.Key, err = sealKey(tx, k.ID, key); err != nil {
		return err
	}
	k.PublicKey, k.CreatedMs, k.UpdatedMs = hex.EncodeToString(key.Public().Bytes()), tx.NowMs, tx.NowMs
	for i, name := range formats {
		format, _ := chain.ParseFormat(string(name)) // Valid
		address, err := addresses.Address(format, key.Public())
		if err != nil {
			return err
		}
		if k.Imported { // other organizations may have it too
			if err := checkAddressUnique(tx, fmt.Sprintf("addressFormats.%d", i), k.ID, address); err != nil {
				return err
			}
		}
		k.Addresses = append(k.Addresses, org.Address{Format: string(name), Address: address})
		if tx.WantsProofs {
			tx.Claims = append(tx.Claims, activity.Claim{Address: &activity.AddressClaim{Organization: tx.ID, Address: address}})
		}
	}
	return tx.PutPrivateKey(k, MatchesOf(k))
}

func sealKey(tx *activity.Tx, id org.ID, key *keys.PrivateKey) ([]byte, error) {
	s, err := tx.Holder().NewSecret(key)
	if err != nil {
		return nil, err
	}
	defer s.Wipe()
	return tx.Vault.Seal(id, s)
}

// MatchesOf are the match keys of k's addresses.
func MatchesOf(k *org.PrivateKey) []string {
	return activity.MapList(k.Addresses, func(a *org.Address) string { return chain.MatchKey(a.Address) })
}

// PrivateKeyID names the private key to be disabled permanently, and is the result. Disabling it again changes nothing.
type PrivateKeyID struct {
	PrivateKeyID string `json:"privateKeyId" rule:"required,uuid"`
}

func disablePrivateKey(tx *activity.Tx, in *PrivateKeyID) (*PrivateKeyID, error) {
	old, err := activity.Find(tx.PrivateKey, "private key", in.PrivateKeyID)
	if err != nil || old.Disabled {
		return in, err
	}
	k := *old
	k.Disabled, k.UpdatedMs = true, tx.NowMs
	dropKey(tx, k.ID, 0)
	return in, tx.PutPrivateKey(&k, MatchesOf(&k))
}

// dropKey removes a private key from the cache: of an account, or with no 0 of no wallet. If the activity fails
// later, the key is opened again when needed.
func dropKey(tx *activity.Tx, owner org.ID, no uint64) {
	id := activity.KeyID{Organization: tx.ID, Owner: owner, No: no}
	tx.Keys.Drop(func(k activity.KeyID) bool { return k == id })
}

// DeletePrivateKeys deletes private keys, all or none.
type DeletePrivateKeys struct {
	PrivateKeyIDs       []string `json:"privateKeyIds" rule:"required,dive,uuid"`
	DeleteWithoutExport *bool    `json:"deleteWithoutExport"`
}

func (in *DeletePrivateKeys) Check() error {
	return activity.CheckDistinct("privateKeyIds", in.PrivateKeyIDs)
}

func deletePrivateKeys(tx *activity.Tx, in *DeletePrivateKeys) (*PrivateKeyIDs, error) {
	for _, text := range in.PrivateKeyIDs {
		k, err := activity.Find(tx.PrivateKey, "private key", text)
		if err != nil {
			return nil, err
		}
		if !k.Exported && !activity.IsOn(in.DeleteWithoutExport) {
			return nil, NotExported()
		}
		tx.DeletePrivateKey(k, MatchesOf(k))
		tx.FreeName(org.NamePrivateKey, k.Name)
		dropKey(tx, k.ID, 0)
	}
	return &PrivateKeyIDs{in.PrivateKeyIDs}, activity.PrivateKeys.Add(tx, -len(in.PrivateKeyIDs))
}

// askEach completes a policy request about several objects, each as if the request were about it alone: a policy about one
// of them applies whatever the others are.
func askEach(q *policy.Request, ids []string, facts func(id string) (policy.Facts, error)) error {
	each := make([]policy.Facts, len(ids))
	for i, id := range ids {
		var err error
		if each[i], err = facts(id); err != nil {
			return err
		}
	}
	if len(each) == 1 && q.Facts == nil {
		q.Facts = each[0]
	} else {
		q.Payloads = each
	}
	return nil
}

// privateKeyFacts is the root private_key, if the key exists.
func privateKeyFacts(tx *org.Tx, text string) (policy.Facts, error) {
	return factsOf(tx.PrivateKey, text, "private_key", privateKeyValue)
}

// factsOf is the root of an object that an intent names by a UUID, if it exists.
func factsOf[T any](find func(org.ID) (*T, error), text, root string, value func(*T) policy.Value) (policy.Facts, error) {
	id, _ := org.ParseID(text) // its rule requires a UUID
	r, err := find(id)
	if r == nil || err != nil {
		return nil, err
	}
	return policy.Facts{root: value(r)}, nil
}

// privateKeyValue is the root private_key.
func privateKeyValue(k *org.PrivateKey) policy.Value {
	tags := activity.MapList(k.Tags, func(t *org.ID) policy.Value { return policy.String(t.String()) })
	return policy.Struct(
		policy.Member{Name: "id", Value: policy.String(k.ID.String())},
		policy.Member{Name: "tags", Value: policy.List(tags...)},
		policy.Member{Name: "imported", Value: policy.Bool(k.Imported)},
		policy.Member{Name: "exported", Value: policy.Bool(k.Exported)},
		policy.Member{Name: "label", Value: policy.String(k.Name)})
}
