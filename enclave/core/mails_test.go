package core_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/org"
	"cloister/host/store"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// events are what is told of an address once so many are there: they are noted behind a delivery.
func events(t testing.TB, r *rig.Rig, email string, count int, more ...object) (all []object) {
	t.Helper()
	ask := object{"email": email}
	for _, m := range more {
		maps.Copy(ask, m)
	}
	for range 30_000 {
		all = nil
		for _, e := range r.Root().Read("list_email_events", ask)["emailEvents"].([]any) {
			all = append(all, e.(object))
		}
		if len(all) >= count {
			return all
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: %d events, want %d: %v", email, len(all), count, all)
	return nil
}

func typesOf(all []object) string {
	var types []string
	for _, e := range all {
		types = append(types, client.Text(e, "eventType"))
	}
	return strings.Join(types, " ")
}

// letterTo is a mail whose id ends in n.
func letterTo(t testing.TB, r *rig.Rig, to string, n int, text string) org.Send {
	s := letter(t, r, "")
	b, err := (&org.Mail{To: to, Subject: "Your code", Text: text, ID: fmt.Sprintf("0196a1b2-0000-7000-8000-%012d", n), SentMs: uint64(r.NowMs()) - 5}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.Content = b
	return s
}

func TestMailEvents(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a, "451 4.2.1 try later", "250-2.0.0 Ok:\r\n250 queued as 4XyZ", "550-5.7.1 your message with\r\n550 Code 123456, Welcome123456 is spam")
	dir := t.TempDir()
	start := func() *rig.Rig {
		return rig.Start(t, rig.Options{Dir: dir, Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial, Organizations: 1})
	}
	r := start()
	ended(t, r, put(t, r, letterTo(t, r, "Ada@example.com", 1, "Your code is 123456.")))
	all := events(t, r, "ada@example.com", 3)
	if typesOf(all) != "Delivery DeliveryDelay Send" {
		t.Fatalf("%v", all)
	}
	for _, e := range all {
		if e["messageId"] != "0196a1b2-0000-7000-8000-000000000001@example.com" || e["fromAddress"] != "login@example.com" || e["toAddress"] != "Ada@example.com" || e["organizationId"] != r.Credentials.OrganizationID ||
			len(client.Text(e, "timestamp")) != 13 || e["createdAt"] != e["timestamp"] || !strings.Contains(strings.Join(box.got(), ""), "Message-ID: <"+client.Text(e, "messageId")+">") {
			t.Errorf("%v", e)
		}
	}
	if d := all[0]["details"].(object); d["deliverySmtpResponse"] != "250 2.0.0 Ok: queued as 4XyZ" || client.Text(d, "deliveryProcessingTimeMillis") == "0" {
		t.Errorf("%v", d)
	}
	if d := all[1]["details"].(object); d["diagnosticCode"] != "451 4.2.1 try later" || d["deliveryDelayType"] != "General" || len(d) != 2 {
		t.Errorf("%v", d)
	}
	if d := all[2]["details"].(object); len(d) != 0 {
		t.Errorf("%v", d)
	}

	// A server that repeats the mail does not get its code in here.
	ended(t, r, put(t, r, letterTo(t, r, "ada@example.com", 2, "Welcome123456, your code is 123456.")))
	all = events(t, r, "ADA@example.com", 5)
	if typesOf(all) != "Bounce Send Delivery DeliveryDelay Send" {
		t.Fatalf("%v", all)
	}
	if d := all[0]["details"].(object); d["diagnosticCode"] != "550 5.7.1 your message with Code ***, *** is spam" || d["bounceType"] != "Permanent" || d["bounceSubType"] != "General" {
		t.Errorf("%v", d)
	}
	id := func(i int) string { return client.Text(all[i], "id") }
	for what, c := range map[string]struct {
		ask  object
		want []object
	}{
		"of a type":     {object{"eventType": "Send"}, []object{all[1], all[4]}},
		"of none":       {object{"eventType": "Complaint"}, nil},
		"one":           {object{"paginationOptions": object{"limit": "1"}}, all[:1]},
		"after":         {object{"paginationOptions": object{"limit": "2", "after": id(1)}}, all[2:4]},
		"before":        {object{"paginationOptions": object{"limit": "2", "before": id(3)}}, all[1:3]},
		"after, a type": {object{"eventType": "Send", "paginationOptions": object{"after": id(1)}}, all[4:]},
		"at the end":    {object{"paginationOptions": object{"after": id(4)}}, nil},
	} {
		if got := events(t, r, "ada@example.com", len(c.want), c.ask); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v", what, got)
		}
	}
	for what, ask := range map[string]object{
		"no address": {}, "another type": {"email": "ada@example.com", "eventType": "Open"}, "no cursor": {"email": "ada@example.com", "paginationOptions": object{"after": "x"}},
		"another's cursor": {"email": "bob@example.com", "paginationOptions": object{"after": id(0)}},
	} {
		if got := r.Root().Query("list_email_events", ask); got.Status != 400 {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got := events(t, r, "bob@example.com", 0); len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
	// They survive a boot.
	r.Kill()
	r = start()
	if again := events(t, r, "ada@example.com", 5); fmt.Sprint(again) != fmt.Sprint(all) {
		t.Errorf("%v", again)
	}
	quiet(t, r)
}

// TestMailEventsOfOthers: a tenant has the events of its sub-organizations' mails, and nobody else has; a host that shows one
// address's for another's is caught.
func TestMailEventsOfOthers(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a)
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial, Organizations: 1})
	root := r.Root()
	sub, err := org.ParseID(root.NewSubOrganization("below").Organization)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Enclave.Put(t.Context(), sub, letterTo(t, r, "ada@example.com", 1, "hello")); err != nil {
		t.Fatal(err)
	}
	events(t, r, "ada@example.com", 2)
	if got := root.Query("list_email_events", object{"organizationId": sub.String(), "email": "ada@example.com"}); got.Status != 400 || !strings.Contains(got.Text("message"), "top level") {
		t.Error(got)
	}
	others := r.Others()
	if len(others) != 1 {
		t.Fatal(others)
	}
	other, err := org.ParseID(others[0].Organization)
	if err != nil {
		t.Fatal(err)
	}
	if got := root.Query("list_email_events", object{"organizationId": other.String(), "email": "ada@example.com"}); got.Status != 401 {
		t.Errorf("another tenant's: %v", got)
	}
	if _, err := r.Enclave.Put(t.Context(), other, letterTo(t, r, "bob@example.com", 2, "hello")); err != nil {
		t.Fatal(err)
	}
	if got := events(t, r, "bob@example.com", 0); len(got) != 0 {
		t.Errorf("another tenant's: %v", got)
	}

	// What the host has of it are two objects, in which nothing can be read.
	objects := mailObjects(t, r, 2)
	for name, b := range objects {
		if strings.Contains(string(b)+name, "example") || strings.Contains(string(b)+name, "ada@") {
			t.Errorf("%s: %q", name, b)
		}
	}
	for name := range objects {
		for another, b := range objects {
			if another != name {
				if _, err := r.Store.PutObject(t.Context(), wire.PutObject{Name: name, Bytes: b}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := root.Query("list_email_events", object{"email": "ada@example.com"}); got.Status != 503 || r.Counters()["alarm_index"] == 0 {
		t.Error(got)
	}
}

// mailObjects waits for as many objects about mails.
func mailObjects(t testing.TB, r *rig.Rig, count int) map[string][]byte {
	t.Helper()
	for range 30_000 {
		all := map[string][]byte{}
		err := r.Store.Export(t.Context(), func(row store.Row) error {
			if o, ok := row.(*store.ObjectRow); ok && strings.HasPrefix(o.Name, "mail/") {
				all[o.Name] = o.Bytes
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) >= count {
			return all
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the objects do not come")
	return nil
}

// TestMailEventsEnd: after 30 days nothing is told, of a mail in the period before neither.
func TestMailEventsEnd(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a)
	clock := clocktest.Running()
	r := rig.Start(t, rig.Options{Clock: clock, Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial})
	put(t, r, letterTo(t, r, "ada@example.com", 1, "hello"))
	events(t, r, "ada@example.com", 2)
	const day = 24 * time.Hour
	clock.Pass(29 * day)
	if got := events(t, r, "ada@example.com", 2); len(got) != 2 {
		t.Errorf("%v", got)
	}
	clock.Pass(day + time.Minute)
	if got := events(t, r, "ada@example.com", 0); len(got) != 0 {
		t.Errorf("after 30 days: %v", got)
	}
}

// TestMailsThatCannotGoOut: a server that is away is told of once, and mails that the host sends are told of as sent: what
// comes of them the enclave does not hear.
func TestMailsThatCannotGoOut(t *testing.T) {
	a := newAuthority(t, mailHost)
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{}.dial})
	id := put(t, r, letterTo(t, r, "ada@example.com", 1, "hello"))
	events(t, r, "ada@example.com", 2)
	for range 3 {
		if _, err := r.Link.Deliver(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if all := events(t, r, "ada@example.com", 2); typesOf(all) != "DeliveryDelay Send" || client.Text(all[0], "details", "deliveryDelayType") != "TransientCommunicationFailure" || client.Text(all[0], "details", "diagnosticCode") != "no connection" {
		t.Errorf("%v", all)
	}
	r = rig.Start(t, rig.Options{Configuration: leaving(t), Mailer: &postbox{busy: 2}, Outside: resourceNames{}.dial})
	ended(t, r, put(t, r, letterTo(t, r, "ada@example.com", 1, "hello")))
	if all := events(t, r, "ada@example.com", 1); typesOf(all) != "Send" {
		t.Errorf("%v", all)
	}
	quiet(t, r)
}
