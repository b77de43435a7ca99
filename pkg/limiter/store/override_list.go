package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
)

// OverrideList finds the override that applies to a key among many. It never changes, and is safe for concurrent use.
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
	rank       int
	expires    Instant
	begin      string // of all subjects that it is about
	attributes []subjecttext.Attribute
}

// NewOverrideList returns a list of copies of overrides, including those that have ended.
func NewOverrideList(overrides []Override) *OverrideList {
	l := &OverrideList{all: slices.Clone(overrides), subjects: map[string][]*rankedOverride{}}
	slices.SortStableFunc(l.all, func(a, b Override) int {
		aRank, bRank := a.rank(), b.rank()
		return cmp.Or(slices.Compare(aRank[:], bRank[:]), CompareAge(&a, &b))
	})
	for i := range l.all {
		o := &l.all[i]
		r := &rankedOverride{o, i, InstantOf(o.ExpiresAt), o.Subjects.LiteralBeginning(), o.attributes()}
		if subject, exact := o.Subjects.Exact(); exact {
			l.subjects[subject] = append(l.subjects[subject], r)
		} else {
			l.patterns = append(l.patterns, r)
		}
	}
	return l
}

// rank is less for the override that applies if two could.
func (o *Override) rank() [6]int {
	class, exact, names := 2, 0, 0
	if o.Effect == OverrideBlock || o.Effect == OverrideExempt {
		class = int(o.Effect) - int(OverrideBlock)
	}
	if _, is := o.Subjects.Exact(); is {
		exact = -1
	}
	if !o.Names.IsZero() {
		names = -1
	}
	bits := o.Subjects.network.Bits() // below 0 for what is no network
	return [...]int{class, exact, -bits, -len(o.Subjects.LiteralBeginning()), -len(o.Attributes), names}
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
	parsed, first := parsedKey{Key: key}, (*rankedOverride)(nil)
	for _, some := range [...][]*rankedOverride{l.subjects[key.Subject], l.patterns} {
		for _, r := range some {
			if first != nil && first.rank < r.rank {
				break
			}
			if (now == 0 || r.expires > now) && strings.HasPrefix(key.Subject, r.begin) && parsed.isOf(r.Override, r.attributes) {
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
	parsed, end := parsedKey{Key: key}, InstantOf(block.ExpiresAt)
	for _, some := range [...][]*rankedOverride{l.subjects[key.Subject], l.patterns} {
		for _, r := range some {
			if r.Effect != OverrideBlock { // blocks come first
				break
			}
			if r.expires > end && strings.HasPrefix(key.Subject, r.begin) && parsed.isOf(r.Override, r.attributes) {
				end = r.expires
			}
		}
	}
	return end
}

// Matches reports whether o is for key, which must have a name.
func (o *Override) Matches(key Key) bool { return (&parsedKey{Key: &key}).isOf(o, o.attributes()) }

func (o *Override) attributes() (all []subjecttext.Attribute) {
	for name, value := range o.Attributes {
		all = append(all, subjecttext.Attribute{Name: name, Value: value})
	}
	return all
}

// parsedKey is a key with what overrides ask of it, which is parsed at most once for all of them.
type parsedKey struct {
	*Key
	isParsed, hasNetworks bool
	isPolicys             bool // a policy made the key
	attributes            []subjecttext.Attribute
	networks              []networkAt
}

func (k *parsedKey) isOf(o *Override, attributes []subjecttext.Attribute) bool {
	if o.Subjects.network.IsValid() && !k.hasNetworks {
		k.networks, k.hasNetworks = networksIn(k.Subject), true
	}
	if !o.Subjects.IsZero() && !o.Subjects.match(k.Subject, k.networks) {
		return false
	}
	if !o.Names.IsZero() && !o.Names.Match(k.Name) {
		// hash_by puts attributes behind the limit's name.
		name, _, hasMore := strings.Cut(k.Name, ":")
		if k.parse(); !hasMore || !k.isPolicys || !o.Names.Match(name) {
			return false
		}
	}
	for i := range attributes {
		if k.parse(); !slices.Contains(k.attributes, attributes[i]) {
			return false
		}
	}
	return true
}

func (k *parsedKey) parse() {
	if k.isParsed {
		return
	}
	policy, _, attributes, ok := subjecttext.SplitKey(k.Subject, k.Name)
	if k.isParsed = true; ok && algorithmNamed(policy) == 0 { // otherwise it is a limit without a name of its own
		k.isPolicys, k.attributes = true, attributes
	}
}
