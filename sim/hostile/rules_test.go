package hostile_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// A scene is what an organization has come to know of who may do what, step by
// step, with what the host held before each step.
type scene struct {
	policy, revocation, removal, rejection, end change
	member, revoked, removed                    laptop.KeyPair
	pending, ended                              string // ids of activities
	vote                                        []byte // the member's approval of pending, before his rejection of it
}

// change is one step: what the host held before it, and where its entry stands.
type change struct {
	before wire.Organization
	seq    uint64
}

// scenes are by victim, made once for each field.
var (
	sceneMu sync.Mutex
	scenes  = map[*victim]*scene{}
)

// rules are attacks on what an organization has decided about who may do what.
var rules = []attack{
	{name: "roll back to before a deny policy", touches: "all of an organization", counter: "alarm_tip", off: []string{"tip"}, prepare: staged,
		strike: lied(back(func(s *scene) change { return s.policy }), forbidden)},
	{name: "omit a deny policy", touches: "entries behind the snapshot", counter: "alarm_sequence", behind: "each entry names the root before it", prepare: staged,
		strike: lied(without(func(s *scene) change { return s.policy }), forbidden)},
	{name: "roll back to before a revocation", touches: "all of an organization", counter: "alarm_tip", off: []string{"tip"}, prepare: staged,
		strike: lied(back(func(s *scene) change { return s.revocation }), by(func(s *scene) laptop.KeyPair { return s.revoked }))},
	{name: "omit a revocation", touches: "entries behind the snapshot", counter: "alarm_sequence", behind: "each entry names the root before it", prepare: staged,
		strike: lied(without(func(s *scene) change { return s.revocation }), by(func(s *scene) laptop.KeyPair { return s.revoked }))},
	{name: "roll back to before a user's deletion", touches: "all of an organization", counter: "alarm_tip", off: []string{"tip"}, prepare: staged,
		strike: lied(back(func(s *scene) change { return s.removal }), by(func(s *scene) laptop.KeyPair { return s.removed }))},
	{name: "omit a user's deletion", touches: "entries behind the snapshot", counter: "alarm_sequence", behind: "each entry names the root before it", prepare: staged,
		strike: lied(without(func(s *scene) change { return s.removal }), by(func(s *scene) laptop.KeyPair { return s.removed }))},
	{name: "roll a waiting activity back to before a rejection", touches: "all of an organization", counter: "alarm_tip", off: []string{"tip"}, prepare: staged,
		strike: lied(back(func(s *scene) change { return s.rejection }), waiting)},
	{name: "omit a rejection", touches: "entries behind the snapshot", counter: "alarm_sequence", behind: "each entry names the root before it", prepare: staged,
		strike: lied(without(func(s *scene) change { return s.rejection }), waiting)},
	{name: "show a waiting activity before a rejection", touches: "answer to a search", counter: "alarm_index", off: []string{"answer"}, prepare: staged,
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { *x.pick(p) = x.find(x.v, scenes[x.v].rejection.seq-1) }), waiting)},
	{name: "list a waiting activity before a rejection", touches: "page", counter: "alarm_index", off: []string{"answer"}, prepare: staged,
		strike: lied(proven(func(p *wire.Proven, x *spoiler) {
			p.Entries = []wire.ProvenEntry{x.find(x.v, scenes[x.v].rejection.seq-1)}
		}), consensus)},
	{name: "list a finished activity as it waited", touches: "page", counter: "alarm_index", off: []string{"answer"}, prepare: staged,
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { p.Entries = []wire.ProvenEntry{x.find(x.v, scenes[x.v].end.seq-1)} }), consensus)},
	{name: "show a finished activity as it waited", touches: "answer to a search", counter: "alarm_index", off: []string{"answer"}, prepare: staged,
		strike: lied(proven(func(p *wire.Proven, x *spoiler) { *x.pick(p) = x.find(x.v, scenes[x.v].end.seq-1) }), finished)},
	{name: "replay an old vote", touches: "request", behind: "a known body changes nothing", prepare: staged, strike: replayedVote},
}

