package query_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/stamp"
)

// index is a host's index in memory, and what the sub-organizations themselves
// would say.
type index struct {
	rows  map[org.Handle][]org.Child
	lacks map[org.ID]bool // those that do not have what their row says
	asked int             // Has
	paged int             // Rows
	fails error
}

func (w *world) Child(id org.ID) (*org.Child, error) { return w.tx().Child(id) }

func (w *world) Rows(h org.Handle, before, after *org.Child, limit int) ([]org.Child, error) {
	w.index.paged++
	if w.index.fails != nil {
		return nil, w.index.fails
	}
	all := w.index.rows[h]
	from, to := 0, len(all)
	for i := range all {
		switch {
		case after != nil && all[i].ID == after.ID:
			from = i + 1
		case before != nil && all[i].ID == before.ID:
			to = i
		}
	}
	if before != nil {
		from = max(from, to-limit)
	}
	return slices.Clone(all[from:min(to, from+limit)]), nil
}

func (w *world) Has(c *org.Child, h org.Handle) (bool, error) {
	w.index.asked++
	return !w.index.lacks[c.ID] && slices.ContainsFunc(w.index.rows[h], func(r org.Child) bool { return r.ID == c.ID }), nil
}

// Identity knows one token.
func (w *world) Identity(field, token string) (issuer, subject string, audiences []string, attempt org.Hash, err error) {
	if token != "good" {
		return "", "", nil, org.Hash{}, fault.Field(field, "no such token")
	}
	return "https://issuer.example", "me", []string{"web", "ios"}, org.Hash{1}, nil
}

func child(n int) org.Child {
	return org.Child{ID: org.ID{'S', byte(n >> 8), byte(n), 0, 0, 0, 0x40, 0, 0x80, 15: 1}, Name: fmt.Sprint("sub ", n), CreatedMs: uint64(1000 + n/2)}
}

// children makes n sub-organizations: the third and every third behind it has
// the e-mail address, every fifth the name Fifth.
func (w *world) children(n int) (ids []string) {
	w.change(func(tx *org.Tx) {
		for i := range n {
			c := child(i)
			if i%5 == 0 {
				c.Name = "Fifth"
			}
			w.must(tx.PutChild(&c))
			w.must(tx.PutChildKey(org.ChildName, c.Name, &c, org.ID{}))
			u := &org.User{ID: id('U', byte(i)), Phone: fmt.Sprint("+1555", i)}
			if i%3 == 2 {
				u.Email, u.EmailVerified = "Third@Example.org", i%2 == 0
			}
			if i == 4 {
				u.PhoneVerified = true
				u.APIKeys = []org.APIKey{{PublicKey: "02" + strings.Repeat("ab", 32), Type: "CREDENTIAL_TYPE_API_KEY_P256"},
					{PublicKey: "03" + strings.Repeat("ab", 32), Type: "CREDENTIAL_TYPE_LOGIN", ExpirationSeconds: 9}}
			}
			if i == 6 || i == 1 {
				u.APIKeys = []org.APIKey{{PublicKey: "02" + strings.Repeat("ab", 32), Type: "CREDENTIAL_TYPE_API_KEY_SECP256K1"}}
			}
			if i == 7 {
				u.APIKeys = []org.APIKey{{PublicKey: strings.Repeat("cd", 32), Type: "CREDENTIAL_TYPE_API_KEY_ED25519"}}
				u.Authenticators = []org.Authenticator{{CredentialID: []byte{0xfb, 0xff, 1}}}
			}
			w.must(tx.LinkUser(&c, nil, u))
			ids = append(ids, c.ID.String())
		}
	})
	return ids
}

func every(ids []string, is func(int) bool) (out []string) {
	for i, s := range ids {
		if is(i) {
			out = append(out, s)
		}
	}
	return out
}

// listed asks for sub-organizations.
func (w *world) listed(op, kind, value string, page object) ([]string, error) {
	w.t.Helper()
	r := object{}
	if kind != "" {
		r["filterType"], r["filterValue"] = kind, value
	}
	if page != nil {
		r["paginationOptions"] = page
	}
	m, err := w.ask(op, r)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, s := range m["organizationIds"].([]any) {
		ids = append(ids, s.(string))
	}
	return ids, nil
}

