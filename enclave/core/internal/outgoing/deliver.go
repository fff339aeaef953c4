package outgoing

import (
	"context"
	"errors"
	"strings"
	"sync"

	"cloister/enclave/core/internal/outside"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/outward"
	"cloister/enclave/internal/settings"
	"cloister/shared/wire"
)

// Mails and text messages the enclave delivers itself, over streams that the host
// carries unread. The host says when to try, and is told only what came of it. Mails
// alone it is given to send itself, if the measured configuration says so.

// maxDelivered bounds the sends whose deliveries are remembered, maxTries how often
// one is tried within a boot: a host that cuts the stream behind every mail could
// otherwise fill an inbox.
const (
	maxDelivered = 1 << 16
	maxTries     = 300
)

// deliveries are those under way and those that came to an end, until their sends
// expire. However often the host asks, a message is handed in once at a time, and
// not again once a server has taken it.
type deliveries struct {
	mu  sync.Mutex
	all map[wire.SendID]*delivery
}

// A delivery is what becomes of one send.
type delivery struct {
	expiresMs uint64
	tries     int
	going     chan struct{} // closed when the try ends; nil between tries
	came      wire.Delivered
}

// over tells that another try gives nothing new.
func (d *delivery) over() bool {
	return d.came.Result == wire.DeliverDone || d.came.Result == wire.DeliverPermanent
}

// Deliver delivers a send, or waits for the delivery that is under way.
func (o *Outgoing) Deliver(ctx context.Context, v *ranges.Visit, id wire.SendID) (came *wire.Delivered, err error) {
	_, s, err := find(ctx, v, id)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return &wire.Delivered{}, nil
	}
	if o.nowMs() >= s.ExpiresMs {
		return &wire.Delivered{Found: true, Expired: true}, nil
	}
	if server := o.cfg.Outside.Settings.Mail; s.Kind == org.SendMail && server != nil && server.ByHost {
		defer clear(s.Content)
		return mailForHost(s.Content, server), nil
	}
	try := map[org.SendKind]func(context.Context, []byte) outward.Outcome{org.SendMail: o.mail, org.SendText: o.text}[s.Kind]
	if try == nil {
		return nil, errors.New("a send that is not for the enclave to deliver")
	}
	d, going, mine := o.deliveries.begin(id, s.ExpiresMs, o.nowMs())
	if mine {
		go o.deliveries.run(d, going, func() outward.Outcome {
			defer clear(s.Content)
			return try(context.WithoutCancel(ctx), s.Content)
		})
	} else {
		clear(s.Content)
	}
	select {
	case <-going:
		return o.deliveries.outcome(d), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// begin finds a send's delivery. going is closed when it has come to something; who
// is told that it is his runs it.
func (x *deliveries) begin(id wire.SendID, expiresMs, nowMs uint64) (d *delivery, going chan struct{}, mine bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d = x.all[id]; d == nil {
		x.room(nowMs)
		d = &delivery{expiresMs: expiresMs}
		x.all[id] = d
	}
	switch {
	case d.going != nil:
		return d, d.going, false
	case d.over():
		return d, closed, false
	}
	if d.tries++; d.tries > maxTries {
		d.came = wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: "tried too often"}
		return d, closed, false
	}
	d.going = make(chan struct{})
	return d, d.going, true
}

// room makes some: what has expired is delivered no more, and of the rest any one
// between tries is as good to forget. The caller holds mu.
func (x *deliveries) room(nowMs uint64) {
	if x.all == nil {
		x.all = map[wire.SendID]*delivery{}
	}
	if len(x.all) < maxDelivered {
		return
	}
	for id, d := range x.all {
		if d.going == nil && nowMs >= d.expiresMs {
			delete(x.all, id)
		}
	}
	for id, d := range x.all {
		if len(x.all) < maxDelivered {
			return
		}
		if d.going == nil {
			delete(x.all, id)
		}
	}
}

