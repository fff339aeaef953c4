package egress_test

import (
	"testing"
	"time"

	"cloister/host/egress"
	"cloister/shared/wire"
)

// What goes to a node that hangs or is away does not hold up what goes to another, however much of it there is.
func TestANodeThatHangs(t *testing.T) {
	for name, does := range map[string]func(*node){
		"hangs":   func(n *node) { n.hangs("eth_chainId") },
		"is away": func(n *node) { n.do("eth_chainId", func([]any) (any, error) { return nil, errAway }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.steady = true
			chain := ethereum(w.node)
			bad := newNode(t)
			does(bad)
			w.extra = egress.Nodes{"eip155:137": bad.URL}
			for i := range 150 {
				if w.organization = someOrganization; name == "hangs" { // else each waits for the one before
					w.organization = wire.ID{1, byte(i)}
				}
				o := ether(uint64(i))
				o.Chain = "eip155:137"
				w.put(o)
			}
			w.organization = wire.ID{7}
			id := w.put(ether(3))
			w.sends()
			w.until(id, wire.SendAccepted, "")
			if n := len(chain.names()); n != 1 {
				t.Errorf("sent %d times", n)
			}
			if n, most := bad.count("eth_chainId"), 64/2; n == 0 || n > most { // half of the places, once in this time that stands
				t.Errorf("the node was asked %d times meanwhile, at most %d make sense", n, most)
			}
		})
	}
}

// A node that takes a transaction and never shows it gets it again ever more rarely.
func TestTakenAndNeverSeen(t *testing.T) {
	w := newWorld(t)
	chain := ethereum(w.node)
	w.node.do("eth_getTransactionByHash", func([]any) (any, error) { return nil, nil })
	stop := w.sends()
	began := w.now()
	w.put(ether(1))
	w.passes(2 * time.Minute)
	stop()
	took := w.now().Sub(began)
	// 0.25, 0.5, 1, 2, 4, 8, 15, 15, … seconds.
	if n, most := len(chain.names()), 8+int(took/(14*time.Second)); n < 10 || n > most {
		t.Errorf("sent %d times in %v, at most %d make sense", n, took, most)
	} else {
		t.Logf("sent %d times in %v", n, took.Round(time.Second))
	}
}

// A node that lags behind the blockhash of a transaction is asked again.
func TestBlockhashNotSeenYet(t *testing.T) {
	w := newWorld(t)
	w.node.refuse("sendTransaction", -32002, "Transaction simulation failed: Blockhash not found")
	w.node.say("getSignatureStatuses", object{"value": []any{nil}})
	w.sends()
	id := w.put(lamport("someName"))
	w.until(id, wire.SendWaiting, "Blockhash not found")
	w.node.say("sendTransaction", "someName")
	w.until(id, wire.SendAccepted, "")
}
