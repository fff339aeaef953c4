package org_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/org"
)

// again reads what tx wrote from its encoded bytes alone, as another boot does.
func again(t *testing.T, tx *org.Tx) *org.Tx {
	t.Helper()
	ws, err := tx.Writes()
	if err != nil {
		t.Fatal(err)
	}
	s := org.NewState()
	s.Apply(ws)
	return org.Begin(tx.ID, s, 0)
}

// filled sets every field of a record to something.
func filled[T any](t *testing.T) *T {
	rec := new(T)
	n := byte(1)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		n++
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.String:
			v.SetString(fmt.Sprint("text ", n))
		case reflect.Uint8, reflect.Uint32, reflect.Uint64:
			v.SetUint(uint64(n))
		case reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0))
			fill(v.Index(1))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("FEATURE_NAME_X"), reflect.ValueOf("value"))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).Tag.Get("cbor") != "-" {
					fill(v.Field(i))
				}
			}
		default:
			t.Fatalf("a field of kind %s", v.Kind())
		}
	}
	fill(reflect.ValueOf(rec).Elem())
	return rec
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 5)
	o, u, w, k, c := filled[org.Organization](t), filled[org.User](t), filled[org.Wallet](t), filled[org.PrivateKey](t), filled[org.Child](t)
	a, cred := filled[org.Account](t), filled[org.Credential](t)
	a.Wallet = w.ID
	must(t, tx.PutOrganization(o))
	must(t, tx.PutUser(u))
	must(t, tx.PutWallet(w))
	must(t, tx.PutPrivateKey(k, []string{"match one", "match two"}))
	must(t, tx.PutChild(c))
	must(t, tx.PutAccount(a, "match three"))
	must(t, tx.PutCredential("CURVE", "02ab", cred))
	for _, tx := range []*org.Tx{tx, again(t, tx)} {
		same := func(got any, err error, want any) {
			t.Helper()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
		}
		got, err := tx.Organization()
		same(got, err, o)
		gotUser, err := tx.User(u.ID)
		same(gotUser, err, u)
		gotWallet, err := tx.Wallet(w.ID)
		same(gotWallet, err, w)
		gotKey, err := tx.PrivateKey(k.ID)
		same(gotKey, err, k)
		gotChild, err := tx.Child(c.ID)
		same(gotChild, err, c)
		gotAccount, err := tx.Account(w.ID, a.No)
		same(gotAccount, err, a)
		gotCred, err := tx.Credential("CURVE", "02ab")
		same(gotCred, err, cred)
		no, err := tx.AccountAt(w.ID, a.Path, a.Curve, a.Format)
		same(no, err, a.No)
		for match, want := range map[string]org.Owner{"match one": {ID: k.ID}, "match two": {ID: k.ID}, "match three": {ID: w.ID, No: a.No}} {
			owner, ok, err := tx.ByAddress(match)
			same(owner, err, want)
			if !ok {
				t.Errorf("%s is not found", match)
			}
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 0)
	must(t, tx.PutUser(&org.User{ID: id(2), Name: "Ann"}))
	must(t, tx.TakeName(org.NameUser, "Ann", id(2)))
	must(t, tx.PutCredential("CURVE", "02ab", &org.Credential{User: id(2)}))
	must(t, tx.PutWallet(&org.Wallet{ID: id(3)}))
	must(t, tx.PutAccount(&org.Account{Wallet: id(3), No: 1, Path: "m/0", Curve: "C", Format: "F"}, "m"))
	if o, err := tx.Organization(); o != nil || err != nil {
		t.Error(o, err)
	}
	if u, err := tx.User(id(3)); u != nil || err != nil {
		t.Error(u, err)
	}
	if w, err := tx.Wallet(id(2)); w != nil || err != nil {
		t.Error(w, err)
	}
	if k, err := tx.PrivateKey(id(3)); k != nil || err != nil {
		t.Error(k, err)
	}
	if c, err := tx.Child(id(3)); c != nil || err != nil {
		t.Error(c, err)
	}
	for _, no := range []uint64{0, 2, 1 << 40} {
		if a, err := tx.Account(id(3), no); a != nil || err != nil {
			t.Error(a, err)
		}
	}
	for _, c := range [][2]string{{"CURVE", "02AB"}, {"CURVE", "02a"}, {"CURVE:02", "ab"}, {"CURV", "E02ab"}, {"", "CURVE:02ab"}, {"OTHER", "02ab"}} {
		if cred, err := tx.Credential(c[0], c[1]); cred != nil || err != nil {
			t.Errorf("%q finds a credential", c)
		}
	}
	for _, p := range [][3]string{{"m/0", "C", "f"}, {"m/0", "", "F"}, {"m/1", "C", "F"}, {"m/0|C", "F", ""}} {
		if no, err := tx.AccountAt(id(3), p[0], p[1], p[2]); no != 0 || err != nil {
			t.Errorf("%q finds account %d", p, no)
		}
	}
	if no, err := tx.AccountAt(id(2), "m/0", "C", "F"); no != 0 || err != nil {
		t.Error("another wallet's path is found")
	}
	for _, m := range []string{"", "M", "m ", "mm"} {
		if _, ok, err := tx.ByAddress(m); ok || err != nil {
			t.Errorf("%q is an address", m)
		}
	}
	for _, n := range []struct {
		what byte
		name string
	}{{org.NameWallet, "Ann"}, {org.NameUser, "ann"}, {org.NameUser, ""}, {org.NameUserTag, "Ann"}, {org.NamePolicy, "Ann"}, {org.NamePrivateKey, "Ann"}} {
		if x, err := tx.IDByName(n.what, n.name); !x.Zero() || err != nil {
			t.Errorf("%c %q bears a name", n.what, n.name)
		}
	}
}

