package core

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"cloister/attestation/tlog"
	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/outbox"
	"cloister/enclave/core/internal/providers"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/stamp"
	"cloister/shared/wire"
)

// A Replay decides recorded requests again and compares the results with the entries. It uses the enclave's own code:
// each recorded request goes through the code of submit.go at its recorded time, in a ledger that
// has no store, and the entries that it would append are compared with the recorded ones, byte for byte. Only
// then does it take effect, so each request sees the same records as at first.
//
// Randomly drawn ids are not known before: a request is run with ids of the replay's own, those are
// found in the entries that it would append, and it is run once more with the ids recorded in their
// places. Activities that need secrets or external data are not run: see replay_rules.go.
type Replay struct {
	core      *Core
	ledger    *ledger.Ledger
	tape      *tape
	clock     *fixedClock
	histories map[org.ID]*historyCursor
	order     []org.ID
	step      *replayed // the request under way
	report    *ReplayReport
	bundles   *bundle.Signer
	terms     map[term]org.ID // the boot id (Tx.Boot) of each term, where records have it
	// recovered is the time of the newest recovery that a refusal so far has named, by the first byte of the organizations' ids.
	recovered map[byte]uint64
}

// ReplayConfig is the configuration under which a history is replayed.
type ReplayConfig struct {
	// Quotas are the deployment's.
	Quotas Quotas
	// Capabilities are those of the deployment's configuration.
	Capabilities activity.Capabilities
	// Loopback means that webhooks could go to the enclave's own machine, a simulator.
	Loopback bool
	// Rand draws keys that do not affect the result.
	Rand io.Reader
}

// A Recorded entry is an opened entry of a history.
type Recorded struct {
	Organization org.ID
	Seq          uint64
	Entry        *org.Entry
	// Root is the root of the organization's tree before the entry; zero: unknown.
	Root org.Hash
	// Place orders entries of several organizations: the position of their batch in the log. Entries with the same
	// place are ordered by time.
	Place uint64
}

// A ReplayGrade is how much of an entry a replay recomputed.
type ReplayGrade uint8

// The grades.
const (
	// ReplayRecomputed: all members.
	ReplayRecomputed ReplayGrade = iota + 1
	// ReplayVerified: all members but those that are drawn or made with keys, which were verified with public keys.
	ReplayVerified
	// ReplaySealed: all members but those that are drawn or sealed, and tokens.
	ReplaySealed
	// ReplayTaken: the decision; the activity's changes are taken from the entry, if they are in records that it may change.
	ReplayTaken
	// ReplayGiven: nothing. It is the first entry of an organization, or the half of a transaction whose other
	// half is in a history that was not given.
	ReplayGiven
)

// String returns the grade's name in a report.
func (g ReplayGrade) String() string {
	if int(g) < len(replayGrades) {
		return replayGrades[g]
	}
	return ""
}

// ReplayGrades are all grades, the best first.
var ReplayGrades = []ReplayGrade{ReplayRecomputed, ReplayVerified, ReplaySealed, ReplayTaken, ReplayGiven}

var replayGrades = [...]string{"", "recomputed", "verified", "sealed", "taken", "given"}

// A ReplayReport is the result of a replay.
type ReplayReport struct {
	Entries int
	// Grades are counts by activity type, "" for entries of no activity.
	Grades map[string]map[ReplayGrade]int
}

// A ReplayFinding is the first difference between a history and its replay.
type ReplayFinding struct {
	Organization org.ID
	Seq          uint64
	Type         string // of the activity, "" for none
	Check        string // the member or check that differs
	Want, Got    string // decided, recorded
}

func (f *ReplayFinding) Error() string {
	text := fmt.Sprintf("organization %v, entry %d (%s): %s", f.Organization, f.Seq, cmp.Or(f.Type, "of no activity"), f.Check)
	if f.Want != "" || f.Got != "" {
		text += fmt.Sprintf(": would have been %s, is recorded as %s", f.Want, f.Got)
	}
	return text
}

// A term is a boot's ownership of a range, whose organizations have the first byte of their ids in common.
type term struct {
	first byte
	boot  uint64
}

