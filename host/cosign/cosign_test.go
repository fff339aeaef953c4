package cosign_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloister/attestation/tlog"
	"cloister/host/cosign"
	"cloister/host/leaves/leavestest"
	"cloister/host/store"
	"cloister/host/store/postgres"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/host/witness"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	sim "cloister/sim/witness"
	"cloister/sim/witness/witnesstest"
)

// hung bounds a wait that ends a test.
const hung = 5 * time.Minute

// A history is what an enclave has put into one range's log, and the log's key.
type history struct {
	*leavestest.History
	key   *witnesstest.Log // which signs; its own leaves are not looked at
	table uint64           // what a tip table in the store covers; 0: there is none
}

func begin(in wire.Range, generation uint32) *history {
	return &history{History: leavestest.New(in, generation), key: witnesstest.NewLog(fmt.Sprintf("log.example/00/%d/%d", in, generation))}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (h *history) size() uint64 { return h.Size() }

func (h *history) grow(n int) *history {
	h.Grow(n)
	return h
}

func (h *history) fork(size int) *history {
	return &history{History: h.Fork(size), key: witnesstest.NewLog(h.key.Key.Name())}
}

func (h *history) checkpoint(size uint64) []byte {
	c := tlog.Checkpoint{Origin: h.key.Key.Name(), Size: size, Root: h.Roots[size]}
	return h.key.Sign(c.Text())
}

// A disk is a real store that can be replaced by another, as restoring a backup or a failover does.
type disk struct {
	t testing.TB

	server *storetest.Server // of PostgreSQL; nil: stores are SQLite

	mu     sync.Mutex
	store  store.Store
	counts map[wire.Range]int // of rows stored
	away   atomic.Bool
	read   atomic.Int64                  // headers
	old    atomic.Pointer[chan struct{}] // until it is closed, nothing is read before epoch 40
}

var errAway = errors.New("the store is away")

func (d *disk) LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error) {
	if d.away.Load() {
		return wire.Headers{}, errAway
	}
	if old := d.old.Load(); old != nil && ask.Epoch < 40 {
		select {
		case <-*old:
		case <-ctx.Done():
			return wire.Headers{}, ctx.Err()
		}
	}
	got, err := d.current().LoadHeaders(ctx, ask)
	d.read.Add(int64(len(got.Headers)))
	return got, err
}

func (d *disk) LoadTable(ctx context.Context, ask wire.LoadTable) (wire.TipTable, error) {
	if d.away.Load() {
		return wire.TipTable{}, errAway
	}
	return d.current().LoadTable(ctx, ask)
}

func (d *disk) PutCheckpoint(ctx context.Context, c store.Checkpoint) error {
	if d.away.Load() {
		return errAway
	}
	return d.current().PutCheckpoint(ctx, c)
}

func (d *disk) LoadCheckpoints(ctx context.Context) ([]store.Checkpoint, error) {
	return d.current().LoadCheckpoints(ctx)
}

func (d *disk) HeaderOf(ctx context.Context, organization wire.ID, seq uint64) ([]byte, error) {
	if d.away.Load() {
		return nil, errAway
	}
	return d.current().HeaderOf(ctx, organization, seq)
}

func (d *disk) current() store.Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.store
}

// replace puts a store in the place of the one before, which holds these histories.
func (d *disk) replace(all ...*history) {
	d.t.Helper()
	var rows []store.Row
	for _, h := range all {
		if len(h.Rows) > 0 {
			rows = append(rows, h.Owner())
		}
	}
	counts := map[wire.Range]int{}
	for _, h := range all {
		for _, r := range h.Rows {
			rows = append(rows, r)
		}
		counts[h.Range] = len(h.Rows)
	}
	for _, h := range all {
		if h.table > 0 {
			rows = append(rows, h.Table(h.table))
		}
	}
	d.fill(rows, counts)
}

func (d *disk) fill(rows []store.Row, counts map[wire.Range]int) {
	d.t.Helper()
	var s store.Store
	var err error
	if d.server != nil {
		s, err = postgres.Open(d.t.Context(), d.server.Database())
	} else {
		s, err = sqlite.Open(d.t.Context(), filepath.Join(d.t.TempDir(), "store"))
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close() })
	if err := s.Import(d.t.Context(), func() (store.Row, error) {
		if len(rows) == 0 {
			return nil, io.EOF
		}
		r := rows[0]
		rows = rows[1:]
		return r, nil
	}); err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.store, d.counts = s, counts
	d.mu.Unlock()
}

