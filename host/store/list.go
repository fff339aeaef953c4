package store

import (
	"slices"

	"cloister/shared/wire"
)

// Answer collects proven entries up to the size limit of a frame, MaxAnswer.
type Answer struct {
	Proven wire.Proven
	bytes  int
}

// Add adds an entry. It returns false, and adds nothing, if the entry does not fit; the first entry
// always fits.
func (a *Answer) Add(e wire.ProvenEntry) bool {
	size := len(e.Sealed) + len(e.Proof)*(len(wire.Hash{})+2) + 32
	if len(a.Proven.Entries) > 0 && a.bytes+size > MaxAnswer {
		return false
	}
	a.bytes += size
	a.Proven.Entries = append(a.Proven.Entries, e)
	return true
}

// A Window is the interval of an organization's places from which a page takes at most Limit.
type Window struct {
	Low, High int64 // Low inclusive, High exclusive
	Up        bool  // take the lowest places, not the highest
	Limit     int
}

// NewWindow makes the window of a page. cursor is the place of the activity that Before or After
// names; it is ignored if there is neither.
func NewWindow(ask wire.Page, organization, cursor int64) Window {
	w := Window{Low: Place(organization, 0), High: Place(organization, 0) + int64(ask.TreeSize), Limit: int(ask.Limit)}
	switch {
	case ask.Before != nil:
		w.Low, w.Up = cursor+1, true
	case ask.After != nil:
		w.High = cursor
	}
	if ask.End != nil && *ask.End < ask.TreeSize {
		w.High = min(w.High, Place(organization, *ask.End))
	}
	return w
}

// Cut merges the places found in several indexes into a page: without duplicates, highest first, at most Limit.
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

// BeginDeliveries returns the place that a Deliveries begins after: the end of the order if it names none.
func BeginDeliveries(ask wire.Deliveries) wire.DeliveryPlace {
	if ask.After != nil {
		return *ask.After
	}
	last := wire.DeliveryPlace{TimeMs: MaxTime, Send: wire.SendID{Seq: MaxSeq, Number: wire.MaxSends}}
	for i := range last.Send.Organization {
		last.Send.Organization[i] = 0xff
	}
	return last
}

// DeliveryList makes the answer to Deliveries.
func DeliveryList(sends []Send) (list wire.DeliveryList) {
	list.Deliveries = make([]wire.Delivery, len(sends))
	for i := range sends {
		x := &sends[i]
		list.Deliveries[i] = wire.Delivery{Send: x.ID, State: x.State, Tries: x.Tries, Text: x.Text, TimeMs: x.DueMs}
	}
	return list
}
