package activity_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func subOrganization(name string, threshold any, users ...object) object {
	return object{"subOrganizationName": name, "rootUsers": users, "rootQuorumThreshold": threshold}
}

func TestCreateSubOrganization(t *testing.T) {
	w := newWorld(t)
	key := w.freshKey()
	alice := rootUser("Alice", apiKey("a", key))
	in := subOrganization("Sub", 1, alice, rootUser("Bob", apiKey("b", w.freshKey())))
	in["wallet"] = wallet("Wallet", ethAccount(0), ethAccount(1))
	in["disableEmailRecovery"], in["disableSmsAuth"], in["disableEmailAuth"] = true, true, false
	r := w.run("CREATE_SUB_ORGANIZATION_V8", in)
	sub := w.sub(r["subOrganizationId"])
	o, err := sub.tx().Organization()
	w.must(err)
	if o.ID != sub.id || o.Name != "Sub" || o.Parent != w.id || len(o.RootUsers) != 2 || o.Threshold != 1 || o.Users != 2 || o.Wallets != 1 || o.CreatedMs != start {
		t.Errorf("%+v", o)
	}
	for name, want := range map[string]bool{
		"FEATURE_NAME_EMAIL_AUTH": true, "FEATURE_NAME_OTP_EMAIL_AUTH": true, "FEATURE_NAME_SMS_AUTH": false,
		"FEATURE_NAME_EMAIL_RECOVERY": false, "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY": false,
	} {
		if _, got := o.Features[name]; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if ids := list(r, "rootUserIds"); len(ids) != 2 || ids[0] != o.RootUsers[0].String() || ids[1] != o.RootUsers[1].String() {
		t.Error(r)
	}
	made := r["wallet"].(object)
	if len(list(made, "addresses")) != 2 || len(w.last.Claims) != 2 || w.last.Claims[0].Address.Organization != sub.id {
		t.Errorf("%v %+v", made, w.last.Claims)
	}
	parent, _ := w.tx().Organization()
	child, _ := w.tx().Child(sub.id)
	if parent.Children != 1 || parent.Wallets != 0 || parent.Users != 1 || child == nil || child.Name != "Sub" || child.CreatedMs != start {
		t.Errorf("%+v %+v", parent, child)
	}
	ids, err := w.tx().ChildrenBy(org.ChildCredential, "API_KEY_CURVE_SECP256K1:"+key, nil, 10)
	w.must(err)
	if len(ids) != 1 || ids[0] != sub.id {
		t.Errorf("%v", ids)
	}
	if c, _ := w.tx().Credential("API_KEY_CURVE_SECP256K1", key); c != nil {
		t.Error("the sub-organization's key stamps in the parent")
	}
	if u, _ := w.tx().User(o.RootUsers[0]); u != nil {
		t.Error("the sub-organization's user is one of the parent")
	}
	// The new organization works by itself; the same key may be in several.
	sign(sub, list(made, "addresses")[0], "00")
	w.refused("SIGN_RAW_PAYLOAD_V2", signing(list(made, "addresses")[0], "00"), 5, "not found")
	w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, alice))
	sub.refused("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub sub", 1, rootUser("C", apiKey("c", w.freshKey()))), 3, "cannot have sub-organizations")
	_, err = sub.try("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub sub", 1, rootUser("C", apiKey("c", w.freshKey()))))
	if e := fault.Of(err); e.Name != "INVALID_ACTIVITY_CALLER" {
		t.Errorf("%+v", e)
	}
}

