package policy

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Attributes are what is known of a request, such as ip=203.0.113.9 and
// tenant=acme: values, which may hold anything, by name.
type Attributes map[string]string

// Names returns the names of the attributes in order.
func (a Attributes) Names() []string {
	names := make([]string, 0, len(a))
	for name := range a {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// has reports whether a holds all of other.
func (a Attributes) has(other Attributes) bool {
	for name, value := range other {
		if got, ok := a[name]; !ok || got != value {
			return false
		}
	}
	return true
}

// ParseAttributes reads arguments of the form name=value. The error is a
// [limiter.ErrInvalid] that quotes the argument.
func ParseAttributes(arguments []string) (Attributes, error) {
	attributes := Attributes{}
	for _, argument := range arguments {
		name, value, found := strings.Cut(argument, "=")
		if !found {
			return nil, limiter.Invalidf("argument %q is not an attribute; write name=value, such as ip=203.0.113.9", argument)
		}
		if err := ValidateName("attribute", name); err != nil {
			return nil, err
		}
		if _, twice := attributes[name]; twice {
			return nil, limiter.Invalidf("attribute %q is given twice; keep one", name)
		}
		if value == "" {
			return nil, limiter.Invalidf("attribute %q is empty; give it a value, or all who leave it empty share one subject", name)
		}
		attributes[name] = value
	}
	return attributes, nil
}

// MaxNameLength bounds the names of policies, limits and attributes, in bytes.
const MaxNameLength = 64

// ValidateName reports what makes name unfit to be the name of a policy, a
// limit or an attribute, which what says: letters, digits, "-" and "_",
// beginning with a letter.
func ValidateName(what, name string) error {
	fits := name != "" && len(name) <= MaxNameLength
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		fits = fits && (letter || i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '_'))
	}
	if !fits {
		return limiter.Invalidf("%s name %q is not valid; use at most %d letters, digits, - and _, beginning with a letter", what,
			name, MaxNameLength)
	}
	return nil
}

// join writes the attributes named by names as "name:value:name:value".
// No two lists of names and values are written the same: in a
// value, "%", ":", the braces and control characters are escaped as %XX. Only a
// last value that is an IPv6 address keeps its colons, unless what stands before
// it would read as a part of that address.
func join(names []string, attributes Attributes) string {
	var b strings.Builder
	starts := make([]int, len(names)) // of the values
	for i, name := range names {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(name)
		b.WriteByte(':')
		starts[i] = b.Len()
		b.WriteString(subjecttext.Escape(attributes[name]))
	}
	if len(names) == 0 {
		return ""
	}
	last := len(names) - 1
	address, escaped := attributes[names[last]], b.String()
	if !subjecttext.IsPlainIPv6(address) {
		return escaped
	}
	readable := escaped[:starts[last]] + address
	if slices.ContainsFunc(starts[:last], func(start int) bool { return subjecttext.IsPlainIPv6(readable[start:]) }) {
		return escaped
	}
	return readable
}

// Attribute is one name and value of a key.
type Attribute struct{ Name, Value string }

// split is the inverse of join. ok is false for a text that join cannot have
// made.
func split(text string) (attributes []Attribute, ok bool) {
	for rest := text; ; {
		name, after, found := strings.Cut(rest, ":")
		if !found || ValidateName("attribute", name) != nil {
			return nil, false
		}
		value, next, more := strings.Cut(after, ":")
		// An address has eight parts, or an empty one; a value and the names and
		// values after it are an odd number, and none of them is empty, but in a
		// last address, which then is written with its colons only if this one
		// cannot be taken for more of it.
		if more && subjecttext.IsPlainIPv6(after) {
			value, more = after, false
		} else if value, ok = subjecttext.Unescape(value); !ok {
			return nil, false
		}
		attributes = append(attributes, Attribute{name, value})
		if !more {
			return attributes, rejoin(attributes) == text
		}
		rest = next
	}
}

// rejoin is join of a list.
func rejoin(list []Attribute) string {
	names, attributes := make([]string, len(list)), make(Attributes, len(list))
	for i, a := range list {
		names[i], attributes[a.Name] = a.Name, a.Value
	}
	return join(names, attributes)
}
