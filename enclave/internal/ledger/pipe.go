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

// batch is entries on their way to the store.
type batch struct {
	number  uint64
	entries []wire.Entry
	keys    []wire.WrappedKey
	tips    map[org.ID]Tip
	bytes   int64
	leaf    *tlog.Leaf // what the batch says in the log instead of entries; nil: nothing
	table   *wire.TableHead
	again   *restated     // that the batch says in place of entries; nil: nothing
	closed  bool          // takes no more
	sent    time.Time     // when it first went to the store
	done    chan struct{} // closed when stored
}

// entryMargin is what an entry may take in a batch beside its sealed bytes: its fields, its
// tip in the header, a wrapped key. indexMargin is what an index change takes at most, and a
// send takes less.
const (
	entryMargin = 512
	indexMargin = 48
)

// pipe carries one batch at a time to the store while the next one fills.
type pipe struct {
	ledger *Ledger

	mu sync.Mutex
	// queue has every unstored batch, in order. The last fills; the first, unless empty, is on its way.
	queue    []*batch
	stored   uint64
	unstored int64
	log      *log.Log      // up to the last stored batch
	covers   uint64        // batches of the log that the newest tip table covers
	due      chan struct{} // it is time for another table
	making   *cut          // a table; or nil
	relieved bool          // the next table says that nobody waits for an enclave of earlier terms
	sent     time.Time     // when the last stored batch first went to the store
	kick     chan struct{}
	epoch    uint64
}

func newPipe(l *Ledger) *pipe {
	return &pipe{ledger: l, queue: []*batch{newBatch(1)}, kick: make(chan struct{}, 1), due: make(chan struct{}, 1)}
}

// begin says where the log stands before the first batch.
func (p *pipe) begin(at *log.Log, covers uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.covers = at, covers
}

func newBatch(n uint64) *batch {
	return &batch{number: n, tips: map[org.ID]Tip{}, done: make(chan struct{})}
}

// empty tells that there is nothing to store.
func (b *batch) empty() bool { return len(b.entries) == 0 && b.leaf == nil && b.again == nil }

// checkUnstored refuses to decide more when too much is unstored, or has been without a quorum of
// witnesses for too long.
func (p *pipe) checkUnstored() error {
	if err := p.ledger.witnesses.check(p.ledger.cfg.Clock.Now()); err != nil {
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

// bytes is about what the addition takes in a batch.
func (a *addition) bytes() int {
	return len(a.entry.Sealed) + entryMargin + indexMargin*(len(a.entry.Index)+len(a.entry.Sends))
}

// add puts entries that belong together into one batch and returns its number. The turns of
// their organizations are held, so the order of calls is the ledgers'.
func (p *pipe) add(as ...addition) uint64 {
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
		p.ledger.tips.move(a.id, a.tip)
	}
	b.bytes += more
	p.unstored += more
	signal(p.kick)
	return b.number
}

// signal wakes who waits for the channel, which holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// say puts a batch that has no entries, and stands in the log for what its leaf says, behind all
// that was decided. It returns the batch's number.
func (p *pipe) say(leaf tlog.Leaf, table *wire.TableHead) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.closeLocked()
	b.leaf, b.table = &leaf, table
	p.closeLocked()
	signal(p.kick)
	return b.number
}

// restate puts a batch behind all that was decided that moves an organization, whose turn is held, to where it stands.
func (p *pipe) restate(id org.ID, tip Tip) *restated {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.closeLocked()
	b.again = &restated{batch: b.number, tip: log.Tip{Organization: wire.ID(id), Count: tip.Count, Root: tip.Root}}
	p.closeLocked()
	signal(p.kick)
	return b.again
}

// closeLocked ends the batch that fills, if there is anything in it, and returns the one that fills now.
func (p *pipe) closeLocked() *batch {
	b := p.queue[len(p.queue)-1]
	if !b.empty() {
		b.closed = true
		b = newBatch(b.number + 1)
		p.queue = append(p.queue, b)
	}
	return b
}

// head is the log as far as it is stored, with the last batch and when that was sent.
func (p *pipe) head() (at *log.Log, number uint64, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Clone(), p.stored, p.sent
}

// A cut is where a tip table ends: what it covers, and what that has moved since the table before.
type cut struct {
	batch uint64 // the last one that it covers
	moved map[org.ID]Tip
	log   *log.Log // up to there, once that is stored
	said  bool     // the log names the table
}

