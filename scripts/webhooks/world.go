package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"cloister/attestation"
	"cloister/attestation/request"
	"cloister/sim/laptop"
)

type object = map[string]any

// A world is a simulator that is started and killed.
type world struct {
	binary, dir, store string
	port, proxyPort    int

	sim     *exec.Cmd
	ended   chan struct{}
	api     *request.API
	keys    []attestation.WebhookKey
	rawKeys []byte
	tags    atomic.Int64
}

func (w *world) url() string { return "http://127.0.0.1:" + strconv.Itoa(w.port) }

// start starts the simulator and waits until it answers.
func (w *world) start() error {
	data := filepath.Join(w.dir, "sim")
	log, err := os.OpenFile(filepath.Join(w.dir, "sim.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	w.sim = exec.Command(w.binary, "-data-dir", data, "-store", w.store, "-webhook-loopback",
		"-api-addr", w.url()[len("http://"):], "-auth-proxy-addr", "127.0.0.1:"+strconv.Itoa(w.proxyPort))
	w.sim.Stdout, w.sim.Stderr = log, log
	if err := w.sim.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	w.ended = ended
	go func(c *exec.Cmd) { _ = c.Wait(); close(ended) }(w.sim)
	for range 600 {
		select {
		case <-ended:
			text, _ := os.ReadFile(filepath.Join(w.dir, "sim.log"))
			return fmt.Errorf("the simulator ended: %s", text[max(0, len(text)-2000):])
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := w.get("/readyz"); err == nil {
			raw, err := os.ReadFile(filepath.Join(data, "credentials.json"))
			if err != nil {
				return err
			}
			var c laptop.Credentials
			if err := json.Unmarshal(raw, &c); err != nil {
				return err
			}
			key, err := request.ParseKey(c.RootAPIKey.PrivateKey)
			w.api = &request.API{URL: w.url(), OrganizationID: c.OrganizationID, Key: key, HTTP: &http.Client{Timeout: 30 * time.Second}}
			return err
		}
	}
	return errors.New("the simulator does not answer")
}

// kill ends the simulator and with it host and enclave, as kill -9 does.
func (w *world) kill() {
	_ = w.sim.Process.Kill()
	<-w.ended
	time.Sleep(200 * time.Millisecond) // the others die with it, a moment later
}

// killHost ends the host alone with kill -9, and waits for the others to follow.
func (w *world) killHost() error {
	b, err := os.ReadFile(filepath.Join(w.dir, "sim", "pids"))
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`(\d+) host`).FindSubmatch(b)
	if m == nil {
		return errors.New("no host among the processes")
	}
	pid, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	select {
	case <-w.ended:
		return nil
	case <-time.After(5 * time.Minute):
		return errors.New("the simulator goes on without its host")
	}
}

func (w *world) get(path string) ([]byte, error) {
	r, err := http.Get(w.url() + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", path, r.StatusCode)
	}
	return io.ReadAll(r.Body)
}

// fetchKeys asks for the key set as a receiver does.
func (w *world) fetchKeys() (err error) {
	if w.rawKeys, err = w.get("/public/v1/discovery/webhooks/jwks"); err != nil {
		return err
	}
	w.keys, err = attestation.ParseWebhookKeys(w.rawKeys)
	return err
}

func (w *world) writeKeys() error {
	return os.WriteFile(filepath.Join(w.dir, "jwks.json"), w.rawKeys, 0o600)
}

func (w *world) subscribe(name, url string) error {
	_, err := w.api.Submit(context.Background(), "ACTIVITY_TYPE_CREATE_WEBHOOK_ENDPOINT", object{"name": name, "url": url, "subscriptions": []object{{"eventType": "ACTIVITY_UPDATES"}}})
	return err
}

// tagAndDelete is two activities, so that nothing grows.
func (w *world) tagAndDelete() (ids []string, err error) {
	ctx := context.Background()
	a, err := w.api.Submit(ctx, "ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": fmt.Sprint("tag ", w.tags.Add(1)), "userIds": []string{}})
	if err != nil {
		return nil, err
	}
	var made struct{ UserTagID string }
	if err := a.Into(&made); err != nil {
		return nil, err
	}
	b, err := w.api.Submit(ctx, "ACTIVITY_TYPE_DELETE_USER_TAGS", object{"userTagIds": []string{made.UserTagID}})
	if err != nil {
		return nil, err
	}
	return []string{a.ID, b.ID}, nil
}

// alarms are the enclave's counters of what it caught its host at.
func (w *world) alarms() (map[string]uint64, error) {
	b, err := w.get("/metrics")
	if err != nil {
		return nil, err
	}
	m := map[string]uint64{}
	for _, f := range regexp.MustCompile(`(?m)^cloister_enclave_alarms_total\{alarm="(\w+)",enclave="[^"]*"\} (\d+)$`).FindAllStringSubmatch(string(b), -1) {
		if m[f[1]], err = strconv.ParseUint(f[2], 10, 64); err != nil {
			return nil, err
		}
	}
	if len(m) == 0 {
		return nil, errors.New("there are no alarms to read")
	}
	return m, nil
}
