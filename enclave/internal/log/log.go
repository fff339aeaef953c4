package log

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/insecure"
	"cloister/shared/wire"
)

const headerFormat = 2

// Commitment returns the hash of a table's head by which the public leaf commits to the table.
func Commitment(h *wire.TableHead) [32]byte {
	b := fmt.Appendf(nil, "cloister tip table 1\n%d %x %x %d %x %x %d", h.Covers, h.LogRoot, h.Previous, h.Tips, h.Root, h.Policy, h.Mode)
	if h.Boots > 0 {
		b = fmt.Appendf(b, " %d", h.Boots)
	}
	if h.RecoveredMs > 0 {
		b = fmt.Appendf(b, " recovered %d %d", h.Recovered, h.RecoveredMs)
	}
	if h.ManifestNonce > 0 {
		b = fmt.Appendf(b, " manifest %d", h.ManifestNonce)
	}
	if h.WaitMs > 0 {
		b = fmt.Appendf(b, " wait %d", h.WaitMs)
	}
	return sha256.Sum256(b)
}

// drillGeneration is the bit that marks the generation of a drill's log. No other generation is that high.
const drillGeneration = 1 << 31

// A Place identifies a log within headers: by deployment, range and generation.
type Place struct {
	Deployment [32]byte
	Range      wire.Range
	Generation uint32
}

// A Log is the state of a range's log: its size, its tree's right edge and its newest header. A boot follows the
// headers that the host has stored, and then appends to it. It is not safe for concurrent use.
type Log struct {
	keys  *Keys
	place Place
	size  uint64
	last  [32]byte
	edge  *compact.Range
	force Force
	// closed is the leaf that has closed the generation; nil while it is open.
	closed *tlog.Close
	// expects is the head of the table that the log began with, until a followed header has named it; then nil.
	expects *wire.TableHead
}

// Force is what is in force at the end of a log: the witnesses' policy, the mode and the boot of the last start
// leaf, and the last recovery.
type Force struct {
	Policy [32]byte // zero: there are no witnesses
	Mode   tlog.Mode
	Boots  uint64 // the last boot's number; 0: it has none
	// Recovered and RecoveredMs describe the last recovery, as in wire.TableHead.
	Recovered   uint32
	RecoveredMs uint64
	// ManifestNonce is the nonce of the last boot's manifest.
	ManifestNonce uint64
	// WaitMs is as in wire.TableHead.
	WaitMs uint64
}

func forceOf(h *wire.TableHead) Force {
	return Force{h.Policy, tlog.Mode(h.Mode), h.Boots, h.Recovered, h.RecoveredMs, h.ManifestNonce, h.WaitMs}
}

// Force returns what is in force at the log's end, or was when it was closed.
func (l *Log) Force() Force { return l.force }

// EndWait sets Force.WaitMs to 0, because no enclave under earlier terms serves any more. The next table records it.
func (l *Log) EndWait() { l.force.WaitMs = 0 }

// Generation returns the generation of the range's log.
func (l *Log) Generation() uint32 { return l.place.Generation }

// CloseLeaf returns the leaf that has closed the generation, nil while it is open. Nothing may be appended after it: the log
// continues with NextGeneration, whose origin the leaf names.
func (l *Log) CloseLeaf() *tlog.Close { return l.closed }

// NextGeneration returns the empty log of the next generation, with a name for its origin. Its first leaf must adopt this log, and
// its first header follows this log's last one.
func (l *Log) NextGeneration(name string, force Force) (*Log, error) {
	return l.generation(l.place.Generation+1, name, force)
}

// Drill returns the empty log of a drill. It continues this log as the next generation would; no log can continue it.
func (l *Log) Drill(name string) (*Log, error) {
	return l.generation(l.place.Generation|drillGeneration, name, l.force)
}

// IsDrill reports whether it is a drill's log.
func (l *Log) IsDrill() bool { return l.place.Generation >= drillGeneration }

func (l *Log) generation(generation uint32, name string, force Force) (*Log, error) {
	place := l.place
	place.Generation = generation
	keys, err := l.keys.Of(name, place.Generation)
	if err != nil {
		return nil, err
	}
	return &Log{keys: keys, place: place, last: l.last, edge: EdgeFactory.NewEmptyRange(0), force: force}, nil
}

