package store

import "context"

// ImportCheck tells before records are deleted whether they could be brought back.
//
// The keys of other limiters in a Redis have it. [ImportCheckOf] finds it.
type ImportCheck interface {
	// CheckImport returns, as an [ErrRefused], a right that the user lacks to bring back these
	// records by [Keyspace.Import]. It changes nothing, and is cheap for a few records. An error
	// of another kind says that it could not be found out.
	CheckImport(ctx context.Context, records ...Record) error
}

// ImportCheckOf returns the check of store, or of the store that it wraps; see [DenialTableOf].
func ImportCheckOf(store Store) (check ImportCheck, has bool) { return As[ImportCheck](store) }
