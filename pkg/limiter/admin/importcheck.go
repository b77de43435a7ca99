package admin

import (
	"context"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ImportCheck finds out, before records are deleted, whether they could be brought back.
//
// The keys of other limiters in a Redis have it. [ImportCheckOf] finds it.
type ImportCheck interface {
	// CheckImport returns a [store.ErrRefused] that names a right which the user lacks to bring back these records
	// with [Keyspace.Import]. It changes nothing, and is cheap for a few records. Another error means that it could
	// not find out.
	CheckImport(ctx context.Context, records ...Record) error
}

// ImportCheckOf returns the check of backend, or of the store that it wraps; see [DenialTableOf].
func ImportCheckOf(backend store.Store) (check ImportCheck, has bool) {
	return store.As[ImportCheck](backend)
}
