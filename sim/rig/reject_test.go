package rig_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"cloister/host/egress"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// A transaction that cannot be made as its chain stands now, since the fees that a
// node names are beyond what its word may cost, can still be rejected.
func TestRejectedWhateverTheFees(t *testing.T) {
	var tip atomic.Value
	tip.Store("0x1")
	node := rig.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
		}
		if json.NewDecoder(r.Body).Decode(&ask) != nil {
			return
		}
		answers := map[string]any{"eth_chainId": "0x1", "eth_getTransactionCount": "0x5", "eth_estimateGas": "0x5208",
			"eth_feeHistory": map[string]any{"baseFeePerGas": []string{"0x7"}}, "eth_maxPriorityFeePerGas": tip.Load()}
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": ask.ID, "result": answers[ask.Method]})
	}))
	root := rig.Start(t, rig.Options{Nodes: egress.Nodes{"eip155:1": node}}).Root()
	from := client.Text(root.Do("CREATE_WALLET", client.Wallet("w", client.Ethereum)), "addresses", "0")
	agent := root.NewUser("Agent")
	root.Do("CREATE_POLICY_V3", client.Policy("p", "ALLOW", "eth.tx.value == 1", fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.count() > 1", agent.User)))
	asked := agent.Submit("ETH_SEND_TRANSACTION_V2", client.Object{"from": from, "caip2": "eip155:1",
		"calls": []any{client.Object{"to": "0x000000000000000000000000000000000000dEaD", "value": "1"}}})
	if asked.State() != "CONSENSUS_NEEDED" {
		t.Fatal(asked)
	}
	tip.Store("0xffffffffffffff")
	if got := root.Submit("APPROVE_ACTIVITY", voteOn(asked)); got.Status != 400 || got.Text("turnkeyErrorCode") != "RPC_CALL_ERROR" {
		t.Errorf("approved: %v", got)
	}
	if got := root.Submit("REJECT_ACTIVITY", voteOn(asked)); got.Status != 200 {
		t.Fatal(got)
	}
}
