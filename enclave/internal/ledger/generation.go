package ledger

import (
	"context"
	"fmt"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/org"
)

// Within one log the terms never change: other witnesses have not seen it and would sign any. So a
// log ends where its terms do, and another generation of it begins, with another origin and keys:
//
//  1. the enclave under the next manifest puts a leaf behind the log that closes it for the next
//     generation, by its origin and the hash of its terms;
//  2. the witnesses that have seen the log cosign it so far: whoever goes on with it besides, under
//     the manifest before, gets no quorum any more;
//  3. the first leaf of the next generation adopts it: where it ended, and the tips of all
//     organizations. Of several that do so the new witnesses cosign one.
//
// Whoever finds a log that is closed goes on with step 2, and nobody appends to it.
//
// A store that lost what witnesses have seen never gets a quorum again. Operators then say by a manifest
// with which head exactly the next generation begins (Recovery). Witnesses that have seen that one begin
// sign no other beginning, from this store or another. The one before is not closed, and nobody asks
// those who witnessed it.

// beginMovedGeneration brings the range to the next generation of its log. Nothing is on its way to the store,
// and nothing else appends.
func (l *Ledger) beginMovedGeneration(ctx context.Context) error {
	left := l.cfg.PreviousWitnesses
	at, said, _ := l.batchWriter.head()
	if at.CloseLeaf() == nil {
		var err error
		leaf := tlog.Leaf{Close: &tlog.Close{Origin: l.origin(l.logName(), at.Generation()+1).String(), Policy: l.cfg.Start.Policy}}
		if said, err = l.appendLeaf(ctx, leaf, nil); err != nil {
			return err
		}
		at, _, _ = l.batchWriter.head()
	}
	if err := l.awaitFormerQuorum(ctx, at, left); err != nil {
		return err
	}
	if said > 0 {
		l.witnesses.advance(said, time.Time{}) // it gives no right to serve
	}
	return l.beginGeneration(ctx, at, l.cfg.force(at.Force()), tlog.Adopt{How: tlog.HowMoved, Origin: l.origin(left.Name, at.Generation()).String(), Size: at.Size(), Root: at.Root()})
}

// awaitFormerQuorum waits until a quorum of other terms has cosigned a log where it stands.
func (l *Ledger) awaitFormerQuorum(ctx context.Context, at *log.Log, by *Terms) error {
	checkpoint, err := at.CheckpointAs(by.Name)
	if err != nil || insecure.Skip(insecure.Closed) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for pause := witnessPause; ; pause = min(2*pause, longWitnessPause) {
		if l.askWitnesses(ctx, by, checkpoint) != nil {
			return nil
		}
		select {
		case <-l.cfg.Clock.After(pause):
		case <-ctx.Done():
			return ErrLog
		case <-l.done:
			return ErrFenced
		}
	}
}

// A Recovery is where operators say that a range goes on, as attestation.RecoveredLog has it.
type Recovery struct {
	Origin          string
	Size, Witnessed uint64
	Root            [32]byte
	Generation      uint32 // that begins
	// Open tells that organizations sign at once.
	Open bool
}

// errHead refuses a store that is not the one that operators have looked at.
func errHead(r *Recovery, format string, args ...any) error {
	return fault.WithCode(fault.FailedPrecondition, "RECOVERY_HEAD", "the manifest recovers generation %d from %d batches with root %x, and the store %s: restore the backup that it was made for",
		r.Generation, r.Size, r.Root, fmt.Sprintf(format, args...))
}

// checkRecovery refuses a log but for the very head that operators named.
func (l *Ledger) checkRecovery(at *log.Log) error {
	r := l.cfg.Recover
	switch {
	case insecure.Skip(insecure.Recovered):
		return nil
	case at.Generation()+1 != r.Generation:
		return errHead(r, "has generation %d", at.Generation())
	case at.Size() != r.Size || at.Root() != r.Root:
		return errHead(r, "has %d with root %x", at.Size(), at.Root())
	}
	return l.checkGeneration(r.Generation)
}

// beginRecoveredGeneration begins the generation that operators want behind the log that they named. Each lost batch may have been a
// boot's first one, whose number proofs of it tell: none is used again. No boot has served that witnesses have not seen.
func (l *Ledger) beginRecoveredGeneration(ctx context.Context) error {
	r := l.cfg.Recover
	at, _, _ := l.batchWriter.head()
	force := l.cfg.force(at.Force())
	if force.RecoveredMs = uint64(l.cfg.Clock.Now().UnixMilli()); !r.Open {
		force.Recovered = r.Generation
	}
	force.Boots = max(force.Boots, min(force.Boots+r.Witnessed-r.Size, maxBoots))
	return l.beginGeneration(ctx, at, force, tlog.Adopt{How: tlog.HowRecovered, Origin: r.Origin, Size: at.Size(), Root: at.Root(), Witnessed: max(r.Witnessed, at.Size())})
}

