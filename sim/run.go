package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/shared/wire"
	"cloister/sim/laptop"
)

type child struct {
	name string
	cmd  *exec.Cmd
	said *lastLine
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
}

// start runs a program that dies with this one, however this one dies.
func start(name string, cmd *exec.Cmd, stderr io.Writer) (*child, error) {
	said := &lastLine{to: stderr}
	cmd.Stderr, cmd.WaitDelay = said, time.Second // what it has started may have it open for longer
	// A process group of its own: Ctrl-C is for this process, which stops the others in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, said: said, done: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// failure tells that it ended, how, and why if it said so. It waits until it has.
func (c *child) failure() error {
	<-c.done
	err := fmt.Errorf("the %s ended: %v", c.name, c.err)
	if why := c.said.reason(); why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	return err
}

// startEnclave starts this program as an enclave, and gives the address at which that listens.
func startEnclave(stderr io.Writer, args ...string) (enclave *child, address string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, append([]string{"enclave"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if enclave, err = start("enclave", cmd, stderr); err != nil {
		return nil, "", err
	}
	if address, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		enclave.stop()
		return nil, "", enclave.failure()
	}
	return enclave, strings.TrimSpace(address), nil
}

// stop asks politely and then does not.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(8 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// runAll starts enclave and host, boots, tells the newcomer how to go on, and
// waits for a signal or for one of the two to end.
func runAll(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	// A child's death signal comes when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := os.MkdirAll(o.dataDir, 0o700); err != nil {
		return err
	}
	unlock, err := lockDir(o.dataDir)
	if err != nil {
		return err
	}
	defer unlock() // after all that runs on it
	if err := o.checkStore(ctx); err != nil {
		return err
	}
	if !o.noInbox {
		out, err := o.startOutside()
		if err != nil {
			return err
		}
		defer out.stop() // last, as the enclave may still be sending
		o.outside = out.addresses
	}
	witnesses, terms, err := o.startWitnesses()
	if err != nil {
		return err
	}
	defer witnesses.Stop() // after the enclave
	o.logTerms = terms
	quotas, err := o.quotas.MarshalText()
	if err != nil {
		return err
	}
	enclave, address, err := startEnclave(stderr, "-data-dir", o.dataDir, "-enclave-addr", o.enclaveAddr, "-state-bytes", strconv.FormatInt(o.stateBytes, 10),
		"-snapshot-every", strconv.Itoa(o.snapshotEvery), "-lease", o.lease.String(), "-organization-rate", o.rates.Organization.String(),
		"-sub-organization-rate", o.rates.SubOrganization.String(), "-key-rate", o.rates.Key.String(), "-auth-proxy-unlimited="+strconv.FormatBool(o.rates.Proxy.Off), "-quotas", string(quotas), "-insecure-test-skip", o.insecure,
		"-webhook-loopback="+strconv.FormatBool(o.loopback))
	if err != nil {
		return err
	}
	defer enclave.stop() // once more, for when the host never started
	h := o.hostCommand(address)
	h.Stdout = stderr
	host, err := start("host", h, stderr)
	if err != nil {
		return err
	}
	defer host.stop()
	defer enclave.stop() // before the host, which it needs to store what is decided
	if err := os.WriteFile(filepath.Join(o.dataDir, "pids"), fmt.Appendf(nil, "%d enclave\n%d host\n%d sim\n", enclave.cmd.Process.Pid, h.Process.Pid, os.Getpid()), 0o600); err != nil {
		return err
	}
	if terms != nil {
		following, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			if err := laptop.FollowLogs(following, address, witnesses.Add); err != nil {
				fmt.Fprintln(stderr, "cloister-sim: witnesses:", err)
			}
		}()
	}
	c, err := o.bootOrDie(ctx, address, enclave, host)
	if err != nil {
		return err
	}
	if err := laptop.AwaitOK(ctx, c.APIURL+"/readyz"); err != nil {
		return err
	}
	o.printInstructions(stdout, c)
	select {
	case <-ctx.Done():
		enclave.said.mute()
		host.said.mute()
		return nil
	case <-enclave.done:
		return enclave.failure()
	case <-host.done:
		return host.failure()
	}
}

// hostCommand starts the host beside an enclave at an address. The store's name, which may hold a password, goes by the
// environment: a command line is everybody's on this machine.
func (o *options) hostCommand(enclave string) *exec.Cmd {
	h := exec.Command(o.hostBinary, "serve", "-enclave", enclave, "-api-addr", o.apiAddr, "-auth-proxy-addr", o.authProxyAddr, "-address-rate", o.addressRate.String(), "-reach", "loopback", "-log-level", o.logLevel,
		"-webhook-loopback="+strconv.FormatBool(o.loopback))
	h.Env = append(os.Environ(), "CLOISTER_STORE="+o.store)
	return h
}

func (o *options) bootOrDie(ctx context.Context, address string, enclave, host *child) (c *laptop.Credentials, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute) // -organizations may ask for many
	defer cancel()
	booted := make(chan struct{})
	go func() {
		c, err = o.boot(ctx, address)
		close(booted)
	}()
	select {
	case <-booted:
	case <-enclave.done:
		return nil, enclave.failure()
	case <-host.done:
		return nil, host.failure()
	}
	if err == nil {
		return c, nil
	}
	// A connection that broke may be the end of whoever had the other side, who has said why.
	select {
	case <-enclave.done:
		err = enclave.failure()
	case <-host.done:
		err = host.failure()
	case <-time.After(time.Second):
	}
	return nil, err
}

