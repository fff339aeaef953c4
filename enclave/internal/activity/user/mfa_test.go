package user_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// step is a step of an MFA policy: types, and after an equals sign ids.
func step(factors ...string) object {
	any := []object{}
	for _, f := range factors {
		typ, id, ok := strings.Cut(f, "=")
		o := object{"type": "AUTHENTICATION_TYPE_" + typ}
		if ok {
			o["id"] = id
		}
		any = append(any, o)
	}
	return object{"any": any}
}

func mfaPolicy(user, name string, order int, steps ...object) object {
	return object{"userId": user, "mfaPolicyName": name, "condition": "activity.action == 'SIGN'", "requiredAuthenticationMethods": steps, "order": order}
}

func TestMFAPolicies(t *testing.T) {
	w := activitytest.New(t)
	key := recordOf(w, w.Root).APIKeys[0].ID.String()
	profile := w.Run("CREATE_SESSION_PROFILE", object{"sessionProfileName": "p", "scope": "true"})["sessionProfileId"].(string)
	second := w.Run("CREATE_MFA_POLICY", mfaPolicy(w.Root, "second", 7, step("API_KEY", "EMAIL_OTP", "SMS_OTP")))["mfaPolicyId"]
	in := mfaPolicy(w.Root, "first", 0, step("API_KEY="+key, "PASSKEY"), step("SESSION="+profile, "SESSION=00000000-0000-0000-0000-000000000000", "OAUTH", "SESSION", "API_KEY"))
	in["notes"] = "why"
	first := w.Run("CREATE_MFA_POLICY", in)["mfaPolicyId"]
	ps := recordOf(w, w.Root).MFAPolicies
	if len(ps) != 2 || ps[0].ID != activitytest.MustID(first) || ps[1].ID != activitytest.MustID(second) || ps[0].Notes != "why" || ps[0].Condition != "activity.action == 'SIGN'" || ps[0].CreatedMs != activitytest.Start {
		t.Fatalf("%+v", ps)
	}
	req := ps[0].Required
	if len(req) != 2 || len(req[0].Any) != 2 || req[0].Any[0].Type != "AUTHENTICATION_TYPE_API_KEY" || *req[0].Any[0].ID != activitytest.MustID(key) || req[0].Any[1].ID != nil ||
		*req[1].Any[0].ID != activitytest.MustID(profile) || !req[1].Any[1].ID.Zero() || req[1].Any[3].ID != nil {
		t.Errorf("%+v", req)
	}
	w.Now += 1000
	for _, c := range []struct {
		with  object
		check func(p org.MFAPolicy) bool
	}{
		{object{}, func(p org.MFAPolicy) bool {
			return p.Name == "second" && p.Order == 7 && p.UpdatedMs == activitytest.Start+1000 && p.CreatedMs == activitytest.Start
		}},
		{object{"mfaPolicyName": "third", "notes": "n"}, func(p org.MFAPolicy) bool { return p.Name == "third" && p.Notes == "n" && len(p.Required) == 1 }},
		{object{"condition": "true", "notes": ""}, func(p org.MFAPolicy) bool { return p.Condition == "true" && p.Notes == "" }},
		{object{"requiredAuthenticationMethods": []any{step("PASSKEY", "API_KEY"), step("API_KEY")}}, func(p org.MFAPolicy) bool { return len(p.Required) == 2 && p.Condition == "true" }},
		{object{"order": 3}, func(p org.MFAPolicy) bool { return p.Order == 3 && len(p.Required) == 2 }},
	} {
		c.with["userId"], c.with["mfaPolicyId"] = w.Root, second
		w.Run("UPDATE_MFA_POLICY", c.with)
		if p := recordOf(w, w.Root).MFAPolicies[1]; !c.check(p) {
			t.Errorf("%v: %+v", c.with, p)
		}
	}
	w.Run("UPDATE_MFA_POLICY", object{"userId": w.Root, "mfaPolicyId": first, "order": 9}) // now it comes behind the other
	if ps := recordOf(w, w.Root).MFAPolicies; ps[0].ID != activitytest.MustID(second) || ps[1].ID != activitytest.MustID(first) {
		t.Errorf("%+v", ps)
	}
	if r := w.Run("DELETE_MFA_POLICY", object{"userId": w.Root, "mfaPolicyId": second}); r["mfaPolicyId"] != second {
		t.Error(r)
	}
	if ps := recordOf(w, w.Root).MFAPolicies; len(ps) != 1 || ps[0].ID != activitytest.MustID(first) {
		t.Errorf("%+v", ps)
	}
}

