package linear_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// resend sends the body of an activity that may have been sent before.
func (t *tenant) resend(q *client.Request) (client.Reply, error) {
	return t.Post(context.Background(), q.Endpoint, q.Op, q.Body)
}

// ask sends a query, which must be answered.
func (t *tenant) ask(op string, request client.Object) (client.Reply, error) {
	r, err := t.Query(context.Background(), op, request)
	if err == nil && r.Status != 200 {
		err = fmt.Errorf("%s: %v", op, r)
	}
	return r, err
}

// check holds a history against the model.
func check(t *testing.T, w *world, history []porcupine.Operation) {
	t.Helper()
	began := time.Now()
	result, info := porcupine.CheckOperationsVerbose(model, history, 20*time.Minute)
	if result != porcupine.Ok {
		name := t.TempDir() + "/history.html"
		_ = porcupine.VisualizePath(model, info, name)
		t.Fatalf("history is not linearizable: %v", result)
	}
	kinds := map[string]int{}
	refused := 0
	for _, o := range history {
		kinds[verbs[o.Input.(input).verb]]++
		if v := o.Input.(input).verb; !o.Output.(output).done && v != readUser && v != readUsers {
			refused++
		}
	}
	t.Logf("counted: %d requests linearizable (%d refused, %d sent twice at once, %d retries), checked in %.1f s: %v",
		len(history), refused, w.repeats.Load(), w.retries.Load(), time.Since(began).Seconds(), kinds)
	for i, v := range verbs {
		if kinds[v] == 0 && len(history) > 1000 {
			t.Errorf("no request of kind %d, %s", i, v)
		}
	}
}

// What the checker refuses: answers that no order explains.
func TestImpossibleHistories(t *testing.T) {
	users, wallets := object{"o", false}, object{"o", true}
	rename := func(user int, name string) input {
		return input{object: users, verb: renameUser, user: user, name: name}
	}
	read := func(user int) input { return input{object: users, verb: readUser, user: user} }
	make := func(name string) input { return input{object: wallets, verb: createWallet, name: name} }
	do := func(in input, call, ret int64, out output) porcupine.Operation {
		return porcupine.Operation{Input: in, Call: call, Output: out, Return: ret}
	}
	yes := output{done: true}
	for name, h := range map[string][]porcupine.Operation{
		"stale read":            {do(rename(0, "name 1"), 0, 10, yes), do(read(0), 20, 30, output{text: firstName(0)})},
		"lost rename":           {do(rename(0, "name 1"), 0, 10, yes), do(read(0), 20, 30, output{text: "name 1"}), do(read(0), 40, 50, output{text: firstName(0)})},
		"going back":            {do(rename(0, "name 1"), 0, 100, yes), do(read(0), 20, 30, output{text: "name 1"}), do(read(0), 40, 50, output{text: firstName(0)})},
		"one name twice":        {do(make("name 1"), 0, 100, output{done: true, text: "a"}), do(make("name 1"), 0, 100, output{done: true, text: "b"})},
		"refused for nothing":   {do(make("name 1"), 0, 100, output{})},
		"two users, one name":   {do(rename(0, "name 1"), 0, 100, yes), do(rename(1, "name 1"), 0, 100, yes)},
		"deleted and there":     {do(make("name 1"), 0, 10, output{done: true, text: "a"}), do(input{object: wallets, verb: deleteWallet, wallet: "a"}, 20, 30, yes), do(input{object: wallets, verb: readWallet, wallet: "a"}, 40, 50, output{done: true, text: "name 1"})},
		"deleted before made":   {do(input{object: wallets, verb: deleteWallet, wallet: "a"}, 0, 10, yes), do(make("name 1"), 20, 30, output{done: true, text: "a"})},
		"a wallet nobody made":  {do(input{object: wallets, verb: readWallets}, 0, 10, output{names: [5]string{"a"}})},
		"a name nobody has yet": {do(read(2), 0, 10, output{text: "name 1"}), do(rename(2, "name 1"), 20, 30, yes)},
	} {
		if porcupine.CheckOperations(model, h) {
			t.Errorf("%s: passed as linearizable", name)
		}
	}
}

