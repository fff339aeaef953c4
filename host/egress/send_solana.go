package egress

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cloister/shared/wire"
)

// Error codes of Solana's nodes for a refused transaction.
const (
	solanaPreflight = -32002 // the simulation fails
	solanaSignature = -32003
	solanaVersion   = -32015
	invalidParams   = -32602
)

func (a *attempt) handSolana(ctx context.Context, n *node, signed []byte) (took bool, err error) {
	var name string
	err = n.call(ctx, &name, "sendTransaction", base64.StdEncoding.EncodeToString(signed), map[string]string{"encoding": "base64", "preflightCommitment": "confirmed"})
	r, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil && name == a.memo.Name:
		return true, nil
	case err == nil:
		return false, fmt.Errorf("sendTransaction: %w: another transaction's name", errWrong)
	case !refused:
		return false, err
	case containsAny(r.Message, []string{"already been processed", "alreadyprocessed"}):
		return true, nil
	case containsAny(r.Message, []string{"blockhash not found", "blockhashnotfound"}):
		return false, err // a lagging node may not have the blockhash yet; the send is retried until it expires
	case !slices.Contains([]int64{solanaPreflight, solanaSignature, solanaVersion, invalidParams}, r.Code):
		return false, err
	}
	// An earlier attempt may have reached the node although its response was lost.
	s, lerr := a.solanaStatus(ctx, n)
	switch {
	case lerr != nil:
		return false, lerr
	case s != nil:
		return true, nil
	}
	a.end(wire.SendRefused, r.Message)
	return false, nil
}

// A solanaStatus is the state of a transaction.
type solanaStatus struct {
	Confirmation string          `json:"confirmationStatus"`
	Failure      json.RawMessage `json:"err"`
}

// solanaStatus looks up the state of the transaction; nil if the network does not have it.
func (a *attempt) solanaStatus(ctx context.Context, n *node) (*solanaStatus, error) {
	var found struct {
		Value []*solanaStatus `json:"value"`
	}
	if err := n.call(ctx, &found, "getSignatureStatuses", []string{a.memo.Name}, map[string]bool{"searchTransactionHistory": true}); err != nil {
		return nil, err
	}
	if len(found.Value) != 1 {
		return nil, fmt.Errorf("getSignatureStatuses: %w: %d statuses", errWrong, len(found.Value))
	}
	return found.Value[0], nil
}

func (a *attempt) followSolana(ctx context.Context, n *node) error {
	s, err := a.solanaStatus(ctx, n)
	switch {
	case err != nil:
		return err
	case s == nil: // leaders drop transactions: it is sent again until its blockhash is too old
		return a.handleMissing(ctx, n)
	case len(s.Failure) > 0 && string(s.Failure) != "null":
		a.end(wire.SendReverted, "transaction failed: "+string(s.Failure))
	case s.Confirmation == "confirmed" || s.Confirmation == "finalized":
		a.end(wire.SendIncluded, "")
	default:
		a.send.State = max(a.send.State, wire.SendAccepted)
		a.noteSeen()
	}
	return nil
}
