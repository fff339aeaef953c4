// Package cuse answers for the character device /dev/nsm from user space, by Linux's CUSE ("character device
// in userspace", the protocol of fuse(4) with the messages of include/uapi/linux/fuse.h, version 7.31).
//
// The device's one ioctl carries pointers to a request and a response, which the kernel cannot
// know from its number. So the device is "unrestricted": twice it answers with the places of the
// caller's memory that it wants to read and write, and is asked again with their content.
package cuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// An Exchange answers one request of the security module into response and tells how long the answer is.
type Exchange func(request, response []byte) (int, error)

// Operations of the protocol.
const (
	opOpen      = 14
	opRelease   = 18
	opInterrupt = 36
	opIoctl     = 39
	opInit      = 4096
)

// Sizes, in bytes.
const (
	inHead     = 40
	outHead    = 16
	ioctlIn    = 32
	messageLen = 32 // two iovecs
	// bufferLen takes the largest message: a header, an ioctl and its request.
	bufferLen = 1 << 17
)

// Limits of the device, as its driver has them.
const (
	number      = 3<<30 | messageLen<<16 | 0x0A<<8
	maxRequest  = 0x1000
	maxResponse = 0x3000
)

const (
	unrestricted = 1 << 0 // of the device
	retry        = 1 << 2 // of an answer to an ioctl
	version      = 7
	minor        = 31
)

var le = binary.LittleEndian

// Serve makes a device of this name and answers for it until kernel, an open
// /dev/cuse, fails. ready is called when the device is there.
func Serve(kernel io.ReadWriter, name string, exchange Exchange, ready func()) error {
	b := make([]byte, bufferLen)
	for {
		n, err := kernel.Read(b)
		if err != nil {
			return fmt.Errorf("reading from the kernel: %w", err)
		}
		m, err := parse(b[:n])
		if err != nil {
			return err
		}
		if m.op == opInterrupt { // every answer is on its way
			continue
		}
		body, errno := answer(m, name, exchange)
		if _, err := kernel.Write(m.reply(body, errno)); err != nil {
			return fmt.Errorf("answering the kernel: %w", err)
		}
		if m.op == opInit {
			ready()
		}
	}
}

// A message is one from the kernel.
type message struct {
	op     uint32
	unique uint64
	body   []byte
}

func parse(b []byte) (m message, err error) {
	if len(b) < inHead || int(le.Uint32(b)) != len(b) {
		return m, errors.New("message of a wrong length from the kernel")
	}
	return message{op: le.Uint32(b[4:]), unique: le.Uint64(b[8:]), body: b[inHead:]}, nil
}

// reply is the answer's bytes, which are written at once.
func (m message) reply(body []byte, errno syscall.Errno) []byte {
	if errno != 0 {
		body = nil
	}
	b := le.AppendUint32(nil, uint32(outHead+len(body)))
	b = le.AppendUint32(b, uint32(-int32(errno)))
	b = le.AppendUint64(b, m.unique)
	return append(b, body...)
}

func answer(m message, name string, exchange Exchange) ([]byte, syscall.Errno) {
	switch m.op {
	case opInit:
		b := make([]byte, 0, 72+len(name))
		for _, v := range []uint32{version, minor, 0, unrestricted, 1 << 16, 1 << 16} {
			b = le.AppendUint32(b, v)
		}
		b = b[:72] // device numbers of the kernel's choice, and what is spare
		return append(append(b, "DEVNAME="+name...), 0), 0
	case opOpen:
		return make([]byte, 16), 0
	case opRelease:
		return nil, 0
	case opIoctl:
		return ioctl(m.body, exchange)
	}
	return nil, syscall.ENOSYS
}

// A place is one of the caller's memory.
type place struct{ base, size uint64 }

func placeAt(b []byte) place { return place{le.Uint64(b), le.Uint64(b[8:])} }

// again asks the kernel for the same ioctl with the content of in, and for room to write out.
func again(in, out []place) []byte {
	b := make([]byte, 4, 16+16*(len(in)+len(out)))
	b = le.AppendUint32(b, retry)
	b = le.AppendUint32(b, uint32(len(in)))
	b = le.AppendUint32(b, uint32(len(out)))
	for _, p := range append(in, out...) {
		b = le.AppendUint64(le.AppendUint64(b, p.base), p.size)
	}
	return b
}

func ioctl(b []byte, exchange Exchange) ([]byte, syscall.Errno) {
	if len(b) < ioctlIn {
		return nil, syscall.EINVAL
	}
	cmd, arg, content := le.Uint32(b[12:]), le.Uint64(b[16:]), b[ioctlIn:]
	if int(le.Uint32(b[24:])) != len(content) {
		return nil, syscall.EINVAL
	}
	if cmd != number {
		return nil, syscall.ENOTTY
	}
	argument := place{arg, messageLen}
	if len(content) == 0 {
		return again([]place{argument}, nil), 0
	}
	if len(content) < messageLen {
		return nil, syscall.EINVAL
	}
	request, response := placeAt(content), placeAt(content[16:])
	switch {
	case request.size == 0 || request.size > maxRequest:
		return nil, syscall.EMSGSIZE
	case response.size == 0:
		return nil, syscall.EINVAL
	case len(content) == messageLen:
		response.size = min(response.size, maxResponse)
		return again([]place{argument, request}, []place{argument, response}), 0
	case len(content) != messageLen+int(request.size):
		return nil, syscall.EINVAL
	}
	buffer := make([]byte, min(response.size, maxResponse))
	n, err := exchange(content[messageLen:], buffer)
	if err != nil || n < 0 || n > len(buffer) {
		return nil, syscall.EIO
	}
	out := make([]byte, 16, 16+messageLen+n) // the result is 0
	out = append(out, content[:messageLen]...)
	le.PutUint64(out[16+24:], uint64(n)) // the response's length, in the caller's argument
	return append(out, buffer[:n]...), 0
}
