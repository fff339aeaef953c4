package org

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits are how many of a thing an organization or a user may have. The zero
// value is what the interface documents; a field above that allows more.
type Limits struct {
	Users           int // of an organization, as are those down to Pending
	Policies        int
	Tags            int // of both kinds together, of a top-level organization
	TagsOfChild     int // likewise, of a sub-organization
	Invitations     int // those that nobody can accept any more make room
	Wallets         int
	PrivateKeys     int
	Interfaces      int // smart contract interfaces
	Profiles        int // session profiles
	Pending         int // activities that wait for votes
	LongLivedKeys   int // API keys without expiry, of one user, as are those that follow
	ExpiringAPIKeys int // with expiry; one more evicts the oldest
	Authenticators  int
	OauthProviders  int
}

// bounds are what the interface documents and how far it may be raised.
//
// What an organization has in small collections lies in memory as long as the
// organization is in use, and is never shed. So least and most are numbers, not
// matters of taste: with the largest records that the interface lets in, an
// organization at every upper bound stays below the memory that all opened
// organizations have by default. The lower ones among them have reasons of their
// own: an activity that touches all users or all private keys (a tag that goes)
// writes all of their records in one entry, of 4 MiB at most; policies are all
// asked for every decision; and a user's credentials share one record, which at
// 50 of each fits with names, keys and identities of common length. Longer ones
// are refused when the record is put, however few they are: no limit makes a
// record outgrow its piece.
var bounds = [...]struct {
	name        string
	of          func(*Limits) *int
	least, most int
}{
	{"users", func(l *Limits) *int { return &l.Users }, 100, 1_000},
	{"policies", func(l *Limits) *int { return &l.Policies }, 100, 1_000},
	{"tags", func(l *Limits) *int { return &l.Tags }, 100, 1_000},
	{"tags-of-child", func(l *Limits) *int { return &l.TagsOfChild }, 10, 1_000},
	{"invitations", func(l *Limits) *int { return &l.Invitations }, 100, 1_000},
	{"wallets", func(l *Limits) *int { return &l.Wallets }, 100, 10_000},
	{"private-keys", func(l *Limits) *int { return &l.PrivateKeys }, 1_000, 5_000},
	{"interfaces", func(l *Limits) *int { return &l.Interfaces }, 1_000, 5_000},
	{"profiles", func(l *Limits) *int { return &l.Profiles }, 100, 1_000},
	{"pending", func(l *Limits) *int { return &l.Pending }, 1_000, 2_000},
	{"long-lived-keys", func(l *Limits) *int { return &l.LongLivedKeys }, 10, 50},
	{"expiring-keys", func(l *Limits) *int { return &l.ExpiringAPIKeys }, 10, 50},
	{"authenticators", func(l *Limits) *int { return &l.Authenticators }, 10, 50},
	{"oauth-providers", func(l *Limits) *int { return &l.OauthProviders }, 10, 50},
}

// WithDefaults are the limits in force: none below what the interface documents,
// none above what memory and records allow.
func (l Limits) WithDefaults() Limits {
	for i := range bounds {
		b := &bounds[i]
		n := b.of(&l)
		*n = min(max(*n, b.least), b.most)
	}
	return l
}

// MostLimits are the limits raised as far as they can be.
func MostLimits() (l Limits) {
	for i := range bounds {
		*bounds[i].of(&l) = bounds[i].most
	}
	return l
}

// UnmarshalText reads "users=500,policies=1000". What it does not name stays as
// documented. A number that WithDefaults would not leave as it is is refused.
func (l *Limits) UnmarshalText(text []byte) error {
	var read Limits
	for _, pair := range strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' }) {
		name, number, _ := strings.Cut(strings.TrimSpace(pair), "=")
		b := boundOf(name)
		if b < 0 {
			return fmt.Errorf("no limit %q: there are %s", name, limitNames())
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < bounds[b].least || n > bounds[b].most {
			return fmt.Errorf("limit %s: want %d to %d", name, bounds[b].least, bounds[b].most)
		}
		if *bounds[b].of(&read) != 0 {
			return fmt.Errorf("limit %s is given twice", name)
		}
		*bounds[b].of(&read) = n
	}
	*l = read
	return nil
}

// MarshalText is what UnmarshalText reads.
func (l Limits) MarshalText() ([]byte, error) {
	var b []byte
	for i := range bounds {
		n := *bounds[i].of(&l)
		if n == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(append(b, bounds[i].name...), '='), int64(n), 10)
	}
	return b, nil
}

func boundOf(name string) int {
	for i := range bounds {
		if bounds[i].name == name {
			return i
		}
	}
	return -1
}

func limitNames() string {
	names := make([]string, len(bounds))
	for i := range bounds {
		names[i] = bounds[i].name
	}
	return strings.Join(names, ", ")
}
