// Command guest is /init of the two QEMU guests of scripts/vsock: the parent
// instance and the enclave's machine. It stands for what Nitro provides and is
// not in the image: in the enclave's guest the security module, in the parent's
// the nitro-cli that waits for the heartbeat, a network, and the relay for hosts
// on other machines.
//
// The kernel's command line says which of them this is (role=enclave or
// role=parent), and PID 1 finds it in its environment. The enclave itself is the
// program of production, unmodified, which this one becomes by execve.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
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
