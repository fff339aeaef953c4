package query_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// What get_mfa_status says is demanded of a voter is what is demanded when the activity is
// decided, whatever the budget: what cannot be found out within it is demanded by both.
func TestMFAStatusHasTheStepsOfTheDecision(t *testing.T) {
	w := newWorld(t)
	list := "[" + strings.TrimSuffix(strings.Repeat("1, ", 60), ", ") + "]" // about 11,000 steps
	condition := fmt.Sprintf("!%s.all(a, %[1]s.all(b, a == b))", list)
	body, err := json.Marshal(object{"type": "ACTIVITY_TYPE_UPDATE_WALLET", "timestampMs": "1000000", "organizationId": w.id.String(),
		"parameters": object{"walletId": w.wallet(1, 1, 1).ID.String(), "walletName": "x"}})
	w.must(err)
	e := &org.Entry{Activity: id('A', 1), Type: "ACTIVITY_TYPE_UPDATE_WALLET", Status: org.StatusConsensusNeeded, Body: body, Fingerprint: org.Hash{1}}
	w.entries = []*org.Entry{e}
	p := &org.Pending{Activity: e.Activity, Fingerprint: e.Fingerprint, Status: e.Status, CreatedMs: 1_000_000, OpenedMs: 1_000_000, Initiator: id('U', 1)}
	w.change(func(tx *org.Tx) {
		for n := byte(1); n <= 3; n++ {
			u, err := tx.User(id('U', n))
			w.must(err)
			changed := *u
			changed.MFAPolicies = []org.MFAPolicy{{ID: id('M', n), Name: "dear", Condition: condition, Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_PASSKEY"}}}}}}
			w.must(tx.PutUser(&changed))
			p.Votes = append(p.Votes, org.PendingVote{User: u.ID, CreatedMs: 1_000_000, Credentials: []org.VoteCredential{activity.APIKeyCredential(&u.APIKeys[0])}})
		}
		w.must(tx.PutPending(p))
	})
	demanded := map[bool]int{}
	for w.steps = 20_000; w.steps < 400_000; w.steps += 10_000 {
		q, err := kinds.Live.PolicyRequestOf(w.tx(), e, p.Initiator)
		w.must(err)
		left := w.steps
		lacks, err := activity.CountVotes(w.tx(), p, &q, w.steps, &left)
		w.must(err)
		m, err := w.ask("get_mfa_status", object{"activityId": e.Activity.String()})
		w.must(err)
		if told := len(m["mfaStatuses"].([]any)); told != 3-len(q.Approvals) || (lacks != nil) != (told > 0) {
			t.Errorf("budget %d: %d approvals count, %d policies are told to be demanded", w.steps, len(q.Approvals), told)
		}
		demanded[lacks != nil]++
	}
	if len(demanded) != 2 {
		t.Errorf("always the same: %v", demanded)
	}
}

// evaluated is what evaluate_policies says of an activity that renames a wallet.
type evaluated struct{ outcome, status, basis, by string }

func (w *world) evaluate(more object) (evaluated, object) {
	w.t.Helper()
	request := object{}
	for name, v := range more {
		request[name] = v
	}
	if request["activityId"] == nil {
		request["activity"] = w.rename()
	}
	m := w.get("evaluate_policies", request)
	return evaluated{m["outcome"].(string), m["status"].(string), m["basis"].(string), m["initiatorId"].(string)}, m
}

func (w *world) rename() object {
	return object{"type": "ACTIVITY_TYPE_UPDATE_WALLET", "parameters": object{"walletId": id('W', 1).String(), "walletName": "x"}}
}

// An activity is evaluated as any user would submit it, with a policy that was not saved, and with a suggestion that allows it.
func TestEvaluateAsAnybodyWithADraft(t *testing.T) {
	w := newWorld(t)
	w.wallet(1, 1, 1)
	const completed, failed = "ACTIVITY_STATUS_COMPLETED", "ACTIVITY_STATUS_FAILED"
	root, third := id('U', 1).String(), id('U', 3).String()
	names := object{"policyName": "draft", "effect": "EFFECT_ALLOW"}
	draft := func(more object) object {
		p := object{}
		for _, m := range []object{names, more} {
			for name, v := range m {
				p[name] = v
			}
		}
		return p
	}
	for name, c := range map[string]struct {
		ask  object
		want evaluated
	}{
		"as oneself":            {nil, evaluated{"OUTCOME_ALLOW", completed, "BASIS_ROOT_QUORUM", root}},
		"as somebody":           {object{"userId": third}, evaluated{"OUTCOME_DENY_IMPLICIT", failed, "BASIS_NO_POLICY", third}},
		"with a draft":          {object{"userId": third, "policy": draft(object{"condition": "activity.params.wallet_id == '" + id('W', 1).String() + "'"})}, evaluated{"OUTCOME_ALLOW", completed, "BASIS_POLICIES", third}},
		"a draft for another":   {object{"userId": third, "policy": draft(object{"consensus": "approvers.any(u, u.id == '" + root + "')"})}, evaluated{"OUTCOME_DENY_IMPLICIT", failed, "BASIS_NO_POLICY", third}},
		"a draft for two":       {object{"userId": third, "policy": draft(object{"consensus": "approvers.count() == 2"})}, evaluated{"OUTCOME_REQUIRES_CONSENSUS", "ACTIVITY_STATUS_CONSENSUS_NEEDED", "BASIS_POLICIES", third}},
		"a draft that sleeps":   {object{"userId": third, "policy": draft(object{"time": "time.now > Timestamp('2100-01-01T00:00:00Z')"})}, evaluated{"OUTCOME_DENY_IMPLICIT", failed, "BASIS_NO_POLICY", third}},
		"a draft by credential": {object{"userId": third, "policy": draft(object{"consensus": "credentials.any(c, c.public_key == '02ab')"})}, evaluated{"OUTCOME_ALLOW", completed, "BASIS_POLICIES", third}},
	} {
		if got, m := w.evaluate(c.ask); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		} else if es := m["policyEvaluations"].([]any); c.ask["policy"] != nil && (len(es) != 1 || es[0].(object)["policyName"] != "draft") {
			t.Errorf("%s: %v", name, es)
		} else if _, has := m["suggestion"]; has {
			t.Errorf("%s: a suggestion that nobody asked for", name)
		}
	}

	// A draft with an id stands in the place of that policy alone.
	w.change(func(tx *org.Tx) {
		w.must(tx.PutPolicy(&org.Policy{ID: id('Q', 1), Name: "saved", Effect: "EFFECT_DENY", Condition: "activity.resource == 'WALLET'", CreatedMs: 1, UpdatedMs: 1}))
		w.must(tx.PutPolicy(&org.Policy{ID: id('Q', 2), Name: "all", Effect: "EFFECT_ALLOW", CreatedMs: 1, UpdatedMs: 1}))
	})
	denied := evaluated{"OUTCOME_DENY_EXPLICIT", failed, "BASIS_POLICIES", third}
	if got, m := w.evaluate(object{"userId": third, "includeSuggestion": true}); got != denied || m["suggestion"] != nil {
		t.Errorf("%v: no policy that allows can help against one that denies: %v", got, m["suggestion"])
	}
	for _, first := range []string{"EFFECT_ALLOW", "EFFECT_DENY"} { // whichever denies comes first
		w.change(func(tx *org.Tx) {
			w.must(tx.PutPolicy(&org.Policy{ID: id('Q', 0), Name: "first", Effect: first, Condition: "activity.resource == 'USER'", CreatedMs: 1, UpdatedMs: 1}))
		})
		if _, m := w.evaluate(object{"userId": third}); pick(m["policyEvaluations"], "policyName")[0] != "saved" {
			t.Errorf("%v", m)
		}
	}
	w.change(func(tx *org.Tx) { tx.DeletePolicy(id('Q', 0)) })
	if got, _ := w.evaluate(object{"userId": third, "policy": draft(object{"policyId": id('Q', 2).String()})}); got != denied {
		t.Errorf("another was replaced: %v", got)
	}
	got, m := w.evaluate(object{"userId": third, "policy": draft(object{"policyId": id('Q', 1).String(), "effect": "EFFECT_DENY", "condition": "activity.resource == 'USER'"})})
	if got.outcome != "OUTCOME_ALLOW" || strings.Join(pick(m["policyEvaluations"], "policyName"), " ") != "draft all" {
		t.Errorf("%v %v", got, m)
	}
	if again, _ := w.evaluate(object{"userId": third}); again != denied {
		t.Errorf("the draft has stayed: %v", again)
	}
}

// A suggestion allows what was refused and nothing else, also for an activity that was submitted before.
func TestEvaluateSuggests(t *testing.T) {
	w := newWorld(t)
	w.wallet(1, 1, 1)
	w.wallet(2, 1, 1)
	third := id('U', 3).String()
	body, err := json.Marshal(object{"type": "ACTIVITY_TYPE_UPDATE_WALLET", "timestampMs": "1000000", "organizationId": w.id.String(), "parameters": w.rename()["parameters"]})
	w.must(err)
	e := &org.Entry{Activity: id('A', 1), Type: "ACTIVITY_TYPE_UPDATE_WALLET", Status: org.StatusFailed, Body: body, Fingerprint: org.Hash{1}, Initiator: id('U', 3)}
	w.entries = []*org.Entry{e}
	got, m := w.evaluate(object{"activityId": e.Activity.String(), "includeSuggestion": true})
	if want := (evaluated{"OUTCOME_DENY_IMPLICIT", "ACTIVITY_STATUS_FAILED", "BASIS_NO_POLICY", third}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	s, _ := m["suggestion"].(object)
	if want := fmt.Sprint(object{"effect": "EFFECT_ALLOW", "consensus": "approvers.any(user, user.id == '" + third + "')",
		"condition": "activity.kind == 'UPDATE_WALLET' && activity.params.wallet_id == '" + id('W', 1).String() + "'"}); fmt.Sprint(s) != want {
		t.Fatalf("%v, want %v", s, want)
	}
	other := object{"type": "ACTIVITY_TYPE_UPDATE_WALLET", "parameters": object{"walletId": id('W', 2).String(), "walletName": "x"}}
	for name, c := range map[string]struct {
		ask  object
		want string
	}{
		"this":           {object{"activityId": e.Activity.String()}, "OUTCOME_ALLOW"},
		"another wallet": {object{"activity": other, "userId": third}, "OUTCOME_DENY_IMPLICIT"},
		"another user":   {object{"activityId": e.Activity.String(), "userId": id('U', 2).String()}, "OUTCOME_ALLOW"}, // of the root quorum
	} {
		c.ask["policy"] = s
		if m := w.get("evaluate_policies", c.ask); m["outcome"] != c.want {
			t.Errorf("%s: %v", name, m)
		}
	}
	for _, kind := range []object{
		{"type": "ACTIVITY_TYPE_UPDATE_USER_NAME", "parameters": object{"userId": id('U', 1).String(), "userName": "x"}},
		{"type": "ACTIVITY_TYPE_DELETE_POLICY", "parameters": object{"policyId": id('Q', 1).String()}},
	} {
		if m := w.get("evaluate_policies", object{"activity": kind, "userId": third, "includeSuggestion": true}); m["outcome"] != "OUTCOME_DENY_IMPLICIT" || m["suggestion"] != nil {
			t.Errorf("%v: %v", kind, m)
		}
	}
}

func TestEvaluateRefuses(t *testing.T) {
	w := newWorld(t)
	w.wallet(1, 1, 1)
	w.change(func(tx *org.Tx) {
		u, err := tx.User(id('U', 2))
		w.must(err)
		changed := *u
		changed.APIKeys = nil
		w.must(tx.PutUser(&changed))
	})
	w.entries = []*org.Entry{{Activity: id('A', 1), Type: "ACTIVITY_TYPE_APPROVE_ACTIVITY", Initiator: id('U', 1),
		Body: []byte(`{"type":"ACTIVITY_TYPE_APPROVE_ACTIVITY","timestampMs":"1","organizationId":"` + w.id.String() + `","parameters":{"fingerprint":"sha256:` + strings.Repeat("00", 32) + `"}}`)}}
	policyOf := func(more object) object {
		p := object{"effect": "EFFECT_ALLOW"}
		for name, v := range more {
			p[name] = v
		}
		return object{"activity": w.rename(), "policy": p}
	}
	for _, c := range []struct {
		ask  object
		code fault.Code
		says string
	}{
		{object{}, fault.InvalidArgument, "activity"},
		{object{"activity": w.rename(), "activityId": id('A', 1).String()}, fault.InvalidArgument, "activity"},
		{object{"activityId": "x"}, fault.InvalidArgument, "must be a UUID"},
		{object{"activityId": id('A', 2).String()}, fault.NotFound, "activity not found"},
		{object{"activityId": id('A', 1).String()}, fault.InvalidArgument, "votes"},
		{object{"activity": w.rename(), "userId": "x"}, fault.InvalidArgument, "must be a UUID"},
		{object{"activity": w.rename(), "userId": id('U', 9).String()}, fault.NotFound, "user not found"},
		{object{"activity": w.rename(), "userId": id('U', 2).String()}, fault.InvalidArgument, "no credential"},
		{policyOf(object{"effect": "EFFECT_MAYBE"}), fault.InvalidArgument, "effect"},
		{policyOf(object{"effect": nil}), fault.InvalidArgument, "effect"},
		{policyOf(object{"policyId": id('Q', 9).String()}), fault.NotFound, "policy not found"},
		{policyOf(object{"policyId": ""}), fault.InvalidArgument, "must be a UUID"},
		{policyOf(object{"condition": "eth.tx.valu == 1"}), fault.InvalidArgument, "valu at position 7"},
		{policyOf(object{"consensus": strings.Repeat("1 == 1 && ", 2000) + "true"}), fault.InvalidArgument, "16384 bytes"},
		{policyOf(object{"time": "true &&"}), fault.InvalidArgument, ""},
		{policyOf(object{"unheardOf": 1}), fault.InvalidArgument, "unheardOf"},
		{object{"activity": w.rename(), "includeSuggestion": "yes"}, fault.InvalidArgument, "includeSuggestion"},
	} {
		w.refused("evaluate_policies", c.ask, c.code, c.says)
	}
	parent := &org.Organization{ID: id('O', 9)}
	if _, err := w.askAs("evaluate_policies", object{"activity": w.rename()}, w.user, parent); code(err) != fault.InvalidArgument {
		t.Errorf("a parent's user: %v", err)
	}
}

// A draft and a suggestion share the steps of one request: they cannot take more than it may.
func TestEvaluateStaysWithinTheBudget(t *testing.T) {
	w := newWorld(t)
	w.wallet(1, 1, 1)
	list := "[" + strings.TrimSuffix(strings.Repeat("1, ", 60), ", ") + "]"
	dear := fmt.Sprintf("!%s.all(a, %[1]s.all(b, a == b))", list) // about 11,000 steps
	w.steps = 20_000
	ask := object{"activity": w.rename(), "userId": id('U', 3).String(), "includeSuggestion": true, "policy": object{"effect": "EFFECT_ALLOW", "condition": dear}}
	if m := w.get("evaluate_policies", ask); m["outcome"] != "OUTCOME_DENY_IMPLICIT" || m["suggestion"] != nil {
		t.Errorf("%v", m)
	}
	w.steps = 60_000
	if m := w.get("evaluate_policies", ask); m["suggestion"] == nil {
		t.Errorf("%v", m)
	}
}

// The users of a sub-organization learn of their parent's policies no more than that they refused, as the refusal says it.
func TestEvaluationsOfTheParentAreItsOwn(t *testing.T) {
	w := newWorld(t)
	own, foreign := id('Q', 1), id('Q', 7)
	evaluated := func(p org.ID) []org.Evaluation {
		return []org.Evaluation{{ID: id('E', 1), Asked: p[:], Verdicts: []byte{0x10}, Reasons: []org.Reason{{Values: []string{"wallet.label", "'of the parent'"}}}}}
	}
	w.change(func(tx *org.Tx) {
		w.must(tx.PutPolicy(&org.Policy{ID: own, Name: "own", Effect: "EFFECT_ALLOW", CreatedMs: 1, UpdatedMs: 1}))
		o, err := tx.Organization()
		w.must(err)
		child := *o
		child.Parent = id('O', 9)
		w.must(tx.PutOrganization(&child))
	})
	parent := &org.Organization{ID: id('O', 9)}
	for name, c := range map[string]struct {
		initiator, policy org.ID
		home              *org.Organization
		tells             bool
	}{
		"an own user's activity":            {id('U', 1), own, nil, true},
		"a deleted user's activity":         {id('U', 8), own, nil, true},
		"the parent's to an own user":       {id('U', 8), foreign, nil, false},
		"the parent's to the parent's user": {id('U', 8), foreign, parent, true},
	} {
		w.entries = []*org.Entry{{Activity: id('A', 1), Initiator: c.initiator, Outcome: "OUTCOME_DENY_IMPLICIT", Evaluations: evaluated(c.policy)}}
		m, err := w.askAs("get_policy_evaluations", object{"activityId": id('A', 1).String()}, w.user, c.home)
		w.must(err)
		text, err := json.Marshal(m)
		w.must(err)
		if told := strings.Contains(string(text), c.policy.String()) && strings.Contains(string(text), "of the parent"); told != c.tells || !strings.Contains(string(text), "OUTCOME_DENY_IMPLICIT") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
