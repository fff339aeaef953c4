package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cloister/attestation/request"
	"cloister/host/api"
	"cloister/host/backup"
	"cloister/host/drill"
	"cloister/host/link"
	"cloister/host/store/open"
	"cloister/shared/wire"
)

const drillUsage = `usage: cloister-host drill -from BACKUP -enclave ADDRESS -credentials FILE [flags]

Proves that a backup can be started from. It restores the backup into a scratch
store, serves that to a second enclave, which must be waiting for its manifest, on
an interface of its own, and waits until operators have brought that enclave up:
manifest and shares as at any start, at the address printed. Then it asks for every
address of the credentials' organization and of its sub-organizations, signs with
those of the organization itself, holds each signature against public key and
address, compares with a running deployment if -compare names one, and tells how
long each step took. Nothing goes out: no mail, no webhook, no transaction.

Let operators bring it up under a manifest that says "drill": true, with the running
one as predecessor. Its enclave then signs nothing but what this command asks for and
sends nothing, and asks no witness for anything. A deployment with witnesses is
drilled in no other way: what a copy has cosigned the running one cannot go on from.
One without is not either, unless -any-manifest says so: under the running manifest
the second enclave signs whatever it is asked for. Only a backup of a deployment that
no release with logs has served yet needs that.

The second enclave is a second copy of the deployment: end it when the drill is
over. On a laptop cloister-sim drill does all of it.

`

type drillFlags struct {
	backupFlags
	enclave, scratch, api, compare string
	credentials                    list
	signatures                     int
	wait                           time.Duration
	any                            bool
}

// list is a repeatable flag.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// runDrill is the command.
func runDrill(ctx context.Context, w *world, args []string) (err error) {
	f := &drillFlags{}
	set := f.set(w, "drill", drillUsage, "from")
	set.StringVar(&f.enclave, "enclave", "", "`ADDRESS` of the second enclave, as in serve")
	set.StringVar(&f.scratch, "scratch", "", "`FOLDER` for the scratch store, which must not be there yet; empty: a temporary one")
	set.StringVar(&f.api, "api-addr", "127.0.0.1:8090", "where the second enclave can be brought up and asked")
	set.StringVar(&f.compare, "compare", "", "`URL` of the running deployment's interface, to compare addresses with")
	set.Var(&f.credentials, "credentials", "`FILE` with organization and API key, as create-organization writes it; may be given again")
	set.IntVar(&f.signatures, "signatures", 100, "how many signatures to make at most, for each of the credentials")
	set.BoolVar(&f.any, "any-manifest", false, "take an enclave whose manifest is not of a drill")
	set.DurationVar(&f.wait, "wait", 30*time.Minute, "how long to wait for the second enclave")
	if err := parseOnlyFlags(set, args); err != nil {
		return err
	}
	if f.enclave == "" || len(f.credentials) == 0 || f.signatures < 1 || f.wait <= 0 {
		return fmt.Errorf("%w: want -from, -enclave and -credentials (see -help)", errUsage)
	}
	from, expected, err := f.source(w)
	if err != nil {
		return err
	}
	if f.scratch == "" {
		if f.scratch, err = os.MkdirTemp("", "cloister-drill-"); err != nil {
			return err
		}
	} else if err := os.Mkdir(f.scratch, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(f.scratch)) }()
	return f.run(ctx, w, from, expected)
}

