package sending_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/hostile"
)

func liar(t testing.TB) (*world, *hostile.Proxy) {
	var p *hostile.Proxy
	w := newWorldBetween(t, lying(t, &p))
	return w, p
}

// lying has a proxy between host and enclave.
func lying(t testing.TB, p **hostile.Proxy) func(address string) string {
	return func(address string) string {
		var err error
		if *p, err = hostile.NewProxy(address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*p).Close)
		return (*p).Address()
	}
}

func about[A any](change func(*A)) hostile.Lie {
	return func(_, answer any) bool {
		a, ok := answer.(*A)
		if ok {
			change(a)
		}
		return ok
	}
}

// TestHostileHost: what a host may say of chains and sends is bounded, whatever it
// says. The enclave signs nothing dearer than it would for an honest one, answers
// with an error that can be read, and goes on.
func TestHostileHost(t *testing.T) {
	w, p := liar(t)
	first := w.send()
	w.until(first, "INCLUDED")
	state := func(change func(*wire.ChainState)) hostile.Lie { return about(change) }
	states := func(change func(*wire.SendStates)) hostile.Lie { return about(change) }
	for _, c := range []struct {
		what   string
		lie    hostile.Lie
		status int
		says   string
		alarm  string
	}{
		{"no verdict", state(func(s *wire.ChainState) { s.Verdict = 0 }), 503, "no answer that makes sense", ""},
		{"another verdict", state(func(s *wire.ChainState) { s.Verdict = 99 }), 503, "no answer that makes sense", ""},
		{"numbers run backwards", state(func(s *wire.ChainState) { s.Latest, s.Pending = 9, 8 }), 503, "no answer that makes sense", ""},
		{"no number left", state(func(s *wire.ChainState) { s.Pending = 1<<64 - 1 }), 503, "no answer that makes sense", ""},
		{"no gas", state(func(s *wire.ChainState) { s.Gas = 0 }), 503, "no answer that makes sense", ""},
		{"all gas", state(func(s *wire.ChainState) { s.Gas = 1<<64 - 1 }), 400, "give gasLimit", ""},
		{"dear", state(func(s *wire.ChainState) { s.BaseFee = 1<<64 - 1 }), 400, "give gasLimit and maxFeePerGas", ""},
		{"dear tips", state(func(s *wire.ChainState) { s.Tip = 1<<64 - 1 }), 400, "give gasLimit and maxFeePerGas", ""},
		{"words", state(func(s *wire.ChainState) {
			s.Verdict, s.Text = wire.ChainReverts, "a\x00\x1b[31m<b>"+strings.Repeat("x", 500)
		}), 400, "would fail on eip155:11155111: a[31m<b>xxx", ""},
		{"very many words", state(func(s *wire.ChainState) { s.Text = strings.Repeat("x", 1<<20) }), 503, "", "frame"},
		{"too few states", states(func(s *wire.SendStates) { s.Statuses = nil }), 503, "not believed", "index"},
		{"too many states", states(func(s *wire.SendStates) { s.Statuses = append(s.Statuses, wire.SendStatus{}) }), 503, "not believed", "index"},
		{"no such state", states(func(s *wire.SendStates) { s.Statuses[0].State = 99 }), 503, "not believed", "index"},
		{"much that reverted", states(func(s *wire.SendStates) { s.Statuses[0].Revert = make([]byte, 2000) }), 503, "not believed", "index"},
	} {
		before := w.rig.Counters()
		p.Arm(c.lie)
		r := w.Submit(sendType, w.params())
		// Behind a frame that broke a connection the first question may still meet its end:
		// it is answered with a 503, and nobody was asked.
		for range 15_000 {
			if r.Status != 503 || p.CountChanged() > 0 {
				break
			}
			time.Sleep(20 * time.Millisecond)
			r = w.Submit(sendType, w.params())
		}
		if r.Status != c.status || !strings.Contains(r.Text("message"), c.says) || len(r.Text("message")) > 400 {
			t.Errorf("%s: %v", c.what, r)
		}
		if p.CountChanged() == 0 {
			t.Errorf("%s: no lie was told", c.what)
		}
		p.Disarm()
		// The alarm about a frame comes when its connection ends, which may be after the answer.
		for n := 0; c.alarm != "" && w.rig.Counters()["alarm_"+c.alarm] == before["alarm_"+c.alarm] && n < 15_000; n++ {
			time.Sleep(20 * time.Millisecond)
		}
		for name, n := range w.rig.Counters() {
			if kind, ok := strings.CutPrefix(name, "alarm_"); ok && (n > before[name]) != (kind == c.alarm) {
				t.Errorf("%s: alarm %s raised %d times", c.what, kind, n-before[name])
			}
		}
	}
	for range 6000 {
		if w.rig.Link.Ready() == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.once(first, w.send())
}

// refuses has the chain's node refuse transactions and keep them, for whoever mines them later; those that it takes wait.
func (w *world) refuses(yes bool) {
	w.chain.set(func() {
		w.chain.idle, w.chain.keep = true, ""
		if yes {
			w.chain.keep = "intrinsic gas too low"
		}
	})
}

// untilSaid waits until the status of a send has an error, which is to begin so and to say that.
func (w *world) untilSaid(id, begins, says string) object {
	w.t.Helper()
	var m object
	clocktest.Until(w.t, "an error of "+id, func() bool {
		m = w.status(id)
		return m["txError"] != nil
	})
	if text := client.Text(m, "txError"); !strings.HasPrefix(text, begins) || !strings.Contains(text, says) || client.Text(m, "error", "message") != text {
		w.t.Fatal(m)
	}
	return m
}

// TestRefusedIsNotPaidTwice: a node refuses a transaction and keeps it, and says that the number is given. The next one
// takes the same number all the same: whoever mines both mines one.
func TestRefusedIsNotPaidTwice(t *testing.T) {
	w := newWorld(t)
	w.refuses(true)
	first := w.send()
	if m := w.untilSaid(first, "intrinsic gas too low", "give nonce 0"); m["txStatus"] != "BROADCASTING" {
		t.Fatalf("it can be mined, and is told as %v", m)
	}
	w.refuses(false)
	w.chain.set(func() {
		w.chain.lie = func(method string, params []any) (any, bool) {
			return "0x1", method == "eth_getTransactionCount" && params[1] == "pending"
		}
	})
	second := w.send()
	w.until(second, "BROADCASTING")
	w.chain.set(func() { w.chain.lie, w.chain.idle = nil, false })
	w.once(second)
	w.chain.mu.Lock()
	if len(w.chain.kept) != 1 || w.chain.kept[0] == "" {
		t.Errorf("the node has kept %v", w.chain.kept)
	}
	w.chain.mu.Unlock()
	// Now nothing can take it any more.
	if m := w.until(first, "FAILED"); !strings.Contains(client.Text(m, "txError"), "another transaction with its number") {
		t.Fatal(m)
	}
}

// TestRefusedIsMinedLater: a node refuses a transaction, has it mined and says nothing of it. Its number is used by nobody else:
// the account's owner is asked to look before he pays again.
func TestRefusedIsMinedLater(t *testing.T) {
	w := newWorld(t)
	w.refuses(true)
	first := w.send()
	w.untilSaid(first, "intrinsic gas too low", "give nonce 0")
	w.refuses(false)
	w.chain.set(func() { w.chain.idle, w.chain.pool[0] = false, w.chain.kept[0] })
	for range 2 {
		r := w.Submit(sendType, w.params())
		if says := r.Text("message"); r.Status != 400 || r.Get("code") != 9.0 || !strings.Contains(says, "may have been paid") || !strings.Contains(says, "give nonce") {
			t.Fatal(r)
		}
	}
	// The same number again comes to nothing, which is not said to have failed either.
	w.untilSaid(w.send(object{"nonce": "0"}), "nonce too low", "give nonce 0")
	if m := w.status(first); m["txStatus"] != "BROADCASTING" {
		t.Fatal(m)
	}
	// Who has looked names the next one, and goes on.
	w.until(w.send(object{"nonce": "1"}), "INCLUDED")
	w.until(w.send(), "INCLUDED")
}

// TestTheSameTransactionTwice: the same terms make the same transaction. That one send of it is in a block does not tell of the
// other that it has failed.
func TestTheSameTransactionTwice(t *testing.T) {
	w := newWorld(t)
	terms := object{"nonce": "0", "gasLimit": "21000", "maxFeePerGas": "100", "maxPriorityFeePerGas": "2"}
	w.refuses(true)
	first := w.send(terms)
	w.untilSaid(first, "intrinsic gas too low", "give nonce 0")
	w.refuses(false)
	w.chain.set(func() { w.chain.idle = false })
	second := w.send(terms)
	if m := w.until(second, "INCLUDED"); client.Text(m, "eth", "txHash") != client.Text(w.status(first), "eth", "txHash") {
		t.Fatal(m)
	}
	if m := w.status(first); m["txStatus"] == "FAILED" {
		t.Fatal(m)
	}
}

// TestHostGivesNumbersTwice: a host that says of a transaction under way that it was
// refused makes two of one number, of which the chain takes one.
func TestHostGivesNumbersTwice(t *testing.T) {
	w, p := liar(t)
	w.chain.set(func() { w.chain.idle = true })
	first := w.send()
	w.until(first, "BROADCASTING")
	p.Arm(func(question, answer any) bool {
		switch a := answer.(type) {
		case *wire.SendStates:
			for i := range a.Statuses {
				a.Statuses[i].State = wire.SendRefused
			}
			return true
		case *wire.ChainState:
			a.Latest, a.Pending = 0, 0
			return true
		}
		return false
	})
	second := w.send(object{"calls": []object{{"to": nowhere, "value": "2"}}})
	p.Disarm()
	if m := w.untilSaid(second, "replacement transaction underpriced", "give nonce 0"); m["txStatus"] != "BROADCASTING" {
		t.Fatal(m)
	}
	w.chain.set(func() { w.chain.idle = false })
	w.once(first)
	w.until(second, "FAILED")
	w.once(first, w.send())
}

// TestNothingIsOpenedUnstored: the enclave opens no send before it knows that its
// entry is stored.
func TestNothingIsOpenedUnstored(t *testing.T) {
	w := newWorld(t)
	w.rig.Kill()
	inner, err := sqlite.Open(t.Context(), w.dir+"/cloister.db")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	held := &held{Store: inner, came: make(chan wire.SendID, 1), release: make(chan struct{})}
	w.store = held
	w.start()
	defer w.rig.Kill()
	done := make(chan int)
	go func() { done <- w.Submit(sendType, w.params()).Status }()
	ref := <-held.came
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if opened, err := w.rig.Link.OpenSend(ctx, ref); err == nil {
			t.Errorf("opened before it was stored: %+v", opened)
		}
		cancel()
	}
	select {
	case status := <-done:
		t.Errorf("answered %d before it was stored", status)
	default:
	}
	close(held.release)
	if status := <-done; status != 200 {
		t.Fatal(status)
	}
	if opened, err := w.rig.Link.OpenSend(t.Context(), ref); err != nil || len(opened.Signed) == 0 {
		t.Fatalf("%+v, %v", opened, err)
	}
}

// held is a store that holds back the first batch with something to send.
type held struct {
	store.Store
	once    sync.Once
	came    chan wire.SendID
	release chan struct{}
}

func (h *held) Append(ctx context.Context, b *wire.Batch) (wire.Stored, error) {
	for i := range b.Entries {
		if e := &b.Entries[i]; len(e.Sends) > 0 {
			h.once.Do(func() { h.came <- wire.SendID{Organization: e.Organization, Seq: e.Seq} })
			<-h.release
		}
	}
	return h.Store.Append(ctx, b)
}
