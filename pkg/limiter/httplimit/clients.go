package httplimit

import (
	"net/http"
	"net/netip"
	"slices"
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
// Anybody can send a field with a false address. So Clients reads the field only if the request comes from a trusted
// proxy. It reads from the right, since each proxy appends the address that connected to it, and the first address that
// is not trusted is the client. If a proxy leaves the field out or writes no address, the client is that proxy.
type Clients struct {
	// Trusted are the networks of the proxies whose field is read. Nobody else should be able to connect from
	// there.
	Trusted []netip.Prefix
	// Header is the only field that is read; the default is [XForwardedFor]. All trusted proxies must set it or append
	// to it. [Forwarded] is read by RFC 7239, any other one as addresses, with or without a port, separated by commas.
	Header string
	// IPv6Bits is the number of leading bits of an IPv6 address that identify a client; 0 means [DefaultIPv6Bits].
	IPv6Bits int
}

// Validate returns a [limiter.ErrInvalid] if Header is no name of a field or IPv6Bits is out of range.
func (c *Clients) Validate() error {
	if !isToken(c.field()) {
		return store.Invalidf("%q is not the name of a header field, such as %s", c.Header, XForwardedFor)
	}
	if bits := c.IPv6Bits; bits < 0 || bits > 128 {
		return store.Invalidf("%d bits of an IPv6 address; it must be from 1 to 128, or 0 for %d", bits,
			DefaultIPv6Bits)
	}
	return nil
}

// Of returns the client of r: an IPv4 address, or the network of an IPv6 address, such as 2001:db8::/64. The client of
// an IPv6 address that a translator made of an IPv4 address (NAT64, SIIT) is that IPv4 address. It is empty if r does
// not come from an IP network, such as from a Unix socket.
func (c *Clients) Of(r *http.Request) string {
	client, ok := Peer(r)
	if !ok {
		return ""
	}
	if c.Trusts(client) {
		client = c.follow(client, strings.Join(r.Header.Values(c.field()), ","))
	}
	return c.text(client)
}

// Client returns the client that text names, as [Clients.Of] does: text is an address, with or without brackets, a
// port or a zone, or a network of no more than one client. ok is false for anything else.
func (c *Clients) Client(text string) (client string, ok bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		client, least := c.text(network.Addr().Unmap()), network.Addr().BitLen()
		if one, err := netip.ParsePrefix(client); err == nil {
			least = one.Bits()
		}
		return client, network.Bits() >= least
	}
	address, ok := parseNode(text)
	return c.text(address), ok
}

// field returns the name of the field to read.
func (c *Clients) field() string {
	if c.Header == "" {
		return XForwardedFor
	}
	return c.Header
}

// Peer returns the address that sent r. ok is false if there is none, such as on a Unix socket.
func Peer(r *http.Request) (address netip.Addr, ok bool) { return parseNode(r.RemoteAddr) }

// Trusts reports whether address, a result of [Peer], belongs to a trusted proxy.
func (c *Clients) Trusts(address netip.Addr) bool {
	return slices.ContainsFunc(c.Trusted, func(network netip.Prefix) bool { return network.Contains(address) })
}

// maxHops is the most members of the list that are read, from the right.
const maxHops = 64

// follow returns the client that the trusted proxies name in the list.
func (c *Clients) follow(client netip.Addr, list string) netip.Addr {
	isForwarded := strings.EqualFold(c.field(), Forwarded)
	for range maxHops {
		comma := strings.LastIndexByte(list, ',')
		if node := strings.Trim(list[comma+1:], blanks); node != "" {
			if isForwarded {
				node = forwardedFor(node)
			}
			address, ok := parseNode(node)
			if ok {
				client = address
			}
			if !ok || !c.Trusts(client) {
				return client
			}
		}
		if comma < 0 {
			break
		}
		list = list[:comma]
	}
	return client
}

// blanks may stand around the members of a list.
const blanks = " \t"

// forwardedFor returns the parameter "for" of a member of Forwarded, or "" if there is none or the member is wrong:
// separators inside quotes count, too.
func forwardedFor(member string) (node string) {
	for pair := range strings.SplitSeq(member, ";") {
		name, value, _ := strings.Cut(strings.Trim(pair, blanks), "=")
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		isFor := strings.EqualFold(name, "for")
		if !isToken(name) || strings.ContainsAny(value, `"\`) || isFor && node != "" {
			return ""
		}
		if isFor {
			node = value
		}
	}
	return node
}

// parseNode reads an address with or without a port, an IPv6 address with or without brackets. ok is false for
// anything else, such as "unknown" or "_hidden".
func parseNode(node string) (address netip.Addr, ok bool) {
	host, at := node, strings.LastIndexByte(node, ':')
	if at >= 0 && (strings.HasSuffix(node[:at], "]") || strings.IndexByte(node, ':') == at) {
		port := node[at+1:]
		isNumber := port != "" && len(port) <= 5 && strings.Trim(port, "0123456789") == ""
		if !isNumber && !strings.HasPrefix(port, "_") { // a name hides the port (RFC 7239, 6.2)
			return address, false
		}
		host = node[:at]
	}
	if inside, has := strings.CutPrefix(host, "["); has {
		if host, ok = strings.CutSuffix(inside, "]"); !ok || !strings.Contains(host, ":") {
			return address, false
		}
	}
	return parseAddress(host)
}

// parseAddress reads an address in one form: an IPv4 address inside IPv6 becomes IPv4, and a zone is dropped, since
// it means something only on the machine that wrote it.
func parseAddress(text string) (address netip.Addr, ok bool) {
	address, err := netip.ParseAddr(text)
	return address.WithZone("").Unmap(), err == nil
}

// translated are the networks whose addresses end with the IPv4 address that they stand for.
var translated = [...]netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"),  // NAT64 with a prefix of one's own, RFC 8215
	netip.MustParsePrefix("::ffff:0:0:0/96"), // SIIT, RFC 7915
}

// text returns client in the form that keys use. Only here is a translated address IPv4, unless it ends with 0.0.0.0:
// a trusted proxy is known by the address that it has.
func (c *Clients) text(client netip.Addr) string {
	for _, network := range translated {
		if bytes := client.As16(); network.Contains(client) && [4]byte(bytes[12:]) != [4]byte{} {
			client = netip.AddrFrom4([4]byte(bytes[12:]))
		}
	}
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
