package activity

import "cloister/enclave/internal/org"

// Link carries what users of a sub-organization can be found by into its parent,
// in the same step. Families that change users need not think of it.
func (t *Tx) Link() error {
	o, err := t.Organization()
	if err != nil || o == nil || o.Parent.Zero() {
		return err
	}
	c := &org.Child{ID: t.ID, CreatedMs: o.CreatedMs}
	return t.EachChangedUser(func(before, after *org.User) error {
		if !org.LinkChanges(before, after) {
			return nil
		}
		parent, err := t.Above()
		if err != nil {
			return err
		}
		return parent.LinkUser(c, before, after)
	})
}
