package netclient_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/netclient"
)

// keySet is what the tests make of a key set: the ids of its keys.
type keySet []string

var errDocument = errors.New("no document")

var reading = netclient.Reading[keySet]{
	Discovery: func(raw []byte, issuer string) (string, error) {
		var d struct{ Issuer, JWKS_URI string }
		if json.Unmarshal(raw, &d) != nil || d.Issuer != issuer {
			return "", errDocument
		}
		return d.JWKS_URI, nil
	},
	Keys: func(raw []byte) (keySet, error) {
		var d struct{ Keys []struct{ Kid string } }
		if json.Unmarshal(raw, &d) != nil || d.Keys == nil {
			return nil, errDocument
		}
		if string(raw) == `{"keys":[{"kid":"panic"}]}` {
			panic("a parser's bug")
		}
		var s keySet
		for _, k := range d.Keys {
			s = append(s, k.Kid)
		}
		return s, nil
	},
}

// An idp is a provider: what it answers can be changed while it runs.
type idp struct {
	mu       sync.Mutex
	issuer   string // what its document says; the name asked for when empty
	keysAt   string // jwks_uri
	kids     []string
	control  string // Cache-Control of the key set
	raw      string // a whole answer instead of the key set
	document string // a whole answer instead of the document
	pause    time.Duration
	asked    []string
}

