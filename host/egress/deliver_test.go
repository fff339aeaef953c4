package egress_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// answers makes the enclave answer one after the other, the last one for ever.
func (w *world) answers(all ...wire.Delivered) {
	var n atomic.Int32
	w.deliver = func(context.Context, wire.SendID) (*wire.Delivered, error) {
		d := all[min(int(n.Add(1)), len(all))-1]
		return &d, nil
	}
}

func (w *world) deliveries() []wire.SendID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

var (
	done        = wire.Delivered{Found: true, Result: wire.DeliverDone, Code: 250}
	isTemporary = wire.Delivered{Found: true, Result: wire.DeliverTemporary, Code: 451, Text: "the other side refused the recipient"}
	away        = wire.Delivered{Found: true, Result: wire.DeliverTemporary, Text: "no connection"}
	refused     = wire.Delivered{Found: true, Result: wire.DeliverPermanent, Code: 550, Text: "the other side refused the recipient"}
	expired     = wire.Delivered{Found: true, Expired: true}
	unknown     = wire.Delivered{}
)

func TestDeliver(t *testing.T) {
	for _, kind := range []wire.SendKind{wire.SendMail, wire.SendText} {
		for name, c := range map[string]struct {
			answers []wire.Delivered
			state   wire.SendState
			says    string
			asks    int
		}{
			"at once":       {[]wire.Delivered{done}, wire.SendIncluded, "", 1},
			"after a while": {[]wire.Delivered{isTemporary, isTemporary, away, isTemporary, done}, wire.SendIncluded, "", 5},
			"refused":       {[]wire.Delivered{refused}, wire.SendRefused, "refused the recipient (code 550)", 1},
			"refused later": {[]wire.Delivered{isTemporary, away, refused}, wire.SendRefused, "code 550", 3},
			"expired":       {[]wire.Delivered{isTemporary, isTemporary, expired}, wire.SendExpired, "in time", 3},
			"never there":   {[]wire.Delivered{unknown}, wire.SendRefused, "no such send", 20},
			"there at last": {[]wire.Delivered{unknown, unknown, done}, wire.SendIncluded, "", 3},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.answers(c.answers...)
				w.sends()
				id := w.putKind(kind, nil)
				w.until(id, c.state, c.says)
				if n := len(w.deliveries()); n != c.asks {
					t.Errorf("asked for %d times, want %d", n, c.asks)
				}
				if w.opened != 0 {
					t.Error("it was opened")
				}
			})
		}
	}
}

// What is told while it waits is what went wrong last.
func TestDeliveryIsTold(t *testing.T) {
	w := newWorld(t)
	w.answers(isTemporary)
	w.sends()
	w.until(w.putKind(wire.SendMail, nil), wire.SendWaiting, "the other side refused the recipient (code 451)")
	w.close(errAway)
	w.until(w.putKind(wire.SendText, nil), wire.SendWaiting, "the enclave did not answer: away")
}

// Pauses between tries grow to minutes: a server that wants to be tried later is.
func TestDeliveryPauses(t *testing.T) {
	w := newWorld(t)
	w.answers(isTemporary)
	began := w.now()
	stop := w.sends()
	w.putKind(wire.SendMail, nil)
	w.passes(20 * time.Minute)
	stop()
	// 1, 2, 4, … 256, 300, 300, … seconds.
	took := w.now().Sub(began)
	if n, most := len(w.deliveries()), 11+int(took/(5*time.Minute)); n < 11 || n > most {
		t.Errorf("tried %d times in %v, at most %d make sense", n, took, most)
	}
}

// A mail server that hangs holds up neither text messages nor transactions, however
// many mails there are.
func TestAMailServerThatHangs(t *testing.T) {
	w := newWorld(t)
	w.steady = true
	chain := ethereum(w.node)
	var hanging atomic.Int32
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	texts := map[wire.SendID]bool{}
	w.deliver = func(ctx context.Context, id wire.SendID) (*wire.Delivered, error) {
		w.mu.Lock()
		text := texts[id]
		w.mu.Unlock()
		if text {
			return &done, nil
		}
		hanging.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}
	for range 150 {
		w.putKind(wire.SendMail, nil)
	}
	w.mu.Lock()
	texts[wire.SendID{Organization: w.organization, Seq: w.seq}] = true
	w.mu.Unlock()
	text := w.putKind(wire.SendText, nil)
	transaction := w.put(ether(3)) // of the same organization
	w.sends()
	w.until(text, wire.SendIncluded, "")
	w.until(transaction, wire.SendAccepted, "")
	if n := len(chain.names()); n != 1 {
		t.Errorf("sent %d times", n)
	}
	if n := hanging.Load(); n == 0 || n > 64 {
		t.Errorf("%d mails were tried at the server that hangs", n)
	}
}

// What a host was about to deliver when it died another one delivers.
func TestHostDiesWhileItDelivers(t *testing.T) {
	w := newWorld(t)
	begun := make(chan struct{})
	var tries atomic.Int32
	w.deliver = func(ctx context.Context, _ wire.SendID) (*wire.Delivered, error) {
		if tries.Add(1) > 1 {
			return &done, nil
		}
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	stop := w.sends()
	id := w.putKind(wire.SendMail, nil)
	<-begun
	stop()
	if got := w.standing(id); got.State != wire.SendWaiting {
		t.Fatalf("%+v", got)
	}
	w.sends()
	w.until(id, wire.SendIncluded, "")
}

// What has ended is forgotten a week later, while the sender runs.
func TestEndedIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.answers(done)
	ethereum(w.node)
	stop := w.sends()
	var mails []wire.SendID
	for range 150 {
		mails = append(mails, w.putKind(wire.SendMail, nil))
	}
	for _, id := range mails {
		w.until(id, wire.SendIncluded, "")
	}
	stop()
	w.ahead(6 * 24 * time.Hour)
	stop = w.sends()
	w.until(w.putKind(wire.SendMail, nil), wire.SendIncluded, "")
	stop()
	if s := w.standing(mails[0]); s.State != wire.SendIncluded {
		t.Fatalf("after six days it stands at %d", s.State)
	}
	w.ahead(36 * time.Hour)
	w.sends()
	for _, id := range mails {
		clocktest.Until(t, "a mail to be forgotten after a week", func() bool { return w.standing(id).State == wire.SendUnknown })
	}
}
