package rig_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// lossClients work at once.
const lossClients = 6

// A released reply says that something was done, at a time when a quorum had cosigned so many leaves.
type released struct {
	activity string
	quorum   uint64
}

// A loss is a deployment whose witnesses go and come while clients work.
type loss struct {
	*rig.Rig
	t                *testing.T
	root             *client.User
	fronts           rig.Fronts
	answers, refused atomic.Int64
	stop             atomic.Bool
	clients          sync.WaitGroup

	mu  sync.Mutex
	all []released
}

// client renames the root user again and again, of which no quota has enough at some time. Without an answer it sends the
// same body again.
func (l *loss) client(name string) {
	for n := 0; !l.stop.Load(); n++ {
		body := l.root.Body("UPDATE_USER_NAME", client.Object{"userId": l.root.User, "userName": fmt.Sprint(name, " ", n)})
		for !l.stop.Load() {
			r := l.once(wire.EndpointSubmit, "update_user_name", body)
			seen := l.fronts.Quorum(3)
			if r.Status == 200 {
				if r.JSON() == nil {
					l.t.Error(r)
				}
				l.mu.Lock()
				l.all = append(l.all, released{r.Text("activity", "id"), seen})
				l.mu.Unlock()
				l.answers.Add(1)
				break
			}
			if r.Status != 0 && r.Status != 503 { // of the witnesses, or busy where the machine is
				l.t.Errorf("%s: %v", name, r)
				return
			}
			l.refused.Add(1)
		}
		time.Sleep(time.Millisecond)
	}
}

// What has replies wait without a quorum: in strict mode there are none, in bounded mode none from when a leaf has waited for long.
var (
	strictLoss  = rig.WitnessOptions{Mode: tlog.ModeStrict, Serve: 500 * time.Millisecond}
	boundedLoss = rig.WitnessOptions{Mode: tlog.ModeBounded, Serve: time.Second, Bound: 300 * time.Millisecond}
)

// newLoss has clients work with witnesses who are all there.
func newLoss(t *testing.T, o rig.WitnessOptions) *loss {
	t.Helper()
	w := rig.StartWitnesses(t, o)
	l := &loss{t: t, fronts: rig.NewFronts(t, w)}
	l.Rig = rig.Start(t, rig.Options{Witnesses: w})
	l.root = l.Root()
	l.root.Send = client.Link(l)
	for n := range lossClients {
		l.clients.Go(func() { l.client(fmt.Sprint("client ", n)) })
	}
	return l
}

// end has the clients stop.
func (l *loss) end() {
	l.stop.Store(true)
	l.clients.Wait()
}

// places gives the leaf of each reply, by where the log shows it to stand. A reply that is not in the log ends the test.
func (l *loss) places() []uint64 {
	l.t.Helper()
	boot, next := bootOf(l.t, l.Rig), atomic.Int64{}
	places := make([]uint64, len(l.all))
	var proven sync.WaitGroup
	for range 4 {
		proven.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(l.all) && !l.t.Failed(); i = next.Add(1) - 1 {
				e, _ := logged(l.t, l.Rig, boot, map[string]any{"activityId": l.all[i].activity})
				places[i] = e.Index
			}
		})
	}
	proven.Wait()
	return places
}

// early gives the replies that left before a quorum had cosigned their leaf.
func (l *loss) early() (all []string) {
	l.t.Helper()
	for i, place := range l.places() {
		if place >= l.all[i].quorum {
			all = append(all, fmt.Sprintf("leaf %d, when a quorum had cosigned %d leaves", place, l.all[i].quorum))
		}
	}
	return all
}

// once asks and does not wait for long, as it says: then a refusal comes.
func (l *loss) once(endpoint wire.Endpoint, op string, body []byte) client.Reply {
	r, err := l.root.Client.Post(context.Background(), endpoint, op, body)
	if err != nil {
		return client.Reply{} // no answer
	}
	return r
}

// Call is the link's, waiting for less than the interface allows.
func (l *loss) Call(ctx context.Context, c *wire.Call) (*wire.Reply, error) {
	c.WithinMs = 700
	return l.Link.Call(ctx, c)
}

