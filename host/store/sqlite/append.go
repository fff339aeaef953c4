package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"maps"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// attempts bounds the attempts to append after a violated constraint.
const attempts = 3

type kind struct {
	text   string
	status uint8
}

// An appender appends one batch. The store caches the numbers that the appender assigned
// only after the commit.
type appender struct {
	store   *Store
	batch   *wire.Batch
	leaves  []wire.Hash
	numbers map[[16]byte]int64
	kinds   map[kind]int64
	next    map[int64]uint64 // number of an organization to the seq of its next entry
}

// Append implements store.Writer.
func (s *Store) Append(ctx context.Context, batch *wire.Batch) (wire.Stored, error) {
	stored := wire.Stored{Number: batch.Number}
	if err := store.CheckBatch(batch); err != nil {
		return stored, err
	}
	if batch.Number > maxNumber {
		return stored, fmt.Errorf("%w: number %d", store.ErrRefused, batch.Number)
	}
	leaves := make([]wire.Hash, len(batch.Entries)) // hashed before the lock
	for i := range batch.Entries {
		leaves[i] = tree.Leaf(batch.Entries[i].Sealed)
	}
	err := s.write(ctx, func(ctx context.Context) (err error) {
		for range attempts {
			a := &appender{store: s, batch: batch, leaves: leaves, next: map[int64]uint64{}}
			if stored.Verdict, err = a.run(ctx); !isConstraint(err) {
				return err
			}
			clear(s.last) // the cache is stale: the seq is stored already
		}
		stored.Verdict = wire.VerdictConflict
		return nil
	})
	if err != nil {
		return wire.Stored{Number: batch.Number}, fmt.Errorf("appending: %w", err)
	}
	return stored, nil
}

func (a *appender) run(ctx context.Context) (verdict wire.Verdict, err error) {
	err = a.store.writer.inTransaction(ctx, "BEGIN IMMEDIATE", func() (bool, error) {
		fresh, err := a.follow(ctx)
		if err == nil && !fresh {
			verdict, fresh, err = a.checkPlace(ctx)
		}
		if err != nil || !fresh {
			return false, err
		}
		verdict, err = a.insert(ctx)
		return verdict == wire.VerdictStored, err
	})
	if err != nil || verdict != wire.VerdictStored {
		return verdict, err
	}
	a.remember()
	return verdict, nil
}

// follow inserts a batch that directly follows the last one of this store, if its boot
// is still the owner. If another program had written a batch since, that batch would have
// this one's id, and the insert would fail.
func (a *appender) follow(ctx context.Context) (fresh bool, err error) {
	if last, wrote := a.store.last[a.batch.Range]; !wrote || last != a.id()-1 {
		return false, nil
	}
	return a.store.writer.changes(ctx, "INSERT INTO batch (id, header) SELECT ?, ? FROM owner WHERE id = ? AND boot = ? AND epoch = ? AND NOT released",
		a.id(), []byte(a.batch.Header), int64(a.batch.Range)+1, a.batch.Boot[:], int64(a.batch.Epoch))
}

// checkPlace compares the batch with the ownership row and with the batch stored under its number.
// fresh reports that it was the next batch and is inserted; otherwise verdict is the result.
func (a *appender) checkPlace(ctx context.Context) (verdict wire.Verdict, fresh bool, err error) {
	owned, err := a.store.owner(ctx, a.batch.Range)
	if err != nil {
		return 0, false, err
	}
	b := a.batch
	switch {
	case owned.Epoch != b.Epoch || owned.Boot != b.Boot || owned.Released:
		return wire.VerdictSuperseded, false, nil
	case b.Number == owned.Batches+1:
		clear(a.store.next) // another program has written since
		err := a.store.writer.exec(ctx, "INSERT INTO batch (id, header) VALUES (?, ?)", a.id(), []byte(b.Header))
		return 0, err == nil, err
	case b.Number > owned.Batches:
		return wire.VerdictConflict, false, nil
	}
	row, err := a.store.writer.firstRow(ctx, "SELECT header FROM batch WHERE id = ?", a.id())
	if err != nil {
		return 0, false, err
	}
	if row != nil {
		if header, ok := row[0].([]byte); ok && bytes.Equal(header, b.Header) {
			return wire.VerdictStored, false, nil
		}
	}
	return wire.VerdictConflict, false, nil
}

