package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Times of a sender.
const (
	lease     = 20 * time.Second // of a claim: how long a sender that died holds others up
	share     = 5 * time.Second  // of the lease in which a new send of a claim is begun
	oneWait   = 12 * time.Second // for one attempt at one send
	poll      = 500 * time.Millisecond
	firstLook = 250 * time.Millisecond // at a transaction that a node has just taken
	longLook  = 15 * time.Second
	longRetry = 30 * time.Second
	inWork    = 64 // sends at a time
	ofNode    = inWork / 2
	restAway  = 5 * time.Second // for which a node that did not answer is left alone
)

// What has ended is forgotten after these times, transactions never. The enclave
// opens an event for 30 days, and until then a dead letter can be sent again.
const (
	keepEnded  = 7 * 24 * time.Hour
	keepDead   = 31 * 24 * time.Hour
	pruneEvery = 10 * time.Minute
	pruned     = 100 // at a time, so that nobody waits for it
)

// Enclave opens sends, and delivers those that it does not open.
type Enclave interface {
	OpenSend(context.Context, wire.SendID) (*wire.Opened, error)
	Deliverer
}

// Options of a Sender. All but Mailer are needed.
type Options struct {
	Chains *Chains
	Outbox interface {
		store.Outbox
		store.Pruner
	}
	Enclave Enclave
	Mailer  Mailer // for mails that the enclave leaves to the host
	Log     *slog.Logger
	Now     func() time.Time
	Pause   func(context.Context, time.Duration) // waits for d or until the context ends
	Rand    io.Reader
}

// A Sender sends what the outbox holds, and follows it to its end. Any number of
// them may work beside each other. Delivery is at least once: a transaction that
// goes out twice is the same transaction.
type Sender struct {
	options Options
	id      wire.ID
	due     chan struct{}
	busy    atomic.Int32

	mu    sync.Mutex
	nodes map[string]*standing
	// back is held by who claims, and shared by those who give back what they had no time for: piece by piece it would be
	// claimed by several, and an account's transactions would overtake each other.
	back sync.RWMutex
}

// standing is how a sender stands with one node: one that hangs must not hold up
// what goes to others.
type standing struct {
	working int       // attempts that are at it
	until   time.Time // when it may be asked again
	why     string
}

// enter tells whether an attempt may turn to a node, and if not, why: it was away a
// moment ago, or enough others are at it (empty). Who may calls leave.
func (s *Sender) enter(node string) (why string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.nodes[node]
	if st == nil {
		st = new(standing)
		s.nodes[node] = st
	}
	switch {
	case s.options.Now().Before(st.until):
		return st.why, false
	case st.working >= ofNode:
		return "", false
	}
	st.working++
	return "", true
}

func (s *Sender) leave(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node].working--
}

// rest leaves a node that did not answer alone for a while.
func (s *Sender) rest(node, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.nodes[node]
	st.until, st.why = s.options.Now().Add(restAway), why
}

// NewSender makes a Sender; Run makes it work.
func NewSender(o Options) (*Sender, error) {
	s := &Sender{options: o, due: make(chan struct{}, 1), nodes: map[string]*standing{}}
	if _, err := io.ReadFull(o.Rand, s.id[:]); err != nil {
		return nil, fmt.Errorf("naming a sender: %w", err)
	}
	return s, nil
}

// Due says that something has come into the outbox. It returns at once.
func (s *Sender) Due() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and gives back what it has claimed.
func (s *Sender) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	told := false
	var prune time.Time
	for ctx.Err() == nil {
		if now := s.options.Now(); !now.Before(prune) {
			prune = now.Add(s.prune(ctx, now))
		}
		s.back.Lock()
		room, n, err := inWork-int(s.busy.Load()), 0, error(nil)
		if room > 0 {
			n, err = s.round(ctx, room, &all)
		}
		s.back.Unlock()
		if room > 0 {
			if err != nil && !told && ctx.Err() == nil {
				s.options.Log.Error("outbox not read", "error", err)
			}
			told = err != nil
			if n == room {
				continue
			}
		}
		wait, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-s.due:
				cancel()
			case <-wait.Done():
			}
		}()
		s.options.Pause(wait, poll)
		cancel()
	}
}

// prune forgets some of what ended long ago, and tells when to go on with it.
func (s *Sender) prune(ctx context.Context, now time.Time) time.Duration {
	n, err := s.options.Outbox.PruneSends(ctx, store.PruneSends{EndedMs: ms(now.Add(-keepEnded)), DeadMs: ms(now.Add(-keepDead)), Limit: pruned})
	switch {
	case err != nil && ctx.Err() == nil:
		s.options.Log.Error("outbox not pruned", "error", err)
	case n >= pruned:
		return poll
	}
	return pruneEvery
}

