package layouts

import (
	"errors"
	"net/netip"
	"strings"
)

// errNoUnit says that begin and expiry of a counter fit the window of no unit of time, such as a minute.
var errNoUnit = errors.New("a counter whose window fits no unit")

// cutLastColon cuts a text at its last colon.
func cutLastColon(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}

// isDigits reports whether a text is one or more decimal digits.
func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// isUUID reports whether a text is a UUID with its dashes, in lower case.
func isUUID(text string) bool {
	const dashes = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(dashes) {
		return false
	}
	for i := range len(dashes) {
		if isDash := dashes[i] == '-'; isDash != (text[i] == '-') || !isDash && !isHex(text[i:i+1]) {
			return false
		}
	}
	return true
}

// isHex reports whether a text is in hexadecimal digits, as hashes are written.
func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdef") == ""
}

// isSHA256 reports whether a text is a SHA-256 in hexadecimal digits.
func isSHA256(text string) bool { return len(text) == 64 && isHex(text) }

// isAddress reports whether a text is an IP address.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// isRange reports whether a text is a network of IP addresses, such as 192.0.2.0/24.
func isRange(text string) bool {
	_, err := netip.ParsePrefix(text)
	return err == nil
}
