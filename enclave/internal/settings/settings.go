// Package settings is the measured configuration: what decides who reads a passcode and who
// may say who somebody is. It is one JSON document, handed in at boot beside the manifest,
// whose member configurationSha256 is the SHA-256 of its bytes. So whoever verifies the
// enclave's proofs knows its configuration, and nobody can change it while the enclave runs.
// Without a document nothing is configured: no mail and no text message goes out.
//
//	{
//	  "mail": {
//	    "host": "smtp.example.com", "port": 587,
//	    "security": "starttls",
//	    "user": "cloister", "password": "…",
//	    "sender": {"address": "login@example.com", "name": "Example", "replyTo": "help@example.com"},
//	    "domains": ["example.com"]
//	  },
//	  "text": {"url": "https://sms.example.com/2010/Messages.json", "user": "…", "password": "…", "from": "+15550100"},
//	  "whatsapp": {"url": "https://sms.example.com/2010/Messages.json", "user": "…", "password": "…", "from": "+15550101"},
//	  "roots": "-----BEGIN CERTIFICATE-----\n…",
//	  "issuer": "https://auth.example.com",
//	  "sandbox": false,
//	  "billing": {"processor": "stripe", "key": "rk_live_…", "meter": "signatures"},
//	  "onRamps": {"FIAT_ON_RAMP_PROVIDER_MOONPAY": {}, "FIAT_ON_RAMP_PROVIDER_COINBASE": {}},
//	  "gas": {"prices": {"eip155:1": 2500000000, "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": 150000000}},
//	  "rates": {"subOrganization": "200/10s", "eachSubOrganization": {"processor": "3000/m"}},
//	  "salt": "…"
//	}
//
// Every member may be left out; unknown ones are refused.
//
//	mail      the server that takes mail (or the host: see below). security is starttls (a server that does not
//	          offer TLS gets nothing), tls (from the first byte) or plain (loopback, simulator only). user and
//	          password come together or not at all. sender is whom mails are from where an organization does not
//	          say; its name is "Notifications" if absent. An organization may choose a sender in one of domains.
//	text      an HTTP gateway of the common form: To, From and Body are posted as a form, with user and password
//	          as basic authentication.
//	whatsapp  the same for messages of WhatsApp: To and From are posted as whatsapp:+15550101. Business accounts need an
//	          approved template, whose text a message must match: see smsCustomization.
//	roots     PEM certificates of authorities to believe beside those of the image, for private servers.
//	issuer    the public base URL of this deployment, below which its host serves
//	          /.well-known/openid-configuration: the issuer of the enclave's tokens.
//	sandbox   whether passcodes to the sandbox's contacts are fixed and nothing is sent to them.
//	onRamps   the on-ramp providers whose pages organizations may ask for, and which the enclave asks how purchases stand:
//	          MoonPay at api.moonpay.com, Coinbase at api.developer.coinbase.com. The accounts there are the
//	          organizations' own. apiUrl, in a simulator only, is another place to ask.
//	billing   the payment processor, which is stripe (at api.stripe.com), and a key there that may write customers and payment methods
//	          and meter events. Organizations' usage is told as events of the meter with this event name; without one it is not.
//	          apiUrl, in a simulator only, is another place to ask.
//	gas       what a coin of each chain counts whose transactions top-level organizations may pay for, in millionths of a
//	          US dollar. Their limits are counted in it; transactions of other chains are not sponsored.
//	rates     how much is answered, where it is not as usual: organization, subOrganization and key are requests of the users of one
//	          organization of the top level, of one sub-organization, and of one key; eachSubOrganization is what one may use, eachTenant
//	          what one of the top level may with all that is below it: processor (milliseconds), stored (thousands of bytes), mails, texts,
//	          fetches. authProxy is what the auth proxy answers to one network address: requests in all, and of one configuration accounts
//	          (look-ups), passcodes, attempts (uses of passcodes and tokens) and signups. A rate is a count, all at once if one
//	          likes, for s, m, h or 10s and its like: "5000/10s".
//	tvc       what customers' programs run in ("tvc": {"domain": "apps.example.com", "root": "-----BEGIN CERTIFICATE-----…",
//	          "pcr3": "…", "versions": [{"name": "cloister-1", "commit": "…", "pcr0": "…", "pcr1": "…", "pcr2": "…"}]}):
//	          the name below which apps are reached, the root certificate of their attestation, the PCR 3 of the
//	          machines that run them (all zero if absent), and the releases of the base image with their measurements, the
//	          newest one last. These stand in the manifests that customers' operators approve.
//	oauth2    simulator only: other tokenUrl and userUrl of OAuth 2.0 providers, by the providers' names.
//	tokens    up to 500 tokens whose amounts approvers are shown in words: a list of {"caip19", "symbol", "decimals"}, such as
//	          {"caip19": "eip155:1/erc20:0xA0b8…", "symbol": "USDC", "decimals": 6}; also solana:NETWORK/token:MINT and
//	          tron:NETWORK/trc20:T…. Other members are passed over, so the host's -assets file can be taken as it is.
//	salt      up to 128 random characters. The hash is public: without them, who knows the rest of the document
//	          could try passwords against it.
//
// # Mail through the host
//
//	"mail": {"through": "host", "sender": {…}, "domains": […]}
//
// gives each mail to the host when it is due, and the host hands it to the server that its
// flag -smtp names. The document then has no host, port, security, user or password, and the
// mail server's password never leaves the host.
//
// The price: the host reads every passcode at once, and can log in with it as whoever may log in by
// e-mail. The encrypted forms do not help, since they hide a code from a host that has not got it:
// who has the code can encrypt it under a key of his own. Through an auth proxy anybody may ask for
// a code, so the host need not even wait for the user. Two things stay. What is sent encrypted to a
// client's key (email_auth, user recovery) opens for that client alone, though who can have it sent
// for a key of his own reads it too. And if a user's MFA policy also asks for a passkey or an API
// key, a code alone opens nothing that the policy covers. So nobody should reach by e-mail alone
// what he would not hand to the host's operator. The enclave still hands text messages to the
// gateway itself. The manifest names this document's hash: whoever checks a boot proof can ask the
// operator for the document and see which way it says.
//
// # Who sees the document
//
// Whoever boots the enclave sees the document in clear. Its passwords let him hand in mail and
// text messages in the operator's name, and no more if their accounts can only submit.
//
// In production everything is reached over TLS, and nothing on the enclave's own loopback. The
// simulator also takes http:// and plain, for 127.0.0.1, ::1 and localhost alone.
package settings

