package org

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Where a credential leads. Clients log in without naming their sub-organization: they name the parent, or ask it where
// somebody's key, passkey, identity or contact is. Anybody who has a sub-organization can write another's public key,
// address or identity into it, so what stands there counts as far as it is known how it came. enclave/CREDENTIALS.md
// has the table.

// How tells how a credential or a contact came to a user of a sub-organization, and whether it has been proven since.
type How uint8

const (
	HowBefore   How = iota // before this was recorded
	HowInside              // by a user of the sub-organization
	HowSignedUp            // by a sign-up through the auth proxy, with other credentials
	HowAlone               // by a sign-up through the auth proxy, as the only way into the sub-organization
	HowVouched             // by a user of the parent, who made the sub-organization with it
	HowProven              // a credential: it has stamped an activity of the sub-organization that completed
)

// Unproven tells whether a contact is only what the sub-organization says of itself.
func (h How) Unproven() bool { return h != HowBefore && h != HowVouched }

// By what sub-organizations are found in their parent.
const (
	// Keys and passkeys, by curve, a colon, public key or hex credential id.
	ChildProven  = 'x'
	ChildVouched = 'v'
	ChildBefore  = 'c'
	ChildFresh   = 'f' // passkeys, in the order of their registration
	ChildAlone   = 'a' // keys
	ChildBrief   = 'b' // P-256 keys of sign-ups that expire soon, by when they do

	ChildIdentity = 'o' // IdentityText
	ChildLinked   = 'l' // IdentityText, of an identity that a token bound to another key added
	ChildLinkedBy = 't' // attempt and IdentityText of such a one

	ChildEmail         = 'e'
	ChildPhone         = 'p'
	ChildVerifiedEmail = 'E'
	ChildVerifiedPhone = 'P'
	ChildName          = 'n'
	ChildVerified      = 'V' // nothing: those with any contact that is verified
)

// briefSeconds is the life of the keys with which clients log somebody in whom they have just signed up.
const briefSeconds = 600

