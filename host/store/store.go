// Package store defines the interface of the host's database: batches of sealed entries, the
// ownership row of each range, snapshots and a few objects. Packages sqlite and postgres implement
// it; package storetest is the test suite of every implementation.
//
// Promises of a store:
//
//   - A batch with wire.VerdictStored survives the loss of the process and of the machine, if the
//     disk keeps the writes that it confirmed.
//   - A batch is stored whole, in one transaction that first locks and checks the ownership row.
//     A boot that has lost a range cannot append to it, not even bytes that are stored already.
//     Nor can it replace a snapshot or a tip table, or drop pieces or pages: data that the next
//     boot has loaded stays loadable.
//   - The same bytes under the same number count as stored. Entry seq of an organization goes in
//     only directly after seq-1.
//   - An entry's index changes are made in its batch's transaction, exactly once, in the order of
//     the entries.
//   - An entry's sends are inserted into the outbox with its batch, exactly once. They stay there at
//     least until a sender stores their final state: see Pruner.
//   - An error from a writing method means "unknown" unless it is ErrRefused.
//
// A store decides nothing else. The enclave accepts loaded data only with proof, so a faulty store
// can only deny service. The checks in this package protect stored data from a faulty enclave, or
// from a second one.
//
// No call's cost grows with the number of organizations, and none linearly with the length of an
// organization's history; see the README for the one exception, a Page under a tree size far below the
// present one.
package store

import (
	"context"
	"errors"
	"fmt"

	"cloister/shared/wire"
)

// Result returns v if err is nil, else the zero value and err, prefixed with doing.
func Result[T any](v T, err error, doing string) (T, error) {
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	return v, nil
}

// ErrRefused is the error of a request that exceeds a limit or is invalid. Nothing was read or
// written for it.
var ErrRefused = errors.New("store: refused")

// ErrLater is the error of a store that a later release has written. The store is unchanged: this
// release would not see all of it.
var ErrLater = errors.New("store: written by a later release than this")

// ErrEarlier is the error of a store that needs migrations, which the caller did not allow.
var ErrEarlier = errors.New("store: written by an earlier release; start this one on it once")

// ErrNoVersion is the ErrEarlier of a database without a table of versions: it is empty, or its store is older than that table.
var ErrNoVersion = fmt.Errorf("%w; or it is no store at all", ErrEarlier)

// A Store is the host's database. It is safe for concurrent use. A cancelled context fails the call
// and leaves the store usable.
type Store interface {
	Writer
	Loader
	Finder
	Outbox
	Pruner
	Watched
	Checkpoints
	Archive
	// Ping checks that the store can be reached now.
	Ping(ctx context.Context) error
	// Close waits for running calls and releases all resources.
	Close() error
}

// A Writer has the enclave's write operations.
type Writer interface {
	// Own reads or changes the ownership row of a range, by the action of wire.Own. A Look is
	// always OK. A Renew fails once the row is released; a Release may be repeated. A Take clears
	// the release and resets the count of batches to 0, since each epoch numbers them from 1.
	Own(ctx context.Context, ask wire.Own) (wire.Owned, error)
	// Append stores a batch, or returns the verdict why it can never be stored. After an error the
	// batch may or may not be stored: send the same bytes again.
	Append(ctx context.Context, batch *wire.Batch) (wire.Stored, error)
	// PutSnapshot replaces an older snapshot, drops pieces and adds pieces, or adds pieces alone,
	// in one transaction, wholly before or wholly after another boot's Take. OK is false, with
	// nothing changed, when the boot does not own the store or the snapshot was not built on the
	// stored one. Putting the very same snapshot again is OK.
	PutSnapshot(ctx context.Context, put wire.PutSnapshot) (wire.Done, error)
	// PutKeys replaces data keys by newly wrapped ones, in one transaction, wholly before or
	// wholly after another boot's Take. OK is false, with nothing changed, when the boot does not
	// own the range. A key that is not stored is not added.
	PutKeys(ctx context.Context, put wire.PutKeys) (wire.Done, error)
	// PutTable replaces a range's tip table, drops pages and adds pages, or only drops or only adds pages,
	// in one transaction, wholly before or wholly after another boot's Take. OK is false, with nothing
	// changed, when the boot does not own the range. Putting the very same again is OK.
	PutTable(ctx context.Context, put wire.PutTable) (wire.Done, error)
	// PutObject stores an object. OK is false when Once forbids it.
	PutObject(ctx context.Context, put wire.PutObject) (wire.Done, error)
}

