package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"cloister/shared/internet"
	"cloister/shared/wire"
)

// ErrNotPublic is the error of a name without an address that the host may connect to.
var ErrNotPublic = errors.New("no public address")

// Limits of one dial.
const (
	maxDialed = 4               // addresses tried for one name
	dialWait  = 5 * time.Second // time limit of the lookup and of each address
)

// A Resolver looks up the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Reach is the set of private destinations that the operator allows: HOST:PORT, with a name in lower
// case or an address. Another name of the same address is not allowed.
type Reach map[string]bool

// AllLoopback in a Reach is every port of this machine's loopback.
const AllLoopback = "loopback"

// ParseReach parses a comma-separated list of HOST:PORT and AllLoopback.
func ParseReach(text string) (Reach, error) {
	r := Reach{}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if one == AllLoopback {
			r[one] = true
			continue
		}
		host, port, err := net.SplitHostPort(one)
		n, badPort := strconv.ParseUint(port, 10, 16)
		if err != nil || badPort != nil || n == 0 || strings.Trim(host, ".") == "" {
			return nil, fmt.Errorf("%q: want HOST:PORT", one)
		}
		r[destination(host, n)] = true
	}
	return r, nil
}

// destination is the canonical spelling of a host and port.
func destination(host string, port uint64) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10))
}

// A Dialer connects to destinations that others choose, and only to public addresses. It resolves
// the name, checks each address, and connects to that address, so that no DNS server can change its
// answer in between. An http.Transport that uses it must not use a proxy. The zero value is ready
// to use.
type Dialer struct {
	Reach    Reach    // destinations that need not be public
	Loopback bool     // 127.0.0.0/8 and ::1 count as public, as with AllLoopback in Reach
	Resolver Resolver // nil: net.DefaultResolver
	// Dial connects to an address and port; nil: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DialContext connects to HOST:PORT by TCP. The error wraps ErrNotPublic when no address is allowed.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fmt.Errorf("network %q: only TCP is dialed", network)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("dialing %s: not a port", host)
	}
	addresses, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	addresses = d.filterAllowed(addresses, d.Reach[destination(host, n)])
	if len(addresses) == 0 {
		return nil, fmt.Errorf("dialing %s: %w", host, ErrNotPublic)
	}
	var failed error
	for _, a := range addresses[:min(len(addresses), maxDialed)] {
		c, err := d.connect(ctx, network, netip.AddrPortFrom(a, uint16(n)))
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// Open is DialContext for the enclave's streams: the verdict is for the enclave, the error for the
// host's log.
func (d *Dialer) Open(ctx context.Context, host string, port uint16) (net.Conn, wire.DialVerdict, error) {
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	switch {
	case err == nil:
		return c, wire.DialOpen, nil
	case errors.Is(err, ErrNotPublic):
		return nil, wire.DialRefused, err
	}
	return nil, wire.DialAway, err
}

// lookup resolves a host, which may itself be an address.
func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	r := d.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	return r.LookupNetIP(ctx, "ip", host)
}

// filterAllowed returns the addresses that are public; all of them if the destination is in Reach.
func (d *Dialer) filterAllowed(addresses []netip.Addr, reached bool) []netip.Addr {
	var keep []netip.Addr
	for _, a := range addresses {
		if a = a.Unmap(); reached || internet.Public(a) || (d.Loopback || d.Reach[AllLoopback]) && a.IsLoopback() && a.Zone() == "" {
			keep = append(keep, a)
		}
	}
	return keep
}

func (d *Dialer) connect(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	if d.Dial != nil {
		return d.Dial(ctx, network, to.String())
	}
	return new(net.Dialer).DialContext(ctx, network, to.String())
}
