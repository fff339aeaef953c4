package vhostvsock

import (
	"context"
	"encoding/binary"
	"errors"
)

// A packet is one of a virtio socket device (virtio 1.2, section 5.10.6): a header
// of 44 bytes and, for data, what follows.
type packet struct {
	head [headLen]byte
	data []byte
}

const (
	headLen = 44
	// maxData is what a guest puts into one packet at most.
	maxData = 64 << 10
)

const (
	stream     = 1 // the type of connections
	opRequest  = 1
	opResponse = 2
	opReset    = 3
	opShutdown = 4
)

var le = binary.LittleEndian

func (p *packet) from() uint64 { return le.Uint64(p.head[0:]) }
func (p *packet) to() uint64   { return le.Uint64(p.head[8:]) }
func (p *packet) kind() uint16 { return le.Uint16(p.head[28:]) }
func (p *packet) op() uint16   { return le.Uint16(p.head[30:]) }

// setLen writes how much data follows the header.
func (p *packet) setLen(n int) { le.PutUint32(p.head[24:], uint32(n)) }

var errPacket = errors.New("malformed packet")

// parse reads a packet out of the buffers that a guest filled. Data is a copy: the
// guest may change its memory at any time.
func parse(bufs [][]byte) (*packet, error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	if total < headLen || total > headLen+maxData {
		return nil, errPacket
	}
	all := make([]byte, 0, total)
	for _, b := range bufs {
		all = append(all, b...)
	}
	p := &packet{head: [headLen]byte(all)}
	n := le.Uint32(p.head[24:])
	if int64(n) > int64(len(all)-headLen) {
		return nil, errPacket
	}
	p.data = all[headLen : headLen+int(n)]
	return p, nil
}

// conn is the connection that a packet is of, by who sent this.
func (p *packet) conn() conn {
	return conn{p.from(), p.to(), le.Uint32(p.head[16:]), le.Uint32(p.head[20:])}
}

// reset is what tells the first end of a connection that the other is gone.
func (c conn) reset() *packet {
	r := new(packet)
	le.PutUint64(r.head[0:], c.to)
	le.PutUint64(r.head[8:], c.from)
	le.PutUint32(r.head[16:], c.toPort)
	le.PutUint32(r.head[20:], c.fromPort)
	le.PutUint16(r.head[28:], stream)
	le.PutUint16(r.head[30:], opReset)
	return r
}

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
