// Package nsm speaks to the Nitro Security Module, /dev/nsm.
//
// Requests and answers are CBOR in the form of the module's own library: a
// request without fields is a text string, any other a map with one entry. They
// travel by one ioctl. The module is trusted; its answers are bounded and
// decoded strictly all the same, since a wrong one would be a fault to be seen.
package nsm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/fxamacker/cbor/v2"
)

const (
	path        = "/dev/nsm"
	maxRequest  = 0x1000
	maxResponse = 0x3000
	// request is _IOWR(0x0A, 0, struct of two iovecs, 32 bytes).
	request = 3<<30 | 32<<16 | 0x0A<<8
	// maxRandom is what one GetRandom gives.
	maxRandom = 256
)

// Device is the module. It is safe for concurrent use.
type Device struct {
	f *os.File

	mu sync.Mutex
	// The module's clock at some moment, and the monotonic reading of then:
	// the time of day comes from the module and never from the parent.
	at   time.Time
	from time.Time
	mono func() time.Time
}

// Open opens the device and reads its clock. mono gives readings of a monotonic
// clock; only their differences are used.
func Open(mono func() time.Time) (*Device, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the security module: %w", err)
	}
	d := &Device{f: f, mono: mono}
	doc, err := d.Attest(nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the module's clock: %w", err)
	}
	if d.at, err = timestamp(doc); err != nil {
		return nil, err
	}
	d.from = mono()
	return d, nil
}

// Now is the module's time, run forward by the monotonic clock.
func (d *Device) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at.Add(d.mono().Sub(d.from))
}

// timestamp takes the time out of an attestation document of our own module.
func timestamp(doc []byte) (time.Time, error) {
	var cose []cbor.RawMessage
	if err := cbor.Unmarshal(doc, &cose); err != nil || len(cose) != 4 {
		return time.Time{}, errors.New("security module gave no document")
	}
	var payload []byte
	var fields struct {
		Timestamp uint64 `cbor:"timestamp"`
	}
	if cbor.Unmarshal(cose[2], &payload) != nil || cbor.Unmarshal(payload, &fields) != nil || fields.Timestamp == 0 {
		return time.Time{}, errors.New("security module gave no time")
	}
	return time.UnixMilli(int64(fields.Timestamp)), nil
}

// iovec and message are the ioctl's argument as the kernel lays it out.
type iovec struct {
	base *byte
	len  uint64
}

type message struct{ request, response iovec }

// exchange sends one request and returns the one member of the answer's map.
func (d *Device) exchange(name string, fields any) (cbor.RawMessage, error) {
	var ask any = name
	if fields != nil {
		ask = map[string]any{name: fields}
	}
	req, err := cbor.Marshal(ask)
	if err != nil || len(req) > maxRequest {
		return nil, fmt.Errorf("asking the security module: request of %d bytes", len(req))
	}
	resp := make([]byte, maxResponse)
	m := message{iovec{&req[0], uint64(len(req))}, iovec{&resp[0], uint64(len(resp))}}
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.f.Fd(), request, uintptr(unsafe.Pointer(&m)))
	runtime.KeepAlive(req)
	if errno != 0 {
		return nil, fmt.Errorf("asking the security module: %w", errno)
	}
	if m.response.len > maxResponse {
		return nil, errors.New("security module answered too much")
	}
	return answer(resp[:m.response.len], name)
}

// answer reads what the module said to a request called name.
func answer(resp []byte, name string) (cbor.RawMessage, error) {
	var text string
	if cbor.Unmarshal(resp, &text) == nil { // an answer without fields
		if text != name {
			return nil, errors.New("security module answered something else")
		}
		return nil, nil
	}
	var all map[string]cbor.RawMessage
	if err := cbor.Unmarshal(resp, &all); err != nil || len(all) != 1 {
		return nil, errors.New("security module answered nonsense")
	}
	if e, ok := all["Error"]; ok {
		if cbor.Unmarshal(e, &text) != nil {
			text = "unreadable error"
		}
		return nil, fmt.Errorf("security module: %s", text)
	}
	got, ok := all[name]
	if !ok {
		return nil, errors.New("security module answered something else")
	}
	return got, nil
}

// Attest returns an attestation document, an untagged COSE_Sign1.
func (d *Device) Attest(publicKey, userData, nonce []byte) ([]byte, error) {
	optional := func(b []byte) any {
		if b == nil {
			return nil
		}
		return b
	}
	got, err := d.exchange("Attestation", map[string]any{"user_data": optional(userData), "nonce": optional(nonce), "public_key": optional(publicKey)})
	if err != nil {
		return nil, err
	}
	var a struct {
		Document []byte `cbor:"document"`
	}
	if err := cbor.Unmarshal(got, &a); err != nil || len(a.Document) == 0 {
		return nil, errors.New("security module gave no document")
	}
	return a.Document, nil
}

// ExtendPCR extends a register and returns its new value.
func (d *Device) ExtendPCR(index int, data []byte) ([]byte, error) {
	got, err := d.exchange("ExtendPCR", map[string]any{"index": index, "data": data})
	if err != nil {
		return nil, err
	}
	var a struct {
		Data []byte `cbor:"data"`
	}
	if err := cbor.Unmarshal(got, &a); err != nil {
		return nil, errors.New("security module gave no register")
	}
	return a.Data, nil
}

// DescribePCR reads a register.
func (d *Device) DescribePCR(index int) (value []byte, locked bool, err error) {
	got, err := d.exchange("DescribePCR", map[string]any{"index": index})
	if err != nil {
		return nil, false, err
	}
	var a struct {
		Lock bool   `cbor:"lock"`
		Data []byte `cbor:"data"`
	}
	if err := cbor.Unmarshal(got, &a); err != nil {
		return nil, false, errors.New("security module gave no register")
	}
	return a.Data, a.Lock, nil
}

// LockPCRs locks the registers below upTo.
func (d *Device) LockPCRs(upTo int) error {
	_, err := d.exchange("LockPCRs", map[string]any{"range": upTo})
	return err
}

// Random fills p.
func (d *Device) Random(p []byte) error {
	for len(p) > 0 {
		got, err := d.exchange("GetRandom", nil)
		if err != nil {
			return err
		}
		var a struct {
			Random []byte `cbor:"random"`
		}
		if err := cbor.Unmarshal(got, &a); err != nil || len(a.Random) == 0 || len(a.Random) > maxRandom {
			return errors.New("security module gave no randomness")
		}
		n := copy(p, a.Random)
		p = p[n:]
	}
	return nil
}
