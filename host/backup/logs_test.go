package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
	"cloister/host/backup"
	"cloister/host/leaves/leavestest"
	"cloister/host/logcheck"
	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

// A logged is a store whose rows have the headers and checkpoints that enclaves and witnesses make: the first two batches are
// generation 1 of their range's log, all others generation 2.
type logged struct{ store.Store }

func (s logged) Export(ctx context.Context, each func(store.Row) error) error {
	l := new(maker)
	return s.Store.Export(ctx, func(r store.Row) error { return each(l.row(r)) })
}

// world is a generation of the log of range 0, with four witnesses of which three are a quorum.
func world(generation uint32) *tlogtest.World {
	return tlogtest.New(tlog.Origin{Name: "log.example", Deployment: [16]byte(deployment()[:16]), Generation: generation}.String(), 3, 4)
}

// A maker makes the headers and checkpoints of range 0.
type maker struct {
	worlds [2]*tlogtest.World
	last   wire.Hash
}

func (l *maker) row(r store.Row) store.Row {
	switch r := r.(type) {
	case *store.BatchRow:
		return l.batch(*r)
	case *store.CheckpointRow:
		return l.checkpoint(*r)
	}
	return r
}

func (l *maker) batch(r store.BatchRow) *store.BatchRow {
	leaf := tlog.Leaf{Format: tlog.LeafFormat, Boot: [16]byte{byte(r.Epoch)}, Epoch: r.Epoch, Number: r.Number}
	if l.worlds[0] == nil {
		l.worlds[0] = world(1)
	}
	if before := l.worlds[0]; before.Tree.Size() == 2 && l.worlds[1] == nil {
		l.worlds[1] = world(2)
		leaf.Adopt = &tlog.Adopt{How: tlog.HowMoved, Origin: before.Log.Name(), Size: 2, Root: before.Tree.Root(2)}
	}
	w, generation := l.worlds[0], uint32(1)
	if l.worlds[1] != nil {
		w, generation = l.worlds[1], 2
	}
	b, err := leaf.Encode()
	if err != nil {
		panic(err)
	}
	header, err := wire.Marshal(&wire.BatchHeader{Format: 2, Deployment: *deployment(), Generation: generation, Position: w.Tree.Size(), Previous: l.last, Leaf: b})
	if err != nil {
		panic(err)
	}
	w.Tree.Add(tlog.HashLeaf(b))
	r.Header = append(header, make([]byte, sha256.Size)...)
	l.last = sha256.Sum256(r.Header)
	return &r
}

func (l *maker) checkpoint(r store.CheckpointRow) *store.CheckpointRow {
	w := l.worlds[r.Generation-1]
	r.Policy, r.Size = w.Policy(), w.Tree.Size()
	r.CosignedSize = r.Size - r.Size/3
	r.Signed, r.Cosigned = w.Checkpoint(r.Size), w.Cosign(r.CosignedSize)
	return &r
}

// verified is Verify of rows.
func verified(t *testing.T, rows []store.Row, by backup.Trust) (*backup.Summary, error) {
	t.Helper()
	d := backup.Dir{Path: filepath.Join(t.TempDir(), "x")}
	rewritten(t, d, backup.Header{Release: "0.7", Schema: open.Schema(), Deployment: *deployment(), CreatedMs: nowMs}, rows)
	return backup.Verify(t.Context(), d, deployment(), open.Schema(), by)
}

func trust(t *testing.T, policy string, vkeys ...string) backup.Trust {
	t.Helper()
	by, err := logcheck.ParseTrust(policy, vkeys)
	if err != nil {
		t.Fatal(err)
	}
	return by
}

