// Package rlp reads and writes recursive length prefix, the encoding of the transactions
// of Ethereum and Tempo, in its one canonical form: the shortest prefix, numbers without
// leading zeros, and nothing before, between or after.
//
// Reading builds no tree. The caller opens the lists and takes the items that it expects,
// each by its kind and bounds. So an encoding can be no deeper than what it is read as,
// nothing is allocated but big numbers, and the work is linear in the input.
package rlp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// The first byte is the item itself below 0x80; else it is one of these plus
// the size, up to 55, or plus 55 and the length of the size that follows.
const (
	stringHead = 0x80
	listHead   = 0xc0
	short      = 55
)

var (
	errShort     = errors.New("ends too early")
	errTrailing  = errors.New("has bytes left over")
	errPrefix    = errors.New("is not in the shortest form")
	errNoList    = errors.New("must be a list")
	errNoString  = errors.New("must be a byte string, not a list")
	errNumber    = errors.New("is a number with leading zeros")
	errMissing   = errors.New("is missing")
	errTooLarge  = errors.New("is too large a number")
	errAddressee = errors.New("must be 20 bytes or empty")
)

func split(b []byte) (list bool, content, rest []byte, err error) {
	if len(b) == 0 {
		return false, nil, nil, errMissing
	}
	first := b[0]
	if first < stringHead {
		return false, b[:1], b[1:], nil
	}
	base := byte(stringHead)
	if list = first >= listHead; list {
		base = listHead
	}
	start, size := 1, int(first-base)
	if size > short {
		start += size - short
		if size, err = longSize(b[1:], size-short); err != nil {
			return false, nil, nil, err
		}
	}
	if size > len(b)-start {
		return false, nil, nil, errShort
	}
	content, rest = b[start:start+size], b[start+size:]
	if !list && size == 1 && content[0] < stringHead {
		return false, nil, nil, errPrefix
	}
	return list, content, rest, nil
}

// longSize reads a size of n bytes. What does not fit 4 bytes is more than any
// input can hold.
func longSize(b []byte, n int) (int, error) {
	if n > len(b) {
		return 0, errShort
	}
	if b[0] == 0 {
		return 0, errPrefix
	}
	if n > 4 {
		return 0, errShort
	}
	size := 0
	for _, c := range b[:n] {
		size = size<<8 | int(c)
	}
	if size <= short {
		return 0, errPrefix
	}
	return size, nil
}

// A List reads the items of a list in order. The first item that is not what it is read
// as ends the reading: from then on all answers are zero and Err tells the item's name
// and its fault. Lists opened from one List share its Err. The bytes that it answers are
// parts of the input. A list must be read to its end, with End or until More says no.
type List struct {
	rest []byte
	err  *error
}

// Open begins reading an encoding that is one list, with nothing after it.
func Open(b []byte) *List {
	l := &List{err: new(error)}
	list, content, rest, err := split(b)
	switch {
	case err != nil:
	case !list:
		err = errNoList
	case len(rest) > 0:
		err = errTrailing
	}
	if l.rest = content; err != nil {
		l.fail("the encoding", err)
	}
	return l
}

// Err is what was wrong, nil as long as nothing was.
func (l *List) Err() error { return *l.err }

// Fail ends the reading with a fault that the caller found in an item.
func (l *List) Fail(name, format string, args ...any) { l.fail(name, fmt.Errorf(format, args...)) }

func (l *List) fail(name string, err error) {
	if *l.err == nil {
		*l.err = fmt.Errorf("%s %w", name, err)
	}
	l.rest = nil
}

// More tells whether items are left.
func (l *List) More() bool { return len(l.rest) > 0 && *l.err == nil }

// Left counts the items that are left. It does not look into them.
func (l *List) Left() int {
	n := 0
	for b := l.rest; len(b) > 0 && *l.err == nil; n++ {
		var err error
		if _, _, b, err = split(b); err != nil {
			l.fail(fmt.Sprintf("item %d", n+1), err)
			return 0
		}
	}
	return n
}

// Unread are the encodings of the items that are left.
func (l *List) Unread() []byte { return l.rest }

// AtList tells whether the next item is a list.
func (l *List) AtList() bool { return l.More() && l.rest[0] >= listHead }

// End fails if items are left.
func (l *List) End(name string) {
	if l.More() {
		l.fail(name, errTrailing)
	}
}

