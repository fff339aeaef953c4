package sending_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/egress"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

type object = map[string]any

const (
	caip2   = "eip155:11155111"
	nowhere = "0x000000000000000000000000000000000000dEaD"
)

// A world is the root user of a rig with a wallet and a chain.
type world struct {
	*client.User
	rig     *rig.Rig
	t       testing.TB
	chain   *chain
	dir     string
	store   store.Store
	between func(string) string
	address string
	solana  string // another
	assets  egress.Assets
}

func newWorld(t testing.TB) *world { return newWorldBetween(t, nil) }

// newWorldBetween has something between host and enclave.
func newWorldBetween(t testing.TB, between func(string) string) *world {
	w := &world{t: t, chain: newChain(t), dir: t.TempDir(), between: between}
	w.start()
	w.address = client.Text(w.Do("CREATE_WALLET", client.Wallet("First", client.Ethereum)), "addresses", "0")
	return w
}

func (w *world) start() {
	w.rig = rig.Start(w.t, rig.Options{Dir: w.dir, Store: w.store, Between: w.between, Nodes: egress.Nodes{caip2: w.chain.URL}, Assets: w.assets})
	w.User = w.rig.Root()
}

func (w *world) params(more ...object) object {
	p := object{"from": w.address, "caip2": caip2, "calls": []object{{"to": nowhere, "value": "1"}}}
	for _, m := range more {
		maps.Copy(p, m)
	}
	return p
}

const sendType = "ETH_SEND_TRANSACTION_V2"

// send sends a transaction and answers the id of its status.
func (w *world) send(more ...object) string {
	w.t.Helper()
	return client.Text(w.Do(sendType, w.params(more...)), "sendTransactionStatusId")
}

func (w *world) status(id string) object {
	w.t.Helper()
	return w.Read("get_send_transaction_status", object{"sendTransactionStatusId": id})
}

// until waits for a status.
func (w *world) until(id, want string) object {
	w.t.Helper()
	var m object
	clocktest.Until(w.t, fmt.Sprintf("send %s is %s", id, want), func() bool {
		m = w.status(id)
		return m["txStatus"] == want
	})
	return m
}

// once fails unless the chain has exactly the transactions of these sends, each once.
func (w *world) once(ids ...string) {
	w.t.Helper()
	want := map[string]bool{}
	for _, id := range ids {
		want[client.Text(w.until(id, "INCLUDED"), "eth", "txHash")] = true
	}
	w.chain.mu.Lock()
	defer w.chain.mu.Unlock()
	if len(want) != len(ids) || len(w.chain.mined) != len(ids) {
		w.t.Fatalf("%d sends with %d names, %d in blocks", len(ids), len(want), len(w.chain.mined))
	}
	for _, name := range w.chain.mined {
		if !want[name] {
			w.t.Fatalf("%s is nobody's", name)
		}
	}
}

func TestNoncesOfAnAccount(t *testing.T) {
	w := newWorld(t)
	ask := func(more object) client.Reply {
		q := object{"address": w.address, "caip2": caip2, "nonce": true}
		maps.Copy(q, more)
		return w.Query("get_nonces", q)
	}
	if r := ask(nil); r.Status != 200 || r.Get("nonce") != "0" {
		t.Fatal(r)
	}
	w.once(w.send(), w.send())
	w.chain.set(func() { w.chain.idle = true })
	w.until(w.send(), "BROADCASTING")
	if r := ask(nil); r.Status != 200 || r.Get("nonce") != "3" {
		t.Fatal(r)
	}
	if r := ask(object{"gasStationNonce": true}); r.Status != 200 || r.Get("nonce") != "3" || r.Get("gasStationNonce") != "4" {
		t.Fatal(r)
	}
	for _, c := range []struct {
		more   object
		status int
		says   string
	}{
		{object{"caip2": "eip155:1"}, 400, "no node of eip155:1 is configured"},
		{object{"caip2": "eip155:2"}, 400, "caip2"},
		{object{"address": "0x12"}, 400, "address"},
	} {
		if r := ask(c.more); r.Status != c.status || !strings.Contains(r.Text("message"), c.says) {
			t.Errorf("%v: %v", c.more, r)
		}
	}
}

// TestManyAtOnce: concurrent senders of one account get numbers without gaps, and
// all is in blocks once.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(t)
	ids := make([]string, 50)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = w.send() })
	}
	all.Wait()
	w.once(ids...)
	if r := w.Query("get_nonces", object{"address": w.address, "caip2": caip2, "nonce": true}); r.Status != 200 || r.Get("nonce") != "50" {
		t.Fatal(r)
	}
}

