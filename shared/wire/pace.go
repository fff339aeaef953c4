package wire

import (
	"bufio"
	"runtime"
	"time"
)

// A pacedReader gives a frame that was begun its time-out, and only then: when
// whole frames arrive in one read, which is the usual case, no deadline is set.
type pacedReader struct {
	conn   *Conn
	frames uint64
	begun  bool // part of the frame is here, or must come soon
	timed  bool // its deadline is set
	stale  bool // a deadline of an earlier frame may stand
}

// first tells that no frame has come yet.
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

// write sends what is queued. It flushes only when the queue is empty, and lets the others run once before
// that: under load many frames leave in one system call.
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

// extend moves the write deadline on when a quarter of it is used up: setting
// it for each flush costs more than the flush's share of the work.
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

// send writes a batch, or flushes if there is none.
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
