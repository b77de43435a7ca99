// Package subjecttext escapes values for a key's subject, in which they are separated by colons. These texts are in
// existing stores, so what it writes never changes.
package subjecttext

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
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
	value, err := url.PathUnescape(text)
	return value, err == nil && text != "" && Escape(value) == text
}

// Readable is a subject for people: an IPv6 network at its end keeps its colons, if the text, typed as a pattern,
// selects the subject. An address with its colons would be another subject.
func Readable(subject string) string {
	at := strings.LastIndexByte(subject, ':') + 1
	value, ok := Unescape(subject[at:])
	if _, err := netip.ParsePrefix(value); !ok || err != nil || strings.Count(subject[:at], ":")%2 == 0 {
		return subject // patterns look for networks behind a name
	}
	readable := subject[:at] + value
	for rest := readable; len(rest) > len(value); _, rest, _ = strings.Cut(rest, ":") {
		if _, err := netip.ParsePrefix(rest); err == nil {
			return subject // what is before the value reads as a part of the network
		}
	}
	return readable
}

// Stored is the subject that [Readable] shows as text, and text itself if there is none.
func Stored(text string) string {
	for i := range len(text) {
		if text[i] != ':' || i+1 == len(text) {
			continue
		}
		if stored := text[:i+1] + Escape(text[i+1:]); Readable(stored) == text {
			return stored
		}
	}
	return text
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

// Attribute is a name and a value in a key.
type Attribute struct{ Name, Value string }

// Join writes attributes as "name:value:name:value". Different lists give different texts: in a value, it escapes
// "%", ":", braces and control characters as %XX. Only an IPv6 address in the last place keeps its colons, unless
// the text before it would read as a part of that address.
func Join(attributes []Attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var short [160]byte // so that a usual subject allocates only itself
	var starts [4]int
	return string(appendJoined(short[:0], starts[:0], attributes))
}

// appendJoined appends the result of [Join]. starts is memory for the beginnings of values.
func appendJoined(b []byte, starts []int, attributes []Attribute) []byte {
	for i, a := range attributes {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, a.Name...)
		b = append(b, ':')
		starts = append(starts, len(b))
		b = appendEscaped(b, a.Value)
	}
	last := len(attributes) - 1
	address := attributes[last].Value
	if !IsPlainIPv6(address) {
		return b
	}
	readable := string(b[:starts[last]]) + address
	if slices.ContainsFunc(starts[:last], func(start int) bool { return IsPlainIPv6(readable[start:]) }) {
		return b
	}
	return append(b[:starts[last]], address...)
}

// Split is the inverse of [Join]. ok is false for a text that Join cannot have made from attributes with different
// names.
func Split(text string) (attributes []Attribute, ok bool) {
	attributes = make([]Attribute, 0, strings.Count(text, ":")/2+1)
	for rest := text; ; {
		name, after, found := strings.Cut(rest, ":")
		if !found || !IsName(name) {
			return nil, false
		}
		value, next, more := strings.Cut(after, ":")
		// An address has eight parts, or an empty one. A value with the names and values after it has an odd number
		// of parts, and none of them is empty, except in a last address, which has its colons only if this value
		// cannot be taken for more of it.
		if more && IsPlainIPv6(after) {
			value, more = after, false
		} else if value, ok = Unescape(value); !ok {
			return nil, false
		}
		if slices.ContainsFunc(attributes, func(a Attribute) bool { return a.Name == name }) {
			return nil, false
		}
		attributes = append(attributes, Attribute{name, value})
		if !more {
			var short [160]byte // as in Join; nothing keeps the text
			var starts [4]int
			return attributes, string(appendJoined(short[:0], starts[:0], attributes)) == text
		}
		rest = next
	}
}

// SplitKey splits a key of a policy. Its name is "policy/limit", with a colon and the attributes that are not in
// the subject behind it. ok is false for a key that no policy makes; the caller has to check that the policy's name
// is not the name of an algorithm.
func SplitKey(subject, name string) (policy, limit string, attributes []Attribute, ok bool) {
	name, more, hasMore := strings.Cut(name, ":")
	policy, limit, ok = strings.Cut(name, "/")
	if !ok || !IsName(policy) || !IsName(limit) {
		return "", "", nil, false
	}
	if attributes, ok = Split(subject); ok && hasMore {
		var others []Attribute
		others, ok = Split(more)
		attributes = append(attributes, others...)
	}
	if !ok {
		return "", "", nil, false
	}
	return policy, limit, attributes, true
}
