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

// Commitment is what the public leaf holds of a table.
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

// drillGeneration is of the log of a drill: no other one reaches it.
const drillGeneration = 1 << 31

// A Place is where a log is kept: what headers name beside their position.
type Place struct {
	Deployment [32]byte
	Range      wire.Range
	Generation uint32
}

// A Log is where the log of a range stands. A boot brings it there by following the headers
// that the host has kept, and then appends to it. It is not for several goroutines at once.
type Log struct {
	keys  *Keys
	place Place
	size  uint64
	last  [32]byte
	edge  *compact.Range
	force Force
	// closed is the leaf with which the generation has ended; nil: it goes on.
	closed *tlog.Close
	// expects is the table that the headers must name before anything is believed; nil: they did.
	expects *wire.TableHead
}

// Force is whose cosignatures a log takes and what waits for them, as the last boot said it, and
// which boot that was.
type Force struct {
	Policy [32]byte // zero: there are no witnesses
	Mode   tlog.Mode
	Boots  uint64 // how many leaves of boots there are; 0: the last one has no number
	// Recovered and RecoveredMs are of the last recovery, as wire.TableHead has them.
	Recovered   uint32
	RecoveredMs uint64
	// ManifestNonce is that of the last boot's manifest.
	ManifestNonce uint64
	// WaitMs is wire.TableHead's.
	WaitMs uint64
}

func forceOf(h *wire.TableHead) Force {
	return Force{h.Policy, tlog.Mode(h.Mode), h.Boots, h.Recovered, h.RecoveredMs, h.ManifestNonce, h.WaitMs}
}

// Force is in force where the log stands, or was when it was closed.
func (l *Log) Force() Force { return l.force }

// EndWait takes note that no enclave of earlier terms serves any more. The next table says so.
func (l *Log) EndWait() { l.force.WaitMs = 0 }

// Generation is which of the range's logs it is.
func (l *Log) Generation() uint32 { return l.place.Generation }

// CloseLeaf is the leaf with which the generation has ended, nil while it goes on. Nothing may be appended behind it: what it
// names goes on with NextGeneration.
func (l *Log) CloseLeaf() *tlog.Close { return l.closed }

// NextGeneration is the empty log of the next generation, whose origin begins with a name. Its first leaf must adopt what this one
// holds, and the headers go on behind this one's.
func (l *Log) NextGeneration(name string, force Force) (*Log, error) {
	return l.generation(l.place.Generation+1, name, force)
}

// Drill is the empty log of a drill, which goes on like the next generation and which no other log goes on with.
func (l *Log) Drill(name string) (*Log, error) {
	return l.generation(l.place.Generation|drillGeneration, name, l.force)
}

// IsDrill tells whether it is a drill's log.
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

// Empty is a log without leaves, of the first generation. The first one must adopt the empty table.
func Empty(keys *Keys, place Place) *Log {
	l := &Log{keys: keys, place: place, edge: EdgeFactory.NewEmptyRange(0)}
	l.expects = l.Head(new(Table))
	return l
}

// EdgeFactory makes right edges of RFC 6962 trees.
var EdgeFactory = &compact.RangeFactory{Hash: hashChildren}

// hashChildren is rfc6962.DefaultHasher's, which allocates three times for each hash:
// an entry takes as many of them as its tree has levels.
func hashChildren(left, right []byte) []byte {
	var b [1 + 2*sha256.Size]byte
	b[0] = rfc6962.RFC6962NodeHashPrefix
	copy(b[1:], left)
	copy(b[1+sha256.Size:], right)
	sum := sha256.Sum256(b[:])
	return sum[:]
}

var errKept = errors.New("log: what was kept of a tip table is none")

// Begin is the log where a kept table stands, with the table, and the place in the store of
// the first header to follow. They are to be believed once Believed says so. The keys and place are of any
// generation; the log is of the table's.
func Begin(keys *Keys, place Place, kept []byte) (l *Log, t *Table, epoch, number uint64, err error) {
	k, err := wire.ParseKeptTable(kept)
	if err != nil {
		return nil, nil, 0, 0, errKept
	}
	var hashes [][]byte
	for _, h := range k.EdgeHashes() {
		hashes = append(hashes, h[:])
	}
	edge, err := EdgeFactory.NewRange(0, k.Covers, hashes)
	if err != nil {
		return nil, nil, 0, 0, errKept
	}
	pages := make([][32]byte, 0, len(k.Pages)/32)
	for _, h := range k.PageHashes() {
		pages = append(pages, h)
	}
	if t, err = NewTable(pages, int(k.Tips)); err != nil {
		return nil, nil, 0, 0, err
	}
	if generation := max(k.Generation, tlog.FirstGeneration); generation != place.Generation {
		if keys, err = keys.Of(keys.name, generation); err != nil {
			return nil, nil, 0, 0, err
		}
		place.Generation = generation
	}
	l = &Log{keys: keys, place: place, size: k.Covers, last: k.Previous, edge: edge, force: Force{k.Policy, tlog.Mode(k.Mode), k.Boots, k.Recovered, k.RecoveredMs, k.ManifestNonce, k.WaitMs}}
	l.expects = l.Head(t)
	return l, t, k.Epoch, k.Number, nil
}

