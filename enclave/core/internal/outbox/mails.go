package outbox

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"cloister/enclave/core/internal/providers"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/settings"
	"cloister/shared/wire"
)

// What became of mails is kept for 30 days, in objects of the store: one for each address to which a tenant sends, and
// each period. They are sealed, and named by a keyed hash of tenant and address. The host learns from that which mails go to
// one address, and cannot make up, change or read an event. It can withhold one, or show an older object.

const (
	mailEventsFor = 30 * 24 * time.Hour
	maxMailEvents = 1000 // in one object, which stays below wire.MaxObject; the oldest go first
	mailStoreWait = 5 * time.Second
)

// mailbook is where the events of one address are.
type mailbook struct {
	tag  wire.Hash
	name seal.Name
	key  *seal.Key
}

// mailbookOf finds the one of an address that an organization of the top level, which is locked, sends to.
func (o *Outbox) mailbookOf(t *ledger.Locked, address string) *mailbook {
	id := t.ID()
	key, keyID := t.Key()
	tag := o.cfg.KeyedHash(append(append([]byte("cloister mail events 1"), id[:]...), strings.ToLower(address)...))
	return &mailbook{tag, seal.Name{Kind: seal.KindMails, KeyID: keyID, Deployment: o.cfg.Deployment, Organization: id, Root: tag}, key}
}

func (o *Outbox) loadMails(ctx context.Context, b *mailbook, period uint64) ([]org.MailEvent, error) {
	sealed, err := o.cfg.Host.Object(ctx, wire.MailObject(period, b.tag))
	if err != nil || sealed == nil {
		return nil, err
	}
	name := b.name
	name.Place = period
	plain, err := b.key.Open(name, sealed)
	if err != nil {
		return nil, o.cfg.Alarms.Breach(fault.AlarmIndex, "other mail events than asked for")
	}
	return org.DecodeMailEvents(plain)
}

// MailEvents are those of an address, newest first, of an organization of the top level.
func (o *Outbox) MailEvents(ctx context.Context, v *ranges.Access, id org.ID, address string) (all []org.MailEvent, err error) {
	var b *mailbook
	err = v.WithLock(ctx, id, func(t *ledger.Locked) error {
		b = o.mailbookOf(t, address)
		return nil
	})
	if err != nil {
		return nil, err
	}
	now := o.nowMs()
	for period := now / wire.MailPeriodMs; ; period-- {
		es, err := o.loadMails(ctx, b, period)
		if err != nil {
			return nil, err
		}
		for i := len(es) - 1; i >= 0; i-- {
			if es[i].TimeMs+uint64(mailEventsFor.Milliseconds()) >= now {
				all = append(all, es[i])
			}
		}
		if period < now/wire.MailPeriodMs {
			return all, nil
		}
	}
}

// A mailing is a mail whose events are noted. It holds nothing of the content.
type mailing struct {
	outbox            *Outbox
	book              *mailbook
	message, from, to string
	sentMs            uint64
}

// mailing finds where events of a mail are noted; nil if that cannot be, which costs nobody his mail.
func (o *Outbox) mailing(ctx context.Context, v *ranges.Access, id org.ID, content []byte, server *settings.Mail) (x *mailing) {
	if server == nil {
		return nil
	}
	erase.Do(func() {
		if m, err := org.DecodeMail(content); err == nil {
			from := m.From
			if from == "" {
				from = server.Sender.Address
			}
			x = &mailing{outbox: o, message: m.ID + "@" + from[strings.LastIndexByte(from, '@')+1:], from: strings.Clone(from), to: strings.Clone(m.To), sentMs: m.SentMs}
		}
	})
	if x == nil {
		return nil
	}
	top := id
	find := func(t *ledger.Locked) error {
		rec, err := t.Begin(o.nowMs()).Organization()
		if err != nil {
			return err
		}
		if top = rec.Top(); top == t.ID() {
			x.book = o.mailbookOf(t, x.to)
		}
		return nil
	}
	if err := v.WithLock(ctx, id, find); err != nil || x.book == nil && v.WithLock(ctx, top, find) != nil {
		return nil
	}
	return x
}