// TestGapIsRepaired: a transaction that nodes refuse leaves a gap, behind which
// others wait until the next one fills it.
func TestGapIsRepaired(t *testing.T) {
	w := newWorld(t)
	first := w.send()
	w.until(first, "INCLUDED")
	w.chain.set(func() {
		w.chain.refuse = func(raw []byte) string {
			if nonceOf(raw) == 1 {
				return "insufficient funds for gas * price + value"
			}
			return ""
		}
	})
	refused := w.send()
	w.untilSaid(refused, "insufficient funds for gas * price + value; ", "give nonce 1")
	w.chain.set(func() { w.chain.refuse = nil })
	// Those that had their numbers already wait behind the gap.
	waits := w.send(object{"nonce": "2"})
	w.until(waits, "BROADCASTING")
	repairs := w.send()
	w.once(first, repairs, waits)
	w.until(refused, "FAILED")
	w.once(first, repairs, waits, w.send())
}

// TestChainsThatAnswerWrong: whatever a node says, the answer is a clear error that
// leaves no trace, or a transaction within bounds.
func TestChainsThatAnswerWrong(t *testing.T) {
	w := newWorld(t)
	lies := func(method string, answer any) func(string, []any) (any, bool) {
		return func(m string, _ []any) (any, bool) { return answer, m == method }
	}
	for _, c := range []struct {
		what   string
		lie    func(string, []any) (any, bool)
		status int
		says   string
	}{
		{"another chain", lies("eth_chainId", "0x1"), 503, "the node is of chain eip155:1"}, // first: it is asked once
		{"a nonce that is none", lies("eth_getTransactionCount", "many"), 503, "gave no answer that makes sense"},
		{"the last nonce", lies("eth_getTransactionCount", "0xffffffffffffffff"), 503, "gave no answer that makes sense"},
		{"no gas", lies("eth_estimateGas", "0x0"), 503, "gave no answer that makes sense"},
		{"all gas", lies("eth_estimateGas", "0xffffffffffffffff"), 400, "give gasLimit"},
		{"a high tip", lies("eth_maxPriorityFeePerGas", "0xffffffffffffffff"), 400, "give gasLimit and maxFeePerGas"},
		{"a higher tip", lies("eth_maxPriorityFeePerGas", "0xffffffffffffffffffff"), 503, "gave no answer that makes sense"},
		{"no fees", lies("eth_feeHistory", object{}), 503, "gave no answer that makes sense"},
		{"an object", lies("eth_estimateGas", object{"a": "b"}), 503, "gave no answer that makes sense"},
	} {
		w.chain.set(func() { w.chain.lie = c.lie })
		r := w.Submit(sendType, w.params())
		if r.Status != c.status || !strings.Contains(r.Text("message"), c.says) || r.Text("turnkeyErrorCode") != "RPC_CALL_ERROR" {
			t.Errorf("%s: %v", c.what, r)
		}
		if r := w.Query("get_nonces", object{"address": w.address, "caip2": caip2, "nonce": true}); strings.Contains(c.what, "nonce") && r.Status != 503 {
			t.Errorf("%s: %v", c.what, r)
		}
	}
	w.chain.set(func() { w.chain.lie = nil })
	if l := w.Query("list_activities", object{"filterByType": []string{"ACTIVITY_TYPE_" + sendType}}); l.Status != 200 || len(l.Get("activities").([]any)) != 0 {
		t.Fatal(l)
	}
	w.chain.set(func() { w.chain.slow = 5 * time.Minute })
	begin := time.Now()
	r := w.Submit(sendType, w.params())
	if r.Status != 504 || r.Text("turnkeyErrorCode") != "RPC_CALL_ERROR" || !strings.Contains(r.Text("message"), "in time") || time.Since(begin) > 5*time.Minute {
		t.Errorf("late: %v after %v", r, time.Since(begin))
	}
	if r := w.Query("get_nonces", object{"address": w.address, "caip2": caip2, "nonce": true}); r.Status != 504 {
		t.Errorf("late: %v", r)
	}
	w.chain.set(func() { w.chain.slow = 0 })
	r = w.Submit(sendType, w.params(object{"caip2": "eip155:1"}))
	if r.Status != 400 || !strings.Contains(r.Text("message"), "no node of eip155:1") {
		t.Error(r)
	}
	w.once(w.send())
	for k, n := range w.rig.Counters() {
		if strings.HasPrefix(k, "alarm_") && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}

// TestSendsSurvive: whatever was told to be sent goes out, though host and enclave
// die at any point.
func TestSendsSurvive(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for round := range 3 {
		w.chain.set(func() { w.chain.idle = round == 1 })
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				id := w.send()
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			})
		}
		all.Wait()
		w.rig.Kill() // right behind the last reply
		w.start()
		for _, id := range ids { // what was told is there
			w.status(id)
		}
	}
	w.once(ids...)
	w.chain.mu.Lock()
	defer w.chain.mu.Unlock()
	if len(w.chain.taken) != 30 {
		t.Errorf("%d transactions for 30 sends", len(w.chain.taken))
	}
}

// TestRepeatedBody: the same body is the same transaction.
func TestRepeatedBody(t *testing.T) {
	w := newWorld(t)
	body := w.Body(sendType, w.params())
	var first string
	for range 3 {
		r := w.Post(wire.EndpointSubmit, "eth_send_transaction", body)
		id := client.Text(r.Result(), "sendTransactionStatusId")
		if r.Status != 200 || first != "" && id != first {
			t.Fatal(r)
		}
		first = id
	}
	w.once(first)
}