// maxNumber bounds the batches of one epoch, below store.MaxNumber: a batch id also holds
// the range. One file does not reach it.
const maxNumber = 1<<32 - 1

func (a *appender) id() int64 {
	return batchID(a.batch.Range, a.batch.Epoch, a.batch.Number)
}

func (a *appender) insert(ctx context.Context) (wire.Verdict, error) {
	w := a.store.writer
	for i := range a.batch.Entries {
		follows, err := a.entry(ctx, &a.batch.Entries[i], a.leaves[i])
		if err != nil {
			return 0, err
		}
		if !follows {
			return wire.VerdictConflict, nil
		}
	}
	for i := range a.batch.Keys {
		k := &a.batch.Keys[i]
		err := w.exec(ctx, "INSERT OR REPLACE INTO wrapped (organization, key, sealed) VALUES (?, ?, ?)",
			k.Organization[:], int64(k.KeyID), k.Sealed)
		if err != nil {
			return 0, err
		}
	}
	return wire.VerdictStored, nil
}

// entry inserts one entry. follows reports whether it directly follows the organization's last one.
func (a *appender) entry(ctx context.Context, e *wire.Entry, leaf wire.Hash) (follows bool, err error) {
	w := a.store.writer
	number, err := a.organization(ctx, e)
	if err != nil || number == 0 {
		return false, err
	}
	if err := a.loadNextSeq(ctx, number); err != nil || a.next[number] != e.Seq {
		return false, err
	}
	a.next[number]++
	place := store.Place(number, e.Seq)
	var kind, activity driver.Value
	if e.Activity != (wire.ID{}) {
		activity = e.Activity[:]
		if kind, err = a.kind(ctx, e); err != nil {
			return false, err
		}
	}
	err = w.exec(ctx, "INSERT INTO entry (id, kind, time, activity, batch, leaf, sealed) VALUES (?, ?, ?, ?, ?, ?, ?)",
		place, kind, int64(e.TimeMs), activity, a.id(), leaf[:], []byte(e.Sealed))
	if err != nil {
		return false, err
	}
	if activity != nil && e.Prior > 0 && e.Prior <= e.Seq {
		err = w.exec(ctx, "UPDATE entry SET next = ? WHERE id = ? AND activity = ? AND next IS NULL",
			place, store.Place(number, e.Prior-1), activity)
		if err != nil {
			return false, err
		}
	}
	if err := a.index(ctx, e); err != nil {
		return false, err
	}
	if err := a.sends(ctx, e); err != nil {
		return false, err
	}
	return true, a.nodes(ctx, number, e.Seq)
}

// index applies an entry's changes to the index of organizations.
func (a *appender) index(ctx context.Context, e *wire.Entry) error {
	for i := range e.Index {
		c := &e.Index[i]
		text := "INSERT OR IGNORE INTO blind_index (key, rank, organization) VALUES (?, ?, ?)"
		if c.Drop {
			text = "DELETE FROM blind_index WHERE key = ? AND rank = ? AND organization = ?"
		}
		if err := a.store.writer.exec(ctx, text, c.Key[:], int64(c.Rank), e.Organization[:]); err != nil {
			return err
		}
	}
	return nil
}

