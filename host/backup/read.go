package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Verify reads a whole backup and makes every check that needs no enclave: every hash, the limits
// and order of every row, that each organization's entries have no gap and lead to the root of their
// tree, that batches are numbered without a gap, and that the headers of each log are a chain whose
// leaves lead to the log's checkpoints, with signatures by what is trusted. deployment is the
// expected one, nil for any. Errors are ErrDamaged, ErrForeign, ErrLater or the folder's.
func Verify(ctx context.Context, from Folder, deployment *wire.Hash, schema uint64, by Trust) (*Summary, error) {
	r, err := open(ctx, from, deployment, schema)
	if err != nil {
		return nil, err
	}
	all := newLogs(r.sum.Header.Deployment, by)
	for {
		row, err := r.next()
		if err == io.EOF {
			r.sum.Logs = all.summaries()
			return r.sum, nil
		}
		if err != nil {
			return nil, err
		}
		if err := all.follow(row); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
}

// Check reads only header and index, and checks that they are of a backup that Restore would accept. Errors are those of Verify.
func Check(ctx context.Context, from Folder, deployment *wire.Hash, schema uint64) error {
	_, err := open(ctx, from, deployment, schema)
	return err
}

// Restore fills an empty store from a backup, in one transaction, and verifies while it reads. All
// ranges are released, under the epochs of the backup. Errors are those of Verify, store.ErrRefused
// if the store is not empty, and the store's.
func Restore(ctx context.Context, from Folder, to store.Store, deployment *wire.Hash) (*Summary, error) {
	r, err := open(ctx, from, deployment, to.Schema())
	if err != nil {
		return nil, err
	}
	// Import refuses any store that is not empty; this error says why.
	there, err := to.LoadObject(ctx, wire.LoadObject{Name: objectGenesis})
	if err != nil {
		return nil, err
	}
	if there.Found && sha256.Sum256(there.Bytes) != r.sum.Header.Deployment {
		return nil, fmt.Errorf("%w than the store", ErrForeign)
	}
	if err := to.Import(ctx, r.next); err != nil {
		return nil, err
	}
	return r.sum, nil
}

// Rows calls each with all rows of a backup, and verifies while it reads: if it fails, the rows so far are not verified. Errors
// are those of Verify, and each's.
func Rows(ctx context.Context, from Folder, deployment *wire.Hash, schema uint64, each func(store.Row) error) error {
	r, err := open(ctx, from, deployment, schema)
	if err != nil {
		return err
	}
	for {
		row, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = each(row)
		}
		if err != nil {
			return err
		}
	}
}

// A reader reads a backup chunk by chunk.
type reader struct {
	ctx   context.Context
	from  Folder
	index *Index
	hash  hash.Hash
	at    int // index of the next chunk
	rest  []byte
	sum   *Summary
	audit *audit
}

func open(ctx context.Context, from Folder, deployment *wire.Hash, schema uint64) (*reader, error) {
	header, err := get(ctx, from, "header", MaxHeader)
	if err != nil {
		return nil, err
	}
	h, err := ParseHeader(header)
	if err != nil {
		return nil, err
	}
	if h.Schema > schema {
		return nil, fmt.Errorf("%w: release %s", ErrLater, h.Release)
	}
	if deployment != nil && h.Deployment != *deployment {
		return nil, fmt.Errorf("%w: %x", ErrForeign, h.Deployment)
	}
	b, err := get(ctx, from, "index", MaxIndex)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, from: from, hash: sha256.New(), sum: &Summary{Header: *h}}
	if r.index, err = ParseIndex(b); err != nil {
		return nil, err
	}
	if r.index.Header != *h {
		return nil, damage("header and index are of two backups")
	}
	r.hash.Write(header)
	r.audit = newAudit(r.sum)
	return r, nil
}

// get reads one object. A missing object is ErrDamaged.
func get(ctx context.Context, from Folder, name string, most int) ([]byte, error) {
	b, err := from.Get(ctx, name, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damage("%s is missing: this is no whole backup", name)
	}
	return b, err
}

// next returns the next row, and io.EOF when the whole backup has been read and verified.
func (r *reader) next() (store.Row, error) {
	for len(r.rest) == 0 {
		if r.at == len(r.index.Chunks) {
			return nil, r.end()
		}
		if err := r.chunk(); err != nil {
			return nil, err
		}
	}
	row, rest, err := CutRow(r.rest)
	if err != nil {
		return nil, err
	}
	r.rest = rest
	if err := r.audit.follow(row); err != nil {
		return nil, damage("%v", err)
	}
	return row, nil
}

func (r *reader) chunk() error {
	want := r.index.Chunks[r.at]
	b, err := get(r.ctx, r.from, chunkName(r.at), int(want.Size))
	if err != nil {
		return err
	}
	if len(b) != int(want.Size) || sha256.Sum256(b) != want.SHA256 {
		return damage("%s is not what was written", chunkName(r.at))
	}
	r.hash.Write(b)
	r.rest = b
	r.at++
	r.sum.Chunks, r.sum.Bytes = r.at, r.sum.Bytes+uint64(len(b))
	return nil
}

func (r *reader) end() error {
	if r.sum.Rows != r.index.Rows || wire.Hash(r.hash.Sum(nil)) != r.index.Total {
		return damage("the parts are not those of one backup")
	}
	if err := r.audit.finish(); err != nil {
		return damage("%v", err)
	}
	return io.EOF
}
