// Package slack sets the timer slack of a process's threads: how much later than asked they may wake.
//
// Go's runtime has a thread that wakes every 20 us while others work or wait for the disk. Each wake-up
// costs an interrupt, two context switches and, in a virtual machine, an exit: together an eighth of a
// signature's cost. Linux merges wake-ups that fall within a thread's slack.
package slack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// Timers is the timer slack of hosts and enclaves. None of their leases, deadlines, intervals and
// pauses is finer. Four times as much gains nothing (scripts/load).
const Timers = 4 * time.Millisecond

const threads = "proc/self/task"

// Allow sets the timer slack of each thread of this process to Timers; threads that they start
// inherit it. root is the root file system; write writes an existing file, by its absolute path. A
// thread that has ended or a kernel that forbids it is no error: the process is only slower.
func Allow(root fs.FS, write func(file, value string) error) error {
	all, err := fs.ReadDir(root, threads)
	if err != nil {
		return fmt.Errorf("reading /%s: %w", threads, err)
	}
	for _, thread := range all {
		err := write("/proc/"+thread.Name()+"/timerslack_ns", strconv.FormatInt(Timers.Nanoseconds(), 10))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("slack of a thread: %w", err)
		}
	}
	return nil
}

// AllowHere calls Allow on the real file system and ignores errors: the process is only slower.
func AllowHere() {
	_ = Allow(os.DirFS("/"), func(file, value string) error { return os.WriteFile(file, []byte(value), 0) })
}
