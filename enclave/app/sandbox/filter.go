//go:build amd64

package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// families are those of sockets that a program may have. AF_VSOCK, by which it could speak to the host past its bridge, is not
// among them; nor is io_uring among its system calls, which opens sockets without asking a filter.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// forbidden system calls fail with EPERM: they are for who administers a machine or looks into others' memory, and have been
// the way out of many a sandbox.
var forbidden = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_OPEN_TREE,
	unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE,
}

// Where struct seccomp_data has what is looked at.
const (
	atNumber = 0
	atArch   = 4
	atFirst  = 16 // argument, its lower half
)

// namespaces are the flags of clone that make one.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// x32 is the bit of the numbers of another interface, under which the same calls would pass.
const x32 = 0x40000000

// filter has the kernel hold this thread, and the program that it becomes, to the lists above. clone3, whose flags a filter
// cannot read, is said not to be there, so that libraries take clone.
func filter() error {
	p := program64()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("system calls: %w", errno)
	}
	return nil
}

func program64() []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	fail := func(errno uint32) unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | errno) }
	// unless jumps over the next instructions but where the test holds.
	unless := func(test uint16, value uint32, over uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: value, Jf: over}
	}
	p := []unix.SockFilter{
		load(atArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AUDIT_ARCH_X86_64, Jt: 1},
		answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(atNumber),
		unless(unix.BPF_JGE, x32, 1), answer(unix.SECCOMP_RET_KILL_PROCESS),
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), fail(uint32(unix.ENOSYS)),
	}
	for _, number := range forbidden {
		p = append(p, unless(unix.BPF_JEQ, number, 1), fail(uint32(unix.EPERM)))
	}
	p = append(p,
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 4), load(atFirst),
		unless(unix.BPF_JSET, namespaces, 1), fail(uint32(unix.EPERM)),
		answer(unix.SECCOMP_RET_ALLOW),
	)
	for _, number := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		p = append(p, unless(unix.BPF_JEQ, number, uint8(2*len(families)+2)), load(atFirst))
		for _, family := range families {
			p = append(p, unless(unix.BPF_JEQ, family, 1), answer(unix.SECCOMP_RET_ALLOW))
		}
		p = append(p, fail(uint32(unix.EAFNOSUPPORT)))
	}
	return append(p, answer(unix.SECCOMP_RET_ALLOW))
}
