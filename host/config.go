package main

import (
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"cloister/host/cert"
	"cloister/host/egress"
	"cloister/host/link"
	"cloister/shared/commandline"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

// Config holds the settings of `cloister-host serve`. Each is a flag, named in the field's tag, and
// an environment variable: CLOISTER_ and that name in capitals, with _ for -. A flag overrides the
// environment; empty means the default. `cloister-host serve -help` and the README show these
// comments as the manual.
type Config struct {
	// Address of the enclave: vsock://CID:PORT in production, tcp://HOST:PORT or unix:PATH for a
	// simulated one. TCP is not encrypted: use it within one machine only. For several enclaves of one
	// deployment, separate the addresses with commas; every host needs the same list, in any order. Each
	// request goes to the enclave that owns the organization's range.
	Enclave string `flag:"enclave" default:"vsock://16:5000"`

	// Number of connections to each enclave for calls, 1 to 16. One is fastest in measurements; more
	// help only when single requests are very large.
	EnclaveConnections int `flag:"enclave-connections" default:"1"`

	// Folder for the host's own files: the SQLite file if -store is empty, and the certificates of
	// -acme-names. The host creates it if it does not exist.
	DataDir string `flag:"data-dir" default:"cloister-data"`

	// Database of the sealed records: postgres://USER:PASSWORD@HOST/DATABASE, or sqlite:PATH for a
	// file. Empty: cloister.db in the data folder. Give a password through the environment, not as a
	// flag: every user of the machine can read flags.
	Store string `flag:"store" default:""`

	// Address that the public interface listens at. Without -tls-cert or -acme-names it speaks plain
	// HTTP: put a proxy that terminates TLS in front of it.
	APIAddr string `flag:"api-addr" default:"127.0.0.1:8080"`

	// Address that the auth proxy listens at, or "off".
	AuthProxyAddr string `flag:"auth-proxy-addr" default:"127.0.0.1:8081"`

	// Address that /healthz, /readyz and /metrics listen at, in plain HTTP. Empty: the public interface
	// serves them. Set it if the public interface can be reached from the internet.
	OpsAddr string `flag:"ops-addr" default:""`

	// Web origins whose pages may call the public interface, separated by commas. "*" means any origin,
	// which is safe: a page can do nothing without a stamp.
	Origins string `flag:"origins" default:"*"`

	// PEM file of a certificate chain. With it the public interface and the auth proxy serve TLS, with
	// HTTP/2. The host reads the file again when it changes.
	TLSCert string `flag:"tls-cert" default:""`

	// PEM file of the private key of -tls-cert. The host reads it again when it changes.
	TLSKey string `flag:"tls-key" default:""`

	// Host names, separated by commas, for which the host gets certificates from an ACME server. The
	// public interface and the auth proxy then serve TLS with them. Port 443 of each name must lead to
	// one of the two. By setting this you accept the terms of the ACME server.
	ACMENames string `flag:"acme-names" default:""`

	// Your e-mail address for notices of the ACME server.
	ACMEEmail string `flag:"acme-email" default:""`

	// URL of the ACME server's directory. Empty: Let's Encrypt.
	ACMEDirectory string `flag:"acme-directory" default:""`

	// PEM file of the root certificates that the ACME server's own certificate must lead to. Empty: the
	// system's.
	ACMERoots string `flag:"acme-roots" default:""`

	// Serve the dashboard at /dashboard/ of the public interface. It consists of static files without a
	// secret; its requests go to the public interface.
	Dashboard bool `flag:"dashboard" default:"true"`

	// Take the caller's address from the last entry of X-Forwarded-For. Set it only behind a proxy that
	// writes this header: IP allow lists compare that address.
	TrustForwarded bool `flag:"trust-forwarded" default:"false"`

	// Rate limit for each caller address: 10/s, 600/m, 5000/h, or off. It is a token bucket that holds
	// that many requests and is refilled evenly. An IPv6 /64 counts as one address. Wider networks have
	// limits too: a /56 may send 4 times as many, a /48 16 times, an IPv4 /24 64 times.
	AddressRate string `flag:"address-rate" default:"off"`

	// JSON-RPC nodes of chains: NAME=URL, where NAME is the chain's CAIP-2 name, such as
	// eip155:1=https://node.example or solana:mainnet=https://node.example. Repeat the flag for each
	// node, or separate several with spaces in one value. The enclave treats a node's answers as hints.
	// Give a URL that contains a key through the environment, not as a flag.
	Chain nodes `flag:"chain" default:""`

	// JSON file of the tokens whose balances the host reports, on chains that have a node: a list of
	// {"caip19", "symbol", "name", "decimals", "logoUrl", "stable"}, of which the last two are optional.
	// caip19 is eip155:NUMBER/erc20:0x… or solana:NETWORK/token:MINT. Balances of native coins are
	// reported without it.
	Assets string `flag:"assets" default:""`

	// Time limit for one request to a node.
	ChainTimeout time.Duration `flag:"chain-timeout" default:"5s"`

	// Private destinations that the enclave may connect to, in addition to all public addresses: your
	// own mail server, gateway, registry or identity provider. A list of HOST:PORT separated by commas;
	// write each name or address exactly as the enclave's configuration has it. "loopback" allows every
	// port of this machine, for a simulated enclave.
	Reach string `flag:"reach" default:""`

	// How this host runs customers' programs: nitro:FILE starts enclaves from the base image in that
	// file with nitro-cli; process:COMMAND starts the simulator's processes, with arguments separated by
	// spaces after the command. Empty: this host runs none, and approved programs wait for a host that
	// does. Set it on one host of a deployment only.
	Programs string `flag:"programs" default:""`

	// CPU cores and memory in MiB of each enclave that nitro-cli starts: CPUS,MIB, at least 2,256.
	ProgramSize string `flag:"program-size" default:"2,1024"`

	// Addresses that this host listens at for customers' programs: APP=ADDRESS, separated by commas. It
	// forwards each TCP connection unchanged to the app's live deployment. TLS ends in front of the host
	// or in the program.
	ProgramIngress string `flag:"program-ingress" default:""`

	// Mail server for mails that the host itself sends. It is used only if the enclave's configuration says
	// "through": "host" for mail; otherwise the enclave delivers mails itself and the host cannot read
	// them. smtps://USER:PASSWORD@HOST:PORT or smtp+starttls://USER:PASSWORD@HOST:PORT, or
	// smtp://HOST:PORT for a relay on this machine's loopback. If it is empty, mails that need it wait
	// until they expire. Give it through the environment, not as a flag: every user of the machine can
	// read flags.
	SMTP string `flag:"smtp" default:""`

	// PEM file of the root certificates that the mail server's own certificate must lead to. Empty: the
	// system's.
	SMTPRoots string `flag:"smtp-roots" default:""`

	// Also deliver webhooks to receivers on this machine's loopback, there also without TLS. Set it only
	// beside a simulator whose own setting of this name allows such receivers.
	WebhookLoopback bool `flag:"webhook-loopback" default:"false"`

	// Time limit for a request; after it the caller gets an error. The decision may have been made
	// nevertheless: sending the same body again returns it.
	RequestTimeout time.Duration `flag:"request-timeout" default:"30s"`

	// Time limit for one operation of the enclave on the store.
	StoreTimeout time.Duration `flag:"store-timeout" default:"30s"`

	// Time limit for a cosigning round, at most 10s, and for one reply of a witness. When a round's time
	// is up, the enclave gets the cosignatures collected so far. The manifest names the witnesses.
	WitnessTimeout time.Duration `flag:"witness-timeout" default:"1s"`

	// PEM file of the root certificates that the witnesses' own certificates must lead to. Empty: the
	// system's.
	WitnessRoots string `flag:"witness-roots" default:""`

	// Publish the logs at /log/ of the public interface, by the protocol C2SP tlog-tiles. They reveal
	// that batches were made, when and by which boot, but no organization, count or amount.
	PublicLog bool `flag:"public-log" default:"false"`

	// Age of the enclave's attestation document from which /readyz fails. "0s" means never.
	AttestationAge time.Duration `flag:"attestation-age" default:"3h"`

	// Time that requests under way get to end after SIGTERM or SIGINT.
	ShutdownTimeout time.Duration `flag:"shutdown-timeout" default:"20s"`

	// Least severe level that is logged: debug, info, warn or error. Debug logs every request, without
	// its contents.
	LogLevel string `flag:"log-level" default:"info"`
}

//go:embed config.go
var configSource string

// A setting is one field of Config as a user sees it.
type setting struct {
	flag, env, value, doc string
}

// settings reads names and defaults from the tags of Config and the manual from its comments.
func settings() ([]setting, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", configSource, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	docs := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			docs[f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
		return false
	})
	var all []setting
	for f := range reflect.TypeFor[Config]().Fields() {
		name := f.Tag.Get("flag")
		all = append(all, setting{name, envName(name), f.Tag.Get("default"), docs[f.Name]})
	}
	return all, nil
}

