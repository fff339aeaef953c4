// Package porttest gives tests addresses for servers that they do not start themselves: a port that another process
// binds later, or that is bound again after a restart.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The ports that are given out lie below the kernel's ephemeral range: no connection and no listener at port 0 gets one.
const lowest, ports = 20_000, 12_000

// Address is a loopback address at which nobody listens. It is the test's own until it ends, also among the packages
// that go test runs beside each other.
func Address(t testing.TB) string {
	t.Helper()
	for _, i := range rand.Perm(ports) {
		address, release, err := reserve(lowest + i)
		if err != nil {
			t.Fatal(err)
		}
		if release != nil {
			t.Cleanup(release)
			return address
		}
	}
	t.Fatalf("none of %d ports is free", ports)
	return ""
}

// reserve locks the port's file. Without release the port is another's: reserved, or listened at.
func reserve(port int) (address string, release func(), err error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("cloister-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address, func() { _ = lock.Close() }, nil
		}
	}
	_ = lock.Close()
	return "", nil, nil
}
