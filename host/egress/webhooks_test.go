package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/egress"
	"cloister/host/store"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// A receiver is an endpoint over TLS that answers as it is told.
type receiver struct {
	*httptest.Server
	id wire.ID

	mu       sync.Mutex
	does     func(w http.ResponseWriter, r *http.Request)
	received []string // bodies, in order, whatever was answered
	now      int      // requests at it
	most     int
}

var receivers atomic.Uint32

func newReceiver(t testing.TB) *receiver {
	n := receivers.Add(1)
	r := &receiver{id: wire.ID{0xaa, byte(n >> 8), byte(n), 15: 1}}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.StartTLS()
	t.Cleanup(r.CloseClientConnections)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	r.received = append(r.received, string(body))
	r.now++
	r.most = max(r.most, r.now)
	does := r.does
	r.mu.Unlock()
	if does != nil {
		does(w, q)
	}
	r.mu.Lock()
	r.now--
	r.mu.Unlock()
}

func (r *receiver) do(f func(http.ResponseWriter, *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.does = f
}

func (r *receiver) status(status int) {
	r.do(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// hang holds every request until it is called off or the test ends.
func (r *receiver) hang(t testing.TB) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	r.do(func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-release:
		case <-q.Context().Done():
		}
	})
}

func (r *receiver) bodies() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.received)
}

// atOnce is how many requests there were at a time, at the most.
func (r *receiver) atOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// event puts one event for a receiver into the outbox.
func (w *world) event(to wire.ID, url string, activity byte) wire.SendID {
	w.t.Helper()
	w.mu.Lock()
	id := wire.SendID{Organization: w.organization, Seq: w.seq}
	body := fmt.Sprintf(`{"activity":%d,"seq":%d}`, activity, w.seq)
	w.opens[id] = &wire.Opened{Found: true, Kind: wire.SendWebhook, ExpiresMs: 1 << 60, Webhook: &wire.Webhook{URL: url, Body: []byte(body),
		Head: []wire.Header{{Name: "X-Turnkey-Event-Id", Value: body}, {Name: "Host", Value: "elsewhere.example"}, {Name: "Transfer-Encoding", Value: "gzip"}}}}
	w.seq++
	w.number++
	b := &wire.Batch{Boot: wire.ID{9}, Epoch: 1, Number: w.number, Header: []byte("header"), Entries: []wire.Entry{{
		Organization: id.Organization, Seq: id.Seq, Sealed: []byte("sealed"), Activity: wire.ID{1, activity}, Type: "ACTIVITY_TYPE_X", Status: 3,
		Sends: []wire.SendMark{{Kind: wire.SendWebhook, DueMs: 1, Receiver: to}}}}}
	w.mu.Unlock()
	if stored, err := w.s.Append(w.t.Context(), b); err != nil || stored.Verdict != wire.VerdictStored {
		w.t.Fatalf("%+v, %v", stored, err)
	}
	return id
}

func (r *receiver) event(w *world, activity byte) wire.SendID { return w.event(r.id, r.URL, activity) }

// counted is an outbox that knows how many sends are in claims, or about to be.
type counted struct {
	store.Store
	claimed atomic.Int32
	expects atomic.Bool
}

func (c *counted) Receivers(ctx context.Context, ask store.Receivers) ([]wire.ID, error) {
	ids, err := c.Store.Receivers(ctx, ask)
	c.expects.Store(len(ids) > 0)
	return ids, err
}

func (c *counted) ClaimSends(ctx context.Context, ask store.ClaimSends) ([]store.Send, error) {
	c.claimed.Add(1000) // while it is not known how many
	sends, err := c.Store.ClaimSends(ctx, ask)
	c.claimed.Add(int32(len(sends)) - 1000)
	c.expects.Store(false)
	return sends, err
}

