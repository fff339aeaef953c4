package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cloister/attestation"
)

// A record is the file of all webhooks that came: one JSON object in a line.
type record struct {
	mu     sync.Mutex
	file   *os.File
	buffer *bufio.Writer
}

func newRecord(dir string) (*record, error) {
	f, err := os.Create(filepath.Join(dir, "webhooks.jsonl"))
	if err != nil {
		return nil, err
	}
	return &record{file: f, buffer: bufio.NewWriter(f)}, nil
}

func (r *record) add(receiver string, at time.Time, head http.Header, body []byte) error {
	flat := map[string]string{}
	for name, values := range head {
		flat[name] = values[0]
	}
	line, err := json.Marshal(object{"receiver": receiver, "receivedMs": at.UnixMilli(), "headers": flat, "body": string(body)})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.buffer.Write(append(line, '\n'))
	return err
}

func (r *record) close() {
	if err := errors.Join(r.buffer.Flush(), r.file.Close()); err != nil {
		log.Fatal(err)
	}
}

// A manner is how a receiver behaves until it is mended: do answers the request or
// says that it is to be taken.
type manner struct {
	name string
	do   func(tries int, w http.ResponseWriter, r *http.Request) bool
	// always goes on when the others are mended. It fails no event a fourth time, so
	// that all is over within a minute.
	always bool
}

const failsAtMost = 3

func manners() []manner {
	return []manner{
		{"well", func(int, http.ResponseWriter, *http.Request) bool { return false }, true},
		{"fails 30 %", func(tries int, w http.ResponseWriter, _ *http.Request) bool {
			if tries > failsAtMost || rand.Float64() >= 0.3 {
				return false
			}
			w.WriteHeader(500 + rand.IntN(5))
			return true
		}, true},
		{"closes 30 %", func(tries int, _ http.ResponseWriter, _ *http.Request) bool {
			if tries <= failsAtMost && rand.Float64() < 0.3 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, true},
		{"slow", func(int, http.ResponseWriter, *http.Request) bool {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
			return false
		}, true},
		{"hangs", func(_ int, _ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, false},
	}
}

// A receiver is an endpoint on loopback.
type receiver struct {
	manner
	world    *world
	record   *record
	server   *http.Server
	listener net.Listener

	mu     sync.Mutex
	mended bool
	asked  int
	tries  map[string]int    // by event id
	events map[string]string // activity to event id, of what was taken
	again  int               // taken once more
	bad    error
}

func newReceiver(m manner, w *world, rec *record) (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{manner: m, world: w, record: rec, listener: l, tries: map[string]int{}, events: map[string]string{}}
	r.server = &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) url() string { return "http://" + r.listener.Addr().String() + "/hook" }

func (r *receiver) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.server.Shutdown(ctx)
	_ = r.server.Close()
}

// mend makes one that hangs well.
func (r *receiver) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mended = true
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return // the host was killed
	}
	now := time.Now()
	got, err := attestation.VerifyWebhook(q.Header.Get, body, r.world.keys, now, time.Minute)
	var told struct{ ID string }
	if err == nil {
		err = errors.Join(json.Unmarshal(body, &told), r.record.add(r.name, now, q.Header, body))
	}
	r.mu.Lock()
	if err != nil {
		r.bad = errors.Join(r.bad, fmt.Errorf("%s: %w", r.name, err))
		r.mu.Unlock()
		return
	}
	r.asked++
	r.tries[got.EventID]++
	tries, well := r.tries[got.EventID], r.mended && !r.always
	r.mu.Unlock()
	if !well && r.do(tries, w, q) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch old := r.events[told.ID]; old {
	case "":
	case got.EventID:
		r.again++
	default:
		r.bad = errors.Join(r.bad, fmt.Errorf("%s: two events of activity %s", r.name, told.ID))
	}
	r.events[told.ID] = got.EventID
	w.WriteHeader(http.StatusOK)
}

// has tells of how many of the activities the receiver has heard.
func (r *receiver) has(want map[string]bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range want {
		if r.events[id] != "" {
			n++
		}
	}
	return n
}

func (r *receiver) fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

func (r *receiver) report(want map[string]bool, after time.Duration) string {
	n := r.has(want)
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("ok  %-12s heard of %d activities in %d requests, %d taken twice, complete after %.1f s", r.name, n, r.asked, r.again, after.Seconds())
}
