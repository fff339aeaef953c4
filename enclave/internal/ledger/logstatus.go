package ledger

import (
	"time"

	"cloister/shared/wire"
)

// renewTime is how long the renewal of a right to serve may take that lapsed because nobody asked. LogStatus reports a log
// without the right as stalled only after that.
const renewTime = 2 * time.Second

// LogStatus returns the state of the log for the operator: whether its witnesses let this enclave serve, and what it waits for.
func (l *Ledger) LogStatus() wire.LogStatus {
	s := wire.LogStatus{Range: l.cfg.Range, State: wire.LogUnwitnessed}
	l.batchWriter.mu.Lock()
	if at := l.batchWriter.log; at != nil {
		s.Origin, s.Generation, s.Size = at.Key().Name(), at.Generation(), at.Size()
	}
	l.batchWriter.mu.Unlock()
	if l.cfg.Witnesses != nil {
		l.witnesses.describe(&s, l.cfg.Clock.Now())
	}
	return s
}

// describe sets the fields of a LogStatus that depend on the witnesses.
func (w *witnesses) describe(s *wire.LogStatus, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Quorum, s.BoundMs, s.Missing = w.terms.Policy.Quorum(), milliseconds(w.terms.Bound), w.missing
	if w.newest != nil {
		age := milliseconds(now.Sub(w.newest.at))
		s.QuorumAgeMs = &age
	}
	var owed time.Duration // for how long a quorum has been owed
	if s.Unwitnessed = uint64(len(w.waiting)); s.Unwitnessed > 0 {
		owed = now.Sub(w.waiting[0])
		s.UnwitnessedMs = milliseconds(owed)
	}
	switch lapsed := !now.Before(w.until); {
	case w.from.IsZero():
		s.State, s.WaitMs = wire.LogStarting, milliseconds(w.wait)
	case now.Before(w.from):
		s.State, s.WaitMs = wire.LogWaiting, max(milliseconds(w.from.Sub(now)), 1)
	case w.stalledLocked(now), lapsed && owed > renewTime:
		s.State = wire.LogStalled
	default:
		s.State = wire.LogServing
	}
}

// milliseconds returns d in milliseconds, 0 if it is negative.
func milliseconds(d time.Duration) uint64 { return uint64(max(0, d.Milliseconds())) }
