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

	"cloister/host/outage"
	"cloister/host/store"
	"cloister/shared/wire"
)

// Times of a sender.
const (
	lease     = 20 * time.Second // of a claim: how long a dead sender holds others up
	share     = 5 * time.Second  // of the lease in which a claimed send may begin
	oneWait   = 12 * time.Second // for one attempt at one send, and to keep what came of it
	poll      = 500 * time.Millisecond
	firstLook = 250 * time.Millisecond // at a transaction that a node has just taken
	longLook  = 15 * time.Second
	longRetry = 30 * time.Second
	inWork    = 64 // sends at a time
	ofNode    = inWork / 2
	restAway  = 5 * time.Second // after which a node that did not answer is asked again
)

// Ended sends are forgotten after these times, transactions never. The enclave opens an event for
// 30 days, and until then a dead letter can be sent again.
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

// Options of a Sender. All but Mailer, Programs and Wait are needed.
type Options struct {
	Chains *Chains
	Outbox interface {
		store.Outbox
		store.Pruner
	}
	Enclave Enclave
	Mailer  Mailer // for mails that the enclave leaves to the host
	// Programs runs customers' programs; nil: this host runs none.
	Programs Programs
	Log      *slog.Logger
	Now      func() time.Time
	Pause    func(context.Context, time.Duration) // waits for d or until the context ends
	Rand     io.Reader
	// Wait is for one attempt at one send, and to keep what came of it; 0 means oneWait.
	Wait time.Duration
}

// A wakeup wakes a sender from its pause.
type wakeup chan struct{}

// Due says that something has come into the outbox. It returns at once.
func (b wakeup) Due() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait pauses for poll, or until the bell rings or ctx ends.
func (b wakeup) wait(ctx context.Context, pause func(context.Context, time.Duration)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-b:
			cancel()
		case <-ctx.Done():
		}
	}()
	pause(ctx, poll)
}

// A Sender sends what the outbox holds, and follows it to its end. Any number of Senders may work
// at once. Delivery is at least once: a transaction that goes out twice is the same transaction.
//
// What it claims it claims in turn: see rotation.
type Sender struct {
	wakeup
	options Options
	outages *outage.Log
	id      wire.ID
	busy    atomic.Int32

	// rotations and nextKind belong to the goroutine that claims.
	rotations map[wire.SendKind]*rotation
	nextKind  int // index in kinds

	mu    sync.Mutex
	nodes map[string]*standing
	// back is locked by the goroutine that claims, and read-locked by those that give back what they had no time for. Without it
	// several would claim those sends piece by piece, and an account's transactions would overtake each other.
	back sync.RWMutex
}

// standing is the state of one node: one that hangs must not hold up sends to others.
type standing struct {
	working int       // attempts at it
	until   time.Time // when it may be asked again
	why     string
}

// claimPlace tells whether an attempt may ask a node; it must then call leave. If not, why says that
// the node was away a moment ago, or is empty if enough attempts are at it.
func (s *Sender) claimPlace(node string) (why string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.standingOf(node)
	switch {
	case s.options.Now().Before(st.until):
		return st.why, false
	case st.working >= ofNode:
		return "", false
	}
	st.working++
	return "", true
}

// standingOf is the state of a node. The lock is held.
func (s *Sender) standingOf(node string) *standing {
	st := s.nodes[node]
	if st == nil {
		st = new(standing)
		s.nodes[node] = st
	}
	return st
}

func (s *Sender) releasePlace(node string) {
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
	if o.Wait <= 0 {
		o.Wait = oneWait
	}
	s := &Sender{options: o, outages: outage.New(o.Log, o.Now), wakeup: make(wakeup, 1), nodes: map[string]*standing{}, rotations: map[wire.SendKind]*rotation{}}
	for _, k := range kinds {
		s.rotations[k] = &rotation{organizations: map[wire.ID]wire.ID{}}
	}
	if _, err := io.ReadFull(o.Rand, s.id[:]); err != nil {
		return nil, fmt.Errorf("naming a sender: %w", err)
	}
	return s, nil
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
		room, again, err := inWork-int(s.busy.Load()), false, error(nil)
		if room > 0 {
			again, err = s.round(ctx, room, &all)
		}
		s.back.Unlock()
		if room > 0 {
			if err != nil && !told && ctx.Err() == nil {
				s.options.Log.Error("outbox not read", "error", err)
			}
			told = err != nil
			if again {
				continue
			}
		}
		s.wait(ctx, s.options.Pause)
	}
}

