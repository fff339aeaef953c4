package egress

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mr-tron/base58"

	"cloister/shared/wire"
)

// solana handles a request about a Solana network.
func (n *node) solana(ctx context.Context, ask wire.Chain) wire.ChainState {
	const all = wire.WantBlockhash | wire.WantFees | wire.WantExisting
	if ask.Want&^all != 0 || len(ask.Accounts) > wire.MaxChainAccounts {
		return wire.ChainState{Verdict: wire.ChainWrong, Text: "no such thing on this chain"}
	}
	accounts := make([]string, len(ask.Accounts))
	for i, a := range ask.Accounts {
		accounts[i] = base58.Encode(a)
	}
	s := wire.ChainState{Verdict: wire.ChainKnown}
	var asks []func() error
	if ask.Want&wire.WantBlockhash != 0 {
		asks = append(asks, func() (err error) { s.Blockhash, err = n.blockhash(ctx); return err })
	}
	if ask.Want&wire.WantFees != 0 {
		asks = append(asks, func() (err error) { s.Tip, err = n.priorityFee(ctx, accounts); return err })
	}
	if ask.Want&wire.WantExisting != 0 {
		asks = append(asks, func() (err error) { s.Existing, err = n.existing(ctx, accounts); return err })
	}
	if err := runAll(asks...); err != nil {
		return verdict(err)
	}
	return s
}

// blockhash is the newest blockhash of a block that most validators voted for.
func (n *node) blockhash(ctx context.Context) (hash wire.Hash, err error) {
	var latest struct {
		Value struct {
			Blockhash string `json:"blockhash"`
		} `json:"value"`
	}
	if err := n.call(ctx, &latest, "getLatestBlockhash", map[string]string{"commitment": "confirmed"}); err != nil {
		return hash, err
	}
	var b []byte
	if text := latest.Value.Blockhash; len(text) <= 44 { // base58 of 32 bytes is at most 44 characters
		b, _ = base58.Decode(text)
	}
	if len(b) != len(hash) {
		return hash, fmt.Errorf("getLatestBlockhash: %w", errWrong)
	}
	return wire.Hash(b), nil
}

// priorityFee is the price of a unit of computation with which a transaction would have been in three of four recent blocks,
// beside others that change the same accounts.
func (n *node) priorityFee(ctx context.Context, accounts []string) (uint64, error) {
	var recent []struct {
		Fee uint64 `json:"prioritizationFee"`
	}
	if err := n.call(ctx, &recent, "getRecentPrioritizationFees", accounts); err != nil || len(recent) == 0 {
		return 0, err
	}
	fees := make([]uint64, len(recent))
	for i := range recent {
		fees[i] = recent[i].Fee
	}
	slices.Sort(fees)
	return fees[(len(fees)-1)*3/4], nil
}

// existing has bit i set if there is account i.
func (n *node) existing(ctx context.Context, accounts []string) (bits uint64, err error) {
	var found struct {
		Value []json.RawMessage `json:"value"`
	}
	options := map[string]any{"commitment": "confirmed", "encoding": "base64", "dataSlice": map[string]int{"offset": 0, "length": 0}}
	if err := n.call(ctx, &found, "getMultipleAccounts", accounts, options); err != nil {
		return 0, err
	}
	if len(found.Value) != len(accounts) {
		return 0, fmt.Errorf("getMultipleAccounts: %w", errWrong)
	}
	for i, account := range found.Value {
		if string(account) != "null" {
			bits |= 1 << i
		}
	}
	return bits, nil
}
