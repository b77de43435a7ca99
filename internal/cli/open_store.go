package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// Open connects to the chosen store; where names it in messages. The command may write to the store,
// so from now on an interrupt lets it end in order.
func (g *Globals) Open() (store connect.Store, where string, err error) {
	return g.OpenWatched(nil)
}

// OpenWatched is open with [connect.Options.OnBatch].
func (g *Globals) OpenWatched(onBatch func(calls int)) (store connect.Store, where string, err error) {
	return g.open(onBatch, g.OpenedToWrite)
}

// OpenToRead is open for a command that writes nothing, and so may end at any time.
func (g *Globals) OpenToRead() (store connect.Store, where string, err error) {
	return g.open(nil, g.Opened)
}

func (g *Globals) open(onBatch func(calls int), opened func(connect.Store, error) (connect.Store, error)) (
	store connect.Store, where string, err error) {
	url, options, err := g.Connection()
	if err != nil {
		return nil, "", err
	}
	options.OnBatch = onBatch
	store, where, err = connect.Open(url, options)
	store, err = opened(store, err)
	return store, where, err
}

// OpenedToWrite restricts an opened store, which the command may write to, to what the context
// in use allows.
func (g *Globals) OpenedToWrite(store connect.Store, err error) (connect.Store, error) {
	g.Env.Hold()
	return g.Opened(store, err)
}

// Opened restricts an opened store to what the context in use allows.
func (g *Globals) Opened(opened connect.Store, err error) (connect.Store, error) {
	s, settingsErr := g.Settings()
	if settingsErr != nil {
		return nil, settingsErr
	}
	var wrongURL redisserver.URLError
	switch {
	case err != nil && s.Context != nil:
		return nil, fmt.Errorf("context %q: %w", s.Context.Name, err)
	case s.Store.Origin == byVariable && errors.As(err, &wrongURL): // and not the prefix
		return nil, fmt.Errorf("LIMITCTL_STORE: %w", err)
	case err != nil:
		return nil, err
	case s.Context != nil && s.Context.ReadOnly:
		opened = connect.ReadOnly(opened, s.Context.Name)
	}
	return opened, nil
}

// Connection returns the URL of the chosen store, and the options that a URL does not hold.
func (g *Globals) Connection() (url string, options connect.Options, err error) {
	if g.Timeout <= 0 {
		by := "--timeout "
		if !g.Changed("timeout") {
			by = variableOf("timeout") + "="
		}
		return "", options, Usagef("%s%s is not positive; give a duration such as 2s", by, g.Timeout)
	}
	s, err := g.Settings()
	if err != nil {
		return "", options, err
	}
	if !g.Quiet && !s.announced {
		s.announce(g.Env)
		if s.Context != nil && len(s.Context.Layouts) > 0 && !g.OfAnyKeys {
			g.Note("the context %s reads the keys of other limiters, and this command works with limitctl's own keys there",
				output.Printable(s.Context.Name))
		}
		s.announced = true
	}
	if !g.Quiet && s.Guard != nil && !s.guardAnnounced { // a refusal says so itself
		g.Note("this is the store of the protected context %s", output.Printable(s.Guard.Name))
		s.guardAnnounced = true
	}
	if s.Store.Origin == byDefault { // an earlier limitctl left it readable
		for _, suffix := range []string{"", "-wal", "-shm"} {
			g.Env.Keep(strings.TrimPrefix(s.Store.Value, "file:") + suffix)
		}
	}
	password, err := g.password(s.Context)
	return s.Store.Value, connect.Options{Prefix: s.Prefix.Value, Timeout: g.Timeout, Password: password,
		Layouts: g.Layouts, ReadFile: g.Env.ReadCertificate, OwnFile: s.Store.Origin == byDefault}, err
}
