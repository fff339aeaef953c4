package organization_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func TestCreateSubOrganization(t *testing.T) {
	w := activitytest.New(t)
	key := w.FreshKey()
	alice := activitytest.RootUser("Alice", activitytest.APIKey("a", key))
	in := activitytest.SubOrganization("Sub", 1, alice, activitytest.RootUser("Bob", activitytest.APIKey("b", w.FreshKey())))
	in["wallet"] = activitytest.Wallet("Wallet", activitytest.EthAccount(0), activitytest.EthAccount(1))
	in["disableEmailRecovery"], in["disableSmsAuth"], in["disableEmailAuth"] = true, true, false
	r := w.Run("CREATE_SUB_ORGANIZATION_V8", in)
	sub := w.Sub(r["subOrganizationId"])
	o, err := sub.Tx().Organization()
	w.Must(err)
	if o.ID != sub.ID || o.Name != "Sub" || o.Parent != w.ID || len(o.RootUsers) != 2 || o.Threshold != 1 || o.Users != 2 || o.Wallets != 1 || o.CreatedMs != activitytest.Start {
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
	if ids := activitytest.List(r, "rootUserIds"); len(ids) != 2 || ids[0] != o.RootUsers[0].String() || ids[1] != o.RootUsers[1].String() {
		t.Error(r)
	}
	made := r["wallet"].(object)
	if len(activitytest.List(made, "addresses")) != 2 || len(w.Last.Claims) != 2 || w.Last.Claims[0].Address.Organization != sub.ID {
		t.Errorf("%v %+v", made, w.Last.Claims)
	}
	parent, _ := w.Tx().Organization()
	child, _ := w.Tx().Child(sub.ID)
	if parent.Children != 1 || parent.Wallets != 0 || parent.Users != 1 || child == nil || child.Name != "Sub" || child.CreatedMs != activitytest.Start {
		t.Errorf("%+v %+v", parent, child)
	}
	ids, err := w.Tx().ChildrenBy(org.ChildVouched, "API_KEY_CURVE_SECP256K1:"+key, nil, 10)
	w.Must(err)
	if len(ids) != 1 || ids[0] != sub.ID {
		t.Errorf("%v", ids)
	}
	if c, _ := w.Tx().Credential("API_KEY_CURVE_SECP256K1", key); c != nil {
		t.Error("the sub-organization's key stamps in the parent")
	}
	if u, _ := w.Tx().User(o.RootUsers[0]); u != nil {
		t.Error("the sub-organization's user is one of the parent")
	}
	// The new organization works by itself; the same key may be in several.
	sub.Sign(activitytest.List(made, "addresses")[0], "00")
	w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(activitytest.List(made, "addresses")[0], "00"), 5, "not found")
	w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, alice))
	sub.Refuse("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub sub", 1, activitytest.RootUser("C", activitytest.APIKey("c", w.FreshKey()))), 3, "cannot have sub-organizations")
	_, err = sub.Try("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub sub", 1, activitytest.RootUser("C", activitytest.APIKey("c", w.FreshKey()))))
	if e := fault.Of(err); e.Name != "INVALID_ACTIVITY_CALLER" {
		t.Errorf("%+v", e)
	}
}

func TestContactIsALoginMeansInASubOrganization(t *testing.T) {
	w := activitytest.New(t)
	u := activitytest.RootUser("Mail")
	u["userEmail"] = "mail@example.org"
	v := activitytest.RootUser("Phone", activitytest.APIKey("p", activitytest.SomeKey))
	v["userPhoneNumber"] = "+15551234567"
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, u, v))["subOrganizationId"])
	phone, _ := sub.Tx().User(sub.Organization().RootUsers[1])
	sub.Run("DELETE_API_KEYS", object{"userId": phone.ID.String(), "apiKeyIds": []any{phone.APIKeys[0].ID.String()}})
	// Without contact the last key stays.
	sub = w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Key", activitytest.APIKey("k", activitytest.SomeKey))))["subOrganizationId"])
	k, _ := sub.Tx().User(sub.User)
	sub.Refuse("DELETE_API_KEYS", object{"userId": sub.Root, "apiKeyIds": []any{k.APIKeys[0].ID.String()}}, 3, "last credential")
}

