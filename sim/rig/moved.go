package rig

import (
	"net"
	"time"

	"cloister/enclave/core"
)

// A moved listener serves an enclave whose clock is behind the machine's and runs
// as fast: what it sets as deadlines by its own is brought to the machine's. A
// clock that is ahead needs nothing: its deadlines are only late.
type moved struct {
	net.Listener
	clock core.Clock
}

func (l moved) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return movedConn{c, l.clock}, nil
}

type movedConn struct {
	net.Conn
	clock core.Clock
}

func (c movedConn) real(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(t.Sub(c.clock.Now()))
}

func (c movedConn) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(c.real(t)) }
func (c movedConn) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(c.real(t)) }
func (c movedConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.real(t)) }
