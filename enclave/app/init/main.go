// Command cloister-app is the first process of the base image in which customers' programs run: the Nitro security module,
// vsock, and package app. It takes no flags and reads no environment. As its own child, by the one argument that it knows, it
// becomes the program.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"cloister/enclave/app"
	"cloister/enclave/app/sandbox"
	"cloister/enclave/internal/guest"
	"cloister/shared/tvc"
)

const (
	self  = "/proc/self/exe"
	enter = "enter"
	// root is a folder of the image with nothing in it; user is nobody's.
	root = "/tmp"
	user = 1000
)

const exitFailed = 1

func main() {
	// The process that becomes the program is the first one too, of the namespace that it has to itself.
	if len(os.Args) > 1 && os.Args[1] == enter {
		fmt.Fprintln(os.Stderr, "cloister-app:", sandbox.Enter(os.Args[2:]))
		os.Exit(exitFailed)
	}
	first := os.Getpid() == 1
	fmt.Fprintln(os.Stderr, "cloister-app:", run(first))
	guest.Stop(first, exitFailed)
}

// run serves until it cannot, and says why.
func run(first bool) error {
	if !first {
		return errors.New("not the first process: there is no machine to run a program in")
	}
	device, err := guest.Start(first)
	if err != nil {
		return err
	}
	if err := sandbox.Loopback(); err != nil {
		return err
	}
	e := app.New(app.Config{
		Device: device, Rand: rand.Reader, After: time.After, RootSHA256: tvc.AWSRootSHA256,
		Machine: &sandbox.Machine{Enter: []string{self, enter}, Root: root, User: user, Alone: true},
	})
	l, err := guest.Listen(tvc.Port, first)
	if err != nil {
		return err
	}
	go func() {
		fmt.Fprintln(os.Stderr, "cloister-app: clock:", device.KeepTime(context.Background(), time.After))
		guest.Stop(first, exitFailed)
	}()
	fmt.Fprintln(os.Stderr, "cloister-app: listening")
	return e.Serve(context.Background(), l)
}