// round claims sends and begins with them.
func (s *Sender) round(ctx context.Context, room int, all *sync.WaitGroup) (int, error) {
	now := s.options.Now()
	until := now.Add(lease)
	sends, err := s.options.Outbox.ClaimSends(ctx, store.ClaimSends{Claimant: s.id, NowMs: ms(now), UntilMs: ms(until), Limit: room})
	if err != nil {
		return 0, err
	}
	// Those of one organization go out one after the other, in their order, so
	// that an account's transactions come to a node as they are numbered. Messages
	// have no order.
	type line struct {
		of      wire.SendID // its organization, or a message itself
		message bool
	}
	groups := map[line][]store.Send{}
	for _, x := range sends {
		l := line{of: wire.SendID{Organization: x.ID.Organization}}
		if x.Kind != wire.SendTransaction {
			l = line{x.ID, true}
		}
		groups[l] = append(groups[l], x)
	}
	for _, group := range groups {
		s.busy.Add(int32(len(group)))
		all.Go(func() { s.work(ctx, group, now.Add(share)) })
	}
	return len(sends), nil
}

func ms(t time.Time) uint64 { return uint64(t.UnixMilli()) }

// work makes one attempt at each send of a group. What there is no time for is
// given back as it is.
func (s *Sender) work(ctx context.Context, group []store.Send, until time.Time) {
	inTime := true
	for _, x := range group {
		before := x.State
		if inTime && (ctx.Err() != nil || !s.options.Now().Before(until)) {
			inTime = false
			s.back.RLock()
			defer s.back.RUnlock()
		}
		if inTime {
			one, cancel := context.WithTimeout(ctx, oneWait)
			a := &attempt{sender: s, send: x}
			a.run(one)
			a.leaveNode()
			cancel()
			if ctx.Err() == nil {
				x = a.send
			}
		}
		keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), oneWait)
		if _, err := s.options.Outbox.KeepSend(keep, s.id, x); err != nil {
			s.options.Log.Error("outbox not written", "error", err)
		} else if x.State != before {
			s.options.Log.Info("send", "organization", uuid(x.ID.Organization), "entry", x.ID.Seq, "number", x.ID.Number, "state", stateTexts[x.State], "tries", x.Tries, "said", x.Text)
		}
		cancel()
		s.busy.Add(-1)
	}
	s.Due()
}

var stateTexts = map[wire.SendState]string{wire.SendWaiting: "waiting", wire.SendAccepted: "accepted", wire.SendIncluded: "included", wire.SendReverted: "reverted",
	wire.SendRefused: "refused", wire.SendExpired: "expired", wire.SendReplaced: "replaced"}

