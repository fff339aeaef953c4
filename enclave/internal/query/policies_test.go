package query_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/org"
)

func TestPolicies(t *testing.T) {
	w := newWorld(t)
	if got := w.get("list_policies", nil)["policies"].([]any); len(got) != 0 {
		t.Error(got)
	}
	w.change(func(tx *org.Tx) {
		w.must(tx.PutPolicy(&org.Policy{ID: id('Q', 1), Name: "younger", Effect: "EFFECT_DENY", Condition: "true", Consensus: "false", Time: "true", Notes: "n", CreatedMs: 2000, UpdatedMs: 3000}))
		w.must(tx.PutPolicy(&org.Policy{ID: id('Q', 2), Name: "older", Effect: "EFFECT_ALLOW", CreatedMs: 1000, UpdatedMs: 1000}))
	})
	if got := pick(w.get("list_policies", nil)["policies"], "policyName"); !reflect.DeepEqual(got, []string{"older", "younger"}) {
		t.Error(got)
	}
	want := object{"policyId": id('Q', 1).String(), "policyName": "younger", "effect": "EFFECT_DENY", "condition": "true", "consensus": "false", "time": "true", "notes": "n",
		"createdAt": object{"seconds": "2", "nanos": "0"}, "updatedAt": object{"seconds": "3", "nanos": "0"}}
	if got := w.get("get_policy", object{"policyId": id('Q', 1).String()})["policy"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if got := w.get("get_policy", object{"policyId": id('Q', 2).String()})["policy"].(object); got["condition"] != "" || got["consensus"] != "" || got["time"] != nil {
		t.Errorf("%v", got)
	}
	w.refused("get_policy", object{"policyId": id('Q', 3).String()}, 5, "policy not found")
	w.refused("get_policy", object{"policyId": "x"}, 3, "must be a UUID")
}

// A policy applies by its time expression at the enclave's clock: without one always, and never if it fails.
func TestActivePolicies(t *testing.T) {
	w := newWorld(t)
	if got := w.get("get_active_policies", nil); len(got["statuses"].([]any)) != 0 || got["evaluatedAtMs"] != fmt.Sprint(w.tx().NowMs) {
		t.Error(got)
	}
	at := time.UnixMilli(int64(w.tx().NowMs)).UTC()
	times := []string{"", "time.now >= Timestamp('" + at.Format(time.RFC3339Nano) + "')", "time.now < Timestamp('" + at.Format(time.RFC3339Nano) + "')", "[time.now][1] == time.now"}
	w.change(func(tx *org.Tx) {
		for i, text := range times {
			w.must(tx.PutPolicy(&org.Policy{ID: id('Q', byte(i+1)), Name: "p", Effect: "EFFECT_ALLOW", Time: text, CreatedMs: uint64(i)}))
		}
	})
	got := w.get("get_active_policies", nil)["statuses"].([]any)
	if len(got) != len(times) {
		t.Fatal(got)
	}
	for i, text := range times {
		s := got[i].(object)
		if s["organizationId"] != w.id.String() || s["policyId"] != id('Q', byte(i+1)).String() || s["active"] != (i < 2) || (text == "") != (s["timeExpr"] == nil) || text != "" && s["timeExpr"] != text {
			t.Error(s)
		}
		if broken := i == 3; broken != (s["error"] != nil) || broken && !strings.Contains(s["error"].(string), "out of range") {
			t.Error(s)
		}
	}
}

func TestInterfaces(t *testing.T) {
	w := newWorld(t)
	long := "[" + strings.Repeat(" ", 250_000) + "]"
	w.change(func(tx *org.Tx) {
		w.must(tx.PutInterface(&org.Interface{ID: id('J', 1), Address: "0xAb", Type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", Label: "younger", Notes: "n", MadeBy: id('U', 1), CreatedMs: 2000, UpdatedMs: 2000}, long))
		w.must(tx.PutInterface(&org.Interface{ID: id('J', 2), Address: "x", Type: "SMART_CONTRACT_INTERFACE_TYPE_SOLANA", Label: "older", CreatedMs: 1000, UpdatedMs: 1000}, "{}"))
	})
	got := w.get("list_smart_contract_interfaces", nil)["smartContractInterfaces"]
	if !reflect.DeepEqual(pick(got, "label"), []string{"older", "younger"}) || !reflect.DeepEqual(pick(got, "smartContractInterface"), []string{"{}", long}) {
		t.Error(pick(got, "label"))
	}
	one := w.get("get_smart_contract_interface", object{"smartContractInterfaceId": id('J', 1).String()})["smartContractInterface"].(object)
	if one["smartContractInterface"] != long || one["smartContractAddress"] != "0xAb" || one["organizationId"] != w.id.String() || one["notes"] != "n" || one["createdBy"] != id('U', 1).String() || one["type"] != "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM" {
		t.Error(one["label"])
	}
	if old := w.get("get_smart_contract_interface", object{"smartContractInterfaceId": id('J', 2).String()})["smartContractInterface"].(object); old["createdBy"] != nil {
		t.Errorf("who made it was not recorded: %v", old["createdBy"])
	}
	w.refused("get_smart_contract_interface", object{"smartContractInterfaceId": id('J', 3).String()}, 5, "smart contract interface not found")
	// More than an answer can hold is refused, not cut.
	w.change(func(tx *org.Tx) {
		for n := byte(10); n < 40; n++ {
			w.must(tx.PutInterface(&org.Interface{ID: id('J', n), Label: "more", CreatedMs: 3000, UpdatedMs: 3000}, long))
		}
	})
	w.refused("list_smart_contract_interfaces", nil, 8, "too large")
}

func TestMFAPolicies(t *testing.T) {
	w := newWorld(t)
	key := id('K', 1)
	w.change(func(tx *org.Tx) {
		u := *w.user
		u.MFAPolicies = []org.MFAPolicy{
			{ID: id('M', 1), Name: "first", Condition: "true", Order: 0, CreatedMs: 1000, UpdatedMs: 2000, Required: []org.MFAMethod{
				{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_API_KEY", ID: &key}, {Type: "AUTHENTICATION_TYPE_PASSKEY"}}}, {Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_SMS_OTP"}}}}},
			{ID: id('M', 2), Name: "second", Condition: "false", Order: 7, Notes: "n", Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_OAUTH"}}}}},
		}
		w.must(tx.PutUser(&u))
	})
	user := id('U', 1).String()
	all := w.get("get_mfa_policies", object{"userId": user})["mfaPolicies"].([]any)
	want := object{"mfaPolicyId": id('M', 1).String(), "mfaPolicyName": "first", "condition": "true", "order": 0.0,
		"requiredAuthenticationMethods": []any{
			object{"any": []any{object{"type": "AUTHENTICATION_TYPE_API_KEY", "id": key.String()}, object{"type": "AUTHENTICATION_TYPE_PASSKEY"}}},
			object{"any": []any{object{"type": "AUTHENTICATION_TYPE_SMS_OTP"}}}},
		"createdAt": object{"seconds": "1", "nanos": "0"}, "updatedAt": object{"seconds": "2", "nanos": "0"}}
	if len(all) != 2 || !reflect.DeepEqual(all[0], want) {
		t.Errorf("%v", all)
	}
	if got := w.get("get_mfa_policy", object{"userId": user, "mfaPolicyId": id('M', 2).String()})["mfaPolicy"].(object); !reflect.DeepEqual(got, all[1]) || got["notes"] != "n" || got["order"] != 7.0 {
		t.Errorf("%v", got)
	}
	if got := w.get("get_user", object{"userId": user})["user"].(object)["mfaPolicies"]; !reflect.DeepEqual(got, any(all)) {
		t.Errorf("%v", got)
	}
	if got := w.get("get_mfa_policies", object{"userId": id('U', 2).String()})["mfaPolicies"].([]any); len(got) != 0 {
		t.Error(got)
	}
	w.refused("get_mfa_policy", object{"userId": id('U', 2).String(), "mfaPolicyId": id('M', 2).String()}, 5, "mfa policy not found")
	w.refused("get_mfa_policy", object{"userId": id('U', 9).String(), "mfaPolicyId": id('M', 2).String()}, 5, "user not found")
	w.refused("get_mfa_policies", object{"userId": id('U', 9).String()}, 5, "user not found")
	w.refused("get_mfa_policy", object{"userId": user, "mfaPolicyId": "x"}, 3, "must be a UUID")
}

func TestIPAllowlist(t *testing.T) {
	w := newWorld(t)
	none := object{"organizationId": w.id.String(), "rules": []any{}, "enabled": false}
	if got := w.get("get_ip_allowlist", nil)["allowlist"]; !reflect.DeepEqual(got, any(none)) {
		t.Errorf("%v", got)
	}
	w.change(func(tx *org.Tx) {
		w.must(tx.PutAllowlist("", &org.Allowlist{Enabled: true, OnError: "ALLOW", Rules: []org.AllowlistRule{{CIDR: "10.0.0.0/24", Label: "Office", CreatedMs: 1234}, {CIDR: "::/48", CreatedMs: 5}}}))
		w.must(tx.PutAllowlist("02ab", &org.Allowlist{OnError: "DENY"}))
	})
	want := object{"organizationId": w.id.String(), "enabled": true, "onEvaluationError": "ALLOW", "rules": []any{
		object{"cidr": "10.0.0.0/24", "label": "Office", "createdAt": "1234"}, object{"cidr": "::/48", "createdAt": "5"}}}
	if got := w.get("get_ip_allowlist", nil)["allowlist"]; !reflect.DeepEqual(got, any(want)) {
		t.Errorf("%v", got)
	}
	want = object{"organizationId": w.id.String(), "publicKey": "02ab", "onEvaluationError": "DENY", "rules": []any{}}
	if got := w.get("get_ip_allowlist", object{"publicKey": "02AB"})["allowlist"]; !reflect.DeepEqual(got, any(want)) {
		t.Errorf("%v", got)
	}
	w.refused("get_ip_allowlist", object{"publicKey": 7}, 3, "publicKey")
}

func TestSessionProfiles(t *testing.T) {
	w := newWorld(t)
	notes := "n"
	w.change(func(tx *org.Tx) {
		w.must(tx.PutSessionProfile(&org.SessionProfile{ID: id('S', 1), Name: "younger", Scope: "true", Seconds: 900, Notes: &notes, CreatedMs: 2000, UpdatedMs: 2000}))
		w.must(tx.PutSessionProfile(&org.SessionProfile{ID: id('S', 2), Name: "older", Scope: "false", CreatedMs: 1000, UpdatedMs: 1000}))
	})
	all := w.get("get_session_profiles", nil)["sessionProfiles"]
	if !reflect.DeepEqual(pick(all, "sessionProfileName"), []string{"older", "younger"}) {
		t.Error(all)
	}
	want := object{"sessionProfileId": id('S', 1).String(), "sessionProfileName": "younger", "scope": "true", "expirationSeconds": "900", "notes": "n",
		"createdAt": object{"seconds": "2", "nanos": "0"}, "updatedAt": object{"seconds": "2", "nanos": "0"}}
	if got := w.get("get_session_profile", object{"sessionProfileId": id('S', 1).String()})["sessionProfile"]; !reflect.DeepEqual(got, any(want)) {
		t.Errorf("%v", got)
	}
	if got := w.get("get_session_profile", object{"sessionProfileId": id('S', 2).String()})["sessionProfile"].(object); got["expirationSeconds"] != nil || got["notes"] != nil {
		t.Errorf("%v", got)
	}
	w.refused("get_session_profile", object{"sessionProfileId": id('S', 3).String()}, 5, "session profile not found")
	w.refused("get_session_profile", object{"sessionProfileId": "x"}, 3, "must be a UUID")
}

func TestGetOrganization(t *testing.T) {
	w := newWorld(t)
	w.wallet(1, 1000, 2)
	w.change(func(tx *org.Tx) {
		w.must(tx.PutPolicy(&org.Policy{ID: id('Q', 1), Name: "p", Effect: "EFFECT_DENY"}))
		w.must(tx.PutInterface(&org.Interface{ID: id('J', 1), Address: "0xAb", Type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", Label: "i"}, "[]"))
		w.must(tx.PutInvitation(&org.Invitation{ID: id('I', 1), UserName: "i", Email: "i@example.org", AccessType: "ACCESS_TYPE_ALL", Status: "INVITATION_STATUS_CREATED", Sender: id('U', 1)}))
	})
	o := w.get("get_organization", nil)["organizationData"].(object)
	if o["organizationId"] != w.id.String() || o["name"] != "Org" {
		t.Errorf("%v %v", o["organizationId"], o["name"])
	}
	for list, want := range map[string][]string{
		"users": {"userName", "User 3", "User 2", "User 1"}, "policies": {"policyName", "p"}, "privateKeys": {"privateKeyName", "Key 3", "Key 2", "Key 1"},
		"wallets": {"walletName", "Wallet 1"}, "tags": {"tagName", "older tag", "older tag", "tag", "tag"}, "invitations": {"receiverUserName", "i"},
		"features": {"name", "FEATURE_NAME_EMAIL_AUTH", "FEATURE_NAME_WEBHOOK"}, "smartContractInterfaceReferences": {"smartContractAddress", "0xAb"},
	} {
		if got := pick(o[list], want[0]); !reflect.DeepEqual(got, want[1:]) {
			t.Errorf("%s: %v", list, got)
		}
	}
	if q := o["rootQuorum"].(object); q["threshold"] != 1.0 || len(q["userIds"].([]any)) != 2 {
		t.Error(q)
	}
}
