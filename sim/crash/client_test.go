package crash_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/sim/laptop"
)

// sender stamps with one key and sends over HTTP.
type sender struct {
	w    *world
	key  laptop.KeyPair
	http http.Client
}

func (s *sender) post(path string, body []byte, within time.Duration) (status int, reply []byte, err error) {
	head, err := laptop.Stamp(s.key, body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequest(http.MethodPost, s.w.api+"/public/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for _, h := range head {
		req.Header.Set(h.Name, h.Value)
	}
	c := s.http
	c.Timeout = within
	r, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	reply, err = io.ReadAll(r.Body)
	return r.StatusCode, reply, err
}

// client is one of those who put the deployment under load.
type client struct {
	sender
	name         string
	organization string
	user         string // one that it renames, its own
	ledger       *ledger
	n            int
	rng          *rand.Rand
	think        time.Duration // at most, between two requests
	wallets      []wallet
	subs         int
	maxSubs      int
	stamped      *atomic.Int64
	resent       int
}

// clients are how many there are, each with one body on its way.
const clients = 8

// wallet is one that a client has.
type wallet struct{ id, name, address string }

const (
	requestTimeout = 10 * time.Second
	patience       = 5 * time.Minute // to get one body acknowledged
)

func (w *world) newClient(name, organization string, key laptop.KeyPair, seed uint64, stamped *atomic.Int64) *client {
	w.t.Helper()
	l, err := newLedger(filepath.Join(w.dir, name+".ledger"))
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{sender: sender{w: w, key: key, http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}, name: name,
		organization: organization, ledger: l, rng: rand.New(rand.NewPCG(seed, uint64(len(name))+sumOf(name))), stamped: stamped}
}

func sumOf(s string) (n uint64) {
	for _, c := range []byte(s) {
		n = n*31 + uint64(c)
	}
	return n
}

// now is a timestamp that no other body has.
func now(last *atomic.Int64) string {
	for {
		n, before := time.Now().UnixMilli(), last.Load()
		if n <= before {
			n = before + 1
		}
		if last.CompareAndSwap(before, n) {
			return strconv.FormatInt(n, 10)
		}
	}
}

var errStuck = errors.New("not acknowledged")

// request is one body on its way.
type request struct {
	n      int
	op     string
	body   []byte
	proofs bool // asked for
}

// prepare makes a body and writes it down.
func (c *client) prepare(op, typ string, parameters map[string]any) (*request, error) {
	r := &request{n: c.n, op: op, proofs: c.rng.IntN(5) == 0}
	body := map[string]any{"type": typ, "timestampMs": now(c.stamped), "organizationId": c.organization, "parameters": parameters}
	if r.proofs {
		body["generateAppProofs"] = true
	}
	var err error
	if r.body, err = json.Marshal(body); err != nil {
		return nil, err
	}
	c.n++
	return r, c.ledger.write(line{N: r.n, Op: op, Organization: c.organization, Body: string(r.body)})
}

// settle writes down what a body came to. A refusal is a problem: clients ask
// for nothing that could be refused.
func (c *client) settle(r *request, a *answer, refused string) error {
	if err := c.ledger.write(line{N: r.n, Answer: a, Refused: refused}); err != nil {
		return err
	}
	if a == nil {
		c.w.problems.add("%s: %s refused: %s", c.name, r.op, refused)
		return nil
	}
	c.w.acked.Add(1)
	fp := sum(r.body)
	if want := "sha256:" + hex.EncodeToString(fp[:]); a.Fingerprint != want {
		c.w.problems.add("%s: %s answered with fingerprint %s, not %s", c.name, r.op, a.Fingerprint, want)
	}
	if r.proofs && len(a.AppProofs) == 0 {
		c.w.problems.add("%s: %s: no app proof", c.name, r.op)
	}
	return nil
}

// submit writes a body down, sends it until it is acknowledged, and writes down
// what it was told. Without answer and error it was refused.
func (c *client) submit(op, typ string, parameters map[string]any) (*answer, error) {
	r, err := c.prepare(op, typ, parameters)
	if err != nil {
		return nil, err
	}
	fp := sum(r.body)
	c.w.waiting.Store(fp, true)
	a, refused, err := c.retryUntilAnswered(op, r.body)
	c.w.waiting.Delete(fp)
	if err != nil {
		return nil, err
	}
	if err := c.settle(r, a, refused); err != nil {
		return nil, err
	}
	if tell := c.w.onAck.Swap(nil); tell != nil && a != nil {
		close(*tell)
	}
	return a, nil
}

// retryUntilAnswered sends the same body until it is acknowledged or refused for good.
// Sometimes it is sent twice at once.
func (c *client) retryUntilAnswered(op string, body []byte) (a *answer, refused string, err error) {
	pause := 5 * time.Millisecond
	for began := time.Now(); time.Since(began) < patience; {
		twin := make(chan *answer, 1)
		if c.rng.IntN(20) == 0 {
			go func() { b, _, _ := c.once(op, body); twin <- b }()
		} else {
			twin <- nil
		}
		a, refused, err = c.once(op, body)
		if b := <-twin; b != nil && a != nil && !a.same(b) {
			c.w.problems.add("%s: one body, two answers: %+v, %+v", c.name, a, b)
		}
		if a != nil || refused != "" {
			return a, refused, nil
		}
		c.resent++
		time.Sleep(pause + time.Duration(c.rng.Int64N(int64(pause))))
		pause = min(2*pause, 100*time.Millisecond)
	}
	c.w.problems.add("%s: %s not acknowledged within %v: %v", c.name, op, patience, err)
	return nil, "", errStuck
}

// once sends a body once. An error means that nothing is known.
func (c *client) once(op string, body []byte) (a *answer, refused string, err error) {
	status, reply, err := c.post("submit/"+op, body, requestTimeout)
	switch {
	case err != nil:
		return nil, "", err
	case status == 499, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return nil, "", fmt.Errorf("%d %s", status, reply)
	case status >= 500:
		c.w.problems.add("%s: %s: %d %s", c.name, op, status, reply)
		return nil, "", fmt.Errorf("%d", status)
	case status != http.StatusOK:
		return nil, fmt.Sprintf("%d %s", status, reply), nil
	}
	var r struct{ Activity answer }
	if err := json.Unmarshal(reply, &r); err != nil || r.Activity.Status != "ACTIVITY_STATUS_COMPLETED" {
		c.w.problems.add("%s: %s answered %v %s", c.name, op, err, reply)
		return nil, "", fmt.Errorf("no answer")
	}
	return &r.Activity, "", nil
}

// run sends requests until stop is closed.
func (c *client) run(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(time.Duration(c.rng.Int64N(int64(c.think)))):
		}
		var err error
		switch n := c.rng.IntN(100); {
		case len(c.wallets) == 0 || n < 12 && len(c.wallets) < 8:
			err = c.createWallet()
		case n < 16 && len(c.wallets) > 1:
			err = c.deleteWallet()
		case n < 30:
			err = c.rename()
		case n < 34 && c.subs < c.maxSubs:
			c.subs++
			_, err = c.createSub(fmt.Sprintf("%s sub %d", c.name, c.n), c.key)
		default:
			err = c.sign()
		}
		if err != nil {
			return err
		}
	}
}

