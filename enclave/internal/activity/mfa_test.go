package activity_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
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
	w := newWorld(t)
	key := w.record(w.root).APIKeys[0].ID.String()
	profile := w.run("CREATE_SESSION_PROFILE", object{"sessionProfileName": "p", "scope": "true"})["sessionProfileId"].(string)
	second := w.run("CREATE_MFA_POLICY", mfaPolicy(w.root, "second", 7, step("API_KEY", "EMAIL_OTP", "SMS_OTP")))["mfaPolicyId"]
	in := mfaPolicy(w.root, "first", 0, step("API_KEY="+key, "PASSKEY"), step("SESSION="+profile, "SESSION=00000000-0000-0000-0000-000000000000", "OAUTH", "SESSION", "API_KEY"))
	in["notes"] = "why"
	first := w.run("CREATE_MFA_POLICY", in)["mfaPolicyId"]
	ps := w.record(w.root).MFAPolicies
	if len(ps) != 2 || ps[0].ID != mustID(first) || ps[1].ID != mustID(second) || ps[0].Notes != "why" || ps[0].Condition != "activity.action == 'SIGN'" || ps[0].CreatedMs != start {
		t.Fatalf("%+v", ps)
	}
	req := ps[0].Required
	if len(req) != 2 || len(req[0].Any) != 2 || req[0].Any[0].Type != "AUTHENTICATION_TYPE_API_KEY" || *req[0].Any[0].ID != mustID(key) || req[0].Any[1].ID != nil ||
		*req[1].Any[0].ID != mustID(profile) || !req[1].Any[1].ID.Zero() || req[1].Any[3].ID != nil {
		t.Errorf("%+v", req)
	}
	w.now += 1000
	for _, c := range []struct {
		with  object
		check func(p org.MFAPolicy) bool
	}{
		{object{}, func(p org.MFAPolicy) bool {
			return p.Name == "second" && p.Order == 7 && p.UpdatedMs == start+1000 && p.CreatedMs == start
		}},
		{object{"mfaPolicyName": "third", "notes": "n"}, func(p org.MFAPolicy) bool { return p.Name == "third" && p.Notes == "n" && len(p.Required) == 1 }},
		{object{"condition": "true", "notes": ""}, func(p org.MFAPolicy) bool { return p.Condition == "true" && p.Notes == "" }},
		{object{"requiredAuthenticationMethods": []any{step("PASSKEY", "API_KEY"), step("API_KEY")}}, func(p org.MFAPolicy) bool { return len(p.Required) == 2 && p.Condition == "true" }},
		{object{"order": 3}, func(p org.MFAPolicy) bool { return p.Order == 3 && len(p.Required) == 2 }},
	} {
		c.with["userId"], c.with["mfaPolicyId"] = w.root, second
		w.run("UPDATE_MFA_POLICY", c.with)
		if p := w.record(w.root).MFAPolicies[1]; !c.check(p) {
			t.Errorf("%v: %+v", c.with, p)
		}
	}
	w.run("UPDATE_MFA_POLICY", object{"userId": w.root, "mfaPolicyId": first, "order": 9}) // now it comes behind the other
	if ps := w.record(w.root).MFAPolicies; ps[0].ID != mustID(second) || ps[1].ID != mustID(first) {
		t.Errorf("%+v", ps)
	}
	if r := w.run("DELETE_MFA_POLICY", object{"userId": w.root, "mfaPolicyId": second}); r["mfaPolicyId"] != second {
		t.Error(r)
	}
	if ps := w.record(w.root).MFAPolicies; len(ps) != 1 || ps[0].ID != mustID(first) {
		t.Errorf("%+v", ps)
	}
}

