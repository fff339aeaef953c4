package ledger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// A View reads an organization's history up to one transaction from the host's store, without the organization's lock.
type View struct {
	*organization
	tip           Tip
	batch         uint64
	keys          map[uint32]*seal.Key
	processorTime time.Duration
}

// View returns the history up to this transaction. The host may withhold newer entries of an activity, so a pending
// activity must be read from the entry that the state names, a finished one from the entry that ends it.
func (t *Locked) View() *View {
	return &View{organization: t.organization, tip: t.Tip(), batch: t.organization.lastBatch, keys: map[uint32]*seal.Key{t.organization.keyID: t.organization.key}}
}

// ProcessorTime returns the processor time used to verify entries so far.
func (v *View) ProcessorTime() time.Duration { return v.processorTime }

// Batch returns the number of the batch for which a reply about this history waits.
func (v *View) Batch() uint64 { return v.batch }

// Entry returns the entry at seq.
func (v *View) Entry(ctx context.Context, seq uint64) (*org.Entry, error) {
	got, err := v.findStored(ctx, wire.Find{Seqs: []uint64{seq}})
	if err != nil {
		return nil, err
	}
	if len(got.Entries) != 1 || (got.Entries[0].Seq != seq && !insecure.Skip(insecure.Answer)) {
		return nil, v.ledger.breach(fault.AlarmIndex, "entry withheld")
	}
	return v.openOne(ctx, &got.Entries[0])
}

// Activity returns the last entry of a finished activity, or nil if the host returns none,
// which doesn't prove that there is none. It refuses an entry that doesn't end its activity:
// the host may have withheld the next one.
func (v *View) Activity(ctx context.Context, id org.ID) (*org.Entry, error) {
	got, err := v.findStored(ctx, wire.Find{Activities: []wire.ID{wire.ID(id)}})
	if err != nil || len(got.Entries) == 0 {
		return nil, err
	}
	e, err := v.openOne(ctx, &got.Entries[0])
	if err != nil {
		return nil, err
	}
	if len(got.Entries) != 1 || (e.Activity != id && !insecure.Skip(insecure.Answer)) {
		return nil, v.ledger.breach(fault.AlarmIndex, "another activity than asked for")
	}
	if !e.Status.Terminal() && !insecure.Skip(insecure.Answer) {
		return nil, v.ledger.breach(fault.AlarmIndex, "an activity's end withheld")
	}
	return e, nil
}

