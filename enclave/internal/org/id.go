package org

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// errSize is needed since the codec would pad a short byte string with zeros and cut a long one.
var errSize = errors.New("identifier or hash of another size")

var errNoID = errors.New("not a UUID")

// ID is a UUID: of an organization, a user, a wallet, an activity.
type ID [16]byte

// Zero tells that id names nothing.
func (id ID) Zero() bool { return id == ID{} }

// String is the UUID in its usual form, lower case.
func (id ID) String() string { return string(id.Append(make([]byte, 0, 36))) }

// Append writes the usual form of id.
func (id ID) Append(b []byte) []byte {
	b = hex.AppendEncode(b, id[:4])
	for _, part := range [...][]byte{id[4:6], id[6:8], id[8:10], id[10:]} {
		b = hex.AppendEncode(append(b, '-'), part)
	}
	return b
}

// UnmarshalCBOR takes a byte string of exactly 16 bytes.
func (id *ID) UnmarshalCBOR(b []byte) error {
	return readExactly(id[:], b, 0x50)
}

// readExactly fills to with what is behind the head of a CBOR byte string.
func readExactly(to, b []byte, head ...byte) error {
	content, ok := bytes.CutPrefix(b, head)
	if !ok || len(content) != len(to) {
		return errSize
	}
	copy(to, content)
	return nil
}

// MarshalText writes id as a UUID, so that records print it readably.
func (id ID) MarshalText() ([]byte, error) { return id.Append(nil), nil }

// ParseID reads the usual form of a UUID, either case, and nothing else.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, errNoID
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, errNoID
	}
	return id, nil
}

// NewChildID draws a sub-organization's id: a UUID of version 4 with the parent's first
// byte. Ranges are made of first bytes, so both lie in the same one.
func NewChildID(rand io.Reader, parent ID) (ID, error) {
	id, err := NewID(rand)
	if err == nil {
		id[0] = parent[0]
	}
	return id, err
}

// NewID draws a UUID of version 4.
func NewID(rand io.Reader) (ID, error) {
	return drawUUID(rand, ID{}, 0, 4)
}

// drawUUID draws the bytes of id behind the first n, and makes it a UUID of a version.
func drawUUID(rand io.Reader, id ID, n int, version byte) (ID, error) {
	if _, err := io.ReadFull(rand, id[n:]); err != nil {
		return ID{}, fmt.Errorf("drawing an id: %w", err)
	}
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id, nil
}