// append stores what a history has more than the store, as an enclave does.
func (d *disk) append(h *history) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range h.Rows[d.counts[h.Range]:] {
		look := must(d.store.Own(d.t.Context(), wire.Own{Action: wire.OwnLook, Range: h.Range}))
		for look.Epoch < r.Epoch {
			look = must(d.store.Own(d.t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{1}, Expect: look.Epoch, Range: h.Range}))
		}
		got, err := d.store.Append(d.t.Context(), &wire.Batch{Boot: wire.ID{1}, Range: h.Range, Epoch: r.Epoch, Number: r.Number, Header: r.Header})
		if err != nil || got.Verdict != wire.VerdictStored {
			d.t.Fatalf("%+v %v", got, err)
		}
	}
	d.counts[h.Range] = len(h.Rows)
}

// A listener takes connections of this process, which a bubble knows of.
type listener struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var listeners sync.Map // by address

func listen(host string) *listener {
	l := &listener{name: fmt.Sprintf("%s:%d", host, opened.Add(1)), conns: make(chan net.Conn), closed: make(chan struct{})}
	listeners.Store(l.name, l)
	return l
}

var opened atomic.Int64

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed); listeners.Delete(l.name) })
	return nil
}

func (l *listener) Addr() net.Addr  { return l }
func (l *listener) Network() string { return "memory" }
func (l *listener) String() string  { return l.name }

func dial(ctx context.Context, _, address string) (net.Conn, error) {
	l, ok := listeners.Load(address)
	if !ok {
		return nil, errors.New("nobody listens at " + address)
	}
	ours, theirs := net.Pipe()
	select {
	case l.(*listener).conns <- theirs:
		return ours, nil
	case <-l.(*listener).closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A watcher is a witness behind HTTP that can be made slow, or be away.
type watcher struct {
	*sim.Witness
	url   string
	away  atomic.Bool
	asked atomic.Int64
	held  atomic.Pointer[chan struct{}] // until it is closed, requests wait
}

func watchers(t testing.TB, n int, logs ...*history) (all []*watcher) {
	t.Helper()
	for i := range n {
		w := &watcher{Witness: must(sim.New(sim.Options{Name: fmt.Sprintf("w%d.example", i), Now: time.Now,
			Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(10 + i)}, ed25519.SeedSize))}))}
		for _, h := range logs {
			if err := w.Add(h.key.Key); err != nil {
				t.Fatal(err)
			}
		}
		inner := w.Handler()
		s := &httptest.Server{Listener: listen(fmt.Sprintf("w%d.example", i)), Config: &http.Server{Handler: http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
			w.asked.Add(1)
			if w.away.Load() {
				panic(http.ErrAbortHandler)
			}
			if held := w.held.Load(); held != nil {
				b, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(b))
				select {
				case <-*held:
				case <-r.Context().Done():
					return
				}
			}
			inner.ServeHTTP(a, r)
		})}}
		s.Start()
		t.Cleanup(s.Close)
		w.url = s.URL
		all = append(all, w)
	}
	return all
}

func (w *watcher) hold() (release func()) {
	held := make(chan struct{})
	w.held.Store(&held)
	return sync.OnceFunc(func() { w.held.Store(nil); close(held) })
}

// policy is k of some witnesses.
func policy(k int, all []*watcher) string {
	text, names := "", ""
	for _, w := range all {
		text += fmt.Sprintf("witness %s %s %s\n", w.Key().Name(), w.Key(), w.url)
		names += " " + w.Key().Name()
	}
	return fmt.Sprintf("%sgroup all %d%s\nquorum all\n", text, k, names)
}

// A world is a Cosigner between a store and witnesses.
type world struct {
	*cosign.Cosigner
	t    testing.TB
	disk *disk
	log  *lines
	late atomic.Int64 // by how much its clock is ahead
	// timeout is of a round: one that finds a quorum ends before.
	timeout time.Duration

	mu     sync.Mutex
	counts map[cosign.Result]int
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (w *world) Round(_ wire.Range, r cosign.Result, _ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[r]++
}

func (w *world) count(r cosign.Result) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[r]
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d / 10):
	}
}

func start(t testing.TB, d *disk, timeout time.Duration) *world {
	t.Helper()
	w := &world{t: t, disk: d, log: new(lines), timeout: timeout, counts: map[cosign.Result]int{}}
	transport := witness.NewTransport(nil)
	transport.DialContext = dial
	w.Cosigner = must(cosign.New(cosign.Options{Store: d, Checkpoints: d, Transport: transport, Timeout: timeout, Log: slog.New(slog.NewTextHandler(w.log, nil)), Observer: w,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.late.Load())) }, Pause: pause}))
	t.Cleanup(func() { w.Close(); transport.CloseIdleConnections() })
	return w
}

func (w *world) ask(h *history, size uint64, policy string) ([]string, error) {
	got, err := w.Witness(w.t.Context(), wire.Witness{Range: h.Range, Policy: policy, Checkpoint: h.checkpoint(size)})
	return got.Lines, err
}