func TestCreateSubOrganizationRefuses(t *testing.T) {
	w := activitytest.New(t)
	good := func() object { return activitytest.RootUser("A", activitytest.APIKey("a", activitytest.SomeKey)) }
	with := func(k string, v any) object {
		in := activitytest.SubOrganization("Sub", 1, good())
		in[k] = v
		return in
	}
	withUser := func(k string, v any) object {
		u := good()
		u[k] = v
		return activitytest.SubOrganization("Sub", 1, u)
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{activitytest.SubOrganization("Sub", 0, good()), 3, "quorum threshold must be non-zero integer"},
		{activitytest.SubOrganization("Sub", -1, good()), 3, "quorum threshold must be non-zero integer"},
		{activitytest.SubOrganization("Sub", 2, good()), 3, "threshold exceeds quorum size"},
		{activitytest.SubOrganization("Sub", 3, good(), activitytest.RootUser("B", activitytest.APIKey("b", w.FreshKey()))), 3, "threshold exceeds quorum size"},
		{activitytest.SubOrganization("Sub", 1), 3, "missing field `rootUsers`"},
		{activitytest.SubOrganization("Sub", "x", good()), 3, "rootQuorumThreshold"},
		{activitytest.SubOrganization(" Sub", 1, good()), 3, "subOrganizationName"},
		{activitytest.SubOrganization("Sub", 1, good(), good()), 3, "user label must be unique"},
		{activitytest.SubOrganization("Sub", 1, good(), activitytest.RootUser("B", activitytest.APIKey("a", activitytest.SomeKey))), 3, "must be unique"},
		{activitytest.SubOrganization("Sub", 1, activitytest.RootUser("B")), 3, "at least one credential"},
		{withUser("userTags", []any{}), 3, "unknown field"},
		{withUser("userEmail", ""), 3, "invalid email address"},
		{withUser("authenticators", []any{activitytest.Sample("AuthenticatorParamsV2")}), 3, "invalid attestation"},
		{withUser("oauthProviders", []any{object{"providerName": "p", "oidcClaims": object{"iss": "i", "sub": "s", "aud": "a"}}}), 3, "oidcClaims must share iss and sub"},
		{withUser("oauthProviders", []any{object{"providerName": "p", "oidcToken": "t"}}), 3, "not a signed token"},
		{with("wallet", object{}), 3, "missing wallet params"},
		{with("wallet", activitytest.Wallet("w", activitytest.Account("ED25519", "m/0", "ETHEREUM"))), 3, "invalid curve"},
		{with("verificationToken", "x"), 3, "must be given with a verification token"},
		{with("clientSignature", object{"publicKey": activitytest.SomeP256, "scheme": "CLIENT_SIGNATURE_SCHEME_API_P256", "message": "m", "signature": "00"}), 3, "there is none"},
		{with("privateKeys", []any{}), 3, "unknown field"},
		{with("wallet", object{"walletName": "w", "accounts": []any{}, "mnemonicLength": 7}), 3, "mnemonic length"},
	} {
		w.Refuse("CREATE_SUB_ORGANIZATION_V8", c.params, c.code, c.says)
		if len(w.Subs) != 0 {
			t.Fatal("a refused organization is there")
		}
	}
	_, err := w.Try("CREATE_SUB_ORGANIZATION_V8", with("wallet", object{"walletName": "w", "accounts": []any{activitytest.Account("SECP256K1", "x", "ETHEREUM")}}))
	if e := fault.Of(err); len(e.Violations) != 1 || e.Violations[0].Field != "wallet.accounts.0.path" {
		t.Errorf("%+v", e)
	}
}

