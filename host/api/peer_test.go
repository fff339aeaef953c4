package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/host/link"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// A peer is the enclave's end of the wire without an enclave: it keeps the
// calls it got and answers with what the test wants.
type peer struct {
	mu     sync.Mutex
	calls  []wire.Call
	answer func(context.Context, *wire.Call) *wire.Reply
	status string // answer to the op status at the boot endpoint
	ranges string // to the op logs; empty: it knows no such op
	conns  []*wire.Conn
	left   bool
}

func (p *peer) handle(ctx context.Context, _ wire.Kind, b []byte) (wire.Kind, []byte) {
	var c wire.Call
	if wire.Unmarshal(b, &c) != nil {
		return wire.KindFailed, nil
	}
	p.mu.Lock()
	answer, status := p.answer, p.status
	r := &wire.Reply{Status: 200, Body: []byte(`{"yes":true}`), Phases: []uint32{10, 20, 30, 40}}
	switch {
	case c.Endpoint == wire.EndpointBoot && c.Op == "status":
		r.Body = []byte(status)
	case c.Endpoint == wire.EndpointBoot && c.Op == "logs" && p.ranges == "":
		r.Status, r.Body = http.StatusNotFound, []byte(`{"code":5,"message":"no such boot operation","details":[]}`)
	case c.Endpoint == wire.EndpointBoot && c.Op == "logs":
		r.Body = []byte(p.ranges)
	default:
		p.calls = append(p.calls, c)
		p.mu.Unlock()
		if answer != nil {
			r = answer(ctx, &c)
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	if r == nil {
		return wire.KindFailed, nil
	}
	if r.Request == (wire.Hash{}) {
		r.Request = sha256.Sum256(c.Body)
	}
	out, err := wire.Marshal(r)
	if err != nil {
		return wire.KindFailed, nil
	}
	return wire.KindReply, out
}

func (p *peer) last(t *testing.T) wire.Call {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == 0 {
		t.Fatal("no call came")
	}
	return p.calls[len(p.calls)-1]
}

func (p *peer) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		hello, err := wire.ReadHello(nc, time.Now().Add(time.Minute))
		if err != nil {
			nc.Close()
			continue
		}
		role := hello.Role
		o := wire.Options{Role: role, Side: wire.SideEnclave}
		if role == wire.RoleCalls {
			o.Handler = p.handle
		}
		p.mu.Lock()
		p.conns = append(p.conns, wire.NewConn(nc, o))
		if p.left {
			p.conns[len(p.conns)-1].Close()
		}
		p.mu.Unlock()
	}
}

// leave ends the enclave.
func (p *peer) leave(l net.Listener) {
	l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true // a connection may have been accepted whose hello is still to be read
	for _, c := range p.conns {
		c.Close()
	}
}

// A rig is the API over real HTTP, a real link and a real store.
type rig struct {
	*peer
	api    *api.API
	link   *link.Link
	store  *sqlite.Store
	logs   *logs
	at     string // base URL of the public interface
	proxy  string
	listen net.Listener
}

type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d / 10):
	}
}

func start(tb testing.TB, change func(*api.Options)) *rig {
	tb.Helper()
	r := &rig{peer: &peer{status: `{"state":"serving","attestationAgeMs":1000,"counters":{"alarm_tip":2,"entries":7}}`}, logs: new(logs)}
	socket := "unix:" + filepath.Join(tb.TempDir(), "s")
	var err error
	if r.listen, err = link.Listen(socket); err != nil {
		tb.Fatal(err)
	}
	go r.accept(r.listen)
	if r.store, err = sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "store")); err != nil {
		tb.Fatal(err)
	}
	level := slog.LevelDebug
	if _, bench := tb.(*testing.B); bench {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: level}))
	metrics := api.NewMetrics()
	if r.link, err = link.New(link.Options{Address: socket, Store: r.store, StoreTimeout: wire.MaxWait, Log: log, Observer: metrics, Now: time.Now, Pause: pause}); err != nil {
		tb.Fatal(err)
	}
	o := api.Options{Enclave: r.link, Ping: r.store.Ping, Metrics: metrics, Log: log, Now: time.Now, Boot: "test", Wait: wire.MaxWait, AttestationAge: time.Hour}
	if change != nil {
		change(&o)
	}
	r.api = api.New(o)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.link.Run(ctx); close(done) }()
	r.at, r.proxy = serve(tb, r.api, r.api.Public(true)), serve(tb, r.api, r.api.Proxy())
	tb.Cleanup(func() { stop(); <-done; r.leave(r.listen); r.store.Close() })
	waitFor(tb, func() bool { return r.link.Ready() == nil && r.link.Stats().Connected == r.link.Stats().Wanted })
	return r
}

func serve(tb testing.TB, a *api.API, h http.Handler) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := a.Server(h)
	go func() { _ = s.Serve(api.Whole(l)) }()
	tb.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String()
}

func waitFor(tb testing.TB, ok func() bool) {
	tb.Helper()
	clocktest.Until(tb, "what the test waits for has come", ok)
}

type response struct {
	status int
	header http.Header
	body   string
}

func send(t *testing.T, method, url string, body io.Reader, headers ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, string(b)}
}

func post(t *testing.T, url, body string, headers ...string) response {
	t.Helper()
	return send(t, http.MethodPost, url, strings.NewReader(body), headers...)
}