func uuid(id wire.ID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// A memo is what a sender remembers of a transaction between attempts.
type memo struct {
	Chain string `json:"c"`
	Name  string `json:"n"`
	From  []byte `json:"f,omitempty"`
	Nonce uint64 `json:"o,omitempty"`
	// Looks counts looks at it since a node had it last, Gone how often it was not
	// found.
	Looks int `json:"l,omitempty"`
	Gone  int `json:"g,omitempty"`
	// Handed counts how often a node has taken it.
	Handed int `json:"h,omitempty"`
}

// goneLooks is how often a transaction must be missing until that is believed:
// nodes behind one address are not all at the same block.
const goneLooks = 5

// lostTries is how often the enclave may say that there is no such send.
const lostTries = 20

// An attempt is one attempt at one send.
type attempt struct {
	sender *Sender
	send   store.Send
	memo   memo
	at     string // the node that it is at
}

// leaveNode ends what node has begun.
func (a *attempt) leaveNode() {
	if a.at != "" {
		a.sender.leave(a.at)
		a.at = ""
	}
}

// run leaves in a.send what is to be kept.
func (a *attempt) run(ctx context.Context) {
	a.send.Tries++
	if a.send.Kind == wire.SendMail || a.send.Kind == wire.SendText {
		a.deliver(ctx)
		return
	}
	if len(a.send.Memo) > 0 && json.Unmarshal(a.send.Memo, &a.memo) != nil {
		a.memo = memo{}
	}
	if a.memo.Chain == "" { // nothing is known yet but that there is something
		if opened := a.open(ctx); opened != nil {
			a.submit(ctx, opened)
		}
	} else if n := a.node(); n != nil {
		a.follow(ctx, n)
	}
	if a.memo.Chain != "" {
		if b, err := json.Marshal(&a.memo); err == nil && len(b) <= store.MaxMemo {
			a.send.Memo = b
		}
	}
}

// end is where nothing more will happen to the send.
func (a *attempt) end(state wire.SendState, text string) {
	a.send.State, a.send.Text, a.send.DueMs = state, clean(text), ms(a.sender.options.Now())
}

// retryLater tries again after a pause that grows with each attempt.
func (a *attempt) retryLater(why string) {
	a.send.Text = clean(why)
	a.dueIn(min(longRetry, poll<<min(a.send.Tries, 6)))
}

func (a *attempt) dueIn(pause time.Duration) { a.send.DueMs = ms(a.sender.options.Now().Add(pause)) }

// open asks the enclave what the send holds; nil: not now, or not any more.
func (a *attempt) open(ctx context.Context) *wire.Opened {
	o, err := a.sender.options.Enclave.OpenSend(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryLater("the enclave did not open it: " + err.Error())
		return nil
	case !o.Found && a.send.Tries >= lostTries:
		a.end(wire.SendRefused, "the enclave knows of no such send")
		return nil
	case !o.Found:
		a.retryLater("the enclave knows of no such send")
		return nil
	case o.Expired && a.memo.Chain == "":
		a.end(wire.SendExpired, "it could not be sent in time")
		return nil
	case o.Expired:
		return o
	case o.Kind != wire.SendTransaction || o.Chain == "" || len(o.Chain) > wire.MaxChainName || len(o.Name) > 2*wire.MaxChainName:
		a.retryLater("a send of a kind that this host does not know")
		return nil
	}
	a.memo.Chain, a.memo.Name, a.memo.From, a.memo.Nonce = o.Chain, o.Name, o.From, o.Nonce
	return o
}

// node is the one to speak to; nil: none, or it is away.
func (a *attempt) node() *node {
	n := a.sender.options.Chains.nodes[canonical(a.memo.Chain)]
	if n == nil {
		a.retryLater("no node of " + clean(a.memo.Chain) + " is configured")
		return nil
	}
	why, ok := a.sender.enter(n.name)
	switch {
	case ok:
		a.at = n.name
		return n
	case why == "":
		a.dueIn(poll) // nothing is wrong with it
	default:
		a.retryLater(why)
	}
	return nil
}

// submit hands a transaction to its node.
func (a *attempt) submit(ctx context.Context, o *wire.Opened) {
	n := a.node()
	if n == nil {
		return
	}
	took, err := a.hand(ctx, n, o)
	switch {
	case err != nil:
		a.noteUnreached(n, err)
	case took:
		a.noteAccepted()
	}
}

// noteAccepted looks soon. A node that takes it again and again and never has it is
// looked at ever more rarely.
func (a *attempt) noteAccepted() {
	a.send.State, a.send.Text = wire.SendAccepted, ""
	a.memo.Looks, a.memo.Gone = min(a.memo.Handed, 6), 0
	a.memo.Handed++
	a.dueIn(min(longLook, firstLook<<a.memo.Looks))
}

// noteUnreached is for a node that could not be asked: it may have taken the transaction
// or not. Others do not wait for it once more.
func (a *attempt) noteUnreached(n *node, err error) {
	why := n.name + ": " + err.Error()
	if r := new(refusal); !errors.As(err, &r) {
		a.sender.rest(n.name, why)
	}
	a.retryLater(why)
}

// noteSeen is for a transaction that its node has and that is in no block yet.
func (a *attempt) noteSeen() {
	a.memo.Looks, a.memo.Gone = a.memo.Looks+1, 0
	a.dueIn(min(longLook, firstLook<<min(a.memo.Looks, 6)))
}

// hand gives the transaction to its node and tells whether it has it now. An error
// means that it is not known. What the node refuses for good ends the send.
func (a *attempt) hand(ctx context.Context, n *node, o *wire.Opened) (took bool, err error) {
	if _, ok := chainID(n.name); ok {
		return a.handEthereum(ctx, n, o.Signed)
	}
	return a.handSolana(ctx, n, o.Signed)
}

// follow looks where a transaction is that a node may have.
func (a *attempt) follow(ctx context.Context, n *node) {
	var err error
	if _, ok := chainID(n.name); ok {
		err = a.followEthereum(ctx, n)
	} else {
		err = a.followSolana(ctx, n)
	}
	if err != nil {
		a.noteUnreached(n, err)
	}
}

// missing is for a transaction that its node does not have: it goes out again as
// long as the enclave opens it.
func (a *attempt) missing(ctx context.Context, n *node) error {
	o := a.open(ctx)
	switch {
	case o == nil:
		return nil
	case !o.Expired:
		took, err := a.hand(ctx, n, o)
		if took {
			a.noteAccepted()
		}
		return err
	}
	if a.memo.Gone++; a.memo.Gone >= goneLooks {
		a.end(wire.SendExpired, "no node has it any more")
		return nil
	}
	a.retryLater("the node does not have it")
	return nil
}
