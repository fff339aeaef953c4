// Package backup writes a store's whole content to a folder or an S3 bucket, and reads it back. It
// refuses backups that are damaged, truncated, of another deployment or of a later release.
//
// A backup is a few objects under one name:
//
//	header           what it is, as text and CBOR
//	chunk-00000000   rows of store.Archive, at most 8 MiB in each
//	…
//	index            the header again, size and SHA-256 of each chunk, and the
//	                 SHA-256 over all; written last: without it there is no backup
//
// Everything in it is ciphertext, or visible to the host anyway: ids, types, status and times of
// activities, keyed hashes, attempts of sends. A stolen backup reveals as much as the host's disk,
// and no key. Hashes detect damage, not forgery: the host can write any backup, and is not trusted.
// The enclave checks each entry against its organization's tree and opens only what it sealed.
// Nothing proves that a backup is the newest: a restored store is an old state.
package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Format is the number of the format that Write writes. Earlier formats can be read.
const Format = 1

// Limits of a backup. They are part of the format.
const (
	MaxChunk   = 8 << 20          // bytes of one chunk
	MaxChunks  = wire.MaxElements // of one backup: 512 GiB
	MaxRow     = 7<<20 + 1<<16    // bytes of one row
	MaxHeader  = 4 << 10
	MaxIndex   = 4 << 20
	maxRelease = 64
)

// Errors that callers distinguish.
var (
	// ErrDamaged is the error of a backup with missing or changed bytes.
	ErrDamaged = errors.New("backup: damaged")
	// ErrForeign is the error of a backup of another deployment.
	ErrForeign = errors.New("backup: of another deployment")
	// ErrLater is the error of a backup that a later release has written.
	ErrLater = errors.New("backup: written by a later release than this")
)

func damage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// A Header identifies a backup.
type Header struct {
	Release    string    `cbor:"1,keyasint"` // release that wrote it, for people
	Schema     uint64    `cbor:"2,keyasint"` // store.Archive.Schema of that release
	Deployment wire.Hash `cbor:"3,keyasint"` // SHA-256 of the genesis record
	CreatedMs  uint64    `cbor:"4,keyasint"` // Unix milliseconds, the host's clock
}

// A Chunk is the record of one chunk in an Index.
type Chunk struct {
	Size   uint32    `cbor:"1,keyasint"`
	SHA256 wire.Hash `cbor:"2,keyasint"`
}

// An Index lists the chunks of a backup.
type Index struct {
	Header Header    `cbor:"1,keyasint"`
	Chunks []Chunk   `cbor:"2,keyasint"`
	Rows   uint64    `cbor:"3,keyasint"`
	Total  wire.Hash `cbor:"4,keyasint"` // SHA-256 over header and chunks, as objects, in order
}

// First lines of the objects header and index, before their CBOR. A later format changes the number in
// the line, and may change everything after it.
const (
	markHeader = "cloister backup "
	markIndex  = "cloister backup index "
)

// EncodeHeader encodes the object "header".
func EncodeHeader(h *Header) ([]byte, error) { return encode(markHeader, h) }

// EncodeIndex encodes the object "index".
func EncodeIndex(x *Index) ([]byte, error) { return encode(markIndex, x) }

func encode(mark string, v any) ([]byte, error) {
	b, err := wire.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "%s%d\n", mark, Format), b...), nil
}

// ParseHeader parses the object "header". Errors are ErrDamaged or ErrLater.
func ParseHeader(b []byte) (*Header, error) {
	h := new(Header)
	if err := decode(b, MaxHeader, markHeader, h); err != nil {
		return nil, err
	}
	return h, h.check()
}

// ParseIndex parses the object "index". Errors are ErrDamaged or ErrLater.
func ParseIndex(b []byte) (*Index, error) {
	x := new(Index)
	if err := decode(b, MaxIndex, markIndex, x); err != nil {
		return nil, err
	}
	if len(x.Chunks) > MaxChunks {
		return nil, damage("%d chunks", len(x.Chunks))
	}
	for i := range x.Chunks {
		if x.Chunks[i].Size == 0 || x.Chunks[i].Size > MaxChunk {
			return nil, damage("chunk %d of %d bytes", i, x.Chunks[i].Size)
		}
	}
	return x, x.Header.check()
}

func (h *Header) check() error {
	unprintable := func(r rune) bool { return r < 0x20 || r > 0x7e }
	if h.Release == "" || len(h.Release) > maxRelease || strings.ContainsFunc(h.Release, unprintable) || h.Schema == 0 || h.CreatedMs > store.MaxTime {
		return damage("header makes no sense")
	}
	return nil
}

func decode(b []byte, most int, mark string, v any) error {
	if len(b) > most {
		return damage("%d bytes where at most %d are", len(b), most)
	}
	rest, ok := bytes.CutPrefix(b, []byte(mark))
	line, body, found := bytes.Cut(rest, []byte("\n"))
	if !ok || !found || len(line) > 9 {
		return damage("no backup")
	}
	n, err := strconv.ParseUint(string(line), 10, 32)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != string(line) {
		return damage("no backup")
	}
	if n > Format {
		return fmt.Errorf("%w: format %d", ErrLater, n)
	}
	if err := wire.Unmarshal(body, v); err != nil {
		return damage("%v", err)
	}
	return nil
}

func chunkName(i int) string { return fmt.Sprintf("chunk-%08d", i) }

// AppendRow appends a row in the format of a chunk: the length of the rest in four bytes,
// big-endian, the kind in one, and the row in CBOR.
func AppendRow(b []byte, r store.Row) ([]byte, error) {
	body, err := wire.Marshal(r)
	if err != nil {
		return nil, err
	}
	n := len(body) + 1
	if n > MaxRow {
		return nil, fmt.Errorf("row of %d bytes", n)
	}
	return append(append(binary.BigEndian.AppendUint32(b, uint32(n)), byte(r.Kind())), body...), nil
}

// CutRow decodes the first row of a chunk, checks it with store.CheckRow, and returns the rest of the
// chunk. Errors are ErrDamaged.
func CutRow(b []byte) (store.Row, []byte, error) {
	if len(b) < 5 {
		return nil, nil, damage("a row is cut")
	}
	n := int(binary.BigEndian.Uint32(b))
	if n < 2 || n > MaxRow || n > len(b)-4 {
		return nil, nil, damage("a row of %d bytes, %d are left", n, len(b)-4)
	}
	r := store.NewRow(store.RowKind(b[4]))
	if r == nil {
		return nil, nil, damage("a row of kind %d", b[4])
	}
	if err := wire.Unmarshal(b[5:4+n], r); err != nil {
		return nil, nil, damage("%v", err)
	}
	if err := store.CheckRow(r); err != nil {
		return nil, nil, damage("%v", err)
	}
	return r, b[4+n:], nil
}
