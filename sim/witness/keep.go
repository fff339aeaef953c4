package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cloister/attestation/tlog"
)

// number is how a log is called in paths: the SHA-256 of its origin in hex.
func number(origin string) string {
	h := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(h[:])
}

func (w *Witness) file(origin string) string { return filepath.Join(w.options.Dir, number(origin)) }

// read takes the head from the file, which is a note of the log. Without a file it is as it was.
func (l *witnessed) read() error {
	b, err := readFile(l.file, tlog.MaxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("witness: what was signed of %s: %w", l.key.Name(), err)
	}
	h, err := l.open(b)
	if err != nil {
		return fmt.Errorf("witness: what was signed of %s cannot be read, and without it nothing may be: %w", l.key.Name(), err)
	}
	l.head = h
	return nil
}

// write keeps a head, with the log's signatures and nobody else's.
func (l *witnessed) write(h head) error {
	if l.file == "" {
		return nil
	}
	return writeFile(l.file, []byte(tlog.Note(h.note.Text, h.note.Sigs)))
}

func (l *witnessed) drop() error {
	if l.file == "" {
		return nil
	}
	if err := os.Remove(l.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ReadKey gives the key whose seed a file holds: 32 bytes in hex. Without the file it makes one, of random bytes.
func ReadKey(file string, random io.Reader) (ed25519.PrivateKey, error) {
	b, err := readFile(file, 2*ed25519.SeedSize+1)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := newKey(random)
		if err != nil {
			return nil, err
		}
		return key, writeFile(file, []byte(hex.EncodeToString(key.Seed())+"\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("witness: the seed: %w", err)
	}
	seed, err := hex.DecodeString(strings.TrimSuffix(string(b), "\n"))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("witness: %s holds no seed of 32 bytes in hex; without it the witness is another one", file)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func newKey(random io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// readFile reads a file of at most so many bytes.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return b, err
}

// writeFile writes a file that only its owner may read, whole or not at all. When it returns, the file outlasts the machine's
// end.
func writeFile(name string, b []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