func TestLogs(t *testing.T) {
	rows := storetest.Rows(t, filled(t))
	w := world(2)
	others := tlogtest.New("other", 3, 5)
	others.Witnesses = others.Witnesses[1:] // w2 to w5, of which two have cosigned
	for name, c := range map[string]struct {
		by   backup.Trust
		want logcheck.Checked
		says string
	}{
		"by the stored policy":  {backup.Trust{}, logcheck.Checked{Origin: w.Log.Name(), Signed: 3, Cosigned: 2, Cosignatures: 3, Witnesses: 4}, ""},
		"by the operator's":     {trust(t, w.Policy(), w.Log.String()), logcheck.Checked{Origin: w.Log.Name(), Signed: 3, Cosigned: 2, Verified: true, Cosignatures: 3, Witnesses: 4, Given: true}, ""},
		"by another log's key":  {trust(t, "", others.Log.String()), logcheck.Checked{Origin: w.Log.Name(), Signed: 3, Cosigned: 2, Cosignatures: 3, Witnesses: 4}, ""},
		"by a key of that name": {trust(t, "", tlogtest.NewSigner(w.Log.Name(), tlog.TypeLog, "another").String()), logcheck.Checked{}, "is not by its key"},
		"by other witnesses":    {trust(t, others.Policy()), logcheck.Checked{}, "the checkpoint of 2 leaves has valid cosignatures of 2 witnesses, and a quorum is 3"},
	} {
		sum, err := verified(t, rows, c.by)
		if c.says != "" {
			if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "range 0: ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(sum.Logs) != 1 || sum.Logs[0] != (backup.LogSummary{Generation: 2, Leaves: 3, Checked: c.want}) {
			t.Errorf("%s: %+v %v", name, sum, err)
		}
	}
}

