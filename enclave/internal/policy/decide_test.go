package policy_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

// A user is a letter; his id is that letter and zeros, his name the letter. Tags
// are digits.
func letterID(c rune) string { return fmt.Sprintf("%02x000000-0000-0000-0000-000000000000", c) }

// staff makes users of letters, with their tags behind them: "a1 b12 c". A letter
// with a minus has no credential.
func staff(of string) (out []policy.User) {
	for _, word := range strings.Fields(of) {
		u := policy.User{ID: ids(word[:1])[0], Name: word[:1], Email: word[:1] + "@example.com"}
		for _, tag := range strings.Trim(word[1:], "-") {
			u.Tags = append(u.Tags, [16]byte{byte(tag)})
		}
		if !strings.HasSuffix(word, "-") {
			u.Credentials = []policy.Credential{{ID: [16]byte{1, u.ID[0]}, User: u.ID, Type: "CREDENTIAL_TYPE_API_KEY_P256", PublicKey: fmt.Sprintf("02%02x", word[0])}}
		}
		out = append(out, u)
	}
	return out
}

// rule makes a policy: "ALLOW consensus ; condition ; time".
func rule(t testing.TB, i int, s string) *policy.Policy {
	t.Helper()
	effect, rest, _ := strings.Cut(s, " ")
	parts := append(strings.Split(rest, ";"), "", "", "")
	p := &policy.Policy{ID: [16]byte{byte(i >> 8), byte(i)}, Name: fmt.Sprint(i), Effect: policy.EffectAllow}
	switch effect {
	case "DENY":
		p.Effect = policy.EffectDeny
	case "OTHER":
		p.Effect = 0
	}
	p.Consensus = compile(t, consensus, strings.TrimSpace(expand(parts[0])))
	p.Condition = compile(t, condition, strings.TrimSpace(expand(parts[1])))
	p.Time = compile(t, timeOf, strings.TrimSpace(expand(parts[2])))
	return p
}

