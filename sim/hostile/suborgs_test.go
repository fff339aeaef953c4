package hostile_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/hostile"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// family is a parent with sub-organizations, on a store that can lie.
type family struct {
	*rig.Rig
	t     *testing.T
	store *hostile.Store
	root  rootSecret
	subs  []sub
}

type sub struct {
	id, name, user, userName, email, address, wallet string
	key                                              laptop.KeyPair
}

func newFamily(t *testing.T, n int) *family {
	dir := t.TempDir()
	s := must(sqlite.Open(t.Context(), filepath.Join(dir, "cloister.db")))
	f := &family{t: t, store: hostile.NewStore(s)}
	t.Cleanup(func() { _ = s.Close() })
	f.Rig = rig.Start(t, rig.Options{Dir: dir, Store: f.store, Root: &f.root, Organizations: 1})
	for i := range n {
		f.add(fmt.Sprintf("Sub %d", i/2), []string{"Ann", "Bob"}[i%2], fmt.Sprintf("%d@Example.org", i%3))
	}
	return f
}

func (f *family) add(name, userName, email string) {
	f.t.Helper()
	s := sub{name: name, userName: userName, email: email, key: must(laptop.NewKey())}
	status, m := f.Submit("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", map[string]any{
		"subOrganizationName": name, "rootQuorumThreshold": 1,
		"rootUsers": []any{map[string]any{"userName": userName, "userEmail": email, "authenticators": []any{}, "oauthProviders": []any{},
			"apiKeys": []any{map[string]any{"apiKeyName": "Key", "publicKey": s.key.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}},
		"wallet": map[string]any{"walletName": "First", "accounts": []any{account}},
	})
	if status != 200 {
		f.t.Fatalf("create_sub_organization: %d %v", status, m)
	}
	r := rig.Get(m, "activity", "result", "createSubOrganizationResultV7")
	s.id, s.user = rig.Text(r, "subOrganizationId"), rig.Text(r, "rootUserIds", "0")
	s.wallet, s.address = rig.Text(r, "wallet", "walletId"), rig.Text(r, "wallet", "addresses", "0")
	f.subs = append(f.subs, s)
}

func (f *family) ids(is func(int, *sub) bool) (ids []string) {
	for i := range f.subs {
		if is(i, &f.subs[i]) {
			ids = append(ids, f.subs[i].id)
		}
	}
	return ids
}

// as sends a request stamped by any key.
func (f *family) as(key laptop.KeyPair, endpoint wire.Endpoint, op string, body []byte) (int, map[string]any) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := f.Send(ctx, endpoint, op, body, key)
	if err != nil {
		f.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(reply.Body, &m); err != nil {
		f.t.Fatal(err)
	}
	return int(reply.Status), m
}

// do is an activity of a sub-organization's own user.
func (f *family) do(s *sub, op, typ string, parameters map[string]any) {
	f.t.Helper()
	if status, m := f.as(s.key, wire.EndpointSubmit, op, f.BodyOf(s.id, typ, parameters)); status != 200 {
		f.t.Fatalf("%s: %d %v", op, status, m)
	}
}

func (f *family) search(kind, value string, page map[string]any) (int, []string) {
	f.t.Helper()
	q := map[string]any{}
	if kind != "" {
		q["filterType"], q["filterValue"] = kind, value
	}
	if page != nil {
		q["paginationOptions"] = page
	}
	status, m := f.Query("list_suborgs", q)
	ids := []string{}
	if l, ok := m["organizationIds"].([]any); ok {
		for _, id := range l {
			ids = append(ids, id.(string))
		}
	}
	return status, ids
}

func (f *family) finds(what, kind, value string, want []string) {
	f.t.Helper()
	if status, got := f.search(kind, value, map[string]any{"limit": "100"}); status != 200 || !slices.Equal(got, want) {
		f.t.Errorf("%s: %s %q: %d %v, want %v", what, kind, value, status, got, want)
	}
	var paged []string
	page := map[string]any{"limit": "3"}
	for range 100 {
		status, got := f.search(kind, value, page)
		if paged = append(paged, got...); status != 200 || len(got) < 3 {
			break
		}
		page["after"] = got[2]
	}
	if !slices.Equal(paged, want) {
		f.t.Errorf("%s: %s %q in pages: %v, want %v", what, kind, value, paged, want)
	}
}

func (f *family) quiet() {
	f.t.Helper()
	for k, n := range f.Counters() {
		if strings.HasPrefix(k, "alarm_") && n != 0 {
			f.t.Errorf("%s = %d", k, n)
		}
	}
}

func TestFindingSubOrganizations(t *testing.T) {
	f := newFamily(t, 11)
	named := func(name string) func(int, *sub) bool { return func(_ int, s *sub) bool { return s.userName == name } }
	all := func(when string) {
		t.Helper()
		f.finds(when, "", "", f.ids(func(int, *sub) bool { return true }))
		for _, name := range []string{"Ann", "Bob", "ann", "Zoe"} {
			f.finds(when, "USERNAME", name, f.ids(named(name)))
		}
		for i := range f.subs {
			s := &f.subs[i]
			f.finds(when, "NAME", s.name, f.ids(func(_ int, o *sub) bool { return o.name == s.name }))
			f.finds(when, "EMAIL", strings.ToUpper(s.email), f.ids(func(_ int, o *sub) bool { return o.email == s.email }))
			f.finds(when, "PUBLIC_KEY", s.key.PublicKey, []string{s.id})
			if s.address != "" {
				f.finds(when, "WALLET_ACCOUNT_ADDRESS", s.address, []string{s.id})
				f.finds(when, "WALLET_ACCOUNT_ADDRESS", strings.ToLower(s.address), []string{s.id})
			}
		}
	}
	all("as made")
	f.finds("nobody", "USERNAME", "Nobody", nil)
	f.finds("nobody", "WALLET_ACCOUNT_ADDRESS", "0x"+strings.Repeat("00", 20), nil)

	// Who is renamed, and who is gone, is found under the new name and not at all.
	f.do(&f.subs[2], "update_user_name", "ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": f.subs[2].user, "userName": "Zoe"})
	f.subs[2].userName = "Zoe"
	f.do(&f.subs[4], "update_user_name", "ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": f.subs[4].user, "userName": "Other"})
	f.do(&f.subs[4], "update_user_name", "ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": f.subs[4].user, "userName": "Ann"})
	gone := f.subs[5].address
	f.do(&f.subs[5], "delete_wallets", "ACTIVITY_TYPE_DELETE_WALLETS", map[string]any{"walletIds": []any{f.subs[5].wallet}, "deleteWithoutExport": true})
	f.subs[5].address = ""
	f.do(&f.subs[7], "delete_sub_organization", "ACTIVITY_TYPE_DELETE_SUB_ORGANIZATION", map[string]any{"deleteWithoutExport": true})
	deleted := f.subs[7]
	f.subs = slices.Delete(f.subs, 7, 8)
	f.add("Late", "Ann", "late@example.org")
	all("changed")
	f.quiet()
	f.Kill()
	f.Rig = rig.Start(t, rig.Options{Dir: f.Dir.Path, Store: f.store, Root: &f.root})
	all("after a restart")
	f.finds("a deleted wallet", "WALLET_ACCOUNT_ADDRESS", gone, nil)
	f.finds("a deleted sub-organization", "WALLET_ACCOUNT_ADDRESS", deleted.address, nil)
	if status, _ := f.search("USERNAME", "Bob", map[string]any{"after": deleted.id}); status != 400 {
		t.Errorf("a deleted sub-organization as cursor: %d", status)
	}
	if rows := must(f.store.Store.PageIndex(t.Context(), wire.PageIndex{Key: f.key(deleted.address), Limit: 5})); len(rows.Rows) != 0 {
		t.Errorf("the host still has %d rows of it", len(rows.Rows))
	}

	// Its own users and the parent's see that a sub-organization has none; its
	// users see nothing of the parent.
	for _, key := range []laptop.KeyPair{f.subs[0].key, f.Credentials.RootAPIKey} {
		for _, q := range []string{"{\"organizationId\":%q}", "{\"organizationId\":%q,\"filterType\":\"USERNAME\",\"filterValue\":\"Ann\"}"} {
			if status, m := f.as(key, wire.EndpointQuery, "list_suborgs", fmt.Appendf(nil, q, f.subs[0].id)); status != 200 || len(m["organizationIds"].([]any)) != 0 {
				t.Errorf("of a sub-organization: %d %v", status, m)
			}
		}
	}
	if status, m := f.as(f.subs[0].key, wire.EndpointQuery, "list_suborgs", fmt.Appendf(nil, "{\"organizationId\":%q}", f.Credentials.OrganizationID)); status != 401 {
		t.Errorf("the parent's, by a sub-organization's user: %d %v", status, m)
	}
	if status, m := f.Query("list_verified_suborgs", nil); status != 200 || len(m["organizationIds"].([]any)) != 0 {
		t.Errorf("verified: %d %v", status, m)
	}
	f.quiet()
}

