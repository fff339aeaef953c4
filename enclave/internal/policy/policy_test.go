package policy_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/enclave/internal/policy"
)

func ids(of string) (out [][16]byte) {
	for _, c := range of {
		out = append(out, [16]byte{byte(c)})
	}
	return out
}

func decide(root string, threshold uint32, approvals, action string) policy.Decision {
	var as []policy.Approval
	for _, u := range ids(approvals) {
		as = append(as, policy.Approval{User: u})
	}
	d, err := policy.Decide(policy.State{RootUsers: ids(root), Threshold: threshold},
		policy.Request{Organization: [16]byte{1}, Activity: [16]byte{2}, Kind: "CREATE_WALLET", Resource: "WALLET", Action: action, Approvals: as})
	if err != nil {
		panic(err)
	}
	return d
}

func TestRootQuorum(t *testing.T) {
	for _, c := range []struct {
		name      string
		root      string
		threshold uint32
		approvals string
		allow     bool
	}{
		{"the one root user", "a", 1, "a", true},
		{"one of several", "abc", 1, "c", true},
		{"two of three", "abc", 2, "ca", true},
		{"two of three and a stranger", "abc", 2, "xca", true},
		{"all", "abc", 3, "abc", true},

		{"nobody", "a", 1, "", false},
		{"a stranger", "a", 1, "b", false},
		{"many strangers", "a", 1, "bcdefg", false},
		{"no root users", "", 1, "a", false},
		{"no root users, no threshold", "", 0, "a", false},
		{"nothing at all", "", 0, "", false},
		{"threshold of none", "a", 0, "a", false},
		{"one of two needed", "ab", 2, "a", false},
		{"one twice", "ab", 2, "aa", false},
		{"one often, with strangers between", "ab", 2, "axayaza", false},
		{"one and a stranger", "ab", 2, "ax", false},
		{"threshold above the root users", "ab", 3, "ab", false},
		{"a root user listed twice votes once", "aa", 2, "a", false},
		{"listed twice, votes twice", "aa", 2, "aa", false},
		{"largest threshold", "abc", 1<<32 - 1, "abc", false},
		{"the zero user is a stranger", "a", 1, "\x00", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decide(c.root, c.threshold, c.approvals, "CREATE")
			if (d.Outcome == policy.Allow) != c.allow || (d.Grant != nil) != c.allow {
				t.Fatalf("%s, grant %v", d.Outcome, d.Grant != nil)
			}
			if !c.allow && d.Outcome != policy.DenyImplicit {
				t.Fatalf("refused with %s", d.Outcome)
			}
		})
	}
}

func TestZeroDecisionDenies(t *testing.T) {
	var d policy.Decision
	if d.Outcome == policy.Allow || d.Grant != nil {
		t.Fatal("the zero decision allows")
	}
	if d, err := policy.Decide(policy.State{}, policy.Request{}); err != nil || d.Outcome != policy.DenyImplicit || d.Grant != nil {
		t.Fatalf("nothing decided about nothing: %v", d.Outcome)
	}
}

func TestOutcomeTexts(t *testing.T) {
	want := []string{"OUTCOME_DENY_IMPLICIT", "OUTCOME_DENY_EXPLICIT", "OUTCOME_ALLOW", "OUTCOME_REQUIRES_CONSENSUS", "OUTCOME_REJECTED", "OUTCOME_ERROR",
		"OUTCOME_REQUIRES_AUTHENTICATORS", "OUTCOME_TIME_INACTIVE"}
	for i := range 256 {
		text := "OUTCOME_DENY_IMPLICIT" // what nobody knows denies
		if i < len(want) {
			text = want[i]
		}
		if got := policy.Outcome(i).String(); got != text {
			t.Errorf("outcome %d is %q", i, got)
		}
	}
}

// spend spends a grant of decide for an action.
func spend(g *policy.Grant, action string) error {
	return g.Spend(policy.Use{Organization: [16]byte{1}, Activity: [16]byte{2}, Action: action})
}