// expand writes $a for "a approves" and #1>=2 for "two with tag 1 approve".
func expand(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$':
			i++
			fmt.Fprintf(&b, "approvers.any(u, u.id == '%s')", letterID(rune(s[i])))
		case s[i] == '#':
			i++
			fmt.Fprintf(&b, "approvers.filter(u, u.tags.contains('%s')).count()", letterID(rune(s[i])))
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// scene is a decision in few words.
type scene struct {
	users, root string
	threshold   uint32
	approve     string
	reject      string
	policies    []string
	change      func(*policy.Request)
}

func (s scene) question(t testing.TB) (policy.State, policy.Request) {
	users := staff(s.users)
	state := policy.State{RootUsers: ids(s.root), Threshold: s.threshold, Users: func() ([]policy.User, error) { return users, nil }}
	state.Policies = func() (*policy.Set, error) {
		var out []*policy.Policy
		for i, p := range s.policies {
			out = append(out, rule(t, i, p))
		}
		return policy.NewSet(out), nil
	}
	r := policy.Request{Organization: [16]byte{1}, Activity: [16]byte{2}, Type: "ACTIVITY_TYPE_CREATE_WALLET", Kind: "CREATE_WALLET", Resource: "WALLET", Action: "CREATE",
		NowMs: 1773144000000, Rejections: ids(s.reject), Facts: policy.Facts{"wallet": policy.Struct(policy.Member{Name: "id", Value: policy.String("w")})}}
	for _, id := range ids(s.approve) {
		a := policy.Approval{User: id}
		if i := slices.IndexFunc(users, func(u policy.User) bool { return u.ID == id }); i >= 0 {
			a.Credentials = users[i].Credentials
		}
		r.Approvals = append(r.Approvals, a)
	}
	if s.change != nil {
		s.change(&r)
	}
	return state, r
}

func TestDecide(t *testing.T) {
	const allow, deny, implicit, wait = policy.Allow, policy.DenyExplicit, policy.DenyImplicit, policy.RequiresConsensus
	self := func(r *policy.Request) { r.SelfService = true }
	foreign := func(r *policy.Request) { r.AboutAnother = true }
	rootOnly := func(r *policy.Request) { r.RootQuorum = true }
	by := func(initiator string) func(*policy.Request) {
		return func(r *policy.Request) { r.Initiator = ids(initiator)[0] }
	}
	scope := func(source string) func(*policy.Request) {
		return func(r *policy.Request) { r.Scope = compile(t, condition, source) }
	}
	const never = "; ; time.now < Timestamp('2000-01-01T00:00:00Z')"
	for _, c := range []struct {
		name string
		scene
		want  policy.Outcome
		basis policy.Basis
		each  string // outcomes of the policies: a d i w e t
	}{
		// The order of the rules.
		{"nothing allows", scene{users: "a b r", root: "r", threshold: 1, approve: "a"}, implicit, policy.BasisNoPolicy, ""},
		{"nobody asks", scene{users: "a r", root: "r", threshold: 1, policies: []string{"ALLOW"}}, implicit, policy.BasisNobody, ""},
		{"the initiator took it back", scene{users: "a r", root: "r", threshold: 1, approve: "ar", reject: "a", policies: []string{"ALLOW"}}, implicit, policy.BasisNobody, ""},
		{"a policy for all", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW"}}, allow, policy.BasisPolicies, "a"},
		{"somebody who is no user", scene{users: "a r", root: "r", threshold: 1, approve: "x", policies: []string{"ALLOW"}}, implicit, policy.BasisNobody, ""},
		{"somebody who is no user, and others", scene{users: "a r", root: "r", threshold: 1, approve: "xa", policies: []string{"ALLOW"}}, implicit, policy.BasisNobody, ""},
		{"an effect that nobody knows", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW", "OTHER"}}, deny, policy.BasisPolicies, "ad"},
		{"scope before the root quorum", scene{users: "r", root: "r", threshold: 1, approve: "r", change: scope("activity.action == 'SIGN'")}, implicit, policy.BasisScope, ""},
		{"a scope that is an error", scene{users: "r", root: "r", threshold: 1, approve: "r", change: scope("eth.tx.value == 1 || true")}, implicit, policy.BasisScope, ""},
		{"a scope that holds", scene{users: "r", root: "r", threshold: 1, approve: "r", change: scope("activity.action == 'CREATE'")}, allow, policy.BasisRootQuorum, ""},
		{"somebody else's, by root", scene{users: "r", root: "r", threshold: 1, approve: "r", change: foreign}, implicit, policy.BasisAboutAnother, ""},
		{"somebody else's, by policy", scene{users: "a r", root: "r", threshold: 1, approve: "a", change: foreign, policies: []string{"ALLOW"}}, implicit, policy.BasisAboutAnother, ""},
		{"root over a deny", scene{users: "r", root: "r", threshold: 1, approve: "r", policies: []string{"DENY"}}, allow, policy.BasisRootQuorum, ""},
		{"for the root quorum alone", scene{users: "a r", root: "r", threshold: 1, approve: "a", change: rootOnly, policies: []string{"ALLOW"}}, implicit, policy.BasisRootQuorum, ""},
		{"for the root quorum alone, by a part of it", scene{users: "q r", root: "qr", threshold: 2, approve: "q", change: rootOnly, policies: []string{"ALLOW"}}, wait, policy.BasisRootQuorum, ""},
		{"for the root quorum alone, which is out of reach", scene{users: "q r", root: "qr", threshold: 2, approve: "q", reject: "r", change: rootOnly}, implicit, policy.BasisRootQuorum, ""},
		{"for the root quorum alone, begun by another", scene{users: "a q r", root: "qr", threshold: 2, approve: "aq", change: rootOnly}, implicit, policy.BasisRootQuorum, ""},

		// Policies.
		{"deny beats allow", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW", "DENY $a"}}, deny, policy.BasisPolicies, "ad"},
		{"deny for another", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW", "DENY $b"}}, allow, policy.BasisPolicies, "ai"},
		{"a deny that is an error", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW", "DENY ; eth.tx.value > 0"}}, allow, policy.BasisPolicies, "ae"},
		{"an allow that is an error", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW ; eth.tx.value > 0 || true"}}, implicit, policy.BasisNoPolicy, "e"},
		{"an error in a consensus that does not matter", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW approvers[7].id == ''; false"}}, implicit, policy.BasisNoPolicy, "e"},
		{"not the time", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW " + never, "DENY " + never}}, implicit, policy.BasisNoPolicy, "tt"},
		{"not the time, nor readable", scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW ; eth.tx.value > 0" + never[1:]}}, implicit, policy.BasisNoPolicy, "t"},
		{"a part of root by policy", scene{users: "q r", root: "qr", threshold: 2, approve: "q", policies: []string{"ALLOW $q"}}, allow, policy.BasisPolicies, "a"},
		{"a part of root against a deny", scene{users: "q r", root: "qr", threshold: 2, approve: "q", policies: []string{"DENY"}}, wait, policy.BasisPolicies, "d"},
		{"a part of root against a deny, out of reach", scene{users: "q r", root: "qr", threshold: 2, approve: "q", reject: "r", policies: []string{"DENY"}}, deny, policy.BasisPolicies, "d"},
		{"another against a deny", scene{users: "a q r", root: "qr", threshold: 2, approve: "aq", policies: []string{"DENY"}}, deny, policy.BasisPolicies, "d"},
		{"a part of root", scene{users: "q r", root: "qr", threshold: 2, approve: "q"}, wait, policy.BasisNoPolicy, ""},
		{"a part of root, the rest without credentials", scene{users: "q r-", root: "qr", threshold: 2, approve: "q"}, implicit, policy.BasisNoPolicy, ""},
		{"a part of root, the rest gone", scene{users: "q", root: "qr", threshold: 2, approve: "q"}, implicit, policy.BasisNoPolicy, ""},
		{"a root vote that was taken back", scene{users: "q r s", root: "qrs", threshold: 2, approve: "qr", reject: "r"}, wait, policy.BasisNoPolicy, ""},
		{"a root vote that was taken back, no other left", scene{users: "q r s", root: "qrs", threshold: 2, approve: "qr", reject: "rs"}, implicit, policy.BasisNoPolicy, ""},
		{"one root member of three is enough to wait for", scene{users: "q r s", root: "qrs", threshold: 2, approve: "q", reject: "r"}, wait, policy.BasisNoPolicy, ""},

		// The initiator's approval has lapsed, and perhaps every other.
		{"lapsed, a policy for all", scene{users: "a r", root: "r", threshold: 1, change: by("a"), policies: []string{"ALLOW"}}, wait, policy.BasisPolicies, "w"},
		{"lapsed, a consensus of nobody", scene{users: "a r", root: "r", threshold: 1, change: by("a"), policies: []string{"ALLOW approvers.count() == 0"}}, wait, policy.BasisPolicies, "w"},
		{"lapsed, denied", scene{users: "a r", root: "r", threshold: 1, change: by("a"), policies: []string{"ALLOW", "DENY"}}, deny, policy.BasisPolicies, "wd"},
		{"lapsed, one of two is back", scene{users: "a b r", root: "r", threshold: 1, approve: "b", change: by("a"), policies: []string{"ALLOW $a && $b"}}, wait, policy.BasisPolicies, "w"},
		{"lapsed, without a credential now", scene{users: "a- b r", root: "r", threshold: 1, approve: "b", change: by("a"), policies: []string{"ALLOW $a && $b"}}, implicit, policy.BasisNoPolicy, "i"},
		{"lapsed, another is enough", scene{users: "a b r", root: "r", threshold: 1, approve: "b", change: by("a"), policies: []string{"ALLOW $b"}}, allow, policy.BasisPolicies, "a"},
		{"lapsed, nothing allows", scene{users: "a r", root: "r", threshold: 1, change: by("a")}, implicit, policy.BasisNoPolicy, ""},
		{"lapsed, oneself", scene{users: "a r", root: "r", threshold: 1, change: func(r *policy.Request) { by("a")(r); self(r) }}, wait, policy.BasisSelfService, ""},
		{"lapsed, the quorum without him", scene{users: "q r s", root: "qrs", threshold: 2, approve: "rs", change: by("q")}, allow, policy.BasisRootQuorum, ""},
		{"lapsed, a part of root", scene{users: "q r", root: "qr", threshold: 2, approve: "r", change: by("q")}, wait, policy.BasisNoPolicy, ""},
		{"lapsed and gone", scene{users: "b r", root: "r", threshold: 1, approve: "b", change: by("a"), policies: []string{"ALLOW"}}, implicit, policy.BasisNobody, ""},
		{"lapsed and taken back", scene{users: "a b r", root: "r", threshold: 1, approve: "b", reject: "a", change: by("a"), policies: []string{"ALLOW"}}, implicit, policy.BasisNobody, ""},

		// Self-service.
		{"oneself", scene{users: "a r", root: "r", threshold: 1, approve: "a", change: self}, allow, policy.BasisSelfService, ""},
		{"oneself, others allowed", scene{users: "a b r", root: "r", threshold: 1, approve: "a", change: self, policies: []string{"ALLOW $b"}}, allow, policy.BasisSelfService, "i"},
		{"oneself, a condition speaks", scene{users: "a b r", root: "r", threshold: 1, approve: "a", change: self, policies: []string{"ALLOW $b; true"}}, implicit, policy.BasisNoPolicy, "i"},
		{"oneself, a condition that is false", scene{users: "a b r", root: "r", threshold: 1, approve: "a", change: self, policies: []string{"ALLOW $b; false"}}, allow, policy.BasisSelfService, "i"},
		{"oneself, a condition that is an error", scene{users: "a b r", root: "r", threshold: 1, approve: "a", change: self, policies: []string{"ALLOW $b; eth.tx.value == 0"}}, allow, policy.BasisSelfService, "e"},
		{"oneself, a deny for another", scene{users: "a b r", root: "r", threshold: 1, approve: "a", change: self, policies: []string{"DENY $b; true"}}, implicit, policy.BasisNoPolicy, "i"},
		{"oneself, at another time", scene{users: "a b r", root: "r", threshold: 1, approve: "a", change: self, policies: []string{"ALLOW $b; true; time.now < Timestamp('2000-01-01T00:00:00Z')"}}, allow, policy.BasisSelfService, "t"},
		{"oneself, more are waited for", scene{users: "a b r", root: "r", threshold: 1, approve: "a", change: self, policies: []string{"ALLOW $a && $b"}}, wait, policy.BasisPolicies, "w"},

		// Reachability.
		{"two needed", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW approvers.count() >= 2"}}, wait, policy.BasisPolicies, "w"},
		{"two needed and there", scene{users: "a b r", root: "r", threshold: 1, approve: "ab", policies: []string{"ALLOW approvers.count() >= 2"}}, allow, policy.BasisPolicies, "a"},
		{"two named", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b"}}, wait, policy.BasisPolicies, "w"},
		{"two others named", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $b && $c"}}, implicit, policy.BasisNoPolicy, "i"},
		{"one who rejected", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", reject: "b", policies: []string{"ALLOW $a && $b"}}, implicit, policy.BasisNoPolicy, "i"},
		{"one without a credential", scene{users: "a b- c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b"}}, implicit, policy.BasisNoPolicy, "i"},
		{"one who is gone", scene{users: "a c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b"}}, implicit, policy.BasisNoPolicy, "i"},
		{"an approval taken back", scene{users: "a b c r", root: "r", threshold: 1, approve: "ab", reject: "b", policies: []string{"ALLOW $a && $b"}}, implicit, policy.BasisNoPolicy, "i"},
		{"a pair", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b && $c"}}, wait, policy.BasisPolicies, "w"},
		{"all others", scene{users: "a b c d r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b && $c && $d"}}, wait, policy.BasisPolicies, "w"},
		{"all others but one", scene{users: "a b c d r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b && $c && $d && !$r"}}, implicit, policy.BasisNoPolicy, "i"},
		{"a tag the initiator has", scene{users: "a1 b1 c1 r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW #1 >= 3"}}, wait, policy.BasisPolicies, "w"},
		{"a tag the initiator has not", scene{users: "a b1 c1 r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW #1 >= 2"}}, implicit, policy.BasisNoPolicy, "i"},
		{"too few with the tag", scene{users: "a1 b1 c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW #1 >= 3"}}, implicit, policy.BasisNoPolicy, "i"},
		{"exactly two", scene{users: "a b c d r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW approvers.count() == 2"}}, wait, policy.BasisPolicies, "w"},
		{"two of the same tag and one of another", scene{users: "a1 b1 c2 d2 r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW #1 >= 2 && #2 >= 2"}}, wait, policy.BasisPolicies, "w"},
		{"by place", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW approvers.count() == 2 && approvers[0].alias == 'a'"}}, wait, policy.BasisPolicies, "w"},
		{"by place, an error so far", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW approvers[1].alias == 'c'"}}, implicit, policy.BasisNoPolicy, "e"},
		{"a user with his credential", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW approvers.all(u, credentials.any(c, c.user_id == u.id)) && approvers.count() == 3"}}, wait, policy.BasisPolicies, "w"},
		{"a key of another", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW credentials.any(c, c.public_key == '0263') && $a"}}, wait, policy.BasisPolicies, "w"},
		{"a key of another alone", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW credentials.any(c, c.public_key == '0263')"}}, implicit, policy.BasisNoPolicy, "i"},
		{"the initiator is not needed", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $b || $a && false"}}, implicit, policy.BasisNoPolicy, "i"},
		{"others who approved do not make him needed", scene{users: "a b c r", root: "r", threshold: 1, approve: "ab", policies: []string{"ALLOW $b && $c"}}, implicit, policy.BasisNoPolicy, "i"},
		{"a condition that is false needs nobody", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b; false"}}, implicit, policy.BasisNoPolicy, "i"},
		{"a deny waits for nobody", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW", "DENY $a && $b"}}, allow, policy.BasisPolicies, "ai"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := c.question(t)
			d, err := policy.Decide(s, r)
			if err != nil {
				t.Fatal(err)
			}
			letters := map[policy.Outcome]byte{allow: 'a', deny: 'd', implicit: 'i', wait: 'w', policy.Error: 'e', policy.TimeInactive: 't'}
			var each []byte
			for i, e := range d.Evaluations.Each() {
				each = append(each, letters[e.Outcome])
				if e.Name != fmt.Sprint(i) || e.Policy[1] != byte(i) {
					t.Errorf("evaluation %d is of policy %s", i, e.Name)
				}
			}
			if d.Outcome != c.want || d.Basis != c.basis || string(each) != c.each || (d.Grant != nil) != (c.want == allow) {
				t.Errorf("%s, basis %d, %q; want %s, %d, %q", d.Outcome, d.Basis, each, c.want, c.basis, c.each)
			}
		})
	}
}

func TestMayVote(t *testing.T) {
	rootOnly := func(r *policy.Request) { r.RootQuorum = true }
	for _, c := range []struct {
		name string
		scene
		may string // of all users
	}{
		{"root and the initiator", scene{users: "a b r", root: "r", threshold: 1, approve: "a"}, "ar"},
		{"root only", scene{users: "a q r", root: "qr", threshold: 2, approve: "q", change: rootOnly, policies: []string{"ALLOW $a"}}, "qr"},
		{"named", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b"}}, "abr"},
		{"alone enough", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $b"}}, "abr"},
		{"with others to come", scene{users: "a b c d r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b && $c && $d"}}, "abcdr"},
		{"by tag", scene{users: "a1 b1 c1 d e2 r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW #1 >= 2"}}, "abcr"},
		{"by number", scene{users: "a b c- r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW approvers.count() >= 2"}}, "abr"},
		{"without a consensus nobody is needed", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW ; true"}}, "ar"},
		{"the condition is false", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b; false"}}, "ar"},
		{"the condition is an error", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b; eth.tx.value == 0"}}, "ar"},
		{"not the time", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW $a && $b; ; time.now < Timestamp('2000-01-01T00:00:00Z')"}}, "ar"},
		{"a deny gives no vote", scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"DENY $a && $b"}}, "ar"},
		{"who has voted may still", scene{users: "a b c r", root: "r", threshold: 1, approve: "ab", reject: "c", policies: []string{"ALLOW $a && $b && $c"}}, "acr"},
		{"who waits for one that rejected", scene{users: "a b c r", root: "r", threshold: 1, approve: "a", reject: "c", policies: []string{"ALLOW $a && $b && $c"}}, "acr"},
		{"nobody asks", scene{users: "a r", root: "r", threshold: 1, policies: []string{"ALLOW $a"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := c.question(t)
			var may []byte
			for _, u := range staff(c.users + " z") {
				yes, err := policy.MayVote(s, r, u.ID)
				if err != nil {
					t.Fatal(err)
				}
				if yes {
					may = append(may, u.ID[0])
				}
			}
			if string(may) != c.may {
				t.Errorf("%q may vote, want %q", may, c.may)
			}
		})
	}
}

// Errors of the state are handed up as they are; what the root quorum decides
// asks for nothing.
func TestErrorsOfState(t *testing.T) {
	gone := errors.New("gone")
	none := func() ([]policy.User, error) { return nil, gone }
	s := policy.State{RootUsers: ids("r"), Threshold: 1, Users: none, Policies: func() (*policy.Set, error) { return nil, gone }}
	by := func(u string) policy.Request { return policy.Request{Approvals: []policy.Approval{{User: ids(u)[0]}}} }
	if d, err := policy.Decide(s, by("r")); err != nil || d.Outcome != policy.Allow {
		t.Error(d.Outcome, err)
	}
	if d, err := policy.Decide(s, by("a")); err != gone || d.Grant != nil || d.Outcome != policy.DenyImplicit {
		t.Error(d.Outcome, err)
	}
	if _, err := policy.MayVote(s, by("a"), ids("b")[0]); err != gone {
		t.Error(err)
	}
	s.Users = func() ([]policy.User, error) { return staff("a"), nil }
	if d, err := policy.Decide(s, by("a")); err != gone || d.Grant != nil {
		t.Error(err)
	}
}

// The root quorum's decision makes a Grant and nothing else.
func TestRootQuorumIsCheap(t *testing.T) {
	s := policy.State{RootUsers: ids("qr"), Threshold: 2}
	r := policy.Request{Approvals: []policy.Approval{{User: ids("q")[0]}, {User: ids("r")[0]}}}
	if n := testing.AllocsPerRun(100, func() { policy.Decide(s, r) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// Policies that take too many steps together allow nothing, wherever the one that
// would allow stands; the root quorum may still be waited for.
func TestTooManySteps(t *testing.T) {
	slow := "[" + strings.TrimSuffix(strings.Repeat("'0',", 40), ",") + "]"
	slow = fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a != 'x'))))", slow)
	all := []string{"ALLOW"}
	for range 20 {
		all = append(all, "ALLOW ; "+slow)
	}
	for _, where := range []int{0, 20} {
		policies := slices.Concat(all[1:where+1], all[:1], all[where+1:])
		s, r := scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: policies}.question(t)
		if d, err := policy.Decide(s, r); err != nil || d.Outcome != policy.DenyImplicit || d.Basis != policy.BasisSteps {
			t.Errorf("%s, basis %d, %v", d.Outcome, d.Basis, err)
		}
	}
	s, r := scene{users: "q r", root: "qr", threshold: 2, approve: "q", policies: all}.question(t)
	if d, err := policy.Decide(s, r); err != nil || d.Outcome != policy.RequiresConsensus || d.Basis != policy.BasisSteps {
		t.Errorf("%s, basis %d, %v", d.Outcome, d.Basis, err)
	}
}

// reachable is the rule of reachability word by word: every single other, every
// pair and all others, nobody spared.
func reachable(t testing.TB, p *policy.Policy, users []policy.User, initiator int) bool {
	holds := func(set []policy.User) bool {
		if len(set) == 0 {
			return false
		}
		r := policy.Request{}
		for _, u := range set {
			r.Approvals = append(r.Approvals, policy.Approval{User: u.ID, Credentials: u.Credentials})
		}
		d, err := policy.Decide(policy.State{Users: func() ([]policy.User, error) { return set, nil }, Policies: func() (*policy.Set, error) { return policy.NewSet([]*policy.Policy{p}), nil }}, r)
		if err != nil {
			t.Fatal(err)
		}
		return d.Outcome == policy.Allow
	}
	try := func(others ...policy.User) bool {
		set := append([]policy.User{users[initiator]}, others...)
		if !holds(set) {
			return false
		}
		for i := 1; i < len(set); {
			if less := slices.Delete(slices.Clone(set), i, i+1); holds(less) {
				set = less
			} else {
				i++
			}
		}
		return !holds(set[1:])
	}
	others := slices.Delete(slices.Clone(users), initiator, initiator+1)
	for i, a := range others {
		if try(a) {
			return true
		}
		for _, b := range others[i+1:] {
			if try(a, b) {
				return true
			}
		}
	}
	return len(others) > 2 && try(others...)
}

// Users whom an expression cannot tell apart are tried once; that must not show.
func TestReachabilityAgainstItsWords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	atoms := []string{"$a", "$b", "$c", "$d", "#1 >= 1", "#1 >= 2", "#2 == 1", "#2 >= 3", "#1 < 2", "approvers.count() >= 2", "approvers.count() == 3", "credentials.count() > 1",
		"approvers.all(u, u.tags.count() > 0)", "approvers.any(u, u.email == 'e@example.com')", "credentials.any(c, c.public_key == '0262')", "approvers[0].alias == 'a'",
		"credentials.filter(c, c.type != '').count() >= 3", "approvers.all(u, u.alias != 'c')", "approvers.filter(u, u.tags[0] == '31000000-0000-0000-0000-000000000000').count() >= 2",
		"approvers.any(u, credentials.any(c, c.user_id == u.id && u.alias == 'd'))", "['a', 'b'].all(x, approvers.any(u, u.alias == x))"}
	waiting := 0
	for i := range 3000 {
		source := fmt.Sprintf(pick([]string{"%s && %s", "%s || %s", "%s && !(%s)", "(%s || %s)", "!(%s) || %s"}), pick(atoms), pick(atoms))
		if random.IntN(2) == 0 {
			source = fmt.Sprintf(pick([]string{"(%s) && %s", "(%s) || %s"}), source, pick(atoms))
		}
		users := staff(pick([]string{"a1 b1 c2 d", "a b c d e12", "a1 b1 c1 d2 e2 f2 g", "a12 b2", "a", "a1 b12 c12 d12 e"}))
		p := rule(t, i, "ALLOW "+source)
		r := policy.Request{Approvals: []policy.Approval{{User: users[0].ID, Credentials: users[0].Credentials}}}
		d, err := policy.Decide(policy.State{Users: func() ([]policy.User, error) { return users, nil }, Policies: func() (*policy.Set, error) { return policy.NewSet([]*policy.Policy{p}), nil }}, r)
		if err != nil {
			t.Fatal(err)
		}
		if d.Evaluations.Each()[0].Outcome == policy.Allow || d.Evaluations.Each()[0].Outcome == policy.Error {
			continue
		}
		if want := reachable(t, p, users, 0); (d.Outcome == policy.RequiresConsensus) != want {
			t.Fatalf("%s: %s, want reachable %v", source, d.Outcome, want)
		} else if want {
			waiting++
		}
	}
	if waiting < 100 {
		t.Errorf("only %d were reachable", waiting)
	}
}

func TestExplain(t *testing.T) {
	facts := func(r *policy.Request) {
		r.Facts = policy.Facts{"eth.tx": policy.Struct(policy.Member{Name: "to", Value: policy.Hex("0xab")}, policy.Member{Name: "value", Value: policy.Int(2500)},
			policy.Member{Name: "data", Value: policy.Hex("0x" + strings.Repeat("00", 500))}),
			"wallet":    policy.Struct(policy.Member{Name: "label", Value: policy.String("hot")}, policy.Member{Name: "exported", Value: policy.Bool(false)}),
			"secret":    policy.Struct(policy.Member{Name: "static_properties", Value: policy.Map(policy.Member{Name: "k", Value: policy.String("hush")})}),
			"solana.tx": policy.Struct(policy.Member{Name: "transfers", Value: policy.List(transfer("x", 1), transfer("y", 2))})}
	}
	id := letterID('a')
	for _, c := range []struct {
		rule, clause, at string // at is the text where the position points
		values           string // expression=value, with ; between
	}{
		{"ALLOW ; eth.tx.value < 1000", "condition", "eth.tx.value < 1000", "eth.tx.value=2500"},
		{"ALLOW ; activity.kind == 'CREATE_WALLET' && eth.tx.value < 1000 && wallet.exported", "condition", "eth.tx.value < 1000", "eth.tx.value=2500"},
		{"ALLOW ; eth.tx.value < 1 || wallet.label == 'cold'", "condition", "eth.tx.value", "eth.tx.value=2500;wallet.label='hot'"},
		{"ALLOW ; wallet.exported", "condition", "wallet.exported", "wallet.exported=false"},
		{"ALLOW ; !(eth.tx.value == 2500)", "condition", "eth.tx.value == 2500", "eth.tx.value=2500"},
		{"ALLOW ; 'CREATE_WALLET' in ['a', 'b'] || activity.kind in ['A']", "condition", "'CREATE_WALLET' in", "activity.kind='CREATE_WALLET'"},
		{"ALLOW ; solana.tx.transfers.all(t, t.to == 'x' && t.amount == 1)", "condition", "t.to == 'x'", "t.to='y'"},
		{"ALLOW ; solana.tx.transfers.any(t, t.to == 'z')", "condition", "solana.tx.transfers.any", "solana.tx.transfers=[{amount: 1, to: 'x'}, {amount: 2, to: 'y'}]"},
		{"DENY ; solana.tx.transfers.any(t, t.to == 'y' && t.amount > 0)", "condition", "t.to == 'y'", "t.to='y';t.amount=2"},
		{"ALLOW ; solana.tx.transfers.filter(t, t.to == 'y').count() == 2", "condition", "solana.tx.transfers.filter", "solana.tx.transfers.filter(t, t.to == 'y').count()=1"},
		{"DENY ; eth.tx.value > 1000 && wallet.label == 'hot'", "condition", "eth.tx.value > 1000", "eth.tx.value=2500;wallet.label='hot'"},
		{"DENY ; true", "condition", "true", ""},
		{"DENY ", "", "", ""},
		{"DENY $a", "consensus", "u.id ==", "u.id='" + id + "'"},
		{"ALLOW $b", "consensus", "u.id ==", "u.id='" + id + "'"},
		{"ALLOW $a && $b", "consensus", "u.id == '62", "u.id='" + id + "'"},
		{"ALLOW approvers.count() >= 2; true", "consensus", "approvers.count()", "approvers.count()=1"},
		{"ALLOW ; ; time.now < Timestamp('2000-01-01T00:00:00Z')", "time", "time.now <", "time.now=2026-03-10T12:00:00Z"},
		{"ALLOW ; true || tron.tx.fee_limit == 0", "condition", "tron.tx", "tron.tx=MissingField: the request has no tron.tx"},
		{"ALLOW ; eth.tx.data[0..5000] == ''", "condition", "eth.tx.data[", "eth.tx.data[0..5000]=out of range"},
		{"ALLOW ; secret.static_properties['k'] == 'x'", "condition", "secret.static_properties", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s, r := scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{c.rule}, change: facts}.question(t)
			d, err := policy.Decide(s, r)
			if err != nil || d.Outcome == policy.Allow {
				t.Fatal(d.Outcome, err)
			}
			e := d.Evaluations.Each()[0]
			var values []string
			for _, v := range e.Values {
				values = append(values, v.Expression+"="+v.Value)
			}
			if e.Clause.String() != c.clause || strings.Join(values, ";") != c.values {
				t.Errorf("%s at %d: %s", e.Clause, e.Position, strings.Join(values, ";"))
			}
			p := rule(t, 0, c.rule)
			source := map[string]*policy.Program{"consensus": p.Consensus, "condition": p.Condition, "time": p.Time}[c.clause]
			if source == nil {
				if e.Position != -1 {
					t.Errorf("at %d", e.Position)
				}
			} else if e.Position < 0 || !strings.HasPrefix(source.Source()[e.Position:], c.at) {
				t.Errorf("at %d, want %q", e.Position, c.at)
			} else if !strings.HasPrefix(e.Expression, c.at) || !strings.HasPrefix(source.Source()[e.Position:], e.Expression) {
				t.Errorf("of %q, want %q", e.Expression, c.at)
			}
		})
	}
}

// The policies that came nearest to allowing come first, those of other activities last.
func TestNearest(t *testing.T) {
	rules := []string{
		"DENY ; eth.tx.value > 5000",
		"ALLOW $a ; activity.kind == 'SIGN_TRANSACTION'",
		"ALLOW ; ; time.now < Timestamp('2000-01-01T00:00:00Z')",
		"ALLOW ; tron.tx.fee_limit == 0",
		"ALLOW $b ; eth.tx.value < 5000",
		"ALLOW $a ; eth.tx.value < 1000",
		"ALLOW $a && $b ; eth.tx.value < 5000",
		"ALLOW $a ; activity.kind == 'CREATE_WALLET' && eth.tx.value < 1000",
	}
	facts := func(r *policy.Request) {
		r.Facts = policy.Facts{"eth.tx": policy.Struct(policy.Member{Name: "value", Value: policy.Int(2500)})}
	}
	for _, c := range []struct {
		policies []string
		want     []int
	}{
		{nil, []int{}},
		{rules, []int{6, 5, 7, 4, 3, 2, 1, 0}},
		{append([]string{"ALLOW ; eth.tx.value < 1000", "DENY ; eth.tx.value > 1000"}, rules...), []int{1, 8, 0, 7, 9, 6, 5, 4, 3, 2}},
	} {
		s, r := scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: c.policies, change: facts}.question(t)
		d, err := policy.Decide(s, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Evaluations.Nearest(); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v: %+v", got, c.want, d.Evaluations.Each())
		}
	}
}

func transfer(to string, amount int64) policy.Value {
	return policy.Struct(policy.Member{Name: "to", Value: policy.String(to)}, policy.Member{Name: "amount", Value: policy.Int(amount)})
}

// TestGivenWithoutTransfer asks about a Solana transaction that makes the transfer which policies wait for, and beside it
// gives something away that is no transfer.
func TestGivenWithoutTransfer(t *testing.T) {
	const one, other = "solana.tx.transfers.count() == 1", "solana.tx.spl_transfers.count() == 1"
	also := func(list string) func(*policy.Request) {
		return func(r *policy.Request) {
			members := []policy.Member{{Name: "transfers", Value: policy.List(transfer("x", 1))}, {Name: "spl_transfers", Value: policy.List(transfer("x", 1))}}
			for _, name := range []string{"authorities", "spl_approvals", "spl_authorities", "spl_burns", "spl_closes", "spl_others"} {
				m := policy.Member{Name: name, Value: policy.List()}
				if name == list {
					m.Value = policy.List(transfer("x", 1))
				}
				members = append(members, m)
			}
			slices.SortFunc(members, func(a, b policy.Member) int { return strings.Compare(a.Name, b.Name) })
			r.Facts = policy.Facts{"solana.tx": policy.Struct(members...)}
		}
	}
	decide := func(change func(*policy.Request), policies ...string) policy.Decision {
		s, r := scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: policies, change: change}.question(t)
		d, err := policy.Decide(s, r)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct{ reads, list string }{{one, "authorities"}, {other, "spl_approvals"}, {other, "spl_authorities"}, {other, "spl_burns"}, {other, "spl_closes"}, {other, "spl_others"}} {
		if d := decide(also(""), "ALLOW ; "+c.reads); d.Outcome != policy.Allow {
			t.Errorf("%s: without it %v", c.list, d.Outcome)
		}
		d := decide(also(c.list), "ALLOW ; "+c.reads)
		if d.Outcome != policy.DenyImplicit || d.Basis != policy.BasisNoPolicy {
			t.Errorf("%s: %v, %v", c.list, d.Outcome, d.Basis)
		}
		e := d.Evaluations.Each()[0]
		if e.Outcome != policy.DenyImplicit || e.Clause != policy.ClauseCondition || e.Position != 0 || len(e.Values) != 1 || e.Values[0].Expression != "solana.tx."+c.list ||
			!strings.Contains(e.Values[0].Value, "the condition reads solana.tx."+strings.Split(strings.TrimPrefix(c.reads, "solana.tx."), ".")[0]+" without it") {
			t.Errorf("%s: explained as %+v", c.list, e)
		}
		// Where it is false by itself, that is what is told.
		untrue := decide(also(c.list), "ALLOW ; "+strings.Replace(c.reads, "1", "2", 1))
		if e := untrue.Evaluations.Each()[0]; len(e.Values) != 1 || e.Values[0].Value != "1" {
			t.Errorf("%s: explained as %+v", c.list, e)
		}
		// Read, it is the policy's to judge; of another transfer list it is no matter.
		if d := decide(also(c.list), "ALLOW ; "+c.reads+" && solana.tx."+c.list+".count() >= 0"); d.Outcome != policy.Allow {
			t.Errorf("%s, read: %v", c.list, d.Outcome)
		}
		unrelated := map[string]string{one: other, other: one}[c.reads]
		if d := decide(also(c.list), "ALLOW ; "+unrelated); d.Outcome != policy.Allow {
			t.Errorf("%s beside the other list: %v", c.list, d.Outcome)
		}
		// Reading one list does not stand for another.
		if c.reads == other {
			rest := "spl_burns"
			if c.list == rest {
				rest = "spl_closes"
			}
			if d := decide(also(c.list), "ALLOW ; "+c.reads+" && solana.tx."+rest+".count() == 0"); d.Outcome != policy.DenyImplicit {
				t.Errorf("%s, while %s is read: %v", c.list, rest, d.Outcome)
			}
		}
		// A DENY goes on denying, and does not wait for others by an ALLOW that does not hold.
		if d := decide(also(c.list), "ALLOW", "DENY ; "+c.reads); d.Outcome != policy.DenyExplicit {
			t.Errorf("%s: a DENY came to %v", c.list, d.Outcome)
		}
		waiting := "ALLOW $a && $b ; " + c.reads
		if d := decide(also(c.list), waiting); d.Outcome != policy.DenyImplicit {
			t.Errorf("%s, with votes to come: %v", c.list, d.Outcome)
		}
		s, r := scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{waiting}, change: also(c.list)}.question(t)
		if yes, err := policy.MayVote(s, r, ids("b")[0]); yes || err != nil {
			t.Errorf("%s: b may vote: %v, %v", c.list, yes, err)
		}
		scoped := func(list string) func(*policy.Request) {
			return func(r *policy.Request) {
				also(list)(r)
				r.Scope = compile(t, condition, c.reads)
			}
		}
		if d := decide(scoped(c.list), "ALLOW"); d.Basis != policy.BasisScope || d.Outcome != policy.DenyImplicit {
			t.Errorf("%s in a session's scope: %v, %v", c.list, d.Outcome, d.Basis)
		}
		if d := decide(scoped(""), "ALLOW"); d.Outcome != policy.Allow {
			t.Errorf("a session's scope without %s: %v", c.list, d.Outcome)
		}
	}
}

// An explanation is short whatever is explained.
func TestExplanationIsBounded(t *testing.T) {
	var parts []string
	for i := range 50 {
		parts = append(parts, fmt.Sprintf("eth.tx.data[%d..1000] == ''", i))
	}
	s, r := scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW ; " + strings.Join(parts, " || "), "ALLOW ; eth.tx.data in ['" + strings.Repeat("ü", 300) + "']"}}.question(t)
	r.Facts = policy.Facts{"eth.tx": policy.Struct(policy.Member{Name: "data", Value: policy.String(strings.Repeat("äx", 5000))})}
	d, err := policy.Decide(s, r)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(d.Evaluations.Each()[0].Values); n != 8 {
		t.Errorf("%d values", n)
	}
	for _, e := range d.Evaluations.Each() {
		for _, v := range e.Values {
			if len(v.Expression) > 256 || len(v.Value) > 256 || bytes.ContainsRune([]byte(v.Value), '\uFFFD') {
				t.Errorf("%d and %d bytes: %q", len(v.Expression), len(v.Value), v.Value)
			}
		}
	}
}

// Adding a DENY policy never turns a refusal into permission, and the order of
// policies does not matter.
func TestMorePolicies(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	parts := []string{"$a", "$b", "#1 >= 2", "approvers.count() >= 2", "", "approvers[1].id == 'x'", "!$c"}
	conditions := []string{"", "true", "false", "activity.kind == 'CREATE_WALLET'", "wallet.id == 'w'", "wallet.id == 'v'", "eth.tx.value > 0", "activity.action != 'CREATE'"}
	times := []string{"", "time.now > Timestamp('2000-01-01T00:00:00Z')", "time.now < Timestamp('2000-01-01T00:00:00Z')"}
	one := func(effect string) string {
		return effect + " " + parts[random.IntN(len(parts))] + ";" + conditions[random.IntN(len(conditions))] + ";" + times[random.IntN(len(times))]
	}
	for range 1500 {
		c := scene{users: "a1 b1 c q r", root: "qr", threshold: 2, approve: []string{"a", "q", "ab", "bq", "ca"}[random.IntN(5)], reject: []string{"", "r", "b"}[random.IntN(3)]}
		selfish := random.IntN(3) == 0
		c.change = func(r *policy.Request) { r.SelfService = selfish }
		for range random.IntN(5) {
			c.policies = append(c.policies, one([]string{"ALLOW", "DENY"}[random.IntN(2)]))
		}
		before := outcome(t, c)
		shuffled := c
		shuffled.policies = slices.Clone(c.policies)
		random.Shuffle(len(c.policies), func(i, j int) {
			shuffled.policies[i], shuffled.policies[j] = shuffled.policies[j], shuffled.policies[i]
		})
		if got := outcome(t, shuffled); got != before {
			t.Fatalf("%s, shuffled %s: %q", before, got, c.policies)
		}
		more := c
		more.policies = append(slices.Clone(c.policies), one("DENY"))
		if after := outcome(t, more); after == policy.Allow && before != policy.Allow {
			t.Fatalf("%s, with a DENY more %s: %q", before, after, more.policies)
		}
	}
}

func outcome(t testing.TB, c scene) policy.Outcome {
	t.Helper()
	s, r := c.question(t)
	d, err := policy.Decide(s, r)
	if err != nil {
		t.Fatal(err)
	}
	return d.Outcome
}
