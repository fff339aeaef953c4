package pid1_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/pid1"
)

// guest is a System that writes down what is done to it.
type guest struct {
	fstest.MapFS
	release string
	fails   map[string]error // by the beginning of what is done
	done    []string
	entropy []byte
}

func newGuest(files map[string]string) *guest {
	g := &guest{MapFS: fstest.MapFS{}, release: "6.8.0", fails: map[string]error{}}
	for name, text := range files {
		g.MapFS[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return g
}

func (g *guest) do(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	g.done = append(g.done, what)
	for begin, err := range g.fails {
		if strings.HasPrefix(what, begin) {
			return err
		}
	}
	return nil
}

func (g *guest) Mount(kind, target string, m pid1.Mount) error {
	return g.do("mount %s %s %t %t", kind, target, m.NoDevices, m.NoExecution)
}
func (g *guest) LoadModule(file string) error   { return g.do("load %s", file) }
func (g *guest) Write(file, value string) error { return g.do("write %s %s", file, value) }
func (g *guest) NoCoreDumps() error             { return g.do("nocore") }
func (g *guest) AddEntropy(b []byte) error {
	g.entropy = bytes.Clone(b)
	return g.do("entropy")
}
func (g *guest) Release() (string, error) { return g.release, g.fails["release"] }

var errBroken = errors.New("broken")

func TestPrepare(t *testing.T) {
	g := newGuest(map[string]string{"modules/20-vsock.ko": "", "modules/03-virtio.ko": "", "modules/100-last.ko": ""})
	g.fails["load /modules/20-vsock.ko"] = fs.ErrExist // built in, or loaded before
	g.fails["write /proc/sys/kernel/kexec_load_disabled"] = fs.ErrNotExist
	if err := pid1.Prepare(g); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"mount proc /proc true true", "mount sysfs /sys true true", "mount devtmpfs /dev false true",
		"load /modules/03-virtio.ko", "load /modules/100-last.ko", "load /modules/20-vsock.ko",
		"write /proc/sys/kernel/modules_disabled 1", "write /proc/sys/kernel/kexec_load_disabled 1",
	}
	if !slices.Equal(g.done, want) {
		t.Errorf("did\n%s\nwant\n%s", strings.Join(g.done, "\n"), strings.Join(want, "\n"))
	}
	if err := pid1.Prepare(newGuest(nil)); err != nil {
		t.Errorf("an image without modules: %v", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("modules/%02d-x.ko", i)] = ""
	}
	for _, c := range []struct {
		name, fails string
		files       map[string]string
	}{
		{"no proc", "mount proc", nil},
		{"no devices", "mount devtmpfs", nil},
		{"a module that does not load", "load /modules/01-a.ko", map[string]string{"modules/01-a.ko": ""}},
		{"a file that is no module", "", map[string]string{"modules/01-a.ko": "", "modules/readme": ""}},
		{"a compressed module", "", map[string]string{"modules/01-a.ko.xz": ""}},
		{"a folder", "", map[string]string{"modules/01-a.ko/x": ""}},
		{"too many modules", "", many},
		{"modules that cannot be locked", "write /proc/sys/kernel/modules_disabled", nil},
	} {
		g := newGuest(c.files)
		if c.fails != "" {
			g.fails[c.fails] = errBroken
		}
		if err := pid1.Prepare(g); err == nil {
			t.Errorf("%s: went on", c.name)
		}
	}
}

func TestHarden(t *testing.T) {
	const heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		fails string
		ok    bool
	}{
		{"no swap", map[string]string{"proc/swaps": heading}, "", true},
		{"a kernel without swap", nil, "", true},
		{"swap", map[string]string{"proc/swaps": heading + "/dev/vda2 partition 1 0 -2\n"}, "", false},
		{"core dumps", map[string]string{"proc/swaps": heading}, "nocore", false},
	} {
		g := newGuest(c.files)
		if c.fails != "" {
			g.fails[c.fails] = errBroken
		}
		if err := pid1.Harden(g); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Contains(g.done, "nocore") {
			t.Errorf("%s: core dumps stay allowed", c.name)
		}
	}
}

func counted(b []byte) error {
	for i := range b {
		b[i] = byte(i)
	}
	return nil
}

