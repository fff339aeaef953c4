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

// seedOf is what a log's keys are made from, so that what is signed or authenticated for one log fits no
// other: its origin without the name, which it may get from a later manifest.
func seedOf(o tlog.Origin) string {
	return fmt.Sprintf("%x/%d/%d", o.Deployment, o.Range, o.Generation)
}

// Keys sign and authenticate one log. They lie in memory for the whole boot, behind
// functions that nothing prints, so that using them erases nothing.
type Keys struct {
	name string // begins the origin
	key  *tlog.Key
	sign func(message []byte) []byte
	mac  func(b []byte) [32]byte // of headers
	salt func(b []byte) [32]byte // what hides tips
	// of makes the keys of another generation of the range's log, or under another name.
	of func(name string, generation uint32) (*Keys, error)
}

// NewKeys makes the keys of a log from the keyring's secret for logs.
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

// hmacOf is HMAC-SHA-256 under a key. It keeps one state, which costs a fourth of a new one.
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

// Of makes the keys of another generation of the range's log, or of the same one under another name. The secret that these
// were made from must still be there.
func (k *Keys) Of(name string, generation uint32) (*Keys, error) { return k.of(name, generation) }

// Key is with what the log's checkpoints are verified. Its name is the origin.
func (k *Keys) Key() *tlog.Key { return k.key }

// Checkpoint signs the log's head. It must be called for stored leaves only: a log that
// signed two heads which do not fit is done for.
func (k *Keys) Checkpoint(size uint64, root [32]byte) []byte {
	c := tlog.Checkpoint{Origin: k.key.Name(), Size: size, Root: root}
	text := c.Text()
	signature := append(binary.BigEndian.AppendUint32(nil, k.key.KeyHash()), k.sign([]byte(text))...)
	return []byte(tlog.Note(text, []note.Signature{{Name: k.key.Name(), Hash: k.key.KeyHash(), Base64: base64.StdEncoding.EncodeToString(signature)}}))
}

// MAC authenticates a header. A starting enclave believes one that lies beyond the newest
// checkpoint by it.
func (k *Keys) MAC(header []byte) [32]byte { return k.mac(header) }

// Authentic tells whether an enclave of this log has made the header.
func (k *Keys) Authentic(header []byte, mac [32]byte) bool {
	want := k.mac(header)
	return hmac.Equal(want[:], mac[:])
}

// Format writes the type's name under every verb.
func (*Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "log.Keys") }

// LogValue is the type's name.
func (*Keys) LogValue() slog.Value { return slog.StringValue("log.Keys") }
