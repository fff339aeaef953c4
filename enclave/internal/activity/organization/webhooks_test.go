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
