package org_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"cloister/enclave/internal/org"
)

const (
	leadsNow = 1_000_000
	leadsKey = "API_KEY_CURVE_P256:02aa"
)

// leadsWorld links sub-organizations, by number and made in that order, whose only user has one key or passkey.
type leadsWorld struct {
	t      *testing.T
	parent *org.Tx
}

func (w *leadsWorld) child(n byte) *org.Child {
	return &org.Child{ID: id(n), CreatedMs: uint64(n) * 1000}
}

func (w *leadsWorld) link(n byte, u *org.User) {
	w.t.Helper()
	u.ID = id(n)
	must(w.t, w.parent.LinkUser(w.child(n), nil, u))
}

func keyUser(how org.How) *org.User {
	return &org.User{APIKeys: []org.APIKey{{PublicKey: "02aa", Type: "CREDENTIAL_TYPE_API_KEY_P256", How: how}}}
}

func briefUser(seconds, madeMs uint64) *org.User {
	u := keyUser(org.HowSignedUp)
	u.APIKeys[0].ExpirationSeconds, u.APIKeys[0].CreatedMs = seconds, madeMs
	return u
}

func passkeyUser(how org.How, registeredMs uint64) *org.User {
	return &org.User{Authenticators: []org.Authenticator{{CredentialID: []byte{1, 2}, How: how, CreatedMs: registeredMs}}}
}

