package crash_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"cloister/shared/wire"
	"cloister/sim/client"
)

// observed is what the deployment says of itself over its public interface.
type observed struct {
	organizations map[string]*holdings
	got           map[string]*answer    // get_activity, by the id that a ledger names; nil: not found
	again         map[wire.Hash]*answer // each body sent once more, after all else was read; nil: refused
	subs          map[string]bool       // sub-organizations that could be asked
}

// holdings are what one organization has.
type holdings struct {
	listed  []*answer         // list_activities, all pages
	wallets map[string]string // names by id
	users   map[string]string // names by id
}

// expected is what an organization must have, as the ledgers tell it.
type expected struct {
	wallets, users map[string]string
}

// judge holds what was observed against the ledgers and returns what is wrong.
func judge(records []*record, o *observed) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	bodies := map[wire.Hash]*record{}
	for _, r := range records {
		if bodies[r.fingerprint] != nil {
			say("a body stands twice in the ledgers")
		}
		bodies[r.fingerprint] = r
		judgeRecord(r, o, say)
	}
	times, ids := map[wire.Hash]int{}, map[string]bool{}
	for id, h := range o.organizations {
		for _, a := range h.listed {
			if ids[a.ID] {
				say("activity %s is listed twice", a.ID)
			}
			ids[a.ID] = true
			fp, r := bodyOf(a, bodies)
			times[fp]++
			switch {
			case r == nil || r.Organization != id:
				say("activity %s (%s) of organization %s was asked for by nobody", a.ID, a.Type, id)
			case r.answer != nil && !r.answer.same(a):
				say("activity is listed otherwise than acknowledged: %+v, now %+v", r.answer, a)
			}
		}
	}
	for fp, r := range bodies {
		if n := times[fp]; r.answer != nil && n == 0 {
			say("acknowledged activity lost: %s %s is not listed", r.Op, r.answer.ID)
		} else if n > 1 {
			say("one fingerprint, %d activities: %s", n, r.Op)
		} else if n > 0 && r.refused != "" {
			say("a refused body has an activity: %s", r.Op)
		}
	}
	return append(wrong, judgeHoldings(records, o)...)
}

func bodyOf(a *answer, bodies map[wire.Hash]*record) (fp wire.Hash, r *record) {
	const prefix = "sha256:"
	if len(a.Fingerprint) == len(prefix)+2*len(fp) {
		if _, err := hex.Decode(fp[:], []byte(a.Fingerprint[len(prefix):])); err == nil {
			r = bodies[fp]
		}
	}
	return fp, r
}

func judgeRecord(r *record, o *observed, say func(string, ...any)) {
	if r.answer == nil {
		if r.refused == "" {
			say("a body was never answered: %s", r.Op)
		}
		return
	}
	if got := o.got[r.answer.ID]; got == nil {
		say("acknowledged activity lost: %s %s is not found", r.Op, r.answer.ID)
	} else if !got.same(r.answer) {
		say("acknowledged activity changed: %+v, now %+v", r.answer, got)
	}
	if again := o.again[r.fingerprint]; again == nil {
		say("a repeated body is refused: %s %s", r.Op, r.answer.ID)
	} else if !again.same(r.answer) {
		say("a repeated body has another answer: %+v, now %+v", r.answer, again)
	}
}

// judgeHoldings compares effects: wallets, names and sub-organizations.
func judgeHoldings(records []*record, o *observed) (wrong []string) {
	want, subs := expect(records)
	for id, h := range o.organizations {
		e := want[id]
		if e == nil {
			e = &expected{}
		}
		for w, name := range e.wallets {
			if h.wallets[w] != name {
				wrong = append(wrong, fmt.Sprintf("wallet %s (%q) is missing or has another name: %q", w, name, h.wallets[w]))
			}
		}
		for w, name := range h.wallets {
			if _, ok := e.wallets[w]; !ok {
				wrong = append(wrong, fmt.Sprintf("wallet %s (%q) was acknowledged to nobody, or was deleted", w, name))
			}
		}
		for u, name := range e.users {
			if h.users[u] != name {
				wrong = append(wrong, fmt.Sprintf("user %s is called %q, not %q", u, h.users[u], name))
			}
		}
	}
	for _, id := range subs {
		if !o.subs[id] {
			wrong = append(wrong, "sub-organization "+id+" is missing")
		}
	}
	return wrong
}

// expect folds the acknowledged requests, each client's in its order. No two
// clients touch the same thing.
func expect(records []*record) (map[string]*expected, []string) {
	all := map[string]*expected{}
	var subs []string
	for _, r := range records {
		if r.answer == nil {
			continue
		}
		e := all[r.Organization]
		if e == nil {
			e = &expected{wallets: map[string]string{}, users: map[string]string{}}
			all[r.Organization] = e
		}
		var in struct {
			Parameters struct {
				WalletName, UserID, UserName string
				WalletIDs                    []string
				Users                        []struct{ UserName string }
			}
		}
		out, err := r.answer.made()
		if err != nil || json.Unmarshal([]byte(r.Body), &in) != nil {
			continue // the client has complained
		}
		p := in.Parameters
		switch r.Op {
		case "create_wallet":
			e.wallets[out.WalletID] = p.WalletName
		case "delete_wallets":
			for _, id := range p.WalletIDs {
				delete(e.wallets, id)
			}
		case "create_users":
			for i, id := range out.UserIDs {
				e.users[id] = p.Users[i].UserName
			}
		case "update_user_name":
			e.users[p.UserID] = p.UserName
		case "create_sub_organization":
			subs = append(subs, out.SubOrganizationID)
		}
	}
	return all, subs
}

