package activity_test

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

// A pauser counts pauses.
type pauser struct{ pauses int }

func (p *pauser) Pause() { p.pauses++ }

// All that one request evaluates has one budget, in whatever of it the steps are taken:
// the scope of a session, MFA policies, who may vote, policies, explanations, and who may
// vote then. It takes the budget and an eighth at most.
func TestOneBudget(t *testing.T) {
	const every = 2_048 // steps between pauses
	list := "[" + strings.TrimSuffix(strings.Repeat("'a', ", 150), ", ") + "]"
	dear := func(depth int, test string) string {
		open := ""
		for i := range depth {
			open += fmt.Sprintf("%s.any(v%d, ", list, i)
		}
		return open + test + strings.Repeat(")", depth)
	}
	small, large, endless := "false", dear(2, "v0 == 'b'"), dear(4, "v0 == 'b'")
	yes := func(condition string) string { return "!(" + condition + ")" }
	for _, c := range []struct {
		name             string
		policies         int
		scope, mfa       string
		condition        string
		consensus        string
		effect           string
		scoped, complete bool
	}{
		{"small", 100, yes(small), small, small, "approvers.count() >= 2", "EFFECT_ALLOW", true, true},
		{"a large scope", 100, yes(large), small, small, "", "EFFECT_ALLOW", true, true},
		{"an endless scope", 100, yes(endless), small, small, "", "EFFECT_ALLOW", false, false},
		{"a large MFA policy", 100, yes(small), large, small, "", "EFFECT_ALLOW", true, true},
		{"an endless MFA policy", 100, yes(small), endless, small, "", "EFFECT_ALLOW", true, true},
		{"an endless MFA policy and large policies", 100, yes(small), endless, large, "", "EFFECT_ALLOW", true, false},
		{"large policies", 100, yes(small), small, large, "", "EFFECT_ALLOW", true, false},
		{"endless policies", 100, yes(small), small, endless, "", "EFFECT_DENY", true, false},
		{"large policies that wait", 100, yes(small), small, yes(dear(1, "v0 == 'b'")), "approvers.count() >= 3 && approvers.any(u, " + dear(2, "v0 == u.id") + ")", "EFFECT_ALLOW", true, false},
		{"a search without end", 100, yes(small), small, "true", "approvers[0].id == 'x' && approvers.count() == 9", "EFFECT_ALLOW", true, true},
		{"all of it", 100, yes(large), large, large, dear(2, "v0 == 'b'"), "EFFECT_DENY", true, false},
		{"lists that are made", 100, yes(small), small, "[activity.kind, " + list[1:] + ".filter(x, " + dear(1, "v0 == x") + ").count() > 0", "", "EFFECT_ALLOW", true, false},
		{"all of it, with 1,000 policies", 1000, yes(large), large, large, dear(2, "v0 == 'b'"), "EFFECT_DENY", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := activitytest.New(t)
			budget := c.policies * policy.StepsPerPolicy
			e := w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": w.Root})
			p := &org.Pending{OpenedMs: w.Now}
			e.Votes = nil
			var users []org.ID
			w.Alter(func(tx *org.Tx) {
				for i := range 12 {
					u := &org.User{ID: w.NewID(), Name: fmt.Sprint(i), APIKeys: []org.APIKey{{ID: w.NewID(), Type: "CREDENTIAL_TYPE_API_KEY_P256", PublicKey: w.FreshP256()}},
						MFAPolicies: []org.MFAPolicy{{ID: w.NewID(), Condition: c.mfa, Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_PASSKEY"}}}}}}}
					w.Must(tx.PutUser(u))
					users = append(users, u.ID)
					if i < 3 {
						p.Votes = append(p.Votes, org.PendingVote{User: u.ID, CreatedMs: w.Now, Credentials: []org.VoteCredential{activity.APIKeyCredential(&u.APIKeys[0])}})
						e.Votes = append(e.Votes, org.Vote{ID: w.NewID(), User: u.ID})
					}
				}
				for i := range c.policies {
					w.Must(tx.PutPolicy(&org.Policy{ID: w.NewID(), Name: fmt.Sprint(i), Effect: c.effect, Condition: c.condition, Consensus: c.consensus}))
				}
			})
			p.Initiator, e.Initiator = users[0], users[0]
			tx, o, pauses := w.Tx(), w.Organization(), new(pauser)
			q, err := kinds.Live.PolicyRequestOf(tx, e, users[0])
			w.Must(err)
			q.Pause = pauses
			q.Scope, err = policy.Compile(policy.ClauseCondition, c.scope)
			w.Must(err)
			steps, lowest := budget, 0
			state := activity.PolicyState(tx, o)
			state.Budget, state.Steps = budget, &steps
			left := func(what string) {
				if steps < lowest {
					t.Errorf("%s: %d steps are left", what, steps)
				}
			}
			_, err = activity.CountVotes(tx, p, &q, budget, &steps)
			w.Must(err)
			left("MFA policies")
			if in := q.InScope(&steps); in != c.scoped {
				t.Errorf("in scope: %v", in)
			}
			left("scope")
			q.Scope = nil
			_, err = policy.MayVote(state, q, users[11])
			w.Must(err)
			left("a vote")
			_, err = activity.CountVotes(tx, p, &q, budget, &steps)
			w.Must(err)
			left("MFA policies again")
			beforehand := steps
			d, err := policy.Decide(state, q)
			w.Must(err)
			lowest = -budget / 8
			left("decision")
			if d.Outcome == policy.Allow {
				t.Error("it is allowed")
			}
			if ran := d.Basis == policy.BasisSteps; ran == c.complete && c.scoped {
				t.Errorf("basis %d with %d steps before and %d after", d.Basis, beforehand, steps)
			}
			paused := pauses.pauses
			spent := steps
			a, r, err := kinds.Live.Votable(tx, o, e, users[11], &steps)
			w.Must(err)
			left("who may vote")
			if spent <= 0 && (a || r || steps != spent) {
				t.Errorf("without steps somebody may vote: %v %v, and %d of %d steps are left", a, r, steps, spent)
			}
			// Each voter's machine begins to count anew.
			if most := (budget+budget/8)/every + 2*len(p.Votes) + 2; paused > most {
				t.Errorf("%d pauses, want at most %d", paused, most)
			}
			t.Logf("%d of %d steps, %d pauses; %v by %d; may vote %v", budget-steps, budget, paused, d.Outcome, d.Basis, a)
		})
	}
}
