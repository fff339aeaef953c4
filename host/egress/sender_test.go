package egress_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// A chain is a pool and blocks behind a node.
type chain struct {
	mu    sync.Mutex
	taken []string // in order, each time
	pool  map[string]bool
	mined map[string]bool
}

// ethereum makes n a node of a chain that takes everything.
func ethereum(n *node) *chain {
	c := &chain{pool: map[string]bool{}, mined: map[string]bool{}}
	n.do("eth_sendRawTransaction", func(p []any) (any, error) {
		var nonce uint64
		for i := range uint64(1000) {
			if p[0] == fmt.Sprintf("0x%x", fmt.Sprintf("signed %d", i)) {
				nonce = i
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		name := nameOf(nonce)
		c.taken = append(c.taken, name)
		if c.pool[name] || c.mined[name] {
			return nil, &refusal{code: -32000, message: "already known"}
		}
		c.pool[name] = true
		return name, nil
	})
	n.do("eth_getTransactionByHash", func(p []any) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if name := p[0].(string); c.pool[name] || c.mined[name] {
			return object{"hash": name, "from": "0x00", "to": "0x01", "gas": "0x1", "value": "0x2", "input": "0x3"}, nil
		}
		return nil, nil
	})
	n.do("eth_getTransactionReceipt", func(p []any) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if name := p[0].(string); c.mined[name] {
			return object{"transactionHash": name, "status": "0x1", "blockNumber": "0x7"}, nil
		}
		return nil, nil
	})
	n.say("eth_getTransactionCount", "0x0")
	return c
}

func (c *chain) mine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.pool {
		c.mined[name] = true
	}
	clear(c.pool)
}

func (c *chain) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.pool)
}

func (c *chain) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.taken)
}

func TestSends(t *testing.T) {
	for name, took := range map[string]time.Duration{"quick node": 0, "slow node": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) { testSends(t, took) })
	}
}

// testSends: a node takes so long for each, that those claimed together may not all go out together.
func testSends(t *testing.T, took time.Duration) {
	w := newWorld(t)
	c := ethereum(w.node)
	take := w.node.on["eth_sendRawTransaction"]
	w.node.do("eth_sendRawTransaction", func(p []any) (any, error) {
		w.ahead(took)
		return take(p)
	})
	var ids []wire.SendID
	for i := range uint64(50) {
		ids = append(ids, w.put(ether(i)))
	}
	w.sends()
	for _, id := range ids {
		w.until(id, wire.SendAccepted, "")
	}
	c.mine()
	for _, id := range ids {
		w.until(id, wire.SendIncluded, "")
	}
	// Each went out once, in the order of their numbers.
	got := c.names()
	if len(got) != len(ids) || !slices.IsSorted(got) {
		t.Fatalf("%d went out: %v", len(got), got)
	}
}

// TestRefused: what a node refuses for good ends, and says why.
func TestRefused(t *testing.T) {
	for what, r := range map[string]struct {
		code int
		says string
		want wire.SendState
	}{
		"funds":       {-32000, "insufficient funds for gas * price + value: balance 0", wire.SendRefused},
		"underpriced": {-32000, "replacement transaction underpriced", wire.SendRefused},
		"params":      {-32602, "invalid argument 0: rlp: too few elements", wire.SendRefused},
		"rejected":    {-32003, "transaction rejected", wire.SendRefused},
		"used":        {-32000, "nonce too low: next nonce 5, tx nonce 3", wire.SendReplaced},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			ethereum(w.node)
			w.node.refuse("eth_sendRawTransaction", r.code, r.says)
			id := w.put(ether(3))
			w.sends()
			w.until(id, r.want, r.says)
			if n := w.node.count("eth_sendRawTransaction"); n != 1 {
				t.Errorf("went out %d times", n)
			}
		})
	}
}

