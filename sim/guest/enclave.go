package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sim/cuse"
	"cloister/sim/guest/setup"
	"cloister/sim/nsm"
)

// What the enclave's guest is given beside the enclave.
const (
	drivers      = "/emulated"               // kernel modules for the emulation
	moduleRoot   = "/emulated/root.pem"      // what the module's certificates lead to
	measurements = "/emulated/pcrs"          // PCR0 to 2 in hex, a line each
	program      = "/enclave"                // the enclave
	randomSource = "/emulated/random-source" // the line that the module's driver would show
	randomShown  = "/sys/class/misc/hw_random/rng_current"
	device       = "nsm"
)

// enclave starts the emulated security module and becomes the enclave.
func enclave() error {
	if err := setup.Mount(); err != nil {
		return err
	}
	if err := setup.Load(drivers); err != nil {
		return err
	}
	// The kernel here has no driver of the security module, which would also feed
	// the kernel's pool and say so. The emulated one cannot; it says so all the
	// same, or with random=NAME something else.
	if err := os.WriteFile(randomSource, []byte(setting("random", "nsm-hwrng")+"\n"), 0o444); err != nil {
		return err
	}
	if err := unix.Mount(randomSource, randomShown, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("showing the source of randomness: %w", err)
	}
	c := exec.Command("/proc/self/exe", "module")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	for range 100 {
		if _, err := os.Stat("/dev/" + device); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("becoming the enclave: %w", unix.Exec(program, []string{program}, nil))
}

// module is the process of the emulated security module.
func module() error {
	b, err := os.ReadFile(moduleRoot)
	if err != nil {
		return err
	}
	root, err := nsm.ParseRoot(b)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(measurements)
	if err != nil {
		return err
	}
	c := nsm.Config{Root: root, Now: time.Now, Rand: rand.Reader, ModuleID: "i-cloisterqemu-enc0"}
	lines := strings.Fields(string(text))
	if len(lines) != len(c.PCRs) {
		return fmt.Errorf("%d measurements", len(lines))
	}
	for i, line := range lines {
		v, err := hex.DecodeString(line)
		if err != nil || copy(c.PCRs[i][:], v) != len(c.PCRs[i]) {
			return fmt.Errorf("measurement %d is not 48 bytes of hex", i)
		}
	}
	d, err := nsm.New(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile("/dev/cuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return cuse.Serve(f, device, d.Exchange, func() {})
}
