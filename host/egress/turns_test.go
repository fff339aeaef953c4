package egress_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloister/host/egress"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
)

// A post is an outbox and an enclave whose servers take a while for each message, on the clock of a bubble.
type post struct {
	store.Store
	t     testing.TB
	now   func() time.Time
	after func(time.Duration) <-chan time.Time

	takes   time.Duration                         // a server for a message
	answers func(wire.SendID, int) wire.Delivered // for the nth time; nil: done
	asked   map[string]*atomic.Int32              // questions to the store, by method
	mu      sync.Mutex
	seqs    map[wire.ID]uint64
	number  uint64
	tries   map[wire.SendID][]time.Time
	claims  [][]wire.SendID
	began   time.Time
}

// withPost runs a test in a bubble with a post that takes so long for a message.
func withPost(t *testing.T, takes time.Duration, test func(*post)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t)
		p.now, p.after, p.takes, p.began = time.Now, time.After, takes, time.Now()
		test(p)
	})
}

func (p *post) sleep(d time.Duration) { <-p.after(d) }

func (p *post) since() time.Duration { return p.now().Sub(p.began) }

func newPost(t testing.TB) *post {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{9}}); err != nil || !owned.OK {
		t.Fatal(err)
	}
	p := &post{Store: s, t: t, asked: map[string]*atomic.Int32{}, seqs: map[wire.ID]uint64{}, tries: map[wire.SendID][]time.Time{}}
	for _, method := range []string{"due", "payers", "lanes", "claim", "keep"} {
		p.asked[method] = new(atomic.Int32)
	}
	return p
}

func (p *post) Due(ctx context.Context, ask store.Due) ([]store.Lane, error) {
	p.asked["due"].Add(1)
	return p.Store.Due(ctx, ask)
}

func (p *post) Payers(ctx context.Context, ask store.Payers) ([]wire.ID, error) {
	p.asked["payers"].Add(1)
	return p.Store.Payers(ctx, ask)
}

func (p *post) Lanes(ctx context.Context, ask store.Lanes) ([]store.Lane, error) {
	p.asked["lanes"].Add(1)
	return p.Store.Lanes(ctx, ask)
}