func TestContactIsALoginMeansInASubOrganization(t *testing.T) {
	w := newWorld(t)
	u := rootUser("Mail")
	u["userEmail"] = "mail@example.org"
	v := rootUser("Phone", apiKey("p", someKey))
	v["userPhoneNumber"] = "+15551234567"
	sub := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, u, v))["subOrganizationId"])
	phone, _ := sub.tx().User(mustOrganization(sub).RootUsers[1])
	sub.run("DELETE_API_KEYS", object{"userId": phone.ID.String(), "apiKeyIds": []any{phone.APIKeys[0].ID.String()}})
	// Without contact the last key stays.
	sub = w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, rootUser("Key", apiKey("k", someKey))))["subOrganizationId"])
	k, _ := sub.tx().User(sub.user)
	sub.refused("DELETE_API_KEYS", object{"userId": sub.root, "apiKeyIds": []any{k.APIKeys[0].ID.String()}}, 3, "last credential")
}

func mustOrganization(w *world) *org.Organization {
	o, err := w.tx().Organization()
	w.must(err)
	return o
}

func TestCreateSubOrganizationRefuses(t *testing.T) {
	w := newWorld(t)
	good := func() object { return rootUser("A", apiKey("a", someKey)) }
	with := func(k string, v any) object {
		in := subOrganization("Sub", 1, good())
		in[k] = v
		return in
	}
	withUser := func(k string, v any) object {
		u := good()
		u[k] = v
		return subOrganization("Sub", 1, u)
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{subOrganization("Sub", 0, good()), 3, "quorum threshold must be non-zero integer"},
		{subOrganization("Sub", -1, good()), 3, "quorum threshold must be non-zero integer"},
		{subOrganization("Sub", 2, good()), 3, "threshold exceeds quorum size"},
		{subOrganization("Sub", 3, good(), rootUser("B", apiKey("b", w.freshKey()))), 3, "threshold exceeds quorum size"},
		{subOrganization("Sub", 1), 3, "missing field `rootUsers`"},
		{subOrganization("Sub", "x", good()), 3, "rootQuorumThreshold"},
		{subOrganization(" Sub", 1, good()), 3, "subOrganizationName"},
		{subOrganization("Sub", 1, good(), good()), 3, "user label must be unique"},
		{subOrganization("Sub", 1, good(), rootUser("B", apiKey("a", someKey))), 3, "must be unique"},
		{subOrganization("Sub", 1, rootUser("B")), 3, "at least one credential"},
		{withUser("userTags", []any{}), 3, "unknown field"},
		{withUser("userEmail", ""), 3, "invalid email address"},
		{withUser("authenticators", []any{sample("AuthenticatorParamsV2")}), 3, "invalid attestation"},
		{withUser("oauthProviders", []any{object{"providerName": "p", "oidcClaims": object{"iss": "i", "sub": "s", "aud": "a"}}}), 3, "oidcClaims must share iss and sub"},
		{withUser("oauthProviders", []any{object{"providerName": "p", "oidcToken": "t"}}), 3, "not a signed token"},
		{with("wallet", object{}), 3, "missing wallet params"},
		{with("wallet", wallet("w", account("ED25519", "m/0", "ETHEREUM"))), 3, "invalid curve"},
		{with("verificationToken", "x"), 3, "must be given with a verification token"},
		{with("clientSignature", object{"publicKey": someP256, "scheme": "CLIENT_SIGNATURE_SCHEME_API_P256", "message": "m", "signature": "00"}), 3, "there is none"},
		{with("privateKeys", []any{}), 3, "unknown field"},
		{with("wallet", object{"walletName": "w", "accounts": []any{}, "mnemonicLength": 7}), 3, "mnemonic length"},
	} {
		w.refused("CREATE_SUB_ORGANIZATION_V8", c.params, c.code, c.says)
		if len(w.subs) != 0 {
			t.Fatal("a refused organization is there")
		}
	}
	_, err := w.try("CREATE_SUB_ORGANIZATION_V8", with("wallet", object{"walletName": "w", "accounts": []any{account("SECP256K1", "x", "ETHEREUM")}}))
	if e := fault.Of(err); len(e.Violations) != 1 || e.Violations[0].Field != "wallet.accounts.0.path" {
		t.Errorf("%+v", e)
	}
}

