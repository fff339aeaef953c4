package activity_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

func rule(name string, more ...string) object {
	p := object{"policyName": name, "effect": "EFFECT_ALLOW", "notes": ""}
	for i := 0; i < len(more); i += 2 {
		p[more[i]] = more[i+1]
	}
	return p
}

func without(o object, member string) object {
	c := object{}
	for k, v := range o {
		if k != member {
			c[k] = v
		}
	}
	return c
}

func (w *world) policy(id any) *org.Policy {
	w.t.Helper()
	p, err := w.tx().Policy(mustID(id))
	w.must(err)
	if p == nil {
		w.t.Fatalf("no policy %v", id)
	}
	return p
}

func TestCreatePolicy(t *testing.T) {
	w := newWorld(t)
	id := w.run("CREATE_POLICY_V3", rule("one", "effect", "EFFECT_DENY", "condition", "activity.action == 'SIGN'", "consensus", "approvers.count() > 1",
		"time", "time.now > Timestamp('2026-01-01T00:00:00Z')", "notes", "why"))["policyId"]
	p := w.policy(id)
	if p.Name != "one" || p.Effect != "EFFECT_DENY" || p.Condition != "activity.action == 'SIGN'" || p.Consensus != "approvers.count() > 1" ||
		p.Time != "time.now > Timestamp('2026-01-01T00:00:00Z')" || p.Notes != "why" || p.CreatedMs != start || p.UpdatedMs != start {
		t.Errorf("%+v", p)
	}
	c, err := activity.CompiledPolicy(p)
	w.must(err)
	again, err := activity.CompiledPolicy(p)
	w.must(err)
	if c.ID != p.ID || c.Name != "one" || c.Effect != policy.EffectDeny || c.Condition.Source() != p.Condition || c.Consensus.Source() != p.Consensus || c.Time.Source() != p.Time || c != again {
		t.Errorf("%+v", c)
	}
	bare := w.policy(w.run("CREATE_POLICY_V3", rule("bare", "condition", "", "time", ""))["policyId"])
	c, err = activity.CompiledPolicy(bare)
	w.must(err)
	if bare.Condition != "" || c.Effect != policy.EffectAllow || c.Condition != nil || c.Consensus != nil || c.Time != nil {
		t.Errorf("%+v %+v", bare, c)
	}
	if n := mustOrganization(w).Policies; n != 2 {
		t.Errorf("%d policies counted", n)
	}
	// What no longer compiles is no refusal.
	if _, err := activity.CompiledPolicy(&org.Policy{Effect: "EFFECT_ALLOW", Condition: "no.such.thing"}); err == nil || fault.Of(err) != nil {
		t.Error(err)
	}
}

func TestSelectors(t *testing.T) {
	w := newWorld(t)
	selector := func(subject, operator string, targets ...string) object {
		return object{"subject": subject, "operator": "OPERATOR_" + operator, "targets": targets}
	}
	in := func(ss ...object) object {
		return object{"policyName": "old", "effect": "EFFECT_DENY", "selectors": ss, "notes": "n"}
	}
	p := w.policy(w.run("CREATE_POLICY_V2", in(selector("activity.kind", "IN", "CREATE_WALLET", "CREATE_USERS"), selector("user.id", "EQUAL", w.root)))["policyId"])
	if p.Condition != "activity.kind in ['CREATE_WALLET', 'CREATE_USERS']" || p.Consensus != "approvers.any(u, u.id == '"+w.root+"')" || p.Effect != "EFFECT_DENY" || p.Notes != "n" {
		t.Errorf("%+v", p)
	}
	one := object{"policyName": "older", "effect": "EFFECT_ALLOW", "selectors": []any{object{"subject": "activity.action", "operator": "OPERATOR_EQUAL", "target": "SIGN"}}}
	if p := w.policy(w.run("CREATE_POLICY", one)["policyId"]); p.Condition != "activity.action == 'SIGN'" || p.Consensus != "" || p.Notes != "" {
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
		w.refused("CREATE_POLICY_V2", c.params, 3, c.says)
	}
	_, err := w.try("CREATE_POLICY_V2", bare)
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "selectors" {
		t.Errorf("%+v", e)
	}
}

func TestCreatePolicyRefuses(t *testing.T) {
	w := newWorld(t)
	w.run("CREATE_POLICY_V3", rule("taken"))
	for _, c := range []struct {
		params any
		says   string
	}{
		{rule("taken"), "policy label must be unique"},
		{rule(""), "missing field `policyName`"},
		{rule(" x"), "policyName"},
		{rule(strings.Repeat("x", 256)), "policyName"},
		{rule("x", "effect", "EFFECT_MAYBE"), "effect"},
		{without(rule("x"), "effect"), "missing field `effect`"},
		{without(rule("x"), "notes"), "missing field `notes`"},
		{rule("x", "notes", strings.Repeat("x", 4097)), "at most 4096 bytes"},
		{rule("x", "condition", "no.such.thing == 1"), "invalid policy condition"},
		{rule("x", "condition", "activity.type == \"x\""), "invalid policy condition"},
		{rule("x", "condition", "approvers.count() == 1"), "invalid policy condition"},
		{rule("x", "condition", "activity.type"), "invalid policy condition"},
		{rule("x", "condition", "1 +"), "invalid policy condition"},
		{rule("x", "consensus", "activity.type == 'x'"), "invalid policy consensus"},
		{rule("x", "consensus", "approvers.nobody"), "invalid policy consensus"},
		{rule("x", "time", "activity.type == 'x'"), "invalid policy time"},
		{rule("x", "time", "time.now > 1"), "invalid policy time"},
		{rule("x", "condition", strings.Repeat("!", 17<<10)+"true"), "invalid policy condition"},
		{rule("x", "subject", "y"), "unknown field"},
	} {
		w.refused("CREATE_POLICY_V3", c.params, 3, c.says)
	}
	_, err := w.try("CREATE_POLICIES", object{"policies": []any{rule("x"), rule("y", "consensus", "1")}})
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "policies.1.consensus" {
		t.Errorf("%+v", e)
	}
	_, err = w.try("UPDATE_POLICY_V2", object{"policyId": someID, "policyCondition": "1"})
	if e := fault.Of(err); e == nil || len(e.Violations) != 1 || e.Violations[0].Field != "policyCondition" {
		t.Errorf("%+v", e)
	}
}

