package egress

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/mr-tron/base58"

	"cloister/shared/wire"
)

// tokenPrograms are the token programs of Solana: SPL Token and Token-2022.
var tokenPrograms = []string{"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"}

// tokenAccount is the length of the part of a token account that is read: mint, owner and amount.
const tokenAccount = 32 + 32 + 8

var confirmed = map[string]any{"commitment": "confirmed"}

func (n *node) solanaBalances(ctx context.Context, address string, r *wire.ChainReading) error {
	owner, err := base58.Decode(address[:min(len(address), 44)])
	if err != nil || len(owner) != 32 {
		return fmt.Errorf("%w: no address", errWrong)
	}
	var coin struct {
		Value *uint64 `json:"value"`
	}
	var accounts [2]struct {
		Value []struct {
			Account struct {
				Data [2]string `json:"data"` // the data and its encoding
			} `json:"account"`
		} `json:"value"`
	}
	asks := []func() error{func() error { return n.call(ctx, &coin, "getBalance", address, confirmed) }}
	for i, program := range tokenPrograms {
		if len(n.tokens) == 0 {
			break
		}
		asks = append(asks, func() error {
			return n.call(ctx, &accounts[i], "getTokenAccountsByOwner", address, map[string]string{"programId": program},
				map[string]any{"commitment": "confirmed", "encoding": "base64", "dataSlice": map[string]int{"offset": 0, "length": tokenAccount}})
		})
	}
	if err := runAll(asks...); err != nil {
		return err
	}
	if coin.Value == nil {
		return fmt.Errorf("getBalance: %w", errWrong)
	}
	sums := map[[32]byte]*big.Int{}
	for _, of := range accounts {
		for _, a := range of.Value {
			data, err := base64.StdEncoding.DecodeString(a.Account.Data[0])
			if err != nil || len(data) != tokenAccount || string(data[32:64]) != string(owner) {
				return fmt.Errorf("getTokenAccountsByOwner: %w", errWrong)
			}
			mint := [32]byte(data)
			if sums[mint] == nil {
				sums[mint] = new(big.Int)
			}
			sums[mint].Add(sums[mint], new(big.Int).SetUint64(binary.LittleEndian.Uint64(data[64:])))
		}
	}
	r.Coin = new(big.Int).SetUint64(*coin.Value).Bytes()
	for i, t := range n.tokens {
		if sum := sums[[32]byte(t.address)]; sum != nil {
			r.Tokens[i].Balance = sum.Bytes()
		}
	}
	return nil
}

// solanaMined looks up the blocks of transactions; blocks of abandoned forks do not count.
func (n *node) solanaMined(ctx context.Context, names []string, mined []wire.Mined) error {
	var found struct {
		Value []*solanaStatus `json:"value"`
	}
	if err := n.call(ctx, &found, "getSignatureStatuses", names, map[string]bool{"searchTransactionHistory": true}); err != nil {
		return err
	}
	if len(found.Value) != len(names) {
		return fmt.Errorf("getSignatureStatuses: %w: %d statuses", errWrong, len(found.Value))
	}
	return eachAtOnce(len(names), func(i int) error {
		s := found.Value[i]
		if s == nil || s.Confirmation != "confirmed" && s.Confirmation != "finalized" {
			return nil
		}
		var in *struct {
			Slot uint64 `json:"slot"`
			Time *int64 `json:"blockTime"`
			Meta *struct {
				Fee     uint64          `json:"fee"`
				Failure json.RawMessage `json:"err"`
			} `json:"meta"`
			Transaction struct {
				Signatures []string `json:"signatures"`
			} `json:"transaction"`
		}
		err := n.call(ctx, &in, "getTransaction", names[i], map[string]any{"commitment": "confirmed", "encoding": "json", "maxSupportedTransactionVersion": 0})
		if err != nil || in == nil {
			return err
		}
		var block *struct {
			Hash string `json:"blockhash"`
		}
		if err := n.call(ctx, &block, "getBlock", in.Slot, map[string]any{"commitment": "confirmed", "transactionDetails": "none", "rewards": false, "maxSupportedTransactionVersion": 0}); err != nil {
			return err
		}
		if in.Meta == nil || in.Time == nil || *in.Time < 0 || *in.Time > 1<<40 || len(in.Transaction.Signatures) == 0 || in.Transaction.Signatures[0] != names[i] ||
			block == nil || block.Hash == "" || len(block.Hash) > 44 {
			return fmt.Errorf("getTransaction: %w", errWrong)
		}
		mined[i] = wire.Mined{Block: in.Slot, Hash: block.Hash, TimeMs: uint64(*in.Time) * 1000, Fee: new(big.Int).SetUint64(in.Meta.Fee).Bytes(),
			Failed: len(in.Meta.Failure) > 0 && string(in.Meta.Failure) != "null", Final: s.Confirmation == "finalized"}
		return nil
	})
}
