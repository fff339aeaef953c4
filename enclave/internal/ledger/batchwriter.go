package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// batch is a batch that is not stored yet: entries of one or more organizations, or one leaf without entries.
type batch struct {
	number   uint64
	entries  []wire.Entry
	keys     []wire.WrappedKey
	tips     map[org.ID]Tip
	bytes    int64
	leaf     *tlog.Leaf // the batch's leaf if it has no entries, or nil
	table    *wire.TableHead
	restated *restated     // the tip that the batch restates if it has no entries, or nil
	closed   bool          // takes no more entries
	sent     time.Time     // when it first went to the store
	done     chan struct{} // closed when stored
}

// entryMargin is the most bytes that an entry needs in a batch beside its sealed bytes: for its fields,
// its tip in the header and a wrapped key. indexMargin is the most for an index change or a
// send.
const (
	entryMargin = 512
	indexMargin = 48
)

// batchWriter writes batches to the store, one at a time, while the next one fills.
type batchWriter struct {
	ledger *Ledger

	mu sync.Mutex
	// queue has every unstored batch, in order. The last one fills; the first, unless empty, is being sent.
	queue       []*batch
	stored      uint64
	unstored    int64
	log         *log.Log      // up to the last stored batch
	tableCovers uint64        // batches of the log that the newest tip table covers
	tableDue    chan struct{} // signals makeTables to make another table
	table       *tableCut     // the tip table that is being made, or nil
	tableBegun  time.Time     // when the last tip table was begun, at first when this boot began
	waitOver    bool          // a table is due because a wait for an enclave under earlier terms is over
	sent        time.Time     // when the last stored batch first went to the store
	wake        chan struct{}
	epoch       uint64
}

func newBatchWriter(l *Ledger) *batchWriter {
	return &batchWriter{ledger: l, queue: []*batch{newBatch(1)}, wake: make(chan struct{}, 1), tableDue: make(chan struct{}, 1)}
}

// setLog sets the log to which the next batch is appended. The stored tip table covers that many of its batches.
func (p *batchWriter) setLog(at *log.Log, covers uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.tableCovers, p.tableBegun = at, covers, p.ledger.cfg.Clock.Now()
}

func newBatch(n uint64) *batch {
	return &batch{number: n, tips: map[org.ID]Tip{}, done: make(chan struct{})}
}

// empty reports whether the batch has nothing to store.
func (b *batch) empty() bool { return len(b.entries) == 0 && b.leaf == nil && b.restated == nil }

// checkUnstored refuses another decision when too many bytes are unstored, or when a stored batch has
// waited too long for a quorum of witnesses.
func (p *batchWriter) checkUnstored() error {
	if err := p.ledger.witnesses.checkStalled(p.ledger.cfg.Clock.Now()); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unstored > p.ledger.unstoredBytes.Load() && !insecure.Skip(insecure.Unstored) {
		return ErrBusy
	}
	return nil
}

// An addition is one entry for the next batch.
type addition struct {
	entry wire.Entry
	keys  []wire.WrappedKey
	id    org.ID
	tip   Tip
}

// bytes estimates the addition's size in a batch.
func (a *addition) bytes() int {
	return len(a.entry.Sealed) + entryMargin + indexMargin*(len(a.entry.Index)+len(a.entry.Sends))
}

// add puts the entries of one transaction into one batch and returns its number. The caller holds the locks of
// their organizations, so the order of calls is the order of entries.
func (p *batchWriter) add(as ...addition) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.queue[len(p.queue)-1]
	var more int64
	for i := range as {
		more += int64(as[i].bytes())
	}
	if !b.empty() && (b.closed || b.bytes+more > wire.MaxBatchBytes || len(b.entries)+len(as) > wire.MaxBatch) {
		b = p.closeLocked()
	}
	for _, a := range as {
		b.entries = append(b.entries, a.entry)
		b.keys = append(b.keys, a.keys...)
		b.tips[a.id] = a.tip
		p.ledger.tips.setTip(a.id, a.tip)
	}
	b.bytes += more
	p.unstored += more
	signal(p.wake)
	return b.number
}

// signal wakes the goroutine that receives from c, now or the next time. c has a buffer of one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// appendLeaf queues a batch without entries after all entries decided so far, to append a leaf to the log. It
// returns the batch's number.
func (p *batchWriter) appendLeaf(leaf tlog.Leaf, table *wire.TableHead) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.closeLocked()
	b.leaf, b.table = &leaf, table
	p.closeLocked()
	signal(p.wake)
	return b.number
}