// organization returns the number of an entry's organization, 0 if it has none
// and the entry is not its first.
func (a *appender) organization(ctx context.Context, e *wire.Entry) (int64, error) {
	if n, ok := a.store.numbers[e.Organization]; ok {
		return n, nil
	}
	if n, ok := a.numbers[e.Organization]; ok {
		return n, nil
	}
	row, err := a.store.writer.firstRow(ctx, "SELECT id FROM organization WHERE uuid = ?", e.Organization[:])
	if err != nil {
		return 0, err
	}
	if row == nil && e.Seq > 0 {
		return 0, nil
	}
	if row == nil {
		if row, err = a.store.writer.firstRow(ctx, "INSERT INTO organization (uuid) VALUES (?) RETURNING id", e.Organization[:]); err != nil {
			return 0, err
		}
	}
	n := scalar(row, 0)
	if n <= 0 || n > store.MaxOrganization {
		return 0, fmt.Errorf("no number is left for an organization")
	}
	if a.numbers == nil {
		a.numbers = map[[16]byte]int64{}
	}
	a.numbers[e.Organization] = n
	return n, nil
}

// loadNextSeq loads the seq of the next entry, once for each organization of a batch.
func (a *appender) loadNextSeq(ctx context.Context, number int64) error {
	if _, ok := a.next[number]; ok {
		return nil
	}
	n, known := a.store.next[number]
	if !known {
		var err error
		if n, err = count(ctx, a.store.writer, number); err != nil {
			return err
		}
	}
	a.next[number] = n
	return nil
}

// count returns the number of an organization's entries.
func count(ctx context.Context, c *conn, number int64) (uint64, error) {
	row, err := c.firstRow(ctx, "SELECT id FROM entry WHERE id >= ? AND id <= ? ORDER BY id DESC LIMIT 1",
		store.Place(number, 0), store.Place(number, store.MaxSeq))
	if err != nil || row == nil {
		return 0, err
	}
	return store.Seq(scalar(row, 0)) + 1, nil
}

func (a *appender) kind(ctx context.Context, e *wire.Entry) (int64, error) {
	k := kind{e.Type, e.Status}
	if n, ok := a.store.kinds[k]; ok {
		return n, nil
	}
	if n, ok := a.kinds[k]; ok {
		return n, nil
	}
	row, err := a.store.writer.firstRow(ctx, "SELECT id FROM kind WHERE type = ? AND status = ?", k.text, int64(k.status))
	if err == nil && row == nil {
		row, err = a.store.writer.firstRow(ctx, "INSERT INTO kind (type, status) VALUES (?, ?) RETURNING id", k.text, int64(k.status))
	}
	if err != nil {
		return 0, err
	}
	if a.kinds == nil {
		a.kinds = map[kind]int64{}
	}
	a.kinds[k] = scalar(row, 0)
	return a.kinds[k], nil
}

// nodes stores the tree nodes that an entry completes: one entry in 256
// completes any.
func (a *appender) nodes(ctx context.Context, number int64, seq uint64) error {
	for _, level := range tree.CompletedLevels(seq) {
		index := seq >> level
		below, err := hashes(ctx, a.store.writer, number, level-8, index*tree.Span, tree.Span)
		if err != nil {
			return err
		}
		node, err := tree.Fold(below)
		if err != nil {
			return err
		}
		err = a.store.writer.exec(ctx, "INSERT INTO node (id, hash) VALUES (?, ?)", store.NodePlace(number, level, index), node[:])
		if err != nil {
			return err
		}
	}
	return nil
}

// remember caches the assigned numbers and counts the bytes written: the entries, and
// about four pages of indexes and tables for each.
func (a *appender) remember() {
	if len(a.store.numbers)+len(a.numbers) > cacheEntries {
		clear(a.store.numbers)
	}
	for id, n := range a.numbers {
		a.store.numbers[id] = n
	}
	if len(a.store.kinds)+len(a.kinds) > cacheEntries {
		clear(a.store.kinds)
	}
	for k, n := range a.kinds {
		a.store.kinds[k] = n
	}
	if len(a.store.next)+len(a.next) > cacheEntries {
		clear(a.store.next)
	}
	maps.Copy(a.store.next, a.next)
	a.store.last[a.batch.Range] = a.id()
	size := int64(16<<10 + len(a.batch.Header))
	for i := range a.batch.Entries {
		size += 8<<10 + int64(len(a.batch.Entries[i].Sealed)) + 4<<10*int64(len(a.batch.Entries[i].Index)+len(a.batch.Entries[i].Sends))
	}
	a.store.countWritten(size)
}
