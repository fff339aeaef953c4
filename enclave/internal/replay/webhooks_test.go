package replay_test

import (
	"strings"
	"testing"

	"cloister/enclave/core"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/replay"
	"cloister/sim/client"
)

// A history in which webhooks were sent again is replayed whole: from the entries that hold the earlier events, and where those are
// in the history of a sub-organization that is not there, from what was recorded.
func TestReplaysWebhooksSentAgain(t *testing.T) {
	h := start(t)
	top := h.orgs[0]
	child := h.below(client.NewKey())
	r, _ := h.do(top, top.root, "CREATE_WEBHOOK_ENDPOINT", object{"name": "Hook", "url": "https://hooks.example.com/", "subscriptions": []any{object{"eventType": "ACTIVITY_UPDATES"}}})
	endpoint := client.Text(r, "endpointId")
	h.do(top, top.root, "CREATE_USER_TAG", client.Tag("Own"))
	h.do(child, child.root, "CREATE_USER_TAG", client.Tag("Below"))
	var own, below string
	for _, d := range h.as(top, top.root).Read("list_webhook_deliveries", object{"endpointId": endpoint})["deliveries"].([]any) {
		if client.Text(d, "organizationId") == child.id {
			below = client.Text(d, "deliveryId")
		} else {
			own = client.Text(d, "deliveryId")
		}
	}
	if own == "" || below == "" {
		t.Fatalf("own %q, below %q", own, below)
	}
	send := func(status int, ids ...any) object {
		t.Helper()
		r, got := h.do(top, top.root, "RESEND_WEBHOOK_DELIVERIES", object{"endpointId": endpoint, "deliveryIds": ids})
		if got != status {
			t.Fatalf("%v: %d", ids, got)
		}
		return r
	}
	again := send(200, own, below)
	send(200, client.Text(again, "deliveryIds", "0"))
	send(200, client.Text(again, "deliveryIds", "1"))
	send(404, top.id+"/9999/0")
	send(404, child.id+"/9999/0")
	send(404, child.id+"/0/0", own)
	histories := h.read()
	for name, given := range map[string][]*replay.History{"both": histories, "the parent's": histories[:1]} {
		report, err := run(given)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := report.Grades["ACTIVITY_TYPE_RESEND_WEBHOOK_DELIVERIES"][core.ReplayRecomputed]; n != 6 {
			t.Errorf("%s: %d recomputed: %v", name, n, report.Grades)
		}
	}
	// A repetition of another event than was asked for is found.
	for _, e := range histories[0].Entries {
		if e.Entry.Type != "ACTIVITY_TYPE_RESEND_WEBHOOK_DELIVERIES" {
			continue
		}
		event, err := org.DecodeEvent(e.Entry.Sends[0].Content)
		if err != nil || event.Earlier == nil {
			t.Fatalf("%+v, %v", event, err)
		}
		event.Earlier.Seq++
		if e.Entry.Sends[0].Content, err = event.Encode(); err != nil {
			t.Fatal(err)
		}
		break
	}
	if _, err := run(histories); err == nil || !strings.Contains(err.Error(), "sends") {
		t.Errorf("a changed repetition: %v", err)
	}
}
