package log_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/log"
	"cloister/shared/wire"
)

var place = log.Place{Deployment: [32]byte{1, 2}, Range: 3, Generation: 1}

// A stored table is what a host stores of one.
type stored struct {
	table  []byte
	blocks map[wire.Hash][]byte
}

// keep stores a table that covers a log.
func keep(t testing.TB, l *log.Log, table *log.Table, epoch, number uint64) stored {
	t.Helper()
	kept, blocks, err := l.Keep(table, epoch, number)
	if err != nil {
		t.Fatal(err)
	}
	s := stored{kept, map[wire.Hash][]byte{}}
	for _, b := range blocks {
		s.blocks[sha256.Sum256(b)] = b
	}
	return s
}

// ask answers with blocks, and with nothing for those that there are not.
func (s *stored) ask(hashes []wire.Hash) (got [][]byte, err error) {
	for _, hash := range hashes {
		got = append(got, s.blocks[hash])
	}
	return got, nil
}

// history appends n batches to a log, each moving one of seven organizations, and says that a table
// was made where cut is. It returns the headers, the log, and what is kept of the table.
func history(t testing.TB, k *log.Keys, place log.Place, n, cut int) (headers [][]byte, l *log.Log, kept stored) {
	t.Helper()
	l = log.Empty(k, place)
	add := func(leaf tlog.Leaf, tips []log.Tip, table *wire.TableHead) {
		leaf.Epoch, leaf.Number, leaf.Boot = 1, uint64(len(headers)+1), [16]byte{9}
		next, err := l.Next(leaf, tips, table)
		if err == nil {
			err = l.Append(next)
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, next.Header)
	}
	head := l.Head(new(log.Table))
	add(tlog.Leaf{Adopt: &tlog.Adopt{How: tlog.HowFirst, Table: log.Commitment(head)}}, nil, head)
	table := new(log.Table)
	var moved []log.Tip
	for i := range n {
		if i == cut {
			c, err := table.Update(moved, nil)
			if err != nil {
				t.Fatal(err)
			}
			kept = keep(t, l, c.Table, 1, uint64(len(headers)+1))
			head := l.Head(c.Table)
			add(tlog.Leaf{Table: &tlog.Table{Root: log.Commitment(head)}}, nil, head)
		}
		moved = slices.DeleteFunc(moved, func(m log.Tip) bool { return m.Organization == tip(uint64(i%7), 0).Organization })
		moved = append(moved, tip(uint64(i%7), uint64(i/7+1)))
		add(tlog.Leaf{}, moved[len(moved)-1:], nil)
	}
	return headers, l, kept
}

// BenchmarkBegin is what a boot does with what it was shown, besides asking and waiting: the table of 1,000,000 organizations,
// 1,024 batches behind it of 16 organizations each, and the page of one that is opened.
func BenchmarkBegin(b *testing.B) {
	const organizations, behind, moves = 1_000_000, 1024, 16
	k := newKeys(b, origin, 1)
	keeper := &keeper{pages: map[int][]byte{}}
	var tips []log.Tip
	for o := range uint64(organizations) {
		tips = append(tips, tip(o, 1))
	}
	change, err := new(log.Table).Update(tips, nil)
	if err != nil {
		b.Fatal(err)
	}
	table, l := keeper.keep(change), log.Empty(k, place)
	kept := keep(b, l, table, 1, 1)
	var headers [][]byte
	for i := range uint64(behind) {
		leaf := tlog.Leaf{Epoch: 1, Number: i + 1, Boot: [16]byte{9}}
		var moved []log.Tip
		var head *wire.TableHead
		if i == 0 {
			head = l.Head(table)
			leaf.Adopt = &tlog.Adopt{How: tlog.HowFirst, Table: log.Commitment(head)}
		} else {
			for o := range uint64(moves) {
				moved = append(moved, tip((i*moves+o)*61, 2))
			}
			slices.SortFunc(moved, func(x, y log.Tip) int { return bytes.Compare(x.Organization[:], y.Organization[:]) })
		}
		next, err := l.Next(leaf, moved, head)
		if err == nil {
			err = l.Append(next)
		}
		if err != nil {
			b.Fatal(err)
		}
		headers = append(headers, next.Header)
	}
	b.ReportAllocs()
	for b.Loop() {
		start, err := log.Begin(k, place, kept.table, kept.ask)
		if err != nil {
			b.Fatal(err)
		}
		from, table := start.Log, start.Table
		for _, header := range headers {
			if _, _, err := from.Follow(header); err != nil {
				b.Fatal(err)
			}
		}
		id := tips[7].Organization
		if _, exists, err := table.Find(id, keeper.pages[table.Page(id)]); err != nil || !exists || !from.Believed() || from.Root() != l.Root() {
			b.Fatal("not what was shown", err)
		}
	}
}

