package outside

import (
	"context"
	"errors"
	"time"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// The enclave knows how chains stand from the host alone, which asks nodes. Only requests
// that have authenticated ask it. Its answers are hints: they decide when and at what price,
// within bounds, a network takes a transaction, and nothing else.

// chainWait bounds how long a request waits for a chain.
const chainWait = 10 * time.Second

// maxNonce is the highest count of transactions that leaves room for one more
// (EIP-2681).
const maxNonce = 1<<64 - 3

// Chains asks the host how chains stand.
type Chains struct{ cfg Config }

const rpcError = "RPC_CALL_ERROR"

// Known asks the host for what is needed. Errors are *fault.Error, or those of link.Away.
func (c *Chains) Known(ctx context.Context, id org.ID, need *activity.ChainNeed) (*activity.ChainKnown, error) {
	k := &activity.ChainKnown{HeardMs: uint64(c.cfg.Clock.Now().UnixMilli())}
	ctx, cancel := context.WithTimeout(ctx, chainWait)
	defer cancel()
	ask := wire.Chain{Name: need.Chain, From: need.From, To: need.To, Data: need.Data}
	for _, w := range []struct {
		wanted bool
		want   wire.ChainWant
	}{{need.Nonces, wire.WantNonces}, {need.Fees, wire.WantFees}, {need.Gas, wire.WantGas}, {need.Blockhash, wire.WantBlockhash}} {
		if w.wanted {
			ask.Want |= w.want
		}
	}
	if need.Value != nil {
		ask.Value = need.Value.Bytes()
	}
	s, err := c.cfg.Host.Chain(ctx, ask)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, link.ErrNoConnection) {
		s, err = wire.ChainState{Verdict: wire.ChainLate}, nil
	}
	if err == nil {
		err = readState(need, &s, k)
	}
	if err == nil && len(need.Sends) > 0 {
		k.Standings, err = c.Standings(ctx, id, need.Sends)
	}
	return k, err
}

// readState takes over what the host said of a chain, or tells what is wrong with it.
func readState(need *activity.ChainNeed, s *wire.ChainState, k *activity.ChainKnown) error {
	said := ""
	if text := Printable(s.Text); text != "" {
		said = ": " + text
	}
	switch s.Verdict {
	case wire.ChainKnown:
		if need.Nonces && (s.Latest > s.Pending || s.Pending > maxNonce) || need.Gas && s.Gas == 0 || need.Blockhash && s.Blockhash == (wire.Hash{}) {
			return fault.WithCode(fault.Unavailable, rpcError, "the node of %s gave no answer that makes sense", need.Chain)
		}
		k.Latest, k.Pending, k.BaseFee, k.Tip, k.Gas, k.Blockhash = s.Latest, s.Pending, s.BaseFee, s.Tip, s.Gas, s.Blockhash
		return nil
	case wire.ChainNoNode:
		return fault.WithCode(fault.FailedPrecondition, rpcError, "no node of %s is configured: its operator names one with -chain", need.Chain)
	case wire.ChainLate:
		return fault.WithCode(fault.DeadlineExceeded, rpcError, "the node of %s did not answer in time: try again", need.Chain)
	case wire.ChainReverts:
		return fault.WithCode(fault.FailedPrecondition, rpcError, "the transaction would fail on %s%s", need.Chain, said)
	}
	return fault.WithCode(fault.Unavailable, rpcError, "the node of %s gave no answer that makes sense%s", need.Chain, said)
}

// Standings asks where sends of an organization stand.
func (c *Chains) Standings(ctx context.Context, id org.ID, refs []org.SendRef) (map[org.SendRef]activity.Standing, error) {
	ask := wire.Sends{}
	for _, r := range refs[:min(len(refs), activity.MaxStandings, wire.MaxStates)] {
		ask.Sends = append(ask.Sends, wire.SendID{Organization: wire.ID(id), Seq: r.Seq, Number: r.Number})
	}
	got, err := c.cfg.Host.Sends(ctx, ask)
	if err != nil {
		return nil, err
	}
	if len(got.States) != len(ask.Sends) {
		return nil, c.cfg.Alarms.Breach(fault.AlarmIndex, "states of other sends than asked for")
	}
	m := make(map[org.SendRef]activity.Standing, len(ask.Sends))
	for i := range got.States {
		s := &got.States[i]
		if s.State > wire.SendReplaced || len(s.Revert) > wire.MaxRevert {
			return nil, c.cfg.Alarms.Breach(fault.AlarmIndex, "a send in no state")
		}
		m[refs[i]] = activity.Standing{State: org.SendState(s.State), Text: Printable(s.Text), Revert: s.Revert}
	}
	return m, nil
}

// Printable cuts text of the host's down to what can be shown.
func Printable(text string) string {
	b := make([]byte, 0, min(len(text), wire.MaxChainText))
	for i := 0; i < len(text) && len(b) < cap(b); i++ {
		if c := text[i]; c >= 0x20 && c < 0x7f {
			b = append(b, c)
		}
	}
	return string(b)
}
