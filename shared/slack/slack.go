// Package slack lets a process wake later than it asked to.
//
// Go's runtime has a thread that wakes every 20 us while others work or wait for the
// disk. Each time is an interrupt, two switches, and in a guest an exit; together they
// are an eighth of what a signature costs. Linux puts such a wake together with the
// next one that falls within a thread's slack.
package slack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// Timers is how much later than its time a thread may wake. What hosts and enclaves
// wait for by the clock are leases, deadlines, intervals and pauses, of which none asks
// for more. Four times as much gains nothing (scripts/load).
const Timers = 4 * time.Millisecond

// threads are those of this process.
const threads = "proc/self/task"

// Allow gives each thread of this process, and those that they start, this slack. root
// is the root file system, write writes a file that is there, named by its whole path.
// A thread that is gone, and a kernel that forbids it, cost speed and are no failure.
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

// AllowHere is Allow for a process that is not the first of its system and goes on
// without: where there is no such file, or it is not to be written, it is slower.
func AllowHere() {
	_ = Allow(os.DirFS("/"), func(file, value string) error { return os.WriteFile(file, []byte(value), 0) })
}
