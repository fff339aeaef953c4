package ledger

// How a ledger ends:
//
//	CloseForWrites    nothing more is decided; what is decided gets stored. Undone if that fails
//	SealForHandover   then: ends it for good, with the head that the next owner goes on from
//	ReleaseOwnership  then: gives the row back. May be called again until the store answers
//	Release           all of it in one, at an orderly end
//	Abort             ends it at once and writes nothing, as fencing does
//	Close             ends its goroutines and writes nothing, as a crash would

import (
	"context"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/org"
)

// Publish says in the log that the keyring may go to an enclave under this manifest, by its SHA-256,
// and waits for the witnesses.
func (l *Ledger) Publish(ctx context.Context, manifest [32]byte) error {
	batch, err := l.appendLeaf(ctx, tlog.Leaf{Manifest: &tlog.Manifest{SHA256: manifest}}, nil)
	if err != nil || l.cfg.Witnesses == nil {
		return err
	}
	return l.witnesses.awaitQuorum(ctx, l, batch)
}

// CloseForWrites ends deciding: what is decided by then gets stored. If ctx ends before that, the range is
// served on as if nothing had happened. A boot that waits for its right to serve cannot name another that has
// it: it waits before.
func (l *Ledger) CloseForWrites(ctx context.Context) error {
	if l.cfg.Witnesses != nil {
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

// SealForHandover ends a ledger that is closed for writes, while the enclave goes on with others. With
// witnesses, the log's last batch names the boot that goes on, unless that is zero, and waits for their quorum,
// for as long as ctx lasts; after an error there is no way back all the same. Nothing is answered any more.
// Where the log ends that it returns is final, so that another owner can go on from there. The row stays this
// boot's until ReleaseOwnership.
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

// setClosedForWrites sets closedForWrites once decisions under way are done. It returns false if it was so
// before.
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

// Abort ends the ledger at once, as fencing does, but tells nobody.
func (l *Ledger) Abort() {
	l.fenced.Store(true)
	l.stop()
}
