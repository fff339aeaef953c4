package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"cloister/host/store"
	"cloister/shared/wire"
)

// ErrNoDeployment is the error of a store without a deployment.
var ErrNoDeployment = errors.New("backup: the store holds no deployment")

// Write writes a backup of a store, as of one moment, into an empty folder. Enclave and hosts keep
// running meanwhile. It holds one chunk and one row in memory.
//
// Entries are checked against the leaf hashes stored when they were appended: if the store has lost
// entries, Write fails.
func Write(ctx context.Context, from store.Store, to Folder, release string, nowMs uint64) (*Summary, error) {
	genesis, err := from.LoadObject(ctx, wire.LoadObject{Name: objectGenesis})
	if err != nil {
		return nil, err
	}
	if !genesis.Found {
		return nil, ErrNoDeployment
	}
	w := &writer{ctx: ctx, to: to, hash: sha256.New(), sum: &Summary{}}
	w.index.Header = Header{Release: release, Schema: from.Schema(), Deployment: sha256.Sum256(genesis.Bytes), CreatedMs: nowMs}
	w.sum.Header = w.index.Header
	w.audit = newAudit(w.sum)
	if err := w.header(); err != nil {
		return nil, err
	}
	if err := from.Export(ctx, w.row); err != nil {
		return nil, err
	}
	if err := w.audit.finish(); err != nil {
		return nil, fmt.Errorf("backing up: %w", err)
	}
	return w.sum, w.end()
}

type writer struct {
	ctx   context.Context
	to    Folder
	hash  hash.Hash
	chunk []byte
	index Index
	sum   *Summary
	audit *audit
}

func (w *writer) header() error {
	b, err := EncodeHeader(&w.index.Header)
	if err != nil {
		return err
	}
	if _, err := ParseHeader(b); err != nil {
		return err
	}
	w.hash.Write(b)
	return w.to.Put(w.ctx, "header", b)
}

func (w *writer) row(r store.Row) error {
	if err := w.audit.follow(r); err != nil {
		return fmt.Errorf("backing up: %w", err)
	}
	before := len(w.chunk)
	b, err := AppendRow(w.chunk, r)
	if err != nil {
		return err
	}
	if len(b) > MaxChunk {
		last := append([]byte(nil), b[before:]...)
		w.chunk = b[:before]
		if err := w.flush(); err != nil {
			return err
		}
		b = append(w.chunk, last...)
	}
	w.chunk = b
	return nil
}

func (w *writer) flush() error {
	if len(w.chunk) == 0 {
		return nil
	}
	n := len(w.index.Chunks)
	if n == MaxChunks {
		return fmt.Errorf("backing up: more than %d chunks", MaxChunks)
	}
	if err := w.to.Put(w.ctx, chunkName(n), w.chunk); err != nil {
		return err
	}
	w.hash.Write(w.chunk)
	w.index.Chunks = append(w.index.Chunks, Chunk{uint32(len(w.chunk)), sha256.Sum256(w.chunk)})
	w.sum.Chunks, w.sum.Bytes = n+1, w.sum.Bytes+uint64(len(w.chunk))
	w.chunk = w.chunk[:0]
	return nil
}

func (w *writer) end() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.index.Rows, w.index.Total = w.sum.Rows, wire.Hash(w.hash.Sum(nil))
	b, err := EncodeIndex(&w.index)
	if err != nil {
		return err
	}
	return w.to.Put(w.ctx, "index", b)
}
