package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"cloister/shared/wire"
)

// Limits of requests for the enclave's status.
const (
	statusWait  = 3 * time.Second
	statusFresh = 500 * time.Millisecond // between two requests
	maxCounters = 256
)

// A status is the enclave's reply to the operation status of its boot endpoint.
type status struct {
	State            string             `json:"state"`
	AttestationAgeMs *int64             `json:"attestationAgeMs"`
	BootNumber       *uint64            `json:"bootNumber"` // nil unless it serves
	Deployment       string             `json:"deployment"`
	Application      string             `json:"applicationDigest"`
	Counters         map[string]float64 `json:"counters"`
	Shares           *shares            `json:"shares"` // nil unless it waits for shares
	Logs             []struct {
		VKey string `json:"vkey"`
	} `json:"logs"`
	// logs is the reply to the operation logs, if the enclave serves and its release has that operation.
	logs []wire.LogStatus
}

// waitsFor describes why the enclave does not serve yet, for /readyz.
func (s *status) waitsFor() string {
	switch s.State {
	case "hello":
		return "waits for its manifest (cloister-host boot manifest)"
	case "seed":
		if s.Shares == nil {
			return "waits for the root secret"
		}
		return fmt.Sprintf("waits for operators' shares: %d of %d given (cloister-host boot share)", len(s.Shares.Have), s.Shares.Threshold)
	case "recovering":
		return "reads the store and waits for a quorum of its logs' witnesses, if they have any; serves soon"
	case "fenced":
		return "ends: another enclave owns the store"
	}
	return "state is " + clip(s.State)
}

// shares counts the operators' shares of the root secret.
type shares struct {
	Threshold int   `json:"threshold"` // number of shares needed
	Operators int   `json:"operators"` // number of operators with a share
	Have      []int `json:"have"`      // operators whose share has arrived
}

// A statusCache caches the status of one enclave for statusFresh and has one request for it at a
// time in flight, so that monitoring causes no load.
type statusCache struct {
	name string
	to   Enclave
	now  func() time.Time

	mu   sync.Mutex
	at   time.Time
	last *status
	err  error
}

func (k *statusCache) ask(ctx context.Context) (*status, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); !k.at.IsZero() && now.Sub(k.at) < statusFresh {
		return k.last, k.err
	}
	// Detached: a caller that disconnects must not fail the next one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusWait)
	defer cancel()
	k.last, k.err = statusOf(ctx, k.to)
	k.at = k.now()
	return k.last, k.err
}

func statusOf(ctx context.Context, enclave Enclave) (*status, error) {
	s := new(status)
	if err := askBoot(ctx, enclave, wire.OpStatus, s); err != nil {
		return nil, err
	}
	if s.State != wire.StateServing.String() {
		return s, nil
	}
	var all struct {
		Logs []wire.LogStatus `json:"logs"`
	}
	err := askBoot(ctx, enclave, wire.OpLogs, &all)
	switch {
	case errors.Is(err, errRefused): // it has ended meanwhile, or is of an earlier release
		return s, nil
	case err != nil:
		return nil, err
	}
	s.logs = all.Logs
	return s, nil
}

// errRefused is the error of an operation that the enclave refused.
var errRefused = errors.New("refused")

// askBoot calls an operation of the boot endpoint that takes no body, and decodes its reply.
func askBoot(ctx context.Context, enclave Enclave, op string, reply any) error {
	got, err := enclave.Call(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: []byte("{}"), WithinMs: uint32(statusWait / time.Millisecond)})
	if err != nil {
		return err
	}
	if got.Status != http.StatusOK {
		return fmt.Errorf("enclave %s: %w with status %d", op, errRefused, got.Status)
	}
	if json.Unmarshal(got.Body, reply) != nil {
		return fmt.Errorf("enclave %s: not readable", op)
	}
	return nil
}

// statuses asks all enclaves in parallel. The status of one that does not answer is nil.
func (a *API) statuses(ctx context.Context) []*status {
	all := make([]*status, len(a.askers))
	var wait sync.WaitGroup
	for i, k := range a.askers {
		wait.Go(func() {
			if s, err := k.ask(ctx); err == nil {
				all[i] = s
			}
		})
	}
	wait.Wait()
	return all
}

// best returns the status of the enclave that is nearest to serving, nil if none answers: while one
// enclave is unavailable, the host still serves the ranges of the others.
func (a *API) best(all []*status) (best *status) {
	for _, s := range all {
		switch {
		case s == nil:
		case best == nil, s.State == "serving" && best.State != "serving", s.State == best.State && a.isAttestationOld(best):
			best = s
		}
	}
	return best
}

// isAttestationOld reports whether the attestation document is older than Options.AttestationAge.
func (a *API) isAttestationOld(s *status) bool {
	return s.AttestationAgeMs != nil && a.options.AttestationAge > 0 && *s.AttestationAgeMs > a.options.AttestationAge.Milliseconds()
}

func (a *API) health(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

// pingStore checks the store, and logs when its availability changes.
func (a *API) pingStore(ctx context.Context) error {
	err := a.options.Ping(ctx)
	if err != nil {
		a.outages.LogFailure(slog.LevelWarn, "ping", "store not reached", "error", err)
	} else {
		a.outages.LogSuccess("ping", "store reached again")
	}
	return err
}

// ready serves /readyz: 200 if a request would be served, else 503; the body says what is missing.
func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	checks := map[string]string{"link": "ok", "store": "ok", "enclave": "ok", "attestation": "ok", "logs": "ok"}
	ok := true
	missing := func(what, why string) { checks[what], ok = why, false }
	if err := a.options.Enclave.Ready(); err != nil {
		missing("link", err.Error())
	}
	ctx, cancel := context.WithTimeout(r.Context(), statusWait)
	defer cancel()
	switch err := a.pingStore(ctx); {
	case errors.Is(err, ErrTakesNothing):
		missing("store", "takes nothing: is its disk full?")
	case err != nil:
		missing("store", "not reached")
	}
	all := a.statuses(r.Context())
	s := a.best(all)
	switch {
	case s == nil:
		missing("enclave", "no status")
		missing("attestation", "unknown")
		missing("logs", "unknown")
	case s.State != wire.StateServing.String():
		missing("enclave", s.waitsFor())
		missing("logs", "unknown")
	}
	if s != nil && a.isAttestationOld(s) {
		missing("attestation", "document is too old")
	}
	switch text, serves := checkLogs(logsOf(all)); {
	case text != "" && serves: // of several ranges some are served, and a load balancer must not take those away
		checks["logs"] = text
	case text != "":
		missing("logs", text)
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