// TestLeads is the table of enclave/CREDENTIALS.md: to whom a credential leads that several sub-organizations hold. leads are those of a
// stamp that names the parent, found those of somebody who looks for it.
func TestLeads(t *testing.T) {
	type holders map[byte]*org.User
	const passkey = org.PasskeyCurve + ":0102"
	for _, c := range []struct {
		what         string
		credential   string
		holders      holders
		leads, found []byte
		claimed      bool
	}{
		{"nobody", leadsKey, holders{}, nil, nil, false},
		{"a proven key before a vouched one", leadsKey, holders{1: keyUser(org.HowVouched), 2: keyUser(org.HowProven)}, []byte{2}, []byte{2}, true},
		{"two proven keys contradict each other", leadsKey, holders{1: keyUser(org.HowProven), 2: keyUser(org.HowProven), 3: keyUser(org.HowVouched)}, []byte{1, 2}, []byte{1, 2}, true},
		{"a vouched key before one of before", leadsKey, holders{1: keyUser(org.HowBefore), 2: keyUser(org.HowVouched)}, []byte{2}, []byte{2}, true},
		{"two vouched keys contradict each other", leadsKey, holders{1: keyUser(org.HowVouched), 2: keyUser(org.HowVouched)}, []byte{1, 2}, []byte{1, 2}, true},
		{"a key of before before what came since", leadsKey, holders{1: keyUser(org.HowAlone), 2: keyUser(org.HowBefore), 3: briefUser(60, leadsNow)}, []byte{2}, []byte{2}, true},
		{"two of before contradict each other", leadsKey, holders{1: keyUser(org.HowBefore), 2: keyUser(org.HowBefore)}, []byte{1, 2}, []byte{1, 2}, true},
		{"of keys alone the newest", leadsKey, holders{1: keyUser(org.HowAlone), 2: keyUser(org.HowAlone), 3: keyUser(org.HowAlone)}, []byte{3}, []byte{3}, false},
		{"a key beside others", leadsKey, holders{1: keyUser(org.HowSignedUp)}, nil, nil, false},
		{"a key that was added inside", leadsKey, holders{1: keyUser(org.HowInside)}, nil, nil, false},
		{"a key alone, others inside", leadsKey, holders{1: keyUser(org.HowInside), 2: keyUser(org.HowAlone), 3: keyUser(org.HowInside)}, []byte{2}, []byte{2}, false},
		{"a brief key", leadsKey, holders{1: briefUser(600, leadsNow)}, []byte{1}, nil, false},
		{"a brief key that has expired", leadsKey, holders{1: briefUser(60, leadsNow-60_000)}, nil, nil, false},
		{"a brief key in its last millisecond", leadsKey, holders{1: briefUser(60, leadsNow-59_999)}, []byte{1}, nil, false},
		{"two brief keys", leadsKey, holders{1: briefUser(60, leadsNow), 2: briefUser(60, leadsNow)}, []byte{1, 2}, nil, false},
		{"a key alone before a brief one", leadsKey, holders{1: briefUser(60, leadsNow), 2: keyUser(org.HowAlone)}, []byte{2}, []byte{2}, false},
		{"one that lives longer", leadsKey, holders{1: briefUser(601, leadsNow)}, nil, nil, false},

		{"a proven passkey before one registered first", passkey, holders{1: passkeyUser(org.HowInside, 5), 2: passkeyUser(org.HowProven, 9)}, []byte{2}, []byte{2}, true},
		{"a vouched passkey before one registered first", passkey, holders{1: passkeyUser(org.HowAlone, 5), 2: passkeyUser(org.HowVouched, 9)}, []byte{2}, []byte{2}, true},
		{"the passkey registered first, not the oldest sub-organization's", passkey, holders{1: passkeyUser(org.HowInside, 9), 2: passkeyUser(org.HowSignedUp, 5), 3: passkeyUser(org.HowAlone, 7)}, []byte{2}, []byte{2}, true},
		{"two passkeys of before", passkey, holders{1: passkeyUser(org.HowBefore, 9), 2: passkeyUser(org.HowBefore, 5)}, []byte{1, 2}, []byte{1, 2}, true},
		{"a passkey of before", passkey, holders{1: passkeyUser(org.HowInside, 5), 2: passkeyUser(org.HowBefore, 9)}, []byte{2}, []byte{2}, true},
	} {
		w := &leadsWorld{t, org.Begin(id(99), org.NewState(), leadsNow)}
		for n := byte(1); n <= 3; n++ {
			if u := c.holders[n]; u != nil {
				w.link(n, u)
			}
		}
		w.parent = again(t, w.parent)
		w.parent.NowMs = leadsNow
		of := func(ns []byte) (out []org.ID) {
			for _, n := range ns {
				out = append(out, id(n))
			}
			return out
		}
		leads, err := w.parent.Leads(c.credential)
		must(t, err)
		found, err := w.parent.ChildrenByCredential(c.credential, nil, nil, 10)
		must(t, err)
		claimed, err := w.parent.IsClaimed(c.credential)
		must(t, err)
		if !slices.Equal(leads, of(c.leads)) || !slices.Equal(found, of(c.found)) || claimed != c.claimed {
			t.Errorf("%s: leads to %v, found %v, claimed %v", c.what, leads, found, claimed)
		}
		// What is gone leads nowhere.
		for n, u := range c.holders {
			must(t, w.parent.LinkUser(w.child(n), u, nil))
		}
		if leads, err := w.parent.Leads(c.credential); len(leads) > 0 || err != nil {
			t.Errorf("%s: after all are gone it leads to %v, %v", c.what, leads, err)
		}
	}
}

// TestSessionsLeadNowhere: keys of sessions come and go, and none of them is looked for.
func TestSessionsLeadNowhere(t *testing.T) {
	for _, how := range []org.How{org.HowBefore, org.HowInside, org.HowAlone, org.HowVouched, org.HowProven} {
		w := &leadsWorld{t, org.Begin(id(99), org.NewState(), leadsNow)}
		u := keyUser(how)
		u.APIKeys[0].Type, u.APIKeys[0].ExpirationSeconds = "CREDENTIAL_TYPE_LOGIN", 900
		w.link(1, u)
		if ids, err := w.parent.Leads(leadsKey); len(ids) > 0 || err != nil {
			t.Errorf("%d: %v, %v", how, ids, err)
		}
	}
}

