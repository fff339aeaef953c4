// Package setup is what /init of a test's guest does first.
package setup

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Mount mounts what is needed to load drivers and find devices, and file systems in memory at the places named.
func Mount(memory ...string) error {
	all := [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}}
	for _, at := range memory {
		all = append(all, [2]string{"tmpfs", at})
	}
	for _, m := range all {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m[1], err)
		}
	}
	return nil
}

// Load loads the kernel modules in a folder, in the order of their names.
func Load(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.ko"))
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
			return fmt.Errorf("loading %s: %w", name, err)
		}
		_ = f.Close()
	}
	return nil
}

// Address gives an interface an address in a network of 24 bits and turns it on.
func Address(name string, ip net.IP) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	for _, step := range []struct {
		request uint
		set     func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip.To4()) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		r, err := unix.NewIfreq(name)
		if err == nil {
			err = step.set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(s, step.request, r)
		}
		if err != nil {
			return fmt.Errorf("setting up %s: %w", name, err)
		}
	}
	return nil
}
