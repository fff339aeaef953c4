package ledger

// The ways in which a ledger ends. The first three are the steps of a handover, in order:
//
//	CloseForWrites    refuses new decisions and stores the unstored ones. Undone if that fails
//	SealForHandover   ends the ledger for good and returns the head of its log, for the next owner
//	ReleaseOwnership  gives the row back. May be called again until the store answers
//	Release           an orderly end: stores the unstored entries, ends, gives the row back
//	Abort             ends the ledger at once and writes nothing, as fencing does
//	Close             ends the ledger's goroutines and writes nothing, as a crash would

import (
	"context"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
)

// Publish appends a leaf to the log that announces a manifest, by its SHA-256, under which another enclave
// may get the keyring, and waits until a quorum of witnesses has cosigned it.
func (l *Ledger) Publish(ctx context.Context, manifest [32]byte) error {
	batch, err := l.appendLeaf(ctx, tlog.Leaf{Manifest: &tlog.Manifest{SHA256: manifest}}, nil)
	if err != nil || l.cfg.Witnesses == nil {
		return err
	}
	return l.witnesses.awaitQuorum(ctx, l, batch)
}

// CloseForWrites refuses new decisions from now on and returns once all earlier ones are stored. If ctx ends before
// that, the ledger accepts decisions again. CloseForWrites first waits for this boot's own right to serve, since a
// boot without it can't name another that may serve at once.
func (l *Ledger) CloseForWrites(ctx context.Context) error {
	if l.cfg.Witnesses != nil && !insecure.Skip(insecure.CloseWait) {
		if err := l.witnesses.awaitStart(ctx, l); err != nil {
			return err
		}
	}
	if !l.setClosedForWrites(true) {
		return ErrHandedOver
	}
	err := l.flush(ctx)
	if err != nil {
		l.setClosedForWrites(false)
	}
	return err
}

// SealForHandover ends a ledger that is closed for writes, for good: it answers nothing any more. With witnesses
// and unless next is zero, it first appends a last batch that names next as the following owner's boot, and waits
// for a quorum as long as ctx lasts; after an error the ledger can't be reopened either. The returned end of the
// log is final, so that another owner can continue from it. The row stays this boot's until ReleaseOwnership.
func (l *Ledger) SealForHandover(ctx context.Context, next org.ID) (*EndOfOwnership, error) {
	if l.cfg.Witnesses != nil && !next.Zero() {
		last := l.batchWriter.appendLeaf(tlog.Leaf{Close: &tlog.Close{Boot: next}}, nil)
		err := l.batchWriter.waitStored(ctx, last)
		if err == nil {
			err = l.witnesses.awaitQuorum(ctx, l, last)
		}
		if err != nil {
			return nil, err
		}
	}
	l.stopServing()
	l.batchWriter.mu.Lock()
	defer l.batchWriter.mu.Unlock()
	return &EndOfOwnership{log: l.batchWriter.log, epoch: l.batchWriter.epoch, number: l.batchWriter.stored}, nil
}

// setClosedForWrites sets closedForWrites once decisions under way have taken effect. It returns false if it had
// that value already.
func (l *Ledger) setClosedForWrites(given bool) bool {
	l.writeGate.Lock()
	defer l.writeGate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closedForWrites == given {
		return false
	}
	l.closedForWrites = given
	return true
}

// Abort ends the ledger at once, as fencing does, but doesn't call Config.Fence.
func (l *Ledger) Abort() {
	l.fenced.Store(true)
	l.stop()
}
