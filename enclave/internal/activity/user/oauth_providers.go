package user

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// OauthProviders are the kinds about identities at OpenID providers.
var OauthProviders = activity.Family{
	activity.Kind[CreateOauthProviders, ProviderIDs]{
		Name: "CREATE_OAUTH_PROVIDERS", Resource: "CREDENTIAL", Action: "CREATE", ByParent: true, Run: createOauthProviders, Results: []int{1, 2},
		Explain: func(tx *org.Tx, in *CreateOauthProviders, o *show.Object) error { return in.explain(tx, o) },
		Older: []activity.Older{activity.Upgrade(func(v *CreateOauthProvidersV1) CreateOauthProviders {
			return CreateOauthProviders{v.UserID, CarryProviders(v.OauthProviders)}
		})},
		Self: func(in *CreateOauthProviders) string { return in.UserID },
	},
	activity.Kind[DeleteOauthProviders, ProviderIDs]{
		Name: "DELETE_OAUTH_PROVIDERS", Resource: "CREDENTIAL", Action: "DELETE", Run: deleteOauthProviders,
		Explain: func(tx *org.Tx, in *DeleteOauthProviders, o *show.Object) error { return in.explain(tx, o) },
		Self:    func(in *DeleteOauthProviders) string { return in.UserID },
	},
}

// Limits of the parts of identities. OpenID Connect limits only subjects.
const (
	MaxName    = 255 // characters
	maxSubject = 255 // bytes, like maxClaim
	maxClaim   = 1024
)

// CreateOauthProvidersV1 is version 1 of the intent, with tokens only.
type CreateOauthProvidersV1 struct {
	UserID         string                  `json:"userId" rule:"required,uuid"`
	OauthProviders []OauthProviderParamsV1 `json:"oauthProviders" rule:"required,dive,required"`
}

// CreateOauthProviders gives a user identities at OpenID providers.
type CreateOauthProviders struct {
	UserID         string                `json:"userId" rule:"required,uuid"`
	OauthProviders []OauthProviderParams `json:"oauthProviders" rule:"required,dive,required"`
}

func (in *CreateOauthProviders) Check() error {
	return checkProviders("", in.OauthProviders)
}

// ProviderIDs is the result of creating and of deleting identities.
type ProviderIDs struct {
	ProviderIDs []string `json:"providerIds"`
}

func (p *OauthProviderParams) hasToken() bool { return activity.TextOf(p.OidcToken) != "" }

func checkProviders(path string, ps []OauthProviderParams) error {
	for i := range ps {
		p, at := &ps[i], fmt.Sprintf("%soauthProviders.%d.", path, i)
		switch {
		case !ValidName(p.ProviderName):
			return fault.Field(at+"providerName", "must be 1 to %d characters without control characters", MaxName)
		case p.hasToken() == (p.OidcClaims != nil):
			return fault.Field(at+"oidcToken", "exactly one of oidcToken and oidcClaims must be set")
		case p.hasToken():
			if err := CheckIdentityToken(at+"oidcToken", *p.OidcToken); err != nil {
				return err
			}
			continue
		}
		for _, c := range []struct {
			name, value string
			limit       int
		}{{"iss", p.OidcClaims.Iss, maxClaim}, {"sub", p.OidcClaims.Sub, maxSubject}, {"aud", p.OidcClaims.Aud, maxClaim}} {
			if len(c.value) > c.limit || strings.ContainsFunc(c.value, unicode.IsControl) {
				return fault.Field(at+"oidcClaims."+c.name, "must be at most %d bytes without control characters", c.limit)
			}
		}
	}
	return nil
}

// ValidName reports whether a name, for which the interface has no rule, is accepted.
func ValidName(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= MaxName && !strings.ContainsFunc(s, unicode.IsControl)
}

