package cuse_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"cloister/sim/cuse"
)

var le = binary.LittleEndian

// kernel is the other side of /dev/cuse: what it asks, in order, and what it is
// answered.
type kernel struct {
	asks    [][]byte
	answers [][]byte
}

func (k *kernel) Read(b []byte) (int, error) {
	if len(k.asks) == 0 {
		return 0, io.EOF
	}
	n := copy(b, k.asks[0])
	k.asks = k.asks[1:]
	return n, nil
}

func (k *kernel) Write(b []byte) (int, error) {
	k.answers = append(k.answers, bytes.Clone(b))
	return len(b), nil
}

func ask(op uint32, body ...[]byte) []byte {
	all := bytes.Join(body, nil)
	b := le.AppendUint32(nil, uint32(40+len(all)))
	b = le.AppendUint32(b, op)
	b = le.AppendUint64(b, 7)
	return append(append(b, make([]byte, 24)...), all...)
}

const nsm = 0xC0200A00

func ioctl(cmd uint32, content []byte) []byte {
	b := make([]byte, 32)
	le.PutUint32(b[12:], cmd)
	le.PutUint64(b[16:], 0x1000)
	le.PutUint32(b[24:], uint32(len(content)))
	return ask(39, b, content)
}

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = le.AppendUint64(b, w)
	}
	return b
}

func serve(t *testing.T, exchange cuse.Exchange, asks ...[]byte) [][]byte {
	t.Helper()
	k := &kernel{asks: asks}
	if err := cuse.Serve(k, "nsm", exchange, func() {}); !errors.Is(err, io.EOF) {
		t.Fatalf("ended with %v", err)
	}
	return k.answers
}

func TestOneExchange(t *testing.T) {
	exchange := func(request, response []byte) (int, error) {
		if string(request) != "question" || len(response) != 0x3000 {
			t.Errorf("asked %q with room for %d", request, len(response))
		}
		return copy(response, "answer"), nil
	}
	argument := words(0x2000, 8, 0x3000, 0x3000)
	got := serve(t, exchange, ask(4096, make([]byte, 16)), ask(14, make([]byte, 8)),
		ioctl(nsm, nil), ioctl(nsm, argument), ioctl(nsm, append(bytes.Clone(argument), "question"...)), ask(18, make([]byte, 24)))
	if !bytes.HasSuffix(got[0], []byte("DEVNAME=nsm\x00")) || len(got[0]) != 16+72+12 || le.Uint32(got[0][16+12:]) != 1 {
		t.Errorf("introduced itself as %q", got[0])
	}
	if want := append(le.AppendUint32(le.AppendUint32(le.AppendUint32(make([]byte, 4), 4), 1), 0), words(0x1000, 32)...); !bytes.Equal(got[2][16:], want) {
		t.Errorf("first wants %x", got[2][16:])
	}
	want := append(le.AppendUint32(le.AppendUint32(le.AppendUint32(make([]byte, 4), 4), 2), 2),
		words(0x1000, 32, 0x2000, 8, 0x1000, 32, 0x3000, 0x3000)...)
	if !bytes.Equal(got[3][16:], want) {
		t.Errorf("then wants %x", got[3][16:])
	}
	want = append(append(make([]byte, 16), words(0x2000, 8, 0x3000, 6)...), "answer"...)
	if !bytes.Equal(got[4][16:], want) {
		t.Errorf("at last says %x", got[4][16:])
	}
	for i, a := range got {
		if int(le.Uint32(a)) != len(a) || le.Uint32(a[4:]) != 0 || le.Uint64(a[8:]) != 7 {
			t.Errorf("answer %d begins with %x", i, a[:16])
		}
	}
}

func TestRefused(t *testing.T) {
	silent := func([]byte, []byte) (int, error) { return 0, errors.New("silent") }
	for _, c := range []struct {
		name  string
		ask   []byte
		errno int32
	}{
		{"reading", ask(15, make([]byte, 40)), 38},
		{"another ioctl", ioctl(0x5401, nil), 25},
		{"an ioctl cut short", ask(39, make([]byte, 8)), 22},
		{"a length that is not the content's", ask(39, words(0, 0xC0200A00<<32, 0, 5)), 22},
		{"an argument cut short", ioctl(nsm, words(1, 2)), 22},
		{"no request", ioctl(nsm, words(1, 0, 2, 3)), 90},
		{"a request over 4 KiB", ioctl(nsm, words(1, 0x1001, 2, 3)), 90},
		{"no room", ioctl(nsm, words(1, 8, 2, 0)), 22},
		{"more than was asked for", ioctl(nsm, append(words(1, 1, 2, 9), "two"...)), 22},
		{"a module that fails", ioctl(nsm, append(words(1, 3, 2, 9), "two"...)), 5},
	} {
		got := serve(t, silent, c.ask)
		if len(got) != 1 || len(got[0]) != 16 || int32(le.Uint32(got[0][4:])) != -c.errno {
			t.Errorf("%s: %x", c.name, got)
		}
	}
	if err := cuse.Serve(&kernel{asks: [][]byte{{1, 2, 3}}}, "nsm", silent, nil); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a message of three bytes: %v", err)
	}
	if got := serve(t, silent, ask(36, make([]byte, 8))); len(got) != 0 {
		t.Errorf("an interrupt was answered: %x", got)
	}
}
