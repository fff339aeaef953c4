package organization

import (
	"fmt"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Webhooks are the kinds about webhook endpoints, which receive events.
var Webhooks = activity.Family{
	activity.Kind[CreateWebhookEndpoint, WebhookEndpointResult]{Name: "CREATE_WEBHOOK_ENDPOINT", Resource: "WEBHOOK_ENDPOINT", Action: "CREATE", Run: createWebhookEndpoint,
		Explain: func(_ *org.Tx, in *CreateWebhookEndpoint, o *show.Object) error {
			in.explain(o)
			return nil
		}},
	activity.Kind[UpdateWebhookEndpoint, WebhookEndpointResult]{
		Name: "UPDATE_WEBHOOK_ENDPOINT", Resource: "WEBHOOK_ENDPOINT", Action: "UPDATE", Run: updateWebhookEndpoint,
		Explain: func(tx *org.Tx, in *UpdateWebhookEndpoint, o *show.Object) error { return in.explain(tx, o) },
		Params:  func(in *UpdateWebhookEndpoint) policy.Value { return endpointParams(in.EndpointID) },
	},
	activity.Kind[WebhookEndpointID, WebhookEndpointID]{
		Name: "DELETE_WEBHOOK_ENDPOINT", Resource: "WEBHOOK_ENDPOINT", Action: "DELETE", Run: deleteWebhookEndpoint,
		Explain: func(tx *org.Tx, in *WebhookEndpointID, o *show.Object) error {
			return explainEndpointRecord(tx, o, in.EndpointID)
		},
		Params: func(in *WebhookEndpointID) policy.Value { return endpointParams(in.EndpointID) },
	},
	activity.Kind[ResendWebhookDeliveries, ResentWebhookDeliveries]{
		Name: "RESEND_WEBHOOK_DELIVERIES", Resource: "WEBHOOK_ENDPOINT", Action: "UPDATE", Run: resendWebhookDeliveries,
		Explain: func(tx *org.Tx, in *ResendWebhookDeliveries, o *show.Object) error {
			return explainEndpointRecord(tx, o, in.EndpointID)
		},
		Params: func(in *ResendWebhookDeliveries) policy.Value { return endpointParams(in.EndpointID) },
	},
}

// endpointParams are the members of a change of an endpoint that policies read.
func endpointParams(id string) policy.Value {
	return activity.Param("endpoint_id", policy.LowerHex(id))
}

// futureEvents are events of the interface that are not implemented.
var futureEvents = []string{"BALANCE_CONFIRMED_UPDATES", "BALANCE_FINALIZED_UPDATES", "SEND_TRANSACTION_STATUS_UPDATES"}

// WebhookSubscription is one type of event that an endpoint receives, unless isActive is false.
type WebhookSubscription struct {
	EventType   string  `json:"eventType" rule:"required"`
	FiltersJSON *string `json:"filtersJson" rule:"omitempty"`
	IsActive    *bool   `json:"isActive"`
}

// CreateWebhookEndpoint creates a receiver of events.
type CreateWebhookEndpoint struct {
	URL           string                `json:"url" rule:"required"`
	Name          string                `json:"name" rule:"required,label,label_length"`
	Subscriptions []WebhookSubscription `json:"subscriptions,omitempty" rule:"omitempty,dive"`
}

func (in *CreateWebhookEndpoint) Check() error {
	if err := checkWebhook("url", in.URL); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, s := range in.Subscriptions {
		at, t := fmt.Sprintf("subscriptions.%d.", i), s.EventType
		switch {
		case t != org.ActivityUpdates && !slices.Contains(futureEvents, t):
			return fault.Field(at+"eventType", "invalid event type: %s", activity.Printable(t))
		case seen[t]:
			return fault.Field(at+"eventType", "event type is given twice: %s", t)
		case !isUnfiltered(s.FiltersJSON):
			return activity.Unimplemented("create_webhook_endpoint", "filtersJson")
		}
		seen[t] = true
	}
	return nil
}

// isUnfiltered reports whether no event is filtered out. Filters are not implemented: ignoring one would send events
// that the receiver must not get.
func isUnfiltered(filters *string) bool {
	f := strings.TrimSpace(activity.TextOf(filters))
	return f == "" || f == "{}"
}

// WebhookEndpoint is an endpoint in replies.
type WebhookEndpoint struct {
	EndpointID     string                `json:"endpointId"`
	OrganizationID string                `json:"organizationId"`
	URL            string                `json:"url"`
	Name           string                `json:"name"`
	IsActive       bool                  `json:"isActive"`
	Subscriptions  []WebhookSubscription `json:"subscriptions,omitempty"`
}

// WebhookEndpointOf makes the reply's form of an endpoint of an organization.
func WebhookEndpointOf(organization org.ID, e *org.WebhookEndpoint) WebhookEndpoint {
	w := WebhookEndpoint{EndpointID: e.ID.String(), OrganizationID: organization.String(), URL: e.URL, Name: e.Name, IsActive: !e.Inactive}
	for _, s := range e.Subscriptions {
		active := !s.Inactive
		w.Subscriptions = append(w.Subscriptions, WebhookSubscription{s.EventType, s.Filters, &active})
	}
	return w
}

// WebhookEndpointResult is the result of creating and of changing an endpoint.
type WebhookEndpointResult struct {
	EndpointID      string          `json:"endpointId"`
	WebhookEndpoint WebhookEndpoint `json:"webhookEndpoint"`
}

func endpointResult(tx *activity.Tx, e *org.WebhookEndpoint) *WebhookEndpointResult {
	return &WebhookEndpointResult{e.ID.String(), WebhookEndpointOf(tx.ID, e)}
}

func createWebhookEndpoint(tx *activity.Tx, in *CreateWebhookEndpoint) (*WebhookEndpointResult, error) {
	o, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	subscriptions, err := subscriptions(o, in.Subscriptions)
	if err != nil {
		return nil, err
	}
	if err := checkReceiver(tx, "url", in.URL); err != nil {
		return nil, err
	}
	if err := activity.Endpoints.Add(tx, 1); err != nil {
		return nil, err
	}
	id, err := activity.NewNamed(tx, org.NameEndpoint, "webhook endpoint", "name", in.Name)
	if err != nil {
		return nil, err
	}
	e := &org.WebhookEndpoint{ID: id, Name: in.Name, URL: in.URL, Subscriptions: subscriptions, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs}
	return endpointResult(tx, e), tx.PutWebhookEndpoint(e)
}

// subscriptions converts the wanted subscriptions of an endpoint; it refuses those that the organization may not have.
func subscriptions(o *org.Organization, wanted []WebhookSubscription) ([]org.Subscription, error) {
	var ss []org.Subscription
	for _, w := range wanted {
		if w.EventType != org.ActivityUpdates {
			if !o.Parent.Zero() {
				return nil, fault.New(fault.PermissionDenied, "webhook endpoints of a sub-organization receive %s only", org.ActivityUpdates)
			}
			return nil, activity.Unimplemented("create_webhook_endpoint", w.EventType)
		}
		ss = append(ss, org.Subscription{EventType: w.EventType, Filters: w.FiltersJSON, Inactive: w.IsActive != nil && !*w.IsActive})
	}
	return ss, nil
}

// UpdateWebhookEndpoint changes the members of an endpoint that are set. Pending deliveries go to the new URL; an
// inactive endpoint receives nothing, pending deliveries included.
type UpdateWebhookEndpoint struct {
	EndpointID string  `json:"endpointId" rule:"required,uuid"`
	URL        *string `json:"url" rule:"omitempty"`
	Name       *string `json:"name" rule:"omitempty,label,label_length"`
	IsActive   *bool   `json:"isActive"`
}

func (in *UpdateWebhookEndpoint) Check() error {
	if url := activity.TextOf(in.URL); url != "" {
		return checkWebhook("url", url)
	}
	return nil
}

func updateWebhookEndpoint(tx *activity.Tx, in *UpdateWebhookEndpoint) (*WebhookEndpointResult, error) {
	old, err := activity.Find(tx.WebhookEndpoint, "webhook endpoint", in.EndpointID)
	if err != nil {
		return nil, err
	}
	e := *old
	e.UpdatedMs = tx.NowMs
	if url := activity.TextOf(in.URL); url != "" {
		if err := checkReceiver(tx, "url", url); err != nil {
			return nil, err
		}
		e.URL = url
	}
	if name := activity.TextOf(in.Name); name != "" {
		if err := activity.Rename(tx, org.NameEndpoint, "webhook endpoint", "name", old.Name, name, old.ID); err != nil {
			return nil, err
		}
		e.Name = name
	}
	if in.IsActive != nil {
		e.Inactive = !*in.IsActive
	}
	return endpointResult(tx, &e), tx.PutWebhookEndpoint(&e)
}

// WebhookEndpointID names the endpoint to be deleted, and is the result. Pending deliveries are dropped.
type WebhookEndpointID struct {
	EndpointID string `json:"endpointId" rule:"required,uuid"`
}

func deleteWebhookEndpoint(tx *activity.Tx, in *WebhookEndpointID) (*WebhookEndpointID, error) {
	e, err := activity.Find(tx.WebhookEndpoint, "webhook endpoint", in.EndpointID)
	if err != nil {
		return nil, err
	}
	tx.FreeName(org.NameEndpoint, e.Name)
	tx.DeleteWebhookEndpoint(e.ID)
	return in, activity.Endpoints.Add(tx, -1)
}

// maxResent bounds the deliveries of one activity. Its entry has a send for each, and the event of its own for every endpoint
// of the organization and of its parent.
const maxResent = 40

// ResendWebhookDeliveries sends events to an endpoint once more, under the same event ids. The interface does not have it.
type ResendWebhookDeliveries struct {
	EndpointID  string   `json:"endpointId" rule:"required,uuid"`
	DeliveryIDs []string `json:"deliveryIds"` // as list_webhook_deliveries has them
}

func (in *ResendWebhookDeliveries) Check() error {
	if n := len(in.DeliveryIDs); n < 1 || n > maxResent {
		return fault.Field("deliveryIds", "must be 1 to %d deliveries", maxResent)
	}
	for i, text := range in.DeliveryIDs {
		if _, ok := org.ParseSendPlace(text); !ok {
			return fault.Field(fmt.Sprintf("deliveryIds.%d", i), "must be a deliveryId of list_webhook_deliveries")
		}
	}
	return activity.CheckDistinct("deliveryIds", in.DeliveryIDs)
}

// ResentWebhookDeliveries are the new deliveries, in the order of the earlier ones.
type ResentWebhookDeliveries struct {
	EndpointID  string   `json:"endpointId"`
	DeliveryIDs []string `json:"deliveryIds"`
}

func resendWebhookDeliveries(tx *activity.Tx, in *ResendWebhookDeliveries) (*ResentWebhookDeliveries, error) {
	e, err := activity.Find(tx.WebhookEndpoint, "webhook endpoint", in.EndpointID)
	switch {
	case err != nil:
		return nil, err
	case !e.Receives(org.ActivityUpdates):
		return nil, fault.New(fault.FailedPrecondition, "webhook endpoint is paused, so nothing is sent to it: %s", e.ID)
	}
	places := make([]org.SendPlace, len(in.DeliveryIDs))
	for i, text := range in.DeliveryIDs {
		places[i], _ = org.ParseSendPlace(text) // Check has parsed it
	}
	events, err := tx.StoredEvents(places)
	if err != nil {
		return nil, err
	}
	out, seen := &ResentWebhookDeliveries{EndpointID: e.ID.String()}, map[org.SendPlace]bool{}
	for i, event := range events {
		at := fmt.Sprintf("deliveryIds.%d", i)
		switch {
		case event == nil || event.Owner != tx.ID || event.Subscriber != e.ID:
			return nil, fault.New(fault.NotFound, "webhook delivery to this endpoint not found: %s", places[i])
		case tx.NowMs >= event.ExpiresMs:
			return nil, fault.New(fault.FailedPrecondition, "the event is too old to be sent: %s", places[i])
		case seen[event.Place]:
			return nil, fault.Field(at, "the same event is given twice")
		}
		seen[event.Place] = true
		s, err := event.Repeat(tx.NowMs)
		if err != nil {
			return nil, err
		}
		out.DeliveryIDs = append(out.DeliveryIDs, org.SendPlace{Organization: tx.ID, Seq: tx.Seq, Number: uint16(len(tx.Sends))}.String())
		tx.Sends = append(tx.Sends, s)
	}
	return out, nil
}