// restate queues a batch without entries after all entries decided so far, whose leaf commits to the current
// tip of an organization. The caller holds the organization's lock.
func (p *batchWriter) restate(id org.ID, tip Tip) *restated {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.closeLocked()
	b.restated = &restated{batch: b.number, tip: log.Tip{Organization: wire.ID(id), Count: tip.Count, Root: tip.Root}}
	p.closeLocked()
	signal(p.wake)
	return b.restated
}

// closeLocked closes the filling batch, unless it is empty, and returns the one that fills from now on. mu is held.
func (p *batchWriter) closeLocked() *batch {
	b := p.queue[len(p.queue)-1]
	if !b.empty() {
		b.closed = true
		b = newBatch(b.number + 1)
		p.queue = append(p.queue, b)
	}
	return b
}

// head returns a copy of the stored log, the number of its last batch, and the time at which that was first sent.
func (p *batchWriter) head() (at *log.Log, number uint64, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Clone(), p.stored, p.sent
}

// A tableCut is the input of the next tip table: the last batch that it covers, and the tips that have changed
// since the last table.
type tableCut struct {
	batch uint64 // the last batch that it covers
	moved map[org.ID]Tip
	log   *log.Log // the log up to that batch, once it is stored
	named bool     // a stored leaf commits to the table
}

// beginTable begins a tip table that covers all entries decided so far, or returns nil if none is due.
func (p *batchWriter) beginTable() *tableCut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isTableDueLocked() {
		return nil
	}
	p.waitOver, p.tableBegun = false, p.ledger.cfg.Clock.Now()
	p.table = &tableCut{batch: p.closeLocked().number - 1, moved: p.ledger.tips.beginTable()}
	if p.table.batch == p.stored {
		p.table.log = p.log.Clone()
	}
	return p.table
}

// noteTable notes that the host has stored a table.
func (p *batchWriter) noteTable(c *tableCut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tableCovers, p.table = c.log.Size(), nil
	if p.isTableDueLocked() { // because of batches stored meanwhile
		signal(p.tableDue)
	}
}

// endWait notes that this boot has waited until no enclave under earlier terms may serve. If the log asks for
// such a wait, endWait has a new tip table made that no longer does.
func (p *batchWriter) endWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waitOver = p.log.Force().WaitMs > 0; p.waitOver {
		p.log.EndWait()
		signal(p.tableDue)
	}
}

// isTableDueLocked reports whether a tip table should be begun. mu is held. An old table is due only if a tip has
// changed since: another one would name the same tips.
func (p *batchWriter) isTableDueLocked() bool {
	if p.table != nil {
		return false
	}
	limits, changed := &p.ledger.cfg.Limits, p.ledger.tips.count()
	return p.waitOver || p.log.Size() >= p.tableCovers+limits.TableEvery || changed >= limits.TableTips ||
		changed > 0 && p.ledger.cfg.Clock.Now().Sub(p.tableBegun) >= limits.TableAge
}

// waitStored returns nil once batch n is stored. After an error the batch may or may not be stored.
func (p *batchWriter) waitStored(ctx context.Context, n uint64) error {
	if insecure.Skip(insecure.Release) {
		return nil
	}
	for {
		p.mu.Lock()
		if p.stored >= n {
			p.mu.Unlock()
			return nil
		}
		// queue[0] is the batch after the last stored one.
		i := min(n-p.stored, uint64(len(p.queue))) - 1
		done := p.queue[i].done
		p.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return errUnknown
		case <-p.ledger.done:
			return ErrFenced
		}
	}
}

// run writes batches until the ledger is done.
func (p *batchWriter) run() {
	for {
		select {
		case <-p.wake:
		case <-p.ledger.done:
			return
		}
		for {
			// Let runnable requests decide first and join this batch: with many clients that saves
			// commits, with one it delays nothing.
			runtime.Gosched()
			b := p.nextBatch()
			if b == nil {
				break
			}
			if !p.storeBatch(b) {
				return
			}
		}
	}
}

// nextBatch closes and returns the oldest batch, or nil if it is empty.
func (p *batchWriter) nextBatch() *batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.queue[0]
	if b.empty() {
		return nil
	}
	b.closed = true
	return b
}