// shelves keep two deliveries from overwriting each other's events.
type shelves [64]sync.Mutex

// recordEvents adds to what is known of a mail. That it is sent is noted once, and a delay only if it is another than before.
func (x *mailing) recordEvents(events ...org.MailEvent) {
	if x == nil {
		return
	}
	defer func() { _ = recover() }() // nobody stands above who could catch it
	o := x.outbox
	ctx, cancel := context.WithTimeout(context.Background(), mailStoreWait)
	defer cancel()
	shelf := &o.shelves[x.book.tag[0]%byte(len(o.shelves))]
	shelf.Lock()
	defer shelf.Unlock()
	now := o.nowMs()
	period := now / wire.MailPeriodMs
	es, err := o.loadMails(ctx, x.book, period)
	if err != nil {
		return
	}
	for _, e := range events {
		e.Message, e.From, e.To, e.TimeMs = x.message, x.from, x.to, now
		if repeats(es, &e) {
			continue
		}
		if e.ID, err = org.NewID(o.cfg.Rand); err != nil {
			return
		}
		es = append(es, e)
	}
	es = es[max(0, len(es)-maxMailEvents):]
	name := x.book.name
	name.Place = period
	plain, err := org.EncodeMailEvents(es)
	if err != nil {
		return
	}
	if sealed, err := x.book.key.Seal(o.cfg.Rand, name, plain); err == nil {
		_ = o.cfg.Host.PutObject(ctx, wire.PutObject{Name: wire.MailObject(period, x.book.tag), Bytes: sealed})
	}
}

// repeats tells whether an event says nothing new of its mail.
func repeats(es []org.MailEvent, e *org.MailEvent) bool {
	for i := len(es) - 1; i >= 0; i-- {
		if es[i].Message != e.Message {
			continue
		}
		switch {
		case e.Kind == org.MailSent:
			return true
		case e.Kind == org.MailDelayed:
			return es[i].Kind == org.MailDelayed && es[i].Text == e.Text
		}
	}
	return false
}

// noteOutcome notes what came of a mail with this content, which it keeps no longer than it runs. Whatever goes wrong
// here, the mail has gone out as it has.
func (x *mailing) noteOutcome(came netclient.Outcome, content []byte) {
	if x == nil {
		return
	}
	defer func() { _ = recover() }() // its text may hold anything: it stays here
	e := x.cameOf(came, content)
	go x.recordEvents(org.MailEvent{Kind: org.MailSent}, e)
}

// cameOf is the event that an outcome is.
func (x *mailing) cameOf(came netclient.Outcome, content []byte) org.MailEvent {
	e := org.MailEvent{Kind: map[netclient.Result]org.MailEventKind{netclient.Delivered: org.MailDelivered, netclient.Temporary: org.MailDelayed, netclient.Permanent: org.MailBounced}[came.Result],
		Text: deliveredOf(came).Text, Away: came.Code == 0}
	if came.Said != "" {
		erase.Do(func() {
			if m, err := org.DecodeMail(content); err == nil {
				e.Text = withoutQuotes(came.Said, m.Subject+"\n"+m.Text+"\n"+m.HTML)
			}
		})
	}
	if now := x.outbox.nowMs(); e.Kind == org.MailDelivered && now > x.sentMs {
		e.TookMs = now - x.sentMs
	}
	return e
}

// withoutQuotes is what a server said, without any word of six letters or digits that is in the mail: it may be the passcode.
func withoutQuotes(said, content string) string {
	isWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	content = strings.ToLower(content)
	var b strings.Builder
	for said = providers.Printable(said); said != ""; {
		end := strings.IndexFunc(said, func(r rune) bool { return !isWord(r) })
		if end < 0 {
			end = len(said)
		}
		word := said[:end]
		if len(word) >= 6 && strings.Contains(content, strings.ToLower(word)) {
			word = "***"
		}
		b.WriteString(word)
		said = said[end:]
		rest := strings.IndexFunc(said, isWord)
		if rest < 0 {
			rest = len(said)
		}
		b.WriteString(said[:rest])
		said = said[rest:]
	}
	return b.String()
}