// Empty returns a log without leaves, of the first generation. Its first leaf must adopt the empty table.
func Empty(keys *Keys, place Place) *Log {
	l := &Log{keys: keys, place: place, edge: EdgeFactory.NewEmptyRange(0)}
	l.expects = l.Head(new(Table))
	return l
}

// EdgeFactory makes right edges of RFC 6962 trees.
var EdgeFactory = &compact.RangeFactory{Hash: hashChildren}

// hashChildren is rfc6962.DefaultHasher.HashChildren with fewer than its three allocations: an
// entry needs as many hashes as its tree has levels.
func hashChildren(left, right []byte) []byte {
	var b [1 + 2*sha256.Size]byte
	b[0] = rfc6962.RFC6962NodeHashPrefix
	copy(b[1:], left)
	copy(b[1+sha256.Size:], right)
	sum := sha256.Sum256(b[:])
	return sum[:]
}

var errKept = errors.New("log: what was kept of a tip table is none")

// A Start is what a log is read from: its state as of a stored table. It is not authenticated before the Log's Believed
// returns true.
type Start struct {
	Log           *Log
	Table         *Table
	Blocks        []wire.Hash // of the stored table's blocks
	Epoch, Number uint64      // of the batch whose header is the first to follow
}

// Begin decodes a wire.KeptTable. It calls ask for the table's blocks, at most wire.MaxPieces at a time, and verifies
// them. keys and place may be of any generation; the log has the table's.
func Begin(keys *Keys, place Place, kept []byte, ask func([]wire.Hash) ([][]byte, error)) (*Start, error) {
	k, err := wire.ParseKeptTable(kept)
	if err != nil {
		return nil, errKept
	}
	var hashes [][]byte
	for _, h := range k.EdgeHashes() {
		hashes = append(hashes, h[:])
	}
	edge, err := EdgeFactory.NewRange(0, k.Covers, hashes)
	if err != nil {
		return nil, errKept
	}
	s := &Start{Epoch: k.Epoch, Number: k.Number}
	var pages []pageHash
	if k.Format == wire.KeptFormat {
		s.Blocks = k.BlockHashes()
		if pages, err = loadBlocks(s.Blocks, pagesFor(int(k.Tips)), ask); err != nil {
			return nil, err
		}
	} else {
		pages = appendHashes(nil, k.Blocks)
	}
	if s.Table, err = NewTable(pages, int(k.Tips)); err != nil {
		return nil, err
	}
	if generation := max(k.Generation, tlog.FirstGeneration); generation != place.Generation {
		if keys, err = keys.Of(keys.name, generation); err != nil {
			return nil, err
		}
		place.Generation = generation
	}
	l := &Log{keys: keys, place: place, size: k.Covers, last: k.Previous, edge: edge, force: Force{k.Policy, tlog.Mode(k.Mode), k.Boots, k.Recovered, k.RecoveredMs, k.ManifestNonce, k.WaitMs}}
	l.expects = l.Head(s.Table)
	s.Log = l
	return s, nil
}

// loadBlocks asks for the blocks with these hashes, verifies them, and returns the hashes of so many pages that are in them.
func loadBlocks(blocks []wire.Hash, pages int, ask func([]wire.Hash) ([][]byte, error)) ([]pageHash, error) {
	if len(blocks) != blocksFor(pages) {
		return nil, errKept
	}
	all := make([]pageHash, 0, pages)
	for some := range slices.Chunk(blocks, wire.MaxPieces) {
		got, err := ask(some)
		if err != nil {
			return nil, err
		}
		if len(got) != len(some) {
			return nil, errKept
		}
		for i, b := range got {
			if len(b) != min(wire.BlockPages, pages-len(all))*sha256.Size || sha256.Sum256(b) != some[i] {
				return nil, errKept
			}
			all = appendHashes(all, b)
		}
	}
	return all, nil
}

func appendHashes(all []pageHash, b []byte) []pageHash {
	for ; len(b) >= sha256.Size; b = b[sha256.Size:] {
		all = append(all, pageHash(b))
	}
	return all
}

