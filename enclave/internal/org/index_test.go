package org_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/org"
)

// compareDown reads from above through tx and holds it against want.
func (m *model) compareDown(tx *org.Tx, want map[string][]byte, prefix string) {
	m.t.Helper()
	to := prefix + "\xff"
	if k := m.key(); m.r.Intn(2) == 0 {
		to = prefix + k[1:]
	}
	limit := m.r.Intn(40)
	var keys []string
	for k := range want {
		if strings.HasPrefix(k, prefix) && k < to {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	slices.Reverse(keys)
	keys = keys[:min(len(keys), limit+1)]
	var got []string
	scan := func() error {
		got = nil
		return tx.ScanDownRaw(prefix, to, func(k string, b []byte) bool {
			if !bytes.Equal(b, want[k]) {
				m.t.Fatalf("scan from above shows other bytes under %q", k)
			}
			got = append(got, k)
			return len(got) <= limit
		})
	}
	for m.install(scan()) {
	}
	if !slices.Equal(got, keys) {
		m.t.Fatalf("scan of %q below %q shows\n%q, want\n%q", prefix, to, got, keys)
	}
}

func TestChildrenFromBothEnds(t *testing.T) {
	s := org.NewState()
	tx := org.Begin(id(1), s, 1)
	var all []org.Child
	for n := range 40 {
		c := org.Child{ID: id(byte(200 - 4*n)), CreatedMs: uint64(1000 + n/3)} // ids and times run against each other
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b org.Child) int {
		if a.CreatedMs != b.CreatedMs {
			return int(a.CreatedMs) - int(b.CreatedMs)
		}
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	for i := range all {
		must(t, tx.PutChild(&all[i]))
		for holder := range byte(1 + i%3) { // several users of one have it
			must(t, tx.PutChildKey(org.ChildEmail, "x", &all[i], id(holder)))
		}
		if i == 20 { // some lie in the state, some in the change
			tx.Apply()
			tx = org.Begin(id(1), s, 1)
		}
	}
	want := func(from, to int) (ids []org.ID) {
		for i := max(from, 0); i < min(to, len(all)); i++ {
			ids = append(ids, all[i].ID)
		}
		return ids
	}
	for i := range all {
		for _, limit := range []int{0, 1, 3, 100} {
			for what, got := range map[string]func() ([]org.ID, error){
				"above":    func() ([]org.ID, error) { return tx.ChildrenBefore(&all[i], limit) },
				"above by": func() ([]org.ID, error) { return tx.ChildrenByBefore(org.ChildEmail, "x", &all[i], limit) },
			} {
				if ids, err := got(); err != nil || !slices.Equal(ids, want(i-limit, i)) {
					t.Fatalf("%d %s the %dth: %v, %v", limit, what, i, ids, err)
				}
			}
			if ids, err := tx.Children(&all[i], limit); err != nil || !slices.Equal(ids, want(i+1, i+1+limit)) {
				t.Fatalf("%d behind the %dth: %v, %v", limit, i, ids, err)
			}
		}
	}
	for _, value := range []string{"", "y", "X"} {
		if ids, err := tx.ChildrenByBefore(org.ChildEmail, value, &all[39], 100); len(ids) != 0 || err != nil {
			t.Fatalf("by %q: %v, %v", value, ids, err)
		}
	}
	if ids, _ := tx.ChildrenByBefore(org.ChildPhone, "x", &all[39], 100); len(ids) != 0 {
		t.Fatalf("by phone: %v", ids)
	}
}

// handles lists what a change says of handles.
func handles(t *testing.T, tx *org.Tx) (out []string) {
	t.Helper()
	must(t, tx.EachChangedHandle(func(h org.Handle, has bool) error {
		name := "?"
		for _, v := range []string{"ann", "bob", "0xa", "0xb", "0xc"} {
			for _, what := range []byte{org.HandleUserName, org.HandleAddress} {
				if h == org.NewHandle(what, v) {
					name = string(what) + " " + v
				}
			}
		}
		if now, err := tx.Has(h); now != has || err != nil {
			t.Errorf("%s: has %v, %v, visited with %v", name, now, err, has)
		}
		sign := "-"
		if has {
			sign = "+"
		}
		out = append(out, sign+name)
		return nil
	}))
	slices.Sort(out)
	return out
}

func TestChangedHandles(t *testing.T) {
	s := org.NewState()
	step := func(what string, change func(tx *org.Tx), want ...string) {
		t.Helper()
		tx := org.Begin(id(1), s, 1)
		change(tx)
		if got := handles(t, tx); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		tx.Apply()
	}
	account := func(wallet byte, no uint64, path string) *org.Account {
		return &org.Account{Wallet: id(wallet), No: no, Path: path}
	}
	step("nothing", func(*org.Tx) {})
	step("names of others than users", func(tx *org.Tx) {
		for _, what := range []byte{org.NameWallet, org.NamePrivateKey, org.NameUserTag, org.NamePolicy} {
			must(t, tx.TakeName(what, "ann", id(9)))
		}
		must(t, tx.PutChildKey(org.ChildName, "ann", &org.Child{ID: id(8)}, id(9)))
		must(t, tx.PutUser(&org.User{ID: id(9), Name: "ann"})) // the name counts, not the record
	})
	step("a user", func(tx *org.Tx) { must(t, tx.TakeName(org.NameUser, "ann", id(2))) }, "+u ann")
	step("a user renamed", func(tx *org.Tx) {
		tx.FreeName(org.NameUser, "ann")
		must(t, tx.TakeName(org.NameUser, "bob", id(2)))
	}, "+u bob", "-u ann")
	step("a name that goes from one to the other", func(tx *org.Tx) {
		tx.FreeName(org.NameUser, "bob")
		must(t, tx.TakeName(org.NameUser, "bob", id(3)))
	}, "+u bob")
	step("a user who came and went", func(tx *org.Tx) {
		must(t, tx.TakeName(org.NameUser, "ann", id(2)))
		tx.FreeName(org.NameUser, "ann")
	}, "-u ann")
	step("an account", func(tx *org.Tx) { must(t, tx.PutAccount(account(4, 1, "m/0"), "0xa")) }, "+a 0xa")
	step("the address in another wallet and in a key", func(tx *org.Tx) {
		must(t, tx.PutAccount(account(5, 1, "m/0"), "0xa"))
		must(t, tx.PutPrivateKey(&org.PrivateKey{ID: id(6)}, []string{"0xa", "0xb"}))
	}, "+a 0xa", "+a 0xb")
	step("one of three", func(tx *org.Tx) { tx.DeleteAccount(account(4, 1, "m/0"), "0xa") }, "+a 0xa")
	step("one of two, another comes", func(tx *org.Tx) {
		tx.DeleteAccount(account(5, 1, "m/0"), "0xa")
		must(t, tx.PutAccount(account(5, 2, "m/1"), "0xc"))
	}, "+a 0xa", "+a 0xc")
	step("the last", func(tx *org.Tx) {
		tx.DeletePrivateKey(&org.PrivateKey{ID: id(6)}, []string{"0xa", "0xb"})
	}, "-a 0xa", "-a 0xb")
	var all []org.Handle
	must(t, org.Begin(id(1), s, 1).EachHandle(func(h org.Handle) bool { all = append(all, h); return true }))
	if want := []org.Handle{org.NewHandle(org.HandleUserName, "bob"), org.NewHandle(org.HandleAddress, "0xc")}; !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	n := 0
	must(t, org.Begin(id(1), s, 1).EachHandle(func(org.Handle) bool { n++; return false }))
	if n != 1 {
		t.Errorf("went on: %d", n)
	}
	if bytes.Equal(org.NewHandle('u', "x").Bytes(), org.NewHandle('a', "x").Bytes()) {
		t.Error("handles of two kinds are one")
	}
	stop := errors.New("stop")
	tx := org.Begin(id(1), s, 1)
	must(t, tx.TakeName(org.NameUser, "ann", id(2)))
	if err := tx.EachChangedHandle(func(org.Handle, bool) error { return stop }); err != stop {
		t.Error(err)
	}
}

// Addresses lie in pieces that may be absent: what was dropped is looked for
// there, what was put is not.
func TestHandlesOfAbsentPieces(t *testing.T) {
	m := newModel(t, 0)
	tx := org.Begin(id(1), m.state, 1)
	for n := range 3000 {
		must(t, tx.PutAccount(&org.Account{Wallet: id(4), No: uint64(n + 1), Path: fmt.Sprint(n)}, fmt.Sprint(n)))
	}
	tx.Apply()
	ws, err := org.Begin(id(1), m.state, 1).Writes()
	must(t, err)
	if len(ws) != 0 {
		t.Fatal(len(ws))
	}
	m.store = foldAll(m.state)
	m.state.DropLoaded()
	put := org.Begin(id(1), m.state, 1)
	must(t, put.PutAccount(&org.Account{Wallet: id(4), No: 4000, Path: "x"}, "x"))
	if err := put.EachChangedHandle(func(_ org.Handle, has bool) error { return nil }); err != nil {
		t.Errorf("a put: %v", err)
	}
	gone := org.Begin(id(1), m.state, 1)
	gone.DeleteAccount(&org.Account{Wallet: id(4), No: 8, Path: "7"}, "7")
	visit := func() error {
		return gone.EachChangedHandle(func(_ org.Handle, has bool) error {
			if has {
				t.Error("it is gone")
			}
			return nil
		})
	}
	if err := visit(); !errors.As(err, new(*org.Retry)) {
		t.Errorf("a drop: %v", err)
	}
	for m.install(visit()) {
	}
}
