package webhooks_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/shared/clocktest"
)

// An event is a verified webhook as a receiver has it.
type event struct {
	id, activity, status, organization string
	body                               map[string]any
	head                               http.Header
}

// A receiver takes webhooks on loopback, verifies them, and answers as its manner
// tells it to.
type receiver struct {
	*httptest.Server
	t      testing.TB
	manner func(n, tries int, w http.ResponseWriter, r *http.Request) bool // whether it has answered
	keys   func() []attestation.WebhookKey

	mu     sync.Mutex
	asked  int
	events []event        // accepted, in order
	seen   map[string]int // accepted, by event id
	ids    map[string]int // how often each came
}

func newReceiver(t testing.TB, keys func() []attestation.WebhookKey, manner func(n, tries int, w http.ResponseWriter, r *http.Request) bool) *receiver {
	r := &receiver{t: t, manner: manner, keys: keys, seen: map[string]int{}, ids: map[string]int{}}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.Start()
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return // it was cut off
	}
	got, err := attestation.VerifyWebhook(q.Header.Get, body, r.keys(), time.Now(), 5*time.Minute)
	if err != nil {
		r.t.Errorf("a webhook that does not verify: %v", err)
		return
	}
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		r.t.Errorf("a body that is no JSON: %v", err)
		return
	}
	e := event{id: got.EventID, body: m, head: q.Header.Clone()}
	e.activity, _ = m["id"].(string)
	e.status, _ = m["status"].(string)
	e.organization, _ = m["organizationId"].(string)
	r.mu.Lock()
	r.asked++
	n := r.asked
	r.ids[e.id]++
	tries := r.ids[e.id]
	r.mu.Unlock()
	if r.manner != nil && r.manner(n, tries, w, q) {
		return
	}
	r.mu.Lock()
	r.events = append(r.events, e)
	r.seen[e.id]++
	r.mu.Unlock()
}

func (r *receiver) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event{}, r.events...)
}

// distinct is how many events were accepted.
func (r *receiver) distinct() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// until waits for a number of events.
func (r *receiver) until(n int) []event {
	r.t.Helper()
	clocktest.Until(r.t, fmt.Sprintf("%d events have come", n), func() bool { return r.distinct() >= n })
	if got := r.distinct(); got != n {
		r.t.Fatalf("%d events, want %d", got, n)
	}
	return r.all()
}

// The manners of receivers, told which request it is and how often its event has
// come. None fails an event a fourth time: the fifth attempt comes minutes later.
const failsAtMost = 3

func fails(share float64) func(int, int, http.ResponseWriter, *http.Request) bool {
	return func(_, tries int, w http.ResponseWriter, _ *http.Request) bool {
		if tries > failsAtMost || rand.Float64() >= share {
			return false
		}
		w.WriteHeader(500 + rand.IntN(5))
		return true
	}
}

// closes cuts the connection, before or after it has taken the event.
func closes(share float64) func(int, int, http.ResponseWriter, *http.Request) bool {
	return func(_, tries int, _ http.ResponseWriter, _ *http.Request) bool {
		if tries <= failsAtMost && rand.Float64() < share {
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

func slow(most time.Duration) func(int, int, http.ResponseWriter, *http.Request) bool {
	return func(int, int, http.ResponseWriter, *http.Request) bool {
		time.Sleep(time.Duration(rand.Int64N(int64(most))))
		return false
	}
}

func hangsForEver(_, _ int, _ http.ResponseWriter, q *http.Request) bool {
	<-q.Context().Done()
	return true
}
