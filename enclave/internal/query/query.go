// Package query has the queries: everything that can be read of an organization.
//
// A query is declared in one line of its family's file: its name and the
// function that answers it. Its request is a struct with the members of the
// interface, decoded strictly. Answers hold every member that the interface
// requires, even an empty one.
//
// A query is answered in two phases. Fetch reads old entries, boot proofs, the index
// and chains. It may wait for the host and runs without the organization's lock;
// most queries have nothing to fetch. Answer reads the newest state under that lock,
// and never waits. Package core decides who may read: any user of the
// organization or of its parent may read all of it.
package query

import (
	"bytes"
	"cmp"
	"io"
	"reflect"
	"slices"
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
)

// View is the newest state of the queried organization, and the caller.
type View struct {
	*org.Tx    // read only
	Caller     *org.User
	Credential org.VoteCredential // of Caller
	// Home is the caller's organization if that is the parent of the queried
	// one, otherwise nil.
	Home *org.Organization
	// Parent is the parent of the queried organization, if that is locked
	// too; see activity.ErrNeedsParent.
	Parent *org.Tx
	// Steps is the budget of the request: the steps that its evaluations may take in all.
	Steps int
	// Tariff are the deployment's plans.
	Tariff Tariff
	// OnRamps is nil for a query that fetches nothing.
	OnRamps *OnRamps
	// Tokens are the operator's list, nil for none.
	Tokens *show.Tokens
	// Programs is the platform that runs customers' programs, nil for none.
	Programs *program.Platform
	Images   Images
	// RecoveredMs is activity.Tx.RecoveredMs.
	RecoveredMs uint64
}

// Images queries container registries and the host about programs. An answer that must be fetched first is an *org.Retry.
type Images interface {
	Resolve(*activity.Image) (program.Digest, error)
	// ProgramStatus returns the host's status of a deployment.
	ProgramStatus(deployment org.ID, want ProgramWant) (*ProgramStatus, error)
}

// A ProgramWant selects the data to request about a deployment.
type ProgramWant uint8

// The wanted data, by the numbers of package wire.
const (
	WantReplicas ProgramWant = 1
	WantSetup    ProgramWant = 2
	WantOutput   ProgramWant = 3
)

// ProgramStatus is the unverified status from the host; only the Document proves its content.
type ProgramStatus struct {
	Known          bool
	Desired, Ready uint32
	Document       []byte
	Output         [][]byte
}

// OnRamps queries the state of purchases at on-ramp providers.
type OnRamps struct {
	OnRampStates
	Vault activity.Vault // of the top-level organization
	Rand  io.Reader
}

// OnRampStates returns the state of purchases, as their providers report it. A state that must be fetched first is an *org.Retry.
type OnRampStates interface {
	State(q *OnRampQuestion, refresh bool) (onramp.State, error)
}

// An OnRampQuestion is a query to a provider about the purchase of an activity. Ask makes the request, to a URL that
// begins with base.
type OnRampQuestion struct {
	Provider onramp.Provider
	Activity org.ID
	Ask      func(base string) (*login.Request, error)
	Read     func(status int, body []byte) (onramp.State, error)
}

// top returns the organization with the session profiles: the parent of a
// sub-organization, otherwise the organization itself. The caller must return the
// error activity.ErrNeedsParent.
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

// Page selects at most Limit activities, newest first: those that follow After in
// that order, or those just before Before. An empty filter selects all. UntilMs leaves out those that changed later.
type Page struct {
	Types         []string
	Statuses      []org.Status
	Before, After *org.ID
	UntilMs       *uint64
	Limit         int
}

// History reads the entries of an organization's activities.
type History interface {
	// Activity returns the newest entry of an activity, nil if there is none.
	Activity(id org.ID) (*org.Entry, error)
	// ActivityToDecode is Activity, and reserves the memory for decoding the body of an activity that is over too.
	ActivityToDecode(id org.ID) (*org.Entry, error)
	// Page returns the newest entry of each activity. An unknown cursor is a
	// *fault.Error, InvalidArgument.
	Page(Page) ([]*org.Entry, error)
	// Export returns a page of the whole history, from the entry at from on, in the format of package history, and the
	// start of the next page; 0: there is none.
	Export(from uint64) (page []byte, next uint64, err error)
}

// BootProofs returns boot proofs, as JSON of the interface's BootProof, or
// nil where there is none.
type BootProofs interface {
	Latest() ([]byte, error)
	// ByKey takes the 130-byte public key as lower-case hex.
	ByKey(publicKeyHex string) ([]byte, error)
}

