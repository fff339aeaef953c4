package core

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"

	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/tally"
	"cloister/shared/wire"
)

// bootDoor answers the calls that wire.BootOperations lists. None of them is believed for
// where it comes from: genesis and manifest work once each, in that order, admission needs
// the admission key's stamp, and the others tell public things or bring what authority
// they need.
func (c *Core) bootDoor(ctx context.Context, call *wire.Call, v *visit) ([]byte, error) {
	op := wire.BootOperationOf(call.Op)
	if op == nil {
		return nil, fault.New(fault.NotFound, "no such boot operation")
	}
	if err := lifecycle.Allows(op, v.state); err != nil {
		return nil, err
	}
	if do := bootHandlers[op.Name]; do != nil {
		return do(c, ctx, call, v)
	}
	return c.life.Operate(ctx, op, call.Body)
}

type bootHandler func(*Core, context.Context, *wire.Call, *visit) ([]byte, error)

// bare makes a handler of a method that wants nothing of a call.
func bare(f func(*Core) ([]byte, error)) bootHandler {
	return func(c *Core, _ context.Context, _ *wire.Call, _ *visit) ([]byte, error) { return f(c) }
}

// bootHandlers has a handler for each of wire.BootOperations that lifecycle.Operations
// has not: questions to an enclave, and what is done to ranges and organizations.
var bootHandlers = map[string]bootHandler{
	wire.OpStatus:             bare(func(c *Core) ([]byte, error) { return c.life.Status(c.counters()) }),
	wire.OpRanges:             bare((*Core).rangeTable),
	wire.OpTake:               moving((*ranges.Ranges).Take),
	wire.OpGive:               moving((*ranges.Ranges).Give),
	wire.OpRetire:             bare((*Core).retire),
	wire.OpKeys:               bare(func(c *Core) ([]byte, error) { return json.Marshal(c.serving.Public) }),
	wire.OpDiscoveryKeys:      (*Core).discoverKeys,
	wire.OpDiscoveryBootProof: (*Core).discoverBootProof,
	wire.OpIssuer:             issuer(discoveryOf),
	wire.OpIssuerKeys:         issuer(keySetOf),
	wire.OpWebhookKeys:        bare(func(c *Core) ([]byte, error) { return c.serving.webhooks.JWKS(), nil }),
	wire.OpCreateOrganization: (*Core).createOrganization,
}

// counters are the alarms, caches, batches and expensive operations, by name.
func (c *Core) counters() map[string]uint64 {
	m := map[string]uint64{"reply_bytes": uint64(c.replies.Given())}
	for k, n := range c.alarms.Counts() {
		m["alarm_"+k] = n
	}
	d := c.keys.Stats()
	m["derived_keys"], m["derived_key_hits"], m["derived_key_misses"] = uint64(d.Keys), d.Hits, d.Misses
	m["late_answers"], m["streams"] = c.host.LateAnswers(), c.host.Streams()
	maps.Copy(m, tally.Counts())
	if c.life.State() == wire.StateServing {
		maps.Copy(m, c.serving.Ranges.Stats())
	}
	return m
}

// moving is a handler that moves ranges and answers what this enclave owns then.
func moving(do func(*ranges.Ranges, context.Context, []byte) error) bootHandler {
	return func(c *Core, ctx context.Context, call *wire.Call, _ *visit) ([]byte, error) {
		if err := do(c.serving.Ranges, ctx, call.Body); err != nil {
			return nil, err
		}
		return c.rangeTable()
	}
}

func (c *Core) retire() ([]byte, error) {
	c.serving.Ranges.Retire()
	return c.rangeTable()
}

// rangeTable is what this enclave owns now, signed by its live key.
func (c *Core) rangeTable() ([]byte, error) {
	text, err := json.Marshal(c.serving.Ranges.Table(c.now()))
	if err != nil {
		return nil, err
	}
	sig, err := c.serving.Live.Sign(wire.TableText(string(text)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(&wire.SignedTable{Table: string(text), PublicKey: c.serving.Live.PublicHex, Signature: hex.EncodeToString(sig)})
}
