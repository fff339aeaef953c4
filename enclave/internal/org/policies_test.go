package org_test

import (
	"testing"

	"cloister/enclave/internal/org"
)

// What was made of the policies is gone as soon as one of them is another.
func TestPolicySet(t *testing.T) {
	s := org.NewState()
	begin := func() *org.Tx { return org.Begin(id(1), s, 1) }
	put := func(n byte) *org.Tx {
		tx := begin()
		if err := tx.PutPolicy(&org.Policy{ID: id(n)}); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	made := 0
	keep := func() { // as a reader does
		made++
		begin().KeepPolicySet(made)
	}
	want := func(what string, tx *org.Tx, want any) {
		t.Helper()
		if got := tx.PolicySet(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("nothing made", begin(), nil)
	put(1).Apply()
	keep()
	want("kept", begin(), 1)

	tx := put(2)
	want("a change that puts one", tx, nil)
	tx.KeepPolicySet("of a change that may never be")
	want("another change", begin(), 1)
	tx.Apply()
	want("one put", begin(), nil)

	keep()
	tx = begin()
	tx.DeletePolicy(id(2))
	want("a change that deletes one", tx, nil)
	tx.Apply()
	want("one deleted", begin(), nil)

	keep()
	tx = begin()
	if err := tx.PutUser(&org.User{ID: id(3)}); err != nil {
		t.Fatal(err)
	}
	want("a change of a user", tx, 3)
	tx.Apply()
	want("a user put", begin(), 3)
	foldAll(s)
	want("a snapshot", begin(), 3)

	ws, err := put(4).Writes()
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(ws)
	want("an entry replayed", begin(), nil)
}
