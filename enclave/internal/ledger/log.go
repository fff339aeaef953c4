package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// The log of a range gives the tip of every organization: by the newest tip table, and by the headers
// of the batches after it. A boot starts from both as the host has stored them. An organization is
// then opened at the tip that they give, or does not exist. So the host can present an old
// log as a whole, but not organizations of different times.

// unnamed is the name in a log's origin if there are no terms that give one.
const unnamed = "cloister"

// tips are the tips of the range's organizations.
type tips struct {
	mu    sync.Mutex
	moved map[org.ID]Tip // changed since the table, or since tabled
	// tabled are the changed tips that the table being made takes in; nil: none is being made.
	tabled map[org.ID]Tip
	table  *log.Table
	// restated are the batches that this boot has appended to restate a tip.
	restated map[org.ID]*restated
	// kept is the SHA-256 of the KeptTable that the host stores, zero if it stores none, and blocks are those of
	// its blocks. Only readLog and the makers of tables use them, one at a time.
	kept   wire.Hash
	blocks []wire.Hash
}

func (t *tips) set(table *log.Table, moved map[org.ID]Tip) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table, t.moved = table, moved
}

// lookUp returns the table and, if the organization's tip has changed since, its tip.
func (t *tips) lookUp(id org.ID) (tip Tip, moved bool, table *log.Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tip, moved = t.moved[id]; !moved {
		tip, moved = t.tabled[id]
	}
	return tip, moved, t.table
}

func (t *tips) setTip(id org.ID, tip Tip) {
	t.mu.Lock()
	t.moved[id] = tip
	t.mu.Unlock()
}

// maxRestated bounds tips.restated. After it is cleared, an organization's tip is restated again on request.
const maxRestated = 4096

func (t *tips) restatedOf(id org.ID) *restated {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.restated[id]
}

func (t *tips) keepRestated(id org.ID, at *restated) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.restated) >= maxRestated {
		clear(t.restated)
	}
	t.restated[id] = at
}

// count returns the number of tips that have changed since the table.
func (t *tips) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.moved) + len(t.tabled)
}

// tableAndChanges returns the table and the tips that have changed since. No table may be in the making.
func (t *tips) tableAndChanges() (*log.Table, []log.Tip) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.table, logTips(t.moved)
}

// beginTable returns the changed tips, for a table that takes them in.
func (t *tips) beginTable() map[org.ID]Tip {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tabled, t.moved = t.moved, map[org.ID]Tip{}
	return t.tabled
}

// endTable replaces the table by the new one, which has the tips in tabled.
func (t *tips) endTable(table *log.Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table, t.tabled = table, nil
}

func logTips(m map[org.ID]Tip) []log.Tip {
	all := make([]log.Tip, 0, len(m))
	for id, t := range m {
		all = append(all, log.Tip{Organization: wire.ID(id), Count: t.Count, Root: t.Root})
	}
	return all
}

// origin returns the origin of a generation of the range's log.
func (l *Ledger) origin(name string, generation uint32) tlog.Origin {
	return tlog.Origin{Name: name, Deployment: [16]byte(l.cfg.Deployment[:16]), Range: uint16(l.cfg.Range), Generation: generation}
}

// logName returns the name in the log's origin under the config's terms.
func (l *Ledger) logName() string {
	if w := l.cfg.Witnesses; w != nil {
		return w.Name
	}
	return unnamed
}

// A startPlan says how a boot continues a log.
type startPlan struct {
	wait                    time.Duration // until any earlier enclave has lost the right to serve
	newGeneration, recovers bool          // begin the next generation: under other terms, or after a recovery
	drills                  bool          // begin a drill's own log
}