// historyCursor is a position in one organization's entries.
type historyCursor struct {
	id      org.ID
	entries []*Recorded
	next    int
	boot    uint64 // boot number of the newest entry so far
}

func (h *historyCursor) head() *Recorded {
	if h == nil || h.next >= len(h.entries) {
		return nil
	}
	return h.entries[h.next]
}

// NewReplay makes a replay of the entries of one or more organizations, each from its first, in order.
func NewReplay(cfg ReplayConfig, entries []*Recorded) (*Replay, error) {
	r := &Replay{tape: new(tape), clock: new(fixedClock), histories: map[org.ID]*historyCursor{}, terms: map[term]org.ID{}, recovered: map[byte]uint64{},
		report: &ReplayReport{Grades: map[string]map[ReplayGrade]int{}}}
	for _, e := range entries {
		h := r.histories[e.Organization]
		if h == nil {
			h = &historyCursor{id: e.Organization}
			r.histories[e.Organization] = h
			r.order = append(r.order, e.Organization)
		}
		if e.Seq != uint64(len(h.entries)) {
			return nil, &ReplayFinding{Organization: e.Organization, Seq: e.Seq, Check: "order", Want: fmt.Sprint("entry ", len(h.entries)), Got: fmt.Sprint("entry ", e.Seq)}
		}
		e.Entry.Seq = e.Seq
		h.entries = append(h.entries, e)
	}
	return r, r.installServices(cfg)
}

// installServices makes the enclave and the ledger of the replay. It draws their keys, so
// that their signatures and ciphertexts are worthless.
func (r *Replay) installServices(cfg ReplayConfig) error {
	bare, err := lifecycle.ForReplay(cfg.Rand)
	if err != nil {
		return err
	}
	storage, err := drawKey(cfg.Rand, seal.NewKey)
	if err != nil {
		return err
	}
	sessions, err := drawKey(cfg.Rand, login.NewSigner)
	if err != nil {
		return err
	}
	if r.bundles, err = drawKey(cfg.Rand, bundle.NewSigner); err != nil {
		return err
	}
	c := &Core{cfg: Config{Device: noDevice{}, Clock: r.clock, Rand: r.tape, Quotas: cfg.Quotas.WithDefaults(), Simulator: cfg.Loopback, WebhookLoopback: cfg.Loopback},
		stamps: stamp.NewVerifier(), keys: keys.NewCache[activity.KeyID](1, 1<<20),
		replies: tenant.NewPortion[org.ID](math.MaxInt64 / 2), active: make(chan struct{}, 1), perform: r.perform, recordedVotes: r.recordedVotes}
	c.metering.Store(newMeter(Rates{}))
	c.serving = &serving{
		Serving:  bare,
		sessions: sessions, tokens: sessions, legacyTokens: sessions, keyedHash: r.keyedHash, serviceKeys: new(activity.ServiceKeys),
		providers: &providers.Services{Capabilities: cfg.Capabilities}, outbox: outbox.New(outbox.Config{Clock: r.clock, Rand: r.tape}),
	}
	c.recorded = r.plans
	r.core = c
	r.ledger = ledger.New(ledger.Config{Storage: storage, Clock: r.clock, Rand: cfg.Rand, Alarms: new(fault.Alarms), Compare: r.compare,
		Limits: ledger.Limits{StateBytes: math.MaxInt64 / 2, UnstoredBytes: math.MaxInt64 / 2, SnapshotEvery: math.MaxInt, SnapshotBytes: math.MaxInt}})
	return nil
}

// drawKey makes a key from 32 random bytes.
func drawKey[K any](rand io.Reader, make func(secret.Secret) (K, error)) (key K, err error) {
	s, err := secret.New(rand, 32)
	if err != nil {
		return key, err
	}
	return make(s)
}

// Run replays all entries. The error is a *ReplayFinding if the history differs from the replay.
func (r *Replay) Run(ctx context.Context) (*ReplayReport, error) {
	defer r.ledger.Close()
	for {
		h := r.nextHistory()
		if h == nil {
			return r.report, nil
		}
		if err := r.advance(ctx, h, 0); err != nil {
			return r.report, err
		}
	}
}

