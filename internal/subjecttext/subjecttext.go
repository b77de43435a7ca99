// Package subjecttext escapes values for a key's subject, in which they are separated by colons. These texts are in
// existing stores, so what it writes never changes.
package subjecttext

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape writes a value without colons: "%", ":", the braces, control characters and bytes
// that are not UTF-8 become %XX.
func Escape(value string) string {
	if isPlain(value) {
		return value
	}
	return string(appendEscaped(make([]byte, 0, len(value)+8), value))
}

// appendEscaped appends the result of [Escape].
func appendEscaped(b []byte, value string) []byte {
	if isPlain(value) {
		return append(b, value...)
	}
	for i := 0; i < len(value); {
		r, size := utf8.DecodeRuneInString(value[i:])
		if strings.ContainsRune("%:{}", r) || unicode.IsControl(r) || r == utf8.RuneError && size == 1 {
			for _, c := range []byte(value[i : i+size]) {
				b = fmt.Appendf(b, "%%%02X", c)
			}
		} else {
			b = append(b, value[i:i+size]...)
		}
		i += size
	}
	return b
}

// isPlain reports whether value is ASCII that needs no escape, like most values.
func isPlain(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '%' || c == ':' || c == '{' || c == '}' {
			return false
		}
	}
	return true
}

// Unescape is the inverse of [Escape]. It refuses texts that Escape would have written differently.
func Unescape(text string) (value string, ok bool) {
	if !strings.Contains(text, "%") {
		return text, text != "" && Escape(text) == text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", false
		}
		var c byte
		if n, err := fmt.Sscanf(text[i+1:i+3], "%02X", &c); n != 1 || err != nil {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	value = b.String()
	return value, Escape(value) == text
}

// IsPlainIPv6 reports whether text is an IPv6 address of hexadecimal groups only, without a zone or an IPv4
// address. It can keep its colons.
func IsPlainIPv6(text string) bool {
	if strings.IndexByte(text, ':') < 0 {
		return false
	}
	address, err := netip.ParseAddr(text)
	return err == nil && address.Is6() && !strings.ContainsAny(text, ".%")
}

// MaxNameLength is the most bytes of the name of a policy, a limit or an attribute.
const MaxNameLength = 64

// IsName reports whether text can be the name of a policy, a limit or an attribute: letters,
// digits, "-" and "_", beginning with a letter.
func IsName(text string) bool {
	if text == "" || len(text) > MaxNameLength {
		return false
	}
	for i, c := range []byte(text) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c != '-' && c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}