func TestOlderSubOrganizations(t *testing.T) {
	w := activitytest.New(t)
	old := func() object {
		return object{"userName": "A", "apiKeys": []any{object{"apiKeyName": "k", "publicKey": w.FreshP256()}}, "authenticators": []any{}}
	}
	v2 := activitytest.SubOrganization("Two", 1, old())
	v3 := activitytest.SubOrganization("Three", 1, old())
	v3["privateKeys"] = []any{object{"privateKeyName": "p", "curve": "CURVE_SECP256K1", "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}, "privateKeyTags": []any{}}}
	v4 := activitytest.SubOrganization("Four", 1, old())
	v4["wallet"], v4["disableEmailAuth"] = activitytest.Wallet("w", activitytest.EthAccount(0)), true
	v5 := activitytest.SubOrganization("Five", 1, old())
	u6 := activitytest.RootUser("A", activitytest.APIKey("k", w.FreshKey()))
	v6 := activitytest.SubOrganization("Six", 1, u6)
	v6["disableEmailRecovery"] = true
	u7 := activitytest.RootUser("A", activitytest.APIKey("k", w.FreshKey()))
	u7["userPhoneNumber"] = "+15551234567"
	v7 := activitytest.SubOrganization("Seven", 1, u7)
	v7["wallet"], v7["disableOtpEmailAuth"] = activitytest.Wallet("w"), true
	for version, in := range map[string]object{"V2": v2, "V3": v3, "V4": v4, "V5": v5, "V6": v6, "V7": v7} {
		r := w.Run("CREATE_SUB_ORGANIZATION_"+version, in)
		sub := w.Sub(r["subOrganizationId"])
		o := sub.Organization()
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
		u, _ := sub.Tx().User(sub.User)
		if version == "V7" && u.Phone == "" {
			t.Error("the phone number is lost")
		}
	}
	w.Refuse("CREATE_SUB_ORGANIZATION", object{"name": "One", "rootAuthenticator": activitytest.Sample("AuthenticatorParamsV2")}, 3, "invalid attestation")
	one := w.Sub(w.Run("CREATE_SUB_ORGANIZATION", object{"name": "One", "rootAuthenticator": activitytest.PasskeyOf(w, "key")})["subOrganizationId"])
	if u, _ := one.Tx().User(one.User); u.Name != "Root user" || len(u.Authenticators) != 1 || u.Authenticators[0].Name != "key" || one.Organization().Threshold != 1 {
		t.Errorf("%+v", u)
	}
	r := w.Run("CREATE_SUB_ORGANIZATION_V3", activitytest.SubOrganization("Three", 1, old()))
	if keys := r["privateKeys"].([]any); len(keys) != 0 {
		t.Error(keys)
	}
	v3["privateKeys"].([]any)[0].(object)["curve"] = "CURVE_P256"
	w.Refuse("CREATE_SUB_ORGANIZATION_V3", v3, 3, "invalid curve")
}

func TestStepsMayNotSpanOrganizations(t *testing.T) {
	w := activitytest.New(t)
	v, err := kinds.Live.Lookup("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8")
	w.Must(err)
	in, err := v.Decode(activitytest.JSON(activitytest.SubOrganization("Sub", 1, activitytest.RootUser("A", activitytest.APIKey("a", activitytest.SomeKey)))))
	w.Must(err)
	if _, err := v.Run(&activity.Tx{Tx: w.Tx(), Rand: w.Rand}, in); activitytest.Code(err) != fault.InvalidArgument {
		t.Error(err)
	}
}

func TestPasskeysOfASubOrganization(t *testing.T) {
	w := activitytest.New(t)
	p := activitytest.PasskeyOf(w, "key")
	u := activitytest.RootUser("A")
	u["authenticators"] = []any{p}
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, u))["subOrganizationId"])
	rec, _ := sub.Tx().User(sub.User)
	ids, err := w.Tx().ChildrenBy(org.ChildVouched, org.PasskeyCurve+":"+hex.EncodeToString(rec.Authenticators[0].CredentialID), nil, 10)
	w.Must(err)
	if len(ids) != 1 || ids[0] != sub.ID {
		t.Errorf("%v", ids)
	}
	// Where passkeys may be made is the parent's word.
	w.Run("SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://elsewhere.example"))
	u["authenticators"] = []any{activitytest.PasskeyOf(w, "key")}
	w.Refuse("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, u), 3, "invalid attestation")
	w.Run("SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://elsewhere.example,https://example.org"))
	w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, u))
}

func TestQuorumOfASubOrganization(t *testing.T) {
	w := activitytest.New(t)
	r := w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 2, activitytest.RootUser("A", activitytest.APIKey("a", w.FreshKey())), activitytest.RootUser("B", activitytest.APIKey("b", w.FreshKey())), activitytest.RootUser("C", activitytest.APIKey("c", w.FreshKey()))))
	if o := w.Sub(r["subOrganizationId"]).Organization(); o.Threshold != 2 || len(o.RootUsers) != 3 {
		t.Errorf("%+v", o)
	}
}

