package organization_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func hook(name, url string, types ...any) object {
	subscriptions := []any{}
	for _, t := range types {
		subscriptions = append(subscriptions, object{"eventType": t})
	}
	return object{"name": name, "url": url, "subscriptions": subscriptions}
}

const someHook = "https://example.org/hook"

func subscribers(w *world) []org.ID {
	w.TB.Helper()
	ids, err := w.Tx().Subscribers()
	w.Must(err)
	return ids
}

func TestWebhookEndpoints(t *testing.T) {
	w := activitytest.New(t)
	if got := subscribers(w); got != nil {
		t.Errorf("%v", got)
	}
	in := hook("First", someHook, "ACTIVITY_UPDATES")
	in["subscriptions"].([]any)[0].(object)["filtersJson"] = "{}"
	r := w.Run("CREATE_WEBHOOK_ENDPOINT", in)
	id := r["endpointId"]
	want := object{"endpointId": id, "organizationId": w.ID.String(), "url": someHook, "name": "First", "isActive": true,
		"subscriptions": []any{object{"eventType": "ACTIVITY_UPDATES", "filtersJson": "{}", "isActive": true}}}
	if !reflect.DeepEqual(r["webhookEndpoint"], want) {
		t.Errorf("%v", r)
	}
	if got := subscribers(w); len(got) != 1 || got[0] != activitytest.MustID(id) {
		t.Errorf("%v", got)
	}
	// None that wants nothing, or not now.
	w.Run("CREATE_WEBHOOK_ENDPOINT", object{"name": "Nothing", "url": someHook})
	off := hook("Off", someHook, "ACTIVITY_UPDATES")
	off["subscriptions"].([]any)[0].(object)["isActive"] = false
	w.Run("CREATE_WEBHOOK_ENDPOINT", off)
	if got := subscribers(w); len(got) != 1 {
		t.Errorf("%v", got)
	}
	w.Run("SET_ORGANIZATION_FEATURE", feature("WEBHOOK", "https://example.org/feature"))
	if got := subscribers(w); len(got) != 2 || got[0] != w.ID {
		t.Errorf("%v", got)
	}
	receiver := func(of any, want string) {
		t.Helper()
		subscriber := w.ID
		if of != nil {
			subscriber = activitytest.MustID(of)
		}
		if url, err := w.Tx().Receiver(subscriber); err != nil || url != want {
			t.Errorf("%q, %v, want %q", url, err, want)
		}
	}
	receiver(nil, "https://example.org/feature")
	receiver(id, someHook)
	receiver(w.NewID().String(), "")
	w.Now += 1000
	for _, c := range []struct {
		in   object
		want string
	}{
		{object{"name": "Second"}, someHook}, {object{"name": "Second"}, someHook}, {object{}, someHook}, {object{"url": "", "name": ""}, someHook},
		{object{"url": "https://example.com/x"}, "https://example.com/x"}, {object{"isActive": false}, ""}, {object{"url": someHook}, ""}, {object{"isActive": true}, someHook},
	} {
		c.in["endpointId"] = id
		r := w.Run("UPDATE_WEBHOOK_ENDPOINT", c.in)
		if r["endpointId"] != id || r["webhookEndpoint"].(object)["name"] != "Second" {
			t.Errorf("%v: %v", c.in, r)
		}
		receiver(id, c.want)
	}
	if e, err := w.Tx().WebhookEndpoint(activitytest.MustID(id)); err != nil || e.UpdatedMs != activitytest.Start+1000 || e.CreatedMs != activitytest.Start {
		t.Errorf("%+v, %v", e, err)
	}
	w.Run("CREATE_WEBHOOK_ENDPOINT", hook("First", someHook)) // its name is free again
	if r := w.Run("DELETE_WEBHOOK_ENDPOINT", object{"endpointId": id}); r["endpointId"] != id {
		t.Error(r)
	}
	receiver(id, "")
	w.Run("CREATE_WEBHOOK_ENDPOINT", hook("Second", someHook))
	if n := w.Organization().Endpoints; n != 4 {
		t.Errorf("%d endpoints", n)
	}
	w.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK"})
	receiver(nil, "")
	if got := subscribers(w); got != nil {
		t.Errorf("%v", got)
	}
	for i := range org.MaxEndpoints - 4 {
		w.Run("CREATE_WEBHOOK_ENDPOINT", hook(fmt.Sprint("Number ", i), someHook))
	}
	w.Refuse("CREATE_WEBHOOK_ENDPOINT", hook("One more", someHook), fault.ResourceExhausted, "at most 10 webhook endpoints")
}