func (c *counted) KeepSend(ctx context.Context, claimant wire.ID, x store.Send) (bool, error) {
	kept, err := c.Store.KeepSend(ctx, claimant, x)
	c.claimed.Add(-1)
	return kept, err
}

// delivers starts a Webhooks to receivers with these certificates. Time flies while
// nothing is under way, unless it is steady.
func (w *world) delivers(d *egress.Dialer, of ...*receiver) (stop func()) {
	w.t.Helper()
	roots := x509.NewCertPool()
	for _, r := range of {
		roots.AddCert(r.Certificate())
	}
	outbox := &counted{Store: w.s}
	s, err := egress.NewWebhooks(egress.WebhookOptions{Outbox: outbox, Enclave: w, Dialer: d, Roots: roots, Log: slog.New(slog.NewTextHandler(w.logged, nil)), Now: w.now, Rand: random{},
		Pause: func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
			if w.stride != nil {
				d = w.stride(d)
			}
			if !w.steady && outbox.claimed.Load() == 0 && !outbox.expects.Load() {
				w.ahead(d)
			}
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

var loopback = &egress.Dialer{Loopback: true}

// lines is what a log at its usual level says, by lines. What nobody takes is dropped.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// TestWebhookLogged: the log at its usual level tells of an event's first failed attempt and of its end without delivery, and of nothing else.
func TestWebhookLogged(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	w.delivers(loopback, r)
	for i, c := range []struct {
		status int
		want   string
	}{
		{500, `level=INFO msg=webhook .* state=waiting tries=1 said="HTTP status 500"`},
		{404, `level=WARN msg=webhook .* state=refused tries=[0-9]+ said="HTTP status 404"`},
	} {
		r.status(c.status)
		if i == 0 {
			w.event(r.id, r.URL, 1)
		}
		if line := <-w.logged; !regexp.MustCompile(c.want).MatchString(line) {
			t.Errorf("logged %q, want %s", line, c.want)
		}
	}
	r.status(200)
	w.until(w.event(r.id, r.URL, 2), wire.SendIncluded, "")
	if len(w.logged) > 0 {
		t.Errorf("logged %q of an event that was delivered", <-w.logged)
	}
}

func TestWebhookDelivered(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	var got *http.Request
	r.do(func(_ http.ResponseWriter, q *http.Request) { got = q })
	w.delivers(loopback, r)
	w.until(r.event(w, 1), wire.SendIncluded, "")
	if got.Method != http.MethodPost || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("X-Turnkey-Event-Id") != `{"activity":1,"seq":0}` ||
		got.Host != strings.TrimPrefix(r.URL, "https://") || len(got.TransferEncoding) != 0 || got.ProtoMajor != 1 {
		t.Errorf("%+v", got)
	}
	if b := r.bodies(); len(b) != 1 || b[0] != `{"activity":1,"seq":0}` {
		t.Errorf("bodies %q", b)
	}
}

// TestWebhookAnswers: which answers are the receiver's last word.
func TestWebhookAnswers(t *testing.T) {
	elsewhere := newReceiver(t)
	for _, c := range []struct {
		status int
		state  wire.SendState
	}{
		{200, wire.SendIncluded}, {201, wire.SendIncluded}, {202, wire.SendIncluded}, {204, wire.SendIncluded}, {299, wire.SendIncluded},
		{300, wire.SendRefused}, {301, wire.SendRefused}, {302, wire.SendRefused}, {303, wire.SendRefused}, {304, wire.SendRefused}, {307, wire.SendRefused}, {308, wire.SendRefused},
		{400, wire.SendRefused}, {401, wire.SendRefused}, {403, wire.SendRefused}, {404, wire.SendRefused}, {405, wire.SendRefused}, {410, wire.SendRefused}, {413, wire.SendRefused},
		{408, wire.SendWaiting}, {425, wire.SendWaiting}, {429, wire.SendWaiting},
		{500, wire.SendWaiting}, {501, wire.SendWaiting}, {502, wire.SendWaiting}, {503, wire.SendWaiting}, {504, wire.SendWaiting}, {599, wire.SendWaiting},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			w, r := newWorld(t), newReceiver(t)
			r.do(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", elsewhere.URL)
				w.WriteHeader(c.status)
			})
			w.delivers(loopback, r, elsewhere)
			id, says := r.event(w, 1), fmt.Sprintf("HTTP status %d", c.status)
			if c.state == wire.SendIncluded {
				says = ""
			}
			w.until(id, c.state, says)
			if c.state == wire.SendWaiting {
				r.status(200)
				w.until(id, wire.SendIncluded, "")
			} else if n := len(r.bodies()); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
	if n := len(elsewhere.bodies()); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// TestWebhookConnections: what a receiver does to a connection is tried again.
func TestWebhookConnections(t *testing.T) {
	cut := func(then string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, b, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = b.WriteString(then)
			_ = b.Flush()
			_ = c.Close()
		}
	}
	for name, c := range map[string]struct {
		does func(http.ResponseWriter, *http.Request)
		says string
	}{
		"closed":        {cut(""), "no answer"},
		"no HTTP":       {cut("SSH-2.0\r\n"), "no answer"},
		"half":          {cut("HTTP/1.1 20"), "no answer"},
		"endless head":  {cut("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"), "no answer"},
		"many 1xx":      {cut(strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 10_000) + "HTTP/1.1 200 OK\r\n\r\n"), "no answer"},
		"status absent": {cut("HTTP/1.1\r\n\r\n"), "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := newWorld(t), newReceiver(t)
			r.do(c.does)
			w.delivers(loopback, r)
			id := r.event(w, 1)
			w.until(id, wire.SendWaiting, c.says)
			r.status(200)
			w.until(id, wire.SendIncluded, "")
		})
	}
	t.Run("another certificate", func(t *testing.T) {
		w, r := newWorld(t), newReceiver(t)
		w.delivers(loopback)
		w.until(r.event(w, 1), wire.SendWaiting, "a certificate that is not trusted")
		if n := len(r.bodies()); n != 0 {
			t.Errorf("told %d times", n)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		w, r := newWorld(t), newReceiver(t)
		w.delivers(&egress.Dialer{Loopback: true, Resolver: names{}}, r)
		w.until(w.event(r.id, "https://nobody.example/", 1), wire.SendWaiting, "no such host")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		w.until(w.event(r.id, "https://"+l.Addr().String(), 2), wire.SendWaiting, "connection refused")
	})
	t.Run("old TLS", func(t *testing.T) {
		w, r := newWorld(t), newReceiver(t)
		old := httptest.NewUnstartedServer(r)
		old.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
		old.StartTLS()
		defer old.Close()
		w.delivers(loopback, r)
		w.until(w.event(r.id, old.URL, 1), wire.SendWaiting, "no answer")
		if n := len(r.bodies()); n != 0 {
			t.Errorf("told %d times", n)
		}
	})
	t.Run("endless body", func(t *testing.T) {
		w, r := newWorld(t), newReceiver(t)
		r.do(func(w http.ResponseWriter, q *http.Request) {
			for chunk := make([]byte, 32<<10); q.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		})
		w.delivers(loopback, r)
		w.until(r.event(w, 1), wire.SendIncluded, "") // what it says is its status
	})
}

// TestWebhookSchedule: 1, 5 and 30 seconds, then ever longer, dead after some three
// days.
func TestWebhookSchedule(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	var mu sync.Mutex
	var times []time.Time
	r.do(func(x http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, w.now())
		x.WriteHeader(500)
	})
	w.stride = func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		switch { // the pauses are minutes, then hours
		case len(times) > 6:
			d = 4 * time.Minute
		case len(times) > 3:
			d = 20 * time.Second
		}
		return d
	}
	id := r.event(w, 1)
	stop := w.delivers(loopback, r)
	w.until(id, wire.SendRefused, "HTTP status 500")
	stop()
	tick := 1500 * time.Millisecond // how often is looked, and what it takes
	for i, want := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour} {
		most := want + tick
		if i >= 3 {
			most = want + want/4 + 15*time.Minute
		}
		if got := times[i+1].Sub(times[i]); got < want || got > most {
			t.Errorf("pause %d is %v, want %v to %v", i+1, got, want, most)
		}
	}
	if took := times[len(times)-1].Sub(times[0]); took < 70*time.Hour || took > 96*time.Hour || len(times) != 18 {
		t.Errorf("%d attempts in %v", len(times), took)
	}
	// An operator sends it again.
	r.status(200)
	if n, err := w.s.Resend(t.Context(), store.Resend{NowMs: uint64(w.now().UnixMilli()), Send: &id}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	w.delivers(loopback, r)
	w.until(id, wire.SendIncluded, "")
}

