package hostile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
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
		s := &scene{member: client.NewKey(), revoked: client.NewKey(), removed: client.NewKey()}
		made := f.submit(&v.Client, "CREATE_USERS_V4", client.Users(
			client.NewUser("Member", s.member), client.NewUser("Revoked", s.revoked), client.NewUser("Removed", s.removed)))
		user := func(i string) string { return made.Text("activity", "result", "createUsersResult", "userIds", i) }
		rule := func(name, effect, consensus, condition string) {
			f.submit(&v.Client, "CREATE_POLICY_V3", client.Policy(name, effect, condition, consensus))
		}
		rule("Anybody", "ALLOW", "", "activity.kind == 'CREATE_WALLET'")
		rule("Two", "ALLOW", "approvers.count() >= 2", "activity.kind == 'CREATE_USER_TAG'")
		s.policy = f.step(v, func() {
			rule("Not the member", "DENY", "approvers.any(u, u.id == '"+user("0")+"')", "activity.kind == 'CREATE_WALLET'")
		})
		key := f.served(func() answer { return f.query(v, "get_api_keys", client.Object{"userId": user("1")}) }).Text("apiKeys", "0", "apiKeyId")
		s.revocation = f.step(v, func() {
			f.submit(&v.Client, "DELETE_API_KEYS", client.Object{"userId": user("1"), "apiKeyIds": []any{key}})
		})
		s.removal = f.step(v, func() { f.submit(&v.Client, "DELETE_USERS", client.Object{"userIds": []any{user("2")}}) })
		third := client.NewKey()
		f.submit(&v.Client, "CREATE_USERS_V4", client.Users(client.NewUser("Third", third), client.NewUser("Fourth", client.NewKey())))
		propose := func(name string) (id, print string) {
			a := f.submit(v.by(s.member), "CREATE_USER_TAG", client.Tag(name))
			return a.Text("activity", "id"), a.Text("activity", "fingerprint")
		}
		var print string
		s.ended, print = propose("Ended")
		s.end = f.step(v, func() { f.submit(v.by(third), "APPROVE_ACTIVITY", client.Object{"fingerprint": print}) })
		s.end.seq++ // behind the vote's own entry
		s.pending, print = propose("Waiting")
		s.rejection = f.step(v, func() { f.submit(v.by(third), "REJECT_ACTIVITY", client.Object{"fingerprint": print}) })
		s.rejection.seq++
		vote := call(v.by(s.member).Activity("APPROVE_ACTIVITY", client.Object{"fingerprint": print}))
		s.vote = vote.Body
		f.served(func() answer { return f.send(vote) })
		f.submit(&v.Client, "CREATE_USER_TAG", client.Tag("Later"))
		sceneMu.Lock()
		scenes[v] = s
		sceneMu.Unlock()
	})
}

// submit submits by somebody what must be accepted.
func (f *field) submit(by *client.Client, typ string, parameters client.Object) answer {
	f.t.Helper()
	c := call(by.Activity(typ, parameters))
	return f.served(func() answer { return f.send(c) })
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
	q := client.Object{"activity": client.Object{"type": "ACTIVITY_TYPE_CREATE_WALLET", "parameters": client.Wallet("Forbidden")}}
	return func() answer { return f.queryBy(v.by(scenes[v].member), "evaluate_policies", q) }
}

// by asks for nothing but who one is, with a key that is nobody's any more.
func by(whose func(*scene) laptop.KeyPair) question {
	return func(f *field, v *victim, _ *rand.Rand) func() answer {
		return func() answer { return f.queryBy(v.by(whose(scenes[v])), "whoami", nil) }
	}
}

// waiting asks for the activity that waits.
func waiting(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer { return f.query(v, "get_activity", client.Object{"activityId": scenes[v].pending}) }
}

// finished asks for one that has ended.
func finished(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer { return f.query(v, "get_activity", client.Object{"activityId": scenes[v].ended}) }
}

// consensus asks for what waits.
func consensus(f *field, v *victim, _ *rand.Rand) func() answer {
	return func() answer {
		return f.query(v, "list_activities",
			client.Object{"filterByStatus": []string{"ACTIVITY_STATUS_CONSENSUS_NEEDED"}, "paginationOptions": client.Object{"limit": "5"}})
	}
}

// replayedVote sends an approval once more, stamped as it was or anew: the
// activity waits as before, and nothing is added to the ledger.
func replayedVote(f *field, v *victim, r *rand.Rand) outcome {
	s := scenes[v]
	vote := call(v.by(s.member).Request(wire.EndpointSubmit, "approve_activity", s.vote))
	before := f.head(v)
	a := f.patiently(vote)
	same := f.head(v) == before && a.Text("activity", "id") == s.pending && a.State() == "CONSENSUS_NEEDED"
	// The vote names the other activity by nothing that could be changed under the stamp.
	moved := *vote
	moved.Body = bytes.Clone(vote.Body)
	print := sha256.Sum256(moved.Body)
	copy(moved.Body[len(moved.Body)-70:], fmt.Sprintf("%x", print[:4]))
	b := f.patiently(&moved)
	return judged(same && a.Status == 200 && b.Status == 401, f.head(v) != before, "%d %.200s", b.Status, a)
}
