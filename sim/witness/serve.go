package witness

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"cloister/attestation/tlog"
)

// Bounds of conversations.
const (
	wait      = 10 * time.Second // for a request, and for its answer to be taken
	idleWait  = 5 * time.Minute  // between requests on one connection
	maxHeader = 16 << 10         // bytes
)

// Serve answers at a listener, which should be on loopback, until ctx ends.
func (w *Witness) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: w.Handler(), ReadTimeout: wait, WriteTimeout: wait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0)} // who breaks off is nobody's concern
	defer context.AfterFunc(ctx, func() {
		_ = s.Close()
		_ = l.Close() // Serve may not have it yet
	})()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// Handler serves the submission prefix and, as the same, the monitoring prefix:
//
//	POST /add-checkpoint                      200: one line that cosigns; 409: the size that is cosigned, in text/x.tlog.size;
//	                                          400, 403, 404, 422 as the protocol says, with a reason
//	GET /HEX-SHA-256-OF-ORIGIN/checkpoint     the newest checkpoint that was cosigned, cosigned anew
func (w *Witness) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /add-checkpoint", w.serveAdd)
	m.HandleFunc("GET /{number}/checkpoint", w.serveNewest)
	return m
}

func (w *Witness) serveAdd(answer http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(answer, r.Body, maxRequest))
	line := ""
	if err == nil && w.waits(r.Context()) {
		line, err = w.add(r.Context(), body)
	}
	if r.Context().Err() != nil {
		return // nobody waits any more
	}
	at, elsewhere := errors.AsType[errElsewhere](err)
	switch {
	case err == nil:
		write(answer, http.StatusOK, "text/plain; charset=utf-8", line)
	case elsewhere:
		write(answer, http.StatusConflict, "text/x.tlog.size", strconv.FormatUint(uint64(at), 10)+"\n")
	case errors.Is(err, errUnknown):
		http.Error(answer, err.Error(), http.StatusNotFound)
	case errors.Is(err, errUnsigned):
		http.Error(answer, err.Error(), http.StatusForbidden)
	case errors.Is(err, errProof):
		http.Error(answer, err.Error(), http.StatusUnprocessableEntity)
	case errors.Is(err, errKeeping):
		http.Error(answer, err.Error(), http.StatusInternalServerError)
	default:
		http.Error(answer, err.Error(), http.StatusBadRequest)
	}
}

// waits is true once the delay is over.
func (w *Witness) waits(ctx context.Context) bool {
	d := time.Duration(w.delay.Load())
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *Witness) serveNewest(answer http.ResponseWriter, r *http.Request) {
	h, ok := w.newest(r.PathValue("number"))
	if !ok {
		http.Error(answer, "no checkpoint of such a log was cosigned here", http.StatusNotFound)
		return
	}
	write(answer, http.StatusOK, "text/plain; charset=utf-8", tlog.Note(h.note.Text, h.note.Sigs)+w.cosign(h.note.Text))
}

// newest is what was cosigned last of a log.
func (w *Witness) newest(called string) (head, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for origin, l := range w.logs {
		if number(origin) == called {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.head, l.head.note != nil
		}
	}
	return head{}, false
}

func write(answer http.ResponseWriter, status int, kind, text string) {
	answer.Header().Set("Content-Type", kind)
	answer.WriteHeader(status)
	_, _ = io.WriteString(answer, text) // who asked may be gone
}
