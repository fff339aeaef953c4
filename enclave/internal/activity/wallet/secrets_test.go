package wallet_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

const suite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"

// secretTargets asks for import targets and answers their public keys.
func secretTargets(w *world, n int) []string {
	w.TB.Helper()
	var keys []string
	for _, text := range activitytest.List(w.Run("INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": n}), "enclaveTargetMessages") {
		in := inner(w, text)
		if in["organizationId"] != w.ID.String() || in["userId"] != "" {
			w.TB.Errorf("%v", in)
		}
		keys = append(keys, in["targetPublic"])
	}
	if len(keys) != n {
		w.TB.Fatalf("%d targets", len(keys))
	}
	return keys
}

// secretIn is a secret as a client imports it, with pairs of key and value.
func secretIn(w *world, target, plain, name string, properties ...string) object {
	in := object{"secretPayload": w.SealTo(target, plain), "targetPublicKey": target, "encryptionSuite": suite}
	if name != "" {
		in["name"] = name
	}
	var ps []any
	for i := 0; i+1 < len(properties); i += 2 {
		ps = append(ps, object{"key": properties[i], "value": properties[i+1]})
	}
	if ps != nil {
		in["staticProperties"] = ps
	}
	return in
}

func batch(secrets ...object) object { return object{"secrets": secrets} }

// importSecret imports one through a target of its own and answers its id.
func importSecret(w *world, plain, name string, properties ...string) string {
	w.TB.Helper()
	return activitytest.List(w.Run("IMPORT_SECRETS", batch(secretIn(w, secretTargets(w, 1)[0], plain, name, properties...))), "secretIds")[0]
}

func secretOut(id string, to receiver) object {
	return object{"secretId": id, "targetPublicKey": to.public(), "encryptionSuite": suite}
}

func liveTargets(w *world) int {
	w.TB.Helper()
	gs, err := w.Tx().Targets(org.ID{})
	w.Must(err)
	return len(gs)
}

func secretsOf(w *world) (ss []*org.Secret) {
	w.TB.Helper()
	w.Must(w.Tx().EachSecret(org.ID{}, func(s *org.Secret) bool { ss = append(ss, s); return true }))
	return ss
}

func TestSecretsComeAndGo(t *testing.T) {
	w := activitytest.New(t)
	targets := secretTargets(w, 3)
	plain := []string{"s3cret ✓", string([]byte{0, 0xff, '"', '\n'}), strings.Repeat("x", secret.MaxSize)}
	ids := activitytest.List(w.Run("IMPORT_SECRETS", batch(
		secretIn(w, targets[2], plain[0], "Database", "env", "prod", "team", ""),
		secretIn(w, targets[0], plain[1], ""),
		secretIn(w, targets[1], plain[2], ""))), "secretIds")
	kept := secretsOf(w)
	if len(kept) != 3 || kept[0].Name != "Database" || kept[0].CreatedMs != w.Now || kept[0].Exported ||
		!slices.Equal(kept[0].Properties, []org.Property{{Key: "env", Value: "prod"}, {Key: "team"}}) || w.Organization().Secrets != 3 || liveTargets(w) != 0 {
		t.Fatalf("%+v", kept)
	}
	for i, id := range ids {
		if kept[i].ID.String() != id {
			t.Error("a list in another order than they came")
		}
		sealed, err := w.Tx().SealedSecret(kept[i].ID)
		w.Must(err)
		if bytes.Contains(sealed, []byte(plain[i][:4])) {
			t.Error("a secret in clear")
		}
		if _, err := w.Vault.Open(kept[(i+1)%3].ID, sealed); err == nil {
			t.Error("a secret opens under another's id")
		}
	}
	// Each to whom it is for, one of them to two, in the order of the request.
	a, b := newReceiver(w), newReceiver(w)
	out := activitytest.List(w.Run("EXPORT_SECRETS", batch(secretOut(ids[2], a), activitytest.With(secretOut(ids[0], b), "requestContext", []any{object{"key": "ticket", "value": "7"}, object{}}), secretOut(ids[1], a), secretOut(ids[0], a))), "secretPayloads")
	for i, want := range []struct {
		to    receiver
		plain string
	}{{a, plain[2]}, {b, plain[0]}, {a, plain[1]}, {a, plain[0]}} {
		if got := exportedTo(w, want.to, out[i]); got != want.plain {
			t.Errorf("%d: %d bytes", i, len(got))
		}
	}
	if again := w.Run("EXPORT_SECRETS", batch(secretOut(ids[0], a))); activitytest.List(again, "secretPayloads")[0] == out[3] {
		t.Error("one ciphertext twice")
	}
	for _, s := range secretsOf(w) {
		if !s.Exported {
			t.Error("not marked as exported")
		}
	}
}

