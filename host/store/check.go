package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode/utf8"

	"cloister/shared/wire"
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

var zero wire.ID

// CheckOwn checks the limits of an Own. Errors are ErrRefused.
func CheckOwn(ask wire.Own) error {
	switch {
	case ask.Action < wire.OwnLook || ask.Action > wire.OwnRelease:
		return refuse("action %d", ask.Action)
	case ask.Action != wire.OwnLook && ask.Boot == zero:
		return refuse("no boot")
	case ask.Expect >= MaxEpoch:
		return refuse("epoch %d", ask.Expect)
	case ask.Range >= wire.MaxRanges:
		return refuse("range %d", ask.Range)
	}
	return nil
}

// CheckBatch checks the limits of a batch before any of it is stored. Errors are ErrRefused.
func CheckBatch(b *wire.Batch) error {
	switch {
	case b.Boot == zero:
		return refuse("no boot")
	case b.Epoch == 0 || b.Epoch > MaxEpoch:
		return refuse("epoch %d", b.Epoch)
	case b.Number == 0 || b.Number > MaxNumber:
		return refuse("number %d", b.Number)
	case b.Range >= wire.MaxRanges:
		return refuse("range %d", b.Range)
	case len(b.Header) == 0 || len(b.Header) > MaxHeader:
		return refuse("header of %d bytes", len(b.Header))
	case len(b.Entries) > wire.MaxBatch || len(b.Keys) > wire.MaxBatch:
		return refuse("%d entries, %d keys", len(b.Entries), len(b.Keys))
	}
	total := 0
	for i := range b.Entries {
		if err := checkEntry(&b.Entries[i]); err != nil {
			return err
		}
		total += len(b.Entries[i].Sealed)
	}
	if total > wire.MaxBatchBytes+wire.MaxSealed {
		return refuse("%d sealed bytes", total)
	}
	return checkKeys(b.Keys)
}

func checkKeys(keys []wire.WrappedKey) error {
	for i := range keys {
		if err := checkKey(keys[i].Organization, keys[i].Sealed); err != nil {
			return err
		}
	}
	return nil
}

func checkKey(organization wire.ID, sealed []byte) error {
	if organization == zero || len(sealed) == 0 || len(sealed) > MaxSealedKey {
		return refuse("key of %d bytes", len(sealed))
	}
	return nil
}

func checkEntry(e *wire.Entry) error {
	switch {
	case e.Organization == zero:
		return refuse("entry of no organization")
	case e.Seq > MaxSeq:
		return refuse("seq %d", e.Seq)
	case len(e.Sealed) == 0 || len(e.Sealed) > wire.MaxSealed:
		return refuse("entry of %d bytes", len(e.Sealed))
	case !isType(e.Type):
		return refuse("type of %d bytes", len(e.Type))
	case e.TimeMs > MaxTime:
		return refuse("time %d", e.TimeMs)
	case len(e.Index) > wire.MaxIndex:
		return refuse("%d changes of the index", len(e.Index))
	case len(e.Sends) > wire.MaxSends:
		return refuse("%d sends", len(e.Sends))
	}
	for i := range e.Sends {
		if e.Sends[i].DueMs > MaxTime {
			return refuse("due at %d", e.Sends[i].DueMs)
		}
	}
	for i := range e.Index {
		if e.Index[i].Rank > MaxRank {
			return refuse("rank %d", e.Index[i].Rank)
		}
	}
	return nil
}

// CheckCount checks the limits of a CountActivities. Errors are ErrRefused.
func CheckCount(ask wire.CountActivities) error {
	if len(ask.TimesMs) < 2 || len(ask.TimesMs) > wire.MaxTimes {
		return refuse("%d times", len(ask.TimesMs))
	}
	for i, ms := range ask.TimesMs {
		if ms > MaxTime || i > 0 && ms <= ask.TimesMs[i-1] {
			return refuse("time %d after another one", ms)
		}
	}
	return nil
}

// CheckPageIndex checks the limits of a PageIndex. Errors are ErrRefused.
func CheckPageIndex(ask wire.PageIndex) error {
	switch {
	case ask.Limit == 0 || ask.Limit > wire.MaxRows:
		return refuse("limit %d", ask.Limit)
	case ask.Before != nil && ask.After != nil:
		return refuse("two cursors")
	}
	for _, c := range []*wire.IndexRow{ask.Before, ask.After} {
		if c != nil && c.Rank > MaxRank {
			return refuse("cursor of rank %d", c.Rank)
		}
	}
	return nil
}

