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
	"strings"
	"sync"
	"time"

	"cloister/attestation/request"
)

type object = map[string]any

// A world is a simulator that is started and killed, and the node beside it.
type world struct {
	binary, dir     string
	port, proxyPort int
	chains          string
	node            node
	account         string

	sim   *exec.Cmd
	ended chan struct{}
	api   *request.API
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
	w.sim = exec.Command(w.binary, "-data-dir", data, "-api-addr", w.url()[len("http://"):], "-auth-proxy-addr", "127.0.0.1:"+strconv.Itoa(w.proxyPort))
	w.sim.Env = append(os.Environ(), "CLOISTER_CHAIN="+w.chains, "CLOISTER_CHAIN_TIMEOUT=2s")
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
		r, err := http.Get(w.url() + "/readyz")
		if err != nil {
			continue
		}
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return w.read(filepath.Join(data, "credentials.json"))
		}
	}
	return errors.New("the simulator does not answer")
}

func (w *world) read(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c struct {
		OrganizationID string
		RootAPIKey     request.KeyPair
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	key, err := request.ParseKey(c.RootAPIKey.PrivateKey)
	w.api = &request.API{URL: w.url(), OrganizationID: c.OrganizationID, Key: key, HTTP: &http.Client{Timeout: 30 * time.Second}}
	return err
}

// kill ends the simulator and with it host and enclave, as kill -9 does.
func (w *world) kill() {
	_ = w.sim.Process.Kill()
	<-w.ended
	time.Sleep(200 * time.Millisecond) // the others die with it, a moment later
}

// killHost ends the host alone, and waits for the others to follow.
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

func (w *world) body(typ string, parameters object) []byte {
	b, err := w.api.Activity(typ, parameters)
	if err != nil {
		panic(err) // maps of text
	}
	return b
}

func (w *world) queryBody(query object) []byte {
	b, err := json.Marshal(query)
	if err != nil {
		panic(err) // maps of text
	}
	return request.WithOrganization(b, w.api.OrganizationID)
}

// post stamps and sends a body.
func (w *world) post(path string, body []byte) (status int, m object, err error) {
	status, reply, err := w.api.Post(context.Background(), path, body)
	if err == nil {
		err = json.Unmarshal(reply, &m)
	}
	return status, m, err
}

func (w *world) ask(path string, body []byte) (object, error) {
	status, m, err := w.post(path, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %v", path, status, m)
	}
	return m, err
}

func (w *world) submit(typ string, parameters object) (object, error) {
	return w.ask("/public/v1/submit/"+request.Operation(typ), w.body(typ, parameters))
}

func (w *world) query(op string, query object) (object, error) {
	return w.ask("/public/v1/query/"+op, w.queryBody(query))
}

func (w *world) createWallet() (string, error) {
	m, err := w.submit("ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "First", "accounts": []object{{
		"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}}})
	return text(m, "activity", "result", "createWalletResult", "addresses", "0"), err
}

// alarms are the enclave's counters of what it caught its host at.
func (w *world) alarms() (map[string]uint64, error) {
	r, err := http.Get(w.url() + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
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

// text follows keys into a reply.
func text(v any, keys ...string) string {
	for _, k := range keys {
		switch x := v.(type) {
		case object:
			v = x[k]
		case []any:
			if i, err := strconv.Atoi(k); err == nil && i < len(x) {
				v = x[i]
				continue
			}
			return ""
		default:
			return ""
		}
	}
	s, _ := v.(string)
	return s
}

// A liar answers whatever it was told to; ID in it is the question's.
type liar struct {
	mu   sync.Mutex
	text string
}

func (l *liar) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = text
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct{ ID json.Number }
	_ = json.NewDecoder(r.Body).Decode(&ask)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(w, strings.ReplaceAll(l.text, "ID", ask.ID.String()))
}