// TestTriesAgain: what may pass does not end a send.
func TestTriesAgain(t *testing.T) {
	for what, fails := range map[string]func(w *world) (mend func()){
		"node away": func(w *world) func() {
			was := w.node.on["eth_sendRawTransaction"]
			w.node.do("eth_sendRawTransaction", func([]any) (any, error) { return nil, errAway })
			return func() { w.node.do("eth_sendRawTransaction", was) }
		},
		"node full": func(w *world) func() {
			was := w.node.on["eth_sendRawTransaction"]
			w.node.refuse("eth_sendRawTransaction", -32000, "txpool is full")
			return func() { w.node.do("eth_sendRawTransaction", was) }
		},
		"too many asked": func(w *world) func() {
			was := w.node.on["eth_sendRawTransaction"]
			w.node.refuse("eth_sendRawTransaction", -32005, "daily request count exceeded")
			return func() { w.node.do("eth_sendRawTransaction", was) }
		},
		"a gap": func(w *world) func() {
			was := w.node.on["eth_sendRawTransaction"]
			w.node.refuse("eth_sendRawTransaction", -32000, "nonce too high")
			return func() { w.node.do("eth_sendRawTransaction", was) }
		},
		"another name": func(w *world) func() {
			was := w.node.on["eth_sendRawTransaction"]
			w.node.say("eth_sendRawTransaction", nameOf(99))
			return func() { w.node.do("eth_sendRawTransaction", was) }
		},
		"another chain": func(w *world) func() {
			w.node.say("eth_chainId", "0x5")
			return func() { w.node.say("eth_chainId", "0x1") }
		},
		"cannot look": func(w *world) func() {
			was, look := w.node.on["eth_sendRawTransaction"], w.node.on["eth_getTransactionByHash"]
			w.node.refuse("eth_sendRawTransaction", -32000, "insufficient funds")
			w.node.do("eth_getTransactionByHash", func([]any) (any, error) { return nil, errAway })
			return func() { w.node.do("eth_sendRawTransaction", was); w.node.do("eth_getTransactionByHash", look) }
		},
		"enclave away": func(w *world) func() {
			w.close(errAway)
			return func() { w.close(nil) }
		},
		"enclave behind": func(w *world) func() {
			id := wire.SendID{Organization: someOrganization}
			w.mu.Lock()
			o := w.opens[id]
			delete(w.opens, id)
			w.mu.Unlock()
			return func() { w.mu.Lock(); w.opens[id] = o; w.mu.Unlock() }
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			c := ethereum(w.node)
			id := w.put(ether(0))
			mend := fails(w)
			w.sends()
			clocktest.Until(t, "a word that the attempt leaves", func() bool {
				got := w.standing(id)
				if got.State != wire.SendWaiting {
					t.Fatalf("%+v", got)
				}
				return got.Text != ""
			})
			mend()
			w.until(id, wire.SendAccepted, "")
			c.mine()
			w.until(id, wire.SendIncluded, "")
		})
	}
}

// TestWithoutNode: a chain of no node waits for one, and does not hold up others.
func TestWithoutNode(t *testing.T) {
	w := newWorld(t)
	c := ethereum(w.node)
	other := ether(0)
	other.Chain = "eip155:137"
	waits, goes := w.put(other), w.put(ether(1))
	w.sends()
	w.until(goes, wire.SendAccepted, "")
	w.until(waits, wire.SendWaiting, "no node of eip155:137")
	c.mine()
	w.until(goes, wire.SendIncluded, "")
}

// TestUnheard: an attempt whose answer was lost is no second transaction, and what
// a node then says of the second attempt does not end it.
func TestUnheard(t *testing.T) {
	for what, later := range map[string]string{"known": "already known", "used": "nonce too low", "funds": "insufficient funds"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			c := ethereum(w.node)
			take := w.node.on["eth_sendRawTransaction"]
			first := true
			w.node.do("eth_sendRawTransaction", func(p []any) (any, error) {
				if first {
					first = false
					if _, err := take(p); err != nil {
						t.Error(err)
					}
					return nil, errAway
				}
				return nil, &refusal{code: -32000, message: later}
			})
			id := w.put(ether(0))
			w.sends()
			w.until(id, wire.SendAccepted, "")
			c.mine()
			w.until(id, wire.SendIncluded, "")
			if n := len(c.names()); n != 1 {
				t.Errorf("taken %d times", n)
			}
		})
	}
}

// TestForgotten: a transaction that its node forgets goes out again, the same one.
func TestForgotten(t *testing.T) {
	w := newWorld(t)
	c := ethereum(w.node)
	id := w.put(ether(4))
	w.sends()
	for range 3 {
		w.until(id, wire.SendAccepted, "")
		n := len(c.names())
		c.forget()
		clocktest.Until(t, "what was forgotten to go out again", func() bool { return len(c.names()) > n })
	}
	w.until(id, wire.SendAccepted, "")
	c.mine()
	w.until(id, wire.SendIncluded, "")
	names := c.names()
	if len(names) < 4 || len(slices.Compact(names)) != 1 {
		t.Fatal(names)
	}
}

