package link_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/link"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// A node is an enclave as its host sees it: it owns ranges, says so under its key, and
// answers for nothing else.
type node struct {
	t    *testing.T
	name string
	boot string
	key  *ecdsa.PrivateKey
	peer *peer

	group    *group // whose mutex guards what follows
	retiring bool
	away     bool     // it answers nothing at all
	calls    []string // bodies that it answered
	tables   int      // how often it was asked what it owns
	moves    []string // take and give, as asked
}

// group is what nodes have between them, as their store has it: one owner for each
// range, and hand-overs.
type group struct {
	mu     sync.Mutex
	owner  map[wire.Range]*node
	handed map[wire.Range]string // to which boot
}

// row is a range's, of whose owner nobody hears anything.
func (g *group) row(r wire.Range) wire.Owned {
	g.mu.Lock()
	defer g.mu.Unlock()
	return wire.Owned{OK: true, Epoch: 1, Released: g.owner[r] == nil}
}

const nodeRanges = 8

func newNode(t *testing.T, g *group, name string, owned ...wire.Range) *node {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, name: name, boot: strings.Repeat(name, 32), key: key, group: g}
	for _, r := range owned {
		g.owner[r] = n
	}
	n.peer = listen(t, "tcp://127.0.0.1:0", replyWith(n.answer))
	go func() {
		for range n.peer.conns {
		}
	}()
	return n
}

func (n *node) address() string { return "tcp://" + n.peer.l.Addr().String() }

func (n *node) table() []byte {
	t := wire.Table{Format: 1, Deployment: "d", Boot: n.boot, Ranges: nodeRanges, Owned: []wire.TableRange{}, Retiring: n.retiring}
	for r := range wire.Range(nodeRanges) {
		if n.group.owner[r] == n {
			t.Owned = append(t.Owned, wire.TableRange{Range: r, Epoch: 1})
		}
	}
	text, _ := json.Marshal(&t)
	digest := sha256.Sum256(wire.TableText(string(text)))
	r, s, err := ecdsa.Sign(rand.Reader, n.key, digest[:])
	if err != nil {
		n.t.Error(err)
	}
	public, _ := n.key.PublicKey.Bytes()
	b, _ := json.Marshal(&wire.SignedTable{Table: string(text), PublicKey: hex.EncodeToString(append(make([]byte, 65), public...)),
		Signature: hex.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))})
	return b
}

func (n *node) answer(c *wire.Call) *wire.Reply {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	reply := &wire.Reply{Status: 200, Request: sha256.Sum256(c.Body), Body: []byte(n.name)}
	if n.away {
		return nil
	}
	if c.Endpoint == wire.EndpointBoot {
		var m struct {
			Ranges []int
			Handed bool
			To     string
		}
		_ = json.Unmarshal(c.Body, &m)
		for _, i := range m.Ranges {
			r := wire.Range(i)
			n.moves = append(n.moves, fmt.Sprintf("%s %d %v", c.Op, r, m.Handed))
			switch {
			case c.Op == "give" && n.group.owner[r] == n:
				n.group.owner[r] = nil
				n.group.handed[r] = m.To
			case c.Op == "take" && (n.group.owner[r] == nil || n.group.owner[r].away) && (!m.Handed || n.group.handed[r] == n.boot):
				n.group.owner[r] = n
			default:
				return &wire.Reply{Status: 400, Request: reply.Request, Body: []byte("{}")}
			}
		}
		reply.Body = n.table()
		n.tables++
		return reply
	}
	var m struct{ OrganizationID string }
	_ = json.Unmarshal(c.Body, &m)
	b, err := hex.DecodeString(m.OrganizationID[:2])
	if err != nil {
		n.t.Error(err)
	}
	if r := wire.RangeOf(wire.ID{b[0]}, nodeRanges); n.group.owner[r] != n {
		return &wire.Reply{Status: 503, Request: reply.Request, Body: []byte("{}"), Moved: uint16(r) + 1}
	}
	n.calls = append(n.calls, string(c.Body))
	return reply
}

func (n *node) has() (rs []wire.Range) {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	for r := range wire.Range(nodeRanges) {
		if n.group.owner[r] == n {
			rs = append(rs, r)
		}
	}
	return rs
}

func (n *node) set(f func()) {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	f()
}

// bodyIn is a body about an organization of a range.
func bodyIn(r wire.Range, more string) []byte {
	return fmt.Appendf(nil, `{"parameters":{"organizationId":"no id"},"organizationId" : "%02x345678-1234-4234-8234-123456789abc","more":"%s"}`, int(r)*256/nodeRanges, more)
}

