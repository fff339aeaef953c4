package vhostvsock

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Requests of the vhost-user protocol that QEMU makes of such a device.
const (
	getFeatures         = 1
	setMemTable         = 5
	setVringNum         = 8
	setVringAddr        = 9
	setVringBase        = 10
	getVringBase        = 11
	setVringKick        = 12
	setVringCall        = 13
	setVringErr         = 14
	getProtocolFeatures = 15
	getQueueNum         = 17
	getConfig           = 24
)

// Features, by bit.
const (
	featureProtocol = 1 << 30
	featureVersion1 = 1 << 32
	protocolAck     = 1 << 3
	protocolConfig  = 1 << 9
)

// Flags of a message's header.
const (
	flagVersion = 1
	flagReply   = 1 << 2
	flagNeedAck = 1 << 3
)

const (
	maxMessage = 4096
	maxRegions = 8
	maxRing    = 1024
)

// A device is the vsock device of one guest.
type device struct {
	conn  *net.UnixConn
	cid   uint64
	in    chan *packet // for the guest
	carry func(cid uint64, p *packet, stopped <-chan struct{})

	mu    sync.RWMutex // guards the guest's memory
	mem   memory
	rings [2]ring // to the guest, and from it
	rest  *packet // what did not fit into the guest's last buffer
}

func newDevice(c *net.UnixConn, cid uint64, in chan *packet, carry func(uint64, *packet, <-chan struct{})) *device {
	d := &device{conn: c, cid: cid, in: in, carry: carry}
	for i := range d.rings {
		d.rings[i].call = -1
	}
	return d
}

func (d *device) serve() error {
	defer func() {
		for i := range d.rings {
			d.rings[i].stop()
		}
		d.mu.Lock()
		d.mem.unmap()
		d.mu.Unlock()
		_ = d.conn.Close()
	}()
	head := make([]byte, 12)
	control := make([]byte, unix.CmsgSpace(maxRegions*4))
	for {
		n, controls, _, _, err := d.conn.ReadMsgUnix(head, control)
		if err != nil || n == 0 {
			return nil // QEMU has ended
		}
		files, err := descriptors(control[:controls])
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(d.conn, head[n:]); err != nil {
			return err
		}
		request, flags, size := le.Uint32(head), le.Uint32(head[4:]), le.Uint32(head[8:])
		if size > maxMessage {
			return fmt.Errorf("request %d of %d bytes", request, size)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(d.conn, body); err != nil {
			return err
		}
		answer, err := d.handle(request, body, files)
		if err != nil {
			return fmt.Errorf("request %d: %w", request, err)
		}
		if answer == nil && flags&flagNeedAck != 0 {
			answer = make([]byte, 8)
		}
		if answer == nil {
			continue
		}
		b := le.AppendUint32(nil, request)
		b = le.AppendUint32(b, flagVersion|flagReply)
		b = le.AppendUint32(b, uint32(len(answer)))
		if _, err := d.conn.Write(append(b, answer...)); err != nil {
			return err
		}
	}
}

func descriptors(control []byte) ([]int, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

func number(v uint64) []byte { return le.AppendUint64(nil, v) }

var errShort = errors.New("message too short")

// handle does what QEMU asks. An answer of nil means that the request has none.
func (d *device) handle(request uint32, body []byte, files []int) ([]byte, error) {
	switch request {
	case getFeatures:
		return number(featureVersion1 | featureProtocol), nil
	case getProtocolFeatures:
		return number(protocolConfig | protocolAck), nil
	case getQueueNum:
		return number(uint64(len(d.rings))), nil
	case getConfig: // offset, size, flags, and then room for the context id
		if len(body) < 12 {
			return nil, errShort
		}
		copy(body[12:], number(d.cid)[min(le.Uint32(body), 8):])
		return body, nil
	case setMemTable:
		d.mu.Lock()
		defer d.mu.Unlock()
		return nil, d.mem.set(body, files)
	case setVringErr:
		return nil, closeAll(files)
	case setVringNum, setVringAddr, setVringBase, getVringBase, setVringKick, setVringCall:
		if len(body) < 8 {
			return nil, errShort
		}
		i := int(le.Uint32(body) & 0xff)
		if i >= len(d.rings) {
			return nil, errors.Join(fmt.Errorf("ring %d", i), closeAll(files)) // of events, which there are none of
		}
		return d.setRing(request, i, body, files)
	}
	return nil, closeAll(files) // features and owner, which change nothing here
}

func (d *device) setRing(request uint32, i int, body []byte, files []int) ([]byte, error) {
	r := &d.rings[i]
	value := le.Uint32(body[4:])
	switch request {
	case setVringNum:
		if value == 0 || value > maxRing || value&(value-1) != 0 {
			return nil, fmt.Errorf("ring of %d", value)
		}
		r.size = value
	case setVringAddr:
		if len(body) < 32 {
			return nil, errShort
		}
		r.table, r.used, r.available = le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:])
	case setVringBase:
		r.next, r.done = uint16(value), uint16(value)
	case getVringBase:
		r.stop()
		answer := append([]byte(nil), body[:8]...)
		le.PutUint32(answer[4:], uint32(r.next))
		return answer, nil
	case setVringCall:
		if r.call >= 0 {
			_ = unix.Close(r.call)
		}
		if r.call = -1; len(files) > 0 {
			r.call = files[0]
			return nil, closeAll(files[1:])
		}
	case setVringKick:
		if len(files) == 0 {
			return nil, errors.New("no way to hear of new buffers")
		}
		r.stop()
		if err := unix.SetNonblock(files[0], true); err != nil {
			return nil, err
		}
		r.kick = os.NewFile(uintptr(files[0]), "kick")
		r.stopped, r.ended = make(chan struct{}), make(chan struct{})
		if i == 0 {
			go d.give(r)
		} else {
			go d.take(r)
		}
		return nil, closeAll(files[1:])
	}
	return nil, nil
}

