package outbox

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"cloister/enclave/core/internal/providers"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/settings"
	"cloister/shared/wire"
)

// The enclave delivers mails and text messages itself, over streams that the host carries
// unread. The host says when to try, and is told only what came of it. If the measured
// configuration says so, the host is given mails to send itself.

const (
	// maxDelivered is how many sends' deliveries are remembered.
	maxDelivered = 1 << 16
	// maxTries is how often a send is tried within a boot. Otherwise a host that cuts the
	// stream behind every mail could fill an inbox.
	maxTries = 300
)

// deliveries are remembered until their sends expire. However often the host asks, a message
// is handed in once at a time, and not again once a server has taken it.
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

// Deliver delivers a send, or waits for the delivery that is under way.
func (o *Outbox) Deliver(ctx context.Context, v *ranges.Access, id wire.SendID) (came *wire.Delivered, err error) {
	e, s, err := find(ctx, v, id)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return &wire.Delivered{}, nil
	case o.nowMs() >= s.ExpiresMs:
		return &wire.Delivered{Found: true, Expired: true}, nil
	}
	server := o.cfg.Services.Settings.Mail
	var noted *mailing
	if s.Kind == org.SendMail {
		if s.Content, err = o.written(ctx, v, org.ID(id.Organization), e, s.Content); err != nil {
			return nil, err
		}
		if s.Content == nil {
			return &wire.Delivered{Found: true, Expired: true}, nil
		}
		noted = o.mailing(ctx, v, org.ID(id.Organization), s.Content, server)
		if server != nil && server.ByHost {
			defer clear(s.Content)
			noted.recordEvents(org.MailEvent{Kind: org.MailSent})
			return mailForHost(s.Content, server), nil
		}
	}
	try := map[org.SendKind]func(context.Context, []byte) netclient.Outcome{org.SendMail: o.mail, org.SendText: o.text}[s.Kind]
	if s.Kind == org.SendUsage {
		q, came, err := o.usage(ctx, v, org.ID(id.Organization), s)
		if q == nil {
			return came, err
		}
		try = func(ctx context.Context, _ []byte) netclient.Outcome {
			return o.cfg.Services.Payments.SendUsage(ctx, q)
		}
	}
	if try == nil {
		return nil, errors.New("a send that is not for the enclave to deliver")
	}
	d, going, mine := o.deliveries.begin(id, s.ExpiresMs, o.nowMs())
	if mine {
		go o.deliveries.run(d, going, func() netclient.Outcome {
			defer clear(s.Content)
			came := try(context.WithoutCancel(ctx), s.Content)
			noted.noteOutcome(came, s.Content)
			return came
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

// written is the encoded mail of a send's content: the content itself, or what is written now; nil if nothing is to go out any more.
func (o *Outbox) written(ctx context.Context, v *ranges.Access, id org.ID, e *org.Entry, content []byte) ([]byte, error) {
	m, err := org.DecodeApprovalMail(content)
	if err != nil {
		return content, nil
	}
	return o.approvalMail(ctx, v, id, e, m.User)
}

// usage is what a send tells the payment processor of a day, from the newest bill; without it, what came of the send.
func (o *Outbox) usage(ctx context.Context, v *ranges.Access, id org.ID, s *org.Send) (q *billing.Question, came *wire.Delivered, err error) {
	at := o.cfg.Services.Settings.Billing
	switch {
	case at == nil || at.Meter == "":
		return nil, &wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: "the configuration names no meter"}, nil
	case o.nowMs() < s.DueMs: // the day may not be over
		return nil, &wire.Delivered{Found: true, Result: wire.DeliverTemporary, Text: "it is not due"}, nil
	}
	u, err := org.DecodeUsageDay(s.Content)
	if err != nil {
		return nil, nil, err
	}
	err = v.WithLock(ctx, id, func(t *ledger.Locked) error {
		b, err := t.Begin(o.nowMs()).Bill()
		q = billing.UsageQuestion(b, id.String(), u.Day, at.Meter)
		return err
	})
	if err == nil {
		err = v.Wait(ctx)
	}
	if err == nil && q == nil {
		came = &wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: "nothing is known of the day"}
	}
	return q, came, err
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// begin finds a send's delivery. going is closed when that has come to something; with mine
// the caller must run it.
func (x *deliveries) begin(id wire.SendID, expiresMs, nowMs uint64) (d *delivery, going chan struct{}, mine bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d = x.all[id]; d == nil {
		x.ensureSpace(nowMs)
		d = &delivery{expiresMs: expiresMs}
		x.all[id] = d
	}
	switch {
	case d.going != nil:
		return d, d.going, false
	case d.came.Result == wire.DeliverDone, d.came.Result == wire.DeliverPermanent:
		return d, closed, false
	}
	if d.tries++; d.tries > maxTries {
		d.came = wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: "tried too often"}
		return d, closed, false
	}
	d.going = make(chan struct{})
	return d, d.going, true
}

// ensureSpace makes room for one more, with mu held: it forgets what has expired, and if need be
// any delivery that is between tries.
func (x *deliveries) ensureSpace(nowMs uint64) {
	if len(x.all) < maxDelivered {
		return
	}
	maps.DeleteFunc(x.all, func(_ wire.SendID, d *delivery) bool { return d.going == nil && nowMs >= d.expiresMs })
	for id, d := range x.all {
		if len(x.all) < maxDelivered {
			return
		}
		if d.going == nil {
			delete(x.all, id)
		}
	}
}

// run makes one try. It goes on when the host stops asking; package netclient bounds it.
func (x *deliveries) run(d *delivery, going chan struct{}, try func() netclient.Outcome) {
	came := wire.Delivered{Found: true, Result: wire.DeliverTemporary, Text: errMessage.Error()}
	defer func() {
		_ = recover() // its text may hold anything: it stays here
		x.mu.Lock()
		d.came, d.going = came, nil
		x.mu.Unlock()
		close(going)
	}()
	came = deliveredOf(try())
}

func (x *deliveries) outcome(d *delivery) *wire.Delivered {
	x.mu.Lock()
	defer x.mu.Unlock()
	came := d.came
	return &came
}

var results = map[netclient.Result]wire.DeliverResult{
	netclient.Delivered: wire.DeliverDone, netclient.Temporary: wire.DeliverTemporary, netclient.Permanent: wire.DeliverPermanent,
}

// deliveredOf is an outcome as the host is told of it: the server's code and the enclave's words.
func deliveredOf(o netclient.Outcome) wire.Delivered {
	d := wire.Delivered{Found: true, Result: results[o.Result], Code: uint16(o.Code)}
	if o.Err != nil {
		d.Text = providers.Printable(strings.TrimPrefix(o.Err.Error(), "netclient: "))
	}
	return d
}

var (
	errNoMail = errors.New("the configuration names no mail server")
	errNoText = errors.New("the configuration names no gateway for text messages")
	// errMessage is of a message that no activity should have made.
	errMessage = errors.New("the message cannot be written")
)

// mail hands in a mail.
func (o *Outbox) mail(ctx context.Context, content []byte) netclient.Outcome {
	server := o.cfg.Services.Settings.Mail
	if server == nil {
		return netclient.Outcome{Result: netclient.Temporary, Err: errNoMail} // the next boot may have one
	}
	m, err := composeMail(content, server)
	if err != nil {
		return netclient.Outcome{Result: netclient.Permanent, Err: errMessage}
	}
	defer clear(m.Message)
	return o.cfg.Services.Delivery.Submit(ctx, server.MailServer, m)
}

// composeMail is a mail as it goes out. The caller clears its message.
func composeMail(content []byte, server *settings.Mail) (out netclient.Mail, err error) {
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

// mailForHost gives a mail to the host to send, as often as it asks before the mail expires.
func mailForHost(content []byte, server *settings.Mail) *wire.Delivered {
	m, err := composeMail(content, server)
	if err != nil || len(m.Message) > wire.MaxMail {
		return &wire.Delivered{Found: true, Result: wire.DeliverPermanent, Text: errMessage.Error()}
	}
	return &wire.Delivered{Found: true, Result: wire.DeliverByHost, Mail: &wire.Mail{From: m.From, To: m.To, Message: m.Message}}
}

// text hands in a text message.
func (o *Outbox) text(ctx context.Context, content []byte) netclient.Outcome {
	var t *org.Text
	var err error
	erase.Do(func() { t, err = org.DecodeText(content) })
	if err != nil {
		return netclient.Outcome{Result: netclient.Permanent, Err: errMessage}
	}
	gateway := o.cfg.Services.Settings.Text
	if t.WhatsApp {
		gateway = o.cfg.Services.Settings.WhatsApp
	}
	if gateway == nil {
		return netclient.Outcome{Result: netclient.Temporary, Err: errNoText}
	}
	return o.cfg.Services.Delivery.Text(ctx, *gateway, netclient.Text{ID: t.ID, To: t.To, Body: t.Body})
}
