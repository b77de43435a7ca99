package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// shadowFile returns the path of the local shadow of the store that is chosen: a file of
// its own for each store and prefix, which all commands of the user share. The store is
// known by its URL, as one that is away cannot be asked who it is.
func (g *globalOptions) shadowFile() (string, error) {
	s, err := g.settings()
	if err != nil {
		return "", err
	}
	directory := stateDir(g.env.Getenv)
	if directory == "" {
		return "", errors.New("neither XDG_STATE_HOME nor HOME is set to find a file for it")
	}
	address, err := connect.Address(s.store.value)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256([]byte(address + "\x00" + s.prefix.value))
	return filepath.Join(directory, "local-shadow-"+hex.EncodeToString(hash[:8])+".db"), nil
}

// openShadow returns the local shadow of the store that is chosen. Nothing of it is read or
// written before the store is away; if it cannot be opened then, each decision says why.
func (g *globalOptions) openShadow() store.Store {
	path, err := g.shadowFile()
	if err != nil {
		return noShadow{err}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		g.env.Keep(path + suffix)
	}
	backend, _, err := connect.Open("file:"+path, connect.Options{Prefix: g.chosen.prefix.value, Timeout: g.timeout, OwnFile: true})
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
