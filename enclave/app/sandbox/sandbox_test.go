package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/enclave/app/sandbox"
	"cloister/shared/program"
)

// This test is the program that it runs, and what becomes that program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "enter" {
		fmt.Fprintln(os.Stderr, sandbox.Enter(os.Args[2:]))
		os.Exit(9)
	}
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		probe()
		os.Exit(7)
	}
	os.Exit(m.Run())
}

// probe tells what a program can do.
func probe() {
	try := func(name string, err error) { fmt.Printf("%s: %v\n", name, err == nil) }
	socket := func(family int) error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	call := func(number uintptr, args ...uintptr) error {
		args = append(args, 0, 0, 0)
		if _, _, errno := unix.RawSyscall(number, args[0], args[1], args[2]); errno == unix.EPERM || errno == unix.ENOSYS {
			return errno
		}
		return nil // EINVAL and the like: it was asked for
	}
	_, err := program.Open().Now()
	try("ask the enclave", err)
	try("speak vsock", socket(unix.AF_VSOCK))
	try("speak netlink", socket(unix.AF_NETLINK))
	try("speak raw packets", socket(unix.AF_PACKET))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	try("listen", err)
	if err == nil {
		_ = l.Close()
	}
	try("make a namespace", call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER))
	try("clone into one", call(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_THREAD))
	try("clone3", call(unix.SYS_CLONE3))
	try("io_uring", call(unix.SYS_IO_URING_SETUP, 1))
	try("ptrace", call(unix.SYS_PTRACE, unix.PTRACE_PEEKDATA, 1))
	try("bpf", call(unix.SYS_BPF, 99))
	try("become root", unix.Setuid(0))
	_, err = os.Stat("/etc")
	try("see files", err)
	_, err = os.OpenFile("/written", os.O_CREATE|os.O_WRONLY, 0o600)
	try("write files", err)
	try("dump core", func() error {
		var limit unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_CORE, &limit) == nil && limit.Max == 0 {
			return errors.New("none")
		}
		return nil
	}())
	fmt.Printf("environment: %d\narguments: %q\nfiles: %v\n", len(os.Environ()), os.Args, opened())
}

// opened are the descriptors of files with something in them: the program itself would be one.
func opened() (all []int) {
	for fd := range 16 {
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) == nil && stat.Size > 0 {
			all = append(all, fd)
		}
	}
	return all
}

func run(t *testing.T, m *sandbox.Machine, args ...string) (string, error) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Hold(bytes.NewReader(self), int64(len(self)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Drop()
	var out output
	err = p.Run(args, &out, func(c io.ReadWriter) {
		for {
			var head [5]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			_, _ = c.Write([]byte{0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0})
		}
	})
	return out.String(), err
}

// output is written to by one goroutine and read by another.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func TestConfined(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("programs are confined on x86-64 alone")
	}
	m := &sandbox.Machine{Enter: []string{"/proc/self/exe", "enter"}}
	if os.Getuid() == 0 {
		m.User = 1000
	}
	said, err := run(t, m, "probe", "two words")
	if err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("ended with %v, want exit status 7", err)
	}
	for _, line := range []string{
		"ask the enclave: true", "listen: true", "speak vsock: false", "speak netlink: false", "speak raw packets: false", "make a namespace: false", "clone into one: false",
		"clone3: false", "io_uring: false", "ptrace: false", "bpf: false", "dump core: false",
		"environment: 0", `arguments: ["program" "probe" "two words"]`,
		"files: []",
	} {
		if !strings.Contains(said, line) {
			t.Errorf("no line %q in\n%s", line, said)
		}
	}
	if m.User != 0 && !strings.Contains(said, "become root: false") {
		t.Errorf("in\n%s", said)
	}
}

// What the machine holds cannot be changed, and what cannot be started says so.
func TestHeld(t *testing.T) {
	m := &sandbox.Machine{Enter: []string{"/proc/self/exe", "enter"}}
	if _, err := m.Hold(strings.NewReader("short"), 6); err == nil {
		t.Error("a program that ended early was held")
	}
	p, err := m.Hold(strings.NewReader("no program"), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Drop()
	if err := p.Run(nil, io.Discard, func(io.ReadWriter) {}); err == nil {
		t.Error("what is no program ran")
	}
	for _, line := range [][]string{nil, {"/"}, {"/", "somebody"}} {
		if err := sandbox.Enter(line); err == nil {
			t.Errorf("entered by %q", line)
		}
	}
	if _, err := m.Dial(1); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port where nobody listens: %v", err)
	}
}