// cosigned has the whole history cosigned, and verifies it as the enclave does.
func (w *world) cosigned(h *history, text string) []string {
	w.t.Helper()
	began := time.Now()
	got, err := w.ask(h, h.size(), text)
	if took := time.Since(began); err != nil || took >= w.timeout {
		w.t.Fatalf("after %v: %v", took, err)
	}
	note := append(h.checkpoint(h.size()), strings.Join(got, "")...)
	if c, _, err := must(tlog.ParsePolicy(text)).VerifyExactly(h.key.Key, note); err != nil || c.Size != h.size() {
		w.t.Fatalf("%d leaves, %d lines: %v", h.size(), len(got), err)
	}
	return got
}

func newDisk(t testing.TB, all ...*history) *disk {
	t.Helper()
	d := &disk{t: t}
	d.replace(all...)
	return d
}

// stored are the tests in which the store matters.
var stored = map[string]func(*testing.T, *disk){"growth": testGrowth, "restart": testRestart, "kept": testKept, "proofs": testProveLogged}

func TestSQLite(t *testing.T) {
	for name, test := range stored {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, &disk{t: t}) }) })
	}
}

func TestPostgres(t *testing.T) {
	server := storetest.StartPostgres(t)
	for name, test := range stored {
		t.Run(name, func(t *testing.T) { test(t, &disk{t: t, server: server}) })
	}
}

// A log that grows batch by batch, and by many, over epochs; the host is restarted now and then.
func testGrowth(t *testing.T, d *disk) {
	h := begin(3, 1)
	d.replace(h)
	ws := watchers(t, 4, h)
	text := policy(3, ws)
	var w *world
	each := 20
	if testing.Short() {
		each = 5
	}
	for i := range 3 * each {
		if i%each == 0 {
			w = start(t, d, hung)
		}
		h.grow([]int{1, 1, 2, 50, 257}[i%5])
		d.append(h)
		w.cosigned(h, text)
	}
	if w.count(cosign.Quorum) != each || len(w.counts) != 1 {
		t.Errorf("%v", w.counts)
	}
	all := w.Statuses()
	if len(all) != 1 || all[0].Range != 3 || all[0].Size != h.size() || all[0].Cosigned != h.size() || len(all[0].Witnesses) != 4 {
		t.Errorf("%+v", all)
	}
}

// The answer does not wait for witnesses that are not needed; these sign when they can.
func TestQuorumIsEnough(t *testing.T) { synctest.Test(t, testQuorumIsEnough) }

func testQuorumIsEnough(t *testing.T) {
	h := begin(0, 1).grow(10)
	ws := watchers(t, 4, h)
	w := start(t, newDisk(t, h), hung)
	release := ws[1].hold()
	defer release()
	if n := len(w.cosigned(h, policy(3, ws))); n != 3 {
		t.Errorf("%d lines", n)
	}
	owing := func() (n int) {
		for _, s := range w.Statuses()[0].Witnesses {
			if s.Owing > 0 {
				n++
			}
		}
		return n
	}
	w.late.Store(int64(time.Hour))
	if s := w.Statuses()[0].Witnesses[1]; owing() != 1 || s.Owing < time.Hour || s.Owing > time.Hour+hung || !s.Signed.IsZero() {
		t.Errorf("%+v", s)
	}
	release()
	clocktest.Until(t, "a witness that owes nothing", func() bool { return owing() == 0 })
}

// A witness that was away when the last round was signs when it is there again, though nothing happens in the log.
func TestNothingHappens(t *testing.T) { synctest.Test(t, testNothingHappens) }

func testNothingHappens(t *testing.T) {
	h := begin(0, 1).grow(10)
	ws := watchers(t, 4, h)
	w := start(t, newDisk(t, h), hung)
	ws[1].away.Store(true)
	w.cosigned(h, policy(3, ws))
	ws[1].away.Store(false)
	clocktest.Until(t, "a witness that is there again", func() bool {
		s := w.Statuses()[0].Witnesses[1]
		return s.Size == 10 && s.Owing == 0 && s.Err == nil
	})
}

// Without a quorum the answer comes in time, with what there is, and lines of another size are not in it.
func TestShort(t *testing.T) { synctest.Test(t, testShort) }

