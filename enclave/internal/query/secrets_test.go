package query_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/org"
)

// secrets stores n secrets and returns their ids, the newest first.
func (w *world) secrets(n int) (ids []string) {
	w.change(func(tx *org.Tx) {
		for i := n; i > 0; i-- {
			s := &org.Secret{ID: org.ID{0, 0, byte(i), 6: 0x70, 8: 0x80}, CreatedMs: uint64(i)}
			if i == n {
				s.Name, s.Properties, s.CreatedMs, s.Exported = "Data\"base", []org.Property{{Key: "env", Value: "prod"}, {Key: "b"}, {Key: "a"}}, 1_700_000_000_001, true
			}
			w.must(tx.PutSecret(s))
			w.must(tx.PutSealedSecret(s.ID, []byte("sealed")))
			ids = append(ids, s.ID.String())
		}
	})
	return ids
}

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	if got := w.get("list_secrets", nil)["secrets"]; len(got.([]any)) != 0 {
		t.Error(got)
	}
	all := w.secrets(25)
	l := w.get("list_secrets", nil)["secrets"].([]any)
	first := object{"secretId": all[0], "name": "Data\"base", "createdAtUnixMs": "1700000000001",
		"staticProperties": []any{object{"key": "env", "value": "prod"}, object{"key": "b", "value": ""}, object{"key": "a", "value": ""}}}
	second := object{"secretId": all[1], "createdAtUnixMs": "24", "staticProperties": []any{}}
	if len(l) != 10 || !reflect.DeepEqual(l[0], any(first)) || !reflect.DeepEqual(l[1], any(second)) {
		t.Errorf("%v", l)
	}
	page := func(limit string, more ...string) object {
		p := object{"limit": limit}
		for i := 0; i+1 < len(more); i += 2 {
			p[more[i]] = more[i+1]
		}
		return object{"paginationOptions": p}
	}
	ids := func(q object) string { return strings.Join(pick(w.get("list_secrets", q)["secrets"], "secretId"), " ") }
	for _, limit := range []int{1, 7, 24, 25, 26, 100} {
		n := fmt.Sprint(limit)
		for at, id := range all {
			if got, want := ids(page(n, "after", id)), strings.Join(all[at+1:min(at+1+limit, 25)], " "); got != want {
				t.Errorf("%d after %d: %s, want %s", limit, at, got, want)
			}
			if got, want := ids(page(n, "before", id)), strings.Join(all[max(0, at-limit):at], " "); got != want {
				t.Errorf("%d before %d: %s, want %s", limit, at, got, want)
			}
		}
	}
	for _, c := range []string{"x", id('W', 9).String()} {
		w.refused("list_secrets", page("5", "after", c), 3, "unknown cursor")
		w.refused("list_secrets", page("5", "before", c), 3, "unknown cursor")
	}
	w.refused("list_secrets", page("101"), 3, "limit must be 1 to 100")
	w.refused("list_secrets", page("5", "before", all[3], "after", all[1]), 3, "before and after")
}

// A list loads what is known of secrets and not their bytes.
func TestSecretsAreListedWithoutTheirBytes(t *testing.T) {
	w := newWorld(t)
	large := make([]byte, 64<<10)
	w.change(func(tx *org.Tx) {
		for i := range 20 {
			s := &org.Secret{ID: org.ID{byte(i + 1), 6: 0x70, 8: 0x80}, CreatedMs: uint64(i)}
			w.must(tx.PutSecret(s))
			w.must(tx.PutSealedSecret(s.ID, large))
		}
	})
	stored := activitytest.Store(w.state)
	w.state.DropLoaded()
	before := w.state.Bytes()
	for {
		_, err := w.ask("list_secrets", nil)
		if err == nil {
			break
		}
		m, ok := err.(*org.Retry)
		if !ok {
			t.Fatal(err)
		}
		w.must(w.state.Install(m.LoadPiece, stored[m.LoadPiece]))
	}
	if grown := w.state.Bytes() - before; grown > 4*len(large) {
		t.Errorf("%d bytes were loaded", grown)
	}
}
