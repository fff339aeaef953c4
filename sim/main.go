// Command cloister-sim runs Cloister on a laptop: a host and an enclave as two
// processes over TCP, with a simulated security module and an embedded store.
//
// Everything that it weakens stands in this folder: the root secret lies in a sealed file beside
// its passphrase, the attestation root is made on first start, and the manifest says
// "simulator". The enclave itself is the one of production.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"cloister/shared/commandline"
	"cloister/shared/variables"
	"cloister/sim/beside"
)

var program = commandline.Program{
	Name:  "cloister-sim",
	About: "cloister-sim runs Cloister on one machine: a host and a simulated enclave, which keeps no secrets from that machine.",
	Commands: []commandline.Command{
		{Name: "run", About: "start both; without a command it does the same"},
		{Name: "enclave", About: "start the enclave alone"},
		{Name: "boot", About: "give a waiting enclave its manifest"},
		{Name: "beside", About: "start the enclave of a customer's program; the host calls this"},
		{Name: "drill", About: "restore a backup next to a second enclave, sign, and compare addresses"},
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(dispatch(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func dispatch(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	if err := variables.CheckEnvironment(environ); err != nil {
		fmt.Fprintln(stderr, "cloister-sim:", err)
		return 2
	}
	args, done := program.Answer(args, stdout)
	if done {
		return 0
	}
	name := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	var err error
	switch name {
	case "run":
		err = runWith(ctx, runAll, name, args, environ, stdout, stderr)
	case "enclave":
		err = runWith(ctx, runEnclave, name, args, environ, stdout, stderr)
	case "boot":
		err = runWith(ctx, runBoot, name, args, environ, stdout, stderr)
	case "drill":
		err = runDrill(ctx, args, stdout, stderr)
	case "beside":
		var self string
		if self, err = os.Executable(); err == nil {
			err = beside.Main([]string{self, "beside"}, args)
		}
	default:
		err = fmt.Errorf("%w: %w", errUsage, program.Unknown(name))
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "cloister-sim:", err)
		return 2
	}
	fmt.Fprintln(stderr, "cloister-sim:", err)
	return 1
}

var errUsage = errors.New("usage")

// runWith reads the flags that three commands share and runs one of them.
func runWith(ctx context.Context, run func(context.Context, *options, io.Writer, io.Writer) error, name string, args, environ []string, stdout, stderr io.Writer) error {
	o, err := parse(name, args, lookUpIn(environ), stdout)
	if err != nil {
		return err
	}
	return run(ctx, o, stdout, stderr)
}

// lookUpIn gives variables of an environment; of two with one name the later one, as a process that is started sees it.
func lookUpIn(environ []string) func(name string) (value string, set bool) {
	values := map[string]string{}
	for _, one := range environ {
		if name, value, ok := strings.Cut(one, "="); ok {
			values[name] = value
		}
	}
	return func(name string) (string, bool) {
		value, set := values[name]
		return value, set
	}
}
