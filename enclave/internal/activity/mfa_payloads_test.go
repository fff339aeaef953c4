package activity_test

import (
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// A request about several payloads owes what each of them would owe alone: one for which little is demanded does not
// stand for the others.
func TestMFAOfPayloads(t *testing.T) {
	w := newWorld(t)
	login, all, never := org.MFAPolicy{ID: w.newID(), Condition: "eth.eip_712.primary_type == 'Login'", Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_API_KEY"}}}}},
		org.MFAPolicy{ID: w.newID(), Condition: "true", Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_PASSKEY"}}}}},
		org.MFAPolicy{ID: w.newID(), Condition: "eth.eip_712.primary_type == 'Never'"}
	u := &org.User{MFAPolicies: []org.MFAPolicy{never, login, all}}
	typed := func(names ...string) *policy.Request {
		r := new(policy.Request)
		for _, name := range names {
			r.Payloads = append(r.Payloads, policy.Facts{"eth.eip_712": policy.Struct(policy.Member{Name: "primary_type", Value: policy.String(name)})})
		}
		return r
	}
	apiKey := []org.VoteCredential{{ID: w.newID(), Type: "CREDENTIAL_TYPE_API_KEY_P256"}}
	for _, c := range []struct {
		names []string
		want  []org.ID
		owes  org.ID
	}{
		{[]string{"Login"}, []org.ID{login.ID}, org.ID{}},
		{[]string{"Permit"}, []org.ID{all.ID}, all.ID},
		{[]string{"Login", "Permit"}, []org.ID{login.ID, all.ID}, all.ID},
		{[]string{"Permit", "Login"}, []org.ID{all.ID, login.ID}, all.ID},
		{[]string{"Login", "Login", "Login"}, []org.ID{login.ID}, org.ID{}},
	} {
		got := activity.EnforcedMFA(u, typed(c.names...))
		if len(got) != len(c.want) {
			t.Errorf("%v: %d policies", c.names, len(got))
			continue
		}
		for i := range got {
			if got[i].ID != c.want[i] {
				t.Errorf("%v: %v", c.names, got[i].Condition)
			}
		}
		if m := activity.Owed(u, typed(c.names...), apiKey); (m == nil) != c.owes.Zero() || m != nil && m.ID != c.owes {
			t.Errorf("%v: an API key leaves %+v", c.names, m)
		}
	}
}
