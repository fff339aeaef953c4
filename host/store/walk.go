package store

import (
	"fmt"

	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// A Walk makes the rows of organizations, by number, from entries in the order of their places, as
// both stores read them.
type Walk struct {
	ahead []*OrganizationRow // not begun yet
	each  func(Row) error
	at    *OrganizationRow
	tree  *tree.Builder
}

// NewWalk begins a walk over these organizations.
func NewWalk(organizations []*OrganizationRow, each func(Row) error) *Walk {
	return &Walk{ahead: organizations, each: each}
}

// Entry takes the next entry, with the leaf hash that is stored for it.
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

// begin ends an organization and begins the next.
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

// End ends the walk, with the organizations that have no entries.
func (w *Walk) End() error {
	for len(w.ahead) > 0 {
		if err := w.begin(); err != nil {
			return err
		}
	}
	return w.end()
}