func TestSuborgsInState(t *testing.T) {
	w := newWorld(t)
	ids := w.children(20)
	key := strings.Repeat("ab", 32)
	for _, c := range []struct {
		op, kind, value string
		want            []string
	}{
		{"list_suborgs", "", "", ids},
		{"list_suborgs", "NAME", "Fifth", every(ids, func(i int) bool { return i%5 == 0 })},
		{"list_suborgs", "NAME", "sub 3", ids[3:4]},
		{"list_suborgs", "NAME", "fifth", nil},
		{"list_suborgs", "EMAIL", "third@example.org", every(ids, func(i int) bool { return i%3 == 2 })},
		{"list_suborgs", "EMAIL", "THIRD@EXAMPLE.ORG", every(ids, func(i int) bool { return i%3 == 2 })},
		{"list_suborgs", "EMAIL", "third@example", nil},
		{"list_suborgs", "PHONE_NUMBER", "+15557", ids[7:8]},
		{"list_suborgs", "PHONE_NUMBER", "15557", nil},
		{"list_suborgs", "PUBLIC_KEY", "02" + key, []string{ids[1], ids[4], ids[6]}}, // on two curves
		{"list_suborgs", "PUBLIC_KEY", strings.ToUpper("02" + key), []string{ids[1], ids[4], ids[6]}},
		{"list_suborgs", "PUBLIC_KEY", "03" + key, nil}, // a session's
		{"list_suborgs", "PUBLIC_KEY", strings.Repeat("cd", 32), ids[7:8]},
		{"list_suborgs", "PUBLIC_KEY", "not hexadecimal", nil},
		{"list_suborgs", "CREDENTIAL_ID", base64.RawURLEncoding.EncodeToString([]byte{0xfb, 0xff, 1}), ids[7:8]},
		{"list_suborgs", "CREDENTIAL_ID", base64.URLEncoding.EncodeToString([]byte{0xfb, 0xff, 1}), ids[7:8]},
		{"list_suborgs", "CREDENTIAL_ID", hex.EncodeToString([]byte{0xfb, 0xff, 1}), nil},
		{"list_suborgs", "CREDENTIAL_ID", "+/8B", nil},
		{"list_suborgs", "CREDENTIAL_ID", "!", nil},
		{"list_verified_suborgs", "EMAIL", "third@EXAMPLE.org", every(ids, func(i int) bool { return i%3 == 2 && i%2 == 0 })},
		{"list_verified_suborgs", "PHONE_NUMBER", "+15554", ids[4:5]},
		{"list_verified_suborgs", "PHONE_NUMBER", "+15557", nil}, // not verified
		{"list_verified_suborgs", "", "", every(ids, func(i int) bool { return i == 4 || i%3 == 2 && i%2 == 0 })},
	} {
		t.Run(c.op+" "+c.kind+" "+c.value, func(t *testing.T) {
			pages(t, w, c.op, c.kind, c.value, c.want)
		})
	}
	if w.index.paged+w.index.asked > 0 {
		t.Error("the host was asked about what the state holds")
	}
}

// With details, a page has the parent's records, and says how many sub-organizations there are.
func TestSuborgsWithDetails(t *testing.T) {
	w := newWorld(t)
	ids := w.children(20)
	w.change(func(tx *org.Tx) {
		o, err := tx.Organization()
		w.must(err)
		changed := *o
		changed.Children = 20
		w.must(tx.PutOrganization(&changed))
	})
	detail := func(n int, name string) object {
		return object{"organizationId": ids[n], "organizationName": name, "createdAt": object{"seconds": "1", "nanos": "0"}}
	}
	for _, c := range []struct {
		op   string
		ask  object
		want []any
	}{
		{"list_suborgs", object{"paginationOptions": object{"limit": "2"}}, []any{detail(0, "Fifth"), detail(1, "sub 1")}},
		{"list_suborgs", object{"paginationOptions": object{"limit": "2", "after": ids[18]}}, []any{detail(19, "sub 19")}},
		{"list_suborgs", object{"paginationOptions": object{"limit": "2", "after": ids[19]}}, []any{}},
		{"list_suborgs", object{"filterType": "NAME", "filterValue": "nobody"}, []any{}},
		{"list_verified_suborgs", object{"filterType": "PHONE_NUMBER", "filterValue": "+15554"}, []any{detail(4, "sub 4")}},
	} {
		c.ask["includeDetails"] = true
		m := w.get(c.op, c.ask)
		if !reflect.DeepEqual(m["organizations"], c.want) || m["total"] != "20" || len(m["organizationIds"].([]any)) != len(c.want) {
			t.Errorf("%v: %v", c.ask, m)
		}
	}
	for _, without := range []object{nil, {"includeDetails": false}} {
		if m := w.get("list_suborgs", without); len(m) != 1 {
			t.Errorf("details that nobody asked for: %v", m)
		}
	}
	// What the index knows and the parent no longer does has an id and no record.
	h := org.NewHandle(org.HandleUserName, "Ada")
	w.index.rows = map[org.Handle][]org.Child{h: {child(3), child(500)}}
	m := w.get("list_suborgs", object{"filterType": "USERNAME", "filterValue": "Ada", "includeDetails": true})
	if !reflect.DeepEqual(m["organizations"], []any{detail(3, "sub 3")}) {
		t.Error(m)
	}
	w.refused("list_suborgs", object{"includeDetails": "yes"}, 3, "includeDetails")
}