func TestMFAPoliciesRefuse(t *testing.T) {
	w := activitytest.New(t)
	id := w.Run("CREATE_MFA_POLICY", mfaPolicy(w.Root, "taken", 1, step("API_KEY")))["mfaPolicyId"].(string)
	more := w.Run("CREATE_MFA_POLICY", mfaPolicy(w.Root, "more", 2, step("API_KEY")))["mfaPolicyId"].(string)
	other := w.NewID().String()
	bob := w.People("Bob")[0]
	bobs := recordOf(w, bob).APIKeys[0].ID.String()
	with := func(k string, v any) object {
		in := mfaPolicy(w.Root, "new", 3, step("API_KEY"))
		in[k] = v
		return in
	}
	steps := func(ss ...object) object { return with("requiredAuthenticationMethods", ss) }
	many := make([]object, 11)
	for i := range many {
		many[i] = step("PASSKEY")
	}
	for _, c := range []struct {
		params object
		code   fault.Code
		says   string
	}{
		{with("userId", other), 5, "user not found: " + other},
		{with("userId", ""), 3, "userId"},
		{with("mfaPolicyName", "taken"), 3, "mfa policy label must be unique"},
		{with("mfaPolicyName", " x"), 3, "mfaPolicyName"},
		{with("order", 1), 3, "mfa policy order must be unique: 1"},
		{with("order", nil), 3, "missing field `order`"},
		{with("order", -1), 3, "order"},
		{with("condition", ""), 3, "condition"},
		{with("condition", "wallet.id"), 3, "invalid policy condition"},
		{with("condition", "approvers.count() == 1"), 3, "invalid policy condition"},
		{with("condition", "time.now > Timestamp('2026-01-01T00:00:00Z')"), 3, "invalid policy condition"},
		{with("notes", strings.Repeat("x", 4097)), 3, "at most 4096"},
		{steps(), 3, "1 to 10"},
		{steps(many...), 3, "1 to 10"},
		{steps(step()), 3, "1 to 10"},
		{steps(step("PASSKEY"), object{}), 3, "1 to 10"},
		{steps(step(strings.Split(strings.Repeat("PASSKEY ", 11)[:87], " ")...)), 3, "1 to 10"},
		{steps(step("PASSWORD")), 3, "type"},
		{steps(object{"any": []any{object{}}}), 3, "missing field"},
		{steps(step("EMAIL_OTP=" + bobs)), 3, "a passcode has no id"},
		{steps(step("SMS_OTP=" + bobs)), 3, "a passcode has no id"},
		{steps(step("PASSKEY=x")), 3, "must be a UUID"},
		{steps(step("PASSKEY=" + other)), 5, "passkey not found: " + other},
		{steps(step("API_KEY=" + bobs)), 5, "api key not found: " + bobs},
		{steps(step("OAUTH=" + other)), 5, "oauth not found: " + other},
		{steps(step("SESSION=" + other)), 5, "session not found: " + other},
		{steps(step("API_KEY"), step("PASSKEY")), 3, "no credential that passes this step"},
		{steps(step("EMAIL_OTP", "SMS_OTP")), 3, "no credential that passes this step"},
		{steps(step("SESSION")), 12, "only AUTHENTICATION_TYPE_SESSION passes"},
		{steps(step("PASSKEY", "OAUTH")), 3, "no credential that passes this step"},
		{steps(step("SESSION")), 12, "only AUTHENTICATION_TYPE_SESSION passes"},
	} {
		w.Refuse("CREATE_MFA_POLICY", c.params, c.code, c.says)
	}
	change := func(k string, v any) object { return object{"userId": w.Root, "mfaPolicyId": more, k: v} }
	for _, c := range []struct {
		params object
		code   fault.Code
		says   string
	}{
		{change("mfaPolicyId", other), 5, "mfa policy not found: " + other},
		{change("userId", other), 5, "user not found: " + other},
		{change("userId", bob), 5, "mfa policy not found: " + more},
		{change("mfaPolicyName", "taken"), 3, "mfa policy label must be unique"},
		{change("order", 1), 3, "mfa policy order must be unique: 1"},
		{change("condition", ""), 3, "must not be empty"},
		{change("condition", "x"), 3, "invalid policy condition"},
		{change("requiredAuthenticationMethods", []any{step()}), 3, "1 to 10"},
		{change("requiredAuthenticationMethods", []any{step("API_KEY=" + bobs)}), 5, "api key not found"},
	} {
		w.Refuse("UPDATE_MFA_POLICY", c.params, c.code, c.says)
	}
	w.Refuse("DELETE_MFA_POLICY", object{"userId": bob, "mfaPolicyId": id}, 5, "mfa policy not found: "+id)
	w.Refuse("DELETE_MFA_POLICY", object{"userId": other, "mfaPolicyId": id}, 5, "user not found: "+other)
	w.Refuse("DELETE_MFA_POLICY", object{"userId": w.Root}, 3, "mfaPolicyId")
	w.Run("CREATE_MFA_POLICY", mfaPolicy(bob, "taken", 1, step("API_KEY"))) // names and orders are each user's own
	for i := range 8 {
		w.Run("CREATE_MFA_POLICY", mfaPolicy(w.Root, fmt.Sprint(i), 10+i, step("API_KEY")))
	}
	w.Refuse("CREATE_MFA_POLICY", mfaPolicy(w.Root, "one more", 99, step("API_KEY")), 8, "maximum mfa policies: 10")
	long := mfaPolicy(bob, "long", 2, step("API_KEY"))
	long["condition"] = "activity.type == '" + strings.Repeat("x", 15<<10) + "'"
	w.Run("CREATE_MFA_POLICY", long)
	long["mfaPolicyName"], long["order"] = "longer", 3
	w.Run("CREATE_MFA_POLICY", long)
	long["mfaPolicyName"], long["order"] = "longest", 4
	w.Refuse("CREATE_MFA_POLICY", long, 8, "32768 bytes of conditions and notes")
}

