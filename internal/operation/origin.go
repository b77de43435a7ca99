package operation

import (
	"context"
	"fmt"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/identity"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// identify returns which store it is, as far as that is known.
func (r *Runner) identify(ctx context.Context) (identity.Store, error) {
	if r.Identify == nil {
		return identity.Store{Prefix: r.Place.Prefix}, nil
	}
	return r.Identify(ctx)
}

// CheckOrigin returns an [otherStoreError] if a backup is not of this store for sure, and
// what the store said if it does not tell which one it is.
func (r *Runner) CheckOrigin(ctx context.Context, b *Backup) error {
	here, err := r.identify(ctx)
	if here.Address == "" && here.ID == "" {
		return nil
	}
	origin := r.originOf(&b.Header)
	verdict := identity.Compare(&origin, &here)
	if verdict == identity.Same {
		return nil
	}
	if verdict == identity.Other && err != nil {
		return &originUnknownError{Path: b.Path, Err: err}
	}
	return &otherStoreError{Path: b.Path, Backup: b.Header.Store, BackupID: origin.ID, Here: r.Place.Store, HereID: here.ID,
		MaybeCopy: verdict == identity.Copy}
}

// IsOrigin reports whether a backup with that header is of this store for sure.
func (r *Runner) IsOrigin(ctx context.Context, header *backup.Header) bool {
	here, _ := r.identify(ctx)
	origin := r.originOf(header)
	return identity.Compare(&origin, &here) == identity.Same
}

// originOf is the store that a backup is of, as it is to be compared with this one. The keys of
// other limiters are in a server whatever our prefix is, but its id is under the prefix.
func (r *Runner) originOf(h *backup.Header) identity.Store {
	origin := identity.Store{Address: h.Address, Prefix: h.Prefix, ID: h.StoreID, Servers: h.Servers}
	if h.Layout != "" && origin.Prefix != r.Place.Prefix {
		origin.Prefix, origin.ID = r.Place.Prefix, ""
	}
	if !admin.IsStoreID(origin.ID) {
		origin.ID = ""
	}
	return origin
}

// originUnknownError says that a store does not tell which one it is, and why.
type originUnknownError struct {
	Path string // of the backup
	Err  error  // the store's
}

// Error names the backup and what the store said.
func (e *originUnknownError) Error() string {
	return fmt.Sprintf("nobody can tell whether %s is a backup of this store: %s", e.Path, e.Err)
}

// Unwrap returns the store's error.
func (e *originUnknownError) Unwrap() error { return e.Err }

// otherStoreError says that a backup is of another store than the one to restore it into, or
// that nobody can tell. It is a [store.ErrInvalid].
type otherStoreError struct {
	Path             string // of the backup
	Backup, Here     string // what people call the two stores
	BackupID, HereID string // their ids, as far as they are known
	// MaybeCopy: they have the same id. It is one store that was reached in two ways, or one
	// is a copy of the other.
	MaybeCopy bool
}

// Error names both stores.
func (e *otherStoreError) Error() string {
	if e.MaybeCopy {
		return fmt.Sprintf("%s is a backup of %s, and this is %s, with the same id: the same store reached in another way, or a copy of it",
			e.Path, output.Printable(e.Backup), e.Here)
	}
	from, here := output.Printable(e.Backup), e.Here // the file may be anybody's
	if e.BackupID != "" && e.HereID != "" && e.BackupID != e.HereID {
		const shown = 8
		from, here = from+" with id "+e.BackupID[:shown]+"…", here+" with id "+e.HereID[:shown]+"…"
	}
	return fmt.Sprintf("%s is a backup of another store, %s, and this is %s", e.Path, from, here)
}

// Is makes every otherStoreError a [store.ErrInvalid].
func (e *otherStoreError) Is(target error) bool { return target == store.ErrInvalid }
