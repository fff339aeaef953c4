package tail_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/host/store/postgres"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/host/store/tree"
	"cloister/host/tail"
	"cloister/shared/wire"
	"cloister/sim/witness/witnesstest"
)

// An enclave appends to several stores at once, as one does to a store and its replicas: what it puts into the log is what
// a host reads of it.
type enclave struct {
	t             *testing.T
	in            wire.Range
	generation    uint32
	boot          wire.ID
	epoch, number uint64
	last          wire.Hash
	edge          *tree.Edge
	roots         []wire.Hash
	trees         map[wire.ID]*tree.Builder
	key           *witnesstest.Log
	adopt         *tlog.Adopt // of the next leaf, the first of a generation
	prior         map[wire.ID]uint64
}

func begin(t *testing.T, in wire.Range) *enclave {
	e := &enclave{t: t, in: in, trees: map[wire.ID]*tree.Builder{}, prior: map[wire.ID]uint64{}}
	e.next(1)
	return e
}

// next begins a generation.
func (e *enclave) next(generation uint32) {
	if e.edge != nil {
		e.adopt = &tlog.Adopt{How: tlog.HowMoved, Origin: e.key.Key.Name(), Size: e.edge.Size(), Root: must(e.edge.Root())(e.t)}
	}
	e.generation, e.edge = generation, must(tree.NewEdge(0, nil))(e.t)
	e.roots = []wire.Hash{must(e.edge.Root())(e.t)}
	e.key = witnesstest.NewLog(origin(e.in, generation))
}

