package org_test

import (
	"slices"
	"testing"

	"cloister/enclave/internal/org"
)

// hooked is an organization with these endpoints and this feature.
func hooked(t testing.TB, feature string, endpoints ...org.WebhookEndpoint) (*org.State, org.ID) {
	s, id := org.NewState(), org.ID{1}
	tx := org.Begin(id, s, 1)
	o := &org.Organization{ID: id, Name: "Top", Endpoints: uint32(len(endpoints))}
	if feature != "" {
		o.Features = map[string]string{org.FeatureWebhook: feature}
	}
	if err := tx.PutOrganization(o); err != nil {
		t.Fatal(err)
	}
	for i := range endpoints {
		if err := tx.PutWebhookEndpoint(&endpoints[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !tx.SubscribersChanged() {
		t.Error("the change is not seen")
	}
	ws, err := tx.Writes()
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(ws)
	return s, id
}

var wants = []org.Subscription{{EventType: org.ActivityUpdates}}

func TestSubscribers(t *testing.T) {
	filters := "{}"
	a, b := org.ID{2}, org.ID{3}
	s, id := hooked(t, "https://f.example/",
		org.WebhookEndpoint{ID: a, URL: "https://a.example/", Subscriptions: wants},
		org.WebhookEndpoint{ID: b, URL: "https://b.example/", Subscriptions: []org.Subscription{{EventType: "OTHER"}, {EventType: org.ActivityUpdates, Filters: &filters}}},
		org.WebhookEndpoint{ID: org.ID{4}, URL: "https://c.example/", Subscriptions: wants, Inactive: true},
		org.WebhookEndpoint{ID: org.ID{5}, URL: "https://d.example/", Subscriptions: []org.Subscription{{EventType: org.ActivityUpdates, Inactive: true}}},
		org.WebhookEndpoint{ID: org.ID{6}, URL: "https://e.example/", Subscriptions: []org.Subscription{{EventType: "OTHER"}}},
		org.WebhookEndpoint{ID: org.ID{7}, URL: "https://g.example/"})
	tx := org.Begin(id, s, 2)
	if got, err := tx.Subscribers(); err != nil || !slices.Equal(got, []org.ID{id, a, b}) {
		t.Fatalf("%v, %v", got, err)
	}
	for of, want := range map[org.ID]string{id: "https://f.example/", a: "https://a.example/", b: "https://b.example/", {4}: "", {5}: "", {6}: "", {7}: "", {99}: ""} {
		if got, err := tx.Receiver(of); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", of, got, err, want)
		}
	}
	o, err := tx.Organization()
	if err != nil {
		t.Fatal(err)
	}
	gone := *o
	gone.Deleted = true
	if err := tx.PutOrganization(&gone); err != nil {
		t.Fatal(err)
	}
	if got, err := tx.Subscribers(); err != nil || got != nil {
		t.Errorf("a deleted organization has %v, %v", got, err)
	}
	if got, err := tx.Receiver(a); err != nil || got != "" {
		t.Errorf("a deleted organization is told at %q, %v", got, err)
	}
}

// TestNoSubscribersCostNothing: an organization without receivers, and that is most of
// them, finds it out without an allocation.
func TestNoSubscribersCostNothing(t *testing.T) {
	s, id := hooked(t, "")
	tx := org.Begin(id, s, 2)
	if n := testing.AllocsPerRun(100, func() {
		if got, err := tx.Subscribers(); err != nil || got != nil || tx.SubscribersChanged() {
			t.Fatalf("%v, %v", got, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSubscribersChanged(t *testing.T) {
	s, id := hooked(t, "", org.WebhookEndpoint{ID: org.ID{2}, Subscriptions: wants})
	tx := org.Begin(id, s, 2)
	if err := tx.PutTag(&org.Tag{ID: org.ID{9}, Name: "x"}); err != nil || tx.SubscribersChanged() {
		t.Errorf("a tag changes who is told: %v", err)
	}
	if tx.DeleteWebhookEndpoint(org.ID{2}); !tx.SubscribersChanged() {
		t.Error("an endpoint that goes is not seen")
	}
}

// FuzzEvent: what is read is written the same.
func FuzzEvent(f *testing.F) {
	b, err := (&org.Event{ID: org.ID{1}, Subscriber: org.ID{2}, Owner: org.ID{3}}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := org.DecodeEvent(b)
		if err != nil {
			return
		}
		again, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := org.DecodeEvent(again); err != nil || *back != *e {
			t.Fatalf("%+v, %v", back, err)
		}
	})
}