func TestOlderSubOrganizations(t *testing.T) {
	w := newWorld(t)
	old := func() object {
		return object{"userName": "A", "apiKeys": []any{object{"apiKeyName": "k", "publicKey": somePublic(w)}}, "authenticators": []any{}}
	}
	v2 := subOrganization("Two", 1, old())
	v3 := subOrganization("Three", 1, old())
	v3["privateKeys"] = []any{object{"privateKeyName": "p", "curve": "CURVE_SECP256K1", "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}, "privateKeyTags": []any{}}}
	v4 := subOrganization("Four", 1, old())
	v4["wallet"], v4["disableEmailAuth"] = wallet("w", ethAccount(0)), true
	v5 := subOrganization("Five", 1, old())
	u6 := rootUser("A", apiKey("k", w.freshKey()))
	v6 := subOrganization("Six", 1, u6)
	v6["disableEmailRecovery"] = true
	u7 := rootUser("A", apiKey("k", w.freshKey()))
	u7["userPhoneNumber"] = "+15551234567"
	v7 := subOrganization("Seven", 1, u7)
	v7["wallet"], v7["disableOtpEmailAuth"] = wallet("w"), true
	for version, in := range map[string]object{"V2": v2, "V3": v3, "V4": v4, "V5": v5, "V6": v6, "V7": v7} {
		r := w.run("CREATE_SUB_ORGANIZATION_"+version, in)
		sub := w.sub(r["subOrganizationId"])
		o := mustOrganization(sub)
		if o.Name != in["subOrganizationName"] || o.Users != 1 {
			t.Errorf("%s: %+v", version, o)
		}
		_, walletAsked := in["wallet"]
		if _, ok := r["wallet"]; ok != walletAsked || (o.Wallets == 1) != walletAsked {
			t.Errorf("%s: %v", version, r)
		}
		for member, feature := range map[string]string{"disableEmailAuth": "EMAIL_AUTH", "disableEmailRecovery": "EMAIL_RECOVERY", "disableOtpEmailAuth": "OTP_EMAIL_AUTH"} {
			if _, on := o.Features["FEATURE_NAME_"+feature]; on == (in[member] == true) {
				t.Errorf("%s: %s is %v", version, feature, on)
			}
		}
		u, _ := sub.tx().User(sub.user)
		if version == "V7" && u.Phone == "" {
			t.Error("the phone number is lost")
		}
	}
	w.refused("CREATE_SUB_ORGANIZATION", object{"name": "One", "rootAuthenticator": sample("AuthenticatorParamsV2")}, 3, "invalid attestation")
	one := w.sub(w.run("CREATE_SUB_ORGANIZATION", object{"name": "One", "rootAuthenticator": passkeyOf(w, "key")})["subOrganizationId"])
	if u, _ := one.tx().User(one.user); u.Name != "Root user" || len(u.Authenticators) != 1 || u.Authenticators[0].Name != "key" || mustOrganization(one).Threshold != 1 {
		t.Errorf("%+v", u)
	}
	r := w.run("CREATE_SUB_ORGANIZATION_V3", subOrganization("Three", 1, old()))
	if keys := r["privateKeys"].([]any); len(keys) != 0 {
		t.Error(keys)
	}
	v3["privateKeys"].([]any)[0].(object)["curve"] = "CURVE_P256"
	w.refused("CREATE_SUB_ORGANIZATION_V3", v3, 3, "invalid curve")
}

func TestStepsMayNotSpanOrganizations(t *testing.T) {
	w := newWorld(t)
	v, err := kinds.Live.Lookup("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8")
	w.must(err)
	in, err := v.Decode(text(subOrganization("Sub", 1, rootUser("A", apiKey("a", someKey)))))
	w.must(err)
	if _, err := v.Run(&activity.Tx{Tx: w.tx(), Rand: w.rand}, in); code(err) != fault.InvalidArgument {
		t.Error(err)
	}
}

func TestPasskeysOfASubOrganization(t *testing.T) {
	w := newWorld(t)
	p := passkeyOf(w, "key")
	u := rootUser("A")
	u["authenticators"] = []any{p}
	sub := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, u))["subOrganizationId"])
	rec, _ := sub.tx().User(sub.user)
	ids, err := w.tx().ChildrenBy(org.ChildCredential, org.PasskeyCurve+":"+hex.EncodeToString(rec.Authenticators[0].CredentialID), nil, 10)
	w.must(err)
	if len(ids) != 1 || ids[0] != sub.id {
		t.Errorf("%v", ids)
	}
	// Where passkeys may be made is the parent's word.
	w.run("SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://elsewhere.example"))
	u["authenticators"] = []any{passkeyOf(w, "key")}
	w.refused("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, u), 3, "invalid attestation")
	w.run("SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://elsewhere.example,https://example.org"))
	w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, u))
}

