package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// testKeys checks that data keys are listed in order and in pages, and replaced only by
// the owner of the range.
func testKeys(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	const n = 7
	for i := uint64(1); i <= n; i++ {
		b := w.next(w.entry(id(i), 10))
		b.Keys = []wire.WrappedKey{{Organization: id(i), KeyID: 1, Sealed: fmt.Append(nil, "key ", i)}, {Organization: id(i), KeyID: 2, Sealed: fmt.Append(nil, "second ", i)}}
		verdict(t, s, b, wire.VerdictStored)
	}
	var last wire.ID
	for i := range last {
		last[i] = 0xff
	}
	all := func(from, to wire.ID) (got []string) {
		t.Helper()
		ask := wire.LoadKeys{From: from, To: to, Limit: 3}
		for {
			page := must(s.LoadKeys(t.Context(), ask))(t).Keys
			for _, k := range page {
				got = append(got, fmt.Sprintf("%x %d %s", k.Organization, k.KeyID, k.Sealed))
				ask.From, ask.FromKey = k.Organization, k.KeyID+1
			}
			if len(page) < 3 {
				return got
			}
		}
	}
	if got := all(wire.ID{}, last); len(got) != 2*n || got[0] != fmt.Sprintf("%x 1 key 1", id(1)) {
		t.Fatalf("%q", got)
	}
	if got := all(id(3), id(4)); len(got) != 4 {
		t.Fatalf("%q", got)
	}
	fresh := []wire.WrappedKey{{Organization: id(2), KeyID: 1, Sealed: []byte("anew")}, {Organization: id(99), KeyID: 1, Sealed: []byte("nobody")}}
	put := wire.PutKeys{Boot: w.boot, Epoch: w.epoch, Keys: fresh}
	for name, change := range map[string]func(*wire.PutKeys){
		"another boot":  func(p *wire.PutKeys) { p.Boot = id(77) },
		"another epoch": func(p *wire.PutKeys) { p.Epoch++ },
		"another range": func(p *wire.PutKeys) { p.Range = 5 },
	} {
		bad := put
		change(&bad)
		if done := must(s.PutKeys(t.Context(), bad))(t); done.OK {
			t.Errorf("%s: put", name)
		}
	}
	before := all(wire.ID{}, last)
	if done := must(s.PutKeys(t.Context(), put))(t); !done.OK {
		t.Fatal("not put")
	}
	got := all(wire.ID{}, last)
	if len(got) != len(before) {
		t.Fatalf("a key was added: %q", got)
	}
	changed := 0
	for i := range got {
		if got[i] != before[i] {
			changed++
		}
	}
	o := must(s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: id(2), MaxBytes: 1 << 20}))(t)
	if changed != 1 || len(o.Keys) != 2 || !bytes.Equal(o.Keys[1].Sealed, []byte("anew")) {
		t.Fatalf("%d changed: %q", changed, got)
	}
	if done := must(s.PutKeys(t.Context(), put))(t); !done.OK {
		t.Fatal("the same again is refused")
	}
	must(s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: id(78), Expect: w.epoch}))(t)
	if done := must(s.PutKeys(t.Context(), put))(t); done.OK {
		t.Error("put by a boot that lost the range")
	}
	for name, err := range map[string]error{
		"no keys":       refusal(s.PutKeys(t.Context(), wire.PutKeys{Boot: w.boot, Epoch: 1})),
		"many keys":     refusal(s.PutKeys(t.Context(), wire.PutKeys{Boot: w.boot, Epoch: 1, Keys: make([]wire.WrappedKey, wire.MaxKeysPage+1)})),
		"an empty key":  refusal(s.PutKeys(t.Context(), wire.PutKeys{Boot: w.boot, Epoch: 1, Keys: []wire.WrappedKey{{Organization: id(1), KeyID: 1}}})),
		"nobody's boot": refusal(s.PutKeys(t.Context(), wire.PutKeys{Epoch: 1, Keys: fresh})),
		"a large key": refusal(s.PutKeys(t.Context(), wire.PutKeys{Boot: w.boot, Epoch: 1, Keys: []wire.WrappedKey{{Organization: id(1), KeyID: 1,
			Sealed: make([]byte, store.MaxSealedKey+1)}}})),
		"no limit":     refusal(s.LoadKeys(t.Context(), wire.LoadKeys{To: last})),
		"a high limit": refusal(s.LoadKeys(t.Context(), wire.LoadKeys{To: last, Limit: wire.MaxKeysPage + 1})),
	} {
		if !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
