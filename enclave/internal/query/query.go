// Package query is everything that can be read of an organization.
//
// A query is declared in one line of its family's file: its name and the
// function that answers it; its request is a struct with the members of the
// interface, read strictly. Answers hold every member that the interface
// requires, also when empty.
//
// A query is answered in two steps. Fetch reads old entries, boot proofs and the
// index, which may wait for the host, and happens outside of the organization's turn;
// most queries have nothing to fetch. Answer reads the newest state, inside of
// the turn, and waits for nobody. Whether the caller may read is core's to
// decide: any user of the organization or of its parent may read all of it.
package query

import (
	"reflect"
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
)

// View is the newest state of the organization asked about, and who asks.
type View struct {
	*org.Tx           // read only
	Caller  *org.User // who asks
	// Credential is what Caller asks with.
	Credential org.VoteCredential
	// Home is the caller's organization when that is the parent of the one
	// asked about; nil when the caller belongs to the one asked about.
	Home *org.Organization
	// Parent is the organization above a sub-organization, when the turn holds it
	// too; see activity.ErrNeedsParent.
	Parent *org.Tx
}

// top is the organization itself or, for a sub-organization, its parent: where
// profiles lie. The error activity.ErrNeedsParent must be handed up.
func (v *View) top() (*org.Tx, error) {
	o, err := v.Organization()
	switch {
	case err != nil || o.Parent.Zero():
		return v.Tx, err
	case v.Parent == nil:
		return nil, activity.ErrNeedsParent
	}
	return v.Parent, nil
}

// Page asks for activities, newest first. After means those that follow in that
// order, Before those just above, both at most Limit. Empty filters take all.
type Page struct {
	Types         []string
	Statuses      []org.Status
	Before, After *org.ID
	Limit         int
}

// History is what an organization's ledger remembers of its activities.
type History interface {
	// Activity returns the newest entry of an activity, nil when there is none.
	Activity(id org.ID) (*org.Entry, error)
	// Page returns the newest entries of activities. An unknown cursor is a
	// *fault.Error, InvalidArgument.
	Page(Page) ([]*org.Entry, error)
}

// BootProofs are the proofs of all boots, as JSON of the interface's BootProof;
// nil when there is none.
type BootProofs interface {
	Latest() ([]byte, error)
	// ByKey takes the 130-byte public key as lower-case hex.
	ByKey(publicKeyHex string) ([]byte, error)
}

// Chains tells how chains and sends stand, by the host's word. The errors of what
// it could not learn are *fault.Error.
type Chains interface {
	Known(*activity.ChainNeed) (*activity.ChainKnown, error)
	Standing(org.SendRef) (activity.Standing, error)
}

// Query is one thing that can be read.
type Query struct {
	Op string // the last segment of its path
	// Fetches tells that Fetch has something to do.
	Fetches bool

	decode func([]byte) (any, error)
	fetch  func(*Request, History, BootProofs, Index, Chains) error
	answer func(*View, *Request) ([]byte, error)
	shape  reflect.Type
}

// Request is a decoded request.
type Request struct {
	query   *Query
	in      any
	entries []*org.Entry // fetched
	proof   []byte       // fetched
	search  *suborgSearch
	nonces  *nonces // fetched
	sent    *sent   // fetched
}

// Decode reads the body of a request, strictly. The errors are *fault.Error,
// InvalidArgument.
func (q *Query) Decode(body stamp.Body) (*Request, error) {
	in, err := q.decode(body.Bytes())
	if err != nil {
		return nil, err
	}
	return &Request{query: q, in: in}, nil
}

// Fetch reads what the answer needs of history, boot proofs, index and chains.
// Errors that are no *fault.Error are the sources' own.
func (r *Request) Fetch(h History, p BootProofs, x Index, c Chains) error {
	if r.query.fetch == nil {
		return nil
	}
	return r.query.fetch(r, h, p, x, c)
}

// Answer writes the response. A *fault.Error is what the caller is told, an
// *org.Missing wants a piece loaded and Answer called again, any other error is
// internal.
func (r *Request) Answer(v *View) ([]byte, error) {
	b, err := r.query.answer(v, r)
	if err == nil && len(b) > maxAnswer {
		return nil, tooLarge()
	}
	return b, err
}

// maxAnswer keeps an answer inside of a frame.
const maxAnswer = 7 << 20

func tooLarge() error {
	return fault.New(fault.ResourceExhausted, "answer is too large: ask for things one by one")
}

