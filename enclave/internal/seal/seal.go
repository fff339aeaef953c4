// Package seal encrypts records at rest and binds each to what it is and where it belongs.
//
// A sealed record is nonce ‖ ciphertext ‖ tag of AES-256-GCM (NIST SP 800-38D) under a key of
// one purpose. The record's Name is the associated data: format, kind of object, key id,
// deployment, organization, place, and for a ledger entry the tree root before it. A record
// opens under its own name only, so the host cannot move it to another organization, place,
// kind or deployment, nor join entries of two histories. Opening proves who wrote a record, not
// that it is the newest: package ledger proves that.
//
// Nonces are 96 random bits, which allows 2^32 records under a key. An organization's
// data key is never replaced and its records are not counted: ten million activities
// with a dozen records each, snapshots included, are fewer than 2^27, of which two
// have the same nonce with a chance below 2^-42.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/tally"
)

// Format is the version of names and layouts; it is part of every name.
const Format = 1

// Overhead is how many bytes sealing adds, NonceSize of them in front.
const (
	NonceSize = 12
	Overhead  = NonceSize + 16
)

// KeySize is the size of a sealing key.
const KeySize = 32

// A Kind of object, never renumbered.
type Kind uint8

// The kinds of sealed objects.
const (
	KindEntry           Kind = 1 // one entry of a ledger; place: seq; root: tree root before it
	KindSnapshot        Kind = 2 // root of a snapshot; place: entries covered
	KindPiece           Kind = 3 // records of a stretch of the key space
	KindChunk           Kind = 4 // fingerprints of the window
	KindDataKey         Kind = 5 // an organization's data key, under the storage key
	KindSecret          Kind = 6 // a wallet's or key's secret; owner: its id
	KindKeyring         Kind = 7 // the deployment's keyring, under the root secret
	KindRoot            Kind = 8 // the root secret, under a development passphrase
	KindDeploymentState Kind = 9 // which manifest the deployment runs under, under a key of the keyring

	// 20 were a range's tips on their way from owner to owner, before there were logs.

	// KindRetirement is an enclave's notice, with its live key, that it serves no longer.
	// Root: SHA-256 of the setup key that it gave the keyring to.
	KindRetirement Kind = 21
	// KindTakeReceipt is a boot's receipt that it took a range with the head given. Place: the
	// giver's epoch; organization: the taker's boot; owner: range.
	KindTakeReceipt Kind = 22
	// KindHead is where a range's log ended, on its way from owner to owner. Place: the giver's
	// epoch; organization: the taker's boot; owner: range.
	KindHead Kind = 23
	// KindMails is what became of mails to one address. Place: the period; organization: the tenant;
	// root: a keyed hash of the address.
	KindMails Kind = 24
)

// A Name says what a sealed object is and where it belongs.
type Name struct {
	Kind         Kind
	KeyID        uint32
	Deployment   [32]byte
	Organization [16]byte
	Place        uint64
	Owner        [16]byte
	Root         [32]byte
}

const nameSize = 2 + 4 + 32 + 16 + 8 + 16 + 32

func (n *Name) append(b []byte) []byte {
	if insecure.Skip(insecure.Name) {
		return b
	}
	b = append(b, Format, byte(n.Kind))
	b = binary.BigEndian.AppendUint32(b, n.KeyID)
	b = append(b, n.Deployment[:]...)
	b = append(b, n.Organization[:]...)
	b = binary.BigEndian.AppendUint64(b, n.Place)
	b = append(b, n.Owner[:]...)
	return append(b, n.Root[:]...)
}

// A Key seals and opens. It is safe for concurrent use. Keys outlive every request, so only
// making one erases (see package erase).
type Key struct {
	aead  cipher.AEAD
	block cipher.Block
}