// run lets clients act on one tenant until each has done n things, or stop.
func run(w *world, t *tenant, clients, n int, done *atomic.Int64) ([]porcupine.Operation, error) {
	cs := make([]*worker, clients)
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range cs {
		cs[i] = newWorker(w, i)
		all.Go(func() {
			for range n {
				if errs[i] = cs[i].act(t); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	var history []porcupine.Operation
	for i, c := range cs {
		if errs[i] != nil {
			return nil, errs[i]
		}
		history = append(history, c.history...)
	}
	return history, nil
}

func TestOneOrganization(t *testing.T) {
	w := newWorld(t, rig.Options{Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{})})
	one := w.rootTenant()
	if err := one.people(); err != nil {
		t.Fatal(err)
	}
	history, err := run(w, one, 16, 400, new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	check(t, w, history)
	noAlarms(t, w.cur.Load())
}

// Host and enclave are lost while the clients work. What they were told before
// must hold after; what they were not told they ask again.
func TestOneOrganizationAcrossLosses(t *testing.T) {
	const losses = 5
	w := newWorld(t, rig.Options{Limits: core.Limits{Lease: 300 * time.Millisecond, SnapshotEvery: 50},
		Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{Mode: tlog.ModeStrict, Serve: 300 * time.Millisecond})})
	history, err := acrossLosses(t, w, losses, 120)
	if err != nil {
		t.Fatal(err)
	}
	check(t, w, history)
	noAlarms(t, w.cur.Load())
	t.Logf("counted: %d losses of host and enclave in the history", losses)
}

// acrossLosses lets 16 clients do n things each while host and enclave are lost
// a number of times, evenly spread.
func acrossLosses(t *testing.T, w *world, losses, n int) ([]porcupine.Operation, error) {
	const clients = 16
	one := w.rootTenant()
	if err := one.people(); err != nil {
		return nil, err
	}
	var done atomic.Int64
	type result struct {
		history []porcupine.Operation
		err     error
	}
	ended := make(chan result, 1)
	go func() {
		h, err := run(w, one, clients, n, &done)
		ended <- result{h, err}
	}()
	for i := range losses {
		for done.Load() < int64((i+1)*clients*n/(losses+1)) {
			select {
			case r := <-ended:
				if r.err == nil {
					r.err = errors.New("the clients were done too early")
				}
				return nil, r.err
			case <-time.After(time.Millisecond):
			}
		}
		w.lose()
	}
	r := <-ended
	return r.history, r.err
}

// Memory holds a part of the organizations, so that they are closed and opened
// again all the time.
func TestThousandOrganizations(t *testing.T) {
	organizations, clients, each := 1000, 16, 5
	if testing.Short() {
		organizations = 200
	}
	w := newWorld(t, rig.Options{Organizations: organizations, Limits: core.Limits{StateBytes: int64(organizations) * 6 << 10, SnapshotEvery: 32}})
	all := w.tenants()
	var work sync.WaitGroup
	var first atomic.Pointer[error]
	fail := func(err error) {
		if err != nil {
			first.CompareAndSwap(nil, &err)
		}
	}
	began := time.Now()
	for _, o := range all {
		work.Go(func() { fail(o.people()) })
	}
	work.Wait()
	histories := make([][]porcupine.Operation, len(all))
	for i, o := range all {
		work.Go(func() {
			h, err := run(w, o, clients, each, new(atomic.Int64))
			histories[i] = h
			fail(err)
		})
	}
	work.Wait()
	if err := first.Load(); err != nil {
		t.Fatal(*err)
	}
	took := time.Since(began)
	var history []porcupine.Operation
	for _, h := range histories {
		history = append(history, h...)
	}
	check(t, w, history)
	r := w.cur.Load()
	noAlarms(t, r)
	c := r.Counters()
	if c["organization_evictions"] == 0 {
		t.Error("no organization was closed: the test does not test opening")
	}
	t.Logf("counted: %d organizations at once, %d clients each, in %.1f s; %d closed, %d opened, %d snapshots",
		len(all), clients, took.Seconds(), c["organization_evictions"], c["organization_loads"], c["snapshots"])
}

// What is sent a hundred times at once, whatever it is and whether it is done
// or refused, is one activity.
func TestOneBody(t *testing.T) {
	const copies = 100
	w := newWorld(t, rig.Options{})
	one := w.rootTenant()
	count := func() (n int) {
		o, err := w.cur.Load().Store.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: idOf(t, one.Organization), MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return int(o.Count)
	}
	sent := 0
	for _, c := range []struct {
		typ        string
		parameters client.Object
		status     int
	}{
		{"CREATE_WALLET", client.Wallet("W", client.Ethereum), 200},
		{"CREATE_WALLET", client.Wallet("W"), 400}, // the name is taken
		{"CREATE_PRIVATE_KEYS_V2", client.Object{"privateKeys": []any{client.Object{"privateKeyName": "K", "curve": "CURVE_ED25519", "privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_SOLANA"}}}}, 200},
		{"UPDATE_USER_NAME", client.Object{"userId": one.User, "userName": "Renamed"}, 200},
		{"CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("Below", client.NewRootUser("Root", client.NewKey())), 200},
		{"SIGN_RAW_PAYLOAD_V2", nil, 200},
	} {
		if c.parameters == nil {
			c.parameters = client.Payload(client.Text(one.In(t).Read("list_wallet_accounts", nil), "accounts", "0", "address"), "00ff", "KECCAK256")
		}
		before := count()
		q, err := one.Activity(c.typ, c.parameters)
		if err != nil {
			t.Fatal(err)
		}
		replies, errs := make([]client.Reply, copies), make([]error, copies)
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range copies {
			all.Go(func() {
				<-start
				replies[i], errs[i] = one.resend(q)
			})
		}
		close(start)
		all.Wait()
		for i, r := range replies {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if r.Status != c.status {
				t.Fatalf("%s: %v", c.typ, r)
			}
			if !bytes.Equal(r.Body, replies[0].Body) {
				t.Errorf("%s: two answers:\n%s\n%s", c.typ, r.Body, replies[0].Body)
			}
		}
		if n := count() - before; n != 1 {
			t.Errorf("%s: %d entries, want 1", c.typ, n)
		}
		sent++
	}
	list := one.In(t).Read("list_activities", client.Object{"paginationOptions": client.Object{"limit": "100"}})["activities"].([]any)
	ids := map[string]bool{}
	for _, a := range list {
		ids[client.Text(a, "id")] = true
	}
	if len(ids) != sent || len(list) != sent {
		t.Errorf("%d activities listed, %d ids, want %d", len(list), len(ids), sent)
	}
	noAlarms(t, w.cur.Load())
	t.Logf("counted: %d bodies sent %d times each at once: %d activities, %d entries, all answers of a body alike", sent, copies, len(ids), sent)
}

func idOf(t *testing.T, text string) wire.ID {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		t.Fatalf("%q is no id", text)
	}
	return wire.ID(b)
}
