package wire

import (
	"bufio"
	"runtime"
	"time"
)

// A pacedReader reads from a connection with a deadline while a frame is incomplete. When
// whole frames arrive in one read, which is the usual case, it sets no deadline.
type pacedReader struct {
	conn   *Conn
	frames uint64
	begun  bool // the frame has begun, or must begin soon
	timed  bool // its deadline is set
	stale  bool // an earlier frame's deadline may still be set
}

// first reports whether no frame has been read yet.
func (p *pacedReader) first() bool { return p.frames == 0 }

func (p *pacedReader) Read(b []byte) (int, error) {
	if p.conn.options.FrameTimeout > 0 && !p.timed {
		if p.begun {
			if err := p.conn.nc.SetReadDeadline(p.conn.options.Now().Add(p.conn.options.FrameTimeout)); err != nil {
				return 0, err
			}
			p.timed, p.stale = true, true
		} else if p.stale {
			if err := p.conn.nc.SetReadDeadline(time.Time{}); err != nil {
				return 0, err
			}
			p.stale = false
		}
	}
	n, err := p.conn.nc.Read(b)
	p.begun = p.begun || n > 0
	return n, err
}

// write sends the queued frames until the connection ends. It flushes only when the queue is empty, and yields to
// other goroutines once before that, so that under load one system call sends many frames.
func (c *Conn) write() {
	w := bufio.NewWriterSize(c.nc, 64<<10)
	var deadline time.Time
	var spare []frame
	for yielded := false; ; {
		batch, open := c.next(spare)
		if !open {
			return
		}
		spare = batch // filled again only after the next swap
		if len(batch) == 0 {
			if w.Buffered() == 0 {
				c.sleep()
				continue
			}
			if !yielded {
				yielded = true
				runtime.Gosched()
				continue
			}
		}
		yielded = false
		if err := c.extend(&deadline); err != nil {
			c.fail(c.endReason(err))
			return
		}
		if err := c.send(w, batch); err != nil {
			c.fail(c.endReason(err))
			return
		}
	}
}

// next takes the queue and leaves spare in its place.
func (c *Conn) next(spare []frame) (batch []frame, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch, c.out = c.out, spare[:0]
	return batch, c.err == nil
}

// sleep waits until something is queued or the connection is closed.
func (c *Conn) sleep() {
	c.mu.Lock()
	if len(c.out) > 0 || c.err != nil {
		c.mu.Unlock()
		return
	}
	c.idle = true
	c.mu.Unlock()
	select {
	case <-c.wake:
	case <-c.done:
	}
}

// extend renews the write deadline when a quarter of it has passed. Renewing it
// for each flush would cost more than the flush.
func (c *Conn) extend(deadline *time.Time) error {
	if c.options.WriteTimeout <= 0 {
		return nil
	}
	now := c.options.Now()
	if deadline.Sub(now) > c.options.WriteTimeout*3/4 {
		return nil
	}
	*deadline = now.Add(c.options.WriteTimeout)
	return c.nc.SetWriteDeadline(*deadline)
}

// send writes a batch of frames, or flushes if the batch is empty.
func (c *Conn) send(w *bufio.Writer, batch []frame) error {
	if len(batch) == 0 {
		return w.Flush()
	}
	var size int64
	for _, f := range batch {
		if _, err := w.Write(appendHead(w.AvailableBuffer(), len(f.payload), f.id, f.kind)); err != nil {
			return err
		}
		if _, err := w.Write(f.payload); err != nil {
			return err
		}
		size += int64(len(f.payload)) + frameCost
		if f.written != nil {
			f.written()
		}
	}
	clear(batch)
	c.mu.Lock()
	c.waiting -= size
	c.mu.Unlock()
	return nil
}
