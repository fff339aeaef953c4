// Command cloister-host is the untrusted half of Cloister: it stores what the enclave sealed and
// carries requests to it, unread. The same binary holds the commands of operators and newcomers.
package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"cloister/host/api"
	"cloister/host/cosign"
	"cloister/host/dashboard"
	"cloister/host/egress"
	"cloister/host/link"
	"cloister/host/registry"
	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/host/tiles"
	"cloister/host/witness"
	"cloister/shared/collector"
	"cloister/shared/commandline"
	"cloister/shared/pace"
	"cloister/shared/slack"
	"cloister/shared/variables"
)

var program = commandline.Program{
	Name:  "cloister-host",
	About: "cloister-host serves Cloister's API, stores what the enclave sealed, and talks to the outside. It holds no keys.",
	Commands: []commandline.Command{
		{Name: "serve", About: "run the host"},
		{Name: "request", About: "sign a request with an API key and send it"},
		{Name: "create-organization", About: "create an organization, with the admission key"},
		{Name: "put-plans", About: "set the plans of organizations, with the admission key"},
		{Name: "boot", About: "pass operators' files to a starting enclave, and its answers back"},
		{Name: "webhooks", About: "list webhooks that could not be delivered, send them again"},
		{Name: "ranges", About: "show which enclave owns which organizations; empty one before it stops"},
		{Name: "log", About: "show the state of logs and witnesses; compare a store with what witnesses have seen"},
		{Name: "upgrade", About: "move everything from a running enclave to a new one"},
		{Name: "backup", About: "back the store up to a folder or an S3-compatible store; verify a backup"},
		{Name: "restore", About: "fill an empty store from a backup"},
		{Name: "drill", About: "restore a backup next to a second enclave, sign, and compare addresses"},
	},
}

// A world is everything that a command takes from outside.
type world struct {
	args           []string
	environ        []string // of which env gives one
	env            func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	rand           io.Reader
}

// spareBytes is how much garbage a host may gather before it is collected.
const spareBytes = 12 << 20

func main() {
	slack.AllowHere()
	collector.Spare(spareBytes)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, &world{os.Args[1:], os.Environ(), os.Getenv, os.Stdin, os.Stdout, os.Stderr, time.Now, rand.Reader})
	stop()
	os.Exit(code)
}

// Exit codes: 0 done, 1 failed, 2 called the wrong way.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

var errUsage = errors.New("usage")

var commands = map[string]func(context.Context, *world, []string) error{
	"serve":               loadAndServe,
	"request":             sendRequest,
	"create-organization": createOrganization,
	"put-plans":           putPlans,
	"upgrade":             upgrade,
	"ranges":              ranges,
	"boot":                boot,
	"webhooks":            webhooks,
	"log":                 logs,
	"backup":              backups,
	"restore":             restore,
	"drill":               runDrill,
}