func createOauthProviders(tx *activity.Tx, in *CreateOauthProviders) (*ProviderIDs, error) {
	r := new(ProviderIDs)
	_, err := Change(tx, in.UserID, func(u *org.User) (err error) {
		r.ProviderIDs, err = addProviders(tx, u, "", in.OauthProviders)
		return err
	})
	return r, err
}

// addProviders gives u, which the caller stores, more identities.
func addProviders(tx *activity.Tx, u *org.User, path string, ps []OauthProviderParams) ([]string, error) {
	if len(u.OauthProviders)+len(ps) > tx.Limits.OauthProviders {
		return nil, fault.New(fault.ResourceExhausted, "user has exceeded maximum oauth providers: %d", tx.Limits.OauthProviders)
	}
	cs, proven, err := provenClaims(tx, path, ps)
	if err != nil {
		return nil, err
	}
	top, err := tx.IsByParent()
	if err == nil && top != nil {
		err = mayLink(top, u, ps, proven)
	}
	if err != nil {
		return nil, err
	}
	for _, i := range proven {
		if linkedBy(tx, u, i.Issuer, i.Subject, proven) != nil { // the token may have been taken from the owner of the address
			continue
		}
		if err := verifyAddress(tx, u, i); err != nil {
			return nil, err
		}
	}
	ids := make([]string, len(ps))
	for i := range ps {
		at, c := fmt.Sprintf("%soauthProviders.%d", path, i), cs[i]
		// Claims alone prove nothing: they only extend a proven identity to another client of the same issuer.
		shown := func(i *login.Identity) bool { return i.Issuer == c.Iss && i.Subject == c.Sub }
		has := func(p org.OauthProvider) bool { return p.Issuer == c.Iss && p.Subject == c.Sub }
		if !slices.ContainsFunc(proven, shown) && !slices.ContainsFunc(u.OauthProviders, has) {
			return nil, fault.Field(at+".oidcClaims", "oidcClaims must share iss and sub with a verified token in the request or with an identity of the user")
		}
		held, err := isIdentityHeld(tx, u, c, proven)
		if err != nil {
			return nil, err
		}
		if held {
			return nil, fault.Field(at, "oauth provider already exists").WithName("OAUTH_PROVIDER_ALREADY_EXISTS")
		}
		p, err := newIdentity(tx, ps[i].ProviderName, c)
		if err != nil {
			return nil, err
		}
		if top == nil {
			p.LinkedBy = linkedBy(tx, u, c.Iss, c.Sub, proven)
		}
		u.OauthProviders = append(u.OauthProviders, p)
		ids[i] = p.ID.String()
	}
	return ids, nil
}

// linkedBy returns the log-in attempt of the token that proves an identity, if the proof is weak: neither the parent submits it, nor
// the key to which the token is bound, and there are other ways to log in to the organization. Claims without a token
// have the LinkedBy of the user's identity that they extend.
func linkedBy(tx *activity.Tx, u *org.User, issuer, subject string, proven []*login.Identity) *org.Hash {
	if how := tx.How(); how == org.HowVouched || how == org.HowAlone {
		return nil
	}
	for _, i := range proven {
		if i.Issuer == issuer && i.Subject == subject {
			if i.BoundTo(tx.Stamped.PublicKey) {
				return nil
			}
			attempt := org.Hash(i.Attempt())
			return &attempt
		}
	}
	for i := range u.OauthProviders {
		if p := &u.OauthProviders[i]; p.Issuer == issuer && p.Subject == subject {
			return p.LinkedBy
		}
	}
	return nil
}

func newIdentity(tx *activity.Tx, name string, c *OidcClaims) (org.OauthProvider, error) {
	id, err := org.NewID(tx.Rand)
	return org.OauthProvider{ID: id, Name: name, Issuer: c.Iss, Audience: c.Aud, Subject: c.Sub, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs}, err
}

