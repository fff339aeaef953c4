package wallet

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// Secrets are the kinds about stored secrets: bytes that an organization stores and exports as its policies allow.
var Secrets = activity.Family{
	activity.Kind[InitImportSecrets, SecretTargets]{
		Name: "INIT_IMPORT_SECRETS", Resource: "SECRET", Action: "IMPORT", Run: initImportSecrets, Verify: verifyTargets,
	},
	activity.Kind[ImportSecrets, SecretIDs]{
		Name: "IMPORT_SECRETS", Resource: "SECRET", Action: "IMPORT", Run: importSecrets,
		Explain: func(_ *org.Tx, in *ImportSecrets, o *show.Object) error {
			in.explain(o)
			return nil
		},
		FillPolicyRequest: func(_ *org.Tx, in *ImportSecrets, q *policy.Request) error {
			q.Payloads = activity.MapList(in.Secrets, func(s *ImportSecret) policy.Facts { return secretFacts(s.properties()) })
			return nil
		},
	},
	activity.Kind[ExportSecrets, SecretPayloads]{
		Name: "EXPORT_SECRETS", Resource: "SECRET", Action: "EXPORT", Run: exportSecrets,
		Explain: func(tx *org.Tx, in *ExportSecrets, o *show.Object) error { return in.explain(tx, o) },
		// A secret that does not exist is refused before policies decide: the batch is as allowed as its least allowed secret.
		Examine:           func(tx *org.Tx, in *ExportSecrets) error { _, err := in.find(tx); return err },
		FillPolicyRequest: func(tx *org.Tx, in *ExportSecrets, q *policy.Request) error { return in.ask(tx, q) },
		Keys: func(_ *org.Tx, in *ExportSecrets) ([]policy.Key, error) {
			return activity.MapList(in.Secrets, func(s *ExportSecret) policy.Key { return ownerKeys(s.SecretID)[0] }), nil
		},
	},
	activity.Kind[DeleteSecrets, SecretIDs]{
		Name: "DELETE_SECRETS", Resource: "SECRET", Action: "DELETE", Run: deleteSecrets,
		Explain: func(tx *org.Tx, in *DeleteSecrets, o *show.Object) error { return in.explain(tx, o) },
		Examine: func(tx *org.Tx, in *DeleteSecrets) error { _, err := in.find(tx); return err }, // as for an export
		FillPolicyRequest: func(tx *org.Tx, in *DeleteSecrets, q *policy.Request) error {
			found, err := in.find(tx)
			q.Payloads = activity.MapList(found, func(s **org.Secret) policy.Facts { return secretFacts((*s).Properties) })
			return err
		},
	},
}

// Limits of secrets, per activity and per secret.
const (
	maxSecretBatch    = 100
	maxProperties     = 20
	maxPropertyText   = 256 // bytes of a name, and of a value
	maxExportedSealed = 512 << 10
)

// EncryptionSuite is the interface's name of the encryption of secrets in transit.
type EncryptionSuite string

// Valid reports whether e is the suite of the interface, which has only one.
func (e EncryptionSuite) Valid() bool {
	return e == "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"
}

func checkSecretBatch(field string, n int) error {
	if n < 1 || n > maxSecretBatch {
		return fault.Field(field, "must be 1 to %d secrets", maxSecretBatch)
	}
	return nil
}

// secretFacts is the root secret.
func secretFacts(properties []org.Property) policy.Facts {
	entries := activity.MapList(properties, func(p *org.Property) policy.Member {
		return policy.Member{Name: p.Key, Value: policy.String(p.Value)}
	})
	return policy.Facts{"secret": policy.Struct(policy.Member{Name: "static_properties", Value: policy.Map(entries...)})}
}

// InitImportSecrets requests import targets, to which secrets are encrypted.
type InitImportSecrets struct {
	EncryptionSuite EncryptionSuite `json:"encryptionSuite" rule:"required"`
	NumSecrets      int32           `json:"numSecrets" rule:"required"`
}

func (in *InitImportSecrets) Check() error { return checkSecretBatch("numSecrets", int(in.NumSecrets)) }