func testShort(t *testing.T) {
	h := begin(0, 1).grow(300)
	d, ws := newDisk(t, h), watchers(t, 4, h)
	text := policy(3, ws)
	w := start(t, d, 500*time.Millisecond)
	if got, err := w.ask(h, 299, text); err != nil || len(got) < 3 {
		t.Fatal(got, err)
	}
	ws[0].away.Store(true)
	release := ws[2].hold()
	began := time.Now()
	got, err := w.ask(h, 300, text)
	if err != nil || len(got) != 2 || w.count(cosign.Short) != 1 {
		t.Fatal(got, err, w.counts)
	}
	if took := time.Since(began); took != 500*time.Millisecond {
		t.Errorf("the answer came after %v", took)
	}
	if s := w.Statuses()[0]; s.Size != 300 || s.Cosigned != 299 {
		t.Errorf("%+v", s)
	}
	if text := w.log.String(); !strings.Contains(text, "witness does not sign") || !strings.Contains(text, "w0.example") || strings.Contains(text, "w1.example") {
		t.Error(text)
	}
	h.grow(1)
	d.append(h)
	ws[0].away.Store(false)
	release() // its line for 300 comes now
	for len(got) < 3 {
		if got, err = w.ask(h, 301, text); err != nil {
			t.Fatal(err)
		}
	}
	w.cosigned(h, text)
}

// Witnesses that have seen any part of the log, or none of it, come to its head, also where their place is read again from the store.
func TestLag(t *testing.T) { synctest.Test(t, testLag) }

func testLag(t *testing.T) {
	d := &disk{t: t}
	size := 20_000
	if testing.Short() {
		size = 1_500
	}
	h := begin(1, 1).grow(size)
	ws := watchers(t, 16, h)
	d.replace(h)
	random := rand.New(rand.NewPCG(1, 2))
	end := uint64(size)
	seen := []uint64{1, 255, 256, 257, 511, 512, 513, end - 1, end}
	for len(seen) < 15 {
		seen = append(seen, 1+random.Uint64N(end))
	}
	first := start(t, d, hung)
	for i, size := range seen {
		if got, err := first.ask(h, size, policy(1, ws[i:i+1])); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
	}
	for _, table := range []uint64{0, 1000, end * 3 / 4, end - 1} { // the last one has seen nothing
		h.table = table
		d.replace(h)
		h.Epoch, h.Number = h.Epoch+1, 0
		w := start(t, d, hung)
		w.cosigned(h, policy(16, ws))
		h.grow(1 + int(random.Uint64N(end/28)))
		d.append(h)
		w.cosigned(h, policy(16, ws))
	}
	// One is away while much is added, and then proves itself from far back.
	w := start(t, d, hung)
	ws[5].away.Store(true)
	for range 20 {
		h.grow(size / 40)
		d.append(h)
		w.cosigned(h, policy(15, ws))
	}
	ws[5].away.Store(false)
	w.cosigned(h, policy(16, ws))
}

// A restarted host reads the headers behind the newest tip table before its first round, and those before it when a witness
// has not come that far: of them, where it is only a little behind, few.
func testRestart(t *testing.T, d *disk) {
	const table, size = 19_700, 20_000
	h := begin(0, 1).grow(size)
	h.table = table
	d.replace(h)
	ws := watchers(t, 6, h)
	first := start(t, d, hung)
	for i, seen := range []uint64{size - 1, size - 1, size - 1, table - 10, 5} {
		if got, err := first.ask(h, seen, policy(1, ws[i:i+1])); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
	}
	for _, c := range []struct {
		name string
		with []*watcher
		most int64 // headers read
	}{
		{"some leaves behind", ws[:3], size - table},
		{"none of it seen", ws[5:], size - table},
		{"a little before the table", ws[3:4], size - table + 3*256},
		{"from the beginning", ws[4:5], size + 4*256},
	} {
		d.read.Store(0)
		w := start(t, d, hung)
		w.cosigned(h, policy(len(c.with), c.with))
		if read := d.read.Load(); read < size-table || read > c.most {
			t.Errorf("%s: %d headers read, want at most %d", c.name, read, c.most)
		}
		w.Close()
	}
}

// A witness that is far behind takes its time, and holds up no other.
func TestFarBehind(t *testing.T) { synctest.Test(t, testFarBehind) }

func testFarBehind(t *testing.T) {
	h := begin(0, 1).grow(5000)
	h.table = 4900
	ws := watchers(t, 4, h)
	d := newDisk(t, h)
	if got, err := start(t, d, hung).ask(h, 5, policy(1, ws[3:])); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	for i := range 3 {
		if got, err := start(t, d, hung).ask(h, 4990, policy(1, ws[i:i+1])); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
	}
	held := make(chan struct{})
	d.old.Store(&held)
	w := start(t, d, hung)
	for range 3 {
		w.cosigned(h, policy(3, ws))
		d.append(h.grow(1))
	}
	close(held)
	clocktest.Until(t, "a witness that was far behind", func() bool { return w.Statuses()[0].Witnesses[3].Size >= 5000 })
}

