package core_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/enclave/internal/org"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/rig"
)

// An authority is a private root, and the certificate of a server at some names.
type authority struct {
	pem    []byte
	server tls.Certificate
}

func newAuthority(t testing.TB, names ...string) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter}
	issued, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), tls.Certificate{Certificate: [][]byte{issued}, PrivateKey: own}}
}

// A mailbox is a mail server over TLS from the first byte. It answers the end of each
// message with what says names, with nothing at all where that is empty, and 250 when
// there is nothing more in it.
type mailbox struct {
	net.Listener
	mu       sync.Mutex
	says     []string
	messages []string
	logins   []string
	conns    int
}

func newMailbox(t testing.TB, a *authority, says ...string) *mailbox {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{a.server}})
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{Listener: l, says: says}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(c)
		}
	}()
	return m
}

func (m *mailbox) serve(c net.Conn) {
	defer c.Close()
	m.mu.Lock()
	m.conns++
	m.mu.Unlock()
	in := bufio.NewReader(c)
	say := func(s string) { fmt.Fprint(c, s+"\r\n") }
	say("220 here")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "EHLO":
			say("250-here\r\n250 AUTH PLAIN")
		case "AUTH":
			m.mu.Lock()
			m.logins = append(m.logins, rest)
			m.mu.Unlock()
			say("235 welcome")
		case "DATA":
			say("354 go on")
			var b strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				b.WriteString(line)
			}
			if answer := m.take(b.String()); answer != "" {
				say(answer)
			}
		case "QUIT":
			return
		default:
			say("250 OK")
		}
	}
}

func (m *mailbox) take(message string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages = append(m.messages, message)
	if len(m.says) == 0 {
		return "250 queued"
	}
	first := m.says[0]
	m.says = m.says[1:]
	return first
}

func (m *mailbox) got() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.messages...)
}

// resourceNames is an outside in which each name leads to one listener.
type resourceNames map[string]net.Addr

func (n resourceNames) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	a := n[host]
	if a == nil {
		return nil, errors.New("no such name")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", a.String())
}

const mailHost, textHost = "mail.example.com", "sms.example.com"

