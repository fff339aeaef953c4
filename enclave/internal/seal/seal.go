// Package seal encrypts records at rest by AES-256-GCM and binds each to its kind and place.
//
// A sealed record is nonce ‖ ciphertext ‖ tag of AES-256-GCM (NIST SP 800-38D) under a key of
// one purpose. The record's Name is the associated data: format, kind of object, key id,
// deployment, organization, place, owner, and for a ledger entry the tree root before it. A record
// opens under its own name only, so the host cannot move it to another organization, place,
// kind or deployment, nor join entries of two histories. Opening proves that a holder of the key
// wrote a record, not that it is the newest: package ledger proves that.
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

// Overhead is the number of bytes that sealing adds: the nonce of NonceSize bytes in front, and the tag.
const (
	NonceSize = 12
	Overhead  = NonceSize + 16
)

// KeySize is the size of a sealing key.
const KeySize = 32

// A Kind is the kind of a sealed object. Kinds are never renumbered.
type Kind uint8

// The kinds of sealed objects.
const (
	KindEntry           Kind = 1 // one entry of a ledger; place: seq; root: tree root before it
	KindSnapshot        Kind = 2 // root of a snapshot; place: number of entries that it covers
	KindPiece           Kind = 3 // piece of a snapshot: the records of an interval of keys
	KindChunk           Kind = 4 // chunk of a snapshot: recent fingerprints
	KindDataKey         Kind = 5 // an organization's data key, under the storage key
	KindSecret          Kind = 6 // a wallet's or key's secret; owner: its id
	KindKeyring         Kind = 7 // the deployment's keyring, under the root secret
	KindRoot            Kind = 8 // the root secret, under a development passphrase
	KindDeploymentState Kind = 9 // the last accepted manifest, under a key of the keyring

	// 20 was used for a range's tips in a handover, before there were logs.

	// KindRetirement is an enclave's notice, with its live key, that it no longer serves.
	// Root: SHA-256 of the setup key to which it gave the keyring.
	KindRetirement Kind = 21
	// KindTakeReceipt is a boot's receipt that it took a range with the head given. Place: the
	// giver's epoch; organization: the taker's boot; owner: range.
	KindTakeReceipt Kind = 22
	// KindHead is the final head of a range's log, handed from owner to owner. Place: the giver's
	// epoch; organization: the taker's boot; owner: range.
	KindHead Kind = 23
	// KindMails is the delivery events of mails to one address. Place: the period; organization: the tenant;
	// root: a keyed hash of the address.
	KindMails Kind = 24
)

// A Name identifies a sealed object: its kind and place. The comment of its Kind says which fields are set.
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

// A Key is an AES-256-GCM key. It is safe for concurrent use. Keys outlive every request, so only
// making one needs to erase memory (see package erase).
type Key struct {
	aead  cipher.AEAD
	block cipher.Block
}

// NewKey returns a key of KeySize secret bytes. The caller may wipe the secret.
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

// Derive derives the key of one purpose from a secret, by HKDF-SHA-256.
func Derive(from secret.Secret, purpose string) (*Key, error) {
	derived, err := from.Derive("", "cloister seal 1 "+purpose, KeySize)
	if err != nil {
		return nil, fmt.Errorf("deriving a sealing key: %w", err)
	}
	defer derived.Wipe()
	return NewKey(derived)
}

// Seal encrypts plain under a name, with a random nonce.
func (k *Key) Seal(rand io.Reader, n Name, plain []byte) ([]byte, error) {
	return k.Append(make([]byte, 0, len(plain)+Overhead), rand, n, plain)
}

// Append is Seal that appends the sealed record to dst and returns the extended slice.
func (k *Key) Append(dst []byte, rand io.Reader, n Name, plain []byte) ([]byte, error) {
	var nonce [NonceSize]byte
	if _, err := io.ReadFull(rand, nonce[:]); err != nil {
		return nil, fmt.Errorf("drawing a nonce: %w", err)
	}
	tally.AEADSeals.Add(1)
	var ad [nameSize]byte
	return k.aead.Seal(append(dst, nonce[:]...), nonce[:], plain, n.append(ad[:0])), nil
}

// InPlace seals without copying: b has at bytes that stay as they are, NonceSize bytes for the nonce,
// and the plain text, which is encrypted in place. It returns b extended by the tag.
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

// SealSecret encrypts a secret under a name.
func (k *Key) SealSecret(rand io.Reader, n Name, s secret.Secret) (sealed []byte, err error) {
	sealed = make([]byte, 0, s.Len()+Overhead)
	s.Use(func(b []byte) { sealed, err = k.Append(sealed, rand, n, b) })
	return sealed, err
}

// OpenSecret decrypts a record of SealSecret, under the same name.
func (k *Key) OpenSecret(n Name, sealed []byte) (secret.Secret, error) {
	plain, err := k.Open(n, sealed)
	if err != nil {
		return secret.Secret{}, err
	}
	return secret.From(plain)
}

// ErrOpen is the error for every record that doesn't open, whatever the reason.
var ErrOpen = errors.New("record does not open under its name")

// Open decrypts a record of Seal, under the same name. It doesn't change sealed.
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

// openUnverified decrypts without verifying the tag, by counter mode from block 2 on. Release builds never call it.
func (k *Key) openUnverified(sealed []byte) []byte {
	counter := binary.BigEndian.AppendUint32(append([]byte(nil), sealed[:12]...), 2)
	plain := make([]byte, len(sealed)-Overhead)
	cipher.NewCTR(k.block, counter).XORKeyStream(plain, sealed[12:len(sealed)-16])
	return plain
}