// cut begins a tip table over all that was decided, if it is time for one.
func (p *pipe) cut() *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dueLocked() {
		return nil
	}
	p.relieved = false
	p.making = &cut{batch: p.closeLocked().number - 1, moved: p.ledger.tips.take()}
	if p.making.batch == p.stored {
		p.making.log = p.log.Clone()
	}
	return p.making
}

// made takes note that a table is kept.
func (p *pipe) made(c *cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.covers, p.making = c.log.Size(), nil
	if p.dueLocked() { // by what came meanwhile
		signal(p.due)
	}
}

// relieve has a tip table made where the one before says that an enclave of earlier terms may serve: this boot has waited for it.
func (p *pipe) relieve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.relieved = p.log.Force().WaitMs > 0; p.relieved {
		p.log.EndWait()
		signal(p.due)
	}
}

// dueLocked tells whether it is time for a tip table.
func (p *pipe) dueLocked() bool {
	limits := &p.ledger.cfg.Limits
	return p.making == nil && (p.relieved || p.log.Size() >= p.covers+limits.TableEvery || p.ledger.tips.count() >= limits.TableTips)
}

// wait returns nil when batch n is stored. Its errors say that nothing is known.
func (p *pipe) wait(ctx context.Context, n uint64) error {
	if insecure.Skip(insecure.Release) {
		return nil
	}
	for {
		p.mu.Lock()
		if p.stored >= n {
			p.mu.Unlock()
			return nil
		}
		// Batch n is n places behind the last stored one.
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

// run sends batches until the ledger is done.
func (p *pipe) run() {
	for {
		select {
		case <-p.kick:
		case <-p.ledger.done:
			return
		}
		for {
			// Requests that could run now decide first and join this batch. With one client
			// nothing waits, with many there are fewer commits.
			runtime.Gosched()
			b := p.next()
			if b == nil {
				break
			}
			if !p.send(b) {
				return
			}
		}
	}
}

// next closes the oldest batch that has anything in it.
func (p *pipe) next() *batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.queue[0]
	if b.empty() {
		return nil
	}
	b.closed = true
	return b
}

// send stores b, trying again with the same bytes. It returns false when the ledger is done.
func (p *pipe) send(b *batch) bool {
	msg, next, err := p.encode(b)
	if err != nil {
		p.ledger.fence(fmt.Errorf("encoding a batch: %w", err))
		return false
	}
	wait := 5 * time.Millisecond
	b.sent = p.ledger.cfg.Clock.Now()
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
				if err := p.finish(b, next); err != nil {
					p.ledger.fence(err)
					return false
				}
				p.ledger.lease.extend(began, p.ledger.cfg.Limits.Lease)
				return true
			case insecure.Skip(insecure.Owner):
				return p.finish(b, next) == nil
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

func (p *pipe) encode(b *batch) (msg []byte, next *log.Next, err error) {
	leaf := tlog.Leaf{}
	if b.leaf != nil {
		leaf = *b.leaf
	}
	leaf.Boot, leaf.Epoch, leaf.Number = p.ledger.cfg.Boot, p.epoch, b.number
	var moved []log.Tip
	for i := range b.entries { // in order of appearance; an organization's last tip counts
		id := org.ID(b.entries[i].Organization)
		if t, ok := b.tips[id]; ok && t.Count == b.entries[i].Seq+1 {
			moved = append(moved, log.Tip{Organization: wire.ID(id), Count: t.Count, Root: t.Root})
		}
	}
	if b.again != nil {
		moved = append(moved, b.again.tip)
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

// finish takes note that a batch is stored.
func (p *pipe) finish(b *batch, next *log.Next) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.log.Append(next); err != nil {
		return err
	}
	p.stored = b.number
	if b.again != nil {
		b.again.header = next.Header
	}
	p.unstored -= b.bytes
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		p.queue = append(p.queue, newBatch(b.number+1))
	}
	if p.making != nil && b.number == p.making.batch {
		p.making.log = p.log.Clone()
	}
	if p.dueLocked() {
		signal(p.due)
	}
	p.sent = b.sent
	p.ledger.witnesses.show(p.ledger.cfg.Clock.Now())
	close(b.done)
	return nil
}
