package user_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// A request about several payloads owes what each of them would owe alone: one for which little is demanded does not
// stand for the others.
func TestMFAOfPayloads(t *testing.T) {
	w := activitytest.New(t)
	login, all, never := org.MFAPolicy{ID: w.NewID(), Condition: "eth.eip_712.primary_type == 'Login'", Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_API_KEY"}}}}},
		org.MFAPolicy{ID: w.NewID(), Condition: "true", Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_PASSKEY"}}}}},
		org.MFAPolicy{ID: w.NewID(), Condition: "eth.eip_712.primary_type == 'Never'"}
	u := &org.User{MFAPolicies: []org.MFAPolicy{never, login, all}}
	typed := func(names ...string) *policy.Request {
		r := new(policy.Request)
		for _, name := range names {
			r.Payloads = append(r.Payloads, policy.Facts{"eth.eip_712": policy.Struct(policy.Member{Name: "primary_type", Value: policy.String(name)})})
		}
		return r
	}
	apiKey := []org.VoteCredential{{ID: w.NewID(), Type: "CREDENTIAL_TYPE_API_KEY_P256"}}
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
		steps := policy.MaxDecisionSteps
		got := activity.EnforcedMFA(u, typed(c.names...), &steps)
		if len(got) != len(c.want) {
			t.Errorf("%v: %d policies", c.names, len(got))
			continue
		}
		for i := range got {
			if got[i].ID != c.want[i] {
				t.Errorf("%v: %v", c.names, got[i].Condition)
			}
		}
		if m := activity.UnmetMFA(u, typed(c.names...), apiKey, &steps); (m == nil) != c.owes.Zero() || m != nil && m.ID != c.owes {
			t.Errorf("%v: an API key leaves %+v", c.names, m)
		}
	}
}

// dear is a condition that takes more than a hundred thousand steps to find out.
func dear(holds bool) string {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 250), ",") + "]"
	return fmt.Sprintf("%s.all(a, %[1]s.all(b, a == b)) == %t", list, holds)
}

// dearSteps is less than what dear takes.
const dearSteps = 100_000

// What users' MFA policies take is taken off the steps of whoever asks, no voter may
// use up what is another's or the policies', and what cannot be found out is demanded.
func TestMFASharesSteps(t *testing.T) {
	w := activitytest.New(t)
	passkey := []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_PASSKEY"}}}}
	root := w.UserOf(w.Root)
	p := &org.Pending{Initiator: root.ID, OpenedMs: w.Now}
	user := func(id org.ID, condition string) {
		u := &org.User{ID: id, Name: id.String(), APIKeys: []org.APIKey{{ID: w.NewID(), Type: "CREDENTIAL_TYPE_API_KEY_P256", PublicKey: w.FreshP256()}}}
		if id == root.ID {
			copied := *root
			u = &copied
		}
		u.MFAPolicies = []org.MFAPolicy{{ID: w.NewID(), Condition: condition, Required: passkey}}
		w.Alter(func(tx *org.Tx) { w.Must(tx.PutUser(u)) })
		p.Votes = append(p.Votes, org.PendingVote{User: id, CreatedMs: w.Now, Credentials: []org.VoteCredential{activity.APIKeyCredential(&u.APIKeys[0])}})
	}
	user(root.ID, "false")
	for range 8 {
		user(w.NewID(), dear(false))
	}
	user(w.NewID(), "false")
	q := new(policy.Request)
	for _, c := range []struct{ steps, approvals int }{
		{100 * dearSteps, 10},
		{10 * dearSteps, 2}, // the dear ones owe what cannot be found out, the others nothing
		{100, 2},
		{0, 0},
	} {
		left := c.steps
		lacks, err := activity.CountVotes(w.Tx(), p, q, c.steps, &left)
		w.Must(err)
		if len(q.Approvals) != c.approvals || (lacks != nil) != (c.approvals == 0) {
			t.Errorf("%d steps: %d approvals, the initiator lacks %v", c.steps, len(q.Approvals), lacks)
		}
		if spent := c.steps - left; left < 0 || spent > c.steps/4 || spent < min(c.steps/4, 8*dearSteps)*8/10-100 {
			t.Errorf("%d steps: %d are spent", c.steps, spent)
		}
	}
	q.Payloads = make([]policy.Facts, 1000)
	left := 500
	if m := activity.EnforcedMFA(w.UserOf(w.Root), q, &left); len(m) != 1 || left != 0 {
		t.Errorf("more payloads than steps: %d are enforced, %d steps are left", len(m), left)
	}
}

// A list of activities asks who may vote within the steps of one reply, whatever the
// MFA policies of those who voted take.
func TestListsShareStepsOfMFA(t *testing.T) {
	w := activitytest.New(t)
	o := *w.Organization()
	root := *w.UserOf(w.Root)
	root.MFAPolicies = []org.MFAPolicy{{ID: w.NewID(), Condition: dear(false)}}
	who := w.NewID()
	w.Alter(func(tx *org.Tx) {
		w.Must(tx.PutUser(&root))
		w.Must(tx.PutUser(&org.User{ID: who, Name: "V"}))
	})
	e := w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": w.Root})
	e.Initiator = root.ID
	steps, asked := activity.VotableSteps, 0
	for range 100 {
		before := steps
		a, r, err := kinds.Live.Votable(w.Tx(), &o, e, who, &steps)
		w.Must(err)
		if a || r {
			t.Fatal("somebody may vote whom no policy counts")
		}
		if spent := before - steps; spent >= dearSteps {
			asked++
		} else if before > 4*dearSteps {
			t.Fatalf("an activity took %d steps", spent)
		}
	}
	if asked == 0 || asked > activity.VotableSteps/dearSteps || steps > dearSteps {
		t.Errorf("%d of 100 were looked into, %d steps are left", asked, steps)
	}
}