// readLog reads and verifies the log that the host has stored, and plans how to continue it. This boot owns the
// range, so that no other one appends meanwhile.
func (l *Ledger) readLog(ctx context.Context) (first startPlan, err error) {
	place := log.Place{Deployment: l.cfg.Deployment, Range: l.cfg.Range, Generation: tlog.FirstGeneration}
	keys, err := log.NewKeys(l.cfg.Log, l.origin(l.logName(), place.Generation))
	if err != nil {
		return first, err
	}
	kept, err := askStore(ctx, l.cfg.Store.LoadTable, wire.LoadTable{Range: l.cfg.Range})
	if err != nil {
		return first, err
	}
	at, table, ask := log.Empty(keys, place), new(log.Table), wire.LoadHeaders{Range: l.cfg.Range, MaxBytes: loadBytes}
	if len(kept.Table) > 0 {
		l.tips.kept = sha256.Sum256(kept.Table)
		var failed error
		from, err := log.Begin(keys, place, kept.Table, func(blocks []wire.Hash) ([][]byte, error) {
			got, err := askStore(ctx, l.cfg.Store.LoadPages, wire.LoadPages{Range: l.cfg.Range, Pages: blocks})
			failed = err
			return got.Pieces, err
		})
		switch {
		case failed != nil:
			return first, failed
		case err != nil:
			return first, l.breach(fault.AlarmLog, "tip table does not open")
		}
		at, table, ask.Epoch, ask.Number, l.tips.blocks = from.Log, from.Table, from.Epoch, from.Number, from.Blocks
	}
	covers, generation, named, moved := at.Size(), at.Generation(), false, map[org.ID]Tip{}
	none, err := l.readHeaders(ctx, at, ask, func(h *wire.BatchHeader, leaf *tlog.Leaf) {
		named = leaf.Close != nil && leaf.Close.Boot == l.cfg.Boot
		for i := range h.Tips {
			moved[org.ID(h.Tips[i].Organization)] = Tip{h.Tips[i].Count, h.Tips[i].Root}
		}
	})
	if err != nil {
		return first, err
	}
	none = none && covers == 0
	if !none && !at.Believed() && !insecure.Skip(insecure.Believed) {
		return first, l.breach(fault.AlarmLog, "tip table that the log does not name")
	}
	if err := l.checkHead(ctx, at); err != nil {
		return first, err
	}
	if r := l.cfg.Recover; none && r != nil {
		return first, errHead(r, "has no log")
	} else if none && l.cfg.Drill {
		return first, fault.WithCode(fault.FailedPrecondition, "LOG_DRILLED", "the store has no log to drill")
	} else if none {
		if err := l.checkGeneration(0); err != nil {
			return first, err
		}
		// If several boots begin the log, only one gets a quorum, and none served before that: there is
		// no enclave to wait for.
		if !l.cfg.Logged {
			first.wait = l.serveTime(at)
		}
		return first, l.beginLog(ctx, keys, place)
	}
	if err := l.checkManifest(at); err != nil {
		return first, err
	}
	if l.cfg.Drill {
		first.drills = !at.IsDrill()
	} else if at.IsDrill() {
		return first, fault.WithCode(fault.FailedPrecondition, "LOG_DRILLED", "the store is a copy that was drilled: restore the backup anew")
	} else if r := l.cfg.Recover; r != nil && at.Generation() < r.Generation {
		first.recovers, err = true, l.checkRecovery(at)
	} else {
		first.newGeneration, err = l.checkForce(at)
	}
	if err != nil {
		return first, err
	}
	if at.Generation() != generation {
		covers = 0
	}
	if !named {
		first.wait = l.serveTime(at)
	}
	l.tips.set(table, moved)
	l.batchWriter.setLog(at, covers)
	l.recovered = lastRecoveryOf(at.Force())
	return first, nil
}

// serveTime is how long an earlier enclave may still serve: under the present terms, the previous ones, or any earlier
// ones that no boot has waited for.
func (l *Ledger) serveTime(at *log.Log) time.Duration {
	d := time.Duration(at.Force().WaitMs) * time.Millisecond
	for _, t := range []*Terms{l.cfg.Witnesses, l.cfg.PreviousWitnesses} {
		if t != nil {
			d = max(d, t.Serve)
		}
	}
	return d
}

// readHeaders follows the log to the end of the headers in the store and calls each for every header. none reports
// that there are no headers from the place in ask on, or, without a table, only those of a release before logs.
func (l *Ledger) readHeaders(ctx context.Context, at *log.Log, ask wire.LoadHeaders, each func(*wire.BatchHeader, *tlog.Leaf)) (none bool, err error) {
	for none = true; ; none = false {
		got, err := askStore(ctx, l.cfg.Store.LoadHeaders, ask)
		if err != nil || len(got.Headers) == 0 {
			return none, err
		}
		for i, header := range got.Headers {
			h, leaf, err := at.Follow(header)
			if errors.Is(err, log.ErrHeader) && none && i == 0 && !l.cfg.Logged && ask.Epoch == 0 {
				return true, nil
			}
			if err != nil {
				return false, l.breach(fault.AlarmLog, "batch header: %v", err)
			}
			each(h, leaf)
			ask.Epoch, ask.Number = leaf.Epoch, leaf.Number+1
		}
	}
}

