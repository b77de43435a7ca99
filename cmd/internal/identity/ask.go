package identity

import (
	"context"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Ask finds out which store is at url, with its own connections. It leaves out what it cannot find out, because a
// server is away or the user lacks a right. The error says why only the address is known.
func Ask(ctx context.Context, url string, options connect.Options) (Store, error) {
	known := Store{Prefix: options.Prefix}
	backend, client, _, err := connect.OpenWithClient(url, options)
	if err != nil {
		return known, err
	}
	defer backend.Close()
	if known.Address, err = connect.Address(url); err != nil {
		return known, err
	}
	ctx, cancel := store.BudgetContext(ctx, options.Timeout)
	defer cancel()
	var asking panics.Group
	var refused error
	asking.Go(func() { known.ID, refused = ID(ctx, backend) })
	asking.Go(func() { known.Servers = connect.Runs(ctx, client) })
	err = asking.Wait()
	if err == nil && known.ID == "" && known.Servers == nil {
		err = refused
	}
	return known, err
}

// ID returns the id of an open store, empty if it has none.
func ID(ctx context.Context, backend store.Store) (string, error) {
	of, has := admin.IdentityOf(backend)
	if !has {
		return "", nil
	}
	return of.StoreID(ctx)
}
