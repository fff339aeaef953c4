package core

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/shared/wire"
)

const (
	// maxProofWaits bounds the submits under way that wait for their logged proofs, divided among
	// tenants: one has 113, which is a tenth of the concurrent calls of a connection.
	maxProofWaits = 1024
	// proofBytes bounds a logged proof and the log's key in a reply, in JSON.
	proofBytes = 2 * tlog.MaxLoggedProof
)

var (
	errProofWait  = fault.New(fault.InvalidArgument, attestation.HeaderLogProof+" goes with a submit, once, and says "+attestation.LogProofWait)
	errProofWaits = fault.WithCode(fault.ResourceExhausted, "LOG_PROOFS_EXCEEDED", "too many requests wait for their logged proofs: wait for some of them, or ask for the proof afterwards")
)

// proofWait is a submit's request to wait for the logged proof of the entry in its reply. The reply
// then waits for a quorum of the witnesses, also where replies need not.
type proofWait struct {
	tenant org.ID       // that has one of maxProofWaits reserved; zero: none yet
	view   *ledger.View // of the reply's entry
	seq    uint64
}

// parseProofWait removes the header that requests a logged proof from a call. A request that cannot be proven is refused
// before anything is decided, so that its outcome is never unknown.
func parseProofWait(call *wire.Call) (*wire.Call, *proofWait, error) {
	asks := func(h wire.Header) bool { return strings.EqualFold(h.Name, attestation.HeaderLogProof) }
	at := slices.IndexFunc(call.Head, asks)
	if at < 0 {
		return call, nil, nil
	}
	inner := *call
	inner.Head = slices.DeleteFunc(slices.Clone(call.Head), asks)
	// A repeated call to the proxy makes another activity, and a query makes no activity.
	if call.Endpoint != wire.EndpointSubmit || len(inner.Head) != len(call.Head)-1 || call.Head[at].Value != attestation.LogProofWait {
		return nil, nil, errProofWait
	}
	return &inner, new(proofWait), nil
}

// reserve reserves memory for the reply, for n bytes of a body or an entry and for others, and one of
// maxProofWaits for a caller who wants the logged proof: before anything is decided.
func (v *callState) reserve(payer org.ID, n, others int64) error {
	most := 3*n + others
	if p := v.proof; p != nil {
		most += n + proofBytes // the proof is made from the entry
		if p.tenant.Zero() {
			if !v.core.proofWaits.Take(payer, 1) {
				return errProofWaits
			}
			p.tenant = payer
		}
	}
	return v.reply.grow(payer, most)
}

// release frees the reservation.
func (p *proofWait) release(c *Core) {
	if p != nil && !p.tenant.Zero() {
		c.proofWaits.Add(p.tenant, -1)
	}
}

// noteEntry records which entry the reply shows.
func (v *callState) noteEntry(t *ledger.Locked, seq uint64) {
	if v.proof != nil {
		v.proof.view, v.proof.seq = t.View(), seq
	}
}

// appendProof adds the logged proof of the reply's entry to its body. The reply to a decided request has its
// proof or is an error: a status 200 without proof would be ambiguous.
func (v *callState) appendProof(ctx context.Context, body []byte) ([]byte, error) {
	p, err := v.core.logProof(ctx, v.proof.view, v.proof.seq)
	if err != nil {
		return nil, proofError(err)
	}
	return query.AppendLogProof(slices.Clip(body[:len(body)-1]), p), nil // a copy: the body of a refusal belongs to its entry
}

// proofError is the error of a decided request whose log proof is unavailable, because of witnesses or a host
// that lies. It says that the decision stands: otherwise the caller might repeat the request. If the range was lost the next owner answers.
func proofError(err error) error {
	if errors.Is(err, ledger.ErrFenced) {
		return err
	}
	why := ""
	if f := fault.Of(err); f != nil && f.Code == fault.FailedPrecondition {
		why = " (" + f.Message + ")"
	}
	return fault.WithCode(fault.Unavailable, "LOG_PROOF_MISSING",
		"decided and stored, but its logged proof is not to be had now%s: the same body again gets both once it is, and without %s what came of it at once", why, attestation.HeaderLogProof)
}

// logProof returns the log proof of the entry at seq, with the log's key.
func (c *Core) logProof(ctx context.Context, view *ledger.View, seq uint64) (*query.LogProof, error) {
	logged, key, err := view.LogProof(ctx, seq)
	if err != nil {
		return nil, err
	}
	p := new(query.LogProof)
	if p.Text, err = logged.Text(); err != nil {
		return nil, err
	}
	p.Key, err = c.serving.Live.Prove(c.cfg.Clock.Now(), &attestation.LogKey{Origin: key.Name(), Key: key.String()})
	return p, err
}