func (l *List) take(name string, list bool) []byte {
	if *l.err != nil {
		return nil
	}
	is, content, rest, err := split(l.rest)
	switch {
	case err != nil:
	case is && !list:
		err = errNoString
	case list && !is:
		err = errNoList
	}
	if err != nil {
		l.fail(name, err)
		return nil
	}
	l.rest = rest
	return content
}

// List opens the next item, which must be a list.
func (l *List) List(name string) *List { return &List{l.take(name, true), l.err} }

// Bytes takes a byte string of any length.
func (l *List) Bytes(name string) []byte { return l.take(name, false) }

// FixedBytes takes a byte string of exactly size bytes; nil when the reading has
// failed.
func (l *List) FixedBytes(name string, size int) []byte {
	b := l.take(name, false)
	if *l.err == nil && len(b) != size {
		l.fail(name, fmt.Errorf("must be %d bytes", size))
		return nil
	}
	return b
}

// Addressee takes 20 bytes, or none where a contract is created.
func (l *List) Addressee(name string) []byte {
	b := l.take(name, false)
	if *l.err == nil && len(b) != 20 && len(b) != 0 {
		l.fail(name, errAddressee)
		return nil
	}
	return b
}

// AccessList takes an access list of EIP-2930 and answers its items, for EachAccess.
func (l *List) AccessList() []byte {
	list := l.List("accessList")
	items := list.rest
	list.eachAccess(func([]byte, int) {})
	return items
}

func (l *List) eachAccess(each func(address []byte, slots int)) {
	for l.More() {
		entry := l.List("accessList")
		address, n := entry.FixedBytes("accessList.address", 20), 0
		slots := entry.List("accessList.storageKeys")
		for ; slots.More(); n++ {
			slots.FixedBytes("accessList.storageKeys", 32)
		}
		if entry.End("accessList"); l.Err() == nil {
			each(address, n)
		}
	}
}

// EachAccess goes through the items that AccessList has answered: an address, and how many of its slots.
func EachAccess(items []byte, each func(address []byte, slots int)) { Items(items).eachAccess(each) }

// Items begins reading the items of a list that has been taken apart already, such as those that Unread answers.
func Items(items []byte) *List { return &List{rest: items, err: new(error)} }

// Number takes a number of up to size bytes, as big-endian bytes without
// leading zeros; zero is empty.
func (l *List) Number(name string, size int) []byte {
	b := l.take(name, false)
	switch {
	case len(b) > 0 && b[0] == 0:
		l.fail(name, errNumber)
	case len(b) > size:
		l.fail(name, errTooLarge)
	default:
		return b
	}
	return nil
}

// Uint64 takes a number below 2^64.
func (l *List) Uint64(name string) uint64 {
	var n uint64
	for _, c := range l.Number(name, 8) {
		n = n<<8 | uint64(c)
	}
	return n
}

// Big takes a number below 2^256.
func (l *List) Big(name string) *big.Int { return new(big.Int).SetBytes(l.Number(name, 32)) }

// AppendBytes appends a byte string.
func AppendBytes(dst, b []byte) []byte {
	if len(b) == 1 && b[0] < stringHead {
		return append(dst, b[0])
	}
	return append(appendHead(dst, stringHead, len(b)), b...)
}

// AppendNumber appends a number given as big-endian bytes, leading zeros
// allowed.
func AppendNumber(dst, b []byte) []byte {
	return AppendBytes(dst, bytes.TrimLeft(b, "\x00"))
}

// AppendUint appends a number.
func AppendUint(dst []byte, n uint64) []byte {
	return AppendNumber(dst, binary.BigEndian.AppendUint64(make([]byte, 0, 8), n))
}

// AppendBig appends a number that is not negative; nil is zero.
func AppendBig(dst []byte, n *big.Int) []byte {
	if n == nil {
		return AppendBytes(dst, nil)
	}
	return AppendBytes(dst, n.Bytes())
}

// AppendList appends a list of items that are encoded already, in parts.
func AppendList(dst []byte, parts ...[]byte) []byte {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	dst = appendHead(slices.Grow(dst, size+9), listHead, size)
	for _, part := range parts {
		dst = append(dst, part...)
	}
	return dst
}

func appendHead(dst []byte, base byte, size int) []byte {
	if size <= short {
		return append(dst, base+byte(size))
	}
	n := 1
	for size>>(8*n) != 0 {
		n++
	}
	dst = append(dst, base+short+byte(n))
	for ; n > 0; n-- {
		dst = append(dst, byte(size>>(8*(n-1))))
	}
	return dst
}
