package sending_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/enclave/decode"
	"cloister/host/egress"
	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// A network is a node of Solana's that checks signatures and keeps what comes.
type network struct {
	*httptest.Server
	mu   sync.Mutex
	sent map[string]int // by name
	done bool           // what was sent is confirmed
	down bool
}

const recent = "So11111111111111111111111111111111111111112"

func newNetwork(t testing.TB) *network {
	n := &network{sent: map[string]int{}}
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *network) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ask struct {
		ID     any
		Method string
		Params []any
	}
	if json.NewDecoder(r.Body).Decode(&ask) != nil || n.down {
		panic(http.ErrAbortHandler)
	}
	reply := object{"jsonrpc": "2.0", "id": ask.ID}
	switch ask.Method {
	case "getGenesisHash":
		reply["result"] = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"
	case "getLatestBlockhash":
		reply["result"] = object{"value": object{"blockhash": recent}}
	case "sendTransaction":
		tx, _ := base64.StdEncoding.DecodeString(ask.Params[0].(string))
		if name := signedBy(tx); name != "" {
			n.sent[name]++
			reply["result"] = name
		} else {
			reply["error"] = object{"code": -32003, "message": "Transaction signature verification failure"}
		}
	case "getSignatureStatuses":
		names := ask.Params[0].([]any)
		all := make([]any, len(names))
		for i, name := range names {
			if n.sent[name.(string)] > 0 && n.done {
				all[i] = object{"slot": 1, "confirmationStatus": "confirmed", "err": nil}
			}
		}
		reply["result"] = object{"value": all}
	case "getRecentPrioritizationFees":
		reply["result"] = []object{{"slot": 1, "prioritizationFee": 1000}}
	case "getMultipleAccounts":
		reply["result"] = object{"value": make([]any, len(ask.Params[0].([]any)))}
	case "getBalance":
		reply["result"] = object{"value": 1_500_000_000}
	case "getTransaction":
		reply["result"] = object{"slot": 7, "blockTime": 0x68000000, "meta": object{"fee": 5000, "err": nil}, "transaction": object{"signatures": ask.Params[:1]}}
	case "getBlock":
		reply["result"] = object{"blockhash": recent}
	default:
		reply["error"] = object{"code": -32601, "message": "Method not found"}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// signedBy is the first signature of a legacy transaction, if those of all signers are right and the blockhash is recent.
func signedBy(tx []byte) string {
	want, _ := base58.Decode(recent)
	if len(tx) < 65+4+96+32 {
		return ""
	}
	signers := int(tx[0])
	message := tx[min(1+64*signers, len(tx)):]
	if len(message) < 4 || len(message) < 4+32*int(message[3])+32 || int(message[0]) != signers || string(message[4+32*int(message[3]):][:32]) != string(want) {
		return ""
	}
	for i := range signers {
		if !ed25519.Verify(message[4+32*i:][:32], message, tx[1+64*i:][:64]) {
			return ""
		}
	}
	return base58.Encode(tx[1:65])
}

// devnet is a world with a node of Solana's and no other, where a signature costs a dollar.
func devnet(t testing.TB, n *network) *world {
	w := &world{t: t, rig: rig.Start(t, rig.Options{Nodes: egress.Nodes{"solana:devnet": n.URL},
		Configuration: []byte(`{"gas":{"prices":{"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1":200000000000}}}`)})}
	w.User = w.rig.Root()
	return w
}

// payment makes an account, and the parameters of a transaction in which it pays.
func (w *world) payment() (address string, params object) {
	address = client.Text(w.Do("CREATE_WALLET", client.Wallet("First", client.Solana)), "addresses", "0")
	key, err := base58.Decode(address)
	if err != nil {
		w.t.Fatal(err)
	}
	// One signer pays 5 lamports to account 9…; the blockhash is left open.
	tx := append([]byte{1}, make([]byte, 64)...)
	tx = append(append(tx, 1, 0, 1, 3), key...)
	tx = append(append(tx, strings.Repeat("\x09", 32)...), make([]byte, 64)...)
	tx = append(tx, 1, 2, 2, 0, 1, 12, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0)
	return address, object{"unsignedTransaction": hex.EncodeToString(tx), "signWiths": []string{address}, "caip2": "solana:devnet"}
}

func TestSolana(t *testing.T) {
	n := newNetwork(t)
	w := devnet(t, n)
	_, params := w.payment()
	n.set(func() { n.down = true })
	if r := w.Submit("SOL_SEND_TRANSACTION_V2", params); r.Status != 503 || r.Text("turnkeyErrorCode") != "RPC_CALL_ERROR" {
		t.Fatal(r)
	}
	n.set(func() { n.down = false })
	id := client.Text(w.Do("SOL_SEND_TRANSACTION_V2", params), "sendTransactionStatusId")
	name := client.Text(w.until(id, "BROADCASTING"), "solana", "signature")
	clocktest.Until(t, name+", which is not confirmed, goes out again", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.sent[name] > 1
	})
	n.set(func() { n.done = true })
	if m := w.until(id, "INCLUDED"); client.Text(m, "solana", "signature") != name || m["eth"] != nil {
		t.Fatal(m)
	}
	if len(n.sent) != 1 {
		t.Fatal(n.sent)
	}
}