func TestLogFollowed(t *testing.T) {
	k := newKeys(t, origin, 1)
	headers, l, kept := history(t, k, place, 40, 20)
	var leaves [][]byte
	whole := log.Empty(k, place)
	if whole.Believed() {
		t.Error("a log is believed that nobody began")
	}
	for i, header := range headers {
		h, leaf, err := whole.Follow(header)
		if err != nil || h.Position != uint64(i) || leaf.Number != uint64(i+1) || !whole.Believed() {
			t.Fatalf("header %d: %+v, %v", i, h, err)
		}
		leaves = append(leaves, rfc6962.DefaultHasher.HashLeaf(h.Leaf))
	}
	if whole.Size() != l.Size() || whole.Last() != l.Last() || whole.Root() != l.Root() || !bytes.Equal(whole.Checkpoint(), l.Checkpoint()) || [32]byte(rootOf(leaves)) != l.Root() {
		t.Errorf("%d leaves with root %x, want %d with %x", whole.Size(), whole.Root(), l.Size(), l.Root())
	}
	start, err := log.Begin(k, place, kept.table, kept.ask)
	if err != nil || start.Log.Size() != 21 || start.Epoch != 1 || start.Number != 22 || start.Table.Tips() != 7 || start.Log.Believed() {
		t.Fatalf("%+v, %v", start, err)
	}
	from := start.Log
	for _, header := range headers[from.Size():] {
		if _, _, err := from.Follow(header); err != nil {
			t.Fatal(err)
		}
	}
	if !from.Believed() || from.Last() != l.Last() || from.Root() != l.Root() {
		t.Error("the log from its table on is another")
	}
	again := l.Clone()
	if _, _, err := again.Follow(headers[0]); err == nil || again.Root() != l.Root() {
		t.Error("a header is followed twice")
	}
}

