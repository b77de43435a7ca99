package httplimit

import (
	"net/http"
	"net/netip"
)

// DefaultIPv6Bits is how many leading bits of an IPv6 address say who a client is, unless
// something else is said: the network that one customer usually has.
const DefaultIPv6Bits = 64

// Clients says who sent a request. The zero Clients believes no header.
type Clients struct {
	// Trusted are the networks of the proxies whose headers are believed.
	Trusted []netip.Prefix
	// IPv6Bits is how many leading bits of an IPv6 address count; zero stands for
	// [DefaultIPv6Bits].
	IPv6Bits int
}

// Of returns the client of r: an IPv4 address, or the network of an IPv6 address, such as
// 2001:db8::/64. It is empty if r does not come from the network.
func (c *Clients) Of(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	address := peer.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	bits := c.IPv6Bits
	if bits == 0 {
		bits = DefaultIPv6Bits
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return ""
	}
	return network.String()
}