// A tip table that does not stand where it says costs a round: the log is read from its first leaf then.
func TestTableOfNothing(t *testing.T) { synctest.Test(t, testTableOfNothing) }

func testTableOfNothing(t *testing.T) {
	h := begin(0, 1).grow(1000)
	ws := watchers(t, 1, h)
	other := begin(0, 1)
	other.Branch = 1
	other.grow(901)
	for name, row := range map[string]*store.TableRow{
		"no table":         {Table: []byte("table")},
		"another's":        other.Table(900),
		"of another place": {Table: must(wire.Marshal(&wire.KeptTable{Format: wire.KeptFormat, Covers: 7, Edge: make([]byte, 3*32), Epoch: 5, Number: 1}))},
		"of no leaves":     {Table: must(wire.Marshal(&wire.KeptTable{Format: wire.KeptFormat}))},
	} {
		d := &disk{t: t}
		rows := []store.Row{h.Owner()}
		for _, r := range h.Rows {
			rows = append(rows, r)
		}
		d.fill(append(rows, row), nil)
		w := start(t, d, hung)
		if got, err := w.ask(h, 1000, policy(1, ws)); name == "another's" == (err == nil) {
			t.Errorf("%s: %v %v", name, got, err)
		}
		w.late.Add(int64(time.Minute))
		w.cosigned(h, policy(1, ws))
	}
}

// A store that lost its last commit: what the log signed over it is brought to nobody.
func TestLost(t *testing.T) { synctest.Test(t, testLost) }

func testLost(t *testing.T) {
	h := begin(0, 1).grow(700)
	ws := watchers(t, 4, h)
	text := policy(3, ws)
	d := newDisk(t, h.fork(699))
	w := start(t, d, hung)
	refused := func(why string) {
		t.Helper()
		got, err := w.ask(h, 700, text)
		if err == nil || !strings.Contains(err.Error(), "does not have what the log signed") || !strings.Contains(err.Error(), why) {
			t.Fatal(got, err)
		}
	}
	refused("699 of 700 leaves")
	d.replace(h.fork(699).grow(1))
	refused("another root")
	d.replace(h.fork(3).grow(1000))
	refused("another root") // of what was read before; it may be read anew later
	w.late.Add(int64(time.Minute))
	refused("another root")
	d.replace(h)
	w.late.Add(int64(time.Minute))
	if asked := ws[0].asked.Load() + ws[1].asked.Load() + ws[2].asked.Load() + ws[3].asked.Load(); asked != 0 || w.count(cosign.Lost) != 4 {
		t.Errorf("%d questions, %v", asked, w.counts)
	}
	w.cosigned(h, text)
}

// Another store in the place of the one that was read: the host goes on from there, and the witnesses decide.
func TestReplaced(t *testing.T) { synctest.Test(t, testReplaced) }

func testReplaced(t *testing.T) {
	h := begin(0, 1).grow(1000)
	ws := watchers(t, 4, h)
	text := policy(3, ws)
	d := newDisk(t, h)
	w := start(t, d, time.Second)
	w.cosigned(h, text)
	for n, size := range []uint64{999, 1000, 1001, 2000} {
		back := h.fork(900)
		back.grow(int(size) - 900)
		d.replace(back)
		w.late.Add(int64(time.Minute))
		got, err := w.ask(back, size, text)
		if err != nil || len(got) != 0 || w.count(cosign.Short) != n+1 {
			t.Fatal(size, got, err, w.counts)
		}
		for _, s := range w.Statuses()[0].Witnesses {
			if s.Err == nil || s.Size != 1000 && size < 1000 || s.Other != (size >= 1000) {
				t.Errorf("%d: %+v", size, s)
			}
		}
	}
	if !strings.Contains(w.log.String(), "it says that it has signed 1000 leaves; the checkpoint has 999") {
		t.Error(w.log)
	}
	d.replace(h.grow(5))
	w.late.Add(int64(time.Minute))
	w.cosigned(h, text)
}

// An old part of the store that is another than before proves nothing, and does not stop the others.
func TestOldPartChanged(t *testing.T) { synctest.Test(t, testOldPartChanged) }

func testOldPartChanged(t *testing.T) {
	h := begin(0, 1).grow(10_000)
	ws := watchers(t, 4, h)
	d := newDisk(t, h)
	if got, err := start(t, d, hung).ask(h, 5, policy(1, ws[3:])); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	w := start(t, d, hung)
	ws[3].away.Store(true)
	if got, err := w.ask(h, 10_000, policy(3, ws)); err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	other := begin(0, 1)
	other.Branch = 1
	other.grow(10_000)
	other.Rows = append(other.Rows[:300:300], h.Rows[300:]...)
	d.replace(other)
	ws[3].away.Store(false)
	if got, err := w.ask(h, 10_000, policy(3, ws)); err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	clocktest.Until(t, "a witness for which there is no proof", func() bool {
		if got, err := w.ask(h, 10_000, policy(3, ws)); err != nil || len(got) != 3 {
			t.Fatal(got, err)
		}
		err := w.Statuses()[0].Witnesses[3].Err
		return err != nil && strings.Contains(err.Error(), "others than before")
	})
}

