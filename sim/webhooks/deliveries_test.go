package webhooks_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
)

// answers makes the manner of a receiver that answers with a status, which may be changed.
func answers(status int32) (*atomic.Int32, func(int, int, http.ResponseWriter, *http.Request) bool) {
	s := new(atomic.Int32)
	s.Store(status)
	return s, func(_, _ int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(int(s.Load()))
		return s.Load() >= 300
	}
}

// deliveries lists the deliveries to an endpoint, the one with the latest time first.
func deliveries(u *client.User, endpoint string, more object) []object {
	u.Test.Helper()
	p := object{"endpointId": endpoint, "paginationOptions": object{"limit": "50"}}
	for k, v := range more {
		p[k] = v
	}
	var all []object
	for _, d := range u.Read("list_webhook_deliveries", p)["deliveries"].([]any) {
		all = append(all, d.(object))
	}
	return all
}

// until waits until the deliveries to an endpoint have these statuses, in any order, and answers them by their activities.
func until(u *client.User, endpoint string, want map[string]int) map[string]object {
	u.Test.Helper()
	byActivity := map[string]object{}
	clocktest.Until(u.Test, fmt.Sprint("deliveries are ", want), func() bool {
		got := map[string]int{}
		clear(byActivity)
		for _, d := range deliveries(u, endpoint, nil) {
			got[strings.TrimPrefix(client.Text(d, "status"), "DELIVERY_STATUS_")]++
			byActivity[client.Text(d, "activityId")] = d
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
	return byActivity
}

func resend(endpoint string, ids ...any) object {
	return object{"endpointId": endpoint, "deliveryIds": ids}
}

// TestDeliveries: an endpoint's deliveries are listed with what became of them, and those that failed are sent again: the same
// event, signed now.
func TestDeliveries(t *testing.T) {
	w := newWorld(t)
	status, manner := answers(410)
	r := w.receiver(manner)
	child := w.NewSubOrganization("Child")
	endpoint := subscribe(w.User, "First", r.URL)
	own, below := tag(w.User, "One"), tag(child, "Two")
	failed := until(w.User, endpoint, map[string]int{"FAILED": 3})
	for activity, organization := range map[string]string{own: w.Organization, below: child.Organization} {
		d := failed[activity]
		if client.Text(d, "organizationId") != organization || client.Text(d, "activityType") != "ACTIVITY_TYPE_CREATE_USER_TAG" || client.Text(d, "activityStatus") != "ACTIVITY_STATUS_COMPLETED" ||
			client.Text(d, "lastError") != "HTTP status 410" || d["attempts"] != 1.0 || client.Text(d, "eventType") != "ACTIVITY_UPDATES" || client.Text(d, "endedAt", "seconds") == "" {
			t.Errorf("%v", d)
		}
	}
	status.Store(200)
	eventOf := func(activity string) string { return client.Text(failed[activity], "eventId") }
	idOf := func(activity string) string { return client.Text(failed[activity], "deliveryId") }
	again := w.Do("RESEND_WEBHOOK_DELIVERIES", resend(endpoint, idOf(own), idOf(below)))
	events := r.until(3) // one of the resending itself
	came := map[string]event{}
	for _, e := range events {
		came[e.activity] = e
	}
	for _, activity := range []string{own, below} {
		if e := came[activity]; e.id != eventOf(activity) || e.head.Get("X-Turnkey-Organization-Id") != client.Text(failed[activity], "organizationId") {
			t.Errorf("event %s of %s: %v", e.id, activity, e.body)
		}
	}
	until(w.User, endpoint, map[string]int{"FAILED": 3, "DELIVERED": 3})
	resent := map[string]object{}
	for _, d := range deliveries(w.User, endpoint, nil) {
		resent[client.Text(d, "deliveryId")] = d
	}
	for i, activity := range []string{own, below} {
		d := resent[client.Text(again, "deliveryIds", fmt.Sprint(i))]
		if client.Text(d, "resendOf") != idOf(activity) || client.Text(d, "eventId") != eventOf(activity) || client.Text(d, "activityId") != activity || d["lastError"] != nil {
			t.Errorf("%v", d)
		}
	}
	// What was sent again can be sent again.
	r2 := w.Do("RESEND_WEBHOOK_DELIVERIES", resend(endpoint, client.Text(again, "deliveryIds", "1")))
	r.until(4)
	until(w.User, endpoint, map[string]int{"FAILED": 3, "DELIVERED": 5})
	for _, d := range deliveries(w.User, endpoint, nil) {
		if client.Text(d, "deliveryId") == client.Text(r2, "deliveryIds", "0") && client.Text(d, "resendOf") != idOf(below) {
			t.Errorf("%v", d)
		}
	}
	// By pages, and those that failed.
	if got := deliveries(w.User, endpoint, object{"failedOnly": true}); len(got) != 3 {
		t.Errorf("%v", got)
	}
	seen, next := map[string]bool{}, ""
	for pages := 1; ; pages++ {
		page := w.Read("list_webhook_deliveries", object{"endpointId": endpoint, "paginationOptions": object{"limit": "3", "after": next}})
		for _, d := range page["deliveries"].([]any) {
			seen[client.Text(d, "deliveryId")] = true
		}
		if next, _ = page["next"].(string); next == "" {
			if pages != 3 || len(seen) != 8 {
				t.Errorf("%d deliveries on %d pages", len(seen), pages)
			}
			break
		}
	}
	for k, n := range w.rig.Counters() {
		if strings.HasPrefix(k, "alarm_") && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}

// TestDeliveriesOfOthers: nobody lists or sends again what is another's, and a paused endpoint receives nothing.
func TestDeliveriesOfOthers(t *testing.T) {
	w := newWorld(t)
	_, manner := answers(410)
	r := w.receiver(manner)
	child, unrelated := w.NewSubOrganization("Child"), w.NewSubOrganization("Stranger")
	endpoint, other := subscribe(w.User, "First", r.URL), subscribe(w.User, "Second", r.URL)
	theirs, foreign := subscribe(child, "Theirs", r.URL), subscribe(unrelated, "Foreign", r.URL)
	until(w.User, endpoint, map[string]int{"FAILED": 4})
	mine := client.Text(deliveries(w.User, endpoint, nil)[0], "deliveryId")
	toOther := client.Text(deliveries(w.User, other, nil)[0], "deliveryId")
	until(child, theirs, map[string]int{"FAILED": 1})
	until(unrelated, foreign, map[string]int{"FAILED": 1})
	childs := client.Text(deliveries(child, theirs, nil)[0], "deliveryId")
	unrelateds := client.Text(deliveries(unrelated, foreign, nil)[0], "deliveryId")
	for _, c := range []struct {
		by       *client.User
		endpoint string
	}{{child, endpoint}, {child, foreign}, {w.User, theirs}, {unrelated, theirs}} {
		if m := c.by.Query("list_webhook_deliveries", object{"endpointId": c.endpoint}); m.Status != 404 || !strings.Contains(m.Text("message"), "webhook endpoint not found") {
			t.Errorf("%v", m)
		}
	}
	for _, c := range []struct {
		by       *client.User
		endpoint string
		ids      []any
		says     string
	}{
		{child, endpoint, []any{mine}, "webhook endpoint not found"},
		{child, theirs, []any{mine}, "webhook delivery to this endpoint not found"},
		{child, theirs, []any{unrelateds}, "webhook delivery to this endpoint not found"},
		{child, theirs, []any{childs, unrelateds}, "webhook delivery to this endpoint not found"},
		{w.User, endpoint, []any{toOther}, "webhook delivery to this endpoint not found"},
		{w.User, endpoint, []any{childs}, "webhook delivery to this endpoint not found"},
		{w.User, endpoint, []any{w.Organization + "/999999/0"}, "webhook delivery to this endpoint not found"},
		{w.User, endpoint, []any{endpoint + "/1/0"}, "webhook delivery to this endpoint not found"},
	} {
		if m := c.by.Submit("RESEND_WEBHOOK_DELIVERIES", resend(c.endpoint, c.ids...)); m.Status != 404 || !strings.Contains(m.Text("message"), c.says) {
			t.Errorf("%v %v: %v", c.endpoint, c.ids, m)
		}
	}
	w.Do("UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint, "isActive": false})
	if m := w.Submit("RESEND_WEBHOOK_DELIVERIES", resend(endpoint, mine)); m.Status != 400 || !strings.Contains(m.Text("message"), "paused") {
		t.Errorf("%v", m)
	}
	w.Do("DELETE_WEBHOOK_ENDPOINT", object{"endpointId": other})
	if m := w.Query("list_webhook_deliveries", object{"endpointId": other}); m.Status != 404 {
		t.Errorf("%v", m)
	}
}

// TestRepetitionsOpenAnEarlierEvent: a repetition that was stored goes out to the endpoint as its owner has it then, or not at all.
func TestRepetitionsOpenAnEarlierEvent(t *testing.T) {
	w, _, s := hostileWorld(t)
	_, manner := answers(410)
	r := w.receiver(manner)
	endpoint := subscribe(w.User, "One", r.URL)
	first := client.Text(deliveries(w.User, endpoint, nil)[0], "deliveryId")
	w.Do("RESEND_WEBHOOK_DELIVERIES", resend(endpoint, first))
	s.mu.Lock()
	last := s.entries[len(s.entries)-1]
	s.mu.Unlock()
	if len(last.Sends) != 2 || last.Sends[0].Kind != wire.SendWebhook || last.Sends[0].Receiver != last.Sends[1].Receiver {
		t.Fatalf("%+v", last.Sends)
	}
	at := wire.SendID{Organization: last.Organization, Seq: last.Seq}
	if o, err := w.open(at); err != nil || o.Webhook == nil || !strings.Contains(string(o.Webhook.Body), "ACTIVITY_TYPE_CREATE_WEBHOOK_ENDPOINT") {
		t.Fatalf("%+v, %v", o, err)
	}
	w.Do("UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint, "isActive": false})
	if o, err := w.open(at); err != nil || !o.Gone || o.Webhook != nil {
		t.Fatalf("%+v, %v", o, err)
	}
}

// TestHostLiesAboutDeliveries: what the host lists that no entry holds for the endpoint is left out, and what no host may say is
// refused.
func TestHostLiesAboutDeliveries(t *testing.T) {
	w, p, s := hostileWorld(t)
	r := w.receiver(nil)
	endpoint, other := subscribe(w.User, "One", r.URL), subscribe(w.User, "Two", r.URL)
	r.until(2)
	until(w.User, endpoint, map[string]int{"DELIVERED": 2})
	until(w.User, other, map[string]int{"DELIVERED": 1})
	honest := deliveries(w.User, endpoint, nil)
	s.mu.Lock()
	entries := append([]wire.Entry{}, s.entries...)
	s.mu.Unlock()
	list := func(change func(*wire.DeliveryList)) int {
		t.Helper()
		p.Arm(func(_, answer any) bool {
			a, ok := answer.(*wire.DeliveryList)
			if ok {
				change(a)
			}
			return ok
		})
		defer p.Disarm()
		m := w.Query("list_webhook_deliveries", object{"endpointId": endpoint, "paginationOptions": object{"limit": "5"}})
		if p.CountChanged() == 0 {
			t.Error("no lie was told")
		}
		if m.Status != 200 {
			return -m.Status
		}
		return len(m.Get("deliveries").([]any))
	}
	one := func(id wire.SendID) wire.Delivery { return wire.Delivery{Send: id, State: wire.SendRefused} }
	second := entries[1] // whose sends go to both, in the order of their ids
	wrong := 0
	for _, number := range []uint16{0, 1} {
		wrong += list(func(a *wire.DeliveryList) {
			a.Deliveries = []wire.Delivery{one(wire.SendID{Organization: second.Organization, Seq: second.Seq, Number: number})}
		})
	}
	if wrong != 1 {
		t.Errorf("%d deliveries of the two are shown, want the endpoint's own", wrong)
	}
	for name, id := range map[string]wire.SendID{
		"no such send": {Organization: second.Organization, Seq: second.Seq, Number: 9}, "no such entry": {Organization: second.Organization, Seq: 1 << 40},
		"an entry without sends": {Organization: second.Organization}, "no such organization": {Organization: wire.ID(second.Activity), Seq: 1}, "nothing": {},
	} {
		if n := list(func(a *wire.DeliveryList) { a.Deliveries = []wire.Delivery{one(id)} }); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
	for _, state := range []wire.SendState{wire.SendUnknown, wire.SendAccepted, wire.SendReverted, wire.SendReplaced, 99} {
		if n := list(func(a *wire.DeliveryList) { a.Deliveries[0].State = state }); n != -503 {
			t.Errorf("state %d: %d", state, n)
		}
	}
	if n := list(func(a *wire.DeliveryList) {
		for len(a.Deliveries) < 6 {
			a.Deliveries = append(a.Deliveries, a.Deliveries[0])
		}
	}); n != -503 {
		t.Errorf("more than asked for: %d", n)
	}
	p.Arm(func(_, answer any) bool {
		a, ok := answer.(*wire.DeliveryList)
		if ok {
			a.Deliveries[0].Text = "a\nb\x1b" + strings.Repeat("x", 300)
			a.Deliveries[0].State = wire.SendRefused
		}
		return ok
	})
	text := client.Text(deliveries(w.User, endpoint, nil)[0], "lastError")
	p.Disarm()
	if !strings.HasPrefix(text, "abxxx") || len(text) > wire.MaxChainText {
		t.Errorf("%q", text)
	}
	if got := deliveries(w.User, endpoint, nil); len(got) != len(honest) {
		t.Errorf("%v", got)
	}
}
