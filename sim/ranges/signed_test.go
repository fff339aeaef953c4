package ranges_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	replies "cloister/attestation/client"
	"cloister/host/api"
	"cloister/host/link"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
)

// A client that insists on signed replies is served through a host by two enclaves,
// each with a live key of its own, before and after a range moves, and sees none of
// the replies that only send the host elsewhere.
func TestSignedRepliesOfTwoEnclaves(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	move(t, 2, a, b)
	at := serveBoth(t, w, a, b)
	insists, keys := w.insists(at)
	ask := func(r wire.Range) {
		t.Helper()
		for endpoint, call := range map[string]*wire.Call{"query": w.whoami(w.in(r)), "submit": w.tag(w.in(r), strconv.FormatInt(w.now(), 10))} {
			if status, body, err := w.post(insists, at+"/public/v1/"+endpoint+"/", call); err != nil || status != 200 {
				t.Errorf("range %d: %d %s, %v", r, status, body, err)
			}
		}
	}
	for r := range wire.Range(count) {
		ask(r)
	}
	if len(keys) != 2 {
		t.Errorf("%d live keys have signed", len(keys))
	}
	move(t, 0, a, b)
	for r := range wire.Range(count) {
		ask(r)
	}
	if len(keys) != 2 {
		t.Errorf("%d live keys have signed", len(keys))
	}
}

// insists is a client that takes nothing but signed replies of the deployment, and the live keys that it asks about.
func (w *world) insists(at string) (c *http.Client, keys map[string]bool) {
	t := w.t
	t.Helper()
	raw, err := os.ReadFile(w.dir.CredentialsFile())
	if err != nil {
		t.Fatal(err)
	}
	var known laptop.Credentials
	if err := json.Unmarshal(raw, &known); err != nil {
		t.Fatal(err)
	}
	policy := attestation.Policy{SimulatorRootPEM: known.AttestationRootPEM, ExpectedPCRs: map[int]string{}, AllowedManifestSHA256: []string{known.ManifestSHA256}}
	for i := range 3 {
		policy.ExpectedPCRs[i] = known.PCRs[strconv.Itoa(i)]
	}
	keys = map[string]bool{}
	find := replies.Discovery(at, nil)
	return &http.Client{Timeout: time.Minute, Transport: &replies.Transport{Policy: policy, Proofs: func(ctx context.Context, key string) (attestation.BootProof, error) {
		w.mu.Lock()
		keys[key] = true
		w.mu.Unlock()
		return find(ctx, key)
	}}}, keys
}

// post sends a call over HTTP.
func (w *world) post(c *http.Client, path string, call *wire.Call) (int, []byte, error) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, path+call.Op, bytes.NewReader(call.Body))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range call.Head {
		req.Header.Set(h.Name, h.Value)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// serveBoth is a host over HTTP that serves through all of these enclaves.
func serveBoth(t *testing.T, w *world, all ...*enclave) string {
	var links []*link.Link
	for _, e := range all {
		l, err := link.New(link.Options{Address: e.address, StoreTimeout: clocktest.Patience, Store: w.store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause, Witnesses: w.cosigner})
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, l)
	}
	both, err := link.NewLinks(link.LinksOptions{Links: links, Own: w.store.Own, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { both.Run(ctx) })
	t.Cleanup(func() { cancel(); ran.Wait() })
	s := httptest.NewServer(api.New(api.Options{Enclave: both, Ping: func(context.Context) error { return nil }, Metrics: api.NewMetrics(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Boot: "test", Wait: 30 * time.Second}).Public(true))
	t.Cleanup(s.Close)
	return s.URL
}