// nextHistory returns the history whose next entry was decided first.
func (r *Replay) nextHistory() (first *historyCursor) {
	for _, id := range r.order {
		h := r.histories[id]
		e := h.head()
		if e == nil {
			continue
		}
		if first == nil {
			first = h
			continue
		}
		f := first.head()
		if c := cmp.Or(cmp.Compare(e.Place, f.Place), cmp.Compare(e.Entry.TimeMs, f.Entry.TimeMs)); c < 0 {
			first = h
		}
	}
	return first
}

// otherHalf returns the history in which the transaction of an entry of no activity was decided, or nil.
func (r *Replay) otherHalf(e *Recorded) *historyCursor {
	if !e.Entry.Activity.Zero() || e.Entry.Other.Zero() {
		return nil
	}
	return r.histories[e.Entry.Other]
}

// advance replays the next request of a history. depth is the number of requests that wait for it.
func (r *Replay) advance(ctx context.Context, h *historyCursor, depth int) error {
	e := h.head()
	finding := func(check string) error { return &ReplayFinding{Organization: h.id, Seq: e.Seq, Check: check} }
	if depth > 4 {
		return finding("order: steps name each other in a circle")
	}
	other := r.otherHalf(e)
	if other == nil {
		if e.Entry.Activity.Zero() {
			return r.takeGiven(ctx, h, e)
		}
		return r.decide(ctx, h, e, depth)
	}
	for n := h.next; h.next == n; {
		o := other.head()
		if o == nil || o.Seq > e.Entry.OtherSeq {
			return finding("other half: the entry that it names was another step's")
		}
		if err := r.advance(ctx, other, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// count adds entries to the report.
func (r *Replay) count(e *Recorded, g ReplayGrade) {
	m := r.report.Grades[e.Entry.Type]
	if m == nil {
		m = map[ReplayGrade]int{}
		r.report.Grades[e.Entry.Type] = m
	}
	m[g]++
	r.report.Entries++
}

// takeGiven applies an entry as recorded: the data that it was decided from is missing.
func (r *Replay) takeGiven(ctx context.Context, h *historyCursor, e *Recorded) error {
	c := *e.Entry
	r.clock.ms = c.TimeMs
	r.step = &replayed{replay: r, home: h, isGiven: true}
	var err error
	if e.Seq == 0 {
		var child *ledger.Child
		if child, err = r.ledger.NewChild(h.id, c.TimeMs); err != nil {
			return err
		}
		child.Tx().Put(c.Writes...)
		_, err = r.ledger.Create(child, &c, child.Tx())
	} else {
		err = r.ledger.Transact(ctx, h.id, ledger.Caller{Organization: h.id}, func(t, _ *ledger.Locked) error {
			tx := t.Begin(c.TimeMs)
			tx.Put(c.Writes...)
			_, err := t.Append(&c, tx)
			return err
		})
	}
	if err == nil {
		h.next++
		r.count(e, ReplayGiven)
	}
	return r.recordFinding(h, e, err)
}

// recordFinding converts the error of a transaction to a finding.
func (r *Replay) recordFinding(h *historyCursor, e *Recorded, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*ReplayFinding](err); ok {
		if known.Type == "" && known.Organization == h.id {
			known.Type = e.Entry.Type
		}
		return known
	}
	f := &ReplayFinding{Organization: h.id, Seq: e.Seq, Type: e.Entry.Type, Check: "decision", Want: "refused without an entry", Got: e.Entry.Type + " " + e.Entry.Status.String()}
	switch s := (*unknownCredential)(nil); {
	case fault.Of(err) != nil:
		f.Want += " (" + fault.Of(err).Message + ")"
	case errors.As(err, &s):
		f.Want += " (the organization does not know the key)"
	case errors.Is(err, errNoParent), errors.Is(err, errOutside):
		f.Check, f.Want, f.Got = "decision: "+err.Error(), "", ""
	default:
		f.Want += " (" + err.Error() + ")"
	}
	return f
}

// replayed is the replay of one request.
type replayed struct {
	replay  *Replay
	home    *historyCursor
	isGiven bool
	own     *Recorded // the entry of the request's own activity
	main    *Recorded // the entry of the activity that it is about: own, or for a vote the one after it
	vote    *org.Vote // in own, whose stamp is the request's
	// done are the recorded entries of the transaction, once it has taken effect.
	done   []*Recorded
	grade  ReplayGrade
	parent org.ID // of the organization, zero for a top-level one
	again  bool   // ids were learnt: run it again
}

// decide replays a submission or vote that begins with entry e of h.
func (r *Replay) decide(ctx context.Context, h *historyCursor, e *Recorded, depth int) error {
	s := &replayed{replay: r, home: h, own: e, main: e}
	v := kinds.Live[e.Entry.Type]
	if v == nil {
		return &ReplayFinding{Organization: h.id, Seq: e.Seq, Check: "type", Want: "one of the interface's", Got: e.Entry.Type}
	}
	if v.Kind.Vote {
		if h.next+1 >= len(h.entries) {
			return &ReplayFinding{Organization: h.id, Seq: e.Seq, Check: "vote: nothing follows it"}
		}
		s.main = h.entries[h.next+1]
	}
	if s.vote = s.newVote(); s.vote == nil {
		return &ReplayFinding{Organization: h.id, Seq: e.Seq, Check: "votes", Want: "a new one", Got: fmt.Sprint(len(e.Entry.Votes))}
	}
	// The parent's part of the transaction is next in the parent's history.
	if up := r.histories[s.main.Entry.Other]; up != nil && s.main.Entry.OtherSeq > 0 {
		for head := up.head(); head != nil && head.Seq < s.main.Entry.OtherSeq; head = up.head() {
			if r.otherHalf(head) == h && head.Entry.OtherSeq >= e.Seq {
				break // an entry of this transaction, or of a later one
			}
			if err := r.advance(ctx, up, depth+1); err != nil {
				return err
			}
		}
	}
	r.step, r.clock.ms = s, e.Entry.TimeMs
	r.core.omitParentFingerprint = !r.isNoted(s.main.Entry)
	r.core.omitExpressions = !activity.TellsExpression(s.main.Entry.Failure)
	r.core.namePolicies = activity.NamesPolicies(s.main.Entry.Failure)
	r.core.keepReasons = slices.ContainsFunc(s.main.Entry.Evaluations, func(e org.Evaluation) bool { return len(e.Reasons) > 0 })
	var first error
	for _, as := range s.assumedCallers() {
		s.grade, s.done = ReplayRecomputed, nil
		r.tape.forget()
		err := s.tryCaller(ctx, as)
		if err == nil {
			for _, d := range s.done {
				h := r.histories[d.Organization]
				h.next, h.boot = h.next+1, d.Entry.Boot
				r.count(d, s.grade)
			}
			return nil
		}
		if first == nil || errors.As(first, new(*unknownCredential)) {
			first = err
		}
	}
	if f, found := errors.AsType[*ReplayFinding](first); !s.asksChain() || found && f.Check == checkWindows {
		return r.recordFinding(h, e, first)
	}
	// The policies saw chain state in a transaction that was not sent. It came from a node and is not recorded.
	if err := r.takeGiven(ctx, h, s.own); err != nil || s.own == s.main {
		return err
	}
	return r.takeGiven(ctx, h, s.main)
}

// newVote returns the vote of the request's caller: the only one of a new activity, and of a later state, which an approval by the
// activity's own body has made, the one that the state before does not have. It returns nil if there is none.
func (s *replayed) newVote() *org.Vote {
	e, before := s.own.Entry, []org.Vote(nil)
	if n := e.Prior; n > uint64(s.home.next) || n == 0 && len(e.Votes) != 1 {
		return nil
	} else if n > 0 {
		before = s.home.entries[n-1].Entry.Votes
	}
	for i := range e.Votes {
		if !slices.ContainsFunc(before, func(v org.Vote) bool { return v.ID == e.Votes[i].ID }) {
			return &e.Votes[i]
		}
	}
	return nil
}

// isNoted reports whether the parent's half of a transaction has the fingerprint.
func (r *Replay) isNoted(e *org.Entry) bool {
	up := r.histories[e.Other]
	return up != nil && e.OtherSeq < uint64(len(up.entries)) && up.entries[e.OtherSeq].Entry.StampedMs != 0
}

// recordedVotes reports whether the record of the activity under way has a vote of this user.
func (r *Replay) recordedVotes(user org.ID) bool {
	return slices.ContainsFunc(r.step.main.Entry.Votes, func(v org.Vote) bool { return v.User == user })
}

// plans returns the plans that a request was decided under, as far as its records contain them: the plan and its quota.
func (r *Replay) plans() *billing.Plans {
	s := r.step
	if s == nil || s.main == nil {
		return nil
	}
	e := s.main.Entry
	writes := e.Writes
	if up := r.histories[e.Other]; up != nil && e.OtherSeq < uint64(len(up.entries)) {
		writes = slices.Concat(writes, up.entries[e.OtherSeq].Entry.Writes)
	}
	writes = slices.DeleteFunc(slices.Clone(writes), func(w org.Write) bool { return strings.IndexByte(metered, w.Key[0]) < 0 })
	if len(writes) == 0 {
		return nil
	}
	tx := org.Begin(s.home.id, org.NewState(), e.TimeMs)
	tx.Put(writes...)
	plan := billing.Plan{ID: "default", Sponsorship: true}
	if b, err := tx.Bill(); err == nil && b != nil {
		plan.ID, plan.SignaturesPerMonth = cmp.Or(b.Plan, plan.ID), b.Quota
	}
	return &billing.Plans{Default: plan.ID, Plans: []billing.Plan{plan}}
}

// asksChain reports whether a signed request was decided from a chain's state that is not recorded.
func (s *replayed) asksChain() bool {
	e := s.own.Entry
	v := kinds.Live[s.main.Entry.Type]
	if v == nil || s.main.Entry.Status == org.StatusCompleted {
		return false
	}
	switch v.Kind.Name {
	case "ETH_SEND_TRANSACTION", "ETH_UNDELEGATE_7702", "SOL_SEND_TRANSACTION":
	default:
		return false
	}
	for _, w := range s.main.Entry.Writes {
		if w.Key[0] != 'A' && strings.IndexByte(never, w.Key[0]) < 0 { // it changes more than the pending activity
			return false
		}
	}
	c := s.replay.core
	_, err := (&assumedCaller{}).requester(&callState{core: c}, s.vote, e.Body)
	return err == nil && e.Fingerprint == sha256.Sum256(e.Body) && len(s.main.Entry.Result) == 0 && len(s.main.Entry.Proofs) == 0
}

// maxTries bounds the runs of one request: ids are learnt in the first, and what depends on their
// order in later ones.
const maxTries = 6

func (s *replayed) tryCaller(ctx context.Context, as assumedCaller) (err error) {
	for range maxTries {
		s.again = false
		if err = s.run(ctx, as); err == nil || !s.again {
			break
		}
	}
	if err == nil && s.done == nil {
		err = errors.New("it was decided before, or changes nothing")
	}
	return err
}

// run runs the transaction once.
func (s *replayed) run(ctx context.Context, as assumedCaller) error {
	r, e := s.replay, s.own.Entry
	c := r.core
	v := &callState{core: c, state: wire.StateServing, reply: &replyReservation{portion: c.replies}, lookups: (&providers.Services{IdentityProviders: new(providers.IdentityProviders)}).Lookups()}
	requester, err := as.requester(v, s.vote, e.Body)
	if err != nil {
		return err
	}
	q := &request{core: c, call: v, requester: requester, op: activity.OpOf(e.Type)}
	if err := q.route(); err != nil {
		return err
	}
	if err := s.findParent(ctx, v); err != nil {
		return err
	}
	if named := q.organization; named != s.home.id && (!q.version.Kind.ByCredential || named != s.parent) {
		return &ReplayFinding{Organization: s.home.id, Seq: s.own.Seq, Check: "organization", Want: named.String(), Got: s.home.id.String()}
	}
	if r.histories[q.organization] == nil {
		return errNoParent
	}
	return r.ledger.Transact(ctx, q.organization, ledger.Caller{Organization: q.organization}, func(t, parent *ledger.Locked) error {
		r.tape.rewind()
		if q.from, err = as.address(t, parent, s.vote.PublicKey); err != nil {
			return err
		}
		tx := t.Begin(c.now())
		v.chainState = wallet.KnownOf(tx, s.main.Entry.Sends)
		p, err := tx.PendingBy(s.main.Entry.Fingerprint)
		if err != nil {
			return err
		}
		if p != nil && p.Last < uint64(s.home.next) {
			v.voted, v.votedSeq = s.home.entries[p.Last].Entry, p.Last
		}
		_, _, err = q.attempt(t, parent)
		return s.handleRetry(err)
	})
}

// handleRetry locks the parent as well, if its history was given. No other data can be fetched.
func (s *replayed) handleRetry(err error) error {
	m, ok := errors.AsType[*org.Retry](err)
	if !ok || m.LockParent && s.replay.histories[s.parent] != nil || m.Redirect == s.home.id {
		return err
	}
	if m.LockParent || !s.parent.Zero() && s.replay.histories[s.parent] == nil {
		return errNoParent
	}
	return errOutside
}

// errNoParent is the error of a request whose decision needs the parent's history.
var errNoParent = errors.New("it takes the history of the parent organization")

// findParent loads what the request reads of the parent before its own transaction.
func (s *replayed) findParent(ctx context.Context, v *callState) error {
	r, parent := s.replay, org.ID{}
	read := func(id org.ID, f func(*org.Tx) error) error {
		return r.ledger.Transact(ctx, id, ledger.Caller{Organization: id}, func(t, _ *ledger.Locked) error { return f(t.Begin(r.core.now())) })
	}
	err := read(s.home.id, func(tx *org.Tx) error {
		o, err := tx.Organization()
		if err == nil && o != nil {
			parent = o.Parent
		}
		return err
	})
	if s.parent = parent; err != nil || r.histories[parent] == nil {
		return err
	}
	return read(parent, func(tx *org.Tx) (err error) {
		o, err := tx.Organization()
		if err != nil {
			return err
		}
		v.origins = map[org.ID]*org.Organization{parent: o}
		v.parentAudience = &outbox.Audience{Organization: parent}
		v.parentAudience.Subscribers, err = tx.Subscribers()
		return err
	})
}

// keyedHash returns activities' recorded ids, whose key only an enclave has.
func (r *Replay) keyedHash(text []byte) (h [32]byte) {
	if bytes.HasPrefix(text, []byte("cloister activity 1")) && r.step != nil && r.step.own != nil {
		copy(h[:], r.step.own.Entry.Activity[:])
		return h
	}
	return sha256.Sum256(text)
}

// compare compares the entries that a transaction would append with the recorded ones.
func (r *Replay) compare(all []ledger.Addition) error {
	s := r.step
	if s.isGiven {
		return nil
	}
	taken := map[org.ID]int{}
	of := make([]*Recorded, len(all)) // nil: the history was not given
	learnt := false
	for i := range all {
		id := all[i].OrganizationID()
		h := r.histories[id]
		if h == nil {
			continue
		}
		at := h.next + taken[id]
		taken[id]++
		if at >= len(h.entries) {
			return &ReplayFinding{Organization: id, Seq: uint64(at), Check: "entry", Want: all[i].Entry.Type + " " + all[i].Entry.Status.String(), Got: "nothing"}
		}
		of[i] = h.entries[at]
		all[i].Entry.Sends = withRecordedMails(all[i].Entry.Sends, of[i].Entry.Sends)
		learnt = r.tape.learn(all[i].Entry, of[i].Entry) || learnt
	}
	err := s.compareDecided(all, of)
	if err != nil && learnt {
		s.again = true
	}
	return err
}

// compareDecided compares entries with the recorded ones, which then take effect.
func (s *replayed) compareDecided(all []ledger.Addition, of []*Recorded) error {
	for i, e := range of {
		if e == nil {
			continue
		}
		c := all[i].Entry
		if err := s.adopt(c, e, i == 0 && s.own != s.main); err != nil {
			return err
		}
		if check, want, got := compareEntries(c, e.Entry); check != "" {
			return &ReplayFinding{Organization: e.Organization, Seq: e.Seq, Check: check, Want: want, Got: got}
		}
		if all[i].Tx == nil {
			continue
		}
		all[i].Tx.Replace(e.Entry.Writes) // with the drawn members
		if err := s.verify(all[i].Tx, e); err != nil {
			return &ReplayFinding{Organization: e.Organization, Seq: e.Seq, Check: "keys and signatures", Got: err.Error()}
		}
	}
	s.done = slices.DeleteFunc(of, func(e *Recorded) bool { return e == nil })
	return nil
}

// verify checks the results that an entry's activity made with secrets, by public keys. tx has the entry's records.
func (s *replayed) verify(tx *org.Tx, e *Recorded) error {
	rule := replayRules[kinds.Live[s.main.Entry.Type].Kind.Name]
	if rule.draws+rule.taken != "" {
		if err := wallet.CheckKeys(tx); err != nil {
			return err
		}
	}
	if e != s.main || e.Entry.Status != org.StatusCompleted {
		return nil
	}
	_, v, in, err := kinds.Live.Reread(e.Entry)
	if err != nil {
		return err
	}
	return v.Verify(tx, in, e.Entry.Result, e.Entry.Sends)
}

// compareEntries names the first member in which two entries differ.
func compareEntries(computed, recorded *org.Entry) (check, want, got string) {
	a, _, aerr := computed.Encode(nil, [tlog.SeedSize]byte{}, org.Place{})
	b, _, berr := recorded.Encode(nil, [tlog.SeedSize]byte{}, org.Place{})
	if aerr == nil && berr == nil && bytes.Equal(a, b) {
		return "", "", ""
	}
	for _, m := range entryMembers {
		if x, y := m.show(computed), m.show(recorded); x != y {
			return m.name, shorten(x), shorten(y)
		}
	}
	return "encoding", fmt.Sprint(aerr), fmt.Sprint(berr)
}

func shorten(text string) string {
	const most = 300
	if len(text) > most {
		return text[:most] + fmt.Sprintf("… (%d bytes)", len(text))
	}
	return text
}

// entryMembers are the members of an entry, as reports name and show them.
var entryMembers = []struct {
	name string
	show func(*org.Entry) string
}{
	{"activity", func(e *org.Entry) string { return e.Activity.String() }},
	{"type", func(e *org.Entry) string { return e.Type }},
	{"status", func(e *org.Entry) string { return e.Status.String() + " " + string(e.Failure) }},
	{"policy outcome", func(e *org.Entry) string { return e.Outcome }},
	{"failure", func(e *org.Entry) string { return string(e.Failure) }},
	{"refusal", func(e *org.Entry) string { return fmt.Sprint(e.Refused) }},
	{"body", func(e *org.Entry) string { return string(e.Body) }},
	{"fingerprint", func(e *org.Entry) string { return fmt.Sprintf("%x", e.Fingerprint) }},
	{"time of the stamp", func(e *org.Entry) string { return fmt.Sprint(e.StampedMs) }},
	{"time of the activity", func(e *org.Entry) string { return fmt.Sprint(e.CreatedMs) }},
	{"time", func(e *org.Entry) string { return fmt.Sprint(e.TimeMs) }},
	{"initiator", func(e *org.Entry) string { return e.Initiator.String() }},
	{"floor", func(e *org.Entry) string { return fmt.Sprint(e.LowWatermarkMs) }},
	{"step before", func(e *org.Entry) string { return fmt.Sprint(e.Prior) }},
	{"other half", func(e *org.Entry) string { return fmt.Sprint(e.Other, " ", e.OtherSeq) }},
	{"boot", func(e *org.Entry) string { return fmt.Sprint(e.Boot) }},
	{"votes", func(e *org.Entry) string { return fmt.Sprintf("%+v", e.Votes) }},
	{"evaluations", func(e *org.Entry) string { return fmt.Sprintf("%+v", e.Evaluations) }},
	{"result", func(e *org.Entry) string { return string(e.Result) }},
	{"writes", func(e *org.Entry) string { return fmt.Sprintf("%q", e.Writes) }},
	{"sends", func(e *org.Entry) string { return fmt.Sprintf("%+v", e.Sends) }},
	{"app proofs", func(e *org.Entry) string { return fmt.Sprintf("%q", e.Proofs) }},
}
