// Package cpio writes the archives that a Linux kernel unpacks as its first file system: format "newc"
// (initramfs buffer format of the kernel's documentation), not compressed. An archive depends on nothing but
// the entries: they are sorted by name, numbered from 1, belong to user and group 0 and bear the time 0.
package cpio

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MaxFile and MaxEntries bound what one archive may hold; the format itself ends at 4 GiB for a file.
const (
	MaxFile    = 256 << 20
	MaxEntries = 1024

	maxName = 255
	// Archives are laid end to end in memory. Each must begin at a multiple of
	// four, and cpio's own blocks are of 512 bytes.
	block = 512
)

// The kinds of entries, as the file type bits of a mode.
const (
	directory = 0o040000
	character = 0o020000
	regular   = 0o100000
)

// An Entry is a file, directory or device of the archive.
type Entry struct {
	name         string
	mode         uint32
	major, minor uint32
	content      []byte
}

// Dir is a directory that its owner may write.
func Dir(name string) Entry { return Entry{name: name, mode: directory | 0o755} }

// File is a regular file with these permissions, of 0o777 at most.
func File(name string, permissions uint32, content []byte) Entry {
	return Entry{name: name, mode: regular | permissions, content: content}
}

// Device is a character device that its owner may read and write.
func Device(name string, major, minor uint32) Entry {
	return Entry{name: name, mode: character | 0o600, major: major, minor: minor}
}

// Archive writes the entries. It refuses names that are not plain relative paths
// (no ".", "..", empty parts or control characters), a name twice, a file whose
// directory is not among the entries, and what exceeds the limits.
func Archive(entries ...Entry) ([]byte, error) {
	if len(entries) == 0 || len(entries) > MaxEntries {
		return nil, fmt.Errorf("cpio: %d entries, want 1 to %d", len(entries), MaxEntries)
	}
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.name, b.name) })
	// The kernel makes no directories by itself; sorted by bytes, a directory stands before what is in it.
	dirs := map[string]bool{".": true}
	for i, e := range sorted {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("cpio: %q: %w", e.name, err)
		}
		if i > 0 && sorted[i-1].name == e.name {
			return nil, fmt.Errorf("cpio: %q twice", e.name)
		}
		if parent := path.Dir(e.name); !dirs[parent] {
			return nil, fmt.Errorf("cpio: %q: no directory %q", e.name, parent)
		}
		if e.mode&^0o7777 == directory {
			dirs[e.name] = true
		}
	}
	var b bytes.Buffer
	for i, e := range sorted {
		e.write(&b, i+1)
	}
	Entry{name: "TRAILER!!!"}.write(&b, 0)
	pad(&b, block)
	return b.Bytes(), nil
}

func (e Entry) check() error {
	if e.name == "" || len(e.name) > maxName {
		return errors.New("a name of this length")
	}
	for part := range strings.SplitSeq(e.name, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("not a plain relative path")
		}
	}
	// The name that ends an archive would end it early.
	if e.name == "TRAILER!!!" || strings.ContainsFunc(e.name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("not a name for this archive")
	}
	if len(e.content) > MaxFile {
		return errors.New("too long")
	}
	// More than permissions would have changed the type as well.
	if e.mode&0o7000 != 0 || !slices.Contains([]uint32{directory, character, regular}, e.mode&^0o7777) {
		return errors.New("permissions beyond 0777")
	}
	return nil
}

// write appends header, name and content, each padded to four bytes.
func (e Entry) write(b *bytes.Buffer, inode int) {
	links := 1
	if e.mode&^0o7777 == directory {
		links = 2
	}
	b.WriteString("070701")
	for _, v := range []uint32{
		uint32(inode), e.mode, 0 /* uid */, 0 /* gid */, uint32(links), 0, /* mtime */
		uint32(len(e.content)), 0, 0, /* device that holds the file */
		e.major, e.minor, uint32(len(e.name) + 1), 0, /* checksum, not of this variant */
	} {
		fmt.Fprintf(b, "%08X", v)
	}
	b.WriteString(e.name)
	b.WriteByte(0)
	pad(b, 4)
	b.Write(e.content)
	pad(b, 4)
}

func pad(b *bytes.Buffer, to int) {
	for b.Len()%to != 0 {
		b.WriteByte(0)
	}
}

// Sole gives the content of an archive that holds one file and nothing else, as
// Archive(File(name, 0o755, content)) writes it. Any other bytes are refused.
func Sole(archive []byte, name string) ([]byte, error) {
	const header, sizeAt = 110, 6 + 6*8
	at := header + len(name) + 1
	at += -at & 3
	if len(archive) < at {
		return nil, errors.New("cpio: too short")
	}
	size, err := strconv.ParseUint(string(archive[sizeAt:sizeAt+8]), 16, 32)
	if err != nil || size > uint64(len(archive)-at) {
		return nil, errors.New("cpio: malformed")
	}
	content := archive[at : at+int(size)]
	// One way of writing it: what is not that is something else.
	if again, err := Archive(File(name, 0o755, content)); err != nil || !bytes.Equal(again, archive) {
		return nil, fmt.Errorf("cpio: not an archive of %q alone", name)
	}
	return content, nil
}
