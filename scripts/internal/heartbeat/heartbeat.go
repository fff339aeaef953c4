// Package heartbeat answers an enclave's heartbeat, as nitro-cli does on the parent instance.
package heartbeat

import (
	"fmt"
	"io"
	"time"

	"github.com/mdlayher/vsock"
)

const port = 9000

// Answer says READY, waits for the heartbeat, answers it, and prints it with the context id that it came from.
func Answer(patience time.Duration) error {
	l, err := vsock.Listen(port, nil)
	if err != nil {
		return fmt.Errorf("waiting for the heartbeat: %w", err)
	}
	defer l.Close()
	fmt.Println("READY")
	if err := l.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return fmt.Errorf("waiting for the heartbeat: %w", err)
	}
	defer c.Close()
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if _, err := c.Write(b); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	from, ok := c.RemoteAddr().(*vsock.Addr)
	if !ok {
		return fmt.Errorf("heartbeat from %v", c.RemoteAddr())
	}
	fmt.Printf("HEARTBEAT %#x %d\n", b[0], from.ContextID)
	return nil
}