// key finds out under which key the enclave asks for an address.
func (f *family) key(address string) (key wire.Hash) {
	f.t.Helper()
	f.store.Arm(func(q, _ any) bool {
		if p, ok := q.(wire.PageIndex); ok {
			key = p.Key
		}
		return false
	})
	defer f.store.Disarm()
	f.search("WALLET_ACCOUNT_ADDRESS", address, nil)
	return key
}

// What a host says of the index may shorten a search. It cannot make it find what
// is not so, and whatever no honest host says is refused and counted.
func TestLyingIndex(t *testing.T) {
	f := newFamily(t, 12)
	other := f.Credentials.OrganizationID
	wid := func(id string) wire.ID { return wire.ID(must(hex.DecodeString(strings.ReplaceAll(id, "-", "")))) }
	var foreign []laptop.Organization
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(f.Dir.Path, "organizations.json"))), &foreign); err != nil {
		t.Fatal(err)
	}
	var allRows []wire.IndexRow // of Ann and Bob, in order
	for _, name := range []string{"Ann", "Bob"} {
		f.store.Arm(func(_, a any) bool {
			if rows, ok := a.(*wire.IndexRows); ok {
				allRows = append(allRows, rows.Rows...)
			}
			return false
		})
		f.search("USERNAME", name, nil)
	}
	f.store.Disarm()
	bobs := allRows[6:]
	anns := f.ids(func(_ int, s *sub) bool { return s.userName == "Ann" })
	last := func(r *wire.IndexRows) uint64 { return r.Rows[len(r.Rows)-1].Rank + 1 }
	for _, c := range []struct {
		what  string
		lie   func(*wire.IndexRows)
		want  []string // nil: refused and counted
		after string
	}{
		{"nothing", func(*wire.IndexRows) {}, anns, ""},
		{"none", func(r *wire.IndexRows) { r.Rows = nil }, []string{}, ""},
		{"one left out", func(r *wire.IndexRows) { r.Rows = slices.Delete(r.Rows, 2, 3) }, slices.Delete(slices.Clone(anns), 2, 3), ""},
		{"sub-organizations without the name", func(r *wire.IndexRows) {
			r.Rows = append(r.Rows, bobs...)
			slices.SortFunc(r.Rows, func(a, b wire.IndexRow) int { return int(a.Rank) - int(b.Rank) })
		}, anns, ""},
		{"those without the name alone", func(r *wire.IndexRows) { r.Rows = bobs }, []string{}, ""},
		{"one twice", func(r *wire.IndexRows) { r.Rows = slices.Insert(r.Rows, 1, r.Rows[0]) }, nil, ""},
		{"the wrong way round", func(r *wire.IndexRows) { slices.Reverse(r.Rows) }, nil, ""},
		{"two exchanged", func(r *wire.IndexRows) { r.Rows[3], r.Rows[4] = r.Rows[4], r.Rows[3] }, nil, ""},
		{"another rank", func(r *wire.IndexRows) { r.Rows[0].Rank-- }, nil, ""},
		{"more than asked for", func(r *wire.IndexRows) {
			for len(r.Rows) < 101 {
				r.Rows = append(r.Rows, wire.IndexRow{Rank: last(r), Organization: wire.ID{1}})
			}
		}, nil, ""},
		{"no organization", func(r *wire.IndexRows) {
			r.Rows = append(r.Rows, wire.IndexRow{Rank: last(r), Organization: wire.ID{1, 2, 3}})
		}, nil, ""},
		{"the parent", func(r *wire.IndexRows) {
			r.Rows = append(r.Rows, wire.IndexRow{Rank: last(r), Organization: wid(other)})
		}, nil, ""},
		{"another's organization", func(r *wire.IndexRows) {
			r.Rows = append(r.Rows, wire.IndexRow{Rank: last(r), Organization: wid(foreign[0].OrganizationID)})
		}, nil, ""},
		{"the cursor again", func(r *wire.IndexRows) { r.Rows = allRows[:3] }, nil, anns[0]},
		{"what lies above the cursor", func(r *wire.IndexRows) { r.Rows = allRows[:1] }, nil, anns[3]},
		{"behind the cursor, one left out", func(r *wire.IndexRows) { r.Rows = r.Rows[1:] }, anns[2:], anns[0]},
	} {
		t.Run(c.what, func(t *testing.T) {
			f.t = t
			before := f.Counters()["alarm_index"]
			f.store.Arm(func(_, a any) bool {
				rows, ok := a.(*wire.IndexRows)
				if ok {
					rows.Rows = slices.Clone(rows.Rows)
					c.lie(rows)
				}
				return ok
			})
			page := map[string]any{"limit": "50"}
			if c.after != "" {
				page["after"] = c.after
			}
			status, got := f.search("USERNAME", "Ann", page)
			told, alarms := f.store.CountChanged(), f.Counters()["alarm_index"]-before
			f.store.Disarm()
			switch {
			case told != 1:
				t.Errorf("told %d times", told)
			case c.want == nil && (status != 503 || alarms != 1):
				t.Errorf("%d %v, %d alarms; want it refused and counted", status, got, alarms)
			case c.want != nil && (status != 200 || !slices.Equal(got, c.want) || alarms != 0):
				t.Errorf("%d %v, %d alarms; want %v", status, got, alarms, c.want)
			}
		})
	}
	f.t = t
	f.finds("the truth again", "USERNAME", "Ann", anns)
}