// TestFoundByPages reads many holders of one credential page by page; of unproven ones there is one page.
func TestFoundByPages(t *testing.T) {
	for how, pages := range map[org.How]string{org.HowVouched: "[1 2] [3 4] [5]", org.HowProven: "[1 2] [3 4] [5]", org.HowBefore: "[1 2] [3 4] [5]", org.HowAlone: "[5]", org.HowInside: ""} {
		w := &leadsWorld{t, org.Begin(id(99), org.NewState(), leadsNow)}
		for n := byte(1); n <= 5; n++ {
			w.link(n, keyUser(how))
		}
		var got []string
		var after *org.Child
		for {
			ids, err := w.parent.ChildrenByCredential(leadsKey, nil, after, 2)
			must(t, err)
			if len(ids) == 0 {
				break
			}
			var ns []int
			for _, i := range ids {
				for n := byte(1); n <= 5; n++ {
					if i == id(n) {
						ns, after = append(ns, int(n)), w.child(n)
					}
				}
			}
			got = append(got, fmt.Sprint(ns))
		}
		if text := fmt.Sprint(got); text != "["+pages+"]" {
			t.Errorf("%d: %s", how, text)
		}
		above, err := w.parent.ChildrenByCredential(leadsKey, w.child(3), nil, 1)
		must(t, err)
		if want := how != org.HowAlone && how != org.HowInside; (len(above) == 1 && above[0] == id(2)) != want {
			t.Errorf("%d: above the third %v", how, above)
		}
	}
}

// TestContactsLead: what a sub-organization says of itself is found by nobody until it is verified.
func TestContactsLead(t *testing.T) {
	for how, found := range map[org.How]bool{org.HowBefore: true, org.HowVouched: true, org.HowInside: false, org.HowSignedUp: false, org.HowAlone: false} {
		for _, verified := range []bool{false, true} {
			w := &leadsWorld{t, org.Begin(id(99), org.NewState(), leadsNow)}
			w.link(1, &org.User{Email: "A@example.org", Phone: "+1", EmailHow: how, PhoneHow: how, EmailVerified: verified, PhoneVerified: verified})
			for what, want := range map[byte]bool{org.ChildEmail: found || verified, org.ChildPhone: found || verified, org.ChildVerifiedEmail: verified, org.ChildVerifiedPhone: verified, org.ChildVerified: verified} {
				value := map[byte]string{org.ChildEmail: "a@example.org", org.ChildVerifiedEmail: "a@example.org", org.ChildPhone: "+1", org.ChildVerifiedPhone: "+1"}[what]
				ids, err := w.parent.ChildrenBy(what, value, nil, 2)
				must(t, err)
				if (len(ids) == 1) != want {
					t.Errorf("%d, verified %v: %c finds %v", how, verified, what, ids)
				}
			}
		}
	}
}

// TestIdentitiesLead: an identity that a token bound to another's key has linked leads if there is no other, and never by a
// token of the same attempt to log in.
func TestIdentitiesLead(t *testing.T) {
	text := org.IdentityText("i", "s", "a")
	mine, other := org.Hash{1}, org.Hash{2}
	identity := func(by *org.Hash) *org.User {
		return &org.User{OauthProviders: []org.OauthProvider{{Issuer: "i", Subject: "s", Audience: "a", LinkedBy: by}}}
	}
	for _, c := range []struct {
		what    string
		holders map[byte]*org.User
		attempt org.Hash
		want    []org.ID
	}{
		{"nobody", nil, mine, nil},
		{"shown", map[byte]*org.User{1: identity(nil)}, mine, []org.ID{id(1)}},
		{"shown, beside a link", map[byte]*org.User{1: identity(&other), 2: identity(nil)}, mine, []org.ID{id(2)}},
		{"linked, by another attempt", map[byte]*org.User{1: identity(&other)}, mine, []org.ID{id(1)}},
		{"linked, by this attempt", map[byte]*org.User{1: identity(&mine)}, mine, nil},
		{"linked twice, once by this attempt", map[byte]*org.User{1: identity(&mine), 2: identity(&other)}, mine, []org.ID{id(2)}},
		{"linked twice by this attempt", map[byte]*org.User{1: identity(&mine), 2: identity(&mine)}, mine, []org.ID{}},
		{"shown twice", map[byte]*org.User{1: identity(nil), 2: identity(nil), 3: identity(nil)}, mine, []org.ID{id(1), id(2)}},
	} {
		w := &leadsWorld{t, org.Begin(id(99), org.NewState(), leadsNow)}
		for n := byte(1); n <= 3; n++ {
			if u := c.holders[n]; u != nil {
				w.link(n, u)
			}
		}
		ids, err := w.parent.ChildrenByIdentity(text, c.attempt)
		must(t, err)
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", c.what, ids, c.want)
		}
		for n, u := range c.holders {
			must(t, w.parent.LinkUser(w.child(n), u, nil))
		}
		for _, what := range []byte{org.ChildIdentity, org.ChildLinked} {
			if ids, err := w.parent.ChildrenBy(what, text, nil, 2); len(ids) > 0 || err != nil {
				t.Errorf("%s: after all are gone %v, %v", c.what, ids, err)
			}
		}
	}
}

