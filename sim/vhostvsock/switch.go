// Package vhostvsock joins the AF_VSOCK of several QEMU guests without any vsock in the kernel
// underneath: it is the back end of QEMU's vhost-user-vsock device (the vhost-user protocol of
// QEMU's documentation, virtio 1.2 section 5.10).
//
// Every guest has a context id. A packet goes from guest to guest as it is, so a guest with the
// id 3 is to the others what the parent instance is to Nitro enclaves. Flow control is the
// guests' own. It is for tests: it withstands mistakes in a guest's memory, not attacks.
package vhostvsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// waiting is how many packets may wait for a guest; more stop the sender.
const waiting = 4096

// A Switch carries packets between guests.
type Switch struct {
	mu     sync.Mutex
	guests map[uint64]chan *packet
	conns  map[conn]bool
}

// A conn is a connection, by who asked for it.
type conn struct {
	from, to         uint64
	fromPort, toPort uint32
}

// NewSwitch is one without guests.
func NewSwitch() *Switch { return &Switch{guests: map[uint64]chan *packet{}, conns: map[conn]bool{}} }

// Listen serves the guests with the context id cid at a Unix socket until ctx ends, and tells failed why not any longer.
func (s *Switch) Listen(ctx context.Context, path string, cid uint64, failed func(error)) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	go func() {
		if err := s.Serve(ctx, l, cid); err != nil {
			failed(fmt.Errorf("vsock: %w", err))
		}
	}()
	return nil
}

// Serve takes one guest after the other at l, all with the context id cid, until
// ctx ends. QEMU is the client: -chardev socket,path=….
func (s *Switch) Serve(ctx context.Context, l *net.UnixListener, cid uint64) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("waiting for guest %d: %w", cid, err)
		}
		cut := context.AfterFunc(ctx, func() { _ = c.Close() })
		in, err := s.join(cid)
		if err != nil {
			_ = c.Close()
			cut()
			return err
		}
		err = newDevice(c, cid, in, s.carry).serve()
		s.leave(cid)
		cut()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("guest %d: %w", cid, err)
		}
	}
}

func (s *Switch) join(cid uint64) (chan *packet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guests[cid] != nil {
		return nil, errors.New("two guests with one context id")
	}
	in := make(chan *packet, waiting)
	s.guests[cid] = in
	return in, nil
}

// leave resets the connections of a guest that is gone, as the kernel under real
// guests does: those at the other end would not hear of it otherwise.
func (s *Switch) leave(cid uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, cid)
	for c := range s.conns {
		if c.from != cid && c.to != cid {
			continue
		}
		delete(s.conns, c)
		if c.from == cid {
			c = conn{c.to, c.from, c.toPort, c.fromPort}
		}
		select {
		case s.guests[c.from] <- c.reset(): // nil where that one is gone too
		default:
		}
	}
}

// follow remembers connections from when they are asked for until they are reset.
func (s *Switch) follow(p *packet) {
	c := p.conn()
	switch p.op() {
	case opRequest:
		s.conns[c] = true
	case opReset:
		delete(s.conns, c)
		delete(s.conns, conn{c.to, c.from, c.toPort, c.fromPort})
	}
}

// carry takes a packet from the guest with the id cid to where it is addressed. A packet that names another
// sender is dropped; one to nobody is answered with a reset, as a connection to a machine that is gone.
func (s *Switch) carry(cid uint64, p *packet, stopped <-chan struct{}) {
	if p.from() != cid || p.kind() != stream {
		return
	}
	s.mu.Lock()
	to := s.guests[p.to()]
	if to == nil && p.op() != opReset {
		to, p = s.guests[cid], p.conn().reset()
	}
	s.follow(p)
	s.mu.Unlock()
	if to == nil {
		return
	}
	select {
	case to <- p:
	case <-stopped:
	}
}