// TestVote: a transaction that a vote lets through is made when it does, from what
// the chain is then.
func TestVote(t *testing.T) {
	w := newWorld(t)
	agent := w.NewUser("Agent")
	w.Do("CREATE_POLICY_V3", client.Policy("p", "ALLOW", "eth.tx.value == 1 && eth.tx.nonce < 100 && eth.tx.gas == 21000 && eth.tx.max_fee_per_gas < 100",
		fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.count() > 1", agent.User)))
	submit := func(more object) (string, string) {
		t.Helper()
		r := agent.Submit(sendType, w.params(more))
		if r.Status != 200 || r.State() != "CONSENSUS_NEEDED" {
			t.Fatal(r)
		}
		return r.Text("activity", "id"), r.Text("activity", "fingerprint")
	}
	vote := func(kind, fingerprint string) client.Reply {
		t.Helper()
		return w.Submit(kind+"_ACTIVITY", object{"fingerprint": fingerprint})
	}
	// Denied is what the policy says of the transaction as it would be signed.
	if r := agent.Submit(sendType, w.params(object{"gasLimit": "21001"})); r.Status != 403 {
		t.Fatal(r)
	}
	_, first := submit(nil)
	_, second := submit(nil)
	waits := w.Query("list_activities", object{"filterByStatus": []any{"ACTIVITY_STATUS_CONSENSUS_NEEDED"}})
	decodes(t, w.User, w.Query("get_activity", object{"activityId": waits.Text("activities", "0", "id")}))
	mine := w.send() // takes the number that the first was judged with
	r := vote("APPROVE", first)
	id := client.Text(r.Result(), "sendTransactionStatusId")
	if r.Status != 200 || id != r.Text("activity", "id") {
		t.Fatal(r)
	}
	w.once(mine, id)
	// With the node away nothing is approved, but rejected.
	w.chain.set(func() { w.chain.lie = func(string, []any) (any, bool) { return nil, true } })
	if r := vote("APPROVE", second); r.Status != 503 || r.Text("turnkeyErrorCode") != "RPC_CALL_ERROR" {
		t.Fatal(r)
	}
	if r := vote("REJECT", second); r.Status != 200 {
		t.Fatal(r)
	}
	w.chain.set(func() { w.chain.lie = nil })
	w.once(mine, id, w.send())
}

// TestBatchesNameOnly: what a host stores holds no readable transaction, and the
// enclave opens a send once its batch is stored.
func TestBatchesNameOnly(t *testing.T) {
	w := newWorld(t)
	w.rig.Kill()
	inner, err := sqlite.Open(t.Context(), w.dir+"/cloister.db")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	watched := &watched{Store: inner}
	w.store = watched
	w.start()
	defer w.rig.Kill()
	id := w.send()
	hash := client.Text(w.until(id, "INCLUDED"), "eth", "txHash")
	watched.mu.Lock()
	defer watched.mu.Unlock()
	if len(watched.sends) != 1 {
		t.Fatalf("%d sends were stored", len(watched.sends))
	}
	ref := watched.sends[0]
	opened, err := w.rig.Link.OpenSend(t.Context(), ref)
	if err != nil || !opened.Found || opened.Expired || opened.Name != hash || opened.Chain != caip2 || len(opened.From) != 20 || len(opened.Signed) < 100 {
		t.Fatalf("%+v, %v", opened, err)
	}
	for _, b := range watched.batches {
		if bytes.Contains(b, opened.Signed[10:40]) || bytes.Contains(b, opened.From) || bytes.Contains(b, []byte(hash[2:])) {
			t.Fatal("a batch can be read")
		}
	}
	// Nothing is opened that is no send.
	for _, none := range []wire.SendID{
		{Organization: ref.Organization, Seq: ref.Seq, Number: 1}, {Organization: ref.Organization, Seq: ref.Seq - 1}, {Organization: ref.Organization, Seq: ref.Seq + 1},
		{Organization: ref.Organization, Seq: 1<<64 - 1, Number: 1<<16 - 1}, {Organization: wire.ID{1}, Seq: ref.Seq}, {},
	} {
		if opened, err := w.rig.Link.OpenSend(t.Context(), none); err != nil || opened.Found || opened.Signed != nil {
			t.Errorf("%v: %+v, %v", none, opened, err)
		}
	}
}

// watched is a store that remembers what it was given.
type watched struct {
	store.Store
	mu      sync.Mutex
	batches [][]byte
	sends   []wire.SendID
}

func (w *watched) Append(ctx context.Context, b *wire.Batch) (wire.Stored, error) {
	text, err := wire.Marshal(b)
	if err != nil {
		return wire.Stored{}, err
	}
	w.mu.Lock()
	w.batches = append(w.batches, text)
	for i := range b.Entries {
		for n := range b.Entries[i].Sends {
			w.sends = append(w.sends, wire.SendID{Organization: b.Entries[i].Organization, Seq: b.Entries[i].Seq, Number: uint16(n)})
		}
	}
	w.mu.Unlock()
	return w.Store.Append(ctx, b)
}
