package crash_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// phase is a point on a request's way at which something is killed; doc.go
// tells them.
type phase int

const (
	unsent phase = iota
	sent
	stored
	acknowledged
	storing
	random
	recovering
	phases
)

var phaseNames = [phases]string{"unsent", "sent", "stored", "acknowledged", "storing", "random", "recovering"}

func (p phase) String() string { return phaseNames[p] }

// blow is one kill.
type blow struct {
	phase  phase
	victim victims
}

// blows makes n of them: every phase in turn, on every choice of victims.
func blows(n int, rng *rand.Rand, choices ...victims) []blow {
	var all []blow
	for round := 0; len(all) < n; round++ {
		for p := range recovering {
			all = append(all, blow{p, choices[(round+int(p))%len(choices)]})
		}
	}
	all = all[:n]
	rng.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// campaign kills a world's processes while its clients go on.
type campaign struct {
	*world
	rng   *rand.Rand
	think time.Duration // of the clients
	count map[blow]int
	ready map[victims][]time.Duration
	far   time.Time // when to log how far it has come
	// linger waits while a batch is held, so that a reply can come out that should not. It tells whether one has for certain,
	// which ends the campaign.
	linger func() bool
	early  bool // what linger told
}

func newCampaign(w *world, seed uint64, think time.Duration) *campaign {
	k := &campaign{world: w, rng: rand.New(rand.NewPCG(seed, 1)), think: think, count: map[blow]int{}, ready: map[victims][]time.Duration{}}
	k.linger = func() bool {
		time.Sleep(time.Duration(10+k.rng.IntN(40)) * time.Millisecond)
		return false
	}
	return k
}

// run delivers the blows under load, kills everything once more, and judges what
// is there.
func (k *campaign) run(seed uint64, list []blow) []string {
	k.t.Helper()
	g := k.gather(seed, k.think)
	began := time.Now()
	k.far = began
	for i, b := range list {
		if k.early {
			break
		}
		time.Sleep(time.Duration(20+k.rng.IntN(130)) * time.Millisecond)
		if err := k.strike(b); err != nil {
			k.problems.add("kill %d, %v of %v: %v", i, b.phase, b.victim, err)
			break
		}
		if time.Since(k.far) > time.Minute {
			k.far = time.Now()
			fmt.Fprintf(os.Stderr, "%s: %d of %d blows, %d kills, %d acknowledged, %d problems\n", k.t.Name(), i+1, len(list), k.kills.Load(), k.acked.Load(), len(k.problems.all()))
		}
	}
	took := time.Since(began)
	g.finish()
	all := killHost | killEnclave
	if k.pg != nil {
		all |= killPostgres
	}
	if k.witnesses != nil {
		all |= killWitnesses
	}
	k.kill(all)
	if err := k.recover(); err != nil {
		return append(k.problems.all(), err.Error())
	}
	g.close()
	records, seen, err := k.observe(g)
	if err != nil {
		return append(k.problems.all(), err.Error())
	}
	resent := 0
	for _, c := range g.clients {
		resent += c.resent
	}
	k.report(took, len(records), resent)
	wrong := append(k.problems.all(), judge(records, seen)...)
	wrong = append(wrong, k.late()...)
	return append(wrong, k.leftovers()...)
}

// leftovers are alarms and log lines that no kill explains.
func (k *campaign) leftovers() []string {
	wrong := k.complaints()
	n, err := k.counters()
	if err != nil {
		return append(wrong, err.Error())
	}
	for name, n := range n {
		if strings.HasPrefix(name, "alarm_") && n != 0 {
			wrong = append(wrong, fmt.Sprintf("%s = %d", name, n))
		}
	}
	return wrong
}

var errNotReached = errors.New("no request came to this point")

// strike kills at one point and waits until the deployment serves again. How long that takes counts from the last kill.
func (k *campaign) strike(b blow) error {
	var began time.Time
	kill := func(v victims) {
		began = time.Now()
		k.kill(v)
	}
	err := k.reach(b, func() {
		kill(b.victim)
		k.count[b]++
	})
	if err != nil {
		return err
	}
	again := k.during(b, kill)
	err = k.recover()
	if again != nil {
		k.count[blow{recovering, <-again}]++
		if err == nil { // it may have struck after the recovery
			err = k.recover()
		}
	}
	k.ready[b.victim] = append(k.ready[b.victim], time.Since(began))
	return err
}

// during kills once more while a random kill is being recovered from, now and then.
func (k *campaign) during(b blow, kill func(victims)) chan victims {
	if b.phase != random || k.rng.IntN(2) == 0 {
		return nil
	}
	again, wait := make(chan victims, 1), time.Duration(k.rng.IntN(600))*time.Millisecond
	extra := []victims{killHost, killEnclave, killHost | killEnclave}[k.rng.IntN(3)]
	go func() {
		time.Sleep(wait)
		kill(extra)
		again <- extra
	}()
	return again
}

// reach waits until a request has come to the point, and kills there.
func (k *campaign) reach(b blow, kill func()) error {
	switch b.phase {
	case unsent:
		return k.held(b, isCall(k.isWaiting), kill)
	case sent:
		return k.held(b, isBatch, kill)
	case stored:
		want := isStored
		if k.rng.IntN(2) == 0 {
			want = isReply(k.isWaiting)
		}
		return k.held(b, want, kill)
	case storing:
		want := isBatch
		if k.snapshots && k.rng.IntN(3) == 0 {
			want = isSnapshot
		}
		t := k.proxy.set(true, want)
		if err := wait(t.hit); err != nil {
			return err
		}
		time.Sleep(time.Duration(k.rng.IntN(4000)) * time.Microsecond)
		kill()
	case acknowledged:
		told := make(chan struct{})
		k.onAck.Store(&told)
		if err := wait(told); err != nil {
			return err
		}
		kill()
	default:
		time.Sleep(time.Duration(k.rng.IntN(100)) * time.Millisecond)
		kill()
	}
	return nil
}

func wait(hit <-chan struct{}) error {
	select {
	case <-hit:
		return nil
	case <-time.After(patience):
		return errNotReached
	}
}

// held kills while the frame is held between host and enclave. What a dead
// sender had sent may still arrive, and does in half of the cases; a frame that
// was caught between two who live goes on its way.
func (k *campaign) held(b blow, want func(*frame) bool, kill func()) error {
	t := k.proxy.set(false, want)
	if err := wait(t.hit); err != nil {
		return err
	}
	if b.phase == sent {
		k.early = k.linger()
	}
	kill()
	switch {
	case b.victim&(killHost|killEnclave) == 0:
		t.carryOn()
	case b.phase == sent && b.victim&killHost == 0 && k.rng.IntN(2) == 0:
		t.carryOn()
	default:
		t.drop()
	}
	return nil
}

// report logs the figures.
func (k *campaign) report(took time.Duration, bodies, resent int) {
	k.t.Helper()
	total := 0
	for p := range phases {
		var each []string
		n := 0
		for v := killHost; v <= allVictims; v++ {
			if m := k.count[blow{p, v}]; m > 0 {
				n += m
				each = append(each, fmt.Sprintf("%v %d", v, m))
			}
		}
		total += n
		k.t.Logf("counted: kills, %s: %d (%s)", p, n, strings.Join(each, ", "))
	}
	k.t.Logf("counted: kills, all: %d in %v; bodies %d, acknowledged %d, sent again %d times", total, took.Round(time.Second), bodies, k.acked.Load(), resent)
	var all []time.Duration
	for v := killHost; v <= allVictims; v++ {
		if ds := k.ready[v]; len(ds) > 0 {
			all = append(all, ds...)
			k.t.Logf("counted: time to ready after %v: %s", v, spread(ds))
		}
	}
	lease := k.lease
	if lease == "" {
		lease = "default (2s)"
	}
	k.t.Logf("counted: time to ready with lease %s: %s", lease, spread(all))
}

// late are times to ready that are longer than a log with witnesses allows: after a kill of whatever, the next enclave waits until
// the right to serve of the last one has run out.
func (k *campaign) late() (wrong []string) {
	if k.witnesses == nil {
		return nil
	}
	const within = serveFor + 3*time.Second
	all := 0
	for v, ds := range k.ready {
		all += len(ds)
		for _, d := range ds {
			if d > within {
				wrong = append(wrong, fmt.Sprintf("ready %v after the kill of %v, more than W + 3 s = %v", d.Round(time.Millisecond), v, within))
			}
		}
	}
	k.t.Logf("counted: of %d times to ready %d above W + 3 s = %v", all, len(wrong), within)
	return wrong
}

func spread(ds []time.Duration) string {
	slices.Sort(ds)
	ms := func(i int) time.Duration { return ds[i].Round(time.Millisecond) }
	return fmt.Sprintf("median %v, 90%% %v, most %v, of %d", ms(len(ds)/2), ms(len(ds)*9/10), ms(len(ds)-1), len(ds))
}

// fail reports what is wrong, shortened, and leaves the logs where they are told.
func fail(t *testing.T, w *world, wrong []string) {
	t.Helper()
	for i, s := range wrong {
		if i == 40 {
			t.Errorf("and %d more", len(wrong)-i)
			break
		}
		t.Error(s)
	}
	if t.Failed() {
		for _, name := range []string{"host", "enclave"} {
			t.Logf("end of %s.log:\n%s", name, w.tail(name))
		}
	}
}