func TestDeleting(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 0)
	a := &org.Account{Wallet: id(3), No: 7, Path: "m/0", Curve: "C", Format: "F"}
	b := &org.Account{Wallet: id(4), No: 1, Path: "m/0", Curve: "C", Format: "F"}
	k := &org.PrivateKey{ID: id(5)}
	must(t, tx.PutAccount(a, "shared"))
	must(t, tx.PutAccount(b, "shared"))
	must(t, tx.PutPrivateKey(k, []string{"one", "two"}))
	must(t, tx.PutUser(&org.User{ID: id(6)}))
	must(t, tx.PutWallet(&org.Wallet{ID: id(3)}))
	must(t, tx.TakeName(org.NameWallet, "w", id(3)))
	must(t, tx.PutCredential("C", "k", &org.Credential{User: id(6)}))
	tx.Apply()
	tx.DeleteAccount(a, "shared")
	tx.DeletePrivateKey(k, []string{"one", "two"})
	tx.DeleteUser(id(6))
	tx.DeleteWallet(id(3))
	tx.FreeName(org.NameWallet, "w")
	tx.DeleteCredential("C", "k")
	for _, tx := range []*org.Tx{tx, again(t, tx)} {
		if x, err := tx.Account(a.Wallet, a.No); x != nil || err != nil {
			t.Error("the account is there", err)
		}
		if no, err := tx.AccountAt(a.Wallet, a.Path, a.Curve, a.Format); no != 0 || err != nil {
			t.Error("the path is there", err)
		}
		if o, ok, err := tx.ByAddress("shared"); !ok || o.ID != b.Wallet || err != nil {
			t.Error("the other wallet's account at this address is gone", o, err)
		}
		for _, m := range []string{"one", "two"} {
			if _, ok, err := tx.ByAddress(m); ok || err != nil {
				t.Error("the key's address is there", err)
			}
		}
		if x, err := tx.PrivateKey(k.ID); x != nil || err != nil {
			t.Error("the key is there", err)
		}
		if x, err := tx.User(id(6)); x != nil || err != nil {
			t.Error("the user is there", err)
		}
		if x, err := tx.Wallet(id(3)); x != nil || err != nil {
			t.Error("the wallet is there", err)
		}
		if x, err := tx.IDByName(org.NameWallet, "w"); !x.Zero() || err != nil {
			t.Error("the name is taken", err)
		}
		if x, err := tx.Credential("C", "k"); x != nil || err != nil {
			t.Error("the credential is there", err)
		}
	}
}

