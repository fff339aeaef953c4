// Command cloister-enclave is the enclave of production: the Nitro security
// module, vsock, and core. It takes no flags and reads no environment; what it
// is started as, the manifest says.
//
// The sources of the root secret for production (operators' shares, a key
// service, a live enclave) are not built yet: at the door boot, genesis and
// manifest answer UNIMPLEMENTED.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/mdlayher/vsock"

	"cloister/enclave/core"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/nsm"
	"cloister/shared/collector"
)

// port is where the enclave listens; parent is the only peer it takes.
const (
	port   = 5000
	parent = 3
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cloister-enclave:", err)
		os.Exit(1)
	}
}

func run() error {
	collector.Spare(core.SpareBytes)
	device, err := nsm.Open(time.Now)
	if err != nil {
		return err
	}
	if err := seed(device); err != nil {
		return err
	}
	sum, err := measure()
	if err != nil {
		return err
	}
	c := core.New(core.Config{
		Device: device, Clock: clock{device}, Rand: rand.Reader, Root: unprovisioned{}, ApplicationDigest: sum,
		Fence: func(error) { os.Exit(3) },
	})
	l, err := vsock.ListenContextID(vsock.Local, port, nil)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return c.Serve(context.Background(), parentOnly{l})
}

// seed mixes the module's randomness into the kernel's pool before the first
// key is made, so that the kernel's own sources are never the only ones.
func seed(d *nsm.Device) error {
	var b [64]byte
	defer clear(b[:])
	if err := d.Random(b[:]); err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	_, err = f.Write(b[:])
	return errors.Join(err, f.Close())
}

// measure is the SHA-256 of this program as it runs.
func measure() (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("measuring this program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("measuring this program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// clock is the module's time of day with a monotonic reading beside it.
type clock struct{ d *nsm.Device }

func (c clock) Now() time.Time                       { return c.d.Now() }
func (clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// unprovisioned is the root secret of a deployment that cannot be made yet.
type unprovisioned struct{}

var errUnprovisioned = fault.New(fault.Unimplemented, "UNIMPLEMENTED: provisioning of a real enclave")

func (unprovisioned) Source() string           { return "" }
func (unprovisioned) Recover() ([]byte, error) { return nil, errUnprovisioned }
func (unprovisioned) Keep([]byte) error        { return errUnprovisioned }

// parentOnly drops whoever is not the parent instance.
type parentOnly struct{ *vsock.Listener }

func (l parentOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if a, ok := c.RemoteAddr().(*vsock.Addr); ok && a.ContextID == parent {
			return c, nil
		}
		_ = c.Close()
	}
}
