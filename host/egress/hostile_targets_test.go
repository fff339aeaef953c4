package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/host/egress"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
)

// zone is the addresses of names, as a hostile name server answers.
type zone map[string][]string

func (n zone) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	texts, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var as []netip.Addr
	for _, t := range texts {
		as = append(as, netip.MustParseAddr(t))
	}
	return as, nil
}

// unreachable are addresses to which no webhook may go.
var unreachable = strings.Fields(`127.0.0.1 127.0.0.2 127.255.255.254 0.0.0.0 0.0.0.1 10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255
	169.254.169.254 169.254.0.1 169.254.170.2 100.64.0.1 100.100.100.200 100.127.255.255 192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255
	240.0.0.1 255.255.255.255 168.63.129.16
	:: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0.0.0.0 ::127.0.0.1 fe80::1 fec0::1 fc00::1 fd00:ec2::254 fd12:3456::1 ff02::1 ff0e::1
	64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::a00:1 2002:7f00:1::1 2002:a00:1:: 2001:db8::1 2001::1 3fff::1 100::1`)

// TestHostileTargets: no connection is made to an address that is not public, by
// whichever name or spelling it is reached.
func TestHostileTargets(t *testing.T) {
	// What listens on this machine would notice.
	var accepted atomic.Int32
	ports := map[string]string{}
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("%s: %v", at, err)
			continue
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports[at] = port
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				c.Close()
			}
		}()
	}
	port := ports["127.0.0.1:0"]
	answers := zone{"public.example": {"93.184.216.34"}}
	var urls []string
	for i, a := range unreachable {
		ip := netip.MustParseAddr(a)
		p := port
		if ip.Is6() && ports["[::1]:0"] != "" {
			p = ports["[::1]:0"]
		}
		name := "rebound" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ".example"
		answers[name] = []string{a}
		urls = append(urls, "https://"+net.JoinHostPort(a, p)+"/", "https://"+net.JoinHostPort(name, p)+"/hook")
	}
	answers["several.example"] = unreachable[:4]
	answers["127.1"], answers["2130706433"], answers["0x7f000001"], answers["017700000001"] = []string{"127.0.0.1"}, []string{"127.0.0.1"}, []string{"127.0.0.1"}, []string{"127.0.0.1"}
	answers["localhost"], answers["localhost."] = []string{"127.0.0.1"}, []string{"127.0.0.1"}
	urls = append(urls, "https://several.example:"+port+"/", "https://127.1:"+port+"/", "https://2130706433:"+port+"/", "https://0x7f000001:"+port+"/", "https://017700000001:"+port+"/",
		"https://localhost:"+port+"/", "https://localhost.:"+port+"/", "https://nobody.example:"+port+"/",
		"http://127.0.0.1:"+port+"/", "http://public.example/", "HTTP://127.0.0.1:"+port+"/", "https://user@127.0.0.1:"+port+"/", "https://public.example@127.0.0.1:"+port+"/", "https://[fe80::1%25lo]:"+port+"/",
		"file:///etc/passwd", "gopher://127.0.0.1:"+port+"/", "unix:///run/x", "//127.0.0.1:"+port+"/", "", "https://", "https:///", "https://127.0.0.1:99999/", "https://\x00/", "https://127.0.0.1:"+port+"/"+strings.Repeat("x", 3000))
	t.Logf("%d targets", len(urls))
	var mu sync.Mutex
	var dialed []string
	dialer := &egress.Dialer{Resolver: answers, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		mu.Lock()
		dialed = append(dialed, address)
		mu.Unlock()
		return nil, errors.New("no network here")
	}}
	real := &egress.Dialer{Resolver: answers}
	for name, d := range map[string]*egress.Dialer{"recorded": dialer, "real": real} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.steady = true
			var ids []wire.SendID
			for i, u := range urls {
				ids = append(ids, w.event(wire.ID{0xbb, byte(i >> 8), byte(i), 15: 1}, u, byte(i)))
			}
			w.delivers(d)
			for i, id := range ids {
				clocktest.Until(t, "a word about "+urls[i], func() bool { return w.standing(id).Text != "" })
				s := w.standing(id)
				if s.State == wire.SendIncluded || s.Text == "" {
					t.Errorf("%s: %+v", urls[i], s)
				}
				if strings.Contains(s.Text, "127.0.0.1") || strings.Contains(s.Text, "example") {
					t.Errorf("%s: the address is told: %s", urls[i], s.Text)
				}
			}
		})
	}
	if len(dialed) != 0 || accepted.Load() != 0 {
		t.Errorf("dialed %v, accepted %d connections", dialed, accepted.Load())
	}
	// Of a name with both kinds only the public address is tried, and it could be.
	answers["both.example"] = []string{"10.0.0.1", "93.184.216.34", "::1"}
	w := newWorld(t)
	w.steady = true
	w.delivers(dialer)
	w.until(w.event(wire.ID{0xcc, 15: 1}, "https://both.example/", 1), wire.SendWaiting, "no answer")
	mu.Lock()
	defer mu.Unlock()
	for _, a := range dialed {
		if a != "93.184.216.34:443" {
			t.Errorf("dialed %s", a)
		}
	}
	if len(dialed) == 0 {
		t.Error("the public address was not tried")
	}
}
