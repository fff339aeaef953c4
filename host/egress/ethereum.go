package egress

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cloister/shared/wire"
)

// A quantity is a number as Ethereum's nodes write it.
type quantity uint64

// UnmarshalJSON takes "0x" and hexadecimal digits of a number below 2^64.
func (q *quantity) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(text, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || strings.ContainsAny(digits, "+_") {
		return errWrong
	}
	*q = quantity(n)
	return nil
}

func encodeHex(b []byte) string { return "0x" + hex.EncodeToString(b) }

// decodeHex reads "0x" and pairs of digits, at most most bytes of them.
func decodeHex(text string, most int) []byte {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil
	}
	b, err := hex.DecodeString(digits[:min(len(digits)/2, most)*2])
	if err != nil {
		return nil
	}
	return b
}

// ofChain asks a node once whose it is: one of another chain would answer all
// the rest for the wrong accounts.
func (n *node) ofChain(ctx context.Context) error {
	if n.proven.Load() {
		return nil
	}
	want, _ := chainID(n.name)
	var id quantity
	if err := n.call(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if uint64(id) != want {
		return fmt.Errorf("%w: the node is of chain eip155:%d", errWrong, id)
	}
	n.proven.Store(true)
	return nil
}

// ethereum answers a question about a chain of Ethereum's kind.
func (n *node) ethereum(ctx context.Context, ask wire.Chain) wire.ChainState {
	if err := n.ofChain(ctx); err != nil {
		return verdict(err)
	}
	s := wire.ChainState{Verdict: wire.ChainKnown}
	from := encodeHex(ask.From)
	var asks []func() error
	if ask.Want&wire.WantNonces != 0 {
		asks = append(asks,
			func() error { return n.call(ctx, (*quantity)(&s.Latest), "eth_getTransactionCount", from, "latest") },
			func() error { return n.call(ctx, (*quantity)(&s.Pending), "eth_getTransactionCount", from, "pending") })
	}
	if ask.Want&wire.WantFees != 0 {
		asks = append(asks,
			func() (err error) { s.BaseFee, err = n.baseFee(ctx); return err },
			func() error { return n.call(ctx, (*quantity)(&s.Tip), "eth_maxPriorityFeePerGas") })
	}
	var reverts *refusal
	if ask.Want&wire.WantGas != 0 {
		asks = append(asks, func() error {
			err := n.call(ctx, (*quantity)(&s.Gas), "eth_estimateGas", callOf(ask))
			if r := new(refusal); errors.As(err, &r) && r.aboutCall() {
				reverts = r
				return nil
			}
			return err
		})
	}
	if ask.Want&wire.WantBlockhash != 0 {
		return wire.ChainState{Verdict: wire.ChainWrong, Text: "no such thing on this chain"}
	}
	err := runAll(asks...)
	switch {
	case err != nil:
		return verdict(err)
	case reverts != nil:
		return wire.ChainState{Verdict: wire.ChainReverts, Text: clean(reverts.Message)}
	}
	// The two counts are of two moments.
	s.Pending = max(s.Pending, s.Latest)
	return s
}

// aboutCall tells a refusal that is about the call or transaction that the node
// was handed from one that is about asking at all: a limit, a method that it has not.
func (r *refusal) aboutCall() bool {
	switch r.Code {
	case 3, -32000, -32003, -32010, -32015: // reverted; refused, in three dialects; failed
		return true
	}
	return false
}

// callOf is a call as a node wants it described.
func callOf(ask wire.Chain) map[string]string {
	call := map[string]string{"from": encodeHex(ask.From), "value": "0x0"}
	if len(ask.To) > 0 {
		call["to"] = encodeHex(ask.To)
	}
	if digits := strings.TrimLeft(hex.EncodeToString(ask.Value), "0"); digits != "" {
		call["value"] = "0x" + digits
	}
	if len(ask.Data) > 0 {
		call["data"] = encodeHex(ask.Data)
	}
	return call
}

// baseFee is what a unit of gas costs in the next block, before tips.
func (n *node) baseFee(ctx context.Context) (uint64, error) {
	var history struct {
		BaseFees []quantity `json:"baseFeePerGas"`
	}
	if err := n.call(ctx, &history, "eth_feeHistory", "0x1", "latest", []int{}); err != nil {
		return 0, err
	}
	if len(history.BaseFees) == 0 || len(history.BaseFees) > 2 {
		return 0, fmt.Errorf("eth_feeHistory: %w: %d base fees", errWrong, len(history.BaseFees))
	}
	return uint64(history.BaseFees[len(history.BaseFees)-1]), nil
}
