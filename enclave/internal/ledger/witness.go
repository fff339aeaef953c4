package ledger

import (
	"context"
	"sync"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/log"
	"cloister/shared/wire"
)

// Witnesses outside of the operator's control cosign the log's checkpoints, and none of them
// signs two that do not fit. So of two histories at most one gets a quorum. What follows turns
// that into rules (the model of them is sim/logmodel):
//
//   - A batch is stored before a witness sees it, and a reply that could have seen it leaves when
//     a quorum has cosigned it (strict), or while no stored batch has waited for that too long (bounded).
//   - Nothing is answered without the right to serve: a batch of this boot with a quorum that was
//     sent less than Serve ago, by the enclave's own clock. A batch cannot be cosigned before it is
//     made, so that a boot which was left behind has it for that long at most.
//   - A new boot therefore waits for that long after its first batch has a quorum, unless the batch
//     before that is the word of the one before it that it is the next.

// Terms say who witnesses a log, and what waits for them.
type Terms struct {
	Name   string // begins the log's origin
	Policy *tlog.Policy
	Text   string   // of the policy
	Hash   [32]byte // attestation.LogTerms.Hash
	Mode   tlog.Mode
	// Generation is the first one of a log that they are for.
	Generation uint32
	// Serve is how long a batch that has a quorum gives the right to serve. Bound is how long one
	// may be without before the enclave stops.
	Serve, Bound time.Duration
}

// ErrLog says that too few witnesses have answered.
var ErrLog = fault.WithCode(fault.Unavailable, "LOG_UNAVAILABLE", "the log's witnesses have not cosigned yet: try again")

// witnesses is what they have cosigned. Without terms there are none, and nothing waits for them.
type witnesses struct {
	terms         *Terms
	batchWaits    chan struct{} // a stored batch lacks a quorum
	somebodyWaits chan struct{} // somebody waits for one

	mu            sync.Mutex
	waiting       []time.Time // when the batches behind logged were stored
	logged        uint64      // the last batch that has a quorum
	newest        *cosigned   // the last round that had one
	from          time.Time   // before which nothing is answered; zero: not known yet
	until         time.Time   // the right to serve
	heartbeatDue  bool        // a heartbeat is about to be said
	lastHeartbeat uint64      // the last one's batch
	changed       chan struct{}
}

func newWitnesses(terms *Terms) *witnesses {
	return &witnesses{terms: terms, batchWaits: make(chan struct{}, 1), somebodyWaits: make(chan struct{}, 1), changed: make(chan struct{})}
}

// cosigned is a log under a checkpoint that a quorum has signed.
type cosigned struct {
	log        *log.Log
	checkpoint []byte // as Policy.VerifyExactly takes it
}

// addStored notes a stored batch, which witnesses may see now.
func (w *witnesses) addStored(now time.Time) {
	if w.terms == nil {
		return
	}
	w.mu.Lock()
	w.waiting = append(w.waiting, now)
	w.mu.Unlock()
	signal(w.batchWaits)
}

// setNewest keeps the result of a round, before those who wait for it are woken.
func (w *witnesses) setNewest(newest *cosigned) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest = newest
}

// advance notes that a quorum has cosigned the log up to a batch that was sent then.
func (w *witnesses) advance(number uint64, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = w.waiting[number-w.logged:]
	w.logged = number
	if until := sent.Add(w.terms.Serve); until.After(w.until) {
		w.until = until
	}
	w.wakeLocked()
}

func (w *witnesses) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// serveFrom sets when this boot may answer for the first time.
func (w *witnesses) serveFrom(from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from = from
	w.wakeLocked()
}

// countUnwitnessed is how many stored batches lack a quorum.
func (w *witnesses) countUnwitnessed() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(len(w.waiting))
}

