// Package nsm is a Nitro security module made of software, for machines that have none. It
// behaves as /dev/nsm: 32 registers that are extended and locked, attestation documents in the
// exact format, randomness and a clock.
//
// Its documents lead to a throw-away root of its own, which nobody believes who was not told to.
// It has the device's answers and none of its security: whoever runs the process can make it
// attest anything. The production enclave cannot link it.
package nsm

import (
	"cmp"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// The module's limits, in bytes.
const (
	MaxPublicKey = 1024
	MaxUserData  = 512
	MaxNonce     = 512
	MaxExtension = 512
)

const (
	pcrCount    = 32
	bootLocked  = 16 // registers 0 to 15 are locked when an enclave starts
	maxModuleID = 255
)

// The errors of the module, named as in its protocol.
var (
	ErrInvalidIndex    = errors.New("InvalidIndex")
	ErrReadOnlyIndex   = errors.New("ReadOnlyIndex")
	ErrInputTooLarge   = errors.New("InputTooLarge")
	ErrInvalidArgument = errors.New("InvalidArgument")
)

// Config is what a Device is made from. All fields but ModuleID are needed.
type Config struct {
	Root     *Root            // signs its chain
	Now      func() time.Time // its clock
	Rand     io.Reader        // its randomness; keys and serial numbers too
	PCRs     [3][48]byte      // measurements of the image; zero is debug mode
	ModuleID string           // i-…-enc…; empty for a fixed one
	PCR3     [48]byte         // of the parent instance's role; zero: it has none
}

// A Device is a security module. It may be used by many goroutines.
type Device struct {
	now      func() time.Time
	moduleID string
	root     *Root

	mu     sync.Mutex
	rand   io.Reader
	pcrs   [pcrCount][48]byte
	locked [pcrCount]bool
	chain  []link // region, zone, instance, leaf
}

// New gives a device as an enclave finds it at start: registers 0 to 15 locked, the others zero and open.
func New(cfg Config) (*Device, error) {
	if cfg.Root == nil || cfg.Now == nil || cfg.Rand == nil {
		return nil, errors.New("making a security module: root, clock or randomness is missing")
	}
	cfg.ModuleID = cmp.Or(cfg.ModuleID, "i-cloister-sim-enc0000000000000000")
	if len(cfg.ModuleID) > maxModuleID {
		return nil, errors.New("making a security module: module id is too long")
	}
	d := &Device{now: cfg.Now, moduleID: cfg.ModuleID, root: cfg.Root, rand: cfg.Rand}
	copy(d.pcrs[:], cfg.PCRs[:])
	d.pcrs[3] = cfg.PCR3
	for i := range bootLocked {
		d.locked[i] = true
	}
	return d, nil
}

// Attest signs a document over the locked registers and the three fields; nil or
// empty is written as null. The document is untagged COSE_Sign1.
func (d *Device) Attest(publicKey, userData, nonce []byte) ([]byte, error) {
	if len(publicKey) > MaxPublicKey || len(userData) > MaxUserData || len(nonce) > MaxNonce {
		return nil, ErrInputTooLarge
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if err := d.renew(now); err != nil {
		return nil, fmt.Errorf("renewing the certificate chain: %w", err)
	}
	doc, err := d.document(now, publicKey, userData, nonce)
	if err != nil {
		return nil, fmt.Errorf("signing the document: %w", err)
	}
	return doc, nil
}

// ExtendPCR sets a register to SHA-384(old ‖ data) and gives its new value.
func (d *Device) ExtendPCR(index int, data []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case index < 0 || index >= pcrCount:
		return nil, ErrInvalidIndex
	case d.locked[index]:
		return nil, ErrReadOnlyIndex
	case len(data) == 0:
		return nil, ErrInvalidArgument
	case len(data) > MaxExtension:
		return nil, ErrInputTooLarge
	}
	d.pcrs[index] = sha512.Sum384(append(d.pcrs[index][:], data...))
	value := d.pcrs[index]
	return value[:], nil
}

// DescribePCR gives a register's value and whether it is locked.
func (d *Device) DescribePCR(index int) (value []byte, locked bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index < 0 || index >= pcrCount {
		return nil, false, ErrInvalidIndex
	}
	v := d.pcrs[index]
	return v[:], d.locked[index], nil
}

// LockPCR makes one register read-only until the enclave ends. Locking it again
// is refused with ErrReadOnlyIndex.
func (d *Device) LockPCR(index int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index < 0 || index >= pcrCount {
		return ErrInvalidIndex
	}
	if d.locked[index] {
		return ErrReadOnlyIndex
	}
	d.locked[index] = true
	return nil
}

// LockPCRs locks the registers below upTo, 0 to 32.
func (d *Device) LockPCRs(upTo int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if upTo < 0 || upTo > pcrCount {
		return ErrInvalidIndex
	}
	for i := range upTo {
		d.locked[i] = true
	}
	return nil
}

// Random fills p from the module's randomness.
func (d *Device) Random(p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := io.ReadFull(d.rand, p); err != nil {
		return fmt.Errorf("reading randomness: %w", err)
	}
	return nil
}

// Now is the module's clock.
func (d *Device) Now() time.Time { return d.now() }