// isType reports whether s can be stored as an activity's type.
func isType(s string) bool {
	return len(s) <= MaxType && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// CheckFind checks the limits of a Find. Errors are ErrRefused.
func CheckFind(ask wire.Find) error {
	if len(ask.Activities)+len(ask.Seqs) > wire.MaxFind {
		return refuse("%d activities, %d seqs", len(ask.Activities), len(ask.Seqs))
	}
	return checkSize(ask.TreeSize)
}

// CheckPage checks the limits of a Page. Errors are ErrRefused.
func CheckPage(ask wire.Page) error {
	switch {
	case ask.Limit == 0 || ask.Limit > wire.MaxFind:
		return refuse("limit %d", ask.Limit)
	case len(ask.Types) > MaxFilter || len(ask.Statuses) > MaxFilter:
		return refuse("filter of %d types, %d statuses", len(ask.Types), len(ask.Statuses))
	case ask.Before != nil && ask.After != nil:
		return refuse("two cursors")
	}
	for _, t := range ask.Types {
		if !isType(t) {
			return refuse("type of %d bytes", len(t))
		}
	}
	return checkSize(ask.TreeSize)
}

func checkSize(size uint64) error {
	if size > MaxSeq+1 {
		return refuse("tree of %d leaves", size)
	}
	return nil
}

// CheckStored refuses a tree size greater than the number of entries. Errors are ErrRefused.
func CheckStored(size, count uint64) error {
	if size > count {
		return refuse("tree of %d leaves, %d are stored", size, count)
	}
	return nil
}

// CheckPieces checks the limits of a LoadPieces. Errors are ErrRefused.
func CheckPieces(ask wire.LoadPieces) error {
	if len(ask.Pieces) > wire.MaxPieces {
		return refuse("%d pieces", len(ask.Pieces))
	}
	return nil
}

// CheckAnswer refuses an answer with more than MaxAnswer sealed bytes, for answers that cannot be shortened. Errors are ErrRefused.
func CheckAnswer(bytes int) error {
	if bytes > MaxAnswer {
		return refuse("answer of %d bytes", bytes)
	}
	return nil
}

// CheckKeys checks the limits of a LoadKeys. Errors are ErrRefused.
func CheckKeys(ask wire.LoadKeys) error {
	if ask.Limit == 0 || ask.Limit > wire.MaxKeysPage {
		return refuse("%d keys", ask.Limit)
	}
	return nil
}

// CheckNewKeys checks the limits of a PutKeys. Errors are ErrRefused.
func CheckNewKeys(put wire.PutKeys) error {
	if put.Boot == zero || put.Epoch == 0 || put.Epoch > MaxEpoch || len(put.Keys) == 0 || len(put.Keys) > wire.MaxKeysPage {
		return refuse("%d keys of boot %x, epoch %d", len(put.Keys), put.Boot, put.Epoch)
	}
	return checkKeys(put.Keys)
}

// CheckSnapshot checks the limits of a PutSnapshot. Errors are ErrRefused.
func CheckSnapshot(put wire.PutSnapshot) error {
	ahead := len(put.Snapshot) == 0
	switch {
	case put.Boot == zero:
		return refuse("no boot")
	case put.Epoch == 0 || put.Epoch > MaxEpoch:
		return refuse("epoch %d", put.Epoch)
	case put.Range >= wire.MaxRanges:
		return refuse("range %d", put.Range)
	case put.Organization == zero:
		return refuse("snapshot of no organization")
	case put.Count == 0 || put.Count > MaxSeq+1:
		return refuse("snapshot of %d entries", put.Count)
	case ahead && (len(put.Pieces) == 0 || len(put.Drop) > 0):
		return refuse("%d pieces, %d to drop without a snapshot", len(put.Pieces), len(put.Drop))
	case !ahead && put.Over >= put.Count:
		return refuse("snapshot of %d entries over one of %d", put.Count, put.Over)
	case len(put.Snapshot) > wire.MaxSnapshot:
		return refuse("snapshot of %d bytes", len(put.Snapshot))
	case len(put.Pieces) > MaxNewPieces || len(put.Drop) > MaxDrop:
		return refuse("%d pieces, %d to drop", len(put.Pieces), len(put.Drop))
	}
	total := len(put.Snapshot)
	for _, p := range put.Pieces {
		if len(p) == 0 || len(p) > MaxSealedPiece {
			return refuse("piece of %d bytes", len(p))
		}
		total += len(p)
	}
	if total > wire.MaxFrame {
		return refuse("snapshot and pieces of %d bytes", total)
	}
	return nil
}

// CheckHeaders checks the limits of a LoadHeaders. Errors are ErrRefused.
func CheckHeaders(ask wire.LoadHeaders) error {
	if ask.Epoch > MaxEpoch || ask.Number > MaxNumber {
		return refuse("headers from batch %d of epoch %d", ask.Number, ask.Epoch)
	}
	return checkRange(uint32(ask.Range))
}

// CheckTips checks the limits of a LoadTips. Errors are ErrRefused.
func CheckTips(ask wire.LoadTips) error {
	if ask.Limit == 0 || ask.Limit > wire.MaxTipsPage {
		return refuse("%d tips", ask.Limit)
	}
	return nil
}

// CheckTable checks the limits of a LoadTable. Errors are ErrRefused.
func CheckTable(ask wire.LoadTable) error { return checkRange(uint32(ask.Range)) }

// CompareTable compares the stored table, nil if there is none, with a put: fits if it is the table that
// put replaces, same if it is put's own table, so that nothing is left to store.
func CompareTable(there []byte, put wire.PutTable) (fits, same bool) {
	if bytes.Equal(there, put.Table) {
		return false, true
	}
	var over wire.Hash
	if there != nil {
		over = sha256.Sum256(there)
	}
	return over == put.Over, false
}

// CheckPages checks the limits of a LoadPages. Errors are ErrRefused.
func CheckPages(ask wire.LoadPages) error {
	if len(ask.Pages) > wire.MaxPieces {
		return refuse("%d pages", len(ask.Pages))
	}
	return checkRange(uint32(ask.Range))
}

// CheckNewTable checks the limits of a PutTable. Errors are ErrRefused.
func CheckNewTable(put wire.PutTable) error {
	switch {
	case put.Boot == zero:
		return refuse("no boot")
	case put.Epoch == 0 || put.Epoch > MaxEpoch:
		return refuse("epoch %d", put.Epoch)
	case len(put.Table) == 0 && (len(put.Pages) == 0) == (len(put.Drop) == 0):
		return refuse("%d pages, %d to drop without a table", len(put.Pages), len(put.Drop))
	case len(put.Table) > wire.MaxTable:
		return refuse("table of %d bytes", len(put.Table))
	case len(put.Pages) > MaxNewPages || len(put.Drop) > wire.MaxDropPages:
		return refuse("%d pages, %d to drop", len(put.Pages), len(put.Drop))
	}
	total := len(put.Table)
	for _, p := range put.Pages {
		if err := checkPage(p); err != nil {
			return err
		}
		total += len(p)
	}
	if total > wire.MaxFrame {
		return refuse("table and pages of %d bytes", total)
	}
	return checkRange(uint32(put.Range))
}

func checkPage(page []byte) error {
	if len(page) == 0 || len(page) > wire.MaxPage {
		return refuse("page of %d bytes", len(page))
	}
	return nil
}

// CheckObject checks the limits of a PutObject. Errors are ErrRefused.
func CheckObject(put wire.PutObject) error {
	if len(put.Bytes) == 0 || len(put.Bytes) > wire.MaxObject {
		return refuse("object of %d bytes", len(put.Bytes))
	}
	if put.Name == "" {
		return refuse("object without a name")
	}
	return CheckName(put.Name)
}

// CheckName checks the limits of the name of an object: at most wire.MaxObjectName bytes of printable ASCII.
// Errors are ErrRefused.
func CheckName(name string) error {
	if len(name) > wire.MaxObjectName {
		return refuse("name of %d bytes", len(name))
	}
	if !isPrintable(name) {
		return refuse("name %q", name)
	}
	return nil
}

// isPrintable reports whether s is printable ASCII.
func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}

