package storeurl

import (
	"net"
	"strings"
)

// SplitHost splits host, host:port, [IPv6] or [IPv6]:port.
func SplitHost(text string) (host, port string, ok bool) {
	if address, rest, bracketed := strings.Cut(strings.TrimPrefix(text, "["), "]"); bracketed {
		colon, port, hasPort := strings.Cut(rest, ":")
		plain, zone, hasZone := strings.Cut(address, "%25")
		if address = plain; hasZone {
			address += "%" + zone
		}
		return address, port, text[0] == '[' && colon == "" && (hasPort || rest == "") && net.ParseIP(plain) != nil
	}
	host, port, hasPort := strings.Cut(text, ":")
	return host, port, host != "" && (!hasPort || port != "") && !strings.ContainsAny(host+port, ":[]% \t\n\\")
}

// IsLocal reports whether traffic to a host certainly stays on the machine. Of names, that is only localhost.
func IsLocal(host string) bool {
	host, _, _ = strings.Cut(host, "%") // a zone
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
