package org_test

import (
	"reflect"
	"testing"

	"cloister/enclave/internal/org"
)

func TestTargets(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 0)
	full := filled[org.Target](t)
	must(t, tx.PutTarget(full))
	for i := byte(3); i > 0; i-- { // the order of ids is not that of age
		must(t, tx.PutTarget(&org.Target{ID: id(i), User: id(10), CreatedMs: uint64(10 - i)}))
		must(t, tx.PutTarget(&org.Target{ID: id(i), User: id(11)}))
	}
	tx = again(t, tx)
	if got, err := tx.Targets(full.User); err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], full) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, full)
	}
	order := func(user org.ID, want ...org.ID) {
		t.Helper()
		gs, err := tx.Targets(user)
		if err != nil || len(gs) != len(want) {
			t.Fatalf("%d targets, %v", len(gs), err)
		}
		for i, g := range gs {
			if g.ID != want[i] || g.User != user {
				t.Errorf("%d: %+v", i, g)
			}
		}
	}
	order(id(10), id(3), id(2), id(1))
	order(id(12))
	tx.DeleteTarget(id(10), id(2))
	tx.DeleteTarget(id(10), id(9))
	tx.DeleteTarget(id(12), id(1))
	order(id(10), id(3), id(1))
	must(t, tx.DeleteTargets(id(10)))
	must(t, tx.DeleteTargets(id(12)))
	order(id(10))
	order(id(11), id(1), id(2), id(3))
}

func TestTargetLives(t *testing.T) {
	g := &org.Target{CreatedMs: 1000, Boot: id(1)}
	for _, c := range []struct {
		boot  org.ID
		nowMs uint64
		want  bool
	}{
		{id(1), 1000, true}, {id(1), 999, true}, {id(1), 999 + org.TargetMs, true}, {id(1), 1000 + org.TargetMs, false}, {id(1), 1 << 62, false},
		{id(2), 1000, false}, {org.ID{}, 1000, false},
	} {
		if got := g.Live(c.boot, c.nowMs); got != c.want {
			t.Errorf("boot %v at %d: %v", c.boot, c.nowMs, got)
		}
	}
}

func TestBadTargetIsAnError(t *testing.T) {
	user := id(7)
	key := append(append([]byte{'P'}, user[:]...), make([]byte, 16)...)
	for name, b := range map[string][]byte{"unknown member": {0xa1, 0x18, 99, 0}, "no map": {0x00}, "short id": {0xa1, 1, 0x41, 0}, "indefinite": {0xbf, 0xff}, "trailing": {0xa0, 0}} {
		s := org.NewState()
		s.Apply([]org.Write{{Key: key, Value: b}})
		tx := org.Begin(id(1), s, 0)
		if gs, err := tx.Targets(user); err == nil {
			t.Errorf("%s: %+v", name, gs)
		}
		if err := tx.DeleteTargets(user); err == nil {
			t.Errorf("%s: deleted", name)
		}
	}
}