// pages reads a list in pages of several sizes, downwards and upwards.
func pages(t *testing.T, w *world, op, kind, value string, want []string) {
	t.Helper()
	get := func(page object) []string {
		t.Helper()
		ids, err := w.listed(op, kind, value, page)
		if err != nil {
			t.Fatalf("%v: %v", page, err)
		}
		return ids
	}
	if got := get(nil); !slices.Equal(got, want[:min(10, len(want))]) {
		t.Errorf("without a page: %v, want %v", got, want)
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		var down, up []string
		page := object{"limit": fmt.Sprint(limit)}
		for {
			got := get(page)
			down = append(down, got...)
			if len(got) < limit {
				break
			}
			page["after"] = got[len(got)-1]
		}
		if !slices.Equal(down, want) {
			t.Fatalf("downwards by %d: %v, want %v", limit, down, want)
		}
		if len(want) == 0 {
			continue
		}
		page = object{"limit": fmt.Sprint(limit), "before": want[len(want)-1]}
		for {
			got := get(page)
			up = append(slices.Clone(got), up...)
			if len(got) < limit {
				break
			}
			page["before"] = got[0]
		}
		if !slices.Equal(up, want[:len(want)-1]) {
			t.Fatalf("upwards by %d: %v, want %v", limit, up, want[:len(want)-1])
		}
	}
}

// A cursor may be any sub-organization, also one that the filter does not find.
func TestSuborgCursorOutsideOfFilter(t *testing.T) {
	w := newWorld(t)
	ids := w.children(12)
	for _, c := range []struct {
		page object
		want []string
	}{
		{object{"after": ids[3]}, []string{ids[5], ids[8], ids[11]}}, {object{"before": ids[6]}, []string{ids[2], ids[5]}},
		{object{"before": ids[0]}, nil}, {object{"after": ids[11]}, nil},
	} {
		if got, err := w.listed("list_suborgs", "EMAIL", "third@example.org", c.page); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v", c.page, got, err)
		}
	}
}

func TestSuborgsRefused(t *testing.T) {
	w := newWorld(t)
	ids := w.children(3)
	unknown := id('S', 99).String()
	for _, op := range []string{"list_suborgs", "list_verified_suborgs"} {
		for _, c := range []struct {
			what    string
			request object
			says    string
		}{
			{"another filter", object{"filterType": "COLOUR", "filterValue": "x"}, "filterType"},
			{"lower case", object{"filterType": "email", "filterValue": "x"}, "filterType"},
			{"a filter without a value", object{"filterType": "EMAIL"}, "filterValue"},
			{"a filter with an empty value", object{"filterType": "EMAIL", "filterValue": ""}, "filterValue"},
			{"a value without a filter", object{"filterValue": "x"}, "filterType"},
			{"no rows", object{"paginationOptions": object{"limit": "0"}}, "limit"},
			{"too many rows", object{"paginationOptions": object{"limit": "101"}}, "limit"},
			{"a limit that is none", object{"paginationOptions": object{"limit": "ten"}}, "limit"},
			{"a cursor that is none", object{"paginationOptions": object{"after": "x"}}, "unknown cursor"},
			{"an unknown cursor", object{"paginationOptions": object{"after": unknown}}, "unknown cursor"},
			{"an unknown cursor above", object{"paginationOptions": object{"before": unknown}}, "unknown cursor"},
			{"the organization itself as cursor", object{"paginationOptions": object{"after": w.id.String()}}, "unknown cursor"},
			{"two cursors", object{"paginationOptions": object{"after": ids[0], "before": ids[2]}}, "together"},
			{"an unknown cursor with a filter", object{"filterType": "EMAIL", "filterValue": "x", "paginationOptions": object{"before": unknown}}, "unknown cursor"},
			{"an unknown member", object{"filter": "x"}, ""},
			{"a value that is no text", object{"filterType": "EMAIL", "filterValue": 7}, ""},
		} {
			t.Run(op+" "+c.what, func(t *testing.T) { w.refused(op, c.request, fault.InvalidArgument, c.says) })
		}
	}
	for _, kind := range []string{"NAME", "USERNAME", "WALLET_ACCOUNT_ADDRESS", "PUBLIC_KEY", "CREDENTIAL_ID", "OIDC_TOKEN"} {
		w.refused("list_verified_suborgs", object{"filterType": kind, "filterValue": "x"}, fault.InvalidArgument, "filterType")
	}
	for _, kind := range []string{"USERNAME", "WALLET_ACCOUNT_ADDRESS"} {
		for _, end := range []string{"after", "before"} {
			w.refused("list_suborgs", object{"filterType": kind, "filterValue": "x", "paginationOptions": object{end: unknown}}, fault.InvalidArgument, "unknown cursor")
		}
	}
	w.refused("list_suborgs", object{"filterType": "OIDC_TOKEN", "filterValue": "x.y.z"}, fault.InvalidArgument, "no such token")
	w.refused("list_suborgs", object{"filterType": "OIDC_TOKEN"}, fault.InvalidArgument, "filterValue")
}

