package store

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/subjecttext"
)

// Override changes the limits of some keys until an instant: another limit, a block or an exemption. Operators set it
// in a store (see admin.Tables), and a limiter with limiter.Overrides applies it within about a second.
type Override struct {
	// ID identifies the override, for instance to revoke it. The store makes it.
	ID string
	// Subjects selects the subjects. The zero Pattern selects all.
	Subjects Pattern
	// Names selects limits by name, of a policy also without the attributes of hash_by; the zero Pattern selects all.
	Names Pattern
	// Attributes are those that a key of a policy must have; it may have others. Other keys have none.
	Attributes map[string]string
	// Effect says what the override does, and which of the next three fields counts.
	Effect OverrideEffect
	// Limit replaces the limit, for OverrideLimit.
	Limit Limit
	// Thousandths is the factor for count and burst in thousandths, for OverrideTimes, from 1 to
	// MaxOverrideThousandths.
	Thousandths int64
	// Units are added to count and burst, for OverrideAdd: from -[MaxCount] to [MaxCount], and not 0.
	Units int64
	// Reason says why, and By who set it, for people.
	Reason, By string
	// CreatedAt and ExpiresAt are by the store's clock, in whole milliseconds. At ExpiresAt the override ends.
	CreatedAt, ExpiresAt time.Time
	// Left is the time until ExpiresAt, from the instant at which the store returned the override.
	Left time.Duration
}

// OverrideEffect is what an override does.
type OverrideEffect uint8

// The effects. A block comes before an exemption, and that before the others; see [OverrideList].
const (
	// OverrideLimit: another limit applies. The usage stays.
	OverrideLimit OverrideEffect = iota
	// OverrideTimes: the limit is multiplied, and kept within the bounds of limits.
	OverrideTimes
	// OverrideAdd: the limit gets more units, and is kept within the bounds of limits.
	OverrideAdd
	// OverrideBlock: all takes are denied until it ends, and nothing is charged.
	OverrideBlock
	// OverrideExempt: takes are counted and never denied, as by a shadow limit.
	OverrideExempt
)

var overrideEffects = []string{"limit", "times", "add", "block", "exempt"}

// String returns the effect's name in machine formats: "limit", "times", "add", "block" or "exempt".
func (e OverrideEffect) String() string { return overrideEffects[e] }

// ParseOverrideEffect reads the name of an effect.
func ParseOverrideEffect(word string) (OverrideEffect, error) {
	if i := slices.Index(overrideEffects, word); i >= 0 {
		return OverrideEffect(i), nil
	}
	return 0, Invalidf("unknown effect %q of an override; it is limit, times, add, block or exempt", word)
}

// Bounds of an override. Lengths are in bytes.
const (
	// MaxOverrideTime is the longest time of an override, and MinOverrideTime the shortest.
	MaxOverrideTime = 30 * 24 * time.Hour
	MinOverrideTime = time.Millisecond

	MaxOverrideThousandths = 1_000_000_000
	MaxOverrideText        = 500 // of a reason, and of who says so
	MaxOverrideAttributes  = 16
	MaxOverrideValue       = 256 // of an attribute
)

