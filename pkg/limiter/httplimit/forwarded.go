package httplimit

import (
	"net/netip"
	"strings"
)

// blanks may stand around the members of a list.
const blanks = " \t"

// cutAddress cuts the last member off a list of addresses. more reports whether a rest remains, ok whether the
// member is short enough for an address.
func cutAddress(list string) (member, rest string, more, ok bool) {
	from := max(0, len(list)-maxAddress)
	if comma := strings.LastIndexByte(list[from:], ','); comma >= 0 {
		return strings.Trim(list[from+comma+1:], blanks), list[:from+comma], true, true
	}
	return strings.Trim(list[from:], blanks), "", false, from == 0
}

// cutForwarded cuts the last member off a list of RFC 7239, in which commas can be quoted.
//
// It works from the right, where trusted proxies write. So nothing that a client wrote on the left, such as a quote
// without an end, changes how their members are read.
func cutForwarded(list string) (member, rest string, more, ok bool) {
	quoted := false
	from := max(0, len(list)-maxForwardedElement)
	for i := len(list) - 1; i >= from; i-- {
		switch {
		case list[i] == '"' && quoted && isEscaped(list[from:i]):
		case list[i] == '"':
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return strings.Trim(list[i+1:], blanks), list[:i], true, true
		}
	}
	return strings.Trim(list[from:], blanks), "", false, from == 0 && !quoted
}

// isEscaped reports whether a backslash that is not escaped itself ends before, which is inside quotes.
func isEscaped(before string) bool {
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}

// parseForwarded reads the address of the parameter "for" in a member of Forwarded. There must be exactly one, and
// the rest of the member must be well-formed, too.
func parseForwarded(member string) (address netip.Addr, ok bool) {
	node, found := "", false
	for rest := member; ; {
		rest = strings.TrimLeft(rest, blanks)
		name, after, isPair := strings.Cut(rest, "=")
		if !isPair || name == "" || strings.ContainsAny(name, blanks+`";,`) {
			return netip.Addr{}, false
		}
		value, more, ok := cutValue(after)
		if !ok {
			return netip.Addr{}, false
		}
		if strings.EqualFold(name, "for") {
			if found {
				return netip.Addr{}, false
			}
			node, found = value, true
		}
		more = strings.TrimLeft(more, blanks)
		if more == "" {
			break
		}
		if more[0] != ';' {
			return netip.Addr{}, false
		}
		rest = more[1:]
	}
	if !found {
		return netip.Addr{}, false
	}
	return parseNode(node)
}

// cutValue cuts a token or a quoted string off text. It keeps escapes in a quoted string, since no address has any.
func cutValue(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, blanks+`";,=`)
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], end > 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[1:i], text[i+1:], true
		}
	}
	return "", "", false
}

// parseNode reads an address with or without a port, an IPv6 address with or without
// brackets. ok is false for anything else, such as "unknown" or "_hidden".
func parseNode(node string) (address netip.Addr, ok bool) {
	if len(node) > maxAddress {
		return netip.Addr{}, false
	}
	if inside, has := strings.CutPrefix(node, "["); has {
		inside, port, closed := strings.Cut(inside, "]")
		address, ok = parseAddress(inside)
		return address, ok && closed && strings.Contains(inside, ":") && (port == "" || isPort(port))
	}
	if host, port, has := strings.Cut(node, ":"); has && isPort(":"+port) {
		if address, ok = parseAddress(host); ok {
			return address, true // of IPv4, since there is no colon in it
		}
	}
	return parseAddress(node)
}

// isPort reports whether text is a colon and a port: a number, or a name that hides it (RFC 7239, 6.2).
func isPort(text string) bool {
	text, has := strings.CutPrefix(text, ":")
	if strings.HasPrefix(text, "_") {
		return true
	}
	return has && text != "" && len(text) <= 5 && strings.Trim(text, "0123456789") == ""
}

// parseAddress reads an address in one form: an IPv4 address inside IPv6 becomes IPv4, and a zone is dropped, since
// it means something only on the machine that wrote it.
func parseAddress(text string) (address netip.Addr, ok bool) {
	if at := strings.IndexByte(text, '%'); at >= 0 && strings.Contains(text[:at], ":") {
		text = text[:at]
	}
	address, err := netip.ParseAddr(text)
	return address.Unmap(), err == nil
}