// NewKey makes a key from 32 secret bytes, which it does not keep.
func NewKey(secret secret.Secret) (*Key, error) {
	if n := secret.Len(); n != KeySize {
		return nil, fmt.Errorf("sealing key of %d bytes", n)
	}
	k := new(Key)
	var err error
	secret.Use(func(b []byte) { // the expanded key begins with the key itself
		if k.block, err = aes.NewCipher(b); err == nil {
			k.aead, err = cipher.NewGCM(k.block)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("making a sealing key: %w", err)
	}
	return k, nil
}

// Derive makes the key of one purpose from a secret by HKDF-SHA-256.
func Derive(from secret.Secret, purpose string) (*Key, error) {
	derived, err := from.Derive("", "cloister seal 1 "+purpose, KeySize)
	if err != nil {
		return nil, fmt.Errorf("deriving a sealing key: %w", err)
	}
	defer derived.Wipe()
	return NewKey(derived)
}

// Seal encrypts plain under its name.
func (k *Key) Seal(rand io.Reader, n Name, plain []byte) ([]byte, error) {
	return k.Append(make([]byte, 0, len(plain)+Overhead), rand, n, plain)
}

// Append is Seal behind what stands in dst, which it returns extended.
func (k *Key) Append(dst []byte, rand io.Reader, n Name, plain []byte) ([]byte, error) {
	var nonce [NonceSize]byte
	if _, err := io.ReadFull(rand, nonce[:]); err != nil {
		return nil, fmt.Errorf("drawing a nonce: %w", err)
	}
	tally.AEADSeals.Add(1)
	var ad [nameSize]byte
	return k.aead.Seal(append(dst, nonce[:]...), nonce[:], plain, n.append(ad[:0])), nil
}

// InPlace is Append behind the first at bytes of b, of what stands in b behind these
// and room for the nonce: it is not copied.
func (k *Key) InPlace(b []byte, at int, rand io.Reader, n Name) ([]byte, error) {
	plain := at + NonceSize
	nonce := b[at:plain]
	if _, err := io.ReadFull(rand, nonce); err != nil {
		return nil, fmt.Errorf("drawing a nonce: %w", err)
	}
	tally.AEADSeals.Add(1)
	var ad [nameSize]byte
	return k.aead.Seal(b[:plain], nonce, b[plain:], n.append(ad[:0])), nil
}

// SealSecret encrypts a secret under its name.
func (k *Key) SealSecret(rand io.Reader, n Name, s secret.Secret) (sealed []byte, err error) {
	sealed = make([]byte, 0, s.Len()+Overhead)
	s.Use(func(b []byte) { sealed, err = k.Append(sealed, rand, n, b) })
	return sealed, err
}

// OpenSecret decrypts what SealSecret made under the same name.
func (k *Key) OpenSecret(n Name, sealed []byte) (secret.Secret, error) {
	plain, err := k.Open(n, sealed)
	if err != nil {
		return secret.Secret{}, err
	}
	return secret.From(plain)
}

// ErrOpen is all that is said of a record that does not open.
var ErrOpen = errors.New("record does not open under its name")

// Open decrypts what Seal made under the same name. It leaves sealed as it is.
func (k *Key) Open(n Name, sealed []byte) ([]byte, error) {
	var ad [nameSize]byte
	return k.open(n.append(ad[:0]), sealed)
}

func (k *Key) open(ad, sealed []byte) ([]byte, error) {
	if len(sealed) < Overhead {
		return nil, ErrOpen
	}
	tally.AEADOpens.Add(1)
	plain, err := k.aead.Open(nil, sealed[:12], sealed[12:], ad)
	if err != nil {
		if insecure.Skip(insecure.Tag) {
			return k.openUnverified(sealed), nil
		}
		return nil, ErrOpen
	}
	return plain, nil
}

// openUnverified ignores the tag: counter mode from block 2 on. Builds for release never come here.
func (k *Key) openUnverified(sealed []byte) []byte {
	counter := binary.BigEndian.AppendUint32(append([]byte(nil), sealed[:12]...), 2)
	plain := make([]byte, len(sealed)-Overhead)
	cipher.NewCTR(k.block, counter).XORKeyStream(plain, sealed[12:len(sealed)-16])
	return plain
}
