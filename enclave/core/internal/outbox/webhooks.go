package outbox

import (
	"context"
	"sync"
	"time"

	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/webhook"
	"cloister/shared/wire"
)

// Every step of an activity is an event for those who have subscribed to them: its
// entry holds a send for each. What a receiver is told is made from the entry when the send
// is opened. By then the entry is stored and proven, so the host can have nothing signed
// that did not happen.

// eventFor is how long an event can be opened. Its receiver is tried for three days; for a
// month a dead letter can be sent again, once somebody has mended a broken receiver.
const eventFor = 30 * 24 * time.Hour

// maxAudiences is of how many organizations the audience is remembered: some 4 MiB.
const maxAudiences = 1 << 14

// audiences remembers who receives the events of top-level organizations, so that a step in
// a sub-organization does not wait for its parent's lock. An audience is written only under the
// organization's lock, so it is as of the last entry decided. The sub-organization's entry
// goes into the batch of that entry or a later one, so it is never stored without it.
type audiences struct {
	mu sync.Mutex
	by map[org.ID]*Audience
}

// An Audience is who receives the events of one organization, by the ids of
// org.Tx.Subscribers. It does not change.
type Audience struct {
	Organization org.ID
	Subscribers  []org.ID
}

// Audience is who receives an organization's events, nil if that is not known.
func (a *audiences) Audience(organization org.ID) *Audience {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.by[organization]
}

// put remembers an audience, in place of any other when there are too many.
func (a *audiences) put(of *Audience) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[of.Organization] = of
	for other := range a.by {
		if len(a.by) <= maxAudiences {
			return
		}
		if other != of.Organization {
			delete(a.by, other)
		}
	}
}

// Forget forgets all audiences: another enclave may have decided since.
func (a *audiences) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.by)
}

// FindAudience finds out who receives an organization's events, under its lock.
func (o *Outbox) FindAudience(ctx context.Context, v *ranges.Access, id org.ID) (a *Audience, err error) {
	err = v.WithLock(ctx, id, func(t *ledger.Locked) error {
		a = &Audience{Organization: id}
		if a.Subscribers, err = t.Begin(o.nowMs()).Subscribers(); err == nil {
			o.put(a)
		}
		return err
	})
	return a, err
}

// UpdateAudience brings what is remembered of an organization up to date with a change
// that was decided. It is locked.
func (o *Outbox) UpdateAudience(t *ledger.Locked, change *org.Tx) {
	if change == nil || !change.SubscribersChanged() || o.Audience(t.ID()) == nil {
		return
	}
	subscribers, err := t.Begin(o.nowMs()).Subscribers()
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.by, t.ID())
		return
	}
	o.put(&Audience{t.ID(), subscribers})
}

// Announce puts an event for everyone who hears of it into each of a transaction's entries: for the
// organization's subscribers in after, its records as the step leaves them, and for those
// of its parent in parentSubscribers.
func (o *Outbox) Announce(after *org.Tx, parentSubscribers []org.ID, entries ...*org.Entry) error {
	mine, err := after.Subscribers()
	if err != nil || len(mine) == 0 && len(parentSubscribers) == 0 {
		return err
	}
	rec, err := after.Organization()
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, err := org.NewID(o.cfg.Rand)
		if err == nil {
			err = addEvents(e, id, after.ID, mine)
		}
		if err == nil {
			err = addEvents(e, id, rec.Parent, parentSubscribers)
		}
		if err != nil {
			return err
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

// A Stored is a send of an event to a receiver, as its entry has it.
type Stored struct {
	org.StoredEvent
	MadeMs uint64     // time of the send's own entry
	Entry  *org.Entry // that the event is about
}

// Event reads the event that a send holds, nil if it holds none.
func (o *Outbox) Event(ctx context.Context, v *ranges.Access, at org.SendPlace) (*Stored, error) {
	e, s, err := find(ctx, v, wire.SendID{Organization: wire.ID(at.Organization), Seq: at.Seq, Number: at.Number})
	if err != nil || s == nil || s.Kind != org.SendWebhook {
		return nil, err
	}
	return o.event(ctx, v, at, e, s)
}

// event is Event for a send that was found. A repetition's event is the one that the earlier send really holds, for the same
// receiver; otherwise there is none.
func (o *Outbox) event(ctx context.Context, v *ranges.Access, at org.SendPlace, e *org.Entry, s *org.Send) (*Stored, error) {
	event, err := org.DecodeEvent(s.Content)
	if err != nil {
		return nil, err
	}
	if event.Earlier == nil {
		return &Stored{org.StoredEvent{Event: *event, Place: at, ExpiresMs: s.ExpiresMs}, e.TimeMs, e}, nil
	}
	first, err := o.Event(ctx, v, *event.Earlier)
	if err != nil || first == nil || first.Earlier != nil || first.Place != *event.Earlier {
		return nil, err
	}
	if first.ID != event.ID || first.Subscriber != event.Subscriber || first.Owner != event.Owner {
		return nil, nil
	}
	first.MadeMs = e.TimeMs
	return first, nil
}

// openWebhook makes what a receiver is told of an entry: the activity as the entry shows it,
// with the users as they are now, signed now. It goes to where its owner's newest state says. What a repetition refers to
// decides: the host was given the repetition, and the earlier send may be another organization's.
func (o *Outbox) openWebhook(ctx context.Context, v *ranges.Access, at org.SendPlace, e *org.Entry, s *org.Send) (*wire.Opened, error) {
	event, err := o.event(ctx, v, at, e, s)
	if err != nil {
		return nil, err
	}
	opened := &wire.Opened{Found: true, Kind: wire.SendWebhook, ExpiresMs: s.ExpiresMs}
	if event == nil {
		opened.Gone = true
		return opened, nil
	}
	if o.nowMs() >= event.ExpiresMs {
		return &wire.Opened{Found: true, Expired: true}, nil
	}
	id := event.Place.Organization
	e = event.Entry
	var url string
	var body []byte
	err = v.WithLock(ctx, event.Owner, func(t *ledger.Locked) (err error) {
		url, err = t.Begin(o.nowMs()).Receiver(event.Subscriber)
		return err
	})
	if err == nil && url != "" {
		err = v.WithLock(ctx, id, func(t *ledger.Locked) (err error) {
			body, err = eventBody(e, id, t.Begin(o.nowMs()), o.cfg.Services.Capabilities.Tokens)
			return err
		})
	}
	if err == nil {
		err = v.Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	// What is too large for a frame reaches nobody. It can still be read by its id.
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

// mostDecoded is the longest body in bytes that is decoded for a receiver, who did not ask: its memory is reserved by nobody.
const mostDecoded = 64 << 10

// eventBody is the Activity object of an entry, as get_activity has it. Its receiver is no user:
// canApprove and canReject tell whether the activity is open.
func eventBody(e *org.Entry, id org.ID, tx *org.Tx, tokens *show.Tokens) ([]byte, error) {
	open := !e.Status.Terminal()
	body := kinds.Live.AppendActivity(make([]byte, 0, 2048+2*len(e.Body)+len(e.Result)), e, id, activity.ActivityView{
		Users: func(u org.ID) *org.User {
			rec, err := tx.User(u)
			if err != nil {
				return nil
			}
			return rec
		},
		CanApprove: open, CanReject: open,
	})
	if !open || len(e.Body) > mostDecoded {
		return body, nil
	}
	return kinds.Live.AppendDecoded(body, tx, e, tokens)
}
