package sending_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/egress"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

type object = map[string]any

const (
	caip2   = "eip155:11155111"
	nowhere = "0x000000000000000000000000000000000000dEaD"
)

var ethereum = object{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}

// A world is a rig with a wallet and a chain.
type world struct {
	*rig.Rig
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
	status, m := w.Submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "First", "accounts": []any{ethereum}})
	if status != 200 {
		t.Fatalf("create_wallet: %d %v", status, m)
	}
	w.address = rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0")
	return w
}

func (w *world) start() {
	w.Rig = rig.Start(w.t, rig.Options{Dir: w.dir, Store: w.store, Between: w.between, Nodes: egress.Nodes{caip2: w.chain.URL}, Assets: w.assets})
}

func (w *world) params(more ...object) object {
	p := object{"from": w.address, "caip2": caip2, "calls": []object{{"to": nowhere, "value": "1"}}}
	for _, m := range more {
		for k, v := range m {
			p[k] = v
		}
	}
	return p
}

const sendType = "ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2"

// send sends a transaction and answers the id of its status.
func (w *world) send(more ...object) string {
	w.t.Helper()
	status, m := w.Submit("eth_send_transaction", sendType, w.params(more...))
	if status != 200 {
		w.t.Fatalf("eth_send_transaction: %d %v", status, m)
	}
	return rig.Text(m, "activity", "result", "ethSendTransactionResultV2", "sendTransactionStatusId")
}

func (w *world) status(id string) object {
	w.t.Helper()
	status, m := w.Query("get_send_transaction_status", object{"sendTransactionStatusId": id})
	if status != 200 {
		w.t.Fatalf("get_send_transaction_status: %d %v", status, m)
	}
	return m
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
		want[rig.Text(w.until(id, "INCLUDED"), "eth", "txHash")] = true
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
	ask := func(more object) (int, object) {
		q := object{"address": w.address, "caip2": caip2, "nonce": true}
		for k, v := range more {
			q[k] = v
		}
		return w.Query("get_nonces", q)
	}
	if status, m := ask(nil); status != 200 || m["nonce"] != "0" {
		t.Fatalf("%d %v", status, m)
	}
	w.once(w.send(), w.send())
	w.chain.set(func() { w.chain.idle = true })
	w.until(w.send(), "BROADCASTING")
	if status, m := ask(nil); status != 200 || m["nonce"] != "3" {
		t.Fatalf("%d %v", status, m)
	}
	if status, m := ask(object{"gasStationNonce": true}); status != 200 || m["nonce"] != "3" || m["gasStationNonce"] != "4" {
		t.Fatalf("%d %v", status, m)
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
		if status, m := ask(c.more); status != c.status || !strings.Contains(rig.Text(m, "message"), c.says) {
			t.Errorf("%v: %d %v", c.more, status, m)
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
	if status, m := w.Query("get_nonces", object{"address": w.address, "caip2": caip2, "nonce": true}); status != 200 || m["nonce"] != "50" {
		t.Fatalf("%d %v", status, m)
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
		status, m := w.Submit("eth_send_transaction", sendType, w.params())
		if status != c.status || !strings.Contains(rig.Text(m, "message"), c.says) || rig.Text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" {
			t.Errorf("%s: %d %v", c.what, status, m)
		}
		if status, m := w.Query("get_nonces", object{"address": w.address, "caip2": caip2, "nonce": true}); strings.Contains(c.what, "nonce") && status != 503 {
			t.Errorf("%s: %d %v", c.what, status, m)
		}
	}
	w.chain.set(func() { w.chain.lie = nil })
	if status, l := w.Query("list_activities", object{"filterByType": []string{sendType}}); status != 200 || len(rig.Get(l, "activities").([]any)) != 0 {
		t.Fatalf("%d %v", status, l)
	}
	w.chain.set(func() { w.chain.slow = 5 * time.Minute })
	begin := time.Now()
	status, m := w.Submit("eth_send_transaction", sendType, w.params())
	if status != 504 || rig.Text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" || !strings.Contains(rig.Text(m, "message"), "in time") || time.Since(begin) > 5*time.Minute {
		t.Errorf("late: %d %v after %v", status, m, time.Since(begin))
	}
	if status, m := w.Query("get_nonces", object{"address": w.address, "caip2": caip2, "nonce": true}); status != 504 {
		t.Errorf("late: %d %v", status, m)
	}
	w.chain.set(func() { w.chain.slow = 0 })
	status, m = w.Submit("eth_send_transaction", sendType, w.params(object{"caip2": "eip155:1"}))
	if status != 400 || !strings.Contains(rig.Text(m, "message"), "no node of eip155:1") {
		t.Errorf("%d %v", status, m)
	}
	w.once(w.send())
	for k, n := range w.Counters() {
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
		w.Kill() // right behind the last reply
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
		status, m := w.SubmitBody("eth_send_transaction", body)
		id := rig.Text(m, "activity", "result", "ethSendTransactionResultV2", "sendTransactionStatusId")
		if status != 200 || first != "" && id != first {
			t.Fatalf("%d %v", status, m)
		}
		first = id
	}
	w.once(first)
}