// TestReplaced: its nonce is used up and it is nowhere.
func TestReplaced(t *testing.T) {
	w := newWorld(t)
	c := ethereum(w.node)
	id := w.put(ether(4))
	w.sends()
	w.until(id, wire.SendAccepted, "")
	c.forget()
	w.node.say("eth_getTransactionCount", "0x5")
	w.until(id, wire.SendReplaced, "another transaction")
	if n := len(c.names()); n != 1 {
		t.Errorf("taken %d times", n)
	}
}

// TestExpired: a send expires when it stands as told, not after a time: what a node is
// sent after it forgot, it knows again.
func TestExpired(t *testing.T) {
	for what, test := range map[string]struct {
		body  *wire.Opened
		full  bool
		stand func(w *world, c *chain, id wire.SendID)
	}{
		"before it was opened": {body: &wire.Opened{Found: true, Expired: true}, stand: func(*world, *chain, wire.SendID) {}},
		"before a node took it": {body: ether(0), full: true, stand: func(w *world, _ *chain, id wire.SendID) {
			w.until(id, wire.SendWaiting, "txpool is full")
			w.expire(id)
		}},
		"when the node had forgotten it": {body: ether(0), stand: func(w *world, c *chain, id wire.SendID) {
			w.until(id, wire.SendAccepted, "")
			w.expire(id)
			c.forget()
		}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			c := ethereum(w.node)
			if test.full {
				w.node.refuse("eth_sendRawTransaction", -32000, "txpool is full")
			}
			id := w.put(test.body)
			w.sends()
			test.stand(w, c, id)
			w.until(id, wire.SendExpired, "")
		})
	}
}

func (w *world) expire(id wire.SendID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opens[id] = &wire.Opened{Found: true, Expired: true}
}

// TestNobodyKnowsIt: what the enclave never opens ends some time.
func TestNobodyKnowsIt(t *testing.T) {
	w := newWorld(t)
	id := w.put(nil)
	strange := w.put(&wire.Opened{Found: true, Kind: 77})
	w.sends()
	w.until(id, wire.SendRefused, "no such send")
	w.until(strange, wire.SendWaiting, "does not know")
}

func TestReverted(t *testing.T) {
	w := newWorld(t)
	c := ethereum(w.node)
	w.node.do("eth_getTransactionReceipt", func(p []any) (any, error) {
		return object{"transactionHash": p[0], "status": "0x0", "blockNumber": "0x7"}, nil
	})
	w.node.do("eth_call", func(p []any) (any, error) {
		if p[1] != "0x7" || fmt.Sprint(p[0]) != "map[data:0x3 from:0x00 gas:0x1 to:0x01 value:0x2]" {
			t.Errorf("call %v", p)
		}
		return nil, &refusal{code: 3, message: "execution reverted: no", data: "0x08c379a0ff"}
	})
	id := w.put(ether(0))
	w.sends()
	got := w.until(id, wire.SendReverted, "execution reverted: no")
	if string(got.Revert) != "\x08\xc3\x79\xa0\xff" {
		t.Errorf("%x", got.Revert)
	}
	// Without a reason it has failed all the same.
	for _, call := range []func([]any) (any, error){
		func([]any) (any, error) { return "0x", nil }, func([]any) (any, error) { return nil, errAway },
		func([]any) (any, error) {
			return nil, &refusal{code: 3, message: "execution reverted", data: object{"a": 1}}
		},
	} {
		w.node.do("eth_call", call)
		c.forget()
		id := w.put(ether(1))
		if got := w.until(id, wire.SendReverted, "execution reverted"); got.Revert != nil {
			t.Errorf("%x", got.Revert)
		}
	}
}

