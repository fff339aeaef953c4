package query

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

var suborgs = []*Query{
	fetchQuery("list_suborgs", fetchSuborgs("list_suborgs", suborgFilters), answerSuborgs),
	fetchQuery("list_verified_suborgs", fetchSuborgs("list_verified_suborgs", verifiedFilters), answerSuborgs),
}

// Index searches sub-organizations by values that their parent does not store. The host
// stores the index and may leave sub-organizations out. A row counts only after its
// sub-organization was checked.
type Index interface {
	// Child returns the parent's record of a sub-organization, or nil.
	Child(id org.ID) (*org.Child, error)
	// Rows returns at most limit sub-organizations that may have the handle, in order of
	// creation, each with ID and CreatedMs: the first ones, those that follow after, or
	// those just before before. Fewer than limit means that there are no more.
	Rows(h org.Handle, before, after *org.Child, limit int) ([]org.Child, error)
	// Has reports whether a sub-organization exists and has the handle now.
	Has(c *org.Child, h org.Handle) (bool, error)
	// Identity verifies an identity token. attempt is that of Tx.ChildrenByIdentity. The error is a *fault.Error about
	// field.
	Identity(field, token string) (issuer, subject string, audiences []string, attempt org.Hash, err error)
}

// Limits of one search through the index.
const (
	// maxAsked bounds the sub-organizations that one request checks for the
	// handle. An honest host returns hardly any without it.
	maxAsked = 1000
	// minRows is the minimal number of rows per query of the index, so that a false row does not
	// cost a query of its own.
	minRows = 16
)

// suborgsRequest requests a page of sub-organizations, in order of creation. A
// filter is a type with a value.
type suborgsRequest struct {
	Head
	FilterType        *string     `json:"filterType"`
	FilterValue       *string     `json:"filterValue"`
	PaginationOptions *Pagination `json:"paginationOptions"`
	IncludeDetails    *bool       `json:"includeDetails"` // ours: also answer names and times of creation, and the number of all
}

// A search finds up to limit sub-organizations in the parent's state, in order of creation: those after after
// or those just before before, if one is given.
type search func(v *View, before, after *org.Child, limit int) ([]org.ID, error)

// suborgFilter selects the results of any of the searches in the parent's state, or the sub-organizations with the handle in
// the host's index. The empty one selects all.
type suborgFilter struct {
	searches []search
	handle   *org.Handle
}

// suborgFilters make the filters of list_suborgs by the type's name. An impossible value
// makes a filter without results. Nil stands for byIdentity.
var suborgFilters = map[string]func(value string) suborgFilter{
	"":              func(string) suborgFilter { return suborgFilter{} },
	"CREDENTIAL_ID": byCredentialID,
	"PUBLIC_KEY":    byPublicKey,
	"EMAIL":         byEmail(org.ChildEmail),
	"PHONE_NUMBER":  by(org.ChildPhone),
	"NAME":          by(org.ChildName),
	"OIDC_TOKEN":    nil,
	"OAUTH_CLAIM":   byClaims,
	"USERNAME":      func(v string) suborgFilter { return byHandle(org.HandleUserName, v) },
	// Private keys have addresses as accounts do.
	"WALLET_ACCOUNT_ADDRESS": func(v string) suborgFilter { return byHandle(org.HandleAddress, chain.MatchKey(v)) },
}

// verifiedFilters make the filters of list_verified_suborgs: the sub-organization must have
// verified the contact; without a filter, any contact.
var verifiedFilters = map[string]func(value string) suborgFilter{
	"":             func(string) suborgFilter { return by(org.ChildVerified)("") },
	"EMAIL":        byEmail(org.ChildVerifiedEmail),
	"PHONE_NUMBER": by(org.ChildVerifiedPhone),
}

func by(what byte) func(string) suborgFilter {
	return func(value string) suborgFilter {
		return suborgFilter{searches: []search{func(v *View, before, after *org.Child, limit int) ([]org.ID, error) {
			if before != nil {
				return v.ChildrenByBefore(what, value, before, limit)
			}
			return v.ChildrenBy(what, value, after, limit)
		}}}
	}
}

// byCredentials selects the sub-organizations in which a log-in by a key or passkey ends.
func byCredentials(credentials ...string) suborgFilter {
	f := suborgFilter{searches: []search{}}
	for _, c := range credentials {
		f.searches = append(f.searches, func(v *View, before, after *org.Child, limit int) ([]org.ID, error) {
			return v.ChildrenByCredential(c, before, after, limit)
		})
	}
	return f
}

