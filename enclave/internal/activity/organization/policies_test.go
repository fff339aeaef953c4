package organization_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

func policyOf(w *world, id any) *org.Policy {
	w.TB.Helper()
	p, err := w.Tx().Policy(activitytest.MustID(id))
	w.Must(err)
	if p == nil {
		w.TB.Fatalf("no policy %v", id)
	}
	return p
}

func TestCreatePolicy(t *testing.T) {
	w := activitytest.New(t)
	id := w.Run("CREATE_POLICY_V3", activitytest.Rule("one", "effect", "EFFECT_DENY", "condition", "activity.action == 'SIGN'", "consensus", "approvers.count() > 1",
		"time", "time.now > Timestamp('2026-01-01T00:00:00Z')", "notes", "why"))["policyId"]
	p := policyOf(w, id)
	if p.Name != "one" || p.Effect != "EFFECT_DENY" || p.Condition != "activity.action == 'SIGN'" || p.Consensus != "approvers.count() > 1" ||
		p.Time != "time.now > Timestamp('2026-01-01T00:00:00Z')" || p.Notes != "why" || p.CreatedMs != activitytest.Start || p.UpdatedMs != activitytest.Start {
		t.Errorf("%+v", p)
	}
	c, err := activity.CompiledPolicy(p)
	w.Must(err)
	again, err := activity.CompiledPolicy(p)
	w.Must(err)
	if c.ID != p.ID || c.Name != "one" || c.Effect != policy.EffectDeny || c.Condition.Source() != p.Condition || c.Consensus.Source() != p.Consensus || c.Time.Source() != p.Time || c != again {
		t.Errorf("%+v", c)
	}
	bare := policyOf(w, w.Run("CREATE_POLICY_V3", activitytest.Rule("bare", "condition", "", "time", ""))["policyId"])
	c, err = activity.CompiledPolicy(bare)
	w.Must(err)
	if bare.Condition != "" || c.Effect != policy.EffectAllow || c.Condition != nil || c.Consensus != nil || c.Time != nil {
		t.Errorf("%+v %+v", bare, c)
	}
	if n := w.Organization().Policies; n != 2 {
		t.Errorf("%d policies counted", n)
	}
	// What no longer compiles is no refusal.
	if _, err := activity.CompiledPolicy(&org.Policy{Effect: "EFFECT_ALLOW", Condition: "no.such.thing"}); err == nil || fault.Of(err) != nil {
		t.Error(err)
	}
}

func TestSelectors(t *testing.T) {
	w := activitytest.New(t)
	selector := func(subject, operator string, targets ...string) object {
		return object{"subject": subject, "operator": "OPERATOR_" + operator, "targets": targets}
	}
	in := func(ss ...object) object {
		return object{"policyName": "old", "effect": "EFFECT_DENY", "selectors": ss, "notes": "n"}
	}
	p := policyOf(w, w.Run("CREATE_POLICY_V2", in(selector("activity.kind", "IN", "CREATE_WALLET", "CREATE_USERS"), selector("user.id", "EQUAL", w.Root)))["policyId"])
	if p.Condition != "activity.kind in ['CREATE_WALLET', 'CREATE_USERS']" || p.Consensus != "approvers.any(u, u.id == '"+w.Root+"')" || p.Effect != "EFFECT_DENY" || p.Notes != "n" {
		t.Errorf("%+v", p)
	}
	one := object{"policyName": "older", "effect": "EFFECT_ALLOW", "selectors": []any{object{"subject": "activity.action", "operator": "OPERATOR_EQUAL", "target": "SIGN"}}}
	if p := policyOf(w, w.Run("CREATE_POLICY", one)["policyId"]); p.Condition != "activity.action == 'SIGN'" || p.Consensus != "" || p.Notes != "" {
		t.Errorf("%+v", p)
	}
	bare := in()
	bare["selectors"] = []any{object{}}
	for _, c := range []struct {
		params object
		says   string
	}{
		{in(), "selectors"},
		{bare, "invalid policy condition"},
		{in(selector("", "EQUAL", "x")), "invalid policy condition"},
		{in(selector("no.such", "EQUAL", "x")), "invalid policy condition"},
		{in(selector("activity.kind", "LIKE", "x")), "operator"},
		{in(selector("activity.kind", "EQUAL")), "invalid policy condition"},
		{in(selector("activity.kind == 'x' || activity.kind", "EQUAL", "x")), "invalid policy condition"},
		{in(selector("activity.kind", "EQUAL", "x' || 'x' == 'x")), "invalid policy condition"},
	} {
		w.Refuse("CREATE_POLICY_V2", c.params, 3, c.says)
	}
	_, err := w.Try("CREATE_POLICY_V2", bare)
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "selectors" {
		t.Errorf("%+v", e)
	}
}

