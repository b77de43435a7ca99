package subjecttext

import (
	"slices"
	"strings"
)

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
