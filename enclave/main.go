// Command cloister-enclave is the enclave of production: the Nitro security module, vsock,
// and core. It takes no flags and reads no environment: the manifest says what it runs as. In
// an image of its own it is the first process, /init, and does what that must (package pid1).
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"time"

	"cloister/enclave/core"
	"cloister/enclave/internal/guest"
	"cloister/shared/collector"
	"cloister/shared/slack"
	"cloister/shared/yield"
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
	guest.Stop(first, exitFailed)
}

// run serves until it cannot, and says why.
func run(first bool) error {
	collector.Spare(core.SpareBytes)
	collector.Limit()
	device, err := guest.Start(first)
	if err != nil {
		return err
	}
	if first {
		go guest.Reap()
	}
	if err := slack.Allow(guest.Kernel, guest.Kernel.Write); err != nil {
		return err
	}
	sum, err := measure()
	if err != nil {
		return err
	}
	fenced := func(reason error) {
		fmt.Fprintln(os.Stderr, "cloister-enclave: fenced:", reason)
		guest.Stop(first, exitFenced)
	}
	c := core.New(core.Config{
		Device: device, Clock: guest.Clock{Device: device}, Rand: rand.Reader, ApplicationDigest: sum,
		Elapsed: guest.Monotonic(), Yield: yield.Thread,
		Fence: fenced,
	})
	l, err := guest.Listen(port, first)
	if err != nil {
		return err
	}
	go func() { fenced(device.KeepTime(context.Background(), time.After)) }()
	fmt.Fprintln(os.Stderr, "cloister-enclave: listening")
	return c.Serve(context.Background(), l)
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
