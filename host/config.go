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

// Config is every setting of `cloister-host serve`. Each is a flag of the name in its tag and an
// environment variable: CLOISTER_ and that name in capitals, with _ for -. A flag wins over the
// environment; empty means the default. `cloister-host serve -help` and the README show these
// comments as the manual.
type Config struct {
	// Where the enclave listens: vsock://CID:PORT, or tcp://HOST:PORT and
	// unix:PATH for a simulated one. What crosses TCP can be read on the way:
	// same machine only. Several enclaves of one deployment stand with commas between
	// them, in any order and the same for all hosts: each request goes to the one that
	// owns the organization's range.
	Enclave string `flag:"enclave" default:"vsock://16:5000"`

	// Connections for calls to the enclave, 1 to 16. One measures best; more
	// help only when single requests are very large.
	EnclaveConnections int `flag:"enclave-connections" default:"1"`

	// Folder for what the host keeps by itself: the SQLite file, if no store is
	// named. Made when absent.
	DataDir string `flag:"data-dir" default:"cloister-data"`

	// Where sealed records are kept: postgres://USER:PASSWORD@HOST/DATABASE, or
	// sqlite:PATH for a file. Empty: cloister.db in the data folder. A password
	// is better given through the environment than as a flag, which everyone on
	// the machine can see.
	Store string `flag:"store" default:""`

	// Address of the public interface. Without -tls-cert or -acme-names TLS must
	// end in front of it.
	APIAddr string `flag:"api-addr" default:"127.0.0.1:8080"`

	// Address of the auth proxy, or "off".
	AuthProxyAddr string `flag:"auth-proxy-addr" default:"127.0.0.1:8081"`

	// Address of /healthz, /readyz and /metrics. Empty: the public interface
	// answers them. Give them an address of their own when that one can be
	// reached by strangers.
	OpsAddr string `flag:"ops-addr" default:""`

	// Origins whose web pages may call us, separated by commas. "*" means any:
	// a page can do nothing without a stamp.
	Origins string `flag:"origins" default:"*"`

	// A certificate chain as PEM: public interface and auth proxy are served over
	// TLS, with HTTP/2. Read anew when the file changes.
	TLSCert string `flag:"tls-cert" default:""`

	// The certificate's private key as PEM, likewise.
	TLSKey string `flag:"tls-key" default:""`

	// Host names, separated by commas, to get certificates for from an ACME server
	// and to serve public interface and auth proxy with. Port 443 of each must lead
	// to one of the two. The server's terms count as accepted.
	ACMENames string `flag:"acme-names" default:""`

	// Address that the ACME server may write to.
	ACMEEmail string `flag:"acme-email" default:""`

	// The ACME server's directory. Empty: Let's Encrypt.
	ACMEDirectory string `flag:"acme-directory" default:""`

	// File of PEM certificates to hold the ACME server's own against. Empty: the
	// system's.
	ACMERoots string `flag:"acme-roots" default:""`

	// Serve the dashboard at /dashboard/ of the public interface. It is files
	// without a secret; what it asks for goes through that interface.
	Dashboard bool `flag:"dashboard" default:"true"`

	// Take the caller's address from the last entry of X-Forwarded-For. Only
	// behind a proxy that sets it: IP allow lists go by it.
	TrustForwarded bool `flag:"trust-forwarded" default:"false"`

	// How many requests one address may send: 10/s, 600/m, 5000/h, or off. The
	// bucket holds that many and is refilled evenly. Of IPv6 a /64 counts as one
	// address. A /56 may send 4 times as many, a /48 16 times, an IPv4 /24 64 times.
	AddressRate string `flag:"address-rate" default:"off"`

	// Nodes of chains, JSON-RPC: NAME=URL with the chain's CAIP-2 name, such as
	// eip155:1=https://node.example or solana:mainnet=https://node.example. The flag
	// may be given again for each; several stand in one value with spaces between
	// them. What nodes answer the enclave takes for hints. An address with a key in
	// it is better given through the environment than as a flag.
	Chain nodes `flag:"chain" default:""`

	// File of the tokens whose balances are told, of chains that have a node: a JSON
	// list of {"caip19", "symbol", "name", "decimals", "logoUrl", "stable"}, of which
	// the last two may be left out. caip19 is eip155:NUMBER/erc20:0x… or
	// solana:NETWORK/token:MINT. Coins of chains are told without it.
	Assets string `flag:"assets" default:""`

	// How long a node may take for one question.
	ChainTimeout time.Duration `flag:"chain-timeout" default:"5s"`

	// Private destinations that the enclave may reach besides everything public, for
	// a mail server, a gateway, a registry or an identity provider of one's own:
	// HOST:PORT with commas between them, names or addresses just as the
	// configuration has them. "loopback" is all of this machine, for a simulated
	// enclave.
	Reach string `flag:"reach" default:""`

	// What runs customers' programs: nitro:FILE for enclaves of the base image in that file, which nitro-cli starts on
	// this machine, or process:COMMAND for the simulator's, whose arguments stand behind it with blanks between them. Empty:
	// this host runs none, and what is approved waits for one that does. Give it to one host of a deployment.
	Programs string `flag:"programs" default:""`

	// Cores and memory of one enclave that nitro-cli starts: CPUS,MIB.
	ProgramSize string `flag:"program-size" default:"2,1024"`

	// Where customers' programs are reached: APP=ADDRESS with commas between them. Connections to the address lead to the app's
	// live deployment, byte for byte; TLS ends in front of it or in the program.
	ProgramIngress string `flag:"program-ingress" default:""`

	// Mail server for the mails that the enclave's configuration leaves to the host
	// ("through": "host"; otherwise the enclave hands them in itself, unread, and this
	// is not used): smtps://USER:PASSWORD@HOST:PORT, smtp+starttls:// likewise, or
	// smtp://HOST:PORT of a relay on this machine's loopback. Without one such mails
	// wait until they expire. Better given through the environment than as a flag,
	// which everyone on the machine can see.
	SMTP string `flag:"smtp" default:""`

	// File of PEM certificates to hold that mail server's own against. Empty: the
	// system's.
	SMTPRoots string `flag:"smtp-roots" default:""`

	// Deliver webhooks to receivers on this machine's loopback too, and there also
	// without TLS. Only beside a simulator whose own setting allows such receivers.
	WebhookLoopback bool `flag:"webhook-loopback" default:"false"`

	// How long a request may take before the caller gets an error. What was
	// decided stays decided; the same body asks again.
	RequestTimeout time.Duration `flag:"request-timeout" default:"30s"`

	// How long the store may take for one question of the enclave.
	StoreTimeout time.Duration `flag:"store-timeout" default:"30s"`

	// How long a round of cosigning may take before the enclave is given what came,
	// and how long a witness may take for an answer. The witnesses are those of the
	// manifest.
	WitnessTimeout time.Duration `flag:"witness-timeout" default:"1s"`

	// File of PEM certificates to hold witnesses' own against. Empty: the system's.
	WitnessRoots string `flag:"witness-roots" default:""`

	// Serve the logs to everybody at /log/ of the public interface, by the protocol
	// C2SP tlog-tiles. They tell that batches were made, when and by which boot; no
	// organization, count or amount.
	PublicLog bool `flag:"public-log" default:"false"`

	// Age from which the enclave's attestation document makes /readyz fail.
	// "0s" means never.
	AttestationAge time.Duration `flag:"attestation-age" default:"3h"`

	// How long requests under way may take to end after SIGTERM or SIGINT.
	ShutdownTimeout time.Duration `flag:"shutdown-timeout" default:"20s"`

	// debug, info, warn or error. Debug logs every request, without contents.
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

// nodes are the values of -chain, joined.
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
	return nil // check tells what is wrong: flag would repeat the value
}