// What is wrong with a log is told with its range and batch, or the checkpoint, and what to do.
func TestDamagedLogs(t *testing.T) {
	rows := storetest.Rows(t, filled(t))
	var batches, checkpoints []int
	for i, r := range rows {
		switch r.Kind() {
		case store.KindBatch:
			batches = append(batches, i)
		case store.KindCheckpoint:
			checkpoints = append(checkpoints, i)
		}
	}
	if len(batches) != 5 || len(checkpoints) != 2 {
		t.Fatal(batches, checkpoints)
	}
	at := func(n int) *store.BatchRow { return rows[batches[n]].(*store.BatchRow) }
	where := func(n int) string {
		return fmt.Sprintf("range 0: batch %d of epoch %d: ", at(n).Number, at(n).Epoch)
	}
	with := func(i int, r store.Row) []store.Row {
		all := slices.Clone(rows)
		all[i] = r
		return all
	}
	batch := func(n int, change func(*wire.BatchHeader)) []store.Row {
		b := *at(n)
		h := new(wire.BatchHeader)
		if err := wire.Unmarshal(b.Header[:len(b.Header)-sha256.Size], h); err != nil {
			t.Fatal(err)
		}
		change(h)
		header, err := wire.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		b.Header = append(header, b.Header[len(b.Header)-sha256.Size:]...)
		return with(batches[n], &b)
	}
	leaf := func(change func(*tlog.Leaf)) func(*wire.BatchHeader) {
		return func(h *wire.BatchHeader) {
			l, err := tlog.ParseLeaf(h.Leaf)
			if err != nil {
				t.Fatal(err)
			}
			change(l)
			if h.Leaf, err = l.Encode(); err != nil {
				t.Fatal(err)
			}
		}
	}
	changed := leaf(func(l *tlog.Leaf) { l.Root[0] ^= 1 })
	swapped := slices.Clone(rows)
	third, fourth := *at(3), *at(4)
	third.Header, fourth.Header = fourth.Header, third.Header
	swapped[batches[3]], swapped[batches[4]] = &third, &fourth
	checkpoint := func(n int, change func(*store.CheckpointRow)) []store.Row {
		c := *rows[checkpoints[n]].(*store.CheckpointRow)
		change(&c)
		return with(checkpoints[n], &c)
	}
	signed := func(origin string, size uint64) []byte {
		return tlogtest.New(origin, 3, 4).Grow(size).Checkpoint(size)
	}
	w, other := world(2), tlog.Origin{Name: "log.example", Deployment: [16]byte{9}, Generation: 2}.String()
	for name, c := range map[string]struct {
		rows []store.Row
		says []string
	}{
		"a changed leaf":  {batch(1, changed), []string{where(2), "does not continue the batches before it"}},
		"the newest leaf": {batch(4, changed), []string{"range 0: wrong checkpoint: the first 3 leaves are not those that the log has signed", "batch 4 of epoch 2"}},
		"a bit of a MAC": {with(batches[0], func() store.Row {
			b := *at(0)
			b.Header = bytes.Clone(b.Header)
			b.Header[len(b.Header)-1] ^= 1
			return &b
		}()), []string{where(1), "does not continue"}},
		"a missing header":       {slices.Delete(slices.Clone(rows), batches[3], batches[3]+1), []string{"batch 4 of epoch 2 where 3 comes next"}},
		"the newest is missing":  {slices.Delete(slices.Clone(rows), batches[4], batches[4]+1), []string{"range 0: wrong checkpoint: there are 2 leaves, and the log has signed 3"}},
		"a swapped pair":         {swapped, []string{where(3), "does not continue"}},
		"no header":              {with(batches[2], func() store.Row { b := *at(2); b.Header = []byte("header"); return &b }()), []string{where(2), "cannot be read"}},
		"another range":          {batch(4, func(h *wire.BatchHeader) { h.Range = 3 }), []string{where(4), "leaf 2 of generation 2 of range 3"}},
		"another deployment":     {batch(4, func(h *wire.BatchHeader) { h.Deployment[0] ^= 1 }), []string{where(4), "of deployment"}},
		"another position":       {batch(4, func(h *wire.BatchHeader) { h.Position = 7 }), []string{where(4), "leaf 7 of generation 2"}},
		"another place":          {batch(4, leaf(func(l *tlog.Leaf) { l.Number = 9 })), []string{where(4), "its leaf says batch 9"}},
		"a generation's end":     {batch(2, leaf(func(l *tlog.Leaf) { l.Adopt.Size = 1 })), []string{where(2), "generation 2 does not begin where generation 1 ended, with 2 leaves"}},
		"a generation adopted":   {batch(2, leaf(func(l *tlog.Leaf) { l.Adopt.Root[0] ^= 1 })), []string{where(2), "does not begin"}},
		"a generation unadopted": {batch(2, leaf(func(l *tlog.Leaf) { l.Adopt = nil })), []string{where(2), "does not begin"}},
		"another origin":         {checkpoint(1, func(c *store.CheckpointRow) { c.Signed = signed(other, 3) }), []string{"range 0: ", "of another log"}},
		"an origin of nothing":   {checkpoint(1, func(c *store.CheckpointRow) { c.Signed = signed("log.example", 3) }), []string{"range 0: ", `its origin is "log.example"`}},
		"another generation's":   {checkpoint(1, func(c *store.CheckpointRow) { c.Signed = signed(world(1).Log.Name(), 2) }), []string{"range 0: ", "of another log"}},
		"above the leaves":       {checkpoint(1, func(c *store.CheckpointRow) { c.Size, c.Signed = 4, signed(w.Log.Name(), 4) }), []string{"range 0: ", "there are 3 leaves, and the log has signed 4"}},
		"of other leaves":        {checkpoint(1, func(c *store.CheckpointRow) { c.Signed = signed(w.Log.Name(), 3) }), []string{"range 0: ", "the first 3 leaves are not those"}},
		"cosigned other leaves":  {checkpoint(1, func(c *store.CheckpointRow) { c.Cosigned = signed(w.Log.Name(), 2) }), []string{"range 0: ", "the first 2 leaves are not those"}},
		"of an ended one":        {checkpoint(0, func(c *store.CheckpointRow) { c.Signed = signed(world(1).Log.Name(), 2) }), []string{"range 0: ", "the first 2 leaves are not those"}},
		"of no generation":       {checkpoint(1, func(c *store.CheckpointRow) { c.Generation, c.Signed = 3, signed(world(3).Log.Name(), 3) }), []string{"range 0: ", "generation 3, which has no leaf"}},
		"no note":                {checkpoint(1, func(c *store.CheckpointRow) { c.Signed = []byte("note") }), []string{"range 0: wrong checkpoint"}},
		"no cosignatures":        {checkpoint(1, func(c *store.CheckpointRow) { c.CosignedSize, c.Cosigned = c.Size, c.Signed }), []string{"range 0: ", "has valid cosignatures of 0 witnesses, and a quorum is 3"}},
		"no policy":              {checkpoint(1, func(c *store.CheckpointRow) { c.Policy = "policy" }), []string{"range 0: ", "the stored policy"}},
		"no leaf": {slices.DeleteFunc(slices.Clone(rows), func(r store.Row) bool { return r.Kind() == store.KindBatch }),
			[]string{"range 0: a checkpoint of 2 leaves, and no leaf"}},
	} {
		_, err := verified(t, c.rows, backup.Trust{})
		if !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in: %v", name, part, err)
			}
		}
	}
	// What cannot be verified can be restored: it may be all that is left.
	d := backup.Dir{Path: filepath.Join(t.TempDir(), "x")}
	rewritten(t, d, backup.Header{Release: "0.7", Schema: open.Schema(), Deployment: *deployment(), CreatedMs: nowMs}, batch(4, changed))
	if _, err := backup.Restore(t.Context(), d, empty(t), nil); err != nil {
		t.Error(err)
	}
}

