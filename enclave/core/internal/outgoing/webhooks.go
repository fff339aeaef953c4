package outgoing

import (
	"container/list"
	"context"
	"sync"
	"time"

	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/webhook"
	"cloister/shared/wire"
)

// Every step of an activity is an event for those who have subscribed to them: its
// entry holds a send for each. What a receiver is told is made when the send is
// opened, from the entry, which by then is stored and proven: the host can have
// nothing signed that did not happen.

// eventFor is how long an event is opened. Its receiver is tried for three days;
// until a month has passed a dead letter can still be sent again, once somebody has
// seen that the receiver was broken and has mended it.
const eventFor = 30 * 24 * time.Hour

// maxAudiences bounds of how many organizations it is remembered who hears of what
// happens below them: some 4 MiB.
const maxAudiences = 1 << 14

// audiences remembers who receives the events of top-level organizations, so that
// what happens in a sub-organization does not wait for its parent's turn. Each is as
// of the organization's last entry decided, since it is written in its turn only.
// A sub-organization's entry goes into the batch of the entry that it was read
// behind or a later one, so it never outlives what it follows from.
type audiences struct {
	mu     sync.Mutex
	by     map[org.ID]*list.Element
	recent list.List // of *Audience, the most recently used in front
}

// An Audience is who receives the events of one organization, by the ids of
// org.Tx.Subscribers. It does not change.
type Audience struct {
	Organization org.ID
	Subscribers  []org.ID
}

func (a *audiences) get(organization org.ID) *Audience {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.by[organization]
	if e == nil {
		return nil
	}
	a.recent.MoveToFront(e)
	return e.Value.(*Audience)
}

func (a *audiences) put(of *Audience) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.by[of.Organization]; e != nil {
		e.Value = of
		return
	}
	if a.by == nil {
		a.by = map[org.ID]*list.Element{}
	}
	a.by[of.Organization] = a.recent.PushFront(of)
	if len(a.by) > maxAudiences {
		delete(a.by, a.recent.Remove(a.recent.Back()).(*Audience).Organization)
	}
}

func (a *audiences) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by = nil
	a.recent.Init()
}

func (a *audiences) forget(organization org.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.by[organization]; e != nil {
		a.recent.Remove(e)
		delete(a.by, organization)
	}
}

// Forget forgets who hears of what: another enclave may have decided since.
func (o *Outgoing) Forget() { o.audiences.clear() }

// Audience is who receives an organization's events, nil if that is not known.
func (o *Outgoing) Audience(organization org.ID) *Audience { return o.audiences.get(organization) }

// FindAudience finds out who receives an organization's events, in its turn.
func (o *Outgoing) FindAudience(ctx context.Context, v *ranges.Visit, id org.ID) (a *Audience, err error) {
	err = v.Turn(ctx, id, func(t *ledger.Turn) error {
		a = &Audience{Organization: id}
		if a.Subscribers, err = org.Begin(id, t.State, o.nowMs()).Subscribers(); err == nil {
			o.audiences.put(a)
		}
		return err
	})
	return a, err
}

// UpdateAudience brings what is remembered of an organization up to date with a change
// that was decided. Its turn is held.
func (o *Outgoing) UpdateAudience(t *ledger.Turn, change *org.Tx) {
	if change == nil || !change.SubscribersChanged() || o.audiences.get(t.ID()) == nil {
		return
	}
	subscribers, err := org.Begin(t.ID(), t.State, o.nowMs()).Subscribers()
	if err != nil {
		o.audiences.forget(t.ID())
		return
	}
	o.audiences.put(&Audience{t.ID(), subscribers})
}

// Announce puts an event for everyone who hears of it into each of a step's entries:
// for those of the organization, of which after are the records once it is done, and for
// those of its parent, who are named. Who has subscribed by this very step hears of it.
func (o *Outgoing) Announce(after *org.Tx, above []org.ID, entries ...*org.Entry) error {
	mine, err := after.Subscribers()
	if err != nil || len(mine) == 0 && len(above) == 0 {
		return err
	}
	for _, e := range entries {
		if e == nil {
			continue
		}
		id, err := org.NewID(o.cfg.Rand)
		if err != nil {
			return err
		}
		if err := addEvents(e, id, after.ID, mine); err != nil {
			return err
		}
		if len(above) > 0 {
			rec, err := after.Organization()
			if err != nil {
				return err
			}
			if err := addEvents(e, id, rec.Parent, above); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEvents adds sends of event id to the subscribers of an organization.
func addEvents(e *org.Entry, id, owner org.ID, subscribers []org.ID) error {
	for _, to := range subscribers {
		content, err := (&org.Event{ID: id, Subscriber: to, Owner: owner}).Encode()
		if err != nil {
			return err
		}
		e.Sends = append(e.Sends, org.Send{Kind: org.SendWebhook, DueMs: e.TimeMs, ExpiresMs: e.TimeMs + uint64(eventFor.Milliseconds()), Content: content, Receiver: to})
	}
	return nil
}

// openWebhook makes what a receiver is told of an entry that is stored: the activity
// as the entry shows it, with the users as they are now, signed now. Where it goes
// is what its owner's newest state says.
func (o *Outgoing) openWebhook(ctx context.Context, v *ranges.Visit, id org.ID, e *org.Entry, s *org.Send) (*wire.Opened, error) {
	event, err := org.DecodeEvent(s.Content)
	if err != nil {
		return nil, err
	}
	opened := &wire.Opened{Found: true, Kind: wire.SendWebhook, ExpiresMs: s.ExpiresMs}
	var url string
	var body []byte
	err = v.Turn(ctx, event.Owner, func(t *ledger.Turn) (err error) {
		url, err = org.Begin(t.ID(), t.State, o.nowMs()).Receiver(event.Subscriber)
		return err
	})
	if err == nil && url != "" {
		err = v.Turn(ctx, id, func(t *ledger.Turn) error {
			body = eventBody(e, id, org.Begin(id, t.State, o.nowMs()))
			return nil
		})
	}
	if err == nil {
		err = v.Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	// What is too large for a frame reaches nobody: it can be read by its id.
	if opened.Gone = url == "" || len(body) > wire.MaxWebhook; opened.Gone {
		return opened, nil
	}
	head := o.cfg.Webhooks.Head(&webhook.Delivery{EventID: event.ID.String(), Type: org.ActivityUpdates, Organization: id.String(), AtMs: o.nowMs(), Body: body})
	opened.Webhook = &wire.Webhook{URL: url, Body: body}
	for _, h := range head {
		opened.Webhook.Head = append(opened.Webhook.Head, wire.Header{Name: h.Name, Value: h.Value})
	}
	return opened, nil
}

// eventBody is the Activity object of an entry, as an answer has it. Who receives
// it is no user: whether one can still vote tells whether it is open.
func eventBody(e *org.Entry, id org.ID, tx *org.Tx) []byte {
	open := !e.Status.Terminal()
	return kinds.Live.AppendActivity(make([]byte, 0, 2048+2*len(e.Body)+len(e.Result)), e, id, activity.ActivityView{
		Users: func(u org.ID) *org.User {
			rec, err := tx.User(u)
			if err != nil {
				return nil
			}
			return rec
		},
		CanApprove: open, CanReject: open,
	})
}
