package ledger

import (
	"context"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/org"
)

// Publish says in the log that the keyring may go to an enclave under this manifest, by its SHA-256,
// and waits for the witnesses.
func (l *Ledger) Publish(ctx context.Context, manifest [32]byte) error {
	batch, err := l.say(ctx, tlog.Leaf{Manifest: &tlog.Manifest{SHA256: manifest}}, nil)
	if err != nil || l.cfg.Witnesses == nil {
		return err
	}
	return l.witnesses.has(ctx, l, batch)
}

// Shut ends deciding: what is decided by then gets stored. If ctx ends before that, the range is
// served on as if nothing had happened. A boot that waits for its right to serve cannot name another
// that has it: it waits before.
func (l *Ledger) Shut(ctx context.Context) error {
	if l.cfg.Witnesses != nil {
		if err := l.witnesses.turn(ctx, l); err != nil {
			return err
		}
	}
	if !l.shut(true) {
		return ErrGiven
	}
	err := l.drain(ctx)
	if err != nil {
		l.shut(false)
	}
	return err
}

// End ends a ledger that is shut, while the enclave goes on with others. With witnesses, the log's last
// batch names the boot that goes on, unless that is zero, and waits for their quorum, for as long as
// ctx lasts; after an error there is no way back all the same. Nothing is answered any more. Where the
// log ends that it returns is final, so that another owner can go on from there. The row stays this
// boot's until Free.
func (l *Ledger) End(ctx context.Context, next org.ID) (*Past, error) {
	if l.cfg.Witnesses != nil && !next.Zero() {
		last := l.pipe.say(tlog.Leaf{Close: &tlog.Close{Boot: next}}, nil)
		err := l.pipe.wait(ctx, last)
		if err == nil {
			err = l.witnesses.has(ctx, l, last)
		}
		if err != nil {
			return nil, err
		}
	}
	l.halt()
	l.pipe.mu.Lock()
	defer l.pipe.mu.Unlock()
	return &Past{log: l.pipe.log, epoch: l.pipe.epoch, number: l.pipe.stored}, nil
}

// shut sets given once decisions under way are done. It returns false if it was so before.
func (l *Ledger) shut(given bool) bool {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given == given {
		return false
	}
	l.given = given
	return true
}

// Quit ends the ledger at once, as fencing does, but tells nobody.
func (l *Ledger) Quit() {
	l.fenced.Store(true)
	l.stop()
}
