package query

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var suborgs = []*Query{
	indexQuery("list_suborgs", prepareSuborgs(suborgFilters), answerSuborgs),
	indexQuery("list_verified_suborgs", prepareSuborgs(verifiedFilters), answerSuborgs),
}

// Index is a search for sub-organizations by what their parent does not keep.
// The host keeps the index: it may leave sub-organizations out, and what it says
// of one counts for nothing until that has been asked.
type Index interface {
	// Child returns what the parent keeps of a sub-organization, nil when it has
	// none with this id.
	Child(id org.ID) (*org.Child, error)
	// Rows returns at most limit sub-organizations that may have the handle, in
	// the order of their making, each with ID and CreatedMs: the first ones, those
	// behind after, or those just above before. With fewer there are no more.
	Rows(h org.Handle, before, after *org.Child, limit int) ([]org.Child, error)
	// Has tells whether a sub-organization is there and has the handle now.
	Has(c *org.Child, h org.Handle) (bool, error)
	// Identity verifies an identity token and tells whom it is about and for whom it
	// is. The error is a *fault.Error about field.
	Identity(field, token string) (issuer, subject string, audiences []string, err error)
}

// Bounds of one search through the index.
const (
	// maxAsked is how many sub-organizations one request asks whether they have
	// what is looked for. An honest host names hardly any that have not.
	maxAsked = 1000
	// minRows is the fewest rows asked for at a time, so that rows which are not
	// true do not cost a question each.
	minRows = 16
)

// SuborgsRequest asks for a page of sub-organizations, in the order of their
// making. A filter is a type with a value.
type SuborgsRequest struct {
	Head
	FilterType        *string     `json:"filterType"`
	FilterValue       *string     `json:"filterValue"`
	PaginationOptions *Pagination `json:"paginationOptions"`
}

// childKey is a value under which the parent keeps sub-organizations.
type childKey struct {
	what  byte
	value string
}

// suborgFilter is what to look for: any of the keys in the parent's state, or
// the handle in the host's index, or nothing in particular.
type suborgFilter struct {
	keys   []childKey
	handle *org.Handle
}

// suborgFilters make the filters of list_suborgs by the type's name; what the
// value cannot be, nobody has. Nil: of an identity token, which must be verified.
var suborgFilters = map[string]func(value string) suborgFilter{
	"":              func(string) suborgFilter { return suborgFilter{} },
	"CREDENTIAL_ID": byCredentialID,
	"PUBLIC_KEY":    byPublicKey,
	"EMAIL":         byEmail(org.ChildEmail),
	"PHONE_NUMBER":  by(org.ChildPhone),
	"NAME":          by(org.ChildName),
	"OIDC_TOKEN":    nil,
	"USERNAME":      func(v string) suborgFilter { return byHandle(org.HandleUserName, v) },
	// Private keys have addresses as accounts do.
	"WALLET_ACCOUNT_ADDRESS": func(v string) suborgFilter { return byHandle(org.HandleAddress, chain.MatchKey(v)) },
}

// verifiedFilters are those of list_verified_suborgs: the contact must be
// verified in the sub-organization; without a filter, any contact.
var verifiedFilters = map[string]func(value string) suborgFilter{
	"":             func(string) suborgFilter { return by(org.ChildVerified)("") },
	"EMAIL":        byEmail(org.ChildVerifiedEmail),
	"PHONE_NUMBER": by(org.ChildVerifiedPhone),
}

func by(what byte) func(string) suborgFilter {
	return func(v string) suborgFilter { return suborgFilter{keys: []childKey{{what, v}}} }
}

func byEmail(what byte) func(string) suborgFilter {
	return func(v string) suborgFilter { return by(what)(strings.ToLower(v)) }
}

func byHandle(what byte, v string) suborgFilter {
	h := org.NewHandle(what, v)
	return suborgFilter{handle: &h}
}

// byCredentialID takes a passkey's credential id in base64url.
func byCredentialID(v string) suborgFilter {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(v, "="))
	if err != nil {
		return suborgFilter{keys: []childKey{}}
	}
	return by(org.ChildCredential)(org.PasskeyCurve + ":" + hex.EncodeToString(b))
}

