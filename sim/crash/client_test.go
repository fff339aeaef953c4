package crash_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"
	"cloister/sim/client"
)

// worker is one of those who put the deployment under load.
type worker struct {
	*client.Client
	w       *world
	name    string
	ledger  *ledger
	n       int
	rng     *rand.Rand
	think   time.Duration // at most, between two requests
	wallets []wallet
	subs    int
	maxSubs int
	resent  int
}

// clients are how many there are, each with one body on its way.
const clients = 8

// wallet is one that a client has.
type wallet struct{ id, name, address string }

const (
	requestTimeout = 10 * time.Second
	patience       = 5 * time.Minute // to get one body acknowledged
)

// root is the root user, who waits so long for each reply.
func (w *world) root(wait time.Duration) *client.Client {
	c := w.credentials
	return &client.Client{Send: client.HTTP(&http.Client{Timeout: wait, Transport: w.transport}, w.api), Times: &w.times,
		Organization: c.OrganizationID, User: c.RootUserID, Key: c.RootAPIKey}
}

// newWorker makes a worker of a client, which renames the client's user.
func (w *world) newWorker(name string, c *client.Client, seed uint64) *worker {
	w.t.Helper()
	l, err := newLedger(filepath.Join(w.dir, name+".ledger"))
	if err != nil {
		w.t.Fatal(err)
	}
	return &worker{Client: c, w: w, name: name, ledger: l, rng: rand.New(rand.NewPCG(seed, uint64(len(name))+sumOf(name)))}
}

