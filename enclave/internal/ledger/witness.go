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

// Witnesses outside of the operator's control cosign the log's checkpoints, and no witness cosigns two
// inconsistent ones. So of two histories at most one gets a quorum. The rules that follow from that (sim/logmodel
// is their model):
//
//   - A batch is stored before a witness sees it. A reply that depends on it is sent when a quorum has cosigned
//     it (strict mode), or while no stored batch has waited too long for a quorum (bounded mode).
//   - An enclave answers nothing without the right to serve: a batch of this boot that has a quorum and was
//     sent less than Terms.Serve ago, by the enclave's own clock. A batch can't be cosigned before it is
//     made, so a superseded boot has the right for at most that long.
//   - A new boot therefore waits that long after its first batch has a quorum, unless the preceding
//     batch is the last owner's close leaf that names this boot.

// Terms are the terms of a log: its witnesses, and which replies wait for them.
type Terms struct {
	Name   string // the name in the log's origin
	Policy *tlog.Policy
	Text   string   // the policy's text
	Hash   [32]byte // attestation.LogTerms.Hash
	Mode   tlog.Mode
	// Generation is the first generation of a log under these terms.
	Generation uint32
	// Serve is how long a batch with a quorum gives the right to serve, from when it was sent. Bound is how long
	// a stored batch may lack a quorum before the enclave refuses decisions and, in bounded mode, replies.
	Serve, Bound time.Duration
}

// ErrLog means that a quorum of witnesses has not cosigned yet.
var ErrLog = fault.WithCode(fault.Unavailable, "LOG_UNAVAILABLE", "the log's witnesses have not cosigned yet: try again")

// witnesses tracks what the log's witnesses have cosigned. If terms is nil there are none, and nothing waits.
type witnesses struct {
	terms         *Terms
	batchWaits    chan struct{} // signals that a stored batch lacks a quorum
	somebodyWaits chan struct{} // signals that a request waits for a quorum

	mu            sync.Mutex
	waiting       []time.Time   // times at which the batches after logged were stored
	logged        uint64        // number of the last batch that has a quorum
	newest        *cosigned     // result of the last round with a quorum
	from          time.Time     // start of the right to serve; zero: not known yet
	until         time.Time     // end of the right to serve
	wait          time.Duration // from the quorum of the boot's first batch to from
	missing       []string      // witnesses that the newest round lacks, if it has no quorum
	heartbeatDue  bool          // a heartbeat is about to be appended
	lastHeartbeat uint64        // number of the last heartbeat's batch
	changed       chan struct{} // closed and replaced at each change
}

func newWitnesses(terms *Terms) *witnesses {
	return &witnesses{terms: terms, batchWaits: make(chan struct{}, 1), somebodyWaits: make(chan struct{}, 1), changed: make(chan struct{})}
}

// cosigned is a log with a checkpoint of it that a quorum has cosigned.
type cosigned struct {
	log        *log.Log
	checkpoint []byte // with the cosignatures, in the form that Policy.VerifyExactly accepts
	at         time.Time
}

// addStored notes a stored batch, which witnesses may now cosign.
func (w *witnesses) addStored(now time.Time) {
	if w.terms == nil {
		return
	}
	w.mu.Lock()
	w.waiting = append(w.waiting, now)
	w.mu.Unlock()
	signal(w.batchWaits)
}

// setNewest sets the result of a round. advance, which wakes waiters, comes after it.
func (w *witnesses) setNewest(newest *cosigned) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest = newest
}

// setMissing sets the witnesses that a round without a quorum lacks.
func (w *witnesses) setMissing(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missing = names
}

// advance notes that a quorum has cosigned the log up to batch number, which was first sent at sent.
func (w *witnesses) advance(number uint64, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = w.waiting[number-w.logged:]
	w.logged, w.missing = number, nil
	if until := sent.Add(w.terms.Serve); until.After(w.until) {
		w.until = until
	}
	w.wakeLocked()
}

func (w *witnesses) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// serveFrom sets the start of this boot's right to serve, after its wait.
func (w *witnesses) serveFrom(quorum time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from = quorum.Add(w.wait)
	w.wakeLocked()
}

// countUnwitnessed returns the number of stored batches that lack a quorum.
func (w *witnesses) countUnwitnessed() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(len(w.waiting))
}

