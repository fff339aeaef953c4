package api

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// The server's buffer holds 4 KiB, which is less than most replies: those would leave in
// two system calls and two segments. So a connection keeps what is written to it while a
// reply is, and sends it as one.

// longest is how much of a reply is kept; what is longer leaves in many pieces anyway.
const longest = 64 << 10

// Whole makes connections that send a reply as one. The server of API.Server takes the
// others too.
func Whole(l net.Listener) net.Listener { return wholeListener{l} }

type wholeListener struct{ net.Listener }

func (l wholeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if h, ok := c.(halfCloser); ok {
		return &wholeConn{halfCloser: h}, err
	}
	return c, err
}

// A halfCloser is a connection as net/http wants it: it ends its own half first.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

type wholeConn struct {
	halfCloser

	mu   sync.Mutex // TLS answers some records from its reader
	kept *[]byte    // while a reply is written
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

// whole keeps what is written by write, and sends it. The server does not learn that
// this failed, and must not go on behind half a reply.
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
			_ = c.halfCloser.Close() // nobody is left to tell
		}
		*b = (*b)[:0]
		buffers.Put(b)
	}()
	write()
}

type wholeKey struct{}

// remember has the requests of a connection know it.
func remember(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	if w, ok := c.(*wholeConn); ok {
		return context.WithValue(ctx, wholeKey{}, w)
	}
	return ctx
}

// writeWhole is write, in one piece where the connection can do that. One of HTTP/2
// carries other replies too.
func writeWhole(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	c, ok := r.Context().Value(wholeKey{}).(*wholeConn)
	if !ok || r.ProtoMajor != 1 || len(body) > longest {
		write(w, status, body)
		return
	}
	c.whole(func() {
		write(w, status, body)
		_ = http.NewResponseController(w).Flush() // what stays in the server's buffer leaves behind this
	})
}
