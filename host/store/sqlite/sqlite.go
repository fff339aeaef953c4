// Package sqlite is the store for a single host: a SQLite file, through modernc.org/sqlite.
//
// One connection writes, a few read, and one checkpoints: it copies the write-ahead log (WAL) back
// into the file. A commit is one fsync of the WAL (synchronous=FULL). Checkpoints run in parallel
// with commits; only if the WAL has grown large does one delay a batch, for the remaining pages.
//
// Memory outside Go's heap is at most about 16 MiB: page caches of 4 MiB for the writer and 2 MiB
// for each reader, and the WAL's index. The README has measurements of other layouts.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/pressly/goose/v3"

	"cloister/host/store"
	"cloister/shared/wire"
)

const (
	readers         = 4
	checkpointBytes = 4 << 20 // bytes written between two checkpoints
	longLog         = 8 << 10 // frames of 4 KiB above which a checkpoint must complete while the writer waits
	cacheEntries    = 1 << 16 // organizations whose number is cached
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrClosed is the error of calls to a closed store.
var ErrClosed = errors.New("sqlite: store is closed")

// Store is a store.Store in one SQLite file.
type Store struct {
	name string
	ran  atomic.Uint64

	writing chan struct{} // holds one token; its holder may use the fields below
	writer  *conn
	numbers map[[16]byte]int64 // organization to its number; rows never change
	kinds   map[kind]int64     // likewise
	// The state after the last batch that this store wrote to a range: valid only while no other
	// program has written there since.
	last   map[wire.Range]int64 // range to that batch's id
	next   map[int64]uint64     // number of an organization to its count of entries
	beats  map[wire.Range]uint64
	behind int64 // bytes written since the last checkpoint
	closed bool

	pool chan *conn

	copier  *conn
	due     chan struct{}
	stopped sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// Open opens a file. It creates the file (readable by its owner only) if needed, and creates or migrates
// its tables. The folder must exist. A file that a later release has written is refused (store.ErrLater).
func Open(ctx context.Context, path string) (*Store, error) { return open(ctx, path, true) }

// OpenExisting opens a file that exists and has the tables of this release, and changes nothing:
// other programs, also of an earlier release, may have it open. Errors are those of Open and
// store.ErrEarlier.
func OpenExisting(ctx context.Context, path string) (*Store, error) { return open(ctx, path, false) }

func open(ctx context.Context, path string, change bool) (*Store, error) {
	path, err := filepath.Abs(path)
	if err == nil && change {
		err = create(path)
	} else if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening sqlite: %w", err)
	}
	name := (&url.URL{Scheme: "file", Path: path}).String()
	if err := migrate(ctx, name, change); err != nil {
		return nil, fmt.Errorf("migrating sqlite: %w", err)
	}
	s := &Store{
		name: name, writing: make(chan struct{}, 1), pool: make(chan *conn, readers),
		numbers: map[[16]byte]int64{}, kinds: map[kind]int64{}, last: map[wire.Range]int64{}, next: map[int64]uint64{}, beats: map[wire.Range]uint64{}, due: make(chan struct{}, 1),
	}
	if err := s.connect(); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	s.stopped.Add(1)
	go s.checkpoints()
	s.writing <- struct{}{}
	return s, nil
}

// create makes the file and its entry in the folder durable.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// migrate brings the tables up to date, or fails if they are not and change is false.
func migrate(ctx context.Context, name string, change bool) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	how := "?_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"
	if change {
		how += "&_pragma=journal_mode(WAL)" // which writes into the file
	}
	db, err := sql.Open("sqlite", name+how)
	if err != nil {
		return err
	}
	if !change { // goose would create its table in any database
		var tables int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", goose.DefaultTablename).Scan(&tables)
		if err == nil && tables == 0 {
			err = store.ErrNoVersion
		}
		if err != nil {
			return errors.Join(err, db.Close())
		}
	}
	steps, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err == nil {
		err = raise(ctx, steps, change)
	}
	return errors.Join(err, db.Close())
}

func raise(ctx context.Context, steps *goose.Provider, change bool) error {
	is, newest, err := steps.GetVersions(ctx)
	switch {
	case err != nil:
		return err
	case is > newest:
		return store.ErrLater
	case change:
		_, err = steps.Up(ctx)
	case is < newest:
		return store.ErrEarlier
	}
	return err
}

// Schema implements store.Archive.
func (s *Store) Schema() uint64 { return schema }

// schema is the number of the last migration.
var schema = store.LastMigration(migrations)

