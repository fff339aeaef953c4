package cosign_test

import (
	"bytes"
	"fmt"
	"testing"

	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// rootOf is the root to which a path leads from a leaf, by RFC 9162, section 2.1.3.2.
func rootOf(hash wire.Hash, index, size uint64, path []wire.Hash) wire.Hash {
	last := size - 1
	for _, beside := range path {
		if index&1 == 1 || index == last {
			hash = tree.Join(beside, hash)
			for index&1 == 0 && index > 0 {
				index, last = index>>1, last>>1
			}
		} else {
			hash = tree.Join(hash, beside)
		}
		index, last = index>>1, last>>1
	}
	return hash
}

// entered puts an organization beside a log, whose entries came in every seventh batch. Of the first one
// it is not known.
func entered(d *disk, h *history, id wire.ID) {
	rows := []store.Row{h.Owner()}
	for _, r := range h.Rows {
		rows = append(rows, r)
	}
	walk := store.NewWalk([]*store.OrganizationRow{{Number: 1, ID: id}}, func(r store.Row) error {
		rows = append(rows, r)
		return nil
	})
	for seq := uint64(0); 7*seq < h.size(); seq++ {
		e := &store.EntryRow{Seq: seq, Sealed: fmt.Appendf(nil, "entry %d", seq)}
		if in := h.Rows[7*seq]; seq > 0 {
			e.Batch = store.BatchPlace{Range: in.Range, Epoch: in.Epoch, Number: in.Number}
		}
		if err := walk.Entry(store.Place(1, seq), e, tree.Leaf(e.Sealed)); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := walk.End(); err != nil {
		d.t.Fatal(err)
	}
	d.fill(rows, map[wire.Range]int{h.Range: len(h.Rows)})
}

// testProveLogged: where an entry is in a log of which a checkpoint was brought to witnesses.
func testProveLogged(t *testing.T, d *disk) {
	for _, generation := range []uint32{1, 2} {
		h, id := begin(3, generation).grow(700), wire.ID{9}
		entered(d, h, id)
		all := watchers(t, 1, h)
		w := start(t, d, hung)
		ask := wire.ProveLogged{Range: 3, Generation: generation, Organization: id, Seq: 5, Size: 600}
		if got, err := w.ProveLogged(t.Context(), ask); err == nil {
			t.Errorf("a log that nobody has asked about: %+v", got)
		}
		w.cosigned(h, policy(1, all))
		for _, size := range []uint64{8, 256, 257, 600, 699, 700} {
			for seq := range uint64(100) {
				ask.Seq, ask.Size = seq, size
				index := 7 * seq
				got, err := w.ProveLogged(t.Context(), ask)
				if err != nil {
					t.Fatal(err)
				}
				if seq == 0 || index >= size {
					if len(got.Header) > 0 || len(got.Path) > 0 || len(got.First) > 0 {
						t.Errorf("entry %d under %d leaves: %+v", seq, size, got)
					}
					continue
				}
				if !bytes.Equal(got.Header, h.Rows[index].Header) || rootOf(tlog.HashLeaf(h.Leaves[index]), index, size, got.Path) != h.Roots[size] {
					t.Errorf("entry %d under %d leaves is elsewhere", seq, size)
				}
				if first := rootOf(tlog.HashLeaf(got.First), 0, size, got.FirstPath) == h.Roots[size]; first != (generation > 1) {
					t.Errorf("the first of %d leaves: %v", size, first)
				}
			}
		}
		ask.Seq, ask.Size = 5, 600
		for name, change := range map[string]func(*wire.ProveLogged){
			"no leaves":          func(a *wire.ProveLogged) { a.Size = 0 },
			"more leaves":        func(a *wire.ProveLogged) { a.Size = 701 },
			"far too many":       func(a *wire.ProveLogged) { a.Size = 1 << 63 },
			"another range":      func(a *wire.ProveLogged) { a.Range = 4 },
			"no range":           func(a *wire.ProveLogged) { a.Range = wire.MaxRanges },
			"another generation": func(a *wire.ProveLogged) { a.Generation = 3 },
		} {
			other := ask
			change(&other)
			if got, err := w.ProveLogged(t.Context(), other); err == nil {
				t.Errorf("%s: %+v", name, got)
			}
		}
		for name, change := range map[string]func(*wire.ProveLogged){
			"another organization": func(a *wire.ProveLogged) { a.Organization = wire.ID{8} },
			"no entry":             func(a *wire.ProveLogged) { a.Seq = 1000 },
			"no entry at all":      func(a *wire.ProveLogged) { a.Seq = 1 << 63 },
		} {
			other := ask
			change(&other)
			if got, err := w.ProveLogged(t.Context(), other); err != nil || len(got.Header) > 0 {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		// A batch that is asked about is looked for nowhere.
		ask.Header, ask.Seq = h.Rows[36].Header, 1000
		if got, err := w.ProveLogged(t.Context(), ask); err != nil || !bytes.Equal(got.Header, h.Rows[36].Header) || rootOf(tlog.HashLeaf(h.Leaves[36]), 36, 600, got.Path) != h.Roots[600] {
			t.Errorf("a batch that was asked about: %+v, %v", got, err)
		}
		ask.Header = h.Rows[650].Header
		if got, err := w.ProveLogged(t.Context(), ask); err != nil || len(got.Header) > 0 {
			t.Errorf("a batch behind the leaves: %+v, %v", got, err)
		}
		ask.Header = []byte("header")
		if got, err := w.ProveLogged(t.Context(), ask); err == nil {
			t.Errorf("a batch that is none: %+v", got)
		}
		ask.Header, ask.Seq = nil, 5
		d.away.Store(true)
		if got, err := w.ProveLogged(t.Context(), ask); err == nil {
			t.Errorf("without a store: %+v", got)
		}
		d.away.Store(false)
	}
}