func checkLimit(n int) error {
	if n < 1 || n > MaxClaims {
		return refuse("limit %d", n)
	}
	return nil
}

// CheckClaim checks the limits of a ClaimSends. Errors are ErrRefused.
func CheckClaim(ask ClaimSends) error {
	switch {
	case ask.Claimant == zero:
		return refuse("no claimant")
	case ask.NowMs > MaxTime || ask.UntilMs > MaxTime:
		return refuse("claim at %d until %d", ask.NowMs, ask.UntilMs)
	case ask.Receiver != zero && len(ask.Lanes) > 0:
		return refuse("claim for a receiver and of lanes")
	case ask.Receiver != zero:
		return checkLimit(ask.Limit)
	}
	return checkLimit(len(ask.Lanes))
}

// CheckDue checks the limits of a Due. Errors are ErrRefused.
func CheckDue(ask Due) error {
	if ask.NowMs > MaxTime || len(ask.Kinds) == 0 || len(ask.Kinds) > MaxKinds {
		return refuse("%d kinds due at %d", len(ask.Kinds), ask.NowMs)
	}
	return checkLimit(ask.Limit)
}

// CheckPayers checks the limits of a Payers. Errors are ErrRefused.
func CheckPayers(ask Payers) error {
	if ask.NowMs > MaxTime {
		return refuse("payers at %d", ask.NowMs)
	}
	return checkLimit(ask.Limit)
}