// provenClaims returns the claims of identities in their order, and separately the identities that verified tokens prove.
// A token that adds an identity need not be bound to a key: it starts no session.
func provenClaims(tx *activity.Tx, path string, ps []OauthProviderParams) (cs []*OidcClaims, proven []*login.Identity, err error) {
	cs = make([]*OidcClaims, len(ps))
	for i := range ps {
		if c := ps[i].OidcClaims; c != nil {
			cs[i] = &OidcClaims{Iss: login.CanonicalIssuer(c.Iss), Sub: c.Sub, Aud: c.Aud}
			continue
		}
		field := fmt.Sprintf("%soauthProviders.%d.oidcToken", path, i)
		t, err := VerifyIdentityToken(tx, field, *ps[i].OidcToken)
		if err != nil {
			return nil, nil, err
		}
		if len(t.Audiences) != 1 {
			e := fault.Field(field, "invalid OIDC token: it has more than one audience, so that nobody can tell which of them is meant")
			return nil, nil, e.WithName("INVALID_OIDC_TOKEN")
		}
		cs[i] = &OidcClaims{Iss: t.Issuer, Sub: t.Subject, Aud: t.Audiences[0]}
		proven = append(proven, t)
	}
	return cs, proven, nil
}

// isIdentityHeld reports whether any user has an identity: u, the other users of the organization, those of the parent or
// of its sub-organizations. An identity linked by the log-in attempt of a token in proven does not count against the
// sign-up by the same attempt. As in ParentUsers, the organization's record need not exist yet.
func isIdentityHeld(tx *activity.Tx, u *org.User, c *OidcClaims, proven []*login.Identity) (bool, error) {
	has := func(u *org.User) bool {
		return slices.ContainsFunc(u.OauthProviders, func(p org.OauthProvider) bool { return p.Issuer == c.Iss && p.Subject == c.Sub && p.Audience == c.Aud })
	}
	held := has(u)
	visit := func(u *org.User) bool {
		held = held || has(u)
		return !held
	}
	if err := tx.EachUser(visit); err != nil || held {
		return held, err
	}
	top := tx.Tx
	parent, err := tx.ParentUsers()
	if err != nil {
		return false, err
	}
	if parent != nil {
		if err := parent.EachUser(visit); err != nil || held {
			return held, err
		}
		top = parent
	}
	text := org.IdentityText(c.Iss, c.Sub, c.Aud)
	if tx.Presented != 0 { // a sign-up
		var attempt org.Hash
		for _, i := range proven {
			if i.Issuer == c.Iss && i.Subject == c.Sub {
				attempt = i.Attempt()
			}
		}
		children, err := top.ChildrenByIdentity(text, attempt)
		return len(children) > 0, err
	}
	for _, what := range []byte{org.ChildIdentity, org.ChildLinked} {
		if children, err := top.ChildrenBy(what, text, nil, 1); err != nil || len(children) > 0 {
			return true, err
		}
	}
	return false, nil
}

// DeleteOauthProviders removes identities of a user.
type DeleteOauthProviders struct {
	UserID      string   `json:"userId" rule:"required,uuid"`
	ProviderIDs []string `json:"providerIds" rule:"dive,required,uuid"`
}

func (in *DeleteOauthProviders) Check() error {
	return activity.CheckDistinct("providerIds", in.ProviderIDs)
}

func deleteOauthProviders(tx *activity.Tx, in *DeleteOauthProviders) (*ProviderIDs, error) {
	_, err := Change(tx, in.UserID, func(u *org.User) error {
		for _, text := range in.ProviderIDs {
			id, _ := org.ParseID(text) // its rule requires a UUID
			i := slices.IndexFunc(u.OauthProviders, func(p org.OauthProvider) bool { return p.ID == id })
			if i < 0 {
				return activity.NotFound("oauth provider", text)
			}
			u.OauthProviders = slices.Delete(u.OauthProviders, i, i+1)
			u.NotBeforeMs = tx.NowMs
		}
		return nil
	})
	return &ProviderIDs{in.ProviderIDs}, err
}
