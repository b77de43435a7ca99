package policy

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Classes divide the callers of one limit: each class leaves a part of it to those that leave less. So paid callers have
// room where free ones are denied. The zero Classes leave nothing.
type Classes struct {
	// By is the attribute whose value is the class of a request.
	By string
	// Of has at least one class. A request of another class, or without the attribute, leaves the largest of the
	// shares.
	Of []Class
}

// Class is a class of callers.
type Class struct {
	// Name is the value of the attribute.
	Name string
	// Leave is the share of the capacity that stays free: a request is allowed only if used + cost + that share, in
	// units rounded up, do not exceed the capacity. It is less than [store.WholeShare], and may be 0.
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
	return 0, store.Invalidf("share %q is not what a class can leave; write 0, or a share below 100%% such as 30%% or 0.3", text)
}

// IsZero reports whether there are no classes.
func (c *Classes) IsZero() bool { return c.By == "" && len(c.Of) == 0 }

// String returns the classes as one reads them: "by plan: paid leaves 0%, free leaves 30%". It is empty without classes.
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
			add(at, "class %q leaves %s of limit %q, so it gets nothing; leave less than 100%%", class.Name, class.Leave, l.Name)
		case class.Leave > 0:
			l.checkRoom(max(1, l.Cost.Units), class.Leave, func(limit store.Limit, cost, leave int64) {
				add(at, "class %q leaves %d of the %d units that limit %s allows at once, so a cost of %d never fits", class.Name,
					leave, limit.Capacity(), limit, cost)
			})
		}
	}
}
