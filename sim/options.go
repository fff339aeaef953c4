package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/shared/commandline"
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
	ranges        int  // of a deployment that is made
	join          bool // boot: one more enclave of a deployment that there is
	patience      time.Duration
	organizations int  // how many besides the root organization to make, for tests
	shares        bool // enclave: no seed file, operators bring the root secret in
	logLevel      string
	stateBytes    int64
	snapshotEvery int
	lease         time.Duration
	addressRate   pace.Rate // the host's; the others are the enclave's
	rates         core.Rates
	usualRates    bool
	authProxy     bool // the first organization gets one
	quotas        core.Quotas
	inboxAddr     string // the inbox's page, the SMS gateway and the identity provider
	inboxSMTPAddr string
	noInbox       bool
	log           string // what a reply waits for, by its name; empty: as before
	idpRedirects  string // URIs besides loopback, separated by commas
	idpClients    string // id=secret, separated by commas
	outside       addresses
	witnessDelay  time.Duration
	logTerms      *attestation.LogTerms // of the witnesses that were started
	logTermsFile  string
	configured    configured
	loopback      bool   // webhooks may go to this machine
	insecure      string // checks to switch off; refused by builds that cannot
}

// parse reads flags and environment. Errors are errUsage, or flag.ErrHelp once help is on stdout.
func parse(name string, args []string, env func(string) (string, bool), stdout io.Writer) (*options, error) {
	o := &options{}
	variable := func(flag string) string { return "CLOISTER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }
	f := commandline.NewFlags("cloister-sim "+name, "usage: cloister-sim "+name+" [flags]\n\nThe commands run, enclave and boot have the same flags.\n\n", stdout, variable)
	f.StringVar(&o.dataDir, "data-dir", "cloister-data", "directory for the store, credentials.json and the simulated enclave's secrets")
	f.BoolVar(&o.shares, "shares", false, "of the enclave alone: no seed file; operators bring the root secret in, by cloister-host boot and cloister-verify share")
	f.StringVar(&o.store, "store", "", "sqlite:PATH or postgres://… (default: an SQLite file in the data directory); a password belongs into CLOISTER_STORE or PGPASSFILE, since everybody on the machine sees flags")
	f.StringVar(&o.apiAddr, "api-addr", "127.0.0.1:8080", "address of the public API")
	f.StringVar(&o.authProxyAddr, "auth-proxy-addr", "127.0.0.1:8081", "address of the auth proxy")
	f.StringVar(&o.enclaveAddr, "enclave-addr", "127.0.0.1:0", "address of the simulated enclave: HOST:PORT on loopback, or unix:PATH")
	f.StringVar(&o.hostBinary, "host-binary", "", "cloister-host to run (default: the one beside this program)")
	f.IntVar(&o.ranges, "ranges", 1, "how many ranges a new deployment has, so that several enclaves can share it; fixed when it is made")
	f.BoolVar(&o.join, "join", false, "boot: one more enclave of a deployment that was booted before")
	f.StringVar(&o.logTermsFile, "log-terms", "", "boot: file with what a new manifest says of the logs, as its member log; the witnesses are others' (default: as before)")
	f.DurationVar(&o.patience, "boot-patience", 0, "boot: how long a step is asked again while the enclave is busy (default 15s)")
	f.IntVar(&o.organizations, "organizations", 0, "make this many organizations more, for tests; organizations.json lists them")
	f.StringVar(&o.logLevel, "log-level", "warn", "what the host logs: debug, info, warn or error")
	f.Int64Var(&o.stateBytes, "state-bytes", 0, "enclave memory for opened organizations (default 1 GiB)")
	f.IntVar(&o.snapshotEvery, "snapshot-every", 0, "entries between snapshots of an organization (default 4096)")
	f.DurationVar(&o.lease, "lease", 0, "how long the enclave may answer without the store's word (default 2s)")
	f.TextVar(&o.addressRate, "address-rate", pace.Rate{}, "requests that one address may send: 10/s, 600/m, 5000/h, or off")
	f.TextVar(&o.rates.Organization, "organization-rate", pace.Rate{}, "likewise, the users of one organization of the top level")
	f.TextVar(&o.rates.SubOrganization, "sub-organization-rate", pace.Rate{}, "likewise, those of one sub-organization")
	f.TextVar(&o.rates.Key, "key-rate", pace.Rate{}, "likewise, one key")
	f.TextVar(&o.rates.EachSub, "each-sub-organization", core.Spending{}, "what a sub-organization may use: processor=3000/m (milliseconds), stored=4000/m (thousands of bytes), mails=30/h, texts=10/h, fetches=60/m")
	f.TextVar(&o.rates.EachTenant, "each-tenant", core.Spending{}, "likewise, an organization of the top level with all that is below it")
	f.BoolVar(&o.usualRates, "usual-rates", false, "have the rates of the production enclave where no other is given")
	f.BoolVar(&o.authProxy, "auth-proxy", true, "turn the auth proxy of the first organization on at the first start")
	f.BoolVar(&o.rates.Proxy.Off, "auth-proxy-unlimited", false, "switch the auth proxy's rates off, also that of passcodes to one contact; an address may send 6000/m anyway, unless -usual-rates")
	f.TextVar(&o.quotas, "quotas", core.Quotas{}, "raise what an organization and its users may have: users=500,policies=1000 (default: as documented)")
	f.StringVar(&o.inboxAddr, "inbox-addr", defaultInboxAddr, "address of the inbox and the identity provider, loopback only; the usual one gives way to any free port")
	f.StringVar(&o.inboxSMTPAddr, "inbox-smtp-addr", defaultInboxSMTPAddr, "where the inbox takes mail, likewise")
	f.BoolVar(&o.noInbox, "no-inbox", false, "start neither inbox nor identity provider")
	f.StringVar(&o.log, "log", "", "what a reply waits for: strict (three of four witnesses on this machine must have cosigned), bounded (they may lag for two seconds) or none, without witnesses; none may become bounded, and that strict (default: as before, bounded at first)")
	f.DurationVar(&o.witnessDelay, "witness-delay", 0, "how much later these witnesses answer, as if they were as far away")
	f.StringVar(&o.idpRedirects, "idp-redirect-uris", "", "where the identity provider may send people besides this machine, separated by commas")
	f.StringVar(&o.idpClients, "idp-clients", "", "clients whose secret it checks, better as CLOISTER_IDP_CLIENTS: id=secret, separated by commas (others may bring any)")
	f.StringVar(&o.configured.smtp, "smtp", "", "mail server, as CLOISTER_SMTP where it holds a password: smtp://USER:PASSWORD@HOST:PORT (plain on loopback, else STARTTLS), smtps:// or smtp+starttls:// (default: no mail goes out)")
	f.StringVar(&o.configured.mailFrom, "mail-from", "login@cloister.example", "address that mails are from")
	f.StringVar(&o.configured.domains, "mail-domains", "", "domains of whose addresses organizations may choose a sender, with commas between them")
	f.StringVar(&o.configured.sms, "sms", "", "gateway for text messages, as CLOISTER_SMS where it holds a password: http://USER:PASSWORD@HOST:PORT/PATH (default: none go out)")
	f.StringVar(&o.configured.smsFrom, "sms-from", "Cloister", "sender of text messages")
	f.StringVar(&o.configured.whatsApp, "whatsapp", "", "likewise, gateway for messages of WhatsApp, as CLOISTER_WHATSAPP where it holds a password")
	f.StringVar(&o.configured.whatsAppFrom, "whatsapp-from", "+15550101", "number that they are from")
	f.StringVar(&o.configured.roots, "issuer-roots", "", "file of PEM certificates that the enclave believes besides its own, of issuers, mail servers and gateways")
	f.StringVar(&o.configured.issuer, "issuer", "", "base URL that tokens of ours name as their issuer (default: the public API's, on loopback)")
	f.BoolVar(&o.configured.sandbox, "sandbox", false, "fixed passcodes for the sandbox's contacts")
	f.StringVar(&o.configured.oauth2, "oauth2", "", "other endpoints of OAuth 2.0 providers: NAME=TOKENURL,USERURL with spaces between them")
	f.StringVar(&o.configured.onRamps, "on-ramps", "", "on-ramp providers that organizations may use: NAME, or NAME=URL to ask elsewhere than there, with spaces between them")
	f.StringVar(&o.configured.document, "configuration", "", "file with the enclave's whole configuration, instead of the flags above from -smtp on")
	f.BoolVar(&o.loopback, "webhook-loopback", false, "let webhooks go to receivers on this machine's loopback, also without TLS: http://127.0.0.1:…")
	f.StringVar(&o.insecure, "insecure-test-skip", "", "checks to switch off, in builds for tests only")
	var bad error
	f.VisitAll(func(fl *flag.Flag) {
		if v, ok := env(variable(fl.Name)); ok && v != "" {
			if err := f.Set(fl.Name, v); err != nil && bad == nil {
				bad = fmt.Errorf("%w: %s: %w", errUsage, variable(fl.Name), err)
			}
		}
	})
	if bad != nil {
		return nil, bad
	}
	switch err := commandline.Parse(f, args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	case f.NArg() > 0:
		return nil, fmt.Errorf("%w: %w", errUsage, commandline.Wrong(f, fmt.Errorf("unexpected argument %q", f.Arg(0))))
	}
	o.store = cmp.Or(o.store, "sqlite:"+filepath.Join(o.dataDir, "cloister.db"))
	o.hostBinary = cmp.Or(o.hostBinary, hostBeside())
	return o, nil
}

// hostBeside is cloister-host in the folder of this program.
func hostBeside() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(self), "cloister-host")
}

// dir is the data directory as the laptop's enclave sees it.
func (o *options) dir() *laptop.Dir {
	return &laptop.Dir{Path: o.dataDir, Patience: o.patience, APIURL: "http://" + o.apiAddr, AuthProxyURL: "http://" + o.authProxyAddr,
		Log: o.logTerms, InboxURL: o.outside.inbox, IdentityProviderURL: o.outside.issuer, AuthProxy: o.authProxy, Ranges: o.ranges, Shares: o.shares}
}
