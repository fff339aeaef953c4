package link_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/link"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// A peer is the enclave's end of the wire, without an enclave behind it.
type peer struct {
	t      *testing.T
	l      net.Listener
	handle wire.Handler
	conns  chan accepted
}

type accepted struct {
	role wire.Role
	conn *wire.Conn
}

func listen(t *testing.T, address string, handle wire.Handler) *peer {
	t.Helper()
	l, err := link.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, l: l, handle: handle, conns: make(chan accepted, 64)}
	t.Cleanup(func() { l.Close() })
	go p.accept()
	return p
}

func (p *peer) accept() {
	for {
		nc, err := p.l.Accept()
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
		p.conns <- accepted{role, wire.NewConn(nc, o)}
	}
}

// all waits for n connections.
func (p *peer) all(n int) map[wire.Role][]*wire.Conn {
	p.t.Helper()
	found := map[wire.Role][]*wire.Conn{}
	for range n {
		select {
		case a := <-p.conns:
			found[a.role] = append(found[a.role], a.conn)
		case <-time.After(5 * time.Minute):
			p.t.Fatalf("%d connections did not come: %v", n, found)
		}
	}
	return found
}

// replyWith answers each call with what f makes of it.
func replyWith(f func(*wire.Call) *wire.Reply) wire.Handler {
	return func(_ context.Context, _ wire.Kind, p []byte) (wire.Kind, []byte) {
		var c wire.Call
		if wire.Unmarshal(p, &c) != nil {
			return wire.KindFailed, nil
		}
		r := f(&c)
		if r == nil {
			return wire.KindFailed, nil
		}
		out, err := wire.Marshal(r)
		if err != nil {
			return wire.KindFailed, nil
		}
		return wire.KindReply, out
	}
}

func echo(c *wire.Call) *wire.Reply {
	return &wire.Reply{Status: 200, Body: c.Body, Request: sha256.Sum256(c.Body)}
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

func options(t *testing.T, address string) (link.Options, *logs) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	out := new(logs)
	return link.Options{
		Address: address, Store: s, StoreTimeout: 10 * time.Second, Log: slog.New(slog.NewJSONHandler(out, nil)), Now: time.Now,
		Pause: func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(d / 10):
			}
		},
	}, out
}

func run(t *testing.T, o link.Options) *link.Link {
	t.Helper()
	l, err := link.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return l
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	clocktest.Until(t, "what the test waits for has come", ok)
}

func socket(t *testing.T) string { return "unix:" + filepath.Join(t.TempDir(), "s") }

func TestCall(t *testing.T) {
	for _, address := range []string{socket(t), "tcp://127.0.0.1:0"} {
		p := listen(t, address, replyWith(echo))
		if strings.HasPrefix(address, "tcp") {
			address = "tcp://" + p.l.Addr().String()
		}
		o, _ := options(t, address)
		o.Calls = 2
		l := run(t, o)
		if got := p.all(10); len(got[wire.RoleCalls]) != 2 || len(got[wire.RoleStores]) != 1 || len(got[wire.RoleLoads]) != 2 || len(got[wire.RoleSnapshots]) != 1 || len(got[wire.RoleChains]) != 1 || len(got[wire.RoleDials]) != 1 || len(got[wire.RoleWitnesses]) != 2 {
			t.Fatal(got)
		}
		waitFor(t, func() bool { return l.Ready() == nil && l.Stats().Connected == 10 }) // the other side may see a connection first
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				body := fmt.Appendf(nil, "body %d", i)
				r, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointQuery, Op: "whoami", Body: body})
				if err != nil || string(r.Body) != string(body) {
					t.Errorf("%v %v", r, err)
				}
			})
		}
		wg.Wait()
		if s := l.Stats(); s.Connected != 10 || s.Wanted != 10 || s.Dials != 10 || s.InFlight != 0 {
			t.Fatalf("%+v", s)
		}
	}
}

