package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cloister/enclave/internal/pid1"
)

// system is the kernel under this process.
type system struct{ fs.FS }

var linux pid1.System = system{os.DirFS("/")}

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

// reap takes the exit status of orphans.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	pid1.Reap(context.Background(), ended, func() bool {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		return err == nil && pid > 0
	})
}

// drained is how long the console may take for what was written to it.
const drained = time.Second

// stop ends the process. The first process ends the machine, since the kernel would panic if
// it exited. It waits for the console, which says why and is slower than a reboot, but not
// for long: the parent empties it.
func stop(first bool, status int) {
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
