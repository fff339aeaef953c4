package linear_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"cloister/sim/client"
)

// A worker is one of many; it has one request on its way at a time.
type worker struct {
	w       *world
	id      int
	rand    *rand.Rand
	history []porcupine.Operation
}

func newWorker(w *world, id int) *worker {
	return &worker{w: w, id: id, rand: rand.New(rand.NewPCG(uint64(id), 2))}
}

// did records one request and its answer.
func (c *worker) did(in input, call int64, out output) {
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: out, Return: c.w.now()})
}

// act does one thing, picked at random.
func (c *worker) act(t *tenant) error {
	in := input{object: object{t.Organization, c.rand.IntN(2) == 0}, user: c.rand.IntN(userCount), name: nameOf(c.rand.IntN(nameCount))}
	if !in.object.wallets {
		in.verb = []verb{renameUser, renameUser, readUser, readUsers}[c.rand.IntN(4)]
		if in.verb == renameUser && c.rand.IntN(4) == 0 {
			in.name = firstName(c.rand.IntN(userCount))
		}
		return c.users(t, in)
	}
	t.mu.Lock()
	if n := len(t.wallets); n > 0 { // mostly one of the newest
		in.wallet = t.wallets[max(0, n-1-c.rand.IntN(6))]
	}
	t.mu.Unlock()
	in.verb = []verb{createWallet, createWallet, renameWallet, deleteWallet, readWallet, readWallets}[c.rand.IntN(6)]
	if in.wallet == "" {
		in.verb = createWallet
	}
	return c.wallets(t, in)
}

// submit sends a body, every fourth time twice at once: the two are one request
// and must have one answer.
func (c *worker) submit(t *tenant, typ string, parameters any) (client.Reply, error) {
	q, err := t.Activity(typ, parameters)
	if err != nil {
		return client.Reply{}, err
	}
	if c.rand.IntN(4) != 0 {
		return t.resend(q)
	}
	type result struct {
		client.Reply
		error
	}
	second := make(chan result, 1)
	go func() {
		r, err := t.resend(q)
		second <- result{r, err}
	}()
	r, err := t.resend(q)
	other := <-second
	if err == nil {
		err = other.error
	}
	c.w.repeats.Add(1)
	if err == nil && (r.Status != other.Status || r.Text("activity", "id") != other.Text("activity", "id") ||
		r.Text("activity", "result") != other.Text("activity", "result")) {
		err = fmt.Errorf("%s: one body, two answers:\n%s\n%s", q.Op, r.Body, other.Body)
	}
	return r, err
}

func (c *worker) users(t *tenant, in input) error {
	call := c.w.now()
	switch in.verb {
	case renameUser:
		r, err := c.submit(t, "UPDATE_USER_NAME", client.Object{"userId": t.users[in.user], "userName": in.name})
		done, err := accepted(r, err, "user label must be unique")
		if err == nil {
			c.did(in, call, output{done: done})
		}
		return err
	case readUser:
		op, request, at := "get_user", client.Object{"userId": t.users[in.user]}, []string{"user", "userName"}
		if in.user == 0 && c.rand.IntN(2) == 0 {
			op, request, at = "whoami", nil, []string{"username"}
		}
		r, err := t.ask(op, request)
		if err != nil {
			return err
		}
		c.did(in, call, output{text: r.Text(at...)})
	case readUsers:
		r, err := t.ask("list_users", nil)
		if err != nil {
			return err
		}
		var out output
		for _, u := range r.Get("users").([]any) {
			i := slices.Index(t.users[:], client.Text(u, "userId"))
			if i < 0 {
				return fmt.Errorf("list_users: a user whom nobody made")
			}
			out.names[i] = client.Text(u, "userName")
		}
		c.did(in, call, out)
	}
	return nil
}

// accepted tells whether a submit was done or refused with one of the words.
func accepted(r client.Reply, err error, refusals ...string) (bool, error) {
	if err != nil {
		return false, err
	}
	if r.Status == 200 {
		return true, nil
	}
	for _, w := range refusals {
		if strings.HasPrefix(r.Text("message"), w) {
			return false, nil
		}
	}
	return false, fmt.Errorf("unexpected answer: %v", r)
}

func (c *worker) wallets(t *tenant, in input) error {
	call := c.w.now()
	var out output
	var r client.Reply
	var err error
	switch in.verb {
	case createWallet:
		r, err = c.submit(t, "CREATE_WALLET", client.Wallet(in.name))
		if out.done, err = accepted(r, err, "wallet label must be unique"); out.done {
			out.text = client.Text(r.Result(), "walletId")
			t.mu.Lock()
			t.wallets = append(t.wallets, out.text)
			t.mu.Unlock()
		}
	case renameWallet:
		r, err = c.submit(t, "UPDATE_WALLET", client.Object{"walletId": in.wallet, "walletName": in.name})
		out.done, err = accepted(r, err, "wallet label must be unique", "wallet not found")
	case deleteWallet:
		r, err = c.submit(t, "DELETE_WALLETS", client.Object{"walletIds": []string{in.wallet}, "deleteWithoutExport": true})
		out.done, err = accepted(r, err, "wallet not found")
	case readWallet:
		r, err = t.Query(context.Background(), "get_wallet", client.Object{"walletId": in.wallet})
		if out.done, err = accepted(r, err, "wallet not found"); out.done {
			out.text = r.Text("wallet", "walletName")
		}
	case readWallets:
		r, err = t.Query(context.Background(), "list_wallets", nil)
		if out.done, err = accepted(r, err); out.done {
			for _, w := range r.Get("wallets").([]any) {
				out.names[slotOf(client.Text(w, "walletName"))] = client.Text(w, "walletId")
			}
		}
	}
	if err == nil {
		c.did(in, call, out)
	}
	return err
}
