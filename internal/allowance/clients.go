package allowance

import (
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NamingClients returns a pattern of subjects in which each value of an attribute is what client makes of it, mostly the value
// itself. It finds a last address also in spellings that no subject has, and an IPv6 network, which may be a part of one client.
func NamingClients(pattern string, client func(attribute, value string) string) string {
	named := func(a subjecttext.Attribute) subjecttext.Attribute {
		if host, _, isNetwork := strings.Cut(a.Value, "/"); !isNetwork || strings.Contains(host, ":") {
			a.Value = client(a.Name, a.Value)
		}
		return a
	}
	if attributes, ok := subjecttext.Split(pattern); ok {
		for i := range attributes {
			attributes[i] = named(attributes[i])
		}
		return subjecttext.Join(attributes)
	}
	for at := range pattern {
		if pattern[at] != ':' {
			continue
		}
		begin := strings.LastIndexByte(pattern[:at], ':') + 1
		before, last := pattern[:begin], subjecttext.Attribute{Name: pattern[begin:at], Value: pattern[at+1:]}
		attributes, ok := subjecttext.Split(strings.TrimSuffix(before, ":"))
		if is := named(last); subjecttext.IsName(last.Name) && is != last {
			switch {
			case ok || before == "":
				return subjecttext.Join(append(attributes, is))
			case strings.ContainsAny(before, `*?[\`):
				return before + subjecttext.Join([]subjecttext.Attribute{is})
			}
		}
	}
	return pattern
}

// SamePattern reports whether two patterns select the same: they have the same text, or one is the network that the other has as
// the last value of its one subject, as the subjects of IPv6 clients have.
func SamePattern(a, b store.Pattern) bool {
	subject, exact := a.Exact()
	other, otherExact := b.Exact()
	switch {
	case exact && otherExact:
		return subject == other
	case exact:
		return isNetworkOf(subject, b)
	case otherExact:
		return isNetworkOf(other, a)
	}
	return a.String() == b.String()
}

// isNetworkOf reports whether a pattern that is no subject is a network, and subject ends with it.
func isNetworkOf(subject string, network store.Pattern) bool {
	attributes, ok := subjecttext.Split(subject)
	if !ok || strings.ContainsAny(network.String(), `*?[\`) {
		return false
	}
	last := &attributes[len(attributes)-1]
	before, found := strings.CutSuffix(network.String(), last.Name+":"+last.Value)
	return found && before+subjecttext.Join(attributes[len(attributes)-1:]) == subject
}