// SecretTargets is the result: signed import targets.
type SecretTargets struct {
	EnclaveTargetMessages []string `json:"enclaveTargetMessages"`
}

func initImportSecrets(tx *activity.Tx, in *InitImportSecrets) (*SecretTargets, error) {
	made, err := newTargets(tx, org.ID{}, org.TargetSecret, int(in.NumSecrets), org.MaxSecretTargets)
	return &SecretTargets{made}, err
}

// verifyTargets compares the recorded messages with the new targets: each contains the key of one, in their order.
func verifyTargets(tx *org.Tx, _ *InitImportSecrets, r *SecretTargets, _ []org.Send) error {
	left := r.EnclaveTargetMessages
	err := tx.EachChangedTarget(func(g *org.Target) error {
		public, err := bundle.ParsePublicKey("publicKey", g.PublicKey)
		if err != nil {
			return err
		}
		if len(left) == 0 || !bundle.SaysTarget(left[0], tx.ID.String(), "", public) {
			return errors.New("an import target whose key its message does not say")
		}
		left = left[1:]
		return nil
	})
	if err == nil && len(left) > 0 {
		err = errors.New("a message of no import target")
	}
	return err
}

// StaticProperty is a property of a secret that policies may read.
type StaticProperty struct {
	Key   *string `json:"key"`
	Value *string `json:"value"`
}

// ImportSecret is a secret to be imported.
type ImportSecret struct {
	Name             *string          `json:"name" rule:"omitempty,label,label_length"`
	SecretPayload    string           `json:"secretPayload" rule:"required"`
	TargetPublicKey  string           `json:"targetPublicKey" rule:"required"`
	EncryptionSuite  EncryptionSuite  `json:"encryptionSuite" rule:"required"`
	StaticProperties []StaticProperty `json:"staticProperties,omitempty"`

	sealed *bundle.Sealed
	target bundle.PublicKey
}

func (s *ImportSecret) properties() []org.Property {
	return activity.MapList(s.StaticProperties, func(p *StaticProperty) org.Property {
		return org.Property{Key: activity.TextOf(p.Key), Value: activity.TextOf(p.Value)}
	})
}

// ImportSecrets imports secrets, all or none.
type ImportSecrets struct {
	Secrets []ImportSecret `json:"secrets"`
}

func (in *ImportSecrets) Check() error {
	if err := checkSecretBatch("secrets", len(in.Secrets)); err != nil {
		return err
	}
	targets, names := map[string]bool{}, map[string]bool{}
	for i := range in.Secrets {
		s := &in.Secrets[i]
		field := func(name string) string { return activity.FieldAt("secrets", i, name) }
		var err error
		if s.sealed, err = bundle.ParseClient(field("secretPayload"), s.SecretPayload); err != nil {
			return err
		}
		if s.target, err = bundle.ParsePublicKey(field("targetPublicKey"), s.TargetPublicKey); err != nil {
			return err
		}
		target, name := s.target.String(), activity.TextOf(s.Name)
		switch {
		case targets[target]:
			return fault.Field(field("targetPublicKey"), "named twice: a target is for one secret")
		case name != "" && names[name]:
			return activity.NotUnique("secret", field("name"))
		}
		targets[target], names[name] = true, true
		if err := checkProperties(field("staticProperties"), s.properties()); err != nil {
			return err
		}
	}
	return nil
}

func checkProperties(field string, ps []org.Property) error {
	if len(ps) > maxProperties {
		return fault.Field(field, "must have at most %d elements", maxProperties)
	}
	size := 0
	for i, p := range ps {
		size += len(p.Key) + len(p.Value)
		switch {
		case p.Key == "":
			return fault.Field(activity.FieldAt(field, i, "key"), "missing field")
		case len(p.Key) > maxPropertyText || len(p.Value) > maxPropertyText:
			return fault.Field(fmt.Sprintf("%s.%d", field, i), "key and value must have at most %d bytes each", maxPropertyText)
		case slices.ContainsFunc(ps[:i], func(q org.Property) bool { return q.Key == p.Key }):
			return fault.Field(activity.FieldAt(field, i, "key"), "named twice")
		case size > org.MaxPropertiesText:
			return fault.Field(field, "must have at most %d bytes of keys and values together", org.MaxPropertiesText)
		}
	}
	return nil
}

