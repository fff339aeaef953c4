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

// Times and limits of a Sender.
const (
	lease     = 20 * time.Second // of a claim: for how long a crashed sender blocks its sends
	share     = 5 * time.Second  // part of the lease in which an attempt may begin
	oneWait   = 12 * time.Second // for one attempt, and for storing its result
	poll      = 500 * time.Millisecond
	firstLook = 250 * time.Millisecond // pause until a transaction that a node has just accepted is looked up
	longLook  = 15 * time.Second
	longRetry = 30 * time.Second
	inWork    = 64 // attempts at a time
	ofNode    = inWork / 2
	restAway  = 5 * time.Second // pause for a node that did not answer
)

// Ended sends are deleted after these times, except transactions, which are kept. The enclave opens
// an event for 30 days, and until then a dead letter can be resent.
const (
	keepEnded  = 7 * 24 * time.Hour
	keepDead   = 31 * 24 * time.Hour
	pruneEvery = 10 * time.Minute
	pruned     = 100 // rows deleted at a time, so that no other transaction waits long
)

// Enclave decrypts sends for the host, and delivers the ones that the host must not see itself.
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
	Mailer  Mailer // for mails that the enclave leaves to the host; nil: such mails wait
	// Programs runs customers' programs; nil: this host runs none.
	Programs Programs
	Log      *slog.Logger
	Now      func() time.Time
	Pause    func(context.Context, time.Duration) // waits for d or until the context ends
	Rand     io.Reader
	// Wait is the time limit of one attempt, and of storing its result; 0 means oneWait.
	Wait time.Duration
}

// A wakeup is a channel that ends a sender's pause early.
type wakeup chan struct{}

// Due reports that the outbox has a new send. It does not block.
func (b wakeup) Due() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait pauses for poll, or until Due is called or ctx ends.
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

// A Sender sends the transactions, messages and orders in the outbox, and follows each until it ends.
// Any number of Senders may run. Delivery is at least once: a transaction that goes out twice is the
// same transaction.
//
// It claims sends of all tenants fairly: see rotation.
type Sender struct {
	wakeup
	options Options
	outages *outage.Log
	id      wire.ID
	busy    atomic.Int32

	// rotations and nextKind are used only by the goroutine that claims.
	rotations map[wire.SendKind]*rotation
	nextKind  int // index in kinds

	mu    sync.Mutex
	nodes map[string]*standing
	// back is locked while claiming, and read-locked while a group returns the sends for which it had no time. Without it
	// such a group would be claimed in parts, and an account's transactions would overtake each other.
	back sync.RWMutex
}

// standing counts and pauses the attempts at one node: one that hangs must not delay sends to others.
type standing struct {
	working int       // attempts in progress
	until   time.Time // end of its pause after it did not answer
	why     string
}

// claimPlace reserves one of a node's attempts; the caller must then call releasePlace. If it can't, why
// is the reason for the node's pause, or empty if all its attempts are in use.
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

// standingOf returns the standing of a node, and makes it if needed. The caller holds s.mu.
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

// pauseNode pauses a node that did not answer, for restAway.
func (s *Sender) pauseNode(node, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.nodes[node]
	st.until, st.why = s.options.Now().Add(restAway), why
}

// NewSender makes a Sender. It does nothing until Run.
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

// Run claims and attempts sends until ctx ends, and then returns its claims.
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
		free, again, err := inWork-int(s.busy.Load()), false, error(nil)
		if free > 0 {
			again, err = s.round(ctx, free, &all)
		}
		s.back.Unlock()
		if free > 0 {
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

// prune deletes some sends that ended long ago, and returns the time until the next prune.
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

// round claims up to room sends and starts their attempts. again reports whether more can be claimed at once.
func (s *Sender) round(ctx context.Context, free int, all *sync.WaitGroup) (again bool, err error) {
	now := s.options.Now()
	if err := s.startRounds(ctx, now); err != nil {
		return false, err
	}
	lanes := s.takeLanes(free)
	if len(lanes) == 0 {
		return false, nil
	}
	sends, err := s.options.Outbox.ClaimSends(ctx, store.ClaimSends{Claimant: s.id, NowMs: ms(now), UntilMs: ms(now.Add(lease)), Lanes: lanes})
	if err != nil {
		return false, err
	}
	s.dropServed(lanes, sends)
	// Transactions of one organization go out one after the other, so that an account's
	// transactions reach a node in the order of their nonces. Messages have no order.
	var groups [][]store.Send
	of := map[wire.ID]int{} // index in groups, by organization
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
	return len(sends) < free && s.hasMore(), nil
}

// dropServed removes from the rounds the lanes that had fewer sends than were asked for.
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

// work makes one attempt at each send of a group, and returns the claims of those that could not begin before until.
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

// A memo is the JSON that a sender stores with a transaction between attempts.
type memo struct {
	Chain string `json:"c"`
	Name  string `json:"n"`
	From  []byte `json:"f,omitempty"`
	Nonce uint64 `json:"o,omitempty"`

	Looks  int `json:"l,omitempty"` // lookups since a node last accepted it
	Gone   int `json:"g,omitempty"` // lookups in a row that did not find it
	Handed int `json:"h,omitempty"` // times that a node has accepted it
}

// goneLooks is the number of lookups without the transaction after which the sender takes it for
// lost: nodes behind one address are not all at the same block.
const goneLooks = 5

// lostTries is the number of attempts after which the enclave's "not found" for a send is final.
const lostTries = 20

// An attempt is one attempt at one send.
type attempt struct {
	sender *Sender
	send   store.Send
	memo   memo
	at     string // node or server that it has a place at; a message gets its server's place when it is claimed
}

func (a *attempt) leaveNode() {
	if a.at != "" {
		a.sender.releasePlace(a.at)
		a.at = ""
	}
}

// run makes the attempt and changes a.send; the caller stores it.
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
	// The memo has a chain once the enclave has opened the send.
	if a.memo.Chain != "" {
		a.switchTo(ctx, a.follow)
	} else if o := a.open(ctx); o != nil {
		a.switchTo(ctx, func(ctx context.Context, n *node) error { return a.submitTransaction(ctx, n, o) })
	}
	if a.memo.Chain != "" {
		if b, err := json.Marshal(&a.memo); err == nil && len(b) <= store.MaxMemo {
			a.send.Memo = b
		}
	}
}

