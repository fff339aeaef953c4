package org_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/org"
)

func TestRecordsOfRulesRoundTrip(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 5)
	p, g, i, s := filled[org.Policy](t), filled[org.Tag](t), filled[org.Invitation](t), filled[org.SessionProfile](t)
	a, w := filled[org.Allowlist](t), filled[org.Pending](t)
	must(t, tx.PutPolicy(p))
	must(t, tx.PutTag(g))
	must(t, tx.PutInvitation(i))
	must(t, tx.PutSessionProfile(s))
	must(t, tx.PutAllowlist("", a))
	must(t, tx.PutAllowlist("02ab", a))
	must(t, tx.PutPending(w))
	must(t, tx.PutCounter(id(7), 9))
	for _, tx := range []*org.Tx{tx, again(t, tx)} {
		same := func(got any, err error, want any) {
			t.Helper()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
		}
		gotPolicy, err := tx.Policy(p.ID)
		same(gotPolicy, err, p)
		gotTag, err := tx.Tag(g.ID)
		same(gotTag, err, g)
		gotInvitation, err := tx.Invitation(i.ID)
		same(gotInvitation, err, i)
		gotProfile, err := tx.SessionProfile(s.ID)
		same(gotProfile, err, s)
		gotList, err := tx.Allowlist("02ab")
		same(gotList, err, a)
		gotPending, err := tx.PendingBy(w.Fingerprint)
		same(gotPending, err, w)
		gotPending, err = tx.PendingActivity(w.Activity)
		same(gotPending, err, w)
		n, err := tx.Counter(id(7))
		same(n, err, uint32(9))
	}
	tx.DeletePolicy(p.ID)
	tx.DeleteTag(g.ID)
	tx.DeleteInvitation(i.ID)
	tx.DeleteAllowlist("")
	tx.DeletePending(w)
	must(t, tx.PutCounter(id(7), 0))
	tx = again(t, tx)
	for name, got := range map[string]any{
		"policy": first(tx.Policy(p.ID)), "tag": first(tx.Tag(g.ID)), "invitation": first(tx.Invitation(i.ID)), "list": first(tx.Allowlist("")),
		"pending": first(tx.PendingBy(w.Fingerprint)), "pending by id": first(tx.PendingActivity(w.Activity)),
	} {
		if !reflect.ValueOf(got).IsNil() {
			t.Errorf("a deleted %s is there: %v", name, got)
		}
	}
	if got, err := tx.Allowlist("02ab"); got == nil || err != nil {
		t.Error("another list went with it", err)
	}
	if n, err := tx.Counter(id(7)); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func first[T any](v T, _ error) T { return v }

func TestInterfaceText(t *testing.T) {
	for _, n := range []int{0, 1, 96<<10 - 1, 96 << 10, 96<<10 + 1, 400_000} {
		tx := org.Begin(id(1), org.NewState(), 5)
		text := strings.Repeat("x", n)
		i := &org.Interface{ID: id(2), Address: "0xab"}
		must(t, tx.PutInterface(i, text))
		tx = again(t, tx)
		got, err := tx.Interface(i.ID)
		must(t, err)
		if s, err := tx.InterfaceText(got); s != text || err != nil {
			t.Fatalf("%d characters come back as %d: %v", n, len(s), err)
		}
		tx.DeleteInterface(got)
		tx = again(t, tx)
		if s, err := tx.InterfaceText(got); s != "" || err != nil || first(tx.Interface(i.ID)) != nil {
			t.Fatalf("%d characters are left: %v", len(s), err)
		}
	}
}

func TestPendingLive(t *testing.T) {
	const day = org.ApprovalWindowMs
	p := &org.Pending{OpenedMs: 1000}
	for _, c := range []struct {
		v    org.PendingVote
		now  uint64
		want bool
	}{
		{org.PendingVote{CreatedMs: 1000}, 1000, true},
		{org.PendingVote{CreatedMs: 1000}, 1000 + day - 1, true},
		{org.PendingVote{CreatedMs: 1000}, 1000 + day, false},
		{org.PendingVote{CreatedMs: 1000 + day - 1}, 1000 + day, false}, // the window counts, not the vote's own age
		{org.PendingVote{CreatedMs: 999}, 1000, false},                  // of the window before
		{org.PendingVote{CreatedMs: 1000, Rejected: true}, 1000, false},
	} {
		if got := p.Live(&c.v, c.now); got != c.want {
			t.Errorf("%+v at %d: %v", c.v, c.now, got)
		}
	}
}

