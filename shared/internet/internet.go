// Package internet says which addresses are of the public Internet. Both processes go by it: the enclave when
// a destination is set, the host again when it connects, since a name can lead anywhere by then.
package internet

import "net/netip"

// notPublic are the prefixes that lead to no host of the public Internet: the registries of special-purpose
// addresses (RFC 6890 and what joined them later), and what clouds answer their guests at.
var notPublic = prefixes(
	"0.0.0.0/8",        // this host, this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // behind a carrier's NAT; also a cloud's metadata
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // a cloud's metadata, in the middle of public addresses
	"169.254.0.0/16",   // link-local; also clouds' metadata
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments; also a cloud's metadata
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // relays of 6to4
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, and broadcast

	"2001::/23",     // protocol assignments: Teredo, benchmarks, ORCHID
	"2001:db8::/32", // documentation
	"3fff::/20",     // documentation
)

// Where an IPv6 address is public at all, and where it holds an IPv4 one, to which
// a gateway carries what is sent to it.
var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

func prefixes(all ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, p := range all {
		ps = append(ps, netip.MustParsePrefix(p))
	}
	return ps
}

// Public tells whether an address is one of the public Internet. Private, loopback, link-local, carriers',
// multicast, reserved, documentation and benchmark addresses are not, nor are those where clouds tell their
// guests secrets. An IPv6 address that stands for an IPv4 one (mapped, NAT64, 6to4, ISATAP) is as public as
// that. NAT64 under an operator's own prefix cannot be seen here: its gateway must keep private networks out.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	if a.Is4() {
		return true
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return Public(netip.AddrFrom4([4]byte(b[12:])))
	case !globalUnicast.Contains(a):
		return false
	case sixToFour.Contains(a) && !Public(netip.AddrFrom4([4]byte(b[2:6]))):
		return false
	case isatap(b):
		return Public(netip.AddrFrom4([4]byte(b[12:])))
	}
	return true
}

// isatap tells the interface ids of RFC 5214.
func isatap(b [16]byte) bool { return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe }
