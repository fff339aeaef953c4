// Package leavestest makes logs for tests: what an enclave puts into the store of one range's log.
package leavestest

import (
	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// A History is a range's log: its headers, where they stand, and the root at every size.
type History struct {
	Range         wire.Range
	Generation    uint32
	Epoch, Number uint64 // of the newest batch
	Rows          []*store.BatchRow
	Leaves        [][]byte
	Roots         []wire.Hash // by size, from 0
	Branch        byte        // others have other leaves
	edge          *tree.Edge
}

// New begins a log.
func New(in wire.Range, generation uint32) *History {
	return &History{Range: in, Generation: generation, Epoch: 1, edge: must(tree.NewEdge(0, nil)), Roots: []wire.Hash{must(tree.Root(0, nil))}}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Size is how many leaves there are.
func (h *History) Size() uint64 { return h.edge.Size() }

// tables are what a header may hold of a tip table.
var tables = []*wire.TableHead{nil, {Covers: 3, Tips: 4}}

// Grow adds batches; every hundredth begins another epoch, sometimes after one in which nothing was stored.
func (h *History) Grow(n int) {
	for range n {
		if h.Number++; h.Number > 100 {
			h.Epoch, h.Number = h.Epoch+1+h.Epoch%2, 1
		}
		leaf := tlog.Leaf{Format: tlog.LeafFormat, Epoch: h.Epoch, Number: h.Number, Root: [32]byte{h.Branch}}
		b := must(leaf.Encode())
		header := must(wire.Marshal(&wire.BatchHeader{Format: 2, Range: h.Range, Generation: h.Generation, Position: h.Size(), Leaf: b,
			Tips: make([]wire.Tip, h.Size()%3), Table: tables[h.Size()%2]}))
		h.Rows = append(h.Rows, &store.BatchRow{Range: uint32(h.Range), Epoch: h.Epoch, Number: h.Number, Header: append(header, make([]byte, 32)...)})
		h.Leaves = append(h.Leaves, b)
		must(h.edge.Append(wire.Hash(tlog.HashLeaf(b))))
		h.Roots = append(h.Roots, must(h.edge.Root()))
	}
}

// Fork has the first size batches, and will have others then.
func (h *History) Fork(size int) *History {
	f := New(h.Range, h.Generation)
	f.Branch = h.Branch
	f.Grow(size)
	f.Branch++
	return f
}

// Owner is the row of the range's owner.
func (h *History) Owner() *store.OwnerRow {
	return &store.OwnerRow{Range: uint32(h.Range), Boot: wire.ID{1}, Epoch: h.Epoch}
}

// Table is what the host keeps of a tip table that covers the first size batches, of which there is one more.
func (h *History) Table(size uint64) *store.TableRow {
	edge, hashes := must(tree.NewEdge(0, nil)), []byte(nil)
	for _, leaf := range h.Leaves[:size] {
		must(edge.Append(wire.Hash(tlog.HashLeaf(leaf))))
	}
	for _, n := range edge.Nodes() {
		hashes = append(hashes, n.Hash[:]...)
	}
	next := h.Rows[size]
	return &store.TableRow{Range: uint32(h.Range), Table: must(wire.Marshal(&wire.KeptTable{Format: wire.KeptFormat, Covers: size, Edge: hashes,
		Epoch: next.Epoch, Number: next.Number}))}
}

// A HeaderBeforeLogs is a header of a release before logs, of format 1.
type HeaderBeforeLogs struct {
	Format     uint8      `cbor:"1,keyasint"`
	Deployment wire.Hash  `cbor:"2,keyasint"`
	Boot       wire.ID    `cbor:"3,keyasint"`
	BootNumber uint64     `cbor:"4,keyasint"`
	Epoch      uint64     `cbor:"5,keyasint"`
	Number     uint64     `cbor:"6,keyasint"`
	Previous   wire.Hash  `cbor:"7,keyasint"`
	Tips       []wire.Tip `cbor:"8,keyasint"`
	Range      wire.Range `cbor:"9,keyasint,omitempty"`
}
