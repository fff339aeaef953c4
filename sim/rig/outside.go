package rig

import (
	"context"
	"net"

	"cloister/shared/wire"
)

// network is an outside of names that exist in a test only.
type network func(ctx context.Context, host string, port uint16) (net.Conn, error)

// Open is link.Outside.
func (n network) Open(ctx context.Context, host string, port uint16) (net.Conn, wire.DialVerdict, error) {
	c, err := n(ctx, host, port)
	if err != nil {
		return nil, wire.DialAway, err
	}
	return c, wire.DialOpen, nil
}
