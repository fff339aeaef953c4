package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

// A clock stands still until it is moved.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(1_700_000_000, c.ns.Load()) }
func (c *clock) move(d time.Duration) { c.ns.Add(int64(d)) }

// paced is a rig whose addresses have 3 requests a second, and stand in a header.
func paced(t *testing.T) (*rig, *clock) {
	c := new(clock)
	return start(t, func(o *api.Options) {
		o.Now, o.TrustForwarded, o.AddressRate = c.now, true, pace.Rate{Count: 3, Per: time.Second}
	}), c
}

const tooMany = "too many requests from this address, try again in "

func TestAddressRate(t *testing.T) {
	r, c := paced(t)
	ask := func(address string) response {
		return post(t, r.at+"/public/v1/query/whoami", "{}", "X-Forwarded-For", address)
	}
	// Three pass, whatever was paid for the fourth; then one for each third of a second.
	for _, s := range []struct {
		move      time.Duration
		address   string
		remaining string // empty: refused
		wait      string
	}{
		{0, "192.0.2.1", "2", ""}, {0, "192.0.2.1", "1", ""}, {0, "192.0.2.1", "0", ""}, {0, "192.0.2.1", "", "334ms"}, {0, "192.0.2.1", "", "334ms"},
		{0, "192.0.2.2", "2", ""},
		{0, "::ffff:192.0.2.1", "", "334ms"}, // the same address
		{0, "2001:db8::1", "2", ""}, {0, "2001:db8::2", "1", ""}, {0, "2001:db8:0:0:ffff::", "0", ""}, {0, "2001:db8::1", "", "334ms"}, {0, "2001:db8:0:1::1", "2", ""},
		{0, "nonsense", "2", ""}, {0, "", "1", ""}, {0, "other nonsense", "0", ""}, {0, "nonsense", "", "334ms"}, // all of them together
		{0, "198.51.100.9, 192.0.2.1", "", "334ms"}, // only what our own proxy says counts
		{334 * time.Millisecond, "192.0.2.1", "0", ""}, {0, "192.0.2.1", "", "333ms"}, {time.Hour, "192.0.2.1", "2", ""},
	} {
		c.move(s.move)
		got := ask(s.address)
		if s.remaining != "" {
			if got.status != 200 || got.header.Get("ratelimit-limit") != "3" || got.header.Get("ratelimit-remaining") != s.remaining {
				t.Errorf("%+v: %d %v", s, got.status, got.header)
			}
			continue
		}
		var body any
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatalf("%+v: %q", s, got.body)
		}
		want := map[string]any{"code": 8.0, "message": tooMany + s.wait, "turnkeyErrorCode": "RATE_LIMIT_EXCEEDED",
			"details": []any{map[string]any{"@type": "type.googleapis.com/errors.v1.TurnkeyErrorDetail", "turnkeyErrorCode": "RATE_LIMIT_EXCEEDED"}}}
		if got.status != 429 || !reflect.DeepEqual(body, want) {
			t.Errorf("%+v: %d %s", s, got.status, got.body)
		}
		if got.header.Get("ratelimit-limit") != "3" || got.header.Get("ratelimit-remaining") != "0" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v: %v", s, got.header)
		}
	}
	if text := send(t, http.MethodGet, r.at+"/metrics", nil).body; !strings.Contains(text, "cloister_address_refusals_total 7\n") {
		t.Error("refusals are not counted")
	}
}

// Wider networks have several times the rate of an address, whichever of their addresses ask.
func TestAddressRateOfNetworks(t *testing.T) {
	r, c := paced(t)
	for _, s := range []struct {
		format string // of the number of the request
		passed int
	}{
		{"2001:db8:0:%x::1", 12}, {"2001:db8:0:%x00::1", 36}, {"2001:db8:0:a%x::1", 0}, {"2001:db8:1:%x::1", 12}, {"192.0.2.%d", 100}, {"::ffff:192.0.2.1%d", 92}, {"192.0.2.%d", 0}, {"192.0.3.%d", 100},
	} {
		passed := 0
		for n := range 100 {
			got := post(t, r.at+"/public/v1/query/whoami", "{}", "X-Forwarded-For", fmt.Sprintf(s.format, n))
			if got.status == 200 {
				passed++
			} else if got.status != 429 || got.header.Get("ratelimit-remaining") != "0" {
				t.Errorf("%s, %d: %d %v", s.format, n, got.status, got.header)
			}
		}
		if passed != s.passed {
			t.Errorf("%s: %d pass, want %d", s.format, passed, s.passed)
		}
	}
	c.move(time.Second)
	if got := post(t, r.at+"/public/v1/query/whoami", "{}", "X-Forwarded-For", "2001:db8:0:a1::1"); got.status != 200 || got.header.Get("ratelimit-limit") != "3" || got.header.Get("ratelimit-remaining") != "2" {
		t.Errorf("a second later: %d %v", got.status, got.header)
	}
}