// closed is a log that was closed for its next generation, and the headers up to there and on to n batches in that.
func closed(t testing.TB, k *log.Keys, n int) (headers [][]byte, l *log.Log, next *log.Log) {
	t.Helper()
	headers, l, _ = history(t, k, place, 9, 4)
	add := func(to *log.Log, leaf tlog.Leaf, table *wire.TableHead) {
		leaf.Epoch, leaf.Number, leaf.Boot = 2, uint64(len(headers)+1), [16]byte{9}
		b, err := to.Next(leaf, nil, table)
		if err == nil {
			err = to.Append(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, b.Header)
	}
	add(l, tlog.Leaf{Close: &tlog.Close{Origin: "next", Policy: [32]byte{7}}}, nil)
	next, err := l.NextGeneration("next.example", log.Force{Policy: [32]byte{7}, Mode: tlog.ModeStrict})
	if err != nil {
		t.Fatal(err)
	}
	head := next.Head(new(log.Table))
	for i := range n {
		if i == 0 {
			add(next, tlog.Leaf{Adopt: &tlog.Adopt{How: tlog.HowMoved, Origin: "before", Size: l.Size(), Root: l.Root(), Table: log.Commitment(head)}}, head)
			continue
		}
		add(next, tlog.Leaf{}, nil)
	}
	return headers, l, next
}

// A log that is closed goes on in its next generation, with other keys, and in no other way.
func TestGenerations(t *testing.T) {
	k := newKeys(t, origin, 1)
	headers, before, next := closed(t, k, 5)
	at := func(n int) *log.Log {
		l := log.Empty(k, place)
		for i, header := range headers[:n] {
			if _, _, err := l.Follow(header); err != nil {
				t.Fatal(i, err)
			}
		}
		return l
	}
	l := at(len(headers))
	if l.Generation() != 2 || l.Size() != 5 || l.Last() != next.Last() || l.Root() != next.Root() || !l.Believed() || l.CloseLeaf() != nil || l.Force() != next.Force() {
		t.Errorf("generation %d of %d leaves, force %v", l.Generation(), l.Size(), l.Force())
	}
	if l.Key().KeyHash() == before.Key().KeyHash() || next.Key().Name() != tlog.Origin.String(tlog.Origin{Name: "next.example", Deployment: origin.Deployment, Range: origin.Range, Generation: 2}) {
		t.Errorf("its key is %s", next.Key())
	}
	end := len(headers) - 5
	if c := at(end).CloseLeaf(); c == nil || c.Policy != [32]byte{7} {
		t.Errorf("closed with %v", c)
	}
	if _, err := before.Next(tlog.Leaf{}, nil, nil); err == nil {
		t.Error("a batch behind a log's end")
	}
	refuse := func(what string, l *log.Log, header []byte) {
		t.Helper()
		if _, _, err := l.Follow(header); err == nil {
			t.Errorf("%s: followed", what)
		}
	}
	refuse("the first of the next generation before the end", at(end-1), headers[end])
	refuse("the second of the next generation first", at(end), headers[end+1])
	longer, _, _ := history(t, k, place, 10, 4)
	refuse("more in the one before", at(end), longer[len(longer)-1])
	refuse("the generation before again", at(end+1), headers[end-1])
	// One that nobody closed is adopted by nobody.
	open, l, _ := history(t, k, place, 9, 4)
	moved, err := l.NextGeneration("next.example", log.Force{Policy: [32]byte{7}, Mode: tlog.ModeStrict})
	if err != nil {
		t.Fatal(err)
	}
	head := moved.Head(new(log.Table))
	slower := *head
	if slower.WaitMs = 1; log.Commitment(&slower) == log.Commitment(head) {
		t.Error("no leaf tells how long one waits")
	}
	for what, adopt := range map[string]*tlog.Adopt{
		"moved":         {How: tlog.HowMoved, Origin: "before", Size: l.Size(), Root: l.Root(), Table: log.Commitment(head)},
		"first":         {How: tlog.HowFirst, Size: l.Size(), Root: l.Root(), Table: log.Commitment(head)},
		"another table": {How: tlog.HowMoved, Origin: "before", Size: l.Size(), Root: l.Root()},
		"nothing":       nil,
	} {
		b, err := moved.Next(tlog.Leaf{Adopt: adopt}, nil, head)
		if err != nil {
			t.Fatal(err)
		}
		l := log.Empty(k, place)
		for _, header := range open {
			if _, _, err := l.Follow(header); err != nil {
				t.Fatal(err)
			}
		}
		refuse("adopted as "+what, l, b.Header)
	}
	// From a table of the second generation on nothing of the first is needed.
	empty, err := before.NextGeneration("next.example", log.Force{Policy: [32]byte{7}, Mode: tlog.ModeStrict})
	if err != nil {
		t.Fatal(err)
	}
	kept := keep(t, empty, new(log.Table), 2, uint64(end+1))
	start, err := log.Begin(k, place, kept.table, kept.ask)
	if err != nil || start.Log.Generation() != 2 || start.Epoch != 2 || start.Number != uint64(end+1) {
		t.Fatalf("%+v: %v", start, err)
	}
	from := start.Log
	for _, header := range headers[end:] {
		if _, _, err := from.Follow(header); err != nil {
			t.Fatal(err)
		}
	}
	if !from.Believed() || from.Root() != next.Root() || from.Force() != next.Force() {
		t.Error("the log from its table on is another")
	}
}

// rootOf is RFC 6962, section 2.1, word for word.
func rootOf(d [][]byte) []byte {
	if len(d) == 1 {
		return d[0]
	}
	k := 1
	for 2*k < len(d) {
		k *= 2
	}
	return rfc6962.DefaultHasher.HashChildren(rootOf(d[:k]), rootOf(d[k:]))
}

func TestFollowRefuses(t *testing.T) {
	k := newKeys(t, origin, 1)
	headers, _, kept := history(t, k, place, 9, 4)
	at := func(n int) *log.Log {
		l := log.Empty(k, place)
		for _, header := range headers[:n] {
			if _, _, err := l.Follow(header); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	refuse := func(what string, l *log.Log, header []byte) {
		t.Helper()
		size, root := l.Size(), l.Root()
		if _, _, err := l.Follow(header); err == nil || l.Size() != size || l.Root() != root {
			t.Errorf("%s: followed", what)
		}
	}
	for bit := range len(headers[5]) * 8 {
		b := bytes.Clone(headers[5])
		b[bit/8] ^= 1 << (bit % 8)
		refuse("another bit", at(5), b)
	}
	refuse("skipped", at(5), headers[6])
	refuse("twice", at(5), headers[4])
	refuse("nothing", at(5), nil)
	refuse("cut", at(5), headers[5][:len(headers[5])-1])
	refuse("a MAC alone", at(5), headers[5][len(headers[5])-32:])
	for i, other := range others(t) {
		theirs, _, _ := history(t, other, place, 9, 4)
		refuse("of another log", at(0), theirs[0])
		refuse("of another log", at(5), theirs[5])
		if _, _, err := at(5).Follow(theirs[5]); err == nil {
			t.Error(i)
		}
	}
	elsewhere := place
	elsewhere.Deployment[31] = 1 // the keys see the first half only
	theirs, _, _ := history(t, k, elsewhere, 9, 4)
	refuse("of a deployment with the same first half", at(0), theirs[0])
	fork, _, _ := history(t, k, place, 9, 5)
	refuse("of a fork", at(7), fork[7])

	// Another table than the log names is followed and never believed.
	var made wire.KeptTable
	if err := wire.Unmarshal(kept.table, &made); err != nil {
		t.Fatal(err)
	}
	// In format 1 pages follow without blocks.
	pages := made
	pages.Format, pages.Blocks = wire.KeptPages, bytes.Clone(kept.blocks[made.BlockHashes()[0]])
	believed := func(table []byte) bool {
		start, err := log.Begin(k, place, table, kept.ask)
		if err != nil {
			return false
		}
		for _, header := range headers[5:] {
			if _, _, err := start.Log.Follow(header); err != nil {
				break
			}
		}
		return start.Log.Believed()
	}
	whole, err := wire.Marshal(&pages)
	if err != nil || !believed(kept.table) || !believed(whole) {
		t.Fatal("the table that the log names is not believed", err)
	}
	pages.Blocks[0] ^= 1
	for what, change := range map[string]func(*wire.KeptTable){
		"previous": func(k *wire.KeptTable) { k.Previous[0] ^= 1 },
		"tips":     func(k *wire.KeptTable) { k.Tips-- },
		"block":    func(k *wire.KeptTable) { k.Blocks[0] ^= 1 },
		"page":     func(k *wire.KeptTable) { *k = pages },
		"format":   func(k *wire.KeptTable) { k.Format = wire.KeptPages },
		"edge":     func(k *wire.KeptTable) { k.Edge[0] ^= 1 },
		"covers":   func(k *wire.KeptTable) { k.Covers += 1 << 10; k.Edge = append(k.Edge, k.Edge[:32]...) },
		"policy":   func(k *wire.KeptTable) { k.Policy[0] ^= 1 },
		"mode":     func(k *wire.KeptTable) { k.Mode ^= 1 },
		"boot":     func(k *wire.KeptTable) { k.Boots++ },
		"manifest": func(k *wire.KeptTable) { k.ManifestNonce++ },
		"recovery": func(k *wire.KeptTable) { k.RecoveredMs++ },
		"wait":     func(k *wire.KeptTable) { k.WaitMs++ },
	} {
		c := made
		c.Blocks, c.Edge = bytes.Clone(made.Blocks), bytes.Clone(made.Edge)
		change(&c)
		b, err := wire.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		if believed(b) {
			t.Errorf("another %s is believed", what)
		}
	}
}

// A table of more pages than a block has hashes is read back block by block, and refused with any that is not its own.
func TestBlocks(t *testing.T) {
	k := newKeys(t, origin, 1)
	var tips []log.Tip
	for o := range uint64(3*wire.BlockPages*32 + 1) {
		tips = append(tips, tip(o, 1))
	}
	keeper := &keeper{pages: map[int][]byte{}}
	change, err := new(log.Table).Update(tips, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, l := keeper.keep(change), log.Empty(k, place)
	kept := keep(t, l, table, 1, 1)
	start, err := log.Begin(k, place, kept.table, kept.ask)
	if err != nil || len(start.Blocks) != 4 || start.Table.Root() != table.Root() || start.Table.Tips() != len(tips) {
		t.Fatal(start, err)
	}

	// A tip that moves changes one block.
	change, err = table.Update([]log.Tip{tip(7, 2)}, keeper.ask)
	if err != nil {
		t.Fatal(err)
	}
	again := keep(t, l, change.Table, 1, 2)
	for hash := range kept.blocks {
		delete(again.blocks, hash)
	}
	if len(again.blocks) != 1 {
		t.Errorf("%d blocks changed", len(again.blocks))
	}

	for what, lie := range map[string]func(got [][]byte) [][]byte{
		"withheld": func(got [][]byte) [][]byte { got[1] = nil; return got },
		"altered":  func(got [][]byte) [][]byte { got[1] = bytes.Clone(got[1]); got[1][5] ^= 1; return got },
		"swapped":  func(got [][]byte) [][]byte { got[0], got[1] = got[1], got[0]; return got },
		"shorter":  func(got [][]byte) [][]byte { got[3] = got[3][32:]; return got },
		"longer":   func(got [][]byte) [][]byte { got[3] = append(got[3], got[3]...); return got },
		"fewer":    func(got [][]byte) [][]byte { return got[:3] },
		"more":     func(got [][]byte) [][]byte { return append(got, got[0]) },
	} {
		_, err := log.Begin(k, place, kept.table, func(hashes []wire.Hash) ([][]byte, error) {
			got, err := kept.ask(hashes)
			return lie(got), err
		})
		if err == nil {
			t.Errorf("%s: it opens", what)
		}
	}
	away := errors.New("the host is away")
	if _, err := log.Begin(k, place, kept.table, func([]wire.Hash) ([][]byte, error) { return nil, away }); !errors.Is(err, away) {
		t.Error(err)
	}
}

func FuzzBegin(f *testing.F) {
	k := newKeys(f, origin, 1)
	headers, _, good := history(f, k, place, 9, 4)
	f.Add(good.table, []byte{}, headers[5])
	f.Add(good.table, make([]byte, 32), headers[5])
	f.Add([]byte{}, []byte{}, headers[0])
	f.Fuzz(func(t *testing.T, kept, block, header []byte) {
		l := log.Empty(k, place)
		start, err := log.Begin(k, place, kept, func(hashes []wire.Hash) ([][]byte, error) {
			if len(block) > 0 {
				return slices.Repeat([][]byte{block}, len(hashes)), nil
			}
			return good.ask(hashes)
		})
		if err == nil {
			l = start.Log
			if again, _, err := l.Keep(start.Table, 0, 0); err != nil || start.Table.Page([16]byte{1}) >= start.Table.Pages() {
				t.Fatalf("%x: %v", again, err)
			}
		}
		if l.Believed() {
			t.Fatal("believed before a header was followed")
		}
		if _, _, err := l.Follow(header); err == nil && !slices.ContainsFunc(headers, func(h []byte) bool { return bytes.Equal(h, header) }) {
			t.Fatal("followed a header that nobody has made")
		}
	})
}