// maxBoots bounds what a recovery makes of boot numbers, whatever witnesses say that they have seen: readers count exactly to 2^53.
const maxBoots = 1 << 52

// force is what these terms put in the place of what was in force.
func (c *Config) force(before log.Force) log.Force {
	before.Policy, before.Mode, before.ManifestNonce = c.Start.Policy, c.Start.Mode, c.Start.ManifestNonce
	if c.PreviousWitnesses != nil { // an enclave of these terms may serve, or of others before
		before.WaitMs = max(before.WaitMs, uint64(c.PreviousWitnesses.Serve.Milliseconds()))
	}
	if c.Witnesses != nil && before.WaitMs <= uint64(c.Witnesses.Serve.Milliseconds()) {
		before.WaitMs = 0 // every boot waits for that long
	}
	return before
}

// recoveryMargin is how long behind a recovery no body is taken that was stamped before: one of the lost time does not run
// again, though it be stamped ahead as far as one may be.
const recoveryMargin = 5 * time.Minute

// LastRecovery is the newest generation of the log that began with a recovery after which each organization's
// root quorum has to let it sign again; 0: there was none.
func (l *Ledger) LastRecovery() uint32 { return l.recovered.generation }

// RecoveryWatermark is the least low watermark of all organizations that were there at the last recovery of the
// log, 0 if there was none.
func (l *Ledger) RecoveryWatermark() uint64 { return l.recovered.watermarkMs }

// A lastRecovery is what the log says of its last recovery.
type lastRecovery struct {
	generation  uint32
	watermarkMs uint64 // the least low watermark of organizations that were there; 0: there was no recovery
}

func lastRecoveryOf(f log.Force) (r lastRecovery) {
	if r.generation = f.Recovered; f.RecoveredMs > 0 {
		const minute = 60_000
		r.watermarkMs = (f.RecoveredMs+uint64(recoveryMargin.Milliseconds()))/minute*minute + minute - 1
	}
	return r
}

// beginGeneration begins the next generation with the tips of all organizations. The log names their table before
// the host keeps it, as ever: a boot that finds the one before follows the headers from there.
func (l *Ledger) beginGeneration(ctx context.Context, at *log.Log, force log.Force, how tlog.Adopt) error {
	next, err := at.NextGeneration(l.logName(), force)
	if err != nil {
		return err
	}
	return l.adoptLog(ctx, next, how)
}

// beginDrillLog begins the log of a drill with all that the store holds.
func (l *Ledger) beginDrillLog(ctx context.Context) error {
	at, _, _ := l.batchWriter.head()
	next, err := at.Drill(unnamed)
	if err != nil {
		return err
	}
	return l.adoptLog(ctx, next, tlog.Adopt{How: tlog.HowMoved, Origin: at.Key().Name(), Size: at.Size(), Root: at.Root()})
}

// adoptLog goes on with a log that is empty yet and adopts the one that there is.
func (l *Ledger) adoptLog(ctx context.Context, next *log.Log, how tlog.Adopt) error {
	before, moved := l.tips.all()
	change, err := l.updateTable(ctx, before, moved)
	if err != nil {
		return err
	}
	empty, head := next.Clone(), next.Head(change.Table)
	how.Table, how.Manifest = log.Commitment(head), l.cfg.Start.Manifest
	l.batchWriter.setLog(next, 0)
	first, err := l.appendLeaf(ctx, tlog.Leaf{Adopt: &how}, head)
	if err != nil {
		return err
	}
	kept, err := empty.Keep(change.Table, l.batchWriter.epoch, first)
	if err != nil {
		return err
	}
	if err := l.keepTable(ctx, before, change, kept); err != nil {
		return err
	}
	l.tips.set(change.Table, map[org.ID]Tip{})
	l.recovered = lastRecoveryOf(empty.Force())
	return nil
}

// NextLogKey is what the checkpoints of the range's next generation verify by, under other terms.
func (l *Ledger) NextLogKey(name string) (*tlog.Key, error) {
	at, _, _ := l.batchWriter.head()
	keys, err := log.NewKeys(l.cfg.Log, l.origin(name, at.Generation()+1))
	if err != nil {
		return nil, err
	}
	return keys.Key(), nil
}
