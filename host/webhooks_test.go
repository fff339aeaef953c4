package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
)

const (
	someOrganization = "01000000-0000-0000-0000-000000000000"
	someReceiver     = "02000000-0000-0000-0000-000000000000"
)

// deadLetters is a store with dead letters of one receiver.
func deadLetters(t *testing.T, n int) (dsn string) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	boot := wire.ID{9}
	if owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: boot}); err != nil || !owned.OK {
		t.Fatal(err)
	}
	b := &wire.Batch{Boot: boot, Epoch: 1, Number: 1, Header: []byte("header")}
	for i := range n {
		b.Entries = append(b.Entries, wire.Entry{Organization: wire.ID{1}, Seq: uint64(i), Sealed: []byte{1}, Activity: wire.ID{3, byte(i >> 8), byte(i)}, Type: "T", Status: 3,
			Sends: []wire.SendMark{{Kind: wire.SendWebhook, Receiver: wire.ID{2}}}})
	}
	if stored, err := s.Append(t.Context(), b); err != nil || stored.Verdict != wire.VerdictStored {
		t.Fatalf("%+v, %v", stored, err)
	}
	for {
		sends, err := s.ClaimSends(t.Context(), store.ClaimSends{Claimant: wire.ID{7}, NowMs: 1, UntilMs: 2, Limit: 200, Receiver: wire.ID{2}})
		if err != nil {
			t.Fatal(err)
		}
		if len(sends) == 0 {
			return "sqlite:" + path
		}
		for _, x := range sends {
			x.State, x.Text, x.DueMs, x.Tries = wire.SendRefused, "HTTP status 410", 5, 1
			if kept, err := s.KeepSend(t.Context(), wire.ID{7}, x); err != nil || !kept {
				t.Fatal(kept, err)
			}
		}
	}
}

func TestWebhooksCommand(t *testing.T) {
	dsn := deadLetters(t, 300)
	list := func(want int) (letters []deadLetter) {
		t.Helper()
		r := runWith(t, "", nil, "webhooks", "list", "-store", dsn)
		if r.code != exitDone {
			t.Fatalf("%+v", r)
		}
		for line := range strings.Lines(r.stdout) {
			var d deadLetter
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				t.Fatal(err)
			}
			letters = append(letters, d)
		}
		if len(letters) != want {
			t.Fatalf("%d dead letters, want %d", len(letters), want)
		}
		return letters
	}
	first := list(300)[0]
	if first != (deadLetter{ID: someOrganization + "/0/0", Activity: "03000000-0000-0000-0000-000000000000", Receiver: someReceiver, Tries: 1, Said: "HTTP status 410", EndedMs: "5"}) {
		t.Errorf("%+v", first)
	}
	for _, c := range []struct {
		what, says string
		left       int
	}{
		{first.ID, "1 to be sent again", 299}, {first.ID, "0 to be sent again", 299}, {strings.ToUpper(someOrganization), "0 to be sent again", 299},
		{someReceiver, "299 to be sent again", 0}, {"all", "0 to be sent again", 0},
	} {
		r := runWith(t, "", map[string]string{"CLOISTER_STORE": dsn}, "webhooks", "resend", c.what)
		if r.code != exitDone || strings.TrimSpace(r.stdout) != c.says {
			t.Errorf("%s: %+v", c.what, r)
		}
		list(c.left)
	}
}

func TestWebhooksCommandRefuses(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-store", "x"}, {"lists"}, {"list", "more"}, {"resend"}, {"resend", "a", "b"}, {"resend", "everything"}, {"resend", "1234"}, {"resend", someOrganization[:35]},
		{"resend", someOrganization + "/1"}, {"resend", someOrganization + "/1/2/3"}, {"resend", someOrganization + "/x/0"}, {"resend", someOrganization + "/-1/0"},
		{"resend", someOrganization + "/4294967296/0"}, {"resend", strings.ReplaceAll(someOrganization, "-", "")}, {"list", "-nonsense"},
	} {
		if r := runWith(t, "", nil, append([]string{"webhooks"}, args...)...); r.code != exitUsage || r.stdout != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := runWith(t, "", nil, "webhooks", "list", "-store", "sqlite:/nowhere/at/all.db"); r.code != exitFailed {
		t.Errorf("%+v", r)
	}
	if r := runWith(t, "", nil, "webhooks", "list", "-help"); r.code != exitDone || !strings.Contains(r.stdout, "dead letters") {
		t.Errorf("%+v", r)
	}
}
