// Package query is everything that can be read of an organization.
//
// A query is declared in one line of its family's file: its name and the
// function that answers it. Its request is a struct with the members of the
// interface, decoded strictly. Answers hold every member that the interface
// requires, even an empty one.
//
// A query is answered in two phases. Fetch reads old entries, boot proofs, the index
// and chains. It may wait for the host and runs without the organization's lock;
// most queries have nothing to fetch. Answer reads the newest state under that lock,
// and waits for nobody. Package core decides who may read: any user of the
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
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
)

// View is the newest state of the organization asked about, and who asks.
type View struct {
	*org.Tx    // read only
	Caller     *org.User
	Credential org.VoteCredential // of Caller
	// Home is the caller's organization if that is the parent of the one asked
	// about, otherwise nil.
	Home *org.Organization
	// Parent is the parent of the organization asked about, if that is locked
	// too; see activity.ErrNeedsParent.
	Parent *org.Tx
	// Steps is the budget of the request: how many steps all that it evaluates may take.
	Steps int
	// Tariff are the deployment's plans.
	Tariff Tariff
	// OnRamps is nil for a query that fetches nothing.
	OnRamps *OnRamps
	// Programs is what customers' programs run in, nil if nothing.
	Programs *program.Platform
	Images   Images
}

// Images are looked at in their registries, by way of the host. What must be asked first is an *org.Retry.
type Images interface {
	Resolve(*activity.Image) (program.Digest, error)
	// ProgramStatus is what the host says of a deployment.
	ProgramStatus(deployment org.ID, want ProgramWant) (*ProgramStatus, error)
}

// A ProgramWant says what is asked of a deployment.
type ProgramWant uint8

// What can be wanted, by the numbers of package wire.
const (
	WantReplicas ProgramWant = 1
	WantSetup    ProgramWant = 2
	WantOutput   ProgramWant = 3
)

// ProgramStatus is the host's word, but for what a document proves.
type ProgramStatus struct {
	Known          bool
	Desired, Ready uint32
	Document       []byte
	Output         [][]byte
}

// OnRamps asks how purchases at on-ramp providers stand.
type OnRamps struct {
	OnRampStates
	Vault activity.Vault // of the top-level organization
	Rand  io.Reader
}

// OnRampStates tells how purchases stand, as their providers say. What must be asked first is an *org.Retry.
type OnRampStates interface {
	State(q *OnRampQuestion, refresh bool) (onramp.State, error)
}

// An OnRampQuestion is how a provider is asked about the purchase of an activity. Ask makes the request, which goes to what
// begins with base.
type OnRampQuestion struct {
	Provider onramp.Provider
	Activity org.ID
	Ask      func(base string) (*login.Request, error)
	Read     func(status int, body []byte) (onramp.State, error)
}

// top is the organization that holds the session profiles: the parent of a
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

// Page asks for at most Limit activities, newest first: those that follow After in
// that order, or those just above Before. An empty filter passes all.
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
	// Page returns the newest entry of each activity. An unknown cursor is a
	// *fault.Error, InvalidArgument.
	Page(Page) ([]*org.Entry, error)
	// Export is a page of the whole history, from the entry at from on, in the form of package history, and from
	// where the next one goes on; 0: there is none.
	Export(from uint64) (page []byte, next uint64, err error)
}

// BootProofs are the proofs of all boots, as JSON of the interface's BootProof, or
// nil where there is none.
type BootProofs interface {
	Latest() ([]byte, error)
	// ByKey takes the 130-byte public key as lower-case hex.
	ByKey(publicKeyHex string) ([]byte, error)
}

// Chains tells the state of chains and of sent transactions, as the host reports it.
// What it cannot learn is a *fault.Error.
type Chains interface {
	Known(*activity.ChainQuery) (*activity.ChainState, error)
	Standing(org.SendRef) (activity.Standing, error)
	// Rivals are the sends that are said to be in a block of those that share a number of an account's.
	Rivals(c org.Counter, number uint64) ([]Rival, error)
	ReadChain(*ChainQuestion) (*ChainReading, error)
	// Account is the wallet account whose address has this match key, as of now; nil if there is none.
	Account(match string) (*org.Account, error)
}

// A Rival is a send that is in a block, by the host's word.
type Rival struct {
	*org.Transaction
	activity.Standing
}

