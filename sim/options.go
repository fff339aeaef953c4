package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/enclave/core"
	"cloister/shared/pace"
	"cloister/sim/laptop"
)

// options are the simulator's settings. Each is a flag; those that an operator
// sets have an environment variable too, CLOISTER_ and the flag's name.
type options struct {
	dataDir       string // where all of it is kept; made when absent
	store         string // sqlite:PATH or postgres://…; empty: sqlite in the data directory
	apiAddr       string
	authProxyAddr string
	enclaveAddr   string // where the enclave listens; port 0: any
	hostBinary    string
	organizations int // how many besides the root organization to make, for tests
	logLevel      string
	stateBytes    int64
	snapshotEvery int
	lease         time.Duration
	addressRate   pace.Rate // the host's; the others are the enclave's
	rates         core.Rates
	quotas        core.Quotas
	loopback      bool   // webhooks may go to this machine
	insecure      string // checks to switch off; refused by builds that cannot
	record        string // file for the enclave's secrets; refused likewise
}

func parse(args []string, env func(string) (string, bool), stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("cloister-sim", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage, "\nflags (environment: CLOISTER_DATA_DIR and so on):\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.dataDir, "data-dir", "cloister-data", "directory for the store, credentials.json and the simulated enclave's secrets")
	f.StringVar(&o.store, "store", "", "sqlite:PATH or postgres://… (default: an SQLite file in the data directory)")
	f.StringVar(&o.apiAddr, "api-addr", "127.0.0.1:8080", "address of the public API")
	f.StringVar(&o.authProxyAddr, "auth-proxy-addr", "127.0.0.1:8081", "address of the auth proxy")
	f.StringVar(&o.enclaveAddr, "enclave-addr", "127.0.0.1:0", "address of the simulated enclave, loopback only")
	f.StringVar(&o.hostBinary, "host-binary", "", "cloister-host to run (default: the one beside this program)")
	f.IntVar(&o.organizations, "organizations", 0, "make this many organizations more, for tests; organizations.json lists them")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.Int64Var(&o.stateBytes, "state-bytes", 0, "enclave memory for opened organizations (default 1 GiB)")
	f.IntVar(&o.snapshotEvery, "snapshot-every", 0, "entries between snapshots of an organization (default 4096)")
	f.DurationVar(&o.lease, "lease", 0, "how long the enclave may answer without the store's word (default 2s)")
	f.TextVar(&o.addressRate, "address-rate", pace.Rate{}, "requests that one address may send: 10/s, 600/m, 5000/h, or off")
	f.TextVar(&o.rates.Organization, "organization-rate", pace.Rate{}, "likewise, the users of one organization of the top level")
	f.TextVar(&o.rates.SubOrganization, "sub-organization-rate", pace.Rate{}, "likewise, those of one sub-organization")
	f.TextVar(&o.rates.Key, "key-rate", pace.Rate{}, "likewise, one key")
	f.TextVar(&o.quotas, "quotas", core.Quotas{}, "raise what an organization and its users may have: users=500,policies=1000 (default: as documented)")
	f.BoolVar(&o.loopback, "webhook-loopback", false, "let webhooks go to receivers on this machine's loopback, also without TLS: http://127.0.0.1:…")
	f.StringVar(&o.insecure, "insecure-test-skip", "", "checks to switch off, in builds for tests only")
	f.StringVar(&o.record, "insecure-test-record", "", "file to write the enclave's secrets to, in builds for tests only")
	var bad error
	f.VisitAll(func(fl *flag.Flag) {
		if v, ok := env("CLOISTER_" + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))); ok && v != "" {
			if err := f.Set(fl.Name, v); err != nil && bad == nil {
				bad = fmt.Errorf("environment: %s: %w", fl.Name, err)
			}
		}
	})
	if bad != nil {
		fmt.Fprintln(stderr, "cloister-sim:", bad)
		return nil, bad
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "cloister-sim: unexpected argument %q\n", f.Arg(0))
		return nil, errors.New("unexpected argument")
	}
	if o.store == "" {
		o.store = "sqlite:" + filepath.Join(o.dataDir, "cloister.db")
	}
	if o.hostBinary == "" {
		if self, err := os.Executable(); err == nil {
			o.hostBinary = filepath.Join(filepath.Dir(self), "cloister-host")
		}
	}
	return o, nil
}

// dir is the data directory as the laptop's enclave sees it.
func (o *options) dir() *laptop.Dir {
	return &laptop.Dir{Path: o.dataDir, APIURL: "http://" + o.apiAddr, AuthProxyURL: "http://" + o.authProxyAddr}
}