// staged plays the scene in every organization of the field: a member, who may do
// everything by a policy, and what is taken from him and others.
func staged(f *field) {
	sceneMu.Lock()
	set := scenes[f.victims[0]] != nil
	sceneMu.Unlock()
	if set {
		return
	}
	f.each(func(v *victim) {
		s := &scene{member: must(laptop.NewKey()), revoked: must(laptop.NewKey()), removed: must(laptop.NewKey())}
		user := func(name string, key laptop.KeyPair) map[string]any {
			return map[string]any{"userName": name, "apiKeys": []any{map[string]any{"apiKeyName": "k", "publicKey": key.PublicKey, "curveType": "API_KEY_CURVE_P256"}},
				"authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}
		}
		made := f.submit(v, v.key, "create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", map[string]any{"users": []any{user("Member", s.member), user("Revoked", s.revoked), user("Removed", s.removed)}})
		ids := []string{}
		for i := range 3 {
			ids = append(ids, rig.Text(made.m, "activity", "result", "createUsersResult", "userIds", fmt.Sprint(i)))
		}
		rule := func(name, effect, consensus, condition string) {
			f.submit(v, v.key, "create_policy", "ACTIVITY_TYPE_CREATE_POLICY_V3", map[string]any{"policyName": name, "effect": effect, "consensus": consensus, "condition": condition, "notes": ""})
		}
		rule("Anybody", "EFFECT_ALLOW", "", "activity.kind == 'CREATE_WALLET'")
		rule("Two", "EFFECT_ALLOW", "approvers.count() >= 2", "activity.kind == 'CREATE_USER_TAG'")
		s.policy = f.step(v, func() {
			rule("Not the member", "EFFECT_DENY", "approvers.any(u, u.id == '"+ids[0]+"')", "activity.kind == 'CREATE_WALLET'")
		})
		key := rig.Text(f.served(func() answer { return f.query(v, "get_api_keys", map[string]any{"userId": ids[1]}) }).m, "apiKeys", "0", "apiKeyId")
		s.revocation = f.step(v, func() {
			f.submit(v, v.key, "delete_api_keys", "ACTIVITY_TYPE_DELETE_API_KEYS", map[string]any{"userId": ids[1], "apiKeyIds": []any{key}})
		})
		s.removal = f.step(v, func() {
			f.submit(v, v.key, "delete_users", "ACTIVITY_TYPE_DELETE_USERS", map[string]any{"userIds": []any{ids[2]}})
		})
		third := must(laptop.NewKey())
		f.submit(v, v.key, "create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", map[string]any{"users": []any{user("Third", third), user("Fourth", must(laptop.NewKey()))}})
		propose := func(name string) (id, print string) {
			a := f.submit(v, s.member, "create_user_tag", "ACTIVITY_TYPE_CREATE_USER_TAG", map[string]any{"userTagName": name, "userIds": []any{}})
			return rig.Text(a.m, "activity", "id"), rig.Text(a.m, "activity", "fingerprint")
		}
		say := func(key laptop.KeyPair, op, print string) {
			f.submit(v, key, op, typeOf(op), map[string]any{"fingerprint": print})
		}
		var print string
		s.ended, print = propose("Ended")
		s.end = f.step(v, func() { say(third, "approve_activity", print) })
		s.end.seq++ // behind the vote's own entry
		s.pending, print = propose("Waiting")
		s.rejection = f.step(v, func() { say(third, "reject_activity", print) })
		s.rejection.seq++
		s.vote = f.submitBody(v, "approve_activity", map[string]any{"fingerprint": print})
		f.served(func() answer { return f.ask(wire.EndpointSubmit, "approve_activity", s.vote, s.member, 0) })
		f.submit(v, v.key, "create_user_tag", "ACTIVITY_TYPE_CREATE_USER_TAG", map[string]any{"userTagName": "Later", "userIds": []any{}})
		sceneMu.Lock()
		scenes[v] = s
		sceneMu.Unlock()
	})
}

// submit submits by somebody what must be accepted.
func (f *field) submit(v *victim, key laptop.KeyPair, op, typ string, parameters map[string]any) answer {
	f.t.Helper()
	body := f.rig.BodyOf(v.id, typ, parameters)
	return f.served(func() answer { return f.ask(wire.EndpointSubmit, op, body, key, 0) })
}

// step runs do, which adds entries, and tells what stood before.
func (f *field) step(v *victim, do func()) change {
	t := change{before: must(f.store.Store.LoadOrganization(context.Background(), wire.LoadOrganization{Organization: v.wid, MaxBytes: 1 << 20}))}
	t.seq = t.before.Count
	do()
	return t
}

// back shows an organization as it was before a turn.
func back(which func(*scene) change) forger {
	return organization(func(o *wire.Organization, x *spoiler) { *o = which(scenes[x.v]).before })
}

// without leaves a turn's entry out.
func without(which func(*scene) change) forger {
	return organization(func(o *wire.Organization, x *spoiler) {
		i := int(which(scenes[x.v]).seq - o.From)
		o.Entries = slices.Delete(slices.Clone(o.Entries), i, i+1)
		o.Count--
	})
}

// forbidden asks whether the member may do what the deny policy keeps him from. It
// writes nothing: an entry decided on an old state would fence the enclave.
func forbidden(f *field, v *victim, _ *rand.Rand) func() answer {
	q := must(json.Marshal(map[string]any{"organizationId": v.id, "activity": map[string]any{"type": "ACTIVITY_TYPE_CREATE_WALLET",
		"parameters": map[string]any{"walletName": "Forbidden", "accounts": []any{}}}}))
	return func() answer { return f.ask(wire.EndpointQuery, "evaluate_policies", q, scenes[v].member, 0) }
}

// by asks for nothing but who one is, with a key that is nobody's any more.
func by(whose func(*scene) laptop.KeyPair) question {
	return func(f *field, v *victim, _ *rand.Rand) func() answer {
		return func() answer {
			return f.ask(wire.EndpointQuery, "whoami", fmt.Appendf(nil, `{"organizationId":%q}`, v.id), whose(scenes[v]), 0)
		}
	}
}

// waiting asks for the activity that waits.
func waiting(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer { return f.query(v, "get_activity", map[string]any{"activityId": scenes[v].pending}) }
}

// finished asks for one that has ended.
func finished(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer { return f.query(v, "get_activity", map[string]any{"activityId": scenes[v].ended}) }
}

// consensus asks for what waits.
func consensus(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer {
		return f.query(v, "list_activities", map[string]any{"filterByStatus": []string{"ACTIVITY_STATUS_CONSENSUS_NEEDED"}, "paginationOptions": map[string]any{"limit": "5"}})
	}
}

// replayedVote sends an approval once more, stamped as it was or anew: the
// activity waits as before, and nothing is added to the ledger.
func replayedVote(f *field, v *victim, r *rand.Rand) outcome {
	s := scenes[v]
	head := must(laptop.Stamp(s.member, s.vote))
	before := f.head(v)
	a := f.patiently(&wire.Call{Endpoint: wire.EndpointSubmit, Op: "approve_activity", Head: head, Body: s.vote})
	same := f.head(v) == before && rig.Text(a.m, "activity", "id") == s.pending && rig.Text(a.m, "activity", "status") == "ACTIVITY_STATUS_CONSENSUS_NEEDED"
	// The vote names the other activity by nothing that could be changed under the stamp.
	moved := []byte(string(s.vote))
	print := sha256.Sum256(moved)
	copy(moved[len(moved)-70:], fmt.Sprintf("%x", print[:4]))
	b := f.patiently(&wire.Call{Endpoint: wire.EndpointSubmit, Op: "approve_activity", Head: head, Body: moved})
	return judged(same && a.status == 200 && b.status == 401, f.head(v) != before, "%d %d %.200s", a.status, b.status, a.text)
}