// configured is a configuration with a mail server and a gateway.
func configured(t testing.TB, a *authority) []byte {
	b, err := json.Marshal(map[string]any{
		"mail":  map[string]any{"host": mailHost, "port": 465, "security": "tls", "user": "user", "password": "pass word", "sender": map[string]any{"address": "login@example.com", "name": "Example"}},
		"text":  map[string]any{"url": "https://" + textHost + "/messages", "user": "account", "password": "token", "from": "+15550100"},
		"roots": string(a.pem),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func organization(t testing.TB, r *rig.Rig) org.ID {
	id, err := org.ParseID(r.Credentials.OrganizationID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const messageID = "0196a1b2-0000-7000-8000-000000000001"

func letter(t testing.TB, r *rig.Rig, text string) org.Send {
	b, err := (&org.Mail{To: "ada@example.com", Subject: "Your code", Text: text, HTML: "<p>" + text + "</p>", ID: messageID, SentMs: 1745383555000}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(r.NowMs())
	return org.Send{Kind: org.SendMail, DueMs: now, ExpiresMs: now + 600_000, Content: b}
}

func note(t testing.TB, r *rig.Rig, body string) org.Send {
	b, err := (&org.Text{To: "+4915112345678", Body: body, ID: messageID}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(r.NowMs())
	return org.Send{Kind: org.SendText, DueMs: now, ExpiresMs: now + 600_000, Content: b}
}

func put(t testing.TB, r *rig.Rig, sends ...org.Send) wire.SendID {
	t.Helper()
	id := organization(t, r)
	seq, err := r.Enclave.Put(t.Context(), id, sends...)
	if err != nil {
		t.Fatal(err)
	}
	return wire.SendID{Organization: wire.ID(id), Seq: seq}
}

// patience ends a test that hangs; nothing is measured by it.
const patience = 5 * time.Minute

func standing(t testing.TB, r *rig.Rig, id wire.SendID) wire.SendStatus {
	t.Helper()
	got, err := r.Store.SendStates(t.Context(), wire.Sends{Sends: []wire.SendID{id}})
	if err != nil {
		t.Fatal(err)
	}
	return got.Statuses[0]
}

// ended waits until a send has come to its end.
func ended(t testing.TB, r *rig.Rig, id wire.SendID) (s wire.SendStatus) {
	t.Helper()
	clocktest.Until(t, "the send ends", func() bool {
		s = standing(t, r, id)
		return s.State.Ended()
	})
	return s
}

func quiet(t testing.TB, r *rig.Rig) {
	t.Helper()
	for name, n := range r.Counters() {
		if strings.HasPrefix(name, "alarm_") && n > 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func TestMailGoesOut(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a, "451 4.2.1 try later")
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial})
	id := put(t, r, letter(t, r, "Your code is 123456."))
	if s := ended(t, r, id); s.State != wire.SendIncluded {
		t.Fatalf("%+v", s)
	}
	got := box.got()
	if len(got) != 2 || got[0] != got[1] {
		t.Fatalf("%d messages: %q", len(got), got)
	}
	for _, want := range []string{"From: \"Example\"\r\n <login@example.com>", "To: <ada@example.com>", "Message-ID: <" + messageID + "@example.com>", "Your code is 123456."} {
		if !strings.Contains(got[0], want) {
			t.Errorf("no %q in %q", want, got[0])
		}
	}
	if want := "PLAIN AHVzZXIAcGFzcyB3b3Jk"; len(box.logins) != 2 || box.logins[0] != want {
		t.Errorf("logged in by %q", box.logins)
	}
	// Whatever a host asks, it is not handed in again.
	for range 10 {
		if d, err := r.Link.Deliver(t.Context(), id); err != nil || d.Result != wire.DeliverDone {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if n := len(box.got()); n != 2 {
		t.Errorf("%d messages", n)
	}
	quiet(t, r)
	if n := r.Counters()["streams"]; n != 0 {
		t.Errorf("%d streams are left", n)
	}
}

func TestTextGoesOut(t *testing.T) {
	a := newAuthority(t, textHost)
	type form struct{ to, from, body, key, user, password string }
	var mu sync.Mutex
	var got []form
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		user, password, _ := q.BasicAuth()
		mu.Lock()
		defer mu.Unlock()
		got = append(got, form{q.PostFormValue("To"), q.PostFormValue("From"), q.PostFormValue("Body"), q.Header.Get("Idempotency-Key"), user, password})
		if len(got) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"sid":"SM1"}`)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.server}}
	s.StartTLS()
	t.Cleanup(s.Close)
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{textHost: s.Listener.Addr()}.dial})
	if s := ended(t, r, put(t, r, note(t, r, "Your code is 123456"))); s.State != wire.SendIncluded {
		t.Fatalf("%+v", s)
	}
	want := form{"+4915112345678", "+15550100", "Your code is 123456", messageID, "account", "token"}
	if len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("%+v", got)
	}
	quiet(t, r)
}

// A host that asks for one message at many times at once has it handed in once.
func TestAskedForAtOnce(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a)
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial})
	id := put(t, r, letter(t, r, "once"))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if d, err := r.Link.Deliver(t.Context(), id); err != nil || d.Result != wire.DeliverDone {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	all.Wait()
	if n := len(box.got()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// What is not to be delivered is not, and nothing of a message is told.
func TestNotDelivered(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a, "550 5.1.1 nobody CANARY")
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial})
	over := letter(t, r, "too late")
	over.ExpiresMs = uint64(r.NowMs()) - 1
	transaction, err := (&org.Transaction{Chain: "eip155:1", Signed: []byte("signed")}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	late := put(t, r, over)
	if s := ended(t, r, late); s.State != wire.SendExpired {
		t.Errorf("%+v", s)
	}
	id := put(t, r, letter(t, r, "refused"), org.Send{Kind: org.SendTransaction, ExpiresMs: 1 << 50, DueMs: 1 << 50, Content: transaction},
		org.Send{Kind: 9, ExpiresMs: 1 << 50, DueMs: 1 << 50, Content: transaction}, org.Send{Kind: org.SendMail, ExpiresMs: 1 << 50, DueMs: 1 << 50, Content: transaction})
	if s := ended(t, r, id); s.State != wire.SendRefused || strings.Contains(s.Text, "CANARY") || !strings.Contains(s.Text, "(code 550)") {
		t.Errorf("%+v", s)
	}
	at := func(number uint16) wire.SendID { x := id; x.Number = number; return x }
	for name, x := range map[string]struct {
		id   wire.SendID
		want wire.Delivered
	}{
		"expired":              {late, wire.Delivered{Found: true, Expired: true}},
		"no such number":       {at(4), wire.Delivered{}},
		"no such entry":        {wire.SendID{Organization: id.Organization, Seq: id.Seq + 100}, wire.Delivered{}},
		"no such organization": {wire.SendID{Organization: wire.ID{1}}, wire.Delivered{}},
		"an entry of nothing":  {wire.SendID{Organization: id.Organization}, wire.Delivered{}},
		"not a mail":           {at(3), wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: "the message cannot be written"}},
		"refused":              {id, wire.Delivered{Found: true, Result: wire.DeliverPermanent, Code: 550, Text: "the other side refused the mail"}},
	} {
		if d, err := r.Link.Deliver(t.Context(), x.id); err != nil || *d != x.want {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for _, x := range []wire.SendID{at(1), at(2)} {
		if d, err := r.Link.Deliver(t.Context(), x); err == nil {
			t.Errorf("number %d: %+v", x.Number, d)
		}
	}
	// And the host sees no message.
	for _, x := range []wire.SendID{id, at(2), at(3)} {
		if o, err := r.Link.OpenSend(t.Context(), x); err == nil {
			t.Errorf("number %d: %+v", x.Number, o)
		}
	}
	if o, err := r.Link.OpenSend(t.Context(), at(1)); err != nil || string(o.Signed) != "signed" {
		t.Errorf("%+v, %v", o, err)
	}
	if n := len(box.got()); n != 1 {
		t.Errorf("%d messages", n)
	}
	quiet(t, r)
}

// Without a server a message waits for an enclave that has one.
func TestHostDiesAndAnotherConfigurationComes(t *testing.T) {
	dir := t.TempDir()
	r := rig.Start(t, rig.Options{Dir: dir, Configuration: []byte(`{"salt":"1"}`)})
	send := letter(t, r, "found again")
	id := put(t, r, send)
	d, err := r.Link.Deliver(t.Context(), id)
	if err != nil || d.Result != wire.DeliverTemporary || d.Text != "the configuration names no mail server" {
		t.Fatalf("%+v, %v", d, err)
	}
	r.Kill()
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a)
	r = rig.Start(t, rig.Options{Dir: dir, Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial})
	if s := ended(t, r, id); s.State != wire.SendIncluded {
		t.Fatalf("%+v", s)
	}
	if got := box.got(); len(got) != 1 || !strings.Contains(got[0], "found again") {
		t.Errorf("%q", got)
	}
}

// A mail of which nobody knows whether its server has taken it goes out again when
// host and enclave die: it is the same mail.
func TestDeadInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a, "")
	o := rig.Options{Dir: dir, Configuration: configured(t, a), Outside: resourceNames{mailHost: box.Addr()}.dial}
	r := rig.Start(t, o)
	id := put(t, r, letter(t, r, "taken or not"))
	clocktest.Until(t, "a mail at the server", func() bool { return len(box.got()) > 0 })
	r.Kill()
	r = rig.Start(t, o)
	if s := ended(t, r, id); s.State != wire.SendIncluded {
		t.Fatalf("%+v", s)
	}
	if got := box.got(); len(got) != 2 || got[0] != got[1] {
		t.Errorf("%q", got)
	}
	quiet(t, r)
}
