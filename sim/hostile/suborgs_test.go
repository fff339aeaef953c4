package hostile_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/hostile"
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

// A sub is a sub-organization, as its root user.
type sub struct {
	*client.User
	name, userName, email, address, wallet string
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
	key, root := client.NewKey(), f.Root()
	user := client.NewRootUser(userName, key)
	user["userEmail"] = email
	p := client.SubOrganization(name, user)
	p["wallet"] = client.Wallet("First", client.Ethereum)
	made := root.Do("CREATE_SUB_ORGANIZATION_V7", p)
	s := root.As(client.Text(made, "subOrganizationId"), client.Text(made, "rootUserIds", "0"), key)
	s.Send = func(ctx context.Context, q *client.Request) (client.Reply, error) { return client.Link(f.Link)(ctx, q) }
	f.subs = append(f.subs, sub{s, name, userName, email, client.Text(made, "wallet", "addresses", "0"), client.Text(made, "wallet", "walletId")})
}

func (f *family) ids(is func(int, *sub) bool) (ids []string) {
	for i := range f.subs {
		if is(i, &f.subs[i]) {
			ids = append(ids, f.subs[i].Organization)
		}
	}
	return ids
}

func (f *family) search(kind, value string, page client.Object) (int, []string) {
	f.t.Helper()
	q := client.Object{}
	if kind != "" {
		q["filterType"], q["filterValue"] = kind, value
	}
	if page != nil {
		q["paginationOptions"] = page
	}
	r, ids := f.Root().Query("list_suborgs", q), []string{}
	if l, ok := r.Get("organizationIds").([]any); ok {
		for _, id := range l {
			ids = append(ids, id.(string))
		}
	}
	return r.Status, ids
}

func (f *family) finds(what, kind, value string, want []string) {
	f.t.Helper()
	if status, got := f.search(kind, value, client.Object{"limit": "100"}); status != 200 || !slices.Equal(got, want) {
		f.t.Errorf("%s: %s %q: %d %v, want %v", what, kind, value, status, got, want)
	}
	var paged []string
	page := client.Object{"limit": "3"}
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
			f.finds(when, "PUBLIC_KEY", s.Key.PublicKey, []string{s.Organization})
			if s.address != "" {
				f.finds(when, "WALLET_ACCOUNT_ADDRESS", s.address, []string{s.Organization})
				f.finds(when, "WALLET_ACCOUNT_ADDRESS", strings.ToLower(s.address), []string{s.Organization})
			}
		}
	}
	all("as made")
	f.finds("nobody", "USERNAME", "Nobody", nil)
	f.finds("nobody", "WALLET_ACCOUNT_ADDRESS", "0x"+strings.Repeat("00", 20), nil)

	// Who is renamed, and who is gone, is found under the new name and not at all.
	rename := func(s *sub, name string) {
		s.Do("UPDATE_USER_NAME", client.Object{"userId": s.User.User, "userName": name})
	}
	rename(&f.subs[2], "Zoe")
	f.subs[2].userName = "Zoe"
	rename(&f.subs[4], "Other")
	rename(&f.subs[4], "Ann")
	gone := f.subs[5].address
	f.subs[5].Do("DELETE_WALLETS", client.Object{"walletIds": []any{f.subs[5].wallet}, "deleteWithoutExport": true})
	f.subs[5].address = ""
	f.subs[7].Do("DELETE_SUB_ORGANIZATION", client.Object{"deleteWithoutExport": true})
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
	if status, _ := f.search("USERNAME", "Bob", client.Object{"after": deleted.Organization}); status != 400 {
		t.Errorf("a deleted sub-organization as cursor: %d", status)
	}
	if rows := must(f.store.Store.PageIndex(t.Context(), wire.PageIndex{Key: f.key(deleted.address), Limit: 5})); len(rows.Rows) != 0 {
		t.Errorf("the host still has %d rows of it", len(rows.Rows))
	}

	// Its own users and the parent's see that a sub-organization has none; its
	// users see nothing of the parent.
	for _, u := range []*client.User{f.subs[0].User, f.Root()} {
		for _, q := range []client.Object{{}, {"filterType": "USERNAME", "filterValue": "Ann"}} {
			q["organizationId"] = f.subs[0].Organization
			if r := u.Query("list_suborgs", q); r.Status != 200 || len(r.Get("organizationIds").([]any)) != 0 {
				t.Errorf("of a sub-organization: %v", r)
			}
		}
	}
	if r := f.subs[0].Query("list_suborgs", client.Object{"organizationId": f.Credentials.OrganizationID}); r.Status != 401 {
		t.Errorf("the parent's, by a sub-organization's user: %v", r)
	}
	if r := f.Root().Query("list_verified_suborgs", nil); r.Status != 200 || len(r.Get("organizationIds").([]any)) != 0 {
		t.Errorf("verified: %v", r)
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
	foreign := f.Others()[0].Organization
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
			r.Rows = append(r.Rows, wire.IndexRow{Rank: last(r), Organization: wideID(other)})
		}, nil, ""},
		{"another's organization", func(r *wire.IndexRows) {
			r.Rows = append(r.Rows, wire.IndexRow{Rank: last(r), Organization: wideID(foreign)})
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
			page := client.Object{"limit": "50"}
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
