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

	"cloister/shared/variables"
	"cloister/sim/beside"
)

const usage = `usage:
  cloister-sim [flags]          start host and simulated enclave
  cloister-sim enclave [flags]  the enclave alone
  cloister-sim boot [flags]     give a waiting enclave its manifest, alone
  cloister-sim beside DIR       an enclave for a customer's program, which its host starts; DIR is the data directory
  cloister-sim drill [flags]    restore a backup beside a second enclave, sign, compare

cloister-sim -h lists the flags.
`

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
	run := runAll
	if len(args) > 0 {
		switch args[0] {
		case "enclave":
			run, args = runEnclave, args[1:]
		case "drill":
			switch err := runDrill(ctx, args[1:], stdout, stderr); {
			case err == nil, errors.Is(err, flag.ErrHelp):
				return 0
			default:
				fmt.Fprintln(stderr, "cloister-sim drill:", err)
				return 1
			}
		case "boot":
			run, args = runBoot, args[1:]
		case "beside":
			self, err := os.Executable()
			if err == nil {
				err = beside.Main([]string{self, "beside"}, args[1:])
			}
			if err != nil {
				fmt.Fprintln(stderr, "cloister-sim beside:", err)
				return 1
			}
			return 0
		}
	}
	o, err := parse(args, lookUpIn(environ), stderr)
	if err != nil {
		return 2
	}
	if err := run(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "cloister-sim:", err)
		return 1
	}
	return 0
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
