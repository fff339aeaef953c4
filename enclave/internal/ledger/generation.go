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

// Generations of a range's log. The witnesses of a log never change, because other witnesses have not seen it and would
// cosign any history of it. When a manifest names other terms, the log ends and its next generation begins, with another
// origin and other keys:
//
//  1. the enclave under the new manifest appends a leaf that closes the log and names the next
//     generation's origin and the hash of its terms;
//  2. a quorum of the old witnesses cosigns the closed log: an enclave under the old manifest that
//     continued the log otherwise gets no quorum any more;
//  3. the first leaf of the next generation adopts the closed log: its size and root, and the tips of all
//     organizations. If several enclaves do so, the new witnesses cosign one of the leaves only.
//
// A boot that finds a closed log appends nothing to it and continues with step 2.
//
// A store that has lost batches which witnesses have cosigned never gets a quorum again. Operators then state in a
// manifest the exact head from which the next generation begins (Recovery). Witnesses that have cosigned that first
// leaf cosign no other one, from this store or another. The old generation is not closed, and its
// witnesses are not asked.

// beginMovedGeneration closes the range's log and begins the next generation (steps 1 to 3). The caller makes sure that
// no batch is unstored and that nothing else appends.
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

// awaitFormerQuorum waits until a quorum of the witnesses of earlier terms has cosigned the log at.
func (l *Ledger) awaitFormerQuorum(ctx context.Context, at *log.Log, by *Terms) error {
	checkpoint, err := at.CheckpointAs(by.Name)
	if err != nil || insecure.Skip(insecure.Closed) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for pause := witnessPause; ; pause = min(2*pause, longWitnessPause) {
		if whole, _ := l.askWitnesses(ctx, by, checkpoint); whole != nil {
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

// A Recovery is the head from which operators let a range's next generation begin, from the manifest's
// attestation.RecoveredLog.
type Recovery struct {
	Origin          string
	Size, Witnessed uint64
	Root            [32]byte
	Generation      uint32 // the one that begins
	// Open lets organizations sign at once, without the consent of their root quorums.
	Open bool
}

// errHead is the error for a store whose log doesn't have the head in the Recovery.
func errHead(r *Recovery, format string, args ...any) error {
	return fault.WithCode(fault.FailedPrecondition, "RECOVERY_HEAD", "the manifest recovers generation %d from %d batches with root %x, and the store %s: restore the backup that it was made for",
		r.Generation, r.Size, r.Root, fmt.Sprintf(format, args...))
}

// checkRecovery refuses a log whose head is not exactly the one in the Recovery.
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

// beginRecoveredGeneration begins the Recovery's generation after the log that it names. Each lost batch may have been the first of a
// boot, and proofs may show that boot's number: boot numbers skip one for each lost batch, so that none is used twice. Only batches
// that witnesses have cosigned count as lost, because no boot serves without a quorum.
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

// maxBoots is the largest boot number that a recovery can lead to, whatever size its Witnessed has. Readers in JavaScript
// are exact up to 2^53.
const maxBoots = 1 << 52

// force returns what is in force from now on: the config's terms and manifest, with the boots and recoveries in before.
func (c *Config) force(before log.Force) log.Force {
	before.Policy, before.Mode, before.ManifestNonce = c.Start.Policy, c.Start.Mode, c.Start.ManifestNonce
	if c.PreviousWitnesses != nil { // an enclave under these terms, or under earlier ones, may still serve
		before.WaitMs = max(before.WaitMs, uint64(c.PreviousWitnesses.Serve.Milliseconds()))
	}
	if c.Witnesses != nil && before.WaitMs <= uint64(c.Witnesses.Serve.Milliseconds()) {
		before.WaitMs = 0 // every boot waits that long in any case
	}
	return before
}

// recoveryMargin is added to the time of a recovery to get the watermark at or before which no stamped body is accepted. It
// covers how far ahead of the clock a stamp may be, so that no body of the lost time runs again.
const recoveryMargin = 5 * time.Minute

// LastRecovery returns the newest generation of the log that began with a recovery after which each organization
// needs its root quorum's consent to sign again; 0 if there was none.
func (l *Ledger) LastRecovery() uint32 { return l.recovered.generation }

// RecoveryWatermark returns the lower bound that the log's last recovery set for the low watermarks of all
// organizations that existed then; 0 if there was none.
func (l *Ledger) RecoveryWatermark() uint64 { return l.recovered.watermarkMs }

// RecoveredMs returns the time of the log's last recovery; 0 if there was none.
func (l *Ledger) RecoveredMs() uint64 { return l.recovered.ms }

// A lastRecovery is the log's last recovery.
type lastRecovery struct {
	generation  uint32
	ms          uint64
	watermarkMs uint64 // lower bound of the low watermarks of organizations that existed then; 0: there was no recovery
}

func lastRecoveryOf(f log.Force) (r lastRecovery) {
	if r.generation, r.ms = f.Recovered, f.RecoveredMs; r.ms > 0 {
		const minute = 60_000
		r.watermarkMs = (f.RecoveredMs+uint64(recoveryMargin.Milliseconds()))/minute*minute + minute - 1
	}
	return r
}

// beginGeneration begins the next generation with the tips of all organizations. As always the log names their table
// before the host stores it: a boot that finds the old table reads the headers from there on.
func (l *Ledger) beginGeneration(ctx context.Context, at *log.Log, force log.Force, how tlog.Adopt) error {
	next, err := at.NextGeneration(l.logName(), force)
	if err != nil {
		return err
	}
	return l.adoptLog(ctx, next, how)
}

// beginDrillLog begins the log of a drill with the tips of all organizations in the store.
func (l *Ledger) beginDrillLog(ctx context.Context) error {
	at, _, _ := l.batchWriter.head()
	next, err := at.Drill(unnamed)
	if err != nil {
		return err
	}
	return l.adoptLog(ctx, next, tlog.Adopt{How: tlog.HowMoved, Origin: at.Key().Name(), Size: at.Size(), Root: at.Root()})
}

// adoptLog continues with next, an empty log, whose first leaf adopts the current log's end and all tips.
func (l *Ledger) adoptLog(ctx context.Context, next *log.Log, how tlog.Adopt) error {
	before, moved := l.tips.tableAndChanges()
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
	kept, blocks, err := empty.Keep(change.Table, l.batchWriter.epoch, first)
	if err != nil {
		return err
	}
	if err := l.keepTable(ctx, before, change, kept, blocks); err != nil {
		return err
	}
	l.tips.set(change.Table, map[org.ID]Tip{})
	l.recovered = lastRecoveryOf(empty.Force())
	return nil
}

// NextLogKey returns the public key of the log's next generation, for terms with the given log name.
func (l *Ledger) NextLogKey(name string) (*tlog.Key, error) {
	at, _, _ := l.batchWriter.head()
	keys, err := log.NewKeys(l.cfg.Log, l.origin(name, at.Generation()+1))
	if err != nil {
		return nil, err
	}
	return keys.Key(), nil
}
