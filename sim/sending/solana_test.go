package sending_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mr-tron/base58"

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
		var status any
		if n.sent[ask.Params[0].([]any)[0].(string)] > 0 && n.done {
			status = object{"slot": 1, "confirmationStatus": "confirmed", "err": nil}
		}
		reply["result"] = object{"value": []any{status}}
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

// signedBy is the first signature of a transaction of one signer, if it is right
// and the blockhash is recent.
func signedBy(tx []byte) string {
	want, _ := base58.Decode(recent)
	if len(tx) < 65+4+96+32 || tx[0] != 1 || !ed25519.Verify(tx[69:101], tx[65:], tx[1:65]) || string(tx[165:197]) != string(want) {
		return ""
	}
	return base58.Encode(tx[1:65])
}

// devnet is a world with a node of Solana's and no other.
func devnet(t testing.TB, n *network) *world {
	w := &world{t: t, rig: rig.Start(t, rig.Options{Nodes: egress.Nodes{"solana:devnet": n.URL}})}
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
