package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Prepared is a policy with precomputed parts. It is safe for concurrent use. Do not change the policy any more.
type Prepared struct {
	*Policy
	known, needed []string
	costs         []string // the fields that are costs
	// like has for each limit the index of the first one with the same subject, perhaps itself.
	like []int
	// names has for each limit the name of its keys; "" if HashBy appends attributes to it.
	names []string
}

// Prepare precomputes the parts of p. The policy must have no [Problem].
func (p *Policy) Prepare() *Prepared {
	prepared := &Prepared{Policy: p, needed: p.Needed(), costs: p.CostFields()}
	prepared.known, _ = p.Attributes()
	for i := range p.Limits {
		l, name := &p.Limits[i], ""
		if n := len(p.HashBy); n == 0 || n == len(l.By) {
			name = p.Name + "/" + l.Name
		}
		prepared.names = append(prepared.names, name)
		prepared.like = append(prepared.like, slices.IndexFunc(p.Limits, func(other Limit) bool {
			return len(p.HashBy) > 0 || slices.Equal(other.By, l.By)
		}))
	}
	return prepared
}

// AppendRequests appends the requests of [Policy.Requests], and for each the index of its exception, or -1. It appends
// nothing on an error.
func (p *Prepared) AppendRequests(
	reqs []store.Request, exceptions []int, attributes Attributes, cost int64, costs ...FieldCost,
) ([]store.Request, []int, error) {
	if err := p.check(attributes, costs); err != nil {
		return reqs, exceptions, err
	}
	first := len(reqs)
	for i := range p.Limits {
		l := &p.Limits[i]
		limit, exception := l.For(attributes)
		var key store.Key
		switch {
		case p.names[i] == "":
			key = p.Key(l, attributes)
		case p.like[i] < i:
			key = store.Key{Subject: reqs[first+p.like[i]].Key.Subject, Name: p.names[i]}
		default:
			key = store.Key{Subject: p.subject(l, attributes), Name: p.names[i]}
		}
		reqs = append(reqs, store.Request{
			Key: key, Limit: limit, Cost: l.Cost.of(cost, costs), Leave: l.Leave(limit, attributes), Shadow: l.Shadow,
		})
		exceptions = append(exceptions, exception)
	}
	return reqs, exceptions, nil
}

// check returns a [store.ErrInvalid] that names what is missing or unknown.
func (p *Prepared) check(attributes Attributes, costs []FieldCost) error {
	found := 0
	for _, name := range p.known {
		if _, given := attributes[name]; given {
			found++
		}
	}
	if found < len(attributes) {
		return p.CheckAttributes(attributes)
	}
	var missing []string
	for _, name := range p.needed {
		if attributes[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		noun := "attribute"
		if len(missing) > 1 {
			noun = "attributes"
		}
		return store.Invalidf("policy %q needs the %s %s; add %s=VALUE", p.Name, noun, strings.Join(missing, " and "),
			strings.Join(missing, "=VALUE "))
	}
	return p.checkCosts(costs, p.costs)
}

// Classes divide the callers of one limit: each class leaves a part of it to those that leave less.
type Classes struct {
	// By is the attribute whose value is the class of a request.
	By string
	// Of has at least one class. A request of no class leaves the largest of the shares.
	Of []Class
}

// Class is a class of callers.
type Class struct {
	// Name is the value of the attribute.
	Name string
	// Leave is the share of the capacity, in units rounded up, that stays free, less than [store.WholeShare].
	Leave store.Share
}

// ParseLeave reads the share that a class leaves: 0, or one as [store.ParseShare] reads it, below 100 %. An error is a
// [store.ErrInvalid].
func ParseLeave(text string) (store.Share, error) {
	if text == "0" || text == "0%" {
		return 0, nil
	}
	share, err := store.ParseShare(text)
	if err == nil && share < store.WholeShare {
		return share, nil
	}
	return 0, store.Invalidf("share %q is not what a class can leave; write 0, or a share below 100%% such as 30%% "+
		"or 0.3", text)
}

// IsZero reports whether there are no classes.
func (c *Classes) IsZero() bool { return c.By == "" && len(c.Of) == 0 }

// String returns the classes: "by plan: paid leaves 0%, free leaves 30%". It is empty without classes.
func (c *Classes) String() string {
	if c.IsZero() {
		return ""
	}
	texts := make([]string, len(c.Of))
	for i, class := range c.Of {
		texts[i] = class.Name + " leaves " + class.Leave.String()
	}
	return "by " + c.By + ": " + strings.Join(texts, ", ")
}

// leave returns the share that a request with these attributes leaves.
func (c *Classes) leave(attributes Attributes) (most store.Share) {
	class, has := attributes[c.By]
	for i := range c.Of {
		if has && c.Of[i].Name == class {
			return c.Of[i].Leave
		}
		most = max(most, c.Of[i].Leave)
	}
	return most
}

// Leave returns the units of limit, which applies to the attributes, that a request of l leaves to others; see
// [store.Request].Leave.
func (l *Limit) Leave(limit store.Limit, attributes Attributes) int64 {
	return unitsOf(l.Classes.leave(attributes), limit)
}

// unitsOf returns a share of what limit allows at once, rounded up.
func unitsOf(share store.Share, limit store.Limit) int64 {
	return (limit.Capacity()*int64(share) + int64(store.WholeShare) - 1) / int64(store.WholeShare)
}

// classProblems reports what is wrong with the classes.
func (l *Limit) classProblems(path string, add func(path, format string, args ...any)) {
	c, path := &l.Classes, path+".classes"
	if c.IsZero() {
		return
	}
	if c.By == "" {
		add(path, "the classes of limit %q have no attribute; say which one is the class, such as by: plan", l.Name)
		return
	}
	if err := ValidateName("attribute", c.By); err != nil {
		add(path+".by", "%s", err)
		return
	}
	if len(c.Of) == 0 {
		add(path, "limit %q has no classes by %s; add what each leaves to others, such as free: 30%%", l.Name, c.By)
	}
	for i, class := range c.Of {
		at := path + "." + class.Name
		switch {
		case class.Name == "":
			add(path, "a class of limit %q has no name; its name is a value of %s", l.Name, c.By)
		case slices.ContainsFunc(c.Of[:i], func(other Class) bool { return other.Name == class.Name }):
			add(at, "class %q is there twice; keep one", class.Name)
		case class.Leave >= store.WholeShare:
			add(at, "class %q leaves %s of limit %q, so it gets nothing; leave less than 100%%", class.Name,
				class.Leave, l.Name)
		case class.Leave > 0:
			l.checkRoom(max(1, l.Cost.Units), class.Leave, func(limit store.Limit, cost, leave int64) {
				add(at, "class %q leaves %d of the %d units that limit %s allows at once, so a cost of %d never fits",
					class.Name,
					leave, limit.Capacity(), limit, cost)
			})
		}
	}
}

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
			return nil, store.Invalidf("argument %q is not an attribute; write name=value, such as ip=203.0.113.9",
				argument)
		}
		if err := ValidateName("attribute", name); err != nil {
			return nil, err
		}
		if _, twice := attributes[name]; twice {
			return nil, store.Invalidf("attribute %q is given twice; keep one", name)
		}
		if value == "" {
			return nil, store.Invalidf(
				"attribute %q is empty; give it a value, or all who leave it empty share one subject", name)
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
		return store.Invalidf("%s name %q is not valid; use at most %d letters, digits, - and _, beginning with a "+
			"letter", what,
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
