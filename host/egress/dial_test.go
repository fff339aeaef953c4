package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/host/egress"
)

// hostile are addresses that nothing may be connected to: those that package internet
// is tested with.
var hostile = func() (all []string) {
	b, err := os.ReadFile("../../shared/internet/testdata/addresses.txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "public" {
			return all
		} else if !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}()

// names is a resolver whose answers are handed in. Where a name has several, each
// question gets the next one, as from a server that means ill.
type names map[string][][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	all := n[host]
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(all) > 1 {
		n[host] = all[1:]
	}
	return all[0], nil
}

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		all = append(all, netip.MustParseAddr(t))
	}
	return all
}

// A calls notes where was connected to. Nothing is behind it.
type calls struct{ to []string }

var errNobody = errors.New("nobody there")

func (c *calls) dial(_ context.Context, _, address string) (net.Conn, error) {
	c.to = append(c.to, address)
	return nil, errNobody
}

func TestHostileTargetsAreNotConnectedTo(t *testing.T) {
	for _, text := range hostile {
		a := netip.MustParseAddr(text)
		for name, address := range map[string]string{"by itself": net.JoinHostPort(text, "443"), "by a name": "evil.example:443"} {
			c := new(calls)
			d := &egress.Dialer{Resolver: names{"evil.example": {{a}}}, Dial: c.dial}
			if _, err := d.DialContext(context.Background(), "tcp", address); !errors.Is(err, egress.ErrNotPublic) {
				t.Errorf("%s %s: %v", text, name, err)
			}
			if len(c.to) > 0 {
				t.Errorf("%s %s: connected to %v", text, name, c.to)
			}
		}
	}
}

// What a host name may be spelled like so that some resolvers take it for an
// address is a name like any other here: its addresses are looked at.
func TestSpellingsOfAddresses(t *testing.T) {
	for _, host := range []string{"127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.000.000.001", "localhost", "LOCALHOST", "localhost.",
		"metadata.internal", "127.0.0.1.", "①②⑦.0.0.1", "evil.example"} {
		c := new(calls)
		d := &egress.Dialer{Resolver: names{host: {addresses("127.0.0.1", "169.254.169.254", "::1")}}, Dial: c.dial}
		if _, err := d.DialContext(context.Background(), "tcp", host+":80"); !errors.Is(err, egress.ErrNotPublic) || len(c.to) > 0 {
			t.Errorf("%s: %v, connected to %v", host, err, c.to)
		}
	}
}

func TestOnlyPublicAddressesOfANameAreTried(t *testing.T) {
	for name, x := range map[string]struct {
		answers [][]netip.Addr
		want    []string
	}{
		"mixed":                        {[][]netip.Addr{addresses("10.0.0.1", "8.8.8.8", "::1", "2606:4700::1")}, []string{"8.8.8.8:443", "[2606:4700::1]:443"}},
		"mapped":                       {[][]netip.Addr{addresses("::ffff:8.8.8.8", "::ffff:127.0.0.1")}, []string{"8.8.8.8:443"}},
		"no more than four":            {[][]netip.Addr{addresses("8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5")}, []string{"8.8.8.1:443", "8.8.8.2:443", "8.8.8.3:443", "8.8.8.4:443"}},
		"another answer a while later": {[][]netip.Addr{addresses("8.8.8.8"), addresses("127.0.0.1")}, []string{"8.8.8.8:443"}},
	} {
		c := new(calls)
		d := &egress.Dialer{Resolver: names{"x.example": x.answers}, Dial: c.dial}
		if _, err := d.DialContext(context.Background(), "tcp", "x.example:443"); !errors.Is(err, errNobody) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(c.to, x.want) {
			t.Errorf("%s: connected to %v, want %v", name, c.to, x.want)
		}
	}
}

func TestReach(t *testing.T) {
	reach, err := egress.ParseReach(" Mail.Internal:25, 10.0.0.5:587 ,[fd00::1]:465,")
	if err != nil {
		t.Fatal(err)
	}
	private := names{"MAIL.internal": {addresses("10.0.0.5")}, "mail.internal": {addresses("10.0.0.5")}, "mail.internal.": {addresses("10.0.0.5")}, "other.internal": {addresses("10.0.0.5")}, "localhost": {addresses("127.0.0.1")}}
	for address, want := range map[string]string{
		"mail.internal:25": "10.0.0.5:25", "MAIL.internal:25": "10.0.0.5:25", "mail.internal.:25": "10.0.0.5:25",
		"10.0.0.5:587": "10.0.0.5:587", "[::ffff:10.0.0.5]:587": "10.0.0.5:587", "[fd00::1]:465": "[fd00::1]:465", "[fd00:0::1]:465": "[fd00::1]:465",
		"mail.internal:26": "", "10.0.0.5:25": "", "10.0.0.6:587": "", "other.internal:25": "", "other.internal:587": "", "[fd00::2]:465": "", "localhost:25": "",
	} {
		c := new(calls)
		_, err := (&egress.Dialer{Resolver: private, Reach: reach, Dial: c.dial}).DialContext(context.Background(), "tcp", address)
		if want == "" && (len(c.to) > 0 || err == nil) || want != "" && !slices.Equal(c.to, []string{want}) {
			t.Errorf("%s: connected to %v, %v", address, c.to, err)
		}
	}
	for _, text := range []string{"mail", "mail:", ":25", "mail:0", "mail:65536", "mail:smtp", "mail:-1", ".:25", "[fd00::1:25", "a:25 b:26", "mail:+25"} {
		if r, err := egress.ParseReach(text); err == nil {
			t.Errorf("%q: taken as %v", text, r)
		}
	}
}

func TestLoopbackOnlyForSimulators(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := new(egress.Dialer).DialContext(context.Background(), "tcp", l.Addr().String()); !errors.Is(err, egress.ErrNotPublic) {
		t.Errorf("without: %v", err)
	}
	c, err := (&egress.Dialer{Loopback: true}).DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	for _, address := range []string{"10.0.0.1:80", "169.254.169.254:80", "0.0.0.0:80", "[::]:80", "[fe80::1]:80", "[::ffff:10.0.0.1]:80"} {
		c := new(calls)
		if _, err := (&egress.Dialer{Loopback: true, Dial: c.dial}).DialContext(context.Background(), "tcp", address); !errors.Is(err, egress.ErrNotPublic) || len(c.to) > 0 {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestDialerRefuses(t *testing.T) {
	for _, x := range [][2]string{{"udp", "8.8.8.8:53"}, {"unix", "/run/x"}, {"tcp", "8.8.8.8"}, {"tcp", "8.8.8.8:0"}, {"tcp", "8.8.8.8:http"}, {"tcp", "8.8.8.8:70000"}, {"tcp", ":80"}, {"tcp", ""}, {"tcp", "nowhere.example:80"}} {
		c := new(calls)
		if _, err := (&egress.Dialer{Resolver: names{}, Dial: c.dial}).DialContext(context.Background(), x[0], x[1]); err == nil || len(c.to) > 0 {
			t.Errorf("%v: %v, connected to %v", x, err, c.to)
		}
	}
}
