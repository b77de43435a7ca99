package store

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
)

// cutNetwork takes a text apart that ends in a network behind a colon, or is one. A subject is made of
// names and values in turn, so the network is looked for where a value begins.
func cutNetwork(text string) (before string, network netip.Prefix, ok bool) {
	if !strings.Contains(text, "/") {
		return "", netip.Prefix{}, false
	}
	if name, _, _ := strings.Cut(text, ":"); !subjecttext.IsName(name) {
		if network, err := netip.ParsePrefix(text); err == nil {
			return "", network.Masked(), true
		}
	}
	colons := 0
	// where else one begins, such as behind a glob for several names and values, the first counts
	for at, c := range text {
		if c != ':' {
			continue
		}
		colons++
		here, err := netip.ParsePrefix(text[at+1:])
		if err == nil && (colons%2 == 1 || !ok) {
			before, network, ok = text[:at+1], here.Masked(), true
		}
		if err == nil && colons%2 == 1 {
			break
		}
	}
	return before, network, ok
}

// parseNetwork reads a value of a subject that is an address or a network. IPv6 can be escaped.
func parseNetwork(value string) (netip.Prefix, bool) {
	if strings.Contains(value, "%") {
		var ok bool
		if value, ok = subjecttext.Unescape(value); !ok {
			return netip.Prefix{}, false
		}
	}
	if strings.Contains(value, "/") {
		network, err := netip.ParsePrefix(value)
		return network, err == nil
	}
	address, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address.WithZone(""), address.BitLen()), true
}

// networkAt is a network, or an address, that a subject ends in, and where it begins there.
type networkAt struct {
	at int
	netip.Prefix
}

// networksIn returns what can be read as a network at the end of a subject, behind any of its colons.
func networksIn(subject string) (all []networkAt) {
	for at := 0; ; {
		if network, ok := parseNetwork(subject[at:]); ok {
			all = append(all, networkAt{at, network})
		}
		next := strings.IndexByte(subject[at:], ':')
		if next < 0 {
			return all
		}
		at += next + 1
	}
}

// networkBeginning is what all values in a network begin with: its whole octets, for IPv4. IPv6 has many spellings.
func networkBeginning(network netip.Prefix) string {
	if !network.Addr().Is4() {
		return ""
	}
	octets := network.Addr().As4()
	var b []byte
	for _, octet := range octets[:min(network.Bits()/8, 3)] {
		b = append(strconv.AppendUint(b, uint64(octet), 10), '.')
	}
	return string(b)
}

// NetworkOf returns the network of ipv4 or ipv6 bits that the last value of a subject is in, or that itself if it is
// wider.
func NetworkOf(subject string, ipv4, ipv6 int) (network netip.Prefix, ok bool) {
	all := networksIn(subject)
	if len(all) == 0 {
		return netip.Prefix{}, false
	}
	network = all[0].Prefix
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	bits := ipv6
	if network.Addr().Is4() {
		bits = ipv4
	}
	return netip.PrefixFrom(network.Addr(), min(bits, network.Bits())).Masked(), true
}
