package keys

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
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

type cell struct {
	mu sync.RWMutex
	b  []byte
}

var errSecret = errors.New("a secret has no encoding")

// NewSecret draws n bytes (1 to MaxSecret) from rand.
func NewSecret(rand io.Reader, n int) (Secret, error) {
	s, c, err := newCell(n)
	if err != nil {
		return Secret{}, err
	}
	do(func() { _, err = io.ReadFull(rand, c.b) })
	if err != nil {
		s.Wipe()
		return Secret{}, fmt.Errorf("drawing a secret: %w", err)
	}
	return s, nil
}

// SecretFrom takes over b (1 to MaxSecret bytes): it copies the bytes and wipes
// b, also when it refuses.
func SecretFrom(b []byte) (Secret, error) {
	defer clear(b)
	s, c, err := newCell(len(b))
	if err != nil {
		return Secret{}, err
	}
	do(func() { copy(c.b, b) })
	return s, nil
}

// newCell allocates inside do, so that the runtime erases a secret which was
// dropped without being wiped.
func newCell(n int) (Secret, *cell, error) {
	if n < 1 || n > MaxSecret {
		return Secret{}, nil, errors.New("a secret of impossible size")
	}
	c := new(cell)
	do(func() { c.b = make([]byte, n) })
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
	do(func() { f(c.b) })
}

// Len is the number of bytes, zero after wiping.
func (s Secret) Len() (n int) {
	if s.open == nil {
		return 0
	}
	c := s.open()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.b)
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
	clear(c.b)
	c.b = nil
}

// SealedPlaintext gives a copy of the PRIVATE BYTES for one purpose: to become
// the plaintext of a sealed entry. Who calls it hands the slice to seal and
// clears it. It is nil for an empty or wiped secret.
func (s Secret) SealedPlaintext() []byte {
	var out []byte
	s.Use(func(b []byte) { out = append(out, b...) })
	return out
}

// Format writes the type's name under every verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "keys.Secret") }

// LogValue is the type's name.
func (Secret) LogValue() slog.Value { return slog.StringValue("keys.Secret") }

// MarshalJSON fails.
func (Secret) MarshalJSON() ([]byte, error) { return nil, errSecret }

// MarshalText fails.
func (Secret) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary fails.
func (Secret) MarshalBinary() ([]byte, error) { return nil, errSecret }

// MarshalCBOR fails.
func (Secret) MarshalCBOR() ([]byte, error) { return nil, errSecret }

// GobEncode fails.
func (Secret) GobEncode() ([]byte, error) { return nil, errSecret }
