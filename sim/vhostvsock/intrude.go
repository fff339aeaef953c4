package vhostvsock

import (
	"context"
	"errors"
)

// intruder is the port that Intrude asks from.
const intruder = 1024

// ErrRefused is a connection that the other guest's kernel refused: nobody listens.
var ErrRefused = errors.New("nobody listens")

// Intrude asks, as a guest with the context id from, for a connection to a port of
// the guest to, and returns nil once that guest has taken the connection and closed
// it again. A guest that goes on listening makes it wait until ctx ends.
func (s *Switch) Intrude(ctx context.Context, from, to uint64, port uint32) error {
	in, err := s.join(from)
	if err != nil {
		return err
	}
	defer s.leave(from)
	p := conn{to, from, port, intruder}.reset() // from the intruder, to that port
	le.PutUint16(p.head[30:], opRequest)
	le.PutUint32(p.head[36:], maxData) // room for what is sent back
	s.carry(from, p, ctx.Done())
	taken := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-in:
			switch {
			case p.op() == opResponse:
				taken = true
			case p.op() == opReset && !taken:
				return ErrRefused
			case p.op() == opReset || p.op() == opShutdown:
				return nil
			}
		}
	}
}