func envName(flag string) string {
	return "CLOISTER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// load reads flags and environment into a Config and checks it.
func load(args []string, env func(string) string, stdout io.Writer) (*Config, error) {
	c := new(Config)
	all, err := settings()
	if err != nil {
		return nil, err
	}
	fs := commandline.NewFlags("cloister-host serve", "usage: cloister-host serve [flags]\n\n", stdout, envName)
	v := reflect.ValueOf(c).Elem()
	for i, s := range all {
		switch p := v.Field(i).Addr().Interface().(type) {
		case *string:
			fs.StringVar(p, s.flag, "", s.doc)
		case *int:
			fs.IntVar(p, s.flag, 0, s.doc)
		case *bool:
			fs.BoolVar(p, s.flag, false, s.doc)
		case *time.Duration:
			fs.DurationVar(p, s.flag, 0, s.doc)
		case *nodes:
			fs.Var(p, s.flag, s.doc)
		default:
			return nil, fmt.Errorf("setting %s: type %T", s.flag, p)
		}
		fs.Lookup(s.flag).DefValue = s.value
		for _, from := range []struct{ name, value string }{{"default", s.value}, {s.env, env(s.env)}} {
			if from.value == "" {
				continue
			}
			if err := fs.Set(s.flag, from.value); err != nil {
				return nil, fmt.Errorf("%s: %w", from.name, redact(s, err))
			}
		}
	}
	c.Chain.replace = true
	if err := commandline.Parse(fs, args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, commandline.Wrong(fs, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	c.Chain.replace = false
	return c, c.check()
}

// nodes is the flag value of -chain: all values given, joined by spaces.
type nodes struct {
	text    string
	replace bool // by the next value
}

func (n *nodes) String() string { return "" } // addresses may hold keys

// Set adds a value. The first flag replaces the environment's.
func (n *nodes) Set(text string) error {
	if n.replace {
		n.text, n.replace = "", false
	}
	n.text = strings.TrimSpace(n.text + " " + text)
	return nil // check reports a wrong value: package flag would print it, and it may hold a key
}

// redact keeps the value out of an error of package flag.
func redact(s setting, err error) error {
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		return number.Err
	}
	return fmt.Errorf("not a value of -%s", s.flag)
}

// assets returns the tokens in the file of -assets, nil if none is named.
func (c *Config) assets() (egress.Assets, error) {
	if c.Assets == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Assets)
	if err != nil {
		return nil, err
	}
	return egress.ParseAssets(text)
}

// check returns an error for a value, or a combination of values, that cannot work.
func (c *Config) check() error {
	if _, err := c.level(); err != nil {
		return err
	}
	if _, err := pace.Parse(c.AddressRate); err != nil {
		return fmt.Errorf("-address-rate: %w", err)
	}
	if c.EnclaveConnections < 1 || c.EnclaveConnections > link.MaxCalls {
		return fmt.Errorf("-enclave-connections: want 1 to %d", link.MaxCalls)
	}
	if n := len(splitList(c.Enclave)); n < 1 || n > link.MaxEnclaves {
		return fmt.Errorf("-enclave: want 1 to %d addresses", link.MaxEnclaves)
	}
	if c.RequestTimeout <= 0 || c.RequestTimeout > wire.MaxWait {
		return fmt.Errorf("-request-timeout: want more than 0 and at most %v", wire.MaxWait)
	}
	if _, err := egress.ParseNodes(c.Chain.text); err != nil {
		return fmt.Errorf("-chain: %w", err)
	}
	if _, err := c.assets(); err != nil {
		return fmt.Errorf("-assets: %w", err)
	}
	if _, err := egress.ParseReach(c.Reach); err != nil {
		return fmt.Errorf("-reach: %w", err)
	}
	if _, err := c.mailer(); err != nil {
		return err
	}
	if c.StoreTimeout <= 0 || c.ShutdownTimeout <= 0 || c.AttestationAge < 0 {
		return errors.New("-store-timeout, -shutdown-timeout and -attestation-age: want a time that is not negative")
	}
	if c.WitnessTimeout <= 0 || c.WitnessTimeout > maxWitnessTimeout {
		return fmt.Errorf("-witness-timeout: want more than 0 and at most %v", maxWitnessTimeout)
	}
	if _, err := roots("-witness-roots", c.WitnessRoots); err != nil {
		return err
	}
	if c.ChainTimeout <= 0 || c.ChainTimeout > egress.MaxTimeout {
		return fmt.Errorf("-chain-timeout: want more than 0 and at most %v", egress.MaxTimeout)
	}
	if c.APIAddr == "" {
		return errors.New("-api-addr: is empty")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("-tls-cert and -tls-key: want both or neither")
	}
	if c.TLSCert != "" && c.ACMENames != "" {
		return errors.New("-acme-names: there is -tls-cert already")
	}
	if c.ACMENames == "" && c.ACMEEmail+c.ACMEDirectory+c.ACMERoots != "" {
		return errors.New("-acme-names: is empty")
	}
	return nil
}

// storeName is the URL of the store to open. It makes the data folder only if the store is in it.
func (c *Config) storeName() (string, error) {
	if c.Store != "" {
		return c.Store, nil
	}
	return c.file(), os.MkdirAll(c.DataDir, 0o700)
}

// mailer returns the client of the mail server, nil if -smtp is empty.
func (c *Config) mailer() (egress.Mailer, error) {
	if c.SMTP == "" {
		if c.SMTPRoots != "" {
			return nil, errors.New("-smtp: is empty")
		}
		return nil, nil
	}
	pool, err := roots("-smtp-roots", c.SMTPRoots)
	if err != nil {
		return nil, err
	}
	s, err := egress.ParseMailServer(c.SMTP, pool)
	if err != nil {
		return nil, fmt.Errorf("-smtp: %w", err)
	}
	return s, nil
}

// maxWitnessTimeout is the upper bound of -witness-timeout: no round lasts longer than the enclave's right to serve.
const maxWitnessTimeout = 10 * time.Second

// roots reads the PEM certificates in the file that a setting names; nil, for the system's, if it names none.
func roots(setting, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s: holds no certificate", setting)
	}
	return pool, nil
}