// fieldsOf are the fields that a refusal names.
func fieldsOf(err error) (fields string) {
	var e *fault.Error
	if errors.As(err, &e) {
		for _, v := range e.Violations {
			fields += " " + v.Field
		}
	}
	return fields
}

func TestSecretsRefused(t *testing.T) {
	w := activitytest.New(t)
	id := importSecret(w, "taken", "Taken")
	targets := secretTargets(w, 4)
	n := liveTargets(w)
	good := func() object { return secretIn(w, targets[0], "x", "") }
	with := func(name string, v any) object {
		return batch(good(), activitytest.With(secretIn(w, targets[1], "y", ""), name, v))
	}
	many := func(n int, each func(i int) object) object {
		var all []object
		for i := range n {
			all = append(all, each(i))
		}
		return batch(all...)
	}
	properties := func(n int) (ps []any) {
		for i := range n {
			ps = append(ps, object{"key": fmt.Sprint(i), "value": "v"})
		}
		return ps
	}
	widest := func(more string) []any { // 2048 bytes, and more
		ps := properties(4)
		for i := range ps {
			ps[i] = object{"key": fmt.Sprint(i) + strings.Repeat("k", 255), "value": strings.Repeat("v", 256-i/3)}
		}
		return append(ps, object{"key": "y", "value": more})
	}
	to := newReceiver(w)
	for name, c := range map[string]struct {
		typ    string
		params any
		says   string
	}{
		"no targets":          {"INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": 0}, "1 to 100 secrets"},
		"minus one":           {"INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": -1}, "1 to 100 secrets"},
		"101 targets":         {"INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": 101}, "1 to 100 secrets"},
		"no suite":            {"INIT_IMPORT_SECRETS", object{"numSecrets": 1}, "encryptionSuite"},
		"another suite":       {"INIT_IMPORT_SECRETS", object{"encryptionSuite": suite[:len(suite)-1] + "2", "numSecrets": 1}, "encryptionSuite"},
		"nothing":             {"IMPORT_SECRETS", object{}, "1 to 100 secrets"},
		"none":                {"IMPORT_SECRETS", batch(), "1 to 100 secrets"},
		"101":                 {"IMPORT_SECRETS", many(101, func(int) object { return good() }), "1 to 100 secrets"},
		"name taken":          {"IMPORT_SECRETS", with("name", "Taken"), "secret label must be unique"},
		"name twice":          {"IMPORT_SECRETS", batch(secretIn(w, targets[0], "x", "One"), secretIn(w, targets[1], "y", "One")), "secret label must be unique"},
		"bad name":            {"IMPORT_SECRETS", with("name", "a\nb"), "secrets.1.name"},
		"long name":           {"IMPORT_SECRETS", with("name", strings.Repeat("n", 256)), "secrets.1.name"},
		"no payload":          {"IMPORT_SECRETS", with("secretPayload", ""), "secrets.1.secretPayload"},
		"payload in clear":    {"IMPORT_SECRETS", with("secretPayload", "y"), "invalid bundle"},
		"too long":            {"IMPORT_SECRETS", with("secretPayload", w.SealTo(targets[1], strings.Repeat("y", secret.MaxSize+1))), "invalid bundle"},
		"empty":               {"IMPORT_SECRETS", with("secretPayload", w.SealTo(targets[1], "")), "invalid bundle"},
		"no key":              {"IMPORT_SECRETS", with("targetPublicKey", "00"), "invalid public key"},
		"one target twice":    {"IMPORT_SECRETS", with("targetPublicKey", strings.ToUpper(targets[0])), "a target is for one secret"},
		"nobody's target":     {"IMPORT_SECRETS", with("targetPublicKey", to.public()), "not an import target of this organization"},
		"suite of import":     {"IMPORT_SECRETS", with("encryptionSuite", "AES"), "encryptionSuite"},
		"21 properties":       {"IMPORT_SECRETS", with("staticProperties", properties(21)), "at most 20 elements"},
		"property twice":      {"IMPORT_SECRETS", with("staticProperties", []any{object{"key": "k", "value": "1"}, object{"key": "k", "value": "2"}}), "named twice"},
		"property, no key":    {"IMPORT_SECRETS", with("staticProperties", []any{object{"value": "1"}}), "staticProperties.0.key"},
		"long property key":   {"IMPORT_SECRETS", with("staticProperties", []any{object{"key": strings.Repeat("k", 257), "value": "1"}}), "256 bytes"},
		"long property value": {"IMPORT_SECRETS", with("staticProperties", []any{object{"key": "k", "value": strings.Repeat("k", 257)}}), "256 bytes"},
		"2049 bytes":          {"IMPORT_SECRETS", with("staticProperties", widest("x")), "at most 2048 bytes of keys and values together"},
		"null property":       {"IMPORT_SECRETS", with("staticProperties", []any{nil}), "staticProperties"},
		"unknown member":      {"IMPORT_SECRETS", with("userId", w.Root), "userId"},
		"no exports":          {"EXPORT_SECRETS", batch(), "1 to 100 secrets"},
		"101 exports":         {"EXPORT_SECRETS", many(101, func(int) object { return secretOut(id, to) }), "1 to 100 secrets"},
		"no id":               {"EXPORT_SECRETS", batch(secretOut(id, to), secretOut("x", to)), "must be a UUID"},
		"to nobody":           {"EXPORT_SECRETS", batch(secretOut(id, to), activitytest.With(secretOut(id, to), "targetPublicKey", "04")), "secrets.1.targetPublicKey"},
		"off the curve":       {"EXPORT_SECRETS", batch(activitytest.With(secretOut(id, to), "targetPublicKey", activitytest.NotP256)), "not a point of P-256"},
		"suite of export":     {"EXPORT_SECRETS", batch(activitytest.With(secretOut(id, to), "encryptionSuite", "")), "encryptionSuite"},
	} {
		_, err := w.Try(c.typ, c.params)
		if err == nil || !strings.Contains(err.Error()+fieldsOf(err), c.says) || activitytest.Code(err) != 3 && !strings.HasPrefix(err.Error(), "shape: ") {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if liveTargets(w) != n || len(secretsOf(w)) != 1 || w.Organization().Secrets != 1 || secretsOf(w)[0].Exported {
			t.Fatalf("%s: it had an effect", name)
		}
	}
	w.Refuse("EXPORT_SECRETS", batch(secretOut(id, to), secretOut(w.NewID().String(), to)), 5, "secret not found")
	w.Run("IMPORT_SECRETS", batch(good())) // and still the target is good
	w.Run("IMPORT_SECRETS", batch(activitytest.With(secretIn(w, targets[1], "y", ""), "staticProperties", widest(""))))
}