// origin is that of a log of the deployment in the headers.
func origin(in wire.Range, generation uint32) string {
	return tlog.Origin{Name: "log.example", Range: uint16(in), Generation: generation}.String()
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// take begins an epoch in all stores.
func (e *enclave) take(boot byte, all ...store.Store) {
	e.t.Helper()
	e.boot, e.epoch, e.number = wire.ID{boot}, e.epoch+1, 0
	for _, s := range all {
		if owned := must(s.Own(e.t.Context(), wire.Own{Action: wire.OwnTake, Range: e.in, Boot: e.boot, Expect: e.epoch - 1}))(e.t); !owned.OK {
			e.t.Fatalf("%+v", owned)
		}
	}
}

// say appends a batch that gives each organization some entries; none: it only says something.
func (e *enclave) say(entries int, organizations []wire.ID, all ...store.Store) {
	e.t.Helper()
	e.number++
	leaf := tlog.Leaf{Format: tlog.LeafFormat, Boot: e.boot, Epoch: e.epoch, Number: e.number, Adopt: e.adopt}
	e.adopt = nil
	header := wire.BatchHeader{Format: 2, Range: e.in, Generation: e.generation, Position: e.edge.Size(), Previous: e.last, Leaf: must(leaf.Encode())(e.t)}
	b := &wire.Batch{Boot: e.boot, Range: e.in, Epoch: e.epoch, Number: e.number}
	for _, id := range organizations {
		if e.trees[id] == nil {
			e.trees[id] = tree.NewBuilder()
			b.Keys = append(b.Keys, wire.WrappedKey{Organization: id, KeyID: 1, Sealed: []byte("key")})
		}
		for range entries {
			seq := e.trees[id].Size()
			one := wire.Entry{Organization: id, Seq: seq, Sealed: fmt.Appendf(nil, "%s: entry %d of %x", strings.Repeat("sealed ", 10), seq, id), TimeMs: 5 + seq}
			if seq%3 != 0 {
				one.Activity, one.Type, one.Status, one.Prior = wire.ID{id[0], byte(seq / 10)}, "ACTIVITY_TYPE_X", 1, e.prior[wire.ID{id[0], byte(seq / 10)}]
				e.prior[one.Activity] = seq + 1
			}
			if seq == 0 || seq == 30 {
				one.Index = []wire.IndexChange{{Key: wire.Hash{byte(seq), 7}, Rank: uint64(id[0])}}
			}
			if seq%7 == 3 {
				one.Sends = []wire.SendMark{{Kind: 1, DueMs: 10}, {Kind: 2, DueMs: 20}}
			}
			must(e.trees[id].Add(tree.Leaf(one.Sealed)))(e.t)
			b.Entries = append(b.Entries, one)
		}
		header.Tips = append(header.Tips, wire.Tip{Organization: id, Count: e.trees[id].Size(), Root: must(e.trees[id].Root())(e.t)})
	}
	b.Header = append(must(wire.Marshal(&header))(e.t), make([]byte, 32)...)
	e.last = sha256.Sum256(b.Header)
	must(e.edge.Append(wire.Hash(tlog.HashLeaf(header.Leaf))))(e.t)
	e.roots = append(e.roots, must(e.edge.Root())(e.t))
	for _, s := range all {
		if got := must(s.Append(e.t.Context(), b))(e.t); got.Verdict != wire.VerdictStored {
			e.t.Fatalf("%+v", got)
		}
	}
}

// signed is the log's checkpoint where it stands, as a host keeps it.
func (e *enclave) signed(s store.Store) {
	e.t.Helper()
	c := tlog.Checkpoint{Origin: e.key.Key.Name(), Size: e.edge.Size(), Root: e.roots[e.edge.Size()]}
	note := e.key.Sign(c.Text())
	if err := s.PutCheckpoint(e.t.Context(), store.Checkpoint{Range: e.in, Generation: e.generation, Policy: "policy", Size: c.Size, Signed: note, CosignedSize: c.Size, Cosigned: note}); err != nil {
		e.t.Fatal(err)
	}
}

func inSQLite(t *testing.T) store.Store {
	t.Helper()
	s := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store")))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func object(t *testing.T, name, text string, all ...store.Store) {
	t.Helper()
	for _, s := range all {
		must(s.PutObject(t.Context(), wire.PutObject{Name: name, Bytes: []byte(text)}))(t)
	}
}

// rowsOf gives rows that are held in memory.
func rowsOf(rows []store.Row) tail.Rows {
	return func(_ context.Context, each func(store.Row) error) error {
		for _, r := range rows {
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// same holds that two stores have the same rows, but for who owned ranges, and objects' order.
func same(t *testing.T, a, b store.Store) {
	t.Helper()
	sorted := func(s store.Store) (owners int, rows []store.Row) {
		var objects []*store.ObjectRow
		for _, r := range storetest.Rows(t, s) {
			switch r := r.(type) {
			case *store.OwnerRow:
				owners++
			case *store.ObjectRow:
				objects = append(objects, r)
			case *store.SendRow:
				r.Revert, r.Memo = append([]byte{}, r.Revert...), append([]byte{}, r.Memo...) // no bytes or none
				rows = append(rows, r)
			default:
				rows = append(rows, r)
			}
		}
		slices.SortFunc(objects, func(a, b *store.ObjectRow) int { return strings.Compare(a.Name, b.Name) })
		for _, o := range objects {
			rows = append(rows, o)
		}
		return owners, rows
	}
	n, x := sorted(a)
	m, y := sorted(b)
	if n != m || len(x) != len(y) {
		t.Fatalf("%d owners and %d rows, and %d and %d", n, len(x), m, len(y))
	}
	for i := range x {
		if !reflect.DeepEqual(x[i], y[i]) {
			t.Fatalf("row %d is %+v, and %+v", i, x[i], y[i])
		}
	}
}

var organizations = []wire.ID{{1}, {2}, {3}}

// two are a store and one that lost what came last: over boots, with organizations that began since, and another generation.
func two(t *testing.T, whole, behind store.Store) *enclave {
	t.Helper()
	object(t, "genesis", "genesis", whole, behind)
	object(t, "keyring/1", "keyring", whole, behind)
	e := begin(t, 2)
	e.take(1, whole, behind)
	for i := range 60 {
		e.say(i%3, organizations[:1+i%2], whole, behind)
	}
	e.signed(behind)
	e.signed(whole)
	if owned := must(behind.Own(t.Context(), wire.Own{Action: wire.OwnRelease, Range: 2, Boot: e.boot, Expect: e.epoch}))(t); !owned.OK {
		t.Fatal(owned)
	}
	e.say(0, organizations[:1], whole) // says again where it stands
	for i := range 39 {
		e.say(1+i%3, organizations[i%3:], whole)
	}
	e.take(2, whole)
	for i := range 30 {
		e.say(0, organizations[1:1+i%2], whole)
		e.say(20, organizations[1:2], whole)
	}
	object(t, "keyring/2", "the next", whole)
	object(t, "bootproof/2", "proof", whole)
	e.signed(whole)
	return e
}

func TestCopy(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"sqlite": inSQLite,
		"postgres": func(t *testing.T) store.Store {
			s := must(postgres.Open(t.Context(), storetest.StartPostgres(t).Database()))(t)
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole, behind := inSQLite(t), open(t)
			e := two(t, whole, behind)
			got, err := tail.Copy(t.Context(), behind, whole.Export)
			if err != nil || len(got) != 1 || got[0].Range != 2 || got[0].Before != 60 || got[0].After != 160 || got[0].Batches != 100 || got[0].Signed != 160 || got[0].Cosigned != 160 {
				t.Fatalf("%+v %v", got, err)
			}
			same(t, whole, behind)
			if got, err := tail.Copy(t.Context(), behind, whole.Export); err != nil || len(got) != 0 {
				t.Fatalf("once more: %+v %v", got, err)
			}
			// The next boot goes on there.
			if owned := must(behind.Own(t.Context(), wire.Own{Action: wire.OwnTake, Range: 2, Boot: wire.ID{9}, Expect: e.epoch}))(t); !owned.OK {
				t.Fatal(owned)
			}
			e.boot, e.epoch, e.number = wire.ID{9}, e.epoch+1, 0
			e.say(5, organizations, behind)
			// And the other has nothing that this one lacks any more.
			if got, err := tail.Copy(t.Context(), behind, whole.Export); err != nil || len(got) != 0 {
				t.Fatalf("%+v %v", got, err)
			}
			if owned := must(behind.Own(t.Context(), wire.Own{Action: wire.OwnLook, Range: 2}))(t); owned.Released {
				t.Error("released for nothing")
			}
		})
	}
}

// A copy that somebody owns, since its enclave was killed, is taken from it.
func TestOwned(t *testing.T) {
	whole, behind := inSQLite(t), inSQLite(t)
	two(t, whole, behind)
	if owned := must(behind.Own(t.Context(), wire.Own{Action: wire.OwnTake, Range: 2, Boot: wire.ID{7}, Expect: 1}))(t); !owned.OK {
		t.Fatal(owned)
	}
	// An enclave was started here, and stored nothing yet.
	if got, err := tail.Copy(t.Context(), behind, whole.Export); !errors.Is(err, tail.ErrFit) || !strings.Contains(err.Error(), "was an enclave started") {
		t.Fatalf("%+v %v", got, err)
	}
	whole, behind = inSQLite(t), inSQLite(t)
	object(t, "genesis", "genesis", whole, behind)
	e := begin(t, 0)
	e.take(1, whole, behind)
	e.say(1, organizations, whole, behind)
	e.say(1, organizations, whole)
	if got, err := tail.Copy(t.Context(), behind, whole.Export); err != nil || len(got) != 1 || got[0].Signed != 0 {
		t.Fatalf("%+v %v", got, err)
	}
	same(t, whole, behind)
	if got := must(behind.Append(t.Context(), &wire.Batch{Boot: wire.ID{1}, Epoch: 1, Number: 3, Header: []byte("h")}))(t); got.Verdict != wire.VerdictSuperseded {
		t.Error("the enclave of before goes on", got)
	}
}

// An enclave was started on a copy that lacked something, and put its own there: two histories, from either side, whichever
// is longer.
func TestTwoHistories(t *testing.T) {
	for _, more := range []int{1, 5} {
		whole, behind := inSQLite(t), inSQLite(t)
		object(t, "genesis", "genesis", whole, behind)
		e := begin(t, 0)
		e.take(1, whole, behind)
		for range 4 {
			e.say(0, nil, whole, behind)
		}
		fork := *e
		fork.edge = e.edge.Clone()
		for range 3 {
			e.say(0, nil, whole)
		}
		fork.take(2, behind)
		for range more {
			fork.say(0, nil, behind)
		}
		for _, c := range [][2]store.Store{{whole, behind}, {behind, whole}} {
			before := storetest.Rows(t, c[0])
			got, err := tail.Copy(t.Context(), c[0], c[1].Export)
			if !errors.Is(err, tail.ErrFit) || !reflect.DeepEqual(before, storetest.Rows(t, c[0])) {
				t.Errorf("%+v %v", got, err)
			}
		}
	}
}

// A log that went over to another generation meanwhile, and one that begins in the tail.
func TestGenerations(t *testing.T) {
	whole, behind := inSQLite(t), inSQLite(t)
	object(t, "genesis", "genesis", whole, behind)
	e := begin(t, 0)
	e.take(1, whole, behind)
	for range 10 {
		e.say(1, organizations[:1], whole, behind)
	}
	e.say(1, organizations, whole)
	e.next(2)
	for range 5 {
		e.say(2, organizations, whole)
	}
	e.signed(whole)
	other := begin(t, 5)
	other.take(3, whole)
	other.say(4, []wire.ID{{50}}, whole)
	got, err := tail.Copy(t.Context(), behind, whole.Export)
	if err != nil || len(got) != 2 || got[0].Before != 10 || got[0].After != 5 || got[0].Signed != 5 || got[1].Range != 5 || got[1].Before != 0 || got[1].After != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	same(t, whole, behind)
}

// Each of two copies has a range of which the other lacks something: both give, and no object takes the place of another.
func TestBoth(t *testing.T) {
	one, two := inSQLite(t), inSQLite(t)
	object(t, "genesis", "genesis", one, two)
	object(t, "head/0", "one's", one)
	object(t, "head/0", "two's", two)
	a, b := begin(t, 0), begin(t, 1)
	a.take(1, one, two)
	b.take(2, one, two)
	a.say(1, organizations[:1], one, two)
	b.say(1, organizations[1:], one, two)
	a.say(1, organizations[:1], one)
	b.say(1, organizations[1:], two)
	if got, err := tail.Copy(t.Context(), one, two.Export); err != nil || len(got) != 1 || got[0].Range != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	if got := must(one.LoadObject(t.Context(), wire.LoadObject{Name: "head/0"}))(t); string(got.Bytes) != "one's" {
		t.Errorf("%q", got.Bytes)
	}
	if got, err := tail.Copy(t.Context(), two, one.Export); err != nil || len(got) != 1 || got[0].Range != 0 {
		t.Fatalf("%+v %v", got, err)
	}
}

// What does not fit is refused as a whole: the store stays as it is.
func TestRefused(t *testing.T) {
	whole, behind := inSQLite(t), inSQLite(t)
	two(t, whole, behind)
	rows, before := storetest.Rows(t, whole), storetest.Rows(t, behind)
	// at is the n-th row of a kind, from the end.
	at := func(k store.RowKind, n int) int {
		for i := len(rows) - 1; i >= 0; i-- {
			if rows[i].Kind() == k {
				if n--; n < 0 {
					return i
				}
			}
		}
		t.Fatal("no such row", k, n)
		return 0
	}
	with := func(i int, change func(store.Row) store.Row) []store.Row {
		all := slices.Clone(rows)
		if r := change(all[i]); r != nil {
			all[i] = r
			return all
		}
		return slices.Delete(all, i, i+1)
	}
	none := func(store.Row) store.Row { return nil }
	header := func(change func(h *wire.BatchHeader)) func(store.Row) store.Row {
		return func(r store.Row) store.Row {
			b := *r.(*store.BatchRow)
			h := new(wire.BatchHeader)
			if err := wire.Unmarshal(b.Header[:len(b.Header)-32], h); err != nil {
				t.Fatal(err)
			}
			change(h)
			b.Header = append(must(wire.Marshal(h))(t), b.Header[len(b.Header)-32:]...)
			return &b
		}
	}
	note := func(size uint64) []byte {
		c := tlog.Checkpoint{Origin: origin(2, 1), Size: size, Root: [32]byte{1}}
		return witnesstest.NewLog(c.Origin).Sign(c.Text())
	}
	newest := at(store.KindBatch, 0)
	for name, c := range map[string]struct {
		rows []store.Row
		says string
	}{
		"another deployment":       {with(at(store.KindObject, 3), func(store.Row) store.Row { return &store.ObjectRow{Name: "genesis", Bytes: []byte("other")} }), "another deployment"},
		"no deployment":            {with(at(store.KindObject, 3), none), "no genesis record"},
		"a batch is missing":       {with(at(store.KindBatch, 50), none), "does not continue"},
		"the first is missing":     {with(at(store.KindBatch, 99), none), "does not continue"},
		"the last here is another": {with(at(store.KindBatch, 100), header(func(h *wire.BatchHeader) { h.Previous[0] ^= 1 })), "is another here"},
		"a bit of a MAC": {with(at(store.KindBatch, 60), func(r store.Row) store.Row {
			b := *r.(*store.BatchRow)
			b.Header = bytes.Clone(b.Header)
			b.Header[len(b.Header)-1] ^= 1
			return &b
		}), "does not continue"},
		"another position":    {with(newest, header(func(h *wire.BatchHeader) { h.Position++ })), "elsewhere in the log"},
		"another range":       {with(newest, header(func(h *wire.BatchHeader) { h.Range = 1 })), "elsewhere in the log"},
		"another generation":  {with(newest, header(func(h *wire.BatchHeader) { h.Generation = 3 })), "elsewhere in the log"},
		"another place":       {with(newest, func(r store.Row) store.Row { b := *r.(*store.BatchRow); b.Number++; return &b }), "elsewhere in the store"},
		"no header":           {with(newest, func(r store.Row) store.Row { b := *r.(*store.BatchRow); b.Header = []byte("header"); return &b }), "a header of 6 bytes"},
		"a header of nothing": {with(newest, func(r store.Row) store.Row { b := *r.(*store.BatchRow); b.Header = make([]byte, 100); return &b }), "does not fit"},
		"a leaf of nothing":   {with(newest, header(func(h *wire.BatchHeader) { h.Leaf = []byte("leaf") })), "does not fit"},
		"another leaf": {with(newest, header(func(h *wire.BatchHeader) {
			leaf := must(tlog.ParseLeaf(h.Leaf))(t)
			leaf.Root[0] ^= 1
			h.Leaf = must(leaf.Encode())(t)
		})), "not those that the log has signed"},
		"a tip goes back":         {with(newest, header(func(h *wire.BatchHeader) { h.Tips[0].Count = 1 })), "moves an organization"},
		"another tip":             {with(newest, header(func(h *wire.BatchHeader) { h.Tips[0].Root[0] ^= 1 })), "do not lead to its tip"},
		"a tip of no entries":     {with(newest, header(func(h *wire.BatchHeader) { h.Tips[0].Count++ })), "by its tip"},
		"another new entry":       {with(at(store.KindEntry, 100), func(r store.Row) store.Row { e := *r.(*store.EntryRow); e.Sealed = []byte("other"); return &e }), "do not lead to its tip"},
		"another old entry":       {with(slices.IndexFunc(rows, func(r store.Row) bool { return r.Kind() == store.KindEntry }), func(r store.Row) store.Row { e := *r.(*store.EntryRow); e.Sealed = []byte("other"); return &e }), "has other entries here"},
		"an entry is missing":     {with(at(store.KindEntry, 100), none), "organization"},
		"an empty entry":          {with(at(store.KindEntry, 100), func(r store.Row) store.Row { e := *r.(*store.EntryRow); e.Sealed = nil; return &e }), "refused"},
		"another checkpoint":      {with(at(store.KindCheckpoint, 0), func(r store.Row) store.Row { c := *r.(*store.CheckpointRow); c.Signed = note(160); return &c }), "not those that the log has signed"},
		"another cosigned":        {with(at(store.KindCheckpoint, 0), func(r store.Row) store.Row { c := *r.(*store.CheckpointRow); c.Cosigned = note(150); return &c }), "not those that the log has signed"},
		"a larger checkpoint":     {with(at(store.KindCheckpoint, 0), func(r store.Row) store.Row { c := *r.(*store.CheckpointRow); c.Signed = note(161); return &c }), "the log has signed 161"},
		"a checkpoint of nothing": {with(at(store.KindCheckpoint, 0), func(r store.Row) store.Row { c := *r.(*store.CheckpointRow); c.Signed = []byte("x"); return &c }), "does not fit"},
	} {
		got, err := tail.Copy(t.Context(), behind, rowsOf(c.rows))
		if err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 600 {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if after := storetest.Rows(t, behind); !reflect.DeepEqual(before, after) {
			t.Fatalf("%s: the store was written to", name)
		}
	}
	lost := errors.New("lost")
	if _, err := tail.Copy(t.Context(), behind, func(context.Context, func(store.Row) error) error { return lost }); !errors.Is(err, lost) {
		t.Error(err)
	}
	if got, err := tail.Copy(t.Context(), behind, rowsOf(rows)); err != nil || len(got) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	same(t, whole, behind)
}