func TestNames(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 0)
	long := strings.Repeat("€", 255)
	must(t, tx.TakeName(org.NameUser, long, id(2)))
	must(t, tx.TakeName(org.NameWallet, long, id(3)))
	for what, want := range map[byte]org.ID{org.NameUser: id(2), org.NameWallet: id(3)} {
		if got, err := again(t, tx).IDByName(what, long); got != want || err != nil {
			t.Errorf("%c: %s, %v", what, got, err)
		}
	}
}

func TestLists(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 0)
	for i := byte(5); i > 0; i-- {
		must(t, tx.PutUser(&org.User{ID: id(i * 10)}))
		must(t, tx.PutWallet(&org.Wallet{ID: id(i * 10)}))
		must(t, tx.PutPrivateKey(&org.PrivateKey{ID: id(i * 10)}, nil))
	}
	for no := uint64(300); no > 0; no-- {
		must(t, tx.PutAccount(&org.Account{Wallet: id(20), No: no, Path: fmt.Sprint(no)}, fmt.Sprint(no)))
		must(t, tx.PutAccount(&org.Account{Wallet: id(10), No: no, Path: fmt.Sprint(no)}, fmt.Sprint(no)))
	}
	tx = again(t, tx)
	want := []org.ID{id(10), id(20), id(30), id(40), id(50)}
	var users, wallets, keys []org.ID
	must(t, tx.EachUser(func(u *org.User) bool { users = append(users, u.ID); return true }))
	must(t, tx.EachWallet(func(w *org.Wallet) bool { wallets = append(wallets, w.ID); return true }))
	must(t, tx.EachPrivateKey(func(k *org.PrivateKey) bool { keys = append(keys, k.ID); return len(keys) < 3 }))
	if !slices.Equal(users, want) || !slices.Equal(wallets, want) || !slices.Equal(keys, want[:3]) {
		t.Fatalf("%v\n%v\n%v", users, wallets, keys)
	}
	var nos []uint64
	must(t, tx.EachAccount(id(20), 254, func(a *org.Account) bool { nos = append(nos, a.No); return a.Wallet == id(20) && len(nos) < 5 }))
	if !slices.Equal(nos, []uint64{254, 255, 256, 257, 258}) {
		t.Fatal(nos)
	}
	n := 0
	must(t, tx.EachAccount(id(10), 0, func(a *org.Account) bool { n++; return a.Wallet == id(10) }))
	if n != 300 {
		t.Fatalf("%d accounts", n)
	}
}

func TestChildrenOf(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 0)
	for i := byte(1); i < 6; i++ {
		must(t, tx.PutChildKey(org.ChildProven, "C:k", &org.Child{ID: id(i * 10)}, org.ID{}))
		must(t, tx.PutChildKey(org.ChildProven, "C:l", &org.Child{ID: id(i * 10)}, org.ID{}))
	}
	tx.DeleteChildKey(org.ChildProven, "C:k", &org.Child{ID: id(10)}, org.ID{})
	tx = again(t, tx)
	if ids, err := tx.ChildrenBy(org.ChildProven, "C:k", nil, 2); !slices.Equal(ids, []org.ID{id(20), id(30)}) || err != nil {
		t.Fatal(ids, err)
	}
	if ids, err := tx.ChildrenBy(org.ChildProven, "C:k", nil, 100); len(ids) != 4 || err != nil {
		t.Fatal(ids, err)
	}
	if ids, err := tx.ChildrenBy(org.ChildProven, "D:k", nil, 100); len(ids) != 0 || err != nil {
		t.Fatal(ids, err)
	}
}