// A refused request reaches no enclave and is not read.
func TestAddressRateComesFirst(t *testing.T) {
	r, _ := paced(t)
	for i := range 20 {
		body := "{}"
		if i > 3 {
			body = strings.Repeat("a", wire.MaxBody+1)
		}
		got := post(t, r.at+[]string{"/public/v1/submit/x", "/public/v1/query/x", "/boot/v1/keys"}[i%3], body)
		if want := map[bool]int{true: 200, false: 429}[i < 3]; got.status != want {
			t.Errorf("request %d: %d", i, got.status)
		}
	}
	r.peer.mu.Lock()
	defer r.peer.mu.Unlock()
	if len(r.calls) != 3 {
		t.Errorf("%d calls reached the enclave", len(r.calls))
	}
}

// What watches the host and what a browser asks first count for nothing.
func TestAddressRateSparesWatching(t *testing.T) {
	r, _ := paced(t)
	for range 10 {
		for _, s := range []struct{ method, path string }{{http.MethodGet, "/healthz"}, {http.MethodGet, "/readyz"}, {http.MethodGet, "/metrics"}, {http.MethodOptions, "/public/v1/query/whoami"}} {
			if got := send(t, s.method, r.at+s.path, nil); got.status >= 300 || got.header.Get("ratelimit-limit") != "" {
				t.Fatalf("%v: %d", s, got.status)
			}
		}
	}
	if got := post(t, r.at+"/public/v1/query/whoami", "{}"); got.header.Get("ratelimit-remaining") != "2" {
		t.Fatal(got.header)
	}
}

func TestNoRateNoHeaders(t *testing.T) {
	r := start(t, nil)
	for range 50 {
		if got := post(t, r.at+"/public/v1/query/whoami", "{}"); got.status != 200 || got.header.Get("ratelimit-limit") != "" || got.header.Get("ratelimit-remaining") != "" {
			t.Fatalf("%+v", got)
		}
	}
}

// The enclave's own count goes out too; of both the one that has least left.
func TestRateOfTheEnclave(t *testing.T) {
	for _, c := range []struct {
		name             string
		address          pace.Rate
		limit, remaining uint32
		want             [2]string
	}{
		{"alone", pace.Rate{}, 10, 4, [2]string{"10", "4"}},
		{"alone, none left", pace.Rate{}, 10, 0, [2]string{"10", "0"}},
		{"less than the address", pace.Rate{Count: 100, Per: time.Second}, 10, 4, [2]string{"10", "4"}},
		{"more than the address", pace.Rate{Count: 3, Per: time.Second}, 10, 4, [2]string{"3", "2"}},
		{"not counted", pace.Rate{Count: 3, Per: time.Second}, 0, 0, [2]string{"3", "2"}},
		{"remaining without a limit", pace.Rate{}, 0, 9, [2]string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, func(o *api.Options) { o.AddressRate = c.address })
			r.peer.mu.Lock()
			r.answer = func(context.Context, *wire.Call) *wire.Reply {
				return &wire.Reply{Status: 429, Body: []byte("{}"), Limit: c.limit, Remaining: c.remaining}
			}
			r.peer.mu.Unlock()
			got := post(t, r.at+"/public/v1/query/whoami", "{}", "Origin", "https://example.com")
			if h := [2]string{got.header.Get("ratelimit-limit"), got.header.Get("ratelimit-remaining")}; got.status != 429 || h != c.want {
				t.Errorf("%d %q", got.status, h)
			}
			if !strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "ratelimit-remaining") {
				t.Error("a browser may not read the headers")
			}
		})
	}
}
