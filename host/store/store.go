// Package store describes what the host keeps for an enclave: batches of sealed entries, the row
// that says which boot owns the store, snapshots and a few objects. Packages sqlite and postgres
// keep it; package storetest tests what every store must do.
//
// Promises of a store:
//
//   - What was answered with wire.VerdictStored survives the loss of the process and of the
//     machine, if the disk keeps what it confirmed.
//   - A batch is stored whole, in one transaction that first locks and checks the row of the
//     owner. A boot that has lost the store cannot add to it, not even bytes that are stored
//     already. Nor can it replace a snapshot or a tip table, or drop pieces or pages: what the
//     next boot has loaded stays loadable.
//   - The same bytes under the same number count as stored. Entry seq of an organization goes in
//     only directly after seq-1.
//   - An entry's changes of the index are made in its batch's transaction, once, in the order of
//     the entries.
//   - An entry's sends are in the outbox when its batch is stored, once. They stay there at least
//     until a sender keeps how they ended: see Pruner.
//   - An error from a writing method means "unknown" unless it is ErrRefused.
//
// A store decides nothing else. The enclave believes what it loads only with proof, so a wrong
// store can only deny service. The checks here protect stored data from a mistaken enclave, or
// from a second one.
//
// No call's cost grows with the number of organizations, and none linearly with the length of an
// organization's history; see the README for the one exception, a Page under a tree size far
// behind.
package store

import (
	"context"
	"errors"
	"fmt"

	"cloister/shared/wire"
)

// Result is what a store's method returns: v, or with an error no value and what it was doing.
func Result[T any](v T, err error, doing string) (T, error) {
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	return v, nil
}

// ErrRefused marks a request that breaks a bound or makes no sense. Nothing was read or written
// for it.
var ErrRefused = errors.New("store: refused")

// ErrLater says that a later release has written the store. It is left as it is: this release
// would not see all of it.
var ErrLater = errors.New("store: written by a later release than this")

// ErrEarlier says that the store needs migrations, and the caller did not allow them.
var ErrEarlier = errors.New("store: written by an earlier release; start this one on it once")

// ErrNoVersion is ErrEarlier of what has no table of versions: it holds no store, or one from before there were any.
var ErrNoVersion = fmt.Errorf("%w; or it is no store at all", ErrEarlier)

// A Store keeps everything that the host keeps. Many goroutines may call its methods. A cancelled
// context fails the call and leaves the store usable.
type Store interface {
	Writer
	Loader
	Finder
	Outbox
	Pruner
	Watched
	Checkpoints
	Archive
	// Ping asks whether the store can be reached now.
	Ping(ctx context.Context) error
	// Close waits for what is running and gives everything back.
	Close() error
}

// A Writer changes what is stored.
type Writer interface {
	// Own reads the row of the owner or changes it, as wire.Own says. A Look is always OK. A
	// Renew fails once the row is released; a Release may be repeated. A Take clears the release
	// and counts batches from nothing, since each epoch numbers them from 1.
	Own(ctx context.Context, ask wire.Own) (wire.Owned, error)
	// Append stores a batch or says why it can never be stored. An error means that it may or
	// may not be stored: send the same bytes again.
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
	// PutTable replaces a range's tip table, drops pages and adds pages, or does one of the latter alone,
	// in one transaction, wholly before or wholly after another boot's Take. OK is false, with nothing
	// changed, when the boot does not own the range. Putting the very same again is OK.
	PutTable(ctx context.Context, put wire.PutTable) (wire.Done, error)
	// PutObject stores an object. OK is false when Once forbids it.
	PutObject(ctx context.Context, put wire.PutObject) (wire.Done, error)
}

// A Loader reads what opens an organization.
type Loader interface {
	// LoadOrganization gives keys (at most MaxKeys, highest ids first), the newest snapshot and
	// entries after it: at least one, if there is one and the answer's frame has room for it.
	LoadOrganization(ctx context.Context, ask wire.LoadOrganization) (wire.Organization, error)
	// LoadEntries gives at least one entry unless there is none.
	LoadEntries(ctx context.Context, ask wire.LoadEntries) (wire.Entries, error)
	// LoadPieces answers in the order asked. Pieces that do not fit into one frame are refused
	// together, since an empty one means "missing".
	LoadPieces(ctx context.Context, ask wire.LoadPieces) (wire.Pieces, error)
	// LoadKeys gives wrapped data keys in the order of organization and key.
	LoadKeys(ctx context.Context, ask wire.LoadKeys) (wire.Keys, error)
	// LoadHeaders gives headers of one range's batches by epoch and number, from the place asked for
	// on, at most MaxHeaders: at least one, unless there is none.
	LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error)
	// LoadTips gives organizations that have entries, by id, with their number and the root of their
	// tree. Roots are made from the hashes kept since the entries were appended; entries are not read.
	LoadTips(ctx context.Context, ask wire.LoadTips) (wire.Tips, error)
	// LoadTable gives the tip table of a range that was put last, an empty one if there is none.
	LoadTable(ctx context.Context, ask wire.LoadTable) (wire.TipTable, error)
	// LoadPages answers as LoadPieces does. Another range's pages are missing.
	LoadPages(ctx context.Context, ask wire.LoadPages) (wire.Pieces, error)
	// LoadObject gives one object.
	LoadObject(ctx context.Context, ask wire.LoadObject) (wire.Object, error)
}

