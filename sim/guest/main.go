// Command guest is /init of the two QEMU guests of scripts/vsock: the parent instance and the
// enclave's machine. It stands for what Nitro provides and is not in the image: in the enclave's
// guest the security module, in the parent's the nitro-cli that waits for the heartbeat, a
// network, and the relay for hosts on other machines.
//
// The kernel's command line says which this is (role=enclave or role=parent), and PID 1 finds it in its
// environment. The enclave is the unmodified program of production, which this one becomes by execve.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"cloister/sim/cuse"
	"cloister/sim/guest/setup"
	"cloister/sim/nsm"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "module":
		err = module()
	case os.Getpid() != 1:
		err = fmt.Errorf("this is /init of a test's guest")
	case os.Getenv("role") == "enclave":
		err = enclave()
	default:
		err = parent()
	}
	fmt.Println("guest:", err)
	if os.Getpid() == 1 {
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	}
	os.Exit(1)
}

// setting is what the kernel's command line says of name.
func setting(name, otherwise string) string {
	if v := strings.TrimSpace(os.Getenv(name)); v != "" {
		return v
	}
	return otherwise
}

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
	// The kernel here has no driver of the security module, which would also feed the kernel's pool and say
	// so. The emulated one cannot; it says so all the same, or with random=NAME something else.
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

// The parent's guest.
const (
	modules       = "/modules"
	state         = "/state"     // a file system in memory, for the host's store
	hostProgram   = "/host"      // the host
	hostArguments = "/host.args" // its arguments, a line each
	heartbeats    = 9000
	enclaveID     = 16
	enclavePort   = 5000
	relayPort     = 5000
)

// parent is the parent instance: it answers the enclave's heartbeat, relays to
// the enclave what comes by TCP, and runs the host until that ends.
func parent() error {
	if err := setup.Mount(state); err != nil {
		return err
	}
	if err := setup.Load(modules); err != nil {
		return err
	}
	if err := setup.Address("lo", net.IPv4(127, 0, 0, 1)); err != nil {
		return err
	}
	// What QEMU's user network calls a guest.
	if err := setup.Address("eth0", net.IPv4(10, 0, 2, 15)); err != nil {
		return err
	}
	beats, err := vsock.Listen(heartbeats, nil)
	if err != nil {
		return fmt.Errorf("waiting for heartbeats: %w", err)
	}
	go answer(beats)
	calls, err := net.Listen("tcp", fmt.Sprintf(":%d", relayPort))
	if err != nil {
		return err
	}
	go relay(calls)
	text, err := os.ReadFile(hostArguments)
	if err != nil {
		return err
	}
	c := exec.Command(hostProgram, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	c.Stdout, c.Stderr, c.Dir = os.Stdout, os.Stderr, state
	return fmt.Errorf("the host ended: %w", c.Run())
}

// answer answers heartbeats, as nitro-cli does.
func answer(l *vsock.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err == nil {
			fmt.Printf("guest: heartbeat %#x from %v\n", b[0], c.RemoteAddr())
			_, _ = c.Write(b)
		}
		_ = c.Close()
	}
}

// relay carries connections by TCP to the enclave.
func relay(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			e, err := vsock.Dial(enclaveID, enclavePort, nil)
			if err != nil {
				return
			}
			defer e.Close()
			done := make(chan struct{}, 2)
			carry := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				done <- struct{}{}
			}
			go carry(e, c)
			go carry(c, e)
			<-done
			time.Sleep(50 * time.Millisecond) // what is on its way back
		}()
	}
}
