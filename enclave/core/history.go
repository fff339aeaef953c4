package core

import (
	"encoding/hex"
	"errors"
	"strconv"

	"cloister/attestation"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/history"
	"cloister/enclave/internal/ledger"
)

// historyBytes is the approximate size of the entries on one page of a history; a single entry may be larger.
const historyBytes = 2 << 20

// Export opens entries in order and signs a claim about them with the live key. A reader with the whole history
// does not need the claim for entries that commit to their parts: the log proves them.
func (x sources) Export(from uint64) (page []byte, next uint64, err error) {
	tip := x.view.Tip()
	if from >= tip.Count {
		return nil, 0, fault.Field("from", "the history has %d entries", tip.Count)
	}
	opened, err := x.view.Open(x.ctx, from, historyBytes)
	if err != nil {
		return nil, 0, err
	}
	var digest history.Digest
	for i := range opened {
		if page, err = history.Append(page, record(&opened[i], from+uint64(i), &digest)); err != nil {
			return nil, 0, err
		}
		x.readBytes += int64(len(opened[i].Plain))
	}
	if err := x.call.reply.grow(x.record.Tenant(), x.readBytes+2*int64(len(page))); err != nil {
		return nil, 0, err
	}
	to := from + uint64(len(opened))
	last := to == tip.Count
	var logged *history.Logged
	if last {
		// Entries that were decided meanwhile are on the next page.
		if logged, last, err = x.newest(tip); err != nil {
			return nil, 0, err
		}
	}
	sum := digest.Sum()
	claim := &attestation.HistoryPage{OrganizationID: x.organization.String(), From: strconv.FormatUint(from, 10), To: strconv.FormatUint(to, 10),
		Digest: hex.EncodeToString(sum[:]), Freshness: x.core.serving.Freshness(x.view.BootNumber())}
	if last {
		claim.Root = hex.EncodeToString(tip.Root[:])
	} else {
		next = to
	}
	proof, err := x.prove(claim)
	if err != nil {
		return nil, 0, err
	}
	if page, err = history.Append(page, &history.Record{Page: proof}); err == nil && logged != nil && last {
		page, err = history.Append(page, &history.Record{Logged: logged})
	}
	return page, next, err
}

// newest proves the newest entry by the log, if there is one that witnesses cosign. last reports that the log has
// no later one; the newest entry of a release before commitments is in no log proof.
func (x sources) newest(tip ledger.Tip) (logged *history.Logged, last bool, err error) {
	shown, key, err := x.view.LogProof(x.ctx, tip.Count-1)
	if errors.Is(err, ledger.ErrNotWitnessed) {
		return nil, true, nil
	}
	if err != nil || shown.Entry.Opening.Count != tip.Count {
		return nil, false, err
	}
	logged = new(history.Logged)
	if logged.Proof, err = shown.Text(); err != nil {
		return nil, false, err
	}
	by, err := x.prove(&attestation.LogKey{Origin: key.Name(), Key: key.String()})
	if err != nil {
		return nil, false, err
	}
	logged.Key = *by
	return logged, true, nil
}

// prove signs a claim with the live key.
func (x sources) prove(c attestation.Claim) (*history.Proof, error) {
	p, err := x.core.serving.Live.Prove(x.core.cfg.Clock.Now(), c)
	return &history.Proof{Key: p.Key, Payload: string(p.Payload), Signature: p.Signature}, err
}

// record makes the record of an entry, and adds one of the first format to its page's digest.
func record(o *ledger.Opened, seq uint64, digest *history.Digest) *history.Record {
	if o.Parts == nil {
		old := &history.Old{Leaf: o.Leaf, Plain: o.Plain}
		digest.Add(seq, old)
		return &history.Record{Old: old}
	}
	return &history.Record{Entry: &history.Entry{Seed: o.Parts.Seed, Stored: o.Stored, Parts: o.Parts.Content[:]}}
}