// TestWebhookOrder: of one activity in order, though the first comes through late;
// what is of others does not wait for it.
func TestWebhookOrder(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	var tries atomic.Int32
	r.do(func(x http.ResponseWriter, q *http.Request) {
		if q.Header.Get("X-Turnkey-Event-Id") == `{"activity":1,"seq":0}` && tries.Add(1) < 4 {
			x.WriteHeader(503)
		}
	})
	var last wire.SendID
	for i := range 6 {
		last = r.event(w, byte(1+i%2))
	}
	w.delivers(loopback, r)
	w.until(last, wire.SendIncluded, "")
	w.until(wire.SendID{Organization: last.Organization, Seq: 4}, wire.SendIncluded, "")
	of := map[string][]string{}
	for _, b := range r.bodies() {
		of[b[:13]] = append(of[b[:13]], b[13:])
	}
	if got := fmt.Sprint(of[`{"activity":1`]); got != `[,"seq":0} ,"seq":0} ,"seq":0} ,"seq":0} ,"seq":2} ,"seq":4}]` {
		t.Errorf("activity 1: %s", got)
	}
	if got := fmt.Sprint(of[`{"activity":2`]); got != `[,"seq":1} ,"seq":3} ,"seq":5}]` {
		t.Errorf("activity 2: %s", got)
	}
	// One that is dead holds up nothing.
	r.status(404)
	dead := r.event(w, 7)
	w.until(dead, wire.SendRefused, "404")
	r.status(200)
	w.until(r.event(w, 7), wire.SendIncluded, "")
}

