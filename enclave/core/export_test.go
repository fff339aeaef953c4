package core

import (
	"context"
	"maps"
	"slices"
	"time"

	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/internal/authproxy"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/shared/wire"
)

// BootHandlers are the names that have a handler at the boot endpoint.
func BootHandlers() []string {
	return slices.AppendSeq(slices.Collect(maps.Keys(bootHandlers)), maps.Keys(lifecycle.Operations))
}

// Put decides an entry with something to send, as an activity would, and answers its
// place once it is stored.
func (c *Core) Put(ctx context.Context, id org.ID, sends ...org.Send) (seq uint64, err error) {
	v := c.newCallState()
	err = v.WithLock(ctx, id, func(t *ledger.Locked) (err error) {
		seq = t.Tip().Count
		_, err = t.Append(&org.Entry{CreatedMs: c.now(), TimeMs: c.now(), Sends: sends}, nil)
		return err
	})
	if err == nil {
		err = v.Wait(ctx)
	}
	return seq, err
}

// ProxyKey is the private key of an organization's auth proxy, which nobody outside
// can have.
func (c *Core) ProxyKey(ctx context.Context, id org.ID, config string) (private []byte, err error) {
	of, err := authproxy.ParseConfigID(config)
	if err != nil {
		return nil, err
	}
	err = c.newCallState().WithLock(ctx, id, func(t *ledger.Locked) error {
		p, err := t.Begin(c.now()).AuthProxy(of)
		if err != nil {
			return err
		}
		key, keyID := t.Key()
		opened, err := c.vault(id, key, keyID).Open(p.Key, p.Sealed)
		private = secrettest.Bytes(opened)
		return err
	})
	return private, err
}

// AsProxy takes a body and its stamp on the way that the proxy's own take.
func (c *Core) AsProxy(ctx context.Context, query bool, op string, head []wire.Header, body []byte) (status int, text []byte) {
	call := &wire.Call{Endpoint: wire.EndpointProxy, Op: op, Head: head, Body: body}
	v := c.newCallState()
	v.reply = &replyReservation{portion: c.replies}
	ask := c.submit
	if query {
		ask = c.query
	}
	a, err := ask(ctx, call, v)
	if err != nil {
		code, text := c.errorReply(err)
		return int(code), text
	}
	return a.status, a.body
}

// Take counts a request of a key of an organization, and tells whether it is answered.
func (c *Core) Take(o *org.Organization, key string, now time.Time) error {
	_, err := c.meter().countRequest(o, key, now)
	return err
}

// OnBehalf is for whom a call that has looked at one organization waits for another.
func (c *Core) OnBehalf(ctx context.Context, first, next org.ID) (org.ID, error) {
	v := c.newCallState()
	err := v.WithLock(ctx, first, func(*ledger.Locked) error { return nil })
	if err == nil {
		_, err = v.LedgerFor(ctx, next)
	}
	return v.Organization, err
}

// TakeProving takes places of a tenant's for submits that wait for their logged proofs; n may give some back.
func (c *Core) TakeProving(who org.ID, n int64) bool {
	if n < 0 {
		c.proofWaits.Add(who, n)
		return true
	}
	return c.proofWaits.Take(who, n)
}

// DecodedBytes is the room for what is decoded of a body of n bytes of a version.
var DecodedBytes = decodedBytes
