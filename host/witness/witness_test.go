package witness_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/host/witness"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	sim "cloister/sim/witness"
	"cloister/sim/witness/witnesstest"
)

const origin = "log.example/00/0/1"

// hung is how long a test waits for what must come.
const hung = 5 * time.Minute

// key is the key of the i-th witness.
func key(i int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(10 + i)}, ed25519.SeedSize))
}

func name(i int) string { return fmt.Sprintf("w%d.example", i) }

// honest are witnesses of the simulator that know a log.
func honest(t testing.TB, l *witnesstest.Log, n int) (ws []*sim.Witness) {
	t.Helper()
	for i := range n {
		w, err := sim.New(sim.Options{Name: name(i), Key: key(i), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(l.Key); err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	return ws
}

func handlers(ws []*sim.Witness) (hs []http.Handler) {
	for _, w := range ws {
		hs = append(hs, w.Handler())
	}
	return hs
}

// policy is one of witnesses at some URLs.
func policy(t testing.TB, urls ...string) *tlog.Policy {
	t.Helper()
	text, members := "", ""
	for i, url := range urls {
		k, err := tlog.NewKey(name(i), tlog.TypeCosignature, key(i).Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		text, members = text+fmt.Sprintf("witness %s %s %s\n", k.Name(), k, url), members+" "+k.Name()
	}
	p, err := tlog.ParsePolicy(fmt.Sprintf("%sgroup all all%s\nquorum all\n", text, members))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A world is a client and what came of it.
type world struct {
	*witness.Client
	t      *testing.T
	policy *tlog.Policy
	came   chan witness.Cosignature
	paused atomic.Int64 // how often after a failure
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func start(t *testing.T, change func(*witness.Options), urls ...string) *world {
	t.Helper()
	w := &world{t: t, policy: policy(t, urls...), came: make(chan witness.Cosignature, 10_000)}
	transport := witness.NewTransport(nil)
	o := witness.Options{Policy: w.policy, Transport: transport, Timeout: hung, Now: time.Now, Cosigned: func(c witness.Cosignature) { w.came <- c },
		Pause: func(ctx context.Context, d time.Duration) { w.paused.Add(1); pause(ctx, d) }}
	if change != nil {
		change(&o)
	}
	var err error
	if w.Client, err = witness.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(hung):
			t.Error("it does not end")
		}
		transport.CloseIdleConnections()
	})
	return w
}

// serve serves witnesses, each at an address of its own.
func serve(t *testing.T, hs ...http.Handler) (urls []string) {
	t.Helper()
	for _, h := range hs {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	return urls
}

func (w *world) send(l *witnesstest.Log, size uint64) {
	w.t.Helper()
	if err := w.Send(l.Checkpoint(size), l.ProveTo(size)); err != nil {
		w.t.Fatal(err)
	}
}

// await takes n cosignatures of a size and verifies them together. Those of smaller ones may still come.
func (w *world) await(l *witnesstest.Log, size uint64, n int) {
	w.t.Helper()
	note, from := l.Checkpoint(size), map[string]bool{}
	for len(from) < n {
		select {
		case c := <-w.came:
			if c.Size < size {
				continue
			}
			if c.Size > size || from[c.Witness] {
				w.t.Fatalf("waiting for %d: %+v", size, c)
			}
			from[c.Witness], note = true, append(note, c.Line...)
		case <-time.After(hung):
			w.t.Fatalf("of %d: %d of %d cosignatures came: %+v", size, len(from), n, w.Statuses())
		}
	}
	if n < len(w.Statuses()) {
		return
	}
	if c, signed, err := w.policy.Verify(l.Key, note); err != nil || c.Size != size || len(signed) != n {
		w.t.Fatalf("%d of %d: %v", len(signed), n, err)
	}
}

// failure waits until a witness has failed.
func (w *world) failure(i int) error {
	w.t.Helper()
	var err error
	clocktest.Until(w.t, "a failure", func() bool { err = w.Statuses()[i].Err; return err != nil })
	return err
}

func TestRounds(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(700)
	var asked, connections atomic.Int64
	var urls []string
	for _, h := range handlers(honest(t, l, 4)) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			h.ServeHTTP(w, r)
		}))
		s.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		}
		s.Start()
		t.Cleanup(s.Close)
		urls = append(urls, s.URL+"/") // with or without a slash at the end
	}
	w := start(t, nil, urls...)
	sizes := []uint64{1, 1, 2, 3, 8, 255, 256, 257, 700, 700}
	for _, size := range sizes {
		var proofs atomic.Int64
		err := w.Send(l.Checkpoint(size), func(old uint64) ([]wire.Hash, error) {
			proofs.Add(1)
			if old == 0 || old >= size {
				t.Errorf("asked for a proof from %d to %d", old, size)
			}
			return l.ProveTo(size)(old)
		})
		if err != nil {
			t.Fatal(err)
		}
		w.await(l, size, 4)
		if proofs.Load() > 1 {
			t.Errorf("%d: the proof was asked for %d times", size, proofs.Load())
		}
	}
	if asked.Load() != int64(4*len(sizes)) || connections.Load() != 4 {
		t.Errorf("%d requests on %d connections", asked.Load(), connections.Load())
	}
	for i, s := range w.Statuses() {
		if s.Witness != name(i) || s.Size != 700 || s.Err != nil || s.Took <= 0 || time.Since(s.Signed) > hung {
			t.Errorf("%+v", s)
		}
	}
	// Another host knows nothing, asks once more and is there.
	again := start(t, nil, urls...)
	again.send(l, 700)
	again.await(l, 700, 4)
	if n := asked.Load() - int64(4*len(sizes)); n != 8 {
		t.Errorf("another host: %d requests", n)
	}
}