// Check returns an [ErrInvalid] if o cannot be set for that time.
func (o *Override) Check(lasts time.Duration) error {
	switch {
	case lasts < MinOverrideTime || lasts > MaxOverrideTime:
		return Invalidf("an override for %s: it must be for %s to %s", FormatPeriod(lasts),
			FormatPeriod(MinOverrideTime),
			FormatPeriod(MaxOverrideTime))
	case len(o.Attributes) > MaxOverrideAttributes:
		return Invalidf("an override with %d attributes; at most %d fit", len(o.Attributes), MaxOverrideAttributes)
	}
	for name, value := range o.Attributes {
		if name == "" || len(name) > MaxOverrideValue || value == "" || len(value) > MaxOverrideValue {
			return Invalidf("attribute %q of an override; its name and value must have 1 to %d bytes", name,
				MaxOverrideValue)
		}
	}
	for _, t := range [...][2]string{{"reason", o.Reason}, {"name of who sets it", o.By}} {
		switch what, text := t[0], t[1]; {
		case len(text) > MaxOverrideText:
			return Invalidf("the %s of an override is %d bytes long; at most %d fit", what, len(text), MaxOverrideText)
		case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
			return Invalidf("the %s of an override, %q, is not plain text", what, text)
		}
	}
	switch o.Effect {
	case OverrideLimit:
		if _, err := o.Limit.Normalize(); err != nil {
			return err
		}
		return o.Limit.CheckStored()
	case OverrideTimes:
		if o.Thousandths < 1 || o.Thousandths > MaxOverrideThousandths {
			return Invalidf("an override multiplies by %d thousandths; it must be 1 to %d", o.Thousandths,
				MaxOverrideThousandths)
		}
	case OverrideAdd:
		if o.Units == 0 || o.Units < -MaxCount || o.Units > MaxCount {
			return Invalidf("an override adds %d units; it must be 1 to %d, or below 0 to take them away", o.Units,
				MaxCount)
		}
	case OverrideBlock, OverrideExempt:
	default:
		return Invalidf("unknown effect number %d of an override", uint8(o.Effect))
	}
	return nil
}

// Apply returns limit as o changes it, or limit itself if o is nil, a block or an exemption. The result is within the
// bounds of limits if limit is. Count and burst are rounded down, and at least 1.
func (o *Override) Apply(limit Limit) Limit {
	if o == nil {
		return limit
	}
	switch o.Effect {
	case OverrideLimit:
		return o.Limit
	case OverrideTimes:
		return limit.scale(func(units int64) int64 { return units * o.Thousandths / 1000 })
	case OverrideAdd:
		return limit.scale(func(units int64) int64 { return units + o.Units })
	default:
		return limit
	}
}

// OverrideList finds the override that applies to a key among many. It never changes, and is safe for concurrent use.
//
// A block applies before an exemption, and that before all others. Among the rest, one for exactly this subject comes
// before a network, a smaller network before a larger one, a network before a glob, a longer literal beginning before a
// shorter one, more attributes before fewer, a pattern of names before all limits, and then the newest.
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
		if subject, exact := o.Subjects.Exact(); exact {
			l.subjects[subject] = append(l.subjects[subject], o.ranked(i))
		} else {
			l.patterns = append(l.patterns, o.ranked(i))
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

// For returns the override that applies to key, which has a name, or nil. It must not be changed.
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
			if (now == 0 || r.expires > now) && parsed.isOf(r) {
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

// BlockedUntil returns the end of the last block of key, of which block is one. All blocks have begun.
func (l *OverrideList) BlockedUntil(key *Key, block *Override) Instant {
	parsed, end := parsedKey{Key: key}, InstantOf(block.ExpiresAt)
	for _, some := range [...][]*rankedOverride{l.subjects[key.Subject], l.patterns} {
		for _, r := range some {
			if r.Effect != OverrideBlock { // blocks come first
				break
			}
			if r.expires > end && parsed.isOf(r) {
				end = r.expires
			}
		}
	}
	return end
}

// Matches reports whether o is for key, which must have a name.
func (o *Override) Matches(key Key) bool { return (&parsedKey{Key: &key}).isOf(o.ranked(0)) }

// ranked prepares o for the search.
func (o *Override) ranked(rank int) *rankedOverride {
	r := &rankedOverride{o, rank, InstantOf(o.ExpiresAt), o.Subjects.LiteralBeginning(), nil}
	for name, value := range o.Attributes {
		r.attributes = append(r.attributes, subjecttext.Attribute{Name: name, Value: value})
	}
	return r
}

// parsedKey is a key with what overrides ask of it, which is parsed at most once for all of them.
type parsedKey struct {
	*Key
	isParsed, hasNetworks bool
	isPolicys             bool // a policy made the key
	attributes            []subjecttext.Attribute
	networks              []networkAt
}

func (k *parsedKey) isOf(o *rankedOverride) bool {
	if !strings.HasPrefix(k.Subject, o.begin) {
		return false
	}
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
	for i := range o.attributes {
		if k.parse(); !slices.Contains(k.attributes, o.attributes[i]) {
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
