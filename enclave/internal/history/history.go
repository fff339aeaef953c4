// Package history is the form in which an organization's history leaves the enclave: all entries of its
// ledger, opened, with what leads from each of them to the log.
//
// A file is a line, and records behind it:
//
//	cloister history 1\n
//	kind (1 byte) ‖ length (4, big-endian) ‖ content, CBOR in the deterministic encoding of RFC 8949
//
// Entries come in order, from the first. A page record ends each page that the enclave has given; the last
// one says that no entry follows. Then, where there are witnesses, comes one logged record. Each content has
// one encoding, and whoever reads one holds it against that; what nothing else binds is in no record.
package history

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/org"
)

// Magic begins a file.
const Magic = "cloister history 1\n"

// A Kind is what a record is.
type Kind uint8

// The kinds, never renumbered.
const (
	KindEntry  Kind = 1 // Entry
	KindOld    Kind = 2 // Old
	KindPage   Kind = 3 // Proof, of an attestation.HistoryPage
	KindLogged Kind = 4 // Logged
)

var kindNames = [...]string{"", "entry", "entry of format 1", "page", "logged proof"}

// String is the kind in a report.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// MaxContent bounds a record's content in bytes: an entry has at most half of it.
const MaxContent = 8 << 20

const recordHead = 1 + 4

// Entry is an entry of the second format: what it commits to, and the hash of its stored bytes, which is in
// its leaf beside the commitment.
type Entry struct {
	Seed   [tlog.SeedSize]byte `cbor:"1,keyasint"` // of the salts
	Stored [sha256.Size]byte   `cbor:"2,keyasint"`
	Parts  [][]byte            `cbor:"3,keyasint"` // as org.Parts has them
}

// Old is an entry of the first format, which commits to nothing: that its leaf is of this plain text the
// page says that it is on.
type Old struct {
	Leaf  [sha256.Size]byte `cbor:"1,keyasint"`
	Plain []byte            `cbor:"2,keyasint"` // as org.DecodeEntry takes it
}

// Proof is an app proof.
type Proof struct {
	Key       []byte `cbor:"1,keyasint"` // the boot's 130-byte public key
	Payload   string `cbor:"2,keyasint"`
	Signature []byte `cbor:"3,keyasint"` // r ‖ s
}

// Logged shows the newest entry in the log, and whose log that is.
type Logged struct {
	Proof string `cbor:"1,keyasint"` // as tlog.ParseLoggedProof takes it
	Key   Proof  `cbor:"2,keyasint"` // of an attestation.LogKey
}

// A Record is one of a file: one of its members is set.
type Record struct {
	Entry  *Entry
	Old    *Old
	Page   *Proof
	Logged *Logged
}

// Kind is that of the member which is set, 0 for none.
func (r *Record) Kind() Kind {
	switch {
	case r.Entry != nil:
		return KindEntry
	case r.Old != nil:
		return KindOld
	case r.Page != nil:
		return KindPage
	case r.Logged != nil:
		return KindLogged
	}
	return 0
}

var (
	encoding = mode(cbor.CoreDetEncOptions().EncMode())
	decoding = mode(cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 4, MaxArrayElements: 16, UTF8: cbor.UTF8RejectInvalid}.DecMode())
)

func mode[M any](m M, err error) M {
	if err != nil {
		panic(err) // options are right or wrong for good
	}
	return m
}

// Append writes a record behind dst.
func Append(dst []byte, r *Record) ([]byte, error) {
	var content any
	switch r.Kind() {
	case KindEntry:
		if len(r.Entry.Parts) != int(tlog.Parts) {
			return nil, fmt.Errorf("history: an entry of %d parts", len(r.Entry.Parts))
		}
		content = r.Entry
	case KindOld:
		content = r.Old
	case KindPage:
		content = r.Page
	case KindLogged:
		content = r.Logged
	default:
		return nil, errors.New("history: a record of nothing")
	}
	b, err := encoding.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if len(b) > MaxContent {
		return nil, fmt.Errorf("history: a record of %d bytes, more than %d", len(b), MaxContent)
	}
	dst = binary.BigEndian.AppendUint32(append(dst, byte(r.Kind())), uint32(len(b)))
	return append(dst, b...), nil
}