// rows is a store's rows of owners.
type rows struct {
	g     *group // whose rows those are that row has not
	mu    sync.Mutex
	row   map[wire.Range]wire.Owned
	beats bool // row's are of somebody who lives
}

func (r *rows) own(_ context.Context, ask wire.Own) (wire.Owned, error) {
	if ask.Action != wire.OwnLook {
		return wire.Owned{}, errors.New("a host does not own")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if row, ok := r.row[ask.Range]; ok {
		if r.beats {
			row.Beat++
			r.row[ask.Range] = row
		}
		return row, nil
	}
	return r.g.row(ask.Range), nil
}

// connect runs Links to nodes. Their pauses are a tenth of what they should be.
func connect(t *testing.T, own *rows, nodes ...*node) *link.Links {
	t.Helper()
	o := link.LinksOptions{Own: own.own, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader}
	for _, n := range nodes {
		one, _ := options(t, n.address())
		o.Pause = one.Pause
		l, err := link.New(one)
		if err != nil {
			t.Fatal(err)
		}
		o.Links = append(o.Links, l)
	}
	l, err := link.NewLinks(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	clocktest.Until(t, "connected", func() bool {
		s := l.Stats()
		return s.Connected == s.Wanted
	})
	return l
}

func newGroup() *group { return &group{owner: map[wire.Range]*node{}, handed: map[wire.Range]string{}} }

func TestRoutes(t *testing.T) {
	g := newGroup()
	a, b := newNode(t, g, "a", 0, 1, 2, 3), newNode(t, g, "b", 4, 5, 6, 7)
	l := connect(t, &rows{g: g}, a, b)
	for _, endpoint := range []wire.Endpoint{wire.EndpointSubmit, wire.EndpointQuery, wire.EndpointProxy} {
		for r := range wire.Range(nodeRanges) {
			reply, err := l.Call(t.Context(), &wire.Call{Endpoint: endpoint, Op: "x", Body: bodyIn(r, "")})
			if want := map[bool]string{true: "a", false: "b"}[r < 4]; err != nil || string(reply.Body) != want {
				t.Fatalf("range %d at endpoint %d: %v, %+v", r, endpoint, err, reply)
			}
		}
	}
	// A body that begins with another's id reaches its own all the same.
	body := []byte(`{"parameters":"\"organizationId\"","x":{"organizationId":"00345678-1234-4234-8234-123456789abc"},"organizationId":"ff345678-1234-4234-8234-123456789abc"}`)
	if reply, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointQuery, Op: "x", Body: body}); err != nil || string(reply.Body) != "b" {
		t.Fatalf("%v, %+v", err, reply)
	}
	if err := l.Ready(); err != nil {
		t.Fatal(err)
	}
}

// While nobody owns a range its calls wait; those of others do not.
func TestCallsWaitForAnOwner(t *testing.T) {
	t.Parallel()
	g := newGroup()
	a, b := newNode(t, g, "a", 0, 1, 2, 3), newNode(t, g, "b", 4, 5, 6)
	// Somebody whom we do not see owns it: its row lives.
	own := &rows{g: g, row: map[wire.Range]wire.Owned{7: {OK: true, Epoch: 3, Boot: wire.ID{9}}}, beats: true}
	l := connect(t, own, a, b)
	answered := make(chan string, 1)
	go func() {
		reply, err := l.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointSubmit, Op: "x", Body: bodyIn(7, "waits")})
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- string(reply.Body)
	}()
	time.Sleep(300 * time.Millisecond)
	if reply, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointSubmit, Op: "x", Body: bodyIn(6, "")}); err != nil || string(reply.Body) != "b" {
		t.Fatalf("%v, %+v", err, reply)
	}
	time.Sleep(4500 * time.Millisecond)
	select {
	case said := <-answered:
		t.Fatalf("answered without an owner: %s", said)
	default:
	}
	if len(a.has())+len(b.has()) != 7 {
		t.Fatal("a range was taken from an owner that lives")
	}
	// It dies: the row stands still, and whoever owns least takes the range.
	own.mu.Lock()
	own.beats = false
	own.mu.Unlock()
	if said := <-answered; said != "b" {
		t.Fatal(said)
	}
	if got := b.has(); !slices.Contains(got, 7) {
		t.Fatalf("%v", got)
	}
}