// prune forgets some sends that ended long ago, and returns the time until the next prune.
func (s *Sender) prune(ctx context.Context, now time.Time) time.Duration {
	n, err := s.options.Outbox.PruneSends(ctx, store.PruneSends{EndedMs: ms(now.Add(-keepEnded)), DeadMs: ms(now.Add(-keepDead)), Mails: wire.MailObjects(ms(now)/wire.MailPeriodMs - 1), Limit: pruned})
	switch {
	case err != nil && ctx.Err() == nil:
		s.options.Log.Error("outbox not pruned", "error", err)
	case n >= pruned:
		return poll
	}
	return pruneEvery
}

// round claims sends in turn and begins with them. It tells whether there is room for more that may be due.
func (s *Sender) round(ctx context.Context, room int, all *sync.WaitGroup) (again bool, err error) {
	now := s.options.Now()
	if err := s.startRounds(ctx, now); err != nil {
		return false, err
	}
	lanes := s.takeLanes(room)
	if len(lanes) == 0 {
		return false, nil
	}
	sends, err := s.options.Outbox.ClaimSends(ctx, store.ClaimSends{Claimant: s.id, NowMs: ms(now), UntilMs: ms(now.Add(lease)), Lanes: lanes})
	if err != nil {
		return false, err
	}
	s.dropServed(lanes, sends)
	// Transactions of one organization go out one after the other, so that an account's
	// transactions reach a node in the order of their numbers. Messages have no order.
	var groups [][]store.Send
	of := map[wire.ID]int{} // an organization's group
	for _, x := range sends {
		s.takePlace(x.Kind)
		if i, ok := of[x.ID.Organization]; ok && x.Kind == wire.SendTransaction {
			groups[i] = append(groups[i], x)
			continue
		}
		if x.Kind == wire.SendTransaction {
			of[x.ID.Organization] = len(groups)
		}
		groups = append(groups, []store.Send{x})
	}
	for _, group := range groups {
		s.busy.Add(int32(len(group)))
		all.Go(func() { s.work(ctx, group, now.Add(share)) })
	}
	return len(sends) < room && s.hasMore(), nil
}

// dropServed takes lanes that gave less than they were asked for out of the rounds.
func (s *Sender) dropServed(asked []store.Lane, sends []store.Send) {
	type key struct {
		kind         wire.SendKind
		organization wire.ID
	}
	gave := map[key]int{}
	for _, x := range sends {
		gave[key{x.Kind, x.ID.Organization}]++
	}
	lanes, counts := store.Counts(asked)
	for i, l := range lanes {
		if gave[key{l.Kind, l.Organization}] < counts[i] {
			s.rotations[l.Kind].drop(l)
		}
	}
}

func ms(t time.Time) uint64 { return uint64(t.UnixMilli()) }