func closeAll(files []int) (err error) {
	for _, f := range files {
		err = errors.Join(err, unix.Close(f))
	}
	return err
}

// take carries what the guest sends.
func (d *device) take(r *ring) {
	defer close(r.ended)
	for {
		d.mu.RLock()
		chain, bufs, ok := r.pop(&d.mem)
		var p *packet
		if ok {
			p, _ = parse(bufs) // a malformed one is dropped
			r.push(&d.mem, chain, 0)
		}
		d.mu.RUnlock()
		if p != nil {
			d.carry(d.cid, p, r.stopped)
		}
		if !ok && !r.wait() {
			return
		}
	}
}

// give puts packets into the guest's buffers, in pieces where a buffer is small.
func (d *device) give(r *ring) {
	defer close(r.ended)
	for {
		if d.rest == nil {
			select {
			case d.rest = <-d.in:
			case <-r.stopped:
				return
			}
		}
		d.mu.RLock()
		chain, bufs, ok := r.pop(&d.mem)
		if ok {
			r.push(&d.mem, chain, d.fill(bufs))
		}
		d.mu.RUnlock()
		if !ok && !r.wait() {
			return
		}
	}
}

// fill writes the waiting packet, or as much of it as there is room for, and tells how many bytes that are.
func (d *device) fill(bufs [][]byte) uint32 {
	free := -headLen
	for _, b := range bufs {
		free += len(b)
	}
	if free < 0 || free == 0 && len(d.rest.data) > 0 {
		return 0 // of no use for this packet
	}
	p := d.rest
	n := min(free, len(p.data))
	p.setLen(n)
	all := append(append(make([]byte, 0, headLen+n), p.head[:]...), p.data[:n]...)
	for _, b := range bufs {
		all = all[copy(b, all):]
	}
	if p.data = p.data[n:]; len(p.data) == 0 {
		d.rest = nil
	}
	return uint32(headLen + n)
}