// Ranges do not see each other, nor do generations of one log; headers of before logs are passed over.
func TestRangesAndGenerations(t *testing.T) { synctest.Test(t, testRangesAndGenerations) }

func testRangesAndGenerations(t *testing.T) {
	all := []*history{begin(0, 1).grow(400), begin(1, 1).grow(10), begin(63, 1).grow(1)}
	next := begin(0, 2)
	ws := watchers(t, 8, append(all, next)...)
	d := &disk{t: t}
	var rows []store.Row
	for _, h := range all {
		rows = append(rows, &store.OwnerRow{Range: uint32(h.Range), Boot: wire.ID{1}, Epoch: 50, Released: true})
	}
	for _, h := range all {
		for i := range 5000 {
			epoch, number := uint64(1+i/3000), uint64(1+i%3000)
			b := must(wire.Marshal(&leavestest.HeaderBeforeLogs{Format: 1, BootNumber: 1, Epoch: epoch, Number: number, Tips: make([]wire.Tip, i%4), Range: h.Range}))
			rows = append(rows, &store.BatchRow{Range: uint32(h.Range), Epoch: epoch, Number: number, Header: b})
		}
		moved := leavestest.New(h.Range, h.Generation)
		moved.Epoch = 7 // behind those
		moved.Grow(len(h.Rows))
		h.History = moved
		for _, r := range h.Rows {
			rows = append(rows, r)
		}
		if h.Range == 0 {
			next.Epoch, next.Number = h.Epoch+1, 0
			next.grow(300)
			for _, r := range next.Rows {
				rows = append(rows, r)
			}
		}
	}
	d.fill(rows, nil)
	w := start(t, d, hung)
	var asks sync.WaitGroup
	for range 3 {
		for _, h := range all {
			asks.Go(func() {
				if got, err := w.ask(h, h.size(), policy(3, ws[:4])); err != nil || len(got) < 3 {
					t.Error(got, err)
				}
			})
		}
		asks.Go(func() {
			if got, err := w.ask(next, next.size(), policy(3, ws[4:])); err != nil || len(got) < 3 {
				t.Error(got, err)
			}
		})
	}
	asks.Wait()
	w.cosigned(all[0], policy(3, ws[:4]))
	w.cosigned(next, policy(3, ws[4:]))
	got := w.Statuses()
	if len(got) != 3 || got[0].Size != 300 || got[1].Size != 10 || got[2].Size != 1 || got[0].Witnesses[0].Witness != "w4.example" {
		t.Errorf("%+v", got)
	}
}

// Many ask at once about one log, newer and older sizes: nobody gets a line of another size, and the newest comes through.
func TestManyAsk(t *testing.T) { synctest.Test(t, testManyAsk) }

func testManyAsk(t *testing.T) {
	h := begin(0, 1).grow(2000)
	ws := watchers(t, 4, h)
	text := policy(3, ws)
	w := start(t, newDisk(t, h), 400*time.Millisecond)
	for _, err := w.ask(h, 1, text); err != nil; _, err = w.ask(h, 1, text) { // until the log is read
	}
	p := must(tlog.ParsePolicy(policy(1, ws)))
	var asks sync.WaitGroup
	for i := range 8 {
		asks.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for range 10 {
				size := 1 + random.Uint64N(2000)
				got, err := w.ask(h, size, text)
				if err != nil {
					t.Error(err)
					return
				}
				note := append(h.checkpoint(size), strings.Join(got, "")...)
				if c, signed, err := p.Verify(h.key.Key, note); len(got) > 0 && (err != nil || c.Size != size || len(signed) != len(got)) {
					t.Error(size, err)
				}
			}
		})
	}
	asks.Wait()
	w.cosigned(h, text)
}

