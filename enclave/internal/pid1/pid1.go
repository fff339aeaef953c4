// Package pid1 makes a bare Linux guest a place where an enclave may run.
//
// In an enclave image the enclave is the first and only program: nobody has mounted a
// file system, loaded a driver or told the parent that the enclave is alive. Prepare and
// Heartbeat do that. Every production enclave refuses to start without Harden and Seed,
// whoever started it.
package pid1

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A System is what is asked of the kernel.
type System interface {
	// FS is the root file system; paths are without the first slash.
	fs.FS
	// Mount mounts a file system of a kind; where one of that kind is mounted
	// already it does nothing.
	Mount(kind, target string, m Mount) error
	// LoadModule loads the kernel module in a file; one that is loaded already is
	// fs.ErrExist.
	LoadModule(file string) error
	// Write writes a kernel setting under /proc/sys.
	Write(file, value string) error
	// NoCoreDumps sets the limit of core files to nothing and makes this process
	// undumpable.
	NoCoreDumps() error
	// AddEntropy mixes b into the kernel's pool, counts all of its bits, and has
	// the kernel's generator keyed anew from the pool.
	AddEntropy(b []byte) error
	// Release is the kernel's version, as uname tells it.
	Release() (string, error)
}

// Mount is what is forbidden on a file system.
type Mount struct{ NoDevices, NoExecution bool }

// mounts are the file systems that the enclave needs: proc for its own measure and the
// kernel's settings, sysfs for the source of randomness, devtmpfs for the security module
// and vsock. It writes no file.
var mounts = []struct {
	kind, target string
	mount        Mount
}{
	{"proc", "/proc", Mount{NoDevices: true, NoExecution: true}},
	{"sysfs", "/sys", Mount{NoDevices: true, NoExecution: true}},
	{"devtmpfs", "/dev", Mount{NoExecution: true}},
}

// modules is the folder of the image with at most maxModules kernel modules, not
// compressed. They are loaded in the order of their names, which begin with numbers.
const (
	modules    = "modules"
	maxModules = 64
)

// locks are settings after which no module is loaded and no kernel started but the
// measured ones. A kernel without the mechanism has no such setting.
var locks = []string{"/proc/sys/kernel/modules_disabled", "/proc/sys/kernel/kexec_load_disabled"}

// Prepare mounts the file systems and loads the image's kernel modules. It is for the
// first process of a guest only.
func Prepare(s System) error {
	for _, m := range mounts {
		if err := s.Mount(m.kind, m.target, m.mount); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	all, err := fs.ReadDir(s, modules) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading /%s: %w", modules, err)
	}
	if len(all) > maxModules {
		return fmt.Errorf("/%s holds %d files, want at most %d", modules, len(all), maxModules)
	}
	for _, f := range all {
		if !strings.HasSuffix(f.Name(), ".ko") || !f.Type().IsRegular() {
			return fmt.Errorf("/%s/%s is no kernel module", modules, f.Name())
		}
		if err := s.LoadModule(path.Join("/", modules, f.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("loading %s: %w", f.Name(), err)
		}
	}
	for _, file := range locks {
		if err := s.Write(file, "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("locking %s: %w", file, err)
		}
	}
	return nil
}

// swaps is the kernel's list of what it swaps to, below one line of heading.
const swaps = "proc/swaps"

// Harden sees to it that no memory of this process reaches a file: no core
// dumps, and no swap.
func Harden(s System) error {
	if err := s.NoCoreDumps(); err != nil {
		return fmt.Errorf("forbidding core dumps: %w", err)
	}
	b, err := fs.ReadFile(s, swaps)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a kernel that cannot swap
		return nil
	case err != nil:
		return fmt.Errorf("reading /%s: %w", swaps, err)
	case strings.Count(strings.TrimSpace(string(b)), "\n") > 0:
		return errors.New("the kernel swaps")
	}
	return nil
}

const (
	source = "sys/class/misc/hw_random/rng_current" // names what feeds the kernel's pool of randomness
	module = "nsm-hwrng"                            // what it must be: the driver of the security module
	mixed  = 64                                     // bytes of the module's randomness that are mixed in besides
)

// oldest is the first kernel whose generator mixes what it is given into every
// later byte at once.
var oldest = [3]int{5, 17, 12}

// Seed is the rule of randomness, before the first key: the kernel is one whose generator
// is known to be sound, the security module feeds it, and 64 bytes that random draws from
// the module are mixed in and counted. What the parent could have known or chosen of the
// kernel's randomness is then not enough to know a key. An enclave that cannot satisfy the
// rule does not start.
func Seed(s System, random func([]byte) error) error {
	release, err := s.Release()
	if err != nil {
		return fmt.Errorf("reading the kernel's version: %w", err)
	}
	if !recent(release) {
		return fmt.Errorf("kernel %.32q is older than %d.%d.%d", release, oldest[0], oldest[1], oldest[2])
	}
	b, err := fs.ReadFile(s, source)
	if err != nil {
		return fmt.Errorf("reading the source of randomness: %w", err)
	}
	if got := strings.TrimSpace(string(b)); got != module {
		return fmt.Errorf("the kernel's source of randomness is %.32q, want %q", got, module)
	}
	var drawn [mixed]byte
	defer clear(drawn[:])
	if err := random(drawn[:]); err != nil {
		return fmt.Errorf("drawing from the security module: %w", err)
	}
	if [mixed / 2]byte(drawn[:mixed/2]) == [mixed / 2]byte(drawn[mixed/2:]) {
		return errors.New("the security module's randomness repeats itself")
	}
	if err := s.AddEntropy(drawn[:]); err != nil {
		return fmt.Errorf("mixing in the security module's randomness: %w", err)
	}
	return nil
}

// recent tells whether a release such as 6.1.0-56-amd64 is the oldest or newer.
// What it cannot read is not.
func recent(release string) bool {
	if i := strings.IndexFunc(release, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }); i >= 0 {
		release = release[:i]
	}
	parts := strings.Split(release, ".")
	if len(parts) < 2 || len(parts) > 4 {
		return false
	}
	var v [3]int
	for i := range min(len(parts), len(v)) {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil {
			return false
		}
		v[i] = int(n)
	}
	return slices.Compare(v[:], oldest[:]) >= 0
}

// Where the parent waits to hear that the enclave runs, and the byte that it wants.
// Without it nitro-cli ends the enclave.
const (
	ParentCID     = 3
	HeartbeatPort = 9000
	beat          = 0xB7
)

// Heartbeat tells the parent, over a connection to its HeartbeatPort, that this
// enclave runs, and closes the connection. deadline is for both ways.
func Heartbeat(c net.Conn, deadline time.Time) error {
	defer c.Close()
	if err := c.SetDeadline(deadline); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if _, err := c.Write([]byte{beat}); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	var b [1]byte
	if n, err := c.Read(b[:]); n != 1 {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if b[0] != beat {
		return errors.New("heartbeat: the parent answered something else")
	}
	return nil
}

// Await tries until try succeeds or fails in a way that does not pass, at most times, and
// answers the last error: drivers make their devices some time after they were loaded, and
// a parent may be slower than its enclave.
func Await(times int, pause func(), passes func(error) bool, try func() error) error {
	for {
		err := try()
		if times--; err == nil || times <= 0 || !passes(err) {
			return err
		}
		pause()
	}
}

// Reap takes the exit status of children that ended until ctx ends: the first process
// inherits every orphan. ended says that there may be some. wait takes one without
// waiting, or answers false.
func Reap[T any](ctx context.Context, ended <-chan T, wait func() bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			for wait() {
			}
		}
	}
}
