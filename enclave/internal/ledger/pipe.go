package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
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
	closed  bool          // takes no more
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
	prev     wire.Hash // hash of the header before
	kick     chan struct{}
	epoch    uint64
}

func newPipe(l *Ledger) *pipe {
	return &pipe{ledger: l, queue: []*batch{newBatch(1)}, kick: make(chan struct{}, 1)}
}

func newBatch(n uint64) *batch {
	return &batch{number: n, tips: map[org.ID]Tip{}, done: make(chan struct{})}
}

// checkUnstored refuses to decide more when too much is unstored.
func (p *pipe) checkUnstored() error {
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
	if len(b.entries) > 0 && (b.closed || b.bytes+more > wire.MaxBatchBytes || len(b.entries)+len(as) > wire.MaxBatch) {
		b.closed = true
		b = newBatch(b.number + 1)
		p.queue = append(p.queue, b)
	}
	for _, a := range as {
		b.entries = append(b.entries, a.entry)
		b.keys = append(b.keys, a.keys...)
		b.tips[a.id] = a.tip
	}
	b.bytes += more
	p.unstored += more
	select {
	case p.kick <- struct{}{}:
	default:
	}
	return b.number
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
	if len(b.entries) == 0 {
		return nil
	}
	b.closed = true
	return b
}

// send stores b, trying again with the same bytes. It returns false when the ledger is done.
func (p *pipe) send(b *batch) bool {
	msg, header, err := p.encode(b)
	if err != nil {
		p.ledger.fence(fmt.Errorf("encoding a batch: %w", err))
		return false
	}
	wait := 5 * time.Millisecond
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
				p.finish(b, header)
				p.ledger.lease.extend(began, p.ledger.cfg.Limits.Lease)
				return true
			case insecure.Skip(insecure.Owner):
				p.finish(b, header)
				return true
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

// header binds a batch to its boot and the batch before. It is a leaf of the deployment's log.
type header struct {
	Format     uint8       `cbor:"1,keyasint"`
	Deployment [32]byte    `cbor:"2,keyasint"`
	Boot       wire.ID     `cbor:"3,keyasint"`
	BootNumber uint64      `cbor:"4,keyasint"`
	Epoch      uint64      `cbor:"5,keyasint"`
	Number     uint64      `cbor:"6,keyasint"`
	Previous   wire.Hash   `cbor:"7,keyasint"`
	Tips       []headerTip `cbor:"8,keyasint"`
	Range      wire.Range  `cbor:"9,keyasint,omitempty"`
}

type headerTip struct {
	Organization wire.ID   `cbor:"1,keyasint"`
	Count        uint64    `cbor:"2,keyasint"`
	Root         wire.Hash `cbor:"3,keyasint"`
}

func (p *pipe) encode(b *batch) (msg, head []byte, err error) {
	h := header{Format: 1, Deployment: p.ledger.cfg.Deployment, Boot: p.ledger.cfg.Boot, BootNumber: p.ledger.cfg.BootNumber, Epoch: p.epoch, Number: b.number, Previous: p.prev, Range: p.ledger.cfg.Range}
	for i := range b.entries { // in order of appearance; an organization's last tip counts
		id := org.ID(b.entries[i].Organization)
		if t, ok := b.tips[id]; ok && t.Count == b.entries[i].Seq+1 {
			h.Tips = append(h.Tips, headerTip{wire.ID(id), t.Count, t.Root})
		}
	}
	if head, err = wire.Marshal(&h); err != nil {
		return nil, nil, err
	}
	msg, err = wire.Marshal(&wire.Batch{Boot: p.ledger.cfg.Boot, Epoch: p.epoch, Number: b.number, Header: head, Entries: b.entries, Keys: b.keys, Range: p.ledger.cfg.Range})
	if err == nil && len(msg) > wire.MaxFrame {
		err = fmt.Errorf("batch of %d bytes", len(msg))
	}
	return msg, head, err
}

func (p *pipe) finish(b *batch, head []byte) {
	p.mu.Lock()
	p.stored = b.number
	p.unstored -= b.bytes
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		p.queue = append(p.queue, newBatch(b.number+1))
	}
	p.prev = wire.Hash(sha256.Sum256(head))
	p.mu.Unlock()
	close(b.done)
}