func TestSeed(t *testing.T) {
	const current = "sys/class/misc/hw_random/rng_current"
	nitro := map[string]string{current: "nsm-hwrng\n"}
	constant := func(b []byte) error { return nil }
	broken := func([]byte) error { return errBroken }
	for _, c := range []struct {
		name, release string
		files         map[string]string
		random        func([]byte) error
		fails         string
		ok            bool
	}{
		{"as it should be", "6.8.0", nitro, counted, "", true},
		{"Debian's", "6.1.0-56-amd64", nitro, counted, "", true},
		{"Amazon's", "6.1.158-180.294.amzn2023.x86_64", nitro, counted, "", true},
		{"the oldest", "5.17.12", nitro, counted, "", true},
		{"two numbers", "7.0-rc1", nitro, counted, "", true},
		{"one too old", "5.17.11", nitro, counted, "", false},
		{"a long-term one that is too old", "5.10.214-202.855.amzn2.x86_64", nitro, counted, "", false},
		{"nitro-cli's first", "4.14.256", nitro, counted, "", false},
		{"not readable", "six", nitro, counted, "", false},
		{"empty", "", nitro, counted, "", false},
		{"a number too large", "99999999.1", nitro, counted, "", false},
		{"no version", "6.8.0", nitro, counted, "release", false},
		{"the parent's randomness", "6.8.0", map[string]string{current: "virtio_rng.0\n"}, counted, "", false},
		{"no source", "6.8.0", map[string]string{current: "none\n"}, counted, "", false},
		{"a name that begins like it", "6.8.0", map[string]string{current: "nsm-hwrng2\n"}, counted, "", false},
		{"a kernel without sources", "6.8.0", nil, counted, "", false},
		{"a module that gives nothing", "6.8.0", nitro, broken, "", false},
		{"a module that gives zeros", "6.8.0", nitro, constant, "", false},
		{"a pool that takes nothing", "6.8.0", nitro, counted, "entropy", false},
	} {
		g := newGuest(c.files)
		g.release = c.release
		if c.fails != "" {
			g.fails[c.fails] = errBroken
		}
		err := pid1.Seed(g, c.random)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		want := make([]byte, 64)
		_ = counted(want)
		if c.ok && !bytes.Equal(g.entropy, want) {
			t.Errorf("%s: mixed in %x", c.name, g.entropy)
		}
		if !c.ok && c.fails != "entropy" && g.entropy != nil {
			t.Errorf("%s: went on to the pool", c.name)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	for _, c := range []struct {
		name   string
		parent func(net.Conn)
		ok     bool
	}{
		{"answered", func(c net.Conn) {
			var b [1]byte
			if _, err := c.Read(b[:]); err == nil && b[0] == 0xB7 {
				_, _ = c.Write(b[:])
			}
		}, true},
		{"another byte", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_, _ = c.Write([]byte{0})
		}, false},
		{"closed", func(c net.Conn) { _ = c.Close() }, false},
		{"closed before the answer", func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); _ = c.Close() }, false},
		{"no answer", func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, false},
		{"not read", func(net.Conn) {}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go c.parent(theirs)
			if err := pid1.Heartbeat(ours, time.Now().Add(time.Minute)); (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
			if _, err := ours.Write([]byte{1}); err == nil {
				t.Errorf("%s: the connection is still open", c.name)
			}
			_ = theirs.Close()
		})
	}
}

func TestAwait(t *testing.T) {
	for _, c := range []struct {
		name          string
		answers       []error
		tries, pauses int
		want          error
	}{
		{"there", []error{nil}, 1, 0, nil},
		{"soon", []error{fs.ErrNotExist, fs.ErrNotExist, nil}, 3, 2, nil},
		{"never", []error{fs.ErrNotExist, fs.ErrNotExist, fs.ErrNotExist, fs.ErrNotExist, nil}, 4, 3, fs.ErrNotExist},
		{"broken", []error{fs.ErrNotExist, errBroken, nil}, 2, 1, errBroken},
	} {
		tries, pauses := 0, 0
		err := pid1.Await(4, func() { pauses++ }, func(err error) bool { return errors.Is(err, fs.ErrNotExist) },
			func() error { tries++; return c.answers[tries-1] })
		if !errors.Is(err, c.want) || tries != c.tries || pauses != c.pauses {
			t.Errorf("%s: %v after %d tries and %d pauses", c.name, err, tries, pauses)
		}
	}
}

// One signal may stand for several children that ended, and for none. In a bubble
// whoever would wait for ever fails at once.
func TestReap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended, zombies, asked, done := make(chan int), 0, 0, false
		go func() {
			pid1.Reap(ctx, ended, func() bool {
				asked++
				zombies = max(zombies-1, -1)
				return zombies >= 0
			})
			done = true
		}()
		for _, children := range []int{3, 0, 1} {
			zombies, asked = children, 0
			ended <- 0
			if synctest.Wait(); zombies != -1 || asked != children+1 || done {
				t.Errorf("of %d children %d are left, asked %d times, at an end: %v", children, zombies+1, asked, done)
			}
		}
		cancel()
		if synctest.Wait(); !done {
			t.Error("it goes on")
		}
	})
}