var errWitnessesChanged = fault.WithCode(fault.FailedPrecondition, "LOG_WITNESSES_CHANGED", "the log has other witnesses, or another name, than the manifest says, and they are not those of the manifest before")

// checkManifest refuses to continue a log under an older manifest than the one that it was last written under. The
// store has the deployment state beside the log, and the host could present an older version of that alone.
func (l *Ledger) checkManifest(at *log.Log) error {
	if in, ours := at.Force().ManifestNonce, l.cfg.Start.ManifestNonce; ours < in {
		return fault.WithCode(fault.FailedPrecondition, "LOG_MANIFEST", "the log was written under a manifest with nonce %d, and this one has %d: boot under that one, or under one that comes after it", in, ours)
	}
	return nil
}

// checkForce refuses terms that are weaker than those in force, or have other witnesses: other witnesses have not
// seen the log and would cosign any history. moves reports that the log continues in the next generation, because its
// terms are those of the previous manifest.
func (l *Ledger) checkForce(at *log.Log) (moves bool, err error) {
	in, ours, left := at.Force(), log.Force{Policy: l.cfg.Start.Policy, Mode: l.cfg.Start.Mode}, l.cfg.PreviousWitnesses
	if c := at.CloseLeaf(); left != nil && in.Policy == left.Hash {
		next := tlog.Close{Origin: l.origin(l.logName(), at.Generation()+1).String(), Policy: ours.Policy}
		if c != nil && *c != next && !insecure.Skip(insecure.Closed) {
			return false, errWitnessesChanged
		}
		return true, l.checkGeneration(at.Generation() + 1)
	} else if c != nil {
		return false, errWitnessesChanged
	}
	if in.Policy != ([32]byte{}) && in.Policy != ours.Policy {
		return false, errWitnessesChanged
	}
	if in.Mode > ours.Mode {
		return false, fault.WithCode(fault.FailedPrecondition, "LOG_MODE_WEAKENED", "the log's mode is a stronger one than the manifest says")
	}
	return false, l.checkGeneration(at.Generation())
}

// checkGeneration refuses a log whose generation is older than the first one of the witnesses. generation is 0 if there is
// no log.
func (l *Ledger) checkGeneration(generation uint32) error {
	if w := l.cfg.Witnesses; w != nil && w.Generation > max(generation, tlog.FirstGeneration) && !insecure.Skip(insecure.Generation) {
		return fault.WithCode(fault.FailedPrecondition, "LOG_GENERATION", "the manifest's witnesses are for generation %d of the log, and the host shows generation %d: boot under the manifest before, or show the newest store", w.Generation, generation)
	}
	return nil
}

// A Head is the head of a range's log: its size and its newest header.
type Head struct {
	Size uint64
	Last wire.Hash // SHA-256 of the newest header
}

// checkHead refuses a log that doesn't end at Config.HandedHead, or that doesn't continue the log from the end of
// this boot's last ownership.
func (l *Ledger) checkHead(ctx context.Context, at *log.Log) error {
	head := Head{at.Size(), at.Last()}
	if h := l.cfg.HandedHead; h != nil && *h != head && !insecure.Skip(insecure.Tip) {
		return l.breach(fault.AlarmTip, "log of %d batches, handed on with %d", head.Size, h.Size)
	}
	past := l.cfg.LastOwned
	if past == nil || insecure.Skip(insecure.Tip) {
		return nil
	}
	between := past.log.Clone()
	_, err := l.readHeaders(ctx, between, wire.LoadHeaders{Range: l.cfg.Range, Epoch: past.epoch, Number: past.number + 1, MaxBytes: loadBytes}, func(*wire.BatchHeader, *tlog.Leaf) {})
	if err != nil {
		return err
	}
	if (Head{between.Size(), between.Last()}) != head {
		return l.breach(fault.AlarmTip, "log of %d batches does not go on from %d of an earlier ownership", head.Size, past.log.Size())
	}
	return nil
}

