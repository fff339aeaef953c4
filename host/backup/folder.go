package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A Folder stores the objects of one backup.
type Folder interface {
	// Put stores an object, durably.
	Put(ctx context.Context, name string, b []byte) error
	// Get returns an object. Errors are fs.ErrNotExist if there is none, ErrDamaged if it has
	// more than most bytes, and others.
	Get(ctx context.Context, name string, most int) ([]byte, error)
	// String is its location, in the form of a command's argument.
	String() string
}

// Dir is a Folder in the file system. The first Put creates it.
type Dir struct{ Path string }

// String implements Folder.
func (d Dir) String() string { return d.Path }

// Put implements Folder. Only the owner can read the files.
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
		err = os.Link(part, filepath.Join(d.Path, name)) // unlike a rename it does not replace a file
	}
	if err = errors.Join(err, os.Remove(part)); err != nil {
		return err
	}
	return syncDir(d.Path)
}

// syncDir makes the names in a folder durable, and its own name in its parent folder, where it may be new.
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

// ErrLocation is the error of a text that is not the location of a Folder.
var ErrLocation = fmt.Errorf("want a folder or s3://BUCKET/PREFIX")