// A target opens one bundle of one organization, right or wrong, and not for ever.
func TestSecretTargets(t *testing.T) {
	w := activitytest.New(t)
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	const gone = "not an import target of this organization that is still good"
	target := secretTargets(w, 1)[0]
	sub.Refuse("IMPORT_SECRETS", batch(secretIn(sub, target, "x", "")), 3, gone)
	theirs := secretTargets(sub, 1)[0]
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, theirs, "x", "")), 3, gone)

	// Not of the other kinds, nor theirs with it.
	w.Refuse("IMPORT_WALLET", walletIn(w, "x", w.SealTo(target, words12)), 3, "not encrypted to an import target")
	w.Refuse("IMPORT_PRIVATE_KEY", keyIn(w, "x", "ED25519", w.SealTo(target, strings.Repeat("k", 32))), 3, "not encrypted to an import target")
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, targetFor(w, "WALLET"), "x", "")), 3, gone)

	// Another user of the organization may use it: it is bound to no one.
	mallory := activitytest.MustID(w.People("Somebody")[0])
	me := w.User
	w.User = mallory
	w.Run("IMPORT_SECRETS", batch(secretIn(w, target, "x", "")))
	w.User = me
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, target, "x", "")), 3, gone)

	// What does not open spends all that are named, and keeps nothing.
	three := secretTargets(w, 3)
	wrong := secretIn(w, three[1], "y", "Wrong")
	wrong["secretPayload"] = w.SealTo(three[2], "y")
	before := len(secretsOf(w))
	_, err := w.Try("IMPORT_SECRETS", batch(secretIn(w, three[0], "x", "Right"), wrong))
	if activitytest.Code(err) != 3 || !strings.Contains(err.Error(), "not encrypted to the import target named") {
		t.Error(err)
	}
	if liveTargets(w) != 1 || len(secretsOf(w)) != before || w.Organization().Secrets != uint32(before) {
		t.Errorf("%d targets, %d secrets", liveTargets(w), len(secretsOf(w)))
	}
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, three[0], "x", "Right")), 3, gone)
	w.Run("IMPORT_SECRETS", batch(secretIn(w, three[2], "x", "Right")))

	// Its time, to the millisecond, and its run of the enclave.
	early := secretTargets(w, 1)[0]
	w.Now += org.TargetMs
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, early, "x", "")), 3, gone)
	late := secretTargets(w, 1)[0]
	w.Now += org.TargetMs - 1
	w.Run("IMPORT_SECRETS", batch(secretIn(w, late, "x", "")))
	other := secretTargets(w, 1)[0]
	w.Boot = w.NewID()
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, other, "x", "")), 3, gone)

	// So many live; the oldest go first, and those of users are no part of it.
	own := targetFor(w, "WALLET")
	first := secretTargets(w, 100)
	for range org.MaxSecretTargets / 100 {
		w.Now++
		secretTargets(w, 100)
	}
	if liveTargets(w) != org.MaxSecretTargets {
		t.Errorf("%d targets", liveTargets(w))
	}
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, first[0], "x", "")), 3, gone)
	w.Run("IMPORT_WALLET", walletIn(w, "x", w.SealTo(own, words12)))
}

