package httplimit

import (
	"cmp"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DefaultIPv6Bits is the default of [Clients].IPv6Bits: the network that one customer usually has.
const DefaultIPv6Bits = 64

// Header fields in which proxies name the client.
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded" // of RFC 7239
)

// Clients finds the client of a request. The zero Clients trusts no header field: the client is the address that
// connected.
//
// Anybody can send a field with a false address. So Clients reads the field only if the request comes from a
// trusted proxy. It reads from the right, because each proxy appends the address that connected to it, skips
// trusted addresses, and takes the first other address as the client. Everything to the left of it can be false.
//
// A trusted proxy can leave the field out or write something that is no address, such as "unknown". Then the client
// is that proxy: such clients share a limit, and none escapes it.
type Clients struct {
	// Trusted are the networks of the proxies whose field is read. Nobody else should be able to connect from
	// there. See [ParseNetwork].
	Trusted []netip.Prefix
	// Header is the only field that is read; the default is [XForwardedFor]. All trusted proxies must set it or
	// append to it: a client could send any other field, and proxies would pass it on. [Forwarded] is read by RFC
	// 7239. Any other field, such as X-Real-IP, is read like X-Forwarded-For: addresses, with or without a port,
	// separated by commas.
	Header string
	// IPv6Bits is the number of leading bits of an IPv6 address that identify a client; 0 means [DefaultIPv6Bits].
	IPv6Bits int
}

// Validate returns a [limiter.ErrInvalid] if Header is no name of a field or IPv6Bits is out of range.
func (c *Clients) Validate() error {
	if !isToken(c.field()) {
		return store.Invalidf("%q is not the name of a header field; write one such as %s, %s or X-Real-IP", c.Header, Forwarded,
			XForwardedFor)
	}
	if bits := c.IPv6Bits; bits < 0 || bits > 128 {
		return store.Invalidf("%d bits of an IPv6 address; it must be from 1 to 128, or 0 for %d", bits, DefaultIPv6Bits)
	}
	return nil
}

// ParseNetwork reads a network such as "10.0.0.0/8", or an address such as "::1" as a network of one address. An
// error is a [limiter.ErrInvalid] that quotes text.
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

// Bounds of what is read, so that a long list costs no more than a short one.
const (
	maxHops             = 64   // members of the list, from the right
	maxAddress          = 128  // bytes of a member of X-Forwarded-For with its blanks
	maxForwardedElement = 1024 // the same for Forwarded, whose members hold more
)

// Of returns the client of r: an IPv4 address, or the network of an IPv6 address, such as 2001:db8::/64. The client of an
// IPv6 address that a translator made of an IPv4 address (NAT64, SIIT) is that IPv4 address. It is empty if r does not come
// from an IP network, such as from a Unix socket.
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

// Client returns the client that text names, as [Clients.Of] does: text is an address, with or without brackets, a port or a
// zone, or an IPv6 network of no more than one client. ok is false for anything else.
func (c *Clients) Client(text string) (client string, ok bool) {
	host, bits, isNetwork := strings.Cut(text, "/")
	address, ok := parseNode(host)
	if !ok {
		return "", false
	}
	client = c.text(address)
	if !isNetwork {
		return client, true
	}
	_, whole, _ := strings.Cut(client, "/") // nothing if the client is one address
	least, _ := strconv.Atoi(cmp.Or(whole, "128"))
	length, err := strconv.ParseUint(bits, 10, 8)
	return client, err == nil && length >= uint64(least) && length <= 128 && strings.Contains(host, ":")
}

// field returns the name of the field to read.
func (c *Clients) field() string {
	if c.Header == "" {
		return XForwardedFor
	}
	return c.Header
}

// Peer returns the address that sent r. ok is false if there is none, such as on a Unix socket.
func Peer(r *http.Request) (address netip.Addr, ok bool) {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return peer.Addr().Unmap().WithZone(""), true
	}
	return parseAddress(r.RemoteAddr)
}

// Trusts reports whether address, a result of [Peer], belongs to a trusted proxy.
func (c *Clients) Trusts(address netip.Addr) bool {
	for _, network := range c.Trusted {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// translated are the networks whose addresses end with the IPv4 address that they stand for.
var translated = [...]netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"),  // NAT64 with a prefix of one's own, RFC 8215
	netip.MustParsePrefix("::ffff:0:0:0/96"), // SIIT, RFC 7915
}

// untranslated returns the IPv4 address that address stands for, or address. An address that ends with 0.0.0.0, which is no
// client, has the IPv4 address in other places.
func untranslated(address netip.Addr) netip.Addr {
	if address.Is4() {
		return address
	}
	for _, network := range translated {
		if bytes := address.As16(); network.Contains(address) && [4]byte(bytes[12:]) != [4]byte{} {
			return netip.AddrFrom4([4]byte(bytes[12:]))
		}
	}
	return address
}

// text returns client in the form that keys use. Only here is a translated address IPv4: a trusted proxy is known by the
// address that it has.
func (c *Clients) text(client netip.Addr) string {
	client = untranslated(client)
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

// follow returns the client that the trusted proxies name in the lines of the field. Several lines are one list. It
// reads each line by itself, so that a quote which a client opens in its line cannot reach into the line of a
// proxy.
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