func (c *client) createWallet() error {
	name := fmt.Sprintf("%s wallet %d", c.name, c.n)
	a, err := c.submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": name, "accounts": []any{map[string]any{
		"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}}})
	if a == nil {
		return err
	}
	r, err := resultOf(a)
	if err == nil && (r.CreateWalletResult == nil || len(r.CreateWalletResult.Addresses) != 1) {
		err = fmt.Errorf("create_wallet answered %s", a.Result)
	}
	if err != nil {
		return err
	}
	c.wallets = append(c.wallets, wallet{r.CreateWalletResult.WalletID, name, r.CreateWalletResult.Addresses[0]})
	return nil
}

func (c *client) deleteWallet() error {
	w := c.wallets[0]
	c.wallets = c.wallets[1:]
	_, err := c.submit("delete_wallets", "ACTIVITY_TYPE_DELETE_WALLETS", map[string]any{"walletIds": []string{w.id}, "deleteWithoutExport": true})
	return err
}

func (c *client) rename() error {
	_, err := c.submit("update_user_name", "ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": c.user, "userName": fmt.Sprintf("%s name %d", c.name, c.n)})
	return err
}

func (c *client) sign() error {
	w := c.wallets[c.rng.IntN(len(c.wallets))]
	_, err := c.submit("sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": w.address,
		"payload": hex.EncodeToString([]byte(strings.Repeat(c.name, 1+c.rng.IntN(20)))), "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_KECCAK256"})
	return err
}