// SecretIDs is the result of importing and of deleting: the ids, in the order of the request.
type SecretIDs struct {
	SecretIDs []string `json:"secretIds"`
}

// importSecrets first makes the checks that need no decryption, so that a name in use spends no target. Then it
// spends all targets, even if the rest fails: each key decrypts once.
func importSecrets(tx *activity.Tx, in *ImportSecrets) (*SecretIDs, error) {
	if err := activity.Secrets.Add(tx, len(in.Secrets)); err != nil {
		return nil, err
	}
	made, err := newSecrets(tx, in)
	if err != nil {
		return nil, err
	}
	targets, err := secretTargets(tx, in)
	if err != nil {
		return nil, err
	}
	tx.ChangeDespiteRefusal(func(t *org.Tx) {
		for _, g := range targets {
			t.DeleteTarget(g.User, g.ID)
		}
	})
	for i, s := range made {
		if err := keepSecret(tx, s.ID, targets[i], in.Secrets[i].sealed); errors.Is(err, bundle.ErrOpen) {
			return nil, fault.Field(activity.FieldAt("secrets", i, "secretPayload"), "bundle is not encrypted to the import target named")
		} else if err != nil {
			return nil, err
		}
	}
	return &SecretIDs{activity.MapList(made, func(s **org.Secret) string { return (*s).ID.String() })}, nil
}