func TestQuorumOfASubOrganization(t *testing.T) {
	w := newWorld(t)
	r := w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 2, rootUser("A", apiKey("a", w.freshKey())), rootUser("B", apiKey("b", w.freshKey())), rootUser("C", apiKey("c", w.freshKey()))))
	if o := mustOrganization(w.sub(r["subOrganizationId"])); o.Threshold != 2 || len(o.RootUsers) != 3 {
		t.Errorf("%+v", o)
	}
}

// family is a sub-organization with a wallet, a private key and two users.
func (w *world) family() (sub *world, key string) {
	key = w.freshKey()
	u := rootUser("A", apiKey("a", key))
	u["userEmail"] = "a@example.org"
	in := subOrganization("Sub", 1, u, rootUser("B", apiKey("b", w.freshKey())))
	in["wallet"] = wallet("Wallet", ethAccount(0))
	sub = w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", in)["subOrganizationId"])
	sub.run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{privateKey("k", "SECP256K1", "ETHEREUM")}})
	return sub, key
}

// export marks every secret as exported.
func (w *world) export() {
	tx := w.tx()
	w.must(tx.EachWallet(func(rec *org.Wallet) bool {
		c := *rec
		c.Exported = true
		w.must(tx.PutWallet(&c))
		return true
	}))
	w.must(tx.EachPrivateKey(func(rec *org.PrivateKey) bool {
		c := *rec
		c.Exported = true
		w.must(tx.PutPrivateKey(&c, nil))
		return true
	}))
	w.keep(tx)
}

// keep applies a change as the ledger does.
func (w *world) keep(tx *org.Tx) {
	ws, err := tx.Writes()
	w.must(err)
	w.state.Apply(ws)
}

func secrets(w *world) (n int) {
	w.must(w.tx().EachWallet(func(*org.Wallet) bool { n++; return true }))
	w.must(w.tx().EachPrivateKey(func(*org.PrivateKey) bool { n++; return true }))
	return n
}