// redact keeps the value out of an error of package flag.
func redact(s setting, err error) error {
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		return number.Err
	}
	return fmt.Errorf("not a value of -%s", s.flag)
}

// assets are those of the file, if there is one.
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

// check refuses what cannot work.
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

// storeName is the store to open. The data folder is made only if it is used.
func (c *Config) storeName() (string, error) {
	if c.Store != "" {
		return c.Store, nil
	}
	return c.file(), os.MkdirAll(c.DataDir, 0o700)
}

// mailer submits mails, nil if nothing does.
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

// maxWitnessTimeout bounds -witness-timeout: the enclave waits for no round longer than its right to serve lasts.
const maxWitnessTimeout = 10 * time.Second

// roots reads the certificates of a setting's file, nil for those of the system.
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

// file is the store in the data folder.
func (c *Config) file() string { return "sqlite:" + filepath.Join(c.DataDir, "cloister.db") }

func (c *Config) level() (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, errors.New("-log-level: want debug, info, warn or error")
	}
	return l, nil
}

func (c *Config) origins() []string { return splitList(c.Origins) }

// splitList reads a list with commas between its entries.
func splitList(text string) []string {
	var all []string
	for e := range strings.SplitSeq(text, ",") {
		if e = strings.TrimSpace(e); e != "" {
			all = append(all, e)
		}
	}
	return all
}

// tls is the TLS of public interface and auth proxy, and the expiry of its certificates. nil means
// plain HTTP.
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