// observe asks the deployment for everything that the ledgers speak of, and for
// everything that it has besides. The bodies are sent again last: a lost
// activity would come back by that.
func (w *world) observe(g *crowd) ([]*record, *observed, error) {
	var records []*record
	o := &observed{organizations: map[string]*holdings{}, got: map[string]*answer{}, again: map[wire.Hash]*answer{}, subs: map[string]bool{}}
	var mu sync.Mutex
	var first error
	each := func(f func(c *worker, rs []*record) error) error {
		var wg sync.WaitGroup
		for _, c := range append(g.clients, g.setup) {
			wg.Go(func() {
				rs, err := read(filepath.Join(w.dir, c.name+".ledger"))
				if err == nil {
					err = f(c, rs)
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil && first == nil {
					first = fmt.Errorf("%s: %w", c.name, err)
				}
			})
		}
		wg.Wait()
		return first
	}
	err := each(func(c *worker, rs []*record) error {
		mu.Lock()
		records = append(records, rs...)
		known := o.organizations[c.Organization] != nil
		if !known {
			o.organizations[c.Organization] = &holdings{}
		}
		h := o.organizations[c.Organization]
		mu.Unlock()
		if !known {
			if err := c.holdings(h); err != nil {
				return err
			}
		}
		return c.lookUp(rs, o, &mu)
	})
	if err != nil {
		return nil, nil, err
	}
	return records, o, each(func(c *worker, rs []*record) error { return c.sendAgain(rs, o, &mu) })
}

// query asks until the answer is final; into is left alone when nothing is found.
func (c *worker) query(op string, request client.Object, into any) (found bool, err error) {
	var reply client.Reply
	for range 600 {
		reply, err = c.Query(context.Background(), op, request)
		if err == nil && reply.Status == 200 {
			return true, json.Unmarshal(reply.Body, into)
		}
		if err == nil && (reply.Status == 401 || reply.Status == 403 || reply.Status == 404) {
			return false, nil // absent and forbidden look alike
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false, fmt.Errorf("%s: %v %v", op, reply, err)
}

func (c *worker) list(op string, request client.Object, into any) error {
	found, err := c.query(op, request, into)
	if err == nil && !found {
		err = errors.New(op + ": refused")
	}
	return err
}

func (c *worker) holdings(h *holdings) error {
	before := ""
	for {
		var page struct{ Activities []*answer }
		if err := c.list("list_activities", client.Object{"paginationOptions": client.Object{"limit": "100", "before": before}}, &page); err != nil {
			return err
		}
		h.listed = append(h.listed, page.Activities...)
		if len(page.Activities) < 100 {
			break
		}
		before = page.Activities[99].ID
	}
	var ws struct {
		Wallets []struct{ WalletID, WalletName string }
	}
	var us struct {
		Users []struct{ UserID, UserName string }
	}
	if err := c.list("list_wallets", nil, &ws); err != nil {
		return err
	}
	if err := c.list("list_users", nil, &us); err != nil {
		return err
	}
	h.wallets, h.users = map[string]string{}, map[string]string{}
	for _, x := range ws.Wallets {
		h.wallets[x.WalletID] = x.WalletName
	}
	for _, x := range us.Users {
		h.users[x.UserID] = x.UserName
	}
	return nil
}

func (c *worker) lookUp(rs []*record, o *observed, mu *sync.Mutex) error {
	for _, r := range rs {
		if r.answer == nil {
			continue
		}
		var got struct{ Activity answer }
		found, err := c.query("get_activity", client.Object{"activityId": r.answer.ID}, &got)
		if err != nil {
			return err
		}
		if found {
			mu.Lock()
			o.got[r.answer.ID] = &got.Activity
			mu.Unlock()
		}
		if m, err := r.answer.made(); err == nil && m.SubOrganizationID != "" {
			var configs client.Object
			found, err := c.query("get_organization_configs", client.Object{"organizationId": m.SubOrganizationID}, &configs)
			if err != nil {
				return err
			}
			mu.Lock()
			o.subs[m.SubOrganizationID] = found
			mu.Unlock()
		}
	}
	return nil
}

func (c *worker) sendAgain(rs []*record, o *observed, mu *sync.Mutex) error {
	for _, r := range rs {
		if r.answer == nil {
			continue
		}
		a, refused, err := c.retryUntilAnswered(r.Op, []byte(r.Body))
		if err != nil {
			return nil // insist has complained, and judge misses the answers
		}
		if refused == "" {
			mu.Lock()
			o.again[r.fingerprint] = a
			mu.Unlock()
		}
	}
	return nil
}