// Keep is what the host keeps of a table that stands where the log does. The next batch is
// stored under this epoch and number, or as the first one of a later epoch.
func (l *Log) Keep(t *Table, epoch, number uint64) ([]byte, error) {
	k := wire.KeptTable{Format: wire.KeptFormat, Covers: l.size, Previous: l.last, Edge: slices.Concat(l.edge.Hashes()...), Tips: uint64(t.tips), Epoch: epoch, Number: number,
		Policy: l.force.Policy, Mode: uint8(l.force.Mode), Boots: l.force.Boots, Recovered: l.force.Recovered, RecoveredMs: l.force.RecoveredMs, ManifestNonce: l.force.ManifestNonce, WaitMs: l.force.WaitMs}
	if l.place.Generation != tlog.FirstGeneration {
		k.Generation = l.place.Generation
	}
	for i := range t.pages {
		k.Pages = append(k.Pages, t.pages[i][:]...)
	}
	b, err := wire.Marshal(&k)
	if err == nil && len(b) > wire.MaxTable {
		err = fmt.Errorf("log: a tip table of %d pages", len(t.pages))
	}
	return b, err
}

// Head commits to a table that stands where the log does.
func (l *Log) Head(t *Table) *wire.TableHead {
	return &wire.TableHead{Covers: l.size, LogRoot: l.Root(), Previous: l.last, Tips: uint64(t.tips), Root: t.Root(),
		Policy: l.force.Policy, Mode: uint8(l.force.Mode), Boots: l.force.Boots, Recovered: l.force.Recovered, RecoveredMs: l.force.RecoveredMs, ManifestNonce: l.force.ManifestNonce, WaitMs: l.force.WaitMs}
}

// Size is how many leaves there are.
func (l *Log) Size() uint64 { return l.size }

// Last is the SHA-256 of the newest header, its MAC included, zero if there is none. With Size
// it says which log this is: headers are chained.
func (l *Log) Last() [32]byte { return l.last }

// Root is that of the tree over all leaves.
func (l *Log) Root() [32]byte {
	root, err := l.edge.GetRootHash(nil)
	if err != nil || l.size == 0 {
		return [32]byte(rfc6962.DefaultHasher.EmptyRoot())
	}
	return [32]byte(root)
}

// Checkpoint signs the log as it stands. All of it must be stored.
func (l *Log) Checkpoint() []byte { return l.keys.Checkpoint(l.size, l.Root()) }

// CheckpointAs is Checkpoint under another name: that of the terms before those that this enclave runs under.
func (l *Log) CheckpointAs(name string) ([]byte, error) {
	keys, err := l.keys.Of(name, l.place.Generation)
	if err != nil {
		return nil, err
	}
	return keys.Checkpoint(l.size, l.Root()), nil
}

// Key is what the log's checkpoints verify by.
func (l *Log) Key() *tlog.Key { return l.keys.Key() }

// Clone is the log as it stands.
func (l *Log) Clone() *Log {
	c := *l
	c.edge, _ = EdgeFactory.NewRange(0, l.size, slices.Clone(l.edge.Hashes())) // fails for another number of hashes only
	return &c
}

// Believed tells whether the headers that were followed have named the table that the log began with.
func (l *Log) Believed() bool { return l.expects == nil }

// A Next is a header that may come next, sealed.
type Next struct {
	Header []byte
	hash   [32]byte // the leaf's
	leaf   *tlog.Leaf
}

// Next makes the header of the batch that comes next: what its leaf says, the tips that it
// moves, each organization once, and the table that the leaf commits to, if it does. The leaf's
// Root is filled in if it moves tips. The log stays as it is.
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

// Append takes the header that Next made.
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

// Follow takes the header that comes next in the store. It may be the first one of the next generation, which adopts what
// the log holds where that stands: from there on the log is that generation's.
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

// Show opens the tip to which the batch of a header moved an organization: the header is of this log, wherever
// it stands there, and the tip covers the entry at seq.
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

// madeBy is the log whose enclave has made a header: this one, or the one of the next generation.
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

// adoptedBy tells whether the first leaf of the next generation adopts the log where it stands.
func (l *Log) adoptedBy(a *tlog.Adopt, table *wire.TableHead) bool {
	moved := a != nil && (a.How == tlog.HowMoved && l.closed != nil || a.How == tlog.HowRecovered)
	return moved && table != nil && a.Size == l.size && a.Root == l.Root() && a.Table == Commitment(table)
}