// What the log signed newest is in the store within some time, and when the host ends; cosigned is what verifies as such.
func testKept(t *testing.T, d *disk) {
	h := begin(2, 7).grow(300)
	d.replace(h)
	ws := watchers(t, 4, h)
	text := policy(3, ws)
	w := start(t, d, hung)
	// short asks, for a second each time, until so many lines have come. Those of the time before count.
	short := func(size uint64, lines int) {
		t.Helper()
		clocktest.Until(t, fmt.Sprintf("%d lines for %d leaves", lines, size), func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got, err := w.Witness(ctx, wire.Witness{Range: h.Range, Policy: text, Checkpoint: h.checkpoint(size)})
			if len(got.Lines) > lines || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%d leaves: %d lines, want %d: %v", size, len(got.Lines), lines, err)
			}
			return len(got.Lines) == lines
		})
	}
	kept := func(size, cosigned uint64) bool {
		t.Helper()
		all := must(d.LoadCheckpoints(t.Context()))
		if len(all) == 0 {
			return false
		}
		c := all[0]
		if len(all) != 1 || c.Range != 2 || c.Generation != 7 || c.Policy != text || !bytes.Equal(c.Signed, h.checkpoint(c.Size)) {
			t.Fatalf("%+v", all)
		}
		if c.CosignedSize > 0 {
			if got, _, err := must(tlog.ParsePolicy(text)).VerifyExactly(h.key.Key, c.Cosigned); err != nil || got.Size != c.CosignedSize {
				t.Fatalf("%d leaves: %v", c.CosignedSize, err)
			}
		}
		return c.Size == size && c.CosignedSize == cosigned
	}
	await := func(size, cosigned uint64) {
		t.Helper()
		clocktest.Until(t, fmt.Sprintf("a stored checkpoint of %d leaves", size), func() bool { return kept(size, cosigned) })
	}
	w.cosigned(h, text)
	await(300, 300)
	h.Epoch, h.Number = h.Epoch+1, 0
	d.append(h.grow(20))
	ws[0].away.Store(true)
	ws[1].away.Store(true)
	short(320, 2)
	await(320, 300)
	d.append(h.grow(5))
	ws[0].away.Store(false)
	short(325, 3)
	w.Close()
	if !kept(325, 325) {
		t.Error("the newest is not stored when the host ends")
	}
}

// A store that does not answer, or not in time, costs the round and nothing else.
func TestStoreAway(t *testing.T) { synctest.Test(t, testStoreAway) }

