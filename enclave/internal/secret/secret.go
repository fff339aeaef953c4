// Package secret is private bytes as a type: nothing that holds a Secret can print,
// compare or encode them, and no signature above shows them as a slice. The bytes are
// handled inside erase.Do.
package secret

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"cloister/enclave/internal/erase"
)

// A Secret is private bytes that cannot be printed, compared or encoded. Copies
// of a Secret share the bytes: wiping one wipes all. The zero value is an empty
// secret. It is safe for concurrent use.
//
// The bytes lie behind a closure: fmt and reflection-driven encoders reach
// fields, but not what a function has captured. The field of functions makes
// == a compile error.
type Secret struct {
	_    [0]func()
	open func() *cell
}

// MaxSize bounds a Secret, in bytes.
const MaxSize = 4096

type cell struct {
	mu    sync.RWMutex
	bytes []byte
}

// ErrEncoding is the answer to whoever would encode a Secret.
var ErrEncoding = errors.New("a secret has no encoding")

// New draws n bytes (1 to MaxSize) from rand.
func New(rand io.Reader, n int) (Secret, error) {
	return Make(n, func(b []byte) error {
		if _, err := io.ReadFull(rand, b); err != nil {
			return fmt.Errorf("drawing a secret: %w", err)
		}
		return nil
	})
}

// From takes over b (1 to MaxSize bytes): it copies the bytes and wipes
// b, also when it refuses.
func From(b []byte) (Secret, error) {
	defer clear(b)
	s, c, err := newCell(len(b))
	if err != nil {
		return Secret{}, err
	}
	erase.Do(func() { copy(c.bytes, b) })
	return s, nil
}

// Make makes a secret of n bytes (1 to MaxSize) that fill, which runs inside erase.Do,
// writes.
func Make(n int, fill func(b []byte) error) (Secret, error) {
	s, c, err := newCell(n)
	if err != nil {
		return Secret{}, err
	}
	erase.Do(func() { err = fill(c.bytes) })
	if err != nil {
		s.Wipe()
		return Secret{}, err
	}
	return s, nil
}

// newCell allocates inside erase.Do, so that the runtime erases a secret which was
// dropped without being wiped.
func newCell(n int) (Secret, *cell, error) {
	if n < 1 || n > MaxSize {
		return Secret{}, nil, errors.New("a secret of impossible size")
	}
	c := new(cell)
	erase.Do(func() { c.bytes = make([]byte, n) })
	return Secret{open: func() *cell { return c }}, c, nil
}

// Use calls f with the bytes, or with nil when there are none or they have been
// wiped. f must not keep, change or grow the slice, nor use or wipe the same
// Secret; what f allocates is erased once it is freed.
func (s Secret) Use(f func(b []byte)) {
	if s.open == nil {
		f(nil)
		return
	}
	c := s.open()
	c.mu.RLock()
	defer c.mu.RUnlock()
	erase.Do(func() { f(c.bytes) })
}

// Len is the number of bytes, zero after wiping.
func (s Secret) Len() (n int) {
	if s.open == nil {
		return 0
	}
	c := s.open()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.bytes)
}

// Wipe overwrites the bytes, waiting for those who use them. Later uses find
// none. It may be called again.
func (s Secret) Wipe() {
	if s.open == nil {
		return
	}
	c := s.open()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.bytes)
	c.bytes = nil
}

// Clone is a secret of its own with the same bytes, which wiping s leaves. Of an
// empty or wiped secret it is an empty one.
func (s Secret) Clone() Secret {
	var clone Secret
	s.Use(func(b []byte) {
		if len(b) == 0 {
			return
		}
		made, c, _ := newCell(len(b)) // the size is that of a secret
		copy(c.bytes, b)
		clone = made
	})
	return clone
}

// Format writes the type's name under every verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "secret.Secret") }

// LogValue is the type's name.
func (Secret) LogValue() slog.Value { return slog.StringValue("secret.Secret") }

// MarshalJSON fails.
func (Secret) MarshalJSON() ([]byte, error) { return nil, ErrEncoding }

// MarshalText fails.
func (Secret) MarshalText() ([]byte, error) { return nil, ErrEncoding }

// MarshalBinary fails.
func (Secret) MarshalBinary() ([]byte, error) { return nil, ErrEncoding }

// MarshalCBOR fails.
func (Secret) MarshalCBOR() ([]byte, error) { return nil, ErrEncoding }

// GobEncode fails.
func (Secret) GobEncode() ([]byte, error) { return nil, ErrEncoding }
