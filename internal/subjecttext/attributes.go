package subjecttext

import (
	"slices"
	"strings"
)

// Attribute is a name and a value that a key was made of.
type Attribute struct{ Name, Value string }

// Join writes attributes as "name:value:name:value".
// No two lists are written the same: in a value, "%", ":", the braces and control characters
// are escaped as %XX. Only a last value that is an IPv6 address keeps its colons, unless what
// stands before it would read as a part of that address.
func Join(attributes []Attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var short [160]byte // so that a subject of usual length allocates nothing but itself
	var starts [4]int
	return string(appendJoined(short[:0], starts[:0], attributes))
}

// appendJoined appends what [Join] returns. starts is room for where the values begin.
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

// Split is the inverse of [Join]. ok is false for a text that Join cannot have made of attributes of
// different names.
func Split(text string) (attributes []Attribute, ok bool) {
	for rest := text; ; {
		name, after, found := strings.Cut(rest, ":")
		if !found || !IsName(name) {
			return nil, false
		}
		value, next, more := strings.Cut(after, ":")
		// An address has eight parts, or an empty one; a value and the names and
		// values after it are an odd number, and none of them is empty, but in a
		// last address, which then is written with its colons only if this one
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
			return attributes, Join(attributes) == text
		}
		rest = next
	}
}

// SplitKey takes a key of a policy apart, whose name is "policy/limit", and behind a colon the
// attributes that are not in the subject. ok is false for a key that no policy makes; that the
// policy's name is not an algorithm's is for the caller to check.
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
