package egress

import (
	"context"
	"fmt"

	"github.com/mr-tron/base58"

	"cloister/shared/wire"
)

// solana handles a request about a Solana network.
func (n *node) solana(ctx context.Context, ask wire.Chain) wire.ChainState {
	if ask.Want != wire.WantBlockhash {
		return wire.ChainState{Verdict: wire.ChainWrong, Text: "no such thing on this chain"}
	}
	var latest struct {
		Value struct {
			Blockhash string `json:"blockhash"`
		} `json:"value"`
	}
	if err := n.call(ctx, &latest, "getLatestBlockhash", map[string]string{"commitment": "confirmed"}); err != nil {
		return verdict(err)
	}
	var hash []byte
	if text := latest.Value.Blockhash; len(text) <= 44 { // base58 of 32 bytes is at most 44 characters
		hash, _ = base58.Decode(text)
	}
	if len(hash) != len(wire.Hash{}) {
		return verdict(fmt.Errorf("getLatestBlockhash: %w", errWrong))
	}
	return wire.ChainState{Verdict: wire.ChainKnown, Blockhash: wire.Hash(hash)}
}