// An EndOfOwnership is the final state of the log at the end of an ownership.
type EndOfOwnership struct {
	log           *log.Log
	epoch, number uint64 // epoch and number of its last batch
}

// Head returns the log's head.
func (p *EndOfOwnership) Head() Head { return Head{p.log.Size(), p.log.Last()} }

// beginLog begins the log of a range. If the deployment has had logs since genesis, the range is empty. Otherwise
// its organizations are from a release before logs, and their tips are taken from the host unverified.
func (l *Ledger) beginLog(ctx context.Context, keys *log.Keys, place log.Place) error {
	at, table := log.Empty(keys, place), new(log.Table)
	if !l.cfg.Logged {
		found, err := l.loadTips(ctx)
		if err != nil {
			return err
		}
		change, err := table.Update(found, nil)
		if err != nil {
			return l.breach(fault.AlarmLog, "tips of a range without a log: %v", err)
		}
		kept, blocks, err := at.Keep(change.Table, l.batchWriter.epoch, 1)
		if err != nil {
			return err
		}
		if _, err := l.putTable(ctx, change.Pages, kept, blocks); err != nil {
			return err
		}
		table = change.Table
	}
	l.tips.set(table, map[org.ID]Tip{})
	l.batchWriter.setLog(at, 0)
	head := at.Head(table)
	l.batchWriter.appendLeaf(tlog.Leaf{Adopt: &tlog.Adopt{How: tlog.HowFirst, Root: head.LogRoot, Table: log.Commitment(head), Manifest: l.cfg.Start.Manifest}}, head)
	return nil
}

// loadTips returns the tips of all organizations in the range, as the host claims them. It refuses a list that never
// ends, that has an organization twice, or that is larger than the limit.
func (l *Ledger) loadTips(ctx context.Context) (all []log.Tip, err error) {
	keys := keysOf(l.cfg.Range, max(l.cfg.Ranges, 1))
	ask := wire.LoadTips{From: keys.From, To: keys.To, Limit: wire.MaxTipsPage}
	for {
		got, err := askStore(ctx, l.cfg.Store.LoadTips, ask)
		if err != nil {
			return nil, err
		}
		if err := checkTips(got.Tips, ask); err != nil {
			return nil, l.breach(fault.AlarmLog, "tips of a range without a log: %v", err)
		}
		if most := l.cfg.Limits.MaxTips; len(all)+len(got.Tips) > most {
			return nil, l.breach(fault.AlarmLog, "tips of a range without a log: the host listed more than %d, the most for a first tip table", most)
		}
		all = append(all, got.Tips...)
		if len(got.Tips) < int(ask.Limit) {
			return all, nil
		}
		next, more := nextID(got.Tips[len(got.Tips)-1].Organization)
		if !more {
			return all, nil
		}
		ask.From = next
	}
}

// checkTips refuses a page of tips that is no answer to ask. Every page must begin after the one before, so that the
// host can't repeat one for ever.
func checkTips(page []wire.Tip, ask wire.LoadTips) error {
	if len(page) > int(ask.Limit) {
		return fmt.Errorf("the host listed %d at once, asked for %d", len(page), ask.Limit)
	}
	for i := range page {
		id := page[i].Organization
		switch {
		case i > 0 && bytes.Compare(id[:], page[i-1].Organization[:]) <= 0:
			return fmt.Errorf("the host listed %x after %x", id, page[i-1].Organization)
		case bytes.Compare(id[:], ask.From[:]) < 0, bytes.Compare(id[:], ask.To[:]) > 0:
			return fmt.Errorf("the host listed %x, asked for %x to %x", id, ask.From, ask.To)
		}
	}
	return nil
}

// nextID returns the id that follows id in order. more is false after the last one.
func nextID(id wire.ID) (next wire.ID, more bool) {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			return id, true
		}
	}
	return id, false
}

var errTableRefused = errors.New("the host keeps another tip table, or the range is another boot's")

// tableBytes is about how many bytes of pages one PutTable has.
const tableBytes = 1 << 20