// A witness that lost its memory, or that another host has told more, is asked again from where it is.
func TestElsewhere(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(700)
	ws := honest(t, l, 1)
	urls := serve(t, handlers(ws)...)
	w, other := start(t, nil, urls...), start(t, nil, urls...)
	w.send(l, 5)
	w.await(l, 5, 1)
	other.send(l, 300)
	other.await(l, 300, 1)
	w.send(l, 100) // behind
	if err := w.failure(0); !strings.Contains(err.Error(), "has signed 300") || w.Statuses()[0].Size != 300 {
		t.Errorf("%v, %+v", err, w.Statuses())
	}
	w.send(l, 100)
	w.send(l, 500)
	w.await(l, 500, 1)
	if err := ws[0].Forget(); err != nil {
		t.Fatal(err)
	}
	w.send(l, 600)
	w.await(l, 600, 1)
	// A store that was put back: the witness stays where it is, and gets nothing else to sign until the log is as long.
	back := l.Fork(550).Grow(700)
	w.send(back, 590)
	if err := w.failure(0); !strings.Contains(err.Error(), "600") {
		t.Error(err)
	}
	w.send(back, 700)
	clocktest.Until(t, "a refusal of other leaves", func() bool { return strings.Contains(w.failure(0).Error(), "422") })
	if s := w.Statuses()[0]; !strings.Contains(s.Err.Error(), "422") || s.Size != 600 || len(w.came) > 0 {
		t.Errorf("%+v", s)
	}
}