// Keep encodes the wire.KeptTable of a table that covers the whole log, and its blocks. The next batch is
// stored under this epoch and number, or as the first one of a later epoch.
func (l *Log) Keep(t *Table, epoch, number uint64) (kept []byte, blocks [][]byte, err error) {
	k := wire.KeptTable{Format: wire.KeptFormat, Covers: l.size, Previous: l.last, Edge: slices.Concat(l.edge.Hashes()...), Tips: uint64(t.tips), Epoch: epoch, Number: number,
		Policy: l.force.Policy, Mode: uint8(l.force.Mode), Boots: l.force.Boots, Recovered: l.force.Recovered, RecoveredMs: l.force.RecoveredMs, ManifestNonce: l.force.ManifestNonce, WaitMs: l.force.WaitMs}
	if l.place.Generation != tlog.FirstGeneration {
		k.Generation = l.place.Generation
	}
	for some := range slices.Chunk(t.pages, wire.BlockPages) {
		b := make([]byte, 0, len(some)*sha256.Size)
		for i := range some {
			b = append(b, some[i][:]...)
		}
		hash := sha256.Sum256(b)
		k.Blocks, blocks = append(k.Blocks, hash[:]...), append(blocks, b)
	}
	kept, err = wire.Marshal(&k)
	if err == nil && len(kept) > wire.MaxTable {
		err = fmt.Errorf("log: a tip table of %d pages", len(t.pages))
	}
	return kept, blocks, err
}

// Head returns the head of a table that covers the whole log.
func (l *Log) Head(t *Table) *wire.TableHead {
	return &wire.TableHead{Covers: l.size, LogRoot: l.Root(), Previous: l.last, Tips: uint64(t.tips), Root: t.Root(),
		Policy: l.force.Policy, Mode: uint8(l.force.Mode), Boots: l.force.Boots, Recovered: l.force.Recovered, RecoveredMs: l.force.RecoveredMs, ManifestNonce: l.force.ManifestNonce, WaitMs: l.force.WaitMs}
}

// Size returns the number of leaves.
func (l *Log) Size() uint64 { return l.size }

// Last returns the SHA-256 of the newest header with its MAC, zero if there is none. As headers are
// chained, Size and Last identify the log's whole history.
func (l *Log) Last() [32]byte { return l.last }

// Root returns the root of the tree over all leaves.
func (l *Log) Root() [32]byte {
	root, err := l.edge.GetRootHash(nil)
	if err != nil || l.size == 0 {
		return [32]byte(rfc6962.DefaultHasher.EmptyRoot())
	}
	return [32]byte(root)
}

// Checkpoint returns a signed checkpoint of the log. All of the log must be stored.
func (l *Log) Checkpoint() []byte { return l.keys.Checkpoint(l.size, l.Root()) }

// CheckpointAs is Checkpoint with another name in the origin: that of earlier terms.
func (l *Log) CheckpointAs(name string) ([]byte, error) {
	keys, err := l.keys.Of(name, l.place.Generation)
	if err != nil {
		return nil, err
	}
	return keys.Checkpoint(l.size, l.Root()), nil
}

// Key returns the public key that verifies the log's checkpoints.
func (l *Log) Key() *tlog.Key { return l.keys.Key() }

// Clone returns a copy of the log.
func (l *Log) Clone() *Log {
	c := *l
	c.edge, _ = EdgeFactory.NewRange(0, l.size, slices.Clone(l.edge.Hashes())) // fails for another number of hashes only
	return &c
}

// Believed reports whether a followed header has named the table that the log began with, so that both are authentic.
func (l *Log) Believed() bool { return l.expects == nil }

// A Next is a header that may be appended to a log, with its MAC.
type Next struct {
	Header []byte
	hash   [32]byte // the leaf's
	leaf   *tlog.Leaf
}

// Next makes the header of the next batch, of its leaf, the new tips of its organizations, each organization
// once, and the head of the table that the leaf commits to, or nil. If there are tips, Next sets the leaf's
// Root. It doesn't change the log.
func (l *Log) Next(leaf tlog.Leaf, tips []Tip, table *wire.TableHead) (*Next, error) {
	if l.closed != nil {
		return nil, errClosed
	}
	leaf.Format = tlog.LeafFormat
	if len(tips) > 0 {
		leaf.Root = l.keys.MovedRoot(l.size, tips)
	}
	b, err := leaf.Encode()
	if err != nil {
		return nil, err
	}
	header, err := wire.Marshal(&wire.BatchHeader{Format: headerFormat, Deployment: l.place.Deployment, Range: l.place.Range, Generation: l.place.Generation,
		Position: l.size, Previous: l.last, Leaf: b, Tips: tips, Table: table})
	if err != nil {
		return nil, err
	}
	mac := l.keys.MAC(header)
	return &Next{Header: append(header, mac[:]...), hash: tlog.HashLeaf(b), leaf: &leaf}, nil
}

