package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/hostile"
)

// unstoredBytes is the bound of the group below.
const unstoredBytes = 64 << 10

// impatience is how long a caller waits while acknowledgements are withheld.
const impatience = 40 * time.Millisecond

// acknowledgements are attacks on what the store says of a batch.
var acknowledgements = []attack{
	{name: "acknowledge another batch", touches: "acknowledgement", counter: "alarm_late", off: []string{"late"}, strike: acknowledgeAnother},
	{name: "withhold an acknowledgement", touches: "acknowledgement", off: []string{"release"}, strike: withholdOne},
	{name: "withhold acknowledgements while filling the cache", touches: "acknowledgement", off: []string{"cache", "tip"}, strike: fillCache},
	{name: "withhold acknowledgements while filling memory", touches: "acknowledgement", off: []string{"unstored"}, strike: fillMemory},
}

var errWithheld = errors.New("withheld")

// withholding takes batches and says nothing of them; with stores it stores them
// nevertheless.
func (f *field) withholding(stores bool) hostile.Deed {
	return func(ctx context.Context, q any) (any, error, bool) {
		b, ok := q.(*wire.Batch)
		if !ok {
			return nil, nil, false
		}
		if stores {
			_, _ = f.honest.Append(ctx, b)
		}
		return nil, errWithheld, true
	}
}

// naming is a call that gives the victim's user another name, with little time.
func (v *victim) naming(r *rand.Rand) (*wire.Call, string) {
	name := fmt.Sprintf("Name %08x", r.Uint32())
	return briefly(call(v.Activity("UPDATE_USER_NAME", client.Object{"userId": v.User, "userName": name}))), name
}

// decided sends a call of little time until the enclave has decided it, which
// shows as bytes that are not known to be stored, and returns the last answer.
func (f *field) decided(c *wire.Call) (a answer, unstored uint64) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		a = f.send(c)
		unstored = f.alarms()["unstored_bytes"]
		if a.Status == 200 || unstored > 0 {
			break
		}
	}
	return a, unstored
}

// kept sends the call again once the host is honest: it is answered, and had its
// effect once. One that was never decided has it now.
func (f *field) kept(v *victim, c *wire.Call, name string, count uint64) bool {
	f.store.Do(nil)
	patient := *c
	patient.WithinMs = 0
	one := f.served(func() answer { return f.send(&patient) })
	two := f.served(func() answer { return f.send(&patient) })
	v.name = name
	return f.head(v) == count+1 && one.Text("activity", "id") == two.Text("activity", "id")
}

// bare tells that a reply is the 503 that names no activity.
func bare(a answer) bool { return a.Status == 503 && !bytes.Contains(a.Body, []byte("activity")) }

// acknowledgeAnother says of a batch not stored that another one is.
func acknowledgeAnother(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	count := f.head(v)
	x, lied := rand.New(rand.NewPCG(r.Uint64(), 1)), false
	var mu sync.Mutex
	f.store.Do(func(_ context.Context, q any) (any, error, bool) {
		b, ok := q.(*wire.Batch)
		if !ok {
			return nil, nil, false
		}
		mu.Lock()
		defer mu.Unlock()
		if lied {
			return nil, errWithheld, true
		}
		lied = true
		n := b.Number - 1 - x.Uint64N(b.Number)
		if x.IntN(2) == 0 {
			n = b.Number + 1 + x.Uint64N(5)
		}
		return wire.Stored{Number: n, Verdict: wire.VerdictStored}, nil, true
	})
	before := f.alarms()
	c, name := v.naming(r)
	a, _ := f.decided(c)
	if a.Status == 200 {
		return judged(false, f.head(v) == count, "answered though nothing is stored")
	}
	f.risen("alarm_late", before)
	f.good(f.twin(v))
	once := f.kept(v, c, name, count)
	return judged(bare(a) && once, false, "%.200s", a)
}

// withholdOne stores a batch or not and says nothing. No reply leaves.
func withholdOne(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	count := f.head(v)
	f.store.Do(f.withholding(r.IntN(2) == 0))
	c, name := v.naming(r)
	a, unstored := f.decided(c)
	if a.Status == 200 {
		return judged(false, true, "answered without an acknowledgement")
	}
	f.good(f.twin(v))
	once := f.kept(v, c, name, count)
	return judged(bare(a) && once && unstored > 0, false, "%.200s, %d bytes unstored", a, unstored)
}

// fillCache withholds the acknowledgement of an organization's entry while all
// others are used, so that it would be evicted, loaded at its old state and
// decide anew.
func fillCache(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	count := f.head(v)
	f.store.Do(f.withholding(false))
	c, name := v.naming(r)
	a, _ := f.decided(c)
	asked, evicted := f.store.Loads(v.wid), f.alarms()["organization_evictions"]
	for range 2 {
		for _, w := range f.victims {
			if w != v {
				f.good(w)
			}
		}
	}
	filled := f.alarms()["organization_evictions"] - evicted
	b := f.send(briefly(v.fine()))
	reloaded := f.store.Loads(v.wid) > asked
	if b.Status == 200 {
		return judged(false, reloaded, "answered from a state without its newest entry")
	}
	once := f.kept(v, c, name, count)
	return judged(bare(a) && bare(b) && !reloaded && once && filled >= organizations, false,
		"%d and %d, loaded anew: %v, once: %v, %d evictions", a.Status, b.Status, reloaded, once, filled)
}

// fillMemory withholds acknowledgements while large bodies come. Past the bound
// nothing is decided.
func fillMemory(f *field, v *victim, r *rand.Rand) outcome {
	f.good(v)
	f.store.Do(f.withholding(r.IntN(2) == 0))
	defer f.store.Do(nil)
	const size, calls = 16 << 10, 12
	const most = unstoredBytes + 2*size // one entry more than the bound
	var unstored uint64
	bares, released := true, false
	round := func() {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range calls {
			c := briefly(v.signing(strings.Repeat(fmt.Sprintf("%016x", r.Uint64()), size/16)))
			wg.Go(func() {
				a := f.send(c)
				mu.Lock()
				defer mu.Unlock()
				bares, released = bares && bare(a), released || a.Status == 200
			})
		}
		wg.Wait()
		unstored = f.alarms()["unstored_bytes"]
	}
	for end := time.Now().Add(patience); unstored <= unstoredBytes && time.Now().Before(end); {
		round()
	}
	round() // beyond the bound
	f.good(f.twin(v))
	f.store.Do(nil)
	f.good(v)
	return judged(bares && unstored > unstoredBytes && unstored <= most, !released && unstored > most, "only bare refusals: %v, %d bytes unstored", bares, unstored)
}