// A call that was on its way is sent again when the answer is lost, except the
// proxy's.
func TestLostOnTheWay(t *testing.T) {
	t.Parallel()
	g := newGroup()
	a, b := newNode(t, g, "a", 0, 1, 2, 3), newNode(t, g, "b", 4, 5, 6, 7)
	l := connect(t, &rows{g: g}, a, b)
	if _, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointQuery, Op: "x", Body: bodyIn(0, "")}); err != nil {
		t.Fatal(err)
	}
	a.set(func() { a.away = true })
	head := []wire.Header{{Name: "X-Auth-Proxy-Config-Id", Value: "c"}}
	if _, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointProxy, Op: "x", Head: head, Body: bodyIn(0, "proxy")}); !errors.Is(err, link.ErrUnavailable) {
		t.Fatalf("the proxy's call: %v", err)
	}
	began := time.Now()
	reply, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointSubmit, Op: "x", Body: bodyIn(0, "again")})
	if err != nil || string(reply.Body) != "b" {
		t.Fatalf("%v, %+v", err, reply)
	}
	t.Logf("answered by the next owner after %v", time.Since(began))
	clocktest.Until(t, "all taken", func() bool { return len(b.has()) == nodeRanges })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	b.set(func() { b.away = true })
	if _, err := l.Call(ctx, &wire.Call{Endpoint: wire.EndpointSubmit, Op: "x", Body: bodyIn(0, "nobody")}); err == nil {
		t.Fatal("answered by nobody")
	}
}

// A new enclave gets its share, with the heads of logs, and who retires gives all of it.
func TestLevels(t *testing.T) {
	g := newGroup()
	a, b, c := newNode(t, g, "a", 0, 1, 2, 3, 4, 5, 6, 7), newNode(t, g, "b"), newNode(t, g, "c")
	l := connect(t, &rows{g: g}, a, b, c)
	connect(t, &rows{g: g}, a, b, c) // a second host, at the same time
	even := func() bool {
		n := []int{len(a.has()), len(b.has()), len(c.has())}
		slices.Sort(n)
		return slices.Equal(n, []int{2, 3, 3})
	}
	clocktest.Until(t, "shared out", even)
	for _, n := range []*node{b, c} {
		n.group.mu.Lock()
		for _, m := range n.moves {
			if strings.HasPrefix(m, "take") && !strings.HasSuffix(m, "true") {
				t.Errorf("%s took without a head: %s", n.name, m)
			}
		}
		n.group.mu.Unlock()
	}
	a.set(func() { a.retiring = true })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("a %v %q\nb %v %q\nc %v %q", a.has(), a.moves, b.has(), b.moves, c.has(), c.moves)
		}
	})
	clocktest.Until(t, "retired", func() bool { return len(a.has()) == 0 && len(b.has()) == 4 && len(c.has()) == 4 })
	for r := range wire.Range(nodeRanges) {
		if reply, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointQuery, Op: "x", Body: bodyIn(r, "")}); err != nil || string(reply.Body) == "a" {
			t.Fatalf("%v, %+v", err, reply)
		}
	}
}

// A table under another key than the run's is not followed.
func TestTableUnderAnotherKey(t *testing.T) {
	t.Parallel()
	g := newGroup()
	a, b := newNode(t, g, "a", 0, 1, 2, 3), newNode(t, g, "b", 4, 5, 6, 7)
	l := connect(t, &rows{g: g}, a, b)
	if _, err := l.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointQuery, Op: "x", Body: bodyIn(5, "")}); err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	clocktest.Until(t, "heard of", func() bool { // it is asked again when its first table has been looked at
		g.mu.Lock()
		defer g.mu.Unlock()
		return b.tables > 1
	})
	b.set(func() { b.key = other })
	// What it says counts for nothing. Its rows stand still here, so they are tried for.
	clocktest.Until(t, "tried for", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return slices.Contains(a.moves, "take 4 false")
	})
}

func TestLinksRefused(t *testing.T) {
	one, _ := options(t, "tcp://127.0.0.1:1")
	l, err := link.New(one)
	if err != nil {
		t.Fatal(err)
	}
	good := link.LinksOptions{Links: []*link.Link{l}, Own: (&rows{}).own, Log: one.Log, Now: one.Now, Pause: one.Pause, Rand: rand.Reader}
	if _, err := link.NewLinks(good); err != nil {
		t.Fatal(err)
	}
	for i, f := range []func(*link.LinksOptions){
		func(o *link.LinksOptions) { o.Links = nil }, func(o *link.LinksOptions) { o.Links = make([]*link.Link, link.MaxEnclaves+1) },
		func(o *link.LinksOptions) { o.Own = nil }, func(o *link.LinksOptions) { o.Log = nil }, func(o *link.LinksOptions) { o.Now = nil },
		func(o *link.LinksOptions) { o.Pause = nil }, func(o *link.LinksOptions) { o.Rand = nil },
	} {
		bad := good
		f(&bad)
		if _, err := link.NewLinks(bad); err == nil {
			t.Errorf("case %d: made", i)
		}
	}
}