func TestSecretLimits(t *testing.T) {
	w := activitytest.New(t)
	set := func(n uint32) {
		w.Alter(func(tx *org.Tx) {
			o := *w.Organization()
			o.Secrets = n
			w.Must(tx.PutOrganization(&o))
		})
	}
	set(org.MaxSecrets - 1)
	two := secretTargets(w, 2)
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, two[0], "x", ""), secretIn(w, two[1], "y", "")), 8, "at most 10000 secrets")
	w.Run("IMPORT_SECRETS", batch(secretIn(w, two[0], "x", "")))
	w.Refuse("IMPORT_SECRETS", batch(secretIn(w, two[1], "y", "")), 8, "at most 10000 secrets")

	// What one entry could not hold is asked for in several.
	set(1)
	to := newReceiver(w)
	var all []object
	for range 9 {
		all = append(all, secretOut(importSecret(w, strings.Repeat("x", secret.MaxSize), ""), to))
	}
	w.Refuse("EXPORT_SECRETS", batch(all...), 3, "export them in several activities")
	w.Run("EXPORT_SECRETS", batch(all[:7]...))
}

// A grant is for the secrets that its decision was about, for one export.
func TestSecretGrant(t *testing.T) {
	w := activitytest.New(t)
	to := newReceiver(w)
	granted, other := importSecret(w, "one", ""), importSecret(w, "two", "")
	v := kinds.Live["ACTIVITY_TYPE_EXPORT_SECRETS"]
	run := func(grant *policy.Grant, ids ...string) error {
		var all []object
		for _, id := range ids {
			all = append(all, secretOut(id, to))
		}
		in, err := v.Decode(activitytest.JSON(batch(all...)))
		w.Must(err)
		tx := &activity.Tx{Tx: w.Tx(), Vault: activity.VaultOf(w.Vault), Rand: w.Rand, Keys: w.Keys, User: w.User, Activity: w.ID, Grant: grant, Bundles: w.Bundles}
		_, err = v.Run(tx, in)
		return err
	}
	key := policy.Key{Owner: activitytest.MustID(granted)}
	grant := w.Grant("EXPORT", w.ID, key)
	for name, err := range map[string]error{
		"no grant": run(nil, granted), "to import": run(w.Grant("IMPORT", w.ID, key), granted), "of another activity": run(w.Grant("EXPORT", w.User, key), granted),
		"for another": run(grant, other), "for one of two": run(grant, granted, other),
	} {
		if err == nil {
			t.Errorf("%s: exported", name)
		}
	}
	w.Must(run(grant, granted))
	if run(grant, granted) == nil {
		t.Error("a grant was spent twice")
	}
}