// A slow witness holds up nobody, and gets the newest when it is free and nothing of what lies between.
func TestSlow(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(100)
	hs := handlers(honest(t, l, 4))
	held, entered := make(chan struct{}), make(chan string, 100)
	slow := hs[3]
	hs[3] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, note, _ := strings.Cut(string(b), "\n\n")
		entered <- strings.Split(note, "\n")[1]
		<-held
		r.Body = io.NopCloser(bytes.NewReader(b))
		slow.ServeHTTP(w, r)
	})
	w := start(t, nil, serve(t, hs...)...)
	for size := uint64(1); size <= 100; size++ {
		w.send(l, size)
		w.await(l, size, 3)
	}
	close(held)
	var late []uint64
	for range 2 {
		c := <-w.came
		late = append(late, c.Size)
		if c.Witness != name(3) {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(late, []uint64{1, 100}) || <-entered != "1" || <-entered != "100" || len(entered) > 0 {
		t.Errorf("it signed %v", late)
	}
}

// line is what a witness signs: true to its form, and nothing else is looked at.
func line(i int, change func([]byte) []byte) string {
	k, err := tlog.NewKey(name(i), tlog.TypeCosignature, key(i).Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	raw := append(binary.BigEndian.AppendUint32(nil, k.KeyHash()), make([]byte, 72)...)
	if change != nil {
		raw = change(raw)
	}
	return "— " + k.Name() + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
}

// What witnesses may answer instead of what they should. Nothing of it comes through.
func TestHostile(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	size := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.TrimSuffix(text, "\n"), http.StatusConflict)
		}
	}
	raw := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		asked  int64 // 0: at least once
	}{
		"nothing":                       {raw(200, ""), 1},
		"another witness's line":        {raw(200, line(1, nil)), 1},
		"a line of another key":         {raw(200, line(0, func(b []byte) []byte { b[0] ^= 1; return b })), 1},
		"a line that is short":          {raw(200, line(0, func(b []byte) []byte { return b[1:] })), 1},
		"a line that is long":           {raw(200, line(0, func(b []byte) []byte { return append(b, 0) })), 1},
		"a line with spare bits":        {raw(200, strings.Replace(line(0, nil), "AA==", "AB==", 1)), 1},
		"a line of three words":         {raw(200, strings.Replace(line(0, nil), "\n", " x\n", 1)), 1},
		"a hyphen":                      {raw(200, strings.Replace(line(0, nil), "—", "-", 1)), 1},
		"a line behind too much":        {raw(200, strings.Repeat("x\n", 32<<10)+line(0, nil)), 1},
		"too much behind a line":        {raw(200, line(0, nil)+strings.Repeat("x\n", 32<<10)), 1},
		"another status":                {raw(201, line(0, nil)), 1},
		"a conflict with a line":        {raw(409, line(0, nil)), 1},
		"a conflict without a size":     {raw(409, ""), 1},
		"a conflict with a long size":   {raw(409, strings.Repeat("9", 100)+"\n"), 1},
		"a conflict below zero":         {raw(409, "-1\n"), 1},
		"a conflict in another form":    {raw(409, "05\n"), 1},
		"a conflict in two lines":       {raw(409, "5\n5\n"), 1},
		"a conflict without a newline":  {raw(409, "5"), 1},
		"a conflict where it was asked": {size("0\n"), 1},
		"a conflict above":              {size("10\n"), 1},
		"a conflict far above":          {size("9223372036854775807\n"), 1},
		"a conflict without an end":     {size("5\n"), 2},
		"refused":                       {raw(403, line(0, nil)), 1},
		"broken":                        {raw(500, "x"), 1},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, 1},
		"a long header": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 64<<10))
			raw(200, line(0, nil))(w, r)
		}, 1},
		"an answer that hangs": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, line(0, nil))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 0},
		"an answer that breaks off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(c, "hello\r\n\r\n")
				_ = c.Close()
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			urls := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				_, _ = io.ReadAll(r.Body)
				c.answer(w, r)
			}))
			w := start(t, func(o *witness.Options) {
				if strings.Contains(name, "hangs") {
					o.Timeout = 200 * time.Millisecond
				}
			}, urls...)
			w.send(l, 9)
			clocktest.Until(t, "a question to the witness", func() bool { return asked.Load() > 0 })
			if err := w.failure(0); len(err.Error()) > 200 || strings.Contains(err.Error(), urls[0]) {
				t.Errorf("it says %q", err)
			}
			if len(w.came) > 0 || c.asked > 0 && asked.Load() != c.asked || w.Statuses()[0].Signed != (time.Time{}) {
				t.Errorf("asked %d times, %d lines, %+v", asked.Load(), len(w.came), w.Statuses()[0])
			}
		})
	}
}

// Of an answer with more than is wanted, only the witness's line comes through, once.
func TestLines(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	good := line(0, nil)
	for _, answer := range []string{good, good + good, line(1, nil) + good, "x\n\n" + good + "— x", strings.TrimSuffix(good, "\n")} {
		w := start(t, nil, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))...)
		w.send(l, 9)
		if c := <-w.came; c != (witness.Cosignature{Witness: name(0), Size: 9, Line: good}) {
			t.Errorf("%q gives %+v", answer, c)
		}
		w.send(l, 9)
		<-w.came
		if len(w.came) > 0 {
			t.Errorf("%q gives more than one line", answer)
		}
	}
}

// Where the host has no proof there is no request.
func TestWithoutProof(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	var asked atomic.Int64
	h := honest(t, l, 1)[0].Handler()
	w := start(t, nil, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h.ServeHTTP(w, r)
	}))...)
	w.send(l, 5)
	w.await(l, 5, 1)
	for _, prove := range []func(uint64) ([]wire.Hash, error){
		func(uint64) ([]wire.Hash, error) { return nil, errors.New("the store is away") },
		func(uint64) ([]wire.Hash, error) { return make([]wire.Hash, 64), nil },
	} {
		if err := w.Send(l.Checkpoint(9), prove); err != nil {
			t.Fatal(err)
		}
		if err := w.failure(0); !strings.Contains(err.Error(), "proof") || asked.Load() != 1 {
			t.Error(err, asked.Load())
		}
		w.send(l, 5)
		w.await(l, 5, 1)
		asked.Store(1)
	}
}

