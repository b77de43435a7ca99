package cmd

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// openShadow returns the local shadow of the store that is chosen. Nothing of it is read or
// written before the store is away; if it cannot be opened then, each decision says why.
func openShadow(g *cli.Globals) store.Store {
	path, err := g.ShadowFile()
	if err != nil {
		return noShadow{err}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		g.Env.Keep(path + suffix)
	}
	backend, _, err := connect.Open("file:"+path, connect.Options{Prefix: g.Chosen.Prefix.Value, Timeout: g.Timeout, OwnFile: true})
	if err != nil {
		return noShadow{err}
	}
	return backend
}

// noShadow stands for a shadow that there cannot be.
type noShadow struct{ reason error }

// Decide implements [store.Store].
func (s noShadow) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return s.reason
}

// Close implements [store.Store].
func (s noShadow) Close() error { return nil }

// withShadow is a store that is closed together with its shadow.
type withShadow struct {
	store.Store
	shadow store.Store
}

// Close closes both.
func (s *withShadow) Close() error { return errors.Join(s.Store.Close(), s.shadow.Close()) }
