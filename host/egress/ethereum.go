package egress

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cloister/shared/wire"
)

// A quantity is a number in the hexadecimal encoding of Ethereum's JSON-RPC.
type quantity uint64

// UnmarshalJSON accepts "0x" and hexadecimal digits of a number below 2^64.
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

// decodeHex decodes "0x" and pairs of digits, at most most bytes; nil if text is malformed or longer.
func decodeHex(text string, most int) []byte {
	digits, ok := strings.CutPrefix(text, "0x")
	b, err := hex.DecodeString(digits[:min(len(digits)/2, most)*2])
	if !ok || err != nil {
		return nil
	}
	return b
}

// ethereum handles a request about an EVM chain.
func (n *node) ethereum(ctx context.Context, ask wire.Chain) wire.ChainState {
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
			if r, refused := errors.AsType[*refusal](err); refused && r.aboutCall() {
				reverts = r
				return nil
			}
			return err
		})
	}
	if ask.Want&wire.WantDelegation != 0 {
		account := encodeHex(ask.Account)
		asks = append(asks,
			func() (err error) { s.Delegate, err = n.delegate(ctx, account); return err },
			func() error {
				return n.call(ctx, (*quantity)(&s.Transactions), "eth_getTransactionCount", account, "latest")
			})
	}
	if ask.Want&wire.WantBlockhash != 0 {
		return wire.ChainState{Verdict: wire.ChainWrong, Text: "no such thing on this chain"}
	}
	err := runAll(asks...)
	if err == nil && ask.Want&wire.WantDelegation != 0 {
		// Read after the nonces: so the count includes the execution of each transaction that they count, unless it failed.
		s.Executions, err = n.executions(ctx, encodeHex(ask.Account))
	}
	switch {
	case err != nil:
		return verdict(err)
	case reverts != nil:
		return wire.ChainState{Verdict: wire.ChainReverts, Text: clean(reverts.Message)}
	}
	// The two counts may be from different moments.
	s.Pending = max(s.Pending, s.Latest)
	return s
}

// aboutCall reports whether a refusal is about the call or transaction. Other refusals are about the
// request: a rate limit, or a method that the node does not have.
func (r *refusal) aboutCall() bool {
	switch r.Code {
	case 3, -32000, -32003, -32010, -32015: // reverted; refused, by three kinds of node; failed
		return true
	}
	return false
}

// callOf is the parameter of eth_call and eth_estimateGas.
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

// delegationPrefix begins the code of an account that delegates to a contract (EIP-7702).
const delegationPrefix = "0xef0100"

// delegate is the contract that an account delegates to, nil for none.
func (n *node) delegate(ctx context.Context, account string) ([]byte, error) {
	var code string
	if err := n.call(ctx, &code, "eth_getCode", account, "latest"); err != nil {
		return nil, err
	}
	if code == "0x" {
		return nil, nil
	}
	digits, ok := strings.CutPrefix(strings.ToLower(code), delegationPrefix)
	b := decodeHex("0x"+digits, 21)
	if !ok || len(b) != 20 {
		return nil, fmt.Errorf("eth_getCode: %w: the account has code of its own", errWrong)
	}
	return b, nil
}

// executionsSlot is the storage slot of an account in which TKGasDelegate keeps its execution count, in the low 16 bytes.
const executionsSlot = "0x34d5be385818fa5c8c4e7f9d5a028251d28ebab8aaf203a072d1dde2d49a1100"

// executions is an account's execution count, which is the number of the next execution.
func (n *node) executions(ctx context.Context, account string) (uint64, error) {
	var value string
	if err := n.call(ctx, &value, "eth_getStorageAt", account, executionsSlot, "latest"); err != nil {
		return 0, err
	}
	b := decodeHex(value, 33)
	if len(b) != 32 || binary.BigEndian.Uint64(b[16:]) != 0 {
		return 0, fmt.Errorf("eth_getStorageAt: %w", errWrong)
	}
	return binary.BigEndian.Uint64(b[24:]), nil
}

// baseFee is the base fee per gas of the next block.
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
