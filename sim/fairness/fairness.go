// Package fairness measures what another tenant's requests take while one tenant does its worst: what its end users may ask for
// within the usual rates, as often as they may.
//
// Clients, host and an SQLite store share one process, and the enclave has one of its own or, where that is asked for, shares it too.
// Clients are kept cheap, since the processors are the same: every body is stamped beforehand, and of replies the status is read.
package fairness

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cloister/host/link"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

const (
	warmUp = time.Second     // the attack goes on, and nothing is counted
	window = 4 * time.Second // what the victim asks and what attackers are answered in it counts
	// drain is how long what is under way at the end may take until it counts as unanswered. It bounds a measurement whose
	// requests take minutes.
	drain = 8 * time.Second
	// every is how often the victim asks, answered or not. One who waited for each answer would ask less while it is slow, and his
	// percentiles would hide that.
	every = 5 * time.Millisecond
)

// Latencies are what a victim got. Times are in milliseconds, of what was answered with 200 and of what was never answered and has
// waited until the end. What was refused at once is counted and has no time.
type Latencies struct {
	P50, P99, Longest float64
	InsideP99         float64 // what the enclave says it took, of those that were answered
	Asked, Answered   int
	Limited           int // 429
	Failed            int // any other answer than 200, or no connection
	Unanswered        int // under way at the end
	Said              string
}

// Served is what attackers got who ask for the same.
type Served struct {
	Name      string
	Attackers int
	// Done were answered with 200, Denied with 403 or 404, Limited with 429, Failed with anything else or by no connection;
	// Unanswered were under way at the end.
	Done, Denied, Limited, Failed, Unanswered int
	Least, Most                               int     // done and denied in the window, of the attacker who got least and of who got most
	Alone, Enclave                            float64 // milliseconds of one request while nobody else asks, and of processors that the enclave used for it
	Longest                                   float64 // milliseconds of the slowest that was done or denied
	Said                                      string  // the first that failed
}

// A Result is one measurement.
type Result struct {
	Attack string
	Victim Latencies
	Served []Served
	// Cores were used in the window by clients and host, and by the enclave; by all of them if there is one process.
	Cores, Enclave float64
	Setup          float64 // seconds
}

// A group is attackers who ask for the same, each with requests of his own.
type group struct {
	name      string
	attackers []*attacker
}

// An attacker keeps a number of requests in flight, from the first to the last moment.
type attacker struct {
	requests []*requests // taken in turn
	inFlight int
	sent     atomic.Int64

	mu      sync.Mutex
	got     Served
	share   int // done and denied in the window
	longest time.Duration
}

// refused are attackers whom the host refuses by itself, as package api does.
var refused pace.Refusals[*attacker]