// LinkUser keeps sub-organization c findable by a user's contacts, identities, API keys and
// passkeys. before and after are the user's records, nil where there is none.
func (t *Tx) LinkUser(c *Child, before, after *User) error {
	was, is := findersOf(before), findersOf(after)
	for _, f := range sortFinders(was) {
		if !is[f] {
			t.DeleteChildKey(f.what, f.value, f.place(c), before.ID)
		}
	}
	for _, f := range sortFinders(is) {
		if !was[f] {
			if err := t.PutChildKey(f.what, f.value, f.place(c), after.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// LinkChanges tells whether LinkUser has anything to do.
func LinkChanges(before, after *User) bool { return !maps.Equal(findersOf(before), findersOf(after)) }

// A finder is one way to find a user. Its order is the sub-organization's, or that of a time.
type finder struct {
	what  byte
	value string
	ms    uint64 // 0: in the order of sub-organizations
}

func (f finder) place(c *Child) *Child {
	if f.ms == 0 {
		return c
	}
	return &Child{ID: c.ID, CreatedMs: f.ms}
}

func sortFinders(m map[finder]bool) []finder {
	return slices.SortedFunc(maps.Keys(m), func(a, b finder) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.value, b.value), cmp.Compare(a.ms, b.ms))
	})
}

// findersOf are the ways to find a user. API keys are among them, those that expire too: a
// client that signs a user up logs him in with one before it knows the sub-organization.
// The keys of sessions, which come and go, are not.
func findersOf(u *User) map[finder]bool {
	m := map[finder]bool{}
	if u == nil {
		return m
	}
	contact := func(value string, what byte, how How, verified bool, whatVerified byte) {
		if value == "" {
			return
		}
		if verified || !how.Unproven() {
			m[finder{what: what, value: value}] = true
		}
		if verified {
			m[finder{what: whatVerified, value: value}], m[finder{what: ChildVerified}] = true, true
		}
	}
	contact(strings.ToLower(u.Email), ChildEmail, u.EmailHow, u.EmailVerified, ChildVerifiedEmail)
	contact(u.Phone, ChildPhone, u.PhoneHow, u.PhoneVerified, ChildVerifiedPhone)
	for i := range u.APIKeys {
		if k := &u.APIKeys[i]; k.Leads() {
			if f := k.finder(); f.what != 0 {
				m[f] = true
			}
		}
	}
	for i := range u.Authenticators {
		m[u.Authenticators[i].finder()] = true
	}
	for i := range u.OauthProviders {
		p := &u.OauthProviders[i]
		text := IdentityText(p.Issuer, p.Subject, p.Audience)
		if p.LinkedBy == nil {
			m[finder{what: ChildIdentity, value: text}] = true
			continue
		}
		m[finder{what: ChildLinked, value: text}], m[finder{what: ChildLinkedBy, value: string(p.LinkedBy[:]) + text}] = true, true
	}
	return m
}

// Leads tells keys by which somebody may be found from those of sessions.
func (k *APIKey) Leads() bool {
	return k.ExpirationSeconds == 0 || !k.IsSession()
}

// IsSession tells the key of a session, which the enclave gives at a log-in, from an API key.
func (k *APIKey) IsSession() bool { return !strings.HasPrefix(k.Type, "CREDENTIAL_TYPE_API_KEY_") }

// known is the index of what is proven, vouched for or of before, 0 for anything else.
func (h How) known() byte {
	switch h {
	case HowProven:
		return ChildProven
	case HowVouched:
		return ChildVouched
	case HowBefore:
		return ChildBefore
	}
	return 0
}

func (k *APIKey) finder() finder {
	curve := KeyCurve(k.Type)
	f := finder{what: k.How.known(), value: curve + ":" + k.PublicKey}
	switch {
	case k.How == HowAlone:
		f.what = ChildAlone
	case k.How == HowSignedUp && curve == KeyCurve("") && k.ExpirationSeconds != 0 && k.ExpirationSeconds <= briefSeconds:
		f.what, f.ms = ChildBrief, k.CreatedMs+1000*k.ExpirationSeconds
	}
	return f
}

func (a *Authenticator) finder() finder {
	f := finder{what: a.How.known(), value: PasskeyCurve + ":" + hex.EncodeToString(a.CredentialID)}
	if f.what == 0 {
		f.what, f.ms = ChildFresh, a.CreatedMs
	}
	return f
}

// last is behind all places.
var last = func() *Child {
	c := &Child{CreatedMs: ^uint64(0)}
	for i := range c.ID {
		c.ID[i] = 0xff
	}
	return c
}()

// tier is under what sub-organizations are found by a credential: what is proven counts before what the parent brought,
// and that before what nobody has proven. 0: by none.
func (t *Tx) tier(credential string) (byte, error) {
	for _, what := range []byte{ChildProven, ChildVouched, ChildBefore, ChildFresh, ChildAlone} {
		ids, err := t.ChildrenBy(what, credential, nil, 1)
		if err != nil || len(ids) > 0 {
			return what, err
		}
	}
	return 0, nil
}

// ChildrenByCredential are those to which a key or passkey leads whoever looks for it, up to limit, in the order of their
// making: those behind after or those just above before, if one is given. Of unproven ones there is one: of a passkey,
// which nobody knows before it is registered, the first registered; of a key that is the only way into its
// sub-organization, where it cannot hurt, the newest.
func (t *Tx) ChildrenByCredential(credential string, before, after *Child, limit int) ([]ID, error) {
	what, err := t.tier(credential)
	switch {
	case err != nil || what == 0:
		return nil, err
	case what == ChildFresh || what == ChildAlone:
		if before != nil || after != nil {
			return nil, nil
		}
		return t.only(what, credential, limit)
	case before != nil:
		return t.ChildrenByBefore(what, credential, before, limit)
	}
	return t.ChildrenBy(what, credential, after, limit)
}

func (t *Tx) only(what byte, credential string, limit int) ([]ID, error) {
	if what == ChildAlone {
		return t.ChildrenByBefore(what, credential, last, min(limit, 1))
	}
	return t.ChildrenBy(what, credential, nil, min(limit, 1))
}

// Leads are the sub-organizations to which a stamp that names their parent leads: one, none, or two that contradict
// each other. Those are ChildrenByCredential, and where there are none those signed up a moment ago with a key that
// expires soon.
func (t *Tx) Leads(credential string) ([]ID, error) {
	ids, err := t.ChildrenByCredential(credential, nil, nil, 2)
	if err != nil || len(ids) > 0 {
		return ids, err
	}
	return t.ChildrenBy(ChildBrief, credential, &Child{CreatedMs: t.NowMs, ID: last.ID}, 2)
}

// IsClaimed tells whether a credential belongs to a sub-organization so that no other may be signed up with it: a log-in by it
// would lead there.
func (t *Tx) IsClaimed(credential string) (bool, error) {
	what, err := t.tier(credential)
	return what != 0 && what != ChildAlone, err
}

// ChildrenByIdentity are up to two sub-organizations to which an identity leads whoever shows a token. One that got the
// identity by a token bound to a key that did not ask for it leads if there is no other, and never by a token of that same
// attempt to log in: whoever took the token from it may have brought it there.
func (t *Tx) ChildrenByIdentity(text string, attempt Hash) ([]ID, error) {
	ids, err := t.ChildrenBy(ChildIdentity, text, nil, 2)
	if err != nil || len(ids) > 0 {
		return ids, err
	}
	same, err := t.ChildrenBy(ChildLinkedBy, string(attempt[:])+text, nil, maxLinked)
	if err != nil {
		return nil, err
	}
	all, err := t.ChildrenBy(ChildLinked, text, nil, 2+len(same))
	return slices.DeleteFunc(all, func(id ID) bool { return slices.Contains(same, id) }), err
}

// maxLinked is more than can link one identity: a second link of it is refused.
const maxLinked = 16
