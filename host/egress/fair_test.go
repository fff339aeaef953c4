package egress_test

import (
	"testing"
	"time"

	"cloister/host/egress"
	"cloister/shared/wire"
)

// What goes to a node that hangs does not hold up what goes to another, however much of it there is.
func TestANodeThatHangs(t *testing.T) {
	w := newWorld(t)
	w.steady, w.late = true, time.Second
	chain := ethereum(w.node)
	hangs := newNode(t)
	hangs.hangs("eth_chainId")
	w.extra = egress.Nodes{"eip155:137": hangs.URL}
	for i := range 150 {
		o := ether(uint64(i))
		o.Chain = "eip155:137"
		w.put(o)
	}
	w.organization = wire.ID{7}
	id := w.put(ether(3))
	w.sends()
	began := time.Now()
	w.until(id, wire.SendAccepted, "")
	took := time.Since(began)
	t.Logf("out after %v", took.Round(time.Millisecond))
	if n := len(chain.names()); n != 1 {
		t.Errorf("sent %d times", n)
	}
	// Half of the places, once for each second that an answer may take.
	if n, most := hangs.count("eth_chainId"), 64+32*int(took/time.Second); n > most {
		t.Errorf("the node that hangs was asked %d times meanwhile, at most %d make sense", n, most)
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
	for range 300_000 {
		if w.now().Sub(began) > 2*time.Minute {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	took := w.now().Sub(began)
	// 0.25, 0.5, 1, 2, 4, 8, 15, 15, … seconds.
	if n, most := len(chain.names()), 8+int(took/(14*time.Second)); n < 4 || n > most {
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