func (f *drillFlags) run(ctx context.Context, w *world, from backup.Folder, expected *wire.Hash) (err error) {
	began := w.now()
	step := func(what string, since time.Time) time.Time {
		now := w.now()
		fmt.Fprintf(w.stdout, "%-10s %8.2f s\n", what, now.Sub(since).Seconds())
		return now
	}
	st, err := open.Open(ctx, "sqlite:"+filepath.Join(f.scratch, "cloister.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	sum, err := backup.Restore(ctx, from, st, expected)
	if err != nil {
		return err
	}
	at := step("restored", began)

	log := slog.New(slog.NewJSONHandler(w.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	witnesses := new(noWitnesses)
	l, err := link.New(link.Options{Address: f.enclave, Store: st, StoreTimeout: 30 * time.Second, Log: log, Witnesses: witnesses, Now: w.now, Pause: pause})
	if err != nil {
		return err
	}
	linked, unlink := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { l.Run(linked); close(done) }()
	defer func() { unlink(); <-done }()
	url, stop, err := f.listen(w, l, st.Ping, log)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(w.stdout, "waiting for the enclave at %s, to be brought up at %s\n", f.enclave, url)
	if err := f.awaitServing(ctx, l, witnesses, sum.Header.Deployment); err != nil {
		return err
	}
	at = step("booted", at)

	total := new(drilled)
	for _, name := range f.credentials {
		c, err := drillCredentials(w, name)
		if err != nil {
			return err
		}
		c.URL = url
		if err := f.check(ctx, w, c, total); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	step("compared", at)
	fmt.Fprintf(w.stdout, "%d addresses in %d organizations, %d signatures with %d of them; %d addresses computed anew from the public keys that the signatures fit\n",
		total.addresses, total.organizations, total.signatures, total.signers, total.computed)
	if f.compare != "" {
		fmt.Fprintf(w.stdout, "%d addresses and keys are the same in the running deployment, which has %d more\n", total.same, total.more)
	}
	step("in all", began)
	return nil
}

// listen serves the second enclave's interface.
func (f *drillFlags) listen(w *world, l *link.Link, ping func(context.Context) error, log *slog.Logger) (url string, stop func(), err error) {
	boot, err := w.token()
	if err != nil {
		return "", nil, err
	}
	a := api.New(api.Options{Enclave: l, Ping: ping, Metrics: api.NewMetrics(), Log: log, Now: w.now, Boot: boot, Wait: 30 * time.Second})
	listener, err := net.Listen("tcp", f.api)
	if err != nil {
		return "", nil, err
	}
	server := a.Server(a.Public(true))
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}

// noWitnesses shows no checkpoint of a copy to anybody: witnesses would cosign it, and the running deployment's log no more.
type noWitnesses struct{ asked atomic.Bool }

func (n *noWitnesses) Witness(context.Context, wire.Witness) (wire.Cosigned, error) {
	n.asked.Store(true)
	return wire.Cosigned{}, errDrillWitnessed
}

// ProveLogged knows of no log.
func (n *noWitnesses) ProveLogged(context.Context, wire.ProveLogged) (wire.Logged, error) {
	return wire.Logged{}, errDrillWitnessed
}

var errDrillWitnessed = errors.New(`the second enclave runs under a manifest that names witnesses, and a copy must not be shown to them: ` +
	`end it, have operators approve a manifest that says "drill": true, names no log and has the running one as predecessor, and begin again`)

// awaitServing waits until the second enclave serves the deployment.
func (f *drillFlags) awaitServing(ctx context.Context, l *link.Link, witnesses *noWitnesses, deployment wire.Hash) error {
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	for {
		if witnesses.asked.Load() {
			return errDrillWitnessed
		}
		asked, end := context.WithTimeout(ctx, 5*time.Second)
		reply, err := l.Call(asked, &wire.Call{Endpoint: wire.EndpointBoot, Op: wire.OpStatus, Body: []byte("{}"), WithinMs: 5000})
		end()
		if err == nil {
			if serving, err := f.isServing(reply.Body, deployment); serving || err != nil {
				return err
			}
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return errors.New("the enclave does not serve")
		}
	}
}

// isServing tells from its status whether the second enclave serves, and refuses one that is not to be drilled with.
func (f *drillFlags) isServing(status []byte, deployment wire.Hash) (serving bool, err error) {
	var s struct {
		State, Deployment string
		Drill             bool
	}
	if json.Unmarshal(status, &s) != nil {
		return false, nil
	}
	switch {
	case s.State == "fenced":
		return false, errors.New("the enclave was fenced")
	case s.State != "serving":
		return false, nil
	case s.Deployment != hex.EncodeToString(deployment[:]):
		return false, errors.New("the enclave serves another deployment")
	case !s.Drill && !f.any:
		return false, errNoDrill
	}
	return true, nil
}

var errNoDrill = errors.New(`the second enclave runs under a manifest that does not say "drill": true, and signs whatever it is asked for: ` +
	`end it, have operators approve one that says so and has the running one as predecessor, and begin again (or see -any-manifest in -help)`)

// drilled counts the parts of a drill.
type drilled struct{ organizations, addresses, signers, signatures, computed, same, more int }

// An checker asks one interface as one user.
type checker struct{ *request.API }

func drillCredentials(w *world, name string) (checker, error) {
	api, err := (&requestFlags{credentials: name}).fill(w)
	if err == nil && api.OrganizationID == "" {
		err = fmt.Errorf("%s: names no organization", name)
	}
	return checker{api}, err
}

// A signer is an address of a wallet, or a private key.
type signer struct {
	key  drill.Key
	with string
}

const drillPage = 100

// list asks for the page of a list after an id, or for the first.
func (a checker) list(ctx context.Context, query, organization, after string, into any) error {
	page := map[string]string{"limit": fmt.Sprint(drillPage)}
	if after != "" {
		page["after"] = after
	}
	return a.Query(ctx, query, map[string]any{"organizationId": organization, "paginationOptions": page}, into)
}

// signers are those of an organization, by the name to sign with and by every address.
func (a checker) signers(ctx context.Context, organization string) (map[string]signer, error) {
	all := map[string]signer{}
	for after := ""; ; {
		var got struct {
			Accounts []struct{ WalletAccountID, Curve, PublicKey, AddressFormat, Address string }
		}
		if err := a.list(ctx, "list_wallet_accounts", organization, after, &got); err != nil {
			return nil, err
		}
		for _, x := range got.Accounts {
			after = x.WalletAccountID
			all[x.Address] = signer{drill.Key{Curve: x.Curve, PublicKey: x.PublicKey, Format: x.AddressFormat, Address: x.Address}, x.Address}
		}
		if len(got.Accounts) < drillPage {
			break
		}
	}
	var got struct {
		PrivateKeys []struct {
			PrivateKeyID, Curve, PublicKey string
			Addresses                      []struct{ Format, Address string }
		}
	}
	if err := a.Query(ctx, "list_private_keys", map[string]any{"organizationId": organization}, &got); err != nil {
		return nil, err
	}
	for _, x := range got.PrivateKeys {
		all[x.PrivateKeyID] = signer{drill.Key{Curve: x.Curve, PublicKey: x.PublicKey}, x.PrivateKeyID}
		for _, y := range x.Addresses {
			all[y.Address] = signer{drill.Key{Curve: x.Curve, PublicKey: x.PublicKey, Format: y.Format, Address: y.Address}, x.PrivateKeyID}
		}
	}
	return all, nil
}

// organizations are the asker's own and its sub-organizations.
func (a checker) organizations(ctx context.Context) ([]string, error) {
	all := []string{a.OrganizationID}
	for after := ""; ; {
		var got struct{ OrganizationIDs []string }
		if err := a.list(ctx, "list_suborgs", a.OrganizationID, after, &got); err != nil {
			return nil, err
		}
		all = append(all, got.OrganizationIDs...)
		if len(got.OrganizationIDs) < drillPage {
			return all, nil
		}
		after = all[len(all)-1]
	}
}

// check asks, signs and compares as one user.
func (f *drillFlags) check(ctx context.Context, w *world, a checker, total *drilled) error {
	organizations, err := a.organizations(ctx)
	if err != nil {
		return err
	}
	for i, id := range organizations {
		there, err := a.signers(ctx, id)
		if err != nil {
			return err
		}
		total.organizations++
		for _, s := range there {
			if s.key.Address != "" {
				total.addresses++
			}
		}
		if i == 0 {
			if err := f.sign(ctx, a, there, total); err != nil {
				return err
			}
		}
		if f.compare == "" {
			continue
		}
		live := checker{&request.API{URL: strings.TrimSuffix(f.compare, "/"), OrganizationID: a.OrganizationID, Key: a.Key}}
		running, err := live.signers(ctx, id)
		if err != nil {
			return fmt.Errorf("-compare: %w", err)
		}
		for name, s := range there {
			if running[name] != s {
				return fmt.Errorf("%s of organization %s is %+v here and %+v in the running deployment", name, id, s.key, running[name].key)
			}
		}
		total.same, total.more = total.same+len(there), total.more+len(running)-len(there)
	}
	return nil
}

// sign signs with each in turn until there are enough signatures.
func (f *drillFlags) sign(ctx context.Context, a checker, with map[string]signer, total *drilled) error {
	names := slices.Sorted(maps.Keys(with))
	for n := 0; n < f.signatures && len(names) > 0; n++ {
		s := with[names[n%len(names)]]
		hash, err := s.key.Hash()
		if err != nil {
			return err
		}
		payload := fmt.Appendf([]byte(drill.Prefix), "signature %d", n)
		activity, err := a.Submit(ctx, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", map[string]string{"signWith": s.with, "payload": hex.EncodeToString(payload),
			"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": hash})
		if err != nil {
			return err
		}
		var r struct{ R, S string }
		if err := activity.Into(&r); err != nil {
			return fmt.Errorf("signing with %s: %w", s.with, err)
		}
		computed, err := s.key.Verify(payload, r.R, r.S)
		if err != nil {
			return fmt.Errorf("signing with %s: %w", s.with, err)
		}
		total.signatures++
		if n < len(names) {
			total.signers++
			if computed {
				total.computed++
			}
		}
	}
	return nil
}