// TestVote: a transaction that a vote lets through is made when it does, from what
// the chain is then.
func TestVote(t *testing.T) {
	w := newWorld(t)
	key, err := laptop.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	status, m := w.Submit("create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", object{"users": []object{{"userName": "Agent", "userTags": []string{}, "authenticators": []any{}, "oauthProviders": []any{},
		"apiKeys": []object{{"apiKeyName": "key", "publicKey": key.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	if status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	agent := rig.Text(m, "activity", "result", "createUsersResult", "userIds", "0")
	policy := object{"policyName": "p", "effect": "EFFECT_ALLOW", "notes": "", "consensus": fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.count() > 1", agent),
		"condition": "eth.tx.value == 1 && eth.tx.nonce < 100 && eth.tx.gas == 21000 && eth.tx.max_fee_per_gas < 100"}
	if status, m := w.Submit("create_policy", "ACTIVITY_TYPE_CREATE_POLICY_V3", policy); status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	as := func(endpoint wire.Endpoint, op string, body []byte) (int, object) {
		t.Helper()
		reply, err := w.Send(context.Background(), endpoint, op, body, key)
		if err != nil {
			t.Fatal(err)
		}
		var m object
		if err := json.Unmarshal(reply.Body, &m); err != nil {
			t.Fatal(err)
		}
		return int(reply.Status), m
	}
	submit := func(more object) (string, string) {
		t.Helper()
		status, m := as(wire.EndpointSubmit, "eth_send_transaction", w.Body(sendType, w.params(more)))
		if status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
			t.Fatalf("%d %v", status, m)
		}
		return rig.Text(m, "activity", "id"), rig.Text(m, "activity", "fingerprint")
	}
	vote := func(kind, fingerprint string) (int, object) {
		t.Helper()
		return w.Submit(kind+"_activity", "ACTIVITY_TYPE_"+strings.ToUpper(kind)+"_ACTIVITY", object{"fingerprint": fingerprint})
	}
	// Denied is what the policy says of the transaction as it would be signed.
	if status, m := as(wire.EndpointSubmit, "eth_send_transaction", w.Body(sendType, w.params(object{"gasLimit": "21001"}))); status != 403 {
		t.Fatalf("%d %v", status, m)
	}
	_, first := submit(nil)
	_, second := submit(nil)
	mine := w.send() // takes the number that the first was judged with
	status, m = vote("approve", first)
	id := rig.Text(m, "activity", "result", "ethSendTransactionResultV2", "sendTransactionStatusId")
	if status != 200 || id != rig.Text(m, "activity", "id") {
		t.Fatalf("%d %v", status, m)
	}
	w.once(mine, id)
	// With the node away nothing is approved, but rejected.
	w.chain.set(func() { w.chain.lie = func(string, []any) (any, bool) { return nil, true } })
	if status, m := vote("approve", second); status != 503 || rig.Text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" {
		t.Fatalf("%d %v", status, m)
	}
	if status, m := vote("reject", second); status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	w.chain.set(func() { w.chain.lie = nil })
	w.once(mine, id, w.send())
}

// TestBatchesNameOnly: what a host stores holds no readable transaction, and the
// enclave opens a send once its batch is stored.
func TestBatchesNameOnly(t *testing.T) {
	w := newWorld(t)
	w.Kill()
	inner, err := sqlite.Open(t.Context(), w.dir+"/cloister.db")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	watched := &watched{Store: inner}
	w.store = watched
	w.start()
	defer w.Kill()
	id := w.send()
	hash := rig.Text(w.until(id, "INCLUDED"), "eth", "txHash")
	watched.mu.Lock()
	defer watched.mu.Unlock()
	if len(watched.sends) != 1 {
		t.Fatalf("%d sends were stored", len(watched.sends))
	}
	ref := watched.sends[0]
	opened, err := w.Link.OpenSend(t.Context(), ref)
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
		if opened, err := w.Link.OpenSend(t.Context(), none); err != nil || opened.Found || opened.Signed != nil {
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