// An identity token leads to those who know whom it is about, by any of its audiences.
func TestSuborgsByIdentity(t *testing.T) {
	w := newWorld(t)
	ids := w.children(5)
	w.change(func(tx *org.Tx) {
		for n, text := range []string{1: org.IdentityText("https://issuer.example", "me", "ios"), 2: org.IdentityText("https://issuer.example", "you", "web"),
			3: org.IdentityText("https://other.example", "me", "web"), 4: org.IdentityText("https://issuer.example", "me", "web")} {
			if text != "" {
				c := child(n)
				w.must(tx.PutChildKey(org.ChildIdentity, text, &c, id('U', byte(n))))
			}
		}
	})
	if got := w.get("list_suborgs", object{"filterType": "OIDC_TOKEN", "filterValue": "good"})["organizationIds"]; fmt.Sprint(got) != fmt.Sprint([]string{ids[1], ids[4]}) {
		t.Errorf("%v of %v", got, ids)
	}
	for _, c := range []struct {
		page object
		want []string
	}{
		{object{"limit": "1"}, ids[1:2]}, {object{"after": ids[1]}, ids[4:5]}, {object{"before": ids[4]}, ids[1:2]}, {object{"after": ids[4]}, []string{}}, {object{"before": ids[1]}, []string{}},
	} {
		if got := w.get("list_suborgs", object{"filterType": "OIDC_TOKEN", "filterValue": "good", "paginationOptions": c.page})["organizationIds"]; fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: %v, want %v", c.page, got, c.want)
		}
	}
	// What a token would claim is looked for without one.
	for claims, want := range map[string][]string{
		`{"iss":"https://issuer.example","sub":"me","aud":"web"}`:       ids[4:5],
		`{"aud":"ios","iss":"https://issuer.example","sub":"me"}`:       ids[1:2],
		`{"iss":"https://issuer.example","sub":"me","aud":"android"}`:   {},
		`{"iss":"https://issuer.example","sub":"me"}`:                   {},
		`{"iss":"https://issuer.example","sub":"me","aud":"web","x":1}`: {},
		`["https://issuer.example","me","web"]`:                         {},
		`https://issuer.example`:                                        {},
	} {
		if got := w.get("list_suborgs", object{"filterType": "OAUTH_CLAIM", "filterValue": claims})["organizationIds"]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", claims, got, want)
		}
	}
}

// A sub-organization has none of its own, whoever asks.
func TestSuborgsOfSuborg(t *testing.T) {
	w := newWorld(t)
	for _, home := range []*org.Organization{nil, {ID: id('O', 9)}} {
		for _, kind := range []string{"", "NAME", "USERNAME"} {
			r := object{}
			if kind != "" {
				r["filterType"], r["filterValue"] = kind, "x"
			}
			m, err := w.askAs("list_suborgs", r, w.user, home)
			if err != nil || len(m["organizationIds"].([]any)) != 0 {
				t.Errorf("%q: %v, %v", kind, m, err)
			}
		}
	}
}

// indexed gives rows to the sub-organizations that is picks.
func (w *world) indexed(h org.Handle, n int, is func(int) bool) {
	if w.index.rows == nil {
		w.index.rows, w.index.lacks = map[org.Handle][]org.Child{}, map[org.ID]bool{}
	}
	for i := range n {
		if is(i) {
			w.index.rows[h] = append(w.index.rows[h], child(i))
		}
	}
}

