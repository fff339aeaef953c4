package rig

import (
	"encoding/json"
	"net/http"
	"testing"

	"cloister/host/egress"
)

// Nodes are of chains on which nothing ever happens: they say how they stand, and are too busy to take a
// transaction. For tests in which something may be sent and it does not matter what comes of it.
func Nodes(t testing.TB) egress.Nodes {
	node := func(answers map[string]any) string {
		return ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var ask struct {
				ID     any    `json:"id"`
				Method string `json:"method"`
			}
			if json.NewDecoder(r.Body).Decode(&ask) != nil {
				return
			}
			reply := map[string]any{"jsonrpc": "2.0", "id": ask.ID}
			if result, ok := answers[ask.Method]; ok {
				reply["result"] = result
			} else {
				reply["error"] = map[string]any{"code": -32005, "message": "too busy"}
			}
			_ = json.NewEncoder(w).Encode(reply)
		}))
	}
	ethereum := map[string]any{"eth_getTransactionCount": "0x5", "eth_maxPriorityFeePerGas": "0x1", "eth_estimateGas": "0x5208", "eth_getBalance": "0x1",
		"eth_feeHistory": map[string]any{"baseFeePerGas": []string{"0x7"}}}
	with := func(id string) map[string]any {
		m := map[string]any{"eth_chainId": id}
		for k, v := range ethereum {
			m[k] = v
		}
		return m
	}
	return egress.Nodes{
		"eip155:1":        node(with("0x1")),
		"eip155:11155111": node(with("0xaa36a7")),
		"solana:devnet": node(map[string]any{"getGenesisHash": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
			"getLatestBlockhash": map[string]any{"value": map[string]any{"blockhash": "So11111111111111111111111111111111111111112"}}}),
	}
}