func TestCreatePolicyRefuses(t *testing.T) {
	w := activitytest.New(t)
	w.Run("CREATE_POLICY_V3", activitytest.Rule("taken"))
	for _, c := range []struct {
		params any
		says   string
	}{
		{activitytest.Rule("taken"), "policy label must be unique"},
		{activitytest.Rule(""), "missing field `policyName`"},
		{activitytest.Rule(" x"), "policyName"},
		{activitytest.Rule(strings.Repeat("x", 256)), "policyName"},
		{activitytest.Rule("x", "effect", "EFFECT_MAYBE"), "effect"},
		{activitytest.Without(activitytest.Rule("x"), "effect"), "missing field `effect`"},
		{activitytest.Without(activitytest.Rule("x"), "notes"), "missing field `notes`"},
		{activitytest.Rule("x", "notes", strings.Repeat("x", 4097)), "at most 4096 bytes"},
		{activitytest.Rule("x", "condition", "no.such.thing == 1"), "invalid policy condition"},
		{activitytest.Rule("x", "condition", "activity.type == \"x\""), "invalid policy condition"},
		{activitytest.Rule("x", "condition", "approvers.count() == 1"), "invalid policy condition"},
		{activitytest.Rule("x", "condition", "activity.type"), "invalid policy condition"},
		{activitytest.Rule("x", "condition", "1 +"), "invalid policy condition"},
		{activitytest.Rule("x", "consensus", "activity.type == 'x'"), "invalid policy consensus"},
		{activitytest.Rule("x", "consensus", "approvers.nobody"), "invalid policy consensus"},
		{activitytest.Rule("x", "time", "activity.type == 'x'"), "invalid policy time"},
		{activitytest.Rule("x", "time", "time.now > 1"), "invalid policy time"},
		{activitytest.Rule("x", "condition", strings.Repeat("!", 17<<10)+"true"), "invalid policy condition"},
		{activitytest.Rule("x", "subject", "y"), "unknown field"},
	} {
		w.Refuse("CREATE_POLICY_V3", c.params, 3, c.says)
	}
	_, err := w.Try("CREATE_POLICIES", object{"policies": []any{activitytest.Rule("x"), activitytest.Rule("y", "consensus", "1")}})
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "policies.1.consensus" {
		t.Errorf("%+v", e)
	}
	_, err = w.Try("UPDATE_POLICY_V2", object{"policyId": activitytest.SomeID, "policyCondition": "1"})
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "policyCondition" {
		t.Errorf("%+v", e)
	}
}

func TestCreatePolicies(t *testing.T) {
	w := activitytest.New(t)
	ids := activitytest.List(w.Run("CREATE_POLICIES", object{"policies": []any{activitytest.Rule("a"), activitytest.Rule("b", "condition", "true")}}), "policyIds")
	if len(ids) != 2 || policyOf(w, ids[0]).Name != "a" || policyOf(w, ids[1]).Condition != "true" {
		t.Error(ids)
	}
	if r := w.Run("CREATE_POLICIES", object{"policies": []any{}}); len(activitytest.List(r, "policyIds")) != 0 {
		t.Error(r)
	}
	w.Refuse("CREATE_POLICIES", object{"policies": []any{activitytest.Rule("c"), activitytest.Rule("a")}}, 3, "policy label must be unique")
	w.Refuse("CREATE_POLICIES", object{"policies": []any{activitytest.Rule("c"), activitytest.Rule("c")}}, 3, "policy label must be unique")
	if id, _ := w.Tx().IDByName(org.NamePolicy, "c"); !id.Zero() {
		t.Error("half a batch was kept")
	}
	var many []any
	for i := range 101 {
		many = append(many, activitytest.Rule(fmt.Sprint("many ", i)))
	}
	w.Refuse("CREATE_POLICIES", object{"policies": many}, 8, "at most 100 policies")
	w.Refuse("CREATE_POLICIES", object{"policies": many[:99]}, 8, "at most 100 policies")
	w.Run("CREATE_POLICIES", object{"policies": many[:98]})
	w.Refuse("CREATE_POLICY_V3", activitytest.Rule("last"), 8, "at most 100 policies")
	w.Run("DELETE_POLICY", object{"policyId": ids[0]})
	w.Run("CREATE_POLICY_V3", activitytest.Rule("last"))
}