func TestDeleteSubOrganization(t *testing.T) {
	w := activitytest.New(t)
	sub, key := w.Family()
	other, _ := w.Family()
	for _, without := range []any{nil, false} {
		sub.Refuse("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": without}, 3, "wallet account has not been exported")
	}
	_, err := sub.Try("DELETE_SUB_ORGANIZATION", object{})
	if e := fault.Of(err); e.Name != "WALLET_ACCOUNT_NOT_EXPORTED" {
		t.Errorf("%+v", e)
	}
	plain := activitytest.MustID(sub.People("Nobody")[0])
	root := sub.User
	sub.User = plain
	sub.Refuse("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}, 3, "only a root user")
	_, err = sub.Try("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true})
	if e := fault.Of(err); e.Name != "INVALID_ACTIVITY_CALLER" {
		t.Errorf("%+v", e)
	}
	sub.User = root
	w.Refuse("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}, 3, "only a sub-organization")

	if r := sub.Run("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}); r["subOrganizationUuid"] != sub.ID.String() {
		t.Error(r)
	}
	if o := sub.Organization(); !o.Deleted || o.Wallets != 0 || o.PrivateKeys != 0 || sub.Secrets() != 0 {
		t.Errorf("%+v", o)
	}
	if c, _ := w.Tx().Child(sub.ID); c != nil || w.Organization().Children != 1 {
		t.Error("the parent still knows it")
	}
	if ids, _ := w.Tx().Children(nil, 10); len(ids) != 1 || ids[0] != other.ID {
		t.Errorf("%v", ids)
	}
	for what, value := range map[byte]string{org.ChildVouched: "API_KEY_CURVE_SECP256K1:" + key, org.ChildEmail: "a@example.org", org.ChildName: "Sub"} {
		ids, err := w.Tx().ChildrenBy(what, value, nil, 10)
		w.Must(err)
		for _, id := range ids {
			if id == sub.ID {
				t.Errorf("found by %c %s", what, value)
			}
		}
	}
	// Exported secrets go without asking.
	other.Export()
	other.Run("DELETE_SUB_ORGANIZATION", object{})
	if !other.Organization().Deleted || w.Organization().Children != 0 {
		t.Error("not deleted")
	}
}

func TestChangesAboveNeedTheParent(t *testing.T) {
	w := activitytest.New(t)
	sub, _ := w.Family()
	for typ, params := range map[string]object{"DELETE_SUB_ORGANIZATION": {"deleteWithoutExport": true}, "UPDATE_ORGANIZATION_NAME": {"organizationName": "X"}} {
		v, err := kinds.Live.Lookup(activity.OpOf("ACTIVITY_TYPE_"+typ), "ACTIVITY_TYPE_"+typ)
		w.Must(err)
		in, err := v.Decode(activitytest.JSON(params))
		w.Must(err)
		if _, err := v.Run(&activity.Tx{Tx: sub.Tx(), Rand: w.Rand, Keys: w.Keys, User: sub.User}, in); !errors.Is(err, activity.ErrNeedsParent) {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestDeleteOrganization(t *testing.T) {
	w := activitytest.New(t)
	here := object{"organizationId": w.ID.String()}
	w.Refuse("DELETE_ORGANIZATION", object{"organizationId": w.NewID().String()}, 3, "organization mismatch")
	w.Refuse("DELETE_ORGANIZATION", object{}, 3, "organizationId")
	sub, _ := w.Family()
	w.Refuse("DELETE_ORGANIZATION", here, 3, "organization has sub-organizations: 1")
	sub.Refuse("DELETE_ORGANIZATION", object{"organizationId": sub.ID.String()}, 3, "delete_sub_organization")
	sub.Refuse("DELETE_ORGANIZATION", here, 3, "organization mismatch")
	sub.Run("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true})
	w.Run("CREATE_WALLET", activitytest.Wallet("w"))
	w.Refuse("DELETE_ORGANIZATION", here, 3, "wallet account has not been exported")
	w.Export()
	if r := w.Run("DELETE_ORGANIZATION", here); r["organizationId"] != w.ID.String() || !w.Organization().Deleted || w.Secrets() != 0 {
		t.Error(r)
	}
}

func TestCreateOrganization(t *testing.T) {
	w := activitytest.New(t)
	w.Run("SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://elsewhere.example")) // concerns nobody else
	in := object{"organizationName": "Other", "rootEmail": "root@example.org", "rootAuthenticator": activitytest.PasskeyOf(w, "key")}
	top := w.Sub(w.Run("CREATE_ORGANIZATION_V2", in)["organizationId"])
	o := top.Organization()
	u, _ := top.Tx().User(top.User)
	if o.Name != "Other" || !o.Parent.Zero() || o.Threshold != 1 || len(o.RootUsers) != 1 || o.Users != 1 || len(o.Features) != 0 ||
		u.Name != "Root user" || u.Email != "root@example.org" || len(u.Authenticators) != 1 {
		t.Errorf("%+v %+v", o, u)
	}
	if c, _ := w.Tx().Child(top.ID); c != nil || w.Organization().Children != 0 {
		t.Error("it is a child")
	}
	below := top.Sub(top.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("A", activitytest.APIKey("a", w.FreshKey()))))["subOrganizationId"])
	own := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("A", activitytest.APIKey("a", w.FreshKey()))))["subOrganizationId"])
	for name, of := range map[string]*activitytest.World{"its maker": w, "it": top, "a sub-organization of it": below, "one of its maker": own} {
		if got := of.Organization().Tenant(); got != w.ID {
			t.Errorf("%s counts for %s", name, got)
		}
	}
	top.Refuse("CREATE_ORGANIZATION_V2", in, 3, "cannot make organizations")

	p := activitytest.PasskeyOf(w, "key")
	att := p["attestation"].(object)
	v1 := object{"organizationName": "Old", "rootEmail": "root@example.org", "rootUserId": activitytest.SomeID, "rootAuthenticator": object{
		"authenticatorName": "key", "userId": activitytest.SomeID, "challenge": p["challenge"], "attestation": object{
			"id": att["credentialId"], "type": "public-key", "rawId": att["credentialId"], "clientExtensionResults": object{},
			"response": object{"clientDataJson": att["clientDataJson"], "attestationObject": att["attestationObject"]}}}}
	old := w.Sub(w.Run("CREATE_ORGANIZATION", v1)["organizationId"])
	if old.Root != activitytest.SomeID {
		t.Errorf("the root user is %s", old.Root)
	}

	bad := func(k string, v any) object {
		c := activitytest.Without(in, k)
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
		{bad("rootAuthenticator", activitytest.Sample("AuthenticatorParamsV2")), "invalid attestation"},
	} {
		w.Refuse("CREATE_ORGANIZATION_V2", c.params, 3, c.says)
	}
	sub, _ := w.Family()
	sub.Refuse("CREATE_ORGANIZATION_V2", in, 3, "a sub-organization cannot make organizations")
	if _, err := sub.Try("CREATE_ORGANIZATION_V2", in); fault.Of(err).Name != "INVALID_ACTIVITY_CALLER" {
		t.Error(err)
	}
}

