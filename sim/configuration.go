package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// configured are the flags that make the enclave's configuration. In production it is a
// document that operators approve; here the flags write it anew at every start.
type configured struct {
	document string // a file with the whole document, instead of all below
	smtp     string
	mailFrom string
	domains  string
	sms      string
	smsFrom  string

	whatsApp, whatsAppFrom string
	roots                  string // file
	issuer                 string
	sandbox                bool
	oauth2                 string
	onRamps                string
}

// The document, as package settings describes it.
type configuration struct {
	Mail     *mailServer          `json:"mail,omitempty"`
	Text     *textGateway         `json:"text,omitempty"`
	WhatsApp *textGateway         `json:"whatsapp,omitempty"`
	Roots    string               `json:"roots,omitempty"`
	Issuer   string               `json:"issuer,omitempty"`
	Sandbox  bool                 `json:"sandbox,omitempty"`
	OAuth2   map[string]endpoints `json:"oauth2,omitempty"`
	OnRamps  map[string]onRamp    `json:"onRamps,omitempty"`
}

type mailServer struct {
	Host     string   `json:"host"`
	Port     uint16   `json:"port"`
	Security string   `json:"security"`
	User     string   `json:"user,omitempty"`
	Password string   `json:"password,omitempty"`
	Sender   sender   `json:"sender"`
	Domains  []string `json:"domains,omitempty"`
}

type sender struct {
	Address string `json:"address"`
	Name    string `json:"name,omitempty"`
}

type textGateway struct {
	URL      string `json:"url"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	From     string `json:"from"`
}

type onRamp struct {
	APIURL string `json:"apiUrl,omitempty"`
}

type endpoints struct {
	TokenURL string `json:"tokenUrl"`
	UserURL  string `json:"userUrl"`
}

// besides are the flags, with the laptop's inbox and providers where they name nothing else.
func (o *options) besides() *configured {
	x, out := o.configured, &o.outside
	if *out == (addresses{}) {
		return &x
	}
	if x.smtp == "" {
		x.smtp = "smtp://" + out.smtp
	}
	for _, to := range []*string{&x.sms, &x.whatsApp} {
		if *to == "" {
			*to = strings.Replace(out.sms, "://", "://"+url.UserPassword(gateway.User, gateway.Password).String()+"@", 1)
		}
	}
	if x.oauth2 == "" {
		x.oauth2 = fmt.Sprintf("OAUTH2_PROVIDER_X=%s,%s OAUTH2_PROVIDER_DISCORD=%s,%s", out.providerX.Token, out.providerX.User, out.providerDiscord.Token, out.providerDiscord.User)
	}
	return &x
}

// configuration is the document that the flags ask for; none when they ask for
// nothing. Errors repeat no password.
func (o *options) configuration() ([]byte, error) {
	x := o.besides()
	if x.document != "" {
		return os.ReadFile(x.document)
	}
	c := configuration{Issuer: x.issuer, Sandbox: x.sandbox}
	if c.Issuer == "" && local(o.apiAddr) {
		c.Issuer = "http://" + o.apiAddr
	}
	var err error
	if x.smtp != "" {
		if c.Mail, err = x.mail(); err != nil {
			return nil, fmt.Errorf("-smtp: %w", err)
		}
	}
	if x.sms != "" {
		if c.Text, err = textGatewayOf(x.sms, x.smsFrom); err != nil {
			return nil, fmt.Errorf("-sms: %w", err)
		}
	}
	if x.whatsApp != "" {
		if c.WhatsApp, err = textGatewayOf(x.whatsApp, x.whatsAppFrom); err != nil {
			return nil, fmt.Errorf("-whatsapp: %w", err)
		}
	}
	if x.roots != "" {
		b, err := os.ReadFile(x.roots)
		if err != nil {
			return nil, fmt.Errorf("-issuer-roots: %w", err)
		}
		c.Roots = string(b)
	}
	for _, one := range strings.Fields(x.oauth2) {
		name, urls, ok := strings.Cut(one, "=")
		token, user, both := strings.Cut(urls, ",")
		if !ok || !both {
			return nil, errors.New("-oauth2: want NAME=TOKENURL,USERURL")
		}
		if c.OAuth2 == nil {
			c.OAuth2 = map[string]endpoints{}
		}
		c.OAuth2[name] = endpoints{token, user}
	}
	for _, one := range strings.Fields(x.onRamps) {
		name, apiURL, _ := strings.Cut(one, "=")
		if c.OnRamps == nil {
			c.OnRamps = map[string]onRamp{}
		}
		c.OnRamps[name] = onRamp{apiURL}
	}
	b, err := json.Marshal(c)
	if err != nil || string(b) == "{}" {
		return nil, err
	}
	return b, nil
}

// local tells whether an address is one that may be reached without TLS.
func local(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && port != "0" && (host == "127.0.0.1" || host == "::1" || host == "localhost")
}

var errMail = errors.New("want smtp://USER:PASSWORD@HOST:PORT, smtps:// or smtp+starttls://")

func (x *configured) mail() (*mailServer, error) {
	u, err := url.Parse(x.smtp)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errMail
	}
	m := &mailServer{Host: u.Hostname(), User: u.User.Username(), Sender: sender{Address: x.mailFrom}}
	m.Password, _ = u.User.Password()
	usual := map[string]uint16{"smtp": 587, "smtp+starttls": 587, "smtps": 465}[u.Scheme]
	m.Security = map[string]string{"smtp": "starttls", "smtp+starttls": "starttls", "smtps": "tls"}[u.Scheme]
	if usual == 0 {
		return nil, errMail
	}
	m.Port = usual
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return nil, errMail
		}
		m.Port = uint16(n)
	}
	if u.Scheme == "smtp" && local(net.JoinHostPort(m.Host, "1")) {
		m.Security = "plain"
	}
	for d := range strings.SplitSeq(x.domains, ",") {
		if d = strings.TrimSpace(d); d != "" {
			m.Domains = append(m.Domains, d)
		}
	}
	return m, nil
}

func textGatewayOf(text, from string) (*textGateway, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, errors.New("want http://USER:PASSWORD@HOST:PORT/PATH or https://")
	}
	g := &textGateway{User: u.User.Username(), From: from}
	g.Password, _ = u.User.Password()
	u.User = nil
	g.URL = u.String()
	return g, nil
}
