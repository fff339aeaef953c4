// Package beside is an enclave for a customer's program on a laptop: the first process of production (enclave/app) with a
// simulated security module, in a process that stands for the machine.
//
// It keeps no secrets from its own machine, as the simulator never does. It keeps the program from the machine: where Linux lets
// an ordinary user make namespaces, the program has a network with nothing in it but itself, no file, and no process but its
// own; everywhere it is under the filter of system calls. Where it lets none, the program shares the laptop's network and sees
// its files with the rights of who started it, and a line on standard error says so: run nothing there that is not your own.
package beside

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"cloister/enclave/app"
	"cloister/enclave/app/sandbox"
	"cloister/sim/laptop"
	"cloister/sim/nsm"
)

// What this program is called as, behind Self: the process outside of the namespaces, the one within them, and the one that
// becomes the customer's program.
const (
	roleInside = "inside"
	roleEnter  = "enter"
)

// listenerFile is where the process inside finds its listener, which was made outside.
const listenerFile = 3

// Main is such a process. self is the command line that leads here, and args are what follows it: the data directory, which has
// the attestation root, and for an enclave in debug mode the word debug. It ends when its standard input does.
func Main(self, args []string) error {
	switch {
	case len(args) == 1:
		return outside(self, args[0], measured)
	case len(args) == 2 && args[1] == debugMode:
		return outside(self, args[0], args[1])
	case len(args) == 5 && args[0] == roleInside:
		return inside(self, args[1], args[2], args[3] == isolated, args[4] == debugMode)
	case len(args) > 1 && args[0] == roleEnter:
		return sandbox.Enter(args[1:])
	}
	return errors.New("want the data directory of a simulator")
}

const (
	isolated = "isolated"
	shared   = "shared"
	measured = "measured"
	// debugMode is what the host adds for an enclave in debug mode (programs.Process).
	debugMode = "debug"
)

// outside listens, tells where, and starts the process within.
func outside(self []string, dir, mode string) error {
	// The process inside dies with the thread that has started it.
	runtime.LockOSThread()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return errors.New("no TCP")
	}
	file, err := tcp.File()
	if err != nil {
		return err
	}
	empty, err := os.MkdirTemp("", "cloister-empty-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(empty)
	if err := os.Chmod(empty, 0o555); err != nil {
		return err
	}
	start := func(root, how string, sys *syscall.SysProcAttr) (*exec.Cmd, error) {
		cmd := exec.Command(self[0], append(append([]string{}, self[1:]...), roleInside, dir, root, how, mode)...)
		cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = os.Stderr, []*os.File{file}, sys
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		return cmd, cmd.Start()
	}
	cmd, err := start(empty, isolated, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "cloister-sim: no namespaces here, so the program shares this machine's network and files:", err)
		cmd, err = start("", shared, &syscall.SysProcAttr{})
	}
	if err != nil {
		return err
	}
	if err := errors.Join(file.Close(), l.Close()); err != nil {
		return err
	}
	fmt.Println("tcp://" + l.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	asked := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(asked)
	}()
	select {
	case err := <-ended:
		return err
	case <-asked:
		_ = cmd.Process.Kill()
		<-ended
		return nil
	}
}

// inside is the enclave's first process, but for the machine.
func inside(self []string, dir, root string, alone, debug bool) error {
	l, err := net.FileListener(os.NewFile(listenerFile, "listener"))
	if err != nil {
		return err
	}
	if alone {
		if err := sandbox.Loopback(); err != nil {
			return err
		}
	}
	cfg, err := Config(dir, debug)
	if err != nil {
		return err
	}
	cfg.Machine = &sandbox.Machine{Enter: append(append([]string{}, self...), roleEnter), Root: root, Alone: alone}
	return app.New(cfg).Serve(context.Background(), l)
}

// Config is that of an enclave on a laptop, but for the machine. In debug mode nothing is measured.
func Config(dir string, debug bool) (app.Config, error) {
	kept := laptop.Dir{Path: dir}
	root, err := kept.ModuleRoot()
	if err != nil {
		return app.Config{}, err
	}
	registers, sum, err := Image(root)
	if err != nil {
		return app.Config{}, err
	}
	if debug {
		registers = [3][48]byte{}
	}
	device, err := nsm.New(nsm.Config{Root: root, Now: time.Now, Rand: rand.Reader, PCRs: registers, ModuleID: "i-cloistersimulator-enc1"})
	if err != nil {
		return app.Config{}, err
	}
	return app.Config{Device: device, Rand: rand.Reader, After: time.After, RootSHA256: sha256.Sum256(sum)}, nil
}

// Image is what a manifest for this program names: its measurements, and the certificate that its documents lead to.
func Image(root *nsm.Root) (registers [3][48]byte, der []byte, err error) {
	digest, err := laptop.Digest()
	if err != nil {
		return registers, nil, err
	}
	block, _ := pem.Decode([]byte(root.PEM()))
	if block == nil {
		return registers, nil, errors.New("attestation root is no certificate")
	}
	return laptop.Measurements(digest + " beside"), block.Bytes, nil
}
