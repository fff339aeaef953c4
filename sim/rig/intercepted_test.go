package rig_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/inbox"
	"cloister/sim/rig"
)

// claimedSends is a store that notes what its outbox gives out.
type claimedSends struct {
	store.Store
	mu   sync.Mutex
	seen map[wire.SendID]wire.SendKind
}

func (o *claimedSends) ClaimSends(ctx context.Context, ask store.ClaimSends) ([]store.Send, error) {
	sends, err := o.Store.ClaimSends(ctx, ask)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range sends {
		o.seen[s.ID] = s.Kind
	}
	return sends, err
}

// of are the sends of a kind.
func (o *claimedSends) of(kind wire.SendKind) (ids []wire.SendID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, k := range o.seen {
		if k == kind {
			ids = append(ids, id)
		}
	}
	return ids
}

// certified is a TLS configuration with a certificate of one name.
func certified(t *testing.T, root *x509.Certificate, by *ecdsa.PrivateKey, name string) *tls.Config {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), DNSNames: []string{name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, root, &own.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}}}
}

// counted counts who connects.
type counted struct {
	net.Listener
	n *atomic.Int64
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// A postOffice takes mail and text messages for anybody, in TLS or, with none, in clear.
type postOffice struct {
	mail, text string // addresses
	box        *inbox.Box
	callers    atomic.Int64
}

func newPostOffice(t *testing.T, mail, text *tls.Config) *postOffice {
	t.Helper()
	o := &postOffice{box: inbox.NewBox(time.Now)}
	listen := func(c *tls.Config) net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l = counted{l, &o.callers}
		if c != nil {
			l = tls.NewListener(l, c)
		}
		return l
	}
	m, g := listen(mail), listen(text)
	o.mail, o.text = m.Addr().String(), g.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = o.box.ServeMail(ctx, m) }()
	s := &http.Server{Handler: o.box.Handler(inbox.Gateway{User: "cloister", Password: "simulator"}), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(g) }()
	return o
}

// A host that leads the enclave's streams to servers of its own, or cuts TLS off, is
// handed no mail and no text message; the right servers get all of them in the end.
func TestInterceptedMessages(t *testing.T) {
	for _, security := range []string{"tls", "starttls"} {
		t.Run(security, func(t *testing.T) { intercepted(t, security) })
	}
}

func intercepted(t *testing.T, security string) {
	const mailHost, textHost, n = "mail.example", "sms.example", 50
	ca, key := authority(t, "the private root")
	liar, liarKey := authority(t, "a root of the host's")
	self, selfKey := authority(t, "the private root") // the name says nothing
	right := newPostOffice(t, certified(t, ca, key, mailHost), certified(t, ca, key, textHost))
	astray := map[string]*postOffice{
		"another root":             newPostOffice(t, certified(t, liar, liarKey, mailHost), certified(t, liar, liarKey, textHost)),
		"a root of the same name":  newPostOffice(t, certified(t, self, selfKey, mailHost), certified(t, self, selfKey, textHost)),
		"another name":             newPostOffice(t, certified(t, ca, key, "other.example"), certified(t, ca, key, "other.example")),
		"each other's certificate": newPostOffice(t, certified(t, ca, key, textHost), certified(t, ca, key, mailHost)),
		"no TLS":                   newPostOffice(t, nil, nil),
	}
	if security == "starttls" { // the inbox has none: the host takes it out of the greeting
		astray = map[string]*postOffice{"no TLS": astray["no TLS"]}
	}
	var at atomic.Pointer[postOffice]
	at.Store(astray["no TLS"])
	configuration, err := json.Marshal(object{
		"roots": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})),
		"mail":  object{"host": mailHost, "port": 465, "security": security, "sender": object{"address": "codes@cloister.example"}},
		"text":  object{"url": "https://" + textHost + "/sms", "user": "cloister", "password": "simulator", "from": "+15550100"},
	})
	if err != nil {
		t.Fatal(err)
	}
	honest, err := sqlite.Open(t.Context(), t.TempDir()+"/cloister.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = honest.Close() })
	out := &claimedSends{Store: honest, seen: map[wire.SendID]wire.SendKind{}}
	r := rig.Start(t, rig.Options{Store: out, Configuration: configuration, Outside: func(ctx context.Context, host string, _ uint16) (net.Conn, error) {
		to := at.Load().mail
		if host == textHost {
			to = at.Load().text
		}
		return new(net.Dialer).DialContext(ctx, "tcp", to)
	}})
	root := r.Root()
	enable(root, "OTP_EMAIL_AUTH", "SMS_AUTH")
	for i := range n {
		for typ, contact := range map[string]string{"OTP_TYPE_EMAIL": fmt.Sprintf("someone%d@example.org", i), "OTP_TYPE_SMS": fmt.Sprintf("+1555123%04d", i)} {
			root.Do("INIT_OTP_V3", object{"otpType": typ, "contact": contact, "appName": "App"})
		}
	}
	kinds := map[wire.SendKind]string{wire.SendMail: "mail", wire.SendText: "text"}
	clocktest.Until(t, "all mails and text messages are to go out", func() bool { return len(out.of(wire.SendMail)) >= n && len(out.of(wire.SendText)) >= n })
	for what, office := range astray {
		at.Store(office)
		for kind, name := range kinds {
			said, before := "", office.callers.Load()
			for _, id := range out.of(kind) {
				d, err := r.Link.Deliver(t.Context(), id)
				if err != nil || !d.Found || d.Result == wire.DeliverDone {
					t.Errorf("%s, %s: %+v %v", name, what, d, err)
					continue
				}
				said = d.Text
			}
			if calls := office.callers.Load() - before; calls < n {
				t.Errorf("%s, %s: only %d calls", name, what, calls)
			}
			t.Logf("refused %d times: %s, %s: %s", n, name, what, said)
		}
		if got := office.box.Messages(""); len(got) != 0 {
			t.Errorf("%s: delivered %d, %q", what, len(got), got[0].Text)
		}
	}
	at.Store(right)
	if security == "starttls" {
		return
	}
	for kind, name := range kinds {
		for _, id := range out.of(kind) {
			if d, err := r.Link.Deliver(t.Context(), id); err != nil || d.Result != wire.DeliverDone {
				t.Errorf("%s at the right server: %+v %v", name, d, err)
			}
		}
	}
	if got := len(right.box.Messages("")); got != 2*n {
		t.Errorf("%d of %d messages have arrived", got, 2*n)
	}
}
