package providers

import (
	"context"
	"errors"
	"math"
	"math/big"
	"strings"
	"time"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

// The enclave knows how chains stand from the host alone, which asks nodes. Only requests
// that have authenticated ask it. Its answers are hints: they decide when and at what price,
// within bounds, a network takes a transaction, and what is told of how far it has come.

// chainWait bounds how long a request waits for a chain.
const chainWait = 10 * time.Second

// maxNonce is the highest count of transactions that leaves room for one more
// (EIP-2681).
const maxNonce = 1<<64 - 3

// Bounds on reading what there is on chains: at a time of all tenants, and of one organization.
const (
	maxReads    = 32
	maxReaders  = 1 << 14
	readsSecond = 10
)

// Chains asks the host how chains stand.
type Chains struct {
	cfg   Config
	reads *tenant.Portion[org.ID]
	paces *pace.Buckets[org.ID]
}

func newChains(cfg Config) *Chains {
	return &Chains{cfg, tenant.NewPortion[org.ID](maxReads), pace.New[org.ID](pace.Rate{Count: readsSecond, Per: time.Second}, maxReaders)}
}

const rpcError = "RPC_CALL_ERROR"

// Known asks the host for what is needed. Errors are *fault.Error, or those of link.Away.
func (c *Chains) Known(ctx context.Context, id org.ID, need *activity.ChainQuery) (*activity.ChainState, error) {
	k := &activity.ChainState{ReadMs: uint64(c.cfg.Clock.Now().UnixMilli())}
	ctx, cancel := context.WithTimeout(ctx, chainWait)
	defer cancel()
	ask := wire.Chain{Name: need.Chain, From: need.From, To: need.To, Data: need.Data, Account: need.Account, Accounts: need.Accounts}
	for _, w := range []struct {
		wanted bool
		want   wire.ChainWant
	}{{need.Nonces, wire.WantNonces}, {need.Fees, wire.WantFees}, {need.Gas, wire.WantGas}, {need.Blockhash, wire.WantBlockhash}, {need.Account != nil, wire.WantDelegation}, {need.Exist, wire.WantExisting}} {
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

// Read asks the host what there is on a chain, for an organization, whose tenant pays. Nobody else waits for what one
// tenant asks of a node that hangs. refused is told of a refusal that ends with time.
func (c *Chains) Read(ctx context.Context, payer, id org.ID, q *query.ChainQuestion, refused func(pace.Count)) (*query.ChainReading, error) {
	if q.Address == "" && len(q.Transactions) == 0 {
		return c.read(ctx, q) // no node is asked for the operator's list
	}
	if n := c.paces.Take(id, c.cfg.Clock.Now()); n.Refused {
		refused(n)
		return nil, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: chains are read %d times a second, try again in %s: organizationId=%s", readsSecond, n.Again(), id)
	}
	if !c.reads.Take(payer, 1) {
		return nil, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: chains are being read for too many requests of this organization, try again")
	}
	defer c.reads.Add(payer, -1)
	return c.read(ctx, q)
}

func (c *Chains) read(ctx context.Context, q *query.ChainQuestion) (*query.ChainReading, error) {
	ctx, cancel := context.WithTimeout(ctx, chainWait)
	defer cancel()
	got, err := c.cfg.Host.ReadChain(ctx, wire.ReadChain{Name: q.Chain, Address: q.Address, Transactions: q.Transactions})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, link.ErrNoConnection) {
		got, err = wire.ChainReading{Verdict: wire.ChainLate}, nil
	}
	if err == nil {
		err = readState(&activity.ChainQuery{Chain: q.Chain}, &wire.ChainState{Verdict: got.Verdict, Text: got.Text}, &activity.ChainState{})
	}
	if err != nil {
		return nil, err
	}
	r := readReading(q, &got)
	if r == nil {
		return nil, fault.WithCode(fault.Unavailable, rpcError, "the node of %s gave no answer that makes sense", q.Chain)
	}
	return r, nil
}

// amountSize is of the largest amount; maxDecimals is as many digits as that has.
const (
	amountSize  = 32
	maxDecimals = 77
)

// readReading takes over what the host said of a chain, nil if it makes no sense.
func readReading(q *query.ChainQuestion, got *wire.ChainReading) *query.ChainReading {
	if len(got.Coin) > amountSize || len(got.Tokens) > wire.MaxTokens || len(got.Transactions) != len(q.Transactions) {
		return nil
	}
	r := &query.ChainReading{Coin: new(big.Int).SetBytes(got.Coin)}
	seen := map[string]bool{}
	for _, t := range got.Tokens {
		for _, text := range []string{t.CAIP19, t.Symbol, t.Name, t.LogoURL} {
			if len(text) > wire.MaxChainText || Printable(text) != text {
				return nil
			}
		}
		if !strings.HasPrefix(t.CAIP19, q.Chain+"/") || strings.HasPrefix(t.CAIP19, q.Chain+"/slip44:") || seen[t.CAIP19] || t.Decimals > maxDecimals || len(t.Balance) > amountSize ||
			t.LogoURL != "" && !strings.HasPrefix(t.LogoURL, "https://") {
			return nil
		}
		seen[t.CAIP19] = true
		r.Tokens = append(r.Tokens, query.Asset{CAIP19: t.CAIP19, Symbol: t.Symbol, Name: t.Name, LogoURL: t.LogoURL, Decimals: int(t.Decimals), Stable: t.Stable, Balance: new(big.Int).SetBytes(t.Balance)})
	}
	for _, m := range got.Transactions {
		if len(m.Fee) > amountSize || len(m.Hash) > wire.MaxChainText || Printable(m.Hash) != m.Hash || m.Block > math.MaxInt64 || m.TimeMs > maxTimeMs {
			return nil
		}
		r.Mined = append(r.Mined, query.Mined{Block: m.Block, Hash: m.Hash, TimeMs: m.TimeMs, Fee: new(big.Int).SetBytes(m.Fee), Failed: m.Failed, Final: m.Final})
	}
	return r
}

// maxTimeMs is the end of the year 9999, the last that RFC 3339 can write.
const maxTimeMs = 253402300799999

// readState takes over what the host said of a chain, or tells what is wrong with it.
func readState(need *activity.ChainQuery, s *wire.ChainState, k *activity.ChainState) error {
	said := ""
	if text := Printable(s.Text); text != "" {
		said = ": " + text
	}
	switch s.Verdict {
	case wire.ChainKnown:
		if need.Nonces && (s.Latest > s.Pending || s.Pending > maxNonce) || need.Gas && s.Gas == 0 || need.Blockhash && s.Blockhash == (wire.Hash{}) ||
			need.Account != nil && (len(s.Delegate) != 0 && len(s.Delegate) != 20 || max(s.Executions, s.Transactions) > maxNonce) {
			return fault.WithCode(fault.Unavailable, rpcError, "the node of %s gave no answer that makes sense", need.Chain)
		}
		k.Latest, k.Pending, k.BaseFee, k.Tip, k.Gas, k.Blockhash = s.Latest, s.Pending, s.BaseFee, s.Tip, s.Gas, s.Blockhash
		k.Delegate, k.Executions, k.Transactions, k.Existing = s.Delegate, s.Executions, s.Transactions, s.Existing
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
	if len(got.Statuses) != len(ask.Sends) {
		return nil, c.cfg.Alarms.Breach(fault.AlarmIndex, "states of other sends than asked for")
	}
	m := make(map[org.SendRef]activity.Standing, len(ask.Sends))
	for i := range got.Statuses {
		s := &got.Statuses[i]
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