func TestCreatePolicies(t *testing.T) {
	w := newWorld(t)
	ids := list(w.run("CREATE_POLICIES", object{"policies": []any{rule("a"), rule("b", "condition", "true")}}), "policyIds")
	if len(ids) != 2 || w.policy(ids[0]).Name != "a" || w.policy(ids[1]).Condition != "true" {
		t.Error(ids)
	}
	if r := w.run("CREATE_POLICIES", object{"policies": []any{}}); len(list(r, "policyIds")) != 0 {
		t.Error(r)
	}
	w.refused("CREATE_POLICIES", object{"policies": []any{rule("c"), rule("a")}}, 3, "policy label must be unique")
	w.refused("CREATE_POLICIES", object{"policies": []any{rule("c"), rule("c")}}, 3, "policy label must be unique")
	if id, _ := w.tx().IDByName(org.NamePolicy, "c"); !id.Zero() {
		t.Error("half a batch was kept")
	}
	var many []any
	for i := range 101 {
		many = append(many, rule(fmt.Sprint("many ", i)))
	}
	w.refused("CREATE_POLICIES", object{"policies": many}, 8, "at most 100 policies")
	w.refused("CREATE_POLICIES", object{"policies": many[:99]}, 8, "at most 100 policies")
	w.run("CREATE_POLICIES", object{"policies": many[:98]})
	w.refused("CREATE_POLICY_V3", rule("last"), 8, "at most 100 policies")
	w.run("DELETE_POLICY", object{"policyId": ids[0]})
	w.run("CREATE_POLICY_V3", rule("last"))
}

func TestUpdatePolicy(t *testing.T) {
	w := newWorld(t)
	id := w.run("CREATE_POLICY_V3", rule("one", "condition", "true", "consensus", "true", "time", "true", "notes", "n"))["policyId"]
	w.run("CREATE_POLICY_V3", rule("two"))
	w.now += 1000
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
		if r := w.run(typ, c.with); r["policyId"] != id {
			t.Error(r)
		}
		p := w.policy(id)
		c.want.ID, c.want.CreatedMs, c.want.UpdatedMs = p.ID, start, start+1000
		compiled, err := activity.CompiledPolicy(p)
		w.must(err)
		if compiled.Name != c.want.Name || (compiled.Condition == nil) != (c.want.Condition == "") || (compiled.Consensus == nil) != (c.want.Consensus == "") ||
			(compiled.Time == nil) != (c.want.Time == "") || (compiled.Effect == policy.EffectDeny) != (c.want.Effect == "EFFECT_DENY") {
			t.Errorf("%v: %+v", c.with, compiled)
		}
		got := *p
		if got.Compiled = nil; got != c.want {
			t.Errorf("%v: %+v, want %+v", c.with, got, c.want)
		}
	}
	other := w.newID().String()
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
		w.refused(c.typ, c.with, c.code, c.says)
	}
	w.run("CREATE_POLICY_V3", rule("one")) // the old name is free again
}

func TestDeletePolicies(t *testing.T) {
	w := newWorld(t)
	ids := list(w.run("CREATE_POLICIES", object{"policies": []any{rule("a"), rule("b"), rule("c")}}), "policyIds")
	other := w.newID().String()
	w.refused("DELETE_POLICY", object{"policyId": other}, 5, "policy not found: "+other)
	w.refused("DELETE_POLICY", object{"policyId": ""}, 3, "policyId")
	w.refused("DELETE_POLICIES", object{"policyIds": []any{}}, 3, "policyIds")
	w.refused("DELETE_POLICIES", object{"policyIds": []any{ids[0], other}}, 5, "policy not found: "+other)
	w.refused("DELETE_POLICIES", object{"policyIds": []any{ids[0], ids[0]}}, 3, "named twice")
	if r := w.run("DELETE_POLICY", object{"policyId": ids[0]}); r["policyId"] != ids[0] {
		t.Error(r)
	}
	w.refused("DELETE_POLICY", object{"policyId": ids[0]}, 5, "policy not found")
	if got := list(w.run("DELETE_POLICIES", object{"policyIds": []any{ids[2], ids[1]}}), "policyIds"); len(got) != 2 || got[0] != ids[2] {
		t.Error(got)
	}
	if n := mustOrganization(w).Policies; n != 0 {
		t.Errorf("%d policies left", n)
	}
	w.run("CREATE_POLICY_V3", rule("a"))
}

// stricter are kinds that policies could be about, but never are.
var stricter = map[string]bool{"UPDATE_ALLOWED_ORIGINS": true}

// unruled are kinds that no policy can be about: votes, and what only the root
// quorum of a top-level organization does.
var unruled = map[string]bool{"APPROVE_ACTIVITY": true, "REJECT_ACTIVITY": true, "CREATE_ORGANIZATION": true}

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