func TestAccountID(t *testing.T) {
	a := &org.Account{Wallet: id(0x10), No: 0x0102030405}
	if got := a.ID().String(); got != "10111213-1415-1617-1819-000102030405" {
		t.Fatal(got)
	}
	prefix, no := org.AccountNo(a.ID())
	if w := id(0x10); no != a.No || string(prefix[:]) != string(w[:10]) {
		t.Fatalf("%x, %d", prefix, no)
	}
	seen := map[org.ID]bool{}
	for no := range uint64(3000) {
		x := (&org.Account{Wallet: id(7), No: no}).ID()
		if _, back := org.AccountNo(x); back != no || seen[x] {
			t.Fatalf("number %d comes back as %d", no, back)
		}
		seen[x] = true
	}
	tx := org.Begin(id(1), org.NewState(), 0)
	must(t, tx.PutWallet(&org.Wallet{ID: id(0x10)}))
	must(t, tx.PutWallet(&org.Wallet{ID: id(0x30)}))
	w, no, err := tx.WalletOfAccount(a.ID())
	if err != nil || w == nil || w.ID != id(0x10) || no != a.No {
		t.Fatal(w, no, err)
	}
	if w, _, err := tx.WalletOfAccount((&org.Account{Wallet: id(0x11), No: 1}).ID()); w != nil || err != nil {
		t.Fatal("an account of no wallet")
	}
}

func TestExpiry(t *testing.T) {
	for _, c := range []struct {
		created, seconds, now uint64
		want                  bool
	}{
		{1000, 0, 1 << 62, false},
		{1000, 10, 1000, false},
		{1000, 10, 10_999, false},
		{1000, 10, 11_000, true},
		{1000, 10, 11_001, true},
		{1000, 10, 0, false},
		{1000, 1 << 63, 2000, false}, // as good as never
		{1000, 1<<64 - 1, 2000, false},
		{1<<64 - 1, 1, 5, false},
	} {
		k := org.APIKey{CreatedMs: c.created, ExpirationSeconds: c.seconds}
		if got := k.Expired(c.now); got != c.want {
			t.Errorf("made at %d for %d s, now %d: expired %v", c.created, c.seconds, c.now, got)
		}
	}
}

func TestRootUser(t *testing.T) {
	o := &org.Organization{RootUsers: []org.ID{id(1), id(2)}}
	if !o.Root(id(1)) || !o.Root(id(2)) || o.Root(id(3)) || o.Root(org.ID{}) || new(org.Organization).Root(org.ID{}) {
		t.Fatal("who is root is not who is listed")
	}
}

func TestBadRecordIsAnError(t *testing.T) {
	s := org.NewState()
	user := append([]byte{'B'}, make([]byte, 16)...)
	s.Apply([]org.Write{{Key: []byte("A"), Value: []byte{0xa1, 0x18, 99, 0}}, {Key: user, Value: []byte{0xff}}})
	tx := org.Begin(id(1), s, 0)
	if o, err := tx.Organization(); err == nil {
		t.Fatalf("%+v", o)
	}
	if u, err := tx.User(org.ID{}); err == nil {
		t.Fatalf("%+v", u)
	}
	if err := tx.EachUser(func(*org.User) bool { return true }); err == nil {
		t.Fatal("listed")
	}
}

func TestMissingReachesTheCaller(t *testing.T) {
	s, _, err := org.FromRefs([]org.PieceRef{{Ref: org.Hash{1}}, {Lo: []byte("a"), Ref: org.Hash{2}}})
	must(t, err)
	must(t, s.Install(org.Hash{1}, nil))
	tx := org.Begin(id(1), s, 0)
	must(t, tx.PutChildKey(org.ChildProven, "C:k", &org.Child{ID: id(9)}, org.ID{}))
	var miss *org.Retry
	for name, err := range map[string]error{
		"account":  second(tx.Account(id(3), 1)),
		"address":  third(tx.ByAddress("m")),
		"path":     second(tx.AccountAt(id(3), "m", "C", "F")),
		"child":    second(tx.Child(id(3))),
		"children": second(tx.ChildrenBy(org.ChildProven, "C:k", nil, 5)),
		"accounts": tx.EachAccount(id(3), 0, func(*org.Account) bool { return true }),
	} {
		if !errors.As(err, &miss) || miss.LoadPiece != (org.Hash{2}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }
