package org_test

import (
	"reflect"
	"testing"

	"cloister/enclave/internal/org"
)

var mailEvents = []org.MailEvent{{ID: org.ID{1}, Kind: org.MailSent, Message: "id@example.com", From: "a@example.com", To: "b@example.com", TimeMs: 9},
	{ID: org.ID{2}, Kind: org.MailBounced, Message: "id@example.com", From: "a@example.com", To: "b@example.com", TimeMs: 10, Text: "550 no", TookMs: 3, Away: true}}

func TestMailEventsAreKept(t *testing.T) {
	b, err := org.EncodeMailEvents(mailEvents)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := org.DecodeMailEvents(b); err != nil || !reflect.DeepEqual(got, mailEvents) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range b {
		if _, err := org.DecodeMailEvents(b[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes: taken", n, len(b))
		}
	}
	if _, err := org.DecodeMailEvents(append(b, 0)); err == nil {
		t.Error("with a byte behind: taken")
	}
}

// FuzzMailEvents: what is read is written the same.
func FuzzMailEvents(f *testing.F) {
	b, err := org.EncodeMailEvents(mailEvents)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		es, err := org.DecodeMailEvents(b)
		if err != nil {
			return
		}
		again, err := org.EncodeMailEvents(es)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := org.DecodeMailEvents(again); err != nil || !reflect.DeepEqual(back, es) {
			t.Fatalf("%+v, %v", back, err)
		}
	})
}
