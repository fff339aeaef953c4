package egress

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"cloister/host/outage"
	"cloister/host/store"
	"cloister/shared/wire"
)

// Times and limits of the delivery of webhooks.
const (
	webhookWait  = 10 * time.Second // for a receiver's response
	webhookOpen  = 8 * time.Second  // for the enclave to open an event
	webhookLease = 30 * time.Second // of a claim: longer than one attempt
	webhookAway  = 5 * time.Second  // pause after the enclave failed to open an event
	webhookLate  = 3 * time.Second  // from which a response is late

	inDelivery = 512            // attempts at a time
	ofReceiver = 8              // attempts at one receiver while there are fewer than allMore in all; then one
	allMore    = inDelivery / 2 // see ofReceiver
	allLate    = inDelivery / 4 // attempts at all receivers that were late last time, one at each
)

// WebhookOptions are the options of a Webhooks. All are needed but Roots and Observer.
type WebhookOptions struct {
	Outbox   store.Outbox
	Enclave  Enclave
	Dialer   *Dialer        // checks addresses; its Loopback also allows http to loopback
	Roots    *x509.CertPool // for receivers' certificates; nil: the system's
	Observer WebhookObserver
	Log      *slog.Logger
	Now      func() time.Time
	Pause    func(context.Context, time.Duration) // waits for d or until the context ends
	Rand     io.Reader
}

// A WebhookObserver receives the result of each attempt: delivered, later, dead or gone. It must not
// block.
type WebhookObserver interface {
	Webhook(result string, took time.Duration)
}

// A Webhooks delivers events to webhook receivers. Any number of Webhooks may run. Delivery is at
// least once: an event that arrives twice has the same id both times.
//
// Each receiver has a lane. One that hangs, fails or is slow uses only the few places of its own
// lane. Receivers that were late last time get one place each, and together a quarter of all places;
// half of all places are reserved for lanes without an attempt. So the other receivers get a place
// at once, however many events wait for those that hang.
type Webhooks struct {
	wakeup
	options WebhookOptions
	outages *outage.Log
	id      wire.ID
	client  *http.Client

	mu    sync.Mutex
	lanes map[wire.ID]*lane
	busy  int     // attempts in all lanes
	late  int     // attempts in lanes of late receivers
	from  wire.ID // last receiver before the one that the next round begins with
}

// A lane counts the attempts at one receiver.
type lane struct {
	runs bool // its goroutine runs
	busy int
	late bool // the last response was late or missing
}

// NewWebhooks makes a Webhooks. It does nothing until Run.
func NewWebhooks(o WebhookOptions) (*Webhooks, error) {
	w := &Webhooks{options: o, outages: outage.New(o.Log, o.Now), wakeup: make(wakeup, 1), client: webhookClient(o.Dialer, o.Roots), lanes: map[wire.ID]*lane{}}
	if _, err := io.ReadFull(o.Rand, w.id[:]); err != nil {
		return nil, fmt.Errorf("naming a sender: %w", err)
	}
	return w, nil
}

// Run claims and delivers events until ctx ends, and then returns its claims.
func (w *Webhooks) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	told := false
	for ctx.Err() == nil {
		err := w.round(ctx, &all)
		if err != nil && !told && ctx.Err() == nil {
			w.options.Log.Error("outbox not read", "error", err)
		}
		told = err != nil
		w.wait(ctx, w.options.Pause)
	}
}

// round starts the lane of each receiver that has an event due. If there is no place for one, the
// next round begins with it.
func (w *Webhooks) round(ctx context.Context, all *sync.WaitGroup) error {
	first, after, full := w.from, w.from, false
	for around := false; ; {
		ids, err := w.options.Outbox.Receivers(ctx, store.Receivers{NowMs: ms(w.options.Now()), After: after, Limit: store.MaxClaims})
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !w.startLane(ctx, id, all) && !full {
				full, w.from = true, after
			}
			after = id
		}
		switch {
		case len(ids) == store.MaxClaims && !(around && bytes.Compare(after[:], first[:]) >= 0):
		case around || first == wire.ID{}:
			if !full {
				w.from = wire.ID{}
			}
			return nil
		default: // wrap around to the first receiver
			around, after = true, wire.ID{}
		}
	}
}

// startLane starts a receiver's lane, unless it runs. It returns false if there is no place.
func (w *Webhooks) startLane(ctx context.Context, id wire.ID, all *sync.WaitGroup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lanes[id]
	if l == nil {
		l = new(lane)
	}
	switch {
	case l.runs:
		return true
	case w.places(l) == 0:
		return false
	}
	w.lanes[id], l.runs = l, true
	all.Go(func() { w.work(ctx, id, l) })
	return true
}