// TestSponsoredSolana: the sponsor's account pays, and of many requests at once exactly those are sent that fit into the window.
func TestSponsoredSolana(t *testing.T) {
	n := newNetwork(t)
	w := devnet(t, n)
	address, params := w.payment()
	params["sponsor"] = true
	const fit, requests = 8, 24
	w.Do("UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": "17.5", "subOrgWindowLimitUsd": "0", "windowDurationMinutes": "60"}) // 2.08 dollars for each
	sponsor := w.Query("get_gas_station", nil).Text("solanaSponsor")
	var all sync.WaitGroup
	replies := make([]client.Reply, requests)
	for i := range replies {
		all.Go(func() {
			one := maps.Clone(params)
			tx := one["unsignedTransaction"].(string)
			one["unsignedTransaction"] = tx[:len(tx)-16] + fmt.Sprintf("%02x", i+1) + tx[len(tx)-14:] // another amount
			replies[i] = w.Submit("SOL_SEND_TRANSACTION_V2", one)
		})
	}
	all.Wait()
	sent := 0
	for _, r := range replies {
		switch {
		case r.Status == 200:
			sent++
		case r.Status != 429 || !strings.Contains(r.String(), "orgWindowLimitUsd of 17.5 USD"):
			t.Error(r)
		}
	}
	usage := w.Query("get_gas_usage", nil).Text("usageUsd")
	if sent != fit || usage != "16.64" {
		t.Errorf("%d are sent for %s, want %d", sent, usage, fit)
	}
	n.set(func() { n.done = true })
	clocktest.Until(t, "all are at the node", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.sent) == sent
	})
	r := w.read("list_sol_transaction_history", object{"address": address, "caip2": "solana:devnet"})
	of, _ := r.Get("transactions").([]any)
	if r.Status != 200 || len(of) != sent || r.Text("transactions", "0", "feePayer") != sponsor || sponsor == "" {
		t.Error(r)
	}
}

// decodes makes what an approver is shown outside of the enclave, and wants the same bytes.
func decodes(t *testing.T, by *client.User, shown client.Reply) {
	t.Helper()
	q := decode.Question{Activity: string(shown.Body), Records: []string{string(by.Query("list_wallet_accounts", nil).Body)}}
	if a, err := q.Answer(); err != nil || !a.Shown || len(a.Differences) > 0 {
		t.Errorf("%v: %v, of %v", a, err, shown)
	}
}

// TestSponsoredSolanaIsShown: to approvers, without a fee of the organization's, since what the payer adds comes with the last vote.
func TestSponsoredSolanaIsShown(t *testing.T) {
	n := newNetwork(t)
	w := devnet(t, n)
	second := w.NewUser("Second")
	_, params := w.payment()
	w.Do("UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": "10", "subOrgWindowLimitUsd": "0", "windowDurationMinutes": "60"})
	w.Do("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{w.User.User, second.User}})
	for _, sponsor := range []bool{true, false} {
		params["sponsor"] = sponsor
		asked := w.Submit("SOL_SEND_TRANSACTION_V2", params)
		if asked.State() != "CONSENSUS_NEEDED" {
			t.Fatal(asked)
		}
		shown := second.Query("get_activity", object{"activityId": asked.Text("activity", "id")})
		part := func(keys ...string) any {
			return shown.Get(append([]string{"activity", "decoded", "parts", "0"}, keys...)...)
		}
		spent := map[bool]string{true: "5", false: "5005"}[sponsor]
		if (part("feePayer") == "SPONSOR") != sponsor || part("spent", "value") != spent || (part("maxFee") == nil) != sponsor || part("recentBlockhash", "source") != "HOST" || part("signs", "0") != nil {
			t.Errorf("sponsor %t: %v", sponsor, shown)
		}
		decodes(t, second, shown)
		vote := object{"fingerprint": asked.Text("activity", "fingerprint"), "decodedDigest": shown.Text("activity", "decodedDigest")}
		if r := second.Submit("APPROVE_ACTIVITY", vote); r.State() != "COMPLETED" {
			t.Error(r)
		}
		w.until(asked.Text("activity", "id"), "BROADCASTING")
	}
	clocktest.Until(t, "both are at the node", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.sent) == 2
	})
}