func TestWhatPoliciesReadOfSecrets(t *testing.T) {
	w := activitytest.New(t)
	prod, dev := importSecret(w, "x", "", "env", "prod"), importSecret(w, "y", "", "env", "dev")
	a, b := newReceiver(w), newReceiver(w)
	target := secretTargets(w, 2)
	coming := func(env string) object { return secretIn(w, target[0], "z", "", "env", env) }
	toA := "activity.params.target_public_key == '" + strings.ToUpper(a.public()) + "'"
	for _, c := range []struct {
		typ       string
		params    object
		condition string
		want      int
	}{
		{"EXPORT_SECRETS", batch(secretOut(prod, a)), "secret.static_properties['env'] == 'prod' && activity.resource == 'SECRET' && activity.action == 'EXPORT'", holds},
		{"EXPORT_SECRETS", batch(secretOut(dev, a)), "secret.static_properties['env'] == 'prod'", not},
		{"EXPORT_SECRETS", batch(secretOut(dev, a)), "secret.static_properties['team'] == 'prod'", fails},
		{"EXPORT_SECRETS", batch(secretOut(prod, a)), toA, holds},
		{"EXPORT_SECRETS", batch(secretOut(prod, b)), toA, not},
		{"EXPORT_SECRETS", batch(secretOut(prod, a)), "private_key.imported", fails},
		{"IMPORT_SECRETS", batch(coming("prod")), "secret.static_properties['env'] == 'prod' && activity.kind == 'IMPORT_SECRETS' && activity.action == 'IMPORT'", holds},
		{"IMPORT_SECRETS", batch(coming("dev")), "secret.static_properties['env'] == 'prod'", not},
		{"IMPORT_SECRETS", batch(coming("dev")), "activity.params.target_public_key == ''", fails},
		{"INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": 1}, "activity.resource == 'SECRET' && activity.action == 'IMPORT'", holds},
		{"INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": 1}, "secret.static_properties['env'] == 'prod'", fails},
		// Each of a batch, with its own receiver.
		{"EXPORT_SECRETS", batch(secretOut(prod, a), secretOut(prod, a)), "secret.static_properties['env'] == 'prod' && " + toA, holds},
		{"EXPORT_SECRETS", batch(secretOut(prod, a), secretOut(dev, a)), "secret.static_properties['env'] == 'prod'", not},
		{"EXPORT_SECRETS", batch(secretOut(prod, a), secretOut(prod, b)), toA, not},
		{"DELETE_SECRETS", object{"secretIds": []any{prod}}, "secret.static_properties['env'] == 'prod' && activity.resource == 'SECRET' && activity.action == 'DELETE'", holds},
		{"DELETE_SECRETS", object{"secretIds": []any{prod, dev}}, "secret.static_properties['env'] == 'prod'", not},
		{"IMPORT_SECRETS", batch(coming("prod"), secretIn(w, target[1], "z", "", "env", "dev")), "secret.static_properties['env'] == 'prod'", not},
	} {
		checkPolicy(w, c.typ, c.params, c.condition, c.want)
	}
}

