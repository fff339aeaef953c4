package core

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
)

// An assumedCaller is a guess of a recorded request's caller: what an entry does not contain, but the decision needs.
type assumedCaller struct {
	proxy    bool // through the auth proxy
	byParent bool // by a user of the parent
	factor   int  // which of the user's contacts and identities a token vouched for
	user     org.ID
	home     org.ID // his organization
}

// maxFactorsTried bounds the guesses for a request that a token vouched for.
const maxFactorsTried = 2 + 64

// assumedCallers returns all guesses that fit the recorded vote.
func (s *replayed) assumedCallers() []assumedCaller {
	vote := s.vote
	var all []assumedCaller
	switch vote.Scheme {
	case stamp.WebAuthn.String():
		all = []assumedCaller{{}, {byParent: true}}
	case stamp.AttestedP256.String():
		for i := range maxFactorsTried {
			all = append(all, assumedCaller{user: vote.User, home: s.home.id, factor: i})
		}
	default:
		all = []assumedCaller{{}, {byParent: true}, {proxy: true}}
	}
	return all
}

// requester rebuilds the stamp of a recorded vote, and verifies it over the body like any other.
func (g *assumedCaller) requester(v *callState, vote *org.Vote, body []byte) (*requester, error) {
	var head stamp.Header
	var err error
	switch vote.Scheme {
	case stamp.WebAuthn.String():
		head = stamp.Header{Name: "X-Stamp-WebAuthn", Value: vote.Signature}
	case stamp.AttestedP256.String():
		// The token is not in the entry: its key's signature is verified, and the user comes from the record.
		head, err = stampHeader("X-Stamp-Attested", map[string]string{"publicKeyAttestation": "-", "scheme": "STAMP_ATTESTED_SCHEME_P256_VERIFICATION_TOKEN", "publicKey": vote.PublicKey, "signature": vote.Signature})
	default:
		head, err = stampHeader("X-Stamp", map[string]string{"scheme": vote.Scheme, "publicKey": vote.PublicKey, "signature": vote.Signature})
	}
	if err != nil {
		return nil, err
	}
	caller, passkey, attested, err := v.core.stamps.Read([]stamp.Header{head}, body)
	if err != nil {
		return nil, err
	}
	s := &requester{call: v, caller: caller, passkey: passkey, attested: attested, proxy: g.proxy}
	if attested != nil {
		s.voucher = g
	}
	return s, nil
}

func stampHeader(name string, members map[string]string) (stamp.Header, error) {
	b, err := json.Marshal(members)
	return stamp.Header{Name: name, Value: base64.RawURLEncoding.EncodeToString(b)}, err
}

// address returns an address that the allowlist of the caller's organization allows.
func (g *assumedCaller) address(t, parent *ledger.Locked, publicKey string) (string, error) {
	if g.byParent {
		if parent == nil {
			return "", nil
		}
		t = parent
	}
	tx := t.Begin(0)
	all, err := tx.Allowlist("")
	if err != nil || all == nil || !all.Enabled {
		return "", err
	}
	own, err := tx.Allowlist(publicKey)
	if err == nil && own != nil && len(own.Rules) > 0 {
		return addressIn(own.Rules), nil
	}
	return addressIn(all.Rules), err
}

var _ voucher = (*assumedCaller)(nil)

// find returns the recorded user, with the credential that the token may have proven.
func (g *assumedCaller) find(tx *org.Tx) (*vouched, error) {
	u, err := tx.User(g.user)
	if u == nil || err != nil {
		return nil, err
	}
	var proven []org.VoteCredential
	if u.Email != "" {
		proven = append(proven, activity.ContactCredential(&login.VerificationToken{Type: login.Email, Contact: u.Email}))
	}
	if u.Phone != "" {
		proven = append(proven, activity.ContactCredential(&login.VerificationToken{Type: login.SMS, Contact: u.Phone}))
	}
	for _, c := range proven { // for a token that a session with a profile got
		for i := range u.APIKeys {
			if c.Profile = u.APIKeys[i].Profile; !c.Profile.Zero() && !slices.Contains(proven, c) {
				proven = append(proven, c)
			}
		}
	}
	for i := range u.OauthProviders {
		proven = append(proven, activity.IdentityCredential(&u.OauthProviders[i]))
	}
	if g.factor >= len(proven) {
		return nil, nil
	}
	return &vouched{u, proven[g.factor], anyKey{}}, nil
}

// childrenWith returns the organization of the recorded user.
func (g *assumedCaller) childrenWith(*org.Tx) ([]org.ID, error) { return []org.ID{g.home}, nil }

// anyKey replaces a token that is not in the entry.
type anyKey struct{}

func (anyKey) BoundTo(string) bool { return true }
