package rig

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation/tlog"
)

// A Front stands between hosts and a witness. What it lets pass of the witness's answers it has seen, so it knows what a host can
// know at most.
type Front struct {
	// Away drops every connection, also of what the witness has signed meanwhile.
	Away atomic.Bool
	// Slow is how long a request waits before the witness sees it, in nanoseconds.
	Slow atomic.Int64

	witness http.Handler
	mu      sync.Mutex
	size    uint64   // the largest whose cosignature has passed
	notes   []string // checkpoints whose cosignatures have, in order
}

// ServeHTTP is http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Duration(f.Slow.Load()))
	body, err := io.ReadAll(r.Body)
	if err != nil || f.Away.Load() {
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.witness.ServeHTTP(answer, r)
	if f.Away.Load() {
		panic(http.ErrAbortHandler)
	}
	if answer.Code == http.StatusOK {
		_, note, _ := strings.Cut(string(body), "\n\n")
		text, _, _ := strings.Cut(note, "\n\n")
		c, err := tlog.ParseCheckpoint(text + "\n")
		if err != nil {
			panic(err)
		}
		f.mu.Lock()
		f.size, f.notes = max(f.size, c.Size), append(f.notes, note)
		f.mu.Unlock()
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // or the host is gone
}

// Notes are the checkpoints that the witness has cosigned, as the log signed them.
func (f *Front) Notes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.notes)
}

// Fronts stand before witnesses of one log.
type Fronts []*Front

// NewFronts puts one before each witness, at whose address the terms have it from then on. They end with the test.
func NewFronts(t testing.TB, w *Witnesses) (all Fronts) {
	t.Helper()
	for _, l := range w.Locals {
		f := &Front{witness: l.Handler()}
		w.Terms.Policy = strings.Replace(w.Terms.Policy, l.URL, ServeHTTP(t, f), 1)
		all = append(all, f)
	}
	return all
}

// Quorum is how many leaves so many of the witnesses have cosigned, as far as a host can know.
func (all Fronts) Quorum(needed int) uint64 {
	var sizes []uint64
	for _, f := range all {
		f.mu.Lock()
		sizes = append(sizes, f.size)
		f.mu.Unlock()
	}
	slices.Sort(sizes)
	return sizes[len(sizes)-needed]
}

// Away leaves the first n away and the others there.
func (all Fronts) Away(n int) {
	for i, f := range all {
		f.Away.Store(i < n)
	}
}
