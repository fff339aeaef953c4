package vhostvsock_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cloister/shared/clocktest"
	"cloister/sim/vhostvsock"
)

var le = binary.LittleEndian

func head(from, to uint64, fromPort, toPort uint32, op uint16, n int) (h [44]byte) {
	le.PutUint64(h[0:], from)
	le.PutUint64(h[8:], to)
	le.PutUint32(h[16:], fromPort)
	le.PutUint32(h[20:], toPort)
	le.PutUint32(h[24:], uint32(n))
	le.PutUint16(h[28:], 1)
	le.PutUint16(h[30:], op)
	return h
}

func TestParse(t *testing.T) {
	h := head(3, 16, 1, 2, 5, 4)
	whole := append(h[:], "data"...)
	for _, c := range []struct {
		name string
		bufs [][]byte
		ok   bool
	}{
		{"one buffer", [][]byte{whole}, true},
		{"two", [][]byte{whole[:44], whole[44:]}, true},
		{"a split header", [][]byte{whole[:10], whole[10:]}, true},
		{"room behind it", [][]byte{append(bytes.Clone(whole), 0, 0)}, true},
		{"no header", [][]byte{whole[:43]}, false},
		{"less than it says", [][]byte{whole[:47]}, false},
		{"nothing", nil, false},
		{"too much", [][]byte{make([]byte, 44+65537)}, false},
	} {
		got, data, err := vhostvsock.Parse(c.bufs...)
		if (err == nil) != c.ok || c.ok && (got != h || string(data) != "data") {
			t.Errorf("%s: %q, %v", c.name, data, err)
		}
	}
}

func TestSwitch(t *testing.T) {
	s := vhostvsock.NewSwitch()
	parent, fromParent, err := s.Join(3)
	if err != nil {
		t.Fatal(err)
	}
	enclave, fromEnclave, err := s.Join(16)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Join(16); err == nil {
		t.Error("two guests have one context id")
	}
	quiet := func(what string) {
		t.Helper()
		select {
		case p := <-parent:
			t.Errorf("%s: the parent got %x", what, p.Head())
		case p := <-enclave:
			t.Errorf("%s: the enclave got %x", what, p.Head())
		default:
		}
	}
	fromParent(head(3, 16, 1, 2, 1, 0), nil)
	if p := <-enclave; p.Head() != head(3, 16, 1, 2, 1, 0) {
		t.Errorf("arrived as %x", p.Head())
	}
	fromEnclave(head(3, 3, 1, 2, 1, 0), nil)
	quiet("another's name")
	other := head(16, 3, 1, 2, 1, 0)
	other[28] = 2
	fromEnclave(other, nil)
	quiet("another type")
	// Nobody is there: the sender hears so, but a reset is not answered.
	fromEnclave(head(16, 99, 7, 8, 1, 0), nil)
	if p := <-enclave; p.Head() != head(99, 16, 8, 7, 3, 0) {
		t.Errorf("answered with %x", p.Head())
	}
	fromEnclave(head(16, 99, 7, 8, 3, 0), nil)
	quiet("a reset to nobody")
	// A guest that goes takes its connections with it, whoever asked for them; one that
	// was reset before is not told of again.
	fromParent(head(3, 16, 5, 6, 1, 0), nil)
	fromEnclave(head(16, 3, 5000, 2, 1, 0), nil)
	fromEnclave(head(16, 3, 5000, 9, 1, 0), nil)
	fromParent(head(3, 16, 9, 5000, 3, 0), nil)
	for range 2 { // the request of 5 and the reset of 9, the first of 1
		<-enclave
	}
	<-parent
	<-parent
	s.Leave(3)
	got := map[[44]byte]bool{(<-enclave).Head(): true, (<-enclave).Head(): true, (<-enclave).Head(): true}
	for _, want := range [][44]byte{head(3, 16, 1, 2, 3, 0), head(3, 16, 5, 6, 3, 0), head(3, 16, 2, 5000, 3, 0)} {
		if !got[want] {
			t.Errorf("the enclave was not told of the end of %x", want[16:24])
		}
	}
	quiet("all were told")
	fromEnclave(head(16, 3, 7, 8, 5, 4), []byte("data"))
	if p := <-enclave; p.Head() != head(3, 16, 8, 7, 3, 0) {
		t.Errorf("after the parent's end: %x", p.Head())
	}
}

