// Package tiles serves the logs of a store as C2SP tlog-tiles 0.1.0 has them (https://c2sp.org/tlog-tiles): checkpoints that a
// quorum of witnesses has cosigned, tiles of hashes, and tiles of entries.
//
// What it promises:
//
//   - Whatever is given lies under the newest cosigned checkpoint in the store, which has the root of the leaves that are
//     there. It may be some seconds old.
//   - A tile never changes. One that is not full is given at any width that there is.
//   - Memory is what package leaves keeps of each range's newest log. Leaves from before the newest tip table are read from
//     the store when a tile of them is asked for.
package tiles

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/host/leaves"
	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/host/witness"
	"cloister/shared/wire"
)

// Errors of a Server.
var (
	// ErrNone: there is no such log, checkpoint or tile, or not yet.
	ErrNone = errors.New("there is none")
	// ErrPath: a path that is no tile's.
	ErrPath = errors.New("no path of a tile")
)

// maxPath bounds a tile's path, in bytes.
const maxPath = 64

// refresh is how long checkpoints are not read again.
const refresh = time.Second

// A Store is what is read: a store.Store.
type Store interface {
	leaves.Store
	store.Checkpoints
}

// A Server gives what is public of the newest log of each range. Many goroutines may use it.
type Server struct {
	store Store
	now   func() time.Time

	mu    sync.Mutex
	read  time.Time // when the checkpoints were
	logs  map[wire.Range]*log
	whole map[wire.Range]bool // those whose tip table is not trusted any more
}

// A log is one with a cosigned checkpoint.
type log struct {
	Log
	checkpoint []byte
	root       wire.Hash
	leaves     *leaves.Log

	mu      sync.Mutex
	checked uint64 // size of the checkpoint whose root the leaves have
}

// A Log is one that can be read.
type Log struct {
	Range      wire.Range
	Origin     string
	Generation uint32
	Size       uint64 // leaves in the newest cosigned checkpoint
}

// New makes a Server that has read nothing.
func New(s Store, now func() time.Time) *Server {
	return &Server{store: s, now: now, logs: map[wire.Range]*log{}, whole: map[wire.Range]bool{}}
}

// Logs are those that can be read, by range.
func (s *Server) Logs(ctx context.Context) ([]Log, error) {
	logs, err := s.current(ctx)
	var all []Log
	for _, r := range slices.Sorted(maps.Keys(logs)) {
		all = append(all, logs[r].Log)
	}
	return all, err
}

// current reads the checkpoints again, if the last time is long enough ago.
func (s *Server) current(ctx context.Context) (map[wire.Range]*log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.read.IsZero() && now.Sub(s.read) < refresh {
		return s.logs, nil
	}
	kept, err := s.store.LoadCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	next := map[wire.Range]*log{}
	for _, c := range kept { // generations rise
		if delete(next, c.Range); c.CosignedSize == 0 {
			continue
		}
		head, err := witness.ParseSigned(c.Cosigned)
		if err != nil || head.Size != c.CosignedSize || head.Size > leaves.MaxSize {
			continue // somebody else has written it
		}
		l := &log{Log: Log{c.Range, head.Origin, c.Generation, head.Size}, checkpoint: c.Cosigned, root: head.Root}
		if before := s.logs[c.Range]; before != nil && before.Origin == l.Origin && before.Size <= l.Size {
			if l.leaves = before.leaves; before.Size == l.Size && before.root == l.root {
				l = before
			}
		} else {
			l.leaves = leaves.New(s.store, c.Range, c.Generation, s.whole[c.Range])
		}
		next[c.Range] = l
	}
	s.logs, s.read = next, now
	return next, nil
}

func (s *Server) log(ctx context.Context, r wire.Range) (*log, error) {
	logs, err := s.current(ctx)
	if err == nil && logs[r] == nil {
		err = ErrNone
	}
	if err != nil {
		return nil, err
	}
	l := logs[r]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.checked < l.Size {
		if err := l.check(ctx); err != nil {
			return nil, s.forget(l, err)
		}
		l.checked = l.Size
	}
	return l, nil
}