// putTable stores a table's new pages and blocks at the host, and then the table. It returns the hashes of
// blocks that only the old table has.
func (l *Ledger) putTable(ctx context.Context, pages [][]byte, kept []byte, blocks [][]byte) (drop []wire.Hash, err error) {
	before, now := l.tips.blocks, make([]wire.Hash, len(blocks))
	for i, b := range blocks {
		if now[i] = sha256.Sum256(b); !slices.Contains(before, now[i]) {
			pages = append(pages, b)
		}
	}
	for len(pages) > 0 {
		n, size := 0, 0
		for n < len(pages) && (n == 0 || size+len(pages[n]) <= tableBytes) {
			size += len(pages[n])
			n++
		}
		if err := l.putPart(ctx, wire.PutTable{Pages: pages[:n]}); err != nil {
			return nil, err
		}
		pages = pages[n:]
	}
	if err := l.putPart(ctx, wire.PutTable{Table: kept, Over: l.tips.kept}); err != nil {
		return nil, err
	}
	l.tips.kept, l.tips.blocks = sha256.Sum256(kept), now
	for _, hash := range before {
		if !slices.Contains(now, hash) {
			drop = append(drop, hash)
		}
	}
	return drop, nil
}

// dropPages asks the host to delete pages that no table names any more. Errors are ignored: the pages stay.
func (l *Ledger) dropPages(ctx context.Context, drop []wire.Hash) {
	for len(drop) > 0 {
		n := min(len(drop), wire.MaxDropPages)
		_ = l.putPart(ctx, wire.PutTable{Drop: drop[:n]})
		drop = drop[n:]
	}
}

func (l *Ledger) putPart(ctx context.Context, put wire.PutTable) error {
	put.Range, put.Boot, put.Epoch = l.cfg.Range, l.cfg.Boot, l.batchWriter.epoch
	done, err := askStore(ctx, l.cfg.Store.PutTable, put)
	if err == nil && !done.OK {
		return errTableRefused
	}
	return err
}

// emptyPage is the hash of a page without tips. The host doesn't store such pages.
var emptyPage = sha256.Sum256(nil)

// loadPages loads pages of the table by number and verifies each by its hash.
func (l *Ledger) loadPages(ctx context.Context, table *log.Table, numbers []int) (map[int][]byte, error) {
	pages := make(map[int][]byte, len(numbers))
	ask, asked := wire.LoadPages{Range: l.cfg.Range}, []int(nil)
	load := func() error {
		got, err := askStore(ctx, l.cfg.Store.LoadPages, ask)
		if err != nil {
			return ErrBusy
		}
		for i, number := range asked {
			if len(got.Pieces) != len(asked) || sha256.Sum256(got.Pieces[i]) != table.Hash(number) && !insecure.Skip(insecure.Page) {
				return errPage
			}
			pages[number] = got.Pieces[i]
		}
		ask.Pages, asked = nil, nil
		return nil
	}
	for _, number := range numbers {
		hash := table.Hash(number)
		if hash == emptyPage {
			pages[number] = nil
			continue
		}
		ask.Pages, asked = append(ask.Pages, hash), append(asked, number)
		if len(asked) == wire.MaxPieces {
			if err := load(); err != nil {
				return nil, err
			}
		}
	}
	if len(asked) > 0 {
		return pages, load()
	}
	return pages, nil
}

var errPage = fault.NewBreach(fault.AlarmLog, "page of the tip table withheld or altered")

// tipOf returns the tip of an organization by the log. exists is false if the organization doesn't exist.
func (l *Ledger) tipOf(ctx context.Context, id org.ID) (tip Tip, exists bool, err error) {
	for {
		tip, moved, table := l.tips.lookUp(id)
		page := table.Page(id)
		if moved || page < 0 {
			return tip, moved, nil
		}
		pages, err := l.loadPages(ctx, table, []int{page})
		if err == nil {
			found, exists, err := table.Find(id, pages[page])
			return Tip{found.Count, found.Root}, exists, err
		}
		// The page may be missing because a newer table has replaced this one: look it up in that.
		if _, _, now := l.tips.lookUp(id); now == table {
			return Tip{}, false, l.raiseAlarm(err)
		}
	}
}