func (s *Store) connect() (err error) {
	if s.writer, err = dial(s.name, &s.ran, "busy_timeout=5000", "synchronous=FULL", "wal_autocheckpoint=0", "cache_size=-4096"); err != nil {
		return err
	}
	if s.copier, err = dial(s.name, &s.ran, "busy_timeout=5000", "synchronous=FULL", "wal_autocheckpoint=0", "cache_size=-256"); err != nil {
		return err
	}
	for range readers {
		c, err := s.reader()
		if err != nil {
			return err
		}
		s.pool <- c
	}
	return nil
}

func (s *Store) reader() (*conn, error) {
	return dial(s.name, &s.ran, "busy_timeout=5000", "query_only=1", "wal_autocheckpoint=0", "cache_size=-2048")
}

func (s *Store) disconnect() error {
	all := []*conn{s.copier, s.writer}
	for len(s.pool) > 0 {
		all = append(all, <-s.pool)
	}
	var errs []error
	for _, c := range all {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}

// write runs a function with exclusive use of the writing connection. It is not interrupted once it
// has begun: a commit is either done or not begun.
func (s *Store) write(ctx context.Context, do func(context.Context) error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.writing:
	}
	defer func() { s.writing <- struct{}{} }()
	if s.closed {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return do(context.WithoutCancel(ctx))
}

// change is write in a transaction; do returns whether to commit.
func (s *Store) change(ctx context.Context, do func(context.Context) (bool, error)) error {
	return s.write(ctx, func(ctx context.Context) error {
		return s.writer.inTransaction(ctx, "BEGIN IMMEDIATE", func() (bool, error) { return do(ctx) })
	})
}

// read runs a function on a reading connection, in one transaction, so that it reads a consistent
// snapshot.
func (s *Store) read(ctx context.Context, do func(*conn) error) error {
	var c *conn
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c = <-s.pool:
	}
	if c == nil { // closed, or could not be replaced
		var err error
		if c, err = s.replace(); err != nil {
			s.pool <- nil
			return err
		}
	}
	err := c.inTransaction(ctx, "BEGIN", func() (bool, error) { return false, do(c) })
	if err != nil && !errors.Is(err, store.ErrRefused) {
		// An interrupted connection may stay interrupted; a new one is cheap.
		_ = c.close()
		c = nil
	}
	s.pool <- c
	return err
}

func (s *Store) replace() (*conn, error) {
	<-s.writing
	defer func() { s.writing <- struct{}{} }()
	if s.closed {
		return nil, ErrClosed
	}
	return s.reader()
}

// Statements returns the number of SQL statements run since the store was opened, including BEGIN and
// COMMIT. sim/budget bounds them for each request.
func (s *Store) Statements() uint64 { return s.ran.Load() }

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, func(c *conn) error {
		_, err := c.firstRow(ctx, "SELECT epoch FROM owner WHERE id = 1")
		return err
	})
}

// Close implements store.Store. The last connection to close copies the WAL into the file.
func (s *Store) Close() error {
	<-s.writing
	if s.closed {
		s.writing <- struct{}{}
		return nil
	}
	s.closed = true
	close(s.due)
	s.writing <- struct{}{}
	s.stopped.Wait()

	var errs []error
	for range readers {
		if c := <-s.pool; c != nil {
			errs = append(errs, c.close())
		}
	}
	for range readers {
		s.pool <- nil
	}
	<-s.writing
	defer func() { s.writing <- struct{}{} }()
	return errors.Join(append(errs, s.copier.close(), s.writer.close())...)
}

// countWritten counts the bytes written to the WAL and requests a checkpoint when it is due. The
// caller holds the writing token.
func (s *Store) countWritten(bytes int64) {
	if s.behind += bytes; s.behind < checkpointBytes {
		return
	}
	s.behind = 0
	select {
	case s.due <- struct{}{}:
	default: // one is requested already
	}
}

// checkpoints copies the WAL back whenever a checkpoint is due. After a failure the WAL stays valid and
// grows until the next checkpoint.
func (s *Store) checkpoints() {
	defer s.stopped.Done()
	for range s.due {
		if s.checkpoint() < longLog {
			continue
		}
		// Beside a busy writer a checkpoint never reaches the WAL's end, and only a WAL copied
		// whole is reset. Not much is left to copy now.
		<-s.writing
		s.checkpoint()
		s.writing <- struct{}{}
	}
}

// checkpoint copies what it can of the WAL, and returns how many frames the WAL has.
func (s *Store) checkpoint() (frames int64) {
	_ = s.copier.query(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)", func(row []driver.Value) (bool, error) {
		if len(row) > 1 {
			frames, _ = row[1].(int64)
		}
		return true, nil
	})
	return frames
}