func (p *idp) serve(c net.Conn) {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, r.Host+r.RequestURI)
	pause, answer := p.pause, ""
	if path, found := strings.CutSuffix(r.RequestURI, "/.well-known/openid-configuration"); found {
		issuer, at := p.issuer, p.keysAt
		if issuer == "" {
			issuer = "https://" + r.Host + path
		}
		if at == "" {
			at = "https://" + host + "/keys"
		}
		if answer = p.document; answer == "" {
			answer = ok(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"claims_supported":["aud"]}`, issuer, at))
		}
	} else if answer = p.raw; answer == "" {
		keys := []map[string]string{}
		for _, k := range p.kids {
			keys = append(keys, map[string]string{"kid": k})
		}
		body := string(must(json.Marshal(map[string]any{"keys": keys})))
		if answer = ok(body); p.control != "" {
			answer = ok(body, "Cache-Control: "+p.control)
		}
	}
	p.mu.Unlock()
	time.Sleep(pause)
	_, _ = io.WriteString(c, answer)
}

func (p *idp) set(change func(*idp)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// fetches is how often the document was asked for since it was last called.
func (p *idp) fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, a := range p.asked {
		if strings.Contains(a, "/.well-known/") {
			n++
		}
	}
	p.asked = nil
	return n
}

func has(kid string) func(keySet) bool {
	return func(s keySet) bool { return slices.Contains(s, kid) }
}

// look is what a caller does: ask, load when told to, ask again.
func look(ctx context.Context, s *netclient.Issuers[keySet], issuer, kid string) error {
	_, err := s.Keys(issuer, has(kid))
	if !errors.Is(err, netclient.ErrNotLoaded) {
		return err
	}
	if err := s.Load(ctx, issuer, has(kid)); err != nil {
		return err
	}
	_, err = s.Keys(issuer, has(kid))
	return err
}

const issuer = "https://idp.example.com"

// One history, with what is asked of the provider in each step.
func TestKeysAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{kids: []string{"a"}}
		s := netclient.NewIssuers(client(t, served(trusted(p.serve))), reading)
		step := func(what, kid string, want error, fetches int) {
			t.Helper()
			err := look(t.Context(), s, issuer, kid)
			if n := p.fetches(); !errors.Is(err, want) || n != fetches {
				t.Errorf("%s: %v, %d fetches", what, err, n)
			}
		}
		step("the first time", "a", nil, 1)
		step("again", "a", nil, 0)
		for _, kid := range []string{"a", "b"} { // who was told to load may come late
			if err := s.Load(t.Context(), issuer, has(kid)); err != nil || p.fetches() != 0 {
				t.Errorf("loading what is there: %v", err)
			}
		}
		step("a key that there is not", "b", netclient.ErrNoKey, 0)
		time.Sleep(time.Minute - time.Nanosecond)
		step("too early", "b", netclient.ErrNoKey, 0)
		time.Sleep(time.Nanosecond)
		step("after a minute", "b", netclient.ErrNoKey, 1)
		step("too early again", "b", netclient.ErrNoKey, 0)
		p.set(func(p *idp) { p.kids = []string{"a", "b"} })
		step("new, but too early", "b", netclient.ErrNoKey, 0)
		time.Sleep(time.Minute)
		step("new", "b", nil, 1)
		step("both", "a", nil, 0)
		p.set(func(p *idp) { p.kids = []string{"c"} })
		time.Sleep(6*time.Hour - time.Nanosecond)
		step("withdrawn, not yet known", "a", nil, 0)
		time.Sleep(time.Nanosecond)
		step("withdrawn, after six hours", "a", netclient.ErrNoKey, 1)
		step("the new one", "c", nil, 0)

		// A failure ends nothing that holds, and is not repeated at once.
		p.set(func(p *idp) { p.raw = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n" })
		time.Sleep(time.Minute)
		if err := look(t.Context(), s, issuer, "d"); netclient.KindOf(err) != netclient.Garbled || p.fetches() != 1 {
			t.Errorf("a failing provider: %v", err)
		}
		step("what was known", "c", nil, 0)
		if err := look(t.Context(), s, issuer, "d"); netclient.KindOf(err) != netclient.Garbled || p.fetches() != 0 {
			t.Errorf("a failing provider, at once: %v", err)
		}
		if err := s.Load(t.Context(), issuer, has("d")); netclient.KindOf(err) != netclient.Garbled || p.fetches() != 0 {
			t.Errorf("loading from a failing provider, at once: %v", err)
		}
		time.Sleep(6*time.Hour - time.Minute)
		if err := look(t.Context(), s, issuer, "c"); netclient.KindOf(err) != netclient.Garbled || p.fetches() != 1 {
			t.Errorf("old keys of a failing provider: %v", err)
		}
		for range 3 {
			if err := look(t.Context(), s, issuer, "c"); netclient.KindOf(err) != netclient.Garbled || p.fetches() != 0 {
				t.Errorf("old keys of a failing provider, at once: %v", err)
			}
		}
		p.set(func(p *idp) { p.raw = "" })
		time.Sleep(5 * time.Second)
		step("it is back", "c", nil, 1)
		gone(t)
	})
}

func TestProvidersMayAskForLess(t *testing.T) {
	for control, life := range map[string]time.Duration{
		"": 6 * time.Hour, "public, max-age=3600": time.Hour, "MAX-AGE=600, must-revalidate": 10 * time.Minute, "max-age=5": time.Minute, "max-age=0": time.Minute,
		"no-store": time.Minute, "no-cache, max-age=3600": time.Minute, "max-age=99999999": 6 * time.Hour, "max-age=99999999999999999999": 6 * time.Hour, "max-age=-5": 6 * time.Hour,
		"max-age=x": 6 * time.Hour, "s-maxage=5": 6 * time.Hour, ",,=,max-age": 6 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &idp{kids: []string{"a"}, control: control}
			s := netclient.NewIssuers(client(t, served(trusted(p.serve))), reading)
			for _, wait := range []time.Duration{0, life - 1, 1} {
				time.Sleep(wait)
				if err := look(t.Context(), s, issuer, "a"); err != nil {
					t.Fatal(err)
				}
				if n := p.fetches(); (n == 1) != (wait != life-1) {
					t.Errorf("%q: %d fetches after %v", control, n, wait)
				}
			}
		})
	}
}

// However many ask, one asks the provider; who gives up does not stop it.
func TestOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{kids: []string{"a"}, pause: time.Second}
		s := netclient.NewIssuers(client(t, served(trusted(p.serve))), reading)
		var done sync.WaitGroup
		var good, away atomic.Int32
		for i := range 100 {
			done.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%2 == 0 {
					time.AfterFunc(time.Second/2, cancel) // the first one among them
				}
				switch err := look(ctx, s, issuer, "a"); {
				case err == nil:
					good.Add(1)
				case netclient.KindOf(err) == netclient.Away:
					away.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		done.Wait()
		if good.Load() != 50 || away.Load() != 50 || p.fetches() != 1 {
			t.Errorf("%d got keys, %d gave up", good.Load(), away.Load())
		}
		gone(t)
	})
}

func TestForgottenIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{kids: []string{"a"}}
		s := netclient.NewIssuers(client(t, served(trusted(p.serve))), reading)
		s.Remember(3)
		use := func(n int) {
			t.Helper()
			if err := look(t.Context(), s, fmt.Sprintf("%s/%d", issuer, n), "a"); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range []int{1, 2, 3, 1, 4} { // 2 is the one not used for longest
			use(n)
		}
		p.fetches()
		use(1)
		use(3)
		use(4)
		if n := p.fetches(); n != 0 {
			t.Errorf("%d were forgotten", n)
		}
		use(2)
		if n := p.fetches(); n != 1 {
			t.Errorf("%d fetches of one that was forgotten", n)
		}
		if _, err := s.Keys(issuer+"/1", has("a")); !errors.Is(err, netclient.ErrNotLoaded) {
			t.Errorf("four are remembered: %v", err)
		}
		gone(t)
	})
}

// What is no issuer: nobody is dialed.
func TestRefusedIssuers(t *testing.T) {
	s := netclient.NewIssuers(client(t, unreached(t)), reading)
	loose := netclient.NewIssuers(client(t, unreached(t), onLoopback), reading)
	for _, i := range []string{"", "idp.example.com", "http://idp.example.com", "https://", "https://user@idp.example.com", "https://idp.example.com?x", "https://idp.example.com/#x",
		"https://idp", "https://10.0.0.1", "https://169.254.169.254", "https://[fe80::1]", "https://[fd00::1]", "https://8.8.8.8", "https://x.localhost", "https://0x7f000001", "https://127.1",
		"https://idp.example.com/" + strings.Repeat("x", 1100), "https://idp.example.com/\r\nX: y", "ftp://idp.example.com", "https://idp.example.com/ x"} {
		for _, s := range []*netclient.Issuers[keySet]{s, loose} {
			if err := look(t.Context(), s, i, "a"); netclient.KindOf(err) != netclient.Refused {
				t.Errorf("%q: %v", i, err)
			}
		}
	}
	for _, i := range []string{"http://127.0.0.1", "http://localhost:8080", "https://127.0.0.1", "https://localhost"} {
		if err := look(t.Context(), s, i, "a"); netclient.KindOf(err) != netclient.Refused {
			t.Errorf("%q: %v", i, err)
		}
	}
}

// Providers that do not answer as they should.
func TestProvidersThatFail(t *testing.T) {
	redirect := "HTTP/1.1 302 Found\r\nLocation: " + issuer + "/x\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		p    *idp
		kind netclient.Kind // 0 for the reading's own error
	}{
		"another issuer":           {&idp{issuer: "https://evil.example.com"}, 0},
		"document moved":           {&idp{document: redirect}, netclient.Garbled},
		"document missing":         {&idp{document: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"}, netclient.Garbled},
		"no document":              {&idp{document: ok("<html>")}, 0},
		"document without a state": {&idp{document: "oh"}, netclient.Away},
		"keys at no URL":           {&idp{keysAt: "keys"}, netclient.Refused},
		"keys in the clear":        {&idp{keysAt: "http://idp.example.com/keys"}, netclient.Refused},
		"keys at an address":       {&idp{keysAt: "https://169.254.169.254/keys"}, netclient.Refused},
		"keys on this machine":     {&idp{keysAt: "https://localhost/keys"}, netclient.Refused},
		"keys in the network":      {&idp{keysAt: "https://vault/keys"}, netclient.Refused},
		"keys elsewhere":           {&idp{keysAt: "https://other.example.com/keys"}, netclient.Untrusted}, // the rig's certificate is for one name
		"keys moved":               {&idp{raw: redirect}, netclient.Garbled},
		"no keys":                  {&idp{raw: ok("{}")}, 0},
		"too many keys":            {&idp{raw: "HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n"}, netclient.TooLarge},
		"silence":                  {&idp{pause: time.Hour}, netclient.Late},
		"a reading that panics":    {&idp{kids: []string{"panic"}}, netclient.Garbled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := netclient.NewIssuers(client(t, served(trusted(c.p.serve))), reading)
				err := look(t.Context(), s, issuer, "a")
				if c.kind == 0 {
					if !errors.Is(err, errDocument) {
						t.Errorf("%v", err)
					}
				} else {
					kind(t, err, c.kind)
				}
				gone(t)
			})
		})
	}
}

// In the simulator a provider may be on this machine.
func TestIssuerOnLoopback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &idp{kids: []string{"a"}, issuer: "http://127.0.0.1:8080/realm/", keysAt: "http://localhost:8080/keys"}
		s := netclient.NewIssuers(client(t, served(p.serve), onLoopback), reading)
		if err := look(t.Context(), s, p.issuer, "a"); err != nil {
			t.Fatal(err)
		}
		if want := []string{"127.0.0.1:8080/realm/.well-known/openid-configuration", "localhost:8080/keys"}; !slices.Equal(p.asked, want) {
			t.Errorf("asked for %q", p.asked)
		}
	})
}
