package identity

import (
	"context"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/internal/goroutines"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Ask finds out which store is at url, with connections of its own. What cannot be found
// out, since a server is away or the user has no right to it, is left out. The error says why
// nothing but the address is known.
func Ask(ctx context.Context, url string, options connect.Options) (Store, error) {
	known := Store{Prefix: options.Prefix}
	store, client, _, err := connect.OpenWithClient(url, options)
	if err != nil {
		return known, err
	}
	defer store.Close()
	if known.Address, err = connect.Address(url); err != nil {
		return known, err
	}
	ctx, cancel := limiter.BudgetContext(ctx, options.Timeout)
	defer cancel()
	var asking goroutines.Group
	var refused error
	asking.Go(func() { known.ID, refused = ID(ctx, store) })
	asking.Go(func() { known.Servers = connect.Runs(ctx, client) })
	err = asking.Wait()
	if err == nil && known.ID == "" && known.Servers == nil {
		err = refused
	}
	return known, err
}

// ID returns the id of an open store: empty if it has none.
func ID(ctx context.Context, store limiter.Store) (string, error) {
	of, has := limiter.IdentityOf(store)
	if !has {
		return "", nil
	}
	return of.StoreID(ctx)
}
