package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"cloister/attestation/request"
	"cloister/scripts/internal/deployment"
)

type object = deployment.Object

// A world is a simulator that is started and killed, and the node beside it.
type world struct {
	deployment.Simulator
	chains      string
	node        node
	account     string
	listed      []string // addresses of tokens
	assets      string   // file of their list
	settings    []string
	poor, payer string // an account without coins, and who pays for it
}

func (w *world) start() error {
	return w.Start(append([]string{"CLOISTER_CHAIN=" + w.chains, "CLOISTER_CHAIN_TIMEOUT=2s", "CLOISTER_ASSETS=" + w.assets}, w.settings...))
}

func (w *world) body(typ string, parameters object) []byte {
	b, err := w.API.Activity(typ, parameters)
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
	return request.WithOrganization(b, w.API.OrganizationID)
}

func (w *world) post(path string, body []byte) (status int, m object, err error) {
	status, reply, err := w.API.Post(context.Background(), path, body)
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
	m, err := w.submit("ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "First", "accounts": []object{deployment.Ethereum(0)}})
	return text(m, "activity", "result", "createWalletResult", "addresses", "0"), err
}

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
