package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/shared/wire"
)

// later is the storage key after the first one.
func later(t testing.TB) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(secrettest.Of(bytes.Repeat([]byte{2}, seal.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func rotated(t testing.TB) func(*ledger.Config) {
	return func(c *ledger.Config) { c.PreviousStorage, c.Storage = c.Storage, later(t) }
}

// After a rotation every data key is wrapped anew, whether its organization is opened
// or not, and nothing else changes; then the storage key before is needed by nothing.
func TestRewrap(t *testing.T) {
	const n = 2*wire.MaxKeysPage + 10 // three pages
	s := newStore()
	r := start(t, s, nil)
	for i := range n {
		r.found(orgID(i))
	}
	r.user(orgID(1), 1, "Ada")
	r.l.Close()
	before := map[wire.ID]string{}
	for id, o := range s.orgs {
		before[id] = fmt.Sprint(o.entries, o.snap)
	}
	unopened, all, err := ledger.CountUnopened(ctx(t), s, later(t), deployment)
	if err != nil || unopened != n || all != n {
		t.Fatalf("%d of %d, %v", unopened, all, err)
	}
	r = start(t, s, rotated(t))
	r.mustRead(orgID(1), 1, "Ada")
	eventually(t, func() bool { return r.l.Stats()["data_keys_rewrapping"] == 0 }, func() string { return fmt.Sprint(r.l.Stats()) })
	if got := r.l.Stats()["data_keys_rewrapped"]; got != n {
		t.Fatalf("%d wrapped anew", got)
	}
	r.quiet()
	if unopened, all, err = ledger.CountUnopened(ctx(t), s, later(t), deployment); err != nil || unopened != 0 || all != n {
		t.Fatalf("%d of %d, %v", unopened, all, err)
	}
	r.l.Close()
	for id, o := range s.orgs {
		if fmt.Sprint(o.entries, o.snap) != before[id] {
			t.Fatal("a history changed")
		}
	}
	r = start(t, s, func(c *ledger.Config) { c.Storage = later(t) })
	r.mustRead(orgID(1), 1, "Ada")
	r.user(orgID(2), 2, "Grace")
	if _, ok := r.l.Stats()["data_keys_rewrapping"]; ok {
		t.Error("goes through keys although nothing has rotated")
	}
}

// What the host shows that it does not have, or in another order, is not wrapped, and
// what it leaves out still opens.
func TestRewrapFromALiar(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	for i := range 4 {
		r.found(orgID(i))
	}
	r.l.Close()
	for name, lie := range map[string]func(wire.Keys) wire.Keys{
		"backwards": func(k wire.Keys) wire.Keys { k.Keys[0], k.Keys[3] = k.Keys[3], k.Keys[0]; return k },
		"one twice": func(k wire.Keys) wire.Keys { k.Keys[1] = k.Keys[0]; return k },
		"too many": func(k wire.Keys) wire.Keys {
			for len(k.Keys) <= wire.MaxKeysPage {
				k.Keys = append(k.Keys, k.Keys...)
			}
			return k
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s.lie(hooks{keys: func(_ wire.LoadKeys, k wire.Keys) (wire.Keys, error) {
				if asked++; asked > 1 || len(k.Keys) < 4 {
					return k, nil // honest at last
				}
				return lie(k), nil
			}})
			unopened, _, err := ledger.CountUnopened(ctx(t), s, later(t), deployment)
			if err == nil {
				t.Fatalf("counted %d", unopened)
			}
			asked = 0
			r := start(t, s, rotated(t))
			eventually(t, func() bool {
				return r.alarms.Counts()[fault.AlarmKey.String()] > 0 && r.l.Stats()["data_keys_rewrapping"] == 0
			},
				func() string { return fmt.Sprint(r.l.Stats()) })
			for i := range 4 {
				if err := r.l.TransactOne(ctx(t), orgID(i), func(*ledger.Locked) error { return nil }); err != nil {
					t.Error(err)
				}
			}
			r.l.Close()
		})
	}
	// Another's wrapped key under an organization's name opens nothing.
	s.lie(hooks{})
	keys := s.of(wire.ID(orgID(0))).keys
	keys[0].Sealed = s.of(wire.ID(orgID(1))).keys[0].Sealed
	r = start(t, s, rotated(t))
	eventually(t, func() bool { return r.l.Stats()["data_keys_rewrapping"] == 0 }, func() string { return fmt.Sprint(r.l.Stats()) })
	if r.alarms.Counts()[fault.AlarmKey.String()] != 1 {
		t.Errorf("alarms: %v", r.alarms.Counts())
	}
}

// A host can't have an organization's keys be read again and again by listing the last number that a key can have.
func TestLastKeyNumber(t *testing.T) {
	var last wire.ID
	for i := range last {
		last[i] = 0xff
	}
	for name, id := range map[string]wire.ID{"an organization": {1}, "the last organization": last} {
		s, asked := newStore(), 0
		s.lie(hooks{keys: func(q wire.LoadKeys, k wire.Keys) (wire.Keys, error) {
			if asked++; asked > 2 {
				return k, errors.New("asked again")
			}
			for n := range uint32(wire.MaxKeysPage) {
				if bytes.Compare(q.From[:], id[:]) <= 0 {
					k.Keys = append(k.Keys, wire.WrappedKey{Organization: id, KeyID: math.MaxUint32 - wire.MaxKeysPage + 1 + n})
				}
			}
			return k, nil
		}})
		if unopened, all, err := ledger.CountUnopened(ctx(t), s, later(t), deployment); err != nil || unopened != wire.MaxKeysPage || all != unopened {
			t.Errorf("%s: %d of %d, %v", name, unopened, all, err)
		}
	}
}
