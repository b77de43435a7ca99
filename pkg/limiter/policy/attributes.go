package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Attributes are the named values of a request, such as ip=203.0.113.9 and tenant=acme. A value can be any text.
type Attributes map[string]string

// Names returns the names of the attributes in order.
func (a Attributes) Names() []string { return slices.Sorted(maps.Keys(a)) }

// Text writes the attributes in the order of their names as name=value, with spaces between, as on the command line.
func (a Attributes) Text() string {
	var words []string
	for _, name := range a.Names() {
		words = append(words, name+"="+a[name])
	}
	return strings.Join(words, " ")
}

// has reports whether a contains all of other.
func (a Attributes) has(other Attributes) bool {
	for name, value := range other {
		if got, ok := a[name]; !ok || got != value {
			return false
		}
	}
	return true
}

// ParseAttributes reads arguments of the form name=value. The error is a
// [store.ErrInvalid] that quotes the argument.
func ParseAttributes(arguments []string) (Attributes, error) {
	attributes := Attributes{}
	for _, argument := range arguments {
		name, value, found := strings.Cut(argument, "=")
		if !found {
			return nil, store.Invalidf("argument %q is not an attribute; write name=value, such as ip=203.0.113.9", argument)
		}
		if err := ValidateName("attribute", name); err != nil {
			return nil, err
		}
		if _, twice := attributes[name]; twice {
			return nil, store.Invalidf("attribute %q is given twice; keep one", name)
		}
		if value == "" {
			return nil, store.Invalidf("attribute %q is empty; give it a value, or all who leave it empty share one subject", name)
		}
		attributes[name] = value
	}
	return attributes, nil
}

// MaxNameLength is the most bytes in the name of a policy, a limit or an attribute.
const MaxNameLength = subjecttext.MaxNameLength

// ValidateName returns an error unless name can be the name of a policy, a limit or an attribute: letters, digits,
// "-" and "_", beginning with a letter. what names the kind in the error.
func ValidateName(what, name string) error {
	if !subjecttext.IsName(name) {
		return store.Invalidf("%s name %q is not valid; use at most %d letters, digits, - and _, beginning with a letter", what,
			name, MaxNameLength)
	}
	return nil
}

// join writes the attributes with these names as "name:value:name:value".
func join(names []string, attributes Attributes) string {
	var few [4]subjecttext.Attribute
	list := few[:0]
	for _, name := range names {
		list = append(list, subjecttext.Attribute{Name: name, Value: attributes[name]})
	}
	return subjecttext.Join(list)
}

// Attribute is one name and value of a key.
type Attribute struct{ Name, Value string }

// listOf converts attributes to the type of this package.
func listOf(attributes []subjecttext.Attribute) []Attribute {
	list := make([]Attribute, len(attributes))
	for i, a := range attributes {
		list[i] = Attribute(a)
	}
	return list
}
