// Package store says what the host must keep for an enclave: batches of sealed
// entries, the row that says which boot owns the store, snapshots and a few
// objects. Packages sqlite and postgres keep it; package storetest holds what
// every store must do.
//
// Promises of a store:
//
//   - What was answered with wire.VerdictStored survives the loss of the
//     process and of the machine, as far as the disk keeps what it confirmed.
//   - A batch is stored whole, in one transaction that looks first at the row
//     of the owner, under a lock: a boot that has lost the store cannot add to
//     it, not even with bytes that are stored already. Nor can it replace a
//     snapshot or drop pieces: what the next boot has loaded stays loadable.
//   - The same bytes under the same number count as stored. Entry seq of an
//     organization goes in only directly after seq-1.
//   - What an entry changes in the index is changed in its batch's transaction,
//     once, in the order of the entries.
//   - What an entry says must go out is in the outbox when its batch is stored,
//     once, and stays there until somebody keeps how it ended, or longer: see
//     Pruner.
//   - An error from a writing method means "unknown" unless it is ErrRefused.
//
// A store decides nothing else. The enclave believes what it loads only with
// proof, so a wrong store can only deny service; the checks here keep a
// mistaken enclave or a second one from spoiling what is there.
//
// No call's cost grows with the number of organizations, and none linearly
// with the length of an organization's history; see the README for the one
// exception, a Page under a tree size far behind.
package store

import (
	"context"
	"errors"

	"cloister/shared/wire"
)

// ErrRefused marks a request that breaks a bound or makes no sense. Nothing was
// read or written for it.
var ErrRefused = errors.New("store: refused")

// ErrLater says that what is stored was written by a later release. It is left
// as it is: an older one would not see all of it.
var ErrLater = errors.New("store: written by a later release than this")

// ErrEarlier says that what is stored must be brought up to this release first,
// where that was not asked for.
var ErrEarlier = errors.New("store: written by an earlier release; start this one on it once")

// A Store keeps everything that the host keeps. Its methods may be called from
// many goroutines; a cancelled context fails the call and leaves the store
// usable.
type Store interface {
	Writer
	Loader
	Finder
	Outbox
	Pruner
	Watched
	Archive
	// Ping asks whether the store can be reached now.
	Ping(ctx context.Context) error
	// Close waits for what is running and gives everything back.
	Close() error
}

// A Writer changes what is stored.
type Writer interface {
	// Own looks at the row of the owner or changes it, as wire.Own says.
	// OK is true for a Look always. A Renew fails once the row is released; a
	// Release may be repeated. A Take clears the release and counts batches
	// from nothing, since they are numbered from 1 under each epoch.
	Own(ctx context.Context, ask wire.Own) (wire.Owned, error)
	// Append stores a batch or says why it can never be stored. An error means
	// that it may or may not be stored: the same bytes are to be sent again.
	Append(ctx context.Context, batch *wire.Batch) (wire.Stored, error)
	// PutSnapshot replaces an older snapshot, drops pieces and adds pieces, or
	// adds pieces alone, in one transaction that another boot's Take comes
	// wholly before or wholly after. OK is false, with nothing changed, when
	// the boot does not own the store or the stored snapshot is not the one
	// that this was built on; the very same snapshot again is OK.
	PutSnapshot(ctx context.Context, put wire.PutSnapshot) (wire.Done, error)
	// PutKeys puts data keys that were wrapped anew in the place of those stored, in
	// one transaction that another boot's Take comes wholly before or wholly after.
	// OK is false, with nothing changed, when the boot does not own the range. What
	// is not stored is not added.
	PutKeys(ctx context.Context, put wire.PutKeys) (wire.Done, error)
	// PutObject stores an object. OK is false when Once forbids it.
	PutObject(ctx context.Context, put wire.PutObject) (wire.Done, error)
}