// storeBatch stores b. It retries with the same bytes until the store answers, and returns false if the ledger is done.
func (p *batchWriter) storeBatch(b *batch) bool {
	msg, next, err := p.encodeBatch(b)
	if err != nil {
		p.ledger.fence(fmt.Errorf("encoding a batch: %w", err))
		return false
	}
	wait := 5 * time.Millisecond
	b.sent = p.ledger.cfg.Clock.Now()
	noteStored := p.noteStored
	if insecure.Skip(insecure.Stored) { // witnesses see it before the store has it
		err := p.noteStored(b, next)
		noteStored = func(*batch, *log.Next) error { return err }
	}
	for {
		began := p.ledger.cfg.Clock.Now()
		ctx, cancel := context.WithTimeout(p.ledger.life, 10*time.Second)
		got, err := p.ledger.cfg.Store.Append(ctx, msg)
		cancel()
		if err == nil {
			switch {
			case got.Number != b.number && got.Verdict == wire.VerdictStored && !insecure.Skip(insecure.Late):
				_ = p.ledger.breach(fault.AlarmLate, "answer for another batch") // counted; the batch goes again
			case got.Verdict == wire.VerdictStored:
				if err := noteStored(b, next); err != nil {
					p.ledger.fence(err)
					return false
				}
				p.ledger.lease.extend(began, p.ledger.cfg.Limits.Lease)
				return true
			case insecure.Skip(insecure.Owner):
				return noteStored(b, next) == nil
			case got.Verdict == wire.VerdictSuperseded:
				p.ledger.cfg.Alarms.Raise(fault.AlarmSuperseded)
				p.ledger.fence(errors.New("another boot owns the range"))
				return false
			default:
				p.ledger.cfg.Alarms.Raise(fault.AlarmConflict)
				p.ledger.fence(errors.New("another enclave has written"))
				return false
			}
		}
		select {
		case <-p.ledger.cfg.Clock.After(wait):
		case <-p.ledger.done:
			return false
		}
		wait = min(2*wait, 500*time.Millisecond)
	}
}

func (p *batchWriter) encodeBatch(b *batch) (msg []byte, next *log.Next, err error) {
	leaf := tlog.Leaf{}
	if b.leaf != nil {
		leaf = *b.leaf
	}
	leaf.Boot, leaf.Epoch, leaf.Number = p.ledger.cfg.Boot, p.epoch, b.number
	var moved []log.Tip
	for i := range b.entries { // in order; of an organization's tips only the last one
		id := org.ID(b.entries[i].Organization)
		if t, ok := b.tips[id]; ok && t.Count == b.entries[i].Seq+1 {
			moved = append(moved, log.Tip{Organization: wire.ID(id), Count: t.Count, Root: t.Root})
		}
	}
	if b.restated != nil {
		moved = append(moved, b.restated.tip)
	}
	if len(moved) == 0 {
		if _, err := io.ReadFull(p.ledger.cfg.Rand, leaf.Root[:]); err != nil {
			return nil, nil, err
		}
	}
	if next, err = p.log.Next(leaf, moved, b.table); err != nil {
		return nil, nil, err
	}
	msg, err = wire.Marshal(&wire.Batch{Boot: p.ledger.cfg.Boot, Epoch: p.epoch, Number: b.number, Header: next.Header, Entries: b.entries, Keys: b.keys, Range: p.ledger.cfg.Range})
	if err == nil && len(msg) > wire.MaxFrame {
		err = fmt.Errorf("batch of %d bytes", len(msg))
	}
	return msg, next, err
}

// noteStored appends a stored batch to the log and wakes the requests that wait for it.
func (p *batchWriter) noteStored(b *batch, next *log.Next) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.log.Append(next); err != nil {
		return err
	}
	p.stored = b.number
	if b.restated != nil {
		b.restated.header = next.Header
	}
	p.unstored -= b.bytes
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		p.queue = append(p.queue, newBatch(b.number+1))
	}
	if p.table != nil && b.number == p.table.batch {
		p.table.log = p.log.Clone()
	}
	if p.isTableDueLocked() {
		signal(p.tableDue)
	}
	p.sent = b.sent
	p.ledger.witnesses.addStored(p.ledger.cfg.Clock.Now())
	close(b.done)
	return nil
}
