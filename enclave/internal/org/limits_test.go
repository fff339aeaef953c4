package org_test

import (
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// documented are the limits of the interface, and of what it has none for, ours.
var documented = org.Limits{Users: 100, Policies: 100, Tags: 100, TagsOfChild: 10, Invitations: 100, Wallets: 100, PrivateKeys: 1000, Interfaces: 1000, Profiles: 100,
	Pending: 1000, Organizations: 100, LongLivedKeys: 10, ExpiringAPIKeys: 10, Authenticators: 10, OauthProviders: 10}

// all sets every limit to what of makes of the documented and the largest value.
func all(of func(least, most int) int) (l org.Limits) {
	most := org.MostLimits()
	v := reflect.ValueOf(&l).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(of(int(reflect.ValueOf(documented).Field(i).Int()), int(reflect.ValueOf(most).Field(i).Int()))))
	}
	return l
}

func TestLimitsInForce(t *testing.T) {
	between := all(func(least, most int) int { return (least + most) / 2 })
	for name, c := range map[string]struct{ given, want org.Limits }{
		"none":       {org.Limits{}, documented},
		"lowered":    {all(func(least, _ int) int { return least - 1 }), documented},
		"negative":   {all(func(int, int) int { return -1 << 62 }), documented},
		"raised":     {between, between},
		"to the top": {org.MostLimits(), org.MostLimits()},
		"over it":    {all(func(_, most int) int { return most + 1 }), org.MostLimits()},
		"far over":   {all(func(int, int) int { return 1<<63 - 1 }), org.MostLimits()},
		"one alone":  {org.Limits{Policies: 1000}, func() org.Limits { l := documented; l.Policies = 1000; return l }()},
	} {
		if got := c.given.WithDefaults(); got != c.want || got.WithDefaults() != got {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	// Nothing is left out of the table: every limit can be raised.
	for v, i := reflect.ValueOf(org.MostLimits()), 0; i < v.NumField(); i++ {
		if v.Field(i).Int() <= reflect.ValueOf(documented).Field(i).Int() {
			t.Errorf("%s cannot be raised", v.Type().Field(i).Name)
		}
	}
}

func TestLimitsText(t *testing.T) {
	for text, want := range map[string]org.Limits{
		"": {}, "users=100": {Users: 100}, "users=1000, policies=1000": {Users: 1000, Policies: 1000}, "tags-of-child=11,long-lived-keys=50": {TagsOfChild: 11, LongLivedKeys: 50},
	} {
		l := org.Limits{Users: 7}
		if err := l.UnmarshalText([]byte(text)); err != nil || l != want {
			t.Errorf("%q: %+v %v", text, l, err)
		}
	}
	for _, text := range []string{
		"users", "users=", "=100", "users=99", "users=1001", "users=-1", "users=+", "users=1e3", "users=0x80", "users=500,users=600", "users=500 policies=500",
		"Users=500", "people=500", "policies=99999999999999999999", "users=500;policies=500", "pending=2001", "authenticators=51",
	} {
		l := org.Limits{Users: 7}
		if err := l.UnmarshalText([]byte(text)); err == nil || l != (org.Limits{Users: 7}) {
			t.Errorf("%q: taken as %+v", text, l)
		}
	}
}

func FuzzLimitsText(f *testing.F) {
	b, err := org.MostLimits().MarshalText()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	for _, s := range []string{"", "users=500", "users=500,policies=1000", "users=99", ",,", "users=500,users=500", "users=00500"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var l, again org.Limits
		if l.UnmarshalText([]byte(s)) != nil {
			return
		}
		b, err := l.MarshalText()
		if err != nil || again.UnmarshalText(b) != nil || again != l {
			t.Fatalf("%q: %+v becomes %q, which is %+v", s, l, b, again)
		}
		force := l.WithDefaults()
		for v, i := reflect.ValueOf(l), 0; i < v.NumField(); i++ {
			if n := v.Field(i).Int(); n != 0 && n != reflect.ValueOf(force).Field(i).Int() {
				t.Fatalf("%q: %s is not taken as given", s, v.Type().Field(i).Name)
			}
		}
	})
}

// memory is what all opened organizations have by default.
const memory = 1 << 30

// However a tenant fills an organization, what is never shed of it stays below
// what all organizations have.
func TestLimitsFitIntoMemory(t *testing.T) {
	const (
		slot   = 2 << 7  // of one record in memory, key included, generously
		name   = 255 * 4 // bytes of a label
		text   = 16 << 10
		notes  = 4 << 10
		email  = 320
		things = 256 // ids, times, keys, texts of fixed sets
	)
	l := org.MostLimits()
	tags := 17 * max(l.Tags, l.TagsOfChild)
	credentials := l.LongLivedKeys + l.ExpiringAPIKeys + 2*l.Authenticators // and the passkeys' counters
	total := 0
	for _, c := range []struct {
		what        string
		count, each int
	}{
		{"users", l.Users, org.MaxValue},
		{"their credentials and names", l.Users * (credentials + 1), things + slot},
		{"policies", l.Policies, 3*text + notes + name + things},
		{"tags", max(l.Tags, l.TagsOfChild), name + things},
		{"invitations", l.Invitations, name + email + tags + things},
		{"wallets", l.Wallets, name + things},
		{"private keys", l.PrivateKeys, name + tags + 16*128 + things},
		{"interfaces", l.Interfaces, name + notes + things}, // the text is loaded on demand
		{"profiles", l.Profiles, text + notes + name + things},
		{"pending", l.Pending, org.MaxValue},
		{"targets of secrets", org.MaxSecretTargets, things},
		{"names", l.Policies + l.Tags + l.Wallets + l.PrivateKeys + l.Interfaces + l.Profiles + l.Pending + org.MaxSecrets, things},
	} {
		total += c.count * (c.each + slot)
	}
	t.Logf("%d MiB", total>>20)
	if total > memory {
		t.Errorf("an organization may fill %d MiB", total>>20)
	}
}

// Who deletes an organization reads what is known of all its secrets, each piece in a run of its step: a step has 1,000.
func TestSecretsAreReadInOneStep(t *testing.T) {
	s := org.NewState()
	tx := org.Begin(org.ID{1}, s, 0)
	for i := range org.MaxSecrets {
		secret := &org.Secret{ID: org.ID{14: byte(i >> 8), 15: byte(i)}, Name: strings.Repeat("n", 255*4), CreatedMs: 1 << 41, Exported: true}
		for range 20 {
			secret.Properties = append(secret.Properties, org.Property{Key: strings.Repeat("k", org.MaxPropertiesText/20)})
		}
		if err := tx.PutSecret(secret); err != nil {
			t.Fatal(err)
		}
	}
	tx.Apply()
	f, n := s.Compact(), 0
	for f.Next() {
		n += len(f.Parts())
	}
	if t.Logf("%d pieces, %d MiB", n, s.Bytes()>>20); n > 500 || s.Bytes() > memory/16 {
		t.Errorf("what is known of secrets lies in %d pieces and %d MiB", n, s.Bytes()>>20)
	}
}

// At the upper bounds, a user whose names, keys and identities are of common
// length is one record. What is longer is refused, and not as an internal error.
func TestLargestUser(t *testing.T) {
	user := func(length int) *org.User {
		l, s := org.MostLimits(), func(n int) string { return strings.Repeat("x", n) }
		u := &org.User{Name: s(length), Email: s(64), Tags: make([]org.ID, l.Tags)}
		for range l.LongLivedKeys + l.ExpiringAPIKeys {
			u.APIKeys = append(u.APIKeys, org.APIKey{Name: s(length), PublicKey: s(66), Type: s(33), CreatedMs: 1 << 41, UpdatedMs: 1 << 41, ExpirationSeconds: 1 << 41})
		}
		for range l.Authenticators {
			u.Authenticators = append(u.Authenticators, org.Authenticator{Name: s(length), CredentialID: make([]byte, 64), PublicKey: make([]byte, 300), Attestation: "none",
				Transports: []string{s(31), s(31)}, Origin: s(length), CreatedMs: 1 << 41, UpdatedMs: 1 << 41})
		}
		for range l.OauthProviders {
			u.OauthProviders = append(u.OauthProviders, org.OauthProvider{Name: s(length), Issuer: s(length), Audience: s(length), Subject: s(length), CreatedMs: 1 << 41, UpdatedMs: 1 << 41})
		}
		return u
	}
	for length, fits := range map[int]bool{64: true, 1020: false} {
		tx := org.Begin(org.ID{}, org.NewState(), 0)
		if err := tx.PutUser(user(length)); err != nil {
			t.Fatal(err)
		}
		_, err := tx.Writes()
		if fits && err != nil {
			t.Errorf("names of %d bytes: %v", length, err)
		}
		if f := fault.Of(err); !fits && (f == nil || f.Code != fault.ResourceExhausted || !strings.Contains(f.Message, "over quota: a record would have ")) {
			t.Errorf("names of %d bytes: %v", length, err)
		}
	}
}
