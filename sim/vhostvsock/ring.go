package vhostvsock

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory is a guest's, as QEMU shares it.
type memory []region

type region struct {
	guest, size, qemu uint64 // where it begins for the guest and in QEMU
	bytes             []byte
}

// set takes a table of regions, each with the file that it lies in.
func (m *memory) set(body []byte, files []int) (err error) {
	defer func() { err = errors.Join(err, closeAll(files)) }()
	m.unmap()
	if len(body) < 8 {
		return errShort
	}
	n := int(le.Uint32(body))
	if n != len(files) || n > maxRegions || len(body) < 8+32*n {
		return fmt.Errorf("%d regions with %d files", n, len(files))
	}
	for i := range n {
		b := body[8+32*i:]
		size, offset := le.Uint64(b[8:]), le.Uint64(b[24:])
		bytes, err := unix.Mmap(files[i], int64(offset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		*m = append(*m, region{le.Uint64(b), size, le.Uint64(b[16:]), bytes})
	}
	return nil
}

func (m *memory) unmap() {
	for _, r := range *m {
		_ = unix.Munmap(r.bytes)
	}
	*m = nil
}

// at is n bytes of memory at an address, the guest's or QEMU's; nil where there is none.
func (m *memory) at(address, n uint64, guest bool) []byte {
	for _, r := range *m {
		begin := r.qemu
		if guest {
			begin = r.guest
		}
		if address >= begin && address-begin < r.size && n <= r.size-(address-begin) {
			return r.bytes[address-begin : address-begin+n]
		}
	}
	return nil
}

// A ring is one split virtqueue (virtio 1.2, section 2.7). The addresses are QEMU's.
type ring struct {
	size                   uint32
	table, available, used uint64
	next                   uint16 // the next available chain to take
	done                   uint16 // how many were put back
	kick                   *os.File
	call                   int // to tell the guest, or -1
	stopped, ended         chan struct{}
}

func (r *ring) stop() {
	if r.kick == nil {
		return
	}
	close(r.stopped)
	_ = r.kick.Close()
	<-r.ended
	r.kick = nil
}

// wait blocks until the guest says that there is something new; false when the ring was stopped.
func (r *ring) wait() bool {
	var b [8]byte
	_, err := r.kick.Read(b[:])
	return err == nil
}

// word is the first four bytes of a ring: flags and index, read at once since the
// guest writes them at any time.
func word(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(&b[0])) }

const descriptorNext = 1 // flag: the chain goes on

// pop takes the next chain of buffers that the guest has made available.
func (r *ring) pop(m *memory) (chain uint16, bufs [][]byte, ok bool) {
	available := m.at(r.available, 4+2*uint64(r.size), false)
	table := m.at(r.table, 16*uint64(r.size), false)
	if r.size == 0 || available == nil || table == nil || uint16(atomic.LoadUint32(word(available))>>16) == r.next {
		return 0, nil, false
	}
	chain = le.Uint16(available[4+2*(uint32(r.next)%r.size):])
	r.next++
	for i, seen := uint32(chain), uint32(0); i < r.size && seen < r.size; seen++ {
		d := table[16*i:]
		if b := m.at(le.Uint64(d), uint64(le.Uint32(d[8:])), true); b != nil {
			bufs = append(bufs, b)
		}
		if le.Uint16(d[12:])&descriptorNext == 0 {
			break
		}
		i = uint32(le.Uint16(d[14:]))
	}
	return chain, bufs, true
}

// push gives a chain back with n bytes written to it, and tells the guest unless it does not want to hear.
func (r *ring) push(m *memory, chain uint16, n uint32) {
	used := m.at(r.used, 4+8*uint64(r.size), false)
	available := m.at(r.available, 4, false)
	if used == nil || available == nil {
		return
	}
	e := used[4+8*(uint32(r.done)%r.size):]
	le.PutUint32(e, uint32(chain))
	le.PutUint32(e[4:], n)
	r.done++
	atomic.StoreUint32(word(used), uint32(r.done)<<16)
	if atomic.LoadUint32(word(available))&1 == 0 && r.call >= 0 {
		_, _ = unix.Write(r.call, number(1))
	}
}
