package rig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"cloister/host/egress"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// A transaction that cannot be made as its chain stands now, since the fees that a
// node names are beyond what its word may cost, can still be rejected.
func TestRejectedWhateverTheFees(t *testing.T) {
	var tip atomic.Value
	tip.Store("0x1")
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	t.Cleanup(node.Close)
	r := rig.Start(t, rig.Options{Nodes: egress.Nodes{"eip155:1": node.URL}})
	submit := func(op, typ string, parameters any) map[string]any {
		t.Helper()
		status, m := r.Submit(op, "ACTIVITY_TYPE_"+typ, parameters)
		if status != 200 {
			t.Fatalf("%s: %d %v", op, status, m)
		}
		return m
	}
	m := submit("create_wallet", "CREATE_WALLET", map[string]any{"walletName": "w", "accounts": []any{map[string]any{
		"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}}})
	from := rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0")
	key, err := laptop.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	m = submit("create_users", "CREATE_USERS_V4", map[string]any{"users": []any{map[string]any{"userName": "Agent", "userTags": []string{}, "authenticators": []any{},
		"oauthProviders": []any{}, "apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": key.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	agent := rig.Text(m, "activity", "result", "createUsersResult", "userIds", "0")
	submit("create_policy", "CREATE_POLICY_V3", map[string]any{"policyName": "p", "effect": "EFFECT_ALLOW", "notes": "", "condition": "eth.tx.value == 1",
		"consensus": fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.count() > 1", agent)})
	body := r.Body("ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2", map[string]any{"from": from, "caip2": "eip155:1",
		"calls": []any{map[string]any{"to": "0x000000000000000000000000000000000000dEaD", "value": "1"}}})
	reply, err := r.Send(context.Background(), wire.EndpointSubmit, "eth_send_transaction", body, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(reply.Body, &m); err != nil {
		t.Fatal(err)
	}
	if got := rig.Text(m, "activity", "status"); got != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		t.Fatalf("%s: %s", got, reply.Body)
	}
	target := map[string]any{"fingerprint": rig.Text(m, "activity", "fingerprint")}
	tip.Store("0xffffffffffffff")
	if status, m := r.Submit("approve_activity", "ACTIVITY_TYPE_APPROVE_ACTIVITY", target); status != 400 || rig.Text(m, "turnkeyErrorCode") != "RPC_CALL_ERROR" {
		t.Errorf("approved: %d %v", status, m)
	}
	submit("reject_activity", "REJECT_ACTIVITY", target)
}
