package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cloister/shared/wire"
)

// Limits of asking the enclave how it is.
const (
	statusWait  = 3 * time.Second
	statusFresh = 500 * time.Millisecond // between two questions, whoever asks
	maxCounters = 256
)

// A status is what the enclave says of itself at the door boot.
type status struct {
	State            string             `json:"state"`
	AttestationAgeMs *int64             `json:"attestationAgeMs"`
	BootNumber       *uint64            `json:"bootNumber"` // while it serves
	Deployment       string             `json:"deployment"`
	Application      string             `json:"applicationDigest"`
	Counters         map[string]float64 `json:"counters"`
}

// statusCache keeps the last answer for a moment, so that watching cannot
// become load. One question is under way at a time.
type statusCache struct {
	mu   sync.Mutex
	at   time.Time
	last *status
	err  error
}

func (a *API) enclaveStatus(ctx context.Context) (*status, error) {
	c := &a.status
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := a.o.Now(); !c.at.IsZero() && now.Sub(c.at) < statusFresh {
		return c.last, c.err
	}
	// Detached: one watcher's leaving must not fail the next.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusWait)
	defer cancel()
	c.last, c.err = a.askStatus(ctx)
	c.at = a.o.Now()
	return c.last, c.err
}

func (a *API) askStatus(ctx context.Context) (*status, error) {
	reply, err := a.o.Enclave.Call(ctx, &wire.Call{Door: wire.DoorBoot, Op: "status", Body: []byte("{}"), WithinMs: uint32(statusWait / time.Millisecond)})
	if err != nil {
		return nil, err
	}
	if reply.Status != http.StatusOK {
		return nil, fmt.Errorf("enclave status: %d", reply.Status)
	}
	s := new(status)
	if err := json.Unmarshal(reply.Body, s); err != nil {
		return nil, errors.New("enclave status: not readable")
	}
	return s, nil
}

func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

// ready is 200 when a request would be served, else 503; the body says what is
// missing.
func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	checks := map[string]string{"link": "ok", "store": "ok", "enclave": "ok", "attestation": "ok"}
	ok := true
	missing := func(what, why string) { checks[what], ok = why, false }
	if err := a.o.Enclave.Ready(); err != nil {
		missing("link", err.Error())
	}
	ctx, cancel := context.WithTimeout(r.Context(), statusWait)
	defer cancel()
	if err := a.o.Ping(ctx); err != nil {
		missing("store", "not reached")
		a.o.Log.Warn("store not reached", "error", err)
	}
	s, err := a.enclaveStatus(r.Context())
	switch {
	case err != nil:
		missing("enclave", "no status")
		missing("attestation", "unknown")
	case s.State != "serving":
		missing("enclave", "state is "+clip(s.State))
	}
	if err == nil && s.AttestationAgeMs != nil && a.o.AttestationAge > 0 && *s.AttestationAgeMs > a.o.AttestationAge.Milliseconds() {
		missing("attestation", "document is too old")
	}
	body, err := json.Marshal(struct {
		Ready  bool              `json:"ready"`
		Checks map[string]string `json:"checks"`
	}{ok, checks})
	if err != nil {
		panic(err) // strings and a bool always encode
	}
	code := http.StatusOK
	if !ok {
		code = http.StatusServiceUnavailable
	}
	write(w, code, body)
}
