package log

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/secret"
)

// seedOf is the derivation input that keeps the keys of different logs apart: the origin without its name, which a
// later manifest may change.
func seedOf(o tlog.Origin) string {
	return fmt.Sprintf("%x/%d/%d", o.Deployment, o.Range, o.Generation)
}

// Keys are the keys of one log: for checkpoints, headers and hidden tips. They stay in memory for the
// whole boot, in closures, which nothing prints: their use needs no erasing of memory.
type Keys struct {
	name string    // name in the origin
	key  *tlog.Key // public key of checkpoints
	sign func(message []byte) []byte
	mac  func(b []byte) [32]byte // MAC of a header
	salt func(b []byte) [32]byte // salt that hides a tip
	// of derives the keys of another generation, or for another name.
	of func(name string, generation uint32) (*Keys, error)
}

// NewKeys derives the keys of a log from the keyring's secret for logs.
func NewKeys(keyring secret.Secret, o tlog.Origin) (*Keys, error) {
	k := &Keys{name: o.Name, of: func(name string, generation uint32) (*Keys, error) {
		other := o
		other.Name, other.Generation = name, generation
		return NewKeys(keyring, other)
	}}
	var err error
	keyring.Use(func(b []byte) {
		derive := func(purpose string) (key []byte) {
			if err == nil {
				key, err = hkdf.Key(sha256.New, b, nil, "cloister log 1 "+purpose+" "+seedOf(o), 32)
			}
			return key
		}
		seed, mac, salt := derive("sign"), derive("mac"), derive("salt")
		if err != nil {
			return
		}
		private := ed25519.NewKeyFromSeed(seed)
		k.sign = func(message []byte) []byte { return ed25519.Sign(private, message) }
		k.mac, k.salt = hmacOf(mac), hmacOf(salt)
		k.key, err = tlog.NewKey(o.String(), tlog.TypeLog, private.Public().(ed25519.PublicKey))
	})
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return k, nil
}

// hmacOf returns HMAC-SHA-256 under a key, safe for concurrent use. It reuses one state, which costs a fourth of a new one.
func hmacOf(key []byte) func([]byte) [32]byte {
	var mu sync.Mutex
	h := hmac.New(sha256.New, key)
	return func(b []byte) (sum [32]byte) {
		mu.Lock()
		defer mu.Unlock()
		h.Reset()
		h.Write(b)
		h.Sum(sum[:0])
		return sum
	}
}

// Of derives the keys of another generation of the range's log, or of the same one under another name. The secret that
// NewKeys was given must not be wiped yet.
func (k *Keys) Of(name string, generation uint32) (*Keys, error) { return k.of(name, generation) }

// Key returns the public key that verifies the log's checkpoints. Its name is the origin.
func (k *Keys) Key() *tlog.Key { return k.key }

// Checkpoint returns a signed note of the log's head. Call it for stored leaves only: after two
// inconsistent checkpoints no witness cosigns the log any more.
func (k *Keys) Checkpoint(size uint64, root [32]byte) []byte {
	c := tlog.Checkpoint{Origin: k.key.Name(), Size: size, Root: root}
	text := c.Text()
	signature := append(binary.BigEndian.AppendUint32(nil, k.key.KeyHash()), k.sign([]byte(text))...)
	return []byte(tlog.Note(text, []note.Signature{{Name: k.key.Name(), Hash: k.key.KeyHash(), Base64: base64.StdEncoding.EncodeToString(signature)}}))
}

// MAC returns the MAC of a header. By it a boot believes headers that no checkpoint
// covers yet.
func (k *Keys) MAC(header []byte) [32]byte { return k.mac(header) }

// Authentic reports whether mac is the header's: only an enclave with these keys can have made it.
func (k *Keys) Authentic(header []byte, mac [32]byte) bool {
	want := k.mac(header)
	return hmac.Equal(want[:], mac[:])
}

// Format writes the type's name under every verb.
func (*Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "log.Keys") }

// LogValue returns the type's name.
func (*Keys) LogValue() slog.Value { return slog.StringValue("log.Keys") }
