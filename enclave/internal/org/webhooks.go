package org

import (
	"slices"
	"strconv"
	"strings"
)

// FeatureWebhook is the feature whose value is a URL that receives every event of
// the organization and its sub-organizations.
const FeatureWebhook = "FEATURE_NAME_WEBHOOK"

// ActivityUpdates is the type of the events about changes of activities.
const ActivityUpdates = "ACTIVITY_UPDATES"

// WebhookEndpoint is a receiver of events of its organization and that organization's sub-organizations.
type WebhookEndpoint struct {
	ID            ID             `cbor:"1,keyasint"`
	Name          string         `cbor:"2,keyasint"`
	URL           string         `cbor:"3,keyasint"`
	Inactive      bool           `cbor:"4,keyasint,omitempty"`
	Subscriptions []Subscription `cbor:"5,keyasint,omitempty"`
	CreatedMs     uint64         `cbor:"6,keyasint"`
	UpdatedMs     uint64         `cbor:"7,keyasint"`
}

// Subscription is a subscription of an endpoint to one type of event.
type Subscription struct {
	EventType string `cbor:"1,keyasint"`
	// Filters is the text that the client sent, nil if it sent none.
	Filters  *string `cbor:"2,keyasint,omitempty"`
	Inactive bool    `cbor:"3,keyasint,omitempty"`
}

// Receives reports whether the endpoint receives events of this type.
func (e *WebhookEndpoint) Receives(eventType string) bool {
	return !e.Inactive && slices.ContainsFunc(e.Subscriptions, func(s Subscription) bool { return s.EventType == eventType && !s.Inactive })
}

// WebhookEndpoint returns the endpoint with this id, or nil.
func (t *Tx) WebhookEndpoint(id ID) (*WebhookEndpoint, error) {
	return find[WebhookEndpoint](t, collectionEndpoints, id)
}

// PutWebhookEndpoint stores e.
func (t *Tx) PutWebhookEndpoint(e *WebhookEndpoint) error {
	return put(t, key(collectionEndpoints, raw(e.ID)), e)
}

// DeleteWebhookEndpoint removes the endpoint's record, not its name.
func (t *Tx) DeleteWebhookEndpoint(id ID) { t.del(key(collectionEndpoints, raw(id))) }

// EachWebhookEndpoint visits the endpoints in the order of their ids.
func (t *Tx) EachWebhookEndpoint(visit func(*WebhookEndpoint) bool) error {
	return each(t, collectionEndpoints, visit)
}

// Subscribers returns the receivers of the organization's events: the ids of endpoints, and the
// organization's own id for its feature. It is cheap if there are none.
func (t *Tx) Subscribers() ([]ID, error) {
	o, err := t.Organization()
	if err != nil || o == nil || o.Deleted || o.Endpoints == 0 && o.Features[FeatureWebhook] == "" {
		return nil, err
	}
	var ids []ID
	if o.Features[FeatureWebhook] != "" {
		ids = append(ids, o.ID)
	}
	err = t.EachWebhookEndpoint(func(e *WebhookEndpoint) bool {
		if e.Receives(ActivityUpdates) {
			ids = append(ids, e.ID)
		}
		return true
	})
	return ids, err
}

// MaxEndpoints bounds an organization's endpoints: an entry has a send for each of its own and of the parent's.
const MaxEndpoints = 10

// SubscribersChanged reports whether this transaction may have changed Subscribers.
func (t *Tx) SubscribersChanged() bool {
	return slices.ContainsFunc(t.order, func(k string) bool {
		return Collection(k[0]) == collectionOrganization || Collection(k[0]) == collectionEndpoints
	})
}

// Receiver is the URL for a subscriber's events, "" if it is no longer subscribed.
func (t *Tx) Receiver(subscriber ID) (url string, err error) {
	o, err := t.Organization()
	if err != nil || o == nil || o.Deleted {
		return "", err
	}
	if subscriber == t.ID {
		return o.Features[FeatureWebhook], nil
	}
	e, err := t.WebhookEndpoint(subscriber)
	if err != nil || e == nil || !e.Receives(ActivityUpdates) {
		return "", err
	}
	return e.URL, nil
}

// Event is the content of a webhook send. The activity itself is in the entry.
type Event struct {
	ID         ID `cbor:"1,keyasint"` // the same for every receiver and every try
	Subscriber ID `cbor:"2,keyasint"`
	Owner      ID `cbor:"3,keyasint"` // the subscriber's organization
	// Earlier, if set, is the send that this one repeats: its event is about that send's entry. A repetition is never repeated
	// itself, but what it repeats.
	Earlier *SendPlace `cbor:"4,keyasint,omitempty"`
}

// A SendPlace identifies a send of any organization.
type SendPlace struct {
	Organization ID     `cbor:"1,keyasint"`
	Seq          uint64 `cbor:"2,keyasint"`
	Number       uint16 `cbor:"3,keyasint,omitempty"`
}

// Append appends the place as text: organization, seq and number, with slashes between them.
func (p SendPlace) Append(dst []byte) []byte {
	dst = append(p.Organization.Append(dst), '/')
	dst = append(strconv.AppendUint(dst, p.Seq, 10), '/')
	return strconv.AppendUint(dst, uint64(p.Number), 10)
}

func (p SendPlace) String() string { return string(p.Append(nil)) }

// ParseSendPlace reads what Append wrote, and no other spelling.
func ParseSendPlace(text string) (p SendPlace, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return p, false
	}
	id, err := ParseID(parts[0])
	seq, badSeq := strconv.ParseUint(parts[1], 10, 63)
	number, badNumber := strconv.ParseUint(parts[2], 10, 16)
	p = SendPlace{id, seq, uint16(number)}
	return p, err == nil && badSeq == nil && badNumber == nil && p.String() == text
}

// A StoredEvent is the event that a stored send holds.
type StoredEvent struct {
	Event
	// Place is where the event was first sent: the send itself, or the one that it repeats.
	Place     SendPlace
	ExpiresMs uint64
}

// Repeat makes a send that delivers the event once more, at once.
func (e *StoredEvent) Repeat(nowMs uint64) (Send, error) {
	again := e.Event
	again.Earlier = &e.Place
	content, err := again.Encode()
	return Send{Kind: SendWebhook, DueMs: nowMs, ExpiresMs: e.ExpiresMs, Content: content, Receiver: e.Subscriber}, err
}

// Encode makes the content of a send.
func (e *Event) Encode() ([]byte, error) { return encoding.Marshal(e) }

// DecodeEvent reads what Encode wrote, strictly.
func DecodeEvent(b []byte) (*Event, error) {
	return unmarshal[Event](b, "decoding an event: %w")
}
