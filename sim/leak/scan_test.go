package leak_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
)

// encodings is how many ways a secret is searched for.
const encodings = 9

// encode writes a secret in all of them. Base64 stands at any offset in a longer
// text, so of each kind the letters that do not depend on neighbours are given
// for all three.
func encode(secret []byte) map[string][][]byte {
	reversed := slices.Clone(secret)
	slices.Reverse(reversed)
	m := map[string][][]byte{
		"raw": {secret}, "reversed": {reversed},
		"hex lower": {[]byte(hex.EncodeToString(secret))}, "hex upper": {[]byte(strings.ToUpper(hex.EncodeToString(secret)))},
		"base58": {[]byte(base58.Encode(secret))}, "decimal": {[]byte(new(big.Int).SetBytes(secret).String())},
		"words": {[]byte(words(secret[:min(len(secret), 32)]))},
	}
	for name, e := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		for skip := range 3 {
			text := e.EncodeToString(append(make([]byte, skip), secret...))
			text = text[(skip*8+5)/6:]
			if (len(secret)+skip)%3 != 0 {
				text = text[:len(text)-1]
			}
			m[name] = append(m[name], []byte(text))
		}
	}
	return m
}

// A secret is something that is looked for.
type secret struct {
	kind  string
	bytes []byte
}

// A find is a secret in one encoding.
type find struct {
	secret   *secret
	encoding string
}

// A scanner finds many byte strings at once, by their first 8 bytes.
type scanner struct {
	patterns map[uint64][]pattern
	maybe    []uint64 // a bit for each hash that some pattern has
	longest  int
}

type pattern struct {
	find
	bytes []byte
}

const maybeBits = 23

func hash(b []byte) uint64 {
	return binary.LittleEndian.Uint64(b) * 0x9e3779b97f4a7c15 >> (64 - maybeBits)
}

func newScanner(secrets []*secret) *scanner {
	s := &scanner{patterns: map[uint64][]pattern{}, maybe: make([]uint64, 1<<maybeBits/64)}
	for _, x := range secrets {
		all := encode(x.bytes)
		if len(all) != encodings {
			panic("not every encoding")
		}
		for name, forms := range all {
			for _, b := range forms {
				k := binary.LittleEndian.Uint64(b)
				s.patterns[k] = append(s.patterns[k], pattern{find{x, name}, b})
				h := hash(b)
				s.maybe[h/64] |= 1 << (h % 64)
				s.longest = max(s.longest, len(b))
			}
		}
	}
	return s
}

// scan searches one stretch of bytes.
func (s *scanner) scan(b []byte, found map[find]int) {
	for i := 0; i+8 <= len(b); i++ {
		h := hash(b[i:])
		if s.maybe[h/64]>>(h%64)&1 == 0 {
			continue
		}
		for _, p := range s.patterns[binary.LittleEndian.Uint64(b[i:])] {
			if bytes.HasPrefix(b[i:], p.bytes) {
				found[p.find]++
			}
		}
	}
}

// reader searches a stream.
func (s *scanner) reader(r io.Reader, found map[find]int) (n int64, err error) {
	b := make([]byte, 4<<20)
	kept := 0
	for {
		k, err := io.ReadFull(r, b[kept:])
		n += int64(k)
		s.scan(b[:kept+k], found)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return n, nil
			}
			return n, err
		}
		kept = copy(b, b[len(b)-s.longest:])
	}
}

// files searches every file below a folder but those that skip names.
func (s *scanner) files(t *testing.T, dir string, skip func(string) bool, found map[find]int) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || skip(path) {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		k, err := s.reader(f, found)
		n += k
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// regions hands each the resident stretches of all that a process can read in its
// address space.
func regions(t *testing.T, pid int, each func(mode string, mem *os.File, from, to int64)) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if strings.Contains(lines.Text(), "[vvar") || strings.Contains(lines.Text(), "[vsyscall]") {
			continue // the kernel's own
		}
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err != nil {
			t.Fatal(err)
		}
		if mode[0] != 'r' {
			continue
		}
		if err := resident(pid, from, to, func(from, to int64) { each(mode, mem, from, to) }); err != nil {
			t.Fatal(err)
		}
	}
}

// resident are the pages of a stretch that were ever touched: a Go heap reserves far
// more than it uses.
func resident(pid int, from, to int64, each func(from, to int64)) error {
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return err
	}
	defer pagemap.Close()
	const page = 4096
	bits := make([]byte, (to-from)/page*8)
	if _, err := pagemap.ReadAt(bits, from/page*8); err != nil {
		each(from, to)
		return nil
	}
	for at := from; at < to; {
		end := at
		for ; end < to && bits[(end-from)/page*8+7]&0xc0 != 0; end += page {
		}
		if end > at {
			each(at, end)
		}
		at = end + page
	}
	return nil
}

// memory searches all that a process can write or read in its address space.
func (s *scanner) memory(t *testing.T, pid int, found map[find]int) (n int64) {
	t.Helper()
	regions(t, pid, func(_ string, mem *os.File, from, to int64) {
		k, err := s.reader(io.NewSectionReader(mem, from, to-from), found)
		n += k
		if err != nil {
			t.Logf("%x to %x: %v", from, to, err)
		}
	})
	return n
}

// newControl is a secret that nobody keeps; it is planted where the scan must
// find it. Without zero bytes, so that it fits into an environment.
func newControl() *secret {
	b := make([]byte, 32)
	for slices.Contains(b, 0) {
		_, _ = rand.Read(b)
	}
	return &secret{"control", b}
}

// planted is the control in every encoding.
func planted(c *secret) []byte {
	var b []byte
	for _, forms := range encode(c.bytes) {
		b = append(append(b, forms[0]...), '\n')
	}
	return b
}

func TestScanner(t *testing.T) {
	c := newControl()
	s := newScanner([]*secret{c, newControl()})
	found := map[find]int{}
	text := append(make([]byte, 4<<20-100), planted(c)...) // across the border of two reads
	if _, err := s.reader(bytes.NewReader(text), found); err != nil || len(found) != encodings {
		t.Fatalf("%d of %d encodings found: %v", len(found), encodings, err)
	}
	found = map[find]int{}
	for skip := range 3 {
		in := append(make([]byte, skip), c.bytes...)
		s.scan([]byte(base64.StdEncoding.EncodeToString(append(in, 1, 2, 3))), found)
	}
	if found[find{c, "base64"}] != 3 {
		t.Fatalf("base64 at %d of 3 offsets", found[find{c, "base64"}])
	}
	found = map[find]int{}
	spoilt := planted(c)
	for i := range spoilt {
		spoilt[i] ^= byte(i % 7)
	}
	if s.scan(spoilt, found); len(found) != 0 {
		t.Fatalf("found %v where nothing is", found)
	}
}
