package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/sim/idp"
	"cloister/sim/inbox"
	"cloister/sim/loopback"
)

// The usual addresses, beside those of the interfaces. They give way to any free
// port when another simulator has them; what the flags name does not.
const (
	defaultInboxAddr     = "127.0.0.1:8082"
	defaultInboxSMTPAddr = "127.0.0.1:8083"
)

// gateway is who may send text messages. It is no secret: the gateway is open to
// this machine only, and settings that are measured stay the same over a start.
var gateway = inbox.Gateway{User: "cloister", Password: "simulator"}

// addresses are where the world outside of the enclave is on a laptop. All are empty without the inbox.
type addresses struct {
	inbox                      string // URL of the page
	smtp                       string // host:port; neither TLS nor a password
	sms                        string // URL; basic authentication as gateway says
	issuer                     string // of the identity provider
	providerX, providerDiscord idp.Endpoint
}

// outside is that world, running.
type outside struct {
	addresses
	stop func()
}

func (o *options) startOutside() (*outside, error) {
	keys, err := o.dir().IdentityKeys()
	if err != nil {
		return nil, fmt.Errorf("the identity provider's keys: %w", err)
	}
	web, err := listen(o.inboxAddr, defaultInboxAddr)
	if err != nil {
		return nil, fmt.Errorf("the inbox: %w", err)
	}
	mail, err := listen(o.inboxSMTPAddr, defaultInboxSMTPAddr)
	if err != nil {
		_ = web.Close()
		return nil, fmt.Errorf("the inbox's mail: %w", err)
	}
	base := "http://" + web.Addr().String()
	p, err := idp.New(idp.Config{Issuer: base + "/idp", Keys: keys, Now: time.Now, RedirectURIs: splitList(o.idpRedirects), Clients: pairs(o.idpClients)})
	if err != nil {
		return nil, errors.Join(err, web.Close(), mail.Close())
	}
	box := inbox.NewBox(time.Now)
	m := http.NewServeMux()
	m.Handle("/idp/", http.StripPrefix("/idp", p.Handler()))
	m.Handle("/", box.Handler(gateway))
	s := &http.Server{Handler: loopback.Guard(web.Addr(), m), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(web) })
	running.Go(func() { _ = box.ServeMail(ctx, mail) })
	return &outside{addresses{inbox: base, smtp: mail.Addr().String(), sms: base + "/sms", issuer: p.Issuer, providerX: p.X(), providerDiscord: p.Discord()},
		func() {
			cancel()
			_ = s.Close()
			running.Wait()
		}}, nil
}

// listen takes any free port where the usual one is not to be had.
func listen(address, usual string) (net.Listener, error) {
	l, err := loopback.Listen(address)
	if address == usual && errors.Is(err, syscall.EADDRINUSE) {
		return loopback.Listen("127.0.0.1:0")
	}
	return l, err
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func pairs(s string) map[string]string {
	m := map[string]string{}
	for _, p := range splitList(s) {
		id, secret, _ := strings.Cut(p, "=")
		m[id] = secret
	}
	return m
}
