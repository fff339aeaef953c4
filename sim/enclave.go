package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"cloister/enclave/core"
	"cloister/host/link"
	"cloister/shared/collector"
	"cloister/shared/pace"
	"cloister/shared/slack"
)

// fencedExit is the exit status of an enclave that was fenced.
const fencedExit = 3

// runEnclave is the enclave's process. Its first line on stdout is where it listens.
func runEnclave(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	collector.Spare(core.SpareBytes)
	slack.AllowHere()
	if err := switchOff(o.insecure); err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(stderr, nil)).With("process", "enclave")
	if o.usualRates {
		o.rates = o.rates.WithUsual()
	} else { // a developer's tests log in again and again from one address
		p, often := &o.rates.Proxy, pace.Rate{Count: 6000, Per: time.Minute}
		p.Requests, p.Accounts, p.Passcodes, p.Attempts, p.Signups = often, often, often, often, often
	}
	fenced := make(chan error, 1)
	c, err := o.dir().Enclave(core.Config{
		Limits: core.Limits{StateBytes: o.stateBytes, SnapshotEvery: o.snapshotEvery, Lease: o.lease},
		Rates:  o.rates,
		Quotas: o.quotas, WebhookLoopback: o.loopback,
		Fence: func(reason error) { fenced <- reason },
		Fault: func(ref string, err error) { log.Error("internal error", "reference", ref, "error", err.Error()) },
	})
	if err != nil {
		return err
	}
	address := o.enclaveAddr
	if !strings.HasPrefix(address, "unix:") {
		address = "tcp://" + address
	}
	l, err := link.Listen(address)
	if err != nil {
		return err
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		if !a.IP.IsLoopback() {
			return errors.New("the simulated enclave listens on loopback only")
		}
		address = "tcp://" + a.String()
	}
	fmt.Fprintln(stdout, address)
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	go func() { served <- c.Serve(serveCtx, l) }()
	select {
	case err := <-served:
		return err
	case reason := <-fenced:
		log.Error("fenced", "reason", reason.Error())
		os.Exit(fencedExit)
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return c.Stop(end)
	}
	return nil
}

// runBoot boots the enclave at -enclave-addr and writes credentials.json.
func runBoot(ctx context.Context, o *options, stdout, _ io.Writer) error {
	if o.logTermsFile != "" {
		b, err := os.ReadFile(o.logTermsFile)
		if err == nil {
			err = json.Unmarshal(b, &o.logTerms) // the enclave refuses a manifest with other members or values
		}
		if err != nil {
			return fmt.Errorf("-log-terms: %w", err)
		}
	}
	if o.join {
		d := o.dir()
		var err error
		if d.Configuration, err = o.configuration(); err != nil {
			return err
		}
		if err := d.Join(ctx, o.enclaveAddr); err != nil {
			return err
		}
	} else if _, err := o.boot(ctx, o.enclaveAddr); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "booted")
	return nil
}
