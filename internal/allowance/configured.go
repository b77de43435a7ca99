package allowance

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ConfiguredLimits are the limits of a configuration by policy and name.
type ConfiguredLimits map[[2]string]*policy.Limit

// NewConfiguredLimits returns the limits of the policies of a configuration.
func NewConfiguredLimits(policies []*policy.Policy) ConfiguredLimits {
	limits := ConfiguredLimits{}
	for _, p := range policies {
		for i := range p.Limits {
			limits[[2]string{p.Name, p.Limits[i].Name}] = &p.Limits[i]
		}
	}
	return limits
}

// Candidates returns the limits that may apply to a key of a configured policy: see [policy.Limit.Candidates].
func (c ConfiguredLimits) Candidates(key store.Key) []policy.Candidate {
	if len(c) == 0 {
		return nil
	}
	parts, isPolicys := policy.ParseKey(key)
	if !isPolicys {
		return nil
	}
	l := c[[2]string{parts.Policy, parts.Limit}]
	if l == nil {
		return nil
	}
	candidates := l.Candidates(AttributesOf(parts.Attributes))
	for i := range candidates {
		if limit, err := candidates[i].Limit.Normalize(); err == nil {
			candidates[i].Limit = limit
		}
	}
	return candidates
}

// Compare reports whether other limits are different for a key, and whether it may take less by them, as far as that is
// known.
func (c ConfiguredLimits) Compare(other ConfiguredLimits, key store.Key) (differ, less bool) {
	parts, _ := policy.ParseKey(key)
	was, is := c[[2]string{parts.Policy, parts.Limit}], other[[2]string{parts.Policy, parts.Limit}]
	switch {
	case is == nil || is.Shadow || c == nil:
		return false, false
	case was == nil || was.Shadow || was.Cost != is.Cost:
		return true, true
	}
	before, after := c.Candidates(key), other.Candidates(key)
	if len(before) != len(after) { // then it depends on attributes that the key does not hold
		return false, false
	}
	for i := range before {
		if before[i].Limit != after[i].Limit {
			overTime, atOnce := Compare(before[i].Limit, after[i].Limit)
			differ, less = true, less || min(overTime, atOnce) < 0 || overTime == 0 && atOnce == 0
		}
	}
	return differ, less
}

// AttributesOf returns the attributes of a key as a map.
func AttributesOf(list []policy.Attribute) policy.Attributes {
	attributes := make(policy.Attributes, len(list))
	for _, attribute := range list {
		attributes[attribute.Name] = attribute.Value
	}
	return attributes
}

// Of returns the limit that the configuration has for a key, before an override. Where it depends on
// attributes that are not part of the key, it is the one that the key was charged under, with or
// without the override; if none fits, it is the last of those that may count.
func (c ConfiguredLimits) Of(key store.Key, recorded store.Limit, override *store.Override) (
	limit store.Limit, known bool) {
	candidates := c.Candidates(key)
	for _, candidate := range candidates {
		if candidate.Limit.IsRecordedAs(recorded) || override.Apply(candidate.Limit).IsRecordedAs(recorded) {
			return candidate.Limit, true
		}
	}
	if len(candidates) == 0 {
		return recorded, false
	}
	return candidates[len(candidates)-1].Limit, true
}

// HasDrifted reports whether a key was charged under another limit than the configuration's, with
// or without the override.
func (c ConfiguredLimits) HasDrifted(key store.Key, recorded store.Limit, override *store.Override) bool {
	limit, known := c.Of(key, recorded, override)
	return known && !limit.IsRecordedAs(recorded) && !override.Apply(limit).IsRecordedAs(recorded)
}

// InForce returns the limit that counts now for the key of an entry: that of the configuration, as the
// override that applies to the key changes it, if there is one. Of a key that is not of the configuration
// only the recorded limit is known, which has the override in it if the key was charged after that was set.
func (c ConfiguredLimits) InForce(e *admin.Entry, override *store.Override) store.Limit {
	limit, known := c.Of(e.Key, e.Limit, override)
	if override == nil || override.Effect != store.OverrideLimit && !known &&
		(e.State == nil || e.State.Time >= store.InstantOf(override.CreatedAt)) {
		return limit
	}
	return override.Apply(limit)
}

// KeysOf returns the keys that a subject has by policies.
func KeysOf(policies []*policy.Policy, subject string) (keys []store.Key) {
	list, _ := policy.ParseSubject(subject)
	attributes := AttributesOf(list)
	for _, p := range policies {
		for i := range p.Limits {
			l := &p.Limits[i]
			if slices.ContainsFunc(l.By, func(name string) bool { return attributes[name] == "" }) {
				continue
			}
			if key := p.Key(l, attributes); key.Subject == subject {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// NamingClients returns a pattern of subjects in which each value of an attribute is what client makes of it, mostly
// the value itself. It finds a last address or network also in spellings that no subject has.
func NamingClients(pattern string, client func(attribute, value string) string) string {
	if one, all := strings.CutSuffix(pattern, ":*"); all { // that a client does
		return NamingClients(one, client) + ":*"
	}
	if attributes, ok := subjecttext.Split(pattern); ok {
		for i, a := range attributes {
			attributes[i].Value = client(a.Name, a.Value)
		}
		return subjecttext.Join(attributes)
	}
	for at := range pattern {
		if pattern[at] != ':' {
			continue
		}
		begin := strings.LastIndexByte(pattern[:at], ':') + 1
		before, name, value := pattern[:begin], pattern[begin:at], pattern[at+1:]
		attributes, ok := subjecttext.Split(strings.TrimSuffix(before, ":"))
		is := subjecttext.Attribute{Name: name, Value: client(name, value)}
		if subjecttext.IsName(name) && is.Value != value {
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

// SamePattern reports whether two patterns select the same: they have the same text, or one is the network of the
// client that the other has as the last value of its one subject.
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
	value := last.Value
	if address, err := netip.ParseAddr(value); err == nil && address.Is4() {
		value += "/32"
	}
	before, found := strings.CutSuffix(network.String(), last.Name+":"+value)
	return found && before+subjecttext.Join(attributes[len(attributes)-1:]) == subject
}
