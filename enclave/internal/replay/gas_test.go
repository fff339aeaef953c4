package replay_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/enclave/core"
	"cloister/enclave/internal/org"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// node answers as a chain does whose accounts have sent nothing, and takes what comes.
func node(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			ID     any
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&ask)
		answers := map[string]any{"eth_chainId": "0x1", "eth_getTransactionCount": "0x0", "eth_getCode": "0x", "eth_maxPriorityFeePerGas": "0x1", "eth_estimateGas": "0x5208",
			"eth_getStorageAt": "0x" + strings.Repeat("0", 64), "eth_feeHistory": map[string]any{"baseFeePerGas": []string{"0x3b9aca00"}}, "eth_sendRawTransaction": "0x" + strings.Repeat("0", 64),
			"getGenesisHash": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG", "getLatestBlockhash": map[string]any{"value": map[string]any{"blockhash": "So11111111111111111111111111111111111111112"}},
			"getRecentPrioritizationFees": []any{map[string]any{"prioritizationFee": 1000}}, "getMultipleAccounts": map[string]any{"value": []any{map[string]any{}, nil}}}
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": ask.ID, "result": answers[ask.Method]})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestGasIsReplayed: batches, sponsored transactions of a tree, their refusal and the end of a delegation are decided again
// as they were, and what was changed of them is found.
func TestGasIsReplayed(t *testing.T) {
	h := begin(t, rig.Options{Nodes: map[string]string{"eip155:1": node(t), "solana:devnet": node(t)},
		Configuration: []byte(`{"gas":{"prices":{"eip155:1":2500000000,"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1":100000000}}}`)})
	top := h.orgs[0]
	sub := h.below(client.NewKey())
	must := func(want int, o *member, typ string, p object) {
		t.Helper()
		if _, got := h.do(o, o.root, typ, p); got != want {
			t.Fatalf("%s: %d, want %d", typ, got, want)
		}
	}
	must(200, top, "UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": "100", "subOrgWindowLimitUsd": "7", "windowDurationMinutes": "60",
		"solanaConfig": object{"rentPrefundEnabled": true}})
	for _, o := range h.orgs {
		r, _ := h.do(o, o.root, "CREATE_WALLET", client.Wallet("W", client.Ethereum))
		o.addresses = []string{client.Text(r, "addresses", "0")}
		calls := []object{{"to": o.addresses[0], "value": "1"}, {"to": o.addresses[0], "data": "0x1234"}}
		send := func(more object) object {
			p := object{"from": o.addresses[0], "caip2": "eip155:1", "calls": calls}
			for k, v := range more {
				p[k] = v
			}
			return p
		}
		must(200, o, "ETH_SEND_TRANSACTION_V2", send(object{"calls": calls[:1]}))
		must(200, o, "ETH_SEND_TRANSACTION_V2", send(object{"gasStationNonce": "9", "nonce": "3"}))
		dear := object{"sponsor": true, "gasLimit": "400000", "maxFeePerGas": "3000000000"}
		for range 2 {
			dear["gasStationNonce"] = fmt.Sprint(h.n)
			h.n++
			must(200, o, "ETH_SEND_TRANSACTION_V2", send(dear))
		}
		if o == sub {
			dear["gasStationNonce"] = "1000"
			must(429, o, "ETH_SEND_TRANSACTION_V2", send(dear))
		}
		r, _ = h.do(o, o.root, "CREATE_WALLET", client.Wallet("S", client.Solana, client.Account("ED25519", "m/44'/501'/1'/0'", "SOLANA")))
		must(200, o, "SOL_SEND_TRANSACTION_V2", newAccount(t, client.Text(r, "addresses", "0"), client.Text(r, "addresses", "1")))
		must(200, o, "ETH_UNDELEGATE_7702", object{"from": o.addresses[0], "caip2": "eip155:1"})
	}
	must(200, top, "UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": "0", "subOrgWindowLimitUsd": "0", "windowDurationMinutes": "1", "enabled": false})
	if m := h.as(sub, sub.root).Read("get_gas_usage", nil); m["usageUsd"] == "0" && m["windowDurationMinutes"] != 1.0 {
		t.Errorf("%v", m)
	}

	all := h.read()
	report, err := run(all)
	if err != nil {
		t.Fatal(err)
	}
	for typ, grade := range map[string]core.ReplayGrade{"ETH_SEND_TRANSACTION_V2": core.ReplayVerified, "ETH_UNDELEGATE_7702": core.ReplayVerified, "SOL_SEND_TRANSACTION_V2": core.ReplayVerified, "UPSERT_GAS_USAGE_CONFIG": core.ReplaySealed} {
		if report.Grades["ACTIVITY_TYPE_"+typ][grade] < 2 {
			t.Errorf("%s: %v", typ, report.Grades["ACTIVITY_TYPE_"+typ])
		}
	}
	// What was sent is held against what was asked for.
	for i, one := range all {
		for j, r := range one.Entries {
			for k := range r.Entry.Sends {
				if r.Entry.Sends[k].Kind != org.SendTransaction {
					continue
				}
				was := r.Entry.Sends[k].Content
				x, err := org.DecodeTransaction(was)
				if err != nil {
					t.Fatal(err)
				}
				x.Signed[len(x.Signed)/2] ^= 1
				if r.Entry.Sends[k].Content, err = x.Encode(); err != nil {
					t.Fatal(err)
				}
				if _, err := run(all); err == nil {
					t.Errorf("history %d, entry %d (%s): another transaction, and nobody finds it", i, j, r.Entry.Type)
				}
				r.Entry.Sends[k].Content = was
			}
		}
	}
}

// newAccount are the parameters of a sponsored transaction in which payer makes an account.
func newAccount(t *testing.T, payer, account string) object {
	tx := append([]byte{2}, make([]byte, 128)...)
	tx = append(tx, 2, 0, 1, 3)
	for _, address := range []string{payer, account} {
		key, err := base58.Decode(address)
		if err != nil {
			t.Fatal(err)
		}
		tx = append(tx, key...)
	}
	tx = append(tx, make([]byte, 64)...)
	tx = append(tx, 1, 2, 2, 0, 1, 52, 0, 0, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, 165, 0, 0, 0, 0, 0, 0, 0)
	tx = append(tx, make([]byte, 32)...)
	return object{"unsignedTransaction": hex.EncodeToString(tx), "signWiths": []string{payer, account}, "caip2": "solana:devnet", "sponsor": true}
}
