package core

import (
	"context"
	"errors"
	"time"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// How chains stand the enclave knows from the host alone, which asks nodes. It is
// asked outside of any turn, by requests that have authenticated, and whatever it
// says is a hint: a number that decides nothing but when and at what price, within
// bounds, a transaction will be taken by its network.

// chainWait bounds how long a request waits for a chain.
const chainWait = 10 * time.Second

// maxNonce is the highest count of transactions that leaves room for one more
// (EIP-2681).
const maxNonce = 1<<64 - 3

// maxHeard is how old what the host has said of a chain may be when it is decided
// from; activity counts on it.
const maxHeard = time.Minute

// know hands the step what it needs from outside of the turn, or says what that is:
// who hears of it, and what its intent needs of its chain.
func (s *step) know() error {
	if err := s.hear(); err != nil {
		return err
	}
	need, err := s.version.Need(s.tx, s.intent)
	if need == nil || err != nil || s.r.v.blind {
		return err
	}
	k := s.r.v.chain
	if k == nil || s.tx.NowMs > k.HeardMs+uint64(maxHeard.Milliseconds()) {
		return &org.Missing{Fetch: func(ctx context.Context) error { return s.r.learn(ctx, need) }}
	}
	s.intent.Know(k)
	return nil
}

// learn asks for what a step needs. A rejection does not depend on it: nothing is
// signed by it.
func (r *request) learn(ctx context.Context, need *activity.ChainNeed) (err error) {
	r.v.chain, err = r.c.known(ctx, r.organization, need)
	if err != nil && r.version.Kind.Rejects() {
		r.v.chain, r.v.blind, err = nil, true, nil
	}
	return err
}

const rpcError = "RPC_CALL_ERROR"

// known asks the host for what is needed. The errors are *fault.Error, or the
// host's being away.
func (c *Core) known(ctx context.Context, id org.ID, need *activity.ChainNeed) (*activity.ChainKnown, error) {
	k := &activity.ChainKnown{HeardMs: c.now()}
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
	s, err := c.host.Chain(ctx, ask)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, link.ErrNoConnection) {
		s, err = wire.ChainState{Verdict: wire.ChainLate}, nil
	}
	if err == nil {
		err = heard(need, &s, k)
	}
	if err == nil && len(need.Sends) > 0 {
		k.Standings, err = c.standings(ctx, id, need.Sends)
	}
	return k, err
}

// heard takes what the host said of a chain, or tells what is wrong with it.
func heard(need *activity.ChainNeed, s *wire.ChainState, k *activity.ChainKnown) error {
	said := ""
	if text := printable(s.Text); text != "" {
		said = ": " + text
	}
	switch s.Verdict {
	case wire.ChainKnown:
	case wire.ChainNoNode:
		return fault.Named(fault.FailedPrecondition, rpcError, "no node of %s is configured: its operator names one with -chain", need.Chain)
	case wire.ChainLate:
		return fault.Named(fault.DeadlineExceeded, rpcError, "the node of %s did not answer in time: try again", need.Chain)
	case wire.ChainReverts:
		return fault.Named(fault.FailedPrecondition, rpcError, "the transaction would fail on %s%s", need.Chain, said)
	default:
		return fault.Named(fault.Unavailable, rpcError, "the node of %s gave no answer that makes sense%s", need.Chain, said)
	}
	wrong := need.Nonces && (s.Latest > s.Pending || s.Pending > maxNonce) || need.Gas && s.Gas == 0 ||
		need.Blockhash && s.Blockhash == wire.Hash{}
	if wrong {
		return fault.Named(fault.Unavailable, rpcError, "the node of %s gave no answer that makes sense", need.Chain)
	}
	k.Latest, k.Pending, k.BaseFee, k.Tip, k.Gas, k.Blockhash = s.Latest, s.Pending, s.BaseFee, s.Tip, s.Gas, s.Blockhash
	return nil
}