func TestUpdateOrganizationName(t *testing.T) {
	w := activitytest.New(t)
	sub, _ := w.Family()
	w.Now += 1000
	sub.Now += 1000
	if r := w.Run("UPDATE_ORGANIZATION_NAME", object{"organizationName": "Summit"}); r["organizationName"] != "Summit" || r["organizationId"] != w.ID.String() {
		t.Error(r)
	}
	if o := w.Organization(); o.Name != "Summit" || o.UpdatedMs != activitytest.Start+1000 || o.CreatedMs != activitytest.Start {
		t.Errorf("%+v", o)
	}
	for range 2 { // the second changes nothing
		sub.Run("UPDATE_ORGANIZATION_NAME", object{"organizationName": "Valley"})
		c, _ := w.Tx().Child(sub.ID)
		was, _ := w.Tx().ChildrenBy(org.ChildName, "Sub", nil, 10)
		is, _ := w.Tx().ChildrenBy(org.ChildName, "Valley", nil, 10)
		all, _ := w.Tx().Children(nil, 10)
		if sub.Organization().Name != "Valley" || c.Name != "Valley" || c.CreatedMs != activitytest.Start || len(was) != 0 || len(is) != 1 || is[0] != sub.ID || len(all) != 1 {
			t.Errorf("%+v %v %v %v", c, was, is, all)
		}
	}
	for _, bad := range []any{"", " x", nil, strings.Repeat("x", 256)} {
		w.Refuse("UPDATE_ORGANIZATION_NAME", object{"organizationName": bad}, 3, "organizationName")
	}
}

// Only the root quorum decides about these.
func TestRootQuorumKinds(t *testing.T) {
	want := strings.Fields("UPDATE_ROOT_QUORUM SET_ORGANIZATION_FEATURE REMOVE_ORGANIZATION_FEATURE UPDATE_ORGANIZATION_NAME CREATE_ORGANIZATION UPDATE_ALLOWED_ORIGINS EXPORT_HISTORY")
	for typ, v := range kinds.Live {
		if v.Kind.RootQuorum != slices.Contains(want, v.Kind.Name) {
			t.Errorf("%s: %v", typ, v.Kind.RootQuorum)
		}
	}
}