// newSecrets stores the records of the secrets, under ascending ids, still without their values.
func newSecrets(tx *activity.Tx, in *ImportSecrets) ([]*org.Secret, error) {
	ids := make([]org.ID, len(in.Secrets))
	for i := range ids {
		var err error
		if ids[i], err = org.NewTimedID(tx.Rand, tx.NowMs); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(ids, func(a, b org.ID) int { return bytes.Compare(a[:], b[:]) })
	made := make([]*org.Secret, len(ids))
	for i, id := range ids {
		in := &in.Secrets[i]
		s := &org.Secret{ID: id, Name: activity.TextOf(in.Name), Properties: in.properties(), CreatedMs: tx.NowMs}
		if s.Name != "" {
			if err := activity.TakeName(tx, org.NameSecret, "secret", activity.FieldAt("secrets", i, "name"), s.Name, id); err != nil {
				return nil, err
			}
		}
		if err := tx.PutSecret(s); err != nil {
			return nil, err
		}
		made[i] = s
	}
	return made, nil
}

// secretTargets returns the import targets that the secrets name.
func secretTargets(tx *activity.Tx, in *ImportSecrets) ([]*org.Target, error) {
	gs, err := tx.Targets(org.ID{})
	if err != nil {
		return nil, err
	}
	live := make(map[string]*org.Target, len(gs))
	for _, g := range gs {
		if g.For == org.TargetSecret && g.Live(tx.Boot, tx.NowMs) {
			live[g.PublicKey] = g
		}
	}
	named := make([]*org.Target, len(in.Secrets))
	for i := range in.Secrets {
		if named[i] = live[in.Secrets[i].target.String()]; named[i] == nil {
			return nil, fault.Field(activity.FieldAt("secrets", i, "targetPublicKey"),
				"not an import target of this organization that is still good: one is good for one import within 24 hours and one run of the enclave; ask for a new one")
		}
	}
	return named, nil
}

// keepSecret decrypts a secret with its target's key and seals it under the secret's id.
func keepSecret(tx *activity.Tx, id org.ID, g *org.Target, in *bundle.Sealed) error {
	opened, err := openWith(tx, g, in)
	if err != nil {
		return err
	}
	defer opened.Wipe()
	sealed, err := tx.Vault.Seal(id, opened)
	if err != nil {
		return err
	}
	return tx.PutSealedSecret(id, sealed)
}

// ExportSecret names a secret and the receiver's public key.
type ExportSecret struct {
	SecretID        string          `json:"secretId" rule:"required,uuid"`
	TargetPublicKey string          `json:"targetPublicKey" rule:"required,hexadecimal"`
	EncryptionSuite EncryptionSuite `json:"encryptionSuite" rule:"required"`
	RequestContext  []KeyValue      `json:"requestContext,omitempty"` // notes of the client: signed and recorded with the request

	to bundle.PublicKey
}

// KeyValue is a note of the client.
type KeyValue struct {
	Key   *string `json:"key"`
	Value *string `json:"value"`
}

// ExportSecrets exports secrets, encrypted, all or none.
type ExportSecrets struct {
	Secrets []ExportSecret `json:"secrets"`
}

func (in *ExportSecrets) Check() error {
	if err := checkSecretBatch("secrets", len(in.Secrets)); err != nil {
		return err
	}
	for i := range in.Secrets {
		s := &in.Secrets[i]
		var err error
		if s.to, err = bundle.ParsePublicKey(activity.FieldAt("secrets", i, "targetPublicKey"), s.TargetPublicKey); err != nil {
			return err
		}
	}
	return nil
}

// find returns the named secrets.
func (in *ExportSecrets) find(tx *org.Tx) ([]*org.Secret, error) {
	found := make([]*org.Secret, len(in.Secrets))
	for i := range in.Secrets {
		var err error
		if found[i], err = activity.FindField(tx.Secret, "secret", activity.FieldAt("secrets", i, "secretId"), in.Secrets[i].SecretID); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (in *ExportSecrets) ask(tx *org.Tx, q *policy.Request) error {
	found, err := in.find(tx)
	if err != nil {
		return err
	}
	q.Payloads = make([]policy.Facts, len(found))
	for i, s := range found {
		q.Payloads[i] = secretFacts(s.Properties)
		q.Payloads[i]["activity.params"] = exportParams(in.Secrets[i].to)
	}
	return nil
}

// SecretPayloads is the result of exporting: one ciphertext per receiver, in the order of the request.
type SecretPayloads struct {
	SecretPayloads []string `json:"secretPayloads"`
}

func exportSecrets(tx *activity.Tx, in *ExportSecrets) (*SecretPayloads, error) {
	found, err := in.find(tx.Tx)
	if err != nil {
		return nil, err
	}
	all, size := make([]keys.Stored, len(found)), 0
	for i, s := range found {
		all[i].Owner = s.ID
		if all[i].Sealed, err = tx.SealedSecret(s.ID); err != nil {
			return nil, err
		}
		if size += len(all[i].Sealed); size > maxExportedSealed {
			return nil, fault.Field("secrets", "together have more than %d bytes: export them in several activities", maxExportedSealed)
		}
	}
	out := make([]string, len(all))
	err = tx.Holder().ExportSecrets(all, func(i int, s secret.Secret) (err error) {
		out[i], err = tx.Bundles.Export(tx.ID.String(), in.Secrets[i].to, s)
		return err
	})
	for i := 0; err == nil && i < len(found); i++ {
		if s := *found[i]; !s.Exported {
			s.Exported = true
			err = tx.PutSecret(&s)
		}
	}
	return &SecretPayloads{out}, err
}

// DeleteSecrets deletes secrets, all or none. Their ciphertexts and names go with them; activities about them stay.
type DeleteSecrets struct {
	SecretIDs []string `json:"secretIds" rule:"required,min=1,max=32,dive,uuid"`
}

func (in *DeleteSecrets) Check() error { return activity.CheckDistinct("secretIds", in.SecretIDs) }

// find returns the named secrets.
func (in *DeleteSecrets) find(tx *org.Tx) ([]*org.Secret, error) {
	found := make([]*org.Secret, len(in.SecretIDs))
	for i, id := range in.SecretIDs {
		var err error
		if found[i], err = activity.FindField(tx.Secret, "secret", fmt.Sprintf("secretIds.%d", i), id); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func deleteSecrets(tx *activity.Tx, in *DeleteSecrets) (*SecretIDs, error) {
	found, err := in.find(tx.Tx)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		tx.DeleteSecret(s.ID)
		if s.Name != "" {
			tx.FreeName(org.NameSecret, s.Name)
		}
	}
	return &SecretIDs{in.SecretIDs}, activity.Secrets.Add(tx, -len(found))
}