// places is the number of places that a lane may use now. The caller holds w.mu.
func (w *Webhooks) places(l *lane) int {
	if l.late {
		return max(min(1-l.busy, allLate-w.late, inDelivery-w.busy), 0)
	}
	n := min(ofReceiver-l.busy, allMore-w.busy)
	if l.busy == 0 {
		n = max(n, 1)
	}
	return max(min(n, inDelivery-w.busy), 0)
}

// reserveSlots reserves places for a lane, and returns their number and whether the lane is late.
func (w *Webhooks) reserveSlots(l *lane) (n int, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n = w.places(l); l.busy > 0 && n < ofReceiver/2 {
		return 0, false // claim several at a time, for fewer transactions of the store
	}
	l.busy += n
	w.busy += n
	if l.late {
		w.late += n
	}
	return n, l.late
}

// returnSlots returns places; late is the one that take returned.
func (w *Webhooks) returnSlots(l *lane, n int, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.busy -= n
	w.busy -= n
	if late {
		w.late -= n
	}
}

// work delivers to one receiver until no event is due for it. After a late attempt it ends, so that
// another late receiver gets the place.
func (w *Webhooks) work(ctx context.Context, id wire.ID, l *lane) {
	over := make(chan bool, ofReceiver)
	under, ended, late := 0, 0, false
	for {
		if ctx.Err() == nil && !late {
			under += w.start(ctx, id, l, over)
		}
		if under == 0 {
			break
		}
		late = <-over
		under--
		ended++
	}
	w.mu.Lock()
	if l.runs = false; !l.late {
		delete(w.lanes, id)
	}
	w.mu.Unlock()
	if ended > 0 { // other lanes may be waiting for the places
		w.Due()
	}
}

// start claims sends for the lane's places and starts their attempts; it returns their number. over
// receives for each finished attempt whether the receiver was late.
func (w *Webhooks) start(ctx context.Context, id wire.ID, l *lane, over chan<- bool) int {
	n, late := w.reserveSlots(l)
	if n == 0 {
		return 0
	}
	now := w.options.Now()
	sends, err := w.options.Outbox.ClaimSends(ctx, store.ClaimSends{Claimant: w.id, NowMs: ms(now), UntilMs: ms(now.Add(webhookLease)), Limit: n, Receiver: id})
	if err != nil && ctx.Err() == nil {
		w.outages.LogFailure(slog.LevelError, "claim", "outbox not read", "error", err)
	} else if err == nil {
		w.outages.LogSuccess("claim", "outbox read again")
	}
	w.returnSlots(l, n-len(sends), late)
	for _, x := range sends {
		go func() {
			was := w.deliver(ctx, x)
			w.mu.Lock()
			l.late = was
			w.mu.Unlock()
			w.returnSlots(l, 1, late)
			over <- was
		}()
	}
	return len(sends)
}

// deliver makes one attempt at one send, and reports whether its receiver was late.
func (w *Webhooks) deliver(ctx context.Context, x store.Send) (late bool) {
	began := w.options.Now()
	before := x
	a := &delivery{webhooks: w, send: x}
	a.run(ctx)
	if ctx.Err() == nil {
		x = a.send
	}
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), oneWait)
	defer cancel()
	if _, err := w.options.Outbox.KeepSend(keep, w.id, x); err != nil {
		w.outages.LogFailure(slog.LevelError, "keep", "outbox not written", "error", err)
		return a.late
	}
	w.outages.LogSuccess("keep", "outbox written again")
	level, failed := slog.LevelDebug, x.State == before.State && x.Tries == 1 && before.Tries == 0
	switch {
	case x.State == wire.SendRefused:
		level = slog.LevelWarn
	case failed:
		level = slog.LevelInfo // once for each event: an operator learns of a receiver that is down before its events are dead letters
	}
	if x.State != before.State || failed {
		w.options.Log.Log(keep, level, "webhook", "organization", uuid(x.ID.Organization), "entry", x.ID.Seq, "number", x.ID.Number, "receiver", uuid(x.Receiver),
			"state", stateTexts[x.State], "tries", x.Tries, "said", x.Text)
	}
	if w.options.Observer != nil && a.result != "" {
		w.options.Observer.Webhook(a.result, w.options.Now().Sub(began))
	}
	return a.late
}