// byIdentity takes an identity token. Which key it was asked for with does not matter:
// who has it learns where he could log in, and no more.
func byIdentity(x Index, token string) (suborgFilter, error) {
	issuer, subject, audiences, err := x.Identity("filterValue", token)
	f := suborgFilter{keys: []childKey{}}
	for _, a := range audiences {
		f.keys = append(f.keys, childKey{org.ChildIdentity, org.IdentityText(issuer, subject, a)})
	}
	return f, err
}

// byPublicKey takes an API key's public key, which does not tell its curve.
func byPublicKey(v string) suborgFilter {
	f, v := suborgFilter{}, strings.ToLower(v)
	for _, t := range []string{"CREDENTIAL_TYPE_API_KEY_P256", "CREDENTIAL_TYPE_API_KEY_SECP256K1", "CREDENTIAL_TYPE_API_KEY_ED25519"} {
		f.keys = append(f.keys, childKey{org.ChildCredential, org.KeyCurve(t) + ":" + v})
	}
	return f
}

// suborgSearch is a search on its way.
type suborgSearch struct {
	suborgFilter
	before, after *org.ID
	limit         int
	found         []org.ID
}

// prepareSuborgs reads the request and, where the parent's state does not hold
// what is looked for, goes through the index.
func prepareSuborgs(filters map[string]func(string) suborgFilter) func(*SuborgsRequest, *Request, Index) error {
	return func(in *SuborgsRequest, r *Request, x Index) (err error) {
		s := new(suborgSearch)
		if s.suborgFilter, err = in.filter(r.query.Op, filters, x); err != nil {
			return err
		}
		if s.limit, err = in.PaginationOptions.limit(); err != nil {
			return err
		}
		if s.before, s.after, err = in.PaginationOptions.cursors(); err != nil {
			return err
		}
		r.search = s
		if s.handle == nil {
			return nil
		}
		return s.pageFromIndex(x)
	}
}

func (in *SuborgsRequest) filter(op string, filters map[string]func(string) suborgFilter, x Index) (suborgFilter, error) {
	var kind, value string
	if in.FilterType != nil {
		kind = *in.FilterType
	}
	if in.FilterValue != nil {
		value = *in.FilterValue
	}
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

// pageFromIndex fills the page from the index. A row that is not true is passed over
// and another one read in its place, so that a page is short only at the end.
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
			if before != nil { // the page fills from its end
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

// places are the sub-organizations that the cursors name.
func (s *suborgSearch) places(find func(org.ID) (*org.Child, error)) (before, after *org.Child, err error) {
	for _, c := range []struct {
		field string
		id    *org.ID
		place **org.Child
	}{{"before", s.before, &before}, {"after", s.after, &after}} {
		if c.id == nil {
			continue
		}
		if *c.place, err = find(*c.id); err == nil && *c.place == nil {
			err = unknownCursor("paginationOptions." + c.field)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return before, after, nil
}

func answerSuborgs(v *View, r *Request) ([]byte, error) {
	s, ids := r.search, r.search.found
	if s.handle == nil {
		var err error
		if ids, err = s.inState(v); err != nil {
			return nil, err
		}
	}
	return append(array(nil, `{"organizationIds":`, ids, func(dst []byte, i org.ID) []byte { return ident(dst, "", i) }), '}'), nil
}

// inState reads the page from the parent's state, which is complete.
func (s *suborgSearch) inState(v *View) ([]org.ID, error) {
	before, after, err := s.places(v.Child)
	if err != nil {
		return nil, err
	}
	if s.keys == nil {
		if before != nil {
			return v.ChildrenAbove(before, s.limit)
		}
		return v.Children(after, s.limit)
	}
	var all []org.ID
	for _, k := range s.keys {
		var ids []org.ID
		if before != nil {
			ids, err = v.ChildrenByAbove(k.what, k.value, before, s.limit)
		} else {
			ids, err = v.ChildrenBy(k.what, k.value, after, s.limit)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	if len(s.keys) == 1 {
		return all, nil
	}
	return s.merge(v, all)
}

// merge brings what several keys found into one order, each once.
func (s *suborgSearch) merge(v *View, ids []org.ID) ([]org.ID, error) {
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
	slices.SortFunc(cs, func(a, b *org.Child) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	ids = ids[:0]
	for _, c := range cs {
		if len(ids) == 0 || ids[len(ids)-1] != c.ID {
			ids = append(ids, c.ID)
		}
	}
	if s.before != nil {
		return ids[max(0, len(ids)-s.limit):], nil
	}
	return ids[:min(len(ids), s.limit)], nil
}