// lastVisible is the last batch that every reply may have seen, of those up to the last stored one.
func (w *witnesses) lastVisible(stored uint64) uint64 {
	if w.terms == nil {
		return stored
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(w.logged, stored)
}

// awaitQuorum returns when a batch has a quorum.
func (w *witnesses) awaitQuorum(ctx context.Context, l *Ledger, number uint64) error {
	return w.await(ctx, l, func(time.Time) (bool, time.Time) { return w.logged >= number, time.Time{} })
}

// awaitStart returns once this boot may begin to serve, or need not wait.
func (w *witnesses) awaitStart(ctx context.Context, l *Ledger) error {
	return w.await(ctx, l, func(now time.Time) (bool, time.Time) {
		return !w.from.IsZero() && !now.Before(w.from), w.from
	})
}

// stalledLocked tells whether a stored batch has waited for a quorum for too long.
func (w *witnesses) stalledLocked(now time.Time) bool {
	return len(w.waiting) > 0 && now.Sub(w.waiting[0]) > w.terms.Bound
}

// checkStalled refuses to decide more while witnesses are away.
func (w *witnesses) checkStalled(now time.Time) error {
	if w.terms == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stalledLocked(now) {
		return ErrLog
	}
	return nil
}

// await returns when f is so. It is called with mu held, whenever something has changed and at
// the times that it names; a zero time is none.
func (w *witnesses) await(ctx context.Context, l *Ledger, f func(now time.Time) (so bool, at time.Time)) error {
	for {
		now := l.cfg.Clock.Now()
		w.mu.Lock()
		so, at := f(now)
		changed := w.changed
		w.mu.Unlock()
		if so {
			return nil
		}
		signal(w.somebodyWaits)
		var later <-chan time.Time
		if !at.IsZero() {
			later = l.cfg.Clock.After(max(at.Sub(now), time.Millisecond))
		}
		select {
		case <-changed:
		case <-later:
		case <-ctx.Done():
			return ErrLog
		case <-l.done:
			return ErrFenced
		}
	}
}

// awaitRelease returns when what has seen batch n may leave, the right to serve aside.
func (w *witnesses) awaitRelease(ctx context.Context, l *Ledger, n uint64) error {
	if w.terms == nil || insecure.Skip(insecure.Quorum) {
		return nil
	}
	return w.await(ctx, l, func(now time.Time) (bool, time.Time) {
		if w.terms.Mode == tlog.ModeStrict {
			return w.logged >= n, time.Time{}
		}
		return !w.stalledLocked(now), time.Time{}
	})
}

// awaitRight returns once this enclave has the right to serve. Who asks keeps it.
func (w *witnesses) awaitRight(ctx context.Context, l *Ledger) error {
	if w.terms == nil || insecure.Skip(insecure.Right) {
		return nil
	}
	return w.await(ctx, l, func(now time.Time) (bool, time.Time) {
		if w.from.IsZero() {
			return false, time.Time{}
		}
		if now.Before(w.from) {
			return false, w.from
		}
		if w.until.Sub(now) < w.terms.Serve*2/3 && len(w.waiting) == 0 && w.logged >= w.lastHeartbeat && !w.heartbeatDue {
			w.heartbeatDue = true
			go l.appendHeartbeat()
		}
		return now.Before(w.until), time.Time{}
	})
}

// appendHeartbeat appends a batch that says nothing, so that its quorum renews the right to serve. Another
// checkpoint over the same leaves would not do: cosignatures of one second are the same bytes, and an old one
// could be passed off as new.
func (l *Ledger) appendHeartbeat() {
	var number uint64
	l.writeGate.RLock()
	if !l.closedForWrites {
		number = l.batchWriter.appendLeaf(tlog.Leaf{}, nil)
	}
	l.writeGate.RUnlock()
	l.witnesses.mu.Lock()
	l.witnesses.lastHeartbeat, l.witnesses.heartbeatDue = number, false
	l.witnesses.mu.Unlock()
}

// startServing lets this boot answer once its first batch has a quorum and the boot before it has lost the
// right to serve, unless that has named this one. That one had it for wait at most since its newest batch was
// sent, which was before: on top of ours none of its batches gets a quorum. The clocks of two machines run a
// hundredth apart at most.
func (l *Ledger) startServing(first uint64, wait time.Duration) {
	if l.witnesses.awaitQuorum(l.life, l, first) != nil {
		return
	}
	from := l.cfg.Clock.Now()
	if !insecure.Skip(insecure.BootWait) {
		from = from.Add(wait + wait/100)
	}
	l.witnesses.serveFrom(from)
	if l.witnesses.awaitStart(l.life, l) == nil {
		l.batchWriter.endWait()
	}
}

// witnessPause is how long a round waits that follows one without a quorum, twice as long after
// each more, up to longWitnessPause.
const (
	witnessPause     = 50 * time.Millisecond
	longWitnessPause = 800 * time.Millisecond
)

// runWitnessRounds has stored batches cosigned, one checkpoint over all of them at a time.
func (l *Ledger) runWitnessRounds() {
	w := l.witnesses
	for {
		select {
		case <-w.batchWaits:
		case <-l.done:
			return
		}
		for pause := witnessPause; w.countUnwitnessed() > 0; {
			if !l.witnessRound() {
				select {
				case <-l.cfg.Clock.After(pause):
					pause = min(2*pause, longWitnessPause)
					continue
				case <-l.done:
					return
				}
			}
			pause = witnessPause
			// The next round takes all that comes until somebody waits for it: in strict mode every
			// reply does.
			select {
			case <-w.somebodyWaits:
			case <-l.cfg.Clock.After(min(w.terms.Bound/4, w.terms.Serve/6)):
			case <-l.done:
				return
			}
		}
	}
}

// witnessRound has the log cosigned as far as it is stored.
func (l *Ledger) witnessRound() bool {
	at, number, sent := l.batchWriter.head()
	checkpoint := at.Checkpoint()
	whole := l.askWitnesses(l.life, l.cfg.Witnesses, checkpoint)
	if whole == nil {
		return false
	}
	l.witnesses.setNewest(&cosigned{at, whole})
	l.witnesses.advance(number, sent)
	return true
}

// askWitnesses has the host bring a checkpoint to the witnesses of some terms, and puts it together with what a
// quorum of them signed; nil: there was none.
func (l *Ledger) askWitnesses(ctx context.Context, by *Terms, checkpoint []byte) []byte {
	got, err := askStore(ctx, l.cfg.Store.Witness, wire.Witness{Range: l.cfg.Range, Policy: by.Text, Checkpoint: checkpoint})
	if err != nil {
		return nil
	}
	return by.Policy.Collect(checkpoint, got.Lines)
}

// LogKey is what the log's checkpoints verify by, nil until it has been read.
func (l *Ledger) LogKey() *tlog.Key {
	l.batchWriter.mu.Lock()
	defer l.batchWriter.mu.Unlock()
	if l.batchWriter.log == nil {
		return nil
	}
	return l.batchWriter.log.Key()
}