// Defaults of Limits.TableEvery, Limits.TableTips and Limits.TableAge: a tip table is made when so many batches were
// stored, so many tips have changed, or so much time has passed since the last one.
//
// The second bounds the memory of making a table, in each range: every changed tip can be on a page of its own, of some
// 1,800 bytes, and the enclave has the pages as loaded, decoded and encoded at the same time. 25,000 pages are about
// 135 MB. A table every 100,000 tips would need 540 MB, and only save the host some of the pages that it writes.
//
// The third bounds how long a slow range's changes stay outside of a table.
const (
	DefaultTableEvery = 1024
	DefaultTableTips  = 25_000
	DefaultTableAge   = time.Hour
	tablePause        = time.Second // after a failure
)

// makeTables makes tip tables until the ledger is done.
func (l *Ledger) makeTables() {
	for {
		select {
		case <-l.batchWriter.tableDue:
		case <-l.cfg.Clock.After(l.cfg.Limits.TableAge): // no batch may come to say that a table is due
		case <-l.done:
			return
		}
		c := l.batchWriter.beginTable()
		if c == nil {
			continue
		}
		for err := l.makeTable(l.life, c); err != nil; err = l.makeTable(l.life, c) {
			_ = l.raiseAlarm(err)
			select {
			case <-l.cfg.Clock.After(tablePause):
			case <-l.done:
				return
			}
		}
	}
}

// makeTable makes and stores a tip table while transactions continue. The log names it before the host replaces
// the old one, so that a boot can start from either.
func (l *Ledger) makeTable(ctx context.Context, c *tableCut) error {
	if err := l.batchWriter.waitStored(ctx, c.batch); err != nil {
		return err
	}
	_, _, before := l.tips.lookUp(org.ID{})
	change, err := l.updateTable(ctx, before, logTips(c.moved))
	if err != nil {
		return err
	}
	head := c.log.Head(change.Table)
	kept, blocks, err := c.log.Keep(change.Table, l.batchWriter.epoch, c.batch+1)
	if err != nil {
		return err
	}
	if !c.named {
		if _, err := l.appendLeaf(ctx, tlog.Leaf{Table: &tlog.Table{Root: log.Commitment(head)}}, head); err != nil {
			return err
		}
		c.named = true
	}
	if err := l.keepTable(ctx, before, change, kept, blocks); err != nil {
		return err
	}
	l.batchWriter.noteTable(c)
	l.tables.Add(1)
	return nil
}

// updateTable returns a table with changed tips. It loads the pages that change.
func (l *Ledger) updateTable(ctx context.Context, before *log.Table, moved []log.Tip) (*log.Change, error) {
	pages, err := l.loadPages(ctx, before, before.Needs(moved))
	if err != nil {
		return nil, err
	}
	change, err := before.Update(moved, func(page int) ([]byte, error) {
		kept, loaded := pages[page]
		if !loaded { // a page that is split
			one, err := l.loadPages(ctx, before, []int{page})
			return one[page], err
		}
		return kept, nil
	})
	if err != nil {
		return nil, fmt.Errorf("making a tip table: %w", err)
	}
	return change, nil
}

// keepTable replaces the stored table at the host by the changed one, which the log has named.
func (l *Ledger) keepTable(ctx context.Context, before *log.Table, change *log.Change, kept []byte, blocks [][]byte) error {
	var drop []wire.Hash
	var fresh [][]byte
	for i, page := range change.Numbers {
		if page < before.Pages() && before.Hash(page) != change.Table.Hash(page) && before.Hash(page) != emptyPage {
			drop = append(drop, before.Hash(page))
		}
		if len(change.Pages[i]) > 0 {
			fresh = append(fresh, change.Pages[i])
		}
	}
	left, err := l.putTable(ctx, fresh, kept, blocks)
	if err != nil {
		return err
	}
	l.tips.endTable(change.Table)
	l.dropPages(ctx, append(drop, left...)) // nobody asks for them any more
	return nil
}

// appendLeaf appends a leaf to the log by a batch without entries, and waits until that is stored.
func (l *Ledger) appendLeaf(ctx context.Context, leaf tlog.Leaf, table *wire.TableHead) (batch uint64, err error) {
	l.writeGate.RLock()
	given := l.closedForWrites
	if !given {
		batch = l.batchWriter.appendLeaf(leaf, table)
	}
	l.writeGate.RUnlock()
	if given {
		return 0, ErrHandedOver
	}
	return batch, l.batchWriter.waitStored(ctx, batch)
}
