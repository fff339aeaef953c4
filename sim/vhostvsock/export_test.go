package vhostvsock

// A Packet for tests of the package.
type Packet = packet

// Parse reads a packet out of buffers and tells what is in it.
func Parse(bufs ...[]byte) (head [headLen]byte, data []byte, err error) {
	p, err := parse(bufs)
	if err != nil {
		return head, nil, err
	}
	return p.head, p.data, nil
}

// Join lets a test be the guest with this context id: what comes for it arrives in
// the channel, and it sends with send.
func (s *Switch) Join(cid uint64) (in <-chan *Packet, send func(head [headLen]byte, data []byte), err error) {
	c, err := s.join(cid)
	if err != nil {
		return nil, nil, err
	}
	return c, func(head [headLen]byte, data []byte) { s.carry(cid, &packet{head: head, data: data}, nil) }, nil
}

// Leave ends it.
func (s *Switch) Leave(cid uint64) { s.leave(cid) }

// Head is a packet's header.
func (p *packet) Head() [headLen]byte { return p.head }
