// Package guest is the machine that a production enclave runs in: its kernel, the security module, and the way to the
// parent. What is done to them, and in which order, is package pid1's.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"runtime"
	"time"
	"unsafe"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"cloister/enclave/internal/nsm"
	"cloister/enclave/internal/pid1"
)

// system is the kernel under this process.
type system struct{ fs.FS }

// Kernel is the kernel under this process.
var Kernel pid1.System = system{os.DirFS("/")}

// Start makes the machine a place where an enclave may run: file systems and modules if this is the first process, no dump
// and no swap, the security module, and randomness from it.
func Start(first bool) (*nsm.Device, error) {
	if first {
		if err := pid1.Prepare(Kernel); err != nil {
			return nil, err
		}
	}
	if err := pid1.Harden(Kernel); err != nil {
		return nil, err
	}
	var device *nsm.Device
	if err := pid1.Await(patience, pause, isAbsent, func() (err error) {
		device, err = nsm.Open(time.Now)
		return err
	}); err != nil {
		return nil, err
	}
	return device, pid1.Seed(Kernel, device.Random)
}

// Listen listens to the parent alone, on a port of vsock, and, as the first process, tells it that the enclave runs.
func Listen(port uint32, first bool) (net.Listener, error) {
	var l *vsock.Listener
	if err := pid1.Await(patience, pause, isAbsent, func() (err error) {
		l, err = vsock.Listen(port, nil)
		return err
	}); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if first {
		if err := heartbeat(); err != nil {
			return nil, err
		}
	}
	return parentOnly{l}, nil
}

// patience is how often a device, or the parent, is looked for: 30 seconds of pauses.
const patience = 300

func pause() { time.Sleep(100 * time.Millisecond) }

// isAbsent tells whether a device is not there yet.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

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

// Clock is the module's time of day with a monotonic reading beside it.
type Clock struct{ Device *nsm.Device }

// Now is the module's time.
func (c Clock) Now() time.Time { return c.Device.Now() }

// After is a timer.
func (Clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Monotonic is a monotonic clock that begins now.
func Monotonic() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

func (system) Mount(kind, target string, m pid1.Mount) error {
	flags := uintptr(unix.MS_NOSUID)
	if m.NoDevices {
		flags |= unix.MS_NODEV
	}
	if m.NoExecution {
		flags |= unix.MS_NOEXEC
	}
	if err := os.Mkdir(target, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// EBUSY: it is mounted there already.
	if err := unix.Mount(kind, target, kind, flags, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return err
	}
	return nil
}

func (system) LoadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

func (system) Write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (system) NoCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func (system) Release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// Requests of random(4).
const (
	addEntropy = 0x40085203 // RNDADDENTROPY: _IOW('R', 3, two ints)
	reseed     = 0x5207     // RNDRESEEDCRNG: _IO('R', 7)
)

// pool is struct rand_pool_info.
type pool struct {
	bits, size int32
	bytes      [256]byte
}

func (system) AddEntropy(b []byte) error {
	var p pool
	defer clear(p.bytes[:])
	n := copy(p.bytes[:], b)
	if n < len(b) {
		return errors.New("more than fits")
	}
	p.bits, p.size = int32(8*n), int32(n)
	f, err := os.OpenFile("/dev/random", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), addEntropy, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(&p)
	if errno != 0 {
		return errno
	}
	return unix.IoctlSetInt(int(f.Fd()), reseed, 0)
}

// Reap takes the exit status of orphans, for ever: for a first process that starts no child of its own.
func Reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	pid1.Reap(context.Background(), ended, func() bool {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		return err == nil && pid > 0
	})
}

// drained is how long the console may take for what was written to it.
const drained = time.Second

// Stop ends the process. The first process ends the machine, since the kernel would panic if
// it exited. It waits for the console, which says why and is slower than a reboot, but not
// for long: the parent empties it.
func Stop(first bool, status int) {
	if first {
		empty := make(chan error, 1)
		go func() { empty <- unix.IoctlSetInt(int(os.Stderr.Fd()), unix.TCSBRK, 1) }() // tcdrain(3)
		select {
		case <-empty:
		case <-time.After(drained):
		}
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // how an enclave ends
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
	os.Exit(status)
}