// end sets the final state of the send.
func (a *attempt) end(state wire.SendState, text string) {
	a.send.State, a.send.Text, a.send.DueMs = state, clean(text), ms(a.sender.options.Now())
}

// retryLater schedules another attempt, after a pause that grows with each.
func (a *attempt) retryLater(why string) {
	a.send.Text = clean(why)
	a.dueIn(min(longRetry, poll<<min(a.send.Tries, 6)))
}

func (a *attempt) dueIn(pause time.Duration) { a.send.DueMs = ms(a.sender.options.Now().Add(pause)) }

// handleLost handles a send that the enclave does not find: another attempt, or after lostTries the end.
func (a *attempt) handleLost() {
	const why = "the enclave knows of no such send"
	if a.send.Tries >= lostTries {
		a.end(wire.SendRefused, why)
	} else {
		a.retryLater(why)
	}
}

// open has the enclave decrypt the send. nil means that the attempt is over: another is scheduled, or the send has ended.
func (a *attempt) open(ctx context.Context) *wire.Opened {
	o, err := a.sender.options.Enclave.OpenSend(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryLater("the enclave did not open it: " + err.Error())
		return nil
	case !o.Found:
		a.handleLost()
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

// switchTo calls do with the transaction's node, if one is configured, not paused and not fully used; else it schedules another attempt.
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
		a.dueIn(poll) // not a failure: no text and no growing pause
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

// noteAccepted schedules a lookup after a node has accepted the transaction. The pause grows with each
// time, for a node that accepts the transaction repeatedly and never has it.
func (a *attempt) noteAccepted() {
	a.send.State, a.send.Text = wire.SendAccepted, ""
	a.memo.Looks, a.memo.Gone = min(a.memo.Handed, 6), 0
	a.memo.Handed++
	a.dueIn(min(longLook, firstLook<<a.memo.Looks))
}

// noteUnreached schedules another attempt after a request to a node failed; the node may have the
// transaction or not. Unless the node refused, it is paused for other attempts too.
func (a *attempt) noteUnreached(n *node, err error) {
	why := n.name + ": " + err.Error()
	if _, refused := errors.AsType[*refusal](err); !refused {
		a.sender.pauseNode(n.name, why)
	}
	a.retryLater(why)
}

// noteSeen schedules another lookup of a transaction that its node has, in no block yet.
func (a *attempt) noteSeen() {
	a.memo.Looks, a.memo.Gone = a.memo.Looks+1, 0
	a.dueIn(min(longLook, firstLook<<min(a.memo.Looks, 6)))
}

// submitTransaction submits the transaction to its node. After an error the node may have it or not. A node's
// final refusal ends the send.
func (a *attempt) submitTransaction(ctx context.Context, n *node, o *wire.Opened) error {
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

// follow looks up a transaction that a node may have.
func (a *attempt) follow(ctx context.Context, n *node) error {
	if n.isEthereum() {
		return a.followEthereum(ctx, n)
	}
	return a.followSolana(ctx, n)
}

// handleMissing handles a transaction that its node does not have: it is submitted again until the
// send expires.
func (a *attempt) handleMissing(ctx context.Context, n *node) error {
	o := a.open(ctx)
	switch {
	case o == nil:
		return nil
	case !o.Expired:
		return a.submitTransaction(ctx, n, o)
	}
	if a.memo.Gone++; a.memo.Gone >= goneLooks {
		a.end(wire.SendExpired, "no node has it any more")
		return nil
	}
	a.retryLater("the node does not have it")
	return nil
}