// A Finder reads old entries with proofs, and the index. Answers that do not fit in a frame are
// cut after the last entry that does.
type Finder interface {
	// Find answers the activities in the order asked, then the seqs, without those that do not
	// exist under the tree size.
	Find(ctx context.Context, ask wire.Find) (wire.Proven, error)
	// Page lists activities by the seq of their newest entry below TreeSize, highest first.
	// Types and Statuses are those of that entry.
	Page(ctx context.Context, ask wire.Page) (wire.Proven, error)
	// HeaderOf gives the header of the batch that an entry came in, nil if there is no such entry or that
	// is not known: it is kept since there are commitments in entries.
	HeaderOf(ctx context.Context, organization wire.ID, seq uint64) ([]byte, error)
	// PageIndex lists the organizations that have a key, by rank and then by id.
	PageIndex(ctx context.Context, ask wire.PageIndex) (wire.IndexRows, error)
}

// An Outbox holds sends. A sender claims what is due for a while, so that several may work at
// once; the claims of a dead sender expire. Times are from the senders' clocks.
type Outbox interface {
	// ClaimSends gives sends that have not ended, are due at NowMs and not claimed, those due
	// first in front, and claims them until UntilMs. It gives no send for a receiver while an
	// earlier one of the same activity has not ended.
	ClaimSends(ctx context.Context, ask ClaimSends) ([]Send, error)
	// Due gives the lanes of sends without a receiver that are due and not claimed, each as often as it
	// has such sends, in no order. Of a kind of which there are more than Limit, it gives that many.
	Due(ctx context.Context, ask Due) ([]Lane, error)
	// Payers gives the payers that have sends of a kind due and not claimed, by id.
	Payers(ctx context.Context, ask Payers) ([]wire.ID, error)
	// Lanes gives the lanes of some payers that have sends due and not claimed, by the order of the
	// question and then by organization.
	Lanes(ctx context.Context, ask Lanes) ([]Lane, error)
	// Receivers gives the receivers that have sends due and not claimed, by id.
	Receivers(ctx context.Context, ask Receivers) ([]wire.ID, error)
	// DeadSends gives dead letters: sends for a receiver in state SendRefused, by id.
	DeadSends(ctx context.Context, ask DeadSends) ([]Send, error)
	// Resend makes dead letters due as if they were new, and returns how many.
	Resend(ctx context.Context, ask Resend) (int, error)
	// KeepSend stores the new state of a send that claimant has claimed, and ends the claim. It
	// keeps nothing if another sender has claimed the send since, if the send has ended, or if
	// the new state comes before its own.
	KeepSend(ctx context.Context, claimant wire.ID, s Send) (kept bool, err error)
	// SendStates gives the states of sends, in the order asked.
	SendStates(ctx context.Context, ask wire.Sends) (wire.SendStates, error)
}

// A Lane is what an organization has to send of one kind, to no receiver. Its payer is the tenant in
// whose turn that goes out: the organization of the top level. A send whose payer is not known is its
// organization's own.
type Lane struct {
	Kind                wire.SendKind
	Payer, Organization wire.ID
}

// Due asks what is due, of some kinds.
type Due struct {
	NowMs uint64
	Kinds []wire.SendKind // 1 to MaxKinds
	Limit int             // of each kind, 1 to MaxClaims
}

// Payers asks for payers with work of a kind.
type Payers struct {
	NowMs uint64
	Kind  wire.SendKind
	After wire.ID // begins after this one
	Limit int     // 1 to MaxClaims
}

// Lanes asks for lanes with work. For each of After it gets lanes of its kind and payer, beginning after
// its organization, at most Limit.
type Lanes struct {
	NowMs uint64
	After []Lane // 1 to MaxClaims
	Limit int    // 1 to MaxClaims
}

// ClaimSends asks for work: for what is for one receiver, or for a send of each of Lanes. A lane that is
// named twice gives two sends.
type ClaimSends struct {
	Claimant       wire.ID // of this sender alone; not zero
	NowMs, UntilMs uint64
	Receiver       wire.ID
	Limit          int    // of a receiver's, 1 to MaxClaims
	Lanes          []Lane // without a receiver, 1 to MaxClaims
}

// Counts tells how often each lane is named, in the order in which they come first.
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

// Receivers asks for receivers with work.
type Receivers struct {
	NowMs uint64
	After wire.ID // begins after this one
	Limit int     // 1 to MaxClaims
}

// DeadSends asks for dead letters.
type DeadSends struct {
	After *wire.SendID // begins after this one; nil: with the first
	Limit int          // 1 to MaxClaims
}

// Resend names dead letters: one, all for a receiver, or with neither all.
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
	// Text, printable ASCII, and Revert are those of wire.SendStanding.
	Text   string
	Revert []byte
	Memo   []byte // for the sender's next attempt
	// Receiver and Activity are of a send for a receiver. KeepSend does not change them.
	Receiver, Activity wire.ID
}
