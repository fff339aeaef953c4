package activity

import (
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// explainedBytes bounds the explanations of one evaluation, in bytes. Outcomes are always stored.
const explainedBytes = 16 << 10

// maxEvaluations bounds the evaluations of one entry, in bytes.
const maxEvaluations = 256 << 10

// AddEvaluation appends the newest evaluation. If all together are too large, the oldest lose their outcomes of single policies.
func AddEvaluation(es []org.Evaluation, e org.Evaluation) []org.Evaluation {
	es = append(es, e)
	size := 0
	for i := len(es) - 1; i >= 0; i-- {
		e := &es[i]
		size += len(e.Asked) + len(e.Verdicts)
		for j := range e.Reasons {
			size += 16 + textSize(e.Reasons[j].Values)
		}
		for j := range e.Policies {
			p := &e.Policies[j]
			size += len(p.Outcome) + len(p.Clause) + 32 + textSize(p.Values)
		}
		if size > maxEvaluations && i < len(es)-1 {
			e.Policies, e.Asked, e.Verdicts, e.Reasons = nil, nil, nil, nil
		}
	}
	return es
}

func textSize(values []string) (size int) {
	for _, v := range values {
		size += len(v) + 3
	}
	return size
}

// EvaluationOf is the record of a decision. A policy that no clause decided, or whose explanation exceeds explainedBytes,
// has its outcome alone.
func EvaluationOf(id, vote org.ID, timeMs uint64, d *policy.Decision) org.Evaluation {
	verdicts, reasons := d.Evaluations.Verdicts, d.Evaluations.Reasons
	e := org.Evaluation{ID: id, Vote: vote, TimeMs: timeMs, Outcome: d.Outcome.String(), Asked: d.Evaluations.IDs(), Verdicts: make([]byte, len(verdicts))}
	bytesLeft := explainedBytes
	for i, v := range verdicts {
		var why *policy.Reason
		if len(reasons) > 0 && reasons[0].At == i {
			why, reasons = &reasons[0], reasons[1:]
		}
		size := len(v.Clause.String()) + 16
		if why != nil {
			for _, x := range why.Values {
				size += len(x.Expression) + len(x.Value) + 8
			}
		}
		if v.Clause == 0 || size > bytesLeft {
			e.Verdicts[i] = verdictByte(policy.Verdict{Outcome: v.Outcome})
			continue
		}
		bytesLeft -= size
		e.Verdicts[i] = verdictByte(v)
		if why != nil {
			r := org.Reason{At: uint32(i), Position: int64(why.Position)}
			for _, x := range why.Values {
				r.Values = append(r.Values, x.Expression, x.Value)
			}
			e.Reasons = append(e.Reasons, r)
		}
	}
	return e
}

// verdictByte packs a verdict for an entry: the outcome in the lower four bits, the clause in the upper four.
func verdictByte(v policy.Verdict) byte { return byte(v.Outcome) | byte(v.Clause)<<4 }

func verdictOf(b byte) policy.Verdict {
	return policy.Verdict{Outcome: policy.Outcome(b & 15), Clause: policy.Clause(b >> 4)}
}

// Outcomes returns the outcome of each policy in an evaluation. Older entries have them in Policies.
func Outcomes(e *org.Evaluation) []org.PolicyOutcome {
	if len(e.Verdicts) == 0 || len(e.Asked) != len(org.ID{})*len(e.Verdicts) {
		return e.Policies
	}
	os := make([]org.PolicyOutcome, len(e.Verdicts))
	for i, b := range e.Verdicts {
		v := verdictOf(b)
		os[i] = org.PolicyOutcome{Policy: org.ID(e.Asked[len(org.ID{})*i:]), Outcome: v.Outcome.String(), Clause: v.Clause.String()}
		if v.Clause != 0 {
			os[i].Position = -1
		}
	}
	for _, r := range e.Reasons {
		if int(r.At) < len(os) {
			os[r.At].Position, os[r.At].Values = r.Position, r.Values
		}
	}
	return os
}