func TestWebhookEndpointsRefuse(t *testing.T) {
	w := activitytest.New(t)
	id := w.Run("CREATE_WEBHOOK_ENDPOINT", hook("Taken", someHook, "ACTIVITY_UPDATES"))["endpointId"]
	other := w.Run("CREATE_WEBHOOK_ENDPOINT", hook("Other", someHook))["endpointId"]
	filtered := hook("X", someHook, "ACTIVITY_UPDATES")
	filtered["subscriptions"].([]any)[0].(object)["filtersJson"] = `{"status":["FAILED"]}`
	for _, c := range []struct {
		in   object
		code fault.Code
		says string
	}{
		{hook("Taken", someHook), 3, "webhook endpoint label must be unique"},
		{hook("", someHook), 3, "name"},
		{hook(" x", someHook), 3, "name"},
		{hook(strings.Repeat("x", 256), someHook), 3, "name"},
		{object{"url": someHook}, 3, "missing field `name`"},
		{object{"name": "X"}, 3, "missing field `url`"},
		{hook("X", someHook, "ACTIVITY_UPDATE"), 3, "invalid event type"},
		{hook("X", someHook, ""), 3, "eventType"},
		{hook("X", someHook, "ACTIVITY_UPDATES", "ACTIVITY_UPDATES"), 3, "event type is given twice"},
		{hook("X", someHook, 7), 3, "eventType"},
		{hook("X", someHook, "BALANCE_CONFIRMED_UPDATES"), 12, "UNIMPLEMENTED: create_webhook_endpoint with BALANCE_CONFIRMED_UPDATES"},
		{hook("X", someHook, "BALANCE_FINALIZED_UPDATES"), 12, "UNIMPLEMENTED"},
		{hook("X", someHook, "ACTIVITY_UPDATES", "SEND_TRANSACTION_STATUS_UPDATES"), 12, "UNIMPLEMENTED"},
		{filtered, 12, "UNIMPLEMENTED: create_webhook_endpoint with filtersJson"},
		{object{"name": "X", "url": someHook, "isActive": false}, 3, "isActive"},
		{object{"name": "X", "url": someHook, "subscriptions": object{}}, 3, "subscriptions"},
	} {
		w.Refuse("CREATE_WEBHOOK_ENDPOINT", c.in, c.code, c.says)
	}
	// URLs: as the feature's.
	for _, url := range []string{"http://example.org/", "https://user@example.org/", "https://example.org/#x", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/", "https://169.254.169.254/",
		"https://localhost/", "https://intranet/", "https://x.internal/", "https://[::ffff:127.0.0.1]/", "https://2130706433/", "ftp://example.org/", "example.org", "https://" + strings.Repeat("x", 2048) + ".example/",
		"http://127.0.0.1:8080/", "http://[::1]:8080/", "http://127.9.9.9/x", "http://localhost:8080/", "http://10.0.0.1/", "http://[::ffff:127.0.0.1]/"} {
		w.Refuse("CREATE_WEBHOOK_ENDPOINT", hook("X", url), 3, "invalid webhook URL")
		w.Refuse("UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": id, "url": url}, 3, "invalid webhook URL")
		w.Refuse("SET_ORGANIZATION_FEATURE", feature("WEBHOOK", url), 3, "invalid webhook URL")
	}
	none := w.NewID().String()
	for _, c := range []struct {
		typ  string
		in   object
		code fault.Code
		says string
	}{
		{"UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": none}, 5, "webhook endpoint not found: " + none},
		{"UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": "x"}, 3, "endpointId"},
		{"UPDATE_WEBHOOK_ENDPOINT", object{"name": "X"}, 3, "missing field `endpointId`"},
		{"UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": other, "name": "Taken"}, 3, "must be unique"},
		{"UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": other, "subscriptions": []any{}}, 3, "subscriptions"},
		{"DELETE_WEBHOOK_ENDPOINT", object{"endpointId": none}, 5, "webhook endpoint not found"},
		{"DELETE_WEBHOOK_ENDPOINT", object{"endpointId": ""}, 3, "endpointId"},
		{"DELETE_WEBHOOK_ENDPOINT", object{}, 3, "missing field `endpointId`"},
	} {
		w.Refuse(c.typ, c.in, c.code, c.says)
	}
	if n := w.Organization().Endpoints; n != 2 {
		t.Errorf("%d endpoints", n)
	}
}

