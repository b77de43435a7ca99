// Package identity finds out whether two stores are the same, however they were reached: by the random id of a
// store, by the servers, or by the address.
package identity

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/storeurl"
)

// Store is what is known about the identity of a store. It contains no password.
type Store struct {
	// Address is the address in the form of [connect.Address].
	Address string
	// Prefix is the text that its keys begin with.
	Prefix string
	// ID is the random id of the store ([admin.Identity]); empty if it has none, or it could not be read.
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

// LookUp returns the addresses of a host, like [net.Resolver.LookupHost].
type LookUp func(ctx context.Context, host string) ([]string, error)

// Compare compares two stores. Host names are the same if they have an address in common.
func Compare(ctx context.Context, a, b *Store, lookUp LookUp) Verdict {
	switch {
	case a.Prefix != b.Prefix, a.ID != "" && b.ID != "" && a.ID != b.ID:
		return Other
	case Meet(ctx, a, b, lookUp):
		return Same
	case a.ID != "" && a.ID == b.ID:
		return Copy
	}
	return Other
}

// Meet reports whether two stores are at the same place now: they share a server, or an address. It ignores their
// ids.
func Meet(ctx context.Context, a, b *Store, lookUp LookUp) bool {
	if a.Prefix != b.Prefix {
		return false
	}
	for _, server := range a.Servers {
		if slices.Contains(b.Servers, server) {
			return true
		}
	}
	if a.Address == b.Address {
		return a.Address != ""
	}
	x, y := parse(a.Address), parse(b.Address)
	switch {
	case x.path != "" && y.path != "":
		return x.kind == y.kind && x.database == y.database && followed(x.path) == followed(y.path)
	case x.database != y.database || x.master != y.master: // Sentinels can watch several masters
		return false
	}
	return share(x.hosts, y.hosts) || share(resolve(ctx, x.hosts, lookUp), resolve(ctx, y.hosts, lookUp))
}

func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(host string) bool { return slices.Contains(b, host) })
}

// followed returns a path with its links resolved as far as possible.
func followed(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// address is a parsed result of [connect.Address].
type address struct {
	kind     string   // the scheme
	path     string   // of a file or a socket
	hosts    []string // each with its port
	master   string   // its name for Sentinels
	database string
}

func parse(text string) address {
	var a address
	var rest string
	a.kind, rest, _ = strings.Cut(text, " ")
	if a.kind == "file" {
		a.path = rest
		return a
	}
	if at := strings.LastIndex(rest, " db "); at >= 0 {
		rest, a.database = rest[:at], rest[at+len(" db "):]
	}
	if a.kind == "unix" {
		a.path = rest
		return a
	}
	hosts, master, _ := strings.Cut(rest, " master ")
	a.master = master
	if hosts != "" {
		a.hosts = strings.Split(hosts, ",")
	}
	return a
}

// resolve returns the addresses of hosts, each with its port. It leaves out names without an address.
func resolve(ctx context.Context, hosts []string, lookUp LookUp) []string {
	var resolved []string
	for _, text := range hosts {
		host, port, ok := storeurl.SplitHost(text)
		if !ok {
			continue
		}
		found := []string{host}
		if !storeurl.IsLocal(host) {
			found, _ = lookUp(ctx, host)
		}
		for _, ip := range found {
			if storeurl.IsLocal(ip) {
				ip = "localhost"
			}
			resolved = append(resolved, ip+" "+port)
		}
	}
	return resolved
}
