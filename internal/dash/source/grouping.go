package source

import (
	"net/netip"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Grouping is what keys can have in common: an attribute, or the network of its addresses.
type Grouping struct {
	Attribute string
	Network   bool
}

// String is the grouping in words.
func (g Grouping) String() string {
	if g.Network {
		return g.Attribute + " network"
	}
	return g.Attribute
}

// NetworkOf returns the network of an address, "" for what is none: of IPv4 24 bits are what one sender often has, of
// IPv6 64.
func NetworkOf(value string) string {
	if value == "" || !strings.ContainsAny(value, ".:") {
		return ""
	}
	address, err := netip.ParseAddr(value)
	if err != nil {
		return ""
	}
	bits := 24
	if address = address.Unmap().WithZone(""); address.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(address, bits).Masked().String()
}

// layoutAttribute is what the layout of another limiter is called among attributes.
const layoutAttribute = "layout"

// AttributesOf returns the attributes that a key was made of: by a policy, or by somebody who
// writes subjects like tenant:acme:user:42. For a key of another limiter the first one is its
// layout.
func AttributesOf(e *admin.Entry) (attributes []policy.Attribute) {
	if e.Layout != "" {
		attributes = append(attributes, policy.Attribute{Name: layoutAttribute, Value: e.Layout})
	} else if parts, is := policy.ParseKey(e.Key); is {
		return parts.Attributes
	}
	ofSubject, _ := policy.ParseSubject(e.Key.Subject)
	return append(attributes, ofSubject...)
}