func TestUpdatePolicy(t *testing.T) {
	w := activitytest.New(t)
	id := w.Run("CREATE_POLICY_V3", activitytest.Rule("one", "condition", "true", "consensus", "true", "time", "true", "notes", "n"))["policyId"]
	w.Run("CREATE_POLICY_V3", activitytest.Rule("two"))
	w.Now += 1000
	for _, c := range []struct {
		typ  string
		with object
		want org.Policy
	}{
		{"V2", object{}, org.Policy{Name: "one", Effect: "EFFECT_ALLOW", Condition: "true", Consensus: "true", Time: "true", Notes: "n"}},
		{"V2", object{"policyName": "", "policyCondition": nil}, org.Policy{Name: "one", Effect: "EFFECT_ALLOW", Condition: "true", Consensus: "true", Time: "true", Notes: "n"}},
		{"V2", object{"policyName": "three"}, org.Policy{Name: "three", Effect: "EFFECT_ALLOW", Condition: "true", Consensus: "true", Time: "true", Notes: "n"}},
		{"V2", object{"policyName": "three", "policyEffect": "EFFECT_DENY"}, org.Policy{Name: "three", Effect: "EFFECT_DENY", Condition: "true", Consensus: "true", Time: "true", Notes: "n"}},
		{"V2", object{"policyCondition": "false", "time": ""}, org.Policy{Name: "three", Effect: "EFFECT_DENY", Condition: "false", Consensus: "true", Notes: "n"}},
		{"", object{"policyConsensus": "false", "policyNotes": ""}, org.Policy{Name: "three", Effect: "EFFECT_DENY", Condition: "false", Consensus: "false"}},
		{"", object{"policyConsensus": "", "policyCondition": ""}, org.Policy{Name: "three", Effect: "EFFECT_DENY"}},
	} {
		c.with["policyId"] = id
		typ := strings.TrimSuffix("UPDATE_POLICY_"+c.typ, "_")
		if r := w.Run(typ, c.with); r["policyId"] != id {
			t.Error(r)
		}
		p := policyOf(w, id)
		c.want.ID, c.want.CreatedMs, c.want.UpdatedMs = p.ID, activitytest.Start, activitytest.Start+1000
		compiled, err := activity.CompiledPolicy(p)
		w.Must(err)
		if compiled.Name != c.want.Name || (compiled.Condition == nil) != (c.want.Condition == "") || (compiled.Consensus == nil) != (c.want.Consensus == "") ||
			(compiled.Time == nil) != (c.want.Time == "") || (compiled.Effect == policy.EffectDeny) != (c.want.Effect == "EFFECT_DENY") {
			t.Errorf("%v: %+v", c.with, compiled)
		}
		got := *p
		if got.Compiled = nil; got != c.want {
			t.Errorf("%v: %+v, want %+v", c.with, got, c.want)
		}
	}
	other := w.NewID().String()
	for _, c := range []struct {
		typ  string
		with object
		code fault.Code
		says string
	}{
		{"UPDATE_POLICY_V2", object{"policyId": id, "policyName": "two"}, 3, "policy label must be unique"},
		{"UPDATE_POLICY_V2", object{"policyId": other}, 5, "policy not found: " + other},
		{"UPDATE_POLICY_V2", object{"policyId": "x"}, 3, "policyId"},
		{"UPDATE_POLICY_V2", object{"policyId": id, "policyEffect": ""}, 3, "policyEffect"},
		{"UPDATE_POLICY_V2", object{"policyId": id, "policyName": " x"}, 3, "policyName"},
		{"UPDATE_POLICY_V2", object{"policyId": id, "policyCondition": "x"}, 3, "invalid policy condition"},
		{"UPDATE_POLICY_V2", object{"policyId": id, "policyConsensus": "x"}, 3, "invalid policy consensus"},
		{"UPDATE_POLICY_V2", object{"policyId": id, "time": "x"}, 3, "invalid policy time"},
		{"UPDATE_POLICY_V2", object{"policyId": id, "policyNotes": strings.Repeat("x", 4097)}, 3, "at most 4096"},
		{"UPDATE_POLICY", object{"policyId": id, "time": "true"}, 3, "unknown field"},
		{"UPDATE_POLICY", object{"policyId": id, "policyCondition": "1"}, 3, "invalid policy condition"},
	} {
		w.Refuse(c.typ, c.with, c.code, c.says)
	}
	w.Run("CREATE_POLICY_V3", activitytest.Rule("one")) // the old name is free again
}