// standings asks where sends of an organization stand.
func (c *Core) standings(ctx context.Context, id org.ID, refs []org.SendRef) (map[org.SendRef]activity.Standing, error) {
	ask := wire.Sends{}
	for _, r := range refs[:min(len(refs), activity.MaxStandings, wire.MaxStates)] {
		ask.Sends = append(ask.Sends, wire.SendID{Organization: wire.ID(id), Seq: r.Seq, Number: r.Number})
	}
	got, err := c.host.Sends(ctx, ask)
	if err != nil {
		return nil, err
	}
	if len(got.States) != len(ask.Sends) {
		c.alarms.Raise(fault.AlarmIndex)
		return nil, fault.Breached(fault.AlarmIndex, "states of other sends than asked for")
	}
	m := make(map[org.SendRef]activity.Standing, len(ask.Sends))
	for i := range got.States {
		s := &got.States[i]
		if s.State > wire.SendReplaced || len(s.Revert) > wire.MaxRevert {
			c.alarms.Raise(fault.AlarmIndex)
			return nil, fault.Breached(fault.AlarmIndex, "a send in no state")
		}
		m[refs[i]] = activity.Standing{State: org.SendState(s.State), Text: printable(s.Text), Revert: s.Revert}
	}
	return m, nil
}

// printable cuts text of the host's down to what can be shown.
func printable(text string) string {
	b := make([]byte, 0, min(len(text), wire.MaxChainText))
	for i := 0; i < len(text) && len(b) < cap(b); i++ {
		if c := text[i]; c >= 0x20 && c < 0x7f {
			b = append(b, c)
		}
	}
	return string(b)
}

// chainsOf is query.Chains for one query.
type chainsOf struct {
	ctx context.Context
	r   *reading
}

func (x chainsOf) Known(need *activity.ChainNeed) (*activity.ChainKnown, error) {
	return x.r.c.known(x.ctx, x.r.id, need)
}

func (x chainsOf) Standing(ref org.SendRef) (activity.Standing, error) {
	m, err := x.r.c.standings(x.ctx, x.r.id, []org.SendRef{ref})
	return m[ref], err
}

// openSend answers the host that wants to know what a send holds. It is told once
// the send's entry is stored and proven, and before it has expired.
func (c *Core) openSend(ctx context.Context, payload []byte) (wire.Kind, []byte) {
	var ask wire.OpenSend
	if !c.host.Decode(payload, &ask) {
		return wire.KindFailed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wire.DefaultWait)
	defer cancel()
	v := c.visit()
	opened, err := v.openSend(ctx, ask.Send)
	if m := v.Gone(err); m != nil {
		opened, err = &wire.Opened{Moved: m.Hint()}, nil
	}
	return link.EncodeAnswer(wire.KindOpened, opened, err)
}

// send is a send that the host names, and its entry, once that is stored and proven;
// nil when there is none.
func (v *visit) send(ctx context.Context, id wire.SendID) (e *org.Entry, s *org.Send, err error) {
	defer func() {
		if r := recover(); r != nil { // its text stays here
			err = link.ErrFailed
		}
	}()
	if state(v.c.state.Load()) != stateServing {
		return nil, nil, errNotServing
	}
	if err := v.c.serve.ranges.Serving(ctx); err != nil {
		return nil, nil, err
	}
	var view *ledger.View
	there := false
	err = v.Turn(ctx, org.ID(id.Organization), func(t *ledger.Turn) error {
		view, there = t.View(), id.Seq < t.Tip().Count
		return nil
	})
	if errors.Is(err, ledger.ErrNoOrganization) || err == nil && !there {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	e, err = view.Entry(ctx, id.Seq)
	if err != nil {
		return nil, nil, err
	}
	if err := v.Wait(ctx); err != nil {
		return nil, nil, err
	}
	if int(id.Number) >= len(e.Sends) {
		return nil, nil, nil
	}
	return e, &e.Sends[id.Number], nil
}

func (v *visit) openSend(ctx context.Context, id wire.SendID) (*wire.Opened, error) {
	e, s, err := v.send(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return &wire.Opened{}, nil
	case v.c.now() >= s.ExpiresMs:
		return &wire.Opened{Found: true, Expired: true}, nil
	case s.Kind == org.SendWebhook:
		return v.openWebhook(ctx, org.ID(id.Organization), e, s)
	case s.Kind != org.SendTransaction:
		return nil, errors.New("a send that is not for the host to see")
	}
	t, err := org.DecodeTransaction(s.Content)
	if err != nil {
		return nil, err
	}
	return &wire.Opened{Found: true, Kind: wire.SendKind(s.Kind), ExpiresMs: s.ExpiresMs, Chain: t.Chain, Signed: t.Signed, Name: t.Name,
		From: t.From, Nonce: t.Nonce}, nil
}
