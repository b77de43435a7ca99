package identity

import (
	"context"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/internal/goroutines"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Ask finds out which store is at url, with connections of its own. The error is that of
// the store, of which then only the address is known. A user without the right to read the
// id or to INFO is no error.
func Ask(ctx context.Context, url string, options connect.Options) (Store, error) {
	store, client, _, err := connect.OpenWithClient(url, options)
	if err != nil {
		return Store{}, err
	}
	defer store.Close()
	known := Store{Prefix: options.Prefix}
	if known.Address, err = connect.Identity(url); err != nil {
		return known, err
	}
	ctx, cancel := limiter.BudgetContext(ctx, options.Timeout)
	defer cancel()
	var asking goroutines.Group
	var runs []string
	var idErr error
	asking.Go(func() { known.ID, idErr = ID(ctx, store) })
	asking.Go(func() { runs = connect.Runs(ctx, client) })
	if err := asking.Wait(); err != nil {
		return known, err
	}
	known.Servers = runs
	return known, idErr
}

// ID returns the id of an open store: empty if it has none, or the user may not read it, or
// something else is in its place. The error says that the store is away.
func ID(ctx context.Context, store limiter.Store) (string, error) {
	of, has := limiter.IdentityOf(store)
	if !has {
		return "", nil
	}
	id, err := of.StoreID(ctx)
	if err != nil && !limiter.IsAway(err) {
		return "", nil
	}
	return id, err
}
