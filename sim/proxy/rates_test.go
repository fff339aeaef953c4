package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/shared/pace"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

func TestRates(t *testing.T) {
	two := pace.Rate{Count: 2, Per: time.Hour}
	w := newWorld(t, rig.Options{Rates: core.Rates{Proxy: core.ProxyRates{
		AddressRates: core.AddressRates{Accounts: two, Signups: two, Passcodes: pace.Rate{Count: 5, Per: time.Hour}, Attempts: two}, Contact: two}}})
	account := object{"filterType": "NAME", "filterValue": "x"}
	for op, body := range map[string]func(i int) any{
		"account": func(int) any { return account },
		"signup":  func(int) any { return signup(object{"apiKeys": list(key(client.NewKey()))}) },
		"otp_verify": func(int) any {
			return object{"otpId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "otpCode": "123456"}
		},
	} {
		for i := range 2 {
			if r := w.ask(op, body(i)); r.Status == 429 {
				t.Errorf("%s %d: %v", op, i, r)
			}
		}
		r := w.ask(op, body(2))
		w.refused(op, r, 429, "too many requests from this address (rates.authProxy."+map[string]string{"account": "accounts", "signup": "signups", "otp_verify": "attempts"}[op]+" in the deployment's configuration), try again in")
		if !strings.Contains(string(r.Body), `"turnkeyErrorCode":"RATE_LIMIT_EXCEEDED"`) || r.head.Get("Ratelimit-Limit") != "2" || r.head.Get("Ratelimit-Remaining") != "0" {
			t.Errorf("%s: %s %v", op, r, r.head)
		}
	}
	// Passcodes: of one contact in whatever letters first, then of the address.
	otp := func(contact string) *reply {
		return w.ask("otp_init", object{"otpType": "OTP_TYPE_EMAIL", "contact": contact})
	}
	otp("ada@example.com")
	otp("Ada@example.com")
	r := otp("ADA@example.com")
	w.refused("a third passcode", r, 429, "Max number of OTPs have been initiated")
	if !strings.Contains(string(r.Body), `"turnkeyErrorCode":"MAX_OTP_INITIATED"`) {
		t.Error(r)
	}
	otp("bob@example.com")
	otp("eve@example.com")
	w.refused("a passcode to somebody else", otp("joe@example.com"), 429, "too many requests from this address (rates.authProxy.passcodes ")
	// A refused body costs nothing, and other endpoints go on.
	for range 5 {
		w.refused("a bad body", w.ask("otp_init", object{}), 400, "")
	}
	w.ok("wallet_kit_config", "{}")
	w.root.Read("whoami", nil)
}

// from sends a request from an address, and answers the status and the code of the error.
func (w *world) from(address, op string, body any) (int, string) {
	w.t.Helper()
	r, err := w.Link.Call(w.t.Context(), &wire.Call{Endpoint: wire.EndpointProxy, Op: op, Head: []wire.Header{{Name: configHeader, Value: w.config}},
		Body: []byte(text(body)), From: wire.From{Address: address}})
	if err != nil {
		w.t.Fatal(err)
	}
	var e struct{ TurnkeyErrorCode string }
	if err := json.Unmarshal(r.Body, &e); err != nil {
		w.t.Fatalf("%s: %v", r.Body, err)
	}
	return int(r.Status), e.TurnkeyErrorCode
}

// A network of many addresses has several times the rate of one, whichever of them ask.
func TestRatesOfNetworks(t *testing.T) {
	w := newWorld(t, rig.Options{Clock: clocktest.New(), Rates: core.Rates{Proxy: core.ProxyRates{AddressRates: core.AddressRates{Accounts: pace.Rate{Count: 1, Per: time.Hour}}}}})
	for _, c := range []struct {
		format string // of the number of the request
		passed int
	}{
		{"2001:db8:0:%x::1", 4}, {"2001:db8:0:%x00::1", 12}, {"2001:db8:0:a%x::1", 0}, {"2001:db8:1:%x::1", 4}, {"192.0.2.%d", 64}, {"::ffff:192.0.2.1%d", 0}, {"192.0.3.%d", 64}, {"nonsense %d", 1},
	} {
		passed := 0
		for n := range 80 {
			switch status, _ := w.from(fmt.Sprintf(c.format, n), "account", object{"filterType": "NAME", "filterValue": "x"}); status {
			case 200:
				passed++
			case 429:
			default:
				t.Fatalf("%s, %d: %d", c.format, n, status)
			}
		}
		if passed != c.passed {
			t.Errorf("%s: %d pass, want %d", c.format, passed, c.passed)
		}
	}
}

// Of a contact's three codes one line of a provider gets two, and what it is refused takes nothing from others.
func TestCodesOfOneContact(t *testing.T) {
	clock := clocktest.New()
	w := newWorld(t, rig.Options{Clock: clock})
	for i, c := range []struct {
		wait            time.Duration
		format, contact string
		asked, passed   int
	}{
		{0, "2001:db8:0:%x00::1", "ada@example.com", 20, 2},
		{0, "2001:db8:0:%x01::1", "Ada@example.com", 3, 0},
		{0, "2001:db8:0:%x00::1", "bob@example.com", 3, 2},
		{0, "2001:db8:1:%x00::1", "ada@example.com", 3, 1},
		{0, "192.0.2.%d", "ada@example.com", 3, 0},
		{0, "192.0.2.1", "eve@example.com", 3, 2},
		{0, "192.0.2.2", "eve@example.com", 3, 1},
		{0, "nonsense %d", "joe@example.com", 5, 2},
		{0, "192.0.2.3", "joe@example.com", 3, 1},
		{time.Minute, "2001:db8:0:%x02::1", "ada@example.com", 3, 0}, // the contact has one again, the line not yet
		{0, "2001:db8:2:%x00::1", "ada@example.com", 3, 1},
		{3 * time.Minute, "2001:db8:0:%x03::1", "ada@example.com", 5, 2},
	} {
		clock.Pass(c.wait)
		passed := 0
		for n := range c.asked {
			address := strings.TrimSuffix(fmt.Sprintf(c.format, n), fmt.Sprintf("%%!(EXTRA int=%d)", n))
			switch status, code := w.from(address, "otp_init", object{"otpType": "OTP_TYPE_EMAIL", "contact": c.contact}); {
			case status == 429 && code == "MAX_OTP_INITIATED":
			case status == 429:
				t.Fatalf("%d: %s is refused by another rate: %s", i, address, code)
			default:
				passed++
			}
		}
		if passed != c.passed {
			t.Errorf("%d: of %d from %s to %s %d pass, want %d", i, c.asked, c.format, c.contact, passed, c.passed)
		}
	}
}

// One line of a provider, however many addresses it has, gets half of what a configuration answers.
func TestOneLineOfAConfiguration(t *testing.T) {
	w := newWorld(t, rig.Options{Clock: clocktest.New(), Rates: core.Rates{Proxy: core.ProxyRates{Config: pace.Rate{Count: 8, Per: time.Hour}}}})
	for i, c := range []struct {
		format        string
		asked, passed int
	}{
		{"2001:db8:0:%x00::1", 20, 4}, {"192.0.2.%d", 3, 3}, {"2001:db8:0:%x01::1", 3, 0}, {"2001:db8:1:%x00::1", 3, 1}, {"198.51.100.%d", 2, 0},
	} {
		passed := 0
		for n := range c.asked {
			if status, _ := w.from(fmt.Sprintf(c.format, n), "account", object{"filterType": "NAME", "filterValue": "x"}); status == 200 {
				passed++
			}
		}
		if passed != c.passed {
			t.Errorf("%d: of %d from %s %d pass, want %d", i, c.asked, c.format, passed, c.passed)
		}
	}
}

// What a configuration is refused takes no code from a contact.
func TestCodesOfARefusedConfiguration(t *testing.T) {
	clock := clocktest.New()
	w := newWorld(t, rig.Options{Clock: clock, Rates: core.Rates{Proxy: core.ProxyRates{
		Config: pace.Rate{Count: 3, Per: time.Hour}, Contact: pace.Rate{Count: 3, Per: 1000 * time.Hour}, AddressRates: core.AddressRates{Passcodes: pace.Rate{Count: 100, Per: time.Hour}}}}})
	code := func() (int, string) {
		return w.from("192.0.2.1", "otp_init", object{"otpType": "OTP_TYPE_EMAIL", "contact": "ada@example.com"})
	}
	for n := range 3 {
		w.from(fmt.Sprintf("192.0.2.%d", 2+n), "account", object{"filterType": "NAME", "filterValue": "x"})
	}
	for range 5 {
		if status, why := code(); status != 429 || why != "RATE_LIMIT_EXCEEDED" {
			t.Fatal(status, why)
		}
	}
	clock.Pass(time.Hour)
	for i := range 3 {
		if status, why := code(); (status == 429) != (i == 2) || i == 2 && why != "MAX_OTP_INITIATED" {
			t.Errorf("%d: %d %s", i, status, why)
		}
	}
}

// What one address has used up is another's still, as far as the host tells the
// truth; what a configuration has is bounded whatever it says.
func TestRatesOfAddressesAndConfigurations(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: core.Rates{Proxy: core.ProxyRates{
		Config: pace.Rate{Count: 4, Per: time.Hour}, AddressRates: core.AddressRates{Accounts: pace.Rate{Count: 1, Per: time.Hour}, Requests: pace.Rate{Count: 3, Per: time.Hour}}}}})
	from := func(address string) int {
		status, _ := w.from(address, "account", object{"filterType": "NAME", "filterValue": "x"})
		return status
	}
	for i, c := range []struct {
		address string
		want    int
	}{
		{"192.0.2.1", 200}, {"192.0.2.1", 429}, {"192.0.2.2", 200}, {"2001:db8:0:1::1", 200}, {"2001:db8:0:1:ffff::2", 429}, // one network
		{"2001:db8:0:2::1", 200}, {"192.0.2.3", 429}, // the configuration's
		{"", 429}, {"nonsense", 429},
	} {
		if got := from(c.address); got != c.want {
			t.Errorf("%d, %q: %d, want %d", i, c.address, got, c.want)
		}
	}
	// Unknown configurations cost their caller, so that nobody can make the enclave
	// search without end.
	statuses := map[int]int{}
	for range 5 {
		statuses[w.post("wallet_kit_config", "{}", configHeader, "6ba7b810-9dad-41d1-80b4-00c04fd430c8").Status]++
	}
	if statuses[http.StatusForbidden] != 3 || statuses[http.StatusTooManyRequests] != 2 {
		t.Error(statuses)
	}
}

// The clock stands, so that no right to ask comes back while the test asks.
func TestUsualRatesAreOn(t *testing.T) {
	w := newWorld(t, rig.Options{Clock: clocktest.New()})
	statuses := map[int]int{}
	for range 40 {
		statuses[w.ask("account", object{"filterType": "NAME", "filterValue": "x"}).Status]++
	}
	if statuses[200] != 30 || statuses[429] != 10 {
		t.Error(statuses)
	}
}

// The proxy shares its organization's rate, and not that of one key.
func TestProxyCountsForTheOrganization(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: core.Rates{Proxy: core.ProxyRates{Off: true}, Key: pace.Rate{Count: 6, Per: time.Hour}, Organization: pace.Rate{Count: 12, Per: time.Hour}}})
	statuses := map[int]int{}
	for range 20 {
		statuses[w.ask("account", object{"filterType": "NAME", "filterValue": "x"}).Status]++
	}
	if statuses[200] < 8 || statuses[429] < 6 {
		t.Error(statuses)
	}
}
