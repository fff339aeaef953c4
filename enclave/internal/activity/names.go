package activity

import "cloister/enclave/internal/org"

// Rename moves a name that must be unique among the things of one kind.
func Rename(tx *Tx, what byte, called, field, from, to string, id org.ID) error {
	holder, err := tx.IDByName(what, to)
	switch {
	case err != nil || holder == id:
		return err
	case !holder.Zero():
		return NotUnique(called, field)
	}
	tx.FreeName(what, from)
	return tx.TakeName(what, to, id)
}

// NewNamed draws an id for something and gives it its name, which must be free.
func NewNamed(tx *Tx, what byte, called, field, name string) (org.ID, error) {
	holder, err := tx.IDByName(what, name)
	if err != nil {
		return org.ID{}, err
	}
	if !holder.Zero() {
		return org.ID{}, NotUnique(called, field)
	}
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return org.ID{}, err
	}
	return id, tx.TakeName(what, name, id)
}

// FindUser finds the user whom an intent names by a UUID.
func FindUser(tx *Tx, text string) (*org.User, error) {
	id, _ := org.ParseID(text) // a UUID by its rule
	u, err := tx.Tx.User(id)
	return OrNotFound(u, err, "user", text)
}