func byEmail(what byte) func(string) suborgFilter {
	return func(v string) suborgFilter { return by(what)(strings.ToLower(v)) }
}

func byHandle(what byte, v string) suborgFilter {
	h := org.NewHandle(what, v)
	return suborgFilter{handle: &h}
}

// byCredentialID selects by a passkey's credential id in base64url.
func byCredentialID(v string) suborgFilter {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(v, "="))
	if err != nil {
		return byCredentials()
	}
	return byCredentials(org.PasskeyCurve + ":" + hex.EncodeToString(b))
}

// byIdentity selects by an identity token, which it verifies. The token may be bound to any
// key: its holder learns only where he could log in.
func byIdentity(x Index, token string) (suborgFilter, error) {
	issuer, subject, audiences, attempt, err := x.Identity("filterValue", token)
	f := suborgFilter{searches: []search{}}
	for _, a := range audiences {
		f.searches = append(f.searches, byIdentityText(org.IdentityText(issuer, subject, a), attempt))
	}
	return f, err
}

// byClaims selects by the claims of an identity token, without one: it finds where the token's holder could log in, and proves nothing.
func byClaims(v string) suborgFilter {
	var c struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Audience string `json:"aud"`
	}
	f := suborgFilter{searches: []search{}}
	if err := strictjson.Decode([]byte(v), &c); err != nil {
		return f
	}
	f.searches = append(f.searches, byIdentityText(org.IdentityText(login.CanonicalIssuer(c.Issuer), c.Subject, c.Audience), org.Hash{}))
	return f
}

func byIdentityText(text string, attempt org.Hash) search {
	return func(v *View, before, after *org.Child, _ int) ([]org.ID, error) {
		ids, err := v.ChildrenByIdentity(text, attempt)
		if err != nil {
			return nil, err
		}
		return beyond(v, ids, before, after)
	}
}

// byPublicKey selects by an API key's public key, whose curve is unknown.
func byPublicKey(v string) suborgFilter {
	var cs []string
	for _, t := range []string{"CREDENTIAL_TYPE_API_KEY_P256", "CREDENTIAL_TYPE_API_KEY_SECP256K1", "CREDENTIAL_TYPE_API_KEY_ED25519"} {
		cs = append(cs, org.KeyCurve(t)+":"+strings.ToLower(v))
	}
	return byCredentials(cs...)
}

type suborgSearch struct {
	suborgFilter
	bounds
	found    []org.ID
	detailed bool
}

// fetchSuborgs decodes the request and, if the filter is a handle, searches the index.
func fetchSuborgs(op string, filters map[string]func(string) suborgFilter) func(*suborgsRequest, *sources) (*suborgSearch, error) {
	return func(in *suborgsRequest, x *sources) (s *suborgSearch, err error) {
		s = &suborgSearch{detailed: in.IncludeDetails != nil && *in.IncludeDetails}
		if s.suborgFilter, err = in.filter(op, filters, x); err != nil {
			return nil, err
		}
		if s.bounds, err = in.PaginationOptions.bounds(); err != nil {
			return nil, err
		}
		if s.handle != nil {
			err = s.pageFromIndex(x)
		}
		return s, err
	}
}

func (in *suborgsRequest) filter(op string, filters map[string]func(string) suborgFilter, x Index) (suborgFilter, error) {
	kind, value := activity.TextOf(in.FilterType), activity.TextOf(in.FilterValue)
	build, known := filters[kind]
	switch {
	case !known:
		return suborgFilter{}, fault.Field("filterType", "filterType is none of %s", op)
	case kind == "" && value != "":
		return suborgFilter{}, fault.Field("filterType", "filterType must be set with filterValue")
	case kind != "" && value == "":
		return suborgFilter{}, fault.Field("filterValue", "filterValue must be set with filterType")
	case build == nil:
		return byIdentity(x, value)
	}
	return build(value), nil
}

