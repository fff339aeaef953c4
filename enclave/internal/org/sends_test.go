package org_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/org"
)

func TestTransactionsAreKept(t *testing.T) {
	for _, want := range []*org.Transaction{
		{Chain: "eip155:1", Signed: []byte("signed"), Name: "0xabc", From: bytes.Repeat([]byte{1}, 20), Nonce: 7},
		{Chain: "solana:x", Signed: []byte("signed"), Name: "name"},
	} {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := org.DecodeTransaction(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		for n := range b {
			if _, err := org.DecodeTransaction(b[:n]); err == nil {
				t.Errorf("cut to %d of %d bytes: taken", n, len(b))
			}
		}
		if _, err := org.DecodeTransaction(append(b, 0)); err == nil {
			t.Error("a byte behind: taken")
		}
	}
}

func TestNonceUses(t *testing.T) {
	s := org.NewState()
	a, b := org.Sender{Chain: 1, Address: [20]byte{1}}, org.Sender{Chain: 1, Address: [20]byte{2}}
	other := org.Sender{Chain: 256, Address: a.Address}
	tx := org.Begin(id(1), s, 1)
	for i, sender := range []org.Sender{a, b, other} {
		for _, nonce := range []uint64{1 << 40, 3, 1<<64 - 1, 0, 255, 256} {
			if err := tx.PutNonce(sender, nonce, &org.NonceUse{Sends: []org.SendRef{{Seq: nonce, Number: uint16(i)}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx.DeleteNonce(a, 255)
	tx.Apply()
	tx = org.Begin(id(1), s, 2)
	for from, want := range map[uint64][]uint64{0: {0, 3, 256, 1 << 40, 1<<64 - 1}, 3: {3, 256, 1 << 40, 1<<64 - 1}, 4: {256, 1 << 40, 1<<64 - 1}, 1<<64 - 1: {1<<64 - 1}} {
		var got []uint64
		err := tx.EachNonce(a, from, func(nonce uint64, u *org.NonceUse) bool {
			if len(u.Sends) != 1 || u.Sends[0] != (org.SendRef{Seq: nonce}) {
				t.Errorf("%d: %+v", nonce, u)
			}
			got = append(got, nonce)
			return true
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("from %d: %v, %v", from, got, err)
		}
	}
	if u, err := tx.Nonce(b, 255); err != nil || u == nil || u.Sends[0].Number != 1 {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := tx.Nonce(a, 255); err != nil || u != nil {
		t.Errorf("%+v, %v", u, err)
	}
	for state, want := range map[org.SendState][2]bool{org.SendUnknown: {}, org.SendWaiting: {}, org.SendAccepted: {}, org.SendIncluded: {}, org.SendReverted: {},
		org.SendRefused: {true, true}, org.SendExpired: {true, true}, org.SendReplaced: {false, true}} {
		if got := [2]bool{state.IsRefused(), state.IsMissing()}; got != want {
			t.Errorf("state %d is refused and missing: %v", state, got)
		}
	}
}

func TestMessagesAreKept(t *testing.T) {
	mail := &org.Mail{To: "a@example.com", From: "b@example.com", Name: "B", ReplyTo: "c@example.com", Subject: "s", Text: "text", HTML: "<p>", ID: "id", SentMs: 9}
	kept(t, mail, org.DecodeMail)
	kept(t, &org.Mail{To: "a@example.com"}, org.DecodeMail)
	kept(t, &org.Text{To: "+15550100", Body: "code 123456", ID: "id"}, org.DecodeText)
	kept(t, &org.UsageDay{Day: 20_000}, org.DecodeUsageDay)
	b, err := (&org.Transaction{Chain: "eip155:1", Signed: []byte("passcode")}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, decode := range map[string]func() error{
		"mail": func() error { _, err := org.DecodeMail(b); return err },
		"text": func() error { _, err := org.DecodeText(b); return err }, "day": func() error { _, err := org.DecodeUsageDay(b); return err },
	} {
		if err := decode(); err == nil || strings.Contains(err.Error(), "passcode") {
			t.Errorf("a transaction as a %s: %v", name, err)
		}
	}
}

// kept wants what is encoded back, and every part of it and more than it refused.
func kept[T interface{ Encode() ([]byte, error) }](t *testing.T, want T, decode func([]byte) (T, error)) {
	t.Helper()
	b, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range b {
		if _, err := decode(b[:n]); err == nil {
			t.Errorf("%T cut to %d of %d bytes: taken", want, n, len(b))
		}
	}
	if _, err := decode(append(b, 0)); err == nil {
		t.Errorf("%T with a byte behind: taken", want)
	}
}

// TestRivals: sends that share a number know of each other for good, those that have one alone leave nothing.
func TestRivals(t *testing.T) {
	s := org.NewState()
	tx := org.Begin(id(1), s, 1)
	c := org.Counter{Of: org.CountNonces, Account: org.Sender{Chain: 1, Address: [20]byte{1}}}
	ref := func(seq uint64) org.SendRef { return org.SendRef{Seq: seq} }
	must(t, tx.AddRival(c, 5, nil, ref(1)))
	must(t, tx.AddRival(c, 5, []org.SendRef{ref(1)}, ref(1)))
	if got, err := tx.Rivals(c, 5); err != nil || got != nil {
		t.Fatalf("%v, %v", got, err)
	}
	must(t, tx.AddRival(c, 5, []org.SendRef{ref(1)}, ref(2)))
	must(t, tx.AddRival(c, 5, []org.SendRef{ref(2)}, ref(3)))
	if got, err := tx.Rivals(c, 5); err != nil || !slices.Equal(got, []org.SendRef{ref(1), ref(2), ref(3)}) {
		t.Fatalf("%v, %v", got, err)
	}
	for n := uint64(4); n < 200; n++ {
		must(t, tx.AddRival(c, 5, nil, ref(n)))
	}
	if got, err := tx.Rivals(c, 5); err != nil || len(got) != 64 || got[63] != ref(199) {
		t.Fatalf("%v, %v", got, err)
	}
	for _, other := range []org.Counter{{Of: org.CountExecutions, Account: c.Account}, {Of: c.Of, Account: org.Sender{Chain: 2, Address: [20]byte{1}}}, {Of: c.Of, Account: org.Sender{Chain: 1}}} {
		if got, err := tx.Rivals(other, 5); err != nil || got != nil {
			t.Errorf("%+v: %v, %v", other, got, err)
		}
	}
}
