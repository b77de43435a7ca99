package cmd

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// open connects to the chosen store; where names it in messages. The command may write
// to it, and so ends in order from now on.
func (g *globalOptions) open() (store connect.Store, where string, err error) {
	return g.openWatched(nil)
}

// openWatched is open with [connect.Options.OnBatch].
func (g *globalOptions) openWatched(onBatch func(calls int)) (store connect.Store, where string, err error) {
	url, options, err := g.connection()
	if err != nil {
		return nil, "", err
	}
	options.OnBatch = onBatch
	store, where, err = connect.Open(url, options)
	store, err = g.openedToWrite(store, err)
	return store, where, err
}

// openToRead is open for a command that writes nothing, and so may end at any time.
func (g *globalOptions) openToRead() (store connect.Store, where string, err error) {
	url, options, err := g.connection()
	if err != nil {
		return nil, "", err
	}
	store, where, err = connect.Open(url, options)
	store, err = g.opened(store, err)
	return store, where, err
}

// openedToWrite is a store that was opened and that the command may write to, as the context
// in use allows it to be used.
func (g *globalOptions) openedToWrite(store connect.Store, err error) (connect.Store, error) {
	g.env.Hold()
	return g.opened(store, err)
}

// opened is a store as the context in use allows it to be used.
func (g *globalOptions) opened(store connect.Store, err error) (connect.Store, error) {
	s, settingsErr := g.settings()
	if settingsErr != nil {
		return nil, settingsErr
	}
	switch {
	case err != nil && s.context != nil:
		return nil, fmt.Errorf("context %q: %w", s.context.Name, err)
	case err != nil:
		return nil, err
	case s.context != nil && s.context.ReadOnly:
		store = connect.ReadOnly(store, s.context.Name)
	}
	return store, nil
}

// connection returns the URL of the chosen store and what that does not say.
func (g *globalOptions) connection() (url string, options connect.Options, err error) {
	if g.timeout <= 0 {
		return "", options, usagef("--timeout %s is not positive; give a duration such as 2s", g.timeout)
	}
	s, err := g.settings()
	if err != nil {
		return "", options, err
	}
	if !g.quiet && !s.announced {
		s.announce(g.env.Err)
		if s.context != nil && len(s.context.Layouts) > 0 && !g.ofAnyKeys {
			g.note("the context %s reads the keys of other limiters, and this command works with limitctl's own keys there",
				output.Printable(s.context.Name))
		}
		s.announced = true
	}
	if !g.quiet && s.guard != nil && !s.guardAnnounced { // who is refused is told by the error
		g.note("this is the store of the protected context %s", output.Printable(s.guard.Name))
		s.guardAnnounced = true
	}
	if s.store.origin == byDefault { // an earlier limitctl left it readable
		for _, suffix := range []string{"", "-wal", "-shm", "-lock"} {
			g.env.Keep(strings.TrimPrefix(s.store.value, "file:") + suffix)
		}
	}
	password, err := g.password(s.context)
	return s.store.value, connect.Options{Prefix: s.prefix.value, Timeout: g.timeout, Password: password,
		Layouts: g.layouts, ReadFile: g.env.readCertificate, OwnFile: s.store.origin == byDefault}, err
}