// A Loader has the read operations with which the enclave opens organizations and logs.
type Loader interface {
	// LoadOrganization returns keys (at most MaxKeys, highest ids first), the newest snapshot and
	// entries after it: at least one, if there is one and it fits into the answer's frame.
	LoadOrganization(ctx context.Context, ask wire.LoadOrganization) (wire.Organization, error)
	// LoadEntries returns at least one entry unless there is none.
	LoadEntries(ctx context.Context, ask wire.LoadEntries) (wire.Entries, error)
	// LoadPieces returns pieces in the order asked; an empty one means "missing". If they do not
	// fit into one frame, all are refused.
	LoadPieces(ctx context.Context, ask wire.LoadPieces) (wire.Pieces, error)
	// LoadKeys returns wrapped data keys in the order of organization and key.
	LoadKeys(ctx context.Context, ask wire.LoadKeys) (wire.Keys, error)
	// LoadHeaders returns headers of one range's batches by epoch and number, starting with those
	// asked for, at most MaxHeaders: at least one, unless there is none.
	LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error)
	// LoadTips returns the tips of organizations that have entries, by id. Roots are computed from the
	// hashes stored when the entries were appended; entries are not read.
	LoadTips(ctx context.Context, ask wire.LoadTips) (wire.Tips, error)
	// LoadTable returns the newest tip table of a range, an empty one if there is none.
	LoadTable(ctx context.Context, ask wire.LoadTable) (wire.TipTable, error)
	// LoadPages returns pages as LoadPieces returns pieces. Pages of another range count as missing.
	LoadPages(ctx context.Context, ask wire.LoadPages) (wire.Pieces, error)
	// LoadObject returns one object.
	LoadObject(ctx context.Context, ask wire.LoadObject) (wire.Object, error)
}

// A Finder has the read operations of history, with proofs, and of the index. An answer that does not
// fit into a frame is cut after the last entry that does.
type Finder interface {
	// Find returns the entries of activities in the order asked, then those of the seqs. It leaves
	// out entries that do not exist under the tree size.
	Find(ctx context.Context, ask wire.Find) (wire.Proven, error)
	// Page lists activities by the seq of their newest entry below TreeSize, highest first.
	// Types and Statuses are those of that entry.
	Page(ctx context.Context, ask wire.Page) (wire.Proven, error)
	// HeaderOf returns the header of an entry's batch, nil if there is no such entry or its batch is not
	// recorded, as for entries of releases before entries had commitments.
	HeaderOf(ctx context.Context, organization wire.ID, seq uint64) ([]byte, error)
	// PageIndex lists the organizations that have a key, by rank and then by id.
	PageIndex(ctx context.Context, ask wire.PageIndex) (wire.IndexRows, error)
	// CountActivities counts activities by the time of their newest entry, and by the type and status of that entry. It reads
	// no sealed entry; its cost grows with the number of those that it counts, by an index entry for each.
	CountActivities(ctx context.Context, ask wire.CountActivities) (wire.ActivityCounts, error)
}