// CountUntil returns how many entries had been made by a time. It reads as many entries as the number of all has binary digits. If the
// enclave's clock was once set back, the number is one of several possible ones.
func (v *View) CountUntil(ctx context.Context, ms uint64) (uint64, error) {
	low, high := uint64(0), v.tip.Count
	for low < high {
		middle := low + (high-low)/2
		e, err := v.Entry(ctx, middle)
		if err != nil {
			return 0, err
		}
		if e.TimeMs <= ms {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// A Page is a query for activities' newest entries, newest first. Before and After are cursors, ids of activities.
type Page struct {
	Types         []string
	Statuses      []org.Status
	Before, After *org.ID
	End           *uint64 // only entries below this seq
	Limit         int
}

// ErrCursor means that a cursor names no activity.
var ErrCursor = fault.New(fault.InvalidArgument, "unknown cursor in paginationOptions")

// Page returns the entries of a page, verified to be in the history and to match the query. The host may have
// left some out.
func (v *View) Page(ctx context.Context, p Page) ([]*org.Entry, error) {
	if err := v.ledger.batchWriter.waitStored(ctx, v.batch); err != nil {
		return nil, err
	}
	ask := wire.Page{Organization: wire.ID(v.id), TreeSize: v.tip.Count, Types: p.Types, Before: (*wire.ID)(p.Before), After: (*wire.ID)(p.After), End: p.End, Limit: uint16(p.Limit)}
	for _, s := range p.Statuses {
		ask.Statuses = append(ask.Statuses, uint8(s))
	}
	got, err := v.ledger.cfg.Store.Page(ctx, ask)
	if err != nil {
		return nil, ErrBusy
	}
	if got.Unknown {
		if p.Before == nil && p.After == nil {
			return nil, v.ledger.breach(fault.AlarmIndex, "no cursor was given")
		}
		return nil, ErrCursor
	}
	if len(got.Entries) > p.Limit && !insecure.Skip(insecure.Answer) {
		return nil, v.ledger.breach(fault.AlarmIndex, "more than asked for")
	}
	var slot fairqueue.Slot
	if err := v.waitForProcessor(ctx, &slot); err != nil {
		return nil, err
	}
	defer func() { v.processorTime += slot.Release() }()
	var out []*org.Entry
	for i := range got.Entries {
		e, err := v.openProven(&got.Entries[i])
		if err != nil {
			return nil, err
		}
		slot.Pause()
		fits := (i == 0 || got.Entries[i].Seq < got.Entries[i-1].Seq) && (p.End == nil || e.Seq < *p.End) && !e.Activity.Zero() && isWanted(p.Types, e.Type) && isWanted(p.Statuses, e.Status)
		if !fits && !insecure.Skip(insecure.Answer) {
			return nil, v.ledger.breach(fault.AlarmIndex, "something else than asked for")
		}
		out = append(out, e)
	}
	return out, nil
}

func isWanted[T comparable](want []T, x T) bool { return len(want) == 0 || slices.Contains(want, x) }

// findStored asks the host for entries once the whole view is stored.
func (v *View) findStored(ctx context.Context, f wire.Find) (wire.Proven, error) {
	if err := v.ledger.batchWriter.waitStored(ctx, v.batch); err != nil {
		return wire.Proven{}, err
	}
	f.Organization, f.TreeSize = wire.ID(v.id), v.tip.Count
	got, err := v.ledger.cfg.Store.Find(ctx, f)
	if err != nil {
		return wire.Proven{}, ErrBusy
	}
	return got, nil
}

// waitForProcessor waits for a processor to verify what the host answered.
func (v *View) waitForProcessor(ctx context.Context, s *fairqueue.Slot) error {
	return v.ledger.waitForProcessor(ctx, s, fairqueue.Owner{Tenant: v.tenant, Locked: v.id, Payer: v.id})
}

// openOne waits for a processor and runs openProven.
func (v *View) openOne(ctx context.Context, p *wire.ProvenEntry) (*org.Entry, error) {
	var slot fairqueue.Slot
	if err := v.waitForProcessor(ctx, &slot); err != nil {
		return nil, err
	}
	defer func() { v.processorTime += slot.Release() }()
	return v.openProven(p)
}

// openProven verifies an entry's inclusion proof under the view's tip and decrypts the entry.
func (v *View) openProven(p *wire.ProvenEntry) (*org.Entry, error) {
	if _, err := v.checkIncluded(v.tip, p); err != nil {
		return nil, err
	}
	e, err := openEntry(v.ledger, v.keys, v.id, p.Seq, p.Sealed, nil)
	if err == nil {
		e.Seq = p.Seq
	}
	return e, err
}

// checkIncluded verifies that the tree at a tip has a stored entry at its seq, and returns its leaf hash.
func (v *View) checkIncluded(tip Tip, p *wire.ProvenEntry) (leaf wire.Hash, err error) {
	leaf = tlog.HashStored(p.Sealed)
	if len(p.Proof) > wire.MaxProof || p.Seq >= tip.Count {
		return leaf, v.ledger.breach(fault.AlarmInclusion, "entry outside of the tree")
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, p.Seq, tip.Count, leaf[:], pathOf(p.Proof), tip.Root[:]); err != nil && !insecure.Skip(insecure.Inclusion) {
		return leaf, v.ledger.breach(fault.AlarmInclusion, "entry not in the tree")
	}
	return leaf, nil
}

func pathOf(hashes []wire.Hash) (path [][]byte) {
	for i := range hashes {
		path = append(path, hashes[i][:])
	}
	return path
}

// An Opened is a decrypted entry in its encoded form.
type Opened struct {
	Stored wire.Hash  // SHA-256 of the stored bytes
	Leaf   wire.Hash  // its leaf hash in the organization's tree
	Parts  *org.Parts // nil for an entry of format 1
	Plain  []byte     // the plain text, from which Parts were decoded
}

// openAtOnce is how many entries one question asks for.
const openAtOnce = 32

// Open returns decrypted entries in order, from seq from on, until they have that many bytes or the
// view ends: at least one, if there is one.
func (v *View) Open(ctx context.Context, from uint64, bytes int) (all []Opened, err error) {
	for size := 0; from < v.tip.Count && size < bytes; {
		ask := wire.Find{}
		for seq := from; seq < v.tip.Count && len(ask.Seqs) < openAtOnce; seq++ {
			ask.Seqs = append(ask.Seqs, seq)
		}
		got, err := v.findStored(ctx, ask)
		if err != nil && len(ask.Seqs) > 1 { // they may be too many for one answer
			ask.Seqs = ask.Seqs[:1]
			got, err = v.findStored(ctx, ask)
		}
		if err != nil {
			return nil, err
		}
		if len(got.Entries) == 0 || len(got.Entries) > len(ask.Seqs) {
			return nil, v.ledger.breach(fault.AlarmIndex, "entries withheld, or more than asked for")
		}
		opened, n, err := v.openEach(ctx, got.Entries, from, bytes-size)
		if err != nil {
			return nil, err
		}
		all, size, from = append(all, opened...), size+n, from+uint64(len(opened))
	}
	return all, nil
}

// openEach verifies and decrypts entries, whose first must be at from, until they have that many bytes.
func (v *View) openEach(ctx context.Context, ps []wire.ProvenEntry, from uint64, bytes int) (all []Opened, size int, err error) {
	var slot fairqueue.Slot
	if err := v.waitForProcessor(ctx, &slot); err != nil {
		return nil, 0, err
	}
	defer func() { v.processorTime += slot.Release() }()
	for i := range ps {
		p := &ps[i]
		if p.Seq != from+uint64(i) && !insecure.Skip(insecure.Answer) {
			return nil, 0, v.ledger.breach(fault.AlarmIndex, "another entry than asked for")
		}
		leaf, err := v.checkIncluded(v.tip, p)
		if err != nil {
			return nil, 0, err
		}
		o := Opened{Stored: sha256.Sum256(p.Sealed), Leaf: leaf}
		if o.Plain, o.Parts, err = openStored(v.ledger, v.keys, v.id, p.Seq, p.Sealed, nil); err != nil {
			return nil, 0, err
		}
		if all, size = append(all, o), size+len(o.Plain); size >= bytes {
			break
		}
		slot.Pause()
	}
	return all, size, nil
}

// BootNumber returns the number of the present boot.
func (v *View) BootNumber() uint64 { return v.ledger.BootNumber() }

// Tip returns the organization's tip at the end of the view.
func (v *View) Tip() Tip { return v.tip }

// Wait returns nil when a reply that depends on batch n may be sent: the batch is stored, witnesses have cosigned
// as the deployment's mode demands, and this enclave may answer.
func (l *Ledger) Wait(ctx context.Context, n uint64) error {
	if err := l.batchWriter.waitStored(ctx, n); err != nil {
		return err
	}
	if err := l.witnesses.awaitRelease(ctx, l, n); err != nil {
		return err
	}
	return l.Serving(ctx)
}

// AwaitQuorum waits until a quorum of witnesses has cosigned batch n, in any mode. Without witnesses it returns at once.
func (l *Ledger) AwaitQuorum(ctx context.Context, n uint64) error {
	if l.cfg.Witnesses == nil || insecure.Skip(insecure.Quorum) {
		return nil
	}
	return l.witnesses.awaitQuorum(ctx, l, n)
}

// IndexRow is a row of the host's index under one key. It is an unverified claim of the host.
type IndexRow struct {
	Rank uint64
	ID   org.ID
}

// compare orders the rows of a key: by rank, then id.
func (r *IndexRow) compare(o *IndexRow) int {
	return cmp.Or(cmp.Compare(r.Rank, o.Rank), bytes.Compare(r.ID[:], o.ID[:]))
}

// PageIndex returns up to limit rows of a key, in order: the first ones, those that follow after, or those that
// precede before (at most one of the two is set). It asks once the whole view is stored. The host may leave rows
// out and return stale ones; PageIndex checks only the number and order of rows.
func (v *View) PageIndex(ctx context.Context, key org.Hash, before, after *IndexRow, limit int) ([]IndexRow, error) {
	if err := v.ledger.batchWriter.waitStored(ctx, v.batch); err != nil {
		return nil, err
	}
	return v.ledger.PageIndex(ctx, key, before, after, limit)
}

// PageIndex is View.PageIndex that waits for no batch.
func (l *Ledger) PageIndex(ctx context.Context, key org.Hash, before, after *IndexRow, limit int) ([]IndexRow, error) {
	ask := wire.PageIndex{Key: wire.Hash(key), Limit: uint16(min(limit, wire.MaxRows))}
	if before != nil {
		ask.Before = &wire.IndexRow{Rank: before.Rank, Organization: wire.ID(before.ID)}
	}
	if after != nil {
		ask.After = &wire.IndexRow{Rank: after.Rank, Organization: wire.ID(after.ID)}
	}
	got, err := l.cfg.Store.PageIndex(ctx, ask)
	if err != nil {
		return nil, ErrBusy
	}
	if len(got.Rows) > int(ask.Limit) && !insecure.Skip(insecure.Answer) {
		return nil, l.breach(fault.AlarmIndex, "more rows than asked for")
	}
	rows, last := make([]IndexRow, len(got.Rows)), after
	for i := range rows {
		rows[i] = IndexRow{got.Rows[i].Rank, org.ID(got.Rows[i].Organization)}
		fits := (last == nil || rows[i].compare(last) > 0) && (before == nil || rows[i].compare(before) < 0)
		if !fits && !insecure.Skip(insecure.Answer) {
			return nil, l.breach(fault.AlarmIndex, "rows out of order")
		}
		last = &rows[i]
	}
	return rows, nil
}
