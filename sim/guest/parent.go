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
	"golang.org/x/sys/unix"
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
	if err := mount(); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", state, err)
	}
	if err := load(modules); err != nil {
		return err
	}
	if err := address("lo", net.IPv4(127, 0, 0, 1)); err != nil {
		return err
	}
	// What QEMU's user network calls a guest.
	if err := address("eth0", net.IPv4(10, 0, 2, 15)); err != nil {
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

// address gives an interface an address in a network of 24 bits and turns it on.
func address(name string, ip net.IP) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	for _, step := range []struct {
		request uint
		set     func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip.To4()) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		r, err := unix.NewIfreq(name)
		if err == nil {
			err = step.set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(s, step.request, r)
		}
		if err != nil {
			return fmt.Errorf("setting up %s: %w", name, err)
		}
	}
	return nil
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
