// Package tail puts the batches that another copy of a store has beyond this one behind those that are here: after a loss, any
// copy that has them will do.
//
// What it promises:
//
//   - Nothing is written before all that is to be written has been checked: that it continues the log that is here, header by
//     header; that entries lead to the tips that the headers name, from those that are here; that the leaves are those of the
//     checkpoints that the other copy has of the log.
//   - It is written batch by batch. What was written before an error stays, and a second time goes on from there.
//   - Who made it, it cannot tell: the MACs are the enclave's, which believes nothing without them.
package tail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"cloister/host/leaves"
	"cloister/host/logcheck"
	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// Bounds of a tail, which lies in memory. Whoever lacks more takes the other copy as it is.
const (
	maxBatches = 1 << 17
	maxBytes   = 1 << 30
)

// Errors of Copy.
var (
	// ErrFit: the other copy is of another deployment, or its log does not continue this one's.
	ErrFit = errors.New("the other copy does not fit")
	// ErrLarge: the tail is too long.
	ErrLarge = fmt.Errorf("more than %d batches or %d bytes are missing: take the other copy in the place of this one", maxBatches, maxBytes)
)

// A Range is what a range was given.
type Range struct {
	Range            wire.Range
	Before, After    uint64 // leaves of its newest generation, there and here afterwards
	Batches, Entries int
	Signed, Cosigned uint64 // size of the other copy's newest checkpoints, which its leaves were checked against; 0: it has none
}

// Rows gives all rows of the other copy, as store.Archive's Export does.
type Rows func(ctx context.Context, each func(store.Row) error) error