// CheckLanes checks the limits of a Lanes. Errors are ErrRefused.
func CheckLanes(ask Lanes) error {
	if ask.NowMs > MaxTime || len(ask.After) == 0 || len(ask.After) > MaxClaims {
		return refuse("lanes of %d payers at %d", len(ask.After), ask.NowMs)
	}
	return checkLimit(ask.Limit)
}

// CheckReceivers checks the limits of a Receivers. Errors are ErrRefused.
func CheckReceivers(ask Receivers) error {
	if ask.NowMs > MaxTime {
		return refuse("receivers at %d", ask.NowMs)
	}
	return checkLimit(ask.Limit)
}

// CheckDead checks the limits of a DeadSends. Errors are ErrRefused.
func CheckDead(ask DeadSends) error {
	if err := checkLimit(ask.Limit); err != nil || ask.After == nil {
		return err
	}
	return checkSendID(*ask.After)
}

// CheckResend checks the limits of a Resend. Errors are ErrRefused.
func CheckResend(ask Resend) error {
	switch {
	case ask.NowMs > MaxTime:
		return refuse("due at %d", ask.NowMs)
	case ask.Send != nil && ask.Receiver != zero:
		return refuse("a send and a receiver")
	case ask.Send != nil:
		return checkSendID(*ask.Send)
	}
	return nil
}

// CheckSend checks the limits of a KeepSend. Errors are ErrRefused.
func CheckSend(claimant wire.ID, s *Send) error {
	switch {
	case claimant == zero:
		return refuse("no claimant")
	case s.State < wire.SendWaiting || s.State > wire.SendReplaced:
		return refuse("state %d", s.State)
	case s.DueMs > MaxTime:
		return refuse("due at %d", s.DueMs)
	case len(s.Text) > wire.MaxChainText || len(s.Revert) > wire.MaxRevert || len(s.Memo) > MaxMemo:
		return refuse("text of %d, revert of %d, memo of %d bytes", len(s.Text), len(s.Revert), len(s.Memo))
	}
	if !isPrintable(s.Text) {
		return refuse("text %q", s.Text)
	}
	return checkSendID(s.ID)
}

// CheckSends checks the limits of a Sends. Errors are ErrRefused.
func CheckSends(ask wire.Sends) error {
	if len(ask.Sends) > wire.MaxStates {
		return refuse("%d sends", len(ask.Sends))
	}
	for _, id := range ask.Sends {
		if err := checkSendID(id); err != nil {
			return err
		}
	}
	return nil
}

// CheckDeliveries checks the limits of a Deliveries. Errors are ErrRefused.
func CheckDeliveries(ask wire.Deliveries) error {
	switch {
	case ask.Receiver == zero:
		return refuse("no receiver")
	case ask.Limit < 1 || ask.Limit > wire.MaxDeliveries:
		return refuse("limit %d", ask.Limit)
	case ask.After == nil:
		return nil
	case ask.After.TimeMs > MaxTime:
		return refuse("deliveries before %d", ask.After.TimeMs)
	}
	return checkSendID(ask.After.Send)
}

func checkSendID(id wire.SendID) error {
	if id.Seq > MaxSeq || id.Number >= wire.MaxSends {
		return refuse("send %d of entry %d", id.Number, id.Seq)
	}
	return nil
}
