package settings_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/settings"
	"cloister/shared/pace"
)

const full = `{
  "mail": {"host": "SMTP.example.com", "port": 587, "security": "starttls", "user": "cloister", "password": "p\u00e4ss \"word\"",
    "sender": {"address": "login@example.com", "name": "Example", "replyTo": "help@example.com"}, "domains": ["Example.com", "example.org"]},
  "text": {"url": "https://sms.example.com/messages", "user": "account", "password": "token", "from": "+15550100"},
  "issuer": "https://auth.example.com", "sandbox": true, "salt": "kX9"}`

func TestParse(t *testing.T) {
	raw := []byte(full)
	s, err := settings.Parse(raw, false)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw) // nothing of it is kept
	m := s.Mail
	if m.Host != "smtp.example.com" || m.Port != 587 || m.Security != netclient.StartTLS || m.User != "cloister" ||
		m.Sender != (login.Sender{Address: "login@example.com", Name: "Example", ReplyTo: "help@example.com"}) || !slices.Equal(m.Domains, []string{"example.com", "example.org"}) {
		t.Errorf("%+v", m)
	}
	if s.Text.URL != "https://sms.example.com/messages" || s.Text.User != "account" || s.Text.From != "+15550100" || s.Issuer != "https://auth.example.com" || !s.Sandbox {
		t.Errorf("%+v %+v", s, s.Text)
	}
	m.Password.Use(func(b []byte) {
		if string(b) != "päss \"word\"" || m.User != "cloister" {
			t.Errorf("%q", b)
		}
	})
	s.Text.Password.Use(func(b []byte) {
		if string(b) != "token" || s.Text.User != "account" {
			t.Errorf("%q", b)
		}
	})
	if printed := fmt.Sprintf("%v %+v %#v", s, m, s.Text); strings.Contains(printed, "päss") || strings.Contains(printed, "token") {
		t.Error("a password prints itself")
	}
}

func TestNothingConfigured(t *testing.T) {
	for _, raw := range []string{"", "{}", ` { } `, `{"mail":null}`, `{"salt":"only"}`} {
		s, err := settings.Parse([]byte(raw), false)
		if err != nil || s.Mail != nil || s.Text != nil || s.Issuer != "" || s.Sandbox || s.Roots == nil {
			t.Errorf("%q: %+v, %v", raw, s, err)
		}
	}
}

const (
	sender = `"sender":{"address":"a@example.com"}`
	server = `"host":"smtp.example.com","port":587,"security":"tls"`
)