// TestReceiverThatHangs: however much there is for receivers that hang, others hear at
// once, and those hold their own few places only.
func TestReceiverThatHangs(t *testing.T) {
	w := newWorld(t)
	w.steady = true
	var hang []*receiver
	for range 5 {
		h := newReceiver(t)
		h.hang(t)
		hang = append(hang, h)
		for i := range 40 {
			h.event(w, byte(i))
		}
	}
	good := newReceiver(t)
	w.delivers(loopback, append(hang, good)...)
	for _, h := range hang {
		clocktest.Until(t, "a request to a receiver that hangs", func() bool { return len(h.bodies()) > 0 })
	}
	var ids []wire.SendID
	for i := range 100 {
		ids = append(ids, good.event(w, byte(i)))
	}
	for _, id := range ids {
		w.until(id, wire.SendIncluded, "")
	}
	for i, h := range hang {
		if h.atOnce() > 8 || len(h.bodies()) == 0 {
			t.Errorf("receiver %d that hangs had %d requests at a time, %d in all", i, h.atOnce(), len(h.bodies()))
		}
	}
}

// TestReceiverThatWasLate gets one at a time afterwards.
func TestReceiverThatWasLate(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	w.steady = true
	r.do(func(http.ResponseWriter, *http.Request) { w.ahead(4 * time.Second) })
	for i := range 30 {
		r.event(w, byte(i))
	}
	w.delivers(loopback, r)
	for seq := range 30 {
		w.until(wire.SendID{Organization: w.organization, Seq: uint64(seq)}, wire.SendIncluded, "")
		if seq == 15 {
			r.mu.Lock()
			r.most = 0
			r.mu.Unlock()
		}
	}
	if r.atOnce() > 1 {
		t.Errorf("%d at a time", r.atOnce())
	}
}