// What a user of a sub-organization can be found by follows his record.
func TestLinkUser(t *testing.T) {
	parent := org.Begin(id(1), org.NewState(), 5)
	early, late := &org.Child{ID: id(9), CreatedMs: 10}, &org.Child{ID: id(2), CreatedMs: 20}
	must(t, parent.PutChild(late))
	must(t, parent.PutChild(early))
	u := &org.User{ID: id(3), Email: "A@example.org", EmailVerified: true, Phone: "+1", APIKeys: []org.APIKey{
		{PublicKey: "02aa", Type: "CREDENTIAL_TYPE_API_KEY_P256"},
		{PublicKey: "02bb", Type: "CREDENTIAL_TYPE_LOGIN", ExpirationSeconds: 900},
	}, Authenticators: []org.Authenticator{{CredentialID: []byte{1, 2}}},
		OauthProviders: []org.OauthProvider{{Issuer: "i", Subject: "s", Audience: "a"}}}
	other := *u
	other.ID = id(4)
	for _, c := range []*org.Child{early, late} {
		must(t, parent.LinkUser(c, nil, u))
	}
	must(t, parent.LinkUser(late, nil, &other)) // two users with one contact
	parent = again(t, parent)
	by := func(what byte, value string) []org.ID {
		ids, err := parent.ChildrenBy(what, value, nil, 10)
		must(t, err)
		return ids
	}
	both := []org.ID{early.ID, late.ID}
	finders := []struct {
		what  byte
		value string
	}{
		{org.ChildEmail, "a@example.org"}, {org.ChildVerifiedEmail, "a@example.org"}, {org.ChildPhone, "+1"},
		{org.ChildBefore, "API_KEY_CURVE_P256:02aa"}, {org.ChildBefore, "WEBAUTHN:0102"}, {org.ChildIdentity, org.IdentityText("i", "s", "a")},
	}
	for _, f := range finders {
		if got := by(f.what, f.value); !slices.Equal(got, both) {
			t.Errorf("%c %q finds %v", f.what, f.value, got)
		}
	}
	for _, f := range []struct {
		what  byte
		value string
	}{
		{org.ChildVerifiedPhone, "+1"}, {org.ChildBefore, "API_KEY_CURVE_P256:02bb"}, {org.ChildBefore, "API_KEY_CURVE_ED25519:02aa"},
		{org.ChildEmail, "+1"}, {org.ChildIdentity, org.IdentityText("is", "", "a")}, {org.ChildName, "a@example.org"},
	} {
		if got := by(f.what, f.value); len(got) != 0 {
			t.Errorf("%c %q finds %v", f.what, f.value, got)
		}
	}
	if ids, err := parent.Children(nil, 10); !slices.Equal(ids, both) || err != nil {
		t.Fatal(ids, err)
	}
	if ids, err := parent.Children(early, 10); !slices.Equal(ids, both[1:]) || err != nil {
		t.Fatal(ids, err)
	}
	if ids, err := parent.ChildrenBy(org.ChildPhone, "+1", early, 10); !slices.Equal(ids, both[1:]) || err != nil {
		t.Fatal(ids, err)
	}
	if ids, err := parent.ChildrenBy(org.ChildPhone, "+1", late, 10); len(ids) != 0 || err != nil {
		t.Fatal(ids, err)
	}
	must(t, parent.LinkUser(late, &other, nil))
	for _, f := range finders {
		if got := by(f.what, f.value); !slices.Equal(got, both) {
			t.Errorf("%c %q finds %v though one of two holders is left", f.what, f.value, got)
		}
	}
	changed := *u
	changed.Email, changed.EmailVerified = "b@example.org", false
	must(t, parent.LinkUser(early, u, &changed))
	if got := by(org.ChildEmail, "a@example.org"); !slices.Equal(got, both[1:]) {
		t.Error(got)
	}
	if got := by(org.ChildEmail, "b@example.org"); !slices.Equal(got, both[:1]) {
		t.Error(got)
	}
	if got := by(org.ChildVerifiedEmail, "b@example.org"); len(got) != 0 {
		t.Error(got)
	}
	must(t, parent.LinkUser(early, &changed, nil))
	must(t, parent.LinkUser(late, u, nil))
	for _, f := range finders {
		if got := by(f.what, f.value); len(got) != 0 {
			t.Errorf("%c %q finds %v after all are gone", f.what, f.value, got)
		}
	}
	parent.DeleteChild(early)
	if ids, err := parent.Children(nil, 10); !slices.Equal(ids, both[1:]) || err != nil {
		t.Fatal(ids, err)
	}
}

func TestChangedUsers(t *testing.T) {
	tx := org.Begin(id(1), org.NewState(), 5)
	for _, u := range []byte{1, 2, 3} {
		must(t, tx.PutUser(&org.User{ID: id(u), Name: "before"}))
	}
	tx = again(t, tx)
	must(t, tx.PutUser(&org.User{ID: id(4), Name: "new"}))
	must(t, tx.PutUser(&org.User{ID: id(2), Name: "after"}))
	tx.DeleteUser(id(1))
	var got []string
	must(t, tx.EachChangedUser(func(before, after *org.User) error {
		name := func(u *org.User) string {
			if u == nil {
				return "-"
			}
			return u.Name
		}
		got = append(got, name(before)+" "+name(after))
		return nil
	}))
	if want := []string{"before -", "before after", "- new"}; !slices.Equal(got, want) {
		t.Fatal(got)
	}
	if !tx.Changed() || again(t, tx).Changed() {
		t.Fatal("changed")
	}
}