// Copy extends every range of which the other copy has more. No enclave and no host may run on the store: what owns a range
// loses it.
func Copy(ctx context.Context, to store.Store, from Rows) ([]Range, error) {
	c := &copying{ctx: ctx, to: to, ranges: map[wire.Range]*extension{}, moved: map[wire.ID]*ledger{}, objects: map[string][]byte{}}
	if err := from(ctx, c.row); err != nil {
		return nil, err
	}
	if !c.genesis {
		return nil, fmt.Errorf("%w: it has no genesis record", ErrFit)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c.write()
}

// A copying follows the rows of the other copy, in the order of their kinds.
type copying struct {
	ctx     context.Context
	to      store.Store
	ranges  map[wire.Range]*extension
	order   []*extension
	moved   map[wire.ID]*ledger // organizations that the tail moves
	at      *ledger             // the organization whose entries come; nil: one that does not move
	objects map[string][]byte   // that are not here, or others
	names   []string
	genesis bool
	bytes   int
}

// An extension is what a range gets.
type extension struct {
	in      wire.Range
	log     *logcheck.Log   // what is here, and then the batches
	common  *store.BatchRow // the last of the other copy that does not lie behind what is here
	batches []*batch
	checks  []store.Checkpoint
	given   Range
}

// A batch is one of the tail.
type batch struct {
	wire  wire.Batch
	tips  []wire.Tip
	sends []store.SendRow
}

// A ledger is an organization that the tail moves.
type ledger struct {
	id      wire.ID
	have    uint64 // entries that are here, with
	root    wire.Hash
	tips    []wire.Tip // after each batch that moves it
	entries []wire.Entry
	sends   map[uint64][]store.SendRow // by seq
	prior   map[uint64]uint64          // by seq, one more than that of the activity's entry before
	tree    *tree.Builder
	next    int // of tips, to be checked
	keys    []wire.WrappedKey
	index   []wire.IndexChange
}

func (l *ledger) end() uint64 { return l.last().Count }

// last is where the batches so far have moved it.
func (l *ledger) last() wire.Tip {
	if len(l.tips) == 0 {
		return wire.Tip{Organization: l.id, Count: l.have, Root: l.root}
	}
	return l.tips[len(l.tips)-1]
}

// entry is one of those that are not here, nil if it is here.
func (l *ledger) entry(seq uint64) *wire.Entry {
	if seq < l.have || seq-l.have >= uint64(len(l.entries)) {
		return nil
	}
	return &l.entries[seq-l.have]
}

func (c *copying) row(r store.Row) error {
	if err := store.CheckRow(r); err != nil {
		return err
	}
	switch r := r.(type) {
	case *store.ObjectRow:
		return c.object(r)
	case *store.BatchRow:
		return c.batch(r)
	case *store.KeyRow:
		if l := c.moved[r.Organization]; l != nil {
			l.keys = append(l.keys, wire.WrappedKey{Organization: r.Organization, KeyID: r.KeyID, Sealed: r.Sealed})
		}
	case *store.OrganizationRow:
		c.at = c.moved[r.ID]
	case *store.EntryRow:
		if c.at != nil {
			return c.entry(c.at, r)
		}
	case *store.IndexRow:
		// What was dropped in the lost time stays: the enclave looks at what a row leads to.
		if l := c.moved[r.Organization]; l != nil {
			l.index = append(l.index, wire.IndexChange{Key: r.Key, Rank: r.Rank})
		}
	case *store.SendRow:
		if l := c.moved[r.Organization]; l != nil && l.entry(r.Seq) != nil {
			l.sends[r.Seq] = append(l.sends[r.Seq], *r)
		}
	case *store.CheckpointRow:
		if x := c.ranges[wire.Range(r.Range)]; x != nil && r.Generation == x.log.Generation() {
			x.checks = append(x.checks, *r.Checkpoint())
		}
	}
	return nil
}

const objectGenesis = "genesis"

func (c *copying) object(r *store.ObjectRow) error {
	here, err := c.to.LoadObject(c.ctx, wire.LoadObject{Name: r.Name})
	if err != nil {
		return err
	}
	same := here.Found && bytes.Equal(here.Bytes, r.Bytes)
	if r.Name == objectGenesis {
		if c.genesis = same; !same {
			return fmt.Errorf("%w: it is of another deployment", ErrFit)
		}
	}
	if !same {
		c.objects[r.Name] = r.Bytes
		c.names = append(c.names, r.Name)
	}
	return nil
}

// extension of a range, which is read when its first batch comes.
func (c *copying) extension(in wire.Range) (*extension, error) {
	if x := c.ranges[in]; x != nil {
		return x, nil
	}
	x := &extension{in: in}
	if err := x.read(c.ctx, c.to); err != nil {
		return nil, fmt.Errorf("range %d: %w", in, err)
	}
	x.given = Range{Range: in, Before: x.log.Size()}
	c.ranges[in], c.order = x, append(c.order, x)
	return x, nil
}

// read finds where the log ends here.
func (x *extension) read(ctx context.Context, s store.Store) (err error) {
	got, err := s.LoadTable(ctx, wire.LoadTable{Range: x.in})
	if err != nil {
		return err
	}
	var ask wire.LoadHeaders
	var last wire.Hash
	if kept, err := wire.ParseKeptTable(got.Table); err == nil {
		ask.Epoch, ask.Number, last = kept.Epoch, kept.Number, kept.Previous
	}
	ask.Range, ask.MaxBytes = x.in, 1<<20
	var at logcheck.Place
	var generation uint32
	for {
		got, err := s.LoadHeaders(ctx, ask)
		if err != nil {
			return err
		}
		if len(got.Headers) == 0 {
			break
		}
		for _, b := range got.Headers {
			h, leaf, err := logcheck.Parse(b)
			if err != nil {
				return fmt.Errorf("%w: what is here: %w", ErrFit, err)
			}
			last, generation = sha256.Sum256(b), h.Generation
			at = logcheck.Place{Epoch: leaf.Epoch, Number: leaf.Number}
		}
		ask.Epoch, ask.Number = at.Epoch, at.Number+1
	}
	var edge *tree.Edge
	if at != (logcheck.Place{}) { // else nothing is here
		l := leaves.New(s, x.in, generation, false)
		for more := true; more && err == nil; {
			more, err = l.ReadOn(ctx)
		}
		if err != nil {
			return err
		}
		edge = l.Edge()
	}
	x.log, err = logcheck.Resume(x.in, generation, edge, last, at)
	return err
}

// batch takes one that is not here. Of those that are, the last must be the same.
func (c *copying) batch(r *store.BatchRow) error {
	x, err := c.extension(wire.Range(r.Range))
	if err != nil {
		return err
	}
	if len(x.batches) == 0 && !x.log.At().Less(logcheck.Place{Epoch: r.Epoch, Number: r.Number}) {
		x.common = r
		return nil
	}
	h, leaf, err := x.log.Follow(r)
	switch {
	case errors.Is(err, logcheck.ErrChain) && len(x.batches) == 0:
		return fmt.Errorf("%w: %w: two histories, see the runbook", ErrFit, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrFit, err)
	}
	one := &batch{wire: wire.Batch{Boot: wire.ID(leaf.Boot), Range: x.in, Epoch: r.Epoch, Number: r.Number, Header: r.Header}, tips: h.Tips}
	x.batches = append(x.batches, one)
	if c.bytes += len(r.Header); c.bytes > maxBytes || len(x.batches) > maxBatches {
		return ErrLarge
	}
	for _, tip := range h.Tips {
		if err := c.noteTip(tip); err != nil {
			return fmt.Errorf("%w: range %d: batch %d of epoch %d %w", ErrFit, x.in, r.Number, r.Epoch, err)
		}
	}
	return nil
}

// noteTip takes note that a batch moves an organization.
func (c *copying) noteTip(tip wire.Tip) error {
	l := c.moved[tip.Organization]
	if l == nil {
		here, err := c.to.LoadTips(c.ctx, wire.LoadTips{From: tip.Organization, To: tip.Organization, Limit: 1})
		if err != nil {
			return err
		}
		l = &ledger{id: tip.Organization, sends: map[uint64][]store.SendRow{}, prior: map[uint64]uint64{}, tree: tree.NewBuilder()}
		if len(here.Tips) == 1 {
			l.have, l.root = here.Tips[0].Count, here.Tips[0].Root
		}
	}
	if tip == l.last() { // it says again where the organization stands
		return nil
	}
	c.moved[tip.Organization] = l
	if tip.Count <= l.end() {
		return fmt.Errorf("moves an organization of %d entries to %d", l.have, tip.Count)
	}
	l.tips = append(l.tips, tip)
	return nil
}

// entry takes one that is not here, and has all of them lead to the tips.
func (c *copying) entry(l *ledger, r *store.EntryRow) error {
	if r.Seq >= l.end() {
		return nil // of a batch that is not there yet
	}
	if _, err := l.tree.Add(tree.Leaf(r.Sealed)); err != nil {
		return err
	}
	if r.Next > 0 {
		l.prior[r.Next-1] = r.Seq + 1
	}
	size := l.tree.Size()
	if size == l.have {
		if root, err := l.tree.Root(); err != nil || root != l.root {
			return errors.Join(fmt.Errorf("%w: organization %x has other entries here", ErrFit, l.id), err)
		}
	}
	if size <= l.have {
		return nil
	}
	l.entries = append(l.entries, wire.Entry{Organization: l.id, Seq: r.Seq, Sealed: r.Sealed, Activity: r.Activity, Type: r.Type, Status: r.Status, TimeMs: r.TimeMs,
		Prior: l.prior[r.Seq]})
	if c.bytes += len(r.Sealed) + 256; c.bytes > maxBytes {
		return ErrLarge
	}
	if size == l.tips[l.next].Count {
		if root, err := l.tree.Root(); err != nil || root != l.tips[l.next].Root {
			return errors.Join(fmt.Errorf("%w: entries of organization %x do not lead to its tip", ErrFit, l.id), err)
		}
		l.next++
	}
	return nil
}

// check tells whether all of it came, fits and is what the log has signed.
func (c *copying) check() error {
	for _, l := range c.moved {
		if l.next < len(l.tips) {
			return fmt.Errorf("%w: organization %x has %d entries, and %d by its tip", ErrFit, l.id, l.tree.Size(), l.end())
		}
		l.setLastEntry()
	}
	for _, x := range c.order {
		if err := x.checkExtends(c.ctx, c.to); err != nil {
			return fmt.Errorf("range %d: %w", x.in, err)
		}
		if len(x.batches) == 0 {
			continue
		}
		for i := range x.checks {
			if _, err := x.log.Check(&x.checks[i], false, logcheck.Trust{}); err != nil {
				return fmt.Errorf("%w: %w", ErrFit, err)
			}
			x.given.Signed, x.given.Cosigned = x.checks[i].Size, x.checks[i].CosignedSize
		}
	}
	return nil
}

// checkExtends tells whether the two copies are of one history, of which one has more.
func (x *extension) checkExtends(ctx context.Context, s store.Store) error {
	if r := x.common; r != nil {
		here, err := s.LoadHeaders(ctx, wire.LoadHeaders{Range: x.in, Epoch: r.Epoch, Number: r.Number, MaxBytes: 1})
		if err != nil {
			return err
		}
		if len(here.Headers) == 0 || !bytes.Equal(here.Headers[0], r.Header) {
			return fmt.Errorf("%w: batch %d of epoch %d is another here, or is not here: two histories; was an enclave started on this copy?", ErrFit, r.Number, r.Epoch)
		}
	}
	if len(x.batches) == 0 {
		return nil
	}
	owned, err := s.Own(ctx, wire.Own{Action: wire.OwnLook, Range: x.in})
	if err != nil {
		return err
	}
	owned.Released = true // as it will be
	if first := &x.batches[0].wire; store.Extends(owned, first) != wire.VerdictStored {
		return fmt.Errorf("%w: batch %d of epoch %d comes next, and here epoch %d has begun: was an enclave started on this copy?", ErrFit, first.Number, first.Epoch, owned.Epoch)
	}
	return nil
}

// setLastEntry puts what is of the organization as a whole to its last entry.
func (l *ledger) setLastEntry() {
	last := &l.entries[len(l.entries)-1]
	last.Index = l.index[:min(len(l.index), wire.MaxIndex)]
}

// write stores it: objects first, since a boot reads them before all else, and a range's checkpoints behind its batches.
func (c *copying) write() (all []Range, err error) {
	newer := !slices.ContainsFunc(c.order, func(x *extension) bool {
		return x.common != nil && x.log.At() != logcheck.Place{Epoch: x.common.Epoch, Number: x.common.Number} && len(x.batches) == 0
	})
	for _, name := range c.names {
		here, err := c.to.LoadObject(c.ctx, wire.LoadObject{Name: name})
		if err != nil {
			return nil, err
		}
		if here.Found && !newer {
			continue // each copy has something that the other has not
		}
		if _, err := c.to.PutObject(c.ctx, wire.PutObject{Name: name, Bytes: c.objects[name]}); err != nil {
			return nil, err
		}
	}
	for _, x := range c.order {
		if len(x.batches) == 0 {
			continue
		}
		if err := c.extend(x); err != nil {
			return all, fmt.Errorf("range %d: %w", x.in, err)
		}
		all = append(all, x.given)
	}
	return all, nil
}

func (c *copying) extend(x *extension) error {
	owned, err := c.to.Own(c.ctx, wire.Own{Action: wire.OwnLook, Range: x.in})
	if err == nil && owned.Epoch > 0 && !owned.Released {
		_, err = c.to.Own(c.ctx, wire.Own{Action: wire.OwnRelease, Range: x.in, Boot: owned.Boot, Expect: owned.Epoch})
	}
	if err != nil {
		return err
	}
	for _, b := range x.batches {
		for _, tip := range b.tips {
			c.moved[tip.Organization].into(b, tip.Count)
		}
		got, err := c.to.Extend(c.ctx, &b.wire, b.sends)
		if err == nil && got.Verdict != wire.VerdictStored {
			err = errors.New("it was refused: something else stands there, or an enclave has taken the range")
		}
		if err != nil {
			return fmt.Errorf("batch %d of epoch %d: %w", b.wire.Number, b.wire.Epoch, err)
		}
		x.given.Batches, x.given.Entries = x.given.Batches+1, x.given.Entries+len(b.wire.Entries)
	}
	x.given.After = x.log.Size()
	for i := range x.checks {
		if err := c.to.PutCheckpoint(c.ctx, x.checks[i]); err != nil {
			return err
		}
	}
	return nil
}

// into puts the entries up to a count into a batch, and with the first of them the keys.
func (l *ledger) into(b *batch, count uint64) {
	n := int(count - l.have)
	for _, e := range l.entries[:n] {
		b.sends = append(b.sends, l.sends[e.Seq]...)
	}
	b.wire.Entries = append(b.wire.Entries, l.entries[:n]...)
	b.wire.Keys = append(b.wire.Keys, l.keys...)
	l.entries, l.have, l.keys = l.entries[n:], count, nil
}