// file is the URL of the SQLite store in the data folder.
func (c *Config) file() string { return "sqlite:" + filepath.Join(c.DataDir, "cloister.db") }

func (c *Config) level() (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, errors.New("-log-level: want debug, info, warn or error")
	}
	return l, nil
}

func (c *Config) origins() []string { return splitList(c.Origins) }

// splitList splits a list at its commas. It trims blanks and drops empty entries.
func splitList(text string) []string {
	var all []string
	for e := range strings.SplitSeq(text, ",") {
		if e = strings.TrimSpace(e); e != "" {
			all = append(all, e)
		}
	}
	return all
}

// tls returns the TLS configuration of the public interface and the auth proxy, and the expiry of its
// certificates by name. A nil configuration means plain HTTP.
func (c *Config) tls(log *slog.Logger, now func() time.Time) (*tls.Config, func() map[string]time.Time, error) {
	switch {
	case c.TLSCert != "":
		f, err := cert.ReadFiles(c.TLSCert, c.TLSKey, log, now)
		if err != nil {
			return nil, nil, fmt.Errorf("-tls-cert: %w", err)
		}
		return f.Config(), f.Until, nil
	case c.ACMENames != "":
		a := cert.ACME{Names: splitList(c.ACMENames), Email: c.ACMEEmail, Directory: c.ACMEDirectory, Roots: c.ACMERoots, Folder: filepath.Join(c.DataDir, "acme")}
		t, err := a.Config()
		if err != nil {
			return nil, nil, fmt.Errorf("-acme-names: %w", err)
		}
		return t, a.Until, nil
	}
	return nil, nil, nil
}
