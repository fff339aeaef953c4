package egress

import (
	"context"
	"fmt"
	"strings"

	"github.com/mr-tron/base58"

	"cloister/shared/wire"
)

// ofNetwork asks a node once which network it is of, by its first block.
func (n *node) ofNetwork(ctx context.Context) error {
	if n.proven.Load() {
		return nil
	}
	var hash string
	if err := n.call(ctx, &hash, "getGenesisHash"); err != nil {
		return err
	}
	if want := strings.TrimPrefix(n.name, "solana:"); !strings.HasPrefix(hash, want) {
		return fmt.Errorf("%w: the node is of another network", errWrong)
	}
	n.proven.Store(true)
	return nil
}

// solana answers a question about a network of Solana's.
func (n *node) solana(ctx context.Context, ask wire.Chain) wire.ChainState {
	if err := n.ofNetwork(ctx); err != nil {
		return verdict(err)
	}
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
	if len(latest.Value.Blockhash) > 44 {
		return verdict(fmt.Errorf("getLatestBlockhash: %w", errWrong))
	}
	hash, err := base58.Decode(latest.Value.Blockhash)
	if err != nil || len(hash) != len(wire.Hash{}) {
		return verdict(fmt.Errorf("getLatestBlockhash: %w", errWrong))
	}
	return wire.ChainState{Verdict: wire.ChainKnown, Blockhash: wire.Hash(hash)}
}