var errClosed = errors.New("log: it is closed for another generation")

// Append appends a header that Next has made.
func (l *Log) Append(n *Next) error {
	if err := l.edge.Append(n.hash[:], nil); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	l.last = sha256.Sum256(n.Header)
	l.size++
	if start := n.leaf.Start; start != nil {
		l.force.Policy, l.force.Mode, l.force.Boots, l.force.ManifestNonce = start.Policy, start.Mode, start.Number, start.ManifestNonce
	}
	if c := n.leaf.Close; c != nil && c.Origin != "" {
		l.closed = c
	}
	return nil
}

// Errors of Follow.
var (
	ErrHeader = errors.New("log: a header that no enclave of this log has made")
	ErrChain  = errors.New("log: a header that does not come next")
)

// Follow verifies the next header in the store and appends it to the log. It may be the first one of the next generation, which
// must adopt this log at its present end: the log then becomes that generation's.
func (l *Log) Follow(header []byte) (*wire.BatchHeader, *tlog.Leaf, error) {
	to, err := l.madeBy(header)
	if err != nil {
		return nil, nil, err
	}
	h := new(wire.BatchHeader)
	if err := wire.Unmarshal(header[:len(header)-sha256.Size], h); err != nil {
		return nil, nil, err
	}
	if h.Format != headerFormat || (Place{h.Deployment, h.Range, h.Generation}) != to.place {
		return nil, nil, ErrHeader
	}
	if (h.Position != to.size || h.Previous != to.last) && !insecure.Skip(insecure.Chain) {
		return nil, nil, ErrChain
	}
	leaf, err := tlog.ParseLeaf(h.Leaf)
	if err != nil {
		return nil, nil, err
	}
	if to.closed != nil || to != l && !l.adoptedBy(leaf.Adopt, h.Table) {
		return nil, nil, ErrChain
	}
	if to != l {
		to.force, to.expects = forceOf(h.Table), l.expects
	}
	if h.Table != nil && to.expects != nil && *h.Table == *to.expects {
		to.expects = nil
	}
	if err := to.Append(&Next{header, tlog.HashLeaf(h.Leaf), leaf}); err != nil {
		return nil, nil, err
	}
	*l = *to
	return h, leaf, nil
}

// Show verifies a header from anywhere in this log and opens the leaf's commitment to the new tip of one organization, which
// must cover the entry at seq.
func (l *Log) Show(header []byte, organization [16]byte, seq uint64) (*wire.BatchHeader, *tlog.Opening, error) {
	at := len(header) - sha256.Size
	if at < 0 || !l.keys.Authentic(header[:at], [32]byte(header[at:])) {
		return nil, nil, ErrHeader
	}
	h := new(wire.BatchHeader)
	if err := wire.Unmarshal(header[:at], h); err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(h.Tips, func(t Tip) bool { return t.Organization == organization && t.Count > seq })
	if h.Format != headerFormat || (Place{h.Deployment, h.Range, h.Generation}) != l.place || h.Position >= l.size || i < 0 {
		return nil, nil, ErrHeader
	}
	return h, l.keys.Open(h.Position, h.Tips, i), nil
}

// madeBy returns the log whose keys have authenticated a header: this one, or the empty one of the next generation.
func (l *Log) madeBy(header []byte) (*Log, error) {
	at := len(header) - sha256.Size
	if at < 0 {
		return nil, ErrHeader
	}
	mac := [32]byte(header[at:])
	if l.keys.Authentic(header[:at], mac) {
		return l, nil
	}
	next, err := l.NextGeneration(l.keys.name, Force{})
	switch {
	case err != nil:
		return nil, err
	case next.keys.Authentic(header[:at], mac):
		return next, nil
	case insecure.Skip(insecure.MAC):
		return l, nil
	}
	return nil, ErrHeader
}

// adoptedBy reports whether the first leaf of the next generation, with its table, adopts this log at its present end.
func (l *Log) adoptedBy(a *tlog.Adopt, table *wire.TableHead) bool {
	moved := a != nil && (a.How == tlog.HowMoved && l.closed != nil || a.How == tlog.HowRecovered)
	return moved && table != nil && a.Size == l.size && a.Root == l.Root() && a.Table == Commitment(table)
}
