package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	mod "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation/tlog"
)

// consistent proves from the host's tiles that the newest head is consistent with the last head that was proven to be. It
// checks every tile against the newest root, and computes the root of the earlier tree from them.
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

// errTiles is the error for tiles that the host did not return.
var errTiles = errors.New("the log's tiles were not given")

// tilePauses is how many seconds a host may take to publish the tiles of a head.
const tilePauses = 15

// rootOf computes the root of the first size leaves of a log from its tiles under a head.
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

// tileHeight is the height of tiles by tlog-tiles: 256 hashes.
const tileHeight = 8

// A tileReader reads a log's tiles where a host publishes them (https://c2sp.org/tlog-tiles).
type tileReader struct {
	ctx context.Context
	get func(ctx context.Context, path string) ([]byte, error)
	err error
}

// Height is tileHeight.
func (r *tileReader) Height() int { return tileHeight }

// ReadTiles fetches tiles. The caller, mod.TileHashReader, verifies them.
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

// SaveTiles does nothing: tiles are not cached.
func (r *tileReader) SaveTiles([]mod.Tile, [][]byte) {}
