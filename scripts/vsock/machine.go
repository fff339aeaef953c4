package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"cloister/eif/cpio"
)

// The drivers that Debian's kernel has as modules, in an order in which they load.
var (
	vsockDrivers = []string{"virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci",
		"vsock", "vmw_vsock_virtio_transport_common", "vmw_vsock_virtio_transport"}
	networkDrivers = []string{"failover", "net_failover", "virtio_net"}
	cuseDrivers    = []string{"fuse", "cuse"}
)

// A kernel is Debian's package of one, unpacked.
type kernel struct{ folder string }

// image is the kernel itself.
func (k kernel) image() (string, error) {
	found, err := filepath.Glob(filepath.Join(k.folder, "boot/vmlinuz-*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d kernels in %s", len(found), k.folder)
	}
	return found[0], nil
}

// drivers are entries NN-name.ko in a folder of an archive.
func (k kernel) drivers(folder string, names ...string) ([]cpio.Entry, error) {
	paths := map[string]string{}
	err := filepath.WalkDir(filepath.Join(k.folder, "lib/modules"), func(path string, _ fs.DirEntry, err error) error {
		paths[strings.TrimSuffix(filepath.Base(path), ".ko")] = path
		return err
	})
	if err != nil {
		return nil, err
	}
	all := []cpio.Entry{cpio.Dir(folder)}
	for i, name := range names {
		b, err := os.ReadFile(paths[name])
		if err != nil {
			return nil, fmt.Errorf("driver %s: %w", name, err)
		}
		all = append(all, cpio.File(fmt.Sprintf("%s/%02d-%s.ko", folder, i+1, name), 0o444, b))
	}
	return all, nil
}

// archive writes a first file system: the entries, and files of this machine by
// their names there.
func archive(to string, files map[string]string, entries ...cpio.Entry) error {
	for name, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entries = append(entries, cpio.File(name, 0o755, b))
	}
	for _, name := range []string{"proc", "sys", "dev"} {
		entries = append(entries, cpio.Dir(name))
	}
	b, err := cpio.Archive(entries...)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// A machine is a running QEMU.
type machine struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed

	mu      sync.Mutex
	console []string
	heard   chan struct{} // closed and made anew with each line
}

// A plan is what a machine is made of.
type plan struct {
	name, qemu, kernel, initrd, settings string
	socket                               string // of its vsock device
	memory                               int    // MiB
	network                              string // -netdev, or empty
}

// start starts a machine. It ends with this process, however this one ends.
func start(p plan) (*machine, error) {
	m := &machine{name: p.name, done: make(chan struct{}), heard: make(chan struct{})}
	args := []string{"-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", fmt.Sprint(p.memory), "-M", "pc,memory-backend=memory",
		"-object", fmt.Sprintf("memory-backend-memfd,id=memory,size=%dM,share=on", p.memory),
		"-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-serial", "stdio",
		"-chardev", "socket,id=vsock,path=" + p.socket, "-device", "vhost-user-vsock-pci,chardev=vsock",
		"-kernel", p.kernel, "-initrd", p.initrd,
		// no_timer_check: the timer of a machine that is emulated on a busy one may be late.
		"-append", "console=ttyS0 quiet panic=-1 reboot=k no_timer_check random.trust_cpu=off random.trust_bootloader=off " + p.settings}
	if p.network != "" {
		args = append(args, "-netdev", p.network, "-device", "virtio-net-pci,netdev=net,romfile=")
	}
	m.cmd = exec.Command(p.qemu, args...)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.cmd.Stderr = m.cmd.Stdout
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		m.read(out)
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	return m, nil
}

// maxConsole bounds what is kept of a console, in lines.
const maxConsole = 5000

func (m *machine) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m.mu.Lock()
		if len(m.console) < maxConsole {
			m.console = append(m.console, strings.TrimRight(lines.Text(), "\r"))
		}
		close(m.heard)
		m.heard = make(chan struct{})
		m.mu.Unlock()
	}
}

// says waits until a line of the console holds text, and answers the line.
func (m *machine) says(ctx context.Context, text string) (string, error) {
	for {
		m.mu.Lock()
		heard := m.heard
		for _, line := range m.console {
			if strings.Contains(line, text) {
				m.mu.Unlock()
				return line, nil
			}
		}
		m.mu.Unlock()
		select {
		case <-heard:
		case <-m.done:
			return "", fmt.Errorf("the %s ended before it said %q", m.name, text)
		case <-ctx.Done():
			return "", fmt.Errorf("the %s did not say %q: %w", m.name, text, ctx.Err())
		}
	}
}

// awaitEnd waits for the machine's own end.
func (m *machine) awaitEnd(ctx context.Context) error {
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return errors.New("the " + m.name + " runs on")
	}
}

// kill ends it as a loss of power would.
func (m *machine) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
}

// tell writes the end of the console.
func (m *machine) tell(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(w, "-- console of the %s\n", m.name)
	for _, line := range m.console[max(0, len(m.console)-60):] {
		fmt.Fprintln(w, line)
	}
}
