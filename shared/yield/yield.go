// Package yield lets a thread that computes make room for others of the machine's threads.
package yield

import "golang.org/x/sys/unix"

// Thread lets another thread that waits for this one's processor have it. Linux lets a thread that computes go on for some
// milliseconds after it has woken another one there, such as the one that reads the network.
func Thread() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