func TestMFAPoliciesRefuse(t *testing.T) {
	w := newWorld(t)
	id := w.run("CREATE_MFA_POLICY", mfaPolicy(w.root, "taken", 1, step("API_KEY")))["mfaPolicyId"].(string)
	more := w.run("CREATE_MFA_POLICY", mfaPolicy(w.root, "more", 2, step("API_KEY")))["mfaPolicyId"].(string)
	other := w.newID().String()
	bob := w.people("Bob")[0]
	bobs := w.record(bob).APIKeys[0].ID.String()
	with := func(k string, v any) object {
		in := mfaPolicy(w.root, "new", 3, step("API_KEY"))
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
		w.refused("CREATE_MFA_POLICY", c.params, c.code, c.says)
	}
	change := func(k string, v any) object { return object{"userId": w.root, "mfaPolicyId": more, k: v} }
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
		w.refused("UPDATE_MFA_POLICY", c.params, c.code, c.says)
	}
	w.refused("DELETE_MFA_POLICY", object{"userId": bob, "mfaPolicyId": id}, 5, "mfa policy not found: "+id)
	w.refused("DELETE_MFA_POLICY", object{"userId": other, "mfaPolicyId": id}, 5, "user not found: "+other)
	w.refused("DELETE_MFA_POLICY", object{"userId": w.root}, 3, "mfaPolicyId")
	w.run("CREATE_MFA_POLICY", mfaPolicy(bob, "taken", 1, step("API_KEY"))) // names and orders are each user's own
	for i := range 8 {
		w.run("CREATE_MFA_POLICY", mfaPolicy(w.root, fmt.Sprint(i), 10+i, step("API_KEY")))
	}
	w.refused("CREATE_MFA_POLICY", mfaPolicy(w.root, "one more", 99, step("API_KEY")), 8, "maximum mfa policies: 10")
	long := mfaPolicy(bob, "long", 2, step("API_KEY"))
	long["condition"] = "activity.type == '" + strings.Repeat("x", 15<<10) + "'"
	w.run("CREATE_MFA_POLICY", long)
	long["mfaPolicyName"], long["order"] = "longer", 3
	w.run("CREATE_MFA_POLICY", long)
	long["mfaPolicyName"], long["order"] = "longest", 4
	w.refused("CREATE_MFA_POLICY", long, 8, "32768 bytes of conditions and notes")
}

// A sub-organization's sessions have the profiles of its parent.
func TestMFAPoliciesOfASubOrganization(t *testing.T) {
	w := newWorld(t)
	profile := w.run("CREATE_SESSION_PROFILE", object{"sessionProfileName": "p", "scope": "true"})["sessionProfileId"].(string)
	sub, _ := w.family()
	sub.run("CREATE_MFA_POLICY", mfaPolicy(sub.root, "a", 1, step("SESSION="+profile, "API_KEY")))
	sub.refused("CREATE_MFA_POLICY", mfaPolicy(sub.root, "b", 2, step("SESSION="+w.newID().String())), 5, "session not found")
}

// A root user keeps what his own steps demand; anybody else can be helped by the
// root quorum.
func TestMFAKeepsTheLastFactor(t *testing.T) {
	w := newWorld(t)
	w.run("CREATE_API_KEYS_V2", object{"userId": w.root, "apiKeys": []any{apiKey("second", w.freshKey())}})
	keys := w.record(w.root).APIKeys
	first, second := keys[0].ID.String(), keys[1].ID.String()
	w.run("CREATE_MFA_POLICY", mfaPolicy(w.root, "this one", 1, step("API_KEY="+second)))
	w.refused("DELETE_API_KEYS", object{"userId": w.root, "apiKeyIds": []any{second}}, 3, `mfa policy "this one"`)
	w.run("DELETE_API_KEYS", object{"userId": w.root, "apiKeyIds": []any{first}})
	bob := w.people("Bob")[0]
	w.run("CREATE_API_KEYS_V2", object{"userId": bob, "apiKeys": []any{apiKey("another", w.freshKey())}})
	bobs := w.record(bob).APIKeys[0].ID.String()
	w.run("CREATE_MFA_POLICY", mfaPolicy(bob, "his", 1, step("API_KEY="+bobs)))
	w.run("DELETE_API_KEYS", object{"userId": bob, "apiKeyIds": []any{bobs}})
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