func run(ctx context.Context, w *world) int {
	args, done := program.Answer(w.args, w.stdout)
	if done {
		return exitDone
	}
	if len(args) == 0 {
		program.Help(w.stderr)
		return exitUsage
	}
	name, args := args[0], args[1:]
	command := commands[name]
	if command == nil {
		fmt.Fprintln(w.stderr, "cloister-host:", program.Unknown(name))
		return exitUsage
	}
	err := variables.CheckEnvironment(w.environ)
	if err != nil {
		err = usageError(err)
	} else {
		err = command(ctx, w, args)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	fmt.Fprintf(w.stderr, "cloister-host %s: %v\n", name, err)
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

// newFlags are the flags of a command, still to be declared.
func newFlags(w *world, name, usage string) *flag.FlagSet {
	return commandline.NewFlags("cloister-host "+name, usage, w.stdout, nil)
}

// parseFlags parses a command's flags. Errors are errUsage, or flag.ErrHelp.
func parseFlags(set *flag.FlagSet, args []string) error {
	return usageError(commandline.Parse(set, args))
}

// usageError makes an error about flags errUsage, unless it asks for help.
func usageError(err error) error {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return fmt.Errorf("%w: %w", errUsage, err)
}

// token is four random bytes in hexadecimal.
func (w *world) token() (string, error) {
	b := make([]byte, 4)
	_, err := io.ReadFull(w.rand, b)
	return hex.EncodeToString(b), err
}

// loadAndServe is the command serve.
func loadAndServe(ctx context.Context, w *world, args []string) error {
	c, err := load(args, w.env, w.stdout)
	if err != nil {
		return usageError(err)
	}
	return serve(ctx, w, c)
}

// serve runs the host until ctx ends, and then lets requests under way end.
func serve(ctx context.Context, w *world, c *Config) error {
	level, err := c.level()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(w.stderr, &slog.HandlerOptions{Level: level}))
	name, err := c.storeName()
	if err != nil {
		return err
	}
	there, err := open.Open(ctx, name)
	if err != nil {
		return err
	}
	st := &watchedStore{Store: there, now: w.now}
	defer func() {
		if err := st.Close(); err != nil {
			log.Error("closing the store", "error", err)
		}
	}()
	nodes, err := egress.ParseNodes(c.Chain.text)
	if err != nil {
		return err
	}
	reach, err := egress.ParseReach(c.Reach)
	if err != nil {
		return err
	}
	mailer, err := c.mailer()
	if err != nil {
		return err
	}
	metrics := api.NewMetrics()
	chains := egress.NewChains(nodes, c.ChainTimeout)
	assets, err := c.assets()
	if err != nil {
		return err
	}
	chains.SetAssets(assets)
	trusted, err := roots("-witness-roots", c.WitnessRoots)
	if err != nil {
		return err
	}
	cosigner, err := cosign.New(cosign.Options{Store: st, Checkpoints: st, Transport: witness.NewTransport(trusted), Timeout: c.WitnessTimeout, Log: log, Observer: metrics, Now: w.now, Pause: pause})
	if err != nil {
		return err
	}
	defer cosigner.Close()
	var sender *egress.Sender
	var hooks *egress.Webhooks
	var enclaves []api.Watched
	links := link.LinksOptions{Own: st.Own, Log: log, Now: w.now, Pause: pause, Rand: w.rand}
	outside := &egress.Dialer{Reach: reach}
	images := registry.New(outside.DialContext, log)
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	runner, err := c.programs(beside, images, log)
	if err != nil {
		stop()
		return err
	}
	defer func() {
		stop()
		if runner != nil {
			runner.Host.Stop()
		}
	}()
	if err := c.ingress(beside, runner, log); err != nil {
		return err
	}
	var told link.Programs
	var tells egress.Programs
	if runner != nil {
		told, tells = runner, runner
	}
	for _, address := range splitList(c.Enclave) {
		one, err := link.New(link.Options{Address: address, Calls: c.EnclaveConnections, Store: st, StoreTimeout: c.StoreTimeout,
			Log: log.With("enclave", address), Observer: metrics, Chains: chains, Dialer: outside, Images: images, Programs: told,
			Witnesses: cosigner, Sends: func() { sender.Due(); hooks.Due() }, Now: w.now, Pause: pause})
		if err != nil {
			return err
		}
		links.Links = append(links.Links, one)
		enclaves = append(enclaves, api.Watched{Name: address, Enclave: one})
	}
	l, err := link.NewLinks(links)
	if err != nil {
		return err
	}
	if sender, err = egress.NewSender(egress.Options{Chains: chains, Outbox: st, Enclave: l, Mailer: mailer, Programs: tells, Log: log, Now: w.now, Pause: pause, Rand: w.rand}); err != nil {
		return err
	}
	if hooks, err = egress.NewWebhooks(egress.WebhookOptions{Outbox: st, Enclave: l, Dialer: &egress.Dialer{Loopback: c.WebhookLoopback}, Observer: metrics,
		Log: log, Now: w.now, Pause: pause, Rand: w.rand}); err != nil {
		return err
	}
	rate, err := pace.Parse(c.AddressRate)
	if err != nil {
		return err
	}
	boot, err := w.token()
	if err != nil {
		return err
	}
	var pages http.Handler
	if c.Dashboard {
		pages = dashboard.New()
	}
	secure, certificates, err := c.tls(log, w.now)
	if err != nil {
		return err
	}
	var public *tiles.Server
	if c.PublicLog {
		public = tiles.New(st, w.now)
	}
	a := api.New(api.Options{Outbox: outbox(st), Certificates: certificates, Enclave: l, Enclaves: enclaves, Ping: st.Ping, Metrics: metrics, Log: log, Now: w.now, Boot: boot,
		Origins: c.origins(), Wait: c.RequestTimeout, TrustForwarded: c.TrustForwarded, AddressRate: rate, AttestationAge: c.AttestationAge, Dashboard: pages,
		Logs: cosigner.Statuses, Tiles: public})
	servers, err := listen(c, a, secure, log)
	if err != nil {
		return err
	}
	// The link outlives the servers: requests under way need it to end.
	linked, unlink := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { l.Run(linked); close(done) }()
	defer func() { unlink(); <-done }()
	// The sender needs the link to the end.
	sending, stopSending := context.WithCancel(linked)
	var sent sync.WaitGroup
	sent.Go(func() { sender.Run(sending) })
	sent.Go(func() { hooks.Run(sending) })
	defer func() { stopSending(); sent.Wait() }()
	err = servers.run(ctx, c.ShutdownTimeout)
	log.Info("stopped")
	return err
}

// outbox makes the API's view of a store's outbox.
func outbox(st store.Watched) func(context.Context) (api.Outbox, error) {
	lane := func(w store.Waiting) api.Waiting {
		if w.Count == 0 {
			return api.Waiting{}
		}
		return api.Waiting{Count: w.Count, OldestDue: time.UnixMilli(int64(w.OldestDueMs))}
	}
	return func(ctx context.Context) (api.Outbox, error) {
		b, err := st.Backlog(ctx)
		return api.Outbox{Sends: lane(b.Sends), Webhooks: lane(b.Webhooks), Dead: b.Dead}, err
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// A server is an HTTP server and its listener. With a TLSConfig it speaks TLS.
type server struct {
	http     *http.Server
	listener net.Listener
}

func (s *server) serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

type servers []server

// listen opens all addresses, or none. secure is for those that clients call.
func listen(c *Config, a *api.API, secure *tls.Config, log *slog.Logger) (servers, error) {
	var all servers
	for _, s := range []struct {
		flag, address string
		handler       http.Handler
		secure        *tls.Config
	}{
		{"-api-addr", c.APIAddr, a.Public(c.OpsAddr == ""), secure},
		{"-auth-proxy-addr", c.AuthProxyAddr, a.Proxy(), secure},
		{"-ops-addr", c.OpsAddr, a.Ops(), nil},
	} {
		if s.address == "" || s.address == "off" {
			continue
		}
		l, err := net.Listen("tcp", s.address)
		if err != nil {
			for _, other := range all {
				_ = other.listener.Close()
			}
			return nil, fmt.Errorf("%s: %w", s.flag, err)
		}
		h := a.Server(s.handler)
		h.TLSConfig = s.secure.Clone()
		all = append(all, server{h, api.Whole(l)})
		log.Info("listening", "for", s.flag[1:], "address", l.Addr().String(), "tls", s.secure != nil)
	}
	return all, nil
}

// run serves until ctx ends or a server fails.
func (all servers) run(ctx context.Context, wait time.Duration) error {
	failed := make(chan error, len(all))
	for _, s := range all {
		go func() { failed <- s.serve() }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	for _, s := range all {
		if s.http.Shutdown(end) != nil {
			_ = s.http.Close() // requests that did not end in time
		}
	}
	return err
}
