package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"cloister/host/api"
	"cloister/shared/wire"
)

// A counting listener counts what its connections are written.
type counting struct {
	net.Listener
	writes, longest atomic.Int64
	fails           atomic.Bool
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &counted{c.(*net.TCPConn), l}, nil
}

type counted struct {
	*net.TCPConn
	l *counting
}

func (c *counted) Write(b []byte) (int, error) {
	c.l.writes.Add(1)
	c.l.longest.Store(max(c.l.longest.Load(), int64(len(b))))
	if c.l.fails.Load() {
		n, _ := c.TCPConn.Write(b[:len(b)/2])
		return n, io.ErrShortWrite
	}
	return c.TCPConn.Write(b)
}

func listen(t *testing.T) *counting {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Listener: l}
}

// says has the enclave answer with so many bytes, the request's first ones first.
func says(r *rig, n int) (tail string) {
	tail = strings.Repeat("x", n)
	r.peer.mu.Lock()
	defer r.peer.mu.Unlock()
	r.answer = func(_ context.Context, c *wire.Call) *wire.Reply {
		return &wire.Reply{Status: 200, Body: append(c.Body, tail...)}
	}
	return tail
}

// A reply of any length up to 64 KiB is one write; connections serve on behind it.
func TestRepliesLeaveWhole(t *testing.T) {
	r, l := start(t, nil), listen(t)
	s := r.api.Server(r.api.Public(false))
	go func() { _ = s.Serve(api.Whole(l)) }()
	t.Cleanup(func() { s.Close() })
	for i, n := range []int{0, 1, 2047, 2048, 3500, 4095, 4096, 5500, 20_000, 64<<10 - 10} {
		tail := says(r, n)
		before := l.writes.Load()
		got := post(t, "http://"+l.Addr().String()+"/public/v1/query/x", fmt.Sprintf("%02d", i))
		if got.status != 200 || got.body != fmt.Sprintf("%02d", i)+tail {
			t.Fatalf("%d bytes: %d, %d bytes", n, got.status, len(got.body))
		}
		if writes := l.writes.Load() - before; writes != 1 {
			t.Errorf("%d bytes left in %d writes", n, writes)
		}
	}
	tail := says(r, 300_000) // nobody keeps as much
	if got := post(t, "http://"+l.Addr().String()+"/public/v1/query/x", "{}"); got.body != "{}"+tail {
		t.Errorf("%d bytes came", len(got.body))
	}
}

// Half a reply is the end of a connection: the next one would be read as its rest.
func TestHalfAReplyEndsTheConnection(t *testing.T) {
	r, l := start(t, nil), listen(t)
	s := r.api.Server(r.api.Public(false))
	go func() { _ = s.Serve(api.Whole(l)) }()
	t.Cleanup(func() { s.Close() })
	says(r, 6000)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l.fails.Store(true)
	const request = "POST /public/v1/query/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
	if _, err := io.WriteString(c, request+request); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(bufio.NewReader(c))
	if got := strings.Count(string(b), "HTTP/1.1 200"); got != 1 {
		t.Errorf("%d replies begun", got)
	}
}

// Over TLS too, by either protocol.
func TestRepliesLeaveWholeOverTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		r, l := start(t, nil), listen(t)
		s := httptest.NewUnstartedServer(nil)
		s.Config = r.api.Server(r.api.Public(false))
		s.Listener, s.EnableHTTP2 = api.Whole(l), h2
		s.StartTLS()
		t.Cleanup(s.Close)
		client := s.Client()
		for _, n := range []int{1, 5500, 64 << 10, 200_000} {
			tail := says(r, n)
			before := l.writes.Load()
			res, err := client.Post(s.URL+"/public/v1/query/x", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || string(b) != "{}"+tail || (res.ProtoMajor == 2) != h2 {
				t.Errorf("%s, %d bytes: %d came, %v", res.Proto, n, len(b), err)
			}
			if writes := l.writes.Load() - before; n == 5500 && !h2 && writes != 1 {
				t.Errorf("%s: %d bytes left in %d writes", res.Proto, n, writes)
			}
		}
	}
}