func TestDeletePolicies(t *testing.T) {
	w := activitytest.New(t)
	ids := activitytest.List(w.Run("CREATE_POLICIES", object{"policies": []any{activitytest.Rule("a"), activitytest.Rule("b"), activitytest.Rule("c")}}), "policyIds")
	other := w.NewID().String()
	w.Refuse("DELETE_POLICY", object{"policyId": other}, 5, "policy not found: "+other)
	w.Refuse("DELETE_POLICY", object{"policyId": ""}, 3, "policyId")
	w.Refuse("DELETE_POLICIES", object{"policyIds": []any{}}, 3, "policyIds")
	w.Refuse("DELETE_POLICIES", object{"policyIds": []any{ids[0], other}}, 5, "policy not found: "+other)
	w.Refuse("DELETE_POLICIES", object{"policyIds": []any{ids[0], ids[0]}}, 3, "named twice")
	if r := w.Run("DELETE_POLICY", object{"policyId": ids[0]}); r["policyId"] != ids[0] {
		t.Error(r)
	}
	w.Refuse("DELETE_POLICY", object{"policyId": ids[0]}, 5, "policy not found")
	if got := activitytest.List(w.Run("DELETE_POLICIES", object{"policyIds": []any{ids[2], ids[1]}}), "policyIds"); len(got) != 2 || got[0] != ids[2] {
		t.Error(got)
	}
	if n := w.Organization().Policies; n != 0 {
		t.Errorf("%d policies left", n)
	}
	w.Run("CREATE_POLICY_V3", activitytest.Rule("a"))
}

// stricter are kinds that policies could be about, but never are.
var stricter = map[string]bool{"UPDATE_ALLOWED_ORIGINS": true}

// unruled are kinds that no policy can be about: votes, the history, and what only the root
// quorum of a top-level organization does.
var unruled = map[string]bool{"APPROVE_ACTIVITY": true, "REJECT_ACTIVITY": true, "CREATE_ORGANIZATION": true, "EXPORT_HISTORY": true}

func TestKindsAreThoseThatPoliciesKnow(t *testing.T) {
	known := map[string]policy.Kind{}
	for _, k := range policy.Kinds() {
		known[k.Name] = k
		if op := strings.ToLower(k.Name); !activity.KnownType("ACTIVITY_TYPE_"+k.Name) && activity.KnownOp(op) {
			t.Errorf("%s is no kind of the interface", k.Name)
		}
	}
	for typ, v := range kinds.Live {
		k := v.Kind
		want, ok := known[k.Name]
		if unruled[k.Name] {
			if ok || (!k.Vote && !k.RootQuorum) {
				t.Errorf("%s: policies can be about it", typ)
			}
			continue
		}
		got := policy.Kind{Name: k.Name, Resource: k.Resource, Action: k.Action, RootQuorum: k.RootQuorum && !stricter[k.Name]}
		if got != want {
			t.Errorf("%s: %+v, policies have %+v", typ, got, want)
		}
	}
}