// A log begins behind the batches of releases without one, and a backup of such a release has none.
func TestBeforeLogs(t *testing.T) {
	rows := storetest.Rows(t, filled(t))
	before := func(r *store.BatchRow) *store.BatchRow {
		header, err := wire.Marshal(&leavestest.HeaderBeforeLogs{Format: 1, Epoch: r.Epoch, Number: r.Number})
		if err != nil {
			t.Fatal(err)
		}
		return &store.BatchRow{Range: r.Range, Epoch: r.Epoch, Number: r.Number, Header: header}
	}
	some := func(n int) []store.Row { // the first n batches are of such a release
		l, all := new(maker), []store.Row{}
		for _, r := range rows {
			switch r := r.(type) {
			case *store.BatchRow:
				if n--; n >= 0 {
					all = append(all, before(r))
				} else {
					all = append(all, l.batch(*r))
				}
			case *store.CheckpointRow:
				if r.Generation == 1 && n < 0 {
					all = append(all, l.checkpoint(*r))
				}
			default:
				all = append(all, r)
			}
		}
		return all
	}
	if sum, err := verified(t, some(3), backup.Trust{}); err != nil || len(sum.Logs) != 1 || sum.Logs[0].Leaves != 2 || sum.Logs[0].Signed != 2 {
		t.Errorf("%+v %v", sum, err)
	}
	if sum, err := verified(t, some(5), backup.Trust{}); err != nil || len(sum.Logs) != 0 {
		t.Errorf("%+v %v", sum, err)
	}
	// Not in the middle of a log.
	all := slices.Clone(rows)
	i := slices.IndexFunc(all, func(r store.Row) bool { return r.Kind() == store.KindBatch }) + 1
	all[i] = before(all[i].(*store.BatchRow))
	if _, err := verified(t, all, backup.Trust{}); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "of a release without logs") {
		t.Error(err)
	}
	if _, err := logcheck.ParseTrust("policy", nil); err == nil {
		t.Error("a policy of nothing")
	}
	for _, vkey := range []string{"", "key", world(1).Witnesses[0].String()} {
		if _, err := logcheck.ParseTrust("", []string{vkey}); err == nil {
			t.Errorf("the key of a log: %q", vkey)
		}
	}
}
