package org

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits are the maximal numbers of things of an organization or a user. The zero value means
// the limits that the public interface documents; a field may raise one.
type Limits struct {
	Users           int // of an organization, as are those down to Pending
	Policies        int
	Tags            int // of both kinds together, of a top-level organization
	TagsOfChild     int // likewise, of a sub-organization
	Invitations     int // that can still be accepted
	Wallets         int
	PrivateKeys     int
	Interfaces      int // smart contract interfaces
	Profiles        int // session profiles
	Pending         int // activities that wait for votes
	Organizations   int // of the top level that an organization has made
	LongLivedKeys   int // API keys without expiry; of one user, as are those below
	ExpiringAPIKeys int // with expiry; one more evicts the oldest
	Authenticators  int
	OauthProviders  int
}

// bounds are the documented limits and the values to which they may be raised.
//
// Small collections stay in memory as long as their organization is in use. At every upper
// bound and with the largest records that the interface accepts, an organization needs less
// memory than all opened organizations have by default. Some bounds are lower:
//   - users and private keys: deleting a tag may write all of their records in one entry of
//     at most 4 MiB;
//   - policies: every decision asks all of them;
//   - a user's credentials: they share one record, which holds 50 of each with names, keys
//     and identities of common length. Longer ones are refused when the record is put.
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
	{"organizations", func(l *Limits) *int { return &l.Organizations }, 100, 1_000},
	{"long-lived-keys", func(l *Limits) *int { return &l.LongLivedKeys }, 10, 50},
	{"expiring-keys", func(l *Limits) *int { return &l.ExpiringAPIKeys }, 10, 50},
	{"authenticators", func(l *Limits) *int { return &l.Authenticators }, 10, 50},
	{"oauth-providers", func(l *Limits) *int { return &l.OauthProviders }, 10, 50},
}

// WithDefaults returns the limits in force, each clamped to its bounds.
func (l Limits) WithDefaults() Limits {
	for _, b := range bounds {
		n := b.of(&l)
		*n = min(max(*n, b.least), b.most)
	}
	return l
}

// MostLimits returns the highest possible limits.
func MostLimits() (l Limits) {
	for _, b := range bounds {
		*b.of(&l) = b.most
	}
	return l
}

// UnmarshalText parses "users=500,policies=1000". Limits that are not named stay as
// documented. It refuses a number outside of its bounds.
func (l *Limits) UnmarshalText(text []byte) error {
	var read Limits
	for _, pair := range strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' }) {
		name, number, _ := strings.Cut(strings.TrimSpace(pair), "=")
		at := slices.Index(limitNames(), name)
		if at < 0 {
			return fmt.Errorf("no limit %q: there are %s", name, strings.Join(limitNames(), ", "))
		}
		b := bounds[at]
		n, err := strconv.Atoi(number)
		if err != nil || n < b.least || n > b.most {
			return fmt.Errorf("limit %s: want %d to %d", name, b.least, b.most)
		}
		if *b.of(&read) != 0 {
			return fmt.Errorf("limit %s is given twice", name)
		}
		*b.of(&read) = n
	}
	*l = read
	return nil
}

// MarshalText formats the limits for UnmarshalText.
func (l Limits) MarshalText() ([]byte, error) {
	var pairs []string
	for _, b := range bounds {
		if n := *b.of(&l); n != 0 {
			pairs = append(pairs, fmt.Sprintf("%s=%d", b.name, n))
		}
	}
	return []byte(strings.Join(pairs, ",")), nil
}

func limitNames() (names []string) {
	for _, b := range bounds {
		names = append(names, b.name)
	}
	return names
}
