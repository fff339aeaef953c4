package query_test

import (
	"reflect"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
)

// A deliveryCall is a call of query.Deliveries, and delivered is what it answers.
type deliveryCall struct {
	endpoint org.ID
	failed   bool
	after    *query.DeliveryPlace
	limit    int
}

type delivered struct {
	calls []deliveryCall
	all   []query.Delivery
	next  *query.DeliveryPlace
}

func (w *world) Deliveries(endpoint org.ID, failed bool, after *query.DeliveryPlace, limit int) ([]query.Delivery, *query.DeliveryPlace, error) {
	w.delivered.calls = append(w.delivered.calls, deliveryCall{endpoint, failed, after, limit})
	return w.delivered.all, w.delivered.next, w.outside.fails
}

func TestWebhookDeliveries(t *testing.T) {
	w := newWorld(t)
	const op = "list_webhook_deliveries"
	endpoint, own, child := id('W', 1), org.SendPlace{Organization: w.id, Seq: 7, Number: 2}, org.SendPlace{Organization: id('O', 9), Seq: 3}
	ask := object{"endpointId": endpoint.String()}
	if got := w.get(op, ask); len(got) != 1 || len(got["deliveries"].([]any)) != 0 {
		t.Fatal(got)
	}
	w.delivered.all = []query.Delivery{
		{Place: own, First: own, Event: id('E', 1), Activity: id('A', 1), Type: "ACTIVITY_TYPE_CREATE_USER_TAG", Status: org.StatusCompleted, CreatedMs: 5000, State: org.SendWaiting, Tries: 3,
			Text: `HTTP status 500 "`, TimeMs: 9000},
		{Place: org.SendPlace{Organization: w.id, Seq: 9}, First: child, Event: id('E', 2), Activity: id('A', 2), Type: "ACTIVITY_TYPE_CREATE_WALLET", Status: org.StatusFailed, CreatedMs: 6000, State: org.SendIncluded,
			Tries: 1, Text: "earlier error", TimeMs: 6100},
		{Place: child, First: child, State: org.SendRefused}, {Place: child, First: child, State: org.SendExpired},
	}
	w.delivered.next = &query.DeliveryPlace{TimeMs: 6100, Send: child}
	got := w.get(op, ask)
	all := got["deliveries"].([]any)
	seconds := func(s string) object { return object{"seconds": s, "nanos": "0"} }
	want := []any{
		object{"deliveryId": own.String(), "eventId": id('E', 1).String(), "eventType": "ACTIVITY_UPDATES", "organizationId": w.id.String(), "activityId": id('A', 1).String(),
			"activityType": "ACTIVITY_TYPE_CREATE_USER_TAG", "activityStatus": "ACTIVITY_STATUS_COMPLETED", "status": "DELIVERY_STATUS_WAITING", "attempts": 3.0, "lastError": `HTTP status 500 "`,
			"createdAt": seconds("5"), "nextAttemptAt": seconds("9")},
		object{"deliveryId": w.id.String() + "/9/0", "resendOf": child.String(), "eventId": id('E', 2).String(), "eventType": "ACTIVITY_UPDATES", "organizationId": id('O', 9).String(),
			"activityId": id('A', 2).String(), "activityType": "ACTIVITY_TYPE_CREATE_WALLET", "activityStatus": "ACTIVITY_STATUS_FAILED", "status": "DELIVERY_STATUS_DELIVERED", "attempts": 1.0,
			"createdAt": seconds("6"), "endedAt": seconds("6")},
	}
	if !reflect.DeepEqual(all[:2], want) {
		t.Errorf("%v\nwant %v", all[:2], want)
	}
	for i, status := range map[int]string{2: "DELIVERY_STATUS_FAILED", 3: "DELIVERY_STATUS_EXPIRED"} {
		if all[i].(object)["status"] != status {
			t.Errorf("%v, want %s", all[i], status)
		}
	}
	next := "6100." + child.String()
	if got["next"] != next {
		t.Errorf("next %v, want %s", got["next"], next)
	}
	w.delivered.calls = nil
	w.get(op, object{"endpointId": endpoint.String(), "failedOnly": true, "paginationOptions": object{"limit": "50", "after": next}})
	if want := []deliveryCall{{endpoint, true, w.delivered.next, 50}}; !reflect.DeepEqual(w.delivered.calls, want) {
		t.Errorf("%+v", w.delivered.calls)
	}
	w.delivered.calls = nil
	for says, options := range map[string]object{
		"limit must be 1 to 50": {"limit": "51"}, "1 to 50": {"limit": "0"}, "1 to": {"limit": "x"}, "forward only": {"before": next},
		"unknown cursor": {"after": child.String()}, "cursor in": {"after": "06100." + child.String()}, "cursor": {"after": "x." + child.String()}, "unknown": {"after": next + "/0"},
	} {
		w.refused(op, object{"endpointId": endpoint.String(), "paginationOptions": options}, fault.InvalidArgument, says)
	}
	w.refused(op, object{}, fault.InvalidArgument, "endpointId")
	w.refused(op, object{"endpointId": "x"}, fault.InvalidArgument, "must be a UUID")
	if len(w.delivered.calls) > 0 {
		t.Errorf("the host was asked: %+v", w.delivered.calls)
	}
	w.outside.fails = fault.New(fault.NotFound, "webhook endpoint not found")
	w.refused(op, ask, fault.NotFound, "webhook endpoint not found")
}