// The payment processor is asked at its own place, in the name of who has the key.
func TestPayments(t *testing.T) {
	s, err := settings.Parse([]byte(`{"billing":{"processor":"stripe","key":"rk_live_1","meter":"signatures"}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	key := ""
	s.Billing.Key.Use(func(b []byte) { key = string(b) })
	if p := s.Billing; p.Base != "https://api.stripe.com" || p.Meter != "signatures" || key != "rk_live_1" {
		t.Errorf("%+v", p)
	}
	if s, err := settings.Parse([]byte(`{"billing":{"processor":"stripe","key":"rk_1","apiUrl":"http://127.0.0.1:1/"}}`), true); err != nil || s.Billing.Base != "http://127.0.0.1:1" || s.Billing.Meter != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := settings.Parse([]byte(`{}`), false); err != nil || s.Billing != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// On-ramp providers are asked at their own places, and nobody is asked whom the document does not name.
func TestOnRamps(t *testing.T) {
	s, err := settings.Parse([]byte(`{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{},"FIAT_ON_RAMP_PROVIDER_COINBASE":{}}}`), false)
	if err != nil || len(s.OnRamps) != 2 || s.OnRamps[onramp.MoonPay] != "https://api.moonpay.com" || s.OnRamps[onramp.Coinbase] != "https://api.developer.coinbase.com" {
		t.Errorf("%v %v", s, err)
	}
	if s, err := settings.Parse(nil, false); err != nil || len(s.OnRamps) != 0 {
		t.Errorf("%v %v", s, err)
	}
	if s, err := settings.Parse([]byte(`{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{"apiUrl":"http://127.0.0.1:1/"}}}`), true); err != nil || s.OnRamps[onramp.MoonPay] != "http://127.0.0.1:1" {
		t.Errorf("%v %v", s, err)
	}
}

func mailOf(members ...string) string { return `{"mail":{` + strings.Join(members, ",") + `}}` }

func TestRates(t *testing.T) {
	s, err := settings.Parse([]byte(`{"rates":{"organization":"300/m","key":"20/10s","eachSubOrganization":{"processor":"3000/m","fetches":"9/h"},"eachTenant":{"mails":"2/s"},"authProxy":{"requests":"900/m","passcodes":"40/h"}}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Rates{Organization: pace.Rate{Count: 300, Per: time.Minute}, Key: pace.Rate{Count: 20, Per: 10 * time.Second},
		EachSub:    settings.Spending{Processor: pace.Rate{Count: 3000, Per: time.Minute}, Fetches: pace.Rate{Count: 9, Per: time.Hour}},
		EachTenant: settings.Spending{Mails: pace.Rate{Count: 2, Per: time.Second}},
		AuthProxy:  settings.AddressRates{Requests: pace.Rate{Count: 900, Per: time.Minute}, Passcodes: pace.Rate{Count: 40, Per: time.Hour}}}
	if s.Rates != want {
		t.Errorf("%+v", s.Rates)
	}
	usual := settings.Rates{Organization: pace.Rate{Count: 1, Per: time.Hour}, SubOrganization: pace.Rate{Count: 2, Per: time.Hour}, EachSub: settings.Spending{Mails: pace.Rate{Count: 3, Per: time.Hour}}}
	want.SubOrganization, want.EachSub.Mails = usual.SubOrganization, usual.EachSub.Mails
	if got := s.Rates.Or(usual); got != want {
		t.Errorf("with the usual ones: %+v", got)
	}
	for _, raw := range []string{`{"key":"off"}`, `{"key":"0/s"}`, `{"key":"5"}`, `{"key":5}`, `{"keys":"5/s"}`, `{"subOrganization":"1000001/s"}`, `{"eachTenant":{"mail":"5/s"}}`,
		`{"eachTenant":"mails=5/s"}`, `{"eachSubOrganization":{"texts":"5/d"}}`, `{"contact":"5/s"}`, `{"authProxy":{"contact":"5/s"}}`, `{"authProxy":{"signups":"off"}}`, `{"proxy":"off"}`} {
		refused(t, raw, `{"rates":`+raw+`}`, true)
	}
}

func TestDefaults(t *testing.T) {
	s, err := settings.Parse([]byte(mailOf(server, sender)), false)
	if err != nil || s.Mail.Sender.Name != login.DefaultSenderName || s.Mail.Password.Len() != 0 || s.Mail.Domains != nil || s.Mail.Security != netclient.TLS {
		t.Errorf("%+v, %v", s, err)
	}
}

// Mail through the host has a sender and no server; what it costs says the package.
func TestMailThroughTheHost(t *testing.T) {
	s, err := settings.Parse([]byte(mailOf(`"through":"host"`, sender, `"domains":["example.com"]`)), false)
	if err != nil || !s.Mail.ByHost || s.Mail.Sender.Address != "a@example.com" || !slices.Equal(s.Mail.Domains, []string{"example.com"}) || s.Mail.Host != "" {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err = settings.Parse([]byte(mailOf(`"through":"enclave"`, server, sender)), false); err != nil || s.Mail.ByHost || s.Mail.Host == "" {
		t.Errorf("%+v, %v", s, err)
	}
	for name, members := range map[string][]string{
		"a server too": {server, sender}, "a host too": {sender, `"host":"a.example"`}, "a port too": {sender, `"port":25`}, "security too": {sender, `"security":"tls"`},
		"a password": {sender, `"user":"u","password":"hunter2"`}, "a user alone": {sender, `"user":"u"`}, "a password alone": {sender, `"password":"hunter2"`},
		"no sender": {}, "a sender that is none": {`"sender":{"address":"a"}`}, "a domain that is none": {sender, `"domains":["a"]`},
	} {
		refused(t, name, mailOf(append(members, `"through":"host"`)...), true)
		refused(t, name, mailOf(append(members, `"through":"host"`)...), false)
	}
	for _, through := range []string{`"Host"`, `""`, `"relay"`, `true`, `null,"through":"host"`} {
		if through != `""` { // as if absent: then the server is missing
			refused(t, through, mailOf(server, sender, `"through":`+through), false)
		}
		refused(t, through, mailOf(sender, `"through":`+through), false)
	}
}

// local are what only a simulator may have.
var local = map[string]string{
	"plain on 127.0.0.1":    mailOf(`"host":"127.0.0.1","port":2525,"security":"plain"`, sender),
	"plain on ::1":          mailOf(`"host":"::1","port":2525,"security":"plain"`, sender),
	"plain on localhost":    mailOf(`"host":"localhost","port":2525,"security":"plain"`, sender),
	"plain with password":   mailOf(`"host":"localhost","port":2525,"security":"plain","user":"u","password":"p"`, sender),
	"TLS on 127.0.0.1":      mailOf(`"host":"127.0.0.1","port":465,"security":"tls"`, sender),
	"STARTTLS on LOCALHOST": mailOf(`"host":"LOCALHOST","port":587,"security":"starttls"`, sender),
	"gateway over http":     `{"text":{"url":"http://127.0.0.1:8080/sms","from":"+1"}}`,
	"gateway on loopback":   `{"text":{"url":"https://localhost:8443/sms","from":"+1"}}`,
	"issuer over http":      `{"issuer":"http://127.0.0.1:8080"}`,
	"provider's endpoints":  `{"oauth2":{"OAUTH2_PROVIDER_X":{"tokenUrl":"http://127.0.0.1:1/t","userUrl":"http://127.0.0.1:1/u"}}}`,
	"on-ramp on loopback":   `{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{"apiUrl":"http://127.0.0.1:1"}}}`,
	"payments elsewhere":    `{"billing":{"processor":"stripe","key":"rk_1","apiUrl":"https://pay.example"}}`,
	"on-ramp elsewhere":     `{"onRamps":{"FIAT_ON_RAMP_PROVIDER_COINBASE":{"apiUrl":"https://pay.example"}}}`,
	"public endpoints":      `{"oauth2":{"OAUTH2_PROVIDER_X":{"tokenUrl":"https://x.example/t","userUrl":"https://x.example/u"}}}`,
}

func TestForSimulatorsOnly(t *testing.T) {
	for name, raw := range local {
		if _, err := settings.Parse([]byte(raw), true); err != nil {
			t.Errorf("%s: refused in a simulator: %v", name, err)
		}
		refused(t, name, raw, false)
	}
}

// refusedAlways are refused also in a simulator.
var refusedAlways = map[string]string{
	"no JSON":                   "configuration",
	"an array":                  "[]",
	"two documents":             "{}{}",
	"unknown member":            `{"mails":{}}`,
	"unknown member inside":     mailOf(server, sender, `"tls":true`),
	"a member twice":            `{"issuer":"https://a.example","issuer":"https://a.example"}`,
	"a member in another case":  `{"Issuer":"https://a.example"}`,
	"a member in two spellings": mailOf(server, `"sender":{"address":"a@example.com","replyTo":"b@example.com","reply_to":"b@example.com"}`),
	"no host":                   mailOf(`"port":1,"security":"tls"`, sender),
	"host with a port":          mailOf(`"host":"a.example:25","port":25,"security":"tls"`, sender),
	"host with a space":         mailOf(`"host":"a example","port":25,"security":"tls"`, sender),
	"host that is a number":     mailOf(`"host":"2130706433","port":25,"security":"tls"`, sender),
	"host in brackets":          mailOf(`"host":"[::1]","port":25,"security":"tls"`, sender),
	"mapped address":            mailOf(`"host":"::ffff:127.0.0.1","port":25,"security":"plain"`, sender),
	"port 0":                    mailOf(`"host":"a.example","port":0,"security":"tls"`, sender),
	"no port":                   mailOf(`"host":"a.example","security":"tls"`, sender),
	"port too high":             mailOf(`"host":"a.example","port":65536,"security":"tls"`, sender),
	"negative port":             mailOf(`"host":"a.example","port":-1,"security":"tls"`, sender),
	"no security":               mailOf(`"host":"a.example","port":25`, sender),
	"unknown security":          mailOf(`"host":"a.example","port":25,"security":"optional"`, sender),
	"plain elsewhere":           mailOf(`"host":"a.example","port":25,"security":"plain"`, sender),
	"plain on 127.0.0.2":        mailOf(`"host":"127.0.0.2","port":25,"security":"plain"`, sender),
	"no sender":                 mailOf(server),
	"sender without address":    mailOf(server, `"sender":{"name":"A"}`),
	"sender no address":         mailOf(server, `"sender":{"address":"a"}`),
	"sender on localhost":       mailOf(server, `"sender":{"address":"a@localhost"}`),
	"sender with a line end":    mailOf(server, `"sender":{"address":"a@example.com\r\nBcc: b@example.com"}`),
	"name with a line end":      mailOf(server, `"sender":{"address":"a@example.com","name":"A\nB"}`),
	"replyTo no address":        mailOf(server, `"sender":{"address":"a@example.com","replyTo":"b"}`),
	"user alone":                mailOf(server, sender, `"user":"hunter2"`),
	"password alone":            mailOf(server, sender, `"password":"hunter2"`),
	"empty password":            mailOf(server, sender, `"user":"u","password":""`),
	"password a number":         mailOf(server, sender, `"user":"u","password":1`),
	"password an object":        mailOf(server, sender, `"user":"u","password":{"hunter2":"hunter2"}`),
	"password with a line end":  mailOf(server, sender, `"user":"u","password":"hunter2\nQUIT"`),
	"password with a NUL":       mailOf(server, sender, `"user":"u","password":"hunter2\u0000"`),
	"user with a line end":      mailOf(server, sender, `"user":"u\r\n","password":"hunter2"`),
	"long password":             mailOf(server, sender, `"user":"u","password":"`+strings.Repeat("hunter2", 200)+`"`),
	"domain without a dot":      mailOf(server, sender, `"domains":["example"]`),
	"domain an address":         mailOf(server, sender, `"domains":["10.0.0.1:1"]`),
	"domain with an at":         mailOf(server, sender, `"domains":["a@example.com"]`),
	"domain twice":              mailOf(server, sender, `"domains":["example.com","EXAMPLE.com"]`),
	"domain null":               mailOf(server, sender, `"domains":[null]`),
	"gateway without a URL":     `{"text":{"from":"+1"}}`,
	"gateway without from":      `{"text":{"url":"https://a.example"}}`,
	"gateway over http":         `{"text":{"url":"http://a.example/","from":"+1"}}`,
	"gateway with a user in it": `{"text":{"url":"https://u:hunter2@a.example/","from":"+1"}}`,
	"gateway no URL":            `{"text":{"url":"a.example","from":"+1"}}`,
	"gateway's user with colon": `{"text":{"url":"https://a.example/","from":"+1","user":"a:b","password":"hunter2"}}`,
	"gateway's user alone":      `{"text":{"url":"https://a.example/","from":"+1","user":"a"}}`,
	"roots no PEM":              `{"roots":"hunter2"}`,
	"roots a key":               `{"roots":"-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n"}`,
	"roots no certificate":      `{"roots":"-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n"}`,
	"issuer over http":          `{"issuer":"http://a.example"}`,
	"issuer with a query":       `{"issuer":"https://a.example/?b"}`,
	"issuer no URL":             `{"issuer":"a.example"}`,
	"sandbox a text":            `{"sandbox":"true"}`,
	"unknown provider":          `{"oauth2":{"OTHER":{"tokenUrl":"https://a.example/","userUrl":"https://a.example/"}}}`,
	"provider without userUrl":  `{"oauth2":{"OAUTH2_PROVIDER_X":{"tokenUrl":"https://a.example/"}}}`,
	"provider over http":        `{"oauth2":{"OAUTH2_PROVIDER_X":{"tokenUrl":"http://a.example/","userUrl":"https://a.example/"}}}`,
	"unknown processor":         `{"billing":{"processor":"other","key":"rk_1"}}`,
	"no processor":              `{"billing":{"key":"rk_1"}}`,
	"no key of the processor":   `{"billing":{"processor":"stripe"}}`,
	"an empty key":              `{"billing":{"processor":"stripe","key":""}}`,
	"a key of two lines":        `{"billing":{"processor":"stripe","key":"hunter2\r\nX: y"}}`,
	"a meter that is none":      `{"billing":{"processor":"stripe","key":"rk_1","meter":"a b"}}`,
	"payments over http":        `{"billing":{"processor":"stripe","key":"rk_1","apiUrl":"http://a.example"}}`,
	"payments with more":        `{"billing":{"processor":"stripe","key":"rk_1","secret":"hunter2"}}`,
	"unknown on-ramp":           `{"onRamps":{"OTHER":{}}}`,
	"tokens that are no list":   `{"tokens":{}}`,
	"a token of no kind":        `{"tokens":[{"caip19":"eip155:1/slip44:60","symbol":"ETH","decimals":18}]}`,
	"a price of no chain":       `{"gas":{"prices":{"bitcoin":1}}}`,
	"a price of an alias":       `{"gas":{"prices":{"solana:mainnet":1}}}`,
	"on-ramp over http":         `{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{"apiUrl":"http://a.example"}}}`,
	"on-ramp with more":         `{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{"apiKey":"hunter2"}}}`,
	"programs without a domain": `{"tvc":` + strings.Replace(programs, "Apps.example.com", "apps", 1) + `}`,
	"programs without a root":   `{"tvc":` + strings.Replace(programs, "-----BEGIN", "-----END", 1) + `}`,
	"programs in nothing":       `{"tvc":{"domain":"apps.example.com","root":"x","versions":[]}}`,
	"a short measurement":       `{"tvc":` + strings.Replace(programs, `"pcr1":"0b`, `"pcr1":"`, 1) + `}`,
	"two releases of one name":  `{"tvc":` + strings.Replace(programs, "cloister-1", "cloister-0", 1) + `}`,
	"on-ramps a list":           `{"onRamps":["FIAT_ON_RAMP_PROVIDER_MOONPAY"]}`,
	"long salt":                 `{"salt":"` + strings.Repeat("s", 129) + `"}`,
	"too long":                  `{"salt":""` + strings.Repeat(" ", settings.Max) + `}`,
	"nested deep":               `{"mail":` + strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100) + `}`,
	"no UTF-8":                  "{\"issuer\":\"https://a.example/\xff\"}",
}

func TestRefused(t *testing.T) {
	for name, raw := range refusedAlways {
		refused(t, name, raw, true)
		refused(t, name, raw, false)
	}
	var many []string
	for i := range 101 {
		many = append(many, fmt.Sprintf(`"d%d.example"`, i))
	}
	refused(t, "101 domains", mailOf(server, sender, `"domains":[`+strings.Join(many, ",")+`]`), true)
}

// refused wants an error that names the document and repeats no secret of it.
func refused(t *testing.T, name, raw string, simulator bool) {
	t.Helper()
	_, err := settings.Parse([]byte(raw), simulator)
	var f *fault.Error
	switch {
	case !errors.As(err, &f):
		t.Errorf("%s: %v", name, err)
	case f.Code != fault.InvalidArgument, strings.Contains(f.Message, "hunter2"), len(f.Message) > 300:
		t.Errorf("%s: %+v", name, f)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full), false)
	for _, raw := range local {
		f.Add([]byte(raw), true)
	}
	for _, raw := range refusedAlways {
		f.Add([]byte(raw), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, simulator bool) {
		kept := bytes.Clone(raw)
		s, err := settings.Parse(raw, simulator)
		if !bytes.Equal(raw, kept) {
			t.Fatal("the document was changed")
		}
		if err != nil {
			var f *fault.Error
			if !errors.As(err, &f) {
				t.Fatal(err)
			}
			return
		}
		if s.Roots == nil || !simulator && (len(s.OAuth2) > 0 || s.Mail != nil && (s.Mail.Security == netclient.Plain || netclient.IsLoopback(s.Mail.Host))) {
			t.Fatalf("%+v", s)
		}
	})
}

