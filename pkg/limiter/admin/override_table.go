package admin

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MaxOverrides is how many overrides a store has in force at a time, at most.
const MaxOverrides = 1000

// OverrideTable is where a store keeps overrides, apart from its limits: at most
// [MaxOverrides]. Each goes by itself when it ends, also if nobody is running.
//
// All stores of this module have one. [OverrideTableOf] finds it, the option limiter.Overrides applies it.
type OverrideTable interface {
	// OverrideVersion returns what changes whenever an override is set or revoked; it is empty
	// if there is none. The same version never comes back with other overrides. It is one small
	// read. That one has ended by itself does not change the version, unless it was the last.
	OverrideVersion(ctx context.Context) (string, error)
	// Overrides returns those that have not ended, the newest first, and the version of which
	// they are. If some of them cannot be read, because somebody else wrote there, the
	// error is a [store.ErrForeign] that names one, and those that can be are returned all the same.
	Overrides(ctx context.Context) (overrides []store.Override, version string, err error)
	// SetOverride adds o for so long, in whole milliseconds, and returns it with its ID, CreatedAt
	// and ExpiresAt. If one in force has the same subjects, names, attributes and effect, with the same amount, it
	// is that one: it keeps its ID and takes the new end, reason and name of who sets it.
	// It is a [store.ErrInvalid] if [store.Override.Check] says so, and a [store.ErrRefused] if there are
	// [MaxOverrides] already. After a [store.ErrOutcomeUnknown] it may have been set.
	SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error)
	// RevokeOverride ends one, and returns it. There may be none of this ID, or it has ended.
	RevokeOverride(ctx context.Context, id string) (o store.Override, found bool, err error)
}

// OverrideTableOf returns the table of backend, or of the store that it wraps; see
// [DenialTableOf].
func OverrideTableOf(backend store.Store) (table OverrideTable, has bool) {
	return store.As[OverrideTable](backend)
}