// A Loader reads what opens an organization.
type Loader interface {
	// LoadOrganization gives keys (at most MaxKeys, highest ids first), the
	// newest snapshot and entries behind it: at least one, if there is one and
	// the answer's frame has room for it.
	LoadOrganization(ctx context.Context, ask wire.LoadOrganization) (wire.Organization, error)
	// LoadEntries gives at least one entry unless there is none.
	LoadEntries(ctx context.Context, ask wire.LoadEntries) (wire.Entries, error)
	// LoadPieces answers in the order asked. Pieces that do not fit together
	// in one frame are refused whole, since an empty one means "missing".
	LoadPieces(ctx context.Context, ask wire.LoadPieces) (wire.Pieces, error)
	// LoadKeys gives wrapped data keys in the order of organization and key.
	LoadKeys(ctx context.Context, ask wire.LoadKeys) (wire.Keys, error)
	// LoadObject gives one object.
	LoadObject(ctx context.Context, ask wire.LoadObject) (wire.Object, error)
}

// A Finder reads old entries with proofs, and the index. Answers that would not
// fit in a frame are cut after the last entry that does.
type Finder interface {
	// Find answers the activities in the order asked, then the seqs; what is
	// not there under the tree size is left out.
	Find(ctx context.Context, ask wire.Find) (wire.Proven, error)
	// Page lists activities by the seq of their newest entry below TreeSize,
	// highest first. Types and Statuses are those of that entry.
	Page(ctx context.Context, ask wire.Page) (wire.Proven, error)
	// PageIndex lists the organizations that have a key, lowest rank first and
	// of one rank by their ids.
	PageIndex(ctx context.Context, ask wire.PageIndex) (wire.IndexRows, error)
}

// An Outbox holds what must go out. Senders claim what is due for a while, so that
// several may work beside each other; one that dies loses its claims to time and
// nothing else. Clocks are the senders'.
type Outbox interface {
	// ClaimSends gives sends that have not ended, are due at NowMs and in nobody's
	// claim, those due first in front, and claims them until UntilMs. Of what is for
	// a receiver it gives none while an earlier one of the same activity has not
	// ended.
	ClaimSends(ctx context.Context, ask ClaimSends) ([]Send, error)
	// Receivers gives those for whom something is due and in nobody's claim, in the
	// order of their ids.
	Receivers(ctx context.Context, ask Receivers) ([]wire.ID, error)
	// DeadSends gives dead letters: sends for a receiver in state SendRefused, in the
	// order of their ids.
	DeadSends(ctx context.Context, ask DeadSends) ([]Send, error)
	// Resend makes dead letters due as if they were new, and tells how many.
	Resend(ctx context.Context, ask Resend) (int, error)
	// KeepSend writes down what has become of a send that claimant has claimed, and
	// gives the claim back. It says no, and keeps nothing, when somebody else has
	// claimed it since, when it has ended, or for a state before that which it has.
	KeepSend(ctx context.Context, claimant wire.ID, s Send) (kept bool, err error)
	// SendStates tells where sends stand, in the order asked.
	SendStates(ctx context.Context, ask wire.Sends) (wire.SendStates, error)
}

// ClaimSends asks for work.
type ClaimSends struct {
	Claimant       wire.ID // of this sender alone; not zero
	NowMs, UntilMs uint64
	Limit          int // 1 to MaxClaims
	// Receiver is whose sends are asked for; the zero ID asks for those that have
	// none.
	Receiver wire.ID
}

// Receivers asks for whom there is work.
type Receivers struct {
	NowMs uint64
	After wire.ID // those behind it only
	Limit int     // 1 to MaxClaims
}

// DeadSends asks for dead letters.
type DeadSends struct {
	After *wire.SendID // those behind it only; nil: from the first
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
	DueMs uint64 // when it is to be worked on next
	Tries uint32 // how often it was
	// Text and Revert are what wire.SendStanding tells of it: printable ASCII, and
	// bytes.
	Text   string
	Revert []byte
	// Memo is what its sender wants to be told next time.
	Memo []byte
	// Receiver and Activity are of a send for a receiver. Nobody keeps them.
	Receiver, Activity wire.ID
}