func (p *post) ClaimSends(ctx context.Context, ask store.ClaimSends) ([]store.Send, error) {
	p.asked["claim"].Add(1)
	sends, err := p.Store.ClaimSends(ctx, ask)
	var ids []wire.SendID
	for _, x := range sends {
		ids = append(ids, x.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = append(p.claims, ids)
	return sends, err
}

func (p *post) KeepSend(ctx context.Context, claimant wire.ID, x store.Send) (bool, error) {
	p.asked["keep"].Add(1)
	return p.Store.KeepSend(ctx, claimant, x)
}

func (p *post) OpenSend(context.Context, wire.SendID) (*wire.Opened, error) {
	return &wire.Opened{}, nil
}

func (p *post) Deliver(ctx context.Context, id wire.SendID) (*wire.Delivered, error) {
	select {
	case <-p.after(p.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	p.tries[id] = append(p.tries[id], p.now())
	n := len(p.tries[id])
	p.mu.Unlock()
	d := done
	if p.answers != nil {
		d = p.answers(id, n)
	}
	return &d, nil
}

// put puts n messages of an organization into the outbox, which are due.
func (p *post) put(kind wire.SendKind, payer, organization wire.ID, n int) (ids []wire.SendID) {
	p.t.Helper()
	b := &wire.Batch{Boot: wire.ID{9}, Epoch: 1, Header: []byte("header")}
	for len(ids) < n {
		e := wire.Entry{Organization: organization, Seq: p.seqs[organization], Sealed: []byte("sealed")}
		for range min(n-len(ids), wire.MaxSends) {
			ids = append(ids, wire.SendID{Organization: organization, Seq: e.Seq, Number: uint16(len(e.Sends))})
			e.Sends = append(e.Sends, wire.SendMark{Kind: kind, DueMs: uint64(p.began.UnixMilli()), Payer: payer})
		}
		p.seqs[organization]++
		b.Entries = append(b.Entries, e)
	}
	p.number++
	b.Number = p.number
	if stored, err := p.Append(p.t.Context(), b); err != nil || stored.Verdict != wire.VerdictStored {
		p.t.Fatalf("%+v, %v", stored, err)
	}
	return ids
}

// sends starts a sender.
func (p *post) sends() (s *egress.Sender, stop func()) {
	p.t.Helper()
	s, err := egress.NewSender(egress.Options{Chains: egress.NewChains(nil, time.Second), Outbox: p, Enclave: p, Log: slog.New(slog.DiscardHandler), Now: p.now, Rand: random{},
		Pause: func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-p.after(d):
			}
		}})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	over := make(chan struct{})
	go func() { s.Run(ctx); close(over) }()
	stop = sync.OnceFunc(func() { cancel(); <-over })
	p.t.Cleanup(stop)
	return s, stop
}

// ended waits until messages have been tried n times, and returns when that was.
func (p *post) ended(ids []wire.SendID, n int) (at []time.Duration) {
	p.t.Helper()
	for range 100_000 {
		p.mu.Lock()
		at = nil
		for _, id := range ids {
			if tries := p.tries[id]; len(tries) >= n {
				at = append(at, tries[n-1].Sub(p.began))
			}
		}
		p.mu.Unlock()
		if len(at) == len(ids) {
			return at
		}
		p.sleep(10 * time.Millisecond)
	}
	p.t.Fatalf("%d of %d messages were tried %d times", len(at), len(ids), n)
	return nil
}

func (p *post) questions(but ...string) (n int) {
	for method, asked := range p.asked {
		if !slices.Contains(but, method) {
			n += int(asked.Load())
		}
	}
	return n
}

var tenantA, tenantB, tenantC = wire.ID{0xa0}, wire.ID{0xb0}, wire.ID{0xc0}

// backlog is 4,600 mails of four sub-organizations of tenant A, which go out a second each.
func (p *post) backlog() (ids []wire.SendID) {
	for i := range byte(4) {
		ids = append(ids, p.put(wire.SendMail, tenantA, wire.ID{0xa0, 1 + i}, 1150)...)
	}
	return ids
}

// However many mails of one tenant are due, another's ten go out in the rounds that come next.
func TestTenantsRoundRobin(t *testing.T) {
	withPost(t, time.Second, func(p *post) {
		all := p.backlog()
		s, _ := p.sends()
		p.sleep(5*time.Second + 300*time.Millisecond)
		began := p.since()
		codes := p.put(wire.SendMail, tenantB, wire.ID{0xb0, 1}, 10)
		s.Due()
		at := p.ended(codes, 1)
		if last := slices.Max(at) - began; last > 2500*time.Millisecond {
			t.Errorf("ten codes behind %d mails were delivered after %v", len(all), last)
		} else {
			t.Logf("delivered after %v to %v", slices.Min(at)-began, last)
		}
		// Nothing was reserved: the server was never idle, and nothing is claimed that has no place.
		synctest.Wait() // until all that ends at this instant has
		p.mu.Lock()
		defer p.mu.Unlock()
		if n, most := len(p.tries), 32*int(p.since()/time.Second); n != most {
			t.Errorf("%d mails in %v, want %d", n, p.since(), most)
		}
		t.Logf("claims, looks and keeps of %d mails: %d, %d, %d", len(p.tries), p.asked["claim"].Load(), p.asked["due"].Load()+p.asked["payers"].Load()+p.asked["lanes"].Load(), p.asked["keep"].Load())
	})
}

// On a standing clock: ten that come behind 4,600 are all in the first claim, every other one.
func TestTenInTheFirstClaim(t *testing.T) {
	withPost(t, time.Second, func(p *post) {
		p.backlog()
		codes := p.put(wire.SendMail, tenantB, wire.ID{0xb0, 1}, 10)
		texts := p.put(wire.SendText, tenantC, wire.ID{0xc0}, 3)
		_, stop := p.sends()
		p.ended(codes, 1)
		stop()
		first := p.claims[0]
		for _, id := range slices.Concat(codes, texts) {
			if !slices.Contains(first, id) {
				t.Errorf("%v is not among the first %d", id, len(first))
			}
		}
		of := map[wire.ID]int{}
		for _, id := range first {
			of[id.Organization]++
		}
		for i := range byte(4) {
			if n := of[wire.ID{0xa0, 1 + i}]; n != 4 {
				t.Errorf("organization %d has %d of the first %d", i, n, len(first))
			}
		}
		// The mail server takes 32 at a time: what B did not need is A's at once.
		if n := len(first) - len(texts) + len(p.claims[1]); n < 32 {
			t.Errorf("%d mails were claimed at first, %d then", len(first)-len(texts), len(p.claims[1]))
		}
	})
}

// Within a tenant, organizations take turns, also when there are more than a round has places.
func TestOrganizationsRoundRobin(t *testing.T) {
	withPost(t, time.Second, func(p *post) {
		p.put(wire.SendMail, tenantA, wire.ID{0xa0, 1}, 1000)
		var others []wire.SendID
		for i := range byte(150) {
			others = append(others, p.put(wire.SendMail, tenantA, wire.ID{0xa0, 2, i}, 2)...)
		}
		p.sends()
		at := p.ended(others, 1)
		// 150 × 2 and at most as many of the large one's, 32 a second.
		if last := slices.Max(at); last > 20*time.Second {
			t.Errorf("the last of 300 mails beside 1,000 was delivered after %v", last)
		}
	})
}

// A tenant alone has everything, and the store is asked no more than a claim and a look for as many sends as there are places.
func TestOneTenant(t *testing.T) {
	withPost(t, 50*time.Millisecond, func(p *post) {
		ids := p.put(wire.SendMail, tenantA, tenantA, 3200)
		p.sends()
		last := slices.Max(p.ended(ids, 1))
		// 100 times 32 at once.
		if want := 100 * 50 * time.Millisecond; last > want+50*time.Millisecond {
			t.Errorf("3,200 mails took %v, want %v", last, want)
		}
		if n := p.asked["keep"].Load(); n != 3200 {
			t.Errorf("%d states kept", n)
		}
		t.Logf("%d claims, %d, %d and %d looks", p.asked["claim"].Load(), p.asked["due"].Load(), p.asked["payers"].Load(), p.asked["lanes"].Load())
		if n := p.questions("keep"); n > 3200 {
			t.Errorf("the store was asked %d times beside", n)
		}
	})
}

// While nothing is due the store is asked one thing every half second.
func TestIdle(t *testing.T) {
	withPost(t, 0, func(p *post) {
		later := p.put(wire.SendMail, tenantA, tenantA, 100)
		p.answers = func(wire.SendID, int) wire.Delivered { return isTemporary }
		p.sends()
		p.ended(later, 8) // they are due again after 128 seconds
		p.sleep(10 * time.Second)
		before := p.questions()
		p.sleep(time.Minute)
		if n := p.questions() - before; n < 119 || n > 121 {
			t.Errorf("%d questions in a minute", n)
		}
	})
}

// Who is tried again later has not lost his turn to a backlog.
func TestRetriesRoundRobin(t *testing.T) {
	withPost(t, time.Second, func(p *post) {
		p.backlog()
		code := p.put(wire.SendMail, tenantB, tenantB, 1)
		p.answers = func(id wire.SendID, n int) wire.Delivered {
			if id == code[0] && n < 4 {
				return isTemporary
			}
			return done
		}
		p.sends()
		at := p.ended(code, 4)[0]
		// Four times a second, and 1 + 2 + 4 seconds between them; each time until a place is free at most, which is a second.
		if at < 11*time.Second || at > 11*time.Second+4*1500*time.Millisecond {
			t.Errorf("delivered at the fourth try after %v", at)
		}
	})
}

// Two hosts share what is due, and nothing goes out twice.
func TestTwoSendersRoundRobin(t *testing.T) {
	withPost(t, time.Second, func(p *post) {
		all := p.backlog()
		p.sends()
		p.sends()
		p.sleep(3100 * time.Millisecond)
		codes := p.put(wire.SendMail, tenantB, tenantB, 10)
		if last := slices.Max(p.ended(codes, 1)); last > 6*time.Second {
			t.Errorf("the codes were delivered after %v", last)
		}
		last := slices.Max(p.ended(all, 1))
		if want := time.Duration(len(all)/64+3) * time.Second; last > want {
			t.Errorf("all were delivered after %v, want %v", last, want)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for id, tries := range p.tries {
			if len(tries) != 1 {
				t.Fatalf("%v went out %d times", id, len(tries))
			}
		}
	})
}

// A server that is away is left alone, by all tenants, and what waits for it is not claimed meanwhile.
func TestServerAwayIsNotAsked(t *testing.T) {
	withPost(t, time.Second, func(p *post) {
		p.backlog()
		p.answers = func(wire.SendID, int) wire.Delivered { return away }
		texts := p.put(wire.SendText, tenantB, tenantB, 1)
		p.sends()
		p.ended(texts, 1)
		p.sleep(3 * time.Second)
		before := p.asked["claim"].Load()
		p.sleep(time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := p.asked["claim"].Load() - before; n != 0 || len(p.tries) != 33 {
			t.Errorf("%d claims while the server is away, %d messages tried", n, len(p.tries))
		}
	})
}

// One organization's transactions go out in their order while others' are due too.
func TestTransactionsRoundRobin(t *testing.T) {
	w := newWorld(t)
	w.steady = true
	c := ethereum(w.node)
	for i := range byte(4) {
		w.organization = wire.ID{0xa0, 1 + i}
		for n := range uint64(100) {
			w.put(ether(100 + 100*uint64(i) + n))
		}
	}
	w.organization = wire.ID{0xb0}
	var last wire.SendID
	for n := range uint64(10) {
		last = w.put(ether(n))
	}
	w.sends()
	w.until(last, wire.SendAccepted, "")
	var names []string
	all := c.names()
	for _, name := range all {
		if name <= nameOf(9) {
			names = append(names, name)
		}
	}
	if len(names) != 10 || !slices.IsSorted(names) {
		t.Errorf("went out as %v", names)
	}
}
