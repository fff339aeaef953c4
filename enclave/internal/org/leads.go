package org

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Look-up of a sub-organization by credential. Clients log in without naming their sub-organization: they name the parent,
// or ask it which one has a key, passkey, identity or contact. Every owner of a sub-organization can write another's public
// key, address or identity into it, so such a record counts depending on its recorded origin. enclave/CREDENTIALS.md has
// the table.

// How is the origin of a user's credential or contact in a sub-organization, and whether it has been proven since.
type How uint8

const (
	HowBefore   How = iota // before origins were recorded
	HowInside              // by a user of the sub-organization
	HowSignedUp            // by a sign-up through the auth proxy, with other credentials
	HowAlone               // by a sign-up through the auth proxy, as the only way into the sub-organization
	HowVouched             // by a user of the parent, who made the sub-organization with it
	HowProven              // a credential that has stamped a completed activity of the sub-organization
)

// Unproven reports whether a contact is an unconfirmed claim of the sub-organization.
func (h How) Unproven() bool { return h != HowBefore && h != HowVouched }

// Kinds of values under which a parent finds sub-organizations.
const (
	// Keys and passkeys, by curve, a colon, public key or hex credential id.
	ChildProven  = 'x'
	ChildVouched = 'v'
	ChildBefore  = 'c'
	ChildFresh   = 'f' // passkeys, in the order of their registration
	ChildAlone   = 'a' // keys
	ChildBrief   = 'b' // P-256 keys of sign-ups that expire soon, by expiry

	ChildIdentity = 'o' // IdentityText
	ChildLinked   = 'l' // IdentityText, of an identity that a token bound to another key added
	ChildLinkedBy = 't' // log-in attempt and IdentityText of a ChildLinked

	ChildEmail         = 'e'
	ChildPhone         = 'p'
	ChildVerifiedEmail = 'E'
	ChildVerifiedPhone = 'P'
	ChildName          = 'n'
	ChildVerified      = 'V' // empty value: sub-organizations with any verified contact
)

// briefSeconds is the life of the keys with which clients log a user in right after the sign-up.
const briefSeconds = 600

// LinkUser updates the look-up keys of sub-organization c for a user's contacts, identities, API keys
// and passkeys. before and after are the user's records, nil where there is none.
func (t *Tx) LinkUser(c *Child, before, after *User) error {
	was, is := findersOf(before), findersOf(after)
	for _, f := range sortFinders(was) {
		if !is[f] {
			t.DeleteChildKey(f.what, f.value, f.entryOf(c), before.ID)
		}
	}
	for _, f := range sortFinders(is) {
		if !was[f] {
			if err := t.PutChildKey(f.what, f.value, f.entryOf(c), after.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// LinkChanges reports whether LinkUser would change anything.
func LinkChanges(before, after *User) bool { return !maps.Equal(findersOf(before), findersOf(after)) }

// A finder is one look-up key of a user. It is ordered by the sub-organization's creation, or by a time.
type finder struct {
	what  byte
	value string
	ms    uint64 // the time; 0: ordered by creation
}

func (f finder) entryOf(c *Child) *Child {
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

// findersOf returns the look-up keys of a user. They include API keys, also expiring ones: a client
// that signs a user up logs in with one before it has the sub-organization's id. They do not include
// session keys, which are short-lived.
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

// Leads reports whether a user may be looked up by the key, which is not so for session keys.
func (k *APIKey) Leads() bool {
	return k.ExpirationSeconds == 0 || !k.IsSession()
}

// IsSession reports whether the key is a session key, which the enclave issues at a log-in, and not an API key.
func (k *APIKey) IsSession() bool { return !strings.HasPrefix(k.Type, "CREDENTIAL_TYPE_API_KEY_") }

// indexKind is the kind under which a proven, vouched-for or unrecorded credential is looked up, 0 for others.
func (h How) indexKind() byte {
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
	f := finder{what: k.How.indexKind(), value: curve + ":" + k.PublicKey}
	switch {
	case k.How == HowAlone:
		f.what = ChildAlone
	case k.How == HowSignedUp && curve == KeyCurve("") && k.ExpirationSeconds != 0 && k.ExpirationSeconds <= briefSeconds:
		f.what, f.ms = ChildBrief, k.CreatedMs+1000*k.ExpirationSeconds
	}
	return f
}

func (a *Authenticator) finder() finder {
	f := finder{what: a.How.indexKind(), value: PasskeyCurve + ":" + hex.EncodeToString(a.CredentialID)}
	if f.what == 0 {
		f.what, f.ms = ChildFresh, a.CreatedMs
	}
	return f
}

// last is a Child after all others in the order of creation.
var last = func() *Child {
	c := &Child{CreatedMs: ^uint64(0)}
	for i := range c.ID {
		c.ID[i] = 0xff
	}
	return c
}()

// tier is the strongest kind under which a sub-organization has a credential: proven before vouched for by the parent, and
// that before unproven. It is 0 if there is none.
func (t *Tx) tier(credential string) (byte, error) {
	for _, what := range []byte{ChildProven, ChildVouched, ChildBefore, ChildFresh, ChildAlone} {
		ids, err := t.ChildrenBy(what, credential, nil, 1)
		if err != nil || len(ids) > 0 {
			return what, err
		}
	}
	return 0, nil
}

// ChildrenByCredential returns the sub-organizations that a look-up by key or passkey finds, up to limit, in the order of
// creation: those after `after` or the last ones before `before`, if one is given. If all are unproven it returns one: for
// a passkey, which is secret before it is registered, the first registered; for a key that is the only way into its
// sub-organization, where it can do no harm, the newest.
func (t *Tx) ChildrenByCredential(credential string, before, after *Child, limit int) ([]ID, error) {
	what, err := t.tier(credential)
	switch {
	case err != nil || what == 0:
		return nil, err
	case what == ChildFresh || what == ChildAlone:
		if before != nil || after != nil {
			return nil, nil
		}
		return t.firstChild(what, credential, limit)
	case before != nil:
		return t.ChildrenByBefore(what, credential, before, limit)
	}
	return t.ChildrenBy(what, credential, after, limit)
}

func (t *Tx) firstChild(what byte, credential string, limit int) ([]ID, error) {
	if what == ChildAlone {
		return t.ChildrenByBefore(what, credential, last, min(limit, 1))
	}
	return t.ChildrenBy(what, credential, nil, min(limit, 1))
}

// Leads returns the sub-organizations for a stamp that names their parent: none, one, or two, which means that the stamp is
// ambiguous. They are those of ChildrenByCredential or, if there are none, the recent sign-ups with a key that expires
// soon.
func (t *Tx) Leads(credential string) ([]ID, error) {
	ids, err := t.ChildrenByCredential(credential, nil, nil, 2)
	if err != nil || len(ids) > 0 {
		return ids, err
	}
	return t.ChildrenBy(ChildBrief, credential, &Child{CreatedMs: t.NowMs, ID: last.ID}, 2)
}

// IsClaimed reports whether no other sub-organization may be signed up with a credential, because a log-in with it finds an
// existing one.
func (t *Tx) IsClaimed(credential string) (bool, error) {
	what, err := t.tier(credential)
	return what != 0 && what != ChildAlone, err
}

// ChildrenByIdentity returns up to two sub-organizations for a token of an identity. One that got the identity by a token
// bound to another key than the requester's is returned only if there is no other, and never for a token of the same log-in
// attempt: an attacker who stole that token may have added the identity.
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

// maxLinked exceeds the number of links of one identity, since a second link is refused.
const maxLinked = 16
