package egress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/egress"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

type object = map[string]any

// A node is a JSON-RPC endpoint that answers as it is told: by method, the result,
// or an error.
type node struct {
	*httptest.Server
	t testing.TB

	ended chan struct{} // with the test
	mu    sync.Mutex
	on    map[string]func(params []any) (any, error)
	asked []string // methods, in order
}

// refusal is an error that a node answers.
type refusal struct {
	code    int
	message string
	data    any
}

func (r *refusal) Error() string { return r.message }

func newNode(t testing.TB) *node {
	n := &node{t: t, on: map[string]func([]any) (any, error){}, ended: make(chan struct{})}
	n.Server = httptest.NewServer(n)
	t.Cleanup(func() { close(n.ended); n.Close() })
	n.say("eth_chainId", "0x1")
	n.say("getGenesisHash", "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG")
	return n
}

func (n *node) do(method string, f func(params []any) (any, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on[method] = f
}

func (n *node) say(method string, result any) {
	n.do(method, func([]any) (any, error) { return result, nil })
}

// hangs has no answer come as long as the test lasts.
func (n *node) hangs(method string) {
	n.do(method, func([]any) (any, error) { <-n.ended; return nil, errAway })
}

func (n *node) refuse(method string, code int, message string) {
	n.do(method, func([]any) (any, error) { return nil, &refusal{code: code, message: message} })
}

func (n *node) count(method string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.asked {
		if m == method {
			count++
		}
	}
	return count
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Version string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Method  string `json:"method"`
		Params  []any  `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Version != "2.0" || r.Header.Get("Content-Type") != "application/json" {
		n.t.Errorf("no JSON-RPC: %v", err)
	}
	n.mu.Lock()
	n.asked = append(n.asked, ask.Method)
	f := n.on[ask.Method]
	n.mu.Unlock()
	reply := object{"jsonrpc": "2.0", "id": ask.ID}
	if f == nil {
		reply["error"] = object{"code": -32601, "message": "the method does not exist"}
	} else if result, err := f(ask.Params); err != nil {
		var own *refusal
		if !errors.As(err, &own) {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		reply["error"] = object{"code": own.code, "message": own.message, "data": own.data}
	} else {
		reply["result"] = result
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// nodes are a node under the names that tests use.
func (n *node) nodes() egress.Nodes {
	return egress.Nodes{"eip155:1": n.URL, "solana:devnet": n.URL}
}

// A world is an outbox, an enclave that opens sends, a node and senders.
type world struct {
	t    testing.TB
	node *node
	s    store.Store
	// outbox is s for the senders, which share it.
	outbox *counted

	mu      sync.Mutex
	opens   map[wire.SendID]*wire.Opened
	closed  error // of the enclave
	deliver func(context.Context, wire.SendID) (*wire.Delivered, error)
	asked   []wire.SendID // to deliver
	mailer  egress.Mailer
	opened  int
	skew    time.Duration
	steady  bool                              // time does not fly while senders pause
	stride  func(time.Duration) time.Duration // how far time flies in a pause, if not as long
	seq     uint64
	number  uint64
	logged  lines
	extra   egress.Nodes // beside node's
	// organization is whose sends put puts.
	organization, last wire.ID
}

var someOrganization = wire.ID{1, 2, 3}

func newWorld(t testing.TB) *world {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w := &world{t: t, node: newNode(t), s: s, outbox: &counted{Store: s}, opens: map[wire.SendID]*wire.Opened{}, organization: someOrganization, logged: make(lines, 64)}
	if owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{9}}); err != nil || !owned.OK {
		t.Fatal(err)
	}
	return w
}

// OpenSend is the enclave's.
func (w *world) OpenSend(_ context.Context, id wire.SendID) (*wire.Opened, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened++
	if w.closed != nil {
		return nil, w.closed
	}
	if o := w.opens[id]; o != nil {
		return o, nil
	}
	return &wire.Opened{}, nil
}

// Deliver is the enclave's.
func (w *world) Deliver(ctx context.Context, id wire.SendID) (*wire.Delivered, error) {
	w.mu.Lock()
	w.asked = append(w.asked, id)
	closed, f := w.closed, w.deliver
	w.mu.Unlock()
	if closed != nil {
		return nil, closed
	}
	if f == nil {
		return &wire.Delivered{}, nil
	}
	return f(ctx, id)
}

func (w *world) close(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = err
}

// now is time as the senders see it: it stands but for what they pause, and for what a test runs ahead.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Unix(1_800_000_000, 0).Add(w.skew)
}

// passes waits until so much time has passed as the senders see it.
func (w *world) passes(d time.Duration) {
	w.t.Helper()
	began := w.now()
	clocktest.Until(w.t, "the senders' pauses", func() bool { return w.now().Sub(began) > d })
}

func (w *world) ahead(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew += d
}

// put stores an entry with something to send.
func (w *world) put(o *wire.Opened) wire.SendID {
	w.t.Helper()
	return w.putKind(wire.SendTransaction, o)
}

func (w *world) putKind(kind wire.SendKind, o *wire.Opened) wire.SendID {
	w.t.Helper()
	w.mu.Lock()
	if w.last != w.organization {
		w.last, w.seq = w.organization, 0
	}
	id := wire.SendID{Organization: w.organization, Seq: w.seq}
	w.seq++
	w.number++
	w.opens[id] = o
	w.mu.Unlock()
	b := &wire.Batch{Boot: wire.ID{9}, Epoch: 1, Number: w.number, Header: []byte("header"), Entries: []wire.Entry{{
		Organization: id.Organization, Seq: id.Seq, Sealed: []byte("sealed"), Sends: []wire.SendMark{{Kind: kind, DueMs: 1}}}}}
	if stored, err := w.s.Append(w.t.Context(), b); err != nil || stored.Verdict != wire.VerdictStored {
		w.t.Fatalf("%+v, %v", stored, err)
	}
	return id
}

// sends starts a sender, which stops with the test or when the function is called. Time flies while nothing is under way,
// unless it is steady.
func (w *world) sends() (stop func()) {
	w.t.Helper()
	nodes := w.node.nodes()
	maps.Copy(nodes, w.extra)
	s, err := egress.NewSender(egress.Options{
		Chains: egress.NewChains(nodes, patience), Outbox: w.outbox, Enclave: w, Mailer: w.mailer, Log: slog.New(slog.DiscardHandler), Now: w.now, Rand: random{}, Wait: patience,
		Pause: func(ctx context.Context, d time.Duration) {
			if !w.steady && w.outbox.claimed.Load() == 0 {
				w.ahead(d)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		},
	})
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

type random struct{}

func (random) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(rand.Uint32())
	}
	return len(p), nil
}

func (w *world) standing(id wire.SendID) wire.SendStatus {
	w.t.Helper()
	got, err := w.s.SendStates(context.Background(), wire.Sends{Sends: []wire.SendID{id}})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Statuses[0]
}

// until waits for a state.
func (w *world) until(id wire.SendID, want wire.SendState, says string) wire.SendStatus {
	w.t.Helper()
	var got wire.SendStatus
	for range patience / time.Millisecond {
		got = w.standing(id)
		if got.State == want && strings.Contains(got.Text, says) {
			return got
		}
		if got.State.Ended() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatalf("send %d is in state %d, %q, want %d, %q", id.Seq, got.State, got.Text, want, says)
	return got
}

// ether is an opened transaction of an account's.
func ether(nonce uint64) *wire.Opened {
	return &wire.Opened{Found: true, Kind: wire.SendTransaction, ExpiresMs: 1 << 60, Chain: "eip155:1", Signed: fmt.Appendf(nil, "signed %d", nonce), Name: nameOf(nonce), From: make([]byte, 20), Nonce: nonce}
}

func nameOf(nonce uint64) string { return fmt.Sprintf("0x%064x", nonce+0xabc) }

func lamport(name string) *wire.Opened {
	return &wire.Opened{Found: true, Kind: wire.SendTransaction, ExpiresMs: 1 << 60, Chain: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", Signed: []byte("signed"), Name: name}
}

var errAway = errors.New("away")