// Deleted secrets are gone with their bytes, all or none, and their names are free.
func TestSecretsAreDeleted(t *testing.T) {
	w := activitytest.New(t)
	ids := []any{importSecret(w, "one", "One"), importSecret(w, "two", ""), importSecret(w, "three", "Three")}
	for name, c := range map[string]struct {
		ids  []any
		code fault.Code
		says string
	}{
		"none":            {[]any{}, 3, "secretIds"},
		"33":              {slices.Repeat([]any{ids[0]}, 33), 3, "secretIds"},
		"twice":           {[]any{ids[0], ids[1], ids[0]}, 3, "secretIds"},
		"in capitals":     {[]any{strings.ToUpper(ids[0].(string))}, 3, "secretIds.0"},
		"no id":           {[]any{ids[0], "x"}, 3, "secretIds.1"},
		"one of nobody's": {[]any{ids[0], w.NewID().String()}, 5, "secret not found"},
		"a user":          {[]any{w.Root}, 5, "secret not found"},
	} {
		_, err := w.Try("DELETE_SECRETS", object{"secretIds": c.ids})
		if err == nil || !strings.Contains(err.Error()+fieldsOf(err), c.says) || activitytest.Code(err) != c.code && !strings.HasPrefix(err.Error(), "shape: ") {
			t.Errorf("%s: %v", name, err)
		}
		if len(secretsOf(w)) != 3 || w.Organization().Secrets != 3 {
			t.Fatalf("%s: it had an effect", name)
		}
	}
	if got := activitytest.List(w.Run("DELETE_SECRETS", object{"secretIds": []any{ids[2], ids[0]}}), "secretIds"); !slices.Equal(got, []string{ids[2].(string), ids[0].(string)}) {
		t.Error(got)
	}
	left := secretsOf(w)
	if len(left) != 1 || left[0].ID.String() != ids[1] || w.Organization().Secrets != 1 {
		t.Errorf("%+v", left)
	}
	for i, want := range []bool{false, true, false} {
		sealed, err := w.Tx().SealedSecret(activitytest.MustID(ids[i].(string)))
		if (sealed != nil) != want || err != nil {
			t.Errorf("secret %d: its bytes are there is %t, %v", i, sealed != nil, err)
		}
	}
	w.Refuse("EXPORT_SECRETS", batch(secretOut(ids[0].(string), newReceiver(w))), 5, "secret not found")
	w.Refuse("DELETE_SECRETS", object{"secretIds": []any{ids[0]}}, 5, "secret not found")
	importSecret(w, "again", "One")
}

// A sub-organization with a secret that nobody has is not deleted by mistake, and takes its secrets with it.
func TestSecretsAreDeletedWithTheirOrganization(t *testing.T) {
	w := activitytest.New(t)
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	id := importSecret(sub, "x", "Only here")
	sub.Refuse("DELETE_SUB_ORGANIZATION", object{}, 3, "has not been exported")
	sub.Run("EXPORT_SECRETS", batch(secretOut(id, newReceiver(sub))))
	sub.Run("DELETE_SUB_ORGANIZATION", object{})
	sealed, err := sub.Tx().SealedSecret(activitytest.MustID(id))
	if len(secretsOf(sub)) != 0 || sealed != nil || err != nil {
		t.Errorf("%v is still there, %v", secretsOf(sub), err)
	}
}

// FuzzSecrets: whatever comes in goes out the same, and a refusal keeps nothing.
func FuzzSecrets(f *testing.F) {
	f.Add("s3cret ✓", "env", "prod", "Name")
	f.Add("\x00", "", "", "")
	f.Fuzz(func(t *testing.T, plain, key, value, name string) {
		if plain == "" || len(plain) > secret.MaxSize || !utf8.ValidString(key) || !utf8.ValidString(value) || !utf8.ValidString(name) {
			return // a body is JSON, which has no other text than UTF-8: the plain text alone does not stand in it
		}
		w := activitytest.New(t)
		r, err := w.Try("IMPORT_SECRETS", batch(secretIn(w, secretTargets(w, 1)[0], plain, name, key, value)))
		if err != nil {
			if len(secretsOf(w)) != 0 || w.Organization().Secrets != 0 {
				t.Fatal(err)
			}
			return
		}
		to, s := newReceiver(w), secretsOf(w)[0]
		if s.Name != name || len(s.Properties) != 1 || s.Properties[0] != (org.Property{Key: key, Value: value}) {
			t.Fatalf("%+v", s)
		}
		out := activitytest.List(w.Run("EXPORT_SECRETS", batch(secretOut(r["secretIds"].([]any)[0].(string), to))), "secretPayloads")
		if got := exportedTo(w, to, out[0]); got != plain {
			t.Fatalf("%s became %s", hex.EncodeToString([]byte(plain)), hex.EncodeToString([]byte(got)))
		}
	})
}