// Chains returns the state of chains and of sent transactions, as the host reports it.
// Unavailable data is a *fault.Error.
type Chains interface {
	Known(*activity.ChainQuery) (*activity.ChainState, error)
	Standing(org.SendRef) (activity.Standing, error)
	// Rivals returns the sends with the same number of an account that the host reports to be in a block.
	Rivals(c org.Counter, number uint64) ([]Rival, error)
	ReadChain(*ChainQuestion) (*ChainReading, error)
	// Account returns the wallet account whose address has this match key, from the newest state; nil if there is none.
	Account(match string) (*org.Account, error)
}

// A Rival is a send that the host reports to be in a block.
type Rival struct {
	*org.Transaction
	activity.Standing
}

// Mails returns the events of mails to an address.
type Mails interface {
	// MailEvents returns the events of the last 30 days, newest first. Only top-level organizations have events.
	MailEvents(address string) ([]org.MailEvent, error)
}

// Deliveries returns the deliveries to webhook endpoints.
type Deliveries interface {
	// Deliveries returns those to an endpoint of the organization, at most limit, as the host orders them: the one with the
	// latest time first. next is where the next page begins, nil if this one is the last. An endpoint that does not exist
	// is a *fault.Error, NotFound.
	Deliveries(endpoint org.ID, failed bool, after *DeliveryPlace, limit int) (all []Delivery, next *DeliveryPlace, err error)
}

// A DeliveryPlace is a place in the host's order of deliveries.
type DeliveryPlace struct {
	TimeMs uint64
	Send   org.SendPlace
}

// A Delivery is a send of an event to an endpoint. Its entries prove the event; what became of the send is an unverified claim
// of the host.
type Delivery struct {
	Place     org.SendPlace
	First     org.SendPlace // the send that this one repeats, or Place
	Event     org.ID
	Activity  org.ID
	Type      string
	Status    org.Status
	CreatedMs uint64

	State  org.SendState
	Tries  uint32
	Text   string // the last error
	TimeMs uint64 // of the next attempt or, in a final state, of the end
}

// A LogProof proves that an entry of an activity is in the log.
type LogProof struct {
	Text string    // in the format of tlog.ParseLoggedProof
	Key  org.Proof // the log's key: an app proof of a LogKey
}

// Logs proves entries by the log.
type Logs interface {
	// LogProof returns the proof of the newest entry of an activity, or of the one at seq, of any activity or none if that is
	// zero; nil if there is none. It waits for the log's witnesses.
	LogProof(activity org.ID, seq *uint64) (*LogProof, error)
}

// Query is a declared query.
type Query struct {
	Op      string // the last segment of its path
	Fetches bool   // Fetch has data to read

	decode func([]byte) (*Request, error)
	shape  reflect.Type
}

// Request is a decoded request.
type Request struct {
	fetch  func(*sources) error // nil: nothing to fetch
	answer func(*View) ([]byte, error)
}

type sources struct {
	History
	BootProofs
	Index
	Chains
	Logs
	Mails
	Statistics
	Deliveries
}

// Decode decodes the body of a request strictly. Its errors are *fault.Error,
// InvalidArgument.
func (q *Query) Decode(body stamp.Body) (*Request, error) { return q.decode(body.Bytes()) }

// DecodeHostBody is Decode for a read-only session's request as the host claims it.
func (q *Query) DecodeHostBody(body stamp.HostBody) (*Request, error) { return q.decode(body.Bytes()) }

// Fetch reads the data for the answer from history, boot proofs, index, chains, logs, mails, statistics and deliveries.
// Errors that are no *fault.Error are the sources' own.
func (r *Request) Fetch(h History, p BootProofs, x Index, c Chains, l Logs, m Mails, n Statistics, d Deliveries) error {
	if r.fetch == nil {
		return nil
	}
	return r.fetch(&sources{h, p, x, c, l, m, n, d})
}

// Answer writes the response. A *fault.Error is returned to the caller. An *org.Retry
// requests to load a piece and to call Answer again. Any other error is internal.
func (r *Request) Answer(v *View) ([]byte, error) {
	b, err := r.answer(v)
	if err == nil && len(b) > maxAnswer {
		return nil, tooLarge()
	}
	return b, err
}

// maxAnswer bounds an answer, so that it fits into a frame.
const maxAnswer = 7 << 20

func tooLarge() error {
	return fault.New(fault.ResourceExhausted, "answer is too large: ask for things one by one")
}

// Head has the members of every request.
type Head struct {
	OrganizationID string `json:"organizationId" rule:"required"`
}