// A witness that is away costs the others nothing and is there again by itself.
func TestAway(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(20_000)
	hs := handlers(honest(t, l, 3))
	var away atomic.Bool
	there := hs[2]
	hs[2] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		there.ServeHTTP(w, r)
	})
	w := start(t, nil, serve(t, hs...)...)
	size := uint64(0)
	for range 5 {
		away.Store(true)
		for range 20 {
			size++
			w.send(l, size)
			w.await(l, size, 2)
		}
		_ = w.failure(2)
		away.Store(false)
		clocktest.Until(t, "a witness that is there again", func() bool { return w.Statuses()[2].Err == nil })
		size++
		w.send(l, size)
		w.await(l, size, 3)
	}
	if n := w.paused.Load(); n < 5 || n > 100 {
		t.Errorf("%d pauses", n)
	}
}

// A witness that fails signs what it was sent last once it can, though nothing more is sent.
func TestSentOnce(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(10)
	hs := handlers(honest(t, l, 1))
	var asked atomic.Int64
	there := hs[0]
	hs[0] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		there.ServeHTTP(w, r)
	})
	w := start(t, nil, serve(t, hs...)...)
	w.send(l, 10)
	w.await(l, 10, 1)
}

// A witness that closes a connection between two requests has not failed.
func TestConnectionClosed(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(100)
	s := httptest.NewServer(honest(t, l, 1)[0].Handler())
	defer s.Close()
	w := start(t, nil, s.URL)
	for size := uint64(1); size <= 100; size++ {
		w.send(l, size)
		w.await(l, size, 1)
		s.CloseClientConnections()
	}
	if n := w.paused.Load(); n > 0 {
		t.Errorf("%d failures", n)
	}
}

func TestRefused(t *testing.T) {
	for _, url := range []string{
		"", "w.example", "//w.example", "ftp://w.example", "unix:/tmp/w", "http://", "http:///x", "http://u@w.example", "http://u:p@w.example", "http://w.example?",
		"http://w.example/?q", "http://w.example:port", "http://[", "http://w.example/%zz",
	} {
		if _, err := witness.New(witness.Options{Policy: policy(t, url), Timeout: time.Second}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	if _, err := witness.New(witness.Options{Policy: policy(t, "http://w.example")}); err == nil {
		t.Error("no timeout was taken")
	}
	l := witnesstest.NewLog(origin).Grow(5)
	w := start(t, nil, "http://127.0.0.1:1")
	good := l.Checkpoint(5)
	for _, b := range [][]byte{nil, good[1:], good[:20], bytes.Replace(good, []byte("\n\n"), []byte("\n"), 1), bytes.Replace(good, []byte("\n5\n"), []byte("\n05\n"), 1), append(bytes.Clone(good), make([]byte, tlog.MaxNote)...)} {
		if err := w.Send(b, l.ProveTo(5)); err == nil && !bytes.Equal(b, good[1:]) { // an origin may be any name
			t.Errorf("%q was taken", b)
		}
	}
}

// answers stands for the network: it gives any answer at once.
type answers struct {
	status int
	body   []byte
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r}, nil
}

// Whatever comes in, what is handed on is one line in the witness's name, or nothing.
func FuzzAnswer(f *testing.F) {
	l := witnesstest.NewLog(origin).Grow(9)
	for _, b := range []string{line(0, nil), line(1, nil) + line(0, nil), "5\n", "0\n", ""} {
		f.Add(200, []byte(b))
		f.Add(409, []byte(b))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		var mu sync.Mutex
		var lines []string
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c, err := witness.New(witness.Options{Policy: policy(t, "http://w.example"), Transport: answers{status, body}, Timeout: hung, Now: time.Now,
			Cosigned: func(c witness.Cosignature) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, c.Line)
				stop()
			},
			Pause: func(context.Context, time.Duration) { stop() }})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(l.Checkpoint(9), l.ProveTo(9)); err != nil {
			t.Fatal(err)
		}
		c.Run(ctx)
		if s := c.Statuses()[0]; (s.Err == nil) != (len(lines) == 1) || len(lines) > 1 {
			t.Errorf("%q, %+v", lines, s)
		}
		for _, got := range lines {
			if good := line(0, nil); len(got) != len(good) || got[:len("— "+name(0)+" ")+5] != good[:len("— "+name(0)+" ")+5] || status != 200 {
				t.Errorf("%q of %q", got, body)
			}
		}
	})
}
