package operation

import (
	"context"
	"fmt"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// identity says which store something is of.
type identity struct {
	address string // in the form of connect.Address
	prefix  string
	id      string // the store's random id; empty if it has none, or it could not be read
}

// identity returns which store this is. The error says why its id is not known.
func (r *Runner) identity(ctx context.Context) (identity, error) {
	here := identity{address: r.Address, prefix: r.Place.Prefix}
	of, has := admin.AuditOf(r.Store)
	if !has {
		return here, nil
	}
	ctx, cancel := store.BudgetContext(ctx, r.Timeout)
	defer cancel()
	var err error
	here.id, err = of.StoreID(ctx)
	return here, err
}

// originOf is the store that a backup is of, as it is to be compared with this one. The keys of other limiters are in a
// server whatever our prefix is, but its id is under the prefix.
func (r *Runner) originOf(h *backup.Header) identity {
	origin := identity{address: h.Address, prefix: h.Prefix, id: h.StoreID}
	if h.Layout != "" && origin.prefix != r.Place.Prefix {
		origin.prefix, origin.id = r.Place.Prefix, ""
	}
	if !admin.IsStoreID(origin.id) {
		origin.id = ""
	}
	return origin
}

// is reports whether two stores are certainly the same one: at one address, and not with two ids.
func (a identity) is(b identity) bool {
	return a.prefix == b.prefix && a.address == b.address && a.address != "" && (a.id == b.id || a.id == "" || b.id == "")
}

// CheckOrigin returns an [otherStoreError] if a backup is not of this store for sure, and what the store said if it does
// not tell which one it is.
func (r *Runner) CheckOrigin(ctx context.Context, b *Backup) error {
	here, err := r.identity(ctx)
	origin := r.originOf(&b.Header)
	if origin.is(here) || here.address == "" && here.id == "" {
		return nil
	}
	copied := origin.id != "" && origin.id == here.id && origin.prefix == here.prefix
	if err != nil && !copied {
		return &originUnknownError{Path: b.Path, Err: err}
	}
	return &otherStoreError{Path: b.Path, Backup: b.Header.Store, BackupID: origin.id, Here: r.Place.Store, HereID: here.id,
		MaybeCopy: copied}
}

// IsOrigin reports whether a backup with that header is of this store for sure.
func (r *Runner) IsOrigin(ctx context.Context, header *backup.Header) bool {
	here, _ := r.identity(ctx)
	return r.originOf(header).is(here)
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