// lastVisible returns the last batch on which any reply may depend: the last stored one, with witnesses the last
// one with a quorum.
func (w *witnesses) lastVisible(stored uint64) uint64 {
	if w.terms == nil {
		return stored
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(w.logged, stored)
}

// hasQuorum reports whether a batch has a quorum; without witnesses none needs one.
func (w *witnesses) hasQuorum(number uint64) bool {
	if w.terms == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logged >= number
}

// awaitQuorum waits until a batch has a quorum.
func (w *witnesses) awaitQuorum(ctx context.Context, l *Ledger, number uint64) error {
	return w.await(ctx, l, func(time.Time) (bool, time.Time) { return w.logged >= number, time.Time{} })
}

// awaitStart waits until the start of this boot's right to serve.
func (w *witnesses) awaitStart(ctx context.Context, l *Ledger) error {
	return w.await(ctx, l, func(now time.Time) (bool, time.Time) {
		return !w.from.IsZero() && !now.Before(w.from), w.from
	})
}

// stalledLocked reports whether a stored batch has lacked a quorum for longer than Terms.Bound. mu is held.
func (w *witnesses) stalledLocked(now time.Time) bool {
	return len(w.waiting) > 0 && now.Sub(w.waiting[0]) > w.terms.Bound
}

// checkStalled refuses decisions while a stored batch has lacked a quorum for too long.
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

// await waits until f returns true. It calls f with mu held, after every change and at the time
// that f has returned, unless that is zero.
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

// awaitRelease waits until the log's mode allows a reply that depends on batch n. The right to serve is checked
// separately.
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

// awaitRight waits until this enclave has the right to serve. When the right nears its end, awaitRight appends a
// heartbeat to renew it: an enclave that is asked nothing lets it lapse.
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

// appendHeartbeat appends a batch with an empty leaf, whose quorum renews the right to serve. Another checkpoint
// of the same leaves would not do: the host could pass off its old cosignatures, which have the same bytes if made
// in the same second, as new ones.
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

// setWait sets how long this boot waits after its first batch has a quorum: as long as an earlier boot may serve,
// 0 if the last owner has named this boot. It is extended by a hundredth, the most by which two machines' clocks
// differ in rate.
func (w *witnesses) setWait(serve time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !insecure.Skip(insecure.BootWait) {
		w.wait = serve + serve/100
	}
}

// startServing sets the start of this boot's right to serve: witnesses.wait after its first batch has a quorum. By
// then earlier boots have lost theirs: each has it for at most that long after it sent its last batch with a
// quorum, which was before this boot's first one, since no other batch gets a quorum after that.
func (l *Ledger) startServing(first uint64) {
	if l.witnesses.awaitQuorum(l.life, l, first) != nil {
		return
	}
	l.witnesses.serveFrom(l.cfg.Clock.Now())
	if l.witnesses.awaitStart(l.life, l) == nil {
		l.batchWriter.endWait()
	}
}

// witnessPause is the pause after a round without a quorum. It doubles with each further one, up to
// longWitnessPause.
const (
	witnessPause     = 50 * time.Millisecond
	longWitnessPause = 800 * time.Millisecond
)

// runWitnessRounds has stored batches cosigned until the ledger is done: each round asks for one checkpoint over all of them.
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
			// The next round begins when a request waits for it, in strict mode with the next reply, and covers all
			// batches stored by then.
			select {
			case <-w.somebodyWaits:
			case <-l.cfg.Clock.After(min(w.terms.Bound/4, w.terms.Serve/6)):
			case <-l.done:
				return
			}
		}
	}
}

// witnessRound has the stored log cosigned and reports whether it got a quorum.
func (l *Ledger) witnessRound() bool {
	at, number, sent := l.batchWriter.head()
	checkpoint := at.Checkpoint()
	whole, missing := l.askWitnesses(l.life, l.cfg.Witnesses, checkpoint)
	if whole == nil {
		l.witnesses.setMissing(missing)
		return false
	}
	if insecure.Skip(insecure.Sent) {
		sent = l.cfg.Clock.Now()
	}
	l.witnesses.setNewest(&cosigned{at, whole, l.cfg.Clock.Now()})
	l.witnesses.advance(number, sent)
	return true
}

// askWitnesses has the host ask the witnesses of some terms to cosign a checkpoint. It returns the checkpoint with
// the verified cosignatures of a quorum, or nil if there are too few, and then the witnesses that are missing; none if the
// host brought no answer.
func (l *Ledger) askWitnesses(ctx context.Context, by *Terms, checkpoint []byte) (whole []byte, missing []string) {
	got, err := askStore(ctx, l.cfg.Store.Witness, wire.Witness{Range: l.cfg.Range, Policy: by.Text, Checkpoint: checkpoint})
	if err != nil {
		return nil, nil
	}
	if whole = by.Policy.Collect(checkpoint, got.Lines); whole == nil {
		missing = by.Policy.Missing(checkpoint, got.Lines)
	}
	return whole, missing
}

// LogKey returns the public key that verifies the log's checkpoints, nil before Take has read the log.
func (l *Ledger) LogKey() *tlog.Key {
	l.batchWriter.mu.Lock()
	defer l.batchWriter.mu.Unlock()
	if l.batchWriter.log == nil {
		return nil
	}
	return l.batchWriter.log.Key()
}
