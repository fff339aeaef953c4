package linear_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/anishathalye/porcupine"

	"cloister/sim/rig"
)

// client is one of many; it has one request on its way at a time.
type client struct {
	w       *world
	id      int
	rand    *rand.Rand
	history []porcupine.Operation
}

func newClient(w *world, id int) *client {
	return &client{w: w, id: id, rand: rand.New(rand.NewPCG(uint64(id), 2))}
}

// did records one request and its answer.
func (c *client) did(in input, call int64, out output) {
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: out, Return: c.w.now()})
}

// act does one thing, picked at random.
func (c *client) act(t *tenant) error {
	in := input{object: object{t.id, c.rand.IntN(2) == 0}, user: c.rand.IntN(userCount), name: nameOf(c.rand.IntN(nameCount))}
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
func (c *client) submit(t *tenant, op, typ string, parameters any) (reply, error) {
	body := c.w.body(t, typ, parameters)
	if c.rand.IntN(4) != 0 {
		return c.w.sendBody(t, op, body)
	}
	type result struct {
		reply
		error
	}
	second := make(chan result, 1)
	go func() {
		r, err := c.w.sendBody(t, op, body)
		second <- result{r, err}
	}()
	r, err := c.w.sendBody(t, op, body)
	other := <-second
	if err == nil {
		err = other.error
	}
	c.w.repeats.Add(1)
	if err == nil && (r.status != other.status || rig.Text(r.m, "activity", "id") != rig.Text(other.m, "activity", "id") ||
		fmt.Sprint(rig.Get(r.m, "activity", "result")) != fmt.Sprint(rig.Get(other.m, "activity", "result"))) {
		err = fmt.Errorf("%s: one body, two answers:\n%s\n%s", op, r.raw, other.raw)
	}
	return r, err
}

func (c *client) users(t *tenant, in input) error {
	call := c.w.now()
	switch in.verb {
	case renameUser:
		r, err := c.submit(t, "update_user_name", "ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": t.users[in.user], "userName": in.name})
		done, err := accepted(r, err, "user label must be unique")
		if err == nil {
			c.did(in, call, output{done: done})
		}
		return err
	case readUser:
		op, request, at := "get_user", map[string]any{"userId": t.users[in.user]}, []string{"user", "userName"}
		if in.user == 0 && c.rand.IntN(2) == 0 {
			op, request, at = "whoami", map[string]any{}, []string{"username"}
		}
		r, err := c.w.query(t, op, request)
		if err != nil || r.status != 200 {
			return fmt.Errorf("%s: %d %s %w", op, r.status, r.raw, err)
		}
		c.did(in, call, output{text: rig.Text(r.m, at...)})
	case readUsers:
		r, err := c.w.query(t, "list_users", map[string]any{})
		if err != nil || r.status != 200 {
			return fmt.Errorf("list_users: %d %s %w", r.status, r.raw, err)
		}
		var out output
		for _, u := range rig.Get(r.m, "users").([]any) {
			i := slices.Index(t.users[:], rig.Text(u, "userId"))
			if i < 0 {
				return fmt.Errorf("list_users: a user whom nobody made")
			}
			out.names[i] = rig.Text(u, "userName")
		}
		c.did(in, call, out)
	}
	return nil
}

// accepted tells whether a submit was done or refused with one of the words.
func accepted(r reply, err error, refusals ...string) (bool, error) {
	if err != nil {
		return false, err
	}
	if r.status == 200 {
		return true, nil
	}
	for _, w := range refusals {
		if m := rig.Text(r.m, "message"); len(m) >= len(w) && m[:len(w)] == w {
			return false, nil
		}
	}
	return false, fmt.Errorf("unexpected answer: %d %s", r.status, r.raw)
}

func (c *client) wallets(t *tenant, in input) error {
	call := c.w.now()
	var out output
	var r reply
	var err error
	switch in.verb {
	case createWallet:
		r, err = c.submit(t, "create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": in.name, "accounts": []any{}})
		if out.done, err = accepted(r, err, "wallet label must be unique"); out.done {
			out.text = rig.Text(r.m, "activity", "result", "createWalletResult", "walletId")
			t.mu.Lock()
			t.wallets = append(t.wallets, out.text)
			t.mu.Unlock()
		}
	case renameWallet:
		r, err = c.submit(t, "update_wallet", "ACTIVITY_TYPE_UPDATE_WALLET", map[string]any{"walletId": in.wallet, "walletName": in.name})
		out.done, err = accepted(r, err, "wallet label must be unique", "wallet not found")
	case deleteWallet:
		r, err = c.submit(t, "delete_wallets", "ACTIVITY_TYPE_DELETE_WALLETS", map[string]any{"walletIds": []string{in.wallet}, "deleteWithoutExport": true})
		out.done, err = accepted(r, err, "wallet not found")
	case readWallet:
		r, err = c.w.query(t, "get_wallet", map[string]any{"walletId": in.wallet})
		if out.done, err = accepted(r, err, "wallet not found"); out.done {
			out.text = rig.Text(r.m, "wallet", "walletName")
		}
	case readWallets:
		r, err = c.w.query(t, "list_wallets", map[string]any{})
		if out.done, err = accepted(r, err); out.done {
			for _, w := range rig.Get(r.m, "wallets").([]any) {
				out.names[slotOf(rig.Text(w, "walletName"))] = rig.Text(w, "walletId")
			}
		}
	}
	if err == nil {
		c.did(in, call, out)
	}
	return err
}
