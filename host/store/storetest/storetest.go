// Package storetest is the test suite of every store. A store's own test calls Run.
//
// The tests use only the interface: they append, load and compare with
// lists in memory and with proofs checked by another library. Random parts
// are drawn from fixed seeds.
package storetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// An Opener returns an empty store and a function that closes and reopens it.
// The store last opened is closed when the test ends.
type Opener func(t *testing.T) (s store.Store, reopen func() store.Store)

// Run runs the whole suite on a store.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Opener)
	}{
		{"Own", testOwn},
		{"OwnRace", testOwnRace},
		{"Beat", testBeat},
		{"Ranges", testRanges},
		{"RangesRace", testRangesRace},
		{"AppendOrder", testAppendOrder},
		{"AppendAgain", testAppendAgain},
		{"EmptyBatch", testEmptyBatch},
		{"AppendSuperseded", testAppendSuperseded},
		{"AppendRace", testAppendRace},
		{"AppendWhole", testAppendWhole},
		{"TakeRace", testTakeRace},
		{"Refused", testRefused},
		{"Load", testLoad},
		{"LoadBounds", testLoadBounds},
		{"Proofs", testProofs},
		{"ProofsLarge", testProofsLarge},
		{"Find", testFind},
		{"PageOracle", testPageOracle},
		{"PageDeep", testPageDeep},
		{"Count", testCount},
		{"Index", testIndex},
		{"IndexOnce", testIndexOnce},
		{"IndexRefused", testIndexRefused},
		{"Outbox", testOutbox},
		{"OutboxOnce", testOutboxOnce},
		{"OutboxRace", testOutboxRace},
		{"OutboxRefused", testOutboxRefused},
		{"Lanes", testLanes},
		{"LanesRefused", testLanesRefused},
		{"Receivers", testReceivers},
		{"DeadSends", testDeadSends},
		{"Deliveries", testDeliveries},
		{"ReceiversRefused", testReceiversRefused},
		{"Backlog", testBacklog},
		{"Prune", testPrune},
		{"Keys", testKeys},
		{"Snapshots", testSnapshots},
		{"SnapshotOwner", testSnapshotOwner},
		{"SnapshotRace", testSnapshotRace},
		{"SnapshotTakeRace", testSnapshotTakeRace},
		{"Headers", testHeaders},
		{"HeadersBounds", testHeadersBounds},
		{"HeaderOf", testHeaderOf},
		{"Tips", testTips},
		{"Table", testTable},
		{"TableOwner", testTableOwner},
		{"TableRace", testTableRace},
		{"TableTakeRace", testTableTakeRace},
		{"Checkpoints", testCheckpoints},
		{"CheckpointRace", testCheckpointRace},
		{"Objects", testObjects},
		{"Archive", testArchive},
		{"ArchiveRanges", testArchiveRanges},
		{"ArchiveMoment", testArchiveMoment},
		{"ArchiveRefused", testArchiveRefused},
		{"ArchiveEmpty", testArchiveEmpty},
		{"Extend", testExtend},
		{"Reopen", testReopen},
		{"Cancel", testCancel},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// A writer appends as an enclave does, and records what it has stored.
type writer struct {
	t       testing.TB
	backend store.Store
	boot    wire.ID
	in      wire.Range
	epoch   uint64
	number  uint64
	ledgers map[wire.ID][]wire.Entry
}

func id(n uint64) (id wire.ID) {
	binary.BigEndian.PutUint64(id[:], n)
	id[15] = 1
	return id
}

// newWriter takes the store for a new writer.
func newWriter(t testing.TB, s store.Store) *writer {
	t.Helper()
	w := &writer{t: t, backend: s, boot: id(rand.Uint64()), ledgers: map[wire.ID][]wire.Entry{}}
	w.take()
	return w
}

func (w *writer) take() {
	w.t.Helper()
	look := must(w.backend.Own(w.t.Context(), wire.Own{Action: wire.OwnLook, Range: w.in}))(w.t)
	owned := must(w.backend.Own(w.t.Context(), wire.Own{Action: wire.OwnTake, Boot: w.boot, Expect: look.Epoch, Range: w.in}))(w.t)
	if !owned.OK {
		w.t.Fatalf("take refused: %+v", owned)
	}
	w.epoch, w.number = owned.Epoch, 0
}

// entry makes the next entry of an organization, not yet recorded.
func (w *writer) entry(org wire.ID, size int) wire.Entry {
	seq := uint64(len(w.ledgers[org]))
	sealed := make([]byte, size)
	copy(sealed, fmt.Sprintf("%x/%d/%d", org[:8], seq, w.epoch))
	if seq%2 == 1 {
		sealed[0] |= 0x80 // second format, if it is long enough for a commitment
	}
	return wire.Entry{Organization: org, Seq: seq, Sealed: sealed, TimeMs: 1000 + seq}
}

// next records entries as stored and makes a batch of them.
func (w *writer) next(entries ...wire.Entry) *wire.Batch {
	w.number++
	for _, e := range entries {
		w.ledgers[e.Organization] = append(w.ledgers[e.Organization], e)
	}
	return &wire.Batch{Boot: w.boot, Range: w.in, Epoch: w.epoch, Number: w.number,
		Header: fmt.Appendf(nil, "header %d/%d", w.epoch, w.number), Entries: entries}
}

// store appends entries in one batch, which must succeed.
func (w *writer) store(entries ...wire.Entry) *wire.Batch {
	w.t.Helper()
	b := w.next(entries...)
	verdict(w.t, w.backend, b, wire.VerdictStored)
	return b
}

// fill appends n entries of size bytes to an organization.
func (w *writer) fill(org wire.ID, n, size int) {
	w.t.Helper()
	for n > 0 {
		var entries []wire.Entry
		b := w.next()
		for ; n > 0 && len(entries) < wire.MaxBatch; n-- {
			e := w.entry(org, size)
			entries = append(entries, e)
			w.ledgers[org] = append(w.ledgers[org], e)
		}
		b.Entries = entries
		verdict(w.t, w.backend, b, wire.VerdictStored)
	}
}

func verdict(t testing.TB, s store.Store, b *wire.Batch, want wire.Verdict) {
	t.Helper()
	got, err := s.Append(t.Context(), b)
	if err != nil {
		t.Fatalf("append of batch %d: %v", b.Number, err)
	}
	if got.Verdict != want || got.Number != b.Number {
		t.Fatalf("append of batch %d: %+v, want verdict %d", b.Number, got, want)
	}
}

// must unwraps a result: must(f())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func count(t testing.TB, s store.Store, org wire.ID) uint64 {
	t.Helper()
	return must(s.LoadOrganization(context.WithoutCancel(t.Context()), wire.LoadOrganization{Organization: org}))(t).Count
}