// programs is what customers' programs run in.
var programs = func() string {
	pcr := strings.Repeat("0b", 48)
	release := func(name string) string {
		return `{"name":"` + name + `","commit":"c","pcr0":"` + pcr + `","pcr1":"` + pcr + `","pcr2":"` + strings.ToUpper(pcr) + `"}`
	}
	_, key, _ := ed25519.GenerateKey(nil)
	der, _ := x509.CreateCertificate(nil, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	root, _ := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return `{"domain":"Apps.example.com","root":` + string(root) + `,"versions":[` + release("cloister-0") + `,` + release("cloister-1") + `]}`
}()

func TestPrograms(t *testing.T) {
	s, err := settings.Parse([]byte(`{"tvc":`+programs+`}`), false)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Programs
	b := p.Base("cloister-1")
	if p.Domain != "apps.example.com" || len(p.Bases) != 2 || b == nil || b.Enclave.PCR2 != strings.Repeat("0b", 48) || b.Enclave.PCR3 != strings.Repeat("00", 48) || b.Enclave.QOSCommit != "c" ||
		!strings.HasPrefix(b.Enclave.AWSRootCertificate, "308") || p.Base("cloister-2") != nil {
		t.Errorf("%+v", p)
	}
	if s, err := settings.Parse(nil, false); err != nil || s.Programs != nil {
		t.Errorf("%v %v", s, err)
	}
}