func TestSuborgsByIndex(t *testing.T) {
	w := newWorld(t)
	ids := w.children(60)
	even := func(i int) bool { return i%2 == 0 }
	w.indexed(org.NewHandle(org.HandleUserName, "Ann"), 60, even)
	low := "0x" + strings.Repeat("ab", 20)
	w.indexed(org.NewHandle(org.HandleAddress, low), 60, func(i int) bool { return i == 5 })
	w.indexed(org.NewHandle(org.HandleAddress, "So1ana"), 60, func(i int) bool { return i == 6 })
	for _, c := range []struct {
		kind, value string
		want        []string
	}{
		{"USERNAME", "Ann", every(ids, even)}, {"USERNAME", "ann", nil}, {"USERNAME", low, nil},
		{"WALLET_ACCOUNT_ADDRESS", low, ids[5:6]}, {"WALLET_ACCOUNT_ADDRESS", "0x" + strings.Repeat("AB", 20), ids[5:6]},
		{"WALLET_ACCOUNT_ADDRESS", "So1ana", ids[6:7]}, {"WALLET_ACCOUNT_ADDRESS", "so1ana", nil}, {"WALLET_ACCOUNT_ADDRESS", "Ann", nil},
	} {
		t.Run(c.kind+" "+c.value, func(t *testing.T) { pages(t, w, "list_suborgs", c.kind, c.value, c.want) })
	}
	w.index.asked = 0
	if _, err := w.listed("list_suborgs", "USERNAME", "Ann", object{"limit": "3"}); err != nil || w.index.asked != 3 {
		t.Errorf("%d asked for a page of 3: %v", w.index.asked, err)
	}
	w.index.fails = errors.New("the host is away")
	if _, err := w.listed("list_suborgs", "USERNAME", "Ann", nil); !errors.Is(err, w.index.fails) {
		t.Error(err)
	}
}

// Rows that are not true are passed over without making a page short.
func TestStaleRowsArePassedOver(t *testing.T) {
	w := newWorld(t)
	ids := w.children(300)
	w.indexed(org.NewHandle(org.HandleUserName, "Ann"), 300, func(int) bool { return true })
	holds := func(i int) bool { return i%11 == 5 }
	for i := range 300 {
		w.index.lacks[child(i).ID] = !holds(i)
	}
	pages(t, w, "list_suborgs", "USERNAME", "Ann", every(ids, holds))
	for i := range 300 {
		w.index.lacks[child(i).ID] = true
	}
	pages(t, w, "list_suborgs", "USERNAME", "Ann", nil)
}

// One request asks only so many; then it says so instead of ending the list.
func TestStaleRowsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.children(1200)
	for _, c := range []struct {
		stale int
		ok    bool
	}{{998, true}, {999, true}, {1000, false}, {1199, false}} {
		w.index = index{}
		w.indexed(org.NewHandle(org.HandleUserName, "Ann"), 1200, func(int) bool { return true })
		for i := range c.stale {
			w.index.lacks[child(i).ID] = true
		}
		got, err := w.listed("list_suborgs", "USERNAME", "Ann", object{"limit": "1"})
		if c.ok && (err != nil || len(got) != 1) || !c.ok && code(err) != fault.Unavailable || w.index.asked > query.MaxAsked {
			t.Errorf("%d stale rows: %v, %v, %d asked", c.stale, got, err, w.index.asked)
		}
	}
}

func FuzzSuborgs(f *testing.F) {
	f.Add("EMAIL", "third@example.org", "", "", "10")
	f.Add("CREDENTIAL_ID", "-_8B", "", child(2).ID.String(), "1")
	f.Add("PUBLIC_KEY", "02ab", child(1).ID.String(), "", "")
	f.Add("WALLET_ACCOUNT_ADDRESS", "0x", "x", "y", "-1")
	f.Fuzz(func(t *testing.T, kind, value, before, after, limit string) {
		w := newWorld(t)
		w.children(9)
		body, err := json.Marshal(object{"organizationId": w.id.String(), "filterType": kind, "filterValue": value,
			"paginationOptions": object{"before": before, "after": after, "limit": limit}})
		w.must(err)
		for _, op := range []string{"list_suborgs", "list_verified_suborgs"} {
			q, err := query.Lookup(op)
			w.must(err)
			r, err := q.DecodeHostBody(stamp.NewHostBody(body))
			if err != nil {
				continue
			}
			var b []byte
			if err = r.Fetch(w, w, w, w, w, w, w, w); err == nil {
				b, err = r.Answer(&query.View{Tx: w.tx(), Caller: w.user, Steps: policy.MaxDecisionSteps})
			}
			if err != nil {
				if c := code(err); c != fault.InvalidArgument && c != fault.Unimplemented {
					t.Errorf("%s %s: %v", op, body, err)
				}
				continue
			}
			for _, wrong := range api.Check(endpoint(op).Response, b) {
				t.Errorf("%s: %s", op, wrong)
			}
		}
	})
}
