package store

import (
	"fmt"

	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// A Walk converts entries, in the order of their places, into an export's rows of organizations: for
// each an OrganizationRow, its entries and an EndRow. Both stores use it.
type Walk struct {
	ahead []*OrganizationRow // organizations without a row yet
	each  func(Row) error
	at    *OrganizationRow
	tree  *tree.Builder
}

// NewWalk makes a Walk over these organizations, which calls each with every row.
func NewWalk(organizations []*OrganizationRow, each func(Row) error) *Walk {
	return &Walk{ahead: organizations, each: each}
}

// Entry adds the next entry, with its stored leaf hash.
func (w *Walk) Entry(place int64, e *EntryRow, leaf wire.Hash) error {
	for w.at == nil || int64(w.at.Number) != place>>32 {
		if len(w.ahead) == 0 {
			return fmt.Errorf("entries of number %d are of no organization", place>>32)
		}
		if err := w.begin(); err != nil {
			return err
		}
	}
	if e.Seq != w.tree.Size() {
		return fmt.Errorf("organization %x has entry %d where %d comes next", w.at.ID, e.Seq, w.tree.Size())
	}
	if _, err := w.tree.Add(leaf); err != nil {
		return err
	}
	return w.each(e)
}

// begin ends the current organization and begins the next.
func (w *Walk) begin() error {
	if err := w.end(); err != nil {
		return err
	}
	w.at, w.ahead, w.tree = w.ahead[0], w.ahead[1:], tree.NewBuilder()
	return w.each(w.at)
}

func (w *Walk) end() error {
	if w.at == nil {
		return nil
	}
	root, err := w.tree.Root()
	if err != nil {
		return err
	}
	w.at = nil
	return w.each(&EndRow{Count: w.tree.Size(), Root: root})
}

// End ends the walk: it adds the organizations without entries and the last EndRow.
func (w *Walk) End() error {
	for len(w.ahead) > 0 {
		if err := w.begin(); err != nil {
			return err
		}
	}
	return w.end()
}
