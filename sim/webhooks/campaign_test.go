package webhooks_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/host/store/postgres"
	"cloister/host/store/storetest"
)

// TestCampaign: hundreds of events to receivers that fail, hang, close and answer
// slowly, host and enclave dead in the middle: each arrives at each at least once,
// under one id, and those that are well wait for nobody. scripts/webhooks does it with
// ten thousand and real processes.
func TestCampaign(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		campaign(t, newWorld(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s, err := postgres.Open(t.Context(), storetest.StartPostgres(t).Database())
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, dir: t.TempDir(), store: s}
		t.Cleanup(func() { w.rig.Kill(); s.Close() })
		w.start()
		campaign(t, w)
	})
}

func campaign(t *testing.T, w *world) {
	manners := map[string]func(int, int, http.ResponseWriter, *http.Request) bool{
		"well": nil, "fails": fails(0.3), "closes": closes(0.3), "slow": slow(200 * time.Millisecond),
		"hangs": func(n, _ int, _ http.ResponseWriter, q *http.Request) bool { // and recovers
			if n > 2 {
				return false
			}
			<-q.Context().Done()
			return true
		},
		"hangs for ever": hangsForEver,
	}
	receivers := map[string]*receiver{}
	for name, m := range manners {
		receivers[name] = w.receiver(m)
		subscribe(w.User, name, receivers[name].URL)
	}
	told := map[string]bool{}
	var mu sync.Mutex
	act := func(from, to int) {
		var all sync.WaitGroup
		for i := from; i < to; i++ {
			all.Go(func() {
				id := tag(w.User, fmt.Sprint("tag ", i))
				mu.Lock()
				told[id] = true
				mu.Unlock()
			})
			if i%10 == 9 {
				all.Wait()
			}
		}
		all.Wait()
	}
	act(0, 30)
	for range 300_000 {
		if receivers["well"].distinct() > 20 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	act(30, 40)
	w.rig.Kill() // right behind the last reply
	w.start()
	act(40, 60)
	began := time.Now()
	for _, name := range []string{"well", "fails", "closes", "slow", "hangs"} {
		r := receivers[name]
		has := func() bool {
			received := map[string]bool{}
			for _, e := range r.all() {
				received[e.activity] = true
			}
			for id := range told {
				if !received[id] {
					return false
				}
			}
			return true
		}
		for range 30_000 {
			if has() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !has() {
			t.Errorf("%s: %d events, and some are missing", name, r.distinct())
		}
		id := map[string]string{} // of one activity and status
		again := 0
		for _, e := range r.all() {
			if old := id[e.activity+e.status]; old != "" && old != e.id {
				t.Errorf("%s: two ids of one event", name)
			} else if old != "" {
				again++
			}
			id[e.activity+e.status] = e.id
		}
		t.Logf("%-6s %d events, asked %d times, %d again, %v after the last reply", name, r.distinct(), r.asked, again, time.Since(began).Round(time.Millisecond))
	}
	if n := receivers["hangs for ever"].distinct(); n != 0 {
		t.Errorf("%d events at one that never answers", n)
	}
	for k, n := range w.rig.Counters() {
		if len(k) > 6 && k[:6] == "alarm_" && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}

// TestDeadLetters: what a receiver refuses for good is kept, and sent again when an
// operator says so.
func TestDeadLetters(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	refuses := true
	r := w.receiver(func(_, _ int, x http.ResponseWriter, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if refuses {
			x.WriteHeader(http.StatusGone)
		}
		return refuses
	})
	endpoint := subscribe(w.User, "One", r.URL)
	var want []string
	for i := range 5 {
		want = append(want, tag(w.User, fmt.Sprint(i)))
	}
	dead := func(n int) (sends []store.Send) {
		t.Helper()
		for range 60_000 {
			var err error
			if sends, err = w.rig.Store.DeadSends(t.Context(), store.DeadSends{Limit: 100}); err != nil {
				t.Fatal(err)
			}
			if len(sends) == n {
				return sends
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatalf("%d dead letters, want %d", len(sends), n)
		return nil
	}
	letters := dead(6)
	for _, x := range letters {
		if x.Text != "HTTP status 410" || fmt.Sprintf("%x", x.Receiver[:4]) != endpoint[:8] || x.Tries != 1 {
			t.Errorf("%+v", x)
		}
	}
	ids := map[string]bool{}
	r.mu.Lock()
	for id := range r.ids {
		ids[id] = true
	}
	r.mu.Unlock()
	mu.Lock()
	refuses = false
	mu.Unlock()
	resend := func(ask store.Resend) {
		t.Helper()
		ask.NowMs = uint64(time.Now().UnixMilli())
		if n, err := w.rig.Store.Resend(t.Context(), ask); err != nil || n == 0 {
			t.Fatal(n, err)
		}
	}
	resend(store.Resend{Send: &letters[0].ID})
	r.until(1)
	dead(5)
	resend(store.Resend{Receiver: letters[0].Receiver})
	received := map[string]bool{}
	for _, e := range r.until(6) {
		received[e.activity] = true
		if !ids[e.id] {
			t.Error("an event has another id than before")
		}
	}
	for _, id := range want {
		if !received[id] {
			t.Errorf("activity %s is missing", id)
		}
	}
	dead(0)
}

// TestBatchesNameOnly: what a host stores holds nothing of an event, and is told of a
// receiver only that it is one.
func TestBatchesNameOnly(t *testing.T) {
	w := newWorld(t)
	r := w.receiver(nil)
	subscribe(w.User, "One", r.URL+"/secret-path")
	tag(w.User, "A name that nobody may read")
	r.until(2)
	w.rig.Kill()
	files, err := filepath.Glob(filepath.Join(w.dir, "cloister.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"secret-path", "that nobody may read", r.URL[len("http://"):]} {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("%s holds %q", file, text)
			}
		}
	}
}