// An Outbox is the queue of sends. A sender claims due sends for a limited time, so that several
// senders may run; the claims of a crashed sender expire. Times are from the senders' clocks.
type Outbox interface {
	// ClaimSends claims sends until UntilMs and returns them: sends that have not ended, are due at
	// NowMs and not claimed, the earliest due first. It skips a send for a receiver while an earlier
	// one of the same activity for it has not ended.
	ClaimSends(ctx context.Context, ask ClaimSends) ([]Send, error)
	// Due returns the lane of each send without a receiver that is due and not claimed, so a lane with
	// several such sends repeats; the order is undefined. It returns at most Limit for each kind.
	Due(ctx context.Context, ask Due) ([]Lane, error)
	// Payers returns the payers that have sends of a kind due and not claimed, by id.
	Payers(ctx context.Context, ask Payers) ([]wire.ID, error)
	// Lanes returns the lanes of some payers that have sends due and not claimed, in the order of
	// After and then by organization.
	Lanes(ctx context.Context, ask Lanes) ([]Lane, error)
	// Receivers returns the receivers that have sends due and not claimed, by id.
	Receivers(ctx context.Context, ask Receivers) ([]wire.ID, error)
	// DeadSends returns dead letters: sends for a receiver in state SendRefused, by id.
	DeadSends(ctx context.Context, ask DeadSends) ([]Send, error)
	// Resend makes dead letters due as if they were new, and returns their number.
	Resend(ctx context.Context, ask Resend) (int, error)
	// KeepSend stores the new state of a send that claimant has claimed, and ends the claim. It
	// stores nothing if another sender has claimed the send since, if the send has ended, or if
	// the new state comes before the stored one.
	KeepSend(ctx context.Context, claimant wire.ID, s Send) (kept bool, err error)
	// SendStates returns the states of sends, in the order asked.
	SendStates(ctx context.Context, ask wire.Sends) (wire.SendStates, error)
	// Deliveries returns the sends for one receiver, by due time and then by id, the last one first.
	Deliveries(ctx context.Context, ask wire.Deliveries) (wire.DeliveryList, error)
}

// A Lane is the queue of an organization's sends of one kind without a receiver. Its payer is the
// tenant that the sends are scheduled for: the top-level organization. If a send has no payer
// recorded, its own organization is the payer.
type Lane struct {
	Kind                wire.SendKind
	Payer, Organization wire.ID
}

// Due is the query of Outbox.Due.
type Due struct {
	NowMs uint64
	Kinds []wire.SendKind // 1 to MaxKinds
	Limit int             // of each kind, 1 to MaxClaims
}

// Payers is the query of Outbox.Payers.
type Payers struct {
	NowMs uint64
	Kind  wire.SendKind
	After wire.ID // begins after this one
	Limit int     // 1 to MaxClaims
}

// Lanes is the query of Outbox.Lanes. For each element of After it selects the lanes of its kind and
// payer whose organization comes after its own, at most Limit.
type Lanes struct {
	NowMs uint64
	After []Lane // 1 to MaxClaims
	Limit int    // 1 to MaxClaims
}

// ClaimSends is the request of Outbox.ClaimSends: the sends for one receiver, or one send for each
// element of Lanes, so a lane that is named twice yields two.
type ClaimSends struct {
	Claimant       wire.ID // unique to the sender; not zero
	NowMs, UntilMs uint64
	Receiver       wire.ID
	Limit          int    // with Receiver: 1 to MaxClaims
	Lanes          []Lane // without Receiver: 1 to MaxClaims
}

// Counts returns the distinct lanes in all, in order of first appearance, and how often each appears.
func Counts(all []Lane) (lanes []Lane, counts []int) {
	at := map[Lane]int{}
	for _, l := range all {
		i, ok := at[l]
		if !ok {
			i = len(lanes)
			at[l] = i
			lanes, counts = append(lanes, l), append(counts, 0)
		}
		counts[i]++
	}
	return lanes, counts
}

// Receivers is the query of Outbox.Receivers.
type Receivers struct {
	NowMs uint64
	After wire.ID // begins after this one
	Limit int     // 1 to MaxClaims
}

// DeadSends is the query of Outbox.DeadSends.
type DeadSends struct {
	After *wire.SendID // begins after this one; nil: with the first
	Limit int          // 1 to MaxClaims
}

// Resend selects dead letters: one, all for a receiver, or with neither set all.
type Resend struct {
	NowMs    uint64
	Send     *wire.SendID
	Receiver wire.ID
}

// A Send is one row of the outbox.
type Send struct {
	ID    wire.SendID
	Kind  wire.SendKind
	State wire.SendState
	DueMs uint64 // time of the next attempt
	Tries uint32 // attempts so far
	// Text, in printable ASCII, and Revert are reported in wire.SendStanding.
	Text   string
	Revert []byte
	Memo   []byte // the sender's own state between attempts
	// Receiver and Activity are set if the send is for a receiver. KeepSend does not change them.
	Receiver, Activity wire.ID
}
