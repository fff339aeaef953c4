package core

import (
	"context"

	"cloister/enclave/internal/authproxy"
	"cloister/shared/wire"
)

// StampAsProxy stamps a body with the key of a configuration's auth proxy, as
// whoever had stolen the key could.
func (c *Core) StampAsProxy(ctx context.Context, config string, body []byte) ([]wire.Header, error) {
	id, err := authproxy.ParseConfigID(config)
	if err != nil {
		return nil, err
	}
	v := &visit{c: c, call: &wire.Call{}, p: &phases{}}
	if err := v.open(ctx, id); err != nil {
		return nil, err
	}
	return v.stamp(ctx, body)
}

// AsProxy takes a body and its stamp on the way that the proxy's own take.
func (c *Core) AsProxy(ctx context.Context, query bool, op string, head []wire.Header, body []byte) (status int, text []byte) {
	call := &wire.Call{Door: wire.DoorProxy, Op: op, Head: head, Body: body}
	p := &phases{toll: toll{meter: c.meter}, clock: c.cfg.Clock, last: c.cfg.Clock.Now()}
	ask := c.submit
	if query {
		ask = c.query
	}
	a, err := ask(ctx, call, p)
	if err != nil {
		code, text := c.refuse(err)
		return int(code), text
	}
	return a.status, a.body
}