func sumOf(s string) (n uint64) {
	for _, c := range []byte(s) {
		n = n*31 + uint64(c)
	}
	return n
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
func (c *worker) prepare(typ string, parameters any) (*request, error) {
	c.Proofs = c.rng.IntN(5) == 0
	q, err := c.Activity(typ, parameters)
	if err != nil {
		return nil, err
	}
	r := &request{n: c.n, op: q.Op, body: q.Body, proofs: c.Proofs}
	c.n++
	return r, c.ledger.write(line{N: r.n, Op: r.op, Organization: c.Organization, Body: string(r.body)})
}

// settle writes down what a body came to. A refusal is a problem: clients ask
// for nothing that could be refused.
func (c *worker) settle(r *request, a *answer, refused string) error {
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
func (c *worker) submit(typ string, parameters any) (*answer, error) {
	r, err := c.prepare(typ, parameters)
	if err != nil {
		return nil, err
	}
	fp := sum(r.body)
	c.w.waiting.Store(fp, true)
	a, refused, err := c.retryUntilAnswered(r.op, r.body)
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
func (c *worker) retryUntilAnswered(op string, body []byte) (a *answer, refused string, err error) {
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
func (c *worker) once(op string, body []byte) (a *answer, refused string, err error) {
	reply, err := c.Post(context.Background(), wire.EndpointSubmit, op, body)
	switch status := reply.Status; {
	case err != nil:
		return nil, "", err
	case status == 499, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return nil, "", errors.New(reply.String())
	case status >= 500:
		c.w.problems.add("%s: %s: %v", c.name, op, reply)
		return nil, "", fmt.Errorf("%d", status)
	case status != http.StatusOK:
		return nil, reply.String(), nil
	}
	var r struct{ Activity answer }
	if err := json.Unmarshal(reply.Body, &r); err != nil || r.Activity.Status != "ACTIVITY_STATUS_COMPLETED" {
		c.w.problems.add("%s: %s answered %v %s", c.name, op, err, reply.Body)
		return nil, "", fmt.Errorf("no answer")
	}
	return &r.Activity, "", nil
}

// run sends requests until stop is closed.
func (c *worker) run(stop <-chan struct{}) error {
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
			_, err = c.createSub(fmt.Sprintf("%s sub %d", c.name, c.n), c.Key)
		default:
			err = c.sign()
		}
		if err != nil {
			return err
		}
	}
}

func (c *worker) createWallet() error {
	name := fmt.Sprintf("%s wallet %d", c.name, c.n)
	a, err := c.submit("CREATE_WALLET", client.Wallet(name, client.Ethereum))
	if a == nil {
		return err
	}
	m, err := a.made()
	if err != nil || m.WalletID == "" || len(m.Addresses) != 1 {
		return fmt.Errorf("create_wallet answered %s, %v", a.Result, err)
	}
	c.wallets = append(c.wallets, wallet{m.WalletID, name, m.Addresses[0]})
	return nil
}

func (c *worker) deleteWallet() error {
	w := c.wallets[0]
	c.wallets = c.wallets[1:]
	_, err := c.submit("DELETE_WALLETS", client.Object{"walletIds": []string{w.id}, "deleteWithoutExport": true})
	return err
}

func (c *worker) rename() error {
	_, err := c.submit("UPDATE_USER_NAME", client.Object{"userId": c.User, "userName": fmt.Sprintf("%s name %d", c.name, c.n)})
	return err
}

func (c *worker) sign() error {
	w := c.wallets[c.rng.IntN(len(c.wallets))]
	payload := hex.EncodeToString([]byte(strings.Repeat(c.name, 1+c.rng.IntN(20))))
	_, err := c.submit("SIGN_RAW_PAYLOAD_V2", client.Payload(w.address, payload, "KECCAK256"))
	return err
}

// createSub makes a sub-organization whose root user has this key.
func (c *worker) createSub(name string, key client.KeyPair) (*answer, error) {
	return c.submit("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization(name, client.NewRootUser("Root", key)))
}

func (c *worker) newSub(name string, key client.KeyPair) (string, error) {
	a, err := c.createSub(name, key)
	if a == nil {
		return "", fmt.Errorf("create_sub_organization: %v", err)
	}
	m, err := a.made()
	if err != nil || m.SubOrganizationID == "" {
		return "", fmt.Errorf("create_sub_organization answered %s, %v", a.Result, err)
	}
	return m.SubOrganizationID, nil
}

func (c *worker) createUser() (string, error) {
	a, err := c.submit("CREATE_USERS_V3", client.Users(client.NewUser(c.name+" name", client.NewKey())))
	if a == nil {
		return "", fmt.Errorf("create_users: %v", err)
	}
	m, err := a.made()
	if err != nil || len(m.UserIDs) != 1 {
		return "", fmt.Errorf("create_users answered %s, %v", a.Result, err)
	}
	return m.UserIDs[0], nil
}

// crowd is the clients of a world and the load that they make.
type crowd struct {
	setup   *worker
	clients []*worker
	stop    chan struct{}
	end     func() // closes stop
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
	root := w.root(requestTimeout)
	g := &crowd{setup: w.newWorker("setup", root, seed), stop: make(chan struct{})}
	for i := range clients {
		organization, key := root.Organization, client.NewKey()
		name := fmt.Sprintf("client%d", i)
		var err error
		switch {
		case i < 4:
			_, err = g.setup.submit("CREATE_API_KEYS_V2", client.Object{"userId": root.User, "apiKeys": []any{client.APIKey("Key", key)}})
		case i < 6:
			organization, err = g.setup.newSub("Organization of "+name, key)
		default:
			organization, key = w.organizations[i-6].OrganizationID, w.organizations[i-6].RootAPIKey
		}
		check(err)
		c := w.newWorker(name, root.As(organization, "", key), seed)
		c.think = think
		if i < 2 {
			c.maxSubs = 40
		}
		c.User, err = c.createUser()
		check(err)
		g.clients = append(g.clients, c)
	}
	g.end = sync.OnceFunc(func() { close(g.stop) })
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Log(w.problems.all())
		}
		g.end()
	})
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
	g.end()
	g.done.Wait()
}

// close ends the ledgers.
func (g *crowd) close() {
	for _, c := range append(g.clients, g.setup) {
		_ = c.ledger.file.Close()
	}
}
