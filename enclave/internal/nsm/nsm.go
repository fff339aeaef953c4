// Package nsm speaks to the Nitro Security Module, /dev/nsm.
//
// Requests and answers are CBOR in the form of the module's own library: a request
// without fields is a text string, any other a map with one entry. They travel by one
// ioctl. The module is trusted, but a wrong answer would be a fault to be seen. So its
// answers are bounded and decoded strictly: no duplicate or unknown keys, no tags,
// nothing behind the answer, every field of its type and size.
package nsm

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const path = "/dev/nsm"

// Sizes of the module's protocol, in bytes.
const (
	maxRequest   = 0x1000
	maxResponse  = 0x3000
	maxRandom    = 256 // of one GetRandom
	registerSize = 48  // SHA-384
)

// registers is how many there are.
const registers = 32

// An Exchange is one question to the module: it sends request, at most 4,096 bytes, puts
// the answer into response, 12,288 bytes, and tells how long that is.
type Exchange func(request, response []byte) (int, error)

// Device is the module. It is safe for concurrent use.
type Device struct {
	exchange Exchange
	mono     func() time.Time

	mu    sync.Mutex
	clock clock
	read  time.Time // the monotonic reading at which the module last told the time
}

// Open opens /dev/nsm and reads its clock. mono gives readings of a monotonic
// clock; only their differences are used. A device that is not there is an
// error that is fs.ErrNotExist.
func Open(mono func() time.Time) (*Device, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the security module: %w", err)
	}
	d, err := New(ioctl(f), mono)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return d, nil
}

// New is a Device whose questions go through exchange. It reads the module's
// clock.
func New(exchange Exchange, mono func() time.Time) (*Device, error) {
	d := &Device{exchange: exchange, mono: mono}
	at, err := d.time()
	if err != nil {
		return nil, fmt.Errorf("reading the module's clock: %w", err)
	}
	d.read = mono()
	d.clock = clock{at: at, from: d.read}
	return d, nil
}

// iovec and message are the ioctl's argument as the kernel lays it out.
type iovec struct {
	base *byte
	len  uint64
}

type message struct{ request, response iovec }

// number is _IOWR(0x0A, 0, struct of two iovecs, 32 bytes).
const number = 3<<30 | 32<<16 | 0x0A<<8

// ioctl is the Exchange of the open device.
func ioctl(f *os.File) Exchange {
	return func(request, response []byte) (int, error) {
		m := message{iovec{&request[0], uint64(len(request))}, iovec{&response[0], uint64(len(response))}}
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), number, uintptr(unsafe.Pointer(&m)))
		runtime.KeepAlive(request)
		runtime.KeepAlive(response)
		if errno != 0 {
			return 0, errno
		}
		if m.response.len > uint64(len(response)) {
			return 0, errAnswer
		}
		return int(m.response.len), nil
	}
}

// ask sends one request and reads the answer's fields into into, which is nil
// for an answer without.
func (d *Device) ask(name string, fields, into any) error {
	var ask any = name
	if fields != nil {
		ask = map[string]any{name: fields}
	}
	req, err := encode(ask)
	if err != nil {
		return fmt.Errorf("asking the security module: %w", err)
	}
	resp := make([]byte, maxResponse)
	defer clear(resp) // it may have been randomness
	n, err := d.exchange(req, resp)
	if err != nil {
		return fmt.Errorf("asking the security module: %w", err)
	}
	if n < 0 || n > len(resp) {
		return errAnswer
	}
	return answer(resp[:n], name, into)
}

// Attest returns an attestation document, an untagged COSE_Sign1 of at most 12
// KiB. A field that is nil is absent from it. The module takes public keys of
// 1,024 bytes and 512 bytes of the others.
func (d *Device) Attest(publicKey, userData, nonce []byte) ([]byte, error) {
	optional := func(b []byte) any {
		if b == nil {
			return nil
		}
		return b
	}
	var a struct {
		Document octets `cbor:"document"`
	}
	err := d.ask("Attestation", map[string]any{"user_data": optional(userData), "nonce": optional(nonce), "public_key": optional(publicKey)}, &a)
	if err != nil {
		return nil, err
	}
	if len(a.Document) == 0 {
		return nil, errDocument
	}
	return a.Document, nil
}

// ExtendPCR extends a register by data, 1 to 512 bytes, and returns its new
// value: SHA-384 of the old one and data.
func (d *Device) ExtendPCR(index int, data []byte) ([]byte, error) {
	var a struct {
		Data octets `cbor:"data"`
	}
	if err := d.ask("ExtendPCR", map[string]any{"index": index, "data": data}, &a); err != nil {
		return nil, err
	}
	if len(a.Data) != registerSize {
		return nil, errRegister
	}
	return a.Data, nil
}

// DescribePCR reads a register.
func (d *Device) DescribePCR(index int) (value []byte, locked bool, err error) {
	var a struct {
		Lock *bool  `cbor:"lock"`
		Data octets `cbor:"data"`
	}
	if err := d.ask("DescribePCR", map[string]any{"index": index}, &a); err != nil {
		return nil, false, err
	}
	if a.Lock == nil || len(a.Data) != registerSize {
		return nil, false, errRegister
	}
	return a.Data, *a.Lock, nil
}

// LockPCRs locks the registers below upTo, at most 32, until this enclave ends.
func (d *Device) LockPCRs(upTo int) error {
	return d.ask("LockPCRs", map[string]any{"range": upTo}, nil)
}

// Random fills p from the module.
func (d *Device) Random(p []byte) error {
	for len(p) > 0 {
		var a struct {
			Random octets `cbor:"random"`
		}
		if err := d.ask("GetRandom", nil, &a); err != nil {
			return err
		}
		if len(a.Random) == 0 || len(a.Random) > maxRandom {
			return errRandom
		}
		n := copy(p, a.Random)
		clear(a.Random)
		p = p[n:]
	}
	return nil
}