// work makes one attempt at each send of a group, and gives back those for which there is no time.
func (s *Sender) work(ctx context.Context, group []store.Send, until time.Time) {
	inTime := true
	for _, x := range group {
		before := x.State
		if inTime && (ctx.Err() != nil || !s.options.Now().Before(until)) {
			inTime = false
			s.back.RLock()
			defer s.back.RUnlock()
		}
		a := &attempt{sender: s, send: x, at: servers[x.Kind]}
		if inTime {
			one, cancel := context.WithTimeout(ctx, s.options.Wait)
			a.run(one)
			cancel()
			if ctx.Err() == nil {
				x = a.send
			}
		}
		a.leaveNode()
		keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Wait)
		if _, err := s.options.Outbox.KeepSend(keep, s.id, x); err != nil {
			s.outages.LogFailure(slog.LevelError, "outbox", "outbox not written", "error", err)
		} else if s.outages.LogSuccess("outbox", "outbox written again"); x.State != before {
			s.options.Log.Info("send attempted", "organization", uuid(x.ID.Organization), "entry", x.ID.Seq, "number", x.ID.Number, "state", stateTexts[x.State], "tries", x.Tries, "said", x.Text)
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

	Looks  int `json:"l,omitempty"` // since a node had it last
	Gone   int `json:"g,omitempty"` // how often it was not found
	Handed int `json:"h,omitempty"` // how often a node has taken it
}

// goneLooks is how often a transaction must be missing until the sender believes it: nodes behind
// one address are not all at the same block.
const goneLooks = 5

// lostTries is how often the enclave may say that there is no such send.
const lostTries = 20

// An attempt is one attempt at one send.
type attempt struct {
	sender *Sender
	send   store.Send
	memo   memo
	at     string // the node that it has entered; a message has entered its server when it was claimed
}

func (a *attempt) leaveNode() {
	if a.at != "" {
		a.sender.releasePlace(a.at)
		a.at = ""
	}
}

// run makes the attempt and changes a.send, which is to be kept.
func (a *attempt) run(ctx context.Context) {
	a.send.Tries++
	if servers[a.send.Kind] != "" {
		a.deliver(ctx)
		return
	}
	if a.send.Kind == wire.SendProgram {
		a.tellPrograms(ctx)
		return
	}
	if len(a.send.Memo) > 0 && json.Unmarshal(a.send.Memo, &a.memo) != nil {
		a.memo = memo{}
	}
	// Until the enclave has opened it nothing is known of the transaction.
	if a.memo.Chain != "" {
		a.switchTo(ctx, a.follow)
	} else if o := a.open(ctx); o != nil {
		a.switchTo(ctx, func(ctx context.Context, n *node) error { return a.hand(ctx, n, o) })
	}
	if a.memo.Chain != "" {
		if b, err := json.Marshal(&a.memo); err == nil && len(b) <= store.MaxMemo {
			a.send.Memo = b
		}
	}
}

// end ends the send: nothing more will happen to it.
func (a *attempt) end(state wire.SendState, text string) {
	a.send.State, a.send.Text, a.send.DueMs = state, clean(text), ms(a.sender.options.Now())
}

// retryLater tries again after a pause that grows with each attempt.
func (a *attempt) retryLater(why string) {
	a.send.Text = clean(why)
	a.dueIn(min(longRetry, poll<<min(a.send.Tries, 6)))
}

func (a *attempt) dueIn(pause time.Duration) { a.send.DueMs = ms(a.sender.options.Now().Add(pause)) }

// lost is for a send that the enclave does not know. It is believed after lostTries.
func (a *attempt) lost() {
	const why = "the enclave knows of no such send"
	if a.send.Tries >= lostTries {
		a.end(wire.SendRefused, why)
	} else {
		a.retryLater(why)
	}
}

// open asks the enclave for the send's content. nil means not now, or no more.
func (a *attempt) open(ctx context.Context) *wire.Opened {
	o, err := a.sender.options.Enclave.OpenSend(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryLater("the enclave did not open it: " + err.Error())
		return nil
	case !o.Found:
		a.lost()
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

// switchTo does something at the transaction's node, if there is one and it is not away.
func (a *attempt) switchTo(ctx context.Context, do func(context.Context, *node) error) {
	n := a.sender.options.Chains.nodes[canonical(a.memo.Chain)]
	if n == nil {
		a.retryLater("no node of " + clean(a.memo.Chain) + " is configured")
		return
	}
	why, ok := a.sender.claimPlace(n.name)
	switch {
	case ok:
	case why == "":
		a.dueIn(poll) // nothing is wrong with it
		return
	default:
		a.retryLater(why)
		return
	}
	a.at = n.name
	err := n.prove(ctx)
	if err == nil {
		err = do(ctx, n)
	}
	if err != nil {
		a.noteUnreached(n, err)
	}
}

// noteAccepted looks again soon, but ever more rarely if the node takes the transaction again and
// again and never has it.
func (a *attempt) noteAccepted() {
	a.send.State, a.send.Text = wire.SendAccepted, ""
	a.memo.Looks, a.memo.Gone = min(a.memo.Handed, 6), 0
	a.memo.Handed++
	a.dueIn(min(longLook, firstLook<<a.memo.Looks))
}

// noteUnreached is for a node that could not be asked, and may have taken the transaction or not.
// Unless it refused, other attempts do not wait for it too.
func (a *attempt) noteUnreached(n *node, err error) {
	why := n.name + ": " + err.Error()
	if _, refused := errors.AsType[*refusal](err); !refused {
		a.sender.rest(n.name, why)
	}
	a.retryLater(why)
}

// noteSeen is for a transaction that its node has, in no block yet.
func (a *attempt) noteSeen() {
	a.memo.Looks, a.memo.Gone = a.memo.Looks+1, 0
	a.dueIn(min(longLook, firstLook<<min(a.memo.Looks, 6)))
}

// hand gives the transaction to its node. With an error nobody knows whether the node has it. A
// node's final refusal ends the send.
func (a *attempt) hand(ctx context.Context, n *node, o *wire.Opened) error {
	to := a.handSolana
	if n.isEthereum() {
		to = a.handEthereum
	}
	took, err := to(ctx, n, o.Signed)
	if took {
		a.noteAccepted()
	}
	return err
}

// follow looks for a transaction that a node may have.
func (a *attempt) follow(ctx context.Context, n *node) error {
	if n.isEthereum() {
		return a.followEthereum(ctx, n)
	}
	return a.followSolana(ctx, n)
}

// missing is for a transaction that its node does not have: it goes out again as long as the
// enclave opens it.
func (a *attempt) missing(ctx context.Context, n *node) error {
	o := a.open(ctx)
	switch {
	case o == nil:
		return nil
	case !o.Expired:
		return a.hand(ctx, n, o)
	}
	if a.memo.Gone++; a.memo.Gone >= goneLooks {
		a.end(wire.SendExpired, "no node has it any more")
		return nil
	}
	a.retryLater("the node does not have it")
	return nil
}
