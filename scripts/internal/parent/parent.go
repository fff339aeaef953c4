// Package parent is what the guests have in common that stand for a parent instance: they are /init, and answer the enclave's
// heartbeat as nitro-cli does.
package parent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"cloister/attestation"
	"cloister/sim/guest/setup"
)

const port = 9000

// Run sets the guest up, answers the heartbeat within patience, runs play with the image's release, and ends the guest. It prints
// DONE last, and before that FAILED with the error if there was one.
func Run(patience time.Duration, play func(*attestation.Release) error) {
	release, err := begin()
	if err == nil {
		err = answer(patience)
	}
	if err == nil {
		err = play(release)
	}
	if err != nil {
		fmt.Println("FAILED", err)
	}
	fmt.Println("DONE")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func begin() (*attestation.Release, error) {
	if os.Getpid() != 1 {
		return nil, errors.New("this is /init of a guest")
	}
	if err := setup.Mount("/state"); err != nil {
		return nil, err
	}
	if err := setup.Load("/modules"); err != nil {
		return nil, err
	}
	if err := setup.Address("lo", net.IPv4(127, 0, 0, 1)); err != nil { // where the host listens
		return nil, err
	}
	raw, err := os.ReadFile("/release.json")
	if err != nil {
		return nil, err
	}
	return attestation.ParseRelease(raw)
}

// answer says READY, waits for the heartbeat, answers it, and prints it with the context id that it came from.
func answer(patience time.Duration) error {
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
