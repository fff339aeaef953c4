// Package tlog verifies the checkpoints of a public, append-only log
// (https://c2sp.org/tlog-checkpoint) that witnesses have cosigned, by a policy that
// names the witnesses and their quorum (https://c2sp.org/tlog-policy).
//
// A cosignature (https://c2sp.org/tlog-cosignature) says that at its time the
// checkpoint was the largest tree that its witness had seen of this log, consistent
// with all that it had signed before. It says nothing about the log's content. Of two
// histories at most one gets a quorum, as long as no more witnesses lie or lose their
// memory than Policy.Tolerates reports.
//
// The length of input is bounded before it is parsed, and each value has one encoding:
// another one is refused. The package needs no network, clock or randomness.
package tlog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of a log or witness in bytes, as in the cosignatures of
// type 0x06.
const MaxName = 255

// A Checkpoint is the head of a log: the first Size leaves, and the root of their tree
// by RFC 6962 with SHA-256.
type Checkpoint struct {
	Origin string // the log's name
	Size   uint64
	Root   [32]byte
}

// Text is the text that is signed: origin, size in decimal and root in base64, each on a line.
func (c *Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatUint(c.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Root[:]) + "\n"
}

// ParseCheckpoint reads a checkpoint's text, without signatures. Extension lines, which the format
// allows and advises against, are refused.
func ParseCheckpoint(text string) (c Checkpoint, err error) {
	lines := strings.SplitN(text, "\n", 5)
	if len(lines) != 4 {
		return c, errors.New("tlog: a checkpoint is three lines")
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil {
		return c, errors.New("tlog: a checkpoint's size is a number below 2^63")
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return c, errors.New("tlog: a checkpoint's root is 32 bytes in base64")
	}
	if !ValidName(lines[0]) {
		return c, errors.New("tlog: a checkpoint's origin is no name")
	}
	c = Checkpoint{lines[0], size, [32]byte(root)}
	if c.Text() != text {
		return c, errors.New("tlog: a checkpoint is not in its one form")
	}
	return c, nil
}

// ValidName reports whether a name fits into a note's signature lines and a policy: 1 to MaxName
// bytes of UTF-8 without blanks, control characters and +.
func ValidName(name string) bool {
	return name != "" && len(name) <= MaxName && utf8.ValidString(name) && !strings.Contains(name, "+") &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

// parseNumber reads a decimal number from 0 to most, without sign or leading zeros.
func parseNumber(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > most || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("tlog: %.20q is no number up to %d", s, most)
	}
	return n, nil
}
