package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"cloister/shared/commandline"
	"cloister/sim/laptop"
)

const drillUsage = `usage: cloister-sim drill -from BACKUP -data-dir DIR [flags]

Restores a backup of this simulator beside a second simulated enclave that has a
copy of the data directory's secrets, signs, compares, and tells how long each step
took: what cloister-host drill does with an enclave that operators bring up.
The data directory and a simulator that runs on it are left alone. The manifest of
the second one is of a drill and names no witnesses.

`

// kept is what a machine needs besides a store: what operators hold, and what a
// real enclave would be given by them.
var kept = []string{"manifest.json", "admission-key", "first-organization.json", "configuration.json", "enclave/module-root", "enclave/seed", "enclave/passphrase"}

// runDrill is the command. Its flags but its own go to cloister-host drill.
func runDrill(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := commandline.NewFlags("cloister-sim drill", drillUsage, stdout, nil)
	dataDir := f.String("data-dir", "cloister-data", "the simulator's data `DIR`")
	from := f.String("from", "", "the `BACKUP`, as cloister-host backup printed it")
	credentials := f.String("credentials", "", "`FILE` with organization and API key (default: credentials.json of the data directory)")
	compare := f.String("compare", "", "`URL` of the running simulator's interface, to compare addresses with")
	hostBinary := f.String("host-binary", "", "cloister-host to run (default: the one beside this program)")
	if err := commandline.Parse(f, args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if *from == "" || f.NArg() > 0 {
		return fmt.Errorf("%w: %w", errUsage, commandline.Wrong(f, errors.New("want -from")))
	}
	scratch, err := os.MkdirTemp("", "cloister-drill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	machine := filepath.Join(scratch, "machine")
	if err := copyKept(*dataDir, machine); err != nil {
		return err
	}
	// A child's death signal comes when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	enclave, address, err := startEnclave(stderr, "-data-dir", machine)
	if err != nil {
		return err
	}
	defer func() { // nothing of it is kept
		_ = enclave.cmd.Process.Kill()
		<-enclave.done
	}()
	more := []string{"drill", "-from", *from, "-enclave", address, "-scratch", filepath.Join(scratch, "store"), "-api-addr", "127.0.0.1:0", "-credentials", cmp.Or(*credentials, filepath.Join(*dataDir, "credentials.json"))}
	if *compare != "" {
		more = append(more, "-compare", *compare)
	}
	h := exec.Command(cmp.Or(*hostBinary, hostBeside()), more...)
	said, err := h.StdoutPipe()
	if err != nil {
		return err
	}
	host, err := start("host", h, stderr)
	if err != nil {
		return err
	}
	defer host.stop()
	failed := make(chan error, 1)
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		fmt.Fprintln(stdout, lines.Text())
		if strings.HasPrefix(lines.Text(), "waiting for the enclave") {
			go func() {
				err := bringUp(ctx, machine, address)
				if failed <- err; err != nil {
					host.stop() // nobody else comes
				}
			}()
		}
	}
	<-host.done
	select {
	case err := <-failed:
		if err != nil {
			return fmt.Errorf("bringing the enclave up: %w", err)
		}
	default:
	}
	return host.err
}

// bringUp brings the enclave of a copy up, under a manifest of a drill: else it would sign anything, and witnesses would cosign
// the copy's log and the running one's no more.
func bringUp(ctx context.Context, machine, address string) error {
	d := &laptop.Dir{Path: machine, Drill: true}
	b, err := os.ReadFile(filepath.Join(machine, "configuration.json"))
	if err != nil {
		return err
	}
	d.Configuration = b
	return d.Join(ctx, address)
}

func copyKept(from, to string) error {
	for _, name := range kept {
		b, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) && name == "configuration.json" {
			err = nil
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
