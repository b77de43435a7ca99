package admin

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MaxOverrides is the most overrides that can be in force in a store.
const MaxOverrides = 1000

// OverrideTable keeps the overrides of a store, separate from its limits: at most [MaxOverrides]. Each expires by
// itself at its end, even if no program runs.
//
// All stores of this module have one. [OverrideTableOf] finds it, and the option limiter.Overrides applies it.
type OverrideTable interface {
	// OverrideVersion returns a version that changes whenever an override is set or revoked; it is empty if there
	// is none. A version never comes back with other overrides. It is one small read. The end of an override does
	// not change the version, unless it was the last.
	OverrideVersion(ctx context.Context) (string, error)
	// Overrides returns the overrides that have not ended, the newest first, and their version. If a foreign value
	// prevents reading some of them, it returns the others together with a [store.ErrForeign] that names one.
	Overrides(ctx context.Context) (overrides []store.Override, version string, err error)
	// SetOverride adds o for that time, in whole milliseconds, and returns it with its ID, CreatedAt and ExpiresAt.
	// If an override in force has the same subjects, names, attributes, effect and amount, it extends that one,
	// which keeps its ID and takes the new end, reason and author. The error is a [store.ErrInvalid] if
	// [store.Override.Check] fails, and a [store.ErrRefused] if there are already [MaxOverrides]. After a
	// [store.ErrOutcomeUnknown] it may have been set.
	SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error)
	// RevokeOverride ends an override and returns it. It may not exist or have ended.
	RevokeOverride(ctx context.Context, id string) (o store.Override, found bool, err error)
}

// OverrideTableOf returns the table of backend, or of the store that it wraps; see
// [DenialTableOf].
func OverrideTableOf(backend store.Store) (table OverrideTable, has bool) {
	return store.As[OverrideTable](backend)
}