// Head is what every request holds.
type Head struct {
	OrganizationID string `json:"organizationId" rule:"required"`
}

// stateQuery declares a query that reads the newest state alone.
func stateQuery[Q any](op string, answer func(*View, *Q) ([]byte, error)) *Query {
	strictjson.Prepare(new(Q))
	return &Query{
		Op: op, shape: reflect.TypeFor[Q](),
		decode: func(body []byte) (any, error) {
			in := new(Q)
			return in, strictjson.Decode(body, in)
		},
		answer: func(v *View, r *Request) ([]byte, error) { return answer(v, r.in.(*Q)) },
	}
}

// historyQuery declares a query that reads history or boot proofs too.
func historyQuery[Q any](op string, fetch func(*Q, *Request, History, BootProofs) error, answer func(*View, *Request) ([]byte, error)) *Query {
	q := stateQuery[Q](op, nil)
	q.Fetches, q.answer = true, answer
	q.fetch = func(r *Request, h History, p BootProofs, _ Index, _ Chains) error { return fetch(r.in.(*Q), r, h, p) }
	return q
}

// indexQuery declares a query that reads the index too.
func indexQuery[Q any](op string, fetch func(*Q, *Request, Index) error, answer func(*View, *Request) ([]byte, error)) *Query {
	q := stateQuery[Q](op, nil)
	q.Fetches, q.answer = true, answer
	q.fetch = func(r *Request, _ History, _ BootProofs, x Index, _ Chains) error { return fetch(r.in.(*Q), r, x) }
	return q
}

// chainQuery declares a query that asks how chains stand.
func chainQuery[Q any](op string, fetch func(*Q, *Request, History, Chains) error, answer func(*View, *Request) ([]byte, error)) *Query {
	q := stateQuery[Q](op, nil)
	q.Fetches, q.answer = true, answer
	q.fetch = func(r *Request, h History, _ BootProofs, _ Index, c Chains) error { return fetch(r.in.(*Q), r, h, c) }
	return q
}

func index(families ...[]*Query) map[string]*Query {
	m := map[string]*Query{}
	for _, f := range families {
		for _, q := range f {
			if m[q.Op] != nil || !KnownOp(q.Op) {
				panic("query: " + q.Op + " listed twice or unknown")
			}
			m[q.Op] = q
		}
	}
	return m
}

// live are the queries that can be asked today.
var live = index(organizations, policies, interfaces, mfa, ipAllowlists, sessionProfiles, suborgs, users, credentials, oauthProviders, oauth2, onRamps, tags, wallets, privateKeys, activities, proofs, evaluations, sending, authProxy, webhooks)

// id reads an id that a request names.
func id(field, text string) (org.ID, error) {
	v, err := org.ParseID(text)
	if err != nil {
		return v, fault.Field(field, "must be a UUID")
	}
	return v, nil
}

// findNamed reads an id and refuses it if what it names is not there.
func findNamed[T any](what, field, text string, find func(org.ID) (*T, error)) (*T, error) {
	i, err := id(field, text)
	if err != nil {
		return nil, err
	}
	rec, err := find(i)
	if err == nil && rec == nil {
		err = fault.New(fault.NotFound, "%s not found: %s", what, i)
	}
	return rec, err
}

// compareCreated orders records by creation.
func compareCreated(aMs uint64, a org.ID, bMs uint64, b org.ID) int {
	switch {
	case aMs < bMs:
		return -1
	case aMs > bMs:
		return 1
	}
	for i := range a {
		if a[i] != b[i] {
			return int(a[i]) - int(b[i])
		}
	}
	return 0
}

// array writes the elements of an array that is the member called key, which
// comes with its quotes, its colon and what stands before it.
func array[T any](dst []byte, key string, elements []T, write func([]byte, T) []byte) []byte {
	dst = append(append(dst, key...), '[')
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = write(dst, e)
	}
	return append(dst, ']')
}

func text(dst []byte, key, s string) []byte { return activity.AppendText(dst, key, s) }

func ident(dst []byte, key string, i org.ID) []byte {
	return append(i.Append(append(append(dst, key...), '"')), '"')
}

func flag(dst []byte, key string, b bool) []byte { return strconv.AppendBool(append(dst, key...), b) }

func times(dst []byte, createdMs, updatedMs uint64) []byte {
	dst = activity.AppendTime(append(dst, `,"createdAt":`...), createdMs)
	return activity.AppendTime(append(dst, `,"updatedAt":`...), updatedMs)
}
