package store

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
)

// OverrideList finds the override that applies to a key among many. It never changes, and is safe for concurrent
// use.
//
// Among several overrides for a key, one applies: a block before an exemption, and that before all others. Among the
// rest, one for exactly this subject comes before a network, a smaller network before a larger one, and a network
// before a glob. A pattern with a longer literal beginning comes before one with a shorter beginning, one with more
// attributes before one with fewer, one with a pattern of names before one for all limits, and then the newest.
type OverrideList struct {
	all      []Override // the one that applies first
	subjects map[string][]*rankedOverride
	patterns []*rankedOverride // those without an exact subject
}

// rankedOverride is an override, prepared for the search. Lists have them in the order of rank.
type rankedOverride struct {
	*Override
	rank    int
	expires Instant
	begin   string       // of all subjects that it is about
	before  int          // the length of the text before network
	network netip.Prefix // invalid if it has none with a literal text before it
	needed  []neededAttribute
}

// neededAttribute is an attribute that a key must have. Every key that has it contains one of the texts.
type neededAttribute struct{ escaped, plain string }

// NewOverrideList returns a list of copies of overrides, including those that have ended.
func NewOverrideList(overrides []Override) *OverrideList {
	l := &OverrideList{all: slices.Clone(overrides), subjects: map[string][]*rankedOverride{}}
	slices.SortStableFunc(l.all, func(a, b Override) int { return compareOverrides(&a, &b) })
	for i := range l.all {
		o := &l.all[i]
		r := &rankedOverride{
			Override: o, rank: i, expires: InstantOf(o.ExpiresAt), begin: o.Subjects.LiteralBeginning(),
		}
		for name, value := range r.Attributes {
			r.needed = append(r.needed, neededAttribute{name + ":" + subjecttext.Escape(value), name + ":" + value})
		}
		if subject, exact := r.Subjects.Exact(); exact {
			l.subjects[subject] = append(l.subjects[subject], r)
			continue
		}
		if before, network, ok := r.Subjects.literalNetwork(); ok {
			r.before, r.network = len(before), network
		}
		l.patterns = append(l.patterns, r)
	}
	return l
}

// compareOverrides sorts the override first that applies if both could.
func compareOverrides(a, b *Override) int {
	_, aExact := a.Subjects.Exact()
	_, bExact := b.Subjects.Exact()
	return cmp.Or(
		cmp.Compare(a.Effect.class(), b.Effect.class()),
		falseLast(aExact, bExact),
		cmp.Compare(b.Subjects.network.Bits(), a.Subjects.network.Bits()), // below 0 for what is no network
		cmp.Compare(len(b.Subjects.LiteralBeginning()), len(a.Subjects.LiteralBeginning())),
		cmp.Compare(len(b.Attributes), len(a.Attributes)),
		falseLast(!a.Names.IsZero(), !b.Names.IsZero()),
		CompareAge(a, b),
	)
}

// class is the rank of an effect.
func (e OverrideEffect) class() int {
	if e == OverrideBlock || e == OverrideExempt {
		return int(e) - int(OverrideBlock)
	}
	return 2
}

func falseLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// CompareAge sorts overrides by their creation, the newest first, and those of one instant by ID.
func CompareAge(a, b *Override) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.ID, b.ID))
}

// For returns the override that applies to key, which must have a name, or nil. The result is
// part of the list, and must not be changed.
func (l *OverrideList) For(key Key) *Override { return l.InForce(&key, 0) }

// All returns the overrides of the list, which must not be changed.
func (l *OverrideList) All() []Override { return l.all }

// InForce is [OverrideList.For] without the overrides that have ended at now; 0 is before all ends.
func (l *OverrideList) InForce(key *Key, now Instant) *Override {
	var first *rankedOverride
	value := subjectValue{read: -1}
	for _, some := range [...][]*rankedOverride{l.subjects[key.Subject], l.patterns} {
		for _, r := range some {
			if first != nil && first.rank < r.rank {
				break
			}
			if (now == 0 || r.expires > now) && r.isAbout(key, &value) {
				first = r
				break
			}
		}
	}
	if first == nil {
		return nil
	}
	return first.Override
}

// BlockedUntil returns the end of the last block of key; block is one of them. All blocks have begun, so there is no
// gap before that.
func (l *OverrideList) BlockedUntil(key *Key, block *Override) Instant {
	end := InstantOf(block.ExpiresAt)
	value := subjectValue{read: -1}
	for _, some := range [...][]*rankedOverride{l.subjects[key.Subject], l.patterns} {
		for _, r := range some {
			if r.Effect != OverrideBlock { // blocks come first
				break
			}
			if r.expires > end && r.isAbout(key, &value) {
				end = r.expires
			}
		}
	}
	return end
}

// subjectValue is the end of a subject, read as a network once for all overrides with networks.
type subjectValue struct {
	read    int // the text before it
	network netip.Prefix
	ok      bool
}

// isAbout is [Override.Matches]. It looks first at what is quick, since there can be a thousand.
func (r *rankedOverride) isAbout(key *Key, value *subjectValue) bool {
	if !strings.HasPrefix(key.Subject, r.begin) {
		return false
	}
	if r.network.IsValid() {
		if value.read != r.before {
			value.read = r.before
			value.network, value.ok = parseNetwork(key.Subject[r.before:])
		}
		if !value.ok || value.network.Bits() < r.network.Bits() || !r.network.Contains(value.network.Addr()) {
			return false
		}
	}
	for i := range r.needed {
		if n := &r.needed[i]; !n.isIn(key.Subject) && !n.isIn(key.Name) {
			return false
		}
	}
	return r.Matches(*key)
}

func (n *neededAttribute) isIn(text string) bool {
	return strings.Contains(text, n.escaped) || n.plain != n.escaped && strings.Contains(text, n.plain)
}

// Matches reports whether o is for key, which must have a name.
func (o *Override) Matches(key Key) bool {
	if !o.Subjects.IsZero() && !o.Subjects.Match(key.Subject) {
		return false
	}
	if !o.Names.IsZero() && !o.Names.Match(key.Name) {
		// hash_by puts attributes behind the limit's name.
		name, _, hasMore := strings.Cut(key.Name, ":")
		if !hasMore || !o.Names.Match(name) {
			return false
		}
		if _, isPolicys := policyAttributes(&key); !isPolicys {
			return false
		}
	}
	if len(o.Attributes) == 0 {
		return true
	}
	attributes, _ := policyAttributes(&key)
	for name, value := range o.Attributes {
		if !slices.Contains(attributes, subjecttext.Attribute{Name: name, Value: value}) {
			return false
		}
	}
	return true
}

// policyAttributes returns the attributes of a key that a policy made.
func policyAttributes(key *Key) (attributes []subjecttext.Attribute, ok bool) {
	policy, _, attributes, ok := subjecttext.SplitKey(key.Subject, key.Name)
	if !ok {
		return nil, false
	}
	if _, err := ParseAlgorithm(policy); err == nil {
		return nil, false // a limit without a name of its own
	}
	return attributes, true
}