// TestShared finds, page by page, what several sub-organizations hold, and nothing that one holds by several users.
func TestShared(t *testing.T) {
	w := &leadsWorld{t, org.Begin(id(99), org.NewState(), leadsNow)}
	with := func(u *org.User, email, phone string, verified bool) *org.User {
		u.Email, u.Phone, u.EmailVerified = email, phone, verified
		return u
	}
	w.link(1, with(keyUser(org.HowBefore), "a@example.org", "+1", false))
	w.link(2, with(keyUser(org.HowProven), "a@example.org", "+2", true)) // the key in two indexes, the address verified
	w.link(3, with(passkeyUser(org.HowProven, 1), "b@example.org", "+1", false))
	second := with(passkeyUser(org.HowProven, 1), "b@example.org", "+1", false)
	second.ID = id(33)
	must(t, w.parent.LinkUser(w.child(3), nil, second)) // two users of one sub-organization
	w.link(4, &org.User{OauthProviders: []org.OauthProvider{{Issuer: "i", Subject: "s", Audience: "a"}}})
	w.link(5, &org.User{OauthProviders: []org.OauthProvider{{Issuer: "i", Subject: "s", Audience: "a", LinkedBy: &org.Hash{1}}, {Issuer: "i", Subject: "s", Audience: "b"}}})
	w.parent = again(t, w.parent)
	h := func(ns ...byte) (hs []org.SharedHolder) {
		for _, n := range ns {
			hs = append(hs, org.SharedHolder{Organization: id(n), User: id(n)})
		}
		return hs
	}
	phones := append(h(1, 3), org.SharedHolder{Organization: id(3), User: id(33)})
	want := []org.SharedValue{{Kind: org.ChildBefore, Holders: h(1, 2)}, {Kind: org.ChildIdentity, Holders: h(4, 5)}, {Kind: org.ChildEmail, Holders: h(1, 2)}, {Kind: org.ChildPhone, Holders: phones}}
	for _, limit := range []int{1, 2, 3, 1000} {
		var found []org.SharedValue
		var cursor []byte
		for pages := 1; ; pages++ {
			if !org.ValidSharedCursor(cursor) || pages > 100 {
				t.Fatalf("by %d, page %d: cursor %x", limit, pages, cursor)
			}
			more, next, err := w.parent.FindShared(cursor, limit)
			must(t, err)
			found = append(found, more...)
			if cursor = next; len(next) == 0 {
				break
			}
		}
		if !reflect.DeepEqual(found, want) {
			t.Errorf("by %d: %v, want %v", limit, found, want)
		}
	}
	for _, c := range [][]byte{{0}, append([]byte{9, 0}, make([]byte, 20)...), append([]byte{0, 9}, make([]byte, 20)...), make([]byte, 23)} {
		if org.ValidSharedCursor(c) {
			t.Errorf("%x is taken", c)
		}
	}
}
