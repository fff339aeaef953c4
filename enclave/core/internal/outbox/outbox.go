// Package outbox opens what a decision sends: mails, text messages, webhooks, transactions.
//
// Nothing is sent that is not stored and proven. Mails and text messages leave over TLS that
// ends here or, if the measured configuration says so, through the host. A message is not
// handed in again once a server has taken it.
package outbox

import (
	"context"
	"errors"
	"io"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/core/internal/providers"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/webhook"
	"cloister/shared/wire"
)

// Config is what sends are made and delivered with.
type Config struct {
	Clock    ledger.Clock
	Rand     io.Reader
	Services *providers.Services
	Webhooks *webhook.Signer
	// What became of mails is kept at the host, for a deployment, under names that KeyedHash makes.
	Host       *link.Host
	Deployment [32]byte
	KeyedHash  func([]byte) [32]byte
	Alarms     *fault.Alarms
}

// Outbox is what becomes of sends.
type Outbox struct {
	cfg        Config
	deliveries deliveries
	shelves    shelves
	audiences
}

// New makes one of which nothing has been sent yet.
func New(cfg Config) *Outbox {
	return &Outbox{cfg: cfg, deliveries: deliveries{all: map[wire.SendID]*delivery{}}, audiences: audiences{by: map[org.ID]*Audience{}}}
}

func (o *Outbox) nowMs() uint64 { return uint64(o.cfg.Clock.Now().UnixMilli()) }

// find is a send that the host names, and its stored and proven entry; nil if there is none.
func find(ctx context.Context, v *ranges.Access, id wire.SendID) (e *org.Entry, s *org.Send, err error) {
	defer func() {
		if recover() != nil { // its text may hold anything: it stays here
			err = link.ErrFailed
		}
	}()
	if err := v.Serving(ctx); err != nil {
		return nil, nil, err
	}
	var view *ledger.View
	there := false
	err = v.WithLock(ctx, org.ID(id.Organization), func(t *ledger.Locked) error {
		view, there = t.View(), id.Seq < t.Tip().Count
		return nil
	})
	if errors.Is(err, ledger.ErrNoOrganization) || err == nil && !there {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if e, err = view.Entry(ctx, id.Seq); err == nil {
		err = v.Wait(ctx)
	}
	if err != nil || int(id.Number) >= len(e.Sends) {
		return nil, nil, err
	}
	return e, &e.Sends[id.Number], nil
}

// Open tells the host what a send holds that has not expired.
func (o *Outbox) Open(ctx context.Context, v *ranges.Access, id wire.SendID) (*wire.Opened, error) {
	e, s, err := find(ctx, v, id)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return &wire.Opened{}, nil
	case o.nowMs() >= s.ExpiresMs:
		return &wire.Opened{Found: true, Expired: true}, nil
	case s.Kind == org.SendWebhook:
		return o.openWebhook(ctx, v, org.SendPlace{Organization: org.ID(id.Organization), Seq: id.Seq, Number: id.Number}, e, s)
	case s.Kind == org.SendProgram:
		return o.openProgram(ctx, v, org.ID(id.Organization), s)
	case s.Kind != org.SendTransaction:
		return nil, errors.New("a send that is not for the host to see")
	}
	t, err := org.DecodeTransaction(s.Content)
	if err != nil {
		return nil, err
	}
	return &wire.Opened{Found: true, Kind: wire.SendKind(s.Kind), ExpiresMs: s.ExpiresMs, Chain: t.Chain, Signed: t.Signed, Name: t.Name,
		From: t.From, Nonce: t.Nonce}, nil
}