// Mails tells what became of mails to an address.
type Mails interface {
	// MailEvents are newest first, of the last 30 days. Only organizations of the top level have some.
	MailEvents(address string) ([]org.MailEvent, error)
}

// A LogProof shows a step of an activity in the log.
type LogProof struct {
	Text string    // as tlog.ParseLoggedProof takes it
	Key  org.Proof // whose log it is: an app proof of a LogKey
}

// Logs shows what is in the log, to whoever has no other way to know.
type Logs interface {
	// LogProof shows the newest step of an activity, or the one at seq, of any activity or none if that is
	// zero; nil when there is none. It waits for the log's witnesses.
	LogProof(activity org.ID, seq *uint64) (*LogProof, error)
}

// Query is one thing that can be read.
type Query struct {
	Op      string // the last segment of its path
	Fetches bool   // Fetch has something to do

	decode func([]byte) (*Request, error)
	shape  reflect.Type
}

// Request is a decoded request.
type Request struct {
	fetch  func(*sources) error // nil: there is nothing to fetch
	answer func(*View) ([]byte, error)
}

type sources struct {
	History
	BootProofs
	Index
	Chains
	Logs
	Mails
}

// Decode reads the body of a request strictly. Its errors are *fault.Error,
// InvalidArgument.
func (q *Query) Decode(body stamp.Body) (*Request, error) { return q.decode(body.Bytes()) }

// DecodeHostBody is Decode for what the host says that a read-only session asks.
func (q *Query) DecodeHostBody(body stamp.HostBody) (*Request, error) { return q.decode(body.Bytes()) }

// Fetch reads what the answer needs of history, boot proofs, index, chains, logs and mails.
// Errors that are no *fault.Error are the sources' own.
func (r *Request) Fetch(h History, p BootProofs, x Index, c Chains, l Logs, m Mails) error {
	if r.fetch == nil {
		return nil
	}
	return r.fetch(&sources{h, p, x, c, l, m})
}

// Answer writes the response. The caller is told a *fault.Error. An *org.Retry
// asks to load a piece and to call Answer again. Any other error is internal.
func (r *Request) Answer(v *View) ([]byte, error) {
	b, err := r.answer(v)
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

// stateQuery declares a query that reads the newest state alone.
func stateQuery[Q any](op string, answer func(*View, *Q) ([]byte, error)) *Query {
	return newQuery(op, func(in *Q) *Request {
		return &Request{answer: func(v *View) ([]byte, error) { return answer(v, in) }}
	})
}

// fetchQuery declares a query that answers from what it fetched before.
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

// live are the queries that can be asked today.
var live = index(organizations, policies, interfaces, sessionProfiles, suborgs, users, credentials, providerCredentials, wallets, privateKeys, secrets, activities, proofs,
	evaluations, sending, gas, chains, mails, authProxy, histories, sharedValues, bills, usages, tvcApps, tvcDeployments, tvcRunning)

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

// created is the place of a record in lists: by creation, then by id.
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

// inOrder gathers all records that each visits, in order of creation.
func inOrder[T any](each func(func(*T) bool) error, place func(*T) created) ([]*T, error) {
	var all []*T
	err := each(func(rec *T) bool {
		all = append(all, rec)
		return true
	})
	sortCreated(all, place)
	return all, err
}

// one answers a record as the member called key, unless there was an error. Here
// and below, key comes with its quotes, its colon and what stands before it.
func one[T any](key string, rec *T, err error, write func([]byte, *T) []byte) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return append(write([]byte(key), rec), '}'), nil
}

// many answers records as the member called key, unless there was an error.
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

// number writes a number in decimal digits, as text.
func number(dst []byte, key string, n uint64) []byte {
	return append(strconv.AppendUint(append(append(dst, key...), '"'), n, 10), '"')
}

// integer is number of one that may be negative.
func integer(dst []byte, key string, n int64) []byte {
	return append(strconv.AppendInt(append(append(dst, key...), '"'), n, 10), '"')
}

func flag(dst []byte, key string, b bool) []byte { return strconv.AppendBool(append(dst, key...), b) }

func times(dst []byte, createdMs, updatedMs uint64) []byte {
	dst = activity.AppendTime(append(dst, `,"createdAt":`...), createdMs)
	return activity.AppendTime(append(dst, `,"updatedAt":`...), updatedMs)
}
