package httplimit

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DefaultIPv6Bits is how many leading bits of an IPv6 address say who a client is, unless
// something else is said: the network that one customer usually has.
const DefaultIPv6Bits = 64

// The fields in which proxies say who asked them.
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded" // of RFC 7239
)

// Clients says who sent a request. The zero Clients believes no field: the client is who
// connected.
//
// Anybody can send a field that names somebody else. So a field is believed only if the
// request comes from a trusted proxy, and read from the right, as each proxy adds at the right end whom it
// was asked by: over those that are trusted, up to the first that is not. That one is the
// client. What stands to the left of it can be an invention.
//
// What a trusted proxy wrote can be no address, such as "unknown". Then the client is that proxy,
// so that such clients share a limit and none of them is without one. The same holds if a
// trusted proxy does not send the field at all.
type Clients struct {
	// Trusted are the networks of the proxies whose field is believed. Nobody else should be
	// able to connect from there. See [ParseNetwork].
	Trusted []netip.Prefix
	// Header is the only field that is read; empty stands for [XForwardedFor]. All trusted
	// proxies must set it or add to it. Others are ignored: a client could send one that the
	// proxies pass on as it is. [Forwarded] is read as RFC 7239 says. Any other, such as
	// X-Real-IP, is read as X-Forwarded-For is: addresses, with or without a port, parted by commas.
	Header string
	// IPv6Bits is how many leading bits of an IPv6 address count; zero stands for
	// [DefaultIPv6Bits].
	IPv6Bits int
}

// Validate reports, as a [limiter.ErrInvalid], a Header that can be in no request and IPv6Bits that no
// address has.
func (c *Clients) Validate() error {
	if !isToken(c.field()) {
		return store.Invalidf("%q is not the name of a header field; write one such as %s, %s or X-Real-IP", c.Header, Forwarded, XForwardedFor)
	}
	if bits := c.IPv6Bits; bits < 0 || bits > 128 {
		return store.Invalidf("%d bits of an IPv6 address; it must be from 1 to 128, or 0 for %d", bits, DefaultIPv6Bits)
	}
	return nil
}

// ParseNetwork reads a network such as "10.0.0.0/8", or an address such as "::1", which is a
// network of one. The error is a [limiter.ErrInvalid] that quotes text.
func ParseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if address, wrong := netip.ParseAddr(text); wrong == nil {
		network, err = netip.PrefixFrom(address.WithZone(""), address.BitLen()), nil
	}
	if err != nil {
		return netip.Prefix{}, store.Invalidf("%q is not a network; write it like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1", text)
	}
	if address := network.Addr(); address.Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(address.Unmap(), network.Bits()-96)
	}
	return network.Masked(), nil
}

// Bounds of what is looked at, so that a long chain costs no more than a short one.
const (
	maxHops             = 64   // members of the list, from the right
	maxAddress          = 128  // bytes of a member of X-Forwarded-For, with what blanks are around it
	maxForwardedElement = 1024 // the same for Forwarded, where members hold more
)

// Of returns the client of r: an IPv4 address, or the network of an IPv6 address, such as
// 2001:db8::/64. It is empty if r does not come from the network, such as by a Unix socket.
func (c *Clients) Of(r *http.Request) string {
	client, ok := Peer(r)
	if !ok {
		return ""
	}
	if c.Trusts(client) {
		client = c.follow(client, r.Header.Values(c.field()))
	}
	return c.text(client)
}

// field is the field that is read.
func (c *Clients) field() string {
	if c.Header == "" {
		return XForwardedFor
	}
	return c.Header
}

// Peer returns who connected to send r. ok is false if that is not known by an address, such as
// on a Unix socket.
func Peer(r *http.Request) (address netip.Addr, ok bool) {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return peer.Addr().Unmap().WithZone(""), true
	}
	return parseAddress(r.RemoteAddr)
}

// Trusts reports whether address, which [Peer] returned, is one of a trusted proxy.
func (c *Clients) Trusts(address netip.Addr) bool {
	for _, network := range c.Trusted {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// text returns client as it stands in keys.
func (c *Clients) text(client netip.Addr) string {
	bits := c.IPv6Bits
	if bits == 0 {
		bits = DefaultIPv6Bits
	}
	if client.Is4() || bits == client.BitLen() {
		return client.String()
	}
	network, err := client.Prefix(bits)
	if err != nil {
		return ""
	}
	return network.String()
}

// follow returns who asked the trusted proxy, by the lines of the field. Several lines are
// one list. Each is read by itself, so that a quote which a client opened in its own line
// cannot reach into that of a proxy.
func (c *Clients) follow(client netip.Addr, lines []string) netip.Addr {
	cut, read := cutAddress, parseNode
	if strings.EqualFold(c.field(), Forwarded) {
		cut, read = cutForwarded, parseForwarded
	}
	looked := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var member string
			var ok bool
			if looked++; looked > maxHops {
				return client
			}
			if member, rest, more, ok = cut(rest); !ok {
				return client
			}
			if member == "" {
				continue // an empty member of a list does not count
			}
			next, ok := read(member)
			if !ok {
				return client
			}
			if client = next; !c.Trusts(client) {
				return client
			}
		}
	}
	return client
}