// checkStore refuses a store that is empty where the data directory's organization was in it. The enclave would make
// another one, under the same key, and nobody would hear that the wallets are gone.
func (o *options) checkStore(ctx context.Context) error {
	before, err := o.dir().ReadCredentials()
	if before == nil || err != nil {
		return err
	}
	st, err := open.OpenExisting(ctx, o.store)
	switch {
	case err == nil:
		genesis, err := st.LoadObject(ctx, wire.LoadObject{Name: "genesis"})
		if err = errors.Join(err, st.Close()); err != nil || genesis.Found {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrNoVersion):
		return nil // the host tells what is wrong, or mends it
	}
	return fmt.Errorf("the store is empty, and organization %s of %s was in it: put the store back as it was, fill it from a backup (cloister-host restore), or begin anew with another -data-dir",
		before.OrganizationID, o.dir().CredentialsFile())
}

func (o *options) boot(ctx context.Context, address string) (*laptop.Credentials, error) {
	d := o.dir()
	var err error
	if d.Configuration, err = o.configuration(); err != nil {
		return nil, err
	}
	return d.Boot(ctx, address, o.organizations)
}

// printInstructions prints where everything is and how to go on: four commands, each of which can be pasted as often as one likes.
func (o *options) printInstructions(w io.Writer, c *laptop.Credentials) {
	absolute := func(name string) string {
		if abs, err := filepath.Abs(name); err == nil {
			return abs
		}
		return name
	}
	var more strings.Builder
	row := func(name, value string) { fmt.Fprintf(&more, "  %-14s %s\n", name, value) }
	// A passkey is of a name, and an address is none.
	row("dashboard", strings.Replace(c.APIURL, "//127.0.0.1:", "//localhost:", 1)+"/dashboard/     (sign in with the credentials file)")
	row("credentials", absolute(o.dir().CredentialsFile()))
	row("API", c.APIURL)
	row("organization", c.OrganizationID)
	if c.AuthProxyConfigID != "" {
		row("auth proxy", c.AuthProxyURL)
		row("", "configuration id "+c.AuthProxyConfigID)
	} else {
		row("auth proxy", "off for this organization (ACTIVITY_TYPE_ENABLE_AUTH_PROXY turns it on)")
	}
	if o.outside != (addresses{}) {
		row("inbox", o.outside.inbox+"     (mails and text messages that are sent arrive here)")
		row("test log-in", o.outside.issuer+"     (an OpenID provider for development)")
	}
	if o.logTerms != nil {
		row("witnesses", fmt.Sprintf("%d of %d must cosign the log (%s); all run on this machine, so they show how, and protect from nobody who has it", witnessQuorum, witnessCount, o.logTerms.Mode))
	}
	bin := absolute(filepath.Dir(o.hostBinary))
	fmt.Fprintf(w, `
Cloister is running with a SIMULATED enclave: anybody on this machine can read its keys.

%s
Try it in another terminal. Each command can be pasted again:

1. The SDK (Node 18 or newer):
   mkdir -p %[2]s && (cd %[2]s && npm install --silent @turnkey/sdk-server@8.2.1 && CREDENTIALS=%[3]s node --input-type=module -e 'import {Turnkey} from "@turnkey/sdk-server"; import fs from "node:fs"; const c = JSON.parse(fs.readFileSync(process.env.CREDENTIALS)); console.log(await new Turnkey({apiBaseUrl: c.apiUrl, apiPublicKey: c.rootApiKey.publicKey, apiPrivateKey: c.rootApiKey.privateKey, defaultOrganizationId: c.organizationId}).apiClient().getWhoami())')

2. A wallet, with proofs of how it came about:
   mkdir -p %[2]s && %[4]s/cloister-host request -credentials %[3]s -submit ACTIVITY_TYPE_CREATE_WALLET -proofs /public/v1/submit/create_wallet "{\"walletName\":\"Wallet $(date +%%s)-$RANDOM\",\"accounts\":[{\"curve\":\"CURVE_SECP256K1\",\"pathFormat\":\"PATH_FORMAT_BIP32\",\"path\":\"m/44'/60'/0'/0/0\",\"addressFormat\":\"ADDRESS_FORMAT_ETHEREUM\"}]}" >%[2]s/reply.json && echo the reply is in %[2]s/reply.json

3. The check of those proofs, offline:
   %[4]s/cloister-host request -credentials %[3]s /public/v1/query/get_latest_boot_proof '{"appName":"cloister"}' >%[2]s/boot.json && %[4]s/cloister-verify -credentials %[3]s -boot-proof %[2]s/boot.json -reply %[2]s/reply.json

4. What wallet kits in a browser need (@turnkey/core 2, @turnkey/react-wallet-kit), in the folder with their node_modules:
   node %[5]s --keys %[3]s

Ctrl-C stops it. The data stays in %[6]s.
`, more.String(), absolute(filepath.Join(o.dataDir, "try")), absolute(o.dir().CredentialsFile()), bin, filepath.Join(filepath.Dir(bin), "scripts", "walletkit", "pin-keys.mjs"), absolute(o.dataDir))
}
