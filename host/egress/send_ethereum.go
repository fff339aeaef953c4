package egress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/shared/wire"
)

// Error texts of nodes about a transaction, from go-ethereum and nodes that copy its texts. There are
// no error codes for them.
var (
	saidKnown = []string{"already known", "known transaction", "already imported", "already exists", "alreadyknown"}
	saidUsed  = []string{"nonce too low", "nonce is too low", "invalid nonce; got", "oldnonce"}
	saidLater = []string{"nonce too high", "nonce is too high", "nonce gap", "gapped-nonce", "in-flight", "pool is full", "pool full", "queue full", "try again",
		"rate limit", "too many requests", "timeout", "timed out", "syncing", "not ready", "unavailable", "temporar", "internal error", "header not found"}
)

func containsAny(text string, what []string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(what, func(w string) bool { return strings.Contains(text, w) })
}

func (a *attempt) handEthereum(ctx context.Context, n *node, signed []byte) (took bool, err error) {
	var name string
	err = n.call(ctx, &name, "eth_sendRawTransaction", encodeHex(signed))
	r, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil && strings.EqualFold(name, a.memo.Name):
		return true, nil
	case err == nil:
		return false, fmt.Errorf("eth_sendRawTransaction: %w: another transaction's name", errWrong)
	case !refused:
		return false, err
	case containsAny(r.Message, saidKnown):
		return true, nil
	}
	// An earlier attempt may have reached the node although its response was lost.
	there, lerr := a.hasTransaction(ctx, n)
	switch {
	case lerr != nil:
		return false, lerr
	case there:
		return true, nil
	case containsAny(r.Message, saidUsed):
		a.end(wire.SendReplaced, r.Message)
	case containsAny(r.Message, saidLater) || !r.aboutCall() && r.Code != -32602:
		return false, err
	default:
		a.end(wire.SendRefused, r.Message)
	}
	return false, nil
}

// hasTransaction reports whether the node has the transaction, in a block or not.
func (a *attempt) hasTransaction(ctx context.Context, n *node) (bool, error) {
	var tx *struct {
		Hash string `json:"hash"`
	}
	if err := n.call(ctx, &tx, "eth_getTransactionByHash", a.memo.Name); err != nil {
		return false, err
	}
	if tx != nil && !strings.EqualFold(tx.Hash, a.memo.Name) {
		return false, fmt.Errorf("eth_getTransactionByHash: %w: another transaction", errWrong)
	}
	return tx != nil, nil
}

func (a *attempt) followEthereum(ctx context.Context, n *node) error {
	var receipt *struct {
		Name   string   `json:"transactionHash"`
		Status quantity `json:"status"`
		Block  quantity `json:"blockNumber"`
	}
	err := n.call(ctx, &receipt, "eth_getTransactionReceipt", a.memo.Name)
	switch {
	case err != nil:
		return err
	case receipt != nil && !strings.EqualFold(receipt.Name, a.memo.Name):
		return fmt.Errorf("eth_getTransactionReceipt: %w: another transaction's", errWrong)
	case receipt != nil && receipt.Status == 1:
		a.end(wire.SendIncluded, "")
		return nil
	case receipt != nil:
		a.end(wire.SendReverted, "execution reverted")
		a.reason(ctx, n, receipt.Block)
		return nil
	}
	there, err := a.hasTransaction(ctx, n)
	if err != nil {
		return err
	}
	if there {
		a.send.State = max(a.send.State, wire.SendAccepted)
		a.noteSeen()
		return nil
	}
	if len(a.memo.From) > 0 {
		var used quantity
		if err := n.call(ctx, &used, "eth_getTransactionCount", encodeHex(a.memo.From), "latest"); err != nil {
			return err
		}
		if uint64(used) > a.memo.Nonce {
			if a.memo.Gone++; a.memo.Gone >= goneLooks {
				a.end(wire.SendReplaced, "another transaction with its nonce is in a block")
				return nil
			}
			a.retryLater("the node does not have it")
			return nil
		}
	}
	return a.handleMissing(ctx, n)
}

// reason finds out why a transaction failed in a block, by an eth_call of the same call at that block.
func (a *attempt) reason(ctx context.Context, n *node, block quantity) {
	var tx *struct {
		From  string  `json:"from"`
		To    *string `json:"to"`
		Gas   string  `json:"gas"`
		Value string  `json:"value"`
		Input string  `json:"input"`
	}
	if n.call(ctx, &tx, "eth_getTransactionByHash", a.memo.Name) != nil || tx == nil {
		return
	}
	call := map[string]string{"from": tx.From, "gas": tx.Gas, "value": tx.Value, "data": tx.Input}
	if tx.To != nil {
		call["to"] = *tx.To
	}
	var out string
	r, refused := errors.AsType[*refusal](n.call(ctx, &out, "eth_call", call, fmt.Sprintf("0x%x", uint64(block))))
	if !refused {
		return
	}
	a.send.Text = clean(r.Message)
	var data string
	if len(r.Data) > 0 && r.Data[0] == '"' {
		data = strings.Trim(string(r.Data), `"`)
	}
	a.send.Revert = decodeHex(data, wire.MaxRevert)
}