// check reads the leaves that the checkpoint is of.
func (l *log) check(ctx context.Context) error {
	if err := l.leaves.ReadTo(ctx, l.Size); err != nil {
		return err
	}
	root, err := l.leaves.Root(ctx, l.Size)
	if err == nil && root != l.root {
		err = fmt.Errorf("%w: another root of %d leaves", leaves.ErrOther, l.Size)
	}
	return err
}

// forget has a log read anew when its leaves are no longer what they were: another store may be in the place of the one before.
func (s *Server) forget(l *log, err error) error {
	if errors.Is(err, leaves.ErrOther) {
		s.mu.Lock()
		if s.logs[l.Range] == l {
			delete(s.logs, l.Range)
			s.read, s.whole[l.Range] = time.Time{}, true
		}
		s.mu.Unlock()
	}
	return err
}

// Checkpoint is the newest one of a range's log that a quorum has cosigned, as a note.
func (s *Server) Checkpoint(ctx context.Context, r wire.Range) ([]byte, error) {
	l, err := s.log(ctx, r)
	if err != nil {
		return nil, err
	}
	return l.checkpoint, nil
}

// Tile is a tile of a range's log, by what follows on "tile/": a level of hashes or "entries", the tile's number and, if it is
// not full, its width.
func (s *Server) Tile(ctx context.Context, r wire.Range, path string) ([]byte, error) {
	t, err := parse(path)
	if err != nil {
		return nil, err
	}
	l, err := s.log(ctx, r)
	if err != nil {
		return nil, err
	}
	if t.level > maxLevel || t.end() > l.Size>>(8*t.level) {
		return nil, ErrNone
	}
	b, err := l.tile(ctx, t)
	if err != nil {
		return nil, s.forget(l, err)
	}
	return b, nil
}

func (l *log) tile(ctx context.Context, t *tile) (b []byte, err error) {
	if !t.entries {
		hashes, err := l.leaves.Hashes(ctx, 8*t.level, t.number*tree.Span, t.width)
		for i := range hashes {
			b = append(b, hashes[i][:]...)
		}
		return b, err
	}
	all, err := l.leaves.Leaves(ctx, t.number*tree.Span, t.width)
	for _, leaf := range all {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(leaf))), leaf...) // a leaf has 200 bytes at most
	}
	return b, err
}

// A tile is one as its path names it.
type tile struct {
	entries bool
	level   uint // 0 with entries
	number  uint64
	width   int
}

// maxLevel is the highest of which there are tiles: above stands one hash at most.
const maxLevel = 3

// end is how many nodes of the level there must be.
func (t *tile) end() uint64 { return t.number*tree.Span + uint64(t.width) }

// parse reads a path in its one form.
func parse(path string) (*tile, error) {
	if len(path) > maxPath {
		return nil, ErrPath
	}
	level, rest, _ := strings.Cut(path, "/")
	t := &tile{entries: level == "entries", width: tree.Span}
	if !t.entries {
		n, err := strconv.ParseUint(level, 10, 6)
		if err != nil {
			return nil, ErrPath
		}
		t.level = uint(n)
	}
	number, width, partial := strings.Cut(rest, ".p/")
	if partial {
		n, err := strconv.ParseUint(width, 10, 8)
		if err != nil || n == 0 {
			return nil, ErrPath
		}
		t.width = int(n)
	}
	for _, group := range strings.Split(number, "/") {
		n, err := strconv.ParseUint(strings.TrimPrefix(group, "x"), 10, 10)
		if err != nil || t.number > 1<<40 {
			return nil, ErrPath
		}
		t.number = t.number*1000 + n
	}
	if t.path() != path {
		return nil, ErrPath
	}
	return t, nil
}

func (t *tile) path() string {
	path := fmt.Sprintf("%03d", t.number%1000)
	for n := t.number / 1000; n > 0; n /= 1000 {
		path = fmt.Sprintf("x%03d/", n%1000) + path
	}
	if t.entries {
		path = "entries/" + path
	} else {
		path = fmt.Sprintf("%d/", t.level) + path
	}
	if t.width < tree.Span {
		path += fmt.Sprintf(".p/%d", t.width)
	}
	return path
}
