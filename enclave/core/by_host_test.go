package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"cloister/enclave/internal/org"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/rig"
)

// A postbox is a host's mail server, which refuses for now as often as it is told.
type postbox struct {
	mu    sync.Mutex
	busy  int
	mails []wire.Mail
}

func (p *postbox) Submit(_ context.Context, m *wire.Mail) (int, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mails = append(p.mails, *m)
	if len(p.mails) <= p.busy {
		return 451, false, errors.New("busy")
	}
	return 250, false, nil
}

// leaving is a configuration that leaves mails to the host.
func leaving(t testing.TB) []byte {
	b, err := json.Marshal(map[string]any{"mail": map[string]any{"through": "host", "sender": map[string]any{"address": "login@example.com", "name": "Example"}},
		"text": map[string]any{"url": "https://" + textHost + "/messages", "from": "+15550100"}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Where the measured configuration says so, the host is given mails, whole and until
// they expire, and nothing else.
func TestMailThroughTheHost(t *testing.T) {
	box := &postbox{busy: 2}
	r := rig.Start(t, rig.Options{Configuration: leaving(t), Mailer: box, Outside: resourceNames{}.dial})
	id := put(t, r, letter(t, r, "Your code is 123456."))
	if s := ended(t, r, id); s.State != wire.SendIncluded {
		t.Fatalf("%+v", s)
	}
	if len(box.mails) != 3 {
		t.Fatalf("%d mails", len(box.mails))
	}
	m := box.mails[2]
	if m.From != "login@example.com" || m.To != "ada@example.com" || string(m.Message) != string(box.mails[0].Message) {
		t.Errorf("%+v", m)
	}
	for _, want := range []string{"From: \"Example\"\r\n <login@example.com>", "To: <ada@example.com>", "Message-ID: <" + messageID + "@example.com>", "Your code is 123456."} {
		if !strings.Contains(string(m.Message), want) {
			t.Errorf("no %q in %q", want, m.Message)
		}
	}
	over := letter(t, r, "too late")
	over.ExpiresMs = uint64(r.NowMs()) - 1
	broken := letter(t, r, "")
	broken.Content = []byte("no mail")
	rest := put(t, r, over, broken, note(t, r, "Your code is 654321"))
	at := func(number uint16) wire.SendID { x := rest; x.Number = number; return x }
	for name, c := range map[string]struct {
		id   wire.SendID
		want wire.Delivered
	}{
		"expired":              {at(0), wire.Delivered{Found: true, Expired: true}},
		"not a mail":           {at(1), wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: "the message cannot be written"}},
		"a text message":       {at(2), wire.Delivered{Found: true, Result: wire.DeliverTemporary, Text: "netclient: no connection"}},
		"no such number":       {at(3), wire.Delivered{}},
		"no such organization": {wire.SendID{Organization: wire.ID{1}}, wire.Delivered{}},
	} {
		d, err := r.Link.Deliver(t.Context(), c.id)
		if err != nil || d.Mail != nil || d.Result != c.want.Result || d.Found != c.want.Found || d.Expired != c.want.Expired {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if o, err := r.Link.OpenSend(t.Context(), id); err == nil {
		t.Errorf("a mail is opened like a transaction: %+v", o)
	}
	quiet(t, r)
}

// A host that has no mail server says so, and the mail waits.
func TestMailThroughAHostWithoutAServer(t *testing.T) {
	r := rig.Start(t, rig.Options{Configuration: leaving(t)})
	id := put(t, r, letter(t, r, "nobody takes it"))
	clocktest.Until(t, "a mail that waits for a server", func() bool {
		s := standing(t, r, id)
		if s.State.Ended() {
			t.Fatalf("%+v", s)
		}
		return strings.Contains(s.Text, "-smtp")
	})
}

// Only the configuration opens mails: a host that has a mail server is given none
// that the enclave hands in itself.
func TestMailIsNotOpenedOtherwise(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := &postbox{}
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Mailer: box, Outside: resourceNames{}.dial})
	for _, send := range []org.Send{letter(t, r, "secret"), note(t, r, "secret")} {
		id := put(t, r, send)
		for range 50 {
			if d, err := r.Link.Deliver(t.Context(), id); err != nil || d.Mail != nil || d.Result != wire.DeliverTemporary {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	}
	if len(box.mails) != 0 {
		t.Errorf("%d mails", len(box.mails))
	}
}
