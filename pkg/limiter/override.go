package limiter

import (
	"context"
	"time"
)

// Override is an operator's word about some keys, with an end: another limit, a block or an
// exemption. It lives in a store (see [OverrideTable]), and everybody who decides through
// [WithOverrides] applies it within about a second.
type Override struct {
	// ID is what the store calls it, for instance to revoke it. The store makes it.
	ID string
	// Subjects are whom it is about. The zero Pattern is everybody, which is only of use with
	// Attributes.
	Subjects Pattern
	// Names are which of their limits; the zero Pattern is all of them.
	Names Pattern
	// Attributes, if there are any, are those that a key of a policy must have; it may have
	// others.
	Attributes map[string]string
	// Effect is what it does, and says which of the next three fields counts.
	Effect OverrideEffect
	// Limit is the limit instead, for OverrideLimit.
	Limit Limit
	// Thousandths is by how much count and burst are multiplied, in thousandths, for
	// OverrideTimes: 3000 is three times as much, 500 half.
	Thousandths int64
	// Units are added to count and burst, for OverrideAdd; below 0 they are taken away.
	Units int64
	// Reason is why, and By who says so, for people.
	Reason, By string
	// CreatedAt and ExpiresAt are by the store's clock. At ExpiresAt it ends by itself.
	CreatedAt, ExpiresAt time.Time
}

// OverrideEffect is what an override does.
type OverrideEffect uint8

// The effects. Of several overrides of a key a block comes first, then an exemption, then the
// others; among those that are left the more exact one, then the newer one.
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

// MaxOverrideTime is how long an override lasts at most.
const MaxOverrideTime = 30 * 24 * time.Hour

// OverrideTable is where a store keeps overrides, apart from its limits. Each goes by itself
// when it ends, also if nobody is running.
//
// All stores of this module have one. [OverrideTableOf] finds it, [WithOverrides] applies it.
type OverrideTable interface {
	// OverrideVersion returns what changes whenever an override is set or revoked; it is empty
	// if there is none. It is one small read.
	OverrideVersion(ctx context.Context) (string, error)
	// Overrides returns those that have not ended, and the version of which they are.
	Overrides(ctx context.Context) (overrides []Override, version string, err error)
	// SetOverride adds o for so long, and returns it with its ID, CreatedAt and ExpiresAt.
	SetOverride(ctx context.Context, o Override, lasts time.Duration) (Override, error)
	// RevokeOverride ends one, and returns it. There may be none of this ID, or it has ended.
	RevokeOverride(ctx context.Context, id string) (o Override, found bool, err error)
}

// OverrideTableOf returns the table of store, or of the store that it wraps; see
// [DenialTableOf].
func OverrideTableOf(store Store) (table OverrideTable, has bool) {
	return reached[OverrideTable](store)
}
