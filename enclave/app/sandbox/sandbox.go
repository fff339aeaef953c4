// Package sandbox is where a customer's program runs: a process that holds no right, sees no file, and knows no network but
// its own machine's.
//
// The program lies in memory that is sealed once it is written. It is started by this very program (Enter), which gives up
// everything on the way: another root folder with nothing in it, another user where there is one, every capability, new
// privileges for good, and the system calls by which a program without rights could still reach its parent, the kernel's
// rarer parts or a namespace of its own.
package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cloister/enclave/app"
	"cloister/shared/tvc"
)

// A Machine runs programs beside this process.
type Machine struct {
	// Enter is the command line that has this program call Enter with what follows it.
	Enter []string
	// Root is a folder with nothing in it, which the program sees as /; empty: it sees what this process does.
	Root string
	// User is whom the program runs as; 0: as whom this process does.
	User int
	// Alone gives the program a namespace of processes to itself: it sees no other, and what it starts ends with it. It takes
	// the rights of an administrator.
	Alone bool
}

// Loopback brings up the one network that there is in an enclave, or in a namespace of its own.
func Loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err == nil {
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	}
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// Hold writes the program into memory and seals it.
func (m *Machine) Hold(from io.Reader, size int64) (app.Program, error) {
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "program")
	if _, err = io.CopyN(file, from, size); err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &program{m, file}, nil
}

const dialing = 5 * time.Second

// Dial connects to a port of the program.
func (m *Machine) Dial(port uint16) (net.Conn, error) {
	return net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), dialing)
}

// lastWords is how long a program's output is read after its end.
const lastWords = time.Second

type program struct {
	machine *Machine
	file    *os.File
}

func (p *program) Drop() { _ = p.file.Close() }

// programFile is where Enter finds the program: behind what the program itself is given.
const programFile = tvc.ProgramFD + 1

func (p *program) Run(args []string, output io.Writer, answer func(io.ReadWriter)) error {
	// The program dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ours, theirs, err := pair()
	if err != nil {
		return err
	}
	defer ours.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	defer read.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return errors.Join(err, theirs.Close(), write.Close())
	}
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if p.machine.Alone {
		sys.Cloneflags = syscall.CLONE_NEWPID
	}
	line := append(append([]string{}, p.machine.Enter...), p.machine.Root, strconv.Itoa(p.machine.User))
	process, err := os.StartProcess(line[0], append(line, args...), &os.ProcAttr{
		Env: []string{}, Files: []*os.File{nothing, write, write, theirs, p.file},
		Sys: sys,
	})
	err = errors.Join(err, nothing.Close(), write.Close(), theirs.Close())
	if err != nil {
		return err
	}
	copied := make(chan struct{})
	go func() {
		_, _ = io.Copy(output, read)
		close(copied)
	}()
	go func() {
		answer(ours)
		_ = ours.Close() // a program that asks what is not answered must hear it
	}()
	state, err := process.Wait()
	// What it started may still write, where that does not end with it.
	_ = read.SetReadDeadline(time.Now().Add(lastWords))
	<-copied
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	return err
}

// pair is a connection between this process and the program.
func pair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(fds[1]), "program")
	file := os.NewFile(uintptr(fds[0]), "enclave")
	if ours, err = net.FileConn(file); err != nil {
		_ = theirs.Close()
	}
	return ours, theirs, errors.Join(err, file.Close())
}

// Enter is the process that becomes the program. What follows Machine.Enter on its command line is the root folder, the user
// and the program's arguments. It comes back with an error only.
func Enter(line []string) error {
	if len(line) < 2 {
		return errors.New("enter is for the enclave's own use")
	}
	user, err := strconv.Atoi(line[1])
	if err != nil {
		return err
	}
	// What is given up is this thread's, which becomes the program.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	if err := confine(line[0], user); err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(append([]string{"program"}, line[2:]...))
	if err != nil {
		return err
	}
	none := []*byte{nil}
	empty := []byte{0}
	unix.CloseOnExec(programFile)
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, programFile, uintptr(unsafe.Pointer(&empty[0])), uintptr(unsafe.Pointer(&args[0])),
		uintptr(unsafe.Pointer(&none[0])), unix.AT_EMPTY_PATH, 0)
	return fmt.Errorf("starting the program: %w", errno)
}

const (
	maxFiles      = 1024
	maxCapability = 63
)

// confine gives everything up, in the order in which that is still allowed.
func confine(root string, user int) error {
	for resource, most := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxFiles} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	if root != "" {
		if err := errors.Join(unix.Chroot(root), unix.Chdir("/")); err != nil {
			return fmt.Errorf("an empty root: %w", err)
		}
	}
	for capability := range uintptr(maxCapability + 1) {
		// EINVAL: the kernel knows none so high; EPERM: this process has no rights to give up.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("bounding capabilities: %w", err)
		}
	}
	if user != 0 {
		for _, give := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, uintptr(user), uintptr(user), uintptr(user)}, {unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)}} {
			if _, _, errno := unix.RawSyscall(give[0], give[1], give[2], give[3]); errno != 0 {
				return fmt.Errorf("another user: %w", errno)
			}
		}
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new privileges: %w", err)
	}
	return filter()
}