// measure has the groups attack and the victim ask meanwhile.
func (w *world) measure(victim *requests, groups []group) Result {
	l, enclave := w.rig.Link, w.enclave
	r := Result{Setup: time.Since(w.begun).Seconds()}
	runtime.GC() // what making all this has left
	for _, g := range groups {
		used := enclaveTime(enclave)
		took := g.attackers[0].alone(l)
		used = enclaveTime(enclave) - used
		r.Served = append(r.Served, Served{Name: g.name, Attackers: len(g.attackers), Alone: milliseconds(took), Enclave: milliseconds(used)})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begun := time.Now()
	from, to := begun.Add(warmUp), begun.Add(warmUp+window)
	var attacks, asks sync.WaitGroup
	for _, g := range groups {
		for _, a := range g.attackers {
			for range a.inFlight {
				attacks.Go(func() { a.attack(ctx, l, from, to) })
			}
		}
	}
	v := &observer{}
	var before, enclaveBefore time.Duration
	for next := begun; next.Before(to); next = next.Add(every) {
		if wait := time.Until(next); wait > 0 {
			time.Sleep(wait)
		} else if late := -wait / every * every; late > 0 {
			next = next.Add(late) // this process had no processor for its clients, and asks no more at once for that
		}
		counts := !next.Before(from)
		if counts && before == 0 {
			before, enclaveBefore = processorTime(), enclaveTime(enclave)
		}
		asks.Go(func() { v.ask(ctx, l, victim, counts) })
	}
	r.Cores, r.Enclave = cores(processorTime()-before), cores(enclaveTime(enclave)-enclaveBefore)
	ended := make(chan struct{})
	go func() {
		asks.Wait()
		attacks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(drain):
		cancel()
		<-ended
	}
	r.Victim = v.latencies()
	for i, g := range groups {
		r.Served[i].add(g.attackers)
	}
	return r
}

// An observer is the victim's client.
type observer struct {
	mu           sync.Mutex
	took, inside []time.Duration
	got          Latencies
}

func (v *observer) ask(ctx context.Context, l *link.Link, rs *requests, counts bool) {
	call := rs.next(nil)
	at := time.Now()
	reply, err := l.Call(ctx, &call)
	took := time.Since(at)
	if !counts {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.got.Asked++
	switch {
	case ctx.Err() != nil:
		v.got.Unanswered++
		v.took = append(v.took, took)
	case err != nil:
		v.got.Failed++
		v.got.Said = cmp.Or(v.got.Said, err.Error())
	case reply.Status == 200:
		v.got.Answered++
		v.took = append(v.took, took)
		v.inside = append(v.inside, inside(reply))
	case reply.Status == 429:
		v.got.Limited++
	default:
		v.got.Failed++
		v.got.Said = cmp.Or(v.got.Said, string(reply.Body))
	}
}

func (v *observer) latencies() Latencies {
	slices.Sort(v.took)
	slices.Sort(v.inside)
	v.got.P50, v.got.P99, v.got.Longest = percentile(v.took, 50), percentile(v.took, 99), percentile(v.took, 100)
	v.got.InsideP99 = percentile(v.inside, 99)
	return v.got
}

// attack asks again at once when it has been answered, or when a rate lets it, until the window ends.
func (a *attacker) attack(ctx context.Context, l *link.Link, from, to time.Time) {
	var body []byte
	for at := time.Now(); at.Before(to); at = time.Now() {
		if wait := refused.Wait(a, at); wait > 0 {
			time.Sleep(min(wait, to.Sub(at)))
			continue
		}
		call := a.next(body)
		body = call.Body
		reply, err := l.Call(ctx, &call)
		now := time.Now()
		wait := a.note(reply, err, now.Sub(at), !now.Before(from) && now.Before(to), ctx.Err() != nil)
		if wait = min(wait, to.Sub(now)); wait > 0 {
			time.Sleep(wait)
		}
	}
}

func (a *attacker) next(body []byte) wire.Call {
	n := a.sent.Add(1)
	return a.requests[n%int64(len(a.requests))].next(body)
}

// note counts an answer and tells how long to wait before the next request.
func (a *attacker) note(reply *wire.Reply, err error, took time.Duration, counts, over bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case over:
		a.got.Unanswered++
		return 0
	case err != nil:
		a.got.Failed++
		a.got.Said = cmp.Or(a.got.Said, err.Error())
		return refusedPause
	case reply.Status == 429:
		a.got.Limited++
		if reply.RefusesAll {
			refused.Note(a, time.Now(), time.Duration(reply.RetryMs)*time.Millisecond)
		}
		return retryAfter(reply.Body)
	case reply.Status == 200:
		a.got.Done++
	case reply.Status == 403, reply.Status == 404:
		a.got.Denied++
	default:
		a.got.Failed++
		a.got.Said = cmp.Or(a.got.Said, string(reply.Body))
		return refusedPause
	}
	a.longest = max(a.longest, took)
	if counts {
		a.share++
	}
	return 0
}

// alone is what one request takes while nobody else asks.
func (a *attacker) alone(l *link.Link) time.Duration {
	call := a.next(nil)
	at := time.Now()
	if reply, err := l.Call(context.Background(), &call); err != nil || reply.Status != 200 && reply.Status != 403 && reply.Status != 404 {
		return -1
	}
	return time.Since(at)
}

// refusedPause is how long a client waits that was refused without being told how long.
const refusedPause = 100 * time.Millisecond

var tryAgain = regexp.MustCompile(`try again in ([0-9a-zµ.]+)`)

// retryAfter is what a refusal says of when to ask again.
func retryAfter(body []byte) time.Duration {
	if m := tryAgain.FindSubmatch(body); m != nil {
		if d, err := time.ParseDuration(string(m[1])); err == nil {
			return d
		}
	}
	return refusedPause
}

// add sums up what the attackers got.
func (s *Served) add(attackers []*attacker) {
	for i, a := range attackers {
		s.Done, s.Denied, s.Limited, s.Failed, s.Unanswered = s.Done+a.got.Done, s.Denied+a.got.Denied, s.Limited+a.got.Limited, s.Failed+a.got.Failed, s.Unanswered+a.got.Unanswered
		s.Said, s.Longest, s.Most = cmp.Or(s.Said, a.got.Said), max(s.Longest, milliseconds(a.longest)), max(s.Most, a.share)
		if i == 0 || a.share < s.Least {
			s.Least = a.share
		}
	}
}

// inside is what the enclave says that an answer took.
func inside(r *wire.Reply) (d time.Duration) {
	for _, us := range r.Phases {
		d += time.Duration(us) * time.Microsecond
	}
	return d
}

// percentile is one of times that are in order, in milliseconds.
func percentile(times []time.Duration, percent int) float64 {
	if len(times) == 0 {
		return 0
	}
	return milliseconds(times[max((len(times)*percent+99)/100-1, 0)])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func cores(used time.Duration) float64 { return used.Seconds() / window.Seconds() }

// enclaveTime is what the threads of a process have used, as the scheduler counts; of process 0 nothing.
func enclaveTime(process int) (used time.Duration) {
	if process == 0 {
		return 0
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", process))
	for _, thread := range threads {
		b, _ := os.ReadFile(thread) // nothing of one that has just ended
		ran, _, _ := strings.Cut(string(b), " ")
		ns, _ := strconv.ParseInt(ran, 10, 64)
		used += time.Duration(ns)
	}
	return used
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
