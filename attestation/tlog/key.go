package tlog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Types of the signatures in a note that this package verifies. The formats also have
// type 0x06 (ML-DSA-44), which is still refused.
const (
	TypeLog         = 0x01 // Ed25519 over the note's text
	TypeCosignature = 0x04 // a time, and Ed25519 over it and the note's text
)

// maxKey is the longest text of a vkey in bytes: a name and the 1,312 bytes of an ML-DSA-44 key fit.
const maxKey = MaxName + 2 + 8 + (1313+2)/3*4

// A Key is the public key of one log or witness, which verifies its signatures. It
// implements Verifier of golang.org/x/mod/sumdb/note.
type Key struct {
	name   string
	kind   byte
	public ed25519.PublicKey
}

// NewKey makes the key of a log (TypeLog) or witness (TypeCosignature). See ValidName for the name.
func NewKey(name string, kind byte, public ed25519.PublicKey) (*Key, error) {
	if !ValidName(name) {
		return nil, fmt.Errorf("tlog: %.40q is no name", name)
	}
	if kind != TypeLog && kind != TypeCosignature {
		return nil, fmt.Errorf("tlog: no signatures of type 0x%02x are verified here", kind)
	}
	if len(public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("tlog: the public key of %s is not 32 bytes", name)
	}
	return &Key{name, kind, public}, nil
}

// ParseKey reads a vkey, NAME+ID+KEY: name, key id in 8 hex digits, and base64 of type and public
// key. A key id that is not the key's is refused.
func ParseKey(vkey string) (*Key, error) {
	if len(vkey) > maxKey {
		return nil, errors.New("tlog: a key is too long")
	}
	parts := strings.SplitN(vkey, "+", 3) // base64 may hold a + of its own
	if len(parts) != 3 {
		return nil, errors.New("tlog: a key is NAME+ID+KEY")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) < 1 {
		return nil, fmt.Errorf("tlog: the key of %.40q is no base64", parts[0])
	}
	k, err := NewKey(parts[0], raw[0], raw[1:])
	if err == nil && k.String() != vkey {
		err = fmt.Errorf("tlog: the key id of %s is not its key's", k.name)
	}
	return k, err
}

// String is the vkey, as ParseKey reads it.
func (k *Key) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.KeyHash(), base64.StdEncoding.EncodeToString(append([]byte{k.kind}, k.public...)))
}

// Name is the name of the log or witness.
func (k *Key) Name() string { return k.name }

// Type is TypeLog or TypeCosignature.
func (k *Key) Type() byte { return k.kind }

// KeyHash is the key id: the first 32 bits of the SHA-256 of name, line feed, type and public key.
func (k *Key) KeyHash() uint32 {
	h := sha256.Sum256(append([]byte(k.name+"\n"+string(rune(k.kind))), k.public...))
	return binary.BigEndian.Uint32(h[:])
}

// Verify reports whether a signature over a note's text is this key's. A cosignature begins with its time, 8 bytes.
func (k *Key) Verify(text, signature []byte) bool {
	if k.kind == TypeLog {
		return ed25519.Verify(k.public, text, signature)
	}
	if len(signature) != 8+ed25519.SignatureSize {
		return false
	}
	return ed25519.Verify(k.public, cosignedText(binary.BigEndian.Uint64(signature), text), signature[8:])
}

// Signed reports whether a note has a valid signature of this key, which is a log's. Other lines are ignored.
func (k *Key) Signed(signed []byte) bool {
	if k.kind != TypeLog || len(signed) > MaxNote {
		return false
	}
	n, err := note.Open(signed, note.VerifierList(k))
	return err == nil && len(n.Sigs) == 1
}

// cosignedText is the text that a cosignature of type 0x04 signs. The witness's name is not in it, so
// count keys and not names.
func cosignedText(seconds uint64, text []byte) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text)
}
