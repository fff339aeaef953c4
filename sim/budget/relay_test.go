package budget_test

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"

	"cloister/shared/wire"
)

// headSize is that of a frame: length of the payload (4 bytes), id (8), kind (1).
const headSize = 13

// A relay stands between host and enclave and counts the frames that requests send
// either way. It allocates nothing for them. Frames that come by the clock are left
// out: renewals of what is owned.
type relay struct{ frames, bytes atomic.Uint64 }

// between listens for the host and leads it to the enclave.
func (r *relay) between(t *testing.T, address string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			host, err := l.Accept()
			if err != nil {
				return
			}
			enclave, err := net.Dial("tcp", address[len("tcp://"):])
			if err != nil {
				_ = host.Close()
				continue
			}
			go r.pass(host, enclave)
			go r.pass(enclave, host)
		}
	}()
	return "tcp://" + l.Addr().String()
}

// pass hands on what comes, until either end closes, and looks at the heads of frames
// on its way.
func (r *relay) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	var head [headSize]byte
	have, payload := 0, 0 // of the head, and still to come of the payload
	for {
		n, err := from.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			if payload > 0 {
				skip := min(payload, len(b))
				payload, b = payload-skip, b[skip:]
				continue
			}
			more := copy(head[have:], b)
			have, b = have+more, b[more:]
			if have == headSize {
				have, payload = 0, int(binary.BigEndian.Uint32(head[:]))
				r.count(wire.Kind(head[headSize-1]), payload)
			}
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (r *relay) count(kind wire.Kind, payload int) {
	if kind != wire.KindOwn && kind != wire.KindOwned && kind != wire.KindHello {
		r.frames.Add(1)
		r.bytes.Add(uint64(headSize + payload))
	}
}
