// Command cloister-enclave is the enclave of production: the Nitro security module, vsock,
// and core. It takes no flags and reads no environment: the manifest says what it runs as. In
// an image of its own it is the first process, /init, and does what that must (package pid1).
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/mdlayher/vsock"

	"cloister/enclave/core"
	"cloister/enclave/internal/nsm"
	"cloister/enclave/internal/pid1"
	"cloister/shared/collector"
	"cloister/shared/slack"
)

// port is the vsock port on which the enclave listens for its parent.
const port = 5000

// Exit statuses where the enclave is not the first process.
const (
	exitFailed = 1
	exitFenced = 3
)

func main() {
	first := os.Getpid() == 1
	fmt.Fprintln(os.Stderr, "cloister-enclave:", run(first))
	stop(first, exitFailed)
}

// run serves until it cannot, and says why.
func run(first bool) error {
	collector.Spare(core.SpareBytes)
	if first {
		if err := pid1.Prepare(linux); err != nil {
			return err
		}
		go reap()
	}
	if err := pid1.Harden(linux); err != nil {
		return err
	}
	if err := slack.Allow(linux, linux.Write); err != nil {
		return err
	}
	var device *nsm.Device
	if err := pid1.Await(patience, pause, absent, func() (err error) {
		device, err = nsm.Open(time.Now)
		return err
	}); err != nil {
		return err
	}
	if err := pid1.Seed(linux, device.Random); err != nil {
		return err
	}
	sum, err := measure()
	if err != nil {
		return err
	}
	fenced := func(reason error) {
		fmt.Fprintln(os.Stderr, "cloister-enclave: fenced:", reason)
		stop(first, exitFenced)
	}
	c := core.New(core.Config{
		Device: device, Clock: clock{device}, Rand: rand.Reader, ApplicationDigest: sum,
		Fence: fenced,
	})
	var l *vsock.Listener
	if err := pid1.Await(patience, pause, absent, func() (err error) {
		l, err = vsock.Listen(port, nil)
		return err
	}); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if first {
		if err := heartbeat(); err != nil {
			return err
		}
	}
	go func() { fenced(device.Follow(context.Background(), time.After)) }()
	fmt.Fprintln(os.Stderr, "cloister-enclave: listening")
	return c.Serve(context.Background(), parentOnly{l})
}

// patience is how often a device, or the parent, is looked for: 30 seconds of pauses.
const patience = 300

func pause() { time.Sleep(100 * time.Millisecond) }

// absent tells whether a device is not there yet.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// heartbeat tells the parent that this enclave runs.
func heartbeat() error {
	return pid1.Await(patience, pause, func(error) bool { return true }, func() error {
		c, err := vsock.Dial(pid1.ParentCID, pid1.HeartbeatPort, nil)
		if err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
		return pid1.Heartbeat(c, time.Now().Add(5*time.Second))
	})
}

// measure is the SHA-256 of this program as it runs.
func measure() (string, error) {
	h := sha256.New()
	f, err := os.Open("/proc/self/exe")
	if err == nil {
		defer f.Close()
		_, err = io.Copy(h, f)
	}
	if err != nil {
		return "", fmt.Errorf("measuring this program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// clock is the module's time of day with a monotonic reading beside it.
type clock struct{ device *nsm.Device }

func (c clock) Now() time.Time                       { return c.device.Now() }
func (clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// parentOnly takes connections from the parent instance alone.
type parentOnly struct{ *vsock.Listener }

func (l parentOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if a, ok := c.RemoteAddr().(*vsock.Addr); ok && a.ContextID == pid1.ParentCID {
			return c, nil
		}
		_ = c.Close()
	}
}
