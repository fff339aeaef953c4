package tlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// An entry of an organization's ledger commits to its parts, so that each can be shown, and
// verified against the log, without the others and without any key. The commitment is the root of
// an RFC 6962 tree whose leaves are the parts in order, each as salt ‖ number of the part ‖ content.
// The salts prevent guessing of a part that is not shown.

// A Part is the number of a part of an entry. Numbers never change.
type Part uint8

// The parts.
const (
	PartFacts    Part = iota // Facts
	PartRequest              // the request, and its signers
	PartDecision             // the decision, and its reasons
	PartWrites               // the changes
	PartSends                // the sends that follow from it
	Parts                    // the number of parts
)

// MaxFacts is the longest encoding of facts in bytes.
const MaxFacts = 4 << 10

// SaltSize is the size of a part's salt in bytes.
const SaltSize = 16

// SeedSize is the size in bytes of the seed that the salts of one entry are derived from.
const SeedSize = 16

const saltLabel = "cloister entry salt 1 "

// Salt derives a part's salt from the entry's seed. A salt reveals nothing about those of other parts.
func Salt(seed [SeedSize]byte, part Part) [SaltSize]byte {
	var b [len(saltLabel) + SeedSize + 1]byte
	copy(b[copy(b[:], saltLabel):], seed[:])
	b[len(b)-1] = byte(part)
	sum := sha256.Sum256(b[:])
	return [SaltSize]byte(sum[:])
}

// HashPart is a part's leaf in the RFC 6962 tree of its entry's parts.
func HashPart(part Part, salt [SaltSize]byte, content []byte) [32]byte {
	h := sha256.New()
	var prefix [1 + SaltSize + 1]byte // the first byte is RFC 6962's for a leaf
	copy(prefix[1:], salt[:])
	prefix[len(prefix)-1] = byte(part)
	h.Write(prefix[:])
	h.Write(content)
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}

// Commitment is an entry's commitment to its parts: the root over their leaves.
func Commitment(parts *[Parts][32]byte) [32]byte {
	left := hashPair(hashPair(parts[0], parts[1]), hashPair(parts[2], parts[3]))
	return hashPair(left, parts[4])
}

// hashPair is the RFC 6962 hash of two nodes.
func hashPair(left, right [32]byte) [32]byte {
	b := [1 + 2*sha256.Size]byte{1}
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// PathOf is the inclusion proof of one part under the Commitment, from the leaf up.
func PathOf(parts *[Parts][32]byte, part Part) [][]byte {
	first, second := hashPair(parts[0], parts[1]), hashPair(parts[2], parts[3])
	if part == PartSends {
		all := hashPair(first, second)
		return [][]byte{all[:]}
	}
	beside := second
	if part >= PartDecision {
		beside = first
	}
	return [][]byte{bytes.Clone(parts[part^1][:]), beside[:], bytes.Clone(parts[PartSends][:])}
}

// HashEntry is an entry's leaf in its organization's tree: of its commitment and of the SHA-256 of
// its stored bytes, which hold the commitment too.
func HashEntry(commitment, sealed [32]byte) [32]byte {
	var b [2 * sha256.Size]byte
	copy(b[copy(b[:], commitment[:]):], sealed[:])
	return HashLeaf(b[:])
}

// Layout of a stored entry. It begins with the id of its key, 4 bytes big-endian, and the root of its
// organization's tree before it, 32 bytes: EntryPrefix bytes in all. In format 2 the bit EntryFormat2 is
// set in the id, and the commitment follows. Ids are less than that bit.
const (
	EntryFormat2 = 1 << 31
	EntryPrefix  = 4 + 32
)

// CommitmentOf returns the commitment in a stored entry; ok is false for entries of format 1, which have none.
func CommitmentOf(stored []byte) (commitment [32]byte, ok bool) {
	if len(stored) < EntryPrefix+len(commitment) || binary.BigEndian.Uint32(stored)&EntryFormat2 == 0 {
		return commitment, false
	}
	return [32]byte(stored[EntryPrefix:]), true
}

// HashStored is the leaf of a stored entry of either format: HashEntry, or HashLeaf of all of its
// bytes in format 1. Every entry of format 1 is longer than the 64 bytes that HashEntry hashes.
func HashStored(stored []byte) [32]byte {
	commitment, ok := CommitmentOf(stored)
	if !ok {
		return HashLeaf(stored)
	}
	return HashEntry(commitment, sha256.Sum256(stored))
}

// Facts are the part of an entry that describes a step of an activity without its contents.
//
// Its bytes are CBOR in the deterministic encoding of RFC 8949, section 4.2.1.
type Facts struct {
	Format       uint8    `cbor:"1,keyasint"` // 1
	Organization [16]byte `cbor:"2,keyasint"`
	Seq          uint64   `cbor:"3,keyasint"` // of the entry, from 0
	Activity     [16]byte `cbor:"4,keyasint"` // zero: the entry belongs to none
	Type         string   `cbor:"5,keyasint,omitempty"`
	Status       string   `cbor:"6,keyasint,omitempty"` // ACTIVITY_STATUS_… after this step
	Fingerprint  [32]byte `cbor:"7,keyasint"`           // SHA-256 of the request's body
	CreatedMs    uint64   `cbor:"8,keyasint"`           // when the activity's first step was decided, in milliseconds since 1970
	TimeMs       uint64   `cbor:"9,keyasint"`           // when this step was decided
	Boot         uint64   `cbor:"10,keyasint"`          // number of the boot that decided the step
	Mode         Mode     `cbor:"11,keyasint"`          // what the reply waited for at least
	// Prior is one more than the seq of the activity's previous step; 0: this is the first.
	Prior  uint64     `cbor:"12,keyasint,omitempty"`
	Result [32]byte   `cbor:"13,keyasint,omitzero"`  // SHA-256 of the result's JSON; zero: there is none
	Proofs [][32]byte `cbor:"14,keyasint,omitempty"` // SHA-256 of the payload of each app proof
}

// FactsFormat is the one format of facts.
const FactsFormat = 1

// Encode returns the facts' bytes, at most MaxFacts.
func (f *Facts) Encode() ([]byte, error) {
	var b bytes.Buffer
	err := f.AppendTo(&b)
	return b.Bytes(), err
}

// AppendTo appends the bytes of Encode to b.
func (f *Facts) AppendTo(b *bytes.Buffer) error {
	if f.Format != FactsFormat {
		return fmt.Errorf("tlog: facts of format %d", f.Format)
	}
	before := b.Len()
	err := factsEncoding.MarshalToBuffer(f, b)
	if err == nil && b.Len()-before > MaxFacts {
		err = errors.New("tlog: facts are too long")
	}
	return err
}

var factsEncoding = func() cbor.UserBufferEncMode {
	mode, err := cbor.CoreDetEncOptions().UserBufferEncMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

var factsDecoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 4, MaxArrayElements: 64, UTF8: cbor.UTF8RejectInvalid}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// ParseFacts reads facts in exactly the encoding of Encode.
func ParseFacts(b []byte) (*Facts, error) {
	if len(b) > MaxFacts {
		return nil, errors.New("tlog: facts are too long")
	}
	f := new(Facts)
	if err := factsDecoding.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("tlog: facts: %w", err)
	}
	if again, err := f.Encode(); err != nil || !bytes.Equal(again, b) {
		return nil, errors.Join(errors.New("tlog: facts are not in their one form"), err)
	}
	return f, nil
}