func newQuery[Q any](op string, request func(*Q) *Request) *Query {
	strictjson.Prepare(new(Q))
	return &Query{Op: op, shape: reflect.TypeFor[Q](), decode: func(body []byte) (*Request, error) {
		in := new(Q)
		if err := strictjson.Decode(body, in); err != nil {
			return nil, err
		}
		return request(in), nil
	}}
}

// stateQuery declares a query that reads only the newest state.
func stateQuery[Q any](op string, answer func(*View, *Q) ([]byte, error)) *Query {
	return newQuery(op, func(in *Q) *Request {
		return &Request{answer: func(v *View) ([]byte, error) { return answer(v, in) }}
	})
}

// fetchQuery declares a query that answers from data fetched before.
func fetchQuery[Q, F any](op string, fetch func(*Q, *sources) (F, error), answer func(*View, F) ([]byte, error)) *Query {
	q := newQuery(op, func(in *Q) *Request {
		var fetched F
		return &Request{
			fetch: func(s *sources) (err error) {
				fetched, err = fetch(in, s)
				return err
			},
			answer: func(v *View) ([]byte, error) { return answer(v, fetched) },
		}
	})
	q.Fetches = true
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

// live are the implemented queries.
var live = index(organizations, policies, interfaces, sessionProfiles, suborgs, users, credentials, providerCredentials, wallets, privateKeys, secrets, activities, proofs,
	evaluations, sending, gas, chains, mails, deliveries, authProxy, histories, sharedValues, bills, usages, counts, tvcApps, tvcDeployments, tvcRunning)

// id parses an id that a request names.
func id(field, text string) (org.ID, error) {
	v, err := org.ParseID(text)
	if err != nil {
		return v, fault.Field(field, "must be a UUID")
	}
	return v, nil
}

// findNamed parses an id and finds its record, or returns the error NotFound.
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

// created is the position of a record in lists: by creation, then by id.
type created struct {
	ms uint64
	id org.ID
}

func (a created) compare(b created) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), bytes.Compare(a.id[:], b.id[:]))
}

func sortCreated[T any](records []*T, place func(*T) created) {
	slices.SortStableFunc(records, func(a, b *T) int { return place(a).compare(place(b)) })
}

// inOrder collects all records that each visits, in order of creation.
func inOrder[T any](each func(func(*T) bool) error, place func(*T) created) ([]*T, error) {
	var all []*T
	err := each(func(rec *T) bool {
		all = append(all, rec)
		return true
	})
	sortCreated(all, place)
	return all, err
}

// newestFirst is inOrder the other way round.
func newestFirst[T any](each func(func(*T) bool) error, place func(*T) created) ([]*T, error) {
	all, err := inOrder(each, place)
	slices.Reverse(all)
	return all, err
}

// one writes a record as the member called key, unless there was an error. As in the
// functions below, key has its quotes, its colon and the separator before it.
func one[T any](key string, rec *T, err error, write func([]byte, *T) []byte) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return append(write([]byte(key), rec), '}'), nil
}

// many writes records as the member called key, unless there was an error.
func many[T any](key string, records []T, err error, write func([]byte, T) []byte) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return append(array(nil, key, records, write), '}'), nil
}

func array[T any](dst []byte, key string, elements []T, write func([]byte, T) []byte) []byte {
	return activity.AppendList(dst, key, elements, func(dst []byte, e *T) []byte { return write(dst, *e) })
}

func text(dst []byte, key, s string) []byte { return activity.AppendText(dst, key, s) }

func ident(dst []byte, key string, i org.ID) []byte {
	return activity.AppendID(dst, key, i)
}

func idents(dst []byte, key string, ids []org.ID) []byte {
	return array(dst, key, ids, func(dst []byte, i org.ID) []byte { return ident(dst, "", i) })
}

// number writes a number as a JSON string of decimal digits.
func number(dst []byte, key string, n uint64) []byte {
	return append(strconv.AppendUint(append(append(dst, key...), '"'), n, 10), '"')
}

// integer is number for a signed number.
func integer(dst []byte, key string, n int64) []byte {
	return append(strconv.AppendInt(append(append(dst, key...), '"'), n, 10), '"')
}

func flag(dst []byte, key string, b bool) []byte { return strconv.AppendBool(append(dst, key...), b) }

func appendTimes(dst []byte, createdMs, updatedMs uint64) []byte {
	dst = activity.AppendTime(append(dst, `,"createdAt":`...), createdMs)
	return activity.AppendTime(append(dst, `,"updatedAt":`...), updatedMs)
}