import (
	"cmp"
	"crypto/x509"
	"slices"
	"strings"

	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/decoded"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// Bounds of a document.
const (
	Max         = 256 << 10 // bytes
	maxDomains  = 100
	maxPassword = 1 << 10
	maxGasPrice = 1e15 // a billion dollars
)

// field is what errors call the document.
const field = "configuration"

// Settings are a document that was read. They do not change.
type Settings struct {
	Mail *Mail              // nil: no mail goes out
	Text *netclient.Gateway // nil: no text message goes out
	// WhatsApp takes messages of WhatsApp; nil: none goes out.
	WhatsApp *netclient.Gateway
	Roots    *x509.CertPool // the image's root certificates and the document's
	Issuer   string         // empty: none
	Sandbox  bool
	OAuth2   map[string]Endpoints       // by the provider's name; in a simulator only
	OnRamps  map[onramp.Provider]string // those that are set up, with where they are asked
	Billing  *Payments                  // nil: there is none
	// GasPrices are by a chain's CAIP-2.
	GasPrices map[string]uint64
	Programs  *program.Platform // what customers' programs run in; nil: nothing
	Rates     Rates
	Tokens    *show.Tokens // nil: none is listed
}

// Payments are where payment methods are kept, at a payment processor.
type Payments struct {
	Base  string // of its URLs
	Key   secret.Secret
	Meter string // of usage; empty: none is told
}

// Mail is where mail is handed in.
type Mail struct {
	// ByHost tells that mails are given to the host, which sends them as it likes and reads
	// them. There is no MailServer then.
	ByHost               bool
	netclient.MailServer              // its Host is in lower case
	Sender               login.Sender // who a mail is from where nobody says
	Domains              []string     // in lower case: those of addresses that a sender may have
}

// Endpoints are those of an OAuth 2.0 provider.
type Endpoints struct {
	TokenURL string `json:"tokenUrl" rule:"required"`
	UserURL  string `json:"userUrl" rule:"required"`
}

// document is the JSON document. Passwords stay bytes of it until they become secrets.
type document struct {
	Mail     *mail                `json:"mail"`
	Text     *text                `json:"text"`
	WhatsApp *text                `json:"whatsapp"`
	Roots    string               `json:"roots"`
	Issuer   string               `json:"issuer"`
	Sandbox  bool                 `json:"sandbox"`
	OAuth2   map[string]Endpoints `json:"oauth2" rule:"omitempty,dive"`
	OnRamps  map[string]onRamp    `json:"onRamps"`
	Billing  *payments            `json:"billing"`
	Gas      *gas                 `json:"gas"`
	TVC      *tvcPlatform         `json:"tvc"`
	Rates    *rates               `json:"rates"`
	Tokens   strictjson.Raw       `json:"tokens"`
	Salt     string               `json:"salt" rule:"max=128"`
}

type onRamp struct {
	APIURL string `json:"apiUrl"`
}

type payments struct {
	Processor string         `json:"processor" rule:"required,oneof=stripe"`
	Key       strictjson.Raw `json:"key"`
	Meter     string         `json:"meter" rule:"max=100"`
	APIURL    string         `json:"apiUrl"`
}

type gas struct {
	Prices map[string]uint64 `json:"prices" rule:"required"`
}

type mail struct {
	Through  string         `json:"through" rule:"omitempty,oneof=host enclave"`
	Host     string         `json:"host"`
	Port     uint32         `json:"port" rule:"max=65535"`
	Security string         `json:"security" rule:"omitempty,oneof=starttls tls plain"`
	User     string         `json:"user"`
	Password strictjson.Raw `json:"password"`
	Sender   struct {
		Address string `json:"address" rule:"required"`
		Name    string `json:"name"`
		ReplyTo string `json:"replyTo"`
	} `json:"sender"`
	Domains []string `json:"domains"`
}

type text struct {
	URL      string         `json:"url" rule:"required"`
	User     string         `json:"user"`
	Password strictjson.Raw `json:"password"`
	From     string         `json:"from" rule:"required"`
}

var security = map[string]netclient.Security{"starttls": netclient.StartTLS, "tls": netclient.TLS, "plain": netclient.Plain}

// Parse reads a document; an empty one configures nothing. simulator allows what is for
// simulators only. The errors are *fault.Error about fields below "configuration"; none repeats
// a value. The caller may wipe raw.
func Parse(raw []byte, simulator bool) (*Settings, error) {
	var d document
	switch {
	case len(raw) > Max:
		return nil, fault.Field(field, "configuration is longer than %d bytes", Max)
	case len(raw) > 0:
		if err := strictjson.Decode(raw, &d, strictjson.At(field)); err != nil {
			return nil, err
		}
	}
	s := &Settings{Issuer: d.Issuer, Sandbox: d.Sandbox, OAuth2: d.OAuth2}
	if d.Gas != nil {
		s.GasPrices = d.Gas.Prices
	}
	for name, price := range s.GasPrices {
		const solana = "solana:"
		if !strings.HasPrefix(name, "eip155:") && !(strings.HasPrefix(name, solana) && len(name) == len(solana)+32) || price > maxGasPrice {
			return nil, errMember(".gas.prices", "has a name that is none of CAIP-2 (eip155:…, solana:… with 32 characters of the genesis hash), or a price that no coin has")
		}
	}
	var err error
	if s.Roots, err = netclient.Roots([]byte(d.Roots)); err != nil {
		return nil, errAt(".roots", err)
	}
	if d.Roots != "" && !strings.Contains(d.Roots, "-----BEGIN CERTIFICATE-----") {
		return nil, errMember(".roots", "holds no certificate")
	}
	if d.Issuer != "" {
		if _, err := login.DiscoveryURL(field+".issuer", d.Issuer, simulator); err != nil {
			return nil, err
		}
	}
	if err := checkOverrides(d.OAuth2, simulator); err != nil {
		return nil, err
	}
	if s.OnRamps, err = onRamps(d.OnRamps, simulator); err != nil {
		return nil, err
	}
	if d.Billing != nil {
		if s.Billing, err = d.Billing.read(simulator); err != nil {
			return nil, err
		}
	}
	if d.Rates != nil {
		if s.Rates, err = d.Rates.read(); err != nil {
			return nil, err
		}
	}
	if d.Tokens != nil {
		if s.Tokens, err = decoded.ReadTokens(d.Tokens); err != nil {
			return nil, errAt(".tokens", err)
		}
	}
	if d.TVC != nil {
		if s.Programs, err = d.TVC.read(); err != nil {
			return nil, err
		}
	}
	if d.Mail != nil {
		if s.Mail, err = d.Mail.read(simulator); err != nil {
			return nil, err
		}
	}
	if d.Text != nil {
		if s.Text, err = d.Text.read(".text", simulator); err != nil {
			return nil, err
		}
	}
	if d.WhatsApp != nil {
		if s.WhatsApp, err = d.WhatsApp.read(".whatsapp", simulator); err != nil {
			return nil, err
		}
		s.WhatsApp.Prefix = "whatsapp:"
	}
	return s, nil
}

// errAt is an error about a member. The texts of netclient repeat no value.
func errAt(member string, err error) error {
	return fault.Field(field+member, "%s%s: %v", field, member, err)
}

func errMember(member, what string) error {
	return fault.Field(field+member, "%s%s %s", field, member, what)
}

func checkOverrides(all map[string]Endpoints, simulator bool) error {
	if len(all) > 0 && !simulator {
		return errMember(".oauth2", "is for simulators only")
	}
	for name, e := range all {
		if _, known := login.OAuth2ProviderOf(name); !known {
			return errMember(".oauth2", "names a provider that is not known")
		}
		for _, url := range []string{e.TokenURL, e.UserURL} {
			if err := netclient.CheckURL(url, simulator); err != nil {
				return errAt(".oauth2", err)
			}
		}
	}
	return nil
}

// onRamps are providers with where they are asked.
func onRamps(all map[string]onRamp, simulator bool) (map[onramp.Provider]string, error) {
	out := map[onramp.Provider]string{}
	for name, o := range all {
		p := onramp.Provider(name)
		switch {
		case !p.Valid():
			return nil, errMember(".onRamps", "names a provider that is not known")
		case o.APIURL == "":
			out[p] = map[onramp.Provider]string{onramp.MoonPay: onramp.MoonPayAPI, onramp.Coinbase: onramp.CoinbaseAPI}[p]
			continue
		case !simulator:
			return nil, errMember(".onRamps", "has an apiUrl, which is for simulators only")
		}
		if err := netclient.CheckURL(o.APIURL, simulator); err != nil {
			return nil, errAt(".onRamps", err)
		}
		out[p] = strings.TrimSuffix(o.APIURL, "/")
	}
	return out, nil
}

func (d *payments) read(simulator bool) (p *Payments, err error) {
	p = &Payments{Base: billing.StripeAPI, Meter: d.Meter}
	switch {
	case len(d.Key) == 0:
		return nil, errMember(".billing.key", "is missing")
	case d.Meter != "" && !billing.IsName(d.Meter):
		return nil, errMember(".billing.meter", "must be letters, digits and underscores")
	case d.APIURL == "":
	case !simulator:
		return nil, errMember(".billing.apiUrl", "is for simulators only")
	default:
		if err := netclient.CheckURL(d.APIURL, simulator); err != nil {
			return nil, errAt(".billing.apiUrl", err)
		}
		p.Base = strings.TrimSuffix(d.APIURL, "/")
	}
	p.Key, err = password(".billing.key", d.Key, "processor")
	p.Key.Use(func(b []byte) {
		if err == nil && !billing.IsName(string(b)) {
			err = errMember(".billing.key", "must be letters, digits and underscores")
		}
	})
	return p, err
}

func (d *mail) read(simulator bool) (*Mail, error) {
	m := &Mail{Sender: login.Sender{Address: d.Sender.Address, Name: cmp.Or(d.Sender.Name, login.DefaultSenderName), ReplyTo: d.Sender.ReplyTo}}
	if d.Through == "host" {
		if d.Host+d.Security+d.User != "" || d.Port != 0 || len(d.Password) > 0 {
			return nil, errMember(".mail", "goes through the host: it names no server of its own")
		}
		m.ByHost = true
	} else if err := d.server(m, simulator); err != nil {
		return nil, err
	}
	// A sender is right if a mail can be from him.
	trial := login.Mail{From: m.Sender, To: m.Sender.Address, ID: "00000000-0000-4000-8000-000000000000"}
	if _, err := trial.Bytes(); err != nil {
		return nil, errMember(".mail.sender", "cannot be a mail's sender")
	}
	if len(d.Domains) > maxDomains {
		return nil, errMember(".mail.domains", "are too many")
	}
	for _, domain := range d.Domains {
		domain = strings.ToLower(domain)
		if !netclient.IsHost(domain) || !strings.Contains(domain, ".") || strings.Contains(domain, ":") || slices.Contains(m.Domains, domain) {
			return nil, errMember(".mail.domains", "has one that is no domain, or one twice")
		}
		m.Domains = append(m.Domains, domain)
	}
	return m, nil
}

// server reads the server that the enclave itself hands mails to.
func (d *mail) server(m *Mail, simulator bool) (err error) {
	s := netclient.MailServer{Host: strings.ToLower(d.Host), Port: uint16(d.Port), Security: security[d.Security], User: d.User}
	switch {
	case d.Host == "":
		return errMember(".mail.host", "is missing")
	case d.Port == 0:
		return errMember(".mail.port", "must be 1 to 65535")
	case d.Security == "":
		return errMember(".mail.security", "is missing")
	case !simulator && netclient.IsLoopback(s.Host):
		return errMember(".mail.host", "is this machine")
	}
	if s.Password, err = password(".mail.password", d.Password, d.User); err != nil {
		return err
	}
	if err := s.Check(simulator, m.Sender.Address); err != nil {
		return errAt(".mail", err)
	}
	m.MailServer = s
	return nil
}

func (d *text) read(member string, simulator bool) (g *netclient.Gateway, err error) {
	g = &netclient.Gateway{URL: d.URL, User: d.User, From: d.From}
	if g.Password, err = password(member+".password", d.Password, d.User); err != nil {
		return nil, err
	}
	if err := g.Check(simulator); err != nil {
		return nil, errAt(member, err)
	}
	return g, nil
}

// password reads a password, which comes with a user.
func password(member string, raw strictjson.Raw, user string) (secret.Secret, error) {
	switch {
	case (len(raw) > 0) != (user != ""):
		return secret.Secret{}, errMember(member, "and user come together")
	case len(raw) == 0:
		return secret.Secret{}, nil
	}
	var b []byte
	erase.Do(func() {
		s, _ := raw.Text()
		b = []byte(s)
	})
	if len(b) == 0 || len(b) > maxPassword {
		clear(b)
		return secret.Secret{}, errMember(member, "must be a text of 1 to 1024 bytes")
	}
	return secret.From(b)
}
