package api

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// net/http's write buffer holds 4 KiB, less than most replies, which would take two system
// calls and two segments. So a wholeConn buffers all writes of one reply and sends them
// together.

// longest is the longest reply that is buffered; a longer one takes many segments anyway.
const longest = 64 << 10

// Whole wraps a listener so that its connections send each reply in one write. The server of
// API.Server also accepts other connections.
func Whole(l net.Listener) net.Listener { return wholeListener{l} }

type wholeListener struct{ net.Listener }

func (l wholeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if h, ok := c.(halfCloser); ok {
		return &wholeConn{halfCloser: h}, err
	}
	return c, err
}

// A halfCloser is a connection that can close its write half, as net/http does first.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

type wholeConn struct {
	halfCloser

	mu   sync.Mutex // TLS also writes from its reading goroutine
	kept *[]byte    // the buffer; nil unless a reply is being written
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (c *wholeConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		return c.halfCloser.Write(b)
	}
	*c.kept = append(*c.kept, b...)
	return len(b), nil
}

// whole buffers everything that write writes and sends it in one write. If that fails, it
// closes the connection: net/http does not see the error, and must not send another reply.
func (c *wholeConn) whole(write func()) {
	c.mu.Lock()
	c.kept = buffers.Get().(*[]byte)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		b := c.kept
		c.kept = nil
		if _, err := c.halfCloser.Write(*b); err != nil {
			_ = c.halfCloser.Close() // the peer is gone: its error helps nobody
		}
		*b = (*b)[:0]
		buffers.Put(b)
	}()
	write()
}

type wholeKey struct{}

// remember puts a connection into the context of its requests; it is http.Server's ConnContext.
func remember(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	if w, ok := c.(*wholeConn); ok {
		return context.WithValue(ctx, wholeKey{}, w)
	}
	return ctx
}

// writeWhole is write, in one write where the connection is a wholeConn. It doesn't buffer
// HTTP/2, whose connection carries other replies at the same time.
func writeWhole(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	c, ok := r.Context().Value(wholeKey{}).(*wholeConn)
	if !ok || r.ProtoMajor != 1 || len(body) > longest {
		write(w, status, body)
		return
	}
	c.whole(func() {
		write(w, status, body)
		_ = http.NewResponseController(w).Flush() // empties net/http's buffer into ours
	})
}
