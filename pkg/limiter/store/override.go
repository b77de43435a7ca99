package store

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Override is an operator's word about some keys, with an end: another limit, a block or an
// exemption. It lives in a store (see admin.OverrideTable), and whoever decides with the option
// limiter.Overrides applies it within about a second, unless the store is away.
type Override struct {
	// ID is what the store calls it, for instance to revoke it. The store makes it.
	ID string
	// Subjects are whom it is about. The zero Pattern is everybody.
	Subjects Pattern
	// Names are which of their limits; the zero Pattern is all of them. For a key that a policy
	// with hash_by made, the name can also be that of its limit alone, without the attributes behind it.
	Names Pattern
	// Attributes, if there are any, are those that a key of a policy must have; it may have
	// others. A key that no policy made has none.
	Attributes map[string]string
	// Effect is what it does, and says which of the next three fields counts.
	Effect OverrideEffect
	// Limit is the limit instead, for OverrideLimit.
	Limit Limit
	// Thousandths is by how much count and burst are multiplied, in thousandths, for
	// OverrideTimes: 3000 is three times as much, 500 half. It is 1 to MaxOverrideThousandths.
	Thousandths int64
	// Units are added to count and burst, for OverrideAdd; below 0 they are taken away. They are at
	// most [MaxCount] either way, and not 0.
	Units int64
	// Reason is why, and By who says so, for people.
	Reason, By string
	// CreatedAt and ExpiresAt are by the store's clock, in whole milliseconds. At ExpiresAt it
	// ends by itself.
	CreatedAt, ExpiresAt time.Time
	// Left is how long it still lasted when the store was asked for it.
	Left time.Duration
}

// OverrideEffect is what an override does.
type OverrideEffect uint8

// The effects. Of several overrides of a key a block comes first, then an exemption, then the
// others; see [OverrideList].
const (
	// OverrideLimit: another limit is decided by. Usage is kept.
	OverrideLimit OverrideEffect = iota
	// OverrideTimes: the limit is multiplied, and kept within the bounds of limits.
	OverrideTimes
	// OverrideAdd: the limit gets more units, and is kept within the bounds of limits.
	OverrideAdd
	// OverrideBlock: all takes are denied until it ends, and nothing is charged.
	OverrideBlock
	// OverrideExempt: takes are counted and never denied, as by a shadow.
	OverrideExempt
)

// String returns the effect's word in machine formats: "limit", "times", "add", "block" or "exempt".
func (e OverrideEffect) String() string {
	switch e {
	case OverrideLimit:
		return "limit"
	case OverrideTimes:
		return "times"
	case OverrideAdd:
		return "add"
	case OverrideBlock:
		return "block"
	case OverrideExempt:
		return "exempt"
	}
	return fmt.Sprintf("effect(%d)", uint8(e))
}

// ParseOverrideEffect reads the word of an effect.
func ParseOverrideEffect(word string) (OverrideEffect, error) {
	for effect := OverrideLimit; effect <= OverrideExempt; effect++ {
		if effect.String() == word {
			return effect, nil
		}
	}
	return 0, Invalidf("unknown effect %q of an override; it is limit, times, add, block or exempt", word)
}

// Bounds of an override. Lengths are in bytes.
const (
	// MaxOverrideTime is how long an override lasts at most, and MinOverrideTime at least.
	MaxOverrideTime = 30 * 24 * time.Hour
	MinOverrideTime = time.Millisecond

	MaxOverrideThousandths = 1_000_000_000
	MaxOverrideText        = 500 // of a reason, and of who says so
	MaxOverrideAttributes  = 16
	MaxOverrideValue       = 256 // of an attribute
)

// Check reports, as an [ErrInvalid], what makes o unfit to be set for so long.
func (o *Override) Check(lasts time.Duration) error {
	switch {
	case lasts < MinOverrideTime || lasts > MaxOverrideTime:
		return Invalidf("an override for %s: it must be for %s to %s", FormatPeriod(lasts), FormatPeriod(MinOverrideTime),
			FormatPeriod(MaxOverrideTime))
	case len(o.Attributes) > MaxOverrideAttributes:
		return Invalidf("an override with %d attributes; at most %d fit", len(o.Attributes), MaxOverrideAttributes)
	}
	for name, value := range o.Attributes {
		if name == "" || len(name) > MaxOverrideValue || value == "" || len(value) > MaxOverrideValue {
			return Invalidf("attribute %q of an override; its name and value must have 1 to %d bytes", name, MaxOverrideValue)
		}
	}
	if err := checkOverrideText("reason", o.Reason); err != nil {
		return err
	}
	if err := checkOverrideText("name of who sets it", o.By); err != nil {
		return err
	}
	return o.checkEffect()
}

func (o *Override) checkEffect() error {
	switch o.Effect {
	case OverrideLimit:
		_, err := o.Limit.Normalize()
		return err
	case OverrideTimes:
		if o.Thousandths < 1 || o.Thousandths > MaxOverrideThousandths {
			return Invalidf("an override multiplies by %d thousandths; it must be 1 to %d", o.Thousandths, MaxOverrideThousandths)
		}
	case OverrideAdd:
		if o.Units == 0 || o.Units < -MaxCount || o.Units > MaxCount {
			return Invalidf("an override adds %d units; it must be 1 to %d, or below 0 to take them away", o.Units, MaxCount)
		}
	case OverrideBlock, OverrideExempt:
	default:
		return Invalidf("unknown effect number %d of an override", uint8(o.Effect))
	}
	return nil
}

func checkOverrideText(what, text string) error {
	if len(text) > MaxOverrideText {
		return Invalidf("the %s of an override is %d bytes long; at most %d fit", what, len(text), MaxOverrideText)
	}
	if !utf8.ValidString(text) {
		return Invalidf("the %s of an override, %q, is not valid UTF-8", what, text)
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return Invalidf("the %s of an override contains the control character %U; leave it out", what, r)
		}
	}
	return nil
}

// Apply returns what limit is under o: another limit, more or less of it, or itself if o is a block or
// an exemption. The result is within the bounds of limits if limit is. Count and burst are
// rounded down, and at least 1.
func (o *Override) Apply(limit Limit) Limit {
	var of func(units int64) int64
	switch o.Effect {
	case OverrideLimit:
		return o.Limit
	case OverrideTimes:
		of = func(units int64) int64 { return units * o.Thousandths / 1000 }
	case OverrideAdd:
		of = func(units int64) int64 { return units + o.Units }
	default:
		return limit
	}
	most := limit.Algorithm.MaxCount()
	burst := limit.Burst
	limit.Count = min(max(MinCount, of(limit.Count)), most)
	if burst == 0 {
		return limit // it follows the count
	}
	limit.Burst = min(max(1, of(burst)), most)
	limit.lowerBurst()
	return limit
}
