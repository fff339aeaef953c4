package ledger

import (
	"context"
	"crypto/sha256"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// Errors of LogProof.
var (
	ErrNotWitnessed = fault.WithCode(fault.FailedPrecondition, "LOG_NOT_WITNESSED", "this deployment names no witnesses: there is no log that shows anything to others")
	errNoFacts      = fault.WithCode(fault.FailedPrecondition, "LOG_NO_COMMITMENT", "decided by a release whose entries do not commit to their facts: there is no log proof of it")
	errEarlier      = fault.WithCode(fault.FailedPrecondition, "LOG_EARLIER", "the host does not know where in this generation of the log it is: there is a log proof once it does")
)

// Count returns the number of the view's entries.
func (v *View) Count() uint64 { return v.tip.Count }

// LogProof proves the facts of the entry at seq, which must exist, under a checkpoint that a quorum of the
// witnesses has cosigned, and returns the log's key with it. It waits for a checkpoint that covers the whole view.
// The host supplies the hashes; LogProof verifies the proof as its receiver will.
func (v *View) LogProof(ctx context.Context, seq uint64) (*tlog.LoggedProof, *tlog.Key, error) {
	l := v.ledger
	if l.cfg.Witnesses == nil {
		return nil, nil, ErrNotWitnessed
	}
	under, err := l.witnesses.awaitCosigned(ctx, l, v.batch)
	if err != nil {
		return nil, nil, err
	}
	// The entry's own batch commits to the first tip of the organization that covers it. The newest entry's
	// batch commits to another one that does.
	p, err := v.logProofIn(ctx, under, seq, seq)
	if newest := v.tip.Count - 1; err == nil && p == nil && newest != seq {
		p, err = v.logProofIn(ctx, under, seq, newest)
	}
	if err == nil && p == nil {
		p, under, err = v.logProofRestated(ctx, seq)
	}
	if err == nil && p == nil {
		err = errEarlier
	}
	if err != nil {
		return nil, nil, err
	}
	return p, under.log.Key(), nil
}

// restated is a batch without entries whose leaf commits to an organization's unchanged tip. An organization that has decided
// nothing since its log's generation began is in the log only by the tip table that the first leaf adopts, and a proof from that
// would disclose other organizations. To the public it looks like any other batch.
type restated struct {
	batch  uint64
	tip    log.Tip
	header []byte // set once the batch is stored
}

// restate appends a batch with an organization's unchanged tip to the log, or returns the one that this boot has
// appended before.
func (l *Ledger) restate(ctx context.Context, id org.ID) (at *restated, err error) {
	err = l.Transact(ctx, id, Caller{Organization: id}, func(t, _ *Locked) error {
		if at = l.tips.restatedOf(id); at != nil {
			return nil
		}
		l.writeGate.RLock()
		defer l.writeGate.RUnlock()
		if l.closedForWrites {
			return ErrHandedOver
		}
		err := l.batchWriter.checkUnstored()
		if err == nil {
			at = l.batchWriter.restate(id, t.Tip())
			l.tips.keepRestated(id, at)
		}
		return err
	})
	return at, err
}

// logProofRestated makes the proof of the entry at seq from a restated tip of its organization.
func (v *View) logProofRestated(ctx context.Context, seq uint64) (p *tlog.LoggedProof, under *cosigned, err error) {
	l := v.ledger
	at, err := l.restate(ctx, v.id)
	if err != nil {
		return nil, nil, err
	}
	if under, err = l.witnesses.awaitCosigned(ctx, l, at.batch); err != nil {
		return nil, nil, err
	}
	p, err = v.proveIn(ctx, under, seq, wire.ProveLogged{Seq: seq, Header: at.header})
	return p, under, err
}

// awaitCosigned waits until a quorum has cosigned a batch, and returns the newest cosigned log.
func (w *witnesses) awaitCosigned(ctx context.Context, l *Ledger, batch uint64) (newest *cosigned, err error) {
	err = w.await(ctx, l, func(time.Time) (bool, time.Time) {
		newest = w.newest
		return w.newest != nil && w.logged >= batch, time.Time{}
	})
	return newest, err
}

// logProofIn makes the proof of the entry at seq from the batch of the entry at in; nil if the host can't supply it.
func (v *View) logProofIn(ctx context.Context, under *cosigned, seq, in uint64) (*tlog.LoggedProof, error) {
	return v.proveIn(ctx, under, seq, wire.ProveLogged{Seq: in})
}

// proveIn makes the proof of the entry at seq from the batch that ask names, whose tip covers the entry at ask.Seq.
func (v *View) proveIn(ctx context.Context, under *cosigned, seq uint64, ask wire.ProveLogged) (*tlog.LoggedProof, error) {
	l, at, in := v.ledger, under.log, ask.Seq
	ask.Range, ask.Generation, ask.Organization, ask.Size = l.cfg.Range, at.Generation(), wire.ID(v.id), at.Size()
	got, err := l.cfg.Store.ProveLogged(ctx, ask)
	if err != nil {
		return nil, ErrBusy
	}
	if len(got.Header) == 0 {
		return nil, nil
	}
	header, opening, err := at.Show(got.Header, v.id, in)
	if err != nil {
		return nil, l.breach(fault.AlarmLog, "batch of an entry: %v", err)
	}
	p := &tlog.LoggedProof{Index: header.Position, Path: pathOf(got.Path), Checkpoint: under.checkpoint, Entry: tlog.LoggedEntry{Leaf: header.Leaf, Opening: *opening}}
	if at.Generation() > tlog.FirstGeneration {
		p.Entry.Adopt, p.Entry.AdoptPath = got.First, pathOf(got.FirstPath)
	}
	if err := v.showFacts(ctx, &p.Entry, seq); err != nil {
		return nil, err
	}
	if _, err := p.Verify(at.Key(), l.cfg.Witnesses.Policy); err != nil {
		return nil, l.breach(fault.AlarmLog, "entry not in the log: %v", err)
	}
	return p, nil
}

// showFacts adds the facts of the entry at seq to the proof, with their inclusion under the tip in e.Opening.
func (v *View) showFacts(ctx context.Context, e *tlog.LoggedEntry, seq uint64) error {
	got, err := v.ledger.cfg.Store.Find(ctx, wire.Find{Organization: wire.ID(v.id), TreeSize: e.Opening.Count, Seqs: []uint64{seq}})
	if err != nil {
		return ErrBusy
	}
	if len(got.Entries) != 1 || got.Entries[0].Seq != seq {
		return v.ledger.breach(fault.AlarmIndex, "entry withheld")
	}
	found := &got.Entries[0]
	if _, err := v.checkIncluded(Tip{e.Opening.Count, e.Opening.Root}, found); err != nil {
		return err
	}
	plain, parts, err := openStored(v.ledger, v.keys, v.id, seq, found.Sealed, nil)
	if err != nil {
		return err
	}
	if parts == nil {
		return errNoFacts
	}
	if _, err := decodeEntry(v.ledger, v.id, seq, plain, parts); err != nil {
		return err
	}
	hashes := parts.Hashes()
	e.Path, e.Stored = pathOf(found.Proof), sha256.Sum256(found.Sealed)
	e.Facts, e.Salt, e.FactsPath = parts.Content[tlog.PartFacts], tlog.Salt(parts.Seed, tlog.PartFacts), tlog.PathOf(&hashes, tlog.PartFacts)
	return nil
}
