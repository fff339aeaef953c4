package rlp_test

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/rlp"
)

// again writes what it reads, to any depth.
func again(l *rlp.List) []byte {
	var out []byte
	for l.More() {
		if l.AtList() {
			out = append(out, again(l.List("list"))...)
		} else {
			out = rlp.AppendBytes(out, l.Bytes("bytes"))
		}
	}
	return rlp.AppendList(nil, out)
}

// The examples of the Ethereum wiki that are lists, and the borders of the forms.
func TestRead(t *testing.T) {
	for _, c := range []string{
		"c0", "c88363617483646f67", "c7c0c1c0c3c0c1c0", "c50f00827fff", "c3820400", "c28180",
		"f838" + strings.Repeat("01", 56),
		"f83a" + "b838" + strings.Repeat("ff", 56),
		"f84b" + "b7" + strings.Repeat("ff", 55) + strings.Repeat("c0", 19),
	} {
		b := unhex(t, c)
		l := rlp.Open(b)
		if got := again(l); l.Err() != nil || !bytes.Equal(got, b) {
			t.Errorf("%s: %x, %v", c, got, l.Err())
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ in, fault string }{
		{"", "the encoding is missing"},
		{"80", "the encoding must be a list"},
		{"01", "the encoding must be a list"},
		{"b8", "the encoding ends too early"},
		{"c0c0", "the encoding has bytes left over"},
		{"c000", "the encoding has bytes left over"},
		{"c1", "the encoding ends too early"},
		{"c201", "the encoding ends too early"},
		{"c28101", "bytes is not in the shortest form"},
		{"c2817f", "bytes is not in the shortest form"},
		{"c281", "the encoding ends too early"},
		{"c181", "bytes ends too early"},
		{"c1c1", "list ends too early"},
		{"c1b8", "bytes ends too early"},
		{"c1f8", "list ends too early"},
		{"f80101", "the encoding is not in the shortest form"},
		{"f837" + strings.Repeat("01", 55), "the encoding is not in the shortest form"},
		{"f90038" + strings.Repeat("01", 56), "the encoding is not in the shortest form"},
		{"f838" + strings.Repeat("01", 55), "the encoding ends too early"},
		{"f838" + strings.Repeat("01", 57), "the encoding has bytes left over"},
		{"c3b80101", "bytes is not in the shortest form"},
		{"ffffffffffffffffff", "the encoding ends too early"},
		{"ff7fffffffffffffff", "the encoding ends too early"},
		{"ff0000000000000001", "the encoding is not in the shortest form"},
		{"fbffffffff", "the encoding ends too early"},
		{"c9bfffffffffffffffff", "bytes ends too early"},
		{"c9ffffffffffffffffff", "list ends too early"},
		{"c5bbffffffff", "bytes ends too early"},
	} {
		l := rlp.Open(unhex(t, c.in))
		again(l)
		if l.Err() == nil || l.Err().Error() != c.fault {
			t.Errorf("%s: %v, want %s", c.in, l.Err(), c.fault)
		}
	}
}

func TestItems(t *testing.T) {
	for _, c := range []struct {
		in    string
		read  func(*rlp.List)
		fault string
	}{
		{"c101", func(l *rlp.List) { l.Uint64("n") }, ""},
		{"c180", func(l *rlp.List) { l.Uint64("n") }, ""},
		{"c988ffffffffffffffff", func(l *rlp.List) { l.Uint64("n") }, ""},
		{"ca89010000000000000000", func(l *rlp.List) { l.Uint64("n") }, "n is too large a number"},
		{"c100", func(l *rlp.List) { l.Uint64("n") }, "n is a number with leading zeros"},
		{"c3820001", func(l *rlp.List) { l.Uint64("n") }, "n is a number with leading zeros"},
		{"c3820080", func(l *rlp.List) { l.Big("n") }, "n is a number with leading zeros"},
		{"c1c0", func(l *rlp.List) { l.Uint64("n") }, "n must be a byte string, not a list"},
		{"e1a0" + strings.Repeat("ff", 32), func(l *rlp.List) { l.Big("n") }, ""},
		{"e2a101" + strings.Repeat("00", 32), func(l *rlp.List) { l.Big("n") }, "n is too large a number"},
		{"c0", func(l *rlp.List) { l.Big("n") }, "n is missing"},
		{"c0", func(l *rlp.List) { l.List("n") }, "n is missing"},
		{"c101", func(l *rlp.List) { l.List("n") }, "n must be a list"},
		{"c180", func(l *rlp.List) { l.List("n") }, "n must be a list"},
		{"c180", func(l *rlp.List) { l.Addressee("n") }, ""},
		{"d594" + strings.Repeat("00", 20), func(l *rlp.List) { l.Addressee("n") }, ""},
		{"d493" + strings.Repeat("00", 19), func(l *rlp.List) { l.Addressee("n") }, "n must be 20 bytes or empty"},
		{"d695" + strings.Repeat("00", 21), func(l *rlp.List) { l.Addressee("n") }, "n must be 20 bytes or empty"},
		{"c1c0", func(l *rlp.List) { l.Addressee("n") }, "n must be a byte string, not a list"},
		{"c180", func(l *rlp.List) { l.FixedBytes("n", 32) }, "n must be 32 bytes"},
		{"c20102", func(l *rlp.List) { l.Uint64("n") }, "the end has bytes left over"},
		{"c2c101", func(l *rlp.List) { in := l.List("n"); in.End("n") }, "n has bytes left over"},
		{"c1c2", func(l *rlp.List) { l.List("n") }, "n ends too early"},
		{"c3c201c0", func(l *rlp.List) { in := l.List("n"); in.Uint64("a"); in.Uint64("b") }, "b must be a byte string, not a list"},
		{"c2c180", func(l *rlp.List) { in := l.List("n"); in.Fail("n", "says %d", 1); l.Fail("n", "again") }, "n says 1"},
	} {
		l := rlp.Open(unhex(t, c.in))
		c.read(l)
		l.End("the end")
		if got := l.Err(); (got == nil) != (c.fault == "") || got != nil && got.Error() != c.fault {
			t.Errorf("%s: %v, want %q", c.in, got, c.fault)
		}
	}
}

// After a fault everything is zero, in the list and in those around it.
func TestAfterFault(t *testing.T) {
	l := rlp.Open(unhex(t, "d0c20001018180c0880102030405060708"))
	in := l.List("in")
	in.Uint64("zero")
	if in.Err() == nil || l.Err() == nil || l.More() || in.More() || l.AtList() || l.Left() != 0 || l.Uint64("n") != 0 || l.Bytes("b") != nil ||
		l.Big("n").Sign() != 0 || l.List("l").More() || l.FixedBytes("f", 1) != nil || l.Addressee("a") != nil {
		t.Errorf("something is answered after %v", l.Err())
	}
}

func TestLeft(t *testing.T) {
	l := rlp.Open(unhex(t, "c60180c0c20102"))
	for want := 4; want >= 0; want-- {
		if got := l.Left(); got != want {
			t.Errorf("%d items are left, want %d", got, want)
		}
		if l.AtList() {
			l.List("list")
		} else if want > 0 {
			l.Bytes("bytes")
		}
	}
	if l = rlp.Open(unhex(t, "c30180b8")); l.Left() != 0 || l.Err() == nil {
		t.Errorf("%v", l.Err())
	}
}

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{rlp.AppendBytes(nil, nil), "80"},
		{rlp.AppendBytes(nil, []byte{0}), "00"},
		{rlp.AppendBytes(nil, []byte{0x7f}), "7f"},
		{rlp.AppendBytes(nil, []byte{0x80}), "8180"},
		{rlp.AppendBytes(nil, []byte("dog")), "83646f67"},
		{rlp.AppendBytes(nil, []byte("Lorem ipsum dolor sit amet, consectetur adipisicing elit")),
			"b8384c6f72656d20697073756d20646f6c6f722073697420616d65742c20636f6e7365637465747572206164697069736963696e6720656c6974"},
		{rlp.AppendBytes(nil, make([]byte, 55))[:1], "b7"},
		{rlp.AppendBytes(nil, make([]byte, 256))[:3], "b90100"},
		{rlp.AppendBytes(nil, make([]byte, 65536))[:4], "ba010000"},
		{rlp.AppendList(nil), "c0"},
		{rlp.AppendList(nil, make([]byte, 50), make([]byte, 5))[:1], "f7"},
		{rlp.AppendList(nil, make([]byte, 56))[:2], "f838"},
		{rlp.AppendList(nil, make([]byte, 1<<24))[:5], "fb01000000"},
		{rlp.AppendUint(nil, 0), "80"},
		{rlp.AppendUint(nil, 15), "0f"},
		{rlp.AppendUint(nil, 1024), "820400"},
		{rlp.AppendUint(nil, 1<<64-1), "88ffffffffffffffff"},
		{rlp.AppendNumber(nil, []byte{0, 0, 0}), "80"},
		{rlp.AppendNumber(nil, []byte{0, 0, 1, 0}), "820100"},
		{rlp.AppendBig(nil, nil), "80"},
		{rlp.AppendBig(nil, new(big.Int)), "80"},
		{rlp.AppendBig([]byte{1}, big.NewInt(300)), "0182012c"},
	} {
		if hex.EncodeToString(c.got) != c.want {
			t.Errorf("%x, want %s", c.got, c.want)
		}
	}
}

// FuzzList: what is read without a fault is, written again, the same bytes.
func FuzzList(f *testing.F) {
	for _, s := range []string{"c0", "c88363617483646f67", "c7c0c1c0c3c0c1c0", "f80101", "c28101", "ffffffffffffffffff"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := rlp.Open(b)
		n := l.Left()
		if got := again(l); l.Err() == nil && !bytes.Equal(got, b) {
			t.Errorf("%x, written again %x", b, got)
		}
		if l.Err() == nil && n > len(b) {
			t.Errorf("%d items in %d bytes", n, len(b))
		}
	})
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