// TestWebhookNotOpened: what the enclave does not open goes nowhere, and that it is
// away is no attempt.
func TestWebhookNotOpened(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	w.close(errAway)
	id := r.event(w, 1)
	w.delivers(loopback, r)
	w.until(id, wire.SendWaiting, "the enclave did not open it: away")
	w.passes(4 * time.Minute)
	w.close(nil)
	w.until(id, wire.SendIncluded, "")
	sends, err := w.s.ClaimSends(t.Context(), store.ClaimSends{Claimant: wire.ID{1}, NowMs: 1 << 61, UntilMs: 1 << 62, Limit: 1, Receiver: r.id})
	if err != nil || len(sends) != 0 {
		t.Fatalf("%+v, %v", sends, err)
	}
	w.close(errAway)
	opens := func(o *wire.Opened, activity byte) wire.SendID {
		id := r.event(w, activity)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.opens[id] = o; o == nil {
			delete(w.opens, id)
		}
		return id
	}
	gone, expired := opens(&wire.Opened{Found: true, Kind: wire.SendWebhook, Gone: true}, 2), opens(&wire.Opened{Found: true, Expired: true}, 3)
	none, other := opens(nil, 4), opens(&wire.Opened{Found: true, Kind: 77}, 5)
	w.close(nil)
	w.until(gone, wire.SendExpired, "nobody receives it any more")
	w.until(expired, wire.SendExpired, "its time has passed")
	w.until(none, wire.SendWaiting, "the enclave knows of no such event")
	w.until(other, wire.SendWaiting, "of a kind that this host does not know")
	if n := len(r.bodies()); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// TestDelivererThatDies: its claims are others' after a while, and nothing is lost.
func TestDelivererThatDies(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	for i := range 50 {
		r.event(w, byte(i))
	}
	// Somebody claims some and is heard of no more.
	now := uint64(w.now().UnixMilli())
	if sends, err := w.s.ClaimSends(t.Context(), store.ClaimSends{Claimant: wire.ID{7}, NowMs: now, UntilMs: now + 30_000, Limit: 20, Receiver: r.id}); err != nil || len(sends) != 20 {
		t.Fatal(len(sends), err)
	}
	stop := w.delivers(loopback, r)
	w.until(wire.SendID{Organization: w.organization, Seq: 49}, wire.SendIncluded, "")
	stop()
	w.delivers(loopback, r)
	w.delivers(loopback, r)
	for seq := range 50 {
		w.until(wire.SendID{Organization: w.organization, Seq: uint64(seq)}, wire.SendIncluded, "")
	}
	seen := map[string]bool{}
	for _, b := range r.bodies() {
		seen[b] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d of 50 events arrived", len(seen))
	}
}

// TestDelivererThatStops gives back what it holds at once.
func TestDelivererThatStops(t *testing.T) {
	w, r := newWorld(t), newReceiver(t)
	w.steady = true
	r.hang(t)
	id := r.event(w, 1)
	stop := w.delivers(loopback, r)
	clocktest.Until(t, "a request", func() bool { return len(r.bodies()) > 0 })
	stop()
	sends, err := w.s.ClaimSends(t.Context(), store.ClaimSends{Claimant: wire.ID{7}, NowMs: uint64(w.now().UnixMilli()), UntilMs: 1 << 61, Limit: 20, Receiver: r.id})
	if err != nil || len(sends) != 1 || sends[0].ID != id || sends[0].Tries != 0 {
		t.Fatalf("%+v, %v", sends, err)
	}
}
