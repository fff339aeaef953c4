// Package slack lets a process wake later than it asked to.
//
// Go's runtime has a thread that wakes every 20 us while others work or wait for the disk. Each
// wake is an interrupt, two switches, and in a guest an exit: an eighth of what a signature costs.
// Linux joins a wake with the next one that falls within the thread's slack.
package slack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// Timers is how much later than its time a thread may wake. No lease, deadline, interval or pause
// of hosts and enclaves is finer. Four times as much gains nothing (scripts/load).
const Timers = 4 * time.Millisecond

const threads = "proc/self/task"

// Allow gives each thread of this process, and those that they start, this slack. root is the
// root file system; write writes an existing file, named by its whole path. A thread that is gone
// or a kernel that forbids it is no failure: it costs speed.
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

// AllowHere is Allow for a process that goes on, slower, where it is not allowed.
func AllowHere() {
	_ = Allow(os.DirFS("/"), func(file, value string) error { return os.WriteFile(file, []byte(value), 0) })
}