func TestDeleteSubOrganization(t *testing.T) {
	w := newWorld(t)
	sub, key := w.family()
	other, _ := w.family()
	for _, without := range []any{nil, false} {
		sub.refused("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": without}, 3, "wallet account has not been exported")
	}
	_, err := sub.try("DELETE_SUB_ORGANIZATION", object{})
	if e := fault.Of(err); e.Name != "WALLET_ACCOUNT_NOT_EXPORTED" {
		t.Errorf("%+v", e)
	}
	plain := mustID(sub.people("Nobody")[0])
	root := sub.user
	sub.user = plain
	sub.refused("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}, 3, "only a root user")
	_, err = sub.try("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true})
	if e := fault.Of(err); e.Name != "INVALID_ACTIVITY_CALLER" {
		t.Errorf("%+v", e)
	}
	sub.user = root
	w.refused("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}, 3, "only a sub-organization")

	if r := sub.run("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}); r["subOrganizationUuid"] != sub.id.String() {
		t.Error(r)
	}
	if o := mustOrganization(sub); !o.Deleted || o.Wallets != 0 || o.PrivateKeys != 0 || secrets(sub) != 0 {
		t.Errorf("%+v", o)
	}
	if c, _ := w.tx().Child(sub.id); c != nil || mustOrganization(w).Children != 1 {
		t.Error("the parent still knows it")
	}
	if ids, _ := w.tx().Children(nil, 10); len(ids) != 1 || ids[0] != other.id {
		t.Errorf("%v", ids)
	}
	for what, value := range map[byte]string{org.ChildCredential: "API_KEY_CURVE_SECP256K1:" + key, org.ChildEmail: "a@example.org", org.ChildName: "Sub"} {
		ids, err := w.tx().ChildrenBy(what, value, nil, 10)
		w.must(err)
		for _, id := range ids {
			if id == sub.id {
				t.Errorf("found by %c %s", what, value)
			}
		}
	}
	// Exported secrets go without asking.
	other.export()
	other.run("DELETE_SUB_ORGANIZATION", object{})
	if !mustOrganization(other).Deleted || mustOrganization(w).Children != 0 {
		t.Error("not deleted")
	}
}

func TestChangesAboveNeedTheParent(t *testing.T) {
	w := newWorld(t)
	sub, _ := w.family()
	for typ, params := range map[string]object{"DELETE_SUB_ORGANIZATION": {"deleteWithoutExport": true}, "UPDATE_ORGANIZATION_NAME": {"organizationName": "X"}} {
		v, err := kinds.Live.Lookup(activity.OpOf("ACTIVITY_TYPE_"+typ), "ACTIVITY_TYPE_"+typ)
		w.must(err)
		in, err := v.Decode(text(params))
		w.must(err)
		if _, err := v.Run(&activity.Tx{Tx: sub.tx(), Rand: w.rand, Keys: w.keys, User: sub.user}, in); !errors.Is(err, activity.ErrNeedsParent) {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestDeleteOrganization(t *testing.T) {
	w := newWorld(t)
	here := object{"organizationId": w.id.String()}
	w.refused("DELETE_ORGANIZATION", object{"organizationId": w.newID().String()}, 3, "organization mismatch")
	w.refused("DELETE_ORGANIZATION", object{}, 3, "organizationId")
	sub, _ := w.family()
	w.refused("DELETE_ORGANIZATION", here, 3, "organization has sub-organizations: 1")
	sub.refused("DELETE_ORGANIZATION", object{"organizationId": sub.id.String()}, 3, "delete_sub_organization")
	sub.refused("DELETE_ORGANIZATION", here, 3, "organization mismatch")
	sub.run("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true})
	w.run("CREATE_WALLET", wallet("w"))
	w.refused("DELETE_ORGANIZATION", here, 3, "wallet account has not been exported")
	w.export()
	if r := w.run("DELETE_ORGANIZATION", here); r["organizationId"] != w.id.String() || !mustOrganization(w).Deleted || secrets(w) != 0 {
		t.Error(r)
	}
}

func TestCreateOrganization(t *testing.T) {
	w := newWorld(t)
	w.run("SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://elsewhere.example")) // concerns nobody else
	in := object{"organizationName": "Other", "rootEmail": "root@example.org", "rootAuthenticator": passkeyOf(w, "key")}
	top := w.sub(w.run("CREATE_ORGANIZATION_V2", in)["organizationId"])
	o := mustOrganization(top)
	u, _ := top.tx().User(top.user)
	if o.Name != "Other" || !o.Parent.Zero() || o.Threshold != 1 || len(o.RootUsers) != 1 || o.Users != 1 || len(o.Features) != 0 ||
		u.Name != "Root user" || u.Email != "root@example.org" || len(u.Authenticators) != 1 {
		t.Errorf("%+v %+v", o, u)
	}
	if c, _ := w.tx().Child(top.id); c != nil || mustOrganization(w).Children != 0 {
		t.Error("it is a child")
	}
	top.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, rootUser("A", apiKey("a", w.freshKey()))))

	p := passkeyOf(w, "key")
	att := p["attestation"].(object)
	v1 := object{"organizationName": "Old", "rootEmail": "root@example.org", "rootUserId": someID, "rootAuthenticator": object{
		"authenticatorName": "key", "userId": someID, "challenge": p["challenge"], "attestation": object{
			"id": att["credentialId"], "type": "public-key", "rawId": att["credentialId"], "clientExtensionResults": object{},
			"response": object{"clientDataJson": att["clientDataJson"], "attestationObject": att["attestationObject"]}}}}
	old := w.sub(w.run("CREATE_ORGANIZATION", v1)["organizationId"])
	if old.root != someID {
		t.Errorf("the root user is %s", old.root)
	}

	bad := func(k string, v any) object {
		c := without(in, k)
		c[k] = v
		return c
	}
	for _, c := range []struct {
		params object
		says   string
	}{
		{bad("organizationName", ""), "organizationName"},
		{bad("organizationName", "x\n"), "organizationName"},
		{bad("rootEmail", ""), "rootEmail"},
		{bad("rootEmail", "nobody"), "invalid email address"},
		{bad("rootUserId", "x"), "rootUserId"},
		{bad("rootUserId", "00000000-0000-0000-0000-000000000000"), "must not be all zeros"},
		{bad("rootAuthenticator", nil), "missing field `rootAuthenticator`"},
		{bad("rootAuthenticator", sample("AuthenticatorParamsV2")), "invalid attestation"},
	} {
		w.refused("CREATE_ORGANIZATION_V2", c.params, 3, c.says)
	}
	sub, _ := w.family()
	sub.refused("CREATE_ORGANIZATION_V2", in, 3, "a sub-organization cannot make organizations")
	if _, err := sub.try("CREATE_ORGANIZATION_V2", in); fault.Of(err).Name != "INVALID_ACTIVITY_CALLER" {
		t.Error(err)
	}
}

func TestUpdateOrganizationName(t *testing.T) {
	w := newWorld(t)
	sub, _ := w.family()
	w.now += 1000
	sub.now += 1000
	if r := w.run("UPDATE_ORGANIZATION_NAME", object{"organizationName": "Summit"}); r["organizationName"] != "Summit" || r["organizationId"] != w.id.String() {
		t.Error(r)
	}
	if o := mustOrganization(w); o.Name != "Summit" || o.UpdatedMs != start+1000 || o.CreatedMs != start {
		t.Errorf("%+v", o)
	}
	for range 2 { // the second changes nothing
		sub.run("UPDATE_ORGANIZATION_NAME", object{"organizationName": "Valley"})
		c, _ := w.tx().Child(sub.id)
		was, _ := w.tx().ChildrenBy(org.ChildName, "Sub", nil, 10)
		is, _ := w.tx().ChildrenBy(org.ChildName, "Valley", nil, 10)
		all, _ := w.tx().Children(nil, 10)
		if mustOrganization(sub).Name != "Valley" || c.Name != "Valley" || c.CreatedMs != start || len(was) != 0 || len(is) != 1 || is[0] != sub.id || len(all) != 1 {
			t.Errorf("%+v %v %v %v", c, was, is, all)
		}
	}
	for _, bad := range []any{"", " x", nil, strings.Repeat("x", 256)} {
		w.refused("UPDATE_ORGANIZATION_NAME", object{"organizationName": bad}, 3, "organizationName")
	}
}

// Only the root quorum decides about these.
func TestRootQuorumKinds(t *testing.T) {
	want := strings.Fields("UPDATE_ROOT_QUORUM SET_ORGANIZATION_FEATURE REMOVE_ORGANIZATION_FEATURE UPDATE_ORGANIZATION_NAME CREATE_ORGANIZATION UPDATE_ALLOWED_ORIGINS")
	for typ, v := range kinds.Live {
		if v.Kind.RootQuorum != slices.Contains(want, v.Kind.Name) {
			t.Errorf("%s: %v", typ, v.Kind.RootQuorum)
		}
	}
}