// resent makes a world with an endpoint and what earlier sends to it hold: an event of the organization itself, one of a
// sub-organization, and one that was sent again before.
func resent(t *testing.T) (w *world, endpoint string, own, child, again org.SendPlace) {
	w = activitytest.New(t)
	endpoint = w.Run("CREATE_WEBHOOK_ENDPOINT", hook("First", someHook, "ACTIVITY_UPDATES"))["endpointId"].(string)
	own, child, again = org.SendPlace{Organization: w.ID, Seq: 3, Number: 1}, org.SendPlace{Organization: w.NewID(), Seq: 9}, org.SendPlace{Organization: w.ID, Seq: 5}
	event := func(at org.SendPlace) *org.StoredEvent {
		return &org.StoredEvent{Event: org.Event{ID: w.NewID(), Subscriber: activitytest.MustID(endpoint), Owner: w.ID}, Place: at, ExpiresMs: w.Now + 1}
	}
	w.Events = map[org.SendPlace]*org.StoredEvent{own: event(own), child: event(child)}
	w.Events[again] = w.Events[own]
	return w, endpoint, own, child, again
}

func resend(endpoint string, places ...org.SendPlace) object {
	ids := []any{}
	for _, at := range places {
		ids = append(ids, at.String())
	}
	return object{"endpointId": endpoint, "deliveryIds": ids}
}

func TestResendWebhookDeliveries(t *testing.T) {
	w, endpoint, own, child, again := resent(t)
	r := w.Run("RESEND_WEBHOOK_DELIVERIES", resend(endpoint, child, again))
	seq := w.Last.Seq
	ids := []any{org.SendPlace{Organization: w.ID, Seq: seq}.String(), org.SendPlace{Organization: w.ID, Seq: seq, Number: 1}.String()}
	if r["endpointId"] != endpoint || !reflect.DeepEqual(r["deliveryIds"], ids) {
		t.Errorf("%v", r)
	}
	if len(w.Last.Sends) != 2 {
		t.Fatalf("%+v", w.Last.Sends)
	}
	// What was sent again before is not referred to, but what that repeats.
	for i, at := range []org.SendPlace{child, own} {
		s, want := w.Last.Sends[i], w.Events[at].Event
		want.Earlier = &at
		if event, err := org.DecodeEvent(s.Content); err != nil || !reflect.DeepEqual(*event, want) {
			t.Errorf("%+v, %v", event, err)
		}
		if s.Kind != org.SendWebhook || s.DueMs != w.Now || s.ExpiresMs != w.Now+1 || s.Receiver != want.Subscriber {
			t.Errorf("%+v", s)
		}
	}
}

func TestResendRefused(t *testing.T) {
	const kind = "RESEND_WEBHOOK_DELIVERIES"
	w, endpoint, own, child, again := resent(t)
	refuse := func(in object, code fault.Code, says string) {
		t.Helper()
		w.Refuse(kind, in, code, says)
	}
	missing := org.SendPlace{Organization: w.ID, Seq: 99}
	elsewhere, foreign := org.SendPlace{Organization: w.ID, Seq: 10}, org.SendPlace{Organization: w.NewID(), Seq: 10}
	w.Events[elsewhere] = &org.StoredEvent{Event: org.Event{Subscriber: w.NewID(), Owner: w.ID}, Place: elsewhere, ExpiresMs: w.Now + 1}
	w.Events[foreign] = &org.StoredEvent{Event: org.Event{Subscriber: activitytest.MustID(endpoint), Owner: w.NewID()}, Place: foreign, ExpiresMs: w.Now + 1}
	for _, at := range []org.SendPlace{missing, elsewhere, foreign} {
		refuse(resend(endpoint, own, at), fault.NotFound, "webhook delivery to this endpoint not found: "+at.String())
	}
	other := w.NewID().String()
	refuse(resend(other, own), fault.NotFound, "webhook endpoint not found: "+other)
	refuse(resend(endpoint), fault.InvalidArgument, "1 to 40 deliveries")
	many := make([]org.SendPlace, 41)
	for i := range many {
		many[i] = org.SendPlace{Organization: w.ID, Seq: uint64(i)}
	}
	refuse(resend(endpoint, many...), fault.InvalidArgument, "1 to 40 deliveries")
	refuse(resend(endpoint, own, own), fault.InvalidArgument, "named twice")
	refuse(resend(endpoint, own, again), fault.InvalidArgument, "the same event is given twice")
	for _, bad := range []string{"", "x", own.Organization.String(), own.Organization.String() + "/1", own.Organization.String() + "/01/0", own.String() + "/0", own.Organization.String() + "/1/65536",
		own.Organization.String() + "/-1/0", strings.ToUpper(own.String()) + " ", own.Organization.String() + "/9223372036854775808/0"} {
		refuse(object{"endpointId": endpoint, "deliveryIds": []any{bad}}, fault.InvalidArgument, "must be a deliveryId of list_webhook_deliveries")
	}
	w.Now++
	refuse(resend(endpoint, child), fault.FailedPrecondition, "too old")
	w.Now--
	w.Run("UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint, "isActive": false})
	refuse(resend(endpoint, own), fault.FailedPrecondition, "paused")
	w.Run("UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint, "isActive": true})
	w.Run(kind, resend(endpoint, own))
}