// An intruder tells a guest that closes from one that listens, and from one where
// nobody does.
func TestIntrude(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []uint16
		want    error
	}{
		{"closed", []uint16{2, 4}, nil},
		{"reset", []uint16{2, 3}, nil},
		{"refused", []uint16{3}, vhostvsock.ErrRefused},
		{"taken", []uint16{2, 6}, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := vhostvsock.NewSwitch()
			in, send, err := s.Join(16)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				h := (<-in).Head()
				if le.Uint64(h[0:]) != 5 || le.Uint32(h[20:]) != 5000 || le.Uint16(h[30:]) != 1 {
					t.Errorf("asked with %x", h)
				}
				for _, op := range c.answers {
					send(head(16, 5, 5000, le.Uint32(h[16:]), op, 0), nil)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := s.Intrude(ctx, 5, 16, 5000); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// frontEnd is what QEMU and a guest's driver do, with one megabyte of memory.
type frontEnd struct {
	t    *testing.T
	c    *net.UnixConn
	mem  []byte
	kick [2]int
}

const (
	memory = 1 << 20
	user   = 0x7f0000000000 // where the memory lies for QEMU
	ring   = 8
)

func (f *frontEnd) ask(request uint32, body []byte, files ...int) {
	f.t.Helper()
	b := le.AppendUint32(nil, request)
	b = le.AppendUint32(b, 1|8) // wants an answer
	b = append(le.AppendUint32(b, uint32(len(body))), body...)
	if _, _, err := f.c.WriteMsgUnix(b, unix.UnixRights(files...), nil); err != nil {
		f.t.Fatal(err)
	}
	a := make([]byte, 4096)
	n, err := f.c.Read(a)
	if err != nil || n < 20 || le.Uint32(a) != request {
		f.t.Fatalf("request %d: %d bytes, %v", request, n, err)
	}
}

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = le.AppendUint64(b, w)
	}
	return b
}

func attach(t *testing.T, path string) *frontEnd {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	f := &frontEnd{t: t, c: c}
	fd, err := unix.MemfdCreate("guest", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, memory); err != nil {
		t.Fatal(err)
	}
	if f.mem, err = unix.Mmap(fd, 0, memory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	f.ask(5, append(words(1), words(0, memory, user, 0)...), fd)
	for i := range uint64(2) {
		base := user + i*0x10000
		f.ask(8, words(i|ring<<32))
		f.ask(9, words(i, base, base+0x2000, base+0x1000, 0))
		f.ask(10, words(i))
		if f.kick[i], err = unix.Eventfd(0, 0); err != nil {
			t.Fatal(err)
		}
		f.ask(12, words(i), f.kick[i])
	}
	return f
}

// offer makes a buffer at an address available as the n-th of a ring.
func (f *frontEnd) offer(queue, n int, address uint64, size int) {
	base := queue * 0x10000
	d := f.mem[base+16*(n%ring):]
	le.PutUint64(d, address)
	le.PutUint32(d[8:], uint32(size))
	le.PutUint32(d[12:], 0)
	le.PutUint16(f.mem[base+0x1000+4+2*(n%ring):], uint16(n%ring))
	le.PutUint16(f.mem[base+0x1002:], uint16(n+1))
	if _, err := unix.Write(f.kick[queue], words(1)); err != nil {
		f.t.Fatal(err)
	}
}

// back waits until n buffers of a ring were given back, and answers the length of
// the last.
func (f *frontEnd) back(queue, n int) int {
	f.t.Helper()
	used := f.mem[queue*0x10000+0x2000:]
	clocktest.Until(f.t, fmt.Sprintf("%d buffers have come back", n), func() bool { return uint16(*(*uint32)(unsafe.Pointer(&used[0]))>>16) == uint16(n) })
	return int(le.Uint32(used[4+8*((n-1)%ring)+4:]))
}

// Two guests through the protocol and the rings that QEMU uses: what one sends
// arrives at the other, in pieces where its buffers are small.
func TestTwoGuests(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := vhostvsock.NewSwitch()
	ended := make(chan error, 2)
	var guests [2]*frontEnd
	for i, cid := range []uint64{3, 16} {
		path := filepath.Join(t.TempDir(), "guest")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- s.Serve(ctx, l, cid) }()
		guests[i] = attach(t, path)
	}
	parent, enclave := guests[0], guests[1]
	text := bytes.Repeat([]byte("0123456789"), 20)
	h := head(3, 16, 1024, 5000, 5, len(text))
	for n := range 3 * ring { // round the rings
		copy(parent.mem[0x80000:], append(h[:], text...))
		parent.offer(1, n, 0x80000, 44+len(text))
		if n := parent.back(1, n+1); n != 0 {
			t.Fatalf("%d bytes written to what the guest sent", n)
		}
		enclave.offer(0, 2*n, 0x80000, 44+150)
		if got := enclave.back(0, 2*n+1); got != 44+150 || !bytes.Equal(enclave.mem[0x80000+44:][:150], text[:150]) || le.Uint32(enclave.mem[0x80000+24:]) != 150 {
			t.Fatalf("packet %d: %d bytes arrived", n, got)
		}
		enclave.offer(0, 2*n+1, 0x90000, 4096)
		if got := enclave.back(0, 2*n+2); got != 44+50 || !bytes.Equal(enclave.mem[0x90000+44:][:50], text[150:]) {
			t.Fatalf("packet %d: %d bytes came after", n, got)
		}
	}
	// Memory that there is not, and a malformed packet, do no harm.
	parent.offer(1, 3*ring, memory-10, 4096)
	parent.back(1, 3*ring+1)
	copy(parent.mem[0x80000:], make([]byte, 44))
	parent.offer(1, 3*ring+1, 0x80000, 20)
	parent.back(1, 3*ring+2)
	cancel()
	for range guests {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
