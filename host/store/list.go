package store

import (
	"slices"

	"cloister/shared/wire"
)

// Answer collects proven entries until the frame of the answer is full.
type Answer struct {
	Proven wire.Proven
	bytes  int
}

// Add adds an entry. It returns false, and adds nothing, when the answer has entries and this one
// does not fit.
func (a *Answer) Add(e wire.ProvenEntry) bool {
	size := len(e.Sealed) + len(e.Proof)*(len(wire.Hash{})+2) + 32
	if len(a.Proven.Entries) > 0 && a.bytes+size > MaxAnswer {
		return false
	}
	a.bytes += size
	a.Proven.Entries = append(a.Proven.Entries, e)
	return true
}

// A Window is the part of an organization's list from which a page takes Limit places.
type Window struct {
	Low, High int64 // Low is in it, High is not
	Up        bool  // take the lowest places, not the highest
	Limit     int
}

// NewWindow makes the window of a page. cursor is the place of the activity that Before or After
// names, and not used when there is neither.
func NewWindow(ask wire.Page, organization, cursor int64) Window {
	w := Window{Low: Place(organization, 0), High: Place(organization, 0) + int64(ask.TreeSize), Limit: int(ask.Limit)}
	switch {
	case ask.Before != nil:
		w.Low, w.Up = cursor+1, true
	case ask.After != nil:
		w.High = cursor
	}
	return w
}

// Cut merges places from several indexes into a page: each once, highest first, at most Limit.
func (w Window) Cut(places []int64) []int64 {
	slices.Sort(places)
	places = slices.Compact(places)
	if !w.Up {
		slices.Reverse(places)
	}
	places = places[:min(len(places), w.Limit)]
	if w.Up {
		slices.Reverse(places)
	}
	return places
}
