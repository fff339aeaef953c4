package activity_test

import (
	"testing"

	"cloister/enclave/internal/activity"
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
		{subOrganization("Sub", 2, good(), rootUser("B", apiKey("b", w.freshKey()))), 12, "UNIMPLEMENTED: root quorum above one"},
		{subOrganization("Sub", 1), 3, "missing field `rootUsers`"},
		{subOrganization("Sub", "x", good()), 3, "rootQuorumThreshold"},
		{subOrganization(" Sub", 1, good()), 3, "subOrganizationName"},
		{subOrganization("Sub", 1, good(), good()), 3, "user label must be unique"},
		{subOrganization("Sub", 1, good(), rootUser("B", apiKey("a", someKey))), 3, "must be unique"},
		{subOrganization("Sub", 1, rootUser("B")), 3, "at least one credential"},
		{withUser("userTags", []any{}), 3, "unknown field"},
		{withUser("userEmail", ""), 3, "invalid email address"},
		{withUser("authenticators", []any{sample("AuthenticatorParamsV2")}), 12, "authenticators"},
		{withUser("oauthProviders", []any{object{"providerName": "p", "oidcClaims": object{"iss": "i", "sub": "s", "aud": "a"}}}), 12, "oauthProviders"},
		{with("wallet", object{}), 3, "missing wallet params"},
		{with("wallet", wallet("w", account("ED25519", "m/0", "ETHEREUM"))), 3, "invalid curve"},
		{with("verificationToken", "x"), 12, "verificationToken"},
		{with("clientSignature", sample("ClientSignature")), 12, "clientSignature"},
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
	w.refused("CREATE_SUB_ORGANIZATION", object{"name": "One", "rootAuthenticator": sample("AuthenticatorParamsV2")}, 12, "authenticators")
	r := w.run("CREATE_SUB_ORGANIZATION_V3", subOrganization("Three", 1, old()))
	if keys := r["privateKeys"].([]any); len(keys) != 0 {
		t.Error(keys)
	}
	v3["privateKeys"].([]any)[0].(object)["curve"] = "CURVE_P256"
	w.refused("CREATE_SUB_ORGANIZATION_V3", v3, 3, "invalid curve")
}

func TestStepsMayNotSpanOrganizations(t *testing.T) {
	w := newWorld(t)
	v, err := activity.Lookup("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8")
	w.must(err)
	in, err := v.Decode(text(subOrganization("Sub", 1, rootUser("A", apiKey("a", someKey)))))
	w.must(err)
	if _, err := v.Run(&activity.Tx{Tx: w.tx(), Rand: w.rand}, in); code(err) != fault.InvalidArgument {
		t.Error(err)
	}
}