// createSub makes a sub-organization whose root user has this key.
func (c *client) createSub(name string, key laptop.KeyPair) (*answer, error) {
	return c.submit("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", map[string]any{"subOrganizationName": name, "rootQuorumThreshold": 1,
		"rootUsers": []any{map[string]any{"userName": "Root", "apiKeys": []any{apiKey(key)}, "authenticators": []any{}, "oauthProviders": []any{}}}})
}

func (c *client) newSub(name string, key laptop.KeyPair) (string, error) {
	a, err := c.createSub(name, key)
	if a == nil {
		return "", fmt.Errorf("create_sub_organization: %v", err)
	}
	r, err := resultOf(a)
	if err != nil || r.Sub == nil {
		return "", fmt.Errorf("create_sub_organization answered %s, %v", a.Result, err)
	}
	return r.Sub.ID, nil
}

func (c *client) createUser() (string, error) {
	key, err := laptop.NewKey()
	if err != nil {
		return "", err
	}
	a, err := c.submit("create_users", "ACTIVITY_TYPE_CREATE_USERS_V3", map[string]any{"users": []any{map[string]any{"userName": c.name + " name", "apiKeys": []any{apiKey(key)},
		"authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}}})
	if a == nil {
		return "", fmt.Errorf("create_users: %v", err)
	}
	r, err := resultOf(a)
	if err != nil || r.CreateUsersResult == nil || len(r.CreateUsersResult.UserIDs) != 1 {
		return "", fmt.Errorf("create_users answered %s, %v", a.Result, err)
	}
	return r.CreateUsersResult.UserIDs[0], nil
}

func apiKey(k laptop.KeyPair) map[string]any {
	return map[string]any{"apiKeyName": "Key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}
}

// results are those that are looked into.
type results struct {
	CreateWalletResult *struct {
		WalletID  string   `json:"walletId"`
		Addresses []string `json:"addresses"`
	} `json:"createWalletResult"`
	CreateUsersResult *struct {
		UserIDs []string `json:"userIds"`
	} `json:"createUsersResult"`
	Sub *struct {
		ID string `json:"subOrganizationId"`
	} `json:"createSubOrganizationResultV7"`
}

func resultOf(a *answer) (r results, err error) {
	err = json.Unmarshal(a.Result, &r)
	return r, err
}

// crowd is the clients of a world and the load that they make.
type crowd struct {
	setup   *client
	clients []*client
	stop    chan struct{}
	done    sync.WaitGroup
}

// gather makes eight clients: four share the root organization, each with an API
// key of its own; two have sub-organizations of it; two have organizations of
// their own. Each has a user to rename.
func (w *world) gather(seed uint64, think time.Duration) *crowd {
	w.t.Helper()
	check := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err, w.problems.all())
		}
	}
	stamped := new(atomic.Int64)
	root := w.credentials
	g := &crowd{setup: w.newClient("setup", root.OrganizationID, root.RootAPIKey, seed, stamped), stop: make(chan struct{})}
	for i := range clients {
		key, err := laptop.NewKey()
		check(err)
		organization := root.OrganizationID
		name := fmt.Sprintf("client%d", i)
		switch {
		case i < 4:
			_, err = g.setup.submit("create_api_keys", "ACTIVITY_TYPE_CREATE_API_KEYS_V2", map[string]any{"userId": root.RootUserID, "apiKeys": []any{apiKey(key)}})
		case i < 6:
			organization, err = g.setup.newSub("Organization of "+name, key)
		default:
			organization, key = w.organizations[i-6].OrganizationID, w.organizations[i-6].RootAPIKey
		}
		check(err)
		c := w.newClient(name, organization, key, seed, stamped)
		c.think = think
		if i < 2 {
			c.maxSubs = 40
		}
		c.user, err = c.createUser()
		check(err)
		g.clients = append(g.clients, c)
	}
	w.prober = g.setup
	for _, c := range g.clients {
		g.done.Go(func() {
			if err := c.run(g.stop); err != nil {
				w.problems.add("%s stopped: %v", c.name, err)
			}
		})
	}
	return g
}

// finish lets every client get its last body acknowledged, and then stops it.
func (g *crowd) finish() {
	close(g.stop)
	g.done.Wait()
}

// close ends the ledgers.
func (g *crowd) close() {
	for _, c := range append(g.clients, g.setup) {
		_ = c.ledger.file.Close()
	}
}
