// Command cloister-eif makes enclave images, measures and signs them, and reads
// them back. The README beside it says what is in an image and why.
//
//	cloister-eif build -kernel FILE -init FILE -o IMAGE [flags]
//	cloister-eif sign -key FILE -cert FILE -o IMAGE IMAGE
//	cloister-eif check [-release FILE] IMAGE
//
// build and sign write the image and, beside it, IMAGE.json: the release file of package attestation, with
// measurements and inputs. Exit status: 0, 1 when something was refused, 2 when it was called wrongly.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"cloister/shared/commandline"
)

const (
	exitDone    = 0
	exitRefused = 1
	exitUsage   = 2
)

var errUsage = errors.New("usage")

var commandProgram = commandline.Program{
	Name:  "cloister-eif",
	About: "cloister-eif makes enclave images, measures and signs them, and reads them back.",
	Commands: []commandline.Command{
		{Name: "build", About: "make an image of a kernel and the enclave binary"},
		{Name: "sign", About: "sign an image"},
		{Name: "check", About: "read an image back, and compare it with a release"},
	},
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, time.Now)) }

// run is the whole command. now is asked when a certificate is used.
func run(args []string, stdout, stderr io.Writer, now func() time.Time) int {
	commands := map[string]func([]string, io.Writer, func() time.Time) error{"build": build, "sign": sign, "check": check}
	args, done := commandProgram.Answer(args, stdout)
	if done {
		return exitDone
	}
	if len(args) == 0 {
		commandProgram.Help(stderr)
		return exitUsage
	}
	var err error
	if c, ok := commands[args[0]]; ok {
		err = c(args[1:], stdout, now)
	} else {
		err = fmt.Errorf("%w: %w", errUsage, commandProgram.Unknown(args[0]))
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	fmt.Fprintln(stderr, "cloister-eif:", err)
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitRefused
}

// parse reads flags and wants as many arguments behind them.
func parse(f *flag.FlagSet, args []string, arguments int) error {
	err := commandline.Parse(f, args)
	if err == nil && f.NArg() != arguments {
		err = commandline.Wrong(f, fmt.Errorf("%d arguments, want %d", f.NArg(), arguments))
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return fmt.Errorf("%w: %w", errUsage, err)
}

// read takes a file of at most max bytes.
func read(name string, max int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, int64(max)+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > max {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, max)
	}
	return raw, nil
}

// write puts a file in place whole or not at all.
func write(name string, raw []byte) error {
	next := name + ".new"
	if err := os.WriteFile(next, raw, 0o644); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return os.Rename(next, name)
}