// until waits for something that must come.
func (l *loss) until(what string, so func() bool) time.Duration {
	l.t.Helper()
	began := time.Now()
	clocktest.Until(l.t, what, so)
	return time.Since(began)
}

// back waits until somebody is answered again.
func (l *loss) back(what string) time.Duration {
	l.t.Helper()
	before := l.answers.Load()
	return l.until("an answer "+what, func() bool { return l.answers.Load() > before })
}

// backSoon is back where nothing is missing any more: that lasts no longer than mostBack.
func (l *loss) backSoon(what string) time.Duration {
	l.t.Helper()
	took := l.back(what)
	if took > mostBack {
		l.t.Errorf("the first answer %s came after %v, more than %v", what, took, mostBack)
	}
	return took
}

const mostBack = 2 * time.Second

// Witnesses go one after the other, are slow, and flap. In strict mode no reply leaves of what no quorum has cosigned, in bounded mode
// none once a leaf has waited too long, and all are in the log in the end. Who is refused is told so; when there is a quorum again, there
// are answers.
func TestWitnessLoss(t *testing.T) {
	for _, o := range []rig.WitnessOptions{strictLoss, boundedLoss} {
		t.Run(o.Mode.String(), func(t *testing.T) { loseWitnesses(t, o) })
	}
}

func loseWitnesses(t *testing.T, o rig.WitnessOptions) {
	if testing.Short() {
		t.Skip("left to make campaign: witnesses that go and come in real time")
	}
	const toggles = 500
	l := newLoss(t, o)
	defer l.end()
	l.back("with four")
	query := l.root.Ask(nil)
	for _, n := range []int{1, 2, 4} {
		what := fmt.Sprintf("with %d away", n)
		l.fronts.Away(n)
		if n == 1 {
			for range 50 {
				l.back(what)
			}
			l.fronts.Away(0)
			continue
		}
		l.until("a query that is refused "+what, func() bool {
			r := l.once(wire.EndpointQuery, "whoami", query)
			return r.Status == 503 && strings.Contains(string(r.Body), "LOG_UNAVAILABLE")
		})
		refused, answered := l.refused.Load(), l.answers.Load()
		l.until("refusals "+what, func() bool { return l.refused.Load() >= refused+3*lossClients })
		if r := l.once(wire.EndpointQuery, "whoami", query); r.Status == 200 {
			t.Errorf("a query is answered %s: %v", what, r)
		}
		if now := l.answers.Load(); now != answered {
			t.Errorf("%d answers %s", now-answered, what)
		}
		l.fronts.Away(0)
		t.Logf("counted: %s nothing is answered; %d refusals; answers again %d ms after they are back", what, l.refused.Load()-refused, l.backSoon("after "+what).Milliseconds())
	}
	for _, slow := range []time.Duration{50 * time.Millisecond, 1500 * time.Millisecond} { // within a round, and longer than one
		for _, f := range l.fronts[:2] {
			f.Slow.Store(int64(slow))
		}
		before := l.answers.Load()
		time.Sleep(5 * slow) // load, of which nothing is expected but that what is answered has a quorum
		t.Logf("counted: two of four slow by %v: %d answers in %v", slow, l.answers.Load()-before, 5*slow)
		for _, f := range l.fronts {
			f.Slow.Store(0)
		}
		l.backSoon("when they are quick again")
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	before, lost := l.answers.Load(), 0
	for range toggles {
		f := l.fronts[r.IntN(len(l.fronts))]
		f.Away.Store(!f.Away.Load())
		away := 0
		for _, f := range l.fronts {
			if f.Away.Load() {
				away++
			}
		}
		if away > 1 {
			lost++
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	flapped := l.answers.Load() - before
	l.fronts.Away(0)
	t.Logf("counted: %d toggles, after %d of them no quorum; %d answers meanwhile; answers again %d ms after the last one", toggles, lost, flapped, l.backSoon("after flapping").Milliseconds())
	for range lossClients {
		l.back("in the end")
	}
	l.end()
	early := l.early()
	if o.Mode == tlog.ModeStrict && len(early) > 0 {
		t.Errorf("%d replies left too early: %q", len(early), early)
	}
	t.Logf("counted: %d replies, all of them in the log; %d left before 3 of 4 witnesses had cosigned their leaf; %d refusals", len(l.all), len(early), l.refused.Load())
}