// TestLiesWhileFollowing: answers that make no sense end nothing.
func TestLiesWhileFollowing(t *testing.T) {
	for what, lie := range map[string]any{
		"another receipt": object{"transactionHash": nameOf(9), "status": "0x1", "blockNumber": "0x7"}, "no status": object{"transactionHash": nameOf(0)},
		"text": "0x1", "number": 7,
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			c := ethereum(w.node)
			honest := w.node.on["eth_getTransactionReceipt"]
			w.node.say("eth_getTransactionReceipt", lie)
			id := w.put(ether(0))
			w.sends()
			if what == "no status" { // before Byzantium there was none: it counts as failed
				w.until(id, wire.SendReverted, "")
				return
			}
			w.until(id, wire.SendAccepted, "no sense")
			w.node.do("eth_getTransactionReceipt", honest)
			c.mine()
			w.until(id, wire.SendIncluded, "")
		})
	}
}

// TestManySenders: several work beside each other, are stopped and started, and
// nothing is lost.
func TestManySenders(t *testing.T) {
	w := newWorld(t)
	c := ethereum(w.node)
	var ids []wire.SendID
	for i := range uint64(40) {
		ids = append(ids, w.put(ether(i)))
	}
	for range 5 {
		a, b := w.sends(), w.sends()
		time.Sleep(5 * time.Millisecond)
		a()
		b()
		c.mine()
	}
	w.sends()
	w.sends()
	for _, id := range ids {
		clocktest.Until(t, "a send to be taken", func() bool { return w.standing(id).State >= wire.SendAccepted })
	}
	c.mine()
	for _, id := range ids {
		w.until(id, wire.SendIncluded, "")
	}
}

// TestDeadSender: what one had claimed when it died goes on when its claim is over.
func TestDeadSender(t *testing.T) {
	w := newWorld(t)
	c := ethereum(w.node)
	id := w.put(ether(0))
	now := uint64(w.now().UnixMilli())
	lane := store.Lane{Kind: wire.SendTransaction, Payer: id.Organization, Organization: id.Organization}
	got, err := w.s.ClaimSends(t.Context(), store.ClaimSends{Claimant: wire.ID{7}, NowMs: now, UntilMs: now + 20_000, Lanes: []store.Lane{lane}})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	w.sends()
	w.until(id, wire.SendAccepted, "")
	if left := int64(now+20_000) - w.now().UnixMilli(); left > 0 {
		t.Errorf("taken from the living, whose claim had %d ms left", left)
	}
	c.mine()
	w.until(id, wire.SendIncluded, "")
}

func TestSolana(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	status, sent := any(nil), 0
	w.node.do("sendTransaction", func(p []any) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		sent++
		if p[0] != "c2lnbmVk" || p[1].(object)["encoding"] != "base64" {
			t.Errorf("sent %v", p)
		}
		return "name", nil
	})
	w.node.do("getSignatureStatuses", func(p []any) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		return object{"value": []any{status}}, nil
	})
	set := func(s any) {
		mu.Lock()
		defer mu.Unlock()
		status = s
	}
	id := w.put(lamport("name"))
	w.sends()
	w.until(id, wire.SendAccepted, "")
	clocktest.Until(t, "what the network does not have to go out again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return sent > 2
	})
	set(object{"slot": 5, "confirmationStatus": "processed", "err": nil})
	w.passes(time.Minute)
	if got := w.standing(id); got.State != wire.SendAccepted {
		t.Fatalf("%+v", got)
	}
	set(object{"slot": 5, "confirmationStatus": "confirmed", "err": nil})
	w.until(id, wire.SendIncluded, "")

	set(object{"slot": 5, "confirmationStatus": "finalized", "err": object{"InstructionError": []any{0, object{"Custom": 1}}}})
	w.until(w.put(lamport("name")), wire.SendReverted, `{"InstructionError":[0,{"Custom":1}]}`)

	set(nil)
	for _, r := range []struct {
		code int
		says string
		want wire.SendState
	}{
		{-32002, "Transaction simulation failed: insufficient lamports", wire.SendRefused},
		{-32003, "Transaction signature verification failure", wire.SendRefused},
		{-32602, "invalid base64 encoding", wire.SendRefused},
		{-32005, "Node is behind by 42 slots", wire.SendWaiting},
		{-32002, "Transaction simulation failed: This transaction has already been processed", wire.SendAccepted},
	} {
		w.node.refuse("sendTransaction", r.code, r.says)
		says := r.says
		if r.want == wire.SendAccepted {
			says = ""
		}
		w.until(w.put(lamport("name")), r.want, says)
	}
	w.node.say("sendTransaction", "another")
	w.until(w.put(lamport("name")), wire.SendWaiting, "another transaction")
}
