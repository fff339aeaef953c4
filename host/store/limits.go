package store

import "cloister/shared/wire"

// Limits of a store in addition to those of package wire. A seq, epoch or
// number shares a signed 64-bit key with the number of its organization or range.
const (
	MaxSeq    = 1<<32 - 1 // seq of an entry; a tree has at most 2^32 leaves
	MaxEpoch  = 1<<23 - 1 // epoch of a range, one more with each change of its owner
	MaxNumber = 1<<40 - 1 // batches of one boot
	MaxTime   = 1<<63 - 1 // milliseconds
	MaxRank   = 1<<63 - 1 // rank of an index row

	MaxHeader      = 1 << 20                 // header of a batch: its tips
	MaxType        = 128                     // bytes of an activity's type
	MaxSealedKey   = wire.MaxWrapped         // one wrapped key
	MaxKeys        = 1 << 10                 // wrapped keys in one answer
	MaxSealedPiece = wire.MaxPiece + 1<<10   // one piece, sealed
	MaxNewPieces   = 1 << 12                 // pieces in one PutSnapshot
	MaxDrop        = 1 << 16                 // pieces dropped by one PutSnapshot
	MaxHeaders     = 1 << 12                 // headers in one answer
	MaxNewPages    = 1 << 12                 // pages in one PutTable
	MaxFilter      = 256                     // types or statuses in a Page
	MaxClaims      = 256                     // sends claimed at a time
	MaxKinds       = 16                      // kinds of sends in one query
	MaxMemo        = 1 << 10                 // a sender's memo on a send
	MaxAnswer      = wire.MaxFrame - 256<<10 // sealed bytes in one answer; the rest is for framing
)
