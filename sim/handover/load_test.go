package handover_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/link"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
)

// host is one of several: links to both enclaves, and the placing of ranges.
func (w *world) host(enclaves ...*enclave) *link.Links {
	w.t.Helper()
	var all []*link.Link
	for _, e := range enclaves {
		all = append(all, w.linkTo(e.address))
	}
	ls, err := link.NewLinks(link.LinksOptions{Links: all, Own: w.store.Own, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause, Rand: rand.Reader})
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { ls.Run(ctx) })
	w.t.Cleanup(func() { cancel(); ran.Wait() })
	return ls
}

// A call as a client saw it: when it was sent first, how long it took until there was
// an answer, and the signature in it.
type seen struct {
	call      *wire.Call
	began     time.Time
	took      time.Duration
	signature string
	tries     int
}

// client signs one payload after the other until stopped. Without an answer it sends
// the same body again, as an SDK's user does.
func (w *world) client(to caller, o *organization, name string, stop *atomic.Bool) (all []seen) {
	for n := 0; !stop.Load(); n++ {
		s := seen{call: o.sign(fmt.Appendf(nil, "%s %d", name, n)), began: time.Now()}
		for s.signature == "" {
			s.tries++
			r, err := to.Call(context.Background(), s.call)
			switch {
			case err != nil || r.Status == 503:
				time.Sleep(10 * time.Millisecond)
			case r.Status != 200:
				w.t.Errorf("%s: %d %s", name, r.Status, r.Body)
				return all
			default:
				s.signature = signature(r.Body)
			}
		}
		s.took = time.Since(s.began)
		w.signed.Add(1)
		all = append(all, s)
	}
	return all
}

// signs waits until clients have got n signatures more.
func (w *world) signs(n int64) {
	w.t.Helper()
	want := w.signed.Load() + n
	clocktest.Until(w.t, fmt.Sprintf("clients have %d signatures more", n), func() bool { return w.signed.Load() >= want })
}

func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(len(ds)-1, int(q*float64(len(ds))))]
}

// Under load through two hosts, one enclave follows the other: what was acknowledged is
// there, nothing was signed twice, and nobody was refused. The times are reported.
func TestHandOverUnderLoad(t *testing.T) {
	w := newWorld(t)
	old := w.serving()
	next := w.waiting(after(t, w.manifest), w.manifest, nil)
	hosts := []*link.Links{w.host(old, next), w.host(old, next)}
	var orgs []*organization
	for range 16 {
		orgs = append(orgs, w.organization(hosts[0]))
	}
	var stop atomic.Bool
	results := make([][]seen, len(orgs))
	var clients sync.WaitGroup
	for i, o := range orgs {
		clients.Go(func() { results[i] = w.client(hosts[i%2], o, fmt.Sprint("client ", i), &stop) })
	}
	w.signs(100)
	began := time.Now()
	must(t, link.Upgrade(t.Context(), old.asked, next.asked, time.Now, pause, func(step string, args ...any) {
		t.Logf(step, args...)
		w.signs(1)
	}))
	ended := time.Now()
	w.signs(100)
	stop.Store(true)
	clients.Wait()

	var quiet, moving []time.Duration
	signed, again := 0, 0
	for i, all := range results {
		for _, s := range all {
			signed++
			again += s.tries - 1
			if s.began.Add(s.took).Before(began) || s.began.After(ended) {
				quiet = append(quiet, s.took)
			} else {
				moving = append(moving, s.took)
			}
		}
		if len(all) == 0 {
			t.Fatalf("client %d got nothing", i)
		}
	}
	if len(moving) == 0 {
		t.Error("nothing was asked while the deployment moved")
	}
	t.Logf("measured: hand-over of %d ranges under load in %d ms; %d signatures, %d sent again; p99 %.1f ms beside %.1f ms before and after, longest %.1f ms", ranges,
		ended.Sub(began).Milliseconds(), signed, again, ms(quantile(moving, .99)), ms(quantile(quiet, .99)), ms(quantile(moving, 1)))

	// One body, one activity, one signature: from the new enclave alone.
	var checks sync.WaitGroup
	for i, o := range orgs {
		checks.Go(func() {
			for _, s := range results[i] {
				r, err := next.link.Call(context.Background(), s.call)
				if err != nil || r.Status != 200 || signature(r.Body) != s.signature {
					t.Errorf("client %d: a signature was lost or is another: %v", i, err)
					return
				}
			}
			if n := w.count(next, o); n != len(results[i]) {
				t.Errorf("client %d: %d activities for %d bodies", i, n, len(results[i]))
			}
		})
	}
	checks.Wait()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// count is how many activities of signing an organization has.
func (w *world) count(e *enclave, o *organization) (n int) {
	before := ""
	for {
		page := client.Object{"limit": "100"}
		if before != "" {
			page["before"] = before
		}
		r, err := e.link.Call(context.Background(), o.query("list_activities",
			client.Object{"filterByType": []string{"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"}, "paginationOptions": page}))
		if err != nil || r.Status != 200 {
			w.t.Errorf("listing: %v %s", err, r.Body)
			return -1
		}
		var got struct{ Activities []struct{ ID string } }
		if err := json.Unmarshal(r.Body, &got); err != nil || len(got.Activities) == 0 {
			return n
		}
		n += len(got.Activities)
		before = got.Activities[len(got.Activities)-1].ID
	}
}