// parse reads the content of a record.
func parse(kind Kind, content []byte) (*Record, error) {
	r := new(Record)
	var into any
	switch kind {
	case KindEntry:
		r.Entry = new(Entry)
		into = r.Entry
	case KindOld:
		r.Old = new(Old)
		into = r.Old
	case KindPage:
		r.Page = new(Proof)
		into = r.Page
	case KindLogged:
		r.Logged = new(Logged)
		into = r.Logged
	default:
		return nil, fmt.Errorf("history: a record of kind %d", kind)
	}
	if err := decoding.Unmarshal(content, into); err != nil {
		return nil, fmt.Errorf("history: %v: %w", kind, err)
	}
	again, err := Append(nil, r)
	if err == nil && !bytes.Equal(again[recordHead:], content) {
		err = fmt.Errorf("history: %v is not in its one form", kind)
	}
	return r, err
}

// Read calls visit with each record of a file, in order, until it fails.
func Read(file io.Reader, visit func(*Record) error) error {
	b := bufio.NewReader(file)
	line := make([]byte, len(Magic))
	if _, err := io.ReadFull(b, line); err != nil || string(line) != Magic {
		return errors.New("history: the file does not begin with " + Magic[:len(Magic)-1])
	}
	for {
		var head [recordHead]byte
		if _, err := io.ReadFull(b, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return errors.New("history: the file ends within a record")
		}
		size := binary.BigEndian.Uint32(head[1:])
		if size > MaxContent {
			return fmt.Errorf("history: a record of %d bytes, more than %d", size, MaxContent)
		}
		var content bytes.Buffer // grows with what is there
		if n, err := io.CopyN(&content, b, int64(size)); err != nil {
			return fmt.Errorf("history: the file ends within a record: %d of %d bytes", n, size)
		}
		r, err := parse(Kind(head[0]), content.Bytes())
		if err == nil {
			err = visit(r)
		}
		if err != nil {
			return err
		}
	}
}

// Open reads an entry, and computes its leaf in the organization's tree.
func (e *Entry) Open() (*org.Entry, org.Place, [sha256.Size]byte, error) {
	p := org.Parts{Seed: e.Seed, Content: [tlog.Parts][]byte(e.Parts)}
	entry, at, err := p.Decode()
	if err != nil {
		return nil, org.Place{}, [sha256.Size]byte{}, err
	}
	// The parts have one encoding.
	again, _, err := entry.Encode(nil, e.Seed, at)
	if err != nil {
		return nil, org.Place{}, [sha256.Size]byte{}, err
	}
	q, err := org.SplitParts(again)
	if err != nil {
		return nil, org.Place{}, [sha256.Size]byte{}, err
	}
	for part := range q.Content {
		if !bytes.Equal(q.Content[part], p.Content[part]) {
			return nil, org.Place{}, [sha256.Size]byte{}, fmt.Errorf("history: part %d of an entry is not in its one form", part)
		}
	}
	hashes := p.Hashes()
	return entry, at, tlog.HashEntry(tlog.Commitment(&hashes), e.Stored), nil
}

// A Digest is over the entries of format 1 on a page: SHA-256 of seq (8 bytes, big-endian), leaf and SHA-256
// of the plain text of each.
type Digest struct{ over []byte }

// Add takes in the next one.
func (d *Digest) Add(seq uint64, o *Old) {
	plain := sha256.Sum256(o.Plain)
	d.over = append(append(binary.BigEndian.AppendUint64(d.over, seq), o.Leaf[:]...), plain[:]...)
}

// Sum is the digest, and begins the next page's.
func (d *Digest) Sum() [sha256.Size]byte {
	sum := sha256.Sum256(d.over)
	d.over = nil
	return sum
}
