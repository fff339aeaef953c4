package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	mod "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation/tlog"
)

// consistent proves from the host's tiles that the newest head goes on from the last one that was proven to. Every tile
// is held against the newest root, and the root of the tree as it was is made of them.
func (m *Monitor) consistent(ctx context.Context) error {
	if m.options.Tiles == nil {
		return nil
	}
	from, err1 := checkpointOf(m.state.Consistent)
	to, err2 := checkpointOf(m.state.Checkpoint)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if from.Origin == to.Origin && 0 < from.Size && from.Size < to.Size {
		root, err := m.rootOf(ctx, from.Size, to)
		switch {
		case errors.Is(err, errTiles):
			return err
		case err != nil:
			return fmt.Errorf("%w: the log's tiles: %w", ErrRefused, err)
		case root != from.Root:
			return m.contradict(to, m.state.Consistent, m.state.Checkpoint, fmt.Sprintf("the head of %d leaves does not go on from that of %d", to.Size, from.Size))
		}
	}
	m.state.Consistent = m.state.Checkpoint
	return nil
}

// errTiles says that the host gave none.
var errTiles = errors.New("the log's tiles were not given")

// Tiles follow a head within this time, looked for each second.
const tilePauses = 15

// rootOf is the root of the first size leaves of a log, by its tiles under a head.
func (m *Monitor) rootOf(ctx context.Context, size uint64, head tlog.Checkpoint) ([32]byte, error) {
	for n := 0; ; n++ {
		tiles := &tileReader{ctx: ctx, get: m.options.Tiles}
		root, err := mod.TreeHash(int64(size), mod.TileHashReader(mod.Tree{N: int64(head.Size), Hash: head.Root}, tiles))
		if tiles.err == nil {
			return root, err
		}
		if n == tilePauses {
			return root, fmt.Errorf("%w: %w", errTiles, tiles.err)
		}
		if err := m.options.Pause(ctx, headPause); err != nil {
			return root, fmt.Errorf("%w: %w", errTiles, err)
		}
	}
}

// tileHeight is that of tlog-tiles: 256 hashes.
const tileHeight = 8

// A tileReader reads a log's tiles where a host publishes them (https://c2sp.org/tlog-tiles).
type tileReader struct {
	ctx context.Context
	get func(ctx context.Context, path string) ([]byte, error)
	err error
}

// Height is tileHeight.
func (r *tileReader) Height() int { return tileHeight }

// ReadTiles gets tiles, which are verified by who asks.
func (r *tileReader) ReadTiles(tiles []mod.Tile) ([][]byte, error) {
	var all [][]byte
	for _, t := range tiles {
		path := "tile/" + strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", tileHeight))
		b, err := r.get(r.ctx, path)
		if err == nil && len(b) != t.W*mod.HashSize {
			err = fmt.Errorf("%s has %d bytes", path, len(b))
		}
		if err != nil {
			r.err = err
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// SaveTiles keeps nothing.
func (r *tileReader) SaveTiles([]mod.Tile, [][]byte) {}