func TestGrantIsSpentOnce(t *testing.T) {
	g := decide("a", 1, "a", "SIGN").Grant
	for _, action := range []string{"", "CREATE", "SIGN ", "sign", "EXPORT"} {
		if spend(g, action) == nil {
			t.Fatalf("spent on %q", action)
		}
	}
	if err := spend(g, "SIGN"); err != nil {
		t.Fatalf("a wrong action used the grant up: %v", err)
	}
	for _, action := range []string{"SIGN", "CREATE", ""} {
		if spend(g, action) == nil {
			t.Fatalf("spent again on %q", action)
		}
	}
}

// A grant is of one organization and activity, and for the keys that its request named.
func TestGrantIsForWhatWasAsked(t *testing.T) {
	named := []policy.Key{{Owner: [16]byte{3}}, {Owner: [16]byte{4}, No: 1}}
	asked := policy.Request{Organization: [16]byte{1}, Activity: [16]byte{2}, Action: "SIGN", Keys: named, Approvals: []policy.Approval{{User: ids("a")[0]}}}
	d, err := policy.Decide(policy.State{RootUsers: ids("a"), Threshold: 1}, asked)
	if err != nil {
		t.Fatal(err)
	}
	asked.Keys[0].Owner[0] = 9 // the request is the caller's; the grant is not
	good := policy.Use{Organization: [16]byte{1}, Activity: [16]byte{2}, Action: "SIGN", Keys: []policy.Key{{Owner: [16]byte{4}, No: 1}, {Owner: [16]byte{3}}}}
	for name, change := range map[string]func(u *policy.Use){
		"organization": func(u *policy.Use) { u.Organization[15] = 1 },
		"activity":     func(u *policy.Use) { u.Activity[15] = 1 },
		"action":       func(u *policy.Use) { u.Action = "EXPORT" },
		"owner":        func(u *policy.Use) { u.Keys = []policy.Key{{Owner: [16]byte{9}}} },
		"account":      func(u *policy.Use) { u.Keys = []policy.Key{{Owner: [16]byte{4}, No: 2}} },
		"one of two":   func(u *policy.Use) { u.Keys = append([]policy.Key{{Owner: [16]byte{5}}}, u.Keys...) },
	} {
		u := good
		change(&u)
		if d.Grant.Allows(u) == nil || d.Grant.Spend(u) == nil {
			t.Errorf("allowed with another %s", name)
		}
	}
	if d.Grant.Allows(good) != nil || d.Grant.Spend(good) != nil || d.Grant.Allows(good) == nil || d.Grant.Spend(good) == nil {
		t.Error("what was asked is not allowed, or twice")
	}
}

func TestNoGrant(t *testing.T) {
	var none *policy.Grant
	for _, g := range []*policy.Grant{none, new(policy.Grant)} {
		for _, action := range []string{"", "SIGN"} {
			if spend(g, action) == nil {
				t.Fatalf("a grant that nobody decided is spent on %q", action)
			}
		}
	}
	// An activity without an action gets a grant for nothing.
	if g := decide("a", 1, "a", "").Grant; spend(g, "") == nil || spend(g, "SIGN") == nil {
		t.Fatal("a grant without an action is spent")
	}
}

func TestGrantsAreApart(t *testing.T) {
	one, two := decide("a", 1, "a", "SIGN").Grant, decide("a", 1, "a", "SIGN").Grant
	if spend(one, "SIGN") != nil || spend(two, "SIGN") != nil || spend(one, "SIGN") == nil {
		t.Fatal("grants of two decisions share something")
	}
}

func TestGrantIsSpentOnceByMany(t *testing.T) {
	for round := range 200 {
		g := decide("a", 1, "a", "SIGN").Grant
		var spent atomic.Int32
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 16 {
			wg.Go(func() {
				<-start
				action := "SIGN"
				if i%4 == 3 {
					action = fmt.Sprint("OTHER", i)
				}
				if spend(g, action) == nil {
					spent.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := spent.Load(); n != 1 {
			t.Fatalf("round %d: spent %d times", round, n)
		}
	}
}