// A sub-organization's sessions have the profiles of its parent.
func TestMFAPoliciesOfASubOrganization(t *testing.T) {
	w := activitytest.New(t)
	profile := w.Run("CREATE_SESSION_PROFILE", object{"sessionProfileName": "p", "scope": "true"})["sessionProfileId"].(string)
	sub, _ := w.Family()
	sub.Run("CREATE_MFA_POLICY", mfaPolicy(sub.Root, "a", 1, step("SESSION="+profile, "API_KEY")))
	sub.Refuse("CREATE_MFA_POLICY", mfaPolicy(sub.Root, "b", 2, step("SESSION="+w.NewID().String())), 5, "session not found")
}

// A root user keeps what his own steps demand; anybody else can be helped by the
// root quorum.
func TestMFAKeepsTheLastFactor(t *testing.T) {
	w := activitytest.New(t)
	w.Run("CREATE_API_KEYS_V2", object{"userId": w.Root, "apiKeys": []any{activitytest.APIKey("second", w.FreshKey())}})
	keys := recordOf(w, w.Root).APIKeys
	first, second := keys[0].ID.String(), keys[1].ID.String()
	w.Run("CREATE_MFA_POLICY", mfaPolicy(w.Root, "this one", 1, step("API_KEY="+second)))
	w.Refuse("DELETE_API_KEYS", object{"userId": w.Root, "apiKeyIds": []any{second}}, 3, `mfa policy "this one"`)
	w.Run("DELETE_API_KEYS", object{"userId": w.Root, "apiKeyIds": []any{first}})
	bob := w.People("Bob")[0]
	w.Run("CREATE_API_KEYS_V2", object{"userId": bob, "apiKeys": []any{activitytest.APIKey("another", w.FreshKey())}})
	bobs := recordOf(w, bob).APIKeys[0].ID.String()
	w.Run("CREATE_MFA_POLICY", mfaPolicy(bob, "his", 1, step("API_KEY="+bobs)))
	w.Run("DELETE_API_KEYS", object{"userId": bob, "apiKeyIds": []any{bobs}})
}

// One credential passes one step.
func TestMFASatisfied(t *testing.T) {
	key := func(id byte) org.VoteCredential {
		return org.VoteCredential{ID: org.ID{id}, Type: "CREDENTIAL_TYPE_API_KEY_P256"}
	}
	passkey := org.VoteCredential{ID: org.ID{9}, Type: "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR"}
	any := func(fs ...org.Factor) org.MFAMethod { return org.MFAMethod{Any: fs} }
	apiKey, aPasskey := org.Factor{Type: "AUTHENTICATION_TYPE_API_KEY"}, org.Factor{Type: "AUTHENTICATION_TYPE_PASSKEY"}
	one := org.Factor{Type: "AUTHENTICATION_TYPE_API_KEY", ID: &org.ID{1}}
	for _, c := range []struct {
		steps []org.MFAMethod
		with  []org.VoteCredential
		want  bool
	}{
		{[]org.MFAMethod{any(apiKey)}, []org.VoteCredential{key(1)}, true},
		{[]org.MFAMethod{any(aPasskey)}, []org.VoteCredential{key(1)}, false},
		{[]org.MFAMethod{any(apiKey)}, nil, false},
		{[]org.MFAMethod{any(apiKey), any(apiKey)}, []org.VoteCredential{key(1)}, false},
		{[]org.MFAMethod{any(apiKey), any(apiKey)}, []org.VoteCredential{key(1), key(2)}, true},
		{[]org.MFAMethod{any(apiKey, aPasskey), any(apiKey)}, []org.VoteCredential{key(1), passkey}, true},
		{[]org.MFAMethod{any(apiKey), any(one)}, []org.VoteCredential{key(1), key(2)}, true}, // the first gives way
		{[]org.MFAMethod{any(apiKey), any(one)}, []org.VoteCredential{key(2), key(3)}, false},
		{[]org.MFAMethod{any(one), any(one)}, []org.VoteCredential{key(1), key(2)}, false},
		{[]org.MFAMethod{any(one)}, []org.VoteCredential{{ID: org.ID{1}, Type: "CREDENTIAL_TYPE_LOGIN"}}, false}, // a session is none
	} {
		if got := activity.Satisfies(&org.MFAPolicy{Required: c.steps}, c.with); got != c.want {
			t.Errorf("%+v with %+v: %v", c.steps, c.with, got)
		}
	}
}