// pageFromIndex fills the page from the index. It replaces false rows by
// others, so that only the last page is short.
func (s *suborgSearch) pageFromIndex(x Index) error {
	before, after, err := s.places(x.Child)
	if err != nil {
		return err
	}
	for asked := 0; len(s.found) < s.limit; {
		n := max(s.limit-len(s.found), minRows)
		rows, err := x.Rows(*s.handle, before, after, n)
		if err != nil {
			return err
		}
		for i := range rows {
			c := &rows[i]
			if before != nil { // the page is filled from its end
				c = &rows[len(rows)-1-i]
				before = c
			} else {
				after = c
			}
			if asked++; asked > maxAsked {
				return fault.New(fault.Unavailable, "too many sub-organizations had this and have it no longer: try again")
			}
			has, err := x.Has(c, *s.handle)
			if err != nil {
				return err
			}
			if has {
				s.found = append(s.found, c.ID)
			}
			if len(s.found) == s.limit {
				break
			}
		}
		if len(rows) < n {
			break
		}
	}
	if before != nil {
		slices.Reverse(s.found)
	}
	return nil
}

func (s *suborgSearch) places(find func(org.ID) (*org.Child, error)) (before, after *org.Child, err error) {
	place := func(name string, cursor *org.ID) (c *org.Child) {
		if cursor == nil || err != nil {
			return nil
		}
		if c, err = find(*cursor); err == nil && c == nil {
			err = unknownCursor(name)
		}
		return c
	}
	before, after = place("before", s.before), place("after", s.after)
	return before, after, err
}

func answerSuborgs(v *View, s *suborgSearch) (_ []byte, err error) {
	ids := s.found
	if s.handle == nil {
		if ids, err = s.inState(v); err != nil {
			return nil, err
		}
	}
	dst := idents(nil, `{"organizationIds":`, ids)
	if s.detailed {
		dst, err = appendDetails(dst, v, ids)
	}
	return append(dst, '}'), err
}

// appendDetails writes the parent's records of a page, and how many sub-organizations there are. One that was deleted since the
// index was searched is left out.
func appendDetails(dst []byte, v *View, ids []org.ID) ([]byte, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	cs, err := childrenOf(v, ids)
	if err != nil {
		return nil, err
	}
	dst = array(dst, `,"organizations":`, cs, func(dst []byte, c *org.Child) []byte {
		dst = ident(dst, `{"organizationId":`, c.ID)
		dst = text(dst, `,"organizationName":`, c.Name)
		return append(activity.AppendTime(append(dst, `,"createdAt":`...), c.CreatedMs), '}')
	})
	return number(dst, `,"total":`, o.Children), nil
}

// inState reads the page from the parent's state, which is complete.
func (s *suborgSearch) inState(v *View) ([]org.ID, error) {
	before, after, err := s.places(v.Child)
	if err != nil {
		return nil, err
	}
	if s.searches == nil {
		if before != nil {
			return v.ChildrenBefore(before, s.limit)
		}
		return v.Children(after, s.limit)
	}
	var all []org.ID
	for _, find := range s.searches {
		ids, err := find(v, before, after, s.limit)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	if len(s.searches) == 1 && len(all) <= s.limit {
		return all, nil
	}
	return s.merge(v, all)
}

// beyond returns those of a few sub-organizations that come after after or before before, in order of creation.
func beyond(v *View, ids []org.ID, before, after *org.Child) (out []org.ID, err error) {
	for _, id := range ids {
		c, err := v.Child(id)
		switch {
		case err != nil:
			return nil, err
		case c != nil && (before == nil || c.Older(before)) && (after == nil || after.Older(c)):
			out = append(out, id)
		}
	}
	return out, nil
}

// childrenOf returns the parent's records of sub-organizations. Those that are deleted are left out.
func childrenOf(v *View, ids []org.ID) ([]*org.Child, error) {
	cs := make([]*org.Child, 0, len(ids))
	for _, i := range ids {
		c, err := v.Child(i)
		if err != nil {
			return nil, err
		}
		if c != nil {
			cs = append(cs, c)
		}
	}
	return cs, nil
}

// merge sorts the results of several searches by creation and removes duplicates.
func (s *suborgSearch) merge(v *View, ids []org.ID) ([]org.ID, error) {
	cs, err := childrenOf(v, ids)
	if err != nil {
		return nil, err
	}
	sortCreated(cs, func(c *org.Child) created { return created{c.CreatedMs, c.ID} })
	ids = ids[:0]
	for _, c := range cs {
		ids = append(ids, c.ID)
	}
	ids = slices.Compact(ids)
	if s.before != nil {
		return ids[max(0, len(ids)-s.limit):], nil
	}
	return ids[:min(len(ids), s.limit)], nil
}
