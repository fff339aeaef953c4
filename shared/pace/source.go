package pace

import "net/netip"

// Source is what is counted as one address: an IPv4 address, or the 64 bits of an
// IPv6 address that one customer is given at the least. Addresses that cannot be
// read are counted together.
func Source(address string) netip.Addr {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Addr{}
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr()
}
