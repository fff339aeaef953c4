package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"cloister/attestation/client"
	"cloister/attestation/monitor"
	"cloister/attestation/request"
	"cloister/shared/commandline"
)

// monitorOptions is the command line of `cloister-verify monitor`.
type monitorOptions struct {
	options
	url, organization, keyFile, state string
	tiles, metrics                    string
	once, noWitnesses                 bool
	every, age, timeout               time.Duration
	from                              int64
}

const monitorUsage = `usage: cloister-verify monitor -url URL -organization ID -key-file FILE -state FILE [flags]

Reads every entry of an organization's ledger with its proof, and reports uses of its keys, a log that is
too old, and what the host withholds. Runs until it is stopped, or looks -once.

`

func parseMonitorFlags(args []string, stdout io.Writer) (*monitorOptions, error) {
	o := &monitorOptions{options: options{pcrs: make(map[int]string)}}
	f := commandline.NewFlags("cloister-verify monitor", monitorUsage, stdout, nil)
	f.StringVar(&o.url, "url", "", "`URL` of the public interface")
	f.StringVar(&o.organization, "organization", "", "`id` of the organization that is watched")
	f.StringVar(&o.keyFile, "key-file", "", "`file` with the private key of a member's API key, or the credentials that the dashboard gave; the member may read and need not be allowed more")
	f.StringVar(&o.state, "state", "", "`file` that keeps what was seen; made where there is none")
	f.Int64Var(&o.from, "from", -1, "without a state: begin with the entry of this `number`; default the newest")
	f.BoolVar(&o.once, "once", false, "poll once and exit: 0 no alert, 1 an alert, or the poll was incomplete")
	f.DurationVar(&o.every, "every", time.Minute, "how long to wait between two looks")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long one request may take")
	f.DurationVar(&o.age, "max-checkpoint-age", 5*time.Minute, "oldest head of the log, by the witnesses' clocks")
	f.StringVar(&o.tiles, "log-url", "", "`URL` below which the host publishes the log's tiles, HOST/log/RANGE: heads are then proven to go on from each other")
	f.BoolVar(&o.noWitnesses, "no-witnesses", false, "do not ask the witnesses themselves how much they have seen")
	f.StringVar(&o.metrics, "metrics", "", "loopback `address` to give metrics at, such as 127.0.0.1:9465")
	o.beliefs(f)
	return o, parse(f, args, o.check)
}

func (o *monitorOptions) check(rest []string) error {
	o.url, o.tiles = strings.TrimSuffix(o.url, "/"), strings.TrimSuffix(o.tiles, "/")
	switch {
	case len(rest) > 0:
		return errors.New("arguments that belong to no flag")
	case o.url == "" || o.organization == "" || o.keyFile == "" || o.state == "":
		return errors.New("want -url, -organization, -key-file and -state")
	case !isURL(o.url) || o.tiles != "" && !isURL(o.tiles):
		return errors.New("-url and -log-url are http:// or https://, a host and a path")
	case o.every < time.Second || o.age < time.Second || o.timeout < time.Second:
		return errors.New("-every, -timeout and -max-checkpoint-age are a second at least")
	case o.once && o.metrics != "":
		return errors.New("-once and -metrics: nobody would read them")
	case o.metrics != "" && !isLoopback(o.metrics):
		return errors.New("-metrics is an address of loopback and a port, as 127.0.0.1:9465")
	case o.credentials != "" && o.root != "":
		return errors.New("-credentials and -simulator-root both name a root")
	case o.unpinned || o.allowDebug || o.foreign || o.now != "":
		return errors.New("-unpinned, -allow-debug, -foreign-manifest and -now are for looking at proofs: whoever is watched is known")
	}
	return nil
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// runMonitor polls until it is interrupted, or once with -once.
func runMonitor(args []string, in *input, stdout, stderr io.Writer, now func() time.Time) int {
	o, err := parseMonitorFlags(args, stdout)
	if err != nil {
		return program.Misuse(err, stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := &watch{monitorOptions: o, stdout: stdout, stderr: stderr, now: now}
	if err := w.prepare(in); err != nil {
		fmt.Fprintln(stderr, "cloister-verify:", err)
		return exitUsage
	}
	return w.run(ctx)
}

// A watch is a running monitor with its outputs.
type watch struct {
	*monitorOptions
	stdout, stderr io.Writer
	now            func() time.Time
	monitor        *monitor.Monitor
	alerts         int
	mute           error // the first error of writing to standard output
}

func (w *watch) prepare(in *input) error {
	policy, err := w.policy(in, w.now)
	if err != nil {
		return err
	}
	policy.Now = time.Time{}
	raw, err := in.read(w.keyFile, maxSettings)
	if err != nil {
		return err
	}
	key, err := request.ParseKeyFile(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", w.keyFile, err)
	}
	state, err := w.readState(in)
	if err != nil {
		return err
	}
	at, err := url.Parse(w.url)
	if err != nil {
		return err
	}
	proofs := client.Discovery(w.url, nil)
	transport := &client.Transport{Policy: policy, Now: w.now, Proofs: proofs, Prefix: at.EscapedPath()}
	api := &request.API{URL: w.url, OrganizationID: w.organization, Key: key, HTTP: &http.Client{Transport: transport, Timeout: w.timeout}, Now: w.now}
	o := monitor.Options{Organization: w.organization, Ask: api.Query, Proofs: proofs, Policy: policy, MaxAge: w.age, Now: w.now, Pause: pause, Tell: w.printEvent, Save: w.save}
	if w.tiles != "" {
		o.Tiles = w.tile
	}
	if !w.noWitnesses {
		o.Witnesses = http.DefaultTransport
	}
	w.monitor, err = monitor.New(o, state)
	return err
}

func (w *watch) readState(in *input) (s monitor.State, err error) {
	raw, err := in.read(w.state, monitor.MaxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		s, err = monitor.ParseState(raw)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", w.state, err)
	}
	return s, nil
}

// save replaces the state file atomically.
func (w *watch) save(s monitor.State) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(w.state), filepath.Base(w.state)+".")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it was renamed to the state
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), w.state)
	}
	return err
}

// printEvent writes an event as a line of JSON.
func (w *watch) printEvent(e monitor.Event) {
	if e.Alert {
		w.alerts++
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = fmt.Fprintf(w.stdout, "%s\n", line)
	}
	w.mute = errors.Join(w.mute, err)
}

// tile fetches a tile from -log-url.
func (w *watch) tile(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.tiles+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", path, a.StatusCode)
	}
	return io.ReadAll(io.LimitReader(a.Body, 256*32+1))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (w *watch) run(ctx context.Context) int {
	if w.metrics != "" {
		end, err := w.serve()
		if err != nil {
			fmt.Fprintln(w.stderr, "cloister-verify:", err)
			return exitUsage
		}
		defer end()
	}
	for {
		err := w.poll(ctx)
		switch {
		case w.mute != nil:
			fmt.Fprintln(w.stderr, "cloister-verify: nobody is told:", w.mute)
			return exitRefused
		case ctx.Err() != nil:
			return exitVerified
		case err != nil:
			fmt.Fprintln(w.stderr, "cloister-verify:", err)
		}
		if w.once {
			if err != nil || w.alerts > 0 {
				return exitRefused
			}
			return exitVerified
		}
		if pause(ctx, w.every) != nil {
			return exitVerified
		}
	}
}

// poll polls once. Without a state it first determines the entry to begin with.
func (w *watch) poll(ctx context.Context) error {
	if !w.monitor.Begun() {
		seq := uint64(max(0, w.from))
		if w.from < 0 {
			var err error
			if seq, err = w.monitor.Newest(ctx); err != nil {
				return fmt.Errorf("where to begin: %w", err)
			}
		}
		w.monitor.BeginAt(seq)
	}
	return w.monitor.Poll(ctx)
}

// serve serves metrics on a loopback address.
func (w *watch) serve() (end func(), err error) {
	l, err := net.Listen("tcp", w.metrics)
	if err != nil {
		return nil, err
	}
	var busy atomic.Int32
	s := &http.Server{ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10, Handler: http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		defer busy.Add(-1)
		if busy.Add(1) > 8 || r.Method != http.MethodGet || r.URL.Path != "/metrics" {
			http.NotFound(to, r)
			return
		}
		to.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = w.monitor.WriteMetrics(to) // or the reader has gone
	})}
	go func() { _ = s.Serve(l) }()
	return func() { _ = s.Close() }, nil
}
