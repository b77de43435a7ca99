// Package identity finds out whether two stores are the same, however they were reached: by the random id of a
// store, by its servers, or by its address.
package identity

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Store is what is known about the identity of a store. It contains no password.
type Store struct {
	// Address is the address in the form of [connect.Address].
	Address string
	// Prefix is the text that its keys begin with.
	Prefix string
	// ID is the random id of the store ([admin.Tables.StoreID]); empty if it has none, or it could not be read.
	ID string
	// Servers are the run ids of its masters, which last until their next start, with the number of the database.
	// There are none for an embedded store, or if the servers could not be asked.
	Servers []string
}

// Verdict is the result of comparing two stores.
type Verdict uint8

// The verdicts.
const (
	// Other: they are different stores.
	Other Verdict = iota
	// Same: they are the same store.
	Same
	// Copy: they have one id at two addresses. It is one store with two addresses, or one is a copy of the other's
	// data.
	Copy
)

// Compare compares two stores.
func Compare(a, b *Store) Verdict {
	switch {
	case a.Prefix != b.Prefix, a.ID != "" && b.ID != "" && a.ID != b.ID:
		return Other
	case Meet(a, b):
		return Same
	case a.ID != "" && a.ID == b.ID:
		return Copy
	}
	return Other
}

// Meet reports whether two stores are at the same place now: they share a server, or the address. It ignores their
// ids.
func Meet(a, b *Store) bool {
	shared := slices.ContainsFunc(a.Servers, func(server string) bool { return slices.Contains(b.Servers, server) })
	return a.Prefix == b.Prefix && (shared || a.Address != "" && followed(a.Address) == followed(b.Address))
}

// followed returns the address of a file with its links resolved as far as possible, and another as it is.
func followed(address string) string {
	if path, isFile := strings.CutPrefix(address, "file "); isFile {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return "file " + real
		}
	}
	return address
}

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
	asking.Go(func() { known.Servers = redisserver.Runs(ctx, client) })
	err = asking.Wait()
	if err == nil && known.ID == "" && known.Servers == nil {
		err = refused
	}
	return known, err
}

// ID returns the id of an open store, empty if it has none.
func ID(ctx context.Context, backend store.Store) (string, error) {
	of, has := admin.AuditOf(backend)
	if !has {
		return "", nil
	}
	return of.StoreID(ctx)
}
