package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cloister/eif/cpio"
	"cloister/scripts/internal/guest"
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

// archive writes a first file system: the entries, and files of this machine by their names there.
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

// A plan is what a machine is made of.
type plan struct {
	name, initrd, settings string
	id                     uint64 // its context id
	memory                 int    // MiB
	network                string // -netdev, or empty
}

func (w *world) start(p plan) (*guest.Guest, error) {
	args := []string{"-smp", "1", "-m", fmt.Sprint(p.memory), "-M", "pc,memory-backend=memory",
		"-object", fmt.Sprintf("memory-backend-memfd,id=memory,size=%dM,share=on", p.memory),
		"-chardev", "socket,id=vsock,path=" + w.socket(p.id), "-device", "vhost-user-vsock-pci,chardev=vsock",
		"-kernel", w.image, "-initrd", w.file(p.initrd),
		// no_timer_check: the timer of a machine that is emulated on a busy one may be late.
		"-append", "console=ttyS0 quiet panic=-1 reboot=k no_timer_check random.trust_cpu=off random.trust_bootloader=off " + p.settings}
	if p.network != "" {
		args = append(args, "-netdev", p.network, "-device", "virtio-net-pci,netdev=net,romfile=")
	}
	m, err := guest.Start(p.name, "", w.qemu, args...)
	if err == nil {
		w.machines = append(w.machines, m)
	}
	return m, err
}
