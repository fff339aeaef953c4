package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A Folder keeps the objects of one backup.
type Folder interface {
	// Put stores an object, durably.
	Put(ctx context.Context, name string, b []byte) error
	// Get gives an object. Errors are fs.ErrNotExist when there is none, ErrDamaged when it has
	// more than most bytes, and others.
	Get(ctx context.Context, name string, most int) ([]byte, error)
	// String is its location, as a command takes it.
	String() string
}

// Dir is a folder of the file system. The first Put makes it.
type Dir struct{ Path string }

// String implements Folder.
func (d Dir) String() string { return d.Path }

// Put implements Folder. Only the owner can read what is written.
func (d Dir) Put(ctx context.Context, name string, b []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return err
	}
	part := filepath.Join(d.Path, name+".part")
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(part, filepath.Join(d.Path, name)) // unlike a rename it replaces nothing
	}
	if err = errors.Join(err, os.Remove(part)); err != nil {
		return err
	}
	return syncDir(d.Path)
}

// syncDir makes names durable, in a folder and in the folder above, where it may be new itself.
func syncDir(path string) error {
	for _, p := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Get implements Folder.
func (d Dir) Get(ctx context.Context, name string, most int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(d.Path, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, name, most)
}

func readAtMost(r io.Reader, name string, most int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, damage("%s has more than %d bytes", name, most)
	}
	return b, nil
}

// ErrLocation says that a text names no place for backups.
var ErrLocation = fmt.Errorf("want a folder or s3://BUCKET/PREFIX")
