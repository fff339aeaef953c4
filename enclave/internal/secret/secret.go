// Package secret is private bytes as a type: who holds a Secret cannot print, compare or
// encode them. The bytes are handled inside erase.Do.
package secret

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
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
// fields, but not what a function has captured.
type Secret struct {
	Unencodable
	open func() *cell
}

// Unencodable, embedded in a struct, forbids == and encoders to it.
type Unencodable struct{ _ [0]func() }

// MaxSize bounds a Secret, in bytes: what an organization may have kept for it.
const MaxSize = 64 << 10

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

// From takes over b (1 to MaxSize bytes): it copies the bytes and wipes b, even when it refuses.
func From(b []byte) (Secret, error) {
	defer clear(b)
	s, c, err := newCell(len(b))
	if err != nil {
		return Secret{}, err
	}
	erase.Do(func() { copy(c.bytes, b) })
	return s, nil
}

// Make makes a secret of n bytes (1 to MaxSize), which fill writes inside erase.Do.
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

// newCell allocates inside erase.Do, so that the runtime erases a secret that is dropped
// without being wiped.
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

// Wipe overwrites the bytes once nobody uses them. Later uses find none. It may be called again.
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

// Clone is a secret of its own with the same bytes, empty if s is empty or wiped.
func (s Secret) Clone() (clone Secret) {
	s.Use(func(b []byte) {
		if len(b) > 0 {
			clone, _ = From(bytes.Clone(b)) // the size is that of a secret
		}
	})
	return clone
}

// Derive makes a secret of n bytes by HKDF-SHA-256.
func (s Secret) Derive(salt, info string, n int) (derived Secret, err error) {
	s.Use(func(b []byte) {
		var key []byte
		if key, err = hkdf.Key(sha256.New, b, []byte(salt), info, n); err == nil {
			derived, err = From(key)
		}
	})
	return derived, err
}

// Format writes the type's name under every verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "secret.Secret") }

// LogValue is the type's name.
func (Secret) LogValue() slog.Value { return slog.StringValue("secret.Secret") }

// MarshalJSON fails.
func (Unencodable) MarshalJSON() ([]byte, error) { return nil, ErrEncoding }

// MarshalText fails.
func (Unencodable) MarshalText() ([]byte, error) { return nil, ErrEncoding }

// MarshalBinary fails.
func (Unencodable) MarshalBinary() ([]byte, error) { return nil, ErrEncoding }

// MarshalCBOR fails.
func (Unencodable) MarshalCBOR() ([]byte, error) { return nil, ErrEncoding }

// GobEncode fails.
func (Unencodable) GobEncode() ([]byte, error) { return nil, ErrEncoding }
