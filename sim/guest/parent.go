package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mdlayher/vsock"

	"cloister/sim/guest/setup"
)

// The parent's guest.
const (
	modules       = "/modules"
	state         = "/state"     // a file system in memory, for the host's store
	hostProgram   = "/host"      // the host
	hostArguments = "/host.args" // its arguments, a line each
	heartbeats    = 9000
	enclaveID     = 16
	enclavePort   = 5000
	relayPort     = 5000
)

// parent is the parent instance: it answers the enclave's heartbeat, relays to
// the enclave what comes by TCP, and runs the host until that ends.
func parent() error {
	if err := setup.Mount(state); err != nil {
		return err
	}
	if err := setup.Load(modules); err != nil {
		return err
	}
	if err := setup.Address("lo", net.IPv4(127, 0, 0, 1)); err != nil {
		return err
	}
	// What QEMU's user network calls a guest.
	if err := setup.Address("eth0", net.IPv4(10, 0, 2, 15)); err != nil {
		return err
	}
	beats, err := vsock.Listen(heartbeats, nil)
	if err != nil {
		return fmt.Errorf("waiting for heartbeats: %w", err)
	}
	go answer(beats)
	calls, err := net.Listen("tcp", fmt.Sprintf(":%d", relayPort))
	if err != nil {
		return err
	}
	go relay(calls)
	text, err := os.ReadFile(hostArguments)
	if err != nil {
		return err
	}
	c := exec.Command(hostProgram, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	c.Stdout, c.Stderr, c.Dir = os.Stdout, os.Stderr, state
	return fmt.Errorf("the host ended: %w", c.Run())
}

// answer answers heartbeats, as nitro-cli does.
func answer(l *vsock.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err == nil {
			fmt.Printf("guest: heartbeat %#x from %v\n", b[0], c.RemoteAddr())
			_, _ = c.Write(b)
		}
		_ = c.Close()
	}
}

// relay carries connections by TCP to the enclave.
func relay(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			e, err := vsock.Dial(enclaveID, enclavePort, nil)
			if err != nil {
				return
			}
			defer e.Close()
			done := make(chan struct{}, 2)
			carry := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				done <- struct{}{}
			}
			go carry(e, c)
			go carry(c, e)
			<-done
			time.Sleep(50 * time.Millisecond) // what is on its way back
		}()
	}
}