// run makes one try. It goes on when the host stops asking, and ends by the time
// limits of package outward.
func (x *deliveries) run(d *delivery, going chan struct{}, try func() outward.Outcome) {
	came := wire.Delivered{Found: true, Result: wire.DeliverTemporary, Text: errMessage.Error()}
	defer func() {
		_ = recover() // its text stays here
		x.mu.Lock()
		d.came, d.going = came, nil
		x.mu.Unlock()
		close(going)
	}()
	came = tell(try())
}

func (x *deliveries) outcome(d *delivery) *wire.Delivered {
	x.mu.Lock()
	defer x.mu.Unlock()
	came := d.came
	return &came
}

var results = map[outward.Result]wire.DeliverResult{outward.Delivered: wire.DeliverDone, outward.Permanent: wire.DeliverPermanent}

// tell is an outcome as the host is told of it: the code that the server gave, and
// our words.
func tell(o outward.Outcome) wire.Delivered {
	d := wire.Delivered{Found: true, Result: results[o.Result], Code: uint16(o.Code)}
	if d.Result == 0 {
		d.Result = wire.DeliverTemporary
	}
	if o.Err != nil {
		d.Text = outside.Printable(strings.TrimPrefix(o.Err.Error(), "outward: "))
	}
	return d
}

var (
	errNoMail = errors.New("the configuration names no mail server")
	errNoText = errors.New("the configuration names no gateway for text messages")
	// errMessage is for what activities should not have put out.
	errMessage = errors.New("the message cannot be written")
)

// mail hands in a mail. What it says is in memory for as long as that takes.
func (o *Outgoing) mail(ctx context.Context, content []byte) outward.Outcome {
	server := o.cfg.Outside.Settings.Mail
	if server == nil {
		return outward.Outcome{Result: outward.Temporary, Err: errNoMail} // the next boot may have one
	}
	m, err := composeMail(content, server)
	if err != nil {
		return outward.Outcome{Result: outward.Permanent, Err: errMessage}
	}
	defer clear(m.Message)
	return o.cfg.Outside.Delivery.Submit(ctx, server.Server(), m)
}

// composeMail is a mail as it goes out. Who asks for it clears it.
func composeMail(content []byte, server *settings.Mail) (out outward.Mail, err error) {
	erase.Do(func() {
		var m *org.Mail
		if m, err = org.DecodeMail(content); err != nil {
			return
		}
		from := login.Sender{Address: m.From, Name: m.Name, ReplyTo: m.ReplyTo}
		if from.Address == "" {
			from = server.Sender
		}
		out.From, out.To = from.Address, m.To
		whole := login.Mail{From: from, To: m.To, Content: login.Content{Subject: m.Subject, Text: m.Text, HTML: m.HTML}, ID: m.ID, SentMs: m.SentMs}
		out.Message, err = whole.Bytes()
	})
	return out, err
}

// mailForHost gives a mail to the host, which the configuration wants to send it. It may
// ask again until the mail expires: it has learnt all of it the first time.
func mailForHost(content []byte, server *settings.Mail) *wire.Delivered {
	m, err := composeMail(content, server)
	if err != nil || len(m.Message) > wire.MaxMail {
		return &wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: errMessage.Error()}
	}
	return &wire.Delivered{Found: true, Result: wire.DeliverByHost, Mail: &wire.Mail{From: m.From, To: m.To, Message: m.Message}}
}

// text hands in a text message.
func (o *Outgoing) text(ctx context.Context, content []byte) outward.Outcome {
	gateway := o.cfg.Outside.Settings.Text
	if gateway == nil {
		return outward.Outcome{Result: outward.Temporary, Err: errNoText}
	}
	var t *org.Text
	var err error
	erase.Do(func() { t, err = org.DecodeText(content) })
	if err != nil {
		return outward.Outcome{Result: outward.Permanent, Err: errMessage}
	}
	return o.cfg.Outside.Delivery.Text(ctx, gateway.Gateway(), outward.Text{ID: t.ID, To: t.To, Body: t.Body})
}
