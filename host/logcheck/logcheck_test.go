package logcheck_test

import (
	"crypto/sha256"
	"errors"
	"testing"

	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
	"cloister/host/logcheck"
	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// A writer makes the batches of range 0.
type writer struct {
	t          *testing.T
	generation uint32
	number     uint64
	last       wire.Hash
	edge       *tree.Edge
	adopt      *tlog.Adopt
}

func (w *writer) root() wire.Hash {
	root, err := w.edge.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	return root
}

// begin begins a generation, which adopts the one before.
func (w *writer) begin(generation uint32, how tlog.How) {
	w.t.Helper()
	if w.edge != nil {
		w.adopt = &tlog.Adopt{How: how, Origin: origin(w.generation), Size: w.edge.Size(), Root: w.root()}
		if how == tlog.HowRecovered {
			w.adopt.Witnessed = w.edge.Size() + 5
		}
	}
	edge, err := tree.NewEdge(0, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.generation, w.edge = generation, edge
}

func (w *writer) next() *store.BatchRow {
	w.t.Helper()
	w.number++
	leaf := tlog.Leaf{Format: tlog.LeafFormat, Epoch: 1, Number: w.number, Adopt: w.adopt}
	w.adopt = nil
	b, err := leaf.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	header, err := wire.Marshal(&wire.BatchHeader{Format: 2, Generation: w.generation, Position: w.edge.Size(), Previous: w.last, Leaf: b})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.edge.Append(wire.Hash(tlog.HashLeaf(b))); err != nil {
		w.t.Fatal(err)
	}
	header = append(header, make([]byte, sha256.Size)...)
	w.last = sha256.Sum256(header)
	return &store.BatchRow{Epoch: 1, Number: w.number, Header: header}
}

func origin(generation uint32) string {
	return tlog.Origin{Name: "log.example", Generation: generation}.String()
}

// checkpoint is the log's, of size leaves with a root.
func checkpoint(generation uint32, size uint64, root wire.Hash) *store.Checkpoint {
	c := tlog.Checkpoint{Origin: origin(generation), Size: size, Root: root}
	note := []byte(c.Text() + "\n" + tlogtest.NewSigner(c.Origin, tlog.TypeLog, "log").Line(c.Text()))
	return &store.Checkpoint{Generation: generation, Size: size, Signed: note}
}

func follow(t *testing.T, l *logcheck.Log, w *writer, n int) {
	t.Helper()
	for range n {
		if _, _, err := l.Follow(w.next()); err != nil {
			t.Fatal(err)
		}
	}
}

func fresh(t *testing.T) *logcheck.Log {
	t.Helper()
	l, err := logcheck.New(0, wire.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Of a long log the newest leaves are known, and a checkpoint before them is not checked.
func TestLongLog(t *testing.T) {
	w, l := &writer{t: t}, fresh(t)
	w.begin(1, 0)
	follow(t, l, w, 100)
	early := w.root()
	follow(t, l, w, 1<<18-200)
	late := w.root()
	check := func(size uint64, root wire.Hash, want uint64, bad bool) {
		t.Helper()
		got, err := l.Check(checkpoint(1, size, root), false, logcheck.Trust{})
		if errors.Is(err, logcheck.ErrCheckpoint) != bad || err == nil && got.Signed != want {
			t.Errorf("%d leaves: %+v %v", size, got, err)
		}
	}
	check(100, early, 100, false)
	check(100, late, 0, true)
	follow(t, l, w, 200)
	check(100, late, 0, false)
	check(1<<18-100, late, 1<<18-100, false)
	check(1<<18-100, early, 0, true)
	check(1<<18+100, w.root(), 1<<18+100, false)
	check(1<<18+101, w.root(), 0, true)
}

// A generation that was recovered may have gone further elsewhere; one that was closed has not.
func TestEndedGenerations(t *testing.T) {
	for how, larger := range map[tlog.How]bool{tlog.HowMoved: false, tlog.HowRecovered: true} {
		w, l := &writer{t: t}, fresh(t)
		w.begin(1, 0)
		follow(t, l, w, 4)
		three := w.root()
		follow(t, l, w, 1)
		end := w.root()
		w.begin(2, how)
		follow(t, l, w, 2)
		for _, c := range []struct {
			size uint64
			root wire.Hash
			want uint64
			ok   bool
		}{{5, end, 5, true}, {5, three, 0, false}, {4, three, 0, true}, {6, end, 0, larger}} {
			got, err := l.Check(checkpoint(1, c.size, c.root), false, logcheck.Trust{})
			if (err == nil) != c.ok || got.Signed != c.want && c.ok {
				t.Errorf("%d, %d leaves: %+v %v", how, c.size, got, err)
			}
		}
		w.begin(1, tlog.HowMoved) // no generation comes back
		if _, _, err := l.Follow(w.next()); !errors.Is(err, logcheck.ErrChain) {
			t.Error(err)
		}
	}
}

// A log that is resumed goes on as one that was followed.
func TestResume(t *testing.T) {
	w, l := &writer{t: t}, fresh(t)
	w.begin(1, 0)
	follow(t, l, w, 7)
	other, err := logcheck.Resume(0, 1, w.edge.Clone(), w.last, l.At())
	if err != nil {
		t.Fatal(err)
	}
	row := w.next()
	for _, l := range []*logcheck.Log{l, other} {
		if _, _, err := l.Follow(row); err != nil || l.Size() != 8 || l.At() != (logcheck.Place{Epoch: 1, Number: 8}) {
			t.Fatal(err, l.Size(), l.At())
		}
		if got, err := l.Check(checkpoint(1, 8, w.root()), false, logcheck.Trust{}); err != nil || got.Signed != 8 {
			t.Error(got, err)
		}
		if _, _, err := l.Follow(row); !errors.Is(err, logcheck.ErrChain) {
			t.Error("twice:", err)
		}
	}
	if got, err := other.Check(checkpoint(1, 7, wire.Hash{}), false, logcheck.Trust{}); err != nil || got.Signed != 0 {
		t.Error("before what is known:", got, err)
	}
}
