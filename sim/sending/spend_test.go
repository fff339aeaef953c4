package sending_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"cloister/attestation"
	"cloister/host/egress"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// released has the answers of calls that wait for witnesses, in the order in which they came.
type released struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	what []string
}

// begin makes a call in the background. It reports whether it was answered with what it asked for.
func (r *released) begin(what string, call func() bool) {
	r.all.Go(func() {
		if call() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.what = append(r.what, what)
		}
	})
}

// TestSpendsAwaitWitnesses: in bounded mode, what a sponsored transaction signed leaves the enclave when witnesses have cosigned the
// spend, whichever way one asks, while other organizations are answered at once.
func TestSpendsAwaitWitnesses(t *testing.T) {
	witnesses := rig.StartWitnesses(t, rig.WitnessOptions{Serve: attestation.MaxLogTime, Bound: attestation.MaxLogTime})
	inner, err := sqlite.Open(t.Context(), t.TempDir()+"/cloister.db")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	n, stored := newNetwork(t), &watched{Store: inner}
	r := rig.Start(t, rig.Options{Store: stored, Witnesses: witnesses, Organizations: 1, Nodes: egress.Nodes{"solana:devnet": n.URL},
		Configuration: []byte(`{"gas":{"prices":{"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1":200000000000}}}`)})
	defer r.Kill()
	top, other := r.Root(), r.Others()[0]
	top.Do("UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": "100", "subOrgWindowLimitUsd": "100", "windowDurationMinutes": "60"})
	sub, second := top.NewSubOrganization("Sub"), top.NewUser("Second")
	sponsored := func(u *client.User) object {
		_, params := (&world{t: t, User: u}).payment()
		params["sponsor"] = true
		return params
	}
	direct := sub.Body("SOL_SEND_TRANSACTION_V2", sponsored(sub))
	voted := sponsored(top)
	top.Do("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{top.User, second.User}})
	waits := top.Submit("SOL_SEND_TRANSACTION_V2", voted)
	approval := second.Body("APPROVE_ACTIVITY", object{"fingerprint": waits.Text("activity", "fingerprint")})
	if waits.State() != "CONSENSUS_NEEDED" {
		t.Fatal(waits)
	}

	witnesses.Stop()
	if got := top.Query("get_activity", object{"activityId": waits.Text("activity", "id")}); got.Status != 200 {
		t.Fatalf("what spends nothing: %v", got)
	}
	var out released
	post := func(u *client.User, endpoint wire.Endpoint, op string, body []byte) func() bool {
		return func() bool { return u.Post(endpoint, op, body).Status == 200 }
	}
	ask := func(u *client.User, op string, request object) func() bool {
		return func() bool { return u.Query(op, request).Status == 200 }
	}
	sends := func() []wire.SendID {
		stored.mu.Lock()
		defer stored.mu.Unlock()
		return slices.Clone(stored.sends)
	}
	calls := map[string]func() bool{
		"the reply": post(sub, wire.EndpointSubmit, "sol_send_transaction", direct), "the reply to the vote": post(second, wire.EndpointSubmit, "approve_activity", approval),
	}
	for what, call := range calls {
		out.begin(what, call)
	}
	clocktest.Until(t, "both are stored", func() bool { return len(sends()) == 2 })
	for what, call := range map[string]func() bool{
		"the same body again":      calls["the reply"],
		"the activities":           ask(sub, "list_activities", nil),
		"the activity voted on":    ask(top, "get_activity", object{"activityId": waits.Text("activity", "id")}),
		"a query of other matters": ask(sub, "list_users", nil),
		"the usage of who pays":    ask(top, "get_gas_usage", nil),
		"the activities, by parent": func() bool {
			return top.As(sub.Organization, top.User, top.Key).Query("list_activities", nil).Status == 200
		},
	} {
		out.begin(what, call)
	}
	for i, id := range sends() {
		out.begin(fmt.Sprint("send ", i), func() bool {
			opened, err := r.Link.OpenSend(t.Context(), id)
			return err == nil && opened.Found
		})
	}
	for i := range 20 { // each is stored after both
		if got := other.Submit("CREATE_USER_TAG", client.Tag(fmt.Sprint(i))); got.Status != 200 {
			t.Fatalf("another organization: %v", got)
		}
	}
	out.mu.Lock()
	if len(out.what) > 0 {
		t.Errorf("released before witnesses have cosigned: %v", out.what)
	}
	out.mu.Unlock()
	n.set(func() {
		if len(n.sent) > 0 {
			t.Errorf("sent before witnesses have cosigned: %v", n.sent)
		}
	})

	for _, l := range witnesses.Locals {
		if err := l.Start(); err != nil {
			t.Fatal(err)
		}
	}
	out.all.Wait()
	for what, call := range calls { // on a busy machine the first ones may have waited too long
		if !call() {
			t.Errorf("%s, with witnesses: refused", what)
		}
	}
	clocktest.Until(t, "both are sent", func() (done bool) {
		n.set(func() { done = len(n.sent) == 2 })
		return done
	})
}