func TestCallsThatGetNoReply(t *testing.T) {
	p := listen(t, socket(t), replyWith(func(c *wire.Call) *wire.Reply {
		switch c.Op {
		case "failed":
			return nil
		case "other_request":
			return &wire.Reply{Status: 200, Body: c.Body, Request: sha256.Sum256([]byte("another body"))}
		case "no_request":
			return &wire.Reply{Status: 200, Body: c.Body}
		}
		return echo(c)
	}))
	o, _ := options(t, "unix:"+p.l.Addr().String())
	l := run(t, o)
	p.all(9)
	waitFor(t, func() bool { return l.Ready() == nil })
	for op, want := range map[string]error{"failed": link.ErrUnavailable, "other_request": link.ErrWrongReply, "no_request": link.ErrWrongReply, "fine": nil} {
		r, err := l.Call(t.Context(), &wire.Call{Op: op, Body: []byte("b")})
		if !errors.Is(err, want) || (want != nil) != (r == nil) {
			t.Errorf("%s: %v, %v", op, r, err)
		}
	}
	if s := l.Stats(); s.Wrong != 2 {
		t.Fatalf("%+v", s)
	}
	if _, err := l.Call(t.Context(), &wire.Call{Body: make([]byte, wire.MaxCallFrame)}); !errors.Is(err, wire.ErrTooLarge) {
		t.Fatal(err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	p := listen(t, socket(t), func(ctx context.Context, _ wire.Kind, _ []byte) (wire.Kind, []byte) {
		close(started)
		<-ctx.Done()
		close(ended)
		return wire.KindFailed, nil
	})
	o, _ := options(t, "unix:"+p.l.Addr().String())
	l := run(t, o)
	p.all(9)
	waitFor(t, func() bool { return l.Ready() == nil })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := l.Call(ctx, &wire.Call{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	<-ended // the enclave was told
}

func TestEnclaveAwayAndBack(t *testing.T) {
	address := socket(t)
	o, out := options(t, address)
	l := run(t, o)
	if _, err := l.Call(t.Context(), &wire.Call{}); !errors.Is(err, link.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := l.Ready(); !errors.Is(err, link.ErrUnavailable) {
		t.Fatal(err)
	}
	for range 3 {
		p := listen(t, address, replyWith(echo))
		conns := p.all(9)
		waitFor(t, func() bool { return l.Ready() == nil })
		if _, err := l.Call(t.Context(), &wire.Call{Body: []byte("b")}); err != nil {
			t.Fatal(err)
		}
		p.l.Close()
		for _, of := range conns {
			for _, c := range of {
				c.Close()
			}
		}
		waitFor(t, func() bool { return l.Stats().Connected == 0 })
		if _, err := l.Call(t.Context(), &wire.Call{}); !errors.Is(err, link.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "enclave connected"); n != 27 {
		t.Fatalf("%d connections were logged, want 27", n)
	}
}

// TestEnclaveBreaksTheProtocol: that connection is cut, counted and dialed anew.
func TestEnclaveBreaksTheProtocol(t *testing.T) {
	l0, err := link.Listen(socket(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l0.Close()
	hellos := make(chan wire.Role, 64)
	go func() {
		for {
			nc, err := l0.Accept()
			if err != nil {
				return
			}
			hello, err := wire.ReadHello(nc, time.Now().Add(time.Minute))
			if err != nil {
				nc.Close()
				continue
			}
			_, _ = nc.Write(bytes.Repeat([]byte{0xff}, 100))
			hellos <- hello.Role
		}
	}()
	o, out := options(t, "unix:"+l0.Addr().String())
	l := run(t, o)
	for range 15 {
		<-hellos
	}
	waitFor(t, func() bool { return l.Stats().Breaches >= 5 })
	if !strings.Contains(out.String(), "broke the protocol") {
		t.Fatal(out.String())
	}
}

func id(b byte) wire.ID { return wire.ID(bytes.Repeat([]byte{b}, 16)) }

func ask[A any](t *testing.T, c *wire.Conn, kind, want wire.Kind, q any) A {
	t.Helper()
	p, err := wire.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	got, p, err := c.Ask(t.Context(), kind, p)
	if err != nil || got != want {
		t.Fatalf("kind %d, want %d: %v", got, want, err)
	}
	var a A
	if err := wire.Unmarshal(p, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

type counted struct {
	mu      sync.Mutex
	entries int
	kinds   map[string]int
	failed  map[string]int
}

func (c *counted) Batch(entries, _ int, _ wire.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries += entries
}

func (c *counted) Question(kind string, _ time.Duration, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[kind]++
	if failed {
		c.failed[kind]++
	}
}

type chains func(wire.Chain) wire.ChainState

func (c chains) Chain(_ context.Context, ask wire.Chain) wire.ChainState { return c(ask) }

func (c chains) Read(_ context.Context, ask wire.ReadChain) wire.ChainReading {
	s := c(wire.Chain{Name: ask.Name})
	return wire.ChainReading{Verdict: s.Verdict, Text: s.Text}
}

// TestNoChains: without any node the enclave is told so.
func TestNoChains(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, out := options(t, "unix:"+p.l.Addr().String())
	run(t, o)
	conn := p.all(9)[wire.RoleChains][0]
	if a := ask[wire.ChainState](t, conn, wire.KindChain, wire.KindChainState, wire.Chain{Name: "eip155:1"}); a.Verdict != wire.ChainNoNode {
		t.Fatalf("%+v", a)
	}
	ask[wire.Failed](t, conn, wire.KindChain, wire.KindFailed, wire.Done{OK: true})
	if !strings.Contains(out.String(), "chain not queried") || !strings.Contains(out.String(), "not answered") {
		t.Fatal(out.String())
	}
}

type witnesses func(wire.Witness) (wire.Cosigned, error)

func (w witnesses) Witness(_ context.Context, ask wire.Witness) (wire.Cosigned, error) { return w(ask) }

func (witnesses) ProveLogged(_ context.Context, ask wire.ProveLogged) (wire.Logged, error) {
	if ask.Seq == 404 {
		return wire.Logged{}, errors.New("it is nowhere")
	}
	return wire.Logged{Header: fmt.Appendf(nil, "%d in %d", ask.Seq, ask.Size)}, nil
}

// TestWitness: what the host knows of a question for cosignatures it hands on, and what came back.
func TestWitness(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, out := options(t, "unix:"+p.l.Addr().String())
	want := wire.Witness{Range: 3, Policy: "quorum none\n", Checkpoint: []byte("note")}
	o.Witnesses = witnesses(func(got wire.Witness) (wire.Cosigned, error) {
		if !reflect.DeepEqual(got, want) {
			return wire.Cosigned{}, errors.New("it is another question")
		}
		return wire.Cosigned{Lines: []string{"one\n", "two\n"}}, nil
	})
	run(t, o)
	all := p.all(9)
	for _, conn := range all[wire.RoleWitnesses] {
		if a := ask[wire.Cosigned](t, conn, wire.KindWitness, wire.KindCosigned, want); len(a.Lines) != 2 || a.Lines[1] != "two\n" {
			t.Errorf("%+v", a)
		}
		ask[wire.Failed](t, conn, wire.KindWitness, wire.KindFailed, wire.Witness{Range: 4})
		ask[wire.Failed](t, conn, wire.KindWitness, wire.KindFailed, []byte("no question"))
	}
	loads := all[wire.RoleLoads][0]
	if a := ask[wire.Logged](t, loads, wire.KindProveLogged, wire.KindLogged, wire.ProveLogged{Seq: 5, Size: 9}); string(a.Header) != "5 in 9" {
		t.Errorf("%+v", a)
	}
	ask[wire.Failed](t, loads, wire.KindProveLogged, wire.KindFailed, wire.ProveLogged{Seq: 404, Size: 9})
	if !strings.Contains(out.String(), "another question") || !strings.Contains(out.String(), "it is nowhere") {
		t.Error(out.String())
	}
}

// TestNoWitnesses: a host without witnesses says that it failed.
func TestNoWitnesses(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, out := options(t, "unix:"+p.l.Addr().String())
	run(t, o)
	all := p.all(9)
	ask[wire.Failed](t, all[wire.RoleWitnesses][0], wire.KindWitness, wire.KindFailed, wire.Witness{Policy: "quorum none\n"})
	ask[wire.Failed](t, all[wire.RoleLoads][0], wire.KindProveLogged, wire.KindFailed, wire.ProveLogged{Size: 9})
	if !strings.Contains(out.String(), "no way to witnesses") {
		t.Error(out.String())
	}
}

// TestOpenSend asks the enclave for a send.
func TestOpenSend(t *testing.T) {
	answer := func(_ context.Context, kind wire.Kind, p []byte) (wire.Kind, []byte) {
		var q wire.AboutSend
		if kind != wire.KindOpenSend || wire.Unmarshal(p, &q) != nil || q.Send.Seq == 0 {
			return wire.KindFailed, nil
		}
		b, _ := wire.Marshal(&wire.Opened{Found: true, Name: fmt.Sprint(q.Send.Seq)})
		if q.Send.Seq == 99 {
			b = []byte{0xff}
		}
		return wire.KindOpened, b
	}
	p := listen(t, socket(t), answer)
	o, _ := options(t, "unix:"+p.l.Addr().String())
	l := run(t, o)
	if _, err := l.OpenSend(t.Context(), wire.SendID{Seq: 7}); err != nil && !errors.Is(err, link.ErrUnavailable) {
		t.Fatal(err)
	}
	p.all(9)
	waitFor(t, func() bool { return l.Ready() == nil })
	if got, err := l.OpenSend(t.Context(), wire.SendID{Seq: 7}); err != nil || got.Name != "7" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := l.OpenSend(t.Context(), wire.SendID{}); !errors.Is(err, link.ErrUnavailable) {
		t.Fatal(err)
	}
	if _, err := l.OpenSend(t.Context(), wire.SendID{Seq: 99}); !errors.Is(err, link.ErrWrongReply) || l.Stats().Wrong != 1 {
		t.Fatal(err)
	}
}

// TestStoreIsServed asks every question there is against a real store.
func TestStoreIsServed(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, _ := options(t, "unix:"+p.l.Addr().String())
	seen := &counted{kinds: map[string]int{}, failed: map[string]int{}}
	o.Observer = seen
	var sends atomic.Int32
	o.Sends = func() { sends.Add(1) }
	o.Chains = chains(func(ask wire.Chain) wire.ChainState {
		return wire.ChainState{Verdict: wire.ChainKnown, Latest: 4, Text: ask.Name}
	})
	run(t, o)
	conns := p.all(9)
	stores, loads, snapshots := conns[wire.RoleStores][0], conns[wire.RoleLoads][1], conns[wire.RoleSnapshots][0]

	if a := ask[wire.Owned](t, stores, wire.KindOwn, wire.KindOwned, wire.Own{Action: wire.OwnTake, Boot: id(1)}); !a.OK || a.Epoch != 1 {
		t.Fatalf("%+v", a)
	}
	piece := []byte("a sealed piece")
	batch := wire.Batch{Boot: id(1), Epoch: 1, Number: 1, Header: []byte("header"),
		Entries: []wire.Entry{{Organization: id(2), Sealed: []byte("entry 0"), Activity: id(3), Type: "T", Status: 1, TimeMs: 5, Index: []wire.IndexChange{{Key: wire.Hash{9}, Rank: 5}},
			Sends: []wire.SendMark{{Kind: wire.SendTransaction, DueMs: 7}}}},
		Keys: []wire.WrappedKey{{Organization: id(2), KeyID: 1, Sealed: []byte("key")}}}
	for range 2 { // sent again after a lost answer
		if a := ask[wire.Stored](t, stores, wire.KindBatch, wire.KindStored, batch); a.Verdict != wire.VerdictStored || a.Number != 1 {
			t.Fatalf("%+v", a)
		}
	}
	other := batch
	other.Boot = id(9)
	if a := ask[wire.Stored](t, stores, wire.KindBatch, wire.KindStored, other); a.Verdict != wire.VerdictSuperseded {
		t.Fatalf("%+v", a)
	}
	if n := sends.Load(); n != 2 {
		t.Fatalf("told of %d batches that send something, want 2", n)
	}
	if a := ask[wire.SendStates](t, loads, wire.KindSends, wire.KindSendStates, wire.Sends{Sends: []wire.SendID{{Organization: id(2)}, {Organization: id(9)}}}); len(a.Statuses) != 2 || a.Statuses[0].State != wire.SendWaiting || a.Statuses[1].State != 0 {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.ChainState](t, conns[wire.RoleChains][0], wire.KindChain, wire.KindChainState, wire.Chain{Name: "eip155:1"}); a.Latest != 4 || a.Text != "eip155:1" {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.ChainReading](t, conns[wire.RoleChains][0], wire.KindReadChain, wire.KindReading, wire.ReadChain{Name: "eip155:1"}); a.Verdict != wire.ChainKnown || a.Text != "eip155:1" {
		t.Fatalf("%+v", a)
	}
	ahead := wire.PutSnapshot{Organization: id(2), Count: 1, Pieces: [][]byte{piece}, Boot: id(1), Epoch: 1}
	put := wire.PutSnapshot{Organization: id(2), Count: 1, Snapshot: []byte("snapshot"), Boot: id(1), Epoch: 1}
	for _, p := range []wire.PutSnapshot{ahead, put, put} {
		if a := ask[wire.Done](t, snapshots, wire.KindPutSnapshot, wire.KindDone, p); !a.OK {
			t.Fatalf("%+v", a)
		}
	}
	page := []byte("a page of tips")
	table := wire.PutTable{Boot: id(1), Epoch: 1, Table: []byte("table"), Pages: [][]byte{page}}
	if a := ask[wire.Done](t, snapshots, wire.KindPutTable, wire.KindDone, table); !a.OK {
		t.Fatalf("%+v", a)
	}
	table.Boot = id(9)
	if a := ask[wire.Done](t, snapshots, wire.KindPutTable, wire.KindDone, table); a.OK {
		t.Fatal("a table of who does not own the range was taken")
	}
	put.Snapshot = []byte("another, of the same count")
	if a := ask[wire.Done](t, snapshots, wire.KindPutSnapshot, wire.KindDone, put); a.OK {
		t.Fatal("a snapshot that was not built on the stored one was taken")
	}
	if a := ask[wire.Done](t, snapshots, wire.KindPutObject, wire.KindDone, wire.PutObject{Name: "genesis", Bytes: []byte("g"), Once: true}); !a.OK {
		t.Fatalf("%+v", a)
	}

	if a := ask[wire.Organization](t, loads, wire.KindLoadOrganization, wire.KindOrganization, wire.LoadOrganization{Organization: id(2), MaxBytes: 1 << 20}); a.Count != 1 || string(a.Snapshot) != "snapshot" || len(a.Keys) != 1 {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Entries](t, loads, wire.KindLoadEntries, wire.KindEntries, wire.LoadEntries{Organization: id(2), MaxBytes: 1 << 20}); len(a.Entries) != 1 || string(a.Entries[0]) != "entry 0" {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Pieces](t, loads, wire.KindLoadPieces, wire.KindPieces, wire.LoadPieces{Organization: id(2), Pieces: []wire.Hash{sha256.Sum256(piece), {}}}); len(a.Pieces) != 2 || !bytes.Equal(a.Pieces[0], piece) || len(a.Pieces[1]) != 0 {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Proven](t, loads, wire.KindFind, wire.KindProven, wire.Find{Organization: id(2), TreeSize: 1, Activities: []wire.ID{id(3)}}); len(a.Entries) != 1 {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Proven](t, loads, wire.KindPage, wire.KindProven, wire.Page{Organization: id(2), TreeSize: 1, Limit: 10}); len(a.Entries) != 1 {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.IndexRows](t, loads, wire.KindPageIndex, wire.KindIndexRows, wire.PageIndex{Key: wire.Hash{9}, Limit: 10}); len(a.Rows) != 1 || a.Rows[0] != (wire.IndexRow{Rank: 5, Organization: id(2)}) {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Headers](t, loads, wire.KindLoadHeaders, wire.KindHeaders, wire.LoadHeaders{Epoch: 1, Number: 1}); len(a.Headers) != 1 || string(a.Headers[0]) != "header" {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Tips](t, loads, wire.KindLoadTips, wire.KindTips, wire.LoadTips{To: id(9), Limit: 10}); len(a.Tips) != 1 || a.Tips[0].Organization != id(2) || a.Tips[0].Count != 1 {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.TipTable](t, loads, wire.KindLoadTable, wire.KindTable, wire.LoadTable{}); string(a.Table) != "table" {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Pieces](t, loads, wire.KindLoadPages, wire.KindPieces, wire.LoadPages{Pages: []wire.Hash{{}, sha256.Sum256(page)}}); len(a.Pieces) != 2 || !bytes.Equal(a.Pieces[1], page) || len(a.Pieces[0]) != 0 {
		t.Fatalf("%+v", a)
	}
	if a := ask[wire.Object](t, loads, wire.KindLoadObject, wire.KindObject, wire.LoadObject{Name: "genesis"}); !a.Found || string(a.Bytes) != "g" {
		t.Fatalf("%+v", a)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.kinds) != 19 || seen.kinds["batch"] != 3 || seen.entries != 3 || len(seen.failed) != 0 {
		t.Fatalf("%+v", seen)
	}
}

// TestRefusedQuestions: the enclave reads only that it failed, the log says why.
func TestRefusedQuestions(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, out := options(t, "unix:"+p.l.Addr().String())
	l := run(t, o)
	conns := p.all(9)
	for name, c := range map[string]struct {
		role wire.Role
		kind wire.Kind
		q    any
	}{
		"batch of no boot":          {wire.RoleStores, wire.KindBatch, wire.Batch{Header: []byte("h")}},
		"page of nothing":           {wire.RoleLoads, wire.KindPage, wire.Page{Organization: id(1)}},
		"rows of the index, none":   {wire.RoleLoads, wire.KindPageIndex, wire.PageIndex{Key: wire.Hash{9}}},
		"too many pieces":           {wire.RoleLoads, wire.KindLoadPieces, wire.LoadPieces{Pieces: make([]wire.Hash, wire.MaxPieces+1)}},
		"no tips":                   {wire.RoleLoads, wire.KindLoadTips, wire.LoadTips{}},
		"table of nothing":          {wire.RoleSnapshots, wire.KindPutTable, wire.PutTable{}},
		"snapshot of nothing":       {wire.RoleSnapshots, wire.KindPutSnapshot, wire.PutSnapshot{}},
		"object without a name":     {wire.RoleSnapshots, wire.KindPutObject, wire.PutObject{Bytes: []byte("x")}},
		"another message":           {wire.RoleStores, wire.KindBatch, wire.Page{Organization: id(1)}},
		"another message for a put": {wire.RoleSnapshots, wire.KindPutObject, wire.Done{}},
	} {
		if a := ask[wire.Failed](t, conns[c.role][0], c.kind, wire.KindFailed, c.q); a.Text != "" {
			t.Errorf("%s: the reason crossed: %q", name, a.Text)
		}
	}
	if n := strings.Count(out.String(), "store failed"); n != 10 {
		t.Fatalf("%d failures were logged, want 10: %s", n, out)
	}
	// The link may be behind with counting those that it has just made.
	for end := time.Now().Add(5 * time.Minute); l.Stats().Connected != 9; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a refused question must not cost the connection: %d of 9 stand", l.Stats().Connected)
		}
	}
}

// Every question that the table lets an enclave ask has who answers it: with its
// answer, or with failed where the store refuses the barest form.
func TestEveryQuestionIsAnswered(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, _ := options(t, "unix:"+p.l.Addr().String())
	run(t, o)
	conns := p.all(9)
	for _, q := range wire.Questions {
		if q.AskedBy != wire.SideEnclave {
			continue
		}
		payload, err := wire.Marshal(q.Asks)
		if err != nil {
			t.Fatal(err)
		}
		kind, answer, err := conns[q.Role][0].Ask(t.Context(), q.Kind, payload)
		if err != nil || kind != q.Answer && kind != wire.KindFailed {
			t.Fatalf("%s: kind %d, want %d: %v", q.Name, kind, q.Answer, err)
		}
		into := reflect.New(reflect.TypeOf(q.Tells)).Interface()
		if kind == wire.KindFailed {
			into = new(wire.Failed)
		}
		if err := wire.Unmarshal(answer, into); err != nil {
			t.Errorf("%s: %v", q.Name, err)
		}
	}
}

// TestOutageIsLoggedOnce: the enclave asks a store that is full twice a second, and the log would fill up the disk.
func TestOutageIsLoggedOnce(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, out := options(t, "unix:"+p.l.Addr().String())
	run(t, o)
	conns := p.all(9)
	if err := o.Store.(*sqlite.Store).Close(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ask[wire.Failed](t, conns[wire.RoleStores][0], wire.KindOwn, wire.KindFailed, wire.Own{Action: wire.OwnLook})
		ask[wire.Failed](t, conns[wire.RoleLoads][0], wire.KindLoadObject, wire.KindFailed, wire.LoadObject{Name: "genesis"})
	}
	for _, question := range []string{"own", "load_object"} {
		if n := strings.Count(out.String(), `"store failed","question":"`+question+`"`); n != 1 {
			t.Errorf("%s: %d lines, want 1: %s", question, n, out)
		}
	}
}

func TestClosedStoreIsUnknown(t *testing.T) {
	p := listen(t, socket(t), replyWith(echo))
	o, _ := options(t, "unix:"+p.l.Addr().String())
	run(t, o)
	conns := p.all(9)
	if err := o.Store.(*sqlite.Store).Close(); err != nil {
		t.Fatal(err)
	}
	ask[wire.Failed](t, conns[wire.RoleStores][0], wire.KindOwn, wire.KindFailed, wire.Own{Action: wire.OwnLook})
	ask[wire.Failed](t, conns[wire.RoleLoads][0], wire.KindLoadObject, wire.KindFailed, wire.LoadObject{Name: "genesis"})
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:5000", "tcp://", "tcp://127.0.0.1", "http://127.0.0.1:80", "vsock://16", "vsock://", "unix:", "unix://", "tcp:127.0.0.1:5000"} {
		if _, err := link.Dial(t.Context(), bad); err == nil {
			t.Errorf("%q was dialed", bad)
		}
		if l, err := link.Listen(bad); err == nil {
			l.Close()
			t.Errorf("%q was listened on", bad)
		}
		o, _ := options(t, bad)
		if _, err := link.New(o); err == nil {
			t.Errorf("%q made a link", bad)
		}
	}
	for _, bad := range []string{"vsock://x:1", "vsock://1:x", "vsock://4294967296:1", "vsock://-1:5000"} {
		if _, err := link.Dial(t.Context(), bad); err == nil {
			t.Errorf("%q was dialed", bad)
		}
	}
}

func TestListenKeepsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := link.Listen("unix:" + path); err == nil {
		l.Close()
		t.Fatal("a file that is no socket was replaced")
	}
}

func TestIncompleteOptions(t *testing.T) {
	for name, spoil := range map[string]func(*link.Options){
		"store": func(o *link.Options) { o.Store = nil }, "log": func(o *link.Options) { o.Log = nil },
		"clock": func(o *link.Options) { o.Now = nil }, "pause": func(o *link.Options) { o.Pause = nil },
		"time-out": func(o *link.Options) { o.StoreTimeout = 0 }, "calls": func(o *link.Options) { o.Calls = link.MaxCalls + 1 },
		"negative calls": func(o *link.Options) { o.Calls = -1 },
	} {
		o, _ := options(t, socket(t))
		spoil(&o)
		if _, err := link.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