func testStoreAway(t *testing.T) {
	h := begin(0, 1).grow(500)
	ws := watchers(t, 4, h)
	d := newDisk(t, h)
	w := start(t, d, hung)
	d.away.Store(true)
	if got, err := w.ask(h, 500, policy(3, ws)); !errors.Is(err, errAway) || w.count(cosign.Failed) != 1 {
		t.Fatal(got, err)
	}
	d.away.Store(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := w.Witness(ctx, wire.Witness{Policy: policy(3, ws), Checkpoint: h.checkpoint(500)}); err == nil {
		t.Fatal(got)
	}
	w.cosigned(h, policy(3, ws))
	d.away.Store(true)
	w.cosigned(h, policy(3, ws)) // from memory
}

// What makes no sense is refused before anybody is asked.
func TestRefused(t *testing.T) { synctest.Test(t, testRefused) }

func testRefused(t *testing.T) {
	h := begin(0, 1).grow(5)
	ws := watchers(t, 16, h)
	w := start(t, newDisk(t, h), hung)
	good, signed := policy(3, ws), h.checkpoint(5)
	seventeen := policy(3, append(slices.Clone(ws), &watcher{Witness: must(sim.New(sim.Options{Name: "w16.example", Now: time.Now,
		Key: ed25519.NewKeyFromSeed(make([]byte, 32))})), url: "http://127.0.0.1:1"}))
	text := func(origin string, size uint64) []byte {
		c := tlog.Checkpoint{Origin: origin, Size: size, Root: h.Roots[min(size, 5)]}
		return h.key.Sign(c.Text())
	}
	for name, ask := range map[string]wire.Witness{
		"no policy":            {Checkpoint: signed},
		"a quorum of none":     {Policy: "quorum none\n", Checkpoint: signed},
		"a large policy":       {Policy: good + strings.Repeat("#", tlog.MaxPolicy), Checkpoint: signed},
		"17 witnesses":         {Policy: seventeen, Checkpoint: signed},
		"a witness twice":      {Policy: policy(1, []*watcher{ws[0], ws[0]}), Checkpoint: signed},
		"no URL":               {Policy: strings.ReplaceAll(good, ws[2].url, ""), Checkpoint: signed},
		"another URL":          {Policy: strings.ReplaceAll(good, "http:", "file:"), Checkpoint: signed},
		"no checkpoint":        {Policy: good},
		"a large checkpoint":   {Policy: good, Checkpoint: append(slices.Clone(signed), make([]byte, tlog.MaxNote)...)},
		"nobody signed":        {Policy: good, Checkpoint: signed[:30]},
		"no leaves":            {Policy: good, Checkpoint: h.checkpoint(0)},
		"too many leaves":      {Policy: good, Checkpoint: text(h.key.Key.Name(), 1<<33)},
		"another range":        {Range: 1, Policy: good, Checkpoint: signed},
		"no range":             {Range: 64, Policy: good, Checkpoint: text("log.example/00/64/1", 5)},
		"no origin":            {Policy: good, Checkpoint: text("log.example", 5)},
		"no generation":        {Policy: good, Checkpoint: text("log.example/00/0/x", 5)},
		"two zeros":            {Policy: good, Checkpoint: text("log.example/00/00/1", 5)},
		"a long generation":    {Policy: good, Checkpoint: text("log.example/00/0/4294967296", 5)},
		"another generation":   {Policy: good, Checkpoint: text("log.example/00/0/2", 5)},
		"more leaves than are": {Policy: good, Checkpoint: text(h.key.Key.Name(), 6)},
	} {
		if got, err := w.Witness(t.Context(), ask); err == nil || len(err.Error()) > 400 {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	for _, one := range ws {
		if n := one.asked.Load(); n > 0 {
			t.Errorf("%s was asked %d times", one.Key().Name(), n)
		}
	}
	w.cosigned(h, good)
}

// However many policies there are, the clients of two run.
func TestPoliciesAreBounded(t *testing.T) { synctest.Test(t, testPoliciesAreBounded) }

func testPoliciesAreBounded(t *testing.T) {
	h := begin(0, 1).grow(5)
	ws := watchers(t, 4, h)
	w := start(t, newDisk(t, h), hung)
	w.cosigned(h, policy(3, ws))
	before := runtime.NumGoroutine()
	for i := range 100 {
		w.cosigned(h, policy(3, ws)+fmt.Sprintf("# %d\n", i))
	}
	// Connections that are kept count too. Without a bound there were four goroutines for each policy at least.
	clocktest.Until(t, fmt.Sprintf("at most %d goroutines", before+100), func() bool { return runtime.NumGoroutine() <= before+100 })
}

func TestIncomplete(t *testing.T) { synctest.Test(t, testIncomplete) }

func testIncomplete(t *testing.T) {
	if _, err := cosign.New(cosign.Options{}); err == nil {
		t.Error("nothing was taken for options")
	}
	w := start(t, newDisk(t), hung)
	h := begin(0, 1).grow(1)
	w.Close()
	if got, err := w.ask(h, 1, policy(1, watchers(t, 1, h))); err == nil {
		t.Error(got)
	}
}

// What stands in the store may be anything: it is no leaf, and the round fails.
func TestHeaderOfNothing(t *testing.T) {
	for name, change := range map[string]func(b []byte) []byte{
		"short":    func(b []byte) []byte { return b[:10] },
		"no MAC":   func(b []byte) []byte { return b[:len(b)-32] },
		"more":     func(b []byte) []byte { return append(b, 0) },
		"format":   func(b []byte) []byte { return bytes.Replace(b, []byte{1, 2, 2}, []byte{1, 3, 2}, 1) },
		"position": func(b []byte) []byte { return bytes.Replace(b, []byte{5, 3, 6}, []byte{5, 4, 6}, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			h := begin(0, 1).grow(9)
			bad := *h
			bad.Rows = slices.Clone(h.Rows)
			r := *h.Rows[3]
			if r.Header = change(slices.Clone(r.Header)); bytes.Equal(r.Header, h.Rows[3].Header) {
				t.Fatal("nothing was changed")
			}
			bad.Rows[3] = &r
			ws := watchers(t, 1, h)
			w := start(t, newDisk(t, &bad), hung)
			if got, err := w.ask(h, 9, policy(1, ws)); err == nil || w.count(cosign.Lost) != 1 || ws[0].asked.Load() > 0 {
				t.Error(got, err)
			}
		})
	}
}

// BenchmarkFirst is the first round of a restarted host, of a log of a million batches.
func BenchmarkFirst(b *testing.B) {
	h := begin(0, 1).grow(1_000_000)
	h.table = h.size() - 1024
	d := newDisk(b, h)
	ws := watchers(b, 1, h)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		w := start(b, d, hung)
		w.cosigned(h, policy(1, ws))
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc)-float64(before.HeapAlloc), "B-kept")
		runtime.KeepAlive(w)
	}
}

// BenchmarkRound is one round of a log that grows by a batch each, with witnesses on the same machine.
func BenchmarkRound(b *testing.B) {
	h := begin(0, 1).grow(100_000)
	d := newDisk(b, h)
	ws := watchers(b, 4, h)
	w := start(b, d, hung)
	text := policy(3, ws)
	w.cosigned(h, text)
	for b.Loop() {
		b.StopTimer()
		h.grow(1)
		d.append(h)
		signed := h.checkpoint(h.size())
		b.StartTimer()
		if _, err := w.Witness(b.Context(), wire.Witness{Policy: text, Checkpoint: signed}); err != nil {
			b.Fatal(err)
		}
	}
}
